//! The state machine of one rank's collectives.

use super::call::{BootKey, Call, Signature};
use super::inputs::InputDigests;
use super::log::{Entry, ReplayLog};
use super::plan::RankPlan;
use super::status::{Extent, ObservedInput, SegmentAddress};
use super::CollectiveId;
use crate::error::{Code, Error};
use crate::ids::{Generation, Incarnation, Lineage, Phase, Rank, Version};
use crate::view::AgentAddress;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// What a call has to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<R> {
    /// The collective was finished before: this is its result. The call is over.
    Replayed(R),
    /// Run it, with frames of this generation, and hand its result to [`Participant::finish`]. Ask
    /// again when something has changed: the generation may be over.
    Run(Generation),
    /// Nothing can be done before something changes; why, in words.
    Wait(String),
}

/// What the driver of this struct has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParticipantOutput<R> {
    /// Bring these results, in order, by [`Participant::fetched`]. A newer plan makes it void.
    Fetch(Fetch),
    /// Something has changed for a call that is under way: ask [`Participant::proceed`] again.
    Changed,
    /// No rank needs this result any more: its memory can be used again.
    Dropped(R),
}

/// Results of one phase that others have and this rank lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Under which plan.
    pub generation: Generation,
    /// The lineage that is trained.
    pub lineage: Lineage,
    /// Boot, or the version whose collective it is.
    pub phase: Phase,
    /// The first that is lacking.
    pub from: u32,
    /// The first that isn't wanted any more.
    pub to: u32,
    /// Which agents have how many of that phase, the nearest first.
    pub holders: Vec<(AgentAddress, u32)>,
}

/// The call that is under way.
#[derive(Clone, Debug)]
struct Current {
    collective_id: CollectiveId,
    signature: Signature,
    key: Option<BootKey>,
    depends_on_all: bool,
    /// What the caller has given, which promises to repeat itself.
    given: Option<PromisedInput>,
}

#[derive(Clone, Copy, Debug)]
struct PromisedInput {
    own_digest: u64,
    round: Option<u32>,
}

/// One rank's collectives, in one incarnation.
///
/// - The rank's own thread: [`Participant::begin`] a call, [`Participant::add_own`] if the caller
///   promises to repeat itself, then [`Participant::proceed`] until it is replayed or has to be
///   run; then [`Participant::finish`]. [`Participant::enter`] ends a version.
/// - What is reported to it: [`Participant::pause`] (a view came), [`Participant::plan`], [`Participant::fetched`],
///   [`Participant::release`], [`Participant::observe`].
/// - After each of them: [`Participant::poll`] until `None`.
#[derive(Clone, Debug)]
pub struct Participant<R> {
    rank: Rank,
    incarnation: Incarnation,
    lineage: Lineage,
    version: Version,
    seqno: u32,
    log: ReplayLog<R>,
    current: Option<Current>,
    inputs: InputDigests,
    /// The newest view that was answered.
    view: Generation,
    plan: Option<RankPlan>,
    /// A view was answered and its plan isn't here: nothing is finished.
    paused: bool,
    /// A rank is missing or behind: nothing is dropped.
    holding: bool,
    /// A collective of this version that depends on all was finished: all have entered it, and
    /// none will start below it.
    stable: bool,
    outputs: VecDeque<ParticipantOutput<R>>,
}

impl<R: Clone> Participant<R> {
    /// A rank that starts at this version. It runs nothing before its plan comes.
    pub fn new(rank: Rank, incarnation: Incarnation, lineage: Lineage, version: Version) -> Self {
        let mut log = ReplayLog::default();
        log.open(Phase::Boot);
        log.open(Phase::Version(version));
        Participant {
            rank,
            incarnation,
            lineage,
            version,
            seqno: 0,
            log,
            current: None,
            inputs: InputDigests::new(rank, incarnation),
            view: Generation::default(),
            plan: None,
            paused: true,
            holding: true,
            stable: false,
            outputs: VecDeque::new(),
        }
    }

    /// The version that it is in.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The next collective of the version.
    pub fn seqno(&self) -> u32 {
        self.seqno
    }

    /// Its results.
    pub fn log(&self) -> &ReplayLog<R> {
        &self.log
    }

    /// One of its results, to be kept in another way: it has to stay the same result.
    pub fn result_mut(&mut self, phase: Phase, seqno: u32) -> Option<&mut R> {
        self.log.result_mut(phase, seqno)
    }

    /// The id of the call that is under way.
    pub fn collective_id(&self) -> Option<CollectiveId> {
        self.current.as_ref().map(|current| current.collective_id)
    }

    /// The newest plan's generation.
    pub fn generation(&self) -> Option<Generation> {
        self.plan.as_ref().map(|plan| plan.generation)
    }

    /// Whether a view was answered whose plan isn't here: nothing is finished any more under the
    /// generation that there was.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// The segments of all ranks, if the newest plan's collectives go through shared memory.
    pub fn segments(&self) -> Option<&[SegmentAddress]> {
        self.plan.as_ref().and_then(|plan| plan.segments.as_deref())
    }

    /// The number of each rank's host in the newest plan ([`RankPlan::hosts`]).
    pub fn hosts(&self) -> &[usize] {
        self.plan.as_ref().map_or(&[], |plan| &plan.hosts)
    }

    /// Ranks without a member under the newest plan, so that nothing has to be sent to them.
    pub fn vacant(&self) -> &[Rank] {
        self.plan.as_ref().map_or(&[], |plan| &plan.vacant)
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<ParticipantOutput<R>> {
        self.outputs.pop_front()
    }

    /// A call begins: the next one of the version, or a boot collective under a key. A call that was begun and neither
    /// finished nor replayed is given up.
    ///
    /// # Errors
    /// `Mismatch` when another call was made here before, by an older incarnation or by other
    /// ranks, or when others have ended the version already. The rank's position stays.
    pub fn begin(&mut self, call: &Call, key: Option<BootKey>) -> Result<CollectiveId, Error> {
        let signature = call.signature(key.as_ref());
        let (phase, seqno) = match &key {
            None => (Phase::Version(self.version), self.seqno),
            Some(key) => match self.log.boot(key) {
                Some((seqno, _)) => (Phase::Boot, seqno),
                None => (Phase::Boot, self.log.finished(Phase::Boot)),
            },
        };
        let collective_id = CollectiveId { lineage: self.lineage, phase, seqno };
        self.check(collective_id, &signature)?;
        let depends_on_all = call.depends_on_all();
        self.current = Some(Current { collective_id, signature, key, depends_on_all, given: None });
        Ok(collective_id)
    }

    /// What the input of the call that is under way is to be hashed with, by a caller that promises to repeat itself
    /// ([`InputDigests::before`]).
    pub fn before(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| self.inputs.before(current.collective_id.phase))
    }

    /// The caller of the call that is under way promises that every incarnation gives the same, and
    /// gives so many bytes with this digest, which depends on [`Participant::before`]. Once in
    /// every call of the phase, before [`Participant::proceed`]. `round` is the first one of the
    /// version, for errors.
    pub fn add_own(&mut self, digest: u64, bytes: u64, round: Option<u32>) {
        if let Some(current) = &mut self.current {
            let own_digest = self.inputs.add_own(current.collective_id.phase, digest, bytes);
            current.given = Some(PromisedInput { own_digest, round });
        }
    }

    /// What the others are shown of all that this rank has given to the phase of the call under
    /// way; 0 if nothing is promised.
    pub fn own_digest(&self) -> u64 {
        self.current.as_ref().and_then(|current| current.given).map_or(0, |given| given.own_digest)
    }

    /// Another rank shows this in the call of this id ([`InputDigests::observe`]).
    pub fn observe(&mut self, rank: Rank, incarnation: Incarnation, collective_id: &CollectiveId, digest: u64) {
        self.inputs.observe(rank, incarnation, collective_id, digest);
    }

    /// What it has heard of the others, for the status report.
    pub fn observed(&self) -> Vec<ObservedInput> {
        self.inputs.observed()
    }

    /// What the call that is under way has to do now. [`Next::Replayed`] is given once and ends it.
    ///
    /// # Errors
    /// `Mismatch` as in [`Participant::begin`], when it showed only now, and when this rank doesn't
    /// repeat itself: others have heard of an older incarnation that it gave something else.
    /// `BadState` when no call is under way.
    pub fn proceed(&mut self) -> Result<Next<R>, Error> {
        let Some(current) = self.current.clone() else {
            return Err(Error::new(Code::BadState, format!("rank {} has no call under way", self.rank)));
        };
        let mut collective_id = current.collective_id;
        if let (Some(key), true) = (&current.key, collective_id.phase == Phase::Boot) {
            // Results that were fetched meanwhile may hold this one, or come before it.
            collective_id.seqno = self.log.boot(key).map_or(self.log.finished(Phase::Boot), |(seqno, _)| seqno);
            if let Some(current) = self.current.as_mut() {
                current.collective_id = collective_id;
            }
        }
        self.check(collective_id, &current.signature)?;
        if let (Some(PromisedInput { round, .. }), Some(observation)) =
            (current.given, self.inputs.contradicted(&collective_id))
        {
            return Err(self.inputs.error(&collective_id, &current.signature, observation, round));
        }
        if let Some(entry) = self.log.entry(collective_id.phase, collective_id.seqno) {
            let result = entry.result.clone();
            self.over(collective_id, current.depends_on_all);
            return Ok(Next::Replayed(result));
        }
        let Some(plan) = self.plan.as_ref().filter(|_| !self.paused) else {
            return Ok(Next::Wait(format!("the plan of generation {} isn't made yet", self.view)));
        };
        match plan.phase(collective_id.phase) {
            Some(known) if known.finished > self.log.finished(collective_id.phase) => Ok(Next::Wait(format!(
                "results {} to {} of {} are being fetched from {} agents",
                self.log.finished(collective_id.phase),
                known.finished,
                collective_id.phase,
                known.holders.len()
            ))),
            _ => Ok(Next::Run(plan.generation)),
        }
    }

    /// The call that is under way has its whole result, under this generation. False when the
    /// generation is over: nothing has changed, ask [`Participant::proceed`] again.
    pub fn finish(&mut self, generation: Generation, result: R) -> bool {
        if self.paused || self.generation() != Some(generation) {
            return false;
        }
        let Some(Current { collective_id, signature, key, depends_on_all, .. }) = self.current.take() else {
            return false;
        };
        let entry = Entry { signature, key, result };
        if self.log.push(collective_id.phase, collective_id.seqno, entry).is_err() {
            return false;
        }
        self.over(collective_id, depends_on_all);
        true
    }

    /// Gives up the call that is under way, after an error.
    pub fn give_up(&mut self) {
        self.current = None;
    }

    /// Whether no collective of this version has proven that all ranks have entered it. Then it may
    /// not be ended before a barrier was run: otherwise a third version would have to be kept. It
    /// depends on the calls alone, so that all ranks, and all incarnations of a rank, do the same.
    pub fn needs_barrier(&self) -> bool {
        !self.stable && self.version > Version(0)
    }

    /// Ends the version: the next one begins.
    ///
    /// # Errors
    /// `Mismatch` when more collectives of this version were finished before than this incarnation has made.
    pub fn enter(&mut self, version: Version) -> Result<(), Error> {
        self.end()?;
        self.version = version;
        self.seqno = 0;
        self.stable = false;
        self.log.open(Phase::Version(version));
        Ok(())
    }

    /// Ends the version, and the rank's part with it: a rank that calls more of it can't be served.
    ///
    /// # Errors
    /// As [`Participant::enter`].
    pub fn end(&mut self) -> Result<(), Error> {
        let phase = Phase::Version(self.version);
        let theirs = self.plan.as_ref().and_then(|plan| plan.phase(phase)).map_or(0, |known| known.finished);
        let finished = self.log.finished(phase).max(theirs);
        if self.seqno < finished {
            let next = match self.log.entry(phase, self.seqno) {
                Some(entry) => format!("; the next of them was {}", entry.signature),
                None => String::new(),
            };
            return Err(Error::new(
                Code::Mismatch,
                format!(
                    "rank {} ends {phase} after {} collectives, but {finished} were made of it before{next}; all \
                     ranks, and all incarnations of a rank, have to make the same calls",
                    self.rank, self.seqno
                ),
            ));
        }
        self.log.end(phase);
        self.current = None;
        Ok(())
    }

    /// A view came: until its plan is here nothing is finished. Returns what is held, for the
    /// status. A view whose plan is here already changes nothing.
    pub fn pause(&mut self, view: Generation) -> Vec<Extent> {
        if self.generation() != Some(view) && view >= self.view {
            self.view = view;
            self.paused = true;
            self.outputs.push_back(ParticipantOutput::Changed);
        }
        self.holding = true;
        self.log.extents()
    }

    /// The plan came. It is void when a newer view was answered.
    pub fn plan(&mut self, plan: RankPlan) {
        if plan.generation < self.view || self.generation() == Some(plan.generation) || plan.lineage != self.lineage {
            return;
        }
        self.view = plan.generation;
        self.paused = false;
        let log = &self.log;
        self.inputs.keep_observations(&plan.observed, |phase| {
            log.finished(phase) > 0 || plan.phase(phase).is_some_and(|phase| phase.finished > 0)
        });
        self.inputs.add_observations(&plan.observed);
        for phase in &plan.phases {
            let wanted = match phase.phase {
                Phase::Boot => true,
                Phase::Version(version) => version >= self.version,
            };
            let from = self.log.finished(phase.phase);
            if wanted && from < phase.finished {
                self.outputs.push_back(ParticipantOutput::Fetch(Fetch {
                    generation: plan.generation,
                    lineage: self.lineage,
                    phase: phase.phase,
                    from,
                    to: phase.finished,
                    holders: phase.holders.clone(),
                }));
            }
        }
        self.plan = Some(plan);
        self.outputs.push_back(ParticipantOutput::Changed);
    }

    /// A result that was asked for by [`ParticipantOutput::Fetch`] of this generation. What comes late is
    /// dropped: it may not be counted as held by the newest plan, and then all run it again, this
    /// rank too.
    ///
    /// # Errors
    /// `Internal` when they don't come in order.
    pub fn fetched(&mut self, generation: Generation, phase: Phase, seqno: u32, entry: Entry<R>) -> Result<(), Error> {
        if self.paused || self.generation() != Some(generation) || seqno < self.log.finished(phase) {
            return Ok(());
        }
        self.log.push(phase, seqno, entry)?;
        self.outputs.push_back(ParticipantOutput::Changed);
        Ok(())
    }

    /// All are there and have caught up: what is old is dropped as usual.
    pub fn release(&mut self) {
        self.holding = false;
        self.drop_old();
    }

    /// What this rank has called under an id, for a peer that has found another call there.
    pub fn signature(&self, collective_id: &CollectiveId) -> Option<Signature> {
        if collective_id.lineage != self.lineage {
            return None;
        }
        let current = self.current.as_ref().filter(|current| current.collective_id == *collective_id);
        let kept = self.log.entry(collective_id.phase, collective_id.seqno);
        current.map(|current| current.signature.clone()).or_else(|| kept.map(|entry| entry.signature.clone()))
    }

    fn over(&mut self, collective_id: CollectiveId, depends_on_all: bool) {
        self.current = None;
        if collective_id.phase == Phase::Version(self.version) {
            self.seqno = collective_id.seqno + 1;
            if depends_on_all && !self.stable {
                self.stable = true;
                self.drop_old();
            }
        }
    }

    fn drop_old(&mut self) {
        if self.stable && !self.holding {
            self.outputs.extend(self.log.drop_below(self.version).into_iter().map(ParticipantOutput::Dropped));
            self.inputs.drop_below(self.version);
        }
    }

    fn check(&self, collective_id: CollectiveId, signature: &Signature) -> Result<(), Error> {
        // Put into words only for an error: every call comes here twice.
        let who = || format!("rank {} incarnation {}", self.rank, self.incarnation);
        if let Some(entry) = self.log.entry(collective_id.phase, collective_id.seqno) {
            if entry.signature.digest != signature.digest {
                return Err(mismatch(
                    collective_id,
                    &who(),
                    signature,
                    "the ranks that finished it before",
                    &entry.signature,
                ));
            }
            return Ok(());
        }
        let Some(plan) = &self.plan else { return Ok(()) };
        if plan.phase(collective_id.phase).is_some_and(|known| known.ended && collective_id.seqno >= known.finished) {
            return Err(Error::new(
                Code::Mismatch,
                format!(
                    "{} calls {signature} as {collective_id}, but other ranks ended {} after {} collectives; all \
                     ranks have to make the same calls",
                    who(),
                    collective_id.phase,
                    collective_id.seqno
                ),
            ));
        }
        Ok(())
    }
}

/// Two calls that can't be paired.
pub fn mismatch(collective_id: CollectiveId, one: &str, ones: &Signature, other: &str, others: &Signature) -> Error {
    Error::new(
        Code::Mismatch,
        format!(
            "{collective_id}: {one} called {ones}, but {other} called {others}; all ranks have to make the same calls \
             in the same order"
        ),
    )
}
