//! Links between living ranks that broke, until it is known what to do about them.

use crate::ids::{MemberId, Millis};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// Links between living ranks that broke.
#[derive(Clone, Debug, Default)]
pub(super) struct PairTroubles {
    pub(super) reports: BTreeMap<(MemberId, MemberId), (u32, Millis)>,
    pub(super) unreported: Vec<(Millis, MemberId, MemberId, String)>,
}
