//! The end: reached together, with one model, or not at all.

use crate::support;

use rejoin_protocol::error::Code;
use rejoin_protocol::event::Event;
use rejoin_protocol::ids::{Incarnation, MemberId, Rank, Task};
use rejoin_protocol::message::{AgentMessage, TrackerMessage};
use rejoin_protocol::tracker::{JobResult, TrackerInput, TrackerOutput};
use support::*;

fn part(desk: &mut Desk, rank: u32, incarnation: u32, offset: u64, total: u64, bytes: &[u8]) -> Vec<TrackerOutput> {
    let message = AgentMessage::ResultPart {
        member: MemberId { rank: Rank(rank), incarnation: Incarnation::nth(incarnation) },
        offset,
        total,
        bytes: bytes.to_vec(),
    };
    desk.says(u64::from(rank) + 1, message).to_vec()
}

fn result(outputs: &[TrackerOutput]) -> Option<&JobResult> {
    outputs.iter().find_map(|output| match output {
        TrackerOutput::Over(Ok(result)) => Some(result),
        _ => None,
    })
}

#[test]
fn the_end_is_reached_when_all_have_reported_the_same_model_and_the_result_is_whole() {
    let mut desk = Desk::trained_to(2, 3);
    part(&mut desk, 0, 0, 0, 5, b"mod");
    part(&mut desk, 0, 0, 3, 5, b"el");
    let outputs = desk.finishes(1, 0, 0, 3, 77);
    assert!(result(&outputs).is_none());
    assert!(sent(&outputs, 1).is_empty(), "no rank returns before all are there");
    let outputs = desk.finishes(2, 1, 0, 3, 77);
    let expected = JobResult { digest: 77, result: b"model".to_vec(), deaths: vec![0, 0] };
    assert_eq!(result(&outputs), Some(&expected));
    for link in [1, 2] {
        assert_eq!(sent(&outputs, link), [&TrackerMessage::Ended(Ok(77))]);
    }
    let ends = events(&outputs).into_iter().filter(|event| matches!(event, Event::JobEnded { .. })).count();
    assert_eq!(ends, 1);
}

#[test]
fn a_result_may_be_empty() {
    let mut desk = Desk::trained_to(1, 1);
    let outputs = desk.finishes(1, 0, 0, 1, 5);
    assert_eq!(result(&outputs).unwrap().result, Vec::<u8>::new());
}

#[test]
fn other_models_are_a_mismatch_that_names_both_ranks() {
    let mut desk = Desk::trained_to(2, 3);
    desk.finishes(1, 0, 0, 3, 77);
    let outputs = desk.finishes(2, 1, 0, 3, 78);
    let error = failure(&outputs).unwrap();
    assert_eq!(error.code, Code::Mismatch);
    assert!(error.message.contains("rank 0") && error.message.contains("rank 1"), "{error}");
}

#[test]
fn ends_after_different_rounds_are_a_mismatch() {
    let mut desk = Desk::trained_to(2, 3);
    desk.finishes(1, 0, 0, 3, 77);
    assert_eq!(failure(&desk.finishes(2, 1, 0, 2, 77)).unwrap().code, Code::Mismatch);
}

#[test]
fn a_rank_that_trains_on_after_another_has_ended_is_a_mismatch_at_once() {
    let mut desk = Desk::trained_to(2, 3);
    desk.finishes(1, 0, 0, 3, 77);
    assert_eq!(failure(&desk.enters(1, 0, 4)).unwrap().code, Code::Mismatch);

    let mut desk = Desk::trained_to(2, 3);
    desk.enters(1, 0, 4);
    let outputs = desk.finishes(1, 0, 0, 3, 77);
    let error = failure(&outputs).unwrap();
    assert!(error.message.contains("round 4") && error.message.contains("after 3 rounds"), "{error}");
}

#[test]
fn a_report_dies_with_its_incarnation() {
    let mut desk = Desk::trained_to(2, 3);
    part(&mut desk, 0, 0, 0, 5, b"model");
    desk.finishes(1, 0, 0, 3, 77);
    desk.leaves(1, 0, 0, None);
    let outputs = desk.finishes(2, 1, 0, 3, 77);
    assert!(result(&outputs).is_none());
    desk.joins(1, 0, attempt(1));
    desk.stands(2, vec![stands(1, 0, at(3))], vec![checkpoint(3)]);
    let fresh = rejoin_protocol::message::RankState::Fresh;
    desk.stands(1, vec![stands(0, 1, fresh)], vec![checkpoint(3)]);
    part(&mut desk, 0, 1, 0, 3, b"new");
    let outputs = desk.finishes(1, 0, 1, 3, 77);
    assert_eq!(result(&outputs).unwrap(), &JobResult { digest: 77, result: b"new".to_vec(), deaths: vec![1, 0] });
}

#[test]
fn a_report_of_an_older_incarnation_is_ignored() {
    let mut desk = Desk::trained_to(1, 3);
    desk.leaves(1, 0, 0, None);
    assert_eq!(desk.finishes(1, 0, 0, 3, 77), []);
    assert_eq!(part(&mut desk, 0, 0, 0, 1, b"x"), []);
}

#[test]
fn an_end_that_is_told_again_after_a_broken_connection_is_told_as_an_event_once() {
    let mut desk = Desk::trained_to(2, 3);
    part(&mut desk, 0, 0, 0, 5, b"mo");
    part(&mut desk, 0, 0, 0, 5, b"model");
    assert_eq!(events(&desk.finishes(1, 0, 0, 3, 77)).len(), 1);
    part(&mut desk, 0, 0, 0, 5, b"model");
    assert_eq!(events(&desk.finishes(1, 0, 0, 3, 77)).len(), 0);
    let outputs = desk.finishes(2, 1, 0, 3, 77);
    assert_eq!(result(&outputs).unwrap().result, b"model");
}

#[test]
fn the_end_waits_for_a_result_that_is_being_told_again_after_a_broken_connection() {
    let mut desk = Desk::trained_to(2, 3);
    part(&mut desk, 0, 0, 0, 5, b"model");
    desk.finishes(1, 0, 0, 3, 77);
    // Sent again from its beginning on, and the other rank finishes meanwhile.
    part(&mut desk, 0, 0, 0, 5, b"mod");
    let early = desk.finishes(2, 1, 0, 3, 77);
    assert!(result(&early).is_none() && sent(&early, 2).is_empty(), "{early:?}");
    part(&mut desk, 0, 0, 3, 5, b"el");
    assert_eq!(result(&desk.finishes(1, 0, 0, 3, 77)).unwrap().result, b"model");
}

#[test]
fn a_result_with_a_gap_or_without_its_end_is_refused() {
    let mut desk = Desk::trained_to(2, 3);
    part(&mut desk, 0, 0, 0, 5, b"mo");
    assert_eq!(failure(&part(&mut desk, 0, 0, 3, 5, b"el")).unwrap().code, Code::Internal);

    let mut desk = Desk::trained_to(2, 3);
    part(&mut desk, 0, 0, 0, 5, b"mo");
    assert_eq!(failure(&desk.finishes(1, 0, 0, 3, 77)).unwrap().code, Code::Internal);
}

#[test]
fn only_rank_0_gives_the_result() {
    let mut desk = Desk::trained_to(2, 3);
    part(&mut desk, 1, 0, 0, 5, b"model");
    desk.finishes(1, 0, 0, 3, 77);
    assert!(result(&desk.finishes(2, 1, 0, 3, 77)).unwrap().result.is_empty());
}

#[test]
fn whoever_comes_after_the_end_gets_it_at_once() {
    let mut desk = Desk::trained_to(1, 3);
    desk.finishes(1, 0, 0, 3, 77);
    let outputs = desk.register(9);
    assert!(sent(&outputs, 9).contains(&&TrackerMessage::Ended(Ok(77))));
    assert_eq!(sent(&desk.joins(9, 0, attempt(1)), 9), [&TrackerMessage::Ended(Ok(77))]);
}

#[test]
fn after_the_end_nothing_that_happens_changes_it() {
    let mut desk = Desk::trained_to(1, 3);
    desk.finishes(1, 0, 0, 3, 77);
    let inputs = [
        TrackerInput::Closed { link: 1, reason: "closed".into() },
        TrackerInput::ExecutorGone { executor: "exec-1".into(), reason: "scaled down".into() },
        TrackerInput::TaskGone { task: Task(0), attempt: attempt(0), reason: "done".into(), counts: true },
        TrackerInput::Cancel { error: rejoin_protocol::error::Error::new(Code::Cancelled, "late") },
        TrackerInput::Wake,
    ];
    for input in inputs {
        assert_eq!(desk.input(input.clone()), [], "{input:?}");
    }
}

#[test]
fn a_result_that_nobody_asks_for_is_not_kept_and_its_digest_is_told() {
    let mut desk = Desk::with(rejoin_protocol::tracker::TrackerConfig { wants_result: false, ..config(2) });
    desk.train_to(2, 3);
    part(&mut desk, 0, 0, 0, 5, b"mo");
    desk.finishes(1, 0, 0, 3, 77);
    let outputs = desk.finishes(2, 1, 0, 3, 77);
    assert_eq!(result(&outputs).unwrap(), &JobResult { digest: 77, result: Vec::new(), deaths: vec![0, 0] });
}
