//! The tracker's lives: one at a time, or for a while two that don't know of each other.

use super::sim_event::SimEvent;
use crate::invariants::{Monotony, Spares};
use rejoin_protocol::ids::Incarnation;
use rejoin_protocol::message::Timing;
use rejoin_protocol::tracker::Tracker;
use std::collections::{BTreeMap, BTreeSet};

/// How soon a silent agent is given up, and what else of time the tracker and the agents agree on.
pub(super) const TIMING: Timing =
    Timing { heartbeat_millis: 200, lost_after_millis: 1500, lease_millis: 60_000, members_millis: 40_000 };

/// One life of the tracker, in a process of its own.
pub(super) struct TrackerLife {
    pub(super) tracker: Tracker,
    /// When it is woken next.
    pub(super) wake: u64,
    pub(super) stalled_until: u64,
    pub(super) deferred: Vec<SimEvent>,
    pub(super) monotony: Monotony,
    pub(super) spares: Spares,
    /// A newer life has begun: it is cut off from all after a while.
    pub(super) is_older: bool,
    /// The processes that it had heard of when it had taken over what a former life had; `None` until then.
    pub(super) took_over: Option<BTreeSet<u32>>,
    /// It has said that the job is over.
    pub(super) is_over: bool,
    /// It has started a rank: one that comes later may belong to a job that another life has begun anew.
    pub(super) has_planned: bool,
}

/// A connection of a process to one life.
pub(super) struct TrackerLink {
    pub(super) process: u32,
    pub(super) epoch: u32,
    /// The tracker's side stands.
    pub(super) stands: bool,
    /// Something has arrived there.
    pub(super) heard: bool,
}

#[derive(Default)]
pub(super) struct Trackers {
    pub(super) lives: BTreeMap<u32, TrackerLife>,
    pub(super) links: BTreeMap<u64, TrackerLink>,
    pub(super) epochs: u32,
    /// What the last life that ended had reported.
    pub(super) reported: Monotony,
}

impl Trackers {
    pub(super) fn epochs(&self) -> Vec<u32> {
        self.lives.keys().copied().collect()
    }

    pub(super) fn newest(&self) -> Option<u32> {
        self.lives.keys().next_back().copied()
    }

    /// Whether a newer life may not know this incarnation of a process, which an older one gave a slot: it hadn't been
    /// started, or had not come when the newer one decided how the job goes on.
    pub(super) fn may_forget(&self, process: u32, incarnation: Incarnation, had_started: bool) -> bool {
        let mut newer = self.lives.iter().filter(|(epoch, _)| **epoch > incarnation.epoch);
        let missed = |life: &TrackerLife| life.took_over.as_ref().is_some_and(|there| !there.contains(&process));
        newer.any(|(_, life)| !had_started || missed(life))
    }

    /// Whether a newer life than this one has begun, be it there still or not.
    pub(super) fn has_followed(&self, epoch: u32) -> bool {
        self.epochs > epoch
    }

    /// A life says that the job is over: false when it did so before.
    pub(super) fn ends_once(&mut self, epoch: u32) -> bool {
        self.lives.get_mut(&epoch).is_none_or(|life| !std::mem::replace(&mut life.is_over, true))
    }

    /// Ends a life; false when there was none.
    pub(super) fn remove(&mut self, epoch: u32) -> bool {
        let Some(life) = self.lives.remove(&epoch) else { return false };
        self.reported = life.monotony;
        true
    }

    /// Over the link that this process uses something has arrived at this life.
    pub(super) fn knows(&self, epoch: u32, link: u64) -> bool {
        self.links.get(&link).is_some_and(|link| link.stands && link.heard && link.epoch == epoch)
    }
}
