//! An elastic job at the tracker: how long the worlds that it has had are known.

use crate::support;

use rejoin_protocol::ids::{Checkpoint, Lineage, Position, Task, Version};
use rejoin_protocol::message::{AgentMessage, RankState};
use rejoin_protocol::tracker::{TrackerInput, TrackerOutput};
use support::elastic::*;
use support::*;

/// The last lineages of the former worlds that an agent is told of.
fn former_worlds(outputs: &[TrackerOutput], to: u64) -> Vec<u32> {
    view(outputs, to).former.worlds.iter().map(|world| world.until.0).collect()
}

fn is_gone(desk: &mut Desk, link: u64) {
    desk.input(TrackerInput::ExecutorGone { executor: format!("exec-{link}"), reason: "it exited".into() });
}

/// Four ranks go on as three, of which the first one's agent alone holds what the four have made. The ranks, and their
/// incarnations.
fn held_by_one() -> (Desk, Vec<(u32, u32)>) {
    let mut desk = training(4, 1);
    dies(&mut desk, 3, &[(0, 0), (1, 0), (2, 0)]);
    desk.pass_alive(TIMEOUT + 200, &[1, 2, 3]);
    let (ranks, _) = goes_on(&mut desk, &[0, 1, 2], &[checkpoint(3)]);
    (desk, ranks)
}

fn newer() -> Checkpoint {
    Checkpoint { lineage: Lineage(1), ..checkpoint(5) }
}

/// These ranks of the world of three say that they hold what they have made since.
fn others_hold(desk: &mut Desk, ranks: &[(u32, u32)]) {
    let at = RankState::At(Position { lineage: Lineage(1), version: Version(5) });
    for (rank, incarnation) in ranks {
        desk.stands(u64::from(*rank) + 1, vec![stands(*rank, *incarnation, at.clone())], vec![newer()]);
    }
}

#[test]
fn a_world_is_known_while_an_agent_that_is_silent_or_whose_link_broke_may_hold_what_it_made() {
    for breaks in [false, true] {
        let (mut desk, ranks) = held_by_one();
        if breaks {
            desk.input(TrackerInput::Closed { link: 1, reason: "connection reset".into() });
        }
        desk.pass_alive(TIMING.lost_after_millis + 200, &[2, 3]);
        others_hold(&mut desk, &ranks[1..]);
        let outputs = desk.pass_alive(TIMEOUT, &[2, 3]);
        assert!(resized(&outputs).is_some());
        assert_eq!(former_worlds(&outputs, 2), [0, 1], "its link breaks: {breaks}");
        goes_on(&mut desk, &[1, 2], &[newer()]);
        // By then it has ended itself.
        desk.pass_alive(TIMING.lease_millis, &[2, 3]);
        is_gone(&mut desk, 3);
        let outputs = desk.pass_alive(TIMEOUT + 200, &[2]);
        assert!(!former_worlds(&outputs, 2).contains(&0), "its link breaks: {breaks}");
    }
}

#[test]
fn a_world_of_which_nobody_that_lives_holds_anything_is_forgotten_when_the_next_one_begins() {
    let (mut desk, ranks) = held_by_one();
    is_gone(&mut desk, 1);
    others_hold(&mut desk, &ranks[1..]);
    let outputs = desk.pass_alive(TIMEOUT + 200, &[2, 3]);
    assert_eq!(former_worlds(&outputs, 2), [1]);
}

#[test]
fn a_world_is_known_to_whoever_comes_with_its_versions_when_all_who_were_there_are_gone() {
    let (mut desk, _) = held_by_one();
    (1..=3).for_each(|link| is_gone(&mut desk, link));
    // Two tasks come back in new processes, which hold nothing.
    for link in [11, 12] {
        desk.register(link);
        desk.says(link, AgentMessage::StandBy { task: Task(link as u32 - 11), attempt: attempt(1) });
    }
    desk.pass_alive(TIMEOUT + 200, &[11, 12]);
    for (link, rank) in [(11, 0), (12, 1)] {
        let outputs = desk.says(link, AgentMessage::StandBy { task: Task(rank), attempt: attempt(1) }).to_vec();
        let [(_, rank, its)] = given(&outputs, link)[..] else { panic!("{outputs:?}") };
        desk.joins(link, rank, attempt(its));
    }
    // One that finds durable checkpoints.
    let outputs = desk.register_as(13, 13, Vec::new(), vec![checkpoint(3)]);
    assert_eq!(view(&outputs, 13).world(), 2);
    assert_eq!(former_worlds(&outputs, 13), [0, 1]);
}
