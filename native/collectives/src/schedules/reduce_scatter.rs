//! Reduce-scatter.

use super::folding::{elements, receive_to_fold};
use crate::schedule::{Gate, Source};
use crate::{Buffer, Extent, Order, Schedule, WorldRank};

/// The schedule of a reduce-scatter of `count` elements of `element_bytes` bytes. The input has `count * element_bytes`
/// bytes at every rank; the result of rank k is chunk k of the order ([`Order::chunk`]).
///
/// Each rank gets its chunk from all and folds it as it comes: n(n-1) messages, 1 after the
/// other; each rank sends and receives S(n-1)/n, the least possible.
pub fn reduce_scatter(me: WorldRank, count: usize, element_bytes: usize, order: Order) -> Schedule {
    let WorldRank { rank, world } = me;
    let chunk = |rank| order.chunk(rank, count, world);
    let own = chunk(rank);
    let result = Extent::new(Buffer::Result, 0, own.len() * element_bytes);
    let mut schedule = Schedule::new(me, element_bytes, count * element_bytes, result.length);
    for peer in (0..world).filter(|&peer| peer != rank) {
        schedule.send(peer, elements(Buffer::Input, chunk(peer), element_bytes), Gate::Open);
    }
    let sources = order.sources(rank, count, world);
    let sources = sources.map(|source| match source {
        source if source == rank => Source::Input(own.start * element_bytes),
        peer => Source::Received(receive_to_fold(&mut schedule, peer, result.length, world - 1), 0),
    });
    let sources = sources.collect();
    schedule.fold(result, sources);
    schedule
}
