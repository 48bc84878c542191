//! Which versions an agent reports, and when.

use crate::host_support;

use host_support::*;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::event::Event;
use rejoin_protocol::host::{HostInput, HostOutput, ONE_BY_ONE};
use rejoin_protocol::ids::{AgentId, Generation, Version};
use rejoin_protocol::message::{AgentMessage, RankState, TrackerMessage};
use rejoin_protocol::report::Report;

/// What of it the tracker is sent: `Ok` a version that was entered, `Err` the kind of another message.
fn sent(outputs: &[HostOutput]) -> Vec<Result<u32, &'static str>> {
    let messages = outputs.iter().filter_map(|output| match output {
        HostOutput::Send(message) => Some(message),
        _ => None,
    });
    let sent = messages.map(|message| match message {
        AgentMessage::Report { report: Report::VersionEntered { version, round, .. }, .. } => {
            assert_eq!(*round, version.0, "the round is that of the version");
            Ok(version.0)
        }
        AgentMessage::Report { report: Report::Finished { .. }, .. } => Err("finished"),
        AgentMessage::Report { report: Report::Left { .. }, .. } => Err("left"),
        AgentMessage::Report { report: Report::Broken(_), .. } => Err("broken"),
        AgentMessage::Register(_) => Err("register"),
        AgentMessage::Heartbeat { .. } => Err("heartbeat"),
        AgentMessage::StatusReport(_) => Err("status"),
        AgentMessage::Local { .. } => Err("local"),
        AgentMessage::Event(_) => Err("event"),
        _ => Err("other"),
    });
    sent.collect()
}

/// Settled, and beyond the versions that are reported one by one.
fn far() -> Desk {
    Desk::trained_to(ONE_BY_ONE - 1)
}

const FIRST_LATE: u32 = ONE_BY_ONE;

#[test]
fn the_first_versions_of_an_incarnation_are_reported_as_they_are_entered() {
    let mut desk = Desk::trained_to(0);
    for version in 1..ONE_BY_ONE {
        assert!(desk.host.reports_at_once());
        assert_eq!(sent(&desk.enter(version)), [Ok(version)]);
    }
    assert_eq!(sent(&desk.enter(FIRST_LATE)), []);
    assert!(!desk.host.reports_at_once());
}

#[test]
fn of_later_versions_the_newest_one_is_reported_ahead_of_the_next_heartbeat_and_once() {
    let mut desk = far();
    for version in FIRST_LATE..FIRST_LATE + 10 {
        assert_eq!(sent(&desk.enter(version)), []);
    }
    assert_eq!(sent(&desk.wake(TIMING.heartbeat_millis)), [Ok(FIRST_LATE + 9), Err("heartbeat")]);
    assert_eq!(sent(&desk.wake(2 * TIMING.heartbeat_millis)), [Err("heartbeat")]);
}

#[test]
fn the_last_version_is_reported_before_the_end_however_the_rank_ends() {
    let finished = |digest| Report::Finished { rounds: FIRST_LATE, digest };
    let failure = Some(Error::new(Code::TrainingFailed, "it threw"));
    let ends = [
        (finished(1), "finished"),
        (Report::Left { failure: None }, "left"),
        (Report::Left { failure }, "left"),
        (Report::Broken(Error::new(Code::Mismatch, "it differs")), "broken"),
    ];
    for (report, kind) in ends {
        let mut desk = far();
        desk.enter(FIRST_LATE);
        assert_eq!(sent(&desk.input(HostInput::Report { member: member(0), report })), [Ok(FIRST_LATE), Err(kind)]);
    }
}

#[test]
fn an_event_comes_behind_the_version_that_its_rank_is_in() {
    let mut desk = far();
    desk.enter(FIRST_LATE);
    let usage =
        Event::Usage { agent: AgentId(1), log_bytes: 0, spilled_bytes: 0, checkpoint_bytes: 0, log_bytes_peak: 0 };
    assert_eq!(sent(&desk.input(HostInput::Event(usage))), [Ok(FIRST_LATE), Err("event")]);
}

#[test]
fn while_a_rank_is_missing_or_behind_every_version_is_reported_as_it_is_entered() {
    let mut desk = far();
    desk.enter(FIRST_LATE);
    assert_eq!(sent(&desk.received(TrackerMessage::View(view(2, &[Some(0), None, Some(0)], true)))), []);
    assert!(desk.host.reports_at_once());
    let outputs = desk.hold(0, FIRST_LATE);
    assert_eq!(sent(&outputs), [Ok(FIRST_LATE), Err("status")]);
    let state = &status(&outputs).unwrap().ranks[0].state;
    assert!(matches!(state, RankState::At(at) if at.version == Version(FIRST_LATE)), "{state:?}");
    for version in FIRST_LATE + 1..FIRST_LATE + 5 {
        assert_eq!(sent(&desk.enter(version)), [Ok(version)]);
    }
    desk.received(TrackerMessage::Settled { generation: Generation { epoch: 1, number: 2 } });
    assert!(!desk.host.reports_at_once());
    assert_eq!(sent(&desk.enter(FIRST_LATE + 5)), []);
}

#[test]
fn a_version_that_is_entered_without_a_tracker_is_reported_when_it_is_back() {
    let mut desk = far();
    desk.input(HostInput::TrackerDown { reason: "reset".into() });
    for version in FIRST_LATE..FIRST_LATE + 3 {
        assert_eq!(sent(&desk.enter(version)), []);
    }
    assert_eq!(sent(&desk.input(HostInput::TrackerUp)), [Err("register"), Ok(FIRST_LATE + 2), Err("heartbeat")]);
}

#[test]
fn the_own_state_of_a_rank_goes_ahead_of_the_version_that_it_is_of() {
    let mut desk = far();
    let mut enter = |version: u32| {
        let local = Some(vec![1, 2]);
        sent(&desk.input(HostInput::Entered { member: member(0), checkpoint: checkpoint(version), local }))
    };
    assert_eq!(enter(FIRST_LATE), [Err("local")]);
    assert_eq!(enter(FIRST_LATE + 1), [Err("local")]);
    assert_eq!(sent(&desk.wake(TIMING.heartbeat_millis)), [Ok(FIRST_LATE + 1), Err("heartbeat")]);
}
