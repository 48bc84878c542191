//! Whether an elastic job goes on in a smaller world: a pure function of what the tracker knows.
//!
//! The rules, in the order in which they are tried:
//!
//! 1. No rank is missing, or none has been for as long as a replacement is waited for: nothing changes.
//! 2. Fewer ranks are there than the job needs: nothing changes, and the wait for missing members bounds that.
//! 3. The world shrinks in one step to the ranks that are there, also if some have been missing for a moment only. They
//!    keep their order and move down without gaps.

use crate::ids::Rank;
use crate::plan::list;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// How an elastic job may change its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elastic {
    /// The fewest ranks that it goes on with, at least 1.
    pub min: u32,
    /// How long a replacement of a rank is waited for, in milliseconds.
    pub timeout_millis: u64,
}

/// One rank of the present world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seat {
    /// Some incarnation has it, or a task is about to join as it.
    Taken,
    /// Nobody has it.
    Missing {
        /// For how long, in milliseconds.
        millis: u64,
        /// Why, in words.
        because: String,
    },
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing changes.
    Stay,
    /// A new world.
    Shrink {
        /// For each rank the one that it is from now on; `None` for those that are missing.
        ranks: Vec<Option<Rank>>,
        /// Why, in words.
        reason: String,
    },
}

/// Decides, of the present world in rank order.
pub fn decide(seats: &[Seat], elastic: &Elastic) -> Decision {
    let is_over = |seat: &Seat| matches!(seat, Seat::Missing { millis, .. } if *millis >= elastic.timeout_millis);
    let mut next = (0..).map(Rank);
    let ranks: Vec<Option<Rank>> =
        seats.iter().map(|seat| if *seat == Seat::Taken { next.next() } else { None }).collect();
    let there = ranks.iter().flatten().count();
    if !seats.iter().any(is_over) || there < elastic.min as usize {
        return Decision::Stay;
    }
    let missing = (0..).map(Rank).zip(seats).filter_map(|(rank, seat)| match seat {
        Seat::Missing { because, .. } => Some((rank, because)),
        Seat::Taken => None,
    });
    let (gone, why): (Vec<Rank>, Vec<String>) =
        missing.map(|(rank, because)| (rank, format!("rank {rank}: {because}"))).unzip();
    let reason = format!(
        "no replacement of rank {} came within {} s, so the world of {} ranks goes on as one of {there} ({})",
        list(&gone),
        elastic.timeout_millis as f64 / 1000.0,
        seats.len(),
        why.join("; ")
    );
    Decision::Shrink { ranks, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const ELASTIC: Elastic = Elastic { min: 2, timeout_millis: 1000 };

    /// `None` is a rank that is there, otherwise for how long it has been missing.
    fn shrunk(seats: &[Option<u64>]) -> Option<Vec<Option<u32>>> {
        let seat = |missing: &Option<u64>| match missing {
            None => Seat::Taken,
            Some(millis) => Seat::Missing { millis: *millis, because: "its process is gone".into() },
        };
        match decide(&seats.iter().map(seat).collect::<Vec<_>>(), &ELASTIC) {
            Decision::Stay => None,
            Decision::Shrink { ranks, .. } => Some(ranks.iter().map(|rank| rank.map(|rank| rank.0)).collect()),
        }
    }

    #[test]
    fn as_long_as_a_replacement_may_come_nothing_changes() {
        assert_eq!(shrunk(&[None, None, None]), None);
        assert_eq!(shrunk(&[None, Some(999), None]), None);
    }

    #[test]
    fn ranks_that_are_there_keep_their_order_and_move_down_without_gaps() {
        assert_eq!(
            shrunk(&[Some(1000), None, Some(1000), None, None]),
            Some(vec![None, Some(0), None, Some(1), Some(2)])
        );
    }

    #[test]
    fn one_step_takes_out_all_that_are_missing_however_long() {
        assert_eq!(shrunk(&[None, Some(1000), Some(1), None]), Some(vec![Some(0), None, None, Some(1)]));
    }

    #[test]
    fn a_world_never_shrinks_below_its_minimum() {
        assert_eq!(shrunk(&[None, Some(5000), Some(5000)]), None);
        assert_eq!(shrunk(&[None, Some(5000), None]), Some(vec![Some(0), None, Some(1)]));
    }

    #[test]
    fn a_decision_says_who_was_missing_and_why() {
        let missing = Seat::Missing { millis: 1500, because: "its process is gone".into() };
        let Decision::Shrink { reason, .. } = decide(&[Seat::Taken, missing, Seat::Taken], &ELASTIC) else {
            panic!("it stays")
        };
        assert_eq!(
            reason,
            "no replacement of rank 1 came within 1 s, so the world of 3 ranks goes on as one of 2 (rank 1: its \
             process is gone)"
        );
    }
}
