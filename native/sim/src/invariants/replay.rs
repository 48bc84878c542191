//! **Replay.** A rank that starts at a version gets the model of that version, and its own state as of it.

use super::{Checked, Violation};
use crate::training::{mix, Truth};
use rejoin_protocol::host::Start;
use rejoin_protocol::ids::{Rank, Version};

/// What only this rank has at this version.
pub fn local(rank: Rank, version: Version) -> Vec<u8> {
    mix(&[u64::from(rank.0), u64::from(version.0), 5]).to_le_bytes().to_vec()
}

pub(super) fn started(rank: Rank, start: &Start, truth: &Truth, locals: bool) -> Checked {
    if let Some(checkpoint) = start.checkpoint {
        let model = truth.models[start.version.0 as usize];
        if checkpoint.digest != u128::from(model) || checkpoint.version != start.version {
            return Err(Violation::new(
                "Replay",
                format!("rank {rank} starts at {} with {checkpoint:?}", start.version),
            ));
        }
    }
    let wanted = (locals && start.version > Version(0)).then(|| local(rank, start.version));
    if start.version > Version(0) && start.local != wanted {
        return Err(Violation::new(
            "Replay",
            format!("rank {rank} starts at {} with another own state", start.version),
        ));
    }
    Ok(())
}

/// A call came back from the log; `who` says whose and which.
pub(crate) fn result(result: u64, recorded: u64, who: impl FnOnce() -> String) -> Checked {
    if result != recorded {
        return Err(Violation::new("Replay", format!("{}: {result:x} from the log, true is {recorded:x}", who())));
    }
    Ok(())
}
