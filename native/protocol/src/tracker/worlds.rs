//! The worlds that a job had, and when the last change was.

use crate::former::FormerWorlds;
use crate::ids::Millis;

/// What has changed in the job's world so far.
#[derive(Clone, Debug)]
pub(super) struct Worlds {
    /// Those before.
    pub(super) former: FormerWorlds,
    /// When the world last changed, as far as is known.
    pub(super) resized: Option<Millis>,
    /// How often this life has resized it.
    pub(super) resizes: u32,
}
