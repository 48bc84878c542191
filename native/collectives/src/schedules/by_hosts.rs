//! Allreduce of large inputs where several ranks share a host: links between hosts are slow, links within one are not.

use super::fold_paths::{paths, FoldPath};
use super::folding::{elements, receive_to_fold};
use crate::schedule::{Gate, Source};
use crate::{Buffer, Extent, Order, Schedule, WorldRank};
use alloc::vec;
use alloc::vec::Vec;

/// The schedule of an allreduce of `count` elements of `element_bytes` bytes; rank k is on host
/// `hosts[k]`, in numbers of any kind that are the same at all ranks. Input and result have
/// `count * element_bytes` bytes at every rank.
///
/// Each chunk is folded at one rank, or its first ranks at one and the others at another one of
/// another host, which gets that partial fold; see [`super::fold_paths`] for which. The result goes
/// once to each other host and is passed on there as it comes. At most 4 messages one after the
/// other, 2 of them between hosts. Each element is folded at one rank at a time, so it does for
/// custom reducers too.
///
/// # Panics
/// When there isn't one host per rank.
pub fn allreduce_by_hosts(
    me: WorldRank,
    hosts: &[usize],
    count: usize,
    element_bytes: usize,
    order: Order,
) -> Schedule {
    let bytes = count * element_bytes;
    let mut schedule = Schedule::new(me, element_bytes, bytes, bytes);
    let fold_paths = paths(me.world, hosts, count, order);
    if me.world == 1 {
        schedule.fold(Extent::new(Buffer::Result, 0, bytes), vec![Source::Input(0)]);
        return schedule;
    }
    // First all that is folded, chunk by chunk in every stream, then all results, in the same
    // way. So the first chunk that isn't folded yet never waits behind anything, and no result
    // does when all is folded.
    let made: Vec<Option<Gate>> =
        fold_paths.iter().map(|fold_path| fold(&mut schedule, fold_path, &fold_paths)).collect();
    for (fold_path, made) in fold_paths.iter().zip(made) {
        spread(&mut schedule, fold_path, hosts, made);
    }
    schedule
}

/// This rank's part in the fold of a chunk. Gives the gate of the result at its owner.
fn fold(schedule: &mut Schedule, fold_path: &FoldPath, all: &[FoldPath]) -> Option<Gate> {
    let (rank, size) = (schedule.me.rank, schedule.element_bytes);
    let input = elements(Buffer::Input, fold_path.elements.clone(), size);
    let result = elements(Buffer::Result, fold_path.elements.clone(), size);
    let mut owned = None;
    for (place, station) in fold_path.stations.iter().enumerate() {
        let before = place.checked_sub(1).map(|place| fold_path.stations[place].folder);
        let after = fold_path.stations.get(place + 1).map(|station| station.folder);
        if station.folder != rank {
            if station.ranks.contains(&rank) {
                schedule.send(station.folder, input, Gate::Open);
            }
            continue;
        }
        let rings = rings(rank, all);
        let mut sources = Vec::with_capacity(station.ranks.len() + 1);
        for peer in before.into_iter().chain(station.ranks.iter().copied()) {
            sources.push(match peer {
                own if own == rank => Source::Input(input.start),
                peer => Source::Received(receive_to_fold(schedule, peer, result.length, rings), 0),
            });
        }
        // Alone it has nothing to fold. What it makes otherwise lies in the result's place until
        // the result comes, which can't be too early: each byte of the result was made from the
        // byte that lay there.
        let (extent, gate) = match sources.len() {
            1 => (input, Gate::Open),
            _ => (result, Gate::Made(schedule.fold(result, sources))),
        };
        match after {
            Some(next) => schedule.send(next, extent, gate),
            None => owned = Some(gate),
        }
    }
    owned
}

/// How many rings a rank has: one for each stream that it folds.
fn rings(rank: usize, fold_paths: &[FoldPath]) -> usize {
    let mut rings = 0;
    for fold_path in fold_paths {
        for (place, station) in fold_path.stations.iter().enumerate() {
            if station.folder == rank {
                rings += station.ranks.len() - 1 + usize::from(place > 0);
            }
        }
    }
    rings.max(1)
}

/// This rank's part in bringing a chunk's result to all ranks.
fn spread(schedule: &mut Schedule, fold_path: &FoldPath, hosts: &[usize], made: Option<Gate>) {
    let (WorldRank { rank, world }, owner) = (schedule.me, fold_path.owner());
    let result = elements(Buffer::Result, fold_path.elements.clone(), schedule.element_bytes);
    if let (true, Some(made)) = (owner == rank, made) {
        // What has the longer way to go sets off first.
        fold_path.passing.iter().for_each(|(first, _)| schedule.send(*first, result, made));
        let here = (0..world).filter(|&peer| peer != rank && hosts[peer] == hosts[rank]);
        here.for_each(|peer| schedule.send(peer, result, made));
        return;
    }
    if hosts[owner] == hosts[rank] {
        schedule.receive(owner, result);
        return;
    }
    for (first, rest) in &fold_path.passing {
        if *first == rank {
            let received = schedule.receive(owner, result);
            rest.iter().for_each(|&peer| schedule.send(peer, result, Gate::Received(received)));
        } else if rest.contains(&rank) {
            schedule.receive(*first, result);
        }
    }
}
