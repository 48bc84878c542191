//! Frames between ranks of one process: they are handed over in memory.

use crate::agent::MemberId;
use bytes::Bytes;
use parking_lot::Mutex;
use rejoin_protocol::ids::{Incarnation, Rank};
use rejoin_protocol::wire::Header;
use std::collections::{BTreeMap, VecDeque};

/// What other ranks of this process have sent to one rank.
#[derive(Default)]
pub(super) struct Inbox {
    lanes: Mutex<BTreeMap<Rank, Lane>>,
}

/// The frames of one incarnation of one rank.
type Lane = (Incarnation, VecDeque<(Header, Bytes)>);

impl Inbox {
    /// A frame of another rank. What an older incarnation of it sent is dropped when a newer one sends.
    pub(super) fn push(&self, from: MemberId, header: Header, payload: Bytes) {
        let mut lanes = self.lanes.lock();
        let (incarnation, frames) = lanes.entry(from.rank).or_insert_with(|| (from.incarnation, VecDeque::new()));
        if from.incarnation < *incarnation {
            return;
        }
        if from.incarnation > *incarnation {
            *incarnation = from.incarnation;
            frames.clear();
        }
        frames.push_back((header, payload));
    }

    /// The next frame of an incarnation, as far as `judge` lets it: true takes it, false leaves it.
    pub(super) fn next(
        &self,
        rank: Rank,
        incarnation: Incarnation,
        judge: impl FnOnce(&Header) -> bool,
    ) -> Option<(Header, Bytes)> {
        let mut lanes = self.lanes.lock();
        let (there, frames) = lanes.get_mut(&rank)?;
        if *there != incarnation {
            return None;
        }
        let (header, _) = frames.front()?;
        if judge(header) {
            frames.pop_front()
        } else {
            None
        }
    }
}
