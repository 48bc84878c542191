//! Allgather, of equal and of unequal parts.

use super::pairing;
use crate::schedule::Source;
use crate::{Buffer, Extent, Schedule, WorldRank};
use alloc::vec;
use alloc::vec::Vec;

/// Ways to do an allgather among n ranks, of S bytes in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Allgather {
    /// Each sends its part to each: n(n-1) messages, 1 after the other; each rank receives what it lacks, and sends its
    /// part n-1 times.
    Exchange = 0,
    /// ⌈log₂ n⌉ steps (recursive doubling, or Bruck's algorithm): n⌈log₂ n⌉ messages. Each rank receives what it lacks,
    /// and sends about as much.
    Doubling = 1,
}

impl Allgather {
    /// All of them.
    pub const ALL: &'static [Allgather] = &[Allgather::Exchange, Allgather::Doubling];
}

/// The schedule of an allgather of `part_bytes` bytes from each rank. The result has them in the order of the ranks.
pub fn allgather(me: WorldRank, part_bytes: usize, algorithm: Allgather) -> Schedule {
    allgather_parts(me, &vec![part_bytes; me.world], algorithm)
}

/// The schedule of an allgather of unequal parts: rank k gives `part_bytes[k]` bytes, and all ranks know how many that
/// are (from an [`allgather`] of the lengths, 8 bytes each, before it). The result has them in the order of the ranks.
///
/// # Panics
/// When there isn't one length per rank.
pub fn allgather_parts(me: WorldRank, part_bytes: &[usize], algorithm: Allgather) -> Schedule {
    assert_eq!(part_bytes.len(), me.world, "one length per rank");
    let mut end = 0;
    let mut landings: Vec<Extent> = Vec::with_capacity(me.world);
    for &bytes in part_bytes {
        landings.push(Extent::new(Buffer::Result, end, bytes));
        end += bytes;
    }
    let own = core::mem::replace(&mut landings[me.rank], Extent::new(Buffer::Input, 0, part_bytes[me.rank]));
    let mut schedule = Schedule::new(me, 1, own.length, end);
    match algorithm {
        Allgather::Exchange => pairing::exchange(&mut schedule, &landings),
        Allgather::Doubling => pairing::doubling(&mut schedule, &landings),
    };
    schedule.fold(own, vec![Source::Input(0)]);
    schedule
}
