//! Which task is given which rank, in a job with spares: a pure function of what the tracker knows.
//!
//! The rules, in the order in which they are tried for the ranks that are open, by number:
//!
//! 1. A rank's own task, which has its number, is there: it gets it.
//! 2. Some incarnation had the rank before, or its own task has ended or has another rank: the task that stands by for
//!    longest gets it. So nothing is waited for after a death, and a task that is tried again becomes the next spare.
//! 3. Otherwise the rank waits for its own task: spares neither delay a job's start nor take part in it.

use crate::ids::{Rank, Task};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A rank that no task has, and that none is about to join as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRank {
    /// Which.
    pub rank: Rank,
    /// Some incarnation had it before, or the framework says that its own task has ended.
    pub is_left: bool,
    /// Why it is open, in words.
    pub because: String,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Giving {
    /// An open one.
    pub rank: Rank,
    /// The task that gets it.
    pub task: Task,
    /// The task stood by for any rank: it is not the one that the framework has started for this rank.
    pub is_spare: bool,
    /// Why, in words.
    pub reason: String,
}

/// What is given, of the open ranks, to the tasks that stand by, the one that came first first; `have_ranks` are
/// the tasks that have one.
pub fn decide(open: &[OpenRank], standing_by: &[Task], have_ranks: &BTreeSet<Task>) -> Vec<Giving> {
    // All ranks of a large world may be open at once, and as many tasks stand by.
    let mut free: BTreeSet<Task> = standing_by.iter().copied().collect();
    let mut given = BTreeSet::new();
    let mut givings = Vec::new();
    let mut left = Vec::new();
    for one in open {
        let own = Task(one.rank.0);
        if free.remove(&own) {
            given.insert(own);
            let (rank, reason) = (one.rank, format!("task {own} is there, which has the rank's number"));
            givings.push(Giving { rank, task: own, is_spare: false, reason });
        } else {
            left.push(one);
        }
    }
    let mut longest = standing_by.iter().copied().filter(|task| free.contains(task));
    for OpenRank { rank, is_left, because } in left {
        let own = Task(rank.0);
        if !is_left && !have_ranks.contains(&own) && !given.contains(&own) {
            continue;
        }
        let Some(task) = longest.next() else { break };
        given.insert(task);
        let reason = format!("task {task} stood by for longest, and the rank is open: {because}");
        givings.push(Giving { rank: *rank, task, is_spare: true, reason });
    }
    givings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(rank: u32, is_left: bool) -> OpenRank {
        OpenRank { rank: Rank(rank), is_left, because: "its process is gone".into() }
    }

    fn given(open: &[OpenRank], standing_by: &[u32], have_ranks: &[u32]) -> Vec<(u32, u32, bool)> {
        let standing_by: Vec<Task> = standing_by.iter().copied().map(Task).collect();
        let givings = decide(open, &standing_by, &have_ranks.iter().copied().map(Task).collect());
        givings.into_iter().map(|giving| (giving.rank.0, giving.task.0, giving.is_spare)).collect()
    }

    #[test]
    fn at_the_start_each_rank_gets_its_own_task_and_waits_for_it_although_spares_are_there() {
        assert_eq!(given(&[open(0, false), open(1, false)], &[3, 1], &[]), [(1, 1, false)]);
    }

    proptest::proptest! {
        #[test]
        fn what_is_given_is_what_the_rules_say_one_after_the_other(
            open_ranks in proptest::collection::btree_map(0..8u32, proptest::bool::ANY, 0..8),
            standing_by in proptest::sample::subsequence((0..10u32).collect::<Vec<_>>(), 0..10),
            order in 0..10usize,
            have_ranks in proptest::collection::btree_set(0..10u32, 0..5),
        ) {
            let mut standing_by = standing_by;
            let middle = order % standing_by.len().max(1);
            standing_by.rotate_left(middle);
            let (mut free, mut expected, mut left) = (standing_by.clone(), Vec::new(), Vec::new());
            for (rank, is_left) in &open_ranks {
                if free.contains(rank) {
                    free.retain(|task| task != rank);
                    expected.push((*rank, *rank, false));
                } else {
                    left.push((*rank, *is_left));
                }
            }
            for (rank, is_left) in left {
                let has_another = have_ranks.contains(&rank) || expected.iter().any(|(_, task, _)| *task == rank);
                if (is_left || has_another) && !free.is_empty() {
                    expected.push((rank, free.remove(0), true));
                }
            }
            let open: Vec<OpenRank> = open_ranks.iter().map(|(rank, is_left)| open(*rank, *is_left)).collect();
            let have_ranks: Vec<u32> = have_ranks.into_iter().collect();
            proptest::prop_assert_eq!(given(&open, &standing_by, &have_ranks), expected);
        }
    }

    #[test]
    fn a_rank_that_was_lost_gets_the_spare_that_stood_by_for_longest() {
        assert_eq!(given(&[open(1, true)], &[4, 3], &[0]), [(1, 4, true)]);
    }

    #[test]
    fn a_task_that_came_for_its_own_rank_goes_before_a_spare_that_stood_by_for_longer() {
        assert_eq!(given(&[open(0, true), open(1, true)], &[3, 1], &[]), [(1, 1, false), (0, 3, true)]);
    }

    #[test]
    fn a_rank_that_nobody_had_goes_to_a_spare_once_its_own_task_has_another_rank() {
        assert_eq!(given(&[open(1, false)], &[3], &[1]), [(1, 3, true)]);
    }

    #[test]
    fn there_are_no_more_ranks_given_than_tasks_stand_by() {
        assert_eq!(given(&[open(0, true), open(1, true)], &[2], &[]), [(0, 2, true)]);
    }

    #[test]
    fn a_decision_says_why() {
        let giving = decide(&[open(1, true)], &[Task(2)], &BTreeSet::new()).remove(0);
        assert_eq!(giving.reason, "task 2 stood by for longest, and the rank is open: its process is gone");
    }
}
