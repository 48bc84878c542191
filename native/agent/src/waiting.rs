//! Where a task's thread waits for an answer of the control thread.

use parking_lot::{Condvar, Mutex};
use rejoin_protocol::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Answer<T> = Option<Result<T, Error>>;

/// A place for one answer. The first one counts.
pub(crate) struct Waiting<T> {
    cell: Arc<(Mutex<Answer<T>>, Condvar)>,
}

impl<T> Clone for Waiting<T> {
    fn clone(&self) -> Self {
        Waiting { cell: self.cell.clone() }
    }
}

impl<T> Waiting<T> {
    pub(crate) fn new() -> Self {
        Waiting { cell: Arc::new((Mutex::new(None), Condvar::new())) }
    }

    /// Gives the answer; a second one is dropped.
    pub(crate) fn answer(&self, answer: Result<T, Error>) {
        let (cell, changed) = &*self.cell;
        let mut cell = cell.lock();
        if cell.is_none() {
            *cell = Some(answer);
            changed.notify_all();
        }
    }

    /// Waits for the answer, at most so long; then `late` says what was waited for.
    pub(crate) fn wait(&self, at_most: Duration, late: impl FnOnce() -> Error) -> Result<T, Error> {
        self.answered_within(at_most).unwrap_or_else(|| Err(late()))
    }

    /// Waits for the answer, at most so long; it is given once.
    pub(crate) fn answered_within(&self, at_most: Duration) -> Option<Result<T, Error>> {
        let mut limit = WaitLimit::new(at_most, Instant::now());
        let (cell, changed) = &*self.cell;
        let mut cell = cell.lock();
        loop {
            if let Some(answer) = cell.take() {
                return Some(answer);
            }
            let left = limit.left(Instant::now())?;
            changed.wait_for(&mut cell, left.min(LOOK));
        }
    }
}

/// Who waits looks at least so often.
pub const LOOK: Duration = Duration::from_secs(1);

/// How long something may be waited for. Only the time counts in which the waiting thread could have seen it: a job
/// that is stopped as a whole (a batch system suspends it, a machine sleeps) has waited for nobody meanwhile.
#[derive(Debug)]
pub struct WaitLimit {
    left: Duration,
    looked: Instant,
}

impl WaitLimit {
    /// So long from now on; `Duration::MAX` is no limit.
    pub fn new(at_most: Duration, now: Instant) -> Self {
        WaitLimit { left: at_most, looked: now }
    }

    /// What is left of it; `None` when it is over. Between two looks no more than [`LOOK`] counts.
    pub fn left(&mut self, now: Instant) -> Option<Duration> {
        let since = now.saturating_duration_since(self.looked).min(LOOK);
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
        assert_eq!(limit.left(began + LOOK), Some(Duration::from_secs(9)));
        assert_eq!(limit.left(began + hours), Some(Duration::from_secs(8)), "it was stopped");
        let ends = (1..).find(|second| limit.left(began + hours + *second * LOOK).is_none());
        assert_eq!(ends, Some(8));
        assert!(WaitLimit::new(Duration::MAX, began).left(began + hours).is_some());
    }
}
