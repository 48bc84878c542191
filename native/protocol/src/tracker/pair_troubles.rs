//! Links between living ranks that broke, until it is known what to do about them.

use crate::ids::{Incarnation, Millis, Rank};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// One end of a data link.
pub(super) type End = (Rank, Incarnation);

/// Links between living ranks that broke.
#[derive(Clone, Debug, Default)]
pub(super) struct PairTroubles {
    pub(super) reports: BTreeMap<(End, End), (u32, Millis)>,
    pub(super) unreported: Vec<(Millis, End, End, String)>,
}
