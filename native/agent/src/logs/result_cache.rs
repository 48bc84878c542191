//! Results that the ranks of one process keep together: all ranks get the same one, so one copy of it is enough.

use super::cached_result::{CacheState, CachedResult};
use super::{Budget, BufferPool, Logged};
use bytes::Bytes;
use parking_lot::Mutex;
use rejoin_protocol::collective::CollectiveId;
use rejoin_protocol::ids::Generation;
use std::sync::{Arc, Weak};

/// Shorter results are kept by each rank for itself: looking for the others' costs more than the bytes do.
const WORTH_SHARING: usize = 4 << 10;

/// The results in memory that the logs of one process's ranks hold.
#[derive(Debug)]
pub struct ResultCache {
    state: Arc<CacheState>,
}

impl ResultCache {
    /// None yet. They count in this budget, and their memory goes to this pool when no log holds them any more.
    pub fn new(budget: Arc<Budget>, pool: Arc<BufferPool>) -> Self {
        ResultCache { state: Arc::new(CacheState { budget, pool, held: Mutex::default() }) }
    }

    /// Whether one copy of this result is kept for all ranks.
    pub fn takes(result: &Bytes) -> bool {
        result.len() >= WORTH_SHARING
    }

    /// A result as a log keeps it, and its bytes there: the copy that another rank of the process
    /// has already, if one has. Then the memory of this one is free to be used again.
    ///
    /// All ranks get the same result of an id, under one generation or as it is fetched under one.
    /// What a former generation has left in the log of an incarnation that is over may be another one,
    /// where a restarted rank doesn't repeat itself. What has another length has been computed from
    /// something else, and is left alone for a later comparison.
    pub fn keep(&self, generation: Generation, place: CollectiveId, result: Bytes) -> (Logged, Bytes) {
        let key = (generation, place);
        if !Self::takes(&result) {
            return (Logged::Memory(result.clone()), result);
        }
        let CacheState { budget, pool, held } = &*self.state;
        let mut held = held.lock();
        // No result may be dropped under this lock: its end takes it, too.
        match held.get(&key).and_then(Weak::upgrade) {
            Some(there) if there.bytes.len() == result.len() => {
                drop(held);
                pool.keep(result);
                let bytes = there.bytes.clone();
                (Logged::Cached(there), bytes)
            }
            other => {
                let length = result.len() as u64;
                budget.take_memory(length);
                let common = Arc::new(CachedResult { bytes: result.clone(), key, state: self.state.clone() });
                if other.is_none() {
                    held.insert(key, Arc::downgrade(&common));
                }
                drop(held);
                drop(other);
                (Logged::Cached(common), result)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::LogLimits;
    use rejoin_protocol::ids::{Lineage, Phase, Version};

    fn place(seqno: u32) -> CollectiveId {
        CollectiveId { lineage: Lineage(1), phase: Phase::Version(Version(3)), seqno }
    }

    fn generation(number: u32) -> Generation {
        Generation { epoch: 1, number }
    }

    fn result_cache() -> (Arc<Budget>, ResultCache) {
        let budget = Arc::new(Budget::new(LogLimits { memory_bytes: 1 << 20, ..LogLimits::default() }, "the test's"));
        let pool = Arc::new(BufferPool::new(budget.clone()));
        (budget.clone(), ResultCache::new(budget, pool))
    }

    fn result() -> Bytes {
        Bytes::from(vec![7; 10_000])
    }

    #[test]
    fn a_result_of_several_ranks_is_kept_and_counted_once_until_the_last_of_them_drops_it() {
        let (budget, result_cache) = result_cache();
        let mut logs: Vec<Logged> = (0..4).map(|_| result_cache.keep(generation(1), place(0), result()).0).collect();
        let starts: Vec<*const u8> = logs.iter().map(|log| log.part(0, 1).unwrap().as_ptr()).collect();
        assert!(starts.iter().all(|start| *start == starts[0]), "one copy");
        assert_eq!(budget.used().0, 10_000);
        logs.truncate(1);
        assert_eq!(budget.used().0, 10_000);
        logs.clear();
        assert_eq!(budget.used().0, 0);
        assert!(result_cache.state.held.lock().is_empty(), "nothing is left of it");
    }

    #[test]
    fn what_stands_at_another_place_or_is_of_another_length_is_kept_for_itself() {
        let (budget, result_cache) = result_cache();
        let (one, _) = result_cache.keep(generation(1), place(0), result());
        let (next, _) = result_cache.keep(generation(1), place(1), result());
        let (other, _) = result_cache.keep(generation(1), place(0), Bytes::from(vec![1; 9_000]));
        assert_eq!(budget.used().0, 29_000);
        assert_eq!((one.len(), next.len(), other.len()), (10_000, 10_000, 9_000));
        drop(other);
        let (again, _) = result_cache.keep(generation(1), place(0), result());
        assert_eq!(budget.used().0, 20_000, "the first one is still found");
        drop((one, next, again));
        assert_eq!((budget.used().0, result_cache.state.held.lock().len()), (0, 0));
    }

    #[test]
    fn what_a_former_attempt_has_left_is_never_given_to_a_later_one() {
        let (_, result_cache) = result_cache();
        let (left, _) = result_cache.keep(generation(1), place(0), result());
        let (_, given) = result_cache.keep(generation(2), place(0), Bytes::from(vec![8; 10_000]));
        assert_eq!((left.whole().unwrap()[0], given[0]), (7, 8));
    }

    #[test]
    fn short_results_are_each_ranks_own() {
        let (budget, result_cache) = result_cache();
        assert!(matches!(result_cache.keep(generation(1), place(0), Bytes::from(vec![7; 100])).0, Logged::Memory(_)));
        assert_eq!(budget.used().0, 0, "its rank counts it");
    }

    #[test]
    fn memory_that_a_caller_still_reads_is_not_used_again() {
        let (budget, result_cache) = result_cache();
        let (logged, read) = result_cache.keep(generation(1), place(0), result());
        drop(logged);
        assert_eq!((budget.used().0, budget.idle()), (0, 0));
        assert_eq!(read, result());
    }
}
