//! One incarnation of one rank: its program, and frames in place of bytes.

use super::program::{barrier, combine, contribution, mix, VERSIONS};
use super::{Mutant, World};
use crate::Violation;
use rejoin_protocol::collective::frame::{self, Expected, Verdict};
use rejoin_protocol::collective::{Call, Extent, Fetch, Next, Output, Participant, Place, Plan};
use rejoin_protocol::ids::{Generation, Incarnation, Lineage, Rank, Version};
use rejoin_protocol::wire::{Header, Kind};

pub(crate) struct Life {
    rank: usize,
    pub(crate) participant: Participant<u64>,
    model: u64,
    /// What the version has come to so far.
    next_model: u64,
    index: u32,
    in_call: bool,
    under: Option<Under>,
    begun: Option<Generation>,
    /// Frames of these attempts were lost between the two.
    cut: Vec<Option<Generation>>,
    /// Whom it can send to.
    peers: Vec<bool>,
    pub(crate) finished: bool,
}

struct Under {
    attempt: Generation,
    place: Place,
    sent: Vec<bool>,
    taken: Vec<Option<u64>>,
}

const WORLD_LIMIT: usize = 16;

impl Life {
    pub(crate) fn new(rank: usize, incarnation: Incarnation, version: Version, model: u64) -> Self {
        Life {
            rank,
            participant: Participant::new(Rank(rank as u32), incarnation, Lineage(0), version),
            model,
            next_model: mix(model, u64::from(version.0)),
            index: 0,
            in_call: false,
            under: None,
            begun: None,
            cut: vec![None; WORLD_LIMIT],
            peers: vec![false; WORLD_LIMIT],
            finished: version.0 == VERSIONS,
        }
    }

    pub(crate) fn cut_line(&mut self, peer: usize) {
        self.cut[peer] = self.cut[peer].max(self.begun);
    }

    pub(crate) fn hears_view(&mut self, view: Generation, present: &[bool], mutant: Option<Mutant>) -> Vec<Extent> {
        for (peer, present) in present.iter().enumerate() {
            self.peers[peer] &= present;
        }
        match mutant {
            Some(Mutant::NoFreeze) => self.participant.log().extents(),
            _ => self.participant.freeze(view),
        }
    }

    pub(crate) fn hears_plan(&mut self, plan: Plan, all: &[u32]) -> Vec<Fetch> {
        self.peers[..all.len()].fill(true);
        self.participant.plan(plan);
        self.fetches()
    }

    fn fetches(&mut self) -> Vec<Fetch> {
        let outputs = std::iter::from_fn(|| self.participant.poll());
        outputs.filter_map(|output| if let Output::Fetch(fetch) = output { Some(fetch) } else { None }).collect()
    }

    pub(crate) fn describe(&self) -> String {
        format!(
            "version {} call {} attempt {:?} held {:?} finished {}",
            self.participant.version(),
            self.index,
            self.participant.attempt().map(|attempt| attempt.number),
            self.participant.log().extents(),
            self.finished
        )
    }
}

fn violation(promise: &'static str) -> impl Fn(rejoin_protocol::error::Error) -> Violation {
    move |error| Violation::new(promise, error.to_string())
}

impl World {
    /// The rank's own thread goes on as far as it can.
    pub(crate) fn go(&mut self, rank: usize) -> Result<(), Violation> {
        let Some(mut life) = self.lives[rank].take() else { return Ok(()) };
        let went = self.go_with(&mut life);
        self.lives[rank] = Some(life);
        went
    }

    fn go_with(&mut self, life: &mut Life) -> Result<(), Violation> {
        if life.finished {
            return Ok(());
        }
        let version = life.participant.version().0;
        let call = match self.program.call(version, life.index) {
            Some(call) => call.clone(),
            None if life.participant.needs_barrier() || life.in_call => barrier(),
            None => return self.checkpoint(life),
        };
        if !life.in_call {
            life.participant.begin(&call, None).map_err(violation("Identity"))?;
            life.in_call = true;
        }
        let place = life.participant.place();
        match life.participant.proceed().map_err(violation("Identity"))? {
            Next::Replayed(result) => {
                self.tally.replayed += 1;
                self.ended(life, result, "Replay")
            }
            Next::Wait(_) => Ok(()),
            Next::Run(attempt) => {
                let Some(place) = place else { return Ok(()) };
                self.exchange(life, &call, place, attempt)
            }
        }
    }

    fn checkpoint(&mut self, life: &mut Life) -> Result<(), Violation> {
        let next = life.participant.version().0 + 1;
        if life.next_model != self.program.models[next as usize] {
            return Err(Violation::new("Agreement", format!("rank {} has another model {next}", life.rank)));
        }
        if next == VERSIONS {
            life.participant.end().map_err(violation("Identity"))?;
            life.finished = true;
            return Ok(());
        }
        life.participant.enter(Version(next)).map_err(violation("Identity"))?;
        life.model = life.next_model;
        life.next_model = mix(life.model, u64::from(next));
        life.index = 0;
        let kept = life.participant.log().extents().len();
        // Boot, the version that ends, the one that begins.
        if !self.faults && kept > 3 {
            return Err(Violation::new("Bounded", format!("rank {} keeps {} versions", life.rank, kept - 1)));
        }
        Ok(())
    }

    fn ended(&mut self, life: &mut Life, result: u64, promise: &'static str) -> Result<(), Violation> {
        let version = life.participant.version().0;
        let expected = self.program.expected(version, life.index);
        if result != expected {
            let text =
                format!("rank {} got {result:x} for call {} of {version}, not {expected:x}", life.rank, life.index);
            return Err(Violation::new(promise, text));
        }
        if self.program.call(version, life.index).is_some() {
            life.next_model = mix(life.next_model, result);
        }
        life.index += 1;
        life.in_call = false;
        life.under = None;
        while life.participant.poll().is_some() {}
        Ok(())
    }

    fn exchange(&mut self, life: &mut Life, call: &Call, place: Place, attempt: Generation) -> Result<(), Violation> {
        let world = self.program.world;
        let own = contribution(life.rank, life.model, life.participant.version().0, life.index);
        if life.under.as_ref().is_none_or(|under| (under.attempt, under.place) != (attempt, place)) {
            life.begun = Some(attempt);
            let mut taken = vec![None; world];
            taken[life.rank] = Some(own);
            life.under = Some(Under { attempt, place, sent: vec![false; world], taken });
        }
        let Some(under) = life.under.as_mut() else { return Ok(()) };
        let digest = call.digest(None);
        let gives = call.root.is_none_or(|root| root.0 as usize == life.rank);
        let wants = |peer: usize| peer != life.rank && call.root.is_none_or(|root| root.0 as usize == peer);
        for peer in (0..world).filter(|peer| *peer != life.rank) {
            let usable = life.cut[peer] < Some(attempt) && life.peers[peer];
            if gives && !under.sent[peer] && usable {
                under.sent[peer] = true;
                let header = Header {
                    kind: Kind::Collective,
                    phase: place.phase,
                    lineage: place.lineage,
                    offset: frame::offset(place.seqno, 0),
                    digest,
                    attempt,
                    ..Header::control(0)
                };
                if self.lives[peer].is_some() {
                    self.wires.entry((life.rank, peer)).or_default().push_back((header, own));
                }
            }
            let expected = Expected { attempt, place, digest };
            while wants(peer) && under.taken[peer].is_none() && life.cut[peer] < Some(attempt) {
                let Some(inbox) = self.inboxes.get_mut(&(peer, life.rank)) else { break };
                let Some((header, value)) = inbox.front().copied() else { break };
                let old = self.mutant == Some(Mutant::OldAttempts) && frame::place(&header) == place;
                match frame::judge(&header, &expected) {
                    Verdict::Mine => under.taken[peer] = Some(value),
                    Verdict::Outdated if old => under.taken[peer] = Some(value),
                    Verdict::Outdated => {}
                    Verdict::Early => break,
                    Verdict::Mismatch(theirs) => {
                        let text = format!("rank {} at {place} saw rank {peer} at {theirs}", life.rank);
                        return Err(Violation::new("Identity", text));
                    }
                }
                inbox.pop_front();
            }
        }
        let all_sent = !gives || (0..world).all(|peer| peer == life.rank || under.sent[peer]);
        let all_taken = (0..world).all(|peer| !wants(peer) || under.taken[peer].is_some());
        if !all_sent || !all_taken {
            return Ok(());
        }
        let given: Vec<u64> = under.taken.iter().map(|value| value.unwrap_or_default()).collect();
        let result = combine(call, &given);
        if life.participant.finish(attempt, result) {
            self.tally.run += 1;
            return self.ended(life, result, "Agreement");
        }
        Ok(())
    }
}
