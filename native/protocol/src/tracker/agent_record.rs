//! What the tracker knows of an agent.

use crate::ids::{Checkpoint, Millis};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// One agent.
#[derive(Clone, Debug)]
pub(super) struct AgentRecord {
    pub(super) executor: String,
    pub(super) host: String,
    pub(super) pid: u32,
    pub(super) address: SocketAddr,
    /// `None` while its connection is broken.
    pub(super) link: Option<u64>,
    /// Last sign of life.
    pub(super) last_heard: Millis,
    /// Declared lost; it counts again when it is heard of.
    pub(super) lost: bool,
    pub(super) broken: Option<Broken>,
    pub(super) held: Vec<Checkpoint>,
}

/// A connection that ended and wasn't made again yet.
#[derive(Clone, Debug)]
pub(super) struct Broken {
    pub(super) reason: String,
    /// When the next probe is due; `None` while one is out.
    pub(super) probe_at: Option<Millis>,
    /// Until the probe after an unsuccessful one.
    pub(super) pause_millis: u64,
}

impl AgentRecord {
    /// Whether it can be asked for something.
    pub(super) fn counts(&self) -> bool {
        !self.lost
    }
}
