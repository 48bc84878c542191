//! A process of the world, with what the world knows of it and it doesn't.

use super::sim_event::SimEvent;
use crate::ranks::{End, Process, Try};
use rejoin_protocol::ids::Incarnation;
use std::collections::BTreeMap;

/// What a task is about to do.
#[derive(Default)]
pub(super) struct Pace {
    pub(super) goes: bool,
    pub(super) moves: bool,
    pub(super) fetches: bool,
    pub(super) looks: bool,
    /// The incarnation that was started here last.
    pub(super) started: Option<Incarnation>,
    /// Since when all was settled when it entered its version.
    pub(super) settled: Option<u64>,
    pub(super) waits_since: Option<u64>,
}

/// A process, dead or alive.
pub(super) struct SimProcess {
    pub(super) process: Process,
    pub(super) alive: bool,
    pub(super) frozen: bool,
    pub(super) deferred: Vec<SimEvent>,
    pub(super) tracker_link: Option<u64>,
    pub(super) wakes: Option<u64>,
    pub(super) paces: BTreeMap<Try, Pace>,
    /// Since when all is settled.
    pub(super) settled: Option<u64>,
}

impl SimProcess {
    pub(super) fn pace(&mut self, id: Try) -> &mut Pace {
        self.paces.entry(id).or_default()
    }

    pub(super) fn ends(&self) -> impl Iterator<Item = End> + '_ {
        self.process.tasks().iter().filter_map(|task| task.end())
    }
}
