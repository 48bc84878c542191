//! **Replay.** A rank that starts at a version gets the model of that version, and its own state as of it.

use super::{Checked, Violation};
use rejoin_protocol::host::Start;
use rejoin_protocol::ids::{Rank, Version};

const NAME: &str = "Replay";

/// What only this rank has at this version.
pub fn local(rank: Rank, version: Version) -> Vec<u8> {
    [rank.0.to_le_bytes(), version.0.to_le_bytes()].concat()
}

/// A rank was given a start; the model of its version is this, and ranks have own state or not.
pub(crate) fn started(rank: Rank, start: &Start, model: u64, locals: bool) -> Checked {
    let at = start.version;
    let is_other = |checkpoint: rejoin_protocol::ids::Checkpoint| {
        (checkpoint.digest, checkpoint.version) != (u128::from(model), at)
    };
    if start.checkpoint.is_some_and(is_other) {
        return Err(Violation::new(NAME, format!("rank {rank} starts at {at} with {:?}", start.checkpoint)));
    }
    let wanted = (locals && at > Version(0)).then(|| local(rank, at));
    if at > Version(0) && start.local != wanted {
        return Err(Violation::new(NAME, format!("rank {rank} starts at {at} with another own state")));
    }
    Ok(())
}

/// A call came back from the log; `who` says whose and which.
pub(crate) fn result(result: u64, recorded: u64, who: impl FnOnce() -> String) -> Checked {
    if result != recorded {
        return Err(Violation::new(NAME, format!("{}: {result:x} from the log, true is {recorded:x}", who())));
    }
    Ok(())
}
