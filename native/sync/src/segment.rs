//! The counters on a rank's segment: memory that it alone writes, and the other ranks of its host read.

use crate::Atomic;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// One rank's.
#[derive(Debug)]
pub struct Counters<'b, L, S> {
    /// The last step that it has published; it only grows.
    published: &'b L,
    /// For whose step it sleeps: that one's rank plus one, or 0.
    sleeps_for: &'b S,
    /// Grows with each published step that a rank sleeps for; a sleeper waits at it.
    bell: &'b S,
}

impl<L, S> Clone for Counters<'_, L, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L, S> Copy for Counters<'_, L, S> {}

impl<'b, L: Atomic<u64>, S: Atomic<u32>> Counters<'b, L, S> {
    /// These.
    #[inline]
    pub fn new(published: &'b L, sleeps_for: &'b S, bell: &'b S) -> Self {
        Counters { published, sleeps_for, bell }
    }

    /// The last step that was published. Whatever was written before it can be read.
    #[inline]
    pub fn published(&self) -> u64 {
        self.published.load(Acquire)
    }

    /// The owner, rank `own`, publishes a step, and calls `wake` with its bell if one of the others sleeps for it.
    #[inline]
    pub fn publish(&self, own: u32, step: u64, others: impl IntoIterator<Item = Self>, wake: impl FnOnce(&S)) {
        self.published.store(step, Release);
        // See `sleep`; and a thread that sees what is written after this publish sees the publish too
        // (`nobody_has_reached`).
        L::fence();
        if others.into_iter().any(|other| other.sleeps_for.load(Relaxed) == own + 1) {
            self.bell.fetch_add(1, Release);
            wake(self.bell);
        }
    }

    /// The owner sleeps until `other`, rank `rank`, has published a step. `wait` is called with the
    /// other's bell and what it has to show still; it returns when that changes and the bell is
    /// woken, and may return earlier.
    #[inline]
    pub fn sleep(&self, other: &Self, rank: u32, step: u64, wait: impl FnOnce(&S, u32)) {
        self.sleeps_for.store(rank + 1, Relaxed);
        // The publisher looks whether a rank sleeps after it has published: so either it sees this, or
        // the publish is seen here.
        L::fence();
        let bell = other.bell.load(Acquire);
        if other.published() < step {
            wait(other.bell, bell);
        }
        self.sleeps_for.store(0, Relaxed);
    }
}

/// Whether none of these has published `step` or a later one, in a way that bears on what was read
/// before: if this is so, nothing that was written after such a step has been read.
#[inline]
pub fn nobody_has_reached<'b, L, S>(step: u64, all: impl IntoIterator<Item = Counters<'b, L, S>>) -> bool
where
    L: Atomic<u64> + 'b,
    S: Atomic<u32> + 'b,
{
    // What was read before is not read after the counters are; the publisher has a fence between them too.
    L::fence();
    all.into_iter().all(|counters| counters.published() < step)
}
