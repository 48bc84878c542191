//! What a rank is told of the world that made the version which it starts from.

use rejoin_protocol::ids::Rank;

/// The world of an elastic job that made the version which a rank starts from, where that is another one than it is in.
/// Ranks are numbered as they were then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Former {
    /// Which rank this one was; `None`: it wasn't there.
    pub rank: Option<Rank>,
    /// The number of ranks.
    pub world: u32,
    /// The ranks that are gone and whose own models this rank is given
    /// ([`Communicator::load_own_of`](crate::Communicator::load_own_of)), in order. Each rank that is gone is given to
    /// one that was there. Empty where ranks have no own models.
    pub given: Vec<Rank>,
}
