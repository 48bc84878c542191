//! A job with spares at the tracker: which task is given which rank, and what becomes of those that stand by.

use crate::support;

use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::event::Event;
use rejoin_protocol::ids::{Attempt, Incarnation, MemberId, Position, Rank, Task, Version};
use rejoin_protocol::message::{
    AgentMessage, RankGiven, RankProgress, RankState, RankStatus, Registration, Standing, TrackerMessage,
};
use rejoin_protocol::tracker::{DeathLimit, TrackerConfig, TrackerInput, TrackerOutput};
use support::takeover::{comes_back, former};
use support::*;

fn with_spares(world: u32, spares: u32) -> Desk {
    Desk::with(TrackerConfig { spares, ..config(world) })
}

/// A try of a task asks for a rank over this link.
fn asks(desk: &mut Desk, link: u64, task: u32, its: u32) -> Vec<TrackerOutput> {
    desk.says(link, AgentMessage::StandBy { task: Task(task), attempt: attempt(its) }).to_vec()
}

/// What agents were given over this link: task, rank, and the rank's try.
fn given(outputs: &[TrackerOutput], to: u64) -> Vec<(u32, u32, u32)> {
    let given = sent(outputs, to).into_iter().filter_map(|message| match message {
        TrackerMessage::RankGiven { task, given, .. } => Some((task.0, given.rank.0, given.attempt.task)),
        _ => None,
    });
    given.collect()
}

fn ended(outputs: &[TrackerOutput], to: u64) -> Vec<(u32, Code)> {
    let ended = sent(outputs, to).into_iter().filter_map(|message| match message {
        TrackerMessage::StandByEnded { task, error, .. } => Some((task.0, error.code)),
        _ => None,
    });
    ended.collect()
}

/// Task n asks over link n + 1, and joins as what it is given.
fn takes_part(desk: &mut Desk, task: u32, its: u32) -> Vec<TrackerOutput> {
    let link = u64::from(task) + 1;
    desk.register(link);
    let mut outputs = asks(desk, link, task, its);
    for (_, rank, attempt_of_rank) in given(&outputs, link) {
        outputs.extend(desk.joins(link, rank, attempt(attempt_of_rank)));
    }
    outputs
}

/// Two ranks that train, of tasks 0 and 1 in agents 1 and 2, and so many spares in agents from 3 on.
fn training(spares: u32) -> Desk {
    training_in(with_spares(2, spares), spares)
}

fn training_in(mut desk: Desk, spares: u32) -> Desk {
    for task in 0..2 + spares {
        takes_part(&mut desk, task, 0);
    }
    for rank in 0..2 {
        desk.stands(u64::from(rank) + 1, vec![stands(rank, 0, RankState::Fresh)], Vec::new());
    }
    for spare in 0..spares {
        desk.stands(u64::from(spare) + 3, Vec::new(), Vec::new());
    }
    for rank in 0..2 {
        desk.enters(rank, 0, 0);
    }
    desk
}

/// The process of this agent dies.
fn dies(desk: &mut Desk, agent: u64) -> Vec<TrackerOutput> {
    desk.input(TrackerInput::ExecutorGone { executor: format!("exec-{agent}"), reason: "it exited".into() }).to_vec()
}

fn task_gone(desk: &mut Desk, task: u32, its: u32, counts: bool) -> Vec<TrackerOutput> {
    let (task, attempt, reason) = (Task(task), attempt(its), "exit 1".into());
    desk.input(TrackerInput::TaskGone { task, attempt, reason, counts }).to_vec()
}

#[test]
fn a_job_starts_with_its_own_tasks_and_waits_for_each_although_a_spare_is_there() {
    let mut desk = with_spares(2, 1);
    desk.register(3);
    let outputs = asks(&mut desk, 3, 2, 0);
    assert_eq!(given(&outputs, 3), []);
    assert!(events(&outputs)
        .iter()
        .any(|event| matches!(event, Event::SpareStandsBy { index: Task(2), spares: 1, .. })));
    assert_eq!(given(&takes_part(&mut desk, 1, 0), 2), [(1, 1, 0)]);
    assert_eq!(given(&takes_part(&mut desk, 0, 0), 1), [(0, 0, 0)]);
    assert_eq!(given(&desk.pass_alive(500, &[1, 2, 3]), 3), []);
}

#[test]
fn a_spare_is_given_the_rank_whose_own_task_has_ended_before_it_had_it() {
    let mut desk = with_spares(2, 1);
    takes_part(&mut desk, 0, 0);
    desk.register(3);
    asks(&mut desk, 3, 2, 0);
    // It never asked, and there may be no slot for its next try but the spare's.
    assert_eq!(given(&task_gone(&mut desk, 1, 0, true), 3), [(2, 1, 1)]);
    desk.joins(3, 1, attempt(1));
    // That one is the next spare then.
    assert_eq!(given(&takes_part(&mut desk, 1, 1), 2), []);
}

#[test]
fn a_spare_is_given_the_rank_of_a_process_that_died_at_once_and_joins_as_its_next_incarnation() {
    let mut desk = training(1);
    let outputs = dies(&mut desk, 2);
    assert_eq!(given(&outputs, 3), [(2, 1, 1)]);
    let took = events(&outputs).into_iter().find_map(|event| match event {
        Event::SpareTook { rank: Rank(1), index: Task(2), spares: 0, executor, reason, .. } => {
            Some((executor.clone(), reason.clone()))
        }
        _ => None,
    });
    let (executor, reason) = took.expect("it is reported");
    assert_eq!(executor, "exec-3");
    assert!(reason.contains("it exited"), "{reason}");
    let outputs = desk.joins(3, 1, attempt(1));
    let accepted = sent(&outputs, 3).into_iter().find_map(|message| match message {
        TrackerMessage::JoinAccepted { rank: Rank(1), incarnation, .. } => Some(incarnation.number),
        _ => None,
    });
    assert_eq!(accepted, Some(1));
}

/// As in PySpark: the task in the executor's JVM asks, because it has to read the rank's rows, and its Python worker,
/// which has an agent of its own, asks again by the same try.
#[test]
fn a_rank_is_that_agent_s_which_asked_last_by_the_same_try_whatever_becomes_of_the_one_before() {
    let mut desk = training(1);
    assert_eq!(given(&dies(&mut desk, 2), 3), [(2, 1, 1)]);
    desk.register(4);
    let outputs = asks(&mut desk, 4, 2, 0);
    assert_eq!(given(&outputs, 4), [(2, 1, 1)]);
    assert_eq!(refusal(&desk.joins(3, 1, attempt(1)), 3), Some(Code::Fenced));
    assert_eq!(refusal(&desk.joins(4, 1, attempt(1)), 4), None);
    desk.says(3, AgentMessage::StandDown { task: Task(2), attempt: attempt(0) });
    assert_eq!(lost(&dies(&mut desk, 3)), []);
    let ranks: Vec<u32> = lost(&dies(&mut desk, 4)).into_iter().map(|(rank, ..)| rank).collect();
    assert_eq!(ranks, [1]);
}

#[test]
fn the_task_that_is_tried_again_becomes_the_next_spare_and_takes_the_rank_of_the_next_death() {
    let mut desk = training(1);
    dies(&mut desk, 2);
    desk.joins(3, 1, attempt(1));
    desk.register(4);
    let outputs = asks(&mut desk, 4, 1, 1);
    assert_eq!((given(&outputs, 4), refusal(&outputs, 4)), (vec![], None));
    // Rank 0 dies: the second try of task 1 has it from now on.
    assert_eq!(given(&dies(&mut desk, 1), 4), [(1, 0, 1)]);
    desk.joins(4, 0, attempt(1));
    // And so does task 0's, when the spare that has rank 1 dies.
    desk.register(5);
    asks(&mut desk, 5, 0, 1);
    assert_eq!(given(&dies(&mut desk, 3), 5), [(0, 1, 2)]);
}

#[test]
fn a_frozen_process_is_replaced_by_a_spare_and_all_that_it_says_when_it_wakes_is_refused() {
    let mut desk = training(1);
    let outputs = desk.pass_alive(1200, &[1, 3]);
    assert_eq!(given(&outputs, 3), [(2, 1, 1)]);
    let kill = |output: &TrackerOutput| matches!(output, TrackerOutput::Kill { task: Task(1), .. });
    assert!(outputs.iter().any(kill));
    desk.joins(3, 1, attempt(1));
    let member = MemberId { rank: Rank(1), incarnation: Incarnation::nth(0) };
    let ranks = vec![RankProgress { member, at: Position::default(), round: 9 }];
    let outputs = desk.says(2, AgentMessage::Heartbeat { sequence: 1, ranks }).to_vec();
    assert_eq!(fenced(&outputs, 2), [(1, 0, Code::Fenced)]);
    // Over a new connection it says again what it was given.
    let claimed = RankGiven { rank: Rank(1), attempt: attempt(0) };
    let standing = vec![Standing { task: Task(1), attempt: attempt(0), given: Some(claimed) }];
    let registration = Registration { standing, ..Desk::registration(2, vec![stands(1, 0, at(0))], Vec::new()) };
    let outputs = desk.says(22, AgentMessage::Register(registration)).to_vec();
    assert_eq!((fenced(&outputs, 22), ended(&outputs, 22)), (vec![(1, 0, Code::Fenced)], vec![(1, Code::Fenced)]));
    assert_eq!(refusal(&desk.joins(22, 1, attempt(0)), 22), Some(Code::Fenced));
    assert!(lost(&outputs).is_empty());
}

#[test]
fn no_task_joins_as_a_rank_that_it_was_not_given() {
    let mut desk = training(1);
    for (link, rank, its) in [(3, 1, 1), (3, 0, 5), (1, 1, 1), (3, 2, 0)] {
        let outputs = desk.joins(link, rank, attempt(its));
        assert!(refusal(&outputs, link).is_some(), "{link} {rank} {its}");
        assert!(lost(&outputs).is_empty());
    }
    dies(&mut desk, 2);
    // Given to the spare: another agent doesn't take it.
    assert_eq!(refusal(&desk.joins(1, 1, attempt(1)), 1), Some(Code::Fenced));
    assert_eq!(refusal(&desk.joins(3, 1, attempt(1)), 3), None);
}

#[test]
fn a_spare_that_dies_before_it_joins_leaves_the_rank_to_the_next_one() {
    let mut desk = training(2);
    assert_eq!(given(&dies(&mut desk, 2), 3), [(2, 1, 1)]);
    assert_eq!(given(&dies(&mut desk, 3), 4), [(3, 1, 2)]);
    assert_eq!(refusal(&desk.joins(3, 1, attempt(1)), 3), Some(Code::Fenced));
    assert_eq!(refusal(&desk.joins(4, 1, attempt(2)), 4), None);
}

#[test]
fn a_spare_that_stands_down_leaves_what_it_was_given_to_the_next_one() {
    let mut desk = training(2);
    dies(&mut desk, 2);
    let outputs = desk.says(3, AgentMessage::StandDown { task: Task(2), attempt: attempt(0) }).to_vec();
    assert_eq!(given(&outputs, 4), [(3, 1, 2)]);
}

#[test]
fn the_death_of_a_spare_is_no_death_of_a_rank_however_often_it_happens() {
    let deaths = DeathLimit { framework_counts: true, ..DeathLimit::new(2, "limit") };
    let mut desk = training_in(Desk::with(TrackerConfig { spares: 1, deaths, ..config(2) }), 1);
    for its in 0..5 {
        let outputs = dies(&mut desk, 3 + u64::from(its));
        assert!(lost(&outputs).is_empty() && failure(&outputs).is_none());
        assert_eq!(failure(&task_gone(&mut desk, 2, its, true)), None);
        desk.register(4 + u64::from(its));
        asks(&mut desk, 4 + u64::from(its), 2, its + 1);
    }
    // The newest one stands by all the same.
    assert_eq!(given(&dies(&mut desk, 2), 8), [(2, 1, 1)]);
}

#[test]
fn deaths_of_a_rank_count_whichever_task_had_it_when_the_framework_says_so() {
    let deaths = DeathLimit { framework_counts: true, ..DeathLimit::new(2, "limit") };
    for counts in [true, false] {
        let deaths = deaths.clone();
        let mut desk = training_in(Desk::with(TrackerConfig { spares: 2, deaths, ..config(2) }), 2);
        dies(&mut desk, 2);
        desk.joins(3, 1, attempt(1));
        // The framework's word comes after the spare has joined.
        assert_eq!(failure(&task_gone(&mut desk, 1, 0, true)), None);
        dies(&mut desk, 3);
        let outputs = task_gone(&mut desk, 2, 0, counts);
        let code = failure(&outputs).map(|error| error.code);
        assert_eq!(code, counts.then_some(Code::Unrecoverable));
        if let Some(error) = failure(&outputs) {
            assert!(error.message.contains("rank 1 died 2 times"), "{error}");
            assert!(error.message.contains("exec-2") && error.message.contains("exec-3"), "{error}");
        }
    }
}

#[test]
fn a_newer_try_of_a_task_takes_the_place_of_the_older_one_whatever_rank_that_has() {
    let mut desk = training(1);
    dies(&mut desk, 2);
    desk.joins(3, 1, attempt(1));
    desk.register(4);
    let outputs = asks(&mut desk, 4, 2, 1);
    assert_eq!(lost(&outputs).iter().map(|(rank, ..)| *rank).collect::<Vec<u32>>(), [1]);
    assert_eq!((fenced(&outputs, 3), given(&outputs, 4)), (vec![(1, 1, Code::Fenced)], vec![(2, 1, 2)]));
    // The older try has nothing to say any more.
    assert_eq!(ended(&asks(&mut desk, 3, 2, 0), 3), [(2, Code::Fenced)]);
}

#[test]
fn a_try_that_the_framework_says_has_ended_is_given_nothing_though_its_process_lives() {
    let mut desk = training(1);
    assert_eq!(ended(&task_gone(&mut desk, 2, 0, true), 3), [(2, Code::Fenced)]);
    assert_eq!(ended(&asks(&mut desk, 3, 2, 0), 3), [(2, Code::Fenced)]);
    assert_eq!(given(&dies(&mut desk, 2), 3), []);
}

#[test]
fn a_frozen_spare_is_given_nothing_until_it_speaks_and_the_framework_is_asked_to_replace_it() {
    let mut desk = training(1);
    let outputs = desk.pass_alive(1200, &[1, 2]);
    let kill = |output: &TrackerOutput| matches!(output, TrackerOutput::Kill { task: Task(2), .. });
    assert!(outputs.iter().any(kill) && lost(&outputs).is_empty());
    assert_eq!(given(&dies(&mut desk, 2), 3), []);
    let (sequence, ranks) = (7, Vec::new());
    let outputs = desk.says(3, AgentMessage::Heartbeat { sequence, ranks }).to_vec();
    assert_eq!(given(&outputs, 3), [(2, 1, 1)]);
}

#[test]
fn an_answer_that_was_lost_with_a_connection_is_sent_again_and_what_is_not_named_has_ended() {
    let mut desk = training(1);
    desk.input(TrackerInput::Closed { link: 3, reason: "reset".into() });
    // It can't be reached now.
    assert_eq!(given(&dies(&mut desk, 2), 3), []);
    let standing = |given| vec![Standing { task: Task(2), attempt: attempt(0), given }];
    let comes = |desk: &mut Desk, link, standing| {
        let registration = Registration { standing, ..Desk::registration(3, Vec::new(), Vec::new()) };
        desk.says(link, AgentMessage::Register(registration)).to_vec()
    };
    assert_eq!(given(&comes(&mut desk, 33, standing(None)), 33), [(2, 1, 1)]);
    // It never came: it is sent again, and no other one.
    assert_eq!(given(&comes(&mut desk, 34, standing(None)), 34), [(2, 1, 1)]);
    // The task has gone meanwhile: the task that is tried again gets the rank.
    comes(&mut desk, 35, Vec::new());
    desk.register(4);
    assert_eq!(given(&asks(&mut desk, 4, 1, 1), 4), [(1, 1, 2)]);
}

#[test]
fn a_rank_that_is_sent_back_is_kept_for_its_task_and_goes_to_a_spare_when_that_is_gone() {
    let mut desk = training(1);
    // Rank 0 has no logs of what rank 1 would start with: all go back.
    dies(&mut desk, 2);
    desk.joins(3, 1, attempt(1));
    desk.stands(3, vec![stands(1, 1, RankState::Fresh)], Vec::new());
    let behind = RankStatus { oldest: Version(3), ..stands(0, 0, at(3)) };
    let outputs = desk.stands(1, vec![behind], vec![checkpoint(2)]);
    assert_eq!(fenced(&outputs, 1), [(0, 0, Code::RolledBack)], "{outputs:?}");
    desk.register(4);
    assert_eq!(given(&asks(&mut desk, 4, 1, 1), 4), [], "it is about to join again");
    assert_eq!(given(&dies(&mut desk, 1), 4), [(1, 0, 1)]);
}

#[test]
fn a_restart_of_all_ends_the_tasks_of_before_and_their_spares() {
    let mut desk = training(1);
    desk.register(4);
    let all_again = Attempt { stage: 1, task: 0 };
    let outputs = desk.says(4, AgentMessage::StandBy { task: Task(0), attempt: all_again }).to_vec();
    assert_eq!(lost(&outputs).len(), 2);
    assert_eq!(ended(&outputs, 3), [(2, Code::Fenced)]);
    assert_eq!(given(&outputs, 4), [(0, 0, 1)]);
    assert_eq!((given(&outputs, 3), failure(&outputs)), (vec![], None));
}

#[test]
fn those_that_stand_by_hear_of_the_end_and_of_a_failure() {
    let mut desk = training(1);
    let error = Error::new(Code::Cancelled, "enough");
    let outputs = desk.input(TrackerInput::Cancel { error }).to_vec();
    assert!(sent(&outputs, 3).iter().any(|message| matches!(message, TrackerMessage::Ended(Err(_)))));
    desk.register(4);
    let outputs = asks(&mut desk, 4, 1, 1);
    assert!(sent(&outputs, 4).iter().any(|message| matches!(message, TrackerMessage::Ended(Err(_)))));
}

#[test]
fn a_task_that_the_job_does_not_have_is_refused() {
    let mut desk = training(1);
    assert_eq!(ended(&asks(&mut desk, 3, 3, 0), 3), [(3, Code::BadArgument)]);
    let mut desk = Desk::new(2);
    desk.register(3);
    assert_eq!(ended(&asks(&mut desk, 3, 2, 0), 3), [(2, Code::BadArgument)]);
}

#[test]
fn a_tracker_that_comes_back_leaves_ranks_to_the_tasks_that_have_them_and_gives_what_is_open() {
    let mut desk = Desk::with(TrackerConfig { epoch: 2, spares: 1, ..config(2) });
    // The former life had given rank 1 to task 2, in its try 1; task 1 stands by.
    let view = former(4, &[Some(0), Some(1)], &[]);
    let claims = |task: u32, its: u32, given: Option<(u32, u32)>| Standing {
        task: Task(task),
        attempt: attempt(its),
        given: given.map(|(rank, its)| RankGiven { rank: Rank(rank), attempt: attempt(its) }),
    };
    let comes = |desk: &mut Desk, agent: u64, ranks, standing| {
        let registration = Registration {
            standing: vec![standing],
            view: Some(Box::new(view.clone())),
            ..Desk::registration(agent, ranks, vec![checkpoint(3)])
        };
        desk.says(agent, AgentMessage::Register(registration)).to_vec()
    };
    comes(&mut desk, 4, Vec::new(), claims(1, 1, None));
    comes(&mut desk, 1, vec![stands(0, 0, at(3))], claims(0, 0, Some((0, 0))));
    let outputs = comes(&mut desk, 2, vec![stands(1, 1, at(3))], claims(2, 0, Some((1, 1))));
    assert!(lost(&outputs).is_empty() && ended(&outputs, 2).is_empty() && given(&outputs, 4).is_empty());
    assert_eq!(given(&dies(&mut desk, 2), 4), [(1, 1, 2)]);
    let outputs = desk.joins(4, 1, attempt(2));
    assert_eq!(refusal(&outputs, 4), None);
}

#[test]
fn a_rank_that_was_lost_with_the_tracker_goes_to_a_spare_when_that_comes_back() {
    let mut desk = Desk::with(TrackerConfig { epoch: 2, spares: 1, ..config(2) });
    let view = former(4, &[Some(0), Some(0)], &[]);
    comes_back(&mut desk, 1, &view, vec![stands(0, 0, at(3))]);
    let standing = vec![Standing { task: Task(2), attempt: attempt(0), given: None }];
    let registration = Registration { standing, ..Desk::registration(3, Vec::new(), Vec::new()) };
    let outputs = desk.says(3, AgentMessage::Register(registration)).to_vec();
    assert_eq!(given(&outputs, 3), [], "rank 1 may still come");
    let outputs = desk.pass_alive(2500, &[1, 3]);
    let (task, rank, its) = given(&outputs, 3)[0];
    assert_eq!((task, rank), (2, 1));
    assert_eq!(refusal(&desk.joins(3, 1, attempt(its)), 3), None);
}

#[test]
fn a_spare_that_alone_is_left_of_a_job_that_ended_under_a_former_life_does_not_wait_for_ever() {
    let mut desk = Desk::with(TrackerConfig { epoch: 2, spares: 1, ..config(2) });
    let view = former(4, &[Some(0), Some(0)], &[]);
    let standing = vec![Standing { task: Task(2), attempt: attempt(0), given: None }];
    let view = Some(Box::new(view));
    let registration = Registration { standing, view, ..Desk::registration(3, Vec::new(), Vec::new()) };
    desk.says(3, AgentMessage::Register(registration));
    desk.input(TrackerInput::TaskEnded { task: Task(0), attempt: attempt(0) });
    let outputs = desk.pass_alive(TIMING.members_millis + 5000, &[3]);
    assert_eq!(given(&outputs, 3), []);
    assert_eq!(failure(&outputs).map(|error| error.code), Some(Code::MembersMissing));
}
