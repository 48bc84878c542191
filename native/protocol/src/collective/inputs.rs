//! Whether a rank that was started again repeats itself: what it gives is compared with what others
//! have heard of it before.
//!
//! A call whose result is recorded is replayed without a look at the caller's input. So a rank that
//! computes something else than before its death would go unnoticed, and the others would go on
//! with what doesn't belong to one training. Callers that promise to repeat themselves have their
//! inputs put into one rolling number for each phase, which every frame and segment shows. A rank that
//! takes it remembers the newest one of each rank and phase ([`InputDigests::observe`]), and reports
//! it with its status report when the rank has a newer incarnation than that. The plan brings all
//! of them to the newcomer ([`InputDigests::add_observations`]), before it makes its first call;
//! and it finds by itself, at the same collective, whether it has given the same.

use super::call::Signature;
use super::status::ObservedInput;
use super::CollectiveId;
use crate::error::{Code, Error};
use crate::ids::{Incarnation, Phase, Rank, Version};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// What this rank has given to a phase.
#[derive(Clone, Copy, Debug)]
struct OwnInputs {
    phase: Phase,
    digest: u64,
    bytes: u64,
    calls: u32,
}

impl OwnInputs {
    fn nothing(phase: Phase) -> Self {
        OwnInputs { phase, digest: 0, bytes: 0, calls: 0 }
    }
}

/// What one rank in one incarnation has given, and what it has heard of the others.
#[derive(Clone, Debug)]
pub struct InputDigests {
    rank: Rank,
    incarnation: Incarnation,
    given: OwnInputs,
    observed: BTreeMap<(Rank, Phase), ObservedInput>,
    /// What others have heard of this rank's older incarnations, by the rank that heard it.
    observations: Vec<(Rank, ObservedInput)>,
}

impl InputDigests {
    /// Nothing given, nothing heard.
    pub fn new(rank: Rank, incarnation: Incarnation) -> Self {
        let given = OwnInputs::nothing(Phase::Boot);
        InputDigests { rank, incarnation, given, observed: BTreeMap::new(), observations: Vec::new() }
    }

    /// The number that stands for all that this rank has given to the phase so far: what the next
    /// input is to be hashed with.
    pub fn before(&self, phase: Phase) -> u64 {
        if self.given.phase == phase {
            self.given.digest
        } else {
            0
        }
    }

    /// The next input of this phase, of so many bytes: `digest` is its hash with
    /// [`InputDigests::before`]. Returns what others are shown, which is never 0. Every call of the
    /// phase gives, one without bytes too.
    pub fn add_own(&mut self, phase: Phase, digest: u64, bytes: u64) -> u64 {
        if self.given.phase != phase {
            self.given = OwnInputs::nothing(phase);
        }
        // 0 stands for calls that promise nothing.
        self.given.digest = digest.max(1);
        self.given.bytes = self.given.bytes.saturating_add(bytes);
        self.given.calls = self.given.calls.saturating_add(1);
        self.given.digest
    }

    /// Another rank has shown this, in the call that both are in. 0 says that it promises nothing.
    pub fn observe(&mut self, rank: Rank, incarnation: Incarnation, collective_id: &CollectiveId, digest: u64) {
        if digest != 0 {
            let CollectiveId { phase, seqno, .. } = *collective_id;
            self.observed.insert((rank, phase), ObservedInput { rank, incarnation, phase, seqno, digest });
        }
    }

    /// All that was heard, for the status report.
    pub fn observed(&self) -> Vec<ObservedInput> {
        self.observed.values().copied().collect()
    }

    /// No rank is started below this version any more.
    pub fn drop_below(&mut self, version: Version) {
        let is_old = |phase| matches!(phase, Phase::Version(there) if there < version);
        self.observed.retain(|_, observed| !is_old(observed.phase));
        self.observations.retain(|(_, observation)| !is_old(observation.phase));
    }

    /// What others have heard of ranks, by the one that heard it: of it counts what is about this rank's older
    /// incarnations.
    pub fn add_observations<'h>(&mut self, observations: impl IntoIterator<Item = &'h (Rank, ObservedInput)>) {
        for (by, observation) in observations {
            let is_mine = observation.rank == self.rank && observation.incarnation < self.incarnation;
            if is_mine && !self.observations.contains(&(*by, *observation)) {
                self.observations.push((*by, *observation));
            }
        }
    }

    /// A new plan has these observations, of all that live, and says whether one of them has finished anything of a
    /// phase. Of one in which none has, nobody has gone on with what only a rank had heard that is gone since; and what
    /// that had chosen may come out otherwise, so that other calls follow.
    pub fn keep_observations(&mut self, living: &[(Rank, ObservedInput)], is_begun: impl Fn(Phase) -> bool) {
        self.observations.retain(|one| living.contains(one) || is_begun(one.1.phase));
    }

    /// The observation at this collective that what this rank has given contradicts.
    pub fn contradicted(&self, collective_id: &CollectiveId) -> Option<(Rank, ObservedInput)> {
        let at_hand = |observation: &ObservedInput| {
            (observation.phase, observation.seqno) == (collective_id.phase, collective_id.seqno)
        };
        let given = &self.given;
        let differs =
            |observation: &ObservedInput| given.phase == observation.phase && given.digest != observation.digest;
        self.observations.iter().find(|(_, observation)| at_hand(observation) && differs(observation)).copied()
    }

    /// That this rank doesn't repeat itself, found in this call, of this id. `round` is the first
    /// one of its version, where there are rounds.
    pub fn error(
        &self,
        collective_id: &CollectiveId,
        call: &Signature,
        (by, observation): (Rank, ObservedInput),
        round: Option<u32>,
    ) -> Error {
        let OwnInputs { bytes, calls, .. } = self.given;
        let (rank, incarnation, former) = (self.rank, self.incarnation, observation.incarnation);
        let rounds = round.map_or(String::new(), |round| format!(" (from round {round} on)"));
        Error::new(
            Code::Mismatch,
            format!(
                "rank {rank} did not repeat itself: as incarnation {incarnation} it called {call} as \
                 {collective_id}{rounds}, and has given {bytes} bytes to {calls} collectives of {}; by then rank {by} \
                 had heard that incarnation {former} of rank {rank} gave other bytes, with which the others have gone \
                 on; usual causes: rows in another order, other data, a random seed that isn't fixed, another number \
                 of threads",
                collective_id.phase
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{Call, Operation, Site};
    use crate::ids::Lineage;
    use std::string::ToString;

    const VERSION: Phase = Phase::Version(Version(3));

    fn collective_id(phase: Phase, seqno: u32) -> CollectiveId {
        CollectiveId { lineage: Lineage(0), phase, seqno }
    }

    /// What rank 0 has heard of rank 1's first incarnation.
    fn observation(seqno: u32, digest: u64) -> (Rank, ObservedInput) {
        let observed = ObservedInput { rank: Rank(1), incarnation: Incarnation::nth(0), phase: VERSION, seqno, digest };
        (Rank(0), observed)
    }

    fn second_life(observations: &[(Rank, ObservedInput)]) -> InputDigests {
        let mut inputs = InputDigests::new(Rank(1), Incarnation::nth(1));
        inputs.add_observations(observations);
        inputs
    }

    #[test]
    fn who_gives_the_same_is_not_contradicted_and_who_gives_something_else_is_at_the_place_of_the_observation() {
        let mut inputs = second_life(&[observation(1, 20)]);
        for (seqno, digest, differs) in [(0, 99, false), (1, 20, false), (2, 7, false)] {
            inputs.add_own(VERSION, digest, 5);
            assert_eq!(inputs.contradicted(&collective_id(VERSION, seqno)).is_some(), differs, "{seqno}");
        }
        let mut inputs = second_life(&[observation(1, 20)]);
        inputs.add_own(VERSION, 10, 5);
        assert_eq!(inputs.contradicted(&collective_id(VERSION, 0)), None);
        inputs.add_own(VERSION, 21, 6);
        assert_eq!(inputs.contradicted(&collective_id(VERSION, 1)), Some(observation(1, 20)));
        assert_eq!(inputs.contradicted(&collective_id(Phase::Boot, 1)), None, "another phase");
    }

    #[test]
    fn each_phase_is_counted_by_itself() {
        let mut inputs = InputDigests::new(Rank(1), Incarnation::nth(0));
        assert_eq!(inputs.add_own(Phase::Boot, 8, 3), 8);
        assert_eq!((inputs.before(Phase::Boot), inputs.before(VERSION)), (8, 0));
        assert_eq!(inputs.add_own(VERSION, 0, 3), 1, "0 promises nothing");
        assert_eq!((inputs.before(Phase::Boot), inputs.before(VERSION)), (0, 1));
    }

    #[test]
    fn the_newest_of_each_rank_and_phase_is_remembered_until_nobody_starts_there() {
        let mut inputs = InputDigests::new(Rank(0), Incarnation::nth(0));
        let mut observe =
            |phase, seqno, digest| inputs.observe(Rank(1), Incarnation::nth(0), &collective_id(phase, seqno), digest);
        observe(Phase::Boot, 4, 40);
        observe(VERSION, 0, 50);
        observe(VERSION, 1, 51);
        observe(VERSION, 2, 0);
        let seen = |inputs: &InputDigests| -> Vec<(Phase, u32, u64)> {
            inputs.observed().iter().map(|observed| (observed.phase, observed.seqno, observed.digest)).collect()
        };
        assert_eq!(seen(&inputs), [(Phase::Boot, 4, 40), (VERSION, 1, 51)]);
        inputs.drop_below(Version(3));
        assert_eq!(inputs.observed().len(), 2);
        inputs.drop_below(Version(4));
        assert_eq!(seen(&inputs), [(Phase::Boot, 4, 40)], "boot stays for the life of the job");
    }

    #[test]
    fn only_what_is_about_an_older_incarnation_of_the_rank_counts() {
        let of = |rank, incarnation| {
            let (by, observed) = observation(0, 20);
            (by, ObservedInput { rank: Rank(rank), incarnation: Incarnation::nth(incarnation), ..observed })
        };
        let mut inputs = second_life(&[of(2, 0), of(1, 1)]);
        inputs.add_own(VERSION, 1, 1);
        assert_eq!(inputs.contradicted(&collective_id(VERSION, 0)), None);
        inputs.add_observations(&[of(1, 0), of(1, 0)]);
        assert_eq!(inputs.observations.len(), 1);
        assert_eq!(inputs.contradicted(&collective_id(VERSION, 0)), Some(of(1, 0)));
    }

    #[test]
    fn what_a_rank_had_heard_that_is_gone_counts_as_long_as_others_have_finished_anything_of_the_phase() {
        let contradicted = |living: &[(Rank, ObservedInput)], is_begun: bool| {
            let mut inputs = second_life(&[observation(1, 20)]);
            inputs.keep_observations(living, |_| is_begun);
            inputs.add_own(VERSION, 10, 5);
            inputs.add_own(VERSION, 21, 6);
            inputs.contradicted(&collective_id(VERSION, 1)).is_some()
        };
        assert!(contradicted(&[observation(1, 20)], false), "who has heard it lives");
        assert!(contradicted(&[], true));
        assert!(!contradicted(&[], false));
    }

    #[test]
    fn the_error_says_who_where_and_how_much() {
        let mut inputs = second_life(&[observation(1, 20)]);
        inputs.add_own(VERSION, 1, 100);
        inputs.add_own(VERSION, 2, 28);
        let site = Site::Named("XGBoost".into());
        let (element, reduction) = ("f32".into(), "sum".into());
        let call = Call { operation: Operation::Allreduce, element, count: 7, reduction, root: None, site };
        let error = inputs.error(&collective_id(VERSION, 1), &call.signature(None), observation(1, 20), Some(12));
        assert_eq!(error.code, Code::Mismatch);
        let text = error.to_string();
        for part in [
            "rank 1 did not repeat itself: as incarnation 1",
            "allreduce(7 f32, sum) at XGBoost as collective 1 of version 3 (from round 12 on)",
            "128 bytes to 2 collectives",
            "rank 0 had heard that incarnation 0",
        ] {
            assert!(text.contains(part), "`{part}` isn't in: {text}");
        }
    }
}
