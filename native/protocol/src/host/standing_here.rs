//! What an agent keeps of a task that stands by.

use crate::ids::Millis;
use crate::message::Standing;

/// A task of this process that stands by, or was given a rank.
#[derive(Clone, Debug)]
pub(super) struct StandingHere {
    pub(super) standing: Standing,
    pub(super) since: Millis,
}
