//! Agents of an elastic job, whose tasks ask for ranks.

use super::*;
use rejoin_protocol::ids::Task;
use rejoin_protocol::message::{RankGiven, Standing};
use rejoin_protocol::resize::Elastic;

pub const TIMEOUT: u64 = 2000;
pub const INTERVAL: u64 = 5000;

pub fn elastic(world: u32, min: u32) -> TrackerConfig {
    growing(world, min, world)
}

pub fn growing(world: u32, min: u32, max: u32) -> TrackerConfig {
    let elastic = Elastic {
        min,
        max,
        timeout_millis: TIMEOUT,
        interval_millis: INTERVAL,
        most_resizes: None,
        own_may_be_lost: false,
    };
    TrackerConfig { elastic: Some(elastic), ..config(world) }
}

/// What agents were given over this link: task, rank, and the rank's try.
pub fn given(outputs: &[TrackerOutput], to: u64) -> Vec<(u32, u32, u32)> {
    let given = sent(outputs, to).into_iter().filter_map(|message| match message {
        TrackerMessage::RankGiven { task, given, .. } => Some((task.0, given.rank.0, given.attempt.task)),
        _ => None,
    });
    given.collect()
}

/// The framework ends the first try of a task for good.
pub fn leaves(task: u32) -> TrackerInput {
    TrackerInput::TaskLeaves { task: Task(task), attempt: attempt(0) }
}

pub fn asks(desk: &mut Desk, task: u32, its: u32) -> Vec<TrackerOutput> {
    desk.says(u64::from(task) + 1, AgentMessage::StandBy { task: Task(task), attempt: attempt(its) }).to_vec()
}

/// Task n, in agent n + 1, asks and joins as what it is given: the rank and its incarnation.
pub fn takes_part(desk: &mut Desk, task: u32, its: u32) -> (u32, u32) {
    let link = u64::from(task) + 1;
    let asked = asks(desk, task, its);
    let [(_, rank, its)] = given(&asked, link)[..] else { panic!("task {task} is given {asked:?}") };
    let outputs = desk.joins(link, rank, attempt(its));
    let accepted = sent(&outputs, link).into_iter().find_map(|message| match message {
        TrackerMessage::JoinAccepted { incarnation, .. } => Some(incarnation.number),
        _ => None,
    });
    (rank, accepted.unwrap_or_else(|| panic!("rank {rank} of task {task}: {outputs:?}")))
}

/// So many ranks, each of the task of its number, that are in version 3 and hold it.
pub fn training(world: u32, min: u32) -> Desk {
    training_as(elastic(world, min))
}

/// The same of such a job.
pub fn training_as(config: TrackerConfig) -> Desk {
    let world = config.world;
    let mut desk = Desk::with(config);
    for task in 0..world {
        desk.register(u64::from(task) + 1);
        takes_part(&mut desk, task, 0);
    }
    for rank in 0..world {
        desk.stands(u64::from(rank) + 1, vec![stands(rank, 0, RankState::Fresh)], Vec::new());
    }
    for version in 0..=3 {
        (0..world).for_each(|rank| drop(desk.enters(rank, 0, version)));
    }
    desk
}

/// The process of this task dies; the agents of the others answer the view with what they hold.
pub fn dies(desk: &mut Desk, task: u32, living: &[(u32, u32)]) {
    let executor = format!("exec-{}", task + 1);
    desk.input(TrackerInput::ExecutorGone { executor, reason: "it exited".into() });
    for (rank, incarnation) in living {
        desk.stands(u64::from(*rank) + 1, vec![stands(*rank, *incarnation, at(3))], vec![checkpoint(3)]);
    }
}

pub fn resized(outputs: &[TrackerOutput]) -> Option<(Vec<Option<u32>>, String)> {
    events(outputs).into_iter().find_map(|event| match event {
        Event::Resized { ranks, reason, .. } => {
            Some((ranks.iter().map(|rank| rank.map(|r| r.0)).collect(), reason.clone()))
        }
        _ => None,
    })
}

pub fn view(outputs: &[TrackerOutput], to: u64) -> View {
    (*views(outputs, to).last().unwrap_or_else(|| panic!("no view in {outputs:?}"))).clone()
}

/// Each survivor asks again, joins as what it is given, and its agent answers: the last plan.
pub fn goes_on(desk: &mut Desk, tasks: &[u32], held: &[Checkpoint]) -> (Vec<(u32, u32)>, Vec<TrackerOutput>) {
    let ranks: Vec<(u32, u32)> = tasks.iter().map(|task| takes_part(desk, *task, 0)).collect();
    let mut last = Vec::new();
    for (task, (rank, incarnation)) in tasks.iter().zip(&ranks) {
        last = desk.stands(u64::from(*task) + 1, vec![stands(*rank, *incarnation, RankState::Fresh)], held.to_vec());
    }
    (ranks, last)
}

/// As an agent of life 1 registers that has a task with this rank.
pub fn returns(
    desk: &mut Desk,
    task: u32,
    given: (u32, u32),
    view: &View,
    ranks: Vec<RankStatus>,
) -> Vec<TrackerOutput> {
    let status =
        StatusReport { generation: view.generation, ranks, held: vec![checkpoint(3)], handed_over: Vec::new() };
    let given = RankGiven { rank: Rank(given.0), attempt: attempt(given.1) };
    let registration = Registration {
        status,
        fingerprint: vec!["terms".into()],
        view: Some(Box::new(view.clone())),
        standing: vec![Standing { task: Task(task), attempt: attempt(0), given: Some(given) }],
        ..Desk::registration(u64::from(task) + 1, Vec::new(), Vec::new())
    };
    desk.says(u64::from(task) + 1, AgentMessage::Register(registration)).to_vec()
}

/// The incarnation that a join was given.
pub fn incarnation_of(outputs: &[TrackerOutput], link: u64) -> u32 {
    let accepted = sent(outputs, link).into_iter().find_map(|message| match message {
        TrackerMessage::JoinAccepted { incarnation, .. } => Some(incarnation.number),
        _ => None,
    });
    accepted.unwrap_or_else(|| panic!("no slot in {outputs:?}"))
}

/// A rank, whose agent has this link, enters a version of this lineage.
pub fn enters_in(desk: &mut Desk, link: u64, member: (u32, u32), lineage: u32, version: u32) -> Vec<TrackerOutput> {
    let (rank, incarnation) = member;
    let (lineage, version) = (Lineage(lineage), Version(version));
    desk.reports(link, rank, incarnation, Report::VersionEntered { lineage, version, round: version.0 })
}
