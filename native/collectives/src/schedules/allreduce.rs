//! Allreduce.

use super::folding::{elements, receive_to_fold};
use super::pairing;
use crate::schedule::{Gate, Source};
use crate::{Buffer, Extent, Order, Schedule, WorldRank};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// Ways to do an allreduce of S bytes among n ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Allreduce {
    /// All send their inputs to rank 0, which folds and sends the result to all. 2(n-1) messages in
    /// all, 2 one after the other; rank 0 moves 2(n-1)S bytes. The fewest messages: best when ranks
    /// share cores and S is small.
    Star = 0,
    /// Each sends its input to each, and folds them all. n(n-1) messages, 1 after the other; each
    /// rank sends and receives (n-1)S. Least latency for few ranks.
    Exchange = 1,
    /// Inputs are gathered everywhere in ⌈log₂ n⌉ steps (recursive doubling; Bruck's algorithm when n is no power of
    /// two), then each folds them all. Each rank sends and receives (n-1)S. Least latency for many ranks.
    Doubling = 2,
    /// Rank k gets chunk k from all, folds it as it comes, and sends the result to all. Each rank sends and receives
    /// 2S(n-1)/n: the least possible. Best for large S.
    Direct = 3,
    /// The partial fold goes from rank to rank and the result comes back the same way, both in a
    /// stream. Each rank sends and receives at most 2S, to two neighbours only; 2(n-1) steps. In
    /// [`Order::Ring`], n such chains, one per chunk.
    Chain = 4,
}

impl Allreduce {
    /// All of them.
    pub const ALL: &'static [Allreduce] =
        &[Allreduce::Star, Allreduce::Exchange, Allreduce::Doubling, Allreduce::Direct, Allreduce::Chain];

    /// Whether each element is folded at one rank at a time, and never twice: what custom reducers need.
    pub const fn folds_once(self) -> bool {
        matches!(self, Allreduce::Star | Allreduce::Direct | Allreduce::Chain)
    }
}

/// The schedule of an allreduce of `count` elements of `element_bytes` bytes. Input and result have
/// `count * element_bytes` bytes at every rank.
pub fn allreduce(me: WorldRank, count: usize, element_bytes: usize, order: Order, algorithm: Allreduce) -> Schedule {
    let bytes = count * element_bytes;
    let mut schedule = Schedule::new(me, element_bytes, bytes, bytes);
    if me.world == 1 {
        schedule.fold(Extent::new(Buffer::Result, 0, bytes), vec![Source::Input(0)]);
        return schedule;
    }
    let chunks: Vec<Chunk> = (0..me.world).map(|chunk| (chunk, order.chunk(chunk, count, me.world))).collect();
    // Where all is folded in one order, only the algorithm that shares the work out needs it in chunks.
    let whole = vec![(0, 0..count)];
    let runs = if order.is_one(count, me.world) { &whole } else { &chunks };
    match algorithm {
        Allreduce::Star => at_owners(&mut schedule, runs, |_| 0, order),
        Allreduce::Direct => at_owners(&mut schedule, &chunks, |chunk| chunk, order),
        Allreduce::Exchange => gathered(&mut schedule, runs, pairing::exchange, order),
        Allreduce::Doubling => gathered(&mut schedule, runs, pairing::doubling, order),
        Allreduce::Chain => chains(&mut schedule, runs, order),
    }
    schedule
}

/// A chunk's number and its elements.
type Chunk = (usize, Range<usize>);

/// Each chunk's inputs go to its owner, which folds them and sends the result to all.
fn at_owners(schedule: &mut Schedule, chunks: &[Chunk], owner: fn(usize) -> usize, order: Order) {
    let (WorldRank { rank, world }, size) = (schedule.me, schedule.element_bytes);
    let count = schedule.input_bytes / size;
    let others = |(chunk, _): &&Chunk| owner(*chunk) != rank;
    for (chunk, range) in chunks.iter().filter(others) {
        schedule.send(owner(*chunk), elements(Buffer::Input, range.clone(), size), Gate::Open);
    }
    let own = chunks.iter().filter(|(chunk, _)| owner(*chunk) == rank);
    let rings = own.clone().count() * (world - 1);
    for (chunk, range) in own {
        let result = elements(Buffer::Result, range.clone(), size);
        let sources = order.sources(*chunk, count, world);
        let sources = sources.map(|source| match source {
            own if own == rank => Source::Input(result.start),
            peer => Source::Received(receive_to_fold(schedule, peer, result.length, rings), 0),
        });
        let sources = sources.collect();
        let made = schedule.fold(result, sources);
        for peer in (0..world).filter(|&peer| peer != rank) {
            schedule.send(peer, result, Gate::Made(made));
        }
    }
    for (chunk, range) in chunks.iter().filter(others) {
        schedule.receive(owner(*chunk), elements(Buffer::Result, range.clone(), size));
    }
}

/// All inputs are gathered here, and folded.
fn gathered(schedule: &mut Schedule, chunks: &[Chunk], gather: pairing::Gather, order: Order) {
    let (WorldRank { rank, world }, size) = (schedule.me, schedule.element_bytes);
    let bytes = schedule.input_bytes;
    let own = Extent::new(Buffer::Input, 0, bytes);
    let landings: Vec<Extent> =
        (0..world).map(|source| if source == rank { own } else { schedule.room(bytes) }).collect();
    let receives = gather(schedule, &landings);
    for (chunk, range) in chunks {
        let result = elements(Buffer::Result, range.clone(), size);
        let sources = order.sources(*chunk, bytes / size, world);
        let sources = sources.map(|source| match receives[source] {
            None => Source::Input(result.start),
            Some(receive) => Source::Received(receive, result.start),
        });
        schedule.fold(result, sources.collect());
    }
}

/// For each chunk: the fold so far goes along the ranks in its order, and the result comes back.
///
/// What was folded so far lies in the result's place until the result comes. It can't come too early: each of its bytes
/// was made from the byte that lay there.
fn chains(schedule: &mut Schedule, chunks: &[Chunk], order: Order) {
    let (WorldRank { rank, world }, size) = (schedule.me, schedule.element_bytes);
    let count = schedule.input_bytes / size;
    // A rank's own chunk sets off first, then the one that comes to it first, and so on.
    let first = if chunks.len() == world { rank } else { 0 };
    let mut results = Vec::with_capacity(chunks.len());
    for step in 0..chunks.len() {
        let (chunk, range) = &chunks[(first + chunks.len() - step) % chunks.len()];
        let ranks: Vec<usize> = order.sources(*chunk, count, world).collect();
        // Every rank is among the sources of every chunk.
        let place = ranks.iter().position(|&other| other == rank).unwrap_or_default();
        let before = place.checked_sub(1).map(|place| ranks[place]);
        let after = ranks.get(place + 1).copied();
        let result = elements(Buffer::Result, range.clone(), size);
        let made = before.map(|peer| {
            let so_far = receive_to_fold(schedule, peer, result.length, chunks.len());
            schedule.fold(result, vec![Source::Received(so_far, 0), Source::Input(result.start)])
        });
        if let Some(peer) = after {
            match made {
                None => schedule.send(peer, elements(Buffer::Input, range.clone(), size), Gate::Open),
                Some(made) => schedule.send(peer, result, Gate::Made(made)),
            }
        }
        results.push((place, before, after, result, made));
    }
    // The last one's result comes first.
    results.sort_by_key(|&(place, ..)| core::cmp::Reverse(place));
    for (_, before, after, result, made) in results {
        let gate = match (after, made) {
            (Some(peer), _) => Gate::Received(schedule.receive(peer, result)),
            (None, Some(made)) => Gate::Made(made),
            (None, None) => Gate::Open,
        };
        if let Some(peer) = before {
            schedule.send(peer, result, gate);
        }
    }
}
