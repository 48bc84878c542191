//! In which order the ranks' inputs are folded, and which part of a buffer is whose.

use core::ops::Range;

/// The order in which the inputs of the ranks are folded, for each element. It depends on ranks, count and world alone:
/// never on placement, algorithm or failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Order {
    /// Rank 0, 1, …, world-1. Chunks differ by at most one element; the longer ones come first.
    #[default]
    Rank = 0,
    /// XGBoost's: chunk k has count/world elements, the last one the rest as well; chunk k is
    /// folded from rank k on round the ring: k, k+1, …, world-1, 0, …, k-1. With fewer elements
    /// than ranks everything is folded in rank order.
    Ring = 1,
}

impl Order {
    /// The number that stands for it on the wire and in C; it never changes.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The order with this code, if there is one.
    pub const fn from_code(code: u8) -> Option<Order> {
        match code {
            0 => Some(Order::Rank),
            1 => Some(Order::Ring),
            _ => None,
        }
    }

    /// The elements of chunk `rank`, of `count` elements in a world of `world` ranks. The chunks follow each other,
    /// and together are everything; some are empty when there are fewer elements than ranks.
    pub fn chunk(self, rank: usize, count: usize, world: usize) -> Range<usize> {
        debug_assert!(rank < world, "rank {rank} in a world of {world}");
        let share = count / world;
        match self {
            Order::Rank => {
                let longer = count % world;
                let start = rank * share + rank.min(longer);
                start..start + share + usize::from(rank < longer)
            }
            Order::Ring => rank * share..if rank + 1 == world { count } else { (rank + 1) * share },
        }
    }

    /// The ranks in the order in which their inputs of chunk `chunk` are folded.
    pub fn sources(self, chunk: usize, count: usize, world: usize) -> impl Iterator<Item = usize> {
        let first = match self {
            Order::Rank => 0,
            Order::Ring if count < world => 0,
            Order::Ring => chunk,
        };
        (first..world).chain(0..first)
    }

    /// Whether all elements are folded in the same order of ranks.
    pub(crate) fn is_one(self, count: usize, world: usize) -> bool {
        self == Order::Rank || count < world || world == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn chunks_follow_each_other_and_are_everything() {
        for order in [Order::Rank, Order::Ring] {
            for world in 1..10 {
                for count in 0..50 {
                    let mut end = 0;
                    for rank in 0..world {
                        let chunk = order.chunk(rank, count, world);
                        assert_eq!(chunk.start, end, "{order:?}, {count} elements, rank {rank} of {world}");
                        end = chunk.end;
                    }
                    assert_eq!(end, count);
                }
            }
        }
    }

    #[test]
    fn rank_order_divides_evenly_and_ring_order_leaves_the_rest_to_the_last() {
        let lengths = |order: Order| -> Vec<usize> { (0..4).map(|rank| order.chunk(rank, 11, 4).len()).collect() };
        assert_eq!(lengths(Order::Rank), [3, 3, 3, 2]);
        assert_eq!(lengths(Order::Ring), [2, 2, 2, 5]);
    }

    #[test]
    fn a_ring_chunk_starts_at_its_own_rank_unless_there_are_too_few_elements() {
        assert_eq!(Order::Ring.sources(2, 4, 4).collect::<Vec<_>>(), [2, 3, 0, 1]);
        assert_eq!(Order::Ring.sources(2, 3, 4).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(Order::Rank.sources(2, 4, 4).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }
}
