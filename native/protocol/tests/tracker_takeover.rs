//! A tracker that died comes back in its next life, and learns from the agents what its former life had decided.

use crate::support;

use rejoin_protocol::error::Code;
use rejoin_protocol::ids::{
    AgentId, Checkpoint, Generation, Incarnation, Lineage, MemberId, Position, Rank, Task, Version,
};
use rejoin_protocol::message::{
    AgentMessage, RankState, RankStatus, Registration, StatusReport, TrackerMessage, LINEAGES_LIMIT,
};
use rejoin_protocol::report::Report;
use rejoin_protocol::tracker::{TrackerConfig, TrackerInput, TrackerOutput};
use rejoin_protocol::view::SlotState;
use support::takeover::{address, comes_back, former, second_life};
use support::*;

#[test]
fn when_all_that_lived_are_there_again_a_view_of_the_new_life_goes_out_and_nobody_is_fenced() {
    let mut desk = second_life(2);
    let view = former(4, &[Some(0), Some(1)], &[]);
    let outputs = comes_back(&mut desk, 1, &view, vec![stands(0, 0, at(3))]);
    assert!(views(&outputs, 1).is_empty(), "rank 1 is waited for");
    let outputs = comes_back(&mut desk, 2, &view, vec![stands(1, 1, at(4))]);
    let reported = views(&outputs, 1)[0];
    assert_eq!(reported.generation, Generation { epoch: 2, number: 1 });
    assert_eq!(reported.alive(Rank(1)).map(|(incarnation, _)| incarnation.number), Some(1));
    assert!(fenced(&outputs, 1).is_empty() && fenced(&outputs, 2).is_empty() && lost(&outputs).is_empty());
    desk.stands(1, vec![stands(0, 0, at(3))], vec![checkpoint(3)]);
    let outputs = desk.stands(2, vec![stands(1, 1, at(4))], vec![checkpoint(3)]);
    assert!(failure(&outputs).is_none());
}

#[test]
fn a_rank_that_had_joined_while_a_view_gathered_ranks_is_waited_for_though_that_view_does_not_say_so() {
    let mut desk = second_life(3);
    // All begin again: rank 0 had joined when the newest view was made, and rank 1 after it.
    let mut view = former(9, &[Some(1), None::<u32>, None], &[3]);
    view.slots[0].planned = false;
    view.agents = vec![address(1), address(3)];
    comes_back(&mut desk, 1, &view, vec![stands(0, 1, RankState::Fresh)]);
    comes_back(&mut desk, 3, &view, Vec::new());
    let outputs = comes_back(&mut desk, 2, &view, vec![stands(1, 1, RankState::Fresh)]);
    assert_eq!(fenced(&outputs, 2), []);
    let outputs = desk.pass_alive(5000, &[1, 2, 3]);
    let made = views(&outputs, 1).into_iter().next().expect("a view of this life").clone();
    assert_eq!([0, 1].map(|rank: usize| made.slots[rank].incarnation.map(|one| one.number)), [Some(1), Some(1)]);
    assert_eq!(lost(&outputs), []);
}

#[test]
fn whoever_does_not_come_back_in_time_is_lost_and_its_next_start_has_the_next_number() {
    let mut desk = second_life(2);
    let view = former(4, &[Some(0), Some(3)], &[]);
    comes_back(&mut desk, 1, &view, vec![stands(0, 0, at(3))]);
    let outputs = desk.pass_alive(1100, &[1]);
    assert_eq!(lost(&outputs).iter().map(|(rank, ..)| *rank).collect::<Vec<_>>(), [1]);
    desk.register(2);
    let outputs = desk.joins(2, 1, attempt(4));
    assert_eq!(slot_of(&outputs, 2), Some(in_life(2, 4)), "{outputs:?}");
    desk.stands(1, vec![stands(0, 0, at(3))], vec![checkpoint(3)]);
    let outputs = desk.stands(2, vec![stands(1, in_life(2, 4), RankState::Fresh)], Vec::new());
    assert_eq!(plan(&outputs, 2).unwrap().newcomers[0].version, Version(3), "it joins those who live");
}

fn slot_of(outputs: &[TrackerOutput], link: u64) -> Option<Incarnation> {
    sent(outputs, link).into_iter().find_map(|message| match message {
        TrackerMessage::JoinAccepted { incarnation, .. } => Some(*incarnation),
        _ => None,
    })
}

#[test]
fn a_start_of_which_the_next_life_has_not_heard_still_counts_by_the_tries_of_its_task() {
    let mut desk = second_life(2);
    // A rank that joined again in its process had more starts than tries.
    let again = RankStatus { attempt: attempt(0), ..stands(0, 2, at(3)) };
    // An old view: since then rank 1 was started two times more, and both starts are gone.
    comes_back(&mut desk, 1, &former(4, &[Some(2), Some(0)], &[]), vec![again]);
    desk.register(2);
    let outputs = desk.joins(2, 1, attempt(3));
    assert_eq!(slot_of(&outputs, 2), Some(in_life(2, 3)));
    desk.leaves(1, 0, 2, None);
    let outputs = desk.joins(1, 0, attempt(1));
    assert_eq!(slot_of(&outputs, 1), Some(in_life(2, 3)));
}

#[test]
fn a_start_in_a_later_life_is_newer_than_all_before_it_however_few_starts_that_life_had_heard_of() {
    let unheard = Incarnation::nth(7);
    let mut desk = Desk::with(TrackerConfig { epoch: 3, ..config(1) });
    desk.register(1);
    desk.joins(1, 0, attempt(0));
    let first = slot_of(&desk.pass_alive(1100, &[1]), 1).unwrap();
    assert_eq!(first, in_life(3, 0));
    assert!(first > unheard && first > in_life(2, 9));
    assert_eq!((first.to_string(), in_life(3, 8).to_string()), ("0".to_string(), "8".to_string()));
}

#[test]
fn a_slot_that_is_asked_for_meanwhile_is_given_when_the_others_are_known_and_tells_that_its_former_holder_is_gone() {
    let mut desk = second_life(2);
    let view = former(4, &[Some(0), Some(0)], &[]);
    desk.register(2);
    let outputs = desk.joins(2, 1, attempt(1));
    assert!(sent(&outputs, 2).is_empty(), "later");
    let outputs = comes_back(&mut desk, 1, &view, vec![stands(0, 0, at(3))]);
    assert_eq!(slot_of(&outputs, 2), Some(in_life(2, 1)));
    let gone = lost(&outputs);
    assert_eq!(gone.len(), 1, "{gone:?}");
    assert!(gone[0].0 == 1 && gone[0].1.contains("not there any more when the tracker came back"), "{gone:?}");
}

#[test]
fn an_agent_that_has_asked_for_a_slot_and_fell_silent_gets_it_when_it_speaks_again_and_all_know_its_address() {
    let mut desk = second_life(2);
    comes_back(&mut desk, 1, &former(4, &[Some(0), Some(0)], &[]), vec![stands(0, 0, at(3))]);
    desk.register(3);
    desk.joins(3, 1, attempt(1));
    let outputs = desk.pass_alive(1100, &[1]);
    let join_accepted = |outputs: &[TrackerOutput]| {
        sent(outputs, 3).into_iter().any(|message| matches!(message, TrackerMessage::JoinAccepted { .. }))
    };
    assert!(!join_accepted(&outputs), "it may be dead: {outputs:?}");
    assert_eq!(views(&outputs, 1).last().unwrap().alive(Rank(1)), None);
    desk.stands(1, vec![stands(0, 0, at(3))], vec![checkpoint(3)]);
    let outputs = desk.says(3, AgentMessage::Heartbeat { sequence: 0, ranks: Vec::new() }).to_vec();
    assert!(join_accepted(&outputs), "{outputs:?}");
    let view = *views(&outputs, 1).last().unwrap();
    assert_eq!(view.alive(Rank(1)).map(|(_, at)| at.agent), Some(AgentId(3)), "a survivor can make a link to it");
}

#[test]
fn a_slot_that_was_asked_for_by_an_agent_that_connects_again_meanwhile_is_given_once() {
    let mut desk = second_life(2);
    comes_back(&mut desk, 1, &former(4, &[Some(0), Some(0)], &[]), vec![stands(0, 0, at(3))]);
    desk.register(3);
    desk.joins(3, 1, attempt(1));
    desk.pass_alive(1100, &[1]);
    let again = desk.register_as(4, 3, Vec::new(), Vec::new());
    let outputs = [again, desk.joins(4, 1, attempt(1))].concat();
    let join_accepted =
        sent(&outputs, 4).into_iter().filter(|message| matches!(message, TrackerMessage::JoinAccepted { .. }));
    assert_eq!(join_accepted.count(), 1, "{outputs:?}");
}

#[test]
fn the_line_of_lineages_is_taken_from_the_newest_view_whoever_comes_first() {
    let mut desk = second_life(2);
    comes_back(&mut desk, 1, &former(2, &[Some(0), Some(0)], &[]), vec![]);
    let in_lineage =
        |version| RankState::At(rejoin_protocol::ids::Position { lineage: Lineage(1), version: Version(version) });
    let newer = former(5, &[Some(1), Some(1)], &[2]);
    comes_back(&mut desk, 2, &newer, vec![stands(1, 1, in_lineage(3))]);
    let outputs = comes_back(&mut desk, 1, &newer, vec![stands(0, 1, in_lineage(3))]);
    assert_eq!(views(&outputs, 2)[0].lineage, Lineage(1));
    assert_eq!(views(&outputs, 2)[0].branches, [Version(2)]);
}

#[test]
fn a_lineage_that_the_next_life_begins_is_none_that_the_former_one_may_have_planned_for_agents_that_are_gone() {
    let mut desk = second_life(1);
    comes_back(&mut desk, 1, &former(2, &[Some(0)], &[2]), vec![]);
    desk.joins(1, 0, attempt(1));
    desk.pass_alive(1100, &[1]);
    let held = rejoin_protocol::ids::Checkpoint { lineage: Lineage(0), ..checkpoint(2) };
    let outputs = desk.stands(1, vec![stands(0, in_life(2, 1), RankState::Fresh)], vec![held]);
    let plan = plan(&outputs, 1).expect("all are there");
    assert!(plan.lineage > Lineage(2), "lineage 2 may be held by one that is frozen: {plan:?}");
    assert_eq!(plan.newcomers[0].checkpoint, Some(held), "what was held before is of the line still");
}

#[test]
fn ranks_that_were_started_before_do_not_begin_from_nothing_when_nobody_knows_anything() {
    let mut desk = second_life(1);
    desk.register(1);
    desk.joins(1, 0, attempt(1));
    desk.pass_alive(1100, &[1]);
    let outputs = desk.stands(1, vec![stands(0, in_life(2, 1), RankState::Fresh)], Vec::new());
    let error = failure(&outputs).expect("the job is over");
    assert_eq!(error.code, Code::Unrecoverable);
    assert!(error.message.contains("no rank is left that knows"), "{error}");
}

#[test]
fn a_third_life_is_told_that_the_second_one_found_nobody_who_knew_anything() {
    let mut desk = second_life(1);
    desk.register(1);
    desk.joins(1, 0, attempt(1));
    let outputs = desk.pass_alive(1100, &[1]);
    let mut view = (*views(&outputs, 1)[0]).clone();
    // The second life dies before the agent has answered.
    let mut desk = Desk::with(TrackerConfig { epoch: 3, ..config(1) });
    view.agents.retain(|at| at.agent == AgentId(1));
    let fresh = || RankStatus { attempt: attempt(1), ..stands(0, in_life(2, 1), RankState::Fresh) };
    let status =
        StatusReport { generation: view.generation, ranks: vec![fresh()], held: Vec::new(), handed_over: Vec::new() };
    let registration =
        Registration { status, view: Some(Box::new(view)), ..Desk::registration(1, Vec::new(), Vec::new()) };
    desk.says(1, AgentMessage::Register(registration));
    let outputs = desk.stands(1, vec![fresh()], Vec::new());
    assert_eq!(failure(&outputs).map(|error| error.code), Some(Code::Unrecoverable), "{outputs:?}");
}

#[test]
fn of_two_tries_of_a_rank_that_ask_during_the_takeover_the_newer_one_is_join_accepted_and_the_older_one_told() {
    let mut desk = second_life(1);
    for link in [1, 2] {
        desk.register(link);
        desk.joins(link, 0, attempt(2 - link as u32));
    }
    let outputs = desk.pass_alive(1100, &[1, 2]);
    let join_accepted =
        |link| sent(&outputs, link).into_iter().any(|reported| matches!(reported, TrackerMessage::JoinAccepted { .. }));
    assert!(join_accepted(1) && !join_accepted(2));
    assert_eq!(refusal(&outputs, 2), Some(Code::Fenced));
}

#[test]
fn a_rank_that_comes_with_its_first_try_shows_that_nothing_had_begun() {
    let mut desk = second_life(2);
    for link in [1, 2] {
        desk.register(link);
        desk.joins(link, link as u32 - 1, attempt(link as u32 - 1));
    }
    desk.pass_alive(1100, &[1, 2]);
    desk.stands(1, vec![stands(0, in_life(2, 0), RankState::Fresh)], Vec::new());
    let outputs = desk.stands(2, vec![stands(1, in_life(2, 1), RankState::Fresh)], Vec::new());
    assert_eq!(plan(&outputs, 1).expect("the first rendezvous is complete").newcomers[0].version, Version(0));
}

#[test]
fn an_agent_that_is_late_for_the_takeover_still_tells_where_the_job_was_and_gives_what_it_holds() {
    let mut desk = second_life(1);
    desk.register(1);
    desk.joins(1, 0, attempt(2));
    desk.pass_alive(1100, &[1]);
    comes_back(&mut desk, 2, &former(5, &[Some(1)], &[]), vec![stands(0, 1, at(3))]);
    desk.stands(2, Vec::new(), vec![checkpoint(3)]);
    let outputs = desk.stands(1, vec![stands(0, in_life(2, 2), RankState::Fresh)], Vec::new());
    assert_eq!(failure(&outputs), None);
    assert_eq!(plan(&outputs, 1).expect("a start from what the late one holds").newcomers[0].version, Version(3));
}

#[test]
fn a_job_that_had_not_begun_begins_under_the_next_life() {
    let mut desk = second_life(1);
    desk.register(1);
    desk.joins(1, 0, attempt(0));
    desk.pass_alive(1100, &[1]);
    let outputs = desk.stands(1, vec![stands(0, in_life(2, 0), RankState::Fresh)], Vec::new());
    assert_eq!(plan(&outputs, 1).unwrap().newcomers[0].version, Version(0));
}

/// Of a rendezvous that isn't complete there is no view: all that the next life hears of are slots.
fn sits_and_waits(desk: &mut Desk, link: u64, rank: u32, incarnation: u32) -> Vec<TrackerOutput> {
    desk.register_as(link, link, vec![stands(rank, incarnation, RankState::Fresh)], Vec::new())
}

#[test]
fn ranks_that_all_have_slots_and_were_told_nothing_else_are_started_by_the_next_life() {
    let mut desk = second_life(2);
    sits_and_waits(&mut desk, 1, 0, 0);
    sits_and_waits(&mut desk, 2, 1, 1);
    let outputs = desk.pass_alive(1100, &[1, 2]);
    assert!(!views(&outputs, 1).is_empty() && !views(&outputs, 2).is_empty(), "{outputs:?}");
    desk.stands(1, vec![stands(0, 0, RankState::Fresh)], Vec::new());
    let outputs = desk.stands(2, vec![stands(1, 1, RankState::Fresh)], Vec::new());
    assert_eq!(plan(&outputs, 1).expect("all are there").newcomers[1].version, Version(0));
}

#[test]
fn a_slot_that_nobody_has_a_view_of_holds_the_terms_that_its_rank_came_with() {
    let join_accepted = |desk: &mut Desk, link: u64, fingerprint: &str| {
        let slot = vec![stands(link as u32 - 1, 0, RankState::Fresh)];
        let registration =
            Registration { fingerprint: vec![fingerprint.into()], ..Desk::registration(link, slot, Vec::new()) };
        desk.says(link, AgentMessage::Register(registration)).to_vec()
    };
    let mut desk = second_life(2);
    join_accepted(&mut desk, 1, "other terms");
    desk.register(2);
    desk.joins(2, 1, attempt(0));
    let outputs = desk.pass_alive(1100, &[1, 2]);
    assert_eq!(refusal(&outputs, 2), Some(Code::Incompatible));

    let mut desk = second_life(2);
    join_accepted(&mut desk, 1, "terms");
    let outputs = join_accepted(&mut desk, 2, "other terms");
    let error = failure(&outputs).expect("two former lives had admitted what can't go together");
    assert_eq!(error.code, Code::Incompatible);
    assert!(error.message.contains("`terms`") && error.message.contains("`other terms`"), "{error}");
}

#[test]
fn an_agent_that_dies_while_the_others_wait_for_the_first_view_makes_no_plan_without_one() {
    let mut desk = second_life(2);
    sits_and_waits(&mut desk, 1, 0, 0);
    sits_and_waits(&mut desk, 2, 1, 1);
    desk.register(3);
    desk.input(TrackerInput::Closed { link: 3, reason: "reset".into() });
    let outputs = desk.input(TrackerInput::Probed { agent: AgentId(3), gone: true }).to_vec();
    assert_eq!((plan(&outputs, 1), plan(&outputs, 2)), (None, None));
    let outputs = desk.pass_alive(1100, &[1, 2]);
    assert!(!views(&outputs, 1).is_empty(), "{outputs:?}");
}

#[test]
fn ranks_that_have_slots_are_started_although_an_older_try_of_one_asks_for_it_meanwhile() {
    let mut desk = second_life(2);
    sits_and_waits(&mut desk, 1, 0, 0);
    sits_and_waits(&mut desk, 2, 1, 1);
    desk.register(3);
    desk.joins(3, 1, attempt(0));
    let outputs = desk.pass_alive(1100, &[1, 2, 3]);
    assert_eq!(refusal(&outputs, 3), Some(Code::Fenced));
    assert!(!views(&outputs, 1).is_empty(), "{outputs:?}");
}

#[test]
fn a_rank_that_has_a_slot_and_was_told_nothing_else_does_not_decide_before_those_who_were_are_awake() {
    let mut desk = second_life(2);
    sits_and_waits(&mut desk, 1, 0, 0);
    desk.pass_alive(3000, &[1]);
    let mut view = former(4, &[Some(0), Some(1)], &[]);
    view.has_begun = false;
    let outputs = comes_back(&mut desk, 2, &view, vec![stands(1, 1, at(1))]);
    assert!(fenced(&outputs, 2).is_empty() && lost(&outputs).is_empty(), "{outputs:?}");
    assert_eq!(views(&outputs, 1)[0].generation, Generation { epoch: 2, number: 1 });
}

fn finish(rank: u32, digest: u128) -> AgentMessage {
    let incarnation = rejoin_protocol::ids::Incarnation::nth(0);
    AgentMessage::Report {
        member: MemberId { rank: Rank(rank), incarnation },
        report: Report::Finished { rounds: 3, digest },
    }
}

fn ended(outputs: &[TrackerOutput]) -> Option<u128> {
    outputs.iter().find_map(|output| match output {
        TrackerOutput::Over(Ok(result)) => Some(result.digest),
        _ => None,
    })
}

#[test]
fn ranks_that_the_former_life_told_the_end_and_that_have_gone_are_not_waited_for() {
    let view = former(4, &[Some(0), Some(0), Some(0)], &[]);
    // The framework's word may come before or after the agents have.
    for is_first in [true, false] {
        let mut desk = second_life(3);
        if is_first {
            assert_eq!(ended(desk.input(TrackerInput::TaskEnded { task: Task(0), attempt: attempt(0) })), None);
        }
        comes_back(&mut desk, 2, &view, vec![stands(1, 0, at(3))]);
        comes_back(&mut desk, 3, &view, vec![stands(2, 0, at(3))]);
        assert_eq!(ended(desk.says(2, finish(1, 7))), None);
        let mut outputs = desk.says(3, finish(2, 7)).to_vec();
        if !is_first {
            assert_eq!(ended(&outputs), None, "rank 0 may still come back");
            outputs = desk.input(TrackerInput::TaskEnded { task: Task(0), attempt: attempt(0) }).to_vec();
        }
        assert_eq!(ended(&outputs), Some(7), "{outputs:?}");
        assert!(lost(&outputs).is_empty(), "no rank died");
    }
}

#[test]
fn a_rank_that_ended_well_ends_nothing_while_others_train_and_is_not_missing_then() {
    let view = former(4, &[Some(0), Some(0), Some(0)], &[]);
    let mut desk = second_life(3);
    desk.input(TrackerInput::TaskEnded { task: Task(0), attempt: attempt(0) });
    comes_back(&mut desk, 2, &view, vec![stands(1, 0, at(3))]);
    comes_back(&mut desk, 3, &view, vec![stands(2, 0, at(3))]);
    assert_eq!(ended(desk.says(2, finish(1, 7))), None);
    let outputs = desk.pass_alive(100_000, &[2, 3]);
    assert_eq!((ended(&outputs), failure(&outputs)), (None, None));
    assert_eq!(ended(desk.says(3, finish(2, 7))), Some(7));
}

#[test]
fn a_rank_that_came_to_this_life_and_whose_program_ends_early_is_waited_for() {
    // A later try of it, which has ended well too, came to the former life, or to another one beside this.
    for (ended_as, is_missed) in [(0, true), (1, false)] {
        let view = former(4, &[Some(0), Some(0), Some(0)], &[]);
        let mut desk = second_life(3);
        for (agent, rank) in [(1, 0), (2, 1), (3, 2)] {
            comes_back(&mut desk, agent, &view, vec![stands(rank, 0, at(3))]);
        }
        let member = MemberId { rank: Rank(0), incarnation: Incarnation::nth(0) };
        desk.says(1, AgentMessage::Report { member, report: Report::Left { failure: None } });
        desk.input(TrackerInput::TaskEnded { task: Task(0), attempt: attempt(ended_as) });
        assert_eq!(ended(desk.says(2, finish(1, 7))), None);
        assert_eq!(ended(desk.says(3, finish(2, 7))), (!is_missed).then_some(7));
        let outputs = desk.pass_alive(200_000, &[1, 2, 3]);
        assert_eq!(failure(&outputs).map(|error| error.code), is_missed.then_some(Code::MembersMissing));
    }
}

#[test]
fn a_rank_that_the_former_life_had_lost_is_not_taken_back_where_the_one_after_it_has_gone() {
    let mut desk = second_life(2);
    comes_back(&mut desk, 2, &former(5, &[Some(1), Some(0)], &[]), vec![stands(1, 0, at(4))]);
    let outputs = comes_back(&mut desk, 1, &former(3, &[Some(0), Some(0)], &[]), vec![stands(0, 0, at(3))]);
    assert_eq!(fenced(&outputs, 1), [(0, 0, Code::Fenced)]);
    desk.stands(2, vec![stands(1, 0, at(4))], vec![checkpoint(4)]);
    desk.stands(1, Vec::new(), Vec::new());
    let outputs = desk.joins(1, 0, attempt(2));
    assert_eq!(refusal(&outputs, 1), None, "its task's next try has the rank");
}

#[test]
fn a_rank_of_a_lineage_that_the_others_have_left_is_fenced_and_its_slot_is_free() {
    let mut desk = second_life(2);
    let view = former(5, &[Some(1), Some(1)], &[2]);
    comes_back(
        &mut desk,
        2,
        &view,
        vec![stands(1, 1, RankState::At(Position { lineage: Lineage(1), version: Version(3) }))],
    );
    comes_back(&mut desk, 1, &view, vec![stands(0, 1, at(3))]);
    let outputs = desk.stands(1, vec![stands(0, 1, at(3))], Vec::new());
    assert_eq!(fenced(&outputs, 1), [(0, 1, Code::Fenced)]);
    assert_eq!(refusal(&desk.joins(1, 0, attempt(2)), 1), None);
}

#[test]
fn a_job_that_has_begun_again_too_often_ends_with_words_before_an_agent_would_refuse_its_view() {
    let branches = vec![2; LINEAGES_LIMIT - 1];
    let mut desk = second_life(1);
    comes_back(&mut desk, 1, &former(4, &[Some(0)], &branches), vec![stands(0, 0, at(3))]);
    desk.stands(1, vec![stands(0, 0, at(3))], Vec::new());
    desk.leaves(1, 0, 0, None);
    desk.joins(1, 0, attempt(1));
    let held = Checkpoint { lineage: Lineage(0), ..checkpoint(2) };
    let incarnation = Incarnation { epoch: 2, number: 1 };
    let outputs = desk.stands(1, vec![stands(0, incarnation, RankState::Fresh)], vec![held]);
    let error = failure(&outputs).expect("no further lineage has a number");
    assert_eq!(error.code, Code::Unrecoverable, "{error}");
    assert!(error.message.contains("at most 4096 times"), "{error}");
}

#[test]
fn a_rank_that_comes_back_alone_after_others_were_told_the_end_is_told_whom_it_waits_for() {
    let mut desk = second_life(2);
    desk.input(TrackerInput::TaskEnded { task: Task(0), attempt: attempt(0) });
    desk.register(2);
    desk.joins(2, 1, attempt(1));
    let outputs = desk.pass_alive(200_000, &[2]);
    let error = failure(&outputs).expect("none can start it: the job ends");
    assert_eq!(error.code, Code::MembersMissing);
    assert!(error.message.contains("rank 0 ended well under a former life of the tracker"), "{error}");
    assert!(!error.message.contains("no report of what it holds"), "{error}");
}

#[test]
fn in_the_first_life_a_task_that_ends_well_before_the_end_is_no_end() {
    let mut desk = Desk::trained_to(2, 3);
    assert_eq!(ended(desk.input(TrackerInput::TaskEnded { task: Task(0), attempt: attempt(0) })), None);
    assert_eq!(ended(desk.says(2, finish(1, 7))), None);
    assert_eq!(ended(desk.says(1, finish(0, 7))), Some(7));
}

#[test]
fn a_first_plan_that_reached_none_of_those_it_was_for_has_begun_nothing() {
    let mut desk = second_life(1);
    let mut view = former(4, &[Some(0)], &[]);
    view.has_begun = false;
    // An agent without ranks has seen the plan, the rank's own agent has not.
    comes_back(&mut desk, 2, &view, Vec::new());
    view.slots[0].planned = false;
    comes_back(&mut desk, 1, &view, vec![stands(0, 0, RankState::Fresh)]);
    desk.stands(2, Vec::new(), Vec::new());
    let outputs = desk.stands(1, vec![stands(0, 0, RankState::Fresh)], Vec::new());
    assert_eq!(plan(&outputs, 1).unwrap().newcomers[0].version, Version(0));
}

#[test]
fn a_first_plan_that_one_agent_has_seen_counts_when_the_rank_that_followed_it_is_gone() {
    let mut desk = second_life(1);
    let mut view = former(4, &[Some(0)], &[]);
    view.has_begun = false;
    view.slots[0].planned = false;
    comes_back(&mut desk, 3, &view, Vec::new());
    view.slots[0].planned = true;
    comes_back(&mut desk, 2, &view, Vec::new());
    desk.joins(2, 0, attempt(1));
    desk.pass_alive(1100, &[2, 3]);
    desk.stands(3, Vec::new(), Vec::new());
    let outputs = desk.stands(2, vec![stands(0, in_life(2, 1), RankState::Fresh)], Vec::new());
    assert_eq!(failure(&outputs).map(|error| error.code), Some(Code::Unrecoverable), "{outputs:?}");
}

#[test]
fn an_agent_with_an_old_view_does_not_decide_before_those_with_newer_ones_are_there() {
    let mut desk = second_life(1);
    comes_back(&mut desk, 3, &former(2, &[None::<u32>], &[]), Vec::new());
    let outputs = comes_back(&mut desk, 1, &former(4, &[Some(1)], &[]), vec![stands(0, 1, at(3))]);
    assert!(fenced(&outputs, 1).is_empty() && !views(&outputs, 1).is_empty(), "{outputs:?}");
}

#[test]
fn a_rank_that_was_lost_before_and_is_back_does_not_keep_its_next_start_from_its_place() {
    let mut desk = second_life(2);
    // Rank 1 was started again at agent 3 when agent 2 was out of reach.
    let mut view = former(5, &[Some(0), Some(1)], &[]);
    view.slots[1].state = SlotState::Alive { agent: AgentId(3) };
    view.agents = vec![address(1), address(3)];
    comes_back(&mut desk, 1, &view, vec![stands(0, 0, at(3))]);
    let outputs = comes_back(&mut desk, 2, &former(4, &[Some(0), Some(0)], &[]), vec![stands(1, 0, at(2))]);
    assert!(views(&outputs, 1).is_empty(), "its next start is waited for: {outputs:?}");
    let outputs = comes_back(&mut desk, 3, &view, vec![stands(1, 1, at(3))]);
    let (incarnation, _) = views(&outputs, 1)[0].alive(Rank(1)).expect("it is there");
    assert_eq!(incarnation.number, 1);
    assert!(fenced(&outputs, 3).is_empty() && lost(&outputs).is_empty(), "{outputs:?}");
}

#[test]
fn a_rank_that_had_asked_for_a_slot_and_was_not_told_asks_again_and_gets_one() {
    let mut desk = second_life(1);
    let mut view = former(1, &[Some(0)], &[]);
    (view.has_begun, view.slots[0].planned) = (false, false);
    comes_back(&mut desk, 1, &view, Vec::new());
    let outputs = desk.joins(1, 0, attempt(0));
    assert!(
        sent(&outputs, 1).into_iter().any(|message| matches!(message, TrackerMessage::JoinAccepted { .. })),
        "{outputs:?}"
    );
    let outputs = desk.stands(1, vec![stands(0, in_life(2, 1), RankState::Fresh)], Vec::new());
    assert_eq!(plan(&outputs, 1).unwrap().newcomers[0].version, Version(0));
}

#[test]
fn ranks_that_were_all_frozen_while_the_tracker_came_back_go_on_when_they_wake() {
    let mut desk = second_life(2);
    let view = former(4, &[Some(0), Some(1)], &[]);
    let outputs = desk.pass_alive(5000, &[]);
    assert!(failure(&outputs).is_none());
    comes_back(&mut desk, 1, &view, vec![stands(0, 0, at(3))]);
    // The other one wakes a moment later.
    desk.pass_alive(300, &[1]);
    let outputs = comes_back(&mut desk, 2, &view, vec![stands(1, 1, at(4))]);
    assert_eq!(views(&outputs, 1)[0].generation, Generation { epoch: 2, number: 1 });
    assert!(fenced(&outputs, 1).is_empty() && fenced(&outputs, 2).is_empty() && lost(&outputs).is_empty());
}

#[test]
fn when_nobody_comes_to_the_next_life_it_ends_with_who_is_missing() {
    let mut desk = second_life(2);
    let outputs = desk.pass_alive(config(2).timing.members_millis + 1000, &[]);
    assert_eq!(failure(&outputs).map(|error| error.code), Some(Code::MembersMissing));
}

#[test]
fn an_older_life_ends_too_when_the_newer_one_had_told_the_agent_nothing_but_its_number() {
    let mut desk = Desk::trained_to(2, 3);
    let mut registration = Desk::registration(50, Vec::new(), Vec::new());
    registration.epoch = 2;
    let outputs = desk.says(50, AgentMessage::Register(registration)).to_vec();
    assert!(outputs.contains(&TrackerOutput::Close { link: 50 }));
    assert!(matches!(failure(&outputs), Some(error) if error.code == Code::BadState));
}

#[test]
fn an_older_life_that_meets_an_agent_of_a_newer_one_ends_without_a_word_to_anybody() {
    let mut desk = Desk::trained_to(2, 3);
    let mut newer = former(1, &[Some(0), Some(0)], &[]);
    newer.generation.epoch = 2;
    let outputs = comes_back(&mut desk, 50, &newer, Vec::new());
    assert!(outputs.contains(&TrackerOutput::Close { link: 50 }));
    assert!(matches!(failure(&outputs), Some(error) if error.code == Code::BadState));
    assert!(sent(&outputs, 1).is_empty() && sent(&outputs, 2).is_empty());
}
