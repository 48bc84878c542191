//! What a task's join comes to.

use bytes::Bytes;
use rejoin_protocol::host::Start;

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
