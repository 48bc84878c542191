//! The numbers on a rank's board: memory that it alone writes, and the other ranks of its host read.

use crate::Word;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// One rank's.
#[derive(Debug)]
pub struct Numbers<'b, L, S> {
    /// The last beat that it has posted; it only grows.
    posted: &'b L,
    /// For whose post it sleeps: that one's rank plus one, or 0.
    sleeps_for: &'b S,
    /// Grows with each post that somebody sleeps for; who sleeps waits at it.
    bell: &'b S,
}

impl<L, S> Clone for Numbers<'_, L, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L, S> Copy for Numbers<'_, L, S> {}

impl<'b, L: Word<u64>, S: Word<u32>> Numbers<'b, L, S> {
    /// These.
    #[inline]
    pub fn new(posted: &'b L, sleeps_for: &'b S, bell: &'b S) -> Self {
        Numbers { posted, sleeps_for, bell }
    }

    /// The last beat that was posted. Whatever was written before it can be read.
    #[inline]
    pub fn posted(&self) -> u64 {
        self.posted.load(Acquire)
    }

    /// The owner, rank `own`, posts a beat, and calls `wake` with its bell if one of the others sleeps for it.
    #[inline]
    pub fn post(&self, own: u32, beat: u64, others: impl IntoIterator<Item = Self>, wake: impl FnOnce(&S)) {
        self.posted.store(beat, Release);
        // See `sleep`; and whoever sees what is written after this post sees the post too (`nobody_has_reached`).
        L::fence();
        if others.into_iter().any(|other| other.sleeps_for.load(Relaxed) == own + 1) {
            self.bell.fetch_add(1, Release);
            wake(self.bell);
        }
    }

    /// The owner sleeps until `other`, rank `rank`, has posted a beat. `wait` is called with the other's bell and what it has to show
    /// still; it returns when that changes and the bell is woken, and may return earlier.
    #[inline]
    pub fn sleep(&self, other: &Self, rank: u32, beat: u64, wait: impl FnOnce(&S, u32)) {
        self.sleeps_for.store(rank + 1, Relaxed);
        // Who posts looks whether somebody sleeps after it has posted: so either it sees this, or the post is seen here.
        L::fence();
        let bell = other.bell.load(Acquire);
        if other.posted() < beat {
            wait(other.bell, bell);
        }
        self.sleeps_for.store(0, Relaxed);
    }
}

/// Whether none of these has posted `beat` or a later one, in a way that tells of what was read before: if this is so, nothing that was
/// written after such a post has been read.
#[inline]
pub fn nobody_has_reached<'b, L, S>(beat: u64, all: impl IntoIterator<Item = Numbers<'b, L, S>>) -> bool
where
    L: Word<u64> + 'b,
    S: Word<u32> + 'b,
{
    // What was read before is not read after the numbers are; who posts has a fence between them too.
    L::fence();
    all.into_iter().all(|numbers| numbers.posted() < beat)
}
