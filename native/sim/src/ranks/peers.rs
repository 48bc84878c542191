//! The peers that a rank is linked with.

use super::frame::{End, Frame};
use super::process_io::Output;
use rejoin_protocol::ids::{Incarnation, Rank};

/// This end of the data links, and the other ones.
#[derive(Clone, Debug)]
pub(super) struct Peers {
    pub(super) own: End,
    /// By rank.
    pub(super) now: Vec<Option<End>>,
    /// As last notified.
    pub(super) incarnations: Vec<Incarnation>,
}

impl Peers {
    /// A frame for a rank, if it is linked with.
    pub(super) fn frame(&self, to: Rank, frame: Frame) -> Option<Output> {
        Some(Output::Frame { from: self.own, to: self.now[to.0 as usize]?, frame })
    }
}
