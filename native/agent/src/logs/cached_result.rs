//! One result that several ranks of a process keep, and what it leaves behind.

use super::{Budget, BufferPool};
use bytes::Bytes;
use parking_lot::Mutex;
use rejoin_protocol::collective::CollectiveId;
use rejoin_protocol::ids::Generation;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// Under which generation it was made, and where.
pub(super) type ResultKey = (Generation, CollectiveId);

/// A result in memory, counted once, however many logs of this process hold it.
#[derive(Debug)]
pub struct CachedResult {
    pub(super) bytes: Bytes,
    pub(super) key: ResultKey,
    pub(super) state: Arc<CacheState>,
}

/// What a cache and its results share.
#[derive(Debug)]
pub(super) struct CacheState {
    pub(super) budget: Arc<Budget>,
    pub(super) pool: Arc<BufferPool>,
    pub(super) held: Mutex<HashMap<ResultKey, Weak<CachedResult>>>,
}

impl CachedResult {
    /// The whole result, as all ranks have it.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl Drop for CachedResult {
    fn drop(&mut self) {
        let CacheState { budget, pool, held } = &*self.state;
        let mut held = held.lock();
        // Another one may stand there by now.
        if held.get(&self.key).is_some_and(|there| there.strong_count() == 0) {
            held.remove(&self.key);
        }
        drop(held);
        let length = self.bytes.len() as u64;
        budget.give_memory(length);
        pool.keep(std::mem::take(&mut self.bytes));
    }
}
