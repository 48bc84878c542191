//! Whether lazy checkpoints can be relied on: the first one of an incarnation is looked at twice.

use rejoin_agent::Supplier;
use rejoin_protocol::ids::Version;
use std::sync::Arc;

/// What is known of an incarnation's first lazy checkpoint.
pub(super) enum FirstLazy {
    NotTaken,
    /// Of this version, with the digest of what its supplier has given.
    Gave(Version, u128, Arc<Supplier>),
    Looked,
}
