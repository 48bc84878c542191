//! Views and plans: nothing is finished between a status report and its plan, and all derive the same from the table.

use crate::collective_support;
use crate::support;

use collective_support::*;
use rejoin_protocol::collective::{Next, ParticipantOutput, RankPlan};
use rejoin_protocol::former::FormerWorlds;
use rejoin_protocol::ids::{AgentId, Lineage, Phase, Rank};
use rejoin_protocol::message::RankState;
use rejoin_protocol::view::{AgentAddress, SlotState, View, ViewSlot};

#[test]
fn between_a_standing_and_its_plan_nothing_is_finished_and_the_call_runs_again_under_the_new_attempt() {
    let mut desk = running();
    makes(&mut desk, &sum(1), "one");
    desk.begin(&sum(2), None).unwrap();
    assert_eq!(desk.proceed(), Ok(Next::Run(generation(1))));
    assert_eq!(desk.pause(generation(2)), [extent(Phase::Boot, 0, false), extent(version(0), 1, false)]);
    assert!(!desk.finish(generation(1), "too late"));
    waits(&mut desk);
    desk.plan(plan(2, &[(version(0), 1, false)]));
    assert!(!desk.finish(generation(1), "of a generation that is over"));
    assert_eq!(desk.proceed(), Ok(Next::Run(generation(2))));
    assert!(desk.finish(generation(2), "two"));
    assert_eq!(desk.log().entry(version(0), 1).unwrap().result, "two");
}

#[test]
fn a_call_in_flight_that_somebody_living_has_finished_is_fetched_and_not_run_again() {
    let mut desk = running();
    desk.begin(&sum(2), None).unwrap();
    desk.pause(generation(2));
    desk.plan(plan(2, &[(version(0), 1, false)]));
    let fetches = fetches(&drain(&mut desk));
    assert_eq!(fetches.len(), 1);
    assert_eq!((fetches[0].phase, fetches[0].from, fetches[0].to), (version(0), 0, 1));
    waits(&mut desk);
    desk.fetched(generation(2), version(0), 0, entry(&sum(2), "two")).unwrap();
    assert_eq!(desk.proceed(), Ok(Next::Replayed("two")));
}

#[test]
fn what_is_fetched_under_an_older_plan_does_not_count_once_a_newer_view_was_answered() {
    let mut desk = running();
    desk.pause(generation(2));
    desk.plan(plan(2, &[(version(0), 1, false)]));
    desk.begin(&sum(2), None).unwrap();
    desk.pause(generation(3));
    desk.fetched(generation(2), version(0), 0, entry(&sum(2), "two")).unwrap();
    // Its only holder has died, so no survivor had finished it when all were asked: all run it, this rank too.
    desk.plan(plan(3, &[(version(0), 0, false)]));
    desk.fetched(generation(2), version(0), 0, entry(&sum(2), "two")).unwrap();
    assert_eq!(desk.proceed(), Ok(Next::Run(generation(3))));
}

#[test]
fn the_same_view_again_freezes_nobody_who_has_its_plan() {
    let mut desk = running();
    desk.pause(generation(1));
    desk.begin(&sum(2), None).unwrap();
    assert_eq!(desk.proceed(), Ok(Next::Run(generation(1))));
    desk.plan(plan(1, &[]));
    assert!(desk.finish(generation(1), "two"));
}

#[test]
fn a_plan_that_is_older_than_the_answered_view_is_void() {
    let mut desk = running();
    desk.pause(generation(3));
    desk.plan(plan(2, &[]));
    desk.begin(&sum(2), None).unwrap();
    waits(&mut desk);
}

#[test]
fn a_newcomer_fetches_boot_and_all_versions_from_its_start_on_ahead_of_being_asked() {
    let mut desk = started(4);
    desk.plan(plan(
        2,
        &[(Phase::Boot, 1, false), (version(3), 9, true), (version(4), 2, true), (version(5), 1, false)],
    ));
    let wanted: Vec<_> = fetches(&drain(&mut desk)).into_iter().map(|f| (f.phase, f.from, f.to)).collect();
    assert_eq!(wanted, [(Phase::Boot, 0, 1), (version(4), 0, 2), (version(5), 0, 1)]);
}

#[test]
fn a_call_that_waits_is_told_when_views_plans_and_results_come() {
    let mut desk = running();
    desk.pause(generation(2));
    assert_eq!(drain(&mut desk), [ParticipantOutput::Changed]);
    desk.plan(plan(2, &[(version(0), 1, false)]));
    assert!(drain(&mut desk).contains(&ParticipantOutput::Changed));
    desk.fetched(generation(2), version(0), 0, entry(&sum(2), "two")).unwrap();
    assert_eq!(drain(&mut desk), [ParticipantOutput::Changed]);
}

fn address(agent: u64, host: &str) -> AgentAddress {
    AgentAddress { agent: AgentId(agent), address: ([127, 0, 0, 1], agent as u16).into(), host: host.into() }
}

#[test]
fn a_plan_derived_from_the_table_knows_how_far_each_phase_is_and_who_has_it_nearest_first() {
    let slot = |agent: Option<u64>| ViewSlot {
        incarnation: agent.map(|_| Default::default()),
        state: agent.map_or(SlotState::Vacant, |agent| SlotState::Alive { agent: AgentId(agent) }),
        planned: true,
    };
    let view = View {
        generation: generation(2),
        branches: Vec::new(),
        former: FormerWorlds::default(),
        has_begun: true,
        highest: None,
        fingerprint: None,
        hooked: None,
        lineage: Lineage(0),
        slots: vec![slot(Some(1)), slot(Some(2)), slot(Some(3)), slot(None)],
        agents: vec![address(1, "a"), address(2, "b"), address(3, "b")],
    };
    let stands =
        |rank, results| rejoin_protocol::message::RankStatus { results, ..support::stands(rank, 0, support::at(1)) };
    let table = vec![
        stands(0, vec![extent(version(0), 5, true), extent(version(1), 2, false)]),
        stands(1, vec![extent(version(0), 4, false)]),
        stands(2, vec![extent(version(0), 3, false)]),
        stands(3, vec![extent(version(0), 9, true)]), // has died since
        support::stands(1, 0, RankState::Fresh),
    ];
    let whole = whole_plan(2, table);
    let plan = RankPlan::derive(&whole, &view, AgentId(3), "b");
    let phase = plan.phase(version(0)).unwrap();
    assert_eq!((phase.finished, phase.ended), (5, true));
    let holders: Vec<_> = phase.holders.iter().map(|(at, finished)| (at.agent.0, *finished)).collect();
    assert_eq!(holders, [(3, 3), (2, 4), (1, 5)]);
    assert_eq!(plan.phase(version(1)).unwrap().finished, 2);
    assert_eq!(plan.vacant, [Rank(3)], "no rank sends to a dead one");
}

#[test]
fn ranks_with_collectives_get_a_plan_for_every_view_and_others_only_with_newcomers() {
    for collectives in [true, false] {
        let mut desk = support::Desk::trained_to(3, 1);
        desk.leaves(1, 0, 0, None);
        let stands = |rank| {
            let results = if collectives { vec![extent(version(1), 2, false)] } else { Vec::new() };
            rejoin_protocol::message::RankStatus { results, ..support::stands(rank, 0, support::at(1)) }
        };
        desk.stands(1, Vec::new(), Vec::new());
        desk.stands(2, vec![stands(1)], Vec::new());
        let outputs = desk.stands(3, vec![stands(2)], Vec::new());
        let plan = support::plan(&outputs, 2);
        assert_eq!(plan.is_some(), collectives);
        if let Some(plan) = plan {
            assert!(plan.newcomers.is_empty());
            let reported: Vec<_> = plan.table.iter().map(|status| (status.rank.0, status.results.clone())).collect();
            let results = vec![extent(version(1), 2, false)];
            assert_eq!(reported, [(1, results.clone()), (2, results)]);
        }
    }
}
