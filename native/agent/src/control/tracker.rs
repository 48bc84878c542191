//! What the control thread has of its tracker.

use super::handing::Handing;
use crate::join_file::JoinFile;
use rejoin_transport::Link;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

/// The link to the tracker, if it stands or is being made.
pub(super) struct TrackerLink {
    pub(super) address: SocketAddr,
    join_file: Option<PathBuf>,
    pub(super) link: Option<Link>,
    pub(super) began: Instant,
    pub(super) established: bool,
    /// When the next one is to be made.
    pub(super) next: Option<Instant>,
    /// The result that is on its way to the tracker.
    pub(super) handing: Option<Handing>,
}

impl TrackerLink {
    pub(super) fn to(address: SocketAddr, join_file: Option<PathBuf>, now: Instant) -> Self {
        TrackerLink { address, join_file, link: None, began: now, established: false, next: None, handing: None }
    }

    /// Looks where it is now. One that came back elsewhere has written that into the join file; what
    /// can't be read, or isn't there, says nothing.
    pub(super) fn look(&mut self) {
        let said = self.join_file.as_ref().and_then(|path| JoinFile::read(path).ok().flatten());
        if let Some(join) = said {
            self.address = join.tracker;
        }
    }
}
