//! A rank's own model: where copies of it are made, when it is safe, and how it comes back.

use crate::host_support;

use host_support::*;
use rejoin_protocol::former::{Former, Given};
use rejoin_protocol::host::{HostInput, HostOutput};
use rejoin_protocol::ids::{AgentId, Checkpoint, Rank};
use rejoin_protocol::message::{Newcomer, TrackerMessage};
use rejoin_protocol::view::{AgentAddress, View};

fn own(version: u32, rank: u32) -> Checkpoint {
    Checkpoint { owner: Some(Rank(rank)), digest: u128::from(rank) + 900, ..checkpoint(version) }
}

/// The agents that copies are to be made to.
fn copies(outputs: &[HostOutput]) -> Vec<u64> {
    let copies = outputs.iter().filter_map(|output| match output {
        HostOutput::Copy { to, .. } => Some(to.agent.0),
        _ => None,
    });
    copies.collect()
}

fn is_safe(outputs: &[HostOutput]) -> bool {
    outputs.iter().any(|output| matches!(output, HostOutput::Safe(_)))
}

#[test]
fn an_own_model_is_safe_when_two_others_hold_it_and_not_before() {
    let mut desk = Desk::trained_to(4);
    let outputs = desk.input(HostInput::Own(own(5, 0)));
    assert_eq!((copies(&outputs), is_safe(&outputs)), (vec![2, 3], false), "another host first, then this one");
    let outputs = desk.input(HostInput::Copied { checkpoint: own(5, 0), agent: AgentId(3) });
    assert!(!is_safe(&outputs));
    let outputs = desk.input(HostInput::Copied { checkpoint: own(5, 0), agent: AgentId(2) });
    assert!(is_safe(&outputs) && copies(&outputs).is_empty());
}

#[test]
fn an_incarnation_that_takes_the_same_again_in_the_same_process_is_told_that_it_is_safe() {
    let mut desk = Desk::trained_to(4);
    desk.input(HostInput::Own(own(5, 0)));
    for agent in [2, 3] {
        desk.input(HostInput::Copied { checkpoint: own(5, 0), agent: AgentId(agent) });
    }
    let outputs = desk.input(HostInput::Own(own(5, 0)));
    assert!(is_safe(&outputs) && copies(&outputs).is_empty());
}

#[test]
fn a_copy_that_fails_is_made_again_after_a_pause() {
    let mut desk = Desk::trained_to(4);
    desk.input(HostInput::Own(own(5, 0)));
    desk.input(HostInput::CopyFailed { checkpoint: own(5, 0), agent: AgentId(2) });
    let at = desk.host.wake_at().unwrap().0;
    assert_eq!(copies(&desk.wake(at)), [2]);
}

#[test]
fn whoever_is_gone_holds_nothing_and_whoever_comes_back_is_given_it_again() {
    let mut desk = Desk::trained_to(4);
    desk.input(HostInput::Own(own(5, 0)));
    desk.input(HostInput::Copied { checkpoint: own(5, 0), agent: AgentId(3) });
    // Agent 2 dies before it has the copy: agent 3 is the only other one.
    let outputs = desk.received(TrackerMessage::View(view(2, &[Some(0), None, Some(0)], true)));
    assert!(is_safe(&outputs), "as many others as there are");
    let mut back = view(3, &[Some(0), Some(1), Some(0)], true);
    back.agents[1].agent = AgentId(9);
    back.agents.sort_by_key(|at| at.agent);
    back.slots[1].state = rejoin_protocol::view::SlotState::Alive { agent: AgentId(9) };
    assert_eq!(copies(&desk.received(TrackerMessage::View(back))), [9]);
}

#[test]
fn an_own_model_of_a_rank_that_has_another_number_now_is_not_safe_before_others_hold_it() {
    let mut desk = Desk::trained_to(4);
    desk.input(HostInput::Own(own(5, 0)));
    // What was rank 0 here is rank 1, and agent 2 has rank 0.
    let mut moved = view(2, &[Some(0), Some(0)], true);
    for (slot, agent) in moved.slots.iter_mut().zip([2, 1]) {
        slot.state = rejoin_protocol::view::SlotState::Alive { agent: AgentId(agent) };
    }
    assert!(!is_safe(&desk.received(TrackerMessage::View(moved))));
    assert!(is_safe(&desk.input(HostInput::Copied { checkpoint: own(5, 0), agent: AgentId(2) })));
}

#[test]
fn a_newcomer_fetches_the_common_model_and_then_its_own_and_owes_its_copies_again() {
    let mut desk = Desk::join_accepted();
    let global = Checkpoint { has_own: true, ..checkpoint(5) };
    let newcomer = Newcomer {
        checkpoint: Some(global),
        own: Some(own(5, 0)),
        own_holders: vec![AgentId(2), AgentId(3)],
        ..newcomer(0, 0, 5)
    };
    let fetched = |bytes| {
        let (source, millis) = ("agent 2".to_string(), 4);
        HostInput::Fetched { member: member(0), bytes, source, millis }
    };
    let outputs = desk.received(TrackerMessage::Plan(plan(1, vec![newcomer], &[2])));
    assert!(outputs
        .iter()
        .any(|output| matches!(output, HostOutput::Fetch { checkpoint, .. } if *checkpoint == global)));
    let outputs = desk.input(fetched(10));
    let asked = outputs.iter().find_map(|output| match output {
        HostOutput::Fetch { checkpoint, holders, .. } => Some((*checkpoint, holders[0].agent.0)),
        _ => None,
    });
    assert_eq!(asked, Some((own(5, 0), 3)), "the holder on the same host first");
    let outputs = desk.input(fetched(6));
    assert!(matches!(&outputs[0], HostOutput::Start { start, .. } if start.own == Some(own(5, 0))));
    assert_eq!(copies(&outputs), [2, 3]);
}

#[test]
fn a_newcomer_fetches_what_it_is_given_of_ranks_that_are_gone_and_owes_its_copies() {
    let mut desk = Desk::join_accepted();
    // Of three ranks now; numbers of the former world are none of this one's.
    let given = |rank: u32, own, holders: &[u64]| Given {
        rank: Rank(rank),
        own,
        holders: holders.iter().copied().map(AgentId).collect(),
    };
    let former = Former { world: 5, rank: None, given: vec![given(2, Some(own(5, 2)), &[2]), given(4, None, &[])] };
    let newcomer = Newcomer {
        checkpoint: Some(Checkpoint { has_own: true, ..checkpoint(5) }),
        former: Some(former.clone().into()),
        ..newcomer(0, 0, 5)
    };
    let fetched = HostInput::Fetched { member: member(0), bytes: 10, source: "agent 2".into(), millis: 4 };
    desk.received(TrackerMessage::Plan(plan(1, vec![newcomer], &[2])));
    let outputs = desk.input(fetched.clone());
    let asked = outputs.iter().find_map(|output| match output {
        HostOutput::Fetch { checkpoint, holders, .. } => Some((*checkpoint, holders[0].agent.0)),
        _ => None,
    });
    assert_eq!(asked, Some((own(5, 2), 2)));
    let outputs = desk.input(fetched);
    let HostOutput::Start { start, .. } = &outputs[0] else { panic!("{outputs:?}") };
    assert_eq!((start.own, &start.former), (None, &Some(former.into())));
    assert_eq!(copies(&outputs), [2, 3], "it may die before the next version");
}

#[test]
fn what_others_gave_to_be_kept_is_told_in_the_status() {
    let mut desk = Desk::trained_to(4);
    desk.input(HostInput::Kept(own(4, 2)));
    desk.received(TrackerMessage::View(view(2, &[Some(0), None, Some(0)], true)));
    let outputs = desk.hold(0, 3);
    assert!(status(&outputs).unwrap().held.contains(&own(4, 2)));
}

/// Agent 1 among six ranks, one a process, on three hosts by twos (agents 1 and 2 on `near`, 3 and
/// 4 on `far`, 5 and 6 on `third`) but for those that are gone.
fn among_six(own_copies: u32, gone: &[usize]) -> Desk {
    let slots: Vec<Option<u32>> = (0..6).map(|rank| (!gone.contains(&rank)).then_some(0)).collect();
    let hosts = ["near", "near", "far", "far", "third", "third"];
    let agents = (1..=6u64).zip(hosts).map(|(agent, host)| AgentAddress { host: host.into(), ..address(agent) });
    let view = View { agents: agents.collect(), ..view(2, &slots, true) };
    let mut desk = Desk::owing(own_copies);
    desk.input(HostInput::TrackerUp);
    desk.received(TrackerMessage::Registered { epoch: 1, timing: TIMING, wants_result: false });
    desk.received(TrackerMessage::View(view));
    desk
}

#[test]
fn copies_are_made_on_as_many_hosts_as_there_are_and_on_the_same_one_last() {
    for (own_copies, targets) in
        [(1, &[3][..]), (2, &[3, 5]), (3, &[3, 5, 4]), (5, &[3, 5, 4, 6, 2]), (9, &[3, 5, 4, 6, 2])]
    {
        let mut desk = among_six(own_copies, &[]);
        let outputs = desk.input(HostInput::Own(own(5, 0)));
        assert_eq!(copies(&outputs), targets, "{own_copies} copies");
        for (at, agent) in targets.iter().enumerate() {
            let outputs = desk.input(HostInput::Copied { checkpoint: own(5, 0), agent: AgentId(*agent) });
            assert_eq!(is_safe(&outputs), at + 1 == targets.len(), "{own_copies} copies, the one of agent {agent}");
        }
    }
}

#[test]
fn a_host_that_is_gone_is_replaced_by_others_while_there_are_some() {
    let mut desk = among_six(2, &[2, 3]);
    assert_eq!(
        copies(&desk.input(HostInput::Own(own(5, 0)))),
        [5, 6],
        "a second one there rather than one on this host"
    );
}
