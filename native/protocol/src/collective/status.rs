//! What a status report says of collectives.

use crate::ids::{Incarnation, Phase, Rank};
use serde::{Deserialize, Serialize};

/// How much of one phase a rank holds: the results of its collectives 0 to `finished` (exclusive).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// Boot, or the version whose collective it is.
    pub phase: Phase,
    /// How many results, from the first on.
    pub finished: u32,
    /// There are no more: the version was ended after so many.
    pub ended: bool,
}

/// What a rank has heard of another one, of one phase: the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedInput {
    /// The rank whose input it is.
    pub rank: Rank,
    /// The incarnation that gave it.
    pub incarnation: Incarnation,
    /// The phase that it was given to.
    pub phase: Phase,
    /// The collective in which it was heard.
    pub seqno: u32,
    /// All that the rank had given to the phase, that collective included ([`super::InputDigests::add_own`]).
    pub digest: u64,
}

/// How another process of the host finds a rank's segment. Worthless without the right to read the
/// process's memory (the same user, and the same process namespace).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentAddress {
    /// The owner's process number.
    pub process: u32,
    /// The segment's descriptor there.
    pub descriptor: i32,
    /// Drawn at random for each segment; stands on it too.
    pub nonce: u64,
    /// Bytes of each of its two slots.
    pub slot_bytes: u64,
}
