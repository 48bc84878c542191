//! Where the chunks of an allreduce are folded when some ranks share a host, so that few bytes go between hosts.
//!
//! A left fold can't be regrouped: only the ranks that come first in a chunk's order can be
//! folded by themselves. So a path folds the first ones at their host, sends that one partial fold
//! to another host, and folds the rest there, where ranks that are elsewhere send their inputs as
//! they are. Or everything is folded at one host. From there the result goes once to each other
//! host. Between hosts that makes two steps, one after the other, as without such paths.

use crate::Order;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// A part of a chunk's fold that is done at one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Station {
    /// The rank that folds: one of `ranks`.
    pub(super) folder: usize,
    /// Whose inputs, in the order in which they are folded; after what the station before has made.
    pub(super) ranks: Vec<usize>,
}

/// How one chunk is folded, and how its result comes to all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoldPath {
    /// Where in the vector the chunk is.
    pub(super) elements: Range<usize>,
    /// One or two. The last one has the result.
    pub(super) stations: Vec<Station>,
    /// The ranks of other hosts than the last station's that get the result from it, and those of
    /// their hosts that they pass it on to.
    pub(super) passing: Vec<(usize, Vec<usize>)>,
}

impl FoldPath {
    /// The rank that has the result first.
    pub(super) fn owner(&self) -> usize {
        // There is always a last station.
        self.stations.last().map_or(0, |station| station.folder)
    }
}

/// The paths of all chunks of `count` elements; rank k is on host `hosts[k]`. The same at all
/// ranks, since it depends on nothing else.
///
/// Each chunk's path is one of those with the fewest copies between hosts, and among them the
/// one that leaves the busiest line the least busy: a host can send and receive at the same time,
/// so a line is a host and a direction.
pub(super) fn paths(world: usize, hosts: &[usize], count: usize, order: Order) -> Vec<FoldPath> {
    assert_eq!(hosts.len(), world, "a host for each rank");
    let mut names = hosts.to_vec();
    names.sort_unstable();
    names.dedup();
    let hosts: Vec<usize> = hosts.iter().map(|host| names.binary_search(host).unwrap_or_default()).collect();
    let mut busy = HostLoad { lines: vec![[0; 2]; names.len()], folded: vec![0; world], passed: vec![0; world] };
    (0..world)
        .map(|chunk| {
            let ranks: Vec<usize> = order.sources(chunk, count, world).collect();
            busy.path(order.chunk(chunk, count, world), &ranks, &hosts)
        })
        .collect()
}

/// What the paths that are chosen already make busy, in elements.
struct HostLoad {
    /// By host: what it sends to others, and what it receives from them.
    lines: Vec<[usize; 2]>,
    /// By rank: what it folds, and what it passes on.
    folded: Vec<usize>,
    passed: Vec<usize>,
}

/// Of a chunk's ranks in its order, the first `split` are folded at their host `first`, the
/// others at host `last`; if `split` is 0, all at the last.
#[derive(Clone, Copy, PartialEq, Eq)]
struct HostSplit {
    first: usize,
    split: usize,
    last: usize,
}

impl HostLoad {
    fn path(&mut self, elements: Range<usize>, ranks: &[usize], hosts: &[usize]) -> FoldPath {
        let count = elements.len();
        let cuts = self.cheapest(ranks, hosts);
        let busiest = |cut: &HostSplit| {
            let lines = self.with(*cut, ranks, hosts, count);
            let squares: usize =
                lines.iter().flatten().map(|line| line.saturating_mul(*line)).fold(0, usize::saturating_add);
            (lines.iter().flatten().copied().max(), squares)
        };
        // There is always one: everything at one host.
        let chosen = cuts.iter().min_by_key(|cut| busiest(cut)).copied();
        let chosen = chosen.unwrap_or(HostSplit { first: 0, split: 0, last: 0 });
        self.lines = self.with(chosen, ranks, hosts, count);
        let (before, after) = ranks.split_at(chosen.split);
        let mut stations = Vec::with_capacity(2);
        for (ranks, host) in [(before, chosen.first), (after, chosen.last)] {
            let there = ranks.iter().copied().filter(|&rank| hosts[rank] == host);
            if let Some(folder) = there.min_by_key(|&rank| (self.folded[rank], rank)) {
                self.folded[folder] += count * ranks.len();
                stations.push(Station { folder, ranks: ranks.to_vec() });
            }
        }
        let mut passing = Vec::new();
        for host in (0..self.lines.len()).filter(|&host| host != chosen.last) {
            let there = |rank: &usize| hosts[*rank] == host;
            let all = 0..hosts.len();
            if let Some(first) = all.clone().filter(there).min_by_key(|&rank| (self.passed[rank], rank)) {
                self.passed[first] += count;
                passing.push((first, all.filter(|rank| there(rank) && *rank != first).collect()));
            }
        }
        FoldPath { elements, stations, passing }
    }

    /// All cuts with the fewest copies between hosts, one for each last host at most.
    fn cheapest(&self, ranks: &[usize], hosts: &[usize]) -> Vec<HostSplit> {
        let first = hosts[ranks[0]];
        // The ranks that come before one of another host. Were one of those folded there too, a step
        // more would be waited for.
        let split = ranks.iter().take_while(|&&rank| hosts[rank] == first).count();
        let cut = |last: usize| {
            let copies = |ranks: &[usize]| ranks.iter().filter(|&&rank| hosts[rank] != last).count();
            let (whole, parted) = (copies(ranks), 1 + copies(&ranks[split..]));
            // Among equals the fewest steps.
            match last != first && parted < whole {
                true => (parted, HostSplit { first, split, last }),
                false => (whole, HostSplit { first: last, split: 0, last }),
            }
        };
        let cuts: Vec<(usize, HostSplit)> = (0..self.lines.len()).map(cut).collect();
        let fewest = cuts.iter().map(|(copies, _)| *copies).min();
        cuts.into_iter().filter(|(copies, _)| Some(*copies) == fewest).map(|(_, cut)| cut).collect()
    }

    /// The lines as this cut of a chunk of so many elements would leave them.
    fn with(&self, cut: HostSplit, ranks: &[usize], hosts: &[usize], count: usize) -> Vec<[usize; 2]> {
        let mut lines = self.lines.clone();
        let mut goes = |from: usize, to: usize| {
            if from != to {
                lines[from][0] += count;
                lines[to][1] += count;
            }
        };
        for (place, &rank) in ranks.iter().enumerate() {
            goes(hosts[rank], if place < cut.split { cut.first } else { cut.last });
        }
        if cut.split > 0 {
            goes(cut.first, cut.last);
        }
        (0..self.lines.len()).for_each(|host| goes(cut.last, host));
        lines
    }
}

/// How many elements go from each host and come to it, by host name as given.
#[cfg(test)]
fn between(paths: &[FoldPath], hosts: &[usize]) -> Vec<[usize; 2]> {
    let mut lines = vec![[0; 2]; hosts.iter().max().map_or(0, |host| host + 1)];
    for path in paths {
        let mut goes = |from: usize, to: usize| {
            if hosts[from] != hosts[to] {
                lines[hosts[from]][0] += path.elements.len();
                lines[hosts[to]][1] += path.elements.len();
            }
        };
        for (index, station) in path.stations.iter().enumerate() {
            station.ranks.iter().for_each(|&rank| goes(rank, station.folder));
            path.stations[..index].last().into_iter().for_each(|before| goes(before.folder, station.folder));
        }
        path.passing.iter().for_each(|(first, _)| goes(path.owner(), *first));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_ranks_on_two_hosts_send_five_quarters_of_their_input_in_ring_order_and_once_in_rank_order() {
        let hosts = [0, 0, 1, 1];
        let count = 4000;
        assert_eq!(between(&paths(4, &hosts, count, Order::Ring), &hosts), [[5000; 2]; 2]);
        assert_eq!(between(&paths(4, &hosts, count, Order::Rank), &hosts), [[4000; 2]; 2]);
        // Side by side: no rank can be folded beforehand, but no result goes twice to a host.
        let hosts = [0, 1, 0, 1];
        assert_eq!(between(&paths(4, &hosts, count, Order::Ring), &hosts), [[6000; 2]; 2]);
    }

    #[test]
    fn a_rank_folds_only_where_its_own_input_is_folded_and_never_twice_in_a_chunk() {
        for world in 1..9 {
            for placement in 0..4usize.pow(world as u32) {
                let hosts: Vec<usize> = (0..world as u32).map(|rank| placement / 4usize.pow(rank) % 4).collect();
                for order in [Order::Rank, Order::Ring] {
                    for (chunk, path) in paths(world, &hosts, 40, order).iter().enumerate() {
                        let all: Vec<usize> = path.stations.iter().flat_map(|one| one.ranks.clone()).collect();
                        assert_eq!(all, order.sources(chunk, 40, world).collect::<Vec<_>>(), "{hosts:?}");
                        assert!(path.stations.iter().all(|one| one.ranks.contains(&one.folder)), "{hosts:?} {path:?}");
                        let host = hosts[path.owner()];
                        let passed = path.passing.iter().flat_map(|(first, rest)| rest.iter().chain([first]));
                        let mut reached: Vec<usize> = passed.copied().collect();
                        reached.extend((0..world).filter(|&rank| hosts[rank] == host));
                        reached.sort_unstable();
                        assert_eq!(reached, (0..world).collect::<Vec<_>>(), "{hosts:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_more_goes_between_hosts_than_when_each_rank_owns_its_chunk() {
        for hosts in
            [&[0, 0, 1, 1, 2, 2, 3, 3][..], &[0, 1, 2, 3, 0, 1, 2, 3], &[0, 0, 0, 0, 0, 0, 0, 1], &[2, 0, 1, 1, 2]]
        {
            let world = hosts.len();
            let count = 100 * world;
            for order in [Order::Rank, Order::Ring] {
                let ours: usize = between(&paths(world, hosts, count, order), hosts).iter().map(|line| line[0]).sum();
                let pairs = (0..world * world).filter(|pair| hosts[pair / world] != hosts[pair % world]).count();
                assert!(ours < pairs * 2 * 100, "{hosts:?}: {ours} elements and {} of the direct way", pairs * 200);
            }
        }
    }
}
