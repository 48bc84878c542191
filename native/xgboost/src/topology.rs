//! Which ranks XGBoost connects, as pure arithmetic.
//!
//! Source: `src/collective/topo.h` and `comm.cc` of XGBoost. All ranks form a ring; from 3.3 on only the ring and the
//! binomial tree rooted at rank 0 are connected, before that every pair.

use rejoin_protocol::ids::Rank;

/// Which dialect of XGBoost's TCP protocol the loaded library speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireVariant {
    /// Up to 3.2: every pair of ranks has a channel; the bootstrap's ring sockets are dropped.
    Until32,
    /// From 3.3: the ring sockets stay and the neighbours in the binomial tree are added.
    From33,
}

/// The next rank of the ring.
pub(crate) fn next(rank: Rank, world: u32) -> Rank {
    Rank((rank.0 + 1) % world)
}

/// The previous rank of the ring.
pub(crate) fn previous(rank: Rank, world: u32) -> Rank {
    Rank((rank.0 + world - 1) % world)
}

/// The parent in the binomial tree rooted at rank 0: the lowest set bit cleared. Rank 0 is its own parent.
fn parent(rank: Rank) -> Rank {
    Rank(rank.0 & rank.0.wrapping_sub(1))
}

/// Whether XGBoost opens a channel between two ranks.
pub(crate) fn connected(variant: WireVariant, world: u32, a: Rank, b: Rank) -> bool {
    if a == b {
        return false;
    }
    match variant {
        WireVariant::Until32 => true,
        WireVariant::From33 => {
            next(a, world) == b || previous(a, world) == b || parent(Rank(a.0.max(b.0))).0 == a.0.min(b.0)
        }
    }
}

/// All ranks that XGBoost connects with `rank`, ascending.
pub(crate) fn neighbours(variant: WireVariant, world: u32, rank: Rank) -> Vec<Rank> {
    (0..world).map(Rank).filter(|peer| connected(variant, world, rank, *peer)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variant: WireVariant, world: u32, rank: u32) -> Vec<u32> {
        neighbours(variant, world, Rank(rank)).iter().map(|r| r.0).collect()
    }

    #[test]
    fn ring_and_binomial_tree_from_3_3() {
        assert_eq!(of(WireVariant::From33, 8, 0), [1, 2, 4, 7]);
        assert_eq!(of(WireVariant::From33, 8, 4), [0, 3, 5, 6]);
        assert_eq!(of(WireVariant::From33, 8, 6), [4, 5, 7]);
        assert_eq!(of(WireVariant::From33, 8, 7), [0, 6]);
        assert_eq!(of(WireVariant::From33, 2, 1), [0]);
        assert!(of(WireVariant::From33, 1, 0).is_empty());
    }

    #[test]
    fn every_pair_up_to_3_2() {
        assert_eq!(of(WireVariant::Until32, 4, 2), [0, 1, 3]);
    }

    #[test]
    fn a_connection_is_seen_from_both_ends() {
        for world in 1..40 {
            for a in 0..world {
                for b in 0..world {
                    let there = connected(WireVariant::From33, world, Rank(a), Rank(b));
                    assert_eq!(there, connected(WireVariant::From33, world, Rank(b), Rank(a)));
                }
            }
        }
    }
}
