//! From a view to a plan, and to the end of a recovery.

use crate::support;

use rejoin_protocol::error::Code;
use rejoin_protocol::event::Event;
use rejoin_protocol::ids::{
    AgentId, Checkpoint, Generation, Incarnation, Lineage, MemberId, Millis, Position, Rank, Version, UNMADE,
};
use rejoin_protocol::message::{AgentMessage, RankState, Registration, StatusReport, TrackerMessage, LOCAL_LIMIT};
use rejoin_protocol::start::{JobStart, Origin};
use rejoin_protocol::tracker::{Tracker, TrackerConfig, TrackerInput, TrackerOutput};
use rejoin_protocol::wire::PAYLOAD_LIMIT;
use std::collections::BTreeSet;
use support::*;

fn settled(outputs: &[TrackerOutput]) -> bool {
    sent(outputs, 1).iter().any(|message| matches!(message, TrackerMessage::Settled { .. }))
}

fn of(lineage: u32, version: u32) -> Checkpoint {
    Checkpoint { lineage: Lineage(lineage), ..checkpoint(version) }
}

fn origin() -> Origin {
    Origin { checkpoint: of(1, 5), lineage: Lineage(3), world: 0 }
}

/// The only rank of a job joins at an agent that holds something, and was handed something.
fn begins(start: JobStart, held: Vec<Checkpoint>, handed_over: Vec<Checkpoint>) -> (Desk, Vec<TrackerOutput>) {
    let mut desk = Desk::with(TrackerConfig { start, ..config(1) });
    desk.register(1);
    desk.joins(1, 0, attempt(0));
    let outputs = desk.stands_handed(1, vec![stands(0, 0, RankState::Fresh)], held, handed_over);
    (desk, outputs)
}

#[test]
fn a_job_that_is_resumed_starts_from_the_version_that_was_found_whole_and_from_nothing_newer_or_older() {
    let start = JobStart::Durable(origin());
    // Newer ones of the earlier run, which were not whole, are not on the line.
    let (_, outputs) = begins(start, vec![of(0, 4), of(1, 4), of(1, 5), of(1, 6), of(2, 6)], Vec::new());
    let plan = plan(&outputs, 1).expect("a plan").clone();
    assert_eq!(plan.newcomers[0].checkpoint, Some(of(1, 5)));
    assert_eq!(plan.lineage, Lineage(4), "no checkpoint of the earlier run has the name of a new one");
    // Not from nothing, and not from other bytes of that name.
    for held in [vec![], vec![Checkpoint { digest: 7, ..of(1, 5) }]] {
        let (_, outputs) = begins(start, held, Vec::new());
        let error = failure(&outputs).expect("no start");
        assert_eq!(error.code, Code::Unrecoverable);
        let expected = format!("begin with version 5 (round 5, digest {:032x})", of(1, 5).digest);
        assert!(error.message.contains(&expected) && error.message.contains("durable store"), "{error}");
    }
}

#[test]
fn a_job_begins_with_what_its_agents_are_handed_whatever_its_length_and_not_without() {
    let start = JobStart::HandedOver(Origin { checkpoint: Checkpoint { length: 0, ..of(1, 5) }, ..origin() });
    let (_, outputs) = begins(start, Vec::new(), vec![of(1, 5)]);
    let plan = plan(&outputs, 1).expect("a plan").clone();
    assert_eq!((plan.newcomers[0].checkpoint, plan.lineage), (Some(of(1, 5)), Lineage(4)));
    let (_, outputs) = begins(start, Vec::new(), Vec::new());
    let error = failure(&outputs).expect("no start");
    assert_eq!(error.code, Code::Unrecoverable);
    assert!(error.message.contains("begin with version 5") && error.message.contains("are handed"), "{error}");
}

#[test]
fn what_an_agent_was_handed_and_the_job_does_not_begin_with_ends_it_before_any_rank_starts() {
    let handed_over = JobStart::HandedOver(origin());
    let other = Checkpoint { digest: 7, ..of(1, 5) };
    for (start, handed, begins_so) in [
        (handed_over, other, "with version 5 (round 5, digest 00000000000000000000000000001388)"),
        (handed_over, of(1, 6), "with version 5"),
        (JobStart::Durable(origin()), of(1, 5), "with version 5"),
        (JobStart::Fresh, of(0, 5), "from nothing"),
    ] {
        // Also beside what it does begin with.
        let (_, outputs) = begins(start, Vec::new(), vec![of(1, 5), handed]);
        let error = failure(&outputs).unwrap_or_else(|| panic!("{start:?} with {handed:?}"));
        assert_eq!(error.code, Code::Mismatch, "{error}");
        let seen = format!("executor exec-1 was handed version {}", handed.version);
        assert!(error.message.contains(&seen), "{error}");
        assert!(error.message.contains(&format!("begins {begins_so}")), "{error}");
    }
}

#[test]
fn durable_checkpoints_of_an_earlier_job_of_the_same_id_end_a_job_that_begins_with_what_is_handed_over() {
    let (_, outputs) = begins(JobStart::HandedOver(origin()), vec![of(4, 8)], vec![of(1, 5)]);
    let error = failure(&outputs).expect("no start");
    assert_eq!(error.code, Code::Mismatch, "{error}");
    assert!(error.message.contains("executor exec-1 finds version 8") && error.message.contains("an id"), "{error}");
}

#[test]
fn what_an_agent_is_handed_in_a_job_that_has_begun_does_not_count_and_does_no_harm() {
    let other = Checkpoint { digest: 7, ..of(0, 5) };
    let (mut desk, outputs) = begins(JobStart::HandedOver(origin()), Vec::new(), vec![of(1, 5)]);
    assert!(plan(&outputs, 1).is_some());
    desk.leaves(1, 0, 0, None);
    desk.register(2);
    desk.joins(2, 0, attempt(1));
    assert_eq!(desk.stands_handed(1, Vec::new(), Vec::new(), vec![of(1, 5), other]), []);
    let outputs = desk.stands_handed(2, vec![stands(0, 1, RankState::Fresh)], Vec::new(), vec![of(0, 9)]);
    let plan = plan(&outputs, 2).expect("a plan");
    assert_eq!((plan.newcomers[0].checkpoint, &plan.holders[..]), (Some(of(1, 5)), &[AgentId(1)][..]));
}

#[test]
fn a_job_does_not_begin_with_what_no_earlier_one_can_have_left() {
    let good = Origin { checkpoint: checkpoint(5), lineage: Lineage(1), world: 0 };
    let with = |checkpoint| Origin { checkpoint, ..good };
    for origin in [
        Origin { lineage: Lineage(0), ..good },
        Origin { lineage: Lineage(u32::MAX), ..good },
        with(checkpoint(0)),
        with(Checkpoint { owner: Some(Rank(0)), ..checkpoint(5) }),
        with(Checkpoint { length: UNMADE, ..checkpoint(5) }),
    ] {
        let config = TrackerConfig { start: JobStart::HandedOver(origin), ..config(1) };
        assert_eq!(
            Tracker::new(config, Millis(0)).err().map(|error| error.code),
            Some(Code::BadArgument),
            "{origin:?}"
        );
    }
}

#[test]
fn when_all_are_there_and_all_agents_have_answered_everybody_gets_the_plan() {
    let mut desk = Desk::new(2);
    for rank in 0..2 {
        desk.register(u64::from(rank) + 1);
        desk.joins(u64::from(rank) + 1, rank, attempt(0));
    }
    let outputs = desk.stands(1, vec![stands(0, 0, RankState::Fresh)], Vec::new());
    assert!(plan(&outputs, 1).is_none(), "agent 2 hasn't answered");
    let outputs = desk.stands(2, vec![stands(1, 0, RankState::Fresh)], Vec::new());
    for link in [1, 2] {
        let plan = plan(&outputs, link).unwrap();
        assert_eq!((plan.lineage, plan.newcomers.len()), (Lineage(0), 2));
        assert!(plan.newcomers.iter().all(|n| n.version == Version(0) && n.checkpoint.is_none()));
    }
    assert!(settled(&outputs), "all start together: none is behind");
}

#[test]
fn an_answer_to_an_older_view_does_not_count() {
    let mut desk = Desk::trained_to(2, 3);
    desk.leaves(1, 0, 0, None);
    let old = desk.generation();
    desk.joins(1, 0, attempt(1));
    desk.stands(1, vec![stands(0, 1, RankState::Fresh)], Vec::new());
    let ranks = vec![stands(1, 0, at(3))];
    let held = vec![checkpoint(3)];
    let status = StatusReport { generation: old, ranks: ranks.clone(), held: held.clone(), handed_over: Vec::new() };
    assert_eq!(desk.says(2, AgentMessage::StatusReport(status)), []);
    assert!(plan(&desk.stands(2, ranks, held), 2).is_some());
}

/// Rank 0 died at version 3 and is there again.
fn rejoining() -> Desk {
    let mut desk = Desk::trained_to(3, 3);
    desk.leaves(1, 0, 0, None);
    desk.joins(1, 0, attempt(1));
    desk
}

#[test]
fn a_newcomer_is_told_where_the_lowest_living_rank_is_and_who_holds_it() {
    let mut desk = rejoining();
    desk.stands(1, vec![stands(0, 1, RankState::Fresh)], Vec::new());
    desk.stands(2, vec![stands(1, 0, at(4))], vec![checkpoint(3), checkpoint(4)]);
    let outputs = desk.stands(3, vec![stands(2, 0, at(3))], vec![checkpoint(3)]);
    let plan = plan(&outputs, 1).unwrap();
    let newcomer = &plan.newcomers[0];
    assert_eq!((newcomer.rank, newcomer.incarnation, newcomer.version), (Rank(0), Incarnation::nth(1), Version(3)));
    assert_eq!(newcomer.checkpoint, Some(checkpoint(3)));
    assert_eq!(plan.holders.iter().map(|agent| agent.0).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(plan.table.len(), 3);
    assert!(!settled(&outputs), "rank 0 is behind where it died");
    let reported =
        events(&outputs).into_iter().any(|event| matches!(event, Event::PlanMade { version: Version(3), .. }));
    assert!(reported);
}

#[test]
fn a_recovery_is_over_when_all_are_beyond_where_anybody_may_have_died() {
    let mut desk = rejoining();
    desk.stands(1, vec![stands(0, 1, RankState::Fresh)], Vec::new());
    desk.stands(2, vec![stands(1, 0, at(3))], vec![checkpoint(3)]);
    desk.stands(3, vec![stands(2, 0, at(3))], vec![checkpoint(3)]);
    for version in 4..=6 {
        for rank in 1..3 {
            assert!(!settled(&desk.enters(rank, 0, version)));
        }
        assert!(!settled(&desk.enters(0, 1, version)), "at version {version}: 3 + 2 may have been reached");
        if version == 5 {
            break;
        }
    }
    desk.enters(1, 0, 6);
    desk.enters(2, 0, 6);
    assert!(settled(&desk.enters(0, 1, 6)));
    assert!(!settled(&desk.enters(0, 1, 7)), "it is reported once");
}

#[test]
fn a_further_change_of_membership_makes_the_next_view_and_asks_again() {
    let mut desk = rejoining();
    desk.stands(1, vec![stands(0, 1, RankState::Fresh)], Vec::new());
    desk.stands(2, vec![stands(1, 0, at(3))], vec![checkpoint(3)]);
    let outputs = desk.leaves(3, 2, 0, None);
    assert!(plan(&outputs, 1).is_none());
    assert_eq!(views(&outputs, 1).len(), 1);
    desk.stands(3, Vec::new(), vec![checkpoint(3)]);
    desk.stands(1, vec![stands(0, 1, RankState::Fresh)], Vec::new());
    let outputs = desk.stands(2, vec![stands(1, 0, at(3))], vec![checkpoint(3)]);
    assert_eq!(plan(&outputs, 1).unwrap().newcomers.len(), 1);
}

#[test]
fn an_agent_whose_answer_was_awaited_and_that_dies_is_waited_for_no_longer() {
    let mut desk = rejoining();
    desk.register(4); // it only holds things
    desk.stands(1, vec![stands(0, 1, RankState::Fresh)], Vec::new());
    desk.stands(2, vec![stands(1, 0, at(3))], vec![checkpoint(3)]);
    let outputs = desk.stands(3, vec![stands(2, 0, at(3))], vec![checkpoint(3)]);
    assert!(plan(&outputs, 1).is_none());
    let gone =
        rejoin_protocol::tracker::TrackerInput::ExecutorGone { executor: "exec-4".into(), reason: "gone".into() };
    let outputs = desk.input(gone).to_vec();
    assert!(plan(&outputs, 1).is_some());
}

#[test]
fn a_newcomer_that_has_not_fetched_yet_is_planned_anew_after_every_change() {
    let mut desk = rejoining();
    let held = || vec![checkpoint(3)];
    desk.stands(1, vec![stands(0, 1, RankState::Fresh)], Vec::new());
    desk.stands(2, vec![stands(1, 0, at(3))], held());
    desk.stands(3, vec![stands(2, 0, at(3))], held());
    // Its holder dies before it could give the checkpoint.
    desk.leaves(3, 2, 0, None);
    desk.stands(3, Vec::new(), Vec::new());
    desk.stands(2, vec![stands(1, 0, at(3))], held());
    let outputs = desk.stands(1, vec![stands(0, 1, RankState::Fresh)], Vec::new());
    let plan = plan(&outputs, 1).unwrap();
    assert_eq!(plan.newcomers[0].rank, Rank(0));
    assert_eq!(plan.holders.iter().map(|agent| agent.0).collect::<Vec<_>>(), [2]);
}

#[test]
fn the_own_state_of_a_rank_comes_with_its_plan() {
    let mut desk = Desk::trained_to(2, 3);
    for rank in 0..2u32 {
        let at = Position { lineage: Lineage(0), version: Version(3) };
        let bytes = vec![rank as u8 + 40];
        let message =
            AgentMessage::Local { member: MemberId { rank: Rank(rank), incarnation: Incarnation::nth(0) }, at, bytes };
        desk.says(u64::from(rank) + 1, message);
    }
    desk.leaves(1, 0, 0, None);
    desk.joins(1, 0, attempt(1));
    desk.stands(1, vec![stands(0, 1, RankState::Fresh)], vec![checkpoint(3)]);
    let outputs = desk.stands(2, vec![stands(1, 0, at(3))], vec![checkpoint(3)]);
    let local = TrackerMessage::NewcomerLocal {
        member: MemberId { rank: Rank(0), incarnation: Incarnation::nth(1) },
        bytes: vec![40],
    };
    let plan_of = |to| plan(&outputs, to).cloned().map(TrackerMessage::Plan).unwrap();
    assert!(plan(&outputs, 1).unwrap().newcomers[0].has_local);
    let to_its_agent = sent(&outputs, 1);
    let order = [&local, &plan_of(1)].map(|wanted| to_its_agent.iter().position(|said| *said == wanted));
    assert!(order[0].is_some() && order[0] < order[1], "{to_its_agent:?}");
    assert!(!sent(&outputs, 2).contains(&&local), "the others have no use for it");
}

#[test]
fn what_many_ranks_had_of_their_own_fits_into_frames() {
    let world = 8;
    let mut desk = Desk::trained_to(world, 3);
    for rank in 0..world {
        let at = Position { lineage: Lineage(0), version: Version(3) };
        let (member, bytes) =
            (MemberId { rank: Rank(rank), incarnation: Incarnation::nth(0) }, vec![rank as u8; LOCAL_LIMIT]);
        desk.says(u64::from(rank) + 1, AgentMessage::Local { member, at, bytes });
    }
    // All that one agent less has are started again in one view.
    for rank in 0..world - 1 {
        desk.leaves(u64::from(rank) + 1, rank, 0, None);
    }
    for rank in 0..world - 1 {
        desk.joins(u64::from(rank) + 1, rank, attempt(1));
    }
    for rank in 0..world - 1 {
        desk.stands(u64::from(rank) + 1, vec![stands(rank, 1, RankState::Fresh)], vec![checkpoint(3)]);
    }
    let last = u64::from(world);
    let outputs = desk.stands(last, vec![stands(world - 1, 0, at(3))], vec![checkpoint(3)]);
    for to in 1..=last {
        for message in sent(&outputs, to) {
            let bytes = postcard::to_allocvec(message).unwrap().len();
            assert!(bytes <= PAYLOAD_LIMIT as usize, "{bytes} bytes to agent {to}");
        }
    }
    assert_eq!(plan(&outputs, 1).unwrap().newcomers.len() as u32, world - 1);
}

#[test]
fn when_nobody_is_left_in_training_all_start_from_what_is_held_in_a_new_lineage() {
    let mut desk = Desk::trained_to(2, 3);
    desk.leaves(1, 0, 0, None);
    desk.leaves(2, 1, 0, None);
    desk.joins(1, 0, attempt(1));
    desk.stands(2, Vec::new(), vec![checkpoint(3)]);
    desk.stands(1, vec![stands(0, 1, RankState::Fresh)], vec![checkpoint(2), checkpoint(3)]);
    desk.joins(2, 1, attempt(1));
    desk.stands(1, vec![stands(0, 1, RankState::Fresh)], vec![checkpoint(2), checkpoint(3)]);
    let outputs = desk.stands(2, vec![stands(1, 1, RankState::Fresh)], vec![checkpoint(3)]);
    let plan = plan(&outputs, 1).unwrap();
    assert_eq!((plan.lineage, plan.newcomers.len()), (Lineage(1), 2));
    assert_eq!(plan.newcomers[0].checkpoint, Some(checkpoint(3)));
    assert!(events(&outputs).iter().any(|event| {
        matches!(event, Event::RolledBack { lineage: Lineage(1), version: Version(3), reason } if !reason.is_empty())
    }));
    assert!(settled(&outputs));
}

/// Rank 0 has died, rank 1 has no logs of what it would start with, and is sent back.
fn all_go_back() -> (Desk, Vec<TrackerOutput>) {
    let mut desk = Desk::trained_to(2, 3);
    desk.leaves(1, 0, 0, None);
    desk.joins(1, 0, attempt(1));
    desk.stands(1, vec![stands(0, 1, RankState::Fresh)], vec![checkpoint(2)]);
    let mut alive = stands(1, 0, at(3));
    alive.oldest = Version(3);
    let outputs = desk.stands(2, vec![alive], Vec::new());
    assert_eq!(fenced(&outputs, 2), [(1, 0, Code::RolledBack)]);
    (desk, outputs)
}

#[test]
fn what_survivors_that_were_sent_back_have_taken_with_them_is_named_with_its_time() {
    let (mut desk, _) = all_go_back();
    // The only one that held version 2 ends, and so does rank 1's.
    for gone in [1, 2] {
        let (executor, reason) = (format!("exec-{gone}"), "its process ended (exit status 1)".into());
        desk.input(TrackerInput::ExecutorGone { executor, reason });
    }
    desk.register(3);
    desk.register(4);
    desk.joins(3, 0, attempt(2));
    desk.joins(4, 1, attempt(1));
    desk.stands(3, vec![stands(0, 2, RankState::Fresh)], Vec::new());
    let outputs = desk.stands(4, vec![stands(1, 1, RankState::Fresh)], Vec::new());
    let error = failure(&outputs).expect("no agent holds anything");
    assert_eq!(error.code, Code::Unrecoverable);
    for text in ["all were sent back at 0.", "exec-1 held version 2 until 0.", "exit status 1"] {
        assert!(error.message.contains(text), "{text} in {error}");
    }
}

#[test]
fn a_frozen_process_is_to_be_killed_also_when_its_rank_was_sent_back_and_has_not_joined_again() {
    let (mut desk, _) = all_go_back();
    let outputs = desk.pass_alive(1_100, &[1]);
    let killed = outputs.iter().filter_map(|output| match output {
        TrackerOutput::Kill { task, attempt, .. } => Some((task.0, attempt.task)),
        _ => None,
    });
    assert_eq!(killed.collect::<Vec<_>>(), [(1, 0)]);
}

#[test]
fn when_the_living_cannot_be_joined_they_are_sent_back_and_may_join_again_with_the_same_try() {
    let (mut desk, outputs) = all_go_back();
    assert!(lost(&outputs).is_empty(), "no rank died");
    assert!(failure(&outputs).is_none());

    let outputs = desk.joins(2, 1, attempt(0));
    assert_eq!(refusal(&outputs, 2), None);
    desk.stands(1, vec![stands(0, 1, RankState::Fresh)], vec![checkpoint(2)]);
    let outputs = desk.stands(2, vec![stands(1, 1, RankState::Fresh)], Vec::new());
    let plan = plan(&outputs, 2).unwrap();
    assert_eq!(plan.newcomers.iter().map(|n| n.version.0).collect::<Vec<_>>(), [2, 2]);
    assert_eq!(plan.lineage, Lineage(1));
    assert!(plan.reason.contains("version 2"), "{}", plan.reason);
}

#[test]
fn different_checkpoints_under_one_name_end_the_job() {
    let mut desk = rejoining();
    let mut other = checkpoint(3);
    other.digest += 1;
    desk.stands(1, vec![stands(0, 1, RankState::Fresh)], Vec::new());
    desk.stands(2, vec![stands(1, 0, at(3))], vec![checkpoint(3)]);
    let outputs = desk.stands(3, vec![stands(2, 0, at(3))], vec![other]);
    assert_eq!(failure(&outputs).unwrap().code, Code::Mismatch);
}

#[test]
fn a_slot_says_whether_it_can_be_linked_with() {
    let mut desk = rejoining();
    let outputs = desk.register(4);
    let planned: Vec<bool> = views(&outputs, 4)[0].slots.iter().map(|slot| slot.planned).collect();
    assert_eq!(planned, [false, true, true]);
    assert!(views(&outputs, 4)[0].generation > Generation { epoch: 1, number: 0 });
}

/// Rank 1's executor was reported gone and lives on; its rank was started again on agent 3. None
/// has answered the view.
fn declared_lost_and_heard_again() -> (Desk, Vec<TrackerOutput>) {
    let mut desk = Desk::trained_to(2, 3);
    desk.input(TrackerInput::ExecutorGone { executor: "exec-2".into(), reason: "lost".into() });
    let mut outputs = desk.register(3);
    outputs.extend(desk.joins(3, 1, attempt(1)));
    outputs.extend(desk.says(2, AgentMessage::Heartbeat { sequence: 7, ranks: Vec::new() }).to_vec());
    (desk, outputs)
}

#[test]
fn a_plan_names_no_holder_whose_address_the_view_has_not() {
    let (mut desk, outputs) = declared_lost_and_heard_again();
    let known = views(&outputs, 3).last().map(|view| view.agents.clone()).unwrap();
    let generation = views(&outputs, 3).last().map(|view| view.generation).unwrap();
    assert!(known.iter().any(|at| at.agent.0 == 2), "it counts again, so all are sent where it is");
    let mut answers = |link, ranks, held| {
        desk.says(link, AgentMessage::StatusReport(StatusReport { generation, ranks, held, handed_over: Vec::new() }))
            .to_vec()
    };
    answers(1, vec![stands(0, 0, at(3))], Vec::new());
    answers(999, Vec::new(), Vec::new());
    answers(2, Vec::new(), vec![checkpoint(3)]);
    let outputs = answers(3, vec![stands(1, 1, RankState::Fresh)], Vec::new());
    let plan = plan(&outputs, 3).unwrap();
    assert!(!plan.holders.is_empty());
    for holder in &plan.holders {
        assert!(known.iter().any(|at| at.agent == *holder), "agent {} is not among {known:?}", holder.0);
    }
}

/// All processes find all durable own models, and a plan names those that have one.
#[test]
fn a_plan_of_many_ranks_whose_own_models_are_durable_fits_into_a_message() {
    let world = 400;
    let common = Checkpoint { has_own: true, ..of(1, 5) };
    let start = JobStart::Durable(Origin { checkpoint: common, world, ..origin() });
    let mut desk = Desk::with(TrackerConfig { start, ..config(world) });
    // Numbers of processes are random, and long.
    let agent = |rank: u32| AgentId((u64::from(rank) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let own = |rank| Checkpoint { owner: Some(Rank(rank)), has_own: false, ..common };
    let held: Vec<_> = std::iter::once(common).chain((0..world).map(own)).collect();
    for rank in 0..world {
        let link = u64::from(rank) + 1;
        let registration = Registration { agent: agent(rank), ..Desk::registration(link, Vec::new(), held.clone()) };
        desk.says(link, AgentMessage::Register(registration));
        desk.joins(link, rank, attempt(0));
    }
    let mut plans = Vec::new();
    for rank in 0..world {
        let outputs = desk.stands(u64::from(rank) + 1, vec![stands(rank, 0, RankState::Fresh)], held.clone());
        plans.extend(plan(&outputs, 1).cloned());
    }
    let [plan] = &plans[..] else { panic!("{} plans", plans.len()) };
    let length = rejoin_protocol::wire::encode(&TrackerMessage::Plan(plan.clone())).len();
    assert!(length < PAYLOAD_LIMIT as usize / 4, "{length} bytes");
    let all: BTreeSet<AgentId> = plan.newcomers.iter().flat_map(|newcomer| newcomer.own_holders.clone()).collect();
    for newcomer in &plan.newcomers {
        let Rank(rank) = newcomer.rank;
        assert_eq!(newcomer.own, Some(own(rank)));
        assert_eq!(newcomer.own_holders[0], agent(rank), "its own process comes first");
        assert!(newcomer.own_holders.len() >= 8);
    }
    assert_eq!(all.len(), world as usize, "not all are to ask the same ones");
}
