//! Slots, views, plans and fences at an agent.

use crate::host_support;

use host_support::*;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::host::{HostInput, HostOutput};
use rejoin_protocol::ids::{Generation, Lineage, MemberId, Position, Version};
use rejoin_protocol::message::{AgentMessage, RankState, TrackerMessage};
use rejoin_protocol::report::Report;

#[test]
fn a_slot_drops_what_older_incarnations_had_here() {
    let mut desk = Desk::trained_to(2);
    desk.join(0, 1);
    let join_accepted = TrackerMessage::JoinAccepted { rank: ZERO, attempt: attempt(1), incarnation: incarnation(1) };
    let outputs = desk.received(join_accepted.clone());
    assert_eq!(freed(&outputs), Some((Some(0), Code::Fenced)));
    let last = HostOutput::JoinAccepted { rank: ZERO, attempt: attempt(1), incarnation: incarnation(1) };
    assert_eq!(outputs.last(), Some(&last));
    assert_eq!(desk.received(join_accepted), [], "sent again");
}

#[test]
fn a_slot_for_a_task_that_has_gone_is_given_back() {
    let mut desk = Desk::connected();
    let outputs =
        desk.received(TrackerMessage::JoinAccepted { rank: ZERO, attempt: attempt(0), incarnation: incarnation(0) });
    assert!(matches!(
        outputs[..],
        [HostOutput::Send(AgentMessage::Report {
            member: MemberId { rank: ZERO, .. },
            report: Report::Left { failure: None }
        })]
    ));
}

#[test]
fn a_refused_join_ends_with_the_trackers_reason() {
    let mut desk = Desk::connected();
    desk.join(0, 0);
    let error = Error::new(Code::Incompatible, "other terms");
    let outputs = desk.received(TrackerMessage::JoinRefused { rank: ZERO, attempt: attempt(0), error });
    assert_eq!(freed(&outputs), Some((None, Code::Incompatible)));
}

#[test]
fn a_task_joins_once() {
    let mut desk = Desk::join_accepted();
    assert_eq!(freed(&desk.join(0, 0)), Some((None, Code::BadState)));
}

#[test]
fn a_view_is_answered_at_once_while_nothing_trains_here() {
    let mut desk = Desk::join_accepted();
    let outputs = desk.received(TrackerMessage::View(view(2, &[Some(0), Some(0), None], false)));
    let status = status(&outputs).unwrap();
    assert_eq!(status.generation.number, 2);
    assert_eq!(status.ranks[0].state, RankState::Fresh);
}

#[test]
fn a_view_is_answered_only_when_the_channels_hold_what_they_have() {
    let mut desk = Desk::trained_to(4);
    let outputs = desk.received(TrackerMessage::View(view(2, &[Some(0), Some(0), None], true)));
    assert!(outputs.contains(&HostOutput::Hold { member: member(0), generation: Generation { epoch: 1, number: 2 } }));
    assert!(status(&outputs).is_none());
    // A checkpoint that the task took before its channels were held counts.
    desk.enter(5);
    let outputs = desk.hold(0, 4);
    let status = status(&outputs).unwrap();
    let rank = &status.ranks[0];
    assert_eq!(rank.state, RankState::At(Position { lineage: Lineage(0), version: Version(5) }));
    assert_eq!(rank.oldest, Version(4));
    assert_eq!(status.held, [checkpoint(3), checkpoint(4), checkpoint(5)]);
}

#[test]
fn an_older_view_is_ignored_and_the_same_one_is_answered_again() {
    let mut desk = Desk::join_accepted();
    desk.received(TrackerMessage::View(view(3, &[Some(0), None, None], false)));
    assert_eq!(desk.received(TrackerMessage::View(view(2, &[Some(0), None, None], false))), []);
    let outputs = desk.received(TrackerMessage::View(view(3, &[Some(0), None, None], false)));
    assert!(status(&outputs).is_some());
    assert_eq!(desk.host.view().unwrap().generation.number, 3);
}

#[test]
fn links_go_to_those_that_are_alive_and_planned_and_no_others() {
    let mut desk = Desk::trained_to(2);
    let mut slots = view(2, &[Some(0), Some(1), Some(0)], true);
    slots.slots[1].planned = false;
    let outputs = desk.received(TrackerMessage::View(slots));
    let peers = |outputs: &[HostOutput]| -> Vec<(u32, u32)> {
        let links = outputs.iter().find_map(|output| match output {
            HostOutput::Links { peers, .. } => {
                Some(peers.iter().map(|p| (p.member.rank.0, p.member.incarnation.number)).collect())
            }
            _ => None,
        });
        links.expect("links are sent after every view")
    };
    assert_eq!(peers(&outputs), [(2, 0)]);
    let outputs = desk.received(TrackerMessage::Plan(plan(2, vec![newcomer(1, 1, 2)], &[1])));
    assert_eq!(peers(&outputs), [(1, 1), (2, 0)]);
}

#[test]
fn a_start_at_the_beginning_comes_with_the_plan_and_before_the_links() {
    let mut desk = Desk::join_accepted();
    let all = (0..3).map(|rank| newcomer(rank, 0, 0)).collect();
    let outputs = desk.received(TrackerMessage::Plan(plan(1, all, &[])));
    assert!(matches!(&outputs[0], HostOutput::Start { start, .. } if start.version == Version(0)));
    assert!(matches!(outputs.last(), Some(HostOutput::Links { peers, .. }) if peers.len() == 2));
}

#[test]
fn a_plan_for_another_generation_is_ignored() {
    let mut desk = Desk::join_accepted();
    assert_eq!(desk.received(TrackerMessage::Plan(plan(7, vec![newcomer(0, 0, 0)], &[]))), []);
}

#[test]
fn a_fence_for_an_incarnation_that_is_not_here_changes_nothing() {
    let mut desk = Desk::trained_to(1);
    let error = Error::new(Code::Fenced, "lost");
    assert_eq!(desk.received(TrackerMessage::Fenced { member: member(4), error }), []);
}

#[test]
fn what_a_fenced_incarnation_does_is_nobodys_business() {
    let mut desk = Desk::trained_to(1);
    let error = Error::new(Code::Fenced, "lost");
    desk.received(TrackerMessage::Fenced { member: member(0), error });
    assert_eq!(desk.enter(2), []);
    assert_eq!(
        desk.input(HostInput::Report { member: member(0), report: Report::Finished { rounds: 3, digest: 1 } }),
        []
    );
    assert_eq!(desk.input(HostInput::Report { member: member(0), report: Report::Left { failure: None } }), []);
}
