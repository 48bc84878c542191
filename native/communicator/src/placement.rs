//! Where a rank is among the ranks of its host, and its host among the hosts.

/// The numbers that MPI programs and Horovod's know. Ranks are numbered within a host and across hosts in the order of
/// the ranks of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The number of this rank among those of its host, from 0.
    pub local_rank: u32,
    /// How many ranks its host has.
    pub local_size: u32,
    /// The number of this rank among those that have its local rank, one a host.
    pub cross_rank: u32,
    /// How many hosts have a rank with its local rank.
    pub cross_size: u32,
}

impl Placement {
    /// Of a rank; rank k is on host `hosts[k]`, by the number of the host.
    pub fn of(rank: usize, hosts: &[usize]) -> Placement {
        let local = |rank: usize| hosts[..rank].iter().filter(|host| **host == hosts[rank]).count();
        let own = local(rank);
        let across: Vec<usize> = (0..hosts.len()).filter(|other| local(*other) == own).collect();
        Placement {
            local_rank: own as u32,
            local_size: hosts.iter().filter(|host| **host == hosts[rank]).count() as u32,
            cross_rank: across.iter().filter(|other| **other < rank).count() as u32,
            cross_size: across.len() as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(hosts: &[usize]) -> Vec<(u32, u32, u32, u32)> {
        let one = |rank| {
            let Placement { local_rank, local_size, cross_rank, cross_size } = Placement::of(rank, hosts);
            (local_rank, local_size, cross_rank, cross_size)
        };
        (0..hosts.len()).map(one).collect()
    }

    #[test]
    fn ranks_are_numbered_within_their_host_and_across_hosts() {
        assert_eq!(all(&[0, 0, 1, 1]), [(0, 2, 0, 2), (1, 2, 0, 2), (0, 2, 1, 2), (1, 2, 1, 2)]);
        assert_eq!(all(&[0, 1, 0]), [(0, 2, 0, 2), (0, 1, 1, 2), (1, 2, 0, 1)], "in turn, and one host has more");
        assert_eq!(all(&[0]), [(0, 1, 0, 1)]);
    }
}
