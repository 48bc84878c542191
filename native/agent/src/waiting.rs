//! Where a task's thread waits for an answer of the control thread.

use parking_lot::{Condvar, Mutex};
use rejoin_protocol::error::Error;
use rejoin_transport::WaitLimit;
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
            changed.wait_for(&mut cell, left.min(WaitLimit::LOOK));
        }
    }
}
