//! **Fencing.** Nothing from an older incarnation than the view's is accepted.

use super::{Checked, Violation};
use rejoin_protocol::ids::{Incarnation, Rank};

pub(super) fn delivered(from: Rank, to: Rank, sender: Option<Incarnation>, seated: Option<Incarnation>) -> Checked {
    if sender.is_none() || sender != seated {
        return Err(Violation::new(
            "Fencing",
            format!("rank {to} took bytes of incarnation {sender:?} of rank {from}; its view has {seated:?}"),
        ));
    }
    Ok(())
}
