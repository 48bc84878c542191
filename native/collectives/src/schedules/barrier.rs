//! Barrier.

use super::pairing;
use crate::schedule::Gate;
use crate::{Buffer, Extent, Schedule, WorldRank};
use alloc::vec::Vec;

/// Ways to do a barrier among n ranks. Messages are single bytes whose value doesn't matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Barrier {
    /// All notify rank 0, and when all have, it notifies all: 2(n-1) messages, 2 one after the other.
    Star = 0,
    /// All tokens are gathered everywhere, in ⌈log₂ n⌉ steps: n⌈log₂ n⌉ messages.
    Doubling = 1,
    /// Each notifies each: n(n-1) messages, 1 after the other. Least latency where a message takes
    /// long and sending one doesn't.
    Exchange = 2,
}

impl Barrier {
    /// All of them.
    pub const ALL: &'static [Barrier] = &[Barrier::Star, Barrier::Doubling, Barrier::Exchange];
}

/// The schedule of a barrier: no rank has a result before all have begun. Input and result are empty.
pub fn barrier(me: WorldRank, algorithm: Barrier) -> Schedule {
    let WorldRank { rank, world } = me;
    let mut schedule = Schedule::new(me, 1, 0, 0);
    let tokens: Vec<Extent> = (0..world).map(|peer| Extent::new(Buffer::Scratch, peer, 1)).collect();
    schedule.scratch_bytes = world;
    match algorithm {
        _ if world == 1 => {}
        Barrier::Star if rank == 0 => {
            let receives = (1..world).map(|peer| schedule.receive(peer, tokens[peer])).collect();
            let all = schedule.join(1, receives);
            (1..world).for_each(|peer| schedule.send(peer, tokens[0], Gate::Made(all)));
        }
        Barrier::Star => {
            schedule.send(0, tokens[rank], Gate::Open);
            schedule.receive(0, tokens[0]);
        }
        Barrier::Doubling => {
            pairing::doubling(&mut schedule, &tokens);
        }
        Barrier::Exchange => {
            pairing::exchange(&mut schedule, &tokens);
        }
    }
    schedule
}
