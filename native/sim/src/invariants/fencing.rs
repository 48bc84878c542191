//! **Fencing.** Nothing from an older incarnation than the view's is accepted.

use super::{Checked, Violation};
use rejoin_protocol::ids::{AgentId, Incarnation, Rank};

pub(super) fn delivered(from: Rank, to: Rank, sender: Option<Incarnation>, seated: Option<Incarnation>) -> Checked {
    if sender.is_none() || sender != seated {
        return Err(Violation::new(
            "Fencing",
            format!("rank {to} took bytes of incarnation {sender:?} of rank {from}; its view has {seated:?}"),
        ));
    }
    Ok(())
}

/// A rank took a frame that came from this agent; its view has that agent in the sender's seat.
pub(crate) fn frame(rank: Rank, from: Rank, sender: AgentId, seated: Option<AgentId>) -> Checked {
    if seated != Some(sender) {
        let text = format!("rank {rank} took a frame of agent {}; its view has {seated:?} as rank {from}", sender.0);
        return Err(Violation::new("Fencing", text));
    }
    Ok(())
}
