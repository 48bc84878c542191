//! Which joins are given a slot, and which are turned away.

use crate::support;

use rejoin_protocol::error::Code;
use rejoin_protocol::event::Event;
use rejoin_protocol::ids::{Attempt, Rank};
use rejoin_protocol::message::{AgentMessage, RankState, TrackerMessage};
use support::*;

fn join_accepted(outputs: &[rejoin_protocol::tracker::TrackerOutput], to: u64) -> Option<(u32, u32)> {
    sent(outputs, to).into_iter().find_map(|message| match message {
        TrackerMessage::JoinAccepted { rank, incarnation, .. } => Some((rank.0, incarnation.number)),
        _ => None,
    })
}

#[test]
fn the_first_who_asks_gets_the_slot_and_with_the_last_one_everybody_gets_a_view() {
    let mut desk = Desk::new(2);
    desk.register(1);
    desk.register(2);
    let outputs = desk.joins(1, 1, attempt(0));
    assert_eq!(join_accepted(&outputs, 1), Some((1, 0)));
    let outputs = desk.joins(2, 0, attempt(0));
    for link in [1, 2] {
        let views = views(&outputs, link);
        assert_eq!(views[0].vacant(), []);
        assert_eq!(views[0].generation.number, 1);
    }
}

#[test]
fn a_rank_beyond_the_world_is_refused() {
    let mut desk = Desk::new(2);
    desk.register(1);
    let outputs = desk.joins(1, 2, attempt(0));
    assert_eq!(refusal(&outputs, 1), Some(Code::BadArgument));
    assert!(matches!(events(&outputs)[..], [Event::RankRefused { .. }]));
    assert!(views(&outputs, 1).is_empty());
}

#[test]
fn other_terms_than_the_first_ones_are_refused_with_both_texts() {
    let mut desk = Desk::new(2);
    desk.register(1);
    desk.joins(1, 0, attempt(0));
    let (rank, fingerprint) = (Rank(1), "others".to_string());
    let outputs =
        desk.says(1, AgentMessage::Join { rank, attempt: attempt(0), fingerprint, hook: Default::default() }).to_vec();
    let [TrackerMessage::JoinRefused { error, .. }] = sent(&outputs, 1)[..] else { panic!("{outputs:?}") };
    assert_eq!(error.code, Code::Incompatible);
    assert!(error.message.contains("`terms`") && error.message.contains("`others`"), "{error}");
}

#[test]
fn an_older_or_equal_attempt_from_elsewhere_is_refused_as_outdated() {
    let mut desk = Desk::new(2);
    desk.register(1);
    desk.register(2);
    desk.joins(1, 0, attempt(1));
    assert_eq!(refusal(&desk.joins(2, 0, attempt(0)), 2), Some(Code::Fenced));
    assert_eq!(refusal(&desk.joins(2, 0, attempt(1)), 2), Some(Code::Fenced));
}

#[test]
fn a_try_that_was_lost_does_not_come_back() {
    let mut desk = Desk::trained_to(2, 1);
    desk.leaves(1, 0, 0, None);
    assert_eq!(refusal(&desk.joins(1, 0, attempt(0)), 1), Some(Code::Fenced));
    assert_eq!(join_accepted(&desk.joins(1, 0, attempt(1)), 1), Some((0, 1)));
}

#[test]
fn a_join_that_is_repeated_after_a_broken_connection_is_told_its_slot_again() {
    let mut desk = Desk::new(1);
    desk.register(1);
    desk.joins(1, 0, attempt(0));
    desk.register_as(50, 1, Vec::new(), Vec::new());
    let outputs = desk.joins(50, 0, attempt(0));
    assert_eq!(join_accepted(&outputs, 50), Some((0, 0)));
    assert!(lost(&outputs).is_empty());
    assert_eq!(views(&outputs, 50).len(), 1, "statuses from before don't know of the slot");
}

#[test]
fn a_newer_task_attempt_takes_the_slot_and_the_older_one_is_lost() {
    let mut desk = Desk::trained_to(2, 1);
    let outputs = desk.joins(2, 0, attempt(1));
    assert_eq!(fenced(&outputs, 1), [(0, 0, Code::Fenced)]);
    assert_eq!(lost(&outputs)[0].2, 1, "it counts as a death");
    assert_eq!(join_accepted(&outputs, 2), Some((0, 1)));
}

#[test]
fn a_newer_stage_ends_the_older_tries_of_all_ranks_and_counts_no_death() {
    let mut desk = Desk::trained_to(3, 1);
    let outputs = desk.joins(1, 0, Attempt { stage: 1, task: 0 });
    let all: Vec<_> = (1..=3).flat_map(|link| fenced(&outputs, link)).collect();
    assert_eq!(all, [(0, 0, Code::Fenced), (1, 0, Code::Fenced), (2, 0, Code::Fenced)]);
    assert!(lost(&outputs).iter().all(|(_, reason, deaths)| *deaths == 0 && reason.contains("stage attempt 1")));
    assert_eq!(join_accepted(&outputs, 1), Some((0, 1)));
    assert_eq!(views(&outputs, 1).len(), 1, "one view for all of it");
}

#[test]
fn a_newer_stages_try_for_a_vacant_slot_ends_nobody() {
    let mut desk = Desk::trained_to(3, 1);
    desk.leaves(1, 0, 0, None);
    let outputs = desk.joins(1, 0, Attempt { stage: 1, task: 0 });
    assert_eq!(join_accepted(&outputs, 1), Some((0, 1)));
    assert!(lost(&outputs).is_empty());
}

#[test]
fn a_join_tells_how_long_the_slot_was_vacant() {
    let mut desk = Desk::trained_to(2, 1);
    desk.leaves(1, 0, 0, None);
    desk.pass_alive(400, &[1, 2]);
    let outputs = desk.joins(1, 0, attempt(1));
    let joined = events(&outputs)[0];
    assert!(
        matches!(joined, Event::RankJoined { vacant_millis: 400, incarnation, .. } if incarnation.number == 1),
        "{joined:?}"
    );
}

#[test]
fn nobody_is_planned_before_all_are_there_the_first_time() {
    let mut desk = Desk::new(2);
    desk.register(1);
    desk.register(2);
    desk.joins(1, 0, attempt(0));
    desk.stands(2, Vec::new(), Vec::new());
    let outputs = desk.stands(1, vec![stands(0, 0, RankState::Fresh)], Vec::new());
    assert!(plan(&outputs, 1).is_none());
}

#[test]
fn until_all_ranks_are_there_for_the_first_time_nobody_is_sent_a_view() {
    let mut desk = Desk::new(3);
    for link in 1..=2 {
        desk.register(link);
        let outputs = desk.joins(link, link as u32 - 1, attempt(0));
        assert!(views(&outputs, 1).is_empty(), "{outputs:?}");
    }
    desk.leaves(1, 0, 0, None);
    desk.joins(1, 0, attempt(1));
    desk.register(3);
    let outputs = desk.joins(3, 2, attempt(0));
    for link in 1..=3 {
        assert_eq!(views(&outputs, link)[0].generation.number, 1);
    }
}
