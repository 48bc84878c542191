//! One thread that works, and parks when there is nothing to do; others give it work.

use crate::Atomic;
use core::sync::atomic::Ordering::{AcqRel, Acquire};

/// What the thread and its wakers share: it looks at the count of what has changed.
#[derive(Debug)]
pub struct Parker<W> {
    changes: W,
    /// 1 while the thread sleeps, or is about to.
    asleep: W,
}

impl<W: Atomic<u64>> Default for Parker<W> {
    fn default() -> Self {
        Parker { changes: W::new(1), asleep: W::new(0) }
    }
}

impl<W: Atomic<u64>> Parker<W> {
    /// A number that differs when something has changed that the thread has to look at.
    pub fn changes(&self) -> u64 {
        self.changes.load(Acquire)
    }

    /// Something has changed. `wake` is called if the thread may sleep: it has to end a sleep that
    /// is going on, and the next one if none is.
    ///
    /// The look at the mark writes it (as it was), as [`Parker::sleep`] does. Of two such writes one
    /// comes later and sees the other: either the thread's is first, and the sleeper is woken, or
    /// this one is, and the thread sees what was counted before it.
    pub fn changed(&self, wake: impl FnOnce()) {
        self.changes.fetch_add(1, AcqRel);
        if self.asleep.fetch_add(0, AcqRel) > 0 {
            wake();
        }
    }

    /// The thread has nothing to do: it sleeps, unless something `is_due`, which looks at the count.
    /// Only one thread calls this.
    pub fn sleep(&self, is_due: impl FnOnce() -> bool, pause: impl FnOnce()) {
        self.asleep.swap(1, AcqRel);
        if !is_due() {
            pause();
        }
        self.asleep.swap(0, AcqRel);
    }
}
