//! **No call blocks for ever.** The drivers' deadlines are real time, which is not here; what is
//! checked is what they rest on: when faults have stopped, no call waits longer than the slowest
//! recovery takes, and when the job has ended all are notified.

use super::{Checked, Violation};

const NAME: &str = "Deadlines";
/// Longer than silence, a kill by the framework, a start of the task, and all of that once more.
const CALL_MILLIS: u64 = 60_000;
const REPORTED_MILLIS: u64 = 60_000;

/// A call has been under way since `since`; faults stopped at `quiet`.
pub(crate) fn call(since: Option<u64>, now: u64, quiet: u64, describe: impl FnOnce() -> String) -> Checked {
    match since {
        Some(since) if now.saturating_sub(since.max(quiet)) > CALL_MILLIS => {
            Err(Violation::new(NAME, format!("a call waits since {since} ms; {}", describe())))
        }
        _ => Ok(()),
    }
}

/// The job has been over for so long, and not all were notified.
pub(crate) fn ended(over: bool, millis: u64, describe: impl FnOnce() -> String) -> Checked {
    if over && millis > REPORTED_MILLIS {
        return Err(Violation::new(NAME, format!("the job is over since {millis} ms; {}", describe())));
    }
    Ok(())
}
