//! An elastic job at the tracker: a rank that is not replaced, and what becomes of the others.

use crate::support;

use rejoin_protocol::error::Code;
use rejoin_protocol::former::{Former, Given};
use rejoin_protocol::ids::AgentId;
use rejoin_protocol::ids::{Checkpoint, Incarnation, Lineage, MemberId, Millis, Position, Rank, Version};
use rejoin_protocol::message::Newcomer;
use rejoin_protocol::message::{AgentMessage, RankState, TrackerMessage};
use rejoin_protocol::report::Report;
use rejoin_protocol::resize::Elastic;
use rejoin_protocol::tracker::TrackerOutput;
use rejoin_protocol::tracker::{Tracker, TrackerConfig, TrackerInput};
use support::elastic::*;
use support::takeover::former;
use support::*;

#[test]
fn a_rank_without_a_replacement_is_waited_for_and_then_the_others_begin_again_without_it() {
    let mut desk = training(4, 2);
    dies(&mut desk, 1, &[(0, 0), (2, 0), (3, 0)]);
    let alive = [1, 3, 4];
    assert_eq!(resized(&desk.pass_alive(TIMEOUT - 200, &alive)), None);
    let outputs = desk.pass_alive(300, &alive);
    let (ranks, reason) = resized(&outputs).expect("a smaller world");
    assert_eq!(ranks, [Some(0), None, Some(1), Some(2)]);
    assert!(reason.contains("no replacement of rank 1 came within 2 s") && reason.contains("it exited"), "{reason}");
    assert_eq!(fenced(&outputs, 4), [(3, 0, Code::Resized)]);
    assert_eq!(view(&outputs, 4).world(), 3);

    let (ranks, last) = goes_on(&mut desk, &[0, 2, 3], &[checkpoint(3)]);
    assert_eq!(ranks.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(), [0, 1, 2], "in order, without gaps");
    let plan = plan(&last, 1).expect("a plan");
    assert_eq!(plan.lineage, Lineage(1));
    assert_eq!(plan.newcomers.len(), 3);
    assert!(plan.newcomers.iter().all(|newcomer| newcomer.version == Version(3)), "{plan:?}");
}

#[test]
fn the_world_shrinks_when_the_time_for_a_replacement_is_over_and_not_a_heartbeat_later() {
    let mut desk = training(4, 2);
    desk.pass_alive(130, &[1, 2, 3, 4]);
    let died = desk.now;
    dies(&mut desk, 1, &[(0, 0), (2, 0), (3, 0)]);
    let outputs = desk.pass_alive(TIMEOUT - 1, &[1, 3, 4]);
    assert_eq!((resized(&outputs), desk.tracker.wake_at()), (None, Some(Millis(died + TIMEOUT))));
    // Nothing but the time is heard.
    assert!(resized(&desk.pass(1)).is_some());
}

#[test]
fn a_survivor_is_told_which_rank_of_which_world_it_is_and_what_to_do() {
    let mut desk = training(3, 2);
    dies(&mut desk, 0, &[(1, 0), (2, 0)]);
    let outputs = desk.pass_alive(TIMEOUT + 200, &[2, 3]);
    let text = sent(&outputs, 3).into_iter().find_map(|message| match message {
        TrackerMessage::Fenced { error, .. } => Some(error.message.clone()),
        _ => None,
    });
    let text = text.expect("rank 2 is sent back");
    assert!(text.starts_with("rank 2 of 3 is rank 1 of 2 from now on") && text.contains("join again"), "{text}");
}

#[test]
fn a_replacement_that_comes_in_time_is_the_same_rank_in_the_same_world() {
    let mut desk = training(3, 2);
    dies(&mut desk, 1, &[(0, 0), (2, 0)]);
    desk.pass_alive(TIMEOUT - 200, &[1, 3]);
    desk.register(2);
    assert_eq!(takes_part(&mut desk, 1, 1), (1, 1));
    assert_eq!(resized(&desk.pass_alive(TIMEOUT, &[1, 2, 3])), None);
}

#[test]
fn a_replacement_that_comes_in_the_last_moment_goes_before_a_smaller_world() {
    let mut desk = training(3, 2);
    dies(&mut desk, 1, &[(0, 0), (2, 0)]);
    desk.pass_alive(TIMEOUT - 100, &[1, 3]);
    desk.register(2);
    desk.now += 150;
    let outputs = asks(&mut desk, 1, 1);
    assert_eq!((resized(&outputs), given(&outputs, 2).len()), (None, 1));
}

#[test]
fn nothing_of_an_old_worlds_incarnation_is_heard() {
    let mut desk = training(3, 2);
    dies(&mut desk, 0, &[(1, 0), (2, 0)]);
    desk.pass_alive(TIMEOUT + 200, &[2, 3]);
    let (ranks, _) = goes_on(&mut desk, &[1, 2], &[checkpoint(3)]);
    // Rank 1 of the world of three is task 1's, and so is rank 0 of that of two: task 2 has rank 1 now.
    assert_eq!(ranks, [(0, 2), (1, 2)], "no incarnation of the old world has a number as high");
    let member = MemberId { rank: Rank(1), incarnation: Incarnation::nth(0) };
    let report = Report::Finished { rounds: 9, digest: 9 };
    for link in [2, 3] {
        assert_eq!(desk.says(link, AgentMessage::Report { member, report: report.clone() }), []);
    }
    let outputs = desk.stands(3, vec![stands(1, 0, at(4))], Vec::new());
    assert!(fenced(&outputs, 3).contains(&(1, 0, Code::Resized)), "{outputs:?}");
}

#[test]
fn a_join_as_what_was_given_in_an_old_world_is_refused_as_resized() {
    let mut desk = training(3, 2);
    dies(&mut desk, 0, &[(1, 0), (2, 0)]);
    desk.pass_alive(TIMEOUT + 200, &[2, 3]);
    assert_eq!(refusal(&desk.joins(3, 2, attempt(0)), 3), Some(Code::Resized), "there is no rank 2 any more");
    assert_eq!(refusal(&desk.joins(2, 1, attempt(0)), 2), Some(Code::Resized));
}

#[test]
fn a_join_as_a_rank_that_a_lost_task_was_given_in_a_larger_world_is_fenced() {
    let mut desk = training(3, 2);
    dies(&mut desk, 2, &[(0, 0), (1, 0)]);
    desk.register(3);
    let [(_, 2, its)] = given(&asks(&mut desk, 2, 1), 3)[..] else { panic!("rank 2 is open") };
    // It freezes before it joins as what it was given.
    desk.pass_alive(TIMING.lost_after_millis + TIMEOUT + 400, &[1, 2]);
    assert_eq!(refusal(&desk.joins(3, 2, attempt(its)), 3), Some(Code::Fenced));
}

#[test]
fn a_task_of_the_old_world_that_wakes_late_is_fenced_and_stands_by() {
    let mut desk = training(3, 2);
    dies(&mut desk, 1, &[(0, 0), (2, 0)]);
    desk.pass_alive(TIMEOUT + 200, &[1, 3]);
    goes_on(&mut desk, &[0, 2], &[checkpoint(3)]);
    let outputs = desk.register_as(2, 2, vec![stands(1, 0, at(4))], Vec::new());
    assert_eq!(fenced(&outputs, 2), [(1, 0, Code::Fenced)]);
    let outputs = asks(&mut desk, 1, 1);
    assert_eq!(given(&outputs, 2), [], "both ranks are taken");
}

#[test]
fn a_death_during_a_resize_and_one_after_it_shrink_the_world_again() {
    let mut desk = training(4, 2);
    dies(&mut desk, 0, &[(1, 0), (2, 0), (3, 0)]);
    desk.pass_alive(TIMEOUT + 200, &[2, 3, 4]);
    // Task 1 dies before it has joined again, and task 2 after that.
    desk.input(TrackerInput::ExecutorGone { executor: "exec-2".into(), reason: "it exited".into() });
    let joined: Vec<(u32, u32)> = [2, 3].iter().map(|task| takes_part(&mut desk, *task, 0)).collect();
    assert_eq!(joined, [(1, 2), (2, 2)]);
    let outputs = desk.pass_alive(TIMEOUT + 200, &[3, 4]);
    assert_eq!(resized(&outputs).map(|(ranks, _)| ranks), Some(vec![None, Some(0), Some(1)]));
    assert_eq!(fenced(&outputs, 4), [(2, 2, Code::Resized)]);
    let (ranks, last) = goes_on(&mut desk, &[2, 3], &[checkpoint(3)]);
    assert_eq!(ranks, [(0, 4), (1, 4)]);
    let plan = plan(&last, 3).expect("a plan");
    assert_eq!(plan.newcomers.iter().map(|newcomer| newcomer.version.0).collect::<Vec<_>>(), [3, 3]);
}

#[test]
fn below_its_minimum_a_world_waits_and_then_ends_with_who_was_missing() {
    let mut desk = training(3, 2);
    dies(&mut desk, 1, &[(0, 0)]);
    dies(&mut desk, 2, &[(0, 0)]);
    let outputs = desk.pass_alive(TIMING.members_millis - 200, &[1]);
    assert_eq!((resized(&outputs), failure(&outputs)), (None, None));
    let outputs = desk.pass_alive(400, &[1]);
    let error = failure(&outputs).expect("an end");
    assert_eq!(error.code, Code::MembersMissing);
    for text in ["rank 1 is missing since 60 s", "rank 2 is missing", "doesn't go below 2 ranks, and 1 were there"] {
        assert!(error.message.contains(text), "{error}");
    }
}

/// Three ranks with own models, of which the one in the middle is gone for good: what the plan of the
/// smaller world says, or how the job ends. Its model is held by agents as `copies` says.
fn shrinks_with_own(config: TrackerConfig, copies: &[u32]) -> Vec<TrackerOutput> {
    let mut desk = training_as(config);
    dies(&mut desk, 1, &[]);
    let held = |rank: u32| {
        let of_the_dead = copies.contains(&rank).then(|| own(3, 1));
        [Checkpoint { has_own: true, ..checkpoint(3) }, own(3, rank)].into_iter().chain(of_the_dead).collect::<Vec<_>>()
    };
    for rank in [0, 2] {
        desk.stands(u64::from(rank) + 1, vec![stands(rank, 0, at(3))], held(rank));
    }
    let outputs = desk.pass_alive(TIMEOUT + 200, &[1, 3]);
    assert_eq!(resized(&outputs).map(|(ranks, _)| ranks), Some(vec![Some(0), None, Some(1)]));
    let ranks = [0, 2].map(|task| takes_part(&mut desk, task, 0));
    let mut last = Vec::new();
    for (task, (rank, incarnation)) in [0, 2].into_iter().zip(ranks) {
        last = desk.stands(u64::from(task) + 1, vec![stands(rank, incarnation, RankState::Fresh)], held(task));
    }
    last
}

fn own(version: u32, rank: u32) -> Checkpoint {
    Checkpoint { owner: Some(Rank(rank)), digest: u128::from(100 + rank), ..checkpoint(version) }
}

#[test]
fn the_own_model_of_a_rank_that_is_gone_is_given_to_the_next_one() {
    let outputs = shrinks_with_own(elastic(3, 2), &[0, 2]);
    let plan = plan(&outputs, 3).expect("a plan");
    let [zero, one] = &plan.newcomers[..] else { panic!("{plan:?}") };
    assert_eq!((zero.own, one.own), (Some(own(3, 0)), Some(own(3, 2))), "each keeps its own");
    let former = |newcomer: &Newcomer| *newcomer.former.clone().expect("another world made it");
    assert_eq!(former(zero), Former { world: 3, rank: Some(Rank(0)), given: Vec::new() });
    let given = vec![Given { rank: Rank(1), own: Some(own(3, 1)), holders: vec![AgentId(1), AgentId(3)] }];
    assert_eq!(former(one), Former { world: 3, rank: Some(Rank(2)), given });
}

#[test]
fn an_own_model_of_which_no_copy_lives_ends_the_job_with_whose_it_was() {
    let outputs = shrinks_with_own(elastic(3, 2), &[]);
    let error = failure(&outputs).expect("an end");
    assert_eq!(error.code, Code::Unrecoverable);
    let whose = "the own model of rank 1 in the world of 3 ranks that made it as of version 3 is lost";
    assert!(error.message.contains(whose), "{error}");
}

#[test]
fn an_own_model_that_may_be_lost_is_given_as_lost() {
    let rules = elastic(3, 2);
    let allowing = rules.elastic.map(|elastic| Elastic { own_may_be_lost: true, ..elastic });
    let outputs = shrinks_with_own(TrackerConfig { elastic: allowing, ..rules }, &[]);
    let plan = plan(&outputs, 3).expect("a plan");
    let given = vec![Given { rank: Rank(1), own: None, holders: Vec::new() }];
    assert_eq!(plan.newcomers[1].former.as_ref().map(|former| former.given.clone()), Some(given));
    assert_eq!(plan.newcomers[1].own, Some(own(3, 2)));
}

#[test]
fn a_fixed_world_never_shrinks() {
    let mut desk = Desk::trained_to(3, 3);
    dies(&mut desk, 1, &[(0, 0), (2, 0)]);
    let outputs = desk.pass_alive(TIMING.members_millis - 200, &[1, 3]);
    assert_eq!((resized(&outputs), failure(&outputs)), (None, None));
}

#[test]
fn a_job_that_has_not_begun_waits_for_all_its_ranks() {
    let mut desk = Desk::with(elastic(3, 2));
    for task in 0..2 {
        desk.register(task + 1);
        takes_part(&mut desk, task as u32, 0);
    }
    assert_eq!(resized(&desk.pass_alive(TIMING.members_millis - 1000, &[1, 2])), None);
}

#[test]
fn bounds_that_cannot_hold_are_refused() {
    let refused = |min, max, timeout_millis| {
        let elastic =
            Elastic { min, max, timeout_millis, interval_millis: INTERVAL, most_resizes: None, own_may_be_lost: false };
        let config = TrackerConfig { elastic: Some(elastic), ..config(3) };
        Tracker::new(config, Millis(0)).expect_err("bounds that can't hold").code
    };
    for (min, max, timeout) in
        [(0, 3, TIMEOUT), (4, 4, TIMEOUT), (2, 2, TIMEOUT), (2, 3, 50), (2, 3, TIMING.members_millis)]
    {
        assert_eq!(refused(min, max, timeout), Code::BadArgument, "{min} {max} {timeout}");
    }
}

#[test]
fn a_tracker_that_comes_back_finds_the_smaller_world_and_hears_no_rank_of_the_larger_one() {
    let mut desk = Desk::with(TrackerConfig { epoch: 2, ..elastic(4, 2) });
    let larger = former(4, &[Some(0), Some(0), Some(0), Some(0)], &[]);
    let smaller = former(9, &[Some(2), Some(2), Some(2)], &[3]);
    let position = |rank, incarnation, lineage| {
        let at = Position { lineage: Lineage(lineage), version: Version(3) };
        stands(rank, incarnation, RankState::At(at))
    };
    // Task 1 was frozen since before the world shrank; it comes first.
    returns(&mut desk, 1, (1, 0), &larger, vec![position(1, 0, 0)]);
    let mut outputs = Vec::new();
    for (task, rank) in [(0, 0), (2, 1), (3, 2)] {
        outputs = returns(&mut desk, task, (rank, 1), &smaller, vec![position(rank, 2, 1)]);
    }
    let view = view(&outputs, 3);
    assert_eq!((view.world(), view.lineage), (3, Lineage(1)));
    assert!(view.slots.iter().all(|slot| slot.planned), "{view:?}");
    outputs = desk.stands(2, vec![position(1, 0, 0)], Vec::new());
    assert_eq!(fenced(&outputs, 2), [(1, 0, Code::Resized)]);
}

#[test]
fn a_rank_of_the_larger_world_is_told_so_when_the_tracker_dies_before_it_could_say_it() {
    let mut desk = training(3, 2);
    dies(&mut desk, 0, &[(1, 0), (2, 0)]);
    let resize = desk.pass_alive(TIMEOUT + 200, &[2, 3]);
    let (smaller, larger) = (view(&resize, 3), former(1, &[Some(0), Some(0), Some(0)], &[]));
    // Task 2 has heard of it all, and task 1 of nothing: it still trains as rank 1, which is task 2's rank now.
    let mut desk = Desk::with(TrackerConfig { epoch: 2, ..elastic(3, 2) });
    returns(&mut desk, 1, (1, 0), &larger, vec![stands(1, 0, at(3))]);
    returns(&mut desk, 2, (1, 1), &smaller, Vec::new());
    desk.pass_alive(1500, &[2, 3]);
    let outputs = desk.stands(2, vec![stands(1, 0, at(3))], vec![checkpoint(3)]);
    assert_eq!(fenced(&outputs, 2), [(1, 0, Code::Resized)]);
    desk.joins(3, 1, attempt(1));
    assert_eq!(takes_part(&mut desk, 1, 0).0, 0);
}

#[test]
fn a_tracker_that_died_before_anyone_heard_of_the_smaller_world_shrinks_it_again() {
    let mut desk = Desk::with(TrackerConfig { epoch: 2, ..elastic(3, 2) });
    let view = former(4, &[Some(0), None, Some(0)], &[]);
    for (task, rank) in [(0, 0), (2, 2)] {
        returns(&mut desk, task, (rank, 0), &view, vec![stands(rank, 0, at(3))]);
    }
    let outputs = desk.pass_alive(1000 + TIMEOUT + 500, &[1, 3]);
    assert_eq!(resized(&outputs).map(|(ranks, _)| ranks), Some(vec![Some(0), None, Some(1)]));
}
