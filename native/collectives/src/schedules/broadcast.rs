//! Broadcast.

use crate::schedule::{Gate, Source};
use crate::{Buffer, Extent, Order, Schedule, WorldRank};
use alloc::vec;

/// Ways to do a broadcast of S bytes to n ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Broadcast {
    /// The root sends to each: 1 message after the other. The root sends (n-1)S.
    Star = 0,
    /// A binomial tree, passing on as bytes come: ⌈log₂ n⌉ steps. A rank sends at most S⌈log₂ n⌉.
    Tree = 1,
    /// The root gives each rank a chunk, which that rank passes on to all others as it comes. Each rank sends and
    /// receives about S: best for large S.
    Scatter = 2,
}

impl Broadcast {
    /// All of them.
    pub const ALL: &'static [Broadcast] = &[Broadcast::Star, Broadcast::Tree, Broadcast::Scatter];
}

/// The schedule of a broadcast of `bytes` bytes from rank `root`: the root's input has them, the others' inputs are
/// empty; all results have them.
///
/// # Panics
/// When the root isn't within the world.
pub fn broadcast(me: WorldRank, bytes: usize, root: usize, algorithm: Broadcast) -> Schedule {
    let WorldRank { rank, world } = me;
    assert!(root < world, "root {root} in a world of {world}");
    let is_root = rank == root;
    let mut schedule = Schedule::new(me, 1, if is_root { bytes } else { 0 }, bytes);
    let result = Extent::new(Buffer::Result, 0, bytes);
    let input = Extent::new(Buffer::Input, 0, bytes);
    match algorithm {
        Broadcast::Star if is_root => {
            (0..world).filter(|&peer| peer != root).for_each(|peer| schedule.send(peer, input, Gate::Open));
        }
        Broadcast::Star => {
            schedule.receive(root, result);
        }
        Broadcast::Tree => tree(&mut schedule, root, input, result),
        Broadcast::Scatter => scatter(&mut schedule, root, input, result),
    }
    if is_root {
        schedule.fold(result, vec![Source::Input(0)]);
    }
    schedule
}

/// Ranks are counted from the root. Rank k's parent is k without its lowest bit; its children are k
/// plus each lower bit, the one with the largest subtree first.
fn tree(schedule: &mut Schedule, root: usize, input: Extent, result: Extent) {
    let WorldRank { rank, world } = schedule.me;
    let place = (rank + world - root) % world;
    let (from, gate, bits) = if place == 0 {
        (input, Gate::Open, world.next_power_of_two().trailing_zeros())
    } else {
        let parent = place & (place - 1);
        let receive = schedule.receive((parent + root) % world, result);
        (result, Gate::Received(receive), place.trailing_zeros())
    };
    for bit in (0..bits).rev() {
        let child = place + (1 << bit);
        if child < world {
            schedule.send((child + root) % world, from, gate);
        }
    }
}

/// Chunk k goes to rank k and from there to the others; the root's own chunk goes to all at once.
fn scatter(schedule: &mut Schedule, root: usize, input: Extent, result: Extent) {
    let WorldRank { rank, world } = schedule.me;
    let part = |whole: Extent, chunk: usize| {
        let range = Order::Rank.chunk(chunk, whole.length, world);
        whole.part(range.start, range.len())
    };
    if rank == root {
        for peer in (0..world).filter(|&peer| peer != root) {
            schedule.send(peer, part(input, peer), Gate::Open);
            schedule.send(peer, part(input, root), Gate::Open);
        }
        return;
    }
    let own = schedule.receive(root, part(result, rank));
    schedule.receive(root, part(result, root));
    for peer in (0..world).filter(|&peer| peer != rank && peer != root) {
        schedule.send(peer, part(result, rank), Gate::Received(own));
        schedule.receive(peer, part(result, peer));
    }
}
