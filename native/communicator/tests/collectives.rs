//! Collectives of ranks in threads, over real links and in one process: values, identity, checkpoints.

use crate::ranks;

use ranks::{value, values, Ranks};
use rejoin_agent::protocol::error::Code;
use rejoin_agent::protocol::ids::{Rank, Version};
use rejoin_communicator::collectives::{Element, Reduction};
use rejoin_communicator::{Boot, Folding, Input, Limits, Options};
use std::time::Duration;

/// How many ranks live in one process (all, two, one), and whether they share memory.
const PLACEMENTS: [(usize, bool); 6] = [(100, false), (2, false), (1, false), (100, true), (2, true), (1, true)];

/// The same, and on how many hosts they say that they are, which chooses other algorithms.
const TOPOLOGIES: [(usize, bool, u32); 8] = [
    (100, false, 1),
    (2, false, 1),
    (1, false, 1),
    (100, true, 1),
    (2, true, 1),
    (1, true, 1),
    (2, true, 3),
    (1, true, 2),
];

#[test]
fn a_limit_that_is_longer_than_time_is_none() {
    let forever =
        |limits: &mut Limits| *limits = Limits { join: Duration::MAX, call: Duration::MAX, finish: Duration::MAX };
    Ranks::new(2, 1).all_with(forever, |mut rank| {
        rank.barrier().expect("both are there");
        rank.finish(b"").expect("all end alike");
    });
}

#[test]
fn every_collective_gives_every_rank_its_value_whatever_the_placement() {
    for (together, shares_memory, hosts) in TOPOLOGIES {
        let ranks = Ranks::new(5, together).sharing_memory(shares_memory).on_hosts(hosts);
        ranks.all(|mut rank| {
            let own = rank.rank().0;
            for count in [0, 1, 3, 5, 1000, 300_000] {
                let mut sum = values(own, count);
                rank.allreduce(&mut sum, Reduction::Sum).unwrap();
                let expected: Vec<f64> = (0..count).map(|at| (0..5).map(|rank| value(rank, at)).sum()).collect();
                assert_eq!(sum, expected, "sum of {count}");

                let mut most = values(own, count);
                rank.allreduce(&mut most, Reduction::Max).unwrap();
                assert_eq!(most, values(4, count), "max of {count}");

                let mut spread = if own == 3 { values(9, count) } else { vec![0.0; count] };
                rank.broadcast(&mut spread, Rank(3)).unwrap();
                assert_eq!(spread, values(9, count), "broadcast of {count}");

                let mut gathered = vec![0.0; 5 * count];
                rank.allgather(&values(own, count), &mut gathered).unwrap();
                let expected: Vec<f64> = (0..5).flat_map(|rank| values(rank, count)).collect();
                assert_eq!(gathered, expected, "allgather of {count}");

                let part = Options::default().order.chunk(own as usize, count, 5);
                let mut reduced = vec![0.0; part.len()];
                rank.reduce_scatter(&values(own, count), &mut reduced, Reduction::Sum).unwrap();
                assert_eq!(reduced, sum[part], "reduce-scatter of {count}");
                rank.barrier().unwrap();
            }
            let parts = rank.allgather_v(&values(own, own as usize * 7)).unwrap();
            for (peer, part) in parts.iter().enumerate() {
                assert_eq!(*part, values(peer as u32, peer * 7));
            }
            rank.finish(b"the model").unwrap();
        });
    }
}

#[test]
fn one_rank_alone_has_all_collectives_too() {
    let ranks = Ranks::new(1, 1);
    ranks.all(|mut rank| {
        let mut buffer = [1.5f32, 2.5];
        rank.allreduce(&mut buffer, Reduction::Sum).unwrap();
        rank.broadcast(&mut buffer, Rank(0)).unwrap();
        let mut gathered = [0f32; 2];
        rank.allgather(&buffer, &mut gathered).unwrap();
        assert_eq!(gathered, [1.5, 2.5]);
        rank.barrier().unwrap();
        assert_eq!(rank.checkpoint(b"one").unwrap(), Version(1));
        rank.finish(b"one").unwrap();
    });
}

#[test]
fn checkpoints_end_versions_and_versions_without_proof_get_a_barrier() {
    for shares_memory in [false, true] {
        let ranks = Ranks::new(3, 1).sharing_memory(shares_memory);
        ranks.all(|mut rank| {
            assert_eq!(rank.load().unwrap(), (Version(0), None));
            for version in 1..=4 {
                if version % 2 == 0 {
                    let mut one = [version as u64];
                    rank.broadcast(&mut one, Rank(1)).unwrap();
                }
                assert_eq!(rank.checkpoint(format!("model {version}").as_bytes()).unwrap(), Version(version));
            }
            rank.finish(b"model 4").unwrap();
        });
    }
}

#[test]
fn different_calls_are_an_error_on_each_rank_that_names_both_calls_and_call_sites() {
    for (together, shares_memory) in PLACEMENTS {
        let ranks = Ranks::new(3, together).sharing_memory(shares_memory);
        let errors = ranks.all(|mut rank| {
            let mut buffer = [1f32; 4];
            // The job may be over before a slow rank is out of the first call: then it hears of the same here.
            let first = rank.allreduce(&mut buffer, Reduction::Sum);
            let before = buffer;
            let ends = first.and_then(|()| match rank.rank().0 {
                1 => rank.allreduce(&mut buffer[..3], Reduction::Sum),
                _ => rank.allreduce(&mut buffer, Reduction::Sum),
            });
            let error = ends.unwrap_err();
            assert_eq!(buffer, before, "nothing is handed out");
            let again = rank.barrier().unwrap_err();
            assert_eq!(again.code, Code::BadState, "{again}");
            error
        });
        for error in errors {
            assert_eq!(error.code, Code::Mismatch, "{error}");
            for part in ["allreduce(3 f32, sum)", "allreduce(4 f32, sum)", "tests/collectives.rs:"] {
                assert!(error.message.contains(part), "{part} in {error}");
            }
        }
    }
}

#[test]
fn elements_that_are_too_long_for_shared_memory_go_over_links_between_calls_that_share_it() {
    let ranks = Ranks::new(3, 1);
    ranks.all(|mut rank| {
        let own = rank.rank().0 as u8;
        for round in 0..4 {
            let folding = Folding::custom("appended", 100_000, |accumulator: &mut [u8], other: &[u8]| {
                accumulator.iter_mut().zip(other).for_each(|(left, right)| *left = left.wrapping_mul(10) + right);
                Ok(())
            });
            let long = Input::Ready(&[own + round; 200_000]);
            let long = rank.allreduce_bytes(long, &folding.unwrap(), &Options::default()).unwrap();
            let expected = (0..3).fold(0, |folded: u8, rank| folded.wrapping_mul(10) + rank + round);
            assert!(long.iter().all(|byte| *byte == expected), "{} instead of {expected}", long[0]);
            let mut sum = values(own.into(), 3000);
            rank.allreduce(&mut sum, Reduction::Sum).unwrap();
            assert_eq!(sum[7], (0..3).map(|rank| value(rank, 7)).sum::<f64>());
        }
        rank.finish(b"").unwrap();
    });
}

#[test]
fn a_call_that_does_not_fit_shared_memory_is_not_paired_with_one_that_does() {
    for long in [0, 1] {
        let ranks = Ranks::new(2, 1);
        let errors = ranks.all(|mut rank| {
            rank.barrier().unwrap();
            if rank.rank() == Rank(long) {
                let folding = Folding::custom("first", 200_000, |_: &mut [u8], _: &[u8]| Ok(()));
                let long = Input::Ready(&[7; 200_000]);
                rank.allreduce_bytes(long, &folding.unwrap(), &Options::default()).unwrap_err()
            } else {
                rank.barrier().unwrap_err()
            }
        });
        for error in errors {
            assert_eq!(error.code, Code::Mismatch, "{error}");
            assert!(error.message.contains("barrier") && error.message.contains("first"), "{error}");
        }
    }
}

#[test]
fn broadcasts_of_different_roots_are_never_paired() {
    for (world, shares_memory) in [(3, false), (3, true), (2, true)] {
        let ranks = Ranks::new(world, 1).sharing_memory(shares_memory);
        let errors = ranks.all(|mut rank| {
            let root = Rank(u32::from(rank.rank() == Rank(1)));
            let mut buffer = [rank.rank().0; 4];
            // A root may be through with its own call before any rank has seen that it differs.
            rank.broadcast(&mut buffer, root).and_then(|()| rank.barrier()).unwrap_err()
        });
        for error in errors {
            assert_eq!(error.code, Code::Mismatch, "{error}");
            assert!(error.message.contains("root 0") && error.message.contains("root 1"), "{error}");
        }
    }
}

#[test]
fn a_call_that_others_can_never_join_because_one_has_finished_is_a_mismatch_at_once() {
    for (together, shares_memory) in PLACEMENTS {
        let ranks = Ranks::new(3, together).sharing_memory(shares_memory);
        let errors = ranks.all(|mut rank| {
            // The job may be over before a slow rank is out of the barrier: then it hears of the same here.
            let ends = rank.barrier().and_then(|()| match rank.rank().0 {
                2 => rank.finish(b"").map(drop),
                _ => rank.allreduce(&mut [1f32; 4], Reduction::Sum).map(drop),
            });
            ends.unwrap_err()
        });
        for error in errors {
            assert_eq!(error.code, Code::Mismatch, "{error}");
            assert!(error.message.contains("rank 2 has ended version 0 after fewer collectives"), "{error}");
            assert!(error.message.contains("allreduce(4 f32, sum)"), "{error}");
        }
    }
}

#[test]
fn a_rank_that_never_makes_the_call_is_named_after_the_limit() {
    let named = [
        (false, "rank 2 (16 bytes to come; incarnation 0, linked)"),
        (true, "rank 2 (through shared memory; incarnation 0, linked)"),
    ];
    for (shares_memory, named) in named {
        let ranks = Ranks::new(3, 1).sharing_memory(shares_memory);
        let (reached, wait) = std::sync::mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let ended = std::sync::Barrier::new(3);
        ranks.all_with(
            |limits| limits.call = std::time::Duration::from_millis(300),
            |mut rank| {
                if rank.rank() == Rank(2) {
                    wait.lock().unwrap().recv().unwrap();
                } else {
                    let error = rank.allreduce(&mut [1f32; 4], Reduction::Sum).unwrap_err();
                    assert_eq!(error.code, Code::TimedOut, "{error}");
                    if rank.rank() == Rank(0) {
                        assert!(error.message.contains(named), "{error}");
                        reached.send(()).unwrap();
                    }
                }
                ended.wait();
            },
        );
    }
}

#[test]
fn a_rank_that_does_not_take_what_it_is_sent_is_named_after_the_limit() {
    let ranks = Ranks::new(2, 1).sharing_memory(false);
    let ended = std::sync::Barrier::new(2);
    ranks.all_with(
        |limits| limits.call = std::time::Duration::from_millis(300),
        |mut rank| {
            if rank.rank() == Rank(0) {
                let error = rank.broadcast(&mut vec![1f32; 8 << 20], Rank(0)).unwrap_err();
                assert_eq!(error.code, Code::TimedOut, "{error}");
                assert!(error.message.contains("for bytes of rank 1 ("), "{error}");
                assert!(error.message.contains(" bytes for it to take; incarnation 0, linked)"), "{error}");
            }
            ended.wait();
        },
    );
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_sent() {
    let ranks = Ranks::new(2, 1);
    ranks.all(|mut rank| {
        let refused = |result: Result<(), rejoin_agent::protocol::error::Error>| {
            assert_eq!(result.unwrap_err().code, Code::BadArgument);
        };
        refused(rank.allreduce(&mut [1f32], Reduction::Xor));
        refused(rank.broadcast(&mut [1f32], Rank(2)));
        refused(rank.allgather(&[1f32], &mut [0f32; 3]));
        refused(rank.reduce_scatter(&[1f32; 3], &mut [0f32; 3], Reduction::Sum));
        let folding = Folding::known(Element::F32, Reduction::Sum).unwrap();
        refused(rank.allreduce_bytes(Input::Ready(&[0; 7]), &folding, &Options::default()).map(drop));
        let boot = Options { boot: Boot::Named("cuts".into()), ..Options::default() };
        rank.allreduce_bytes(Input::Ready(&[0; 8]), &folding, &boot).unwrap();
        refused(rank.allreduce_bytes(Input::Ready(&[0; 8]), &folding, &boot).map(drop));
        // None of this spoils the handle.
        rank.allreduce(&mut [1f32], Reduction::Sum).unwrap();
        rank.finish(b"").unwrap();
    });
}
