//! What the control thread has of its tracker.

use super::handing::Handing;
use rejoin_transport::Link;
use std::net::SocketAddr;
use std::time::Instant;

/// The link to the tracker, if it stands or is being made.
pub(super) struct TrackerLink {
    pub(super) address: SocketAddr,
    pub(super) link: Option<Link>,
    pub(super) began: Instant,
    pub(super) established: bool,
    /// When the next one is to be made.
    pub(super) next: Option<Instant>,
    /// The result that is on its way to the tracker.
    pub(super) handing: Option<Handing>,
}

impl TrackerLink {
    pub(super) fn to(address: SocketAddr, now: Instant) -> Self {
        TrackerLink { address, link: None, began: now, established: false, next: None, handing: None }
    }
}
