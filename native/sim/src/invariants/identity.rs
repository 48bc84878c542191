//! **Identity.** Ranks whose calls can't be paired, and a rank that doesn't repeat what another
//! has of it, end the job with a mismatch, and never with a model.

use super::{Checked, Violation};
use rejoin_protocol::error::Error;

/// A rank didn't repeat itself; whether another rank could know, and the job ended with a model all the same.
pub(crate) fn lied(could_be_known: bool) -> Checked {
    if could_be_known {
        let text = "a rank said other things than before to one who has them, and the job ended with a model";
        return Err(Violation::new("Identity", text));
    }
    // No rank had them: then it was the first to say them.
    Ok(())
}

/// Ranks made different calls, and none saw it.
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
