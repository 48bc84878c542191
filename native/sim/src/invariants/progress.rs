//! **Progress**, and **no call blocks for ever**: when faults have stopped, the job ends with its
//! model, or has ended with an error that is allowed for what happened; and every task is notified.

use super::{Checked, Violation};

const NAME: &str = "Progress";

pub(crate) fn check(now: u64, deadline: u64, describe: impl FnOnce() -> String) -> Checked {
    if now > deadline {
        return Err(Violation::new(NAME, format!("the job stands still; {}", describe())));
    }
    Ok(())
}

pub(crate) fn ran_dry(description: &str) -> Violation {
    Violation::new(NAME, format!("nothing will ever happen again; {description}"))
}

/// Another life of the tracker sends the end too: with the model's digest, or none for an error.
pub(crate) fn same_end(earlier: Option<u128>, now: Option<u128>) -> Checked {
    if earlier != now {
        let text = format!("one life of the tracker ended the job with {earlier:x?}, another one with {now:x?}");
        return Err(Violation::new(NAME, text));
    }
    Ok(())
}

pub(crate) fn over_once(already: bool) -> Checked {
    if already {
        return Err(Violation::new(NAME, "the job ended twice"));
    }
    Ok(())
}
