//! A rank that is started again and repeats itself is never accused; one that doesn't is found
//! before it gives anything to others.

use crate::collective_support;

use collective_support::{generation, sum, version};
use proptest::collection::vec;
use proptest::prelude::*;
use rejoin_protocol::collective::{Entry, Next, ObservedInput, Participant, ParticipantOutput, PhasePlan, RankPlan};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Incarnation, Lineage, Rank, Version};

/// A rank dies at a call.
#[derive(Clone, Copy, Debug)]
enum When {
    /// Before any rank has begun it.
    Before,
    /// When all have begun it and heard each other, and none has finished it.
    ObservedInput,
    /// When some have finished it: those of these bits, and one of the others if it were none.
    Finished(u8),
}

#[derive(Clone, Copy, Debug)]
struct Death {
    rank: usize,
    when: When,
    /// In the life that follows, what is given to this call is something else.
    forgets: Option<u32>,
}

/// All ranks of a job, which are in version 0.
struct World {
    ranks: Vec<Participant<u64>>,
    incarnations: Vec<u32>,
    generation: u32,
    /// Only the next rank hears each one's bytes, as in a ring; otherwise all do.
    ring: bool,
}

/// Something that depends on all that was before, as a hash.
fn mix(before: u64, value: u64) -> u64 {
    (before ^ value).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

fn plan(number: u32, finished: u32, observed: Vec<(Rank, ObservedInput)>) -> RankPlan {
    let phases = vec![PhasePlan { phase: version(0), finished, ended: false, holders: Vec::new() }];
    RankPlan { phases, observed, ..collective_support::plan(number, &[]) }
}

impl World {
    fn new(world: usize, ring: bool) -> Self {
        let rank = |rank| Participant::new(Rank(rank as u32), Incarnation::nth(0), Lineage(0), Version(0));
        let mut ranks: Vec<Participant<u64>> = (0..world).map(rank).collect();
        ranks.iter_mut().for_each(|rank| rank.plan(plan(1, 0, Vec::new())));
        World { ranks, incarnations: vec![0; world], generation: 1, ring }
    }

    /// A rank is about to make a call, and says what it gives.
    fn begins(&mut self, rank: usize, seqno: u32, forgets: bool) {
        let participant = &mut self.ranks[rank];
        let collective_id = participant.begin(&sum(4), None).unwrap();
        assert_eq!(collective_id.seqno, seqno);
        let value = u64::from(seqno) << 8 | rank as u64;
        let digest = mix(participant.before(), if forgets { !value } else { value });
        participant.add_own(digest, 16, None);
    }

    /// All that haven't finished it make this call, and hear each other.
    fn run(&mut self, seqno: u32) {
        for rank in 0..self.ranks.len() {
            if self.ranks[rank].seqno() == seqno && self.ranks[rank].collective_id().is_none() {
                self.begins(rank, seqno, false);
            }
        }
        let running = |world: &World, rank: usize| {
            world.ranks[rank].collective_id().is_some_and(|collective_id| collective_id.seqno == seqno)
        };
        for one in 0..self.ranks.len() {
            for other in 0..self.ranks.len() {
                let observe = other != one && (!self.ring || other == (one + 1) % self.ranks.len());
                if observe && running(self, one) && running(self, other) {
                    let own_digest = self.ranks[one].own_digest();
                    assert_ne!(own_digest, 0, "nothing would be compared");
                    let collective_id = self.ranks[other].collective_id().unwrap();
                    let incarnation = Incarnation::nth(self.incarnations[one]);
                    self.ranks[other].observe(Rank(one as u32), incarnation, &collective_id, own_digest);
                }
            }
        }
    }

    fn finish(&mut self, rank: usize) {
        let participant = &mut self.ranks[rank];
        let Some(collective_id) = participant.collective_id() else { return };
        match participant.proceed().expect("it repeats itself") {
            Next::Run(generation) => assert!(participant.finish(generation, u64::from(collective_id.seqno))),
            Next::Replayed(result) => assert_eq!(result, u64::from(collective_id.seqno)),
            Next::Wait(reason) => panic!("rank {rank} waits: {reason}"),
        }
    }

    /// A rank dies, and its next life makes all calls up to this one, whose results it is given if
    /// there are any, and begins this one if none has finished it. The error that this life
    /// found, and the last collective at which another had heard the former one.
    fn dies(&mut self, death: &Death, seqno: u32) -> (Result<(), Error>, Option<u32>) {
        let rank = death.rank;
        self.generation += 1;
        self.incarnations[rank] += 1;
        let incarnation = Incarnation::nth(self.incarnations[rank]);
        self.ranks[rank] = Participant::new(Rank(rank as u32), incarnation, Lineage(0), Version(0));
        let living = |other: &usize| *other != rank;
        let mut claims = Vec::new();
        let mut finished = 0;
        for other in (0..self.ranks.len()).filter(living) {
            self.ranks[other].pause(generation(self.generation));
            finished = finished.max(self.ranks[other].log().finished(version(0)));
            let observed = self.ranks[other].observed().into_iter();
            let former = |observed: &ObservedInput| {
                observed.incarnation != Incarnation::nth(self.incarnations[observed.rank.0 as usize])
            };
            claims.extend(observed.filter(former).map(|observed| (Rank(other as u32), observed)));
        }
        let reported = claims
            .iter()
            .filter(|(_, observed)| observed.rank == Rank(rank as u32))
            .map(|(_, observed)| observed.seqno)
            .max();
        for participant in &mut self.ranks {
            participant.plan(plan(self.generation, finished, claims.clone()));
            while let Some(output) = participant.poll() {
                let ParticipantOutput::Fetch(fetch) = output else { continue };
                for seqno in fetch.from..fetch.to {
                    let signature = sum(4).signature(None);
                    let entry = Entry { signature, key: None, result: u64::from(seqno) };
                    participant.fetched(fetch.generation, fetch.phase, seqno, entry).unwrap();
                }
            }
        }
        let outcome = (0..=seqno).try_for_each(|seqno| {
            self.begins(rank, seqno, death.forgets == Some(seqno));
            match self.ranks[rank].proceed()? {
                Next::Replayed(result) => assert_eq!((result, seqno < finished), (u64::from(seqno), true)),
                Next::Run(_) => assert_eq!(seqno, finished),
                Next::Wait(reason) => panic!("rank {rank} waits: {reason}"),
            }
            Ok(())
        });
        (outcome, reported)
    }

    /// Each survivor goes on with what is recorded, and with the rest.
    fn makes(&mut self, seqno: u32, death: Option<&Death>) -> Result<bool, Error> {
        if let Some(death) = death {
            let dying = death.rank;
            if !matches!(death.when, When::Before) {
                self.run(seqno);
            }
            if let When::Finished(bits) = death.when {
                let world = self.ranks.len();
                let some: Vec<usize> = (0..world).filter(|rank| bits >> rank & 1 == 1).collect();
                let nobody = some.iter().all(|rank| *rank == dying);
                some.into_iter().chain(nobody.then_some((dying + 1) % world)).for_each(|rank| self.finish(rank));
            }
            let (outcome, reported) = self.dies(death, seqno);
            let is_heard = death.forgets.is_some_and(|forgets| reported.is_some_and(|reported| forgets <= reported));
            match outcome {
                Ok(()) if is_heard => panic!("{death:?} at {seqno} was not found; it was heard until {reported:?}"),
                Err(error) if !is_heard => panic!("{death:?} at {seqno} was accused: {error}"),
                Err(error) => return Err(error),
                // Its own input to the call that none has finished is what all use.
                Ok(()) => {}
            }
            if !self.ring && self.ranks.len() > 2 {
                let first = seqno == 0 && matches!(death.when, When::Before);
                assert_eq!(reported.is_none(), first, "all that live have heard it");
            }
        }
        self.run(seqno);
        (0..self.ranks.len()).for_each(|rank| self.finish(rank));
        Ok(death.is_some_and(|death| death.forgets.is_some()))
    }
}

fn when() -> impl Strategy<Value = When> {
    prop_oneof![Just(When::Before), Just(When::ObservedInput), any::<u8>().prop_map(When::Finished)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn who_repeats_itself_is_never_accused_and_who_does_not_is_found_before_it_gives_anything(
        world in 2usize..6,
        ring: bool,
        deaths in vec(proptest::option::weighted(0.6, (any::<usize>(), when())), 1..8),
        forgets in proptest::option::of((any::<usize>(), any::<u32>())),
    ) {
        let mut all = World::new(world, ring);
        let last = forgets.map(|(which, _)| which % deaths.len());
        for (seqno, death) in deaths.iter().enumerate() {
            let forgotten = forgets.filter(|_| last == Some(seqno)).map(|(_, call)| call % (seqno as u32 + 1));
            let death = death.map(|(rank, when)| Death { rank: rank % world, when, forgets: forgotten });
            match all.makes(seqno as u32, death.as_ref()) {
                Ok(false) => {}
                // What it forgot was never used, but counts as given from now on.
                Ok(true) => break,
                Err(error) => {
                    prop_assert_eq!(error.code, Code::Mismatch);
                    let rank = death.map_or(usize::MAX, |death| death.rank);
                    let text = format!("rank {rank} did not repeat itself: as incarnation");
                    prop_assert!(error.message.contains(&text), "{}", error);
                    break;
                }
            }
        }
    }
}
