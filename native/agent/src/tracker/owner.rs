//! What a tracker is given by its owner, and what it reports to it.

use bytes::Bytes;
use rejoin_protocol::error::Error;
use rejoin_protocol::event::Event;
use rejoin_protocol::ids::{Attempt, Rank, Task};
use rejoin_protocol::tracker::TrackerConfig;
use rejoin_transport::{JobId, PortRange, Secret};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// What a tracker needs to know beside the rules of its job.
#[derive(Clone, Debug)]
pub struct TrackerServerConfig {
    /// The job that links have to belong to.
    pub job: JobId,
    /// The job's secret.
    pub secret: Secret,
    /// Whether data links have to be encrypted.
    pub encrypt: bool,
    /// Address to listen at; agents reach it there.
    pub listen: IpAddr,
    /// Ports to listen at.
    pub ports: PortRange,
    /// The rules of the job, for the state machine.
    pub rules: TrackerConfig,
}

/// What a tracker reports to its owner.
#[derive(Clone, Debug)]
pub enum TrackerNotice {
    /// A fact.
    Event(Event),
    /// The framework should kill and replace what hosts this task: it is lost, but may only be frozen.
    Kill {
        /// The framework's task that is lost, by its number: that of its rank, in a job without spares.
        task: Task,
        /// The framework's try: its stage attempt and its task attempt.
        attempt: Attempt,
        /// The framework's name of the process.
        executor: String,
        /// The cause in words.
        reason: String,
    },
}

/// What has become of the job.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) result: Option<Result<Bytes, Error>>,
    /// Ranks that were sent back to an older version and have not joined again.
    pub(super) sent_back: BTreeSet<Rank>,
}
