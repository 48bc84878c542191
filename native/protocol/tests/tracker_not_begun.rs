//! A tracker that comes back knows whether the job had begun: a rank that was never started shows that it hadn't
//! (docs/protocol.md, "Whether the job had begun").

use crate::support;

use rejoin_protocol::error::Code;
use rejoin_protocol::ids::{AgentId, Incarnation, Lineage, Version};
use rejoin_protocol::message::{AgentMessage, Plan, RankState, RankStatus, Registration, StatusReport};
use rejoin_protocol::start::{JobStart, Origin};
use rejoin_protocol::tracker::{TrackerConfig, TrackerInput, TrackerOutput};
use rejoin_protocol::view::View;
use support::takeover::{former, second_life};
use support::*;

/// A rank's only start under life 1.
const FIRST: Incarnation = Incarnation::nth(0);

/// The next one, under life 2.
const AGAIN: Incarnation = in_life(2, 1);

/// The first view of life 1, of which no plan had been followed when it was made.
fn first_view(world: u32) -> View {
    let mut view = former(1, &vec![Some(0); world as usize], &[]);
    view.has_begun = false;
    view.slots.iter_mut().for_each(|slot| slot.planned = false);
    view
}

/// An agent that holds nothing comes back, with this view; it has heard the view's plan, or not.
fn comes_back_empty(desk: &mut Desk, agent: u64, view: &View, has_plan: bool, rank: RankStatus) -> Vec<TrackerOutput> {
    let mut view = view.clone();
    view.slots.iter_mut().for_each(|slot| slot.planned |= has_plan);
    let status =
        StatusReport { generation: view.generation, ranks: vec![rank], held: Vec::new(), handed_over: Vec::new() };
    let registration = Registration {
        status,
        fingerprint: vec!["terms".into()],
        view: Some(Box::new(view)),
        ..Desk::registration(agent, Vec::new(), Vec::new())
    };
    desk.says(agent, AgentMessage::Register(registration)).to_vec()
}

fn dies(desk: &mut Desk, agent: u64) {
    desk.input(TrackerInput::Closed { link: agent, reason: "connection reset".into() });
    desk.input(TrackerInput::Probed { agent: AgentId(agent), gone: true });
}

/// Rank 0 has followed the first plan and is gone, and its next try asks for a slot at agent 3.
fn the_one_that_had_begun_dies(desk: &mut Desk, view: &View) {
    comes_back_empty(desk, 1, view, true, stands(0, 0, at(0)));
    dies(desk, 1);
    desk.register(3);
    desk.joins(3, 0, attempt(1));
}

/// All newcomers of the plan that comes when these agents, which hold nothing, have reported that their ranks wait.
fn all_wait(desk: &mut Desk, ranks: &[(u64, u32, Incarnation)]) -> Result<Plan, Code> {
    let mut outputs = Vec::new();
    for (agent, rank, incarnation) in ranks {
        outputs.extend(desk.stands(*agent, vec![stands(*rank, *incarnation, RankState::Fresh)], Vec::new()));
    }
    match failure(&outputs) {
        Some(error) => Err(error.code),
        None => Ok(plan(&outputs, ranks[0].0).expect("there is a plan").clone()),
    }
}

fn begins_anew(planned: Result<Plan, Code>, newcomers: usize) {
    let plan = planned.expect("nothing was lost");
    assert!(plan.newcomers.iter().all(|newcomer| newcomer.version == Version(0)), "{plan:?}");
    // Nothing is gone back from.
    assert_eq!((plan.newcomers.len(), plan.lineage), (newcomers, Lineage(0)));
}

#[test]
fn a_job_that_one_rank_still_waits_for_its_first_start_of_begins_although_another_one_had_followed_the_plan_and_is_gone(
) {
    let (mut desk, view) = (second_life(2), first_view(2));
    the_one_that_had_begun_dies(&mut desk, &view);
    comes_back_empty(&mut desk, 2, &view, false, stands(1, 0, RankState::Fresh));
    begins_anew(all_wait(&mut desk, &[(3, 0, AGAIN), (2, 1, FIRST)]), 2);
}

#[test]
fn it_makes_no_difference_whether_the_one_that_had_begun_dies_before_or_after_the_job_was_taken_over() {
    let (mut desk, view) = (second_life(2), first_view(2));
    comes_back_empty(&mut desk, 1, &view, true, stands(0, 0, at(0)));
    let outputs = comes_back_empty(&mut desk, 2, &view, false, stands(1, 0, RankState::Fresh));
    assert!(!views(&outputs, 2).is_empty(), "{outputs:?}");
    dies(&mut desk, 1);
    desk.register(3);
    desk.joins(3, 0, attempt(1));
    begins_anew(all_wait(&mut desk, &[(3, 0, AGAIN), (2, 1, FIRST)]), 2);
}

#[test]
fn a_rank_that_was_never_started_has_said_so_for_good_although_it_dies_too() {
    let (mut desk, view) = (second_life(2), first_view(2));
    the_one_that_had_begun_dies(&mut desk, &view);
    comes_back_empty(&mut desk, 2, &view, false, stands(1, 0, RankState::Fresh));
    // Whether the job was taken over by then or not.
    dies(&mut desk, 2);
    desk.register(4);
    desk.joins(4, 1, attempt(1));
    desk.pass_alive(1100, &[3, 4]);
    begins_anew(all_wait(&mut desk, &[(3, 0, AGAIN), (4, 1, AGAIN)]), 2);

    let mut desk = second_life(2);
    comes_back_empty(&mut desk, 2, &view, false, stands(1, 0, RankState::Fresh));
    dies(&mut desk, 2);
    desk.register(4);
    desk.joins(4, 1, attempt(1));
    the_one_that_had_begun_dies(&mut desk, &view);
    desk.pass_alive(1100, &[3, 4]);
    begins_anew(all_wait(&mut desk, &[(3, 0, AGAIN), (4, 1, AGAIN)]), 2);
}

#[test]
fn the_next_life_is_told_that_nothing_had_begun_and_says_the_same() {
    let (mut desk, view) = (second_life(2), first_view(2));
    the_one_that_had_begun_dies(&mut desk, &view);
    let outputs = comes_back_empty(&mut desk, 2, &view, false, stands(1, 0, RankState::Fresh));
    let second = views(&outputs, 2)[0].clone();
    assert!(!second.has_begun, "{second:?}");
    // The new rank 0 follows the plan of the second life and is gone, rank 1 hasn't heard it.
    let mut desk = Desk::with(TrackerConfig { epoch: 3, ..config(2) });
    comes_back_empty(&mut desk, 3, &second, true, stands(0, AGAIN, at(0)));
    dies(&mut desk, 3);
    desk.register(4);
    desk.joins(4, 0, attempt(2));
    comes_back_empty(&mut desk, 2, &second, false, stands(1, 0, RankState::Fresh));
    begins_anew(all_wait(&mut desk, &[(4, 0, in_life(3, 2)), (2, 1, FIRST)]), 2);
}

#[test]
fn a_view_that_is_told_again_after_its_plan_still_says_that_nothing_had_begun_before() {
    let mut desk = Desk::new(1);
    desk.register(1);
    let outputs = desk.joins(1, 0, attempt(0));
    assert!(!views(&outputs, 1)[0].has_begun);
    desk.stands(1, vec![stands(0, 0, RankState::Fresh)], Vec::new());
    let outputs = desk.register(2);
    assert!(!views(&outputs, 2)[0].has_begun && views(&outputs, 2)[0].slots[0].planned, "{outputs:?}");
    // The next view comes after that plan.
    dies(&mut desk, 1);
    assert!(views(&desk.register(3), 3)[0].has_begun);
}

#[test]
fn a_view_that_said_that_the_job_may_have_begun_still_says_so_when_it_is_told_again_after_a_durable_start() {
    let mut desk = second_life(1);
    desk.register(1);
    desk.joins(1, 0, attempt(1));
    let outputs = desk.pass_alive(1100, &[1]);
    assert!(views(&outputs, 1)[0].has_begun, "rank 0 was started before, and how far it was is unknown: {outputs:?}");
    let outputs = desk.stands(1, vec![stands(0, AGAIN, RankState::Fresh)], vec![checkpoint(3)]);
    assert_eq!(plan(&outputs, 1).unwrap().newcomers[0].version, Version(3));
    assert!(views(&desk.register(2), 2)[0].has_begun);
}

#[test]
fn the_first_view_of_a_job_that_is_resumed_says_that_it_has_begun() {
    let origin = Origin { checkpoint: checkpoint(6), lineage: Lineage(1), world: 0 };
    let mut desk = Desk::with(TrackerConfig { start: JobStart::Durable(origin), ..config(1) });
    desk.register(1);
    assert!(views(&desk.joins(1, 0, attempt(0)), 1)[0].has_begun);
}

#[test]
fn after_a_first_plan_a_rank_that_waits_shows_that_nothing_had_begun_only_as_its_first_incarnation() {
    for (incarnation, begins) in [(0, true), (1, false)] {
        let mut desk = second_life(2);
        let mut view = former(3, &[Some(0), Some(incarnation)], &[]);
        view.slots[1].planned = false;
        the_one_that_had_begun_dies(&mut desk, &view);
        comes_back_empty(&mut desk, 2, &view, false, stands(1, incarnation, RankState::Fresh));
        let planned = all_wait(&mut desk, &[(3, 0, AGAIN), (2, 1, Incarnation::nth(incarnation))]);
        match begins {
            true => begins_anew(planned, 2),
            false => {
                assert_eq!(planned.err(), Some(Code::Unrecoverable), "the one before it may have given to results")
            }
        }
    }
}

#[test]
fn a_later_incarnation_that_waits_shows_that_nothing_had_begun_by_its_own_view() {
    let mut desk = Desk::with(TrackerConfig { epoch: 3, ..config(2) });
    let mut first = former(1, &[Some(in_life(2, 0)), Some(in_life(2, 0))], &[]);
    (first.has_begun, first.generation.epoch) = (false, 2);
    first.slots.iter_mut().for_each(|slot| slot.planned = false);
    // Rank 0 came again after the first plan, and rank 1 had heard neither that plan nor the view after it.
    let mut newer = former(2, &[Some(in_life(2, 1)), Some(in_life(2, 0))], &[]);
    newer.generation.epoch = 2;
    comes_back_empty(&mut desk, 2, &first, false, stands(1, in_life(2, 0), RankState::Fresh));
    comes_back_empty(&mut desk, 1, &newer, false, stands(0, in_life(2, 1), RankState::Fresh));
    begins_anew(all_wait(&mut desk, &[(1, 0, in_life(2, 1)), (2, 1, in_life(2, 0))]), 2);
}

#[test]
fn a_rank_that_waits_shows_nothing_when_another_one_was_in_its_place_since() {
    // The newest view has a later incarnation of it.
    let mut desk = second_life(2);
    let mut newer = former(5, &[Some(0), Some(1)], &[]);
    newer.has_begun = false;
    the_one_that_had_begun_dies(&mut desk, &newer);
    let mut outputs = comes_back_empty(&mut desk, 2, &first_view(2), false, stands(1, 0, RankState::Fresh));
    outputs.extend(desk.pass_alive(1100, &[2, 3]));
    assert_eq!(fenced(&outputs, 2), [(1, 0, Code::Fenced)]);
    desk.joins(2, 1, attempt(2));
    assert_eq!(all_wait(&mut desk, &[(3, 0, AGAIN), (2, 1, in_life(2, 2))]).err(), Some(Code::Unrecoverable));

    // Its task is tried for the third time: the second one may have had the slot while the first one was frozen.
    for (task, begins) in [(1, true), (2, false)] {
        let (mut desk, view) = (second_life(2), first_view(2));
        the_one_that_had_begun_dies(&mut desk, &view);
        desk.register(4);
        desk.joins(4, 1, attempt(task));
        comes_back_empty(&mut desk, 2, &view, false, stands(1, 0, RankState::Fresh));
        desk.stands(2, Vec::new(), Vec::new());
        let planned = all_wait(&mut desk, &[(3, 0, AGAIN), (4, 1, in_life(2, task))]);
        match begins {
            true => begins_anew(planned, 2),
            false => assert_eq!(planned.err(), Some(Code::Unrecoverable)),
        }
    }
}

#[test]
fn a_rank_that_waits_hides_nothing_that_another_one_has_entered_without_it() {
    let (mut desk, view) = (second_life(2), first_view(2));
    comes_back_empty(&mut desk, 1, &view, true, stands(0, 0, at(1)));
    dies(&mut desk, 1);
    desk.register(3);
    desk.joins(3, 0, attempt(1));
    comes_back_empty(&mut desk, 2, &view, false, stands(1, 0, RankState::Fresh));
    assert_eq!(all_wait(&mut desk, &[(3, 0, AGAIN), (2, 1, FIRST)]).err(), Some(Code::Unrecoverable));
}
