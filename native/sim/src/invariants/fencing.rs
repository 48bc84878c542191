//! **Fencing.** Nothing from an older incarnation than the view's is accepted.

use super::{Checked, Violation};
use rejoin_protocol::ids::{AgentId, Incarnation, Rank};

/// An incarnation, by its agent.
type LiveRank = (AgentId, Incarnation);

/// A rank took a frame that came from this incarnation; its view has that one in the sender's slot.
pub(crate) fn frame(rank: Rank, from: Rank, sender: LiveRank, join_accepted: Option<LiveRank>) -> Checked {
    if join_accepted != Some(sender) {
        let text = format!("rank {rank} took a frame of {sender:?}; its view has {join_accepted:?} as rank {from}");
        return Err(Violation::new("Fencing", text));
    }
    Ok(())
}
