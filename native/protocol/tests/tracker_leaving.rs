//! An elastic job at the tracker: ranks whose tasks' ends are said before, and what becomes of them.

use crate::support;

use rejoin_protocol::error::Code;
use rejoin_protocol::event::Event;
use rejoin_protocol::ids::{Attempt, Checkpoint, Incarnation, MemberId, Position, Rank, Task};
use rejoin_protocol::message::{AgentMessage, Registration, Standing};
use rejoin_protocol::tracker::{TrackerConfig, TrackerInput, TrackerOutput};
use support::elastic::*;
use support::*;

/// The tasks that may end.
fn released(outputs: &[TrackerOutput]) -> Vec<u32> {
    tries_released(outputs).into_iter().map(|(task, _)| task).collect()
}

/// The same with their tries.
fn tries_released(outputs: &[TrackerOutput]) -> Vec<(u32, Attempt)> {
    let released = events(outputs).into_iter().filter_map(|event| match event {
        Event::TaskReleased { index, attempt, .. } => Some((index.0, *attempt)),
        _ => None,
    });
    released.collect()
}

/// All of a world of so many finish the version before this one: the last outputs.
fn all_enter(desk: &mut Desk, world: u32, version: u32) -> Vec<TrackerOutput> {
    (0..world).map(|rank| desk.enters(rank, 0, version)).last().unwrap_or_default()
}

#[test]
fn ranks_that_leave_are_given_up_when_the_version_is_finished_and_end_when_the_others_have_begun() {
    let mut desk = training_as(growing(4, 2, 4));
    assert_eq!([1, 3].map(|task| released(desk.input(leaves(task)))), [vec![], vec![]]);
    let outputs = all_enter(&mut desk, 4, 4);
    let (ranks, reason) = resized(&outputs).expect("a world without them");
    assert_eq!(ranks, [Some(0), None, Some(1), None]);
    assert!(reason.starts_with("rank 1 and 3 leaves, so the world of 4 ranks goes on as one of 2"), "{reason}");
    assert_eq!(fenced(&outputs, 2), [(1, 0, Code::Resized)], "it hears that it has no part any more");
    assert_eq!(lost(&outputs), [], "nobody has died");
    // Those that leave ask again, and stand by.
    assert_eq!(given(&asks(&mut desk, 1, 0), 2), []);

    let (members, plans) = goes_on(&mut desk, &[0, 2], &[checkpoint(4)]);
    assert_eq!(released(&plans), [], "those that stay may fetch from them still");
    assert!(plan(&plans, 3).is_none(), "agents without a part are asked, too: they hold what others may need");
    desk.stands(2, Vec::new(), vec![checkpoint(4)]);
    let plans = desk.stands(4, Vec::new(), vec![checkpoint(4)]);
    assert!(plan(&plans, 3).is_some());
    assert_eq!(released(&enters_in(&mut desk, 1, members[0], 1, 4)), []);
    assert_eq!(released(&enters_in(&mut desk, 3, members[1], 1, 4)), [1, 3]);
    // What they do then is nothing to the others.
    let outputs = desk.input(TrackerInput::ExecutorGone { executor: "exec-2".into(), reason: "it exited".into() });
    assert_eq!((lost(outputs), resized(outputs)), (vec![], None));
}

#[test]
fn a_task_that_leaves_and_whose_link_breaks_as_the_world_changes_stands_by_and_is_released_later() {
    let mut desk = training_as(growing(3, 2, 3));
    desk.input(leaves(0));
    let before = view(&desk.register(4), 4);
    for rank in 0..2 {
        desk.enters(rank, 0, 4);
    }
    desk.input(TrackerInput::Closed { link: 1, reason: "connection reset".into() });
    let outputs = desk.enters(2, 0, 4);
    assert_eq!(resized(&outputs).map(|(ranks, _)| ranks), Some(vec![None, Some(0), Some(1)]));
    // Its agent knows nothing of it, and says what it was given: a rank that is another one's now.
    let outputs = returns(&mut desk, 0, (0, 0), &before, vec![stands(0, 0, at(4))]);
    assert_eq!(fenced(&outputs, 1), [(0, 0, Code::Resized)]);
    let ended = |message: &&rejoin_protocol::message::TrackerMessage| format!("{message:?}").contains("StandByEnded");
    assert!(!sent(&outputs, 1).iter().any(ended), "{outputs:?}");
    assert_eq!((given(&outputs, 1), released(&outputs)), (vec![], vec![]));
    assert_eq!(given(&asks(&mut desk, 0, 0), 1), []);
    let (members, _) = goes_on(&mut desk, &[1, 2], &[checkpoint(4)]);
    desk.stands(1, Vec::new(), vec![checkpoint(4)]);
    desk.stands(4, Vec::new(), Vec::new());
    enters_in(&mut desk, 2, members[0], 1, 4);
    assert_eq!(released(&enters_in(&mut desk, 3, members[1], 1, 4)), [0]);
}

#[test]
fn a_task_without_a_rank_that_leaves_may_end_at_once() {
    let mut desk = training_as(growing(2, 2, 4));
    desk.register(3);
    asks(&mut desk, 2, 0);
    assert_eq!(released(desk.input(leaves(2))), [2]);
    assert_eq!(released(desk.input(leaves(3))), [3], "nobody has heard of it");
}

#[test]
fn a_task_without_a_rank_that_holds_what_it_took_under_a_former_tracker_ends_when_others_have_it() {
    let mut desk = training(3, 1);
    dies(&mut desk, 1, &[(0, 0), (2, 0)]);
    let smaller = view(&desk.pass_alive(TIMEOUT + 200, &[1, 3]), 1);
    let own = Checkpoint { owner: Some(Rank(2)), has_own: false, ..checkpoint(3) };
    // The tracker dies before they have asked for ranks of the smaller world.
    let mut desk = Desk::with(TrackerConfig { epoch: 2, ..elastic(3, 1) });
    let comes = |desk: &mut Desk, task: u32| {
        let registration = Registration {
            fingerprint: vec!["terms".into()],
            view: Some(Box::new(smaller.clone())),
            standing: vec![Standing { task: Task(task), attempt: attempt(0), given: None }],
            ..Desk::registration(u64::from(task) + 1, Vec::new(), vec![checkpoint(3), own])
        };
        desk.says(u64::from(task) + 1, AgentMessage::Register(registration)).to_vec()
    };
    comes(&mut desk, 0);
    desk.input(leaves(2));
    comes(&mut desk, 2);
    let outputs = desk.pass_alive(5_000, &[1, 3]);
    assert_eq!((given(&outputs, 1).len(), released(&outputs)), (1, vec![]), "{outputs:?}");
}

#[test]
fn a_release_names_the_try_so_that_it_is_not_taken_for_that_of_a_later_one() {
    let mut desk = training_as(growing(2, 2, 4));
    desk.register(3);
    asks(&mut desk, 2, 0);
    assert_eq!(tries_released(desk.input(leaves(2))), [(2, attempt(0))]);
    // It has a slot again, which goes, too.
    desk.register(4);
    asks(&mut desk, 2, 1);
    assert_eq!(tries_released(desk.input(leaves(2))), [], "that of its former try is said again");
    let goes = TrackerInput::TaskLeaves { task: Task(2), attempt: attempt(1) };
    assert_eq!(tries_released(desk.input(goes)), [(2, attempt(1))]);
    // Of one that nobody has heard of the try is the one that leaves.
    let goes = TrackerInput::TaskLeaves { task: Task(3), attempt: attempt(5) };
    assert_eq!(tries_released(desk.input(goes)), [(3, attempt(5))]);
}

#[test]
fn a_task_that_stands_by_takes_part_in_the_place_of_one_that_leaves_in_one_step() {
    let mut desk = training_as(growing(3, 3, 4));
    desk.input(leaves(1));
    assert_eq!(resized(&all_enter(&mut desk, 3, 4)), None, "the world would be too small");
    desk.register(4);
    asks(&mut desk, 3, 0);
    let outputs = all_enter(&mut desk, 3, 5);
    assert_eq!(resized(&outputs).map(|(ranks, _)| ranks), Some(vec![Some(0), None, Some(1)]));
    assert_eq!(view(&outputs, 1).world(), 3);
    assert_eq!(given(&outputs, 4)[0].1, 2);
}

#[test]
fn a_rank_that_leaves_and_dies_before_the_version_is_finished_is_not_waited_for() {
    let mut desk = training_as(growing(3, 2, 3));
    desk.input(leaves(1));
    desk.input(TrackerInput::ExecutorGone { executor: "exec-2".into(), reason: "it exited".into() });
    desk.stands(1, vec![stands(0, 0, at(3))], vec![checkpoint(3)]);
    let outputs = desk.stands(3, vec![stands(2, 0, at(3))], vec![checkpoint(3)]);
    assert_eq!(resized(&outputs).map(|(ranks, _)| ranks), Some(vec![Some(0), None, Some(1)]));
}

#[test]
fn a_world_whose_ranks_have_state_of_their_own_at_the_tracker_goes_on_with_those_that_leave() {
    let mut desk = training_as(growing(3, 2, 3));
    let member = MemberId { rank: Rank(0), incarnation: Incarnation::nth(0) };
    desk.says(1, AgentMessage::Local { member, at: Position::default(), bytes: vec![1] });
    desk.input(leaves(1));
    let outputs = all_enter(&mut desk, 3, 4);
    assert_eq!((resized(&outputs), failure(&outputs)), (None, None));
}

#[test]
fn a_rank_whose_own_task_leaves_before_it_has_joined_is_given_to_one_that_stands_by() {
    let mut desk = Desk::with(TrackerConfig { epoch: 2, ..growing(2, 2, 3) });
    for task in 0..3 {
        desk.register(u64::from(task) + 1);
        assert_eq!(given(&asks(&mut desk, task, 0), u64::from(task) + 1), [], "the job is being taken over");
    }
    desk.input(leaves(1));
    let outputs = desk.pass_alive(2 * TIMING.lost_after_millis, &[1, 2, 3]);
    assert_eq!((given(&outputs, 1), given(&outputs, 2)), (vec![(0, 0, 0)], vec![]));
    assert_eq!(given(&outputs, 3).first().map(|(task, rank, _)| (*task, *rank)), Some((2, 1)));
}

#[test]
fn a_task_that_left_and_has_a_slot_again_takes_part_although_the_tracker_hears_of_its_former_try_once_more() {
    let mut desk = training_as(growing(2, 1, 2));
    desk.input(leaves(1));
    desk.input(TrackerInput::ExecutorGone { executor: "exec-2".into(), reason: "it exited".into() });
    desk.stands(1, vec![stands(0, 0, at(4))], vec![checkpoint(4)]);
    let (members, _) = goes_on(&mut desk, &[0], &[checkpoint(4)]);
    enters_in(&mut desk, 1, members[0], 1, 4);
    desk.register(2);
    asks(&mut desk, 1, 1);
    // Its launcher has a new connection.
    desk.input(leaves(1));
    desk.pass_alive(INTERVAL, &[1, 2]);
    let outputs = enters_in(&mut desk, 1, members[0], 1, 5);
    assert_eq!(resized(&outputs).map(|(ranks, _)| ranks), Some(vec![Some(0)]), "{outputs:?}");

    let mut desk = Desk::with(TrackerConfig { epoch: 2, ..growing(2, 2, 3) });
    desk.input(leaves(1));
    for (task, its) in [(0, 0), (1, 1)] {
        desk.register(u64::from(task) + 1);
        asks(&mut desk, task, its);
    }
    let outputs = desk.pass_alive(2 * TIMING.lost_after_millis, &[1, 2]);
    assert_eq!([given(&outputs, 1).len(), given(&outputs, 2).len()], [1, 1], "both have a rank");
}

#[test]
fn a_later_launchers_process_of_a_number_that_left_before_it_had_asked_is_a_later_try() {
    let mut desk = training_as(growing(2, 1, 3));
    desk.input(leaves(2));
    let newest = desk.tracker.newest_attempt(Rank(2)).expect("a try that has left is known").task;
    desk.register(3);
    asks(&mut desk, 2, newest + 1);
    desk.pass_alive(INTERVAL, &[1, 2, 3]);
    let outputs = all_enter(&mut desk, 2, 4);
    assert_eq!(resized(&outputs).map(|(ranks, _)| ranks), Some(vec![Some(0), Some(1)]), "{outputs:?}");
}
