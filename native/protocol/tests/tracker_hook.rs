//! Whether training libraries' collectives are taken over is agreed once, by all ranks, for the life of the job.

use crate::support;

use rejoin_protocol::error::Code;
use rejoin_protocol::event::Event;
use rejoin_protocol::hook::{agree, Hook};
use rejoin_protocol::ids::Rank;
use rejoin_protocol::message::{AgentMessage, Plan, RankState, RankStatus, Registration, StatusReport, TrackerMessage};
use rejoin_protocol::tracker::{TrackerConfig, TrackerOutput};
use rejoin_protocol::view::View;
use support::*;

fn impossible() -> Hook {
    Hook::Impossible("libxgboost4j.so has no table of its collective".into())
}

fn fresh(rank: u32, hook: &Hook) -> RankStatus {
    RankStatus { hook: hook.clone(), ..stands(rank, 0, RankState::Fresh) }
}

/// A job whose ranks say this, up to its first plan, and what came with that.
fn begun(said: &[Hook]) -> (Desk, Vec<TrackerOutput>) {
    let mut desk = Desk::new(said.len() as u32);
    for (rank, hook) in (0..).zip(said) {
        desk.register(u64::from(rank) + 1);
        desk.joins_with(u64::from(rank) + 1, rank, attempt(0), hook.clone());
    }
    let mut outputs = Vec::new();
    for (rank, hook) in (0..).zip(said) {
        outputs = desk.stands(u64::from(rank) + 1, vec![fresh(rank, hook)], Vec::new());
    }
    (desk, outputs)
}

fn reported(outputs: &[TrackerOutput]) -> Option<(bool, String)> {
    events(outputs).into_iter().find_map(|event| match event {
        Event::HookAgreed { hooked, reason } => Some((*hooked, reason.clone())),
        _ => None,
    })
}

#[test]
fn a_decision_is_for_it_only_when_everybody_can_and_names_the_first_who_can_not() {
    assert_eq!(agree(&[Hook::Possible, Hook::Possible]), (true, Some("all 2 ranks can".into())));
    let (hooked, reason) = agree(&[Hook::Possible, impossible(), Hook::Unasked]);
    assert!(!hooked);
    assert_eq!(reason.unwrap(), "rank 1 can't: libxgboost4j.so has no table of its collective");
    assert_eq!(agree(&[Hook::Possible, Hook::Unasked]), (false, Some("rank 1 doesn't say that it can".into())));
    assert_eq!(agree(&[Hook::Unasked, Hook::Unasked]), (false, None));
}

#[test]
fn when_all_can_the_first_plan_says_so_and_every_later_view_does() {
    let (mut desk, outputs) = begun(&[Hook::Possible, Hook::Possible]);
    assert_eq!(plan(&outputs, 1).unwrap().hooked, Some(true));
    assert_eq!(reported(&outputs), Some((true, "all 2 ranks can".into())));
    let outputs = desk.leaves(2, 1, 0, None);
    assert_eq!(views(&outputs, 1)[0].hooked, Some(true));
}

#[test]
fn when_one_can_not_nobody_does_and_the_reason_is_told() {
    let (mut desk, outputs) = begun(&[Hook::Possible, impossible()]);
    assert_eq!(plan(&outputs, 1).unwrap().hooked, Some(false));
    let (hooked, reason) = reported(&outputs).unwrap();
    assert!(!hooked && reason.contains("rank 1") && reason.contains("no table"), "{reason}");
    desk.leaves(2, 1, 0, None);
    let outputs = desk.joins_with(2, 1, attempt(1), Hook::Possible);
    assert_eq!(refusal(&outputs, 2), None, "one that could do more does as the others");
}

#[test]
fn where_nobody_is_asked_nothing_is_told() {
    let (_, outputs) = begun(&[Hook::Unasked, Hook::Unasked]);
    assert_eq!(plan(&outputs, 1).unwrap().hooked, Some(false));
    assert_eq!(reported(&outputs), None);
}

#[test]
fn a_later_incarnation_that_can_not_is_refused_with_its_reason_and_one_that_can_is_not() {
    let (mut desk, _) = begun(&[Hook::Possible, Hook::Possible]);
    desk.leaves(2, 1, 0, None);
    let outputs = desk.joins_with(2, 1, attempt(1), impossible());
    let [TrackerMessage::JoinRefused { error, .. }] = sent(&outputs, 2)[..] else { panic!("{outputs:?}") };
    assert_eq!(error.code, Code::Incompatible);
    assert!(error.message.contains("rank 1 can't: libxgboost4j.so has no table"), "{error}");
    assert_eq!(refusal(&desk.joins_with(2, 1, attempt(2), Hook::Unasked), 2), Some(Code::Incompatible));
    assert_eq!(refusal(&desk.joins_with(2, 1, attempt(3), Hook::Possible), 2), None);
    desk.stands(1, vec![RankStatus { hook: Hook::Possible, ..stands(0, 0, at(0)) }], Vec::new());
    let again = RankStatus { attempt: attempt(3), ..fresh(1, &Hook::Possible) };
    let again = RankStatus { incarnation: rejoin_protocol::ids::Incarnation::nth(1), ..again };
    let outputs = desk.stands(2, vec![again], Vec::new());
    assert_eq!(plan(&outputs, 2).unwrap().hooked, Some(true));
    assert_eq!(reported(&outputs), None, "it was agreed before");
}

/// What an agent that knows this of the former life registers with at the next one.
fn comes_back(desk: &mut Desk, agent: u64, view: &View, ranks: Vec<RankStatus>) -> Vec<TrackerOutput> {
    let registration = Registration {
        status: StatusReport { generation: view.generation, ranks, held: Vec::new(), handed_over: Vec::new() },
        fingerprint: view.fingerprint.clone().into_iter().collect(),
        view: Some(Box::new(view.clone())),
        ..Desk::registration(agent, Vec::new(), Vec::new())
    };
    desk.says(agent, AgentMessage::Register(registration)).to_vec()
}

/// The view and the plan that a former life's ranks have last seen.
fn former(said: &[Hook]) -> (View, Plan) {
    let (mut desk, outputs) = begun(said);
    let plan = plan(&outputs, 1).unwrap().clone();
    let outputs = desk.register_as(77, 77, Vec::new(), Vec::new());
    (views(&outputs, 77)[0].clone(), plan)
}

#[test]
fn a_tracker_that_comes_back_learns_what_was_agreed_and_refuses_as_its_former_life_would_have() {
    let (view, _) = former(&[Hook::Possible, Hook::Possible]);
    assert_eq!(view.hooked, Some(true));
    let mut desk = Desk::with(TrackerConfig { epoch: 2, ..config(2) });
    desk.register(2);
    desk.joins_with(2, 1, attempt(1), impossible());
    let outputs = comes_back(&mut desk, 1, &view, vec![RankStatus { hook: Hook::Possible, ..stands(0, 0, at(3)) }]);
    // An agent of the view that has only looked on is waited for.
    let outputs = if refusal(&outputs, 2).is_some() { outputs } else { desk.pass_alive(1100, &[1, 2]) };
    assert_eq!(refusal(&outputs, 2), Some(Code::Incompatible), "{outputs:?}");
    let outputs = desk.joins_with(2, 1, attempt(2), Hook::Possible);
    assert_eq!(refusal(&outputs, 2), None);
    assert_eq!(views(&outputs, 1).last().unwrap().hooked, Some(true));
}

#[test]
fn a_tracker_that_died_before_the_first_plan_is_told_by_the_agents_what_their_ranks_can() {
    let mut desk = Desk::new(2);
    for rank in 0..2 {
        desk.register(u64::from(rank) + 1);
        desk.joins_with(u64::from(rank) + 1, rank, attempt(0), Hook::Possible);
    }
    let outputs = desk.register_as(77, 77, Vec::new(), Vec::new());
    let view = views(&outputs, 77)[0].clone();
    assert_eq!(view.hooked, None);
    let mut desk = Desk::with(TrackerConfig { epoch: 2, ..config(2) });
    comes_back(&mut desk, 1, &view, vec![fresh(0, &Hook::Possible)]);
    comes_back(&mut desk, 2, &view, vec![fresh(1, &Hook::Possible)]);
    desk.stands(1, vec![fresh(0, &Hook::Possible)], Vec::new());
    let outputs = desk.stands(2, vec![fresh(1, &Hook::Possible)], Vec::new());
    assert_eq!(plan(&outputs, 1).unwrap().hooked, Some(true));
    assert!(reported(&outputs).unwrap().0);
    assert_eq!(plan(&outputs, 1).unwrap().newcomers.iter().map(|n| n.rank).collect::<Vec<_>>(), [Rank(0), Rank(1)]);
}
