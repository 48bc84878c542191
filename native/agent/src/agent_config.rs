//! What an agent needs to know.

use rejoin_transport::{JobId, PortRange, Secret};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// What an agent needs to know.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// The job that its ranks belong to.
    pub job: JobId,
    /// The job's secret.
    pub secret: Secret,
    /// Whether data links are encrypted; links to the tracker always are.
    pub encrypt: bool,
    /// The framework's name of this executor.
    pub executor: String,
    /// The address that peers reach this process at.
    pub listen: IpAddr,
    /// Ports to listen at.
    pub ports: PortRange,
    /// Name of this host.
    pub host: String,
    /// Where the tracker is.
    pub tracker: SocketAddr,
    /// The join file that says where it is, if it may come back elsewhere.
    pub join_file: Option<PathBuf>,
    /// How long the tracker may be out of reach at the start, in milliseconds.
    pub tracker_millis: u64,
}
