//! How long something is waited for.

use std::time::{Duration, Instant};

/// How long something may be waited for. Only the time counts in which the waiting thread could have seen it: a job
/// that is stopped as a whole (a batch system suspends it, a machine sleeps) has waited for nobody meanwhile.
#[derive(Debug)]
pub struct WaitLimit {
    left: Duration,
    looked: Instant,
}

impl WaitLimit {
    /// Who waits looks at least so often: of the time between two looks no more counts.
    pub const LOOK: Duration = Duration::from_secs(1);

    /// So long from now on; `Duration::MAX` is no limit.
    pub fn new(at_most: Duration, now: Instant) -> Self {
        WaitLimit { left: at_most, looked: now }
    }

    /// What is left of it; `None` when it is over.
    pub fn left(&mut self, now: Instant) -> Option<Duration> {
        let since = now.saturating_duration_since(self.looked).min(Self::LOOK);
        self.looked = now;
        self.left = self.left.saturating_sub(since);
        (!self.left.is_zero()).then_some(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_over_after_its_time_but_not_by_time_in_which_nobody_could_look() {
        let began = Instant::now();
        let mut limit = WaitLimit::new(Duration::from_secs(10), began);
        let hours = Duration::from_secs(7200);
        assert_eq!(limit.left(began + WaitLimit::LOOK), Some(Duration::from_secs(9)));
        assert_eq!(limit.left(began + hours), Some(Duration::from_secs(8)), "it was stopped");
        let ends = (1..).find(|second| limit.left(began + hours + *second * WaitLimit::LOOK).is_none());
        assert_eq!(ends, Some(8));
        assert!(WaitLimit::new(Duration::MAX, began).left(began + hours).is_some());
    }
}
