//! What a process knows of its connection to the tracker, and when the next heartbeat is due.

use crate::ids::Millis;
use crate::message::Timing;
use alloc::string::String;

/// A tracker may be silent for so long, or twice as long as an agent may if that is more: it serves all of them.
const SILENCE_MILLIS: u64 = 5_000;

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
    /// Heartbeats since the tracker has last said anything.
    unanswered: u64,
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
            unanswered: 0,
        }
    }

    pub(super) fn stands(&mut self, now: Millis) {
        self.up = true;
        (self.heartbeat_sequence, self.heartbeat_at, self.unanswered) = (0, now, 0);
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
        self.unanswered += 1;
        Some(self.heartbeat_sequence - 1)
    }

    /// It has said something.
    pub(super) fn is_heard(&mut self) {
        self.unanswered = 0;
    }

    /// For how long it has answered no heartbeat, once that is too long. Heartbeats are counted, not the time: a
    /// process that was stopped itself has sent none, and judges nobody by what it couldn't read.
    ///
    /// A connection doesn't show it: the kernel acknowledges for a process that is stopped, and for a host that is
    /// gone goes on sending what is unacknowledged for a quarter of an hour.
    pub(super) fn silent_for(&self) -> Option<u64> {
        let timing = self.timing.filter(|_| self.up)?;
        let millis = self.unanswered * timing.heartbeat_millis;
        (millis >= SILENCE_MILLIS.max(2 * timing.lost_after_millis)).then_some(millis)
    }
}
