//! Results that the ranks of one process keep together: all ranks get the same one, so one copy of it is enough.

use super::{Budget, Logged, Shelf};
use bytes::Bytes;
use parking_lot::Mutex;
use rejoin_protocol::collective::Place;
use rejoin_protocol::ids::Generation;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// Shorter results are kept by each rank for itself: looking for the others' costs more than the bytes do.
const WORTH_SHARING: usize = 4 << 10;

/// Under which attempt it was made, and where.
type Key = (Generation, Place);

/// A result in memory, counted once, however many logs of this process hold it.
#[derive(Debug)]
pub struct Common {
    bytes: Bytes,
    key: Key,
    among: Arc<Among>,
}

/// The results in memory that the logs of one process's ranks hold.
#[derive(Debug)]
pub(crate) struct Commons {
    among: Arc<Among>,
}

#[derive(Debug)]
struct Among {
    budget: Arc<Budget>,
    shelf: Arc<Shelf>,
    held: Mutex<HashMap<Key, Weak<Common>>>,
}

impl Commons {
    /// None yet. They count in this budget, and their memory goes to this shelf when no log holds them any more.
    pub(crate) fn new(budget: Arc<Budget>, shelf: Arc<Shelf>) -> Self {
        Commons { among: Arc::new(Among { budget, shelf, held: Mutex::default() }) }
    }

    /// Whether one copy of this result is kept for all ranks.
    pub(crate) fn takes(result: &Bytes) -> bool {
        result.len() >= WORTH_SHARING
    }

    /// A result as a log keeps it, and its bytes there: the copy that another rank of the process has already, if one has. Then the memory
    /// of this one is free to be used again.
    ///
    /// All ranks get the same result at a place, under one attempt or as it is fetched under one. What a former attempt has left in the
    /// log of an incarnation that is over may be another one, where a restarted rank doesn't repeat itself. What has another length has
    /// been computed from something else, and is left alone for whoever compares it.
    pub(crate) fn keep(&self, attempt: Generation, place: Place, result: Bytes) -> (Logged, Bytes) {
        let key = (attempt, place);
        if !Self::takes(&result) {
            return (Logged::Memory(result.clone()), result);
        }
        let Among { budget, shelf, held } = &*self.among;
        let mut held = held.lock();
        // No result may be dropped under this lock: its end takes it, too.
        match held.get(&key).and_then(Weak::upgrade) {
            Some(there) if there.bytes.len() == result.len() => {
                drop(held);
                shelf.keep(result);
                let bytes = there.bytes.clone();
                (Logged::Common(there), bytes)
            }
            other => {
                let length = result.len() as u64;
                budget.take_memory(length);
                let common = Arc::new(Common { bytes: result.clone(), key, among: self.among.clone() });
                if other.is_none() {
                    held.insert(key, Arc::downgrade(&common));
                }
                drop(held);
                drop(other);
                (Logged::Common(common), result)
            }
        }
    }
}

impl Common {
    /// Its bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl Drop for Common {
    fn drop(&mut self) {
        let Among { budget, shelf, held } = &*self.among;
        let mut held = held.lock();
        // Another one may stand there by now.
        if held.get(&self.key).is_some_and(|there| there.strong_count() == 0) {
            held.remove(&self.key);
        }
        drop(held);
        let length = self.bytes.len() as u64;
        budget.give_memory(length);
        shelf.keep(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::LogLimits;
    use rejoin_protocol::ids::{Lineage, Phase, Version};

    fn place(seqno: u32) -> Place {
        Place { lineage: Lineage(1), phase: Phase::Version(Version(3)), seqno }
    }

    fn attempt(number: u32) -> Generation {
        Generation { epoch: 1, number }
    }

    fn commons() -> (Arc<Budget>, Commons) {
        let budget = Arc::new(Budget::new(LogLimits { memory_bytes: 1 << 20, ..LogLimits::default() }, "the test's"));
        let shelf = Arc::new(Shelf::new(budget.clone()));
        (budget.clone(), Commons::new(budget, shelf))
    }

    fn result() -> Bytes {
        Bytes::from(vec![7; 10_000])
    }

    #[test]
    fn a_result_of_several_ranks_is_kept_and_counted_once_until_the_last_of_them_drops_it() {
        let (budget, commons) = commons();
        let mut logs: Vec<Logged> = (0..4).map(|_| commons.keep(attempt(1), place(0), result()).0).collect();
        let starts: Vec<*const u8> = logs.iter().map(|log| log.part(0, 1).unwrap().as_ptr()).collect();
        assert!(starts.iter().all(|start| *start == starts[0]), "one copy");
        assert_eq!(budget.used().0, 10_000);
        logs.truncate(1);
        assert_eq!(budget.used().0, 10_000);
        logs.clear();
        assert_eq!(budget.used().0, 0);
        assert!(commons.among.held.lock().is_empty(), "nothing is left of it");
    }

    #[test]
    fn what_stands_at_another_place_or_is_of_another_length_is_kept_for_itself() {
        let (budget, commons) = commons();
        let (one, _) = commons.keep(attempt(1), place(0), result());
        let (next, _) = commons.keep(attempt(1), place(1), result());
        let (other, _) = commons.keep(attempt(1), place(0), Bytes::from(vec![1; 9_000]));
        assert_eq!(budget.used().0, 29_000);
        assert_eq!((one.len(), next.len(), other.len()), (10_000, 10_000, 9_000));
        drop(other);
        let (again, _) = commons.keep(attempt(1), place(0), result());
        assert_eq!(budget.used().0, 20_000, "the first one is still found");
        drop((one, next, again));
        assert_eq!((budget.used().0, commons.among.held.lock().len()), (0, 0));
    }

    #[test]
    fn what_a_former_attempt_has_left_is_never_given_to_a_later_one() {
        let (_, commons) = commons();
        let (left, _) = commons.keep(attempt(1), place(0), result());
        let (_, given) = commons.keep(attempt(2), place(0), Bytes::from(vec![8; 10_000]));
        assert_eq!((left.whole().unwrap()[0], given[0]), (7, 8));
    }

    #[test]
    fn short_results_are_each_ranks_own() {
        let (budget, commons) = commons();
        assert!(matches!(commons.keep(attempt(1), place(0), Bytes::from(vec![7; 100])).0, Logged::Memory(_)));
        assert_eq!(budget.used().0, 0, "its rank counts it");
    }

    #[test]
    fn memory_that_a_caller_still_reads_is_not_used_again() {
        let (budget, commons) = commons();
        let (logged, read) = commons.keep(attempt(1), place(0), result());
        drop(logged);
        assert_eq!((budget.used().0, budget.idle()), (0, 0));
        assert_eq!(read, result());
    }
}
