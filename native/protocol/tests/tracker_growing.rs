//! An elastic job at the tracker: tasks that stand by, and the world that takes them in.

use crate::support;

use rejoin_protocol::error::Code;
use rejoin_protocol::ids::{Checkpoint, Lineage, Position, Rank, Version};
use rejoin_protocol::message::RankState;
use rejoin_protocol::tracker::{TrackerConfig, TrackerInput, TrackerOutput};
use support::elastic::*;
use support::takeover::former;
use support::*;

/// Two ranks in version 3 of a job that may have so many, and this many tasks that have stood by for a second.
fn joined_by(max: u32, tasks: &[u32]) -> Desk {
    let mut desk = training_as(growing(2, 2, max));
    for task in tasks {
        desk.register(u64::from(*task) + 1);
        let outputs = asks(&mut desk, *task, 0);
        assert_eq!((given(&outputs, u64::from(*task) + 1), resized(&outputs)), (vec![], None));
    }
    let mut alive: Vec<u64> = vec![1, 2];
    alive.extend(tasks.iter().map(|task| u64::from(*task) + 1));
    assert_eq!(resized(&desk.pass_alive(1000, &alive)), None, "a job below its maximum doesn't stop for more");
    desk
}

/// All of a world of two finish the version before this one: the last outputs.
fn finishes_before(desk: &mut Desk, version: u32) -> Vec<TrackerOutput> {
    assert_eq!(resized(&desk.enters(0, 0, version)), None, "rank 1 is still behind");
    desk.enters(1, 0, version)
}

fn held_by(count: usize, checkpoint: Checkpoint) -> Vec<Vec<Checkpoint>> {
    (0..count).map(|agent| if agent < 2 { vec![checkpoint] } else { Vec::new() }).collect()
}

#[test]
fn tasks_that_stand_by_are_taken_in_when_a_version_is_finished_by_all_and_nothing_of_it_is_lost() {
    let mut desk = joined_by(4, &[2, 3]);
    let outputs = finishes_before(&mut desk, 4);
    let (ranks, reason) = resized(&outputs).expect("a larger world");
    assert_eq!(ranks, [Some(0), Some(1)]);
    assert!(reason.contains("task 2 and 3 stood by"), "{reason}");
    assert_eq!(fenced(&outputs, 1), [(0, 0, Code::Resized)]);
    assert_eq!((given(&outputs, 3)[0].1, given(&outputs, 4)[0].1), (2, 3), "those that come follow");
    assert_eq!(view(&outputs, 1).world(), 4);

    let mut ranks: Vec<(u32, u32)> = Vec::new();
    for (task, link) in [(2, 3), (3, 4)] {
        let (rank, its) = (task, given(&outputs, link)[0].2);
        let outputs = desk.joins(link, rank, attempt(its));
        ranks.push((rank, incarnation_of(&outputs, link)));
    }
    let survivors: Vec<(u32, u32)> = [0, 1].iter().map(|task| takes_part(&mut desk, *task, 0)).collect();
    assert_eq!(survivors.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(), [0, 1]);
    ranks.splice(0..0, survivors);
    let mut last = Vec::new();
    for (agent, held) in held_by(4, checkpoint(4)).into_iter().enumerate() {
        let (rank, incarnation) = ranks[agent];
        last = desk.stands(agent as u64 + 1, vec![stands(rank, incarnation, RankState::Fresh)], held);
    }
    let plan = plan(&last, 4).expect("a plan");
    assert_eq!((plan.lineage, plan.newcomers.len()), (Lineage(1), 4));
    assert!(plan.newcomers.iter().all(|newcomer| newcomer.version == Version(4)), "{plan:?}");
}

#[test]
fn ranks_that_begin_again_get_one_view_when_all_are_there_and_none_for_each_that_joins() {
    let mut desk = joined_by(3, &[2]);
    let outputs = finishes_before(&mut desk, 4);
    assert_eq!(views(&outputs, 1).len(), 1, "that all begin again");
    for (task, expected) in [(2, 0), (0, 0), (1, 1)] {
        // The one that stood by has been given its rank already.
        let told = if task == 2 { outputs.clone() } else { asks(&mut desk, task, 0) };
        let link = u64::from(task) + 1;
        let (_, rank, its) = given(&told, link)[0];
        assert_eq!(views(&desk.joins(link, rank, attempt(its)), 1).len(), expected, "task {task}");
    }
}

#[test]
fn a_job_at_its_maximum_takes_no_more_and_those_that_are_left_stand_by() {
    let mut desk = joined_by(3, &[2]);
    let outputs = finishes_before(&mut desk, 4);
    assert_eq!(view(&outputs, 1).world(), 3);
    // In a job of at most two ranks there is no third task.
    let mut desk = training_as(growing(2, 2, 2));
    desk.register(3);
    let outputs = asks(&mut desk, 2, 0);
    assert!(
        sent(&outputs, 3).iter().any(|message| format!("{message:?}").contains("asked for a rank of a job of 2 ranks")),
        "{outputs:?}"
    );
}

#[test]
fn a_world_grows_again_only_when_the_interval_has_passed() {
    let mut desk = joined_by(4, &[2]);
    finishes_before(&mut desk, 4);
    let ranks: Vec<(u32, u32)> = (0..3).map(|task| takes_part(&mut desk, task, 0)).collect();
    for (rank, incarnation) in &ranks {
        desk.stands(u64::from(*rank) + 1, vec![stands(*rank, *incarnation, RankState::Fresh)], vec![checkpoint(4)]);
    }
    desk.register(4);
    asks(&mut desk, 3, 0);
    desk.pass_alive(1000, &[1, 2, 3, 4]);
    let enters = |desk: &mut Desk, version: u32| -> Vec<TrackerOutput> {
        let entered = ranks.iter().map(|member| enters_in(desk, u64::from(member.0) + 1, *member, 1, version));
        entered.last().unwrap_or_default()
    };
    enters(&mut desk, 4);
    assert_eq!(resized(&enters(&mut desk, 5)), None, "the interval");
    assert_eq!(resized(&desk.pass_alive(INTERVAL, &[1, 2, 3, 4])), None, "not within a version");
    assert_eq!(resized(&enters(&mut desk, 6)).map(|(ranks, _)| ranks.len()), Some(3));
}

#[test]
fn a_joiner_that_dies_before_it_has_joined_is_not_waited_for() {
    let mut desk = joined_by(4, &[2, 3]);
    finishes_before(&mut desk, 4);
    takes_part(&mut desk, 0, 0);
    desk.input(TrackerInput::Closed { link: 3, reason: "connection reset".into() });
    let outputs = desk.input(TrackerInput::ExecutorGone { executor: "exec-3".into(), reason: "it exited".into() });
    let (ranks, reason) = resized(outputs).expect("a world without it");
    assert_eq!(ranks, [Some(0), Some(1), None, Some(2)]);
    assert!(reason.contains("rank 2 is gone, and no replacement is waited for"), "{reason}");
    assert_eq!(takes_part(&mut desk, 3, 0).0, 2);
    assert_eq!([takes_part(&mut desk, 0, 0).0, takes_part(&mut desk, 1, 0).0], [0, 1]);
}

#[test]
fn another_task_that_stands_by_takes_the_place_of_a_joiner_that_dies() {
    let mut desk = joined_by(3, &[2]);
    desk.register(4);
    let outputs = finishes_before(&mut desk, 4);
    assert_eq!(view(&outputs, 1).world(), 3);
    // Its next try comes before the death of the one before is known.
    desk.register(5);
    let outputs = desk.input(TrackerInput::ExecutorGone { executor: "exec-3".into(), reason: "it exited".into() });
    assert_eq!(resized(outputs).map(|(ranks, _)| ranks), Some(vec![Some(0), Some(1), None]));
}

#[test]
fn a_joiner_that_dies_after_it_has_joined_is_waited_for_as_any_rank() {
    let mut desk = joined_by(3, &[2]);
    finishes_before(&mut desk, 4);
    assert_eq!(takes_part(&mut desk, 2, 0).0, 2);
    let outputs = desk.input(TrackerInput::ExecutorGone { executor: "exec-3".into(), reason: "it exited".into() });
    assert_eq!(resized(outputs), None);
    let outputs = desk.pass_alive(TIMEOUT + 200, &[1, 2]);
    assert_eq!(resized(&outputs).map(|(ranks, _)| ranks), Some(vec![Some(0), Some(1), None]));
}

#[test]
fn a_rank_whose_slot_is_gone_is_not_waited_for_and_its_task_is_given_no_other_one() {
    let mut desk = training_as(growing(3, 2, 3));
    desk.input(leaves(1));
    let outputs = desk.input(TrackerInput::ExecutorGone { executor: "exec-2".into(), reason: "it exited".into() });
    assert_eq!(resized(outputs), None, "the others may be further than is known");
    assert_eq!(resized(&desk.stands(1, vec![stands(0, 0, at(4))], vec![checkpoint(4)])), None);
    let outputs = desk.stands(3, vec![stands(2, 0, at(3))], vec![checkpoint(3)]);
    let (ranks, reason) = resized(&outputs).expect("a world without it");
    assert_eq!(ranks, [Some(0), None, Some(1)]);
    assert!(reason.contains("rank 1 is gone, and no replacement is waited for"), "{reason}");
    // Below the minimum it is waited for.
    goes_on(&mut desk, &[0, 2], &[checkpoint(3)]);
    desk.input(leaves(2));
    let outputs = desk.input(TrackerInput::ExecutorGone { executor: "exec-3".into(), reason: "it exited".into() });
    assert_eq!(resized(outputs), None);
    desk.register(2);
    assert_eq!(takes_part(&mut desk, 1, 1).0, 1);
}

#[test]
fn a_rank_whose_slot_is_gone_is_not_waited_for_either_if_its_death_is_heard_before_that() {
    let mut desk = training_as(growing(3, 2, 3));
    desk.input(TrackerInput::ExecutorGone { executor: "exec-2".into(), reason: "it exited".into() });
    assert_eq!(resized(&desk.stands(1, vec![stands(0, 0, at(4))], vec![checkpoint(4)])), None);
    assert_eq!(resized(&desk.stands(3, vec![stands(2, 0, at(3))], vec![checkpoint(3)])), None);
    assert_eq!(resized(desk.input(leaves(7))), None, "it had no rank");
    let (ranks, _) = resized(desk.input(leaves(1))).expect("a world without it");
    assert_eq!(ranks, [Some(0), None, Some(1)]);
}

#[test]
fn a_task_that_stands_by_and_leaves_is_not_taken_in() {
    let mut desk = joined_by(4, &[2]);
    desk.input(leaves(2));
    assert_eq!(resized(&finishes_before(&mut desk, 4)), None);
}

#[test]
fn a_rank_that_comes_back_takes_its_place_and_the_world_does_not_grow_for_it() {
    let mut desk = training_as(growing(2, 1, 4));
    desk.input(TrackerInput::ExecutorGone { executor: "exec-2".into(), reason: "it exited".into() });
    desk.register(2);
    assert_eq!(takes_part(&mut desk, 1, 1).0, 1);
    assert_eq!(resized(&desk.pass_alive(1000, &[1, 2])), None);
}

#[test]
fn a_task_whose_rank_is_gone_comes_back_into_a_world_that_grows() {
    let mut desk = training_as(growing(3, 2, 3));
    dies(&mut desk, 1, &[(0, 0), (2, 0)]);
    desk.pass_alive(TIMEOUT + 200, &[1, 3]);
    let (ranks, _) = goes_on(&mut desk, &[0, 2], &[checkpoint(3)]);
    desk.register(2);
    assert_eq!(given(&asks(&mut desk, 1, 1), 2), []);
    desk.pass_alive(INTERVAL, &[1, 2, 3]);
    let mut outputs = Vec::new();
    for version in [3, 4] {
        for (link, member) in [1, 3].into_iter().zip(&ranks) {
            outputs = enters_in(&mut desk, link, *member, 1, version);
        }
    }
    assert_eq!(resized(&outputs).map(|(ranks, _)| ranks), Some(vec![Some(0), Some(1)]));
    assert_eq!(given(&outputs, 2)[0].1, 2, "it comes behind those that stayed");
}

#[test]
fn a_rank_that_comes_begins_without_an_own_model_and_the_others_with_theirs() {
    let mut desk = joined_by(3, &[2]);
    let outputs = finishes_before(&mut desk, 4);
    assert!(resized(&outputs).is_some());
    desk.joins(3, 2, attempt(given(&outputs, 3)[0].2));
    let ranks = [0, 1].map(|task| takes_part(&mut desk, task, 0));
    let own = |rank: u32| Checkpoint { owner: Some(Rank(rank)), ..checkpoint(4) };
    let common = Checkpoint { has_own: true, ..checkpoint(4) };
    for (link, (rank, incarnation)) in [1, 2].into_iter().zip(ranks) {
        let held = vec![common, own(rank)];
        desk.stands(link, vec![stands(rank, incarnation, RankState::Fresh)], held);
    }
    let incarnation = ranks[0].1;
    let outputs = desk.stands(3, vec![stands(2, incarnation, RankState::Fresh)], Vec::new());
    let plan = plan(&outputs, 3).expect("a plan");
    let told = plan.newcomers.iter().map(|newcomer| {
        let former = newcomer.former.as_ref().expect("another world made it");
        (newcomer.own, former.rank, former.world, former.given.len())
    });
    let expected = [(Some(own(0)), Some(Rank(0)), 2, 0), (Some(own(1)), Some(Rank(1)), 2, 0), (None, None, 2, 0)];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

/// A world of two that has become one of three, which all have joined but rank 0, who computes.
fn but_for_rank_0() -> Desk {
    let mut desk = joined_by(3, &[2]);
    let outputs = finishes_before(&mut desk, 4);
    assert!(resized(&outputs).is_some());
    desk.joins(3, 2, attempt(given(&outputs, 3)[0].2));
    takes_part(&mut desk, 1, 0);
    desk
}

#[test]
fn ranks_that_compute_for_longer_than_members_are_waited_for_are_not_missing() {
    let mut desk = but_for_rank_0();
    // Rank 0 makes its next call late, and learns of the larger world then.
    let limit = growing(2, 2, 3).timing.members_millis;
    assert_eq!(failure(&desk.pass_alive(limit + 1000, &[1, 2, 3])), None);
    assert_eq!(takes_part(&mut desk, 0, 0).0, 0);
    assert_eq!(failure(&desk.outputs), None);
    // The others have waited for it; for their start they wait from now on.
    assert_eq!(failure(&desk.pass_alive(limit - 1000, &[1, 2, 3])), None);
}

#[test]
fn a_rank_that_dies_while_another_computes_for_long_is_waited_for_as_any_that_is_missing() {
    let mut desk = but_for_rank_0();
    let limit = growing(2, 2, 3).timing.members_millis;
    // Rank 0 computes all the time.
    assert_eq!(failure(&desk.pass_alive(limit + 1000, &[1, 2, 3])), None);
    dies(&mut desk, 1, &[]);
    assert_eq!(failure(&desk.outputs), None);
    assert_eq!(failure(&desk.pass_alive(limit / 2, &[1, 3])), None);
}

#[test]
fn a_task_that_dies_before_it_has_joined_the_new_world_is_missing_from_then_on() {
    let mut desk = but_for_rank_0();
    // Rank 0 computes, and its process dies as it does.
    assert_eq!(resized(&desk.pass_alive(TIMEOUT - 1000, &[1, 2, 3])), None);
    dies(&mut desk, 0, &[]);
    let waits = desk.pass_alive(TIMEOUT - 1000, &[2, 3]);
    assert_eq!((resized(&waits), failure(&waits)), (None, None), "it may come back");
    let (_, reason) = resized(&desk.pass_alive(2000, &[2, 3])).expect("a smaller world");
    assert!(reason.contains("no replacement of rank 0 came"), "{reason}");
    assert!(reason.contains("its task is gone"), "{reason}");
}

#[test]
fn a_tracker_that_comes_back_finds_the_larger_world_and_tells_a_rank_of_the_smaller_one() {
    let mut desk = Desk::with(TrackerConfig { epoch: 2, ..growing(2, 2, 4) });
    let smaller = former(4, &[Some(0), Some(0)], &[]);
    let larger = former(9, &[Some(2), Some(2), Some(2)], &[3]);
    let position = |rank, incarnation, lineage| {
        let at = Position { lineage: Lineage(lineage), version: Version(3) };
        stands(rank, incarnation, RankState::At(at))
    };
    // Its RESIZED was lost with the tracker.
    returns(&mut desk, 1, (1, 0), &smaller, vec![position(1, 0, 0)]);
    for (task, rank) in [(0, 0), (2, 2)] {
        returns(&mut desk, task, (rank, 1), &larger, vec![position(rank, 2, 1)]);
    }
    let outputs = desk.pass_alive(1500, &[1, 2, 3]);
    let view = view(&outputs, 1);
    assert_eq!((view.world(), view.lineage), (3, Lineage(1)));
    let outputs = desk.stands(2, vec![position(1, 0, 0)], Vec::new());
    assert_eq!(fenced(&outputs, 2), [(1, 0, Code::Resized)]);
    assert_eq!(takes_part(&mut desk, 1, 0).0, 1);
}

#[test]
fn a_larger_world_that_only_its_joiner_had_heard_of_is_forgotten_with_the_tracker_and_the_joiner_stands_by() {
    let mut desk = Desk::with(TrackerConfig { epoch: 2, ..growing(2, 2, 4) });
    let smaller = former(4, &[Some(0), Some(0)], &[]);
    let larger = former(5, &[Some(1), Some(1), Some(1)], &[]);
    for task in 0..2 {
        returns(&mut desk, task, (task, 0), &smaller, vec![stands(task, 0, at(3))]);
    }
    let outputs = returns(&mut desk, 2, (2, 2), &larger, Vec::new());
    assert_eq!(view(&outputs, 3).world(), 2);
    assert_eq!(refusal(&desk.joins(3, 2, attempt(2)), 3), Some(Code::Resized));
    assert_eq!(given(&asks(&mut desk, 2, 0), 3), []);
    for agent in 1..=2 {
        desk.stands(agent, vec![stands(agent as u32 - 1, 0, at(3))], vec![checkpoint(3)]);
    }
    desk.pass_alive(INTERVAL, &[1, 2, 3]);
    let outputs = finishes_before(&mut desk, 4);
    assert_eq!(view(&outputs, 3).world(), 3);
    // The same rank again, which is told from what the forgotten world gave it.
    let [(2, 2, its)] = given(&outputs, 3)[..] else { panic!("task 2 is given {outputs:?}") };
    assert_eq!(refusal(&desk.joins(3, 2, attempt(its)), 3), None);
}

#[test]
fn a_fixed_world_never_grows() {
    let mut desk = Desk::with(TrackerConfig { spares: 1, ..config(2) });
    for task in 0..2 {
        desk.register(u64::from(task) + 1);
        takes_part(&mut desk, task, 0);
    }
    for rank in 0..2 {
        desk.stands(u64::from(rank) + 1, vec![stands(rank, 0, RankState::Fresh)], Vec::new());
    }
    desk.register(3);
    asks(&mut desk, 2, 0);
    desk.pass_alive(1000, &[1, 2, 3]);
    for version in 0..=3 {
        assert_eq!(resized(&finishes_before(&mut desk, version)), None);
    }
}
