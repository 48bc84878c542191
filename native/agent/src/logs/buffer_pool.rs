//! Memory of dropped results that waits to be used again. Memory that was touched before costs no
//! page faults; when a version ends, all results of the one before the last are dropped at once,
//! and the next version needs as many.

use super::memory::zeroed;
use super::Budget;
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use std::sync::Arc;

/// Most buffers that wait.
const MOST: usize = 1024;
/// Shorter ones aren't kept: the allocator hands their memory out again as quickly.
const WORTH_KEEPING: usize = 4 << 10;

/// The buffers of one process, for any of its ranks.
#[derive(Debug)]
pub struct BufferPool {
    budget: Arc<Budget>,
    buffers: Mutex<Vec<BytesMut>>,
}

impl BufferPool {
    /// An empty one. What waits counts in this budget.
    pub fn new(budget: Arc<Budget>) -> Self {
        BufferPool { budget, buffers: Mutex::default() }
    }

    /// A buffer of this length; what is in it doesn't matter.
    pub fn take(&self, length: usize) -> BytesMut {
        let fits = |buffer: &BytesMut| buffer.capacity() >= length && buffer.capacity() / 2 <= length;
        let found = if length < WORTH_KEEPING {
            None
        } else {
            let mut buffers = self.buffers.lock();
            buffers.iter().rposition(fits).map(|index| buffers.swap_remove(index))
        };
        let Some(mut buffer) = found else { return zeroed(length) };
        self.budget.give_idle(buffer.capacity() as u64);
        buffer.resize(length, 0);
        buffer
    }

    /// Keeps the memory of a result, unless it is still read: then its last owner frees it.
    pub fn keep(&self, result: Bytes) {
        if let Ok(buffer) = result.try_into_mut() {
            self.give_back(buffer);
        }
    }

    /// A buffer that isn't needed any more: kept to be used again, if there is room for all that it can hold.
    pub fn give_back(&self, buffer: BytesMut) {
        let capacity = buffer.capacity();
        if capacity < WORTH_KEEPING {
            return;
        }
        let mut buffers = self.buffers.lock();
        if buffers.len() < MOST && self.budget.may_wait(capacity as u64) {
            self.budget.take_idle(capacity as u64);
            buffers.push(buffer);
        }
    }

    /// Frees what is too much since logs have grown: they come first.
    pub fn make_room(&self) {
        while self.budget.is_crowded() {
            let Some(buffer) = self.buffers.lock().pop() else { return };
            self.budget.give_idle(buffer.capacity() as u64);
        }
    }
}

impl Drop for BufferPool {
    fn drop(&mut self) {
        let idle = self.buffers.get_mut().iter().map(|buffer| buffer.capacity() as u64).sum();
        self.budget.give_idle(idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::LogLimits;

    const QUARTER: usize = 1 << 20;

    fn pool() -> (Arc<Budget>, BufferPool) {
        let limits = LogLimits { memory_bytes: 4 * QUARTER as u64, ..LogLimits::default() };
        let budget = Arc::new(Budget::new(limits, "settings"));
        (budget.clone(), BufferPool::new(budget))
    }

    #[test]
    fn a_buffer_that_was_given_back_is_used_again_for_a_similar_length() {
        let (budget, pool) = pool();
        let buffer = pool.take(100_000);
        let start = buffer.as_ptr();
        pool.keep(buffer.freeze());
        assert_eq!(budget.idle(), 100_000);
        assert_ne!(pool.take(10_000).as_ptr(), start, "a tenth of it would leave most of it unused");
        let again = pool.take(90_000);
        assert_eq!((again.as_ptr(), again.len(), budget.idle()), (start, 90_000, 0));
    }

    #[test]
    fn what_somebody_still_reads_is_not_kept() {
        let (budget, pool) = pool();
        let result = pool.take(100_000).freeze();
        let read = result.clone();
        pool.keep(result);
        assert_eq!((budget.idle(), read.len()), (0, 100_000));
    }

    #[test]
    fn buffers_that_wait_keep_to_half_of_the_limit() {
        let (budget, pool) = pool();
        for _ in 0..5 {
            pool.give_back(BytesMut::zeroed(QUARTER / 2));
        }
        assert_eq!(budget.idle(), 2 * QUARTER as u64);
        budget.take_memory(100);
        assert_eq!(budget.used(), (100, 100 + 2 * QUARTER as u64, 0), "the most was when both had some");
        drop(pool);
        assert_eq!(budget.idle(), 0);
    }

    #[test]
    fn logs_come_before_buffers_that_wait() {
        let (budget, pool) = pool();
        pool.give_back(BytesMut::zeroed(QUARTER / 2));
        pool.give_back(BytesMut::zeroed(QUARTER / 2));
        budget.take_memory(4 * QUARTER as u64);
        pool.make_room();
        assert_eq!(budget.idle(), QUARTER as u64, "a quarter more than the limit is allowed");
        budget.take_memory(QUARTER as u64 / 4);
        pool.make_room();
        assert_eq!(budget.idle(), QUARTER as u64 / 2, "no more goes than has to");
        pool.give_back(BytesMut::zeroed(QUARTER / 2));
        assert_eq!(budget.idle(), QUARTER as u64 / 2);
    }
}
