//! Whether a rank that was started again repeats itself: what it gives is compared with what others have heard of it before.
//!
//! A call whose result is recorded is replayed without a look at the caller's input. So a rank that computes something else than
//! before its death would go unnoticed, and the others would go on with what doesn't belong to one training. Callers that promise
//! to repeat themselves have their inputs put into one rolling number for each phase, which every frame and board shows. Who
//! takes it remembers the newest one of each rank and phase ([`Inputs::hears`]), and tells it with its standing when the rank
//! has a newer incarnation than that. The plan brings all of them to the newcomer ([`Inputs::claimed`]), before it makes its first
//! call; and it finds by itself, at the same place, whether it has given the same.

use super::call::Signature;
use super::plan::order;
use super::Place;
use crate::error::{Code, Error};
use crate::ids::{Incarnation, Phase, Rank, Version};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// What somebody has heard of a rank, of one phase: the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// Of whom.
    pub rank: Rank,
    /// Of which of its incarnations.
    pub incarnation: Incarnation,
    /// The phase.
    pub phase: Phase,
    /// The collective in which it was heard.
    pub seqno: u32,
    /// All that the rank had given to the phase, that collective included ([`Inputs::gives`]).
    pub digest: u64,
}

/// What this rank has given to a phase.
#[derive(Clone, Copy, Debug)]
struct Given {
    phase: Phase,
    digest: u64,
    bytes: u64,
    calls: u32,
}

impl Given {
    fn nothing(phase: Phase) -> Self {
        Given { phase, digest: 0, bytes: 0, calls: 0 }
    }
}

/// What one rank in one incarnation has given, and what it has heard of the others.
#[derive(Clone, Debug)]
pub struct Inputs {
    rank: Rank,
    incarnation: Incarnation,
    given: Given,
    heard: BTreeMap<(Rank, u64), Heard>,
    /// What others have heard of this rank's older incarnations, and who.
    claims: Vec<(Rank, Heard)>,
}

impl Inputs {
    /// Nothing given, nothing heard.
    pub fn new(rank: Rank, incarnation: Incarnation) -> Self {
        let given = Given::nothing(Phase::Boot);
        Inputs { rank, incarnation, given, heard: BTreeMap::new(), claims: Vec::new() }
    }

    /// The number that stands for all that this rank has given to the phase so far: what the next input is to be hashed with.
    pub fn before(&self, phase: Phase) -> u64 {
        if self.given.phase == phase {
            self.given.digest
        } else {
            0
        }
    }

    /// The next input of this phase, of so many bytes: `digest` is its hash with [`Inputs::before`]. Returns what others are shown,
    /// which is never 0. Every call of the phase gives, one without bytes too.
    pub fn gives(&mut self, phase: Phase, digest: u64, bytes: u64) -> u64 {
        if self.given.phase != phase {
            self.given = Given::nothing(phase);
        }
        // 0 stands for calls that promise nothing.
        self.given.digest = digest.max(1);
        self.given.bytes = self.given.bytes.saturating_add(bytes);
        self.given.calls = self.given.calls.saturating_add(1);
        self.given.digest
    }

    /// Another rank has shown this, in the call that both are in. 0 says that it promises nothing.
    pub fn hears(&mut self, rank: Rank, incarnation: Incarnation, place: &Place, digest: u64) {
        if digest != 0 {
            let Place { phase, seqno, .. } = *place;
            self.heard.insert((rank, order(phase)), Heard { rank, incarnation, phase, seqno, digest });
        }
    }

    /// All that was heard, for the standing.
    pub fn heard(&self) -> Vec<Heard> {
        self.heard.values().copied().collect()
    }

    /// Nobody is started below this version any more.
    pub fn drop_below(&mut self, version: Version) {
        let is_old = |phase| matches!(phase, Phase::Version(there) if there < version);
        self.heard.retain(|_, heard| !is_old(heard.phase));
        self.claims.retain(|(_, claim)| !is_old(claim.phase));
    }

    /// What others have heard of ranks, by whom: of it counts what is about this rank's older incarnations.
    pub fn claimed<'h>(&mut self, claims: impl IntoIterator<Item = &'h (Rank, Heard)>) {
        for (by, claim) in claims {
            let is_mine = claim.rank == self.rank && claim.incarnation < self.incarnation;
            if is_mine && !self.claims.contains(&(*by, *claim)) {
                self.claims.push((*by, *claim));
            }
        }
    }

    /// The claim at this place that what this rank has given contradicts.
    pub fn contradicted(&self, place: &Place) -> Option<(Rank, Heard)> {
        let at_hand = |claim: &Heard| (claim.phase, claim.seqno) == (place.phase, place.seqno);
        let given = &self.given;
        let differs = |claim: &Heard| given.phase == claim.phase && given.digest != claim.digest;
        self.claims.iter().find(|(_, claim)| at_hand(claim) && differs(claim)).copied()
    }

    /// That this rank doesn't repeat itself, found in this call at this place. `round` is the first one of its version, where there
    /// are rounds.
    pub fn error(&self, place: &Place, call: &Signature, (by, claim): (Rank, Heard), round: Option<u32>) -> Error {
        let Given { bytes, calls, .. } = self.given;
        let (rank, incarnation, former) = (self.rank, self.incarnation, claim.incarnation);
        let rounds = round.map_or(String::new(), |round| format!(" (from round {round} on)"));
        Error::new(
            Code::Mismatch,
            format!(
                "rank {rank} did not repeat itself: as incarnation {incarnation} it called {call} as {place}{rounds}, and has \
                 given {bytes} bytes to {calls} collectives of {}; by then rank {by} had heard that incarnation {former} of rank \
                 {rank} gave other bytes, with which the others have gone on; usual causes: rows in another order, other data, a \
                 random seed that isn't fixed, another number of threads",
                place.phase
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

    fn place(phase: Phase, seqno: u32) -> Place {
        Place { lineage: Lineage(0), phase, seqno }
    }

    /// What rank 0 has heard of rank 1's first incarnation.
    fn claim(seqno: u32, digest: u64) -> (Rank, Heard) {
        let heard = Heard { rank: Rank(1), incarnation: Incarnation(0), phase: VERSION, seqno, digest };
        (Rank(0), heard)
    }

    fn second_life(claims: &[(Rank, Heard)]) -> Inputs {
        let mut inputs = Inputs::new(Rank(1), Incarnation(1));
        inputs.claimed(claims);
        inputs
    }

    #[test]
    fn who_gives_the_same_is_not_contradicted_and_who_gives_something_else_is_at_the_place_of_the_claim() {
        let mut inputs = second_life(&[claim(1, 20)]);
        for (seqno, digest, differs) in [(0, 99, false), (1, 20, false), (2, 7, false)] {
            inputs.gives(VERSION, digest, 5);
            assert_eq!(inputs.contradicted(&place(VERSION, seqno)).is_some(), differs, "{seqno}");
        }
        let mut inputs = second_life(&[claim(1, 20)]);
        inputs.gives(VERSION, 10, 5);
        assert_eq!(inputs.contradicted(&place(VERSION, 0)), None);
        inputs.gives(VERSION, 21, 6);
        assert_eq!(inputs.contradicted(&place(VERSION, 1)), Some(claim(1, 20)));
        assert_eq!(inputs.contradicted(&place(Phase::Boot, 1)), None, "another phase");
    }

    #[test]
    fn each_phase_is_counted_by_itself() {
        let mut inputs = Inputs::new(Rank(1), Incarnation(0));
        assert_eq!(inputs.gives(Phase::Boot, 8, 3), 8);
        assert_eq!((inputs.before(Phase::Boot), inputs.before(VERSION)), (8, 0));
        assert_eq!(inputs.gives(VERSION, 0, 3), 1, "0 promises nothing");
        assert_eq!((inputs.before(Phase::Boot), inputs.before(VERSION)), (0, 1));
    }

    #[test]
    fn the_newest_of_each_rank_and_phase_is_remembered_until_nobody_starts_there() {
        let mut inputs = Inputs::new(Rank(0), Incarnation(0));
        let mut hears = |phase, seqno, digest| inputs.hears(Rank(1), Incarnation(0), &place(phase, seqno), digest);
        hears(Phase::Boot, 4, 40);
        hears(VERSION, 0, 50);
        hears(VERSION, 1, 51);
        hears(VERSION, 2, 0);
        let seen = |inputs: &Inputs| -> Vec<(Phase, u32, u64)> {
            inputs.heard().iter().map(|heard| (heard.phase, heard.seqno, heard.digest)).collect()
        };
        assert_eq!(seen(&inputs), [(Phase::Boot, 4, 40), (VERSION, 1, 51)]);
        inputs.drop_below(Version(3));
        assert_eq!(inputs.heard().len(), 2);
        inputs.drop_below(Version(4));
        assert_eq!(seen(&inputs), [(Phase::Boot, 4, 40)], "boot stays for the life of the job");
    }

    #[test]
    fn only_what_is_about_an_older_incarnation_of_the_rank_counts() {
        let of = |rank, incarnation| {
            let (by, heard) = claim(0, 20);
            (by, Heard { rank: Rank(rank), incarnation: Incarnation(incarnation), ..heard })
        };
        let mut inputs = second_life(&[of(2, 0), of(1, 1)]);
        inputs.gives(VERSION, 1, 1);
        assert_eq!(inputs.contradicted(&place(VERSION, 0)), None);
        inputs.claimed(&[of(1, 0), of(1, 0)]);
        assert_eq!(inputs.claims.len(), 1);
        assert_eq!(inputs.contradicted(&place(VERSION, 0)), Some(of(1, 0)));
    }

    #[test]
    fn the_error_says_who_where_and_how_much() {
        let mut inputs = second_life(&[claim(1, 20)]);
        inputs.gives(VERSION, 1, 100);
        inputs.gives(VERSION, 2, 28);
        let site = Site::Named("XGBoost".into());
        let (element, reduction) = ("f32".into(), "sum".into());
        let call = Call { operation: Operation::Allreduce, element, count: 7, reduction, root: None, site };
        let error = inputs.error(&place(VERSION, 1), &call.signature(None), claim(1, 20), Some(12));
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
