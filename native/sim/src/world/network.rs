//! Connections: they keep the order of what is sent, take their time, break, and part.

use crate::ranks::{End, Frame};
use rejoin_protocol::ids::Lane;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

/// One direction of a data link.
pub(super) type LinkDirection = (End, End, Lane);

#[derive(Default)]
pub(super) struct Network {
    /// What has arrived and wasn't read, by receiver's process; links on which nothing lies aren't in it. There may be
    /// thousands.
    pub(super) inboxes: BTreeMap<u32, BTreeMap<LinkDirection, VecDeque<Frame>>>,
    /// Numbers of the links between pairs; a link that breaks is followed by the next one.
    pub(super) links: BTreeMap<LinkDirection, u64>,
    /// Which link a sender uses: it goes on with a broken one until it is notified.
    pub(super) used: BTreeMap<LinkDirection, u64>,
    /// When the last thing that was sent arrives.
    arrives: BTreeMap<LinkDirection, u64>,
    /// The same between processes and the tracker, which is [`TRACKER`].
    tracker_arrives: BTreeMap<(u32, u32), u64>,
    parted: BTreeMap<(u32, u32), u64>,
}

/// Stands for the tracker among processes.
pub(super) const TRACKER: u32 = u32::MAX;

pub(super) fn pair(one: u32, other: u32) -> (u32, u32) {
    (one.min(other), one.max(other))
}

pub(super) fn link(one: End, other: End, lane: Lane) -> LinkDirection {
    (one.min(other), one.max(other), lane)
}

impl Network {
    /// On which links something waits for this process.
    pub(super) fn waiting(&self, process: u32) -> Vec<LinkDirection> {
        self.inboxes.get(&process).into_iter().flatten().map(|(way, _)| *way).collect()
    }

    pub(super) fn first(&self, way: &LinkDirection) -> Option<&Frame> {
        self.inboxes.get(&way.1.process)?.get(way)?.front()
    }

    pub(super) fn took(&mut self, way: &LinkDirection) {
        let Some(inboxes) = self.inboxes.get_mut(&way.1.process) else { return };
        let Entry::Occupied(mut inbox) = inboxes.entry(*way) else { return };
        inbox.get_mut().pop_front();
        if inbox.get().is_empty() {
            inbox.remove();
        }
    }

    pub(super) fn number(&self, one: End, other: End, lane: Lane) -> u64 {
        self.links.get(&link(one, other, lane)).copied().unwrap_or_default()
    }

    pub(super) fn used(&self, way: &LinkDirection) -> u64 {
        self.used.get(way).copied().unwrap_or_default()
    }

    /// The link between two is over, with all that is on it. Returns the next one's number.
    pub(super) fn ends(&mut self, one: End, other: End, lane: Lane) -> u64 {
        for way in [(one, other, lane), (other, one, lane)] {
            if let Some(inboxes) = self.inboxes.get_mut(&way.1.process) {
                inboxes.remove(&way);
            }
        }
        let number = self.links.entry(link(one, other, lane)).or_default();
        *number += 1;
        *number
    }

    pub(super) fn died(&mut self, process: u32) {
        self.inboxes.remove(&process);
    }

    pub(super) fn part(&mut self, one: u32, other: u32, until: u64) {
        let known = self.parted.entry(pair(one, other)).or_default();
        *known = (*known).max(until);
    }

    pub(super) fn part_from_tracker(&mut self, process: u32, until: u64) {
        self.part(process, TRACKER, until);
    }

    pub(super) fn is_parted(&self, one: u32, other: u32, now: u64) -> bool {
        self.parted.get(&pair(one, other)).is_some_and(|until| *until > now)
    }

    /// When something arrives that is sent now: not before the two can reach each other.
    fn reaches(&self, one: u32, other: u32, at: u64) -> u64 {
        self.parted.get(&pair(one, other)).copied().unwrap_or_default().max(at)
    }

    /// The same, behind all that was sent before.
    pub(super) fn arrival(&mut self, from: u32, to: u32, at: u64) -> u64 {
        let at = self.reaches(from, to, at);
        let last = self.tracker_arrives.entry((from, to)).or_default();
        *last = (*last).max(at);
        *last
    }

    pub(super) fn data_arrival(&mut self, way: LinkDirection, at: u64) -> u64 {
        let at = self.reaches(way.0.process, way.1.process, at);
        let last = self.arrives.entry(way).or_default();
        *last = (*last).max(at);
        *last
    }
}
