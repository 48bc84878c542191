//! What carries a rank's bytes in the simulated world: channels with their books and logs, and the worker.

use super::{Happening, ProcessId, Who, World};
use crate::scenario::Bug;
use crate::training::{Act, Script, Worker};
use rejoin_protocol::channel::{Due, Incoming, Outgoing, PhaseMark, Receipt, Step};
use rejoin_protocol::error::Error;
use rejoin_protocol::host::{Input, Peer, Start};
use rejoin_protocol::ids::{Checkpoint, Lineage, Phase, Rank, Version};
use rejoin_protocol::wire::{Header, Kind};
use std::collections::{BTreeMap, VecDeque};

/// What goes over a data link.
#[derive(Clone, Debug)]
pub(super) enum Frame {
    Receipt(Receipt),
    Start { phase: Phase, mark: PhaseMark },
    Data { phase: Phase, offset: u64, bytes: Vec<u8> },
    End { phase: Phase, length: u64 },
}

/// Both directions between a rank and one other.
struct Channel {
    outgoing: Outgoing,
    log: BTreeMap<Phase, Vec<u8>>,
    incoming: Incoming,
    /// Arrived and not due yet.
    pending: VecDeque<Frame>,
}

/// One incarnation's worker and channels.
pub(super) struct Seat {
    pub(super) start: Start,
    pub(super) model: u64,
    pub(super) worker: Worker,
    channels: BTreeMap<Rank, Channel>,
    peers: BTreeMap<Rank, Who>,
    pub(super) links: BTreeMap<Rank, u64>,
    computing: bool,
    pub(super) finished: bool,
}

impl Seat {
    pub(super) fn new(script: &Script, rank: Rank, start: Start, model: u64) -> Self {
        let channel = || Channel {
            outgoing: Outgoing::new(start.lineage, start.version),
            log: BTreeMap::new(),
            incoming: Incoming::new(start.lineage, start.version),
            pending: VecDeque::new(),
        };
        Seat {
            channels: (0..script.world).map(Rank).filter(|peer| *peer != rank).map(|peer| (peer, channel())).collect(),
            worker: Worker::new(script, rank),
            start,
            model,
            peers: BTreeMap::new(),
            links: BTreeMap::new(),
            computing: false,
            finished: false,
        }
    }

    pub(super) fn describe(&self) -> String {
        let channels = self.channels.iter().map(|(peer, channel)| {
            format!(
                "to/from {peer}: {:?} {:?} pending {} linked {}",
                channel.outgoing,
                channel.incoming,
                channel.pending.len(),
                self.links.contains_key(peer)
            )
        });
        format!("{} {}", self.worker.phase(), channels.collect::<Vec<_>>().join("; "))
    }

    pub(super) fn wants(&self, peer: Who) -> bool {
        self.peers.get(&peer.0) == Some(&peer)
    }

    /// The living peers changed: the links that have to be cut, and those that have to be made.
    pub(super) fn peers_are(&mut self, peers: &[Peer], bug: Option<Bug>) -> (Vec<u64>, Vec<Who>) {
        let now: BTreeMap<Rank, Who> = peers.iter().map(|peer| (peer.rank, (peer.rank, peer.incarnation))).collect();
        let was = std::mem::replace(&mut self.peers, now);
        let gone = was.iter().filter(|(rank, who)| self.peers.get(rank) != Some(who)).map(|(rank, _)| *rank);
        let gone: Vec<Rank> = gone.collect();
        let mut cut = Vec::new();
        for rank in gone {
            if bug == Some(Bug::NoFencing) {
                if let Some(who) = was.get(&rank) {
                    self.peers.entry(rank).or_insert(*who);
                }
                continue;
            }
            cut.extend(self.links.remove(&rank));
            self.unlinked(rank);
        }
        let made = self.peers.values().filter(|who| was.get(&who.0) != Some(who)).copied().collect();
        (cut, made)
    }

    pub(super) fn unlinked(&mut self, peer: Rank) {
        if let Some(channel) = self.channels.get_mut(&peer) {
            channel.outgoing.unlinked();
            channel.pending.clear();
        }
    }

    pub(super) fn receipt(&self, peer: Rank) -> Receipt {
        self.channels[&peer].incoming.receipt()
    }

    pub(super) fn hold(&mut self, bug: Option<Bug>) -> Version {
        let holds = bug != Some(Bug::NoHolding);
        let oldest = self.channels.values_mut().map(|channel| {
            if holds {
                channel.incoming.hold();
                channel.outgoing.hold()
            } else {
                channel.outgoing.oldest()
            }
        });
        oldest.max().unwrap_or(self.start.version)
    }

    pub(super) fn release(&mut self) {
        for channel in self.channels.values_mut() {
            channel.incoming.release();
            for phase in channel.outgoing.release() {
                channel.log.remove(&phase);
            }
        }
    }

    fn enter(&mut self, phase: Phase, mark: PhaseMark) -> Result<(), Error> {
        for channel in self.channels.values_mut() {
            for dropped in channel.outgoing.enter(phase, mark)? {
                channel.log.remove(&dropped);
            }
            channel.incoming.enter(phase, mark)?;
        }
        Ok(())
    }

    /// What a peer's older incarnation gave to it, or it got, in this phase: bytes that a liar would contradict.
    pub(super) fn knows(&self, peer: Rank, phase: Phase) -> u64 {
        let receipt = self.channels.get(&peer).map(|channel| channel.incoming.receipt());
        let phases = receipt.map(|receipt| receipt.phases).unwrap_or_default();
        phases.into_iter().find(|had| had.phase == phase).map_or(0, |had| had.bytes)
    }
}

impl World {
    /// The rank doesn't repeat itself in the version it starts with.
    pub(super) fn plant(&mut self, seat: &mut Seat, rank: Rank) {
        let phase = Phase::Version(seat.start.version);
        seat.worker.lies_in = Some(phase);
        let others = self.processes.values().filter(|process| process.alive && process.frozen_until.is_none());
        let known = others.flat_map(|process| process.seats.iter()).any(|((other, _), other_seat)| {
            *other != rank && other_seat.start.lineage == seat.start.lineage && other_seat.knows(rank, phase) > 0
        });
        self.lied |= known;
        self.say(|| format!("rank {rank} will not repeat itself in {phase}; somebody can know it: {known}"));
    }

    pub(super) fn enter_boot(&mut self, process: ProcessId, who: Who) {
        self.enter_books(process, who, Phase::Boot, PhaseMark { round: 0, checkpoint: 0 });
    }

    fn enter_books(&mut self, process: ProcessId, who: Who, phase: Phase, mark: PhaseMark) {
        let Some(seat) = self.seat(process, who) else { return };
        if let Err(error) = seat.enter(phase, mark) {
            return self.broken(process, who, error);
        }
        self.after(0, Happening::WorkerGoesOn { process, who });
        let Some(seat) = self.seat(process, who) else { return };
        seat.computing = true;
        let peers: Vec<Rank> = seat.channels.keys().copied().collect();
        for peer in peers {
            self.pump_out(process, who, peer);
            self.pump_in(process, who, peer);
        }
    }

    fn broken(&mut self, process: ProcessId, who: Who, error: Error) {
        self.say(|| format!("{who:?} reports {error}"));
        self.control(process, Input::Broken { rank: who.0, incarnation: who.1, error });
    }

    pub(super) fn worker_goes_on(&mut self, process: ProcessId, who: Who) {
        if let Some(seat) = self.seat(process, who) {
            seat.computing = false;
        }
        self.work(process, who);
    }

    fn work(&mut self, process: ProcessId, who: Who) {
        loop {
            let Some(seat) = self.seat(process, who) else { return };
            if seat.computing || seat.finished {
                return;
            }
            match seat.worker.act() {
                Act::Wait => return,
                Act::Write(all) => {
                    let phase = seat.worker.phase();
                    for (peer, bytes) in all {
                        let Some(channel) = self.seat(process, who).and_then(|seat| seat.channels.get_mut(&peer))
                        else {
                            return;
                        };
                        channel.outgoing.produced(bytes.len() as u64);
                        channel.log.entry(phase).or_default().extend(bytes);
                        self.pump_out(process, who, peer);
                    }
                }
                Act::Compute => {
                    seat.computing = true;
                    let most = self.scenario.compute_millis * self.slow.get(&who.0).copied().unwrap_or(1);
                    let millis = self.rng.u64(0..=most);
                    self.after(millis, Happening::WorkerGoesOn { process, who });
                    return;
                }
                Act::PhaseDone => return self.phase_done(process, who),
            }
        }
    }

    /// The worker takes its checkpoint and enters the next version.
    fn phase_done(&mut self, process: ProcessId, who: Who) {
        let (rank, incarnation) = who;
        let (versions, locals) = (self.scenario.script.versions, self.scenario.locals);
        let Some(seat) = self.seat(process, who) else { return };
        let (version, model) = match seat.worker.phase() {
            Phase::Boot => (seat.start.version, seat.model),
            Phase::Version(v) => (Version(v.0 + 1), seat.worker.model),
        };
        let unread = seat.worker.unread();
        let lineage = seat.start.lineage;
        let checkpoint = checkpoint(lineage, version, model, version.0 == versions);
        let liar = self.scenario.liar;
        let found = self.invariants.entered(who, &checkpoint, model, unread, &self.truth, liar);
        self.violate(found);
        let local = locals.then(|| crate::invariants::replay::local(rank, version));
        let Some(there) = self.processes.get_mut(&process) else { return };
        if version > Version(0) {
            there.store.entry((lineage, version)).or_insert((checkpoint, model));
        }
        // In this order: what the channels drop is known to the control thread before it is gone.
        self.control(process, Input::Entered { rank, incarnation, checkpoint, local });
        if let Some(seat) = self.seat(process, who) {
            seat.worker.enter(version, model);
        }
        let mark = PhaseMark { round: version.0, checkpoint: checkpoint.digest };
        self.enter_books(process, who, Phase::Version(version), mark);
        if version.0 == versions {
            self.finish_rank(process, who, model);
        }
    }

    pub(super) fn finish_rank(&mut self, process: ProcessId, who: Who, model: u64) {
        let rounds = self.scenario.script.versions;
        if let Some(seat) = self.seat(process, who) {
            seat.finished = true;
        }
        let (rank, incarnation) = who;
        self.control(process, Input::Finish { rank, incarnation, rounds, digest: u128::from(model) });
    }

    pub(super) fn link_stands(&mut self, process: ProcessId, who: Who, peer: Rank) {
        if let Some(seat) = self.seat(process, who) {
            seat.unlinked(peer);
        }
    }

    pub(super) fn frame_arrives(&mut self, link: u64, side: usize, frame: Frame) {
        let Some(there) = self.links.get(&link) else { return };
        let ((process, who), (_, peer)) = (there.ends[side], there.ends[1 - side]);
        if there.cut && self.scenario.bug != Some(Bug::NoFencing) {
            return;
        }
        if self.defer(process, || Happening::FrameArrives { link, side, frame: frame.clone() }) {
            return;
        }
        let Some(seat) = self.seat(process, who) else { return };
        if seat.links.get(&peer.0) != Some(&link) {
            return;
        }
        let Some(channel) = seat.channels.get_mut(&peer.0) else { return };
        match frame {
            Frame::Receipt(receipt) => {
                if let Err(error) = channel.outgoing.receipt(&receipt) {
                    return self.broken(process, who, error);
                }
                self.pump_out(process, who, peer.0);
            }
            frame => {
                channel.pending.push_back(frame);
                self.pump_in(process, who, peer.0);
            }
        }
    }

    fn pump_out(&mut self, process: ProcessId, who: Who, peer: Rank) {
        loop {
            let limit = self.rng.u64(1..30_000);
            let bug = self.scenario.bug;
            let Some(seat) = self.seat(process, who) else { return };
            let Some(link) = seat.links.get(&peer).copied() else { return };
            let Some(channel) = seat.channels.get_mut(&peer) else { return };
            let Some(step) = channel.outgoing.next(limit) else { return };
            let bytes = |phase: Phase, from: u64, to: u64| channel.log[&phase][from as usize..to as usize].to_vec();
            let frame = match step {
                Step::Compare { phase, from, to } => {
                    let mut bytes = bytes(phase, from, to);
                    if bug == Some(Bug::NoComparison) {
                        let truth = &self.truth.bytes[&(who.0, peer, phase)];
                        bytes.copy_from_slice(&truth[from as usize..to as usize]);
                    }
                    let Some(channel) = self.seat(process, who).and_then(|seat| seat.channels.get_mut(&peer)) else {
                        return;
                    };
                    if let Err(error) = channel.outgoing.compared(step, &bytes) {
                        return self.broken(process, who, error);
                    }
                    continue;
                }
                Step::Start { phase, mark } => Frame::Start { phase, mark },
                Step::Bytes { phase, from, to } => Frame::Data { phase, offset: from, bytes: bytes(phase, from, to) },
                Step::End { phase, length } => Frame::End { phase, length },
            };
            channel.outgoing.done(step);
            let side = self.links.get(&link).map_or(0, |there| usize::from(there.ends[1].1 == who));
            self.send_frame(link, side, frame);
        }
    }

    fn pump_in(&mut self, process: ProcessId, who: Who, peer: Rank) {
        let mut read = false;
        loop {
            let Some(seat) = self.seat(process, who) else { return };
            let lineage = seat.start.lineage;
            let from = seat.peers.get(&peer).copied();
            let Some(channel) = seat.channels.get_mut(&peer) else { return };
            let Some(frame) = channel.pending.front() else { break };
            let due = channel.incoming.due(&header(frame, lineage));
            match due {
                Ok(Due::Now) => {}
                Ok(Due::Later) => break,
                Err(error) => return self.broken(process, who, error),
            }
            let Some(frame) = channel.pending.pop_front() else { break };
            let taken = match &frame {
                Frame::Receipt(_) => Ok(()),
                Frame::Start { phase, mark } => channel.incoming.started(*phase, *mark),
                Frame::End { phase, length } => channel.incoming.ended(*phase, *length),
                Frame::Data { phase, offset, bytes } => channel.incoming.took(*phase, *offset, bytes),
            };
            if let Err(error) = taken {
                return self.broken(process, who, error);
            }
            if let Frame::Data { phase, offset, bytes } = &frame {
                read = true;
                if let Some(seat) = self.seat(process, who) {
                    seat.worker.read(peer, bytes);
                }
                let seated = self.processes[&process].host.view().and_then(|view| view.alive(peer)).map(|(i, _)| i);
                let liar = self.scenario.liar;
                let found = self.invariants.delivered(
                    (peer, who.0, *phase, *offset),
                    bytes,
                    from.map(|from| from.1),
                    seated,
                    &self.truth,
                    liar,
                );
                self.violate(found);
            }
        }
        if read {
            self.work(process, who);
        }
    }
}

fn checkpoint(lineage: Lineage, version: Version, model: u64, complete: bool) -> Checkpoint {
    let length = if version == Version(0) { 0 } else { 8 };
    let digest = if version == Version(0) { 0 } else { u128::from(model) };
    Checkpoint { lineage, version, owner: None, has_own: false, round: version.0, length, digest, complete }
}

fn header(frame: &Frame, lineage: Lineage) -> Header {
    let (kind, phase, offset) = match frame {
        Frame::Receipt(_) => (Kind::Receipt, Phase::Boot, 0),
        Frame::Start { phase, .. } => (Kind::PhaseStart, *phase, 0),
        Frame::Data { phase, offset, .. } => (Kind::Data, *phase, *offset),
        Frame::End { phase, length } => (Kind::PhaseEnd, *phase, *length),
    };
    Header { length: 0, kind, phase, lineage, offset, digest: 0, attempt: Default::default(), inputs: 0 }
}
