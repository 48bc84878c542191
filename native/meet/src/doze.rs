//! One thread that works, and dozes when there is nothing to do; others give it work.

use crate::Word;
use core::sync::atomic::Ordering::{AcqRel, Acquire};

/// What the thread and those who wake it share. It looks at two counts: frames that have arrived, and everything else that has
/// changed.
#[derive(Debug)]
pub struct Doze<W> {
    changes: W,
    arrivals: W,
    /// 1 while the thread sleeps, or is about to.
    asleep: W,
}

impl<W: Word<u64>> Default for Doze<W> {
    fn default() -> Self {
        Doze { changes: W::new(1), arrivals: W::new(0), asleep: W::new(0) }
    }
}

impl<W: Word<u64>> Doze<W> {
    /// A number that differs when something has changed that the thread has to look at.
    pub fn changes(&self) -> u64 {
        self.changes.load(Acquire)
    }

    /// The same for frames.
    pub fn arrivals(&self) -> u64 {
        self.arrivals.load(Acquire)
    }

    /// Something has changed. `wake` is called if the thread may sleep: it has to end a sleep that is going on, and the next
    /// one if none is.
    pub fn changed(&self, wake: impl FnOnce()) {
        self.changes.fetch_add(1, AcqRel);
        self.wake(wake);
    }

    /// A frame has arrived. `wake` as in [`Doze::changed`].
    pub fn arrived(&self, wake: impl FnOnce()) {
        self.arrivals.fetch_add(1, AcqRel);
        self.wake(wake);
    }

    /// The look at the mark writes it (as it was), as [`Doze::sleep`] does. Of two such writes one comes later and sees the other:
    /// either the thread's is first, and the sleeper is woken, or this one is, and the thread sees what was counted before it.
    fn wake(&self, wake: impl FnOnce()) {
        if self.asleep.fetch_add(0, AcqRel) > 0 {
            wake();
        }
    }

    /// The thread has nothing to do: it naps, unless something `is_due`, which looks at the counts. Only one thread calls this.
    pub fn sleep(&self, is_due: impl FnOnce() -> bool, nap: impl FnOnce()) {
        self.asleep.swap(1, AcqRel);
        if !is_due() {
            nap();
        }
        self.asleep.swap(0, AcqRel);
    }
}
