//! How long the launcher waits for what a run begins with: the first slots, or the tracker of a job that is joined.

use super::ending::{Ending, NotBegun};
use super::signals::Caught;
use super::Options;
use rejoin_agent::protocol::error::{Code, Error};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often it is looked at.
pub const LOOK: Duration = Duration::from_millis(50);

/// A wait before the run has begun.
pub struct Wait {
    members: Duration,
    members_until: Instant,
    timeout: Option<Duration>,
    /// When the whole run is over.
    pub over: Option<Instant>,
    signals: Arc<Caught>,
}

impl Wait {
    /// Of a run that began then, and hears of signals by this.
    pub fn new(options: &Options, began: Instant, signals: Arc<Caught>) -> Wait {
        Wait {
            members: options.limits.members,
            members_until: began + options.limits.members,
            timeout: options.limits.timeout,
            over: options.limits.timeout.map(|limit| began + limit),
            signals,
        }
    }

    /// Nothing while it goes on; `what` says what was waited for, what was seen, and what to do.
    ///
    /// # Errors
    /// This code when missing members' time is up; otherwise the run is over.
    pub fn goes_on(&self, code: Code, what: impl Fn() -> String) -> Result<(), NotBegun> {
        if let Some(signal) = self.signals.first() {
            return Err(NotBegun::Over(Ending::Signalled(signal)));
        }
        let now = Instant::now();
        if let Some(limit) = self.timeout.filter(|_| self.over.is_some_and(|over| over <= now)) {
            let text = format!("the run took longer than --timeout {} s; {}", limit.as_secs_f64(), what());
            return Err(NotBegun::Over(Ending::TimedOut(text)));
        }
        if self.members_until <= now {
            let text = format!("not there within {} s (--members): {}", self.members.as_secs_f64(), what());
            return Err(Error::new(code, text).into());
        }
        Ok(())
    }
}
