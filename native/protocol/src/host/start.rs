//! What a rank brings when it joins, and what it is given.

use crate::collective::SegmentAddress;
use crate::former::Former;
use crate::hook::Hook;
use crate::ids::{Checkpoint, Incarnation, Lineage, Version};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// What a rank that joins offers to the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// The memory that it shares with ranks of the same host, for its collectives.
    pub segment: Option<SegmentAddress>,
    /// Whether its training library's collectives can be taken over.
    pub hook: Hook,
}

/// What a newcomer starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Its number.
    pub incarnation: Incarnation,
    /// The lineage it trains in.
    pub lineage: Lineage,
    /// The version it starts at.
    pub version: Version,
    /// The checkpoint; its bytes are in the store. `None`: from the beginning.
    pub checkpoint: Option<Checkpoint>,
    /// The rank's own model beside it; its bytes are in the store.
    pub own: Option<Checkpoint>,
    /// The world that made the version, if it was another one, with the own models that the rank is given of ranks that
    /// are gone; their bytes are in the store.
    pub former: Option<Box<Former>>,
    /// What only this rank had.
    pub local: Option<Vec<u8>>,
    /// Whether the training library's collectives are taken over, at all ranks.
    pub hooked: bool,
}
