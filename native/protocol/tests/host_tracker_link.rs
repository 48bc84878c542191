//! An agent and its tracker: registering, heartbeats, broken connections, and the end.

use crate::host_support;

use host_support::*;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::host::{HostInput, HostOutput};
use rejoin_protocol::ids::{AgentId, Millis, Rank, Version};
use rejoin_protocol::message::{AgentMessage, RankState, TrackerMessage};
use rejoin_protocol::report::Report;

#[test]
fn it_registers_first_and_then_says_who_waits_for_a_slot() {
    let mut desk = Desk::new();
    assert_eq!(desk.join(0, 0), [], "no tracker to send to yet");
    let outputs = desk.input(HostInput::TrackerUp);
    assert!(matches!(&outputs[0], HostOutput::Send(AgentMessage::Register(r)) if r.agent == AgentId(1) && r.pid == 11));
    assert!(matches!(&outputs[1], HostOutput::Send(AgentMessage::Join { rank: ZERO, .. })));
}

#[test]
fn heartbeats_go_out_in_their_rhythm_with_where_the_ranks_are() {
    let mut desk = Desk::trained_to(2);
    let due = desk.host.wake_at().unwrap();
    assert!(due <= Millis(100));
    let outputs = desk.wake(due.0);
    let [HostOutput::Send(AgentMessage::Heartbeat { ranks, .. })] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!((ranks[0].at.version, ranks[0].round), (Version(2), 2));
    assert_eq!(desk.host.wake_at(), Some(Millis(due.0 + 100)));
}

#[test]
fn an_agent_to_which_nothing_happens_wakes_for_its_heartbeats_and_for_nothing_else() {
    let mut desk = Desk::trained_to(2);
    let mut wakes = 0;
    while let Some(at) = desk.host.wake_at().filter(|at| at.0 <= 60_000) {
        let outputs = desk.wake(at.0);
        let [HostOutput::Send(AgentMessage::Heartbeat { sequence, .. })] = outputs[..] else { panic!("{outputs:?}") };
        let answer = TrackerMessage::HeartbeatAck { sequence, lowest: None };
        assert_eq!(desk.received(answer), [], "an answer asks for nothing");
        wakes += 1;
    }
    assert_eq!(wakes, 60_000 / TIMING.heartbeat_millis);
}

#[test]
fn a_tracker_that_answers_no_heartbeat_is_left_and_looked_for_again() {
    let mut desk = Desk::trained_to(2);
    let left_at = |desk: &mut Desk| loop {
        let at = desk.host.wake_at().expect("it has something to wait for");
        assert!(at.0 < 60_000, "a silent tracker is never left");
        let outputs = desk.wake(at.0);
        if let [HostOutput::LeaveTracker { reason }] = &outputs[..] {
            assert!(reason.contains("no heartbeat"), "{reason}");
            return at.0;
        }
    };
    let left = left_at(&mut desk);
    assert!((5_000..6_000).contains(&left), "{left}");
    let reason = "left".into();
    assert_eq!(desk.input(HostInput::TrackerDown { reason }), [HostOutput::ConnectTracker]);
    // One that speaks again and then falls silent again has all its time.
    desk.input(HostInput::TrackerUp);
    desk.received(TrackerMessage::Registered { epoch: 1, timing: TIMING, wants_result: false });
    assert!(left_at(&mut desk) >= left + 5_000);
}

#[test]
fn an_agent_that_was_stopped_itself_judges_nobody_by_the_time_that_it_has_missed() {
    let mut desk = Desk::trained_to(2);
    let outputs = desk.wake(600_000);
    assert!(matches!(&outputs[..], [HostOutput::Send(AgentMessage::Heartbeat { .. })]), "{outputs:?}");
}

#[test]
fn after_a_broken_connection_all_that_may_be_lost_is_told_again() {
    let mut desk = Desk::trained_to(0);
    let (member, local) = (member(0), Some(vec![7]));
    desk.input(HostInput::Entered { member, checkpoint: checkpoint(1), local });
    desk.input(HostInput::Report { member, report: Report::Finished { rounds: 1, digest: 5 } });
    assert_eq!(desk.input(HostInput::TrackerDown { reason: "reset".into() }), [HostOutput::ConnectTracker]);
    assert_eq!(desk.join(1, 0), []);
    let outputs = desk.input(HostInput::TrackerUp);
    let reported: Vec<&AgentMessage> = outputs
        .iter()
        .filter_map(|output| match output {
            HostOutput::Send(message) => Some(message),
            _ => None,
        })
        .collect();
    let AgentMessage::Register(registration) = reported[0] else { panic!("{reported:?}") };
    assert!(matches!(registration.status.ranks[0].state, RankState::Finished { digest: 5, .. }));
    assert_eq!((&registration.fingerprint[..], registration.epoch), (&["terms".to_string()][..], 1));
    assert!(reported.iter().any(|m| matches!(m, AgentMessage::Local { bytes, .. } if bytes[..] == [7])));
    assert!(reported
        .iter()
        .any(|m| matches!(m, AgentMessage::Report { report: Report::Finished { rounds: 1, digest: 5 }, .. })));
    assert!(reported.iter().any(|m| matches!(m, AgentMessage::Join { rank: Rank(1), .. })));
}

#[test]
fn a_rank_that_was_told_to_a_tracker_as_one_that_waits_starts_by_no_plan_of_the_time_before() {
    let mut desk = Desk::join_accepted();
    desk.received(TrackerMessage::Plan(plan(1, vec![newcomer(0, 0, 5)], &[2])));
    desk.input(HostInput::TrackerDown { reason: "reset".into() });
    let outputs = desk.input(HostInput::TrackerUp);
    let HostOutput::Send(AgentMessage::Register(registration)) = &outputs[0] else { panic!("{outputs:?}") };
    assert_eq!(registration.status.ranks[0].state, RankState::Fresh);
    let starts = |outputs: &[HostOutput]| outputs.iter().any(|output| matches!(output, HostOutput::Start { .. }));
    let source = "a peer".to_string();
    let outputs = desk.input(HostInput::Fetched { member: member(0), bytes: 10, source, millis: 1 });
    assert!(!starts(&outputs), "its tracker may be another one: {outputs:?}");
    desk.received(TrackerMessage::Registered { epoch: 1, timing: TIMING, wants_result: false });
    desk.received(TrackerMessage::View(view(1, &[Some(0), Some(0), Some(0)], false)));
    let outputs = desk.received(TrackerMessage::Plan(plan(1, vec![newcomer(0, 0, 5)], &[2])));
    assert!(starts(&outputs), "and what came meanwhile is there: {outputs:?}");
}

#[test]
fn what_cannot_be_gone_on_with_is_told_again_as_long_as_its_task_is_here() {
    let mut desk = Desk::trained_to(1);
    desk.input(HostInput::TrackerDown { reason: "reset".into() });
    let member = member(0);
    let error = Error::new(Code::Mismatch, "another call");
    assert_eq!(desk.input(HostInput::Report { member, report: Report::Broken(error.clone()) }), [], "no tracker yet");
    let broken = HostOutput::Send(AgentMessage::Report { member, report: Report::Broken(error) });
    assert!(desk.input(HostInput::TrackerUp).contains(&broken));
    desk.input(HostInput::TrackerDown { reason: "reset".into() });
    assert!(desk.input(HostInput::TrackerUp).contains(&broken), "the connection may have been lost with it");
    desk.input(HostInput::TrackerDown { reason: "reset".into() });
    desk.input(HostInput::Report { member, report: Report::Left { failure: None } });
    assert!(!desk.input(HostInput::TrackerUp).contains(&broken));
}

#[test]
fn a_tracker_that_is_never_reached_frees_those_who_wait_and_says_how_long() {
    let mut desk = Desk::new();
    desk.join(0, 0);
    desk.input(HostInput::TrackerDown { reason: "connection refused".into() });
    assert_eq!(desk.host.wake_at(), Some(Millis(5000)));
    assert_eq!(desk.wake(4999), []);
    let outputs = desk.wake(5000);
    let [HostOutput::Free { incarnation: None, error, .. }, HostOutput::Close { .. }] = &outputs[..] else {
        panic!("{outputs:?}")
    };
    assert_eq!(error.code, Code::TrackerUnreachable);
    assert!(error.message.contains("5 s") && error.message.contains("connection refused"), "{error}");
    assert_eq!(freed(&desk.join(0, 1)), Some((None, Code::TrackerUnreachable)));
}

#[test]
fn who_finds_another_version_at_the_trackers_address_is_told_at_once_unless_the_job_was_there_before() {
    let error = Error::new(Code::Incompatible, "expected wire version 5, saw 6");
    let mut desk = Desk::new();
    let outputs = desk.input(HostInput::TrackerIncompatible { error: error.clone() });
    assert_eq!(outputs, [HostOutput::ConnectTracker], "no rank waits yet");
    desk.join(0, 0);
    let outputs = desk.input(HostInput::TrackerIncompatible { error: error.clone() });
    let [HostOutput::Free { incarnation: None, error: reported, .. }, HostOutput::Close { .. }] = &outputs[..] else {
        panic!("{outputs:?}")
    };
    assert_eq!(*reported, error);

    let mut desk = Desk::trained_to(1);
    assert_eq!(desk.input(HostInput::TrackerIncompatible { error }), [HostOutput::ConnectTracker]);
    assert!(desk
        .input(HostInput::TrackerUp)
        .iter()
        .any(|output| matches!(output, HostOutput::Send(AgentMessage::Register(_)))));
}

#[test]
fn training_goes_on_without_a_tracker_until_the_lease_runs_out() {
    let mut desk = Desk::trained_to(1);
    desk.now = 1000;
    desk.input(HostInput::TrackerDown { reason: "reset".into() });
    assert_eq!(desk.wake(10_999), []);
    let outputs = desk.wake(11_000);
    assert_eq!(freed(&outputs), Some((Some(0), Code::TrackerUnreachable)));
    assert!(matches!(outputs.last(), Some(HostOutput::Close { .. })));
    assert_eq!(desk.host.wake_at(), None);
}

#[test]
fn the_end_is_told_to_all_tasks_and_to_those_that_come_later() {
    let mut desk = Desk::trained_to(1);
    desk.input(HostInput::Report { member: member(0), report: Report::Finished { rounds: 1, digest: 5 } });
    desk.join(1, 0);
    let outputs = desk.received(TrackerMessage::Ended(Ok(5)));
    assert_eq!(outputs.iter().filter(|output| matches!(output, HostOutput::Over { outcome: Ok(5), .. })).count(), 2);
    assert_eq!(desk.received(TrackerMessage::Ended(Ok(5))), [], "once");
    let outputs = desk.join(2, 0);
    assert!(matches!(outputs[..], [HostOutput::Over { rank: Rank(2), outcome: Ok(5), .. }]));
}

#[test]
fn an_error_that_ends_the_job_is_told_to_all_tasks() {
    let mut desk = Desk::trained_to(1);
    let error = Error::new(Code::Mismatch, "other bytes");
    let outputs = desk.received(TrackerMessage::Ended(Err(error.clone())));
    assert_eq!(outputs, [HostOutput::Over { rank: ZERO, attempt: attempt(0), outcome: Err(error) }]);
}

#[test]
fn after_the_end_the_agent_is_over_when_its_tasks_and_its_tracker_are_gone() {
    let mut desk = Desk::trained_to(1);
    desk.received(TrackerMessage::Ended(Ok(5)));
    let outputs = desk.input(HostInput::TrackerDown { reason: "closed".into() });
    assert!(!outputs.iter().any(|output| matches!(output, HostOutput::Close { .. })), "a task is still here");
    let outputs = desk.input(HostInput::Report { member: member(0), report: Report::Left { failure: None } });
    assert!(matches!(outputs[..], [HostOutput::Close { .. }]));
}

#[test]
fn a_registration_that_is_refused_ends_the_agent_with_the_reason() {
    let mut desk = Desk::new();
    desk.join(0, 0);
    desk.input(HostInput::TrackerUp);
    let outputs = desk.received(TrackerMessage::Refused(Error::new(Code::Incompatible, "another job")));
    assert_eq!(freed(&outputs), Some((None, Code::Incompatible)));
    assert!(matches!(outputs.last(), Some(HostOutput::Close { .. })));
}

#[test]
fn a_life_of_the_tracker_that_another_one_has_followed_is_left_and_not_obeyed() {
    let mut desk = Desk::trained_to(4);
    let mut newer = view(1, &[Some(0), Some(0), Some(0)], true);
    newer.generation.epoch = 2;
    desk.received(TrackerMessage::View(newer));
    desk.input(HostInput::TrackerDown { reason: "reset".into() });
    desk.input(HostInput::TrackerUp);
    let outputs = desk.received(TrackerMessage::Registered { epoch: 1, timing: TIMING, wants_result: false });
    assert!(matches!(&outputs[..], [HostOutput::LeaveTracker { reason }] if reason.contains("life 2 has followed")));
    let error = Error::new(Code::Fenced, "lost");
    let outputs = desk.received(TrackerMessage::Fenced { member: member(0), error });
    assert_eq!(outputs, []);
    desk.input(HostInput::TrackerDown { reason: "left".into() });
    desk.input(HostInput::TrackerUp);
    assert!(!desk
        .received(TrackerMessage::Registered { epoch: 2, timing: TIMING, wants_result: false })
        .iter()
        .any(|output| matches!(output, HostOutput::LeaveTracker { .. })));
}

#[test]
fn a_life_of_the_tracker_that_gave_no_view_yet_counts_as_newer_too() {
    let mut desk = Desk::new();
    desk.input(HostInput::TrackerUp);
    desk.received(TrackerMessage::Registered { epoch: 2, timing: TIMING, wants_result: false });
    desk.input(HostInput::TrackerDown { reason: "reset".into() });
    desk.input(HostInput::TrackerUp);
    let outputs = desk.received(TrackerMessage::Registered { epoch: 1, timing: TIMING, wants_result: false });
    assert!(matches!(&outputs[..], [HostOutput::LeaveTracker { .. }]), "{outputs:?}");
}
