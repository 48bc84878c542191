//! What time it is for the tracker, and when it looks for agents that are silent.

use crate::ids::Millis;
use alloc::format;
use alloc::string::String;

/// The time by the inputs, none of which reads a clock.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    began: Millis,
    pub(super) now: Millis,
    /// When the driver was asked to come back: what it is late by is no agent's silence.
    pub(super) wake_at: Millis,
    /// When silence is judged next. No message puts it off.
    pub(super) judges_at: Millis,
}

impl Clock {
    pub(super) fn new(now: Millis, heartbeat_millis: u64) -> Self {
        let wake_at = now.plus(heartbeat_millis);
        Clock { began: now, now, wake_at, judges_at: wake_at }
    }

    /// The time of an input, which never goes back; and how late the driver is with it.
    pub(super) fn take(&mut self, now: Millis) -> u64 {
        self.now = now.max(self.now);
        self.now.since(self.wake_at)
    }

    pub(super) fn since_began(&self, at: Millis) -> u64 {
        at.since(self.began)
    }

    /// Time since the job began, for texts.
    pub(super) fn text(&self, at: Millis) -> String {
        let millis = self.since_began(at);
        format!("{}.{:03} s", millis / 1000, millis % 1000)
    }
}
