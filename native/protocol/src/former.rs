//! The worlds that an elastic job has had: which rank each of their ranks is now, and who starts with the own models of
//! those that are gone. Pure: it follows from the worlds alone, so that every plan says the same of one.

use crate::ids::{AgentId, Checkpoint, Lineage, Rank};
use alloc::vec::Vec;
use core::iter::repeat_n;
use serde::{Deserialize, Serialize};

/// The former worlds from which versions may still be begun.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerWorlds {
    /// Of lineages before this one nothing is known any more.
    pub known_from: Lineage,
    /// The oldest first.
    pub worlds: Vec<FormerWorld>,
}

/// The world that has trained a lineage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum World<'a> {
    /// That of now.
    Present,
    /// One before it.
    Former(&'a FormerWorld),
    /// One of which it isn't known any more which ranks its ranks are now.
    Forgotten,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerWorld {
    /// The last lineage that it has trained.
    pub until: Lineage,
    /// For each of its ranks the one that it is now; `None`: it is gone.
    pub ranks: Vec<Option<Rank>>,
}

/// Who starts with the own model of a rank of a former world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heir {
    /// The rank in the former world.
    pub of: Rank,
    /// The rank of now that starts with its model.
    pub rank: Rank,
    /// Whether that is another one: the former rank is gone.
    pub is_gone: bool,
}

/// What a rank is told of the world that has made the version which it starts from, where that is a former one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Former {
    /// The number of ranks of that world.
    pub world: u32,
    /// Which of them this rank was; `None`: it wasn't there.
    pub rank: Option<Rank>,
    /// The ranks that are gone and whose own models this rank is given, in order. Empty where ranks have none.
    pub given: Vec<Given>,
}

/// The own model of a rank that is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// The rank in the former world.
    pub rank: Rank,
    /// Its own model; `None`: it is lost, and may be.
    pub own: Option<Checkpoint>,
    /// The agents that hold it.
    pub holders: Vec<AgentId>,
}

impl FormerWorlds {
    /// The world that has trained up to this lineage goes on as another one: for each of its ranks the one that it is
    /// from now on.
    pub fn resized(&mut self, until: Lineage, ranks: &[Option<Rank>]) {
        for former in &mut self.worlds {
            for rank in &mut former.ranks {
                *rank = rank.and_then(|now| ranks.get(now.0 as usize).copied().flatten());
            }
        }
        // A world that has begun no lineage has made nothing.
        if self.worlds.last().is_none_or(|last| last.until < until) {
            self.worlds.push(FormerWorld { until, ranks: ranks.to_vec() });
        }
    }

    /// Nothing is held any more of a lineage before this one.
    pub fn forget_before(&mut self, oldest: Lineage) {
        self.known_from = self.known_from.max(oldest);
        self.worlds.retain(|former| former.until >= oldest);
    }

    /// The world that has trained this lineage.
    pub fn of(&self, lineage: Lineage) -> World<'_> {
        match self.worlds.iter().find(|former| former.until >= lineage) {
            _ if lineage < self.known_from => World::Forgotten,
            Some(former) => World::Former(former),
            None => World::Present,
        }
    }
}

impl FormerWorld {
    /// Which rank it was that is this one now.
    pub fn was(&self, now: Rank) -> Option<Rank> {
        self.ranks.iter().position(|rank| *rank == Some(now)).map(|rank| Rank(rank as u32))
    }

    /// Who starts with each rank's own model, in the order of its ranks, in a world of so many ranks now. One that is
    /// still there keeps its own. Those of the others are dealt evenly to those that were there before, each to the
    /// next one of those that have the fewest: the processes of the next ranks are those that hold copies. Where none
    /// is left that was there, to those that are there now.
    pub fn heirs(&self, world: u32) -> Vec<Heir> {
        let survivors: Vec<(usize, Rank)> =
            self.ranks.iter().enumerate().filter_map(|(of, rank)| Some((of, (*rank)?))).collect();
        let ring = match survivors.is_empty() {
            true => (0..world).map(|rank| (rank as usize, Rank(rank))).collect(),
            false => survivors,
        };
        let mut given: Vec<usize> = repeat_n(0, ring.len()).collect();
        let mut heirs = Vec::new();
        for (of, now) in self.ranks.iter().enumerate() {
            let next = ring.partition_point(|(other, _)| *other < of);
            let in_turn = (next..ring.len()).chain(0..next);
            let chosen = now.or_else(|| {
                let nearest = in_turn.min_by_key(|index| given[*index])?;
                given[nearest] += 1;
                Some(ring[nearest].1)
            });
            heirs.extend(chosen.map(|rank| Heir { of: Rank(of as u32), rank, is_gone: now.is_none() }));
        }
        heirs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn world(until: u32, ranks: &[Option<u32>]) -> FormerWorld {
        FormerWorld { until: Lineage(until), ranks: ranks.iter().map(|rank| rank.map(Rank)).collect() }
    }

    fn heirs(former: &FormerWorld, world: u32) -> Vec<u32> {
        former.heirs(world).into_iter().map(|heir| heir.rank.0).collect()
    }

    #[test]
    fn ranks_that_stay_keep_their_own_model_and_the_next_one_is_given_that_of_one_that_is_gone() {
        let former = world(0, &[Some(0), None, Some(1), Some(2)]);
        assert_eq!(heirs(&former, 3), [0, 1, 1, 2]);
        assert_eq!(former.was(Rank(2)), Some(Rank(3)));
        assert_eq!(former.was(Rank(3)), None, "a joiner was nobody");
    }

    #[test]
    fn models_of_a_whole_host_are_dealt_evenly() {
        let former = world(0, &[Some(0), Some(1), Some(2), None, None, None]);
        assert_eq!(heirs(&former, 3), [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn where_no_rank_of_the_world_is_left_those_that_are_there_are_given_all() {
        let former = world(0, &[None, None, None]);
        assert_eq!(heirs(&former, 2), [0, 1, 0]);
        assert!(former.heirs(2).iter().all(|heir| heir.is_gone));
    }

    #[test]
    fn a_world_that_changes_twice_before_a_version_is_made_is_known_by_what_its_ranks_are_now() {
        let mut worlds = FormerWorlds::default();
        worlds.resized(Lineage(0), &[Some(Rank(0)), None, Some(Rank(1)), Some(Rank(2))]);
        worlds.resized(Lineage(0), &[None, Some(Rank(0)), Some(Rank(1))]);
        assert_eq!(worlds.worlds, [world(0, &[None, None, Some(0), Some(1)])]);
        worlds.resized(Lineage(2), &[Some(Rank(0)), None]);
        assert_eq!(worlds.of(Lineage(0)), World::Former(&world(0, &[None, None, Some(0), None])));
        let second = world(2, &[Some(0), None]);
        assert_eq!(worlds.of(Lineage(1)), World::Former(&second), "a rollback within the second world");
        assert_eq!(worlds.of(Lineage(3)), World::Present);
        worlds.forget_before(Lineage(1));
        assert_eq!(worlds.of(Lineage(0)), World::Forgotten, "not another world's ranks");
        assert_eq!(worlds.of(Lineage(1)), World::Former(&second));
    }

    proptest! {
        #[test]
        fn each_model_goes_to_one_rank_that_is_there_and_none_is_given_two_more_than_another(
            stays in proptest::collection::vec(any::<bool>(), 1..12), joiners in 0u32..3,
        ) {
            let mut next = (0..).map(Rank);
            let ranks: Vec<Option<Rank>> = stays.iter().map(|stays| stays.then(|| next.next()).flatten()).collect();
            let left = ranks.iter().flatten().count() as u32;
            let world = (left + joiners).max(1);
            let former = FormerWorld { until: Lineage(0), ranks: ranks.clone() };
            let heirs = former.heirs(world);
            let all: Vec<Rank> = (0..stays.len() as u32).map(Rank).collect();
            prop_assert_eq!(heirs.iter().map(|heir| heir.of).collect::<Vec<_>>(), all);
            let mut given = vec![0; world as usize];
            for heir in heirs {
                prop_assert_eq!(heir.is_gone, ranks[heir.of.0 as usize].is_none());
                prop_assert!(heir.is_gone || ranks[heir.of.0 as usize] == Some(heir.rank));
                given[heir.rank.0 as usize] += u32::from(heir.is_gone);
            }
            let among = if left > 0 { &given[..left as usize] } else { &given[..] };
            prop_assert!(among.iter().max().unwrap() - among.iter().min().unwrap() <= 1, "{:?}", given);
        }
    }
}
