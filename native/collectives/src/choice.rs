//! Which algorithm when: tables of what was measured.

use crate::schedules::{Allgather, Allreduce, Barrier, Broadcast};

/// Which algorithm for which world and how many bytes.
#[derive(Clone, Copy, Debug)]
pub struct Table<A: 'static> {
    /// The first row that fits counts.
    pub rows: &'static [ChoiceRow<A>],
    /// Where none fits.
    pub otherwise: A,
}

impl<A: Copy> Table<A> {
    /// The algorithm for this world and this many bytes. Every rank must ask the same table.
    pub fn algorithm(&self, world: usize, bytes: usize) -> A {
        let fits = |row: &&ChoiceRow<A>| world <= row.world && bytes <= row.bytes;
        self.rows.iter().find(fits).map_or(self.otherwise, |row| row.algorithm)
    }
}

/// One row of a table: for worlds of up to `world` ranks and up to `bytes` bytes, this algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChoiceRow<A> {
    /// Most ranks.
    pub world: usize,
    /// Most bytes: of the input of an allreduce, of the data of a broadcast, of the result of an allgather.
    pub bytes: usize,
    /// What is best there.
    pub algorithm: A,
}

/// The tables for one kind of surroundings.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Where the figures behind these tables were taken.
    pub measured: &'static str,
    /// By bytes of input and number of ranks, where each rank may fold each element.
    pub allreduce: Table<Allreduce>,
    /// Allreduce with a custom reducer: algorithms that fold each element at one rank only.
    pub allreduce_once: Table<Allreduce>,
    /// From so many bytes of input on, an allreduce that would go directly goes by hosts, where several ranks share one
    /// ([`crate::schedules::allreduce_by_hosts`]).
    pub by_hosts_from: usize,
    /// By bytes of the root's value and number of ranks.
    pub broadcast: Table<Broadcast>,
    /// By bytes of all parts together and number of ranks.
    pub allgather: Table<Allgather>,
    /// Barrier (bytes are 0).
    pub barrier: Table<Barrier>,
}

impl Choice {
    /// The algorithm for an allreduce of so many bytes; rank k is on host `hosts[k]`. `once`: the
    /// reducer is a custom one. Every rank must ask with the same. `None`: it goes by hosts.
    pub fn allreduce(&self, hosts: &[usize], bytes: usize, once: bool) -> Option<Allreduce> {
        let table = if once { &self.allreduce_once } else { &self.allreduce };
        let algorithm = table.algorithm(hosts.len(), bytes);
        let by_hosts = algorithm == Allreduce::Direct && bytes >= self.by_hosts_from && share_hosts(hosts);
        (!by_hosts).then_some(algorithm)
    }
}

/// Whether there are several hosts, and several ranks on one of them; rank k is on host `hosts[k]`.
pub fn share_hosts(hosts: &[usize]) -> bool {
    let spans = hosts.iter().any(|host| *host != hosts[0]);
    spans && hosts.iter().enumerate().any(|(rank, host)| hosts[..rank].contains(host))
}

const ANY: usize = usize::MAX;

const fn row<A>(world: usize, bytes: usize, algorithm: A) -> ChoiceRow<A> {
    ChoiceRow { world, bytes, algorithm }
}

/// Ranks that share a few cores, links over loopback: the fewest messages win, up to sizes that one rank can't fold
/// alone.
///
/// The driver behind these figures looks at its sockets again and again and gives the core away in between; only after
/// hundreds of such looks it sleeps. With sleeping at once the differences between the algorithms drown in the 70 µs
/// that it takes to be woken.
pub const LOOPBACK: Choice = Choice {
    measured: "allreduce: 2 shared cores (Xeon, KVM), TCP over loopback, `rejoin-bench floor`, November 2026; the \
               others: estimates",
    allreduce: Table {
        rows: &[
            row(2, 32 << 10, Allreduce::Exchange),
            row(2, ANY, Allreduce::Direct),
            row(ANY, 256 << 10, Allreduce::Star),
        ],
        otherwise: Allreduce::Direct,
    },
    allreduce_once: Table {
        rows: &[
            row(2, 32 << 10, Allreduce::Star),
            row(2, ANY, Allreduce::Direct),
            row(ANY, 128 << 10, Allreduce::Star),
        ],
        otherwise: Allreduce::Direct,
    },
    by_hosts_from: ANY,
    broadcast: Table { rows: &[row(ANY, 128 << 10, Broadcast::Tree)], otherwise: Broadcast::Scatter },
    allgather: Table { rows: &[row(ANY, 32 << 10, Allgather::Doubling)], otherwise: Allgather::Exchange },
    barrier: Table { rows: &[], otherwise: Barrier::Star },
};

/// Ranks on several hosts: the fewest messages that wait for each other win, up to sizes that keep
/// a row busy for as long as one message takes.
///
/// A message takes a millisecond there, and 128 KiB keep a row busy for as long. So what is sent
/// to all at once is small enough when all that goes through one row is less than that.
pub const NETWORK: Choice = Choice {
    measured: "2 to 4 hosts (2 shared cores, namespaces) with 1 Gbit/s and 1 ms, 2 to 8 ranks (up to 16 KiB also 16), \
               `rejoin-bench network -- rejoin-bench schedules`, November 2026; more ranks: estimates",
    allreduce: Table {
        rows: &[
            row(2, 1 << 20, Allreduce::Exchange),
            row(4, 64 << 10, Allreduce::Exchange),
            row(8, 8 << 10, Allreduce::Exchange),
            row(16, 2 << 10, Allreduce::Exchange),
            row(ANY, 8 << 10, Allreduce::Star),
        ],
        otherwise: Allreduce::Direct,
    },
    allreduce_once: Table { rows: &[row(ANY, 8 << 10, Allreduce::Star)], otherwise: Allreduce::Direct },
    by_hosts_from: 16 << 10,
    broadcast: Table { rows: &[row(ANY, 64 << 10, Broadcast::Tree)], otherwise: Broadcast::Scatter },
    allgather: Table {
        rows: &[row(4, ANY, Allgather::Exchange), row(ANY, 128 << 10, Allgather::Exchange)],
        otherwise: Allgather::Doubling,
    },
    barrier: Table { rows: &[row(16, 0, Barrier::Exchange)], otherwise: Barrier::Star },
};
