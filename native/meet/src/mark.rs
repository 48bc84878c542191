//! A thread that waits in the kernel for a descriptor, and is kicked through it: only when it waits, because a kick is a system
//! call.

use crate::Word;
use core::sync::atomic::Ordering::AcqRel;

/// Whether the thread waits. What it waits for is guarded by a lock that both sides hold when they look or change it.
#[derive(Debug)]
pub struct Mark<W> {
    waiting: W,
}

impl<W: Word<u64>> Default for Mark<W> {
    fn default() -> Self {
        Mark { waiting: W::new(0) }
    }
}

impl<W: Word<u64>> Mark<W> {
    /// The thread has found nothing, and is about to wait. Called with the lock held, so that nothing happens unseen before.
    pub fn about_to_wait(&self) {
        self.waiting.swap(1, AcqRel);
    }

    /// The thread is back; `kicked`: it has seen the descriptor ready. `take` takes what was written, if there is something.
    pub fn is_back(&self, kicked: bool, take: impl FnOnce()) {
        // Whoever kicks takes the mark first and writes then, perhaps only when the thread waits again: so what is seen is
        // taken whatever the mark says, or the thread would never sleep again.
        if self.waiting.swap(0, AcqRel) == 0 || kicked {
            take();
        }
    }

    /// Something has happened; it was changed with the lock held. `write` makes the descriptor ready, and is called only when the
    /// thread waits.
    pub fn kick(&self, write: impl FnOnce()) {
        if self.waiting.swap(0, AcqRel) > 0 {
            write();
        }
    }
}
