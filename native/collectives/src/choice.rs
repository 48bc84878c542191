//! Which algorithm when: tables of what was measured.

use crate::schedules::{Allgather, Allreduce, Barrier, Broadcast};

/// Which algorithm for which world and how many bytes.
#[derive(Clone, Copy, Debug)]
pub struct Table<A: 'static> {
    /// The first line that fits counts.
    pub lines: &'static [Line<A>],
    /// Where none fits.
    pub otherwise: A,
}

impl<A: Copy> Table<A> {
    /// The algorithm for this world and this many bytes. Every rank must ask the same table.
    pub fn algorithm(&self, world: usize, bytes: usize) -> A {
        let fits = |line: &&Line<A>| world <= line.world && bytes <= line.bytes;
        self.lines.iter().find(fits).map_or(self.otherwise, |line| line.algorithm)
    }
}

/// One line of a table: for worlds of up to `world` ranks and up to `bytes` bytes, this algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<A> {
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
    /// Allreduce.
    pub allreduce: Table<Allreduce>,
    /// Allreduce with a custom reducer: algorithms that fold each element at one rank only.
    pub allreduce_once: Table<Allreduce>,
    /// Broadcast.
    pub broadcast: Table<Broadcast>,
    /// Allgather.
    pub allgather: Table<Allgather>,
    /// Barrier (bytes are 0).
    pub barrier: Table<Barrier>,
}

const ANY: usize = usize::MAX;

const fn line<A>(world: usize, bytes: usize, algorithm: A) -> Line<A> {
    Line { world, bytes, algorithm }
}

/// Ranks that share a few cores, links over loopback: the fewest messages win, up to sizes that one rank can't fold
/// alone.
///
/// The driver behind these figures looks at its sockets again and again and gives the core away in between; only after
/// hundreds of such looks it sleeps. With sleeping at once the differences between the algorithms drown in the 70 µs
/// that it takes to be woken.
pub const LOOPBACK: Choice = Choice {
    measured: "allreduce: 2 shared cores (Xeon, KVM), TCP over loopback, `rejoin-bench floor`, November 2026; the others: estimates",
    allreduce: Table {
        lines: &[
            line(2, 32 << 10, Allreduce::Exchange),
            line(2, ANY, Allreduce::Direct),
            line(4, 256 << 10, Allreduce::Star),
            line(ANY, 128 << 10, Allreduce::Star),
        ],
        otherwise: Allreduce::Direct,
    },
    allreduce_once: Table {
        lines: &[line(2, 32 << 10, Allreduce::Star), line(2, ANY, Allreduce::Direct), line(ANY, 128 << 10, Allreduce::Star)],
        otherwise: Allreduce::Direct,
    },
    broadcast: Table { lines: &[line(ANY, 128 << 10, Broadcast::Tree)], otherwise: Broadcast::Scatter },
    allgather: Table { lines: &[line(ANY, 32 << 10, Allgather::Doubling)], otherwise: Allgather::Exchange },
    barrier: Table { lines: &[], otherwise: Barrier::Star },
};

/// Ranks with cores of their own, links over a network: the fewest steps win.
pub const NETWORK: Choice = Choice {
    measured: "not yet: estimates for a switched network with tens of microseconds of delay",
    allreduce: Table {
        lines: &[line(4, 16 << 10, Allreduce::Exchange), line(ANY, 4 << 10, Allreduce::Doubling)],
        otherwise: Allreduce::Direct,
    },
    allreduce_once: Table { lines: &[line(ANY, 4 << 10, Allreduce::Star)], otherwise: Allreduce::Direct },
    broadcast: Table { lines: &[line(ANY, 32 << 10, Broadcast::Tree)], otherwise: Broadcast::Scatter },
    allgather: Table { lines: &[line(ANY, 32 << 10, Allgather::Doubling)], otherwise: Allgather::Exchange },
    barrier: Table { lines: &[], otherwise: Barrier::Doubling },
};
