//! Random lives of a channel: whatever breaks or restarts, in whatever order, the receiver's worker
//! gets the true bytes, and a sender that doesn't repeat itself is found.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rejoin_protocol::channel::{Due, Incoming, Outgoing, PhaseMark, PhaseReceipt, Receipt, SenderStep};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Lineage, Phase, Version};
use rejoin_protocol::wire::{Header, Kind};
use std::collections::{BTreeMap, VecDeque};

/// Versions that are trained.
const VERSIONS: u32 = 5;

#[derive(Clone, Copy, Debug)]
enum Act {
    Produce(u16),
    SenderEnters,
    ReceiverEnters,
    Send(u16),
    Deliver,
    Link,
    Unlink,
    SenderRestarts,
    ReceiverRestarts,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (1..40_000u16).prop_map(Act::Produce),
        3 => Just(Act::SenderEnters),
        3 => Just(Act::ReceiverEnters),
        8 => (1..50_000u16).prop_map(Act::Send),
        8 => Just(Act::Deliver),
        3 => Just(Act::Link),
        1 => Just(Act::Unlink),
        1 => Just(Act::SenderRestarts),
        1 => Just(Act::ReceiverRestarts),
    ]
}

enum Frame {
    Start(Phase, PhaseMark),
    Data(Phase, u64, Vec<u8>),
    End(Phase, u64),
}

/// A channel with its two workers, whose bytes are a function of phase and place.
struct Channel {
    outgoing: Outgoing,
    incoming: Incoming,
    log: BTreeMap<Phase, Vec<u8>>,
    delivered: BTreeMap<Phase, Vec<u8>>,
    sender_at: Phase,
    receiver_at: Phase,
    sender_start: Version,
    receiver_start: Version,
    wire: Option<VecDeque<Frame>>,
    lengths: BTreeMap<Phase, u64>,
    /// From here on in this phase the restarted sender says other things.
    planted: Option<(Phase, u64)>,
}

fn truth(phase: Phase, at: u64) -> u8 {
    let seed = match phase {
        Phase::Boot => 17,
        Phase::Version(v) => 101 + u64::from(v.0) * 13,
    };
    ((at.wrapping_mul(2_654_435_761).wrapping_add(seed * 7919)) >> 5) as u8
}

fn mark(phase: Phase) -> PhaseMark {
    match phase {
        Phase::Boot => PhaseMark { round: 0, checkpoint: 0 },
        Phase::Version(v) => PhaseMark { round: v.0, checkpoint: u128::from(v.0) },
    }
}

impl Channel {
    fn new(lengths: BTreeMap<Phase, u64>) -> Self {
        let mut channel = Channel {
            outgoing: Outgoing::new(Lineage(0), Version(0)),
            incoming: Incoming::new(Lineage(0), Version(0)),
            log: BTreeMap::new(),
            delivered: BTreeMap::new(),
            sender_at: Phase::Boot,
            receiver_at: Phase::Boot,
            sender_start: Version(0),
            receiver_start: Version(0),
            wire: None,
            lengths,
            planted: None,
        };
        channel.outgoing.enter(Phase::Boot, mark(Phase::Boot)).unwrap();
        channel.incoming.enter(Phase::Boot, mark(Phase::Boot)).unwrap();
        channel
    }

    fn length(&self, phase: Phase) -> u64 {
        self.lengths.get(&phase).copied().unwrap_or(0)
    }

    fn produced(&self) -> u64 {
        self.log.get(&self.sender_at).map_or(0, |log| log.len() as u64)
    }

    fn act(&mut self, act: Act) -> Result<(), Error> {
        match act {
            Act::Produce(most) => {
                let (phase, from) = (self.sender_at, self.produced());
                let to = self.length(phase).min(from + u64::from(most));
                let planted = self.planted;
                let bytes = (from..to).map(|at| match planted {
                    Some((p, place)) if p == phase && at >= place => truth(phase, at) ^ 0x55,
                    _ => truth(phase, at),
                });
                self.log.entry(phase).or_default().extend(bytes);
                self.outgoing.produced(to - from);
            }
            Act::SenderEnters => {
                let next = next(self.sender_at, self.sender_start);
                // Lock-step: no rank is two versions ahead, and a phase is left when all of it was said.
                let ahead = number(next) > number(self.receiver_at) + 1 && self.sender_at != Phase::Boot;
                if self.produced() == self.length(self.sender_at) && number(next) < i64::from(VERSIONS) && !ahead {
                    for phase in self.outgoing.enter(next, mark(next))? {
                        self.log.remove(&phase);
                    }
                    self.sender_at = next;
                }
            }
            Act::ReceiverEnters => {
                let had = self.delivered.get(&self.receiver_at).map_or(0, |bytes| bytes.len() as u64);
                let next = next(self.receiver_at, self.receiver_start);
                let ahead = number(next) > number(self.sender_at).max(i64::from(self.sender_start.0)) + 1;
                if had == self.length(self.receiver_at) && number(next) < i64::from(VERSIONS) && !ahead {
                    self.incoming.enter(next, mark(next))?;
                    self.receiver_at = next;
                }
            }
            Act::Send(most) => self.send(u64::from(most))?,
            Act::Deliver => self.deliver()?,
            Act::Link => self.link()?,
            Act::Unlink => self.unlink(),
            Act::SenderRestarts => {
                self.unlink();
                self.sender_start = self.restart_at();
                self.log.clear();
                self.sender_at = Phase::Boot;
                self.outgoing = Outgoing::new(Lineage(0), self.sender_start);
                self.outgoing.hold();
                self.incoming.hold();
                self.outgoing.enter(Phase::Boot, mark(Phase::Boot))?;
            }
            Act::ReceiverRestarts => {
                self.unlink();
                self.receiver_start = self.restart_at();
                self.delivered.clear();
                self.receiver_at = Phase::Boot;
                self.incoming = Incoming::new(Lineage(0), self.receiver_start);
                self.incoming.hold();
                self.outgoing.hold();
                self.incoming.enter(Phase::Boot, mark(Phase::Boot))?;
            }
        }
        Ok(())
    }

    /// The plan's rule for two ranks: the lowest position of the other one that can still be served.
    fn restart_at(&self) -> Version {
        let at = |phase: Phase, start: Version| match phase {
            Phase::Boot => start,
            Phase::Version(v) => v,
        };
        at(self.sender_at, self.sender_start).min(at(self.receiver_at, self.receiver_start)).max(self.outgoing.oldest())
    }

    /// What the receiver has of phases that a sender, restarted now, goes through again.
    fn known_again(&self) -> Vec<PhaseReceipt> {
        let start = self.restart_at();
        let again = |had: &PhaseReceipt| had.phase == Phase::Boot || had.phase >= Phase::Version(start);
        self.incoming.receipt().phases.into_iter().filter(|had| had.bytes > 0 && again(had)).collect()
    }

    fn link(&mut self) -> Result<(), Error> {
        if self.wire.is_none() {
            let receipt: Receipt =
                rejoin_protocol::wire::decode(&rejoin_protocol::wire::encode(&self.incoming.receipt()))?;
            self.outgoing.receipt(&receipt)?;
            self.wire = Some(VecDeque::new());
        }
        Ok(())
    }

    fn unlink(&mut self) {
        self.wire = None;
        self.outgoing.unlinked();
    }

    fn send(&mut self, most: u64) -> Result<(), Error> {
        let Some(step) = self.outgoing.next(most) else { return Ok(()) };
        let bytes = |phase: Phase, from: u64, to: u64| self.log[&phase][from as usize..to as usize].to_vec();
        let frame = match step {
            SenderStep::Compare { phase, from, to } => {
                let bytes = bytes(phase, from, to);
                return self.outgoing.compared(step, &bytes);
            }
            SenderStep::Start { phase, mark } => Frame::Start(phase, mark),
            SenderStep::Bytes { phase, from, to } => {
                assert!(from < to && to - from <= most);
                Frame::Data(phase, from, bytes(phase, from, to))
            }
            SenderStep::End { phase, length } => Frame::End(phase, length),
        };
        self.outgoing.done(step);
        self.wire.as_mut().expect("steps come on a link only").push_back(frame);
        Ok(())
    }

    fn deliver(&mut self) -> Result<(), Error> {
        let Some(wire) = self.wire.as_mut() else { return Ok(()) };
        let Some(frame) = wire.front() else { return Ok(()) };
        let (kind, phase, offset) = match frame {
            Frame::Start(phase, _) => (Kind::PhaseStart, *phase, 0),
            Frame::Data(phase, offset, _) => (Kind::Data, *phase, *offset),
            Frame::End(phase, length) => (Kind::PhaseEnd, *phase, *length),
        };
        let header = Header {
            length: 0,
            kind,
            phase,
            lineage: Lineage(0),
            offset,
            digest: 0,
            generation: Default::default(),
            inputs: 0,
        };
        if self.incoming.due(&header)? == Due::Later {
            return Ok(());
        }
        match wire.pop_front().expect("it was looked at") {
            Frame::Start(phase, mark) => self.incoming.started(phase, mark),
            Frame::End(phase, length) => self.incoming.ended(phase, length),
            Frame::Data(phase, offset, bytes) => {
                // In two parts, as a driver does whose worker's socket is full.
                let middle = bytes.len() / 2;
                self.incoming.took(phase, offset, &bytes[..middle])?;
                self.incoming.took(phase, offset + middle as u64, &bytes[middle..])?;
                self.delivered.entry(phase).or_default().extend(&bytes);
                Ok(())
            }
        }
    }

    fn check(&self) {
        for (phase, bytes) in &self.delivered {
            for (at, byte) in bytes.iter().enumerate() {
                assert_eq!(*byte, truth(*phase, at as u64), "{phase} byte {at}");
            }
        }
    }

    /// Faults are over: everything goes on until both are through.
    fn heal(&mut self) -> Result<(), Error> {
        for _ in 0..10_000 {
            for act in [
                Act::Link,
                Act::Produce(u16::MAX),
                Act::Send(u16::MAX),
                Act::Deliver,
                Act::SenderEnters,
                Act::ReceiverEnters,
            ] {
                self.act(act)?;
            }
            let last = Phase::Version(Version(VERSIONS - 1));
            let had = self.delivered.get(&last).map_or(0, |bytes| bytes.len() as u64);
            let through = self.receiver_at == last && self.sender_at == last && had == self.length(last);
            if through && self.outgoing.next(1).is_none() && !self.outgoing.behind() {
                return Ok(());
            }
        }
        panic!("the channel stands still: sender in {}, receiver in {}", self.sender_at, self.receiver_at);
    }
}

fn next(phase: Phase, start: Version) -> Phase {
    phase.next(start)
}

fn number(phase: Phase) -> i64 {
    match phase {
        Phase::Boot => -1,
        Phase::Version(v) => i64::from(v.0),
    }
}

fn lengths() -> impl Strategy<Value = BTreeMap<Phase, u64>> {
    let length = prop_oneof![Just(0u64), 1..300u64, 60_000..140_000u64];
    prop::collection::vec(length, VERSIONS as usize + 1).prop_map(|lengths| {
        let phases = std::iter::once(Phase::Boot).chain((0..VERSIONS).map(|v| Phase::Version(Version(v))));
        phases.zip(lengths).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150, failure_persistence: None, rng_seed: RngSeed::Fixed(20), ..ProptestConfig::default()
    })]

    #[test]
    fn the_receiver_gets_the_true_bytes_whatever_breaks(
        lengths in lengths(), acts in prop::collection::vec(act(), 0..120),
    ) {
        let mut channel = Channel::new(lengths);
        for act in acts {
            channel.act(act).unwrap();
            channel.check();
        }
        channel.heal().unwrap();
        channel.check();
    }

    #[test]
    fn a_sender_that_does_not_repeat_itself_is_found(
        mut lengths in lengths(),
        acts in prop::collection::vec(act(), 0..120),
        (which, place) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
    ) {
        lengths.entry(Phase::Boot).and_modify(|length| *length += 1);
        let mut channel = Channel::new(lengths);
        for act in acts {
            channel.act(act).unwrap();
        }
        // Something that the receiver has, in a phase that the restarted sender goes through again.
        let mut known = channel.known_again();
        while known.is_empty() {
            let all = [Act::Link, Act::Produce(9), Act::Send(9), Act::Deliver, Act::SenderEnters, Act::ReceiverEnters];
            for act in all {
                channel.act(act).unwrap();
            }
            known = channel.known_again();
        }
        let had = which.get(&known);
        channel.planted = Some((had.phase, place.index(had.bytes as usize) as u64));
        channel.act(Act::SenderRestarts).unwrap();
        let error = channel.heal().unwrap_err();
        prop_assert_eq!(error.code, Code::Mismatch);
    }
}
