//! What an agent reports and keeps of the agreement about the hook.

use crate::host_support;

use host_support::*;
use rejoin_protocol::hook::Hook;
use rejoin_protocol::host::{HostInput, HostOutput, Offer};
use rejoin_protocol::ids::Rank;
use rejoin_protocol::message::{AgentMessage, Plan, TrackerMessage};

fn joins(desk: &mut Desk, hook: Hook) -> Vec<HostOutput> {
    let offer = Offer { hook, ..Offer::default() };
    desk.input(HostInput::Join { rank: Rank(0), attempt: attempt(0), fingerprint: "terms".into(), offer })
}

#[test]
fn what_a_rank_can_is_told_with_its_join_on_every_connection_and_with_its_status() {
    let mut desk = Desk::connected();
    let can = |outputs: &[HostOutput]| {
        outputs.iter().any(|o| matches!(o, HostOutput::Send(AgentMessage::Join { hook: Hook::Possible, .. })))
    };
    let outputs = joins(&mut desk, Hook::Possible);
    assert!(can(&outputs), "{outputs:?}");
    desk.input(HostInput::TrackerDown { reason: "reset".into() });
    let outputs = desk.input(HostInput::TrackerUp);
    assert!(can(&outputs), "{outputs:?}");
    desk.received(TrackerMessage::JoinAccepted { rank: Rank(0), attempt: attempt(0), incarnation: incarnation(0) });
    let outputs = desk.received(TrackerMessage::View(view(1, &[Some(0), Some(0)], false)));
    assert_eq!(status(&outputs).expect("a status report").ranks[0].hook, Hook::Possible);
}

#[test]
fn a_rank_hears_what_was_agreed_with_its_start_and_its_agent_tells_it_to_a_tracker_that_comes_back() {
    for agreed in [Some(true), Some(false), None] {
        let mut desk = Desk::connected();
        joins(&mut desk, Hook::Possible);
        desk.received(TrackerMessage::JoinAccepted { rank: Rank(0), attempt: attempt(0), incarnation: incarnation(0) });
        desk.received(TrackerMessage::View(view(1, &[Some(0), Some(0)], false)));
        let first = plan(1, vec![newcomer(0, 0, 0), newcomer(1, 0, 0)], &[]);
        let outputs = desk.received(TrackerMessage::Plan(Plan { hooked: agreed, ..first }));
        let HostOutput::Start { start, .. } = &outputs[0] else { panic!("{outputs:?}") };
        assert_eq!(start.hooked, agreed == Some(true));
        desk.input(HostInput::TrackerDown { reason: "reset".into() });
        let outputs = desk.input(HostInput::TrackerUp);
        let reported = outputs.iter().find_map(|output| match output {
            HostOutput::Send(AgentMessage::Register(registration)) => {
                registration.view.as_ref().map(|view| view.hooked)
            }
            _ => None,
        });
        assert_eq!(reported, Some(agreed));
    }
}
