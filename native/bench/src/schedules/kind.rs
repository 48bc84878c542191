//! The collectives, the algorithms of each, and which of them the tables choose.

use rejoin_collectives::choice::{share_hosts, Choice, Table};
use rejoin_collectives::schedules::{self, Allgather, Allreduce, Barrier, Broadcast};
use rejoin_collectives::{Element, Order, Schedule, WorldRank};
use std::fmt::Debug;

/// A collective whose algorithms are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// In this order.
    Allreduce(Order),
    Broadcast,
    Allgather,
    Barrier,
}

/// What an allreduce by hosts is called in the tables of figures.
const BY_HOSTS: &str = "by-hosts";

impl Kind {
    pub const ALL: [Kind; 5] =
        [Kind::Allreduce(Order::Rank), Kind::Allreduce(Order::Ring), Kind::Broadcast, Kind::Allgather, Kind::Barrier];

    /// What it is called in the tables of figures.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Allreduce(Order::Rank) => "allreduce",
            Kind::Allreduce(Order::Ring) => "allreduce-ring",
            Kind::Broadcast => "broadcast",
            Kind::Allgather => "allgather",
            Kind::Barrier => "barrier",
        }
    }

    /// The collective of this name.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Its algorithms for ranks on these hosts.
    pub fn algorithms(self, hosts: &[usize]) -> Vec<String> {
        match self {
            Kind::Allreduce(_) => names(Allreduce::ALL).into_iter().chain(by_hosts(hosts)).collect(),
            Kind::Broadcast => names(Broadcast::ALL),
            Kind::Allgather => names(Allgather::ALL),
            Kind::Barrier => names(Barrier::ALL),
        }
    }

    /// The algorithm that these tables say for ranks on these hosts.
    pub fn chosen(self, choice: &Choice, hosts: &[usize], bytes: usize) -> String {
        let world = hosts.len();
        match self {
            Kind::Allreduce(_) => by_hosts_or(choice.allreduce(hosts, bytes, false)),
            Kind::Broadcast => pick(&choice.broadcast, world, bytes),
            Kind::Allgather => pick(&choice.allgather, world, bytes),
            Kind::Barrier => pick(&choice.barrier, world, bytes),
        }
    }

    /// What is chosen for a custom reducer, and the algorithms that it is chosen from; none where there is no reducer.
    pub fn chosen_once(self, choice: &Choice, hosts: &[usize], bytes: usize) -> Option<(String, Vec<String>)> {
        let once: Vec<Allreduce> = Allreduce::ALL.iter().copied().filter(|algorithm| algorithm.folds_once()).collect();
        let chosen = by_hosts_or(choice.allreduce(hosts, bytes, true));
        let among = names(&once).into_iter().chain(by_hosts(hosts)).collect();
        matches!(self, Kind::Allreduce(_)).then_some((chosen, among))
    }

    /// One rank's schedules by an algorithm, to be executed in turn: a broadcast has another root
    /// each time, so that no rank can run ahead of the others. `bytes` as in
    /// [`rejoin_collectives::choice::LinkShape`].
    pub fn schedules(
        self,
        me: WorldRank,
        hosts: &[usize],
        bytes: usize,
        algorithm: &str,
    ) -> Result<Vec<Schedule>, String> {
        let size = Element::F32.size();
        let count = (bytes / size).max(1);
        Ok(match self {
            Kind::Allreduce(order) if algorithm == BY_HOSTS => {
                vec![schedules::allreduce_by_hosts(me, hosts, count, size, order)]
            }
            Kind::Allreduce(order) => {
                vec![schedules::allreduce(me, count, size, order, find(Allreduce::ALL, algorithm)?)]
            }
            Kind::Broadcast => {
                let algorithm = find(Broadcast::ALL, algorithm)?;
                (0..me.world).map(|root| schedules::broadcast(me, count * size, root, algorithm)).collect()
            }
            Kind::Allgather => {
                let part = (count / me.world).max(1) * size;
                vec![schedules::allgather(me, part, find(Allgather::ALL, algorithm)?)]
            }
            Kind::Barrier => vec![schedules::barrier(me, find(Barrier::ALL, algorithm)?)],
        })
    }

    /// What stands in the result when every rank k gives the float k + 1 everywhere: in part `part`
    /// of `world` equal parts, in the call whose root is `root`.
    pub fn expected(self, world: usize, root: usize, part: usize) -> f32 {
        match self {
            Kind::Allreduce(_) => (world * (world + 1) / 2) as f32,
            Kind::Broadcast => (root + 1) as f32,
            Kind::Allgather | Kind::Barrier => (part + 1) as f32,
        }
    }
}

fn name(algorithm: &impl Debug) -> String {
    format!("{algorithm:?}").to_lowercase()
}

/// Where it can be chosen.
fn by_hosts(hosts: &[usize]) -> Option<String> {
    share_hosts(hosts).then(|| BY_HOSTS.into())
}

fn by_hosts_or(algorithm: Option<Allreduce>) -> String {
    algorithm.map_or(BY_HOSTS.into(), |algorithm| name(&algorithm))
}

fn names(algorithms: &[impl Debug]) -> Vec<String> {
    algorithms.iter().map(name).collect()
}

fn pick<A: Copy + Debug>(table: &Table<A>, world: usize, bytes: usize) -> String {
    name(&table.algorithm(world, bytes))
}

fn find<A: Copy + Debug>(all: &[A], wanted: &str) -> Result<A, String> {
    all.iter().copied().find(|one| name(one) == wanted).ok_or_else(|| format!("no algorithm is called {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_collectives::choice::{LOOPBACK, NETWORK};

    #[test]
    fn what_the_tables_choose_is_among_the_algorithms() {
        for kind in Kind::ALL {
            assert_eq!(Kind::named(kind.name()), Some(kind));
            for choice in [&LOOPBACK, &NETWORK] {
                for (hosts, bytes) in [(&[0, 1][..], 8), (&[0, 0, 1, 1], 1 << 16), (&[0, 0, 0, 1], 1 << 26)] {
                    assert!(kind.algorithms(hosts).contains(&kind.chosen(choice, hosts, bytes)), "{kind:?}");
                    let once = kind.chosen_once(choice, hosts, bytes);
                    assert!(once.is_none_or(|(chosen, among)| among.contains(&chosen)), "{kind:?}");
                }
            }
        }
    }
}
