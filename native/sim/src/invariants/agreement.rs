//! **Agreement.** Every incarnation of every rank that gets bytes or a result gets the true ones,
//! and takes the true checkpoints; the job's result is the true model.

use super::{Checked, Violation};
use rejoin_protocol::ids::{Phase, Rank, Version};
use rejoin_protocol::tracker::JobResult;

const NAME: &str = "Agreement";

/// Bytes of a channel came to a worker, from one rank to another.
pub(crate) fn delivered((from, to): (Rank, Rank), phase: Phase, offset: u64, is_right: bool) -> Checked {
    if !is_right {
        return Err(Violation::new(
            NAME,
            format!("rank {to} got other bytes than the true ones from rank {from} in {phase} from byte {offset} on"),
        ));
    }
    Ok(())
}

/// A call was run to its end; `who` says whose and which.
pub(crate) fn result(result: u64, right: u64, who: impl FnOnce() -> String) -> Checked {
    if result != right {
        return Err(Violation::new(NAME, format!("{}: {result:x}, true is {right:x}", who())));
    }
    Ok(())
}

/// A rank begins a version with this model.
pub(crate) fn model(rank: Rank, version: Version, model: u64, right: u64) -> Checked {
    if model != right {
        let text = format!("rank {rank} has model {model:x} at version {version}, true is {right:x}");
        return Err(Violation::new(NAME, text));
    }
    Ok(())
}

/// The job ended with a model, whose bytes are its result.
pub(crate) fn job(ended: &JobResult, right: u64) -> Checked {
    if ended.digest != u128::from(right) || ended.result != right.to_le_bytes() {
        return Err(Violation::new(NAME, format!("the job ended with {ended:?}, the true model is {right:x}")));
    }
    Ok(())
}
