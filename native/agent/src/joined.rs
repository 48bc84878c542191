//! What a task's join comes to.

use bytes::Bytes;
use rejoin_protocol::host::Start;
use rejoin_protocol::message::RankGiven;

/// How a join ended well.
#[derive(Clone, Debug)]
pub enum Joined {
    /// Train from here; with the checkpoint's bytes, unless it is the beginning.
    Start {
        /// What was decided.
        start: Start,
        /// Number of ranks.
        world: u32,
        /// The checkpoint.
        bytes: Option<Bytes>,
    },
    /// The job has reached its end already, with this model.
    Over {
        /// The model's digest.
        digest: u128,
    },
}

/// How standing by ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoodBy {
    /// The task joins as this try of this rank.
    Rank(RankGiven),
    /// The job has reached its end, with this model.
    Over {
        /// The model's digest.
        digest: u128,
    },
}
