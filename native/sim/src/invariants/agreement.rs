//! **Agreement.** Every incarnation of every rank that gets bytes gets the true ones, and takes the true checkpoints; the
//! job's result is the true model.

use super::{Checked, Violation};
use crate::scenario::Scenario;
use crate::training::Truth;
use rejoin_protocol::error::Error;
use rejoin_protocol::ids::{Phase, Rank, Version};
use rejoin_protocol::tracker::JobResult;

const NAME: &str = "Agreement";

pub(super) fn delivered(place: (Rank, Rank, Phase, u64), bytes: &[u8], truth: &Truth) -> Checked {
    let (from, to, phase, offset) = place;
    let offset = offset as usize;
    let right = truth.bytes.get(&(from, to, phase)).and_then(|all| all.get(offset..offset + bytes.len()));
    if right != Some(bytes) {
        return Err(Violation::new(
            NAME,
            format!("rank {to} got other bytes than the true ones from rank {from} in {phase} from byte {offset} on"),
        ));
    }
    Ok(())
}

pub(super) fn entered(rank: Rank, version: Version, model: u64, unread: usize, truth: &Truth) -> Checked {
    if unread > 0 {
        return Err(Violation::new(NAME, format!("rank {rank} left {unread} bytes unread at version {version}")));
    }
    let right = truth.models.get(version.0 as usize);
    if right != Some(&model) {
        return Err(Violation::new(
            NAME,
            format!("rank {rank} took {model:x} at version {version}, true is {right:x?}"),
        ));
    }
    Ok(())
}

pub(super) fn at_the_end(scenario: &Scenario, truth: &Truth, outcome: &Result<JobResult, Error>) -> Checked {
    let Ok(result) = outcome else { return Ok(()) };
    let model = truth.models[scenario.script.versions as usize];
    if result.digest != u128::from(model) || result.result != model.to_le_bytes() {
        return Err(Violation::new(NAME, format!("the job ended with {result:?}, the true model is {model:x}")));
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

/// The job ended with this model.
pub(crate) fn job(digest: u128, right: u128) -> Checked {
    if digest != right {
        return Err(Violation::new(NAME, format!("the job ended with {digest:x}, the true model is {right:x}")));
    }
    Ok(())
}
