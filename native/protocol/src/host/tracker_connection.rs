//! What a process knows of its connection to the tracker, and when the next heartbeat is due.

use crate::ids::Millis;
use crate::message::Timing;
use alloc::string::String;

/// The connection, and what the tracker said with a registration.
#[derive(Clone, Debug)]
pub(super) struct TrackerConnection {
    pub(super) up: bool,
    /// The newest life of the tracker that is known.
    pub(super) epoch: u32,
    /// Another life of the tracker has followed the one that this connection goes to: what it says counts no more.
    pub(super) is_outdated: bool,
    /// Since when there was no tracker.
    pub(super) down_since: Millis,
    /// What the last try showed, or why there is none any more.
    pub(super) down_reason: String,
    /// From the first registration on.
    pub(super) timing: Option<Timing>,
    /// The tracker asks for rank 0's result.
    pub(super) wants_result: bool,
    heartbeat_at: Millis,
    heartbeat_sequence: u64,
}

impl TrackerConnection {
    pub(super) fn none_yet(now: Millis) -> Self {
        TrackerConnection {
            up: false,
            epoch: 0,
            is_outdated: false,
            down_since: now,
            down_reason: "no connection was made yet".into(),
            timing: None,
            wants_result: false,
            heartbeat_at: now,
            heartbeat_sequence: 0,
        }
    }

    pub(super) fn stands(&mut self, now: Millis) {
        self.up = true;
        (self.heartbeat_sequence, self.heartbeat_at) = (0, now);
    }

    pub(super) fn is_lost(&mut self, reason: String, now: Millis) {
        if self.up {
            self.down_since = now;
        }
        (self.up, self.is_outdated) = (false, false);
        self.down_reason = reason;
    }

    pub(super) fn registered(&mut self, epoch: u32, timing: Timing, wants_result: bool, now: Millis) {
        (self.epoch, self.timing, self.wants_result) = (epoch, Some(timing), wants_result);
        self.heartbeat_at = now;
    }

    /// When the next heartbeat is due; none before the tracker has said how often.
    pub(super) fn heartbeat_at(&self) -> Option<Millis> {
        (self.up && self.timing.is_some()).then_some(self.heartbeat_at)
    }

    /// The number of a heartbeat that is due now.
    pub(super) fn due_heartbeat(&mut self, now: Millis) -> Option<u64> {
        let timing = self.timing.filter(|_| self.up && self.heartbeat_at <= now)?;
        self.heartbeat_at = now.plus(timing.heartbeat_millis);
        self.heartbeat_sequence += 1;
        Some(self.heartbeat_sequence - 1)
    }
}
