//! Agents that register, come back, fall silent, and are gone.

use crate::support;

use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::event::Event;
use rejoin_protocol::ids::{AgentId, Incarnation, MemberId, Millis, Rank, Version};
use rejoin_protocol::message::{AgentMessage, CheckpointWish, RankProgress, RankState, Timing, TrackerMessage};
use rejoin_protocol::tracker::{DeathLimit, Tracker, TrackerConfig, TrackerInput, TrackerOutput};
use support::*;

#[test]
fn a_registration_is_answered_with_the_rhythm() {
    let mut desk = Desk::new(1);
    let outputs = desk.register(1);
    assert_eq!(sent(&outputs, 1), [&TrackerMessage::Registered { epoch: 1, timing: TIMING, wants_result: true }]);
    assert!(matches!(events(&outputs)[..], [Event::AgentJoined { agent: AgentId(1), pid: 101, .. }]));
}

#[test]
fn a_stranger_who_speaks_before_registering_is_refused_and_cut_off() {
    let mut desk = Desk::new(1);
    let outputs = desk.joins(7, 0, attempt(0));
    assert!(matches!(sent(&outputs, 7)[..], [TrackerMessage::Refused(error)] if error.code == Code::BadState));
    assert!(outputs.contains(&TrackerOutput::Close { link: 7 }));
}

#[test]
fn an_agent_that_comes_back_on_a_new_link_keeps_its_ranks_and_is_told_the_view_again() {
    let mut desk = Desk::trained_to(2, 3);
    let outputs = desk.register_as(50, 1, vec![stands(0, 0, at(3))], vec![checkpoint(3)]);
    assert!(outputs.contains(&TrackerOutput::Close { link: 1 }));
    assert!(lost(&outputs).is_empty());
    assert!(views(&outputs, 50)[0].alive(Rank(0)).is_some());
    assert!(!events(&outputs).iter().any(|event| matches!(event, Event::AgentJoined { .. })));
}

#[test]
fn a_rank_that_its_agent_does_not_know_after_a_reconnection_is_lost() {
    let mut desk = Desk::trained_to(2, 3);
    let outputs = desk.register_as(50, 1, Vec::new(), vec![checkpoint(3)]);
    let (rank, reason, deaths) = lost(&outputs).remove(0);
    assert_eq!((rank, deaths), (0, 1));
    assert!(reason.contains("disconnected"), "{reason}");
}

#[test]
fn an_outdated_incarnation_that_comes_back_is_fenced() {
    let mut desk = Desk::trained_to(2, 3);
    desk.leaves(1, 0, 0, None);
    let outputs = desk.register_as(50, 1, vec![stands(0, 0, at(3))], Vec::new());
    assert_eq!(fenced(&outputs, 50), [(0, 0, Code::Fenced)]);
}

#[test]
fn a_closed_connection_is_probed_and_no_loss_yet() {
    let mut desk = Desk::trained_to(2, 3);
    let outputs = desk.input(TrackerInput::Closed { link: 1, reason: "reset".into() }).to_vec();
    assert!(matches!(outputs[..], [TrackerOutput::Probe { agent: AgentId(1), .. }]));
    let outputs = desk.input(TrackerInput::Probed { agent: AgentId(1), gone: false }).to_vec();
    assert!(lost(&outputs).is_empty());
}

#[test]
fn a_process_that_is_known_to_be_dead_is_lost_at_once() {
    let mut desk = Desk::trained_to(2, 3);
    desk.input(TrackerInput::Closed { link: 1, reason: "reset by peer".into() });
    let outputs = desk.input(TrackerInput::Probed { agent: AgentId(1), gone: true }).to_vec();
    let (rank, reason, _) = lost(&outputs).remove(0);
    assert_eq!(rank, 0);
    assert!(reason.contains("reset by peer") && reason.contains("gone"), "{reason}");
    assert!(!outputs.iter().any(|output| matches!(output, TrackerOutput::Kill { .. })), "it is dead already");
}

#[test]
fn a_process_that_dies_slowly_is_probed_again() {
    let mut desk = Desk::trained_to(2, 3);
    desk.input(TrackerInput::Closed { link: 1, reason: "reset".into() });
    desk.input(TrackerInput::Probed { agent: AgentId(1), gone: false });
    let outputs = desk.pass(150);
    assert!(outputs.iter().any(|output| matches!(output, TrackerOutput::Probe { agent: AgentId(1), .. })));
}

#[test]
fn a_probe_that_answers_after_the_agent_came_back_changes_nothing() {
    let mut desk = Desk::trained_to(2, 3);
    desk.input(TrackerInput::Closed { link: 1, reason: "reset".into() });
    desk.register_as(50, 1, vec![stands(0, 0, at(3))], Vec::new());
    let outputs = desk.input(TrackerInput::Probed { agent: AgentId(1), gone: true }).to_vec();
    assert_eq!(outputs, []);
}

#[test]
fn a_silent_agent_is_lost_after_the_limit_and_its_process_is_to_be_killed() {
    let mut desk = Desk::trained_to(2, 3);
    let outputs = desk.pass_alive(900, &[2]);
    assert!(lost(&outputs).is_empty());
    let outputs = desk.pass_alive(200, &[2]);
    assert_eq!(lost(&outputs).iter().map(|(rank, ..)| *rank).collect::<Vec<_>>(), [0]);
    let killed = outputs.iter().find_map(|output| match output {
        TrackerOutput::Kill { task, executor, .. } => Some((task.0, executor.clone())),
        _ => None,
    });
    assert_eq!(killed, Some((0, "exec-1".into())));
    assert_eq!(fenced(&outputs, 1), [(0, 0, Code::Fenced)]);
}

#[test]
fn an_agent_that_wakes_before_the_limit_goes_on_as_if_nothing_had_been() {
    let mut desk = Desk::trained_to(2, 3);
    desk.pass_alive(900, &[2]);
    let outputs = desk.pass_alive(2000, &[1, 2]);
    assert!(lost(&outputs).is_empty());
}

#[test]
fn an_agent_that_wakes_after_the_limit_finds_its_rank_fenced_and_counts_again_as_a_holder() {
    let mut desk = Desk::trained_to(2, 3);
    desk.pass_alive(1200, &[2]);
    let at = rejoin_protocol::ids::Position { lineage: rejoin_protocol::ids::Lineage(0), version: Default::default() };
    let ranks =
        vec![RankProgress { member: MemberId { rank: Rank(0), incarnation: Incarnation::nth(0) }, at, round: 3 }];
    let outputs = desk.says(1, AgentMessage::Heartbeat { sequence: 9, ranks }).to_vec();
    assert_eq!(fenced(&outputs, 1), [(0, 0, Code::Fenced)]);
    // All are sent where it is, because a plan may name it.
    assert!(matches!(events(&outputs)[..], [Event::AgentJoined { agent: AgentId(1), .. }, Event::ViewMade { .. }]));
    assert_eq!((views(&outputs, 1).len(), views(&outputs, 2).len()), (1, 1));
}

#[test]
fn a_stalled_tracker_does_not_take_its_own_silence_for_that_of_others() {
    let mut desk = Desk::trained_to(2, 3);
    desk.now += 5000; // it was not woken for so long
    let outputs = desk.input(TrackerInput::Wake).to_vec();
    assert!(lost(&outputs).is_empty());
    // From here on silence counts again.
    let outputs = desk.pass(1100);
    assert_eq!(lost(&outputs).len(), 2);
}

#[test]
fn an_executor_that_the_framework_reports_gone_is_lost_at_once() {
    let mut desk = Desk::trained_to(2, 3);
    let gone = TrackerInput::ExecutorGone { executor: "exec-2".into(), reason: "exit code 137".into() };
    let outputs = desk.input(gone).to_vec();
    let (rank, reason, _) = lost(&outputs).remove(0);
    assert_eq!(rank, 1);
    assert!(reason.contains("exit code 137"), "{reason}");
    assert_eq!(views(&outputs, 1)[0].vacant(), [Rank(1)]);
}

#[test]
fn a_heartbeat_is_answered_with_its_number_and_the_lowest_position() {
    let mut desk = Desk::trained_to(2, 3);
    desk.enters(1, 0, 4);
    let outputs = desk.says(2, AgentMessage::Heartbeat { sequence: 12, ranks: Vec::new() }).to_vec();
    let [TrackerMessage::HeartbeatAck { sequence: 12, lowest: Some(lowest) }] = sent(&outputs, 2)[..] else {
        panic!("{outputs:?}");
    };
    assert_eq!(lowest.version.0, 3);
}

#[test]
fn progress_of_an_older_incarnation_is_not_passed_on() {
    let mut desk = Desk::trained_to(2, 3);
    desk.leaves(1, 0, 0, None);
    assert_eq!(events(&desk.enters(0, 0, 4)), Vec::<&Event>::new());
}

#[test]
fn agents_that_register_are_given_the_fault_rules() {
    let rule = rejoin_protocol::fault::FaultRule {
        id: 3,
        rank: Rank(0),
        incarnation: None,
        moment: rejoin_protocol::fault::Moment::Joined,
        action: rejoin_protocol::fault::Action::Kill,
    };
    let mut desk = Desk::with(TrackerConfig { faults: vec![rule.clone()], ..config(1) });
    assert!(sent(&desk.register(1), 1).contains(&&TrackerMessage::Faults(vec![rule])));
}

#[test]
fn configurations_that_cannot_work_are_refused_with_what_would() {
    let timing = |change: fn(&mut Timing)| {
        let mut timing = TIMING;
        change(&mut timing);
        TrackerConfig { timing, ..config(1) }
    };
    let cases = [
        (TrackerConfig { world: 0, ..config(1) }, "at least 1"),
        (TrackerConfig { deaths: DeathLimit::new(0, "deaths"), ..config(1) }, "at least 1"),
        (timing(|timing| timing.heartbeat_millis = 0), "at least 1 ms"),
        (timing(|timing| timing.lost_after_millis = 150), "200 ms or more"),
        (timing(|timing| timing.lease_millis = 10), "200 ms or more"),
        (timing(|timing| timing.members_millis = 10), "200 ms or more"),
    ];
    for (config, expected) in cases {
        let error = Tracker::new(config, Millis(0)).unwrap_err();
        assert_eq!(error.code, Code::BadArgument);
        assert!(error.message.contains(expected), "{error}");
    }
}

#[test]
fn an_agent_that_registers_again_while_a_plan_stands_is_told_the_plan_again() {
    let mut desk = Desk::trained_to(2, 3);
    desk.leaves(1, 0, 0, None);
    desk.joins(1, 0, attempt(1));
    desk.stands(1, vec![stands(0, 1, RankState::Fresh)], vec![checkpoint(3)]);
    desk.stands(2, vec![stands(1, 0, at(3))], vec![checkpoint(3)]);
    let outputs = desk.register_as(50, 1, vec![stands(0, 1, RankState::Fresh)], vec![checkpoint(3)]);
    assert!(lost(&outputs).is_empty());
    assert_eq!(plan(&outputs, 50).unwrap().newcomers[0].rank, Rank(0));
}

fn wishes(outputs: &[TrackerOutput], to: u64) -> Vec<CheckpointWish> {
    let wishes = sent(outputs, to).into_iter().filter_map(|message| match message {
        TrackerMessage::CheckpointWanted(wish) => Some(*wish),
        _ => None,
    });
    wishes.collect()
}

#[test]
fn a_checkpoint_that_is_wanted_is_asked_of_all_agents_once_and_of_those_that_come_later() {
    let mut desk = Desk::trained_to(2, 3);
    let wish = CheckpointWish { after: Version(3), durable: true };
    let outputs = desk.input(TrackerInput::CheckpointWanted(wish)).to_vec();
    assert_eq!([wishes(&outputs, 1), wishes(&outputs, 2)], [[wish], [wish]]);
    assert_eq!(desk.input(TrackerInput::CheckpointWanted(wish)).to_vec(), [], "it is known");
    let outputs = desk.register(7);
    assert_eq!(wishes(&outputs, 7), [wish]);
    let later = CheckpointWish { after: Version(5), durable: false };
    let outputs = desk.input(TrackerInput::CheckpointWanted(later)).to_vec();
    assert_eq!([wishes(&outputs, 1), wishes(&outputs, 7)], [[later], [later]]);
}

#[test]
fn after_the_end_no_checkpoint_is_wanted() {
    let mut desk = Desk::trained_to(2, 3);
    desk.input(TrackerInput::Cancel { error: Error::new(Code::Cancelled, "no more") });
    let wish = CheckpointWish { after: Version(3), durable: true };
    assert_eq!(desk.input(TrackerInput::CheckpointWanted(wish)).to_vec(), []);
}

#[test]
fn a_wish_is_open_until_a_later_version_and_makes_the_next_two_durable() {
    let wish = CheckpointWish { after: Version(3), durable: true };
    let open: Vec<u32> = (0..8).filter(|version| wish.is_open_in(Version(*version))).collect();
    let durable: Vec<u32> = (0..8).filter(|version| wish.makes_durable(Version(*version))).collect();
    assert_eq!((open, durable), (vec![0, 1, 2, 3], vec![4, 5]));
    let other = CheckpointWish { durable: false, ..wish };
    assert!((0..8).all(|version| !other.makes_durable(Version(version))));
}
