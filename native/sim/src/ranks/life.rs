//! One incarnation of one rank: its program, and frames in place of bytes.

use super::by_hosts::ByHosts;
use super::frame::Frame;
use super::memory::{Looked, Memory, Sharing};
use super::program::{barrier, combine, mix, Program, Step};
use super::{Defect, Job, Output};
use crate::invariants::{agreement, replay};
use crate::Violation;
use rejoin_protocol::collective::frame::{self, Expected, Verdict};
use rejoin_protocol::collective::sharing;
use rejoin_protocol::collective::{self, BootKey, Call, Entry, Extent, Fetch, Next, Operation, Participant, Place};
use rejoin_protocol::error::Error;
use rejoin_protocol::host::Start;
use rejoin_protocol::ids::{Checkpoint, Generation, Incarnation, Lineage, Millis, Phase, Rank, Version};

/// What came of a step.
pub(super) enum Came {
    /// Nothing that anybody else has to know.
    Nothing,
    /// The version is done; its model is this.
    Checkpoint(Version, u64),
    /// The rank is done.
    Finish(u64),
    /// Calls of ranks can't be paired.
    Mismatch(Error),
    /// The tracker has to know that this rank's memory can't be opened, which this attempt needs.
    CannotShare(Rank, Generation),
}

/// Under which attempt a call is being run, and how far it is.
#[derive(Clone, Debug)]
struct Under {
    attempt: Generation,
    place: Place,
    sent: Vec<bool>,
    taken: Vec<Option<u64>>,
    /// In place of the two: what others give comes by way of their hosts.
    by_hosts: Option<Box<ByHosts>>,
}

impl Under {
    fn takes(&mut self, peer: usize, frame: &Frame) {
        match &mut self.by_hosts {
            Some(by_hosts) => by_hosts.takes(peer, &frame.bytes),
            None => self.taken[peer] = Some(frame.value),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) rank: Rank,
    pub(super) incarnation: Incarnation,
    pub(super) lineage: Lineage,
    pub(super) participant: Participant<u64>,
    /// The process of each other rank that is linked with.
    pub(super) peers: Vec<Option<u32>>,
    pub(super) incarnations: Vec<Incarnation>,
    /// The model that begins the present version.
    model: u64,
    next_model: u64,
    boot_model: u64,
    boot: u32,
    index: u32,
    call: Option<Call>,
    under: Option<Under>,
    /// Its part in the memory that ranks of its host share.
    sharing: Option<Sharing>,
    /// The call that it has looked for there, under which attempt.
    looked: Option<(Generation, Place)>,
    /// Frames of these attempts were lost between the two.
    cut: Vec<Option<Generation>>,
    pub(super) finished: bool,
    /// A call has failed: no other one is made.
    pub(super) failed: bool,
    /// What it starts with, and whether that was entered.
    pub(super) first: Checkpoint,
    pub(super) entered: bool,
}

impl Life {
    pub(super) fn new(rank: Rank, start: &Start, program: &Program, sharing: Option<Sharing>) -> Self {
        let world = program.world as usize;
        let (lineage, version) = (start.lineage, start.version);
        let nothing = Checkpoint {
            lineage,
            version,
            owner: None,
            has_own: false,
            round: 0,
            length: 0,
            digest: 0,
            complete: false,
        };
        let model = start.checkpoint.map_or(1, |checkpoint| checkpoint.digest as u64);
        Life {
            rank,
            incarnation: start.incarnation,
            lineage: start.lineage,
            participant: Participant::new(rank, start.incarnation, start.lineage, start.version),
            peers: vec![None; world],
            incarnations: vec![Incarnation(0); world],
            model,
            next_model: mix(model, u64::from(start.version.0)),
            boot_model: 1,
            boot: 0,
            index: 0,
            call: None,
            under: None,
            sharing,
            looked: None,
            cut: vec![None; world],
            finished: false,
            failed: false,
            first: start.checkpoint.unwrap_or(nothing),
            entered: false,
        }
    }

    pub(super) fn freeze(&mut self, view: Generation, defect: Option<Defect>) -> Vec<Extent> {
        match defect {
            Some(Defect::NoFreeze) => self.participant.log().extents(),
            _ => {
                let extents = self.participant.freeze(view);
                if self.participant.is_frozen() {
                    // Nothing comes of it any more: the plan brings a new attempt.
                    self.under = None;
                }
                extents
            }
        }
    }

    /// Between two calls, and with something left to do.
    pub(super) fn is_idle(&self) -> bool {
        self.call.is_none() && !self.finished && !self.failed
    }

    pub(super) fn cut(&mut self, peer: Rank) -> Option<Generation> {
        let attempt = self.participant.attempt();
        let cut = &mut self.cut[peer.0 as usize];
        *cut = (*cut).max(attempt);
        attempt
    }

    /// The peers between whom and this rank frames of the present attempt were lost.
    pub(super) fn cut_now(&self) -> impl Iterator<Item = (Rank, Generation)> + '_ {
        let attempt = self.participant.attempt();
        let all = (0u32..).zip(&self.cut).filter(move |(_, cut)| cut.is_some() && **cut == attempt);
        all.filter_map(|(peer, cut)| Some((Rank(peer), (*cut)?)))
    }

    /// Takes the next step of its program.
    pub(super) fn go(&mut self, job: &Job, out: &mut Vec<Output>) -> Came {
        if !self.is_idle() {
            return Came::Nothing;
        }
        let program = &job.program;
        let version = self.participant.version();
        let (call, key) = match program.step(self.rank, self.boot, version, self.index) {
            Step::Call(call, key) => (call, key),
            Step::Checkpoint if self.participant.needs_barrier() => (barrier(), None),
            Step::Checkpoint => {
                let next = Version(version.0 + 1);
                let model = self.next_model;
                check_model(self.rank, program, next, model, out);
                return match self.participant.enter(next) {
                    Ok(()) => {
                        self.model = model;
                        self.next_model = mix(model, u64::from(next.0));
                        self.index = 0;
                        Came::Checkpoint(next, model)
                    }
                    Err(error) => self.mismatch(error),
                };
            }
            Step::Finish => {
                if let Err(error) = self.participant.end() {
                    return self.mismatch(error);
                }
                self.finished = true;
                check_model(self.rank, program, Version(program.versions()), self.next_model, out);
                self.say_goodbye(out);
                return Came::Finish(self.next_model);
            }
        };
        let key = key.map(|key| match job.defect {
            Some(Defect::NoOccurrence) => BootKey { occurrence: 0, ..key },
            _ => key,
        });
        match self.participant.begin(&call, key) {
            Ok(_) => {
                self.give(&call, job);
                self.call = Some(call);
            }
            Err(error) => return self.mismatch(error),
        }
        self.advance(job, out)
    }

    /// Promises to give the same whenever it makes the call that begins.
    fn give(&mut self, call: &Call, job: &Job) {
        let (program, version) = (&job.program, self.participant.version());
        if !program.promises {
            return;
        }
        let boot = matches!(program.step(self.rank, self.boot, version, self.index), Step::Call(_, Some(_)));
        let index = if boot { self.boot } else { self.index };
        let gives = call.operation != Operation::Barrier && call.root.is_none_or(|root| root == self.rank);
        let mut own = if gives { program.given(self.rank, boot, version, index) } else { 0 };
        if job.defect == Some(Defect::Forgets) {
            own ^= u64::from(self.incarnation.0);
        }
        let digest = mix(self.participant.before(), own);
        self.participant.gives(digest, 8, None);
    }

    /// Whether this attempt's collectives go through shared memory.
    fn shares(&self, attempt: Generation, defect: Option<Defect>) -> bool {
        let is_shut_out = self.sharing.as_ref().is_some_and(|sharing| sharing.is_shut_out(attempt));
        let has_boards = self.participant.attempt() == Some(attempt) && self.participant.boards().is_some();
        has_boards && !(is_shut_out && defect == Some(Defect::OwnWay))
    }

    /// Whether a call is under way for which the shared memory has to be looked at the first time.
    pub(super) fn has_to_look(&self) -> bool {
        let now = self.participant.attempt().zip(self.participant.place());
        self.call.is_some() && self.participant.boards().is_some() && now.is_some() && now != self.looked
    }

    /// Whether a board couldn't be opened that the present attempt needs.
    pub(super) fn is_shut_out(&self) -> bool {
        let attempt = self.participant.attempt().filter(|_| self.participant.boards().is_some());
        attempt.zip(self.sharing.as_ref()).is_some_and(|(attempt, sharing)| sharing.is_shut_out(attempt))
    }

    /// The call that is under way goes on through shared memory, as far as it can now.
    pub(super) fn look(&mut self, memory: &mut Memory, now: Millis, job: &Job, out: &mut Vec<Output>) -> Came {
        self.looked = self.participant.attempt().zip(self.participant.place());
        match self.advance(job, out) {
            Came::Nothing => {}
            came => return came,
        }
        let Some(call) = self.call.clone() else { return Came::Nothing };
        let Ok(Next::Run(attempt)) = self.participant.proceed() else { return Came::Nothing };
        let Some(place) = self.participant.place().filter(|_| self.shares(attempt, job.defect)) else {
            return Came::Nothing;
        };
        self.looked = Some((attempt, place));
        let (Some(boards), Some(sharing)) = (self.participant.boards(), self.sharing.as_mut()) else {
            return Came::Nothing;
        };
        let boot = place.phase == Phase::Boot;
        let index = if boot { place.seqno } else { self.index };
        let own = job.program.given(self.rank, boot, self.participant.version(), index);
        let digest = self.participant.signature(&place).map_or(0, |signature| signature.digest);
        let expected = Expected { attempt, place, digest, inputs: self.participant.shown() };
        match sharing.look(boards, &call, &expected, (self.rank, own), now, memory) {
            Looked::Waits | Looked::Closed(_, false) => Came::Nothing,
            Looked::Closed(peer, true) => Came::CannotShare(peer, attempt),
            Looked::Done(result, heard) => {
                if self.participant.finish(attempt, result) {
                    for (peer, inputs) in heard {
                        self.participant.hears(peer, self.incarnations[peer.0 as usize], &place, inputs);
                    }
                    self.ended(result, false, job, out);
                }
                Came::Nothing
            }
            Looked::Mismatch(peer, theirs) => self.mismatch(unlike(self.rank, place, peer, theirs)),
        }
    }

    /// The call that is under way goes on as far as it can.
    pub(super) fn advance(&mut self, job: &Job, out: &mut Vec<Output>) -> Came {
        let Some(call) = self.call.clone() else { return Came::Nothing };
        let program = &job.program;
        let next = match self.participant.proceed() {
            Ok(next) => next,
            Err(error) => return self.mismatch(error),
        };
        let attempt = match next {
            Next::Wait(_) => return Came::Nothing,
            Next::Replayed(result) => {
                self.ended(result, true, job, out);
                return Came::Nothing;
            }
            Next::Run(attempt) => attempt,
        };
        if self.shares(attempt, job.defect) {
            // That is for [`Life::look`].
            self.under = None;
            return Came::Nothing;
        }
        let Some(place) = self.participant.place() else { return Came::Nothing };
        let world = self.peers.len();
        let me = self.rank.0 as usize;
        let boot = place.phase == Phase::Boot;
        let own =
            program.given(self.rank, boot, self.participant.version(), if boot { place.seqno } else { self.index });
        if self.under.as_ref().is_none_or(|under| (under.attempt, under.place) != (attempt, place)) {
            let mut taken = vec![None; world];
            taken[me] = Some(own);
            let is_sum = call.operation != Operation::Barrier && call.root.is_none();
            let by_hosts = (program.by_hosts && is_sum).then(|| ByHosts::new(me, self.participant.hosts(), own));
            let by_hosts = by_hosts.flatten().map(Box::new);
            self.under = Some(Under { attempt, place, sent: vec![false; world], taken, by_hosts });
        }
        let digest = self.participant.signature(&place).map_or(0, |signature| signature.digest);
        let (gives, inputs) = (call.root.is_none_or(|root| root == self.rank), self.participant.shown());
        let Some(under) = self.under.as_mut() else { return Came::Nothing };
        if let Some(by_hosts) = &mut under.by_hosts {
            for peer in 0..world {
                let Some(to) = self.peers[peer].filter(|_| self.cut[peer] < Some(attempt)) else { continue };
                out.extend(by_hosts.gives(peer).into_iter().map(|bytes| {
                    let frame = Frame::new(place, digest, attempt, 0, inputs).with(bytes);
                    Output::Frame { to, frame }
                }));
            }
            if let Some(given) = by_hosts.given() {
                self.finish(attempt, combine(&call, &given), job, out);
            }
            return Came::Nothing;
        }
        for peer in (0..world).filter(|peer| *peer != me && gives) {
            if let (Some(to), true, false) = (self.peers[peer], self.cut[peer] < Some(attempt), under.sent[peer]) {
                under.sent[peer] = true;
                out.push(Output::Frame { to, frame: Frame::new(place, digest, attempt, own, inputs) });
            }
        }
        let wants = |peer: usize| peer != me && call.root.is_none_or(|root| root.0 as usize == peer);
        let lacking = (0..world).filter(|peer| wants(*peer) && under.taken[*peer].is_none()).count();
        let enough = usize::from(job.defect == Some(Defect::UnfinishedIsFinal));
        let is_vacant = |peer: usize| self.participant.vacant().contains(&Rank(peer as u32));
        let all_sent = !gives || (0..world).all(|peer| peer == me || under.sent[peer] || is_vacant(peer));
        if lacking > enough || !all_sent {
            return Came::Nothing;
        }
        let given: Vec<u64> = under.taken.iter().map(|value| value.unwrap_or_default()).collect();
        self.finish(attempt, combine(&call, &given), job, out);
        Came::Nothing
    }

    fn finish(&mut self, attempt: Generation, result: u64, job: &Job, out: &mut Vec<Output>) {
        if self.participant.finish(attempt, result) {
            self.ended(result, false, job, out);
        }
    }

    /// Looks at the first frame of a link: whether it was taken, or stays where it is.
    pub(super) fn reads(&mut self, from: Rank, frame: &Frame, job: &Job) -> Result<bool, Error> {
        let Some(under) = self.under.as_mut() else { return Ok(false) };
        let peer = from.0 as usize;
        let Some(call) = &self.call else { return Ok(false) };
        let wanted = match &under.by_hosts {
            Some(by_hosts) => by_hosts.wants(peer),
            None => call.root.is_none_or(|root| root == from) && under.taken[peer].is_none(),
        };
        let runs = self.participant.attempt() == Some(under.attempt);
        if !wanted || !runs || self.cut[peer] >= Some(under.attempt) {
            return Ok(false);
        }
        let Some(signature) = self.participant.signature(&under.place) else { return Ok(false) };
        let expected = Expected { attempt: under.attempt, place: under.place, digest: signature.digest, inputs: 0 };
        let header = frame.header();
        let same_place = job.defect == Some(Defect::OldAttempts) && frame::place(&header) == under.place;
        match frame::judge(&header, &expected) {
            Verdict::Mine => {
                under.takes(peer, frame);
                self.participant.hears(from, self.incarnations[peer], &under.place, header.inputs);
            }
            Verdict::Outdated if same_place => under.takes(peer, frame),
            Verdict::Outdated => {}
            Verdict::Early => return Ok(false),
            Verdict::Mismatch(theirs) => {
                let error = unlike(self.rank, under.place, from, theirs);
                self.mismatch(error.clone());
                return Err(error);
            }
        }
        Ok(true)
    }

    /// A result that was asked for.
    pub(super) fn fetched(&mut self, fetch: &Fetch, seqno: u32, entry: &Entry<u64>, job: &Job, out: &mut Vec<Output>) {
        let attempt = match job.defect {
            Some(Defect::LateResults) => self.participant.attempt().unwrap_or_default(),
            _ => fetch.generation,
        };
        if let Err(error) = self.participant.fetched(attempt, fetch.phase, seqno, entry.clone()) {
            out.push(Output::Violated(Violation::new("Replay", error.to_string())));
        }
    }

    pub(super) fn fetches(&mut self) -> Vec<Fetch> {
        let outputs = std::iter::from_fn(|| self.participant.poll());
        outputs
            .filter_map(|output| if let collective::Output::Fetch(fetch) = output { Some(fetch) } else { None })
            .collect()
    }

    /// What it holds of others' wishes.
    pub(super) fn entry(&self, lineage: Lineage, phase: Phase, seqno: u32, job: &Job) -> Option<Entry<u64>> {
        let is_previous = phase != Phase::Boot && phase != Phase::Version(self.participant.version());
        if lineage != self.lineage || (is_previous && job.defect == Some(Defect::NothingOfThePrevious)) {
            return None;
        }
        self.participant.log().entry(phase, seqno).cloned()
    }

    fn mismatch(&mut self, error: Error) -> Came {
        self.failed = true;
        self.call = None;
        self.under = None;
        self.participant.give_up();
        Came::Mismatch(error)
    }

    /// Who waits for a call that this rank never makes is told so by a frame of a place that no call has.
    fn say_goodbye(&mut self, out: &mut Vec<Output>) {
        let Some(attempt) = self.participant.attempt() else { return };
        let phase = Phase::Version(Version(self.participant.version().0 + 1));
        let place = Place { lineage: self.lineage, phase, seqno: 0 };
        for (peer, to) in self.peers.iter().enumerate() {
            if let (Some(to), true) = (*to, self.cut[peer] < Some(attempt)) {
                out.push(Output::Frame { to, frame: Frame::new(place, 0, attempt, 0, 0) });
            }
        }
        if let Some(sharing) = &self.sharing {
            let words = sharing::identity(&Expected { attempt, place, digest: 0, inputs: 0 });
            out.push(Output::LastWords { board: sharing.board(), words });
        }
    }

    fn ended(&mut self, result: u64, replayed: bool, job: &Job, out: &mut Vec<Output>) {
        let program = &job.program;
        let (call, _) = (self.call.take(), self.under.take());
        let version = self.participant.version();
        let boot = matches!(program.step(self.rank, self.boot, version, self.index), Step::Call(_, Some(_)));
        let index = if boot { self.boot } else { self.index };
        let expected = program.expected(boot, version, index);
        let who = || {
            let what = call.as_ref().map(|call| call.to_string()).unwrap_or_default();
            let phase = if boot { Phase::Boot } else { Phase::Version(version) };
            format!("rank {} incarnation {}, {what}, call {index} of {phase}", self.rank, self.incarnation)
        };
        let found =
            if replayed { replay::result(result, expected, who) } else { agreement::result(result, expected, who) };
        out.extend(found.err().map(Output::Violated));
        if boot {
            self.boot_model = mix(self.boot_model, result);
            self.boot += 1;
        } else {
            if program.counts(version, index) {
                self.next_model = mix(self.next_model, result);
            }
            self.index += 1;
        }
        if version == Version(0) && self.index == 0 {
            self.model = self.boot_model;
            self.next_model = mix(self.model, 0);
        }
        out.push(if replayed { Output::Replayed } else { Output::Computed });
    }

    pub(super) fn describe(&self) -> String {
        let attempt = self.participant.attempt();
        format!(
            "version {} call {} boot {} in call {} attempt {attempt:?} held {:?} peers {:?} under {:?} finished {}",
            self.participant.version(),
            self.index,
            self.boot,
            self.call.is_some(),
            self.participant.log().extents(),
            self.peers,
            self.under,
            self.finished
        )
    }
}

/// Two calls that can't be paired.
fn unlike(rank: Rank, place: Place, other: Rank, theirs: Place) -> Error {
    let text = format!("rank {rank} at {place} saw rank {other} at {theirs}");
    Error::new(rejoin_protocol::error::Code::Mismatch, text)
}

fn check_model(rank: Rank, program: &Program, version: Version, model: u64, out: &mut Vec<Output>) {
    let found = agreement::model(rank, version, model, program.model(version));
    out.extend(found.err().map(Output::Violated));
}
