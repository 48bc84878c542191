//! What an agent holds, fetches and forgets.

use crate::host_support;

use host_support::*;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::event::Event;
use rejoin_protocol::host::{HostInput, HostOutput};
use rejoin_protocol::ids::{Checkpoint, Generation, Lineage, MemberId, Rank, Version, UNMADE};
use rejoin_protocol::message::{AgentMessage, Newcomer, Plan, RankState, TrackerMessage};
use rejoin_protocol::report::Report;

#[test]
fn a_checkpoint_that_is_not_here_is_fetched_from_the_nearest_first() {
    let mut desk = Desk::join_accepted();
    let outputs = desk.received(TrackerMessage::Plan(plan(1, vec![newcomer(0, 0, 5)], &[2, 3, 4])));
    let holders = outputs.iter().find_map(|output| match output {
        HostOutput::Fetch { holders, checkpoint: wanted, .. } if *wanted == checkpoint(5) => Some(holders),
        _ => None,
    });
    let agents: Vec<u64> = holders.unwrap().iter().map(|holder| holder.agent.0).collect();
    assert_eq!(agents[0], 3, "agent 3 is on the same host");
    assert_eq!(agents.len(), 3);
    let (source, millis) = ("agent 3".to_string(), 4);
    let outputs = desk.input(HostInput::Fetched { member: member(0), bytes: 10, source, millis });
    assert!(matches!(&outputs[0], HostOutput::Start { start, .. } if start.checkpoint == Some(checkpoint(5))));
    assert!(matches!(&outputs[1], HostOutput::Send(AgentMessage::Event(Event::Restored { bytes: 10, millis: 4, .. }))));
    assert!(desk.host.holds(&checkpoint(5)));
}

#[test]
fn a_checkpoint_that_is_here_is_started_from_at_once() {
    let mut desk = Desk::trained_to(4);
    desk.input(HostInput::Report { member: member(0), report: Report::Left { failure: None } });
    desk.join(0, 1);
    desk.received(TrackerMessage::JoinAccepted { rank: ZERO, attempt: attempt(1), incarnation: incarnation(1) });
    desk.received(TrackerMessage::View(view(2, &[Some(1), Some(0), Some(0)], true)));
    let outputs = desk.received(TrackerMessage::Plan(plan(2, vec![newcomer(0, 1, 4)], &[1, 2])));
    assert!(matches!(&outputs[0], HostOutput::Start { start, .. } if start.version == Version(4)));
}

#[test]
fn what_only_a_rank_had_comes_ahead_of_its_plan_and_it_does_not_start_without() {
    let with_local = || plan(1, vec![Newcomer { has_local: true, ..newcomer(0, 0, 0) }], &[]);
    let mut desk = Desk::join_accepted();
    desk.received(TrackerMessage::NewcomerLocal { member: member(0), bytes: vec![7] });
    let outputs = desk.received(TrackerMessage::Plan(with_local()));
    assert!(matches!(&outputs[0], HostOutput::Start { start, .. } if start.local == Some(vec![7])), "{outputs:?}");
    // A view begins anew: what comes again with a connection comes whole.
    let mut desk = Desk::join_accepted();
    desk.received(TrackerMessage::NewcomerLocal { member: member(0), bytes: vec![7] });
    desk.received(TrackerMessage::View(view(1, &[Some(0), Some(0), Some(0)], true)));
    let outputs = desk.received(TrackerMessage::Plan(with_local()));
    let broken = |output: &HostOutput| {
        matches!(output, HostOutput::Send(AgentMessage::Report { report: Report::Broken(_), .. }))
    };
    assert!(outputs.iter().any(broken), "{outputs:?}");
    assert!(!outputs.iter().any(|output| matches!(output, HostOutput::Start { .. })), "{outputs:?}");
}

#[test]
fn a_view_makes_a_plan_void_whose_checkpoint_is_not_here_yet_but_what_comes_is_held_and_reported_as_brought() {
    let mut desk = Desk::join_accepted();
    desk.received(TrackerMessage::Plan(plan(1, vec![newcomer(0, 0, 5)], &[2])));
    let outputs = desk.received(TrackerMessage::View(view(2, &[Some(0), None, Some(0)], true)));
    assert_eq!(status(&outputs).unwrap().ranks[0].state, RankState::Fresh);
    let (source, millis) = ("agent 2".to_string(), 4);
    let outputs = desk.input(HostInput::Fetched { member: member(0), bytes: 10, source, millis });
    assert_eq!(outputs, [], "the next plan says where it starts");
    let outputs = desk.received(TrackerMessage::Plan(plan(2, vec![newcomer(0, 0, 5)], &[3])));
    assert!(matches!(&outputs[0], HostOutput::Start { .. }));
    let HostOutput::Send(AgentMessage::Event(Event::Restored { bytes: 10, source, millis: 4, .. })) = &outputs[1]
    else {
        panic!("{outputs:?}")
    };
    assert_eq!(source, "agent 2", "it came from there, whichever plan is the reason");
}

#[test]
fn a_fetch_that_fails_is_tried_again_and_then_the_task_is_given_back() {
    let mut desk = Desk::join_accepted();
    desk.received(TrackerMessage::Plan(plan(1, vec![newcomer(0, 0, 5)], &[2])));
    for _ in 0..4 {
        assert_eq!(desk.input(failed(false)), []);
        assert!(fetches_again(&mut desk));
    }
    let outputs = desk.input(failed(false));
    assert_eq!(freed(&outputs), Some((Some(0), Code::Io)));
    assert!(matches!(reported(&outputs[0]), Some(Report::Left { failure: Some(error) }) if error.code == Code::Io));
}

fn reported(output: &HostOutput) -> Option<&Report> {
    match output {
        HostOutput::Send(AgentMessage::Report { report, .. }) => Some(report),
        _ => None,
    }
}

fn failed(is_further: bool) -> HostInput {
    HostInput::FetchFailed { member: member(0), is_further, reason: "refused".into() }
}

/// Whether the fetch is asked for again after a pause.
fn fetches_again(desk: &mut Desk) -> bool {
    (0..30).any(|_| {
        let at = desk.host.wake_at().unwrap().0;
        desk.wake(at).iter().any(|output| matches!(output, HostOutput::Fetch { .. }))
    })
}

#[test]
fn a_rank_starts_from_what_another_rank_of_its_process_has_fetched_while_its_own_fetch_pauses() {
    let mut desk = Desk::join_accepted();
    desk.join(1, 0);
    let (rank, attempt) = (Rank(1), attempt(0));
    desk.received(TrackerMessage::JoinAccepted { rank, attempt, incarnation: incarnation(0) });
    desk.received(TrackerMessage::Plan(plan(1, vec![newcomer(0, 0, 5), newcomer(1, 0, 5)], &[2])));
    assert_eq!(desk.input(failed(false)), []);
    let (member, source) = (MemberId { rank, incarnation: incarnation(0) }, "agent 2".to_string());
    let starts = |outputs: &[HostOutput], of: Rank| {
        outputs.iter().any(|output| matches!(output, HostOutput::Start { rank, .. } if *rank == of))
    };
    assert!(starts(&desk.input(HostInput::Fetched { member, bytes: 10, source, millis: 4 }), rank));
    let started = (0..30).any(|_| {
        let at = desk.host.wake_at().unwrap().0;
        starts(&desk.wake(at), ZERO)
    });
    assert!(started, "nothing else would start it");
}

#[test]
fn a_fetch_of_which_more_comes_each_time_is_never_given_up() {
    let mut desk = Desk::join_accepted();
    desk.received(TrackerMessage::Plan(plan(1, vec![newcomer(0, 0, 5)], &[2])));
    for is_further in [true, false, false, false, true, true, false, false, true, false, false, false] {
        assert_eq!(desk.input(failed(is_further)), []);
        assert!(fetches_again(&mut desk));
    }
    assert_eq!(freed(&desk.input(failed(false))), Some((Some(0), Code::Io)), "five in a row");
}

#[test]
fn the_bytes_of_a_lazy_checkpoint_are_told_as_they_were_fetched() {
    let mut desk = Desk::join_accepted();
    let lazy = Checkpoint { length: UNMADE, digest: 0, ..checkpoint(5) };
    let newcomer = Newcomer { checkpoint: Some(lazy), ..newcomer(0, 0, 5) };
    desk.received(TrackerMessage::Plan(plan(1, vec![newcomer], &[2])));
    let (source, millis) = ("agent 2".to_string(), 4);
    let outputs = desk.input(HostInput::Fetched { member: member(0), bytes: 77, source, millis });
    assert!(
        matches!(&outputs[1], HostOutput::Send(AgentMessage::Event(Event::Restored { bytes: 77, .. }))),
        "{outputs:?}"
    );
}

#[test]
fn the_newest_two_checkpoints_are_kept() {
    let mut desk = Desk::trained_to(1);
    assert_eq!(forgotten(&desk.enter(2)), []);
    assert_eq!(forgotten(&desk.enter(3)), [1]);
    assert_eq!(forgotten(&desk.enter(4)), [2]);
    assert!(desk.host.holds(&checkpoint(3)) && desk.host.holds(&checkpoint(4)));
}

#[test]
fn nothing_is_forgotten_from_a_loss_until_all_have_caught_up() {
    let mut desk = Desk::trained_to(3);
    desk.received(TrackerMessage::View(view(2, &[Some(0), Some(0), None], true)));
    desk.hold(0, 2);
    assert_eq!(forgotten(&desk.enter(4)), []);
    assert_eq!(forgotten(&desk.enter(5)), []);
    let other = Generation { epoch: 1, number: 1 };
    assert_eq!(desk.received(TrackerMessage::Settled { generation: other }), [], "of an older view");
    let outputs = desk.received(TrackerMessage::Settled { generation: Generation { epoch: 1, number: 2 } });
    assert!(outputs.contains(&HostOutput::Release { member: member(0) }));
    assert_eq!(forgotten(&outputs), [2, 3]);
}

#[test]
fn a_version_that_is_entered_is_told_with_what_only_the_rank_has() {
    let mut desk = Desk::trained_to(0);
    let local = Some(vec![1, 2]);
    let outputs = desk.input(HostInput::Entered { member: member(0), checkpoint: checkpoint(1), local });
    assert!(matches!(&outputs[0], HostOutput::Send(AgentMessage::Local { bytes, .. }) if bytes[..] == [1, 2]));
    assert!(matches!(
        &outputs[1],
        HostOutput::Send(AgentMessage::Report {
            report: Report::VersionEntered { version: Version(1), round: 1, .. },
            ..
        })
    ));
}

#[test]
fn a_version_out_of_turn_is_reported_as_broken() {
    let mut desk = Desk::trained_to(1);
    let outputs = desk.enter(3);
    assert!(
        outputs.len() == 1
            && matches!(reported(&outputs[0]), Some(Report::Broken(error)) if error.code == Code::Internal)
    );
}

#[test]
fn two_ranks_of_one_process_that_take_different_checkpoints_are_both_named() {
    let mut desk = Desk::connected();
    for rank in 0..2 {
        desk.join(rank, 0);
        desk.received(TrackerMessage::JoinAccepted {
            rank: Rank(rank),
            attempt: attempt(0),
            incarnation: incarnation(0),
        });
    }
    desk.received(TrackerMessage::View(view(1, &[Some(0), Some(0)], false)));
    desk.received(TrackerMessage::Plan(plan(1, vec![newcomer(0, 0, 0), newcomer(1, 0, 0)], &[])));
    let mut enter = |rank: u32, checkpoint: Checkpoint| {
        let (rank, incarnation, local) = (Rank(rank), incarnation(0), None);
        desk.input(HostInput::Entered { member: MemberId { rank, incarnation }, checkpoint, local })
    };
    for rank in 0..2 {
        enter(rank, checkpoint(0));
    }
    enter(0, checkpoint(1));
    let outputs = enter(1, Checkpoint { digest: 99, ..checkpoint(1) });
    let [HostOutput::Send(AgentMessage::Report { report: Report::Broken(error), .. })] = &outputs[..] else {
        panic!("{outputs:?}")
    };
    assert_eq!(error.code, Code::Mismatch);
    assert!(error.message.contains("rank 0 took") && error.message.contains("rank 1 took"), "{error}");
}

#[test]
fn a_version_at_which_a_lineage_begins_keeps_its_older_name() {
    let mut desk = Desk::connected();
    desk.join(0, 0);
    desk.received(TrackerMessage::JoinAccepted { rank: ZERO, attempt: attempt(0), incarnation: incarnation(0) });
    desk.received(TrackerMessage::View(view(1, &[Some(0)], false)));
    let plan = Plan { lineage: Lineage(2), ..plan(1, vec![newcomer(0, 0, 5)], &[2]) };
    desk.received(TrackerMessage::Plan(plan));
    let (source, millis) = ("agent 2".to_string(), 4);
    desk.input(HostInput::Fetched { member: member(0), bytes: 10, source, millis });
    let again = Checkpoint { lineage: Lineage(2), ..checkpoint(5) };
    let outputs = desk.input(HostInput::Entered { member: member(0), checkpoint: again, local: None });
    let copy = HostOutput::Forget { lineage: Lineage(2), version: Version(5) };
    assert!(outputs.contains(&copy), "the store has it under both names: {outputs:?}");
    assert!(desk.host.holds(&checkpoint(5)) && !desk.host.holds(&again));
}

#[test]
fn a_start_that_comes_back_changed_is_a_mismatch() {
    let mut desk = Desk::join_accepted();
    desk.received(TrackerMessage::Plan(plan(1, vec![newcomer(0, 0, 5)], &[2])));
    let (source, millis) = ("agent 2".to_string(), 4);
    desk.input(HostInput::Fetched { member: member(0), bytes: 10, source, millis });
    let changed = Checkpoint { digest: 1, ..checkpoint(5) };
    let outputs = desk.input(HostInput::Entered { member: member(0), checkpoint: changed, local: None });
    assert!(
        outputs.len() == 1
            && matches!(reported(&outputs[0]), Some(Report::Broken(error)) if error.code == Code::Mismatch)
    );
}

#[test]
fn checkpoints_of_a_broken_off_branch_go_with_the_plan_of_the_new_lineage() {
    let mut desk = Desk::trained_to(4);
    let error = Error::new(Code::RolledBack, "back");
    let outputs = desk.received(TrackerMessage::Fenced { member: member(0), error });
    assert_eq!(freed(&outputs), Some((Some(0), Code::RolledBack)));
    desk.join(0, 0);
    desk.received(TrackerMessage::JoinAccepted { rank: ZERO, attempt: attempt(0), incarnation: incarnation(1) });
    desk.received(TrackerMessage::View(view(2, &[Some(1), Some(1), Some(1)], false)));
    let back = Plan { lineage: Lineage(1), ..plan(2, vec![newcomer(0, 1, 3)], &[1]) };
    let outputs = desk.received(TrackerMessage::Plan(back));
    assert_eq!(forgotten(&outputs), [4]);
    assert!(outputs
        .iter()
        .any(|output| matches!(output, HostOutput::Start { start, .. } if start.lineage == Lineage(1))));
}

#[test]
fn what_can_be_read_from_a_durable_store_is_told_also_when_it_was_forgotten_here() {
    let mut desk = Desk::trained_to(4);
    desk.input(HostInput::Durable(checkpoint(1)));
    desk.received(TrackerMessage::View(view(2, &[Some(0), None, Some(0)], true)));
    let outputs = desk.hold(0, 3);
    let held: Vec<u32> = status(&outputs).unwrap().held.iter().map(|held| held.version.0).collect();
    assert!(held.contains(&1) && held.contains(&4), "{held:?}");
}

#[test]
fn what_was_removed_from_a_durable_store_is_reported_no_more_however_long_a_training_is() {
    let mut desk = Desk::trained_to(4);
    for version in [1, 1, 2, 3] {
        desk.input(HostInput::Durable(checkpoint(version)));
    }
    desk.input(HostInput::Tidied { lineage: Lineage(0), version: Version(2) });
    desk.received(TrackerMessage::View(view(2, &[Some(0), None, Some(0)], true)));
    let outputs = desk.hold(0, 3);
    let held: Vec<u32> = status(&outputs).unwrap().held.iter().map(|held| held.version.0).collect();
    assert!(!held.contains(&1), "{held:?}");
    assert!(held.contains(&2), "{held:?}");
}

#[test]
fn a_lazy_checkpoint_of_this_process_is_made_before_a_rank_of_it_starts_there() {
    let mut desk = Desk::join_accepted();
    let lazy = Checkpoint { length: rejoin_protocol::ids::UNMADE, digest: 0, ..checkpoint(5) };
    let newcomer = rejoin_protocol::message::Newcomer { checkpoint: Some(lazy), ..newcomer(0, 0, 5) };
    let outputs = desk.received(TrackerMessage::Plan(plan(1, vec![newcomer], &[1, 2])));
    assert!(outputs
        .iter()
        .any(|output| matches!(output, HostOutput::Fetch { holders, .. } if holders[0].agent.0 == 1)));
}

#[test]
fn a_rank_whose_checkpoint_comes_after_everybody_has_caught_up_is_told_so() {
    let mut desk = Desk::join_accepted();
    desk.received(TrackerMessage::Plan(plan(1, vec![newcomer(0, 0, 5)], &[2])));
    let generation = desk.host.view().map(|view| view.generation).unwrap();
    desk.received(TrackerMessage::Settled { generation });
    let (source, millis) = ("agent 2".to_string(), 4);
    let outputs = desk.input(HostInput::Fetched { member: member(0), bytes: 10, source, millis });
    assert!(outputs.contains(&HostOutput::Release { member: member(0) }), "{outputs:?}");
}

#[test]
fn what_a_program_hands_over_is_reported_apart_until_a_rank_has_taken_it_and_is_forgotten_like_all_else() {
    let mut desk = Desk::join_accepted();
    desk.input(HostInput::HandedOver(checkpoint(4)));
    desk.input(HostInput::HandedOver(checkpoint(9)));
    let reports = |desk: &mut Desk, number| {
        let outputs = desk.received(TrackerMessage::View(view(number, &[Some(0), Some(0), Some(0)], true)));
        let status = match status(&outputs) {
            Some(status) => status.clone(),
            None => status(&desk.hold(0, 4)).expect("a status").clone(),
        };
        let versions = |held: &[Checkpoint]| held.iter().map(|held| held.version.0).collect::<Vec<_>>();
        (versions(&status.held), versions(&status.handed_over))
    };
    assert_eq!(reports(&mut desk, 2), (vec![], vec![4, 9]));
    let outputs = desk.received(TrackerMessage::Plan(plan(2, vec![newcomer(0, 0, 4)], &[1])));
    assert!(matches!(&outputs[0], HostOutput::Start { start, .. } if start.checkpoint == Some(checkpoint(4))));
    desk.enter(4);
    assert_eq!(reports(&mut desk, 3), (vec![4], vec![9]), "it is the rank's own now");
    desk.received(TrackerMessage::Settled { generation: Generation { epoch: 1, number: 3 } });
    for version in 5..=11 {
        desk.enter(version);
    }
    assert!(!desk.host.holds(&checkpoint(9)));
    let (held, handed_over) = reports(&mut desk, 4);
    assert_eq!((held, handed_over), (vec![10, 11], vec![]));
}
