//! Whether an elastic job goes on in another world: a pure function of what the tracker knows.
//!
//! The rules, in the order in which they are tried:
//!
//! 1. A new rank's task was gone before it had joined, or a rank's slot is gone with its task, and enough ranks are
//!    left: the world goes on without that rank, and waits for the others.
//! 2. A rank has been missing for as long as a replacement is waited for, and enough ranks are there: the world shrinks
//!    in one step to the ranks that are there, also if some have been missing for a moment only.
//! 3. All ranks are there, a version was finished by all just now, and some leave, of which their tasks' ends have been
//!    said before: the world goes on without those, and with as many tasks that stand by as its maximum allows, if
//!    these are enough ranks and one of them was there before.
//! 4. All ranks are there, a version was finished by all just now, tasks stand by, and the newest resize is an interval
//!    ago: the world grows by as many of them as its maximum allows.
//! 5. A world that has changed as often as it may neither grows nor lets ranks leave; if it had to shrink, the job ends
//!    with an error.
//! 6. Otherwise nothing changes. Too few ranks are waited for, and the wait for missing members
//!    bounds that; what stands by is never waited for.
//!
//! Ranks that stay keep their order and move down without gaps. Those that come follow, the tasks of one host side by
//! side. So rank 0 is one that was there before.

use crate::ids::{Rank, Task};
use crate::words::{list, times};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Tasks that come one after the other within this time are taken in together.
const GATHER_MILLIS: u64 = 200;

/// How an elastic job may change its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elastic {
    /// The fewest ranks that it goes on with, at least 1.
    pub min: u32,
    /// The most ranks that it has, at least as many as it begins with.
    pub max: u32,
    /// How long a replacement of a rank is waited for, in milliseconds.
    pub timeout_millis: u64,
    /// How long it doesn't grow after a resize, in milliseconds.
    pub interval_millis: u64,
    /// How often it may change (the reset limit); `None`: any number of times.
    pub most_resizes: Option<u32>,
    /// Whether the own models of ranks that are gone may be lost, should no copy of one be left. Otherwise the job
    /// ends with an error then.
    pub own_may_be_lost: bool,
}

/// One rank of the present world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Occupancy {
    /// Some incarnation has it, or a task is about to join as it.
    Taken,
    /// Some incarnation has it whose task goes for good soon, by the word of who has started it.
    Leaving,
    /// Nobody has it.
    Missing {
        /// For how long, in milliseconds.
        millis: u64,
        /// Why, in words.
        because: String,
    },
    /// Nobody has it, and none is waited for: the task that it was made for was gone before it had joined, or its task
    /// is gone and its slot, too.
    Abandoned {
        /// Why, in words.
        because: String,
    },
}

/// A task that stands by, and could be given a rank at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Which.
    pub task: Task,
    /// Where it runs.
    pub host: String,
    /// For how long it has stood by, in milliseconds.
    pub millis: u64,
}

/// What a growing world depends on beside its ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// A version was finished by all ranks just now.
    pub is_boundary: bool,
    /// How often the world has changed.
    pub resizes: u32,
    /// How long ago the newest resize was, in milliseconds; `None` if there was none.
    pub since_resize: Option<u64>,
    /// The tasks that stand by, the one that came first first.
    pub standing_by: Vec<Candidate>,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing changes.
    Stay,
    /// A new world.
    Resize {
        /// For each rank the one that it is from now on; `None` for those that are gone.
        ranks: Vec<Option<Rank>>,
        /// The tasks that get the ranks behind those, in order.
        joiners: Vec<Task>,
        /// Why, in words.
        reason: String,
    },
    /// The world would have to change once more than it may: the job can't go on.
    Exhausted {
        /// Why, in words.
        reason: String,
    },
}

/// Decides, of the present world in rank order.
pub fn decide(occupancies: &[Occupancy], moment: &Moment, elastic: &Elastic) -> Decision {
    let most = elastic.most_resizes.filter(|most| moment.resizes >= *most);
    match (decide_without_limit(occupancies, moment, elastic), most) {
        (Decision::Resize { .. }, Some(_)) if occupancies.iter().all(Occupancy::is_there) => Decision::Stay,
        (Decision::Resize { reason, .. }, Some(most)) => {
            let reason = format!("{reason}; but the world has changed {}, and may not change again", times(most));
            Decision::Exhausted { reason }
        }
        (decision, _) => decision,
    }
}

fn decide_without_limit(occupancies: &[Occupancy], moment: &Moment, elastic: &Elastic) -> Decision {
    let is_abandoned = |occupancy: &Occupancy| matches!(occupancy, Occupancy::Abandoned { .. });
    let awaited = occupancies.iter().filter(|occupancy| !is_abandoned(occupancy)).count();
    if awaited < occupancies.len() && awaited >= elastic.min as usize {
        return without(occupancies, is_abandoned, |gone| {
            format!("rank {gone} is gone, and no replacement is waited for")
        });
    }
    let is_over = |one: &Occupancy| match one {
        Occupancy::Missing { millis, .. } => *millis >= elastic.timeout_millis,
        _ => false,
    };
    let there = occupancies.iter().filter(|occupancy| occupancy.is_there()).count();
    if occupancies.iter().any(is_over) && there >= elastic.min as usize {
        let seconds = elastic.timeout_millis as f64 / 1000.0;
        let because = |gone: &str| format!("no replacement of rank {gone} came within {seconds} s");
        return without(occupancies, |occupancy| !occupancy.is_there(), because);
    }
    if there < occupancies.len() || !moment.is_boundary {
        return Decision::Stay;
    }
    let staying = occupancies.iter().filter(|occupancy| **occupancy == Occupancy::Taken).count();
    if staying < occupancies.len() {
        let most = (elastic.max as usize).min(staying + moment.standing_by.len());
        let is_enough = staying > 0 && most >= elastic.min as usize;
        return if is_enough { at_boundary(occupancies, &moment.standing_by, elastic) } else { Decision::Stay };
    }
    if there as u32 >= elastic.max || !moment.may_grow(elastic) {
        return Decision::Stay;
    }
    at_boundary(occupancies, &moment.standing_by, elastic)
}

impl Occupancy {
    /// Whether some incarnation has it, or is about to.
    pub fn is_there(&self) -> bool {
        matches!(self, Occupancy::Taken | Occupancy::Leaving)
    }
}

impl Moment {
    fn may_grow(&self, elastic: &Elastic) -> bool {
        let has_passed = self.since_resize.is_none_or(|since| since >= elastic.interval_millis);
        let gather = GATHER_MILLIS.min(elastic.interval_millis);
        has_passed && self.standing_by.iter().any(|one| one.millis >= gather)
    }
}

/// The same world without these ranks.
fn without(occupancies: &[Occupancy], goes: impl Fn(&Occupancy) -> bool, because: impl Fn(&str) -> String) -> Decision {
    let mut next = (0..).map(Rank);
    let ranks: Vec<Option<Rank>> =
        occupancies.iter().map(|occupancy| if goes(occupancy) { None } else { next.next() }).collect();
    let left = ranks.iter().flatten().count();
    let going = (0..).map(Rank).zip(occupancies).filter(|(_, occupancy)| goes(occupancy));
    let (gone, why): (Vec<Rank>, Vec<String>) = going
        .filter_map(|(rank, occupancy)| match occupancy {
            Occupancy::Missing { because, .. } | Occupancy::Abandoned { because } => {
                Some((rank, format!("rank {rank}: {because}")))
            }
            Occupancy::Taken | Occupancy::Leaving => None,
        })
        .unzip();
    let reason = format!(
        "{}, so the world of {} ranks goes on as one of {left} ({})",
        because(&list(&gone)),
        occupancies.len(),
        why.join("; ")
    );
    Decision::Resize { ranks, joiners: Vec::new(), reason }
}

/// The same world without the ranks that leave, and with as many more as it may have.
fn at_boundary(occupancies: &[Occupancy], standing_by: &[Candidate], elastic: &Elastic) -> Decision {
    let mut next = (0..).map(Rank);
    let ranks: Vec<Option<Rank>> =
        occupancies.iter().map(|occupancy| if *occupancy == Occupancy::Leaving { None } else { next.next() }).collect();
    let staying = ranks.iter().flatten().count();
    let room = (elastic.max as usize).saturating_sub(staying);
    let chosen = &standing_by[..room.min(standing_by.len())];
    let host = |one: &Candidate| chosen.iter().position(|other| other.host == one.host);
    let mut joiners: Vec<&Candidate> = chosen.iter().collect();
    // Stable: within a host they stay as they came.
    joiners.sort_by_key(|one| host(one));
    let joiners: Vec<Task> = joiners.into_iter().map(|one| one.task).collect();
    let tasks: Vec<Rank> = joiners.iter().map(|task| Rank(task.0)).collect();
    let leaving: Vec<Rank> =
        (0..).map(Rank).zip(&ranks).filter(|(_, next)| next.is_none()).map(|(rank, _)| rank).collect();
    let mut why = Vec::new();
    if !leaving.is_empty() {
        why.push(format!("rank {} leaves", list(&leaving)));
    }
    if !tasks.is_empty() {
        why.push(format!("task {} stood by and the world may have {} ranks", list(&tasks), elastic.max));
    }
    let reason = format!(
        "{}, so the world of {} ranks goes on as one of {}",
        why.join("; "),
        occupancies.len(),
        staying + joiners.len()
    );
    Decision::Resize { ranks, joiners, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const ELASTIC: Elastic = Elastic {
        min: 2,
        max: 5,
        timeout_millis: 1000,
        interval_millis: 3000,
        most_resizes: None,
        own_may_be_lost: false,
    };

    fn calm() -> Moment {
        Moment { is_boundary: false, resizes: 0, since_resize: None, standing_by: Vec::new() }
    }

    fn occupancies(missing: &[Option<u64>]) -> Vec<Occupancy> {
        let occupancy = |missing: &Option<u64>| match missing {
            None => Occupancy::Taken,
            Some(millis) => Occupancy::Missing { millis: *millis, because: "its process is gone".into() },
        };
        missing.iter().map(occupancy).collect()
    }

    /// `None` is a rank that is there, otherwise for how long it has been missing.
    fn shrunk(missing: &[Option<u64>]) -> Option<Vec<Option<u32>>> {
        match decide(&occupancies(missing), &calm(), &ELASTIC) {
            Decision::Stay | Decision::Exhausted { .. } => None,
            Decision::Resize { ranks, joiners, .. } => {
                assert_eq!(joiners, []);
                Some(ranks.iter().map(|rank| rank.map(|rank| rank.0)).collect())
            }
        }
    }

    /// The tasks that come into a world of so many.
    fn joiners(world: usize, moment: &Moment) -> Vec<u32> {
        match decide(&vec![Occupancy::Taken; world], moment, &ELASTIC) {
            Decision::Stay | Decision::Exhausted { .. } => Vec::new(),
            Decision::Resize { ranks, joiners, .. } => {
                assert_eq!(ranks, (0..world as u32).map(|rank| Some(Rank(rank))).collect::<Vec<_>>());
                joiners.iter().map(|task| task.0).collect()
            }
        }
    }

    /// At a boundary, with these tasks and their hosts.
    fn boundary(tasks: &[(u32, &str)]) -> Moment {
        let candidate = |(task, host): &(u32, &str)| Candidate { task: Task(*task), host: (*host).into(), millis: 500 };
        Moment { is_boundary: true, resizes: 0, since_resize: None, standing_by: tasks.iter().map(candidate).collect() }
    }

    #[test]
    fn as_long_as_a_replacement_may_come_nothing_changes() {
        assert_eq!(shrunk(&[None, None, None]), None);
        assert_eq!(shrunk(&[None, Some(999), None]), None);
    }

    #[test]
    fn ranks_that_are_there_keep_their_order_and_move_down_without_gaps() {
        assert_eq!(
            shrunk(&[Some(1000), None, Some(1000), None, None]),
            Some(vec![None, Some(0), None, Some(1), Some(2)])
        );
    }

    #[test]
    fn one_step_takes_out_all_that_are_missing_however_long() {
        assert_eq!(shrunk(&[None, Some(1000), Some(1), None]), Some(vec![Some(0), None, None, Some(1)]));
    }

    #[test]
    fn a_world_never_shrinks_below_its_minimum() {
        assert_eq!(shrunk(&[None, Some(5000), Some(5000)]), None);
        assert_eq!(shrunk(&[None, Some(5000), None]), Some(vec![Some(0), None, Some(1)]));
    }

    #[test]
    fn a_decision_says_who_was_missing_and_why() {
        let Decision::Resize { reason, .. } = decide(&occupancies(&[None, Some(1500), None]), &calm(), &ELASTIC) else {
            panic!("it stays")
        };
        assert_eq!(
            reason,
            "no replacement of rank 1 came within 1 s, so the world of 3 ranks goes on as one of 2 (rank 1: its \
             process is gone)"
        );
    }

    #[test]
    fn tasks_that_stand_by_come_behind_those_that_are_there_when_a_version_is_finished() {
        assert_eq!(joiners(2, &boundary(&[(7, "a"), (3, "a")])), [7, 3]);
        assert_eq!(joiners(2, &Moment { is_boundary: false, ..boundary(&[(7, "a")]) }), []);
        assert_eq!(joiners(2, &boundary(&[])), []);
    }

    /// Of three ranks the second leaves.
    fn one_leaves() -> Vec<Occupancy> {
        vec![Occupancy::Taken, Occupancy::Leaving, Occupancy::Taken]
    }

    #[test]
    fn ranks_leave_when_a_version_is_finished_and_not_before() {
        assert_eq!(decide(&one_leaves(), &calm(), &ELASTIC), Decision::Stay);
        let Decision::Resize { ranks, joiners, reason } = decide(&one_leaves(), &boundary(&[]), &ELASTIC) else {
            panic!("it stays")
        };
        assert_eq!((ranks, joiners), (vec![Some(Rank(0)), None, Some(Rank(1))], vec![]));
        assert_eq!(reason, "rank 1 leaves, so the world of 3 ranks goes on as one of 2");
    }

    #[test]
    fn ranks_leave_and_tasks_that_stand_by_come_in_one_step() {
        // Neither the interval nor the time in which others may come is waited for: the world changes in any case.
        let mut moment = Moment { since_resize: Some(1), ..boundary(&[(7, "a")]) };
        moment.standing_by[0].millis = 1;
        let Decision::Resize { ranks, joiners, .. } = decide(&one_leaves(), &moment, &ELASTIC) else {
            panic!("it stays")
        };
        assert_eq!((ranks, joiners), (vec![Some(Rank(0)), None, Some(Rank(1))], vec![Task(7)]));
    }

    #[test]
    fn ranks_do_not_leave_a_world_that_would_be_too_small_or_have_none_that_was_there_before() {
        let two = [Occupancy::Leaving, Occupancy::Taken];
        assert_eq!(decide(&two, &boundary(&[]), &ELASTIC), Decision::Stay);
        assert!(matches!(decide(&two, &boundary(&[(7, "a")]), &ELASTIC), Decision::Resize { .. }));
        let all = [Occupancy::Leaving, Occupancy::Leaving];
        assert_eq!(decide(&all, &boundary(&[(7, "a"), (8, "a")]), &ELASTIC), Decision::Stay);
    }

    #[test]
    fn a_world_that_may_not_change_again_lets_no_rank_leave_and_goes_on() {
        let limited = Elastic { most_resizes: Some(0), ..ELASTIC };
        assert_eq!(decide(&one_leaves(), &boundary(&[]), &limited), Decision::Stay);
    }

    #[test]
    fn a_rank_that_leaves_counts_as_there_when_another_one_is_missing() {
        let missing = Occupancy::Missing { millis: 1000, because: "its process is gone".into() };
        let all = [Occupancy::Taken, Occupancy::Leaving, missing];
        let Decision::Resize { ranks, .. } = decide(&all, &calm(), &ELASTIC) else { panic!("it stays") };
        assert_eq!(ranks, [Some(Rank(0)), Some(Rank(1)), None]);
    }

    #[test]
    fn tasks_of_one_host_are_side_by_side() {
        assert_eq!(joiners(2, &boundary(&[(3, "b"), (4, "a"), (5, "b")])), [3, 5, 4]);
    }

    #[test]
    fn a_world_never_grows_beyond_its_maximum_and_those_that_came_first_go_first() {
        assert_eq!(joiners(3, &boundary(&[(3, "b"), (4, "a"), (5, "b")])), [3, 4]);
        assert_eq!(joiners(5, &boundary(&[(5, "a")])), []);
    }

    #[test]
    fn a_world_grows_at_most_once_in_an_interval() {
        let after = |millis| Moment { since_resize: Some(millis), ..boundary(&[(3, "a")]) };
        assert_eq!((joiners(2, &after(2999)), joiners(2, &after(3000))), (vec![], vec![3]));
    }

    #[test]
    fn a_task_that_has_just_come_is_joined_by_those_that_come_with_it() {
        let mut moment = boundary(&[(3, "a"), (4, "a")]);
        moment.standing_by.iter_mut().for_each(|one| one.millis = 150);
        assert_eq!(joiners(2, &moment), []);
        moment.standing_by[0].millis = 200;
        assert_eq!(joiners(2, &moment), [3, 4]);
        moment.standing_by[0].millis = 0;
        let at_once = Elastic { interval_millis: 0, ..ELASTIC };
        assert!(matches!(decide(&[Occupancy::Taken], &moment, &at_once), Decision::Resize { .. }));
    }

    #[test]
    fn a_world_in_which_a_rank_is_missing_does_not_grow() {
        assert_eq!(decide(&occupancies(&[None, Some(10), None]), &boundary(&[(3, "a")]), &ELASTIC), Decision::Stay);
    }

    #[test]
    fn a_new_rank_whose_task_is_gone_is_not_waited_for_and_no_other_goes_with_it() {
        let gone = Occupancy::Abandoned { because: "its process is gone".into() };
        let all = [occupancies(&[None, Some(10)]), vec![gone, Occupancy::Taken]].concat();
        let Decision::Resize { ranks, joiners, reason } = decide(&all, &boundary(&[(3, "a")]), &ELASTIC) else {
            panic!("it stays")
        };
        assert_eq!(ranks, [Some(Rank(0)), Some(Rank(1)), None, Some(Rank(2))]);
        assert_eq!(joiners, []);
        assert!(reason.starts_with("rank 2 is gone, and no replacement is waited for, so the world of 4"), "{reason}");
    }

    #[test]
    fn a_world_that_has_changed_as_often_as_it_may_ends_if_it_has_to_shrink_and_does_not_grow() {
        let limited = Elastic { most_resizes: Some(2), ..ELASTIC };
        let after = |resizes, moment: Moment| Moment { resizes, ..moment };
        let missing = occupancies(&[None, Some(1000), None]);
        assert!(matches!(decide(&missing, &after(1, calm()), &limited), Decision::Resize { .. }));
        let Decision::Exhausted { reason } = decide(&missing, &after(2, calm()), &limited) else {
            panic!("it goes on")
        };
        assert!(reason.ends_with("the world has changed 2 times, and may not change again"), "{reason}");
        let whole = occupancies(&[None, None]);
        assert!(matches!(decide(&whole, &after(1, boundary(&[(3, "a")])), &limited), Decision::Resize { .. }));
        assert_eq!(decide(&whole, &after(2, boundary(&[(3, "a")])), &limited), Decision::Stay);
    }

    #[test]
    fn a_world_does_not_go_below_its_minimum_for_a_slot_that_is_gone() {
        let gone = Occupancy::Abandoned { because: "its slot is gone".into() };
        let all = [occupancies(&[None]), vec![gone]].concat();
        assert_eq!(decide(&all, &boundary(&[(3, "a")]), &ELASTIC), Decision::Stay);
    }

    #[test]
    fn a_decision_says_which_tasks_come() {
        let Decision::Resize { reason, .. } =
            decide(&occupancies(&[None, None]), &boundary(&[(7, "a"), (3, "a")]), &ELASTIC)
        else {
            panic!("it stays")
        };
        assert!(reason.ends_with("so the world of 2 ranks goes on as one of 4"), "{reason}");
    }
}
