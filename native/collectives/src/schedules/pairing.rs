//! Gathering all parts at all ranks: the steps that small allreduces and allgathers have in common.

use crate::schedule::{Gate, ReceiveId};
use crate::{Extent, Schedule};
use alloc::vec;
use alloc::vec::Vec;

/// Sends and receives so that every rank's part lies here: part k at `landings[k]`; this rank's own is there already.
/// Gives the receive of each part, `None` for the own one.
pub(crate) type Gather = fn(&mut Schedule, landings: &[Extent]) -> Vec<Option<ReceiveId>>;

/// Each sends its part to each.
pub(crate) fn exchange(schedule: &mut Schedule, landings: &[Extent]) -> Vec<Option<ReceiveId>> {
    let rank = schedule.me.rank;
    let peers = landings.iter().enumerate().filter(|&(peer, _)| peer != rank);
    peers.clone().for_each(|(peer, _)| schedule.send(peer, landings[rank], Gate::Open));
    let mut receives = vec![None; landings.len()];
    peers.for_each(|(peer, &landing)| receives[peer] = Some(schedule.receive(peer, landing)));
    receives
}

/// In step i each has 2^i parts (or all) and gives them to another. With a power of two of ranks
/// the partners exchange (recursive doubling), else each gives to one and gets from another (Bruck
/// et al., Efficient algorithms for all-to-all communications in multiport message-passing systems,
/// 1997; without its rotations, since parts may lie anywhere).
pub(crate) fn doubling(schedule: &mut Schedule, landings: &[Extent]) -> Vec<Option<ReceiveId>> {
    let (rank, world) = (schedule.me.rank, schedule.me.world);
    let mut receives = vec![None; world];
    let mut distance = 1;
    while distance < world {
        for part in given(rank, distance, world) {
            let gate = receives[part].map_or(Gate::Open, Gate::Received);
            schedule.send(taker(rank, distance, world), landings[part], gate);
        }
        let giver = giver(rank, distance, world);
        for part in given(giver, distance, world) {
            receives[part] = Some(schedule.receive(giver, landings[part]));
        }
        distance *= 2;
    }
    receives
}

/// The rank that `rank` gives to in the step of this distance.
fn taker(rank: usize, distance: usize, world: usize) -> usize {
    if world.is_power_of_two() {
        rank ^ distance
    } else {
        (rank + world - distance) % world
    }
}

/// The rank that `rank` gets from in the step of this distance.
fn giver(rank: usize, distance: usize, world: usize) -> usize {
    if world.is_power_of_two() {
        rank ^ distance
    } else {
        (rank + distance) % world
    }
}

/// The parts that `rank` has before the step of this distance and its taker lacks.
fn given(rank: usize, distance: usize, world: usize) -> impl Iterator<Item = usize> {
    let first = if world.is_power_of_two() { rank & !(distance - 1) } else { rank };
    (first..first + distance.min(world - distance)).map(move |part| part % world)
}
