//! **Identity**, as far as opaque bytes show it: a rank that doesn't repeat what somebody has of it ends the job with a
//! mismatch, and never with a model.

use super::{Checked, Violation};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::tracker::JobResult;

pub(super) fn at_the_end(outcome: &Result<JobResult, Error>, lied: bool) -> Checked {
    match outcome {
        Err(error) if error.code == Code::Mismatch => Ok(()),
        other if lied => Err(Violation::new(
            "Identity",
            format!("a rank said other bytes than before to one who has them, and the job ended with {other:?}"),
        )),
        // Nobody had those bytes: then it was the first to say them.
        _ => Ok(()),
    }
}

/// Ranks made different calls, and nobody saw it.
pub(crate) fn unseen() -> Violation {
    Violation::new("Identity", "ranks made different calls, and the job ended with a model")
}

/// The job ended because calls of ranks couldn't be paired.
pub(crate) fn claimed(error: &Error, differs: bool) -> Checked {
    if !differs {
        return Err(Violation::new("Identity", format!("all ranks make the same calls: {error}")));
    }
    Ok(())
}
