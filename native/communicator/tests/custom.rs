//! The caller's own reducers, functions that fill a buffer only when it is needed, and the log of calls.

use crate::ranks;

use parking_lot::Mutex;
use ranks::{limits, Ranks};
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::ids::Rank;
use rejoin_communicator::collectives::{Element, FoldError, Order, Reduction};
use rejoin_communicator::{Folding, Input, Options};
use std::sync::Arc;

/// Products of 2×2 matrices of whole numbers depend on the order, and wrap around without a loss.
type Matrix = [u64; 4];

fn times([a, b, c, d]: Matrix, [e, f, g, h]: Matrix) -> Matrix {
    let sum = |x: u64, y: u64, z: u64, w: u64| x.wrapping_mul(y).wrapping_add(z.wrapping_mul(w));
    [sum(a, e, b, g), sum(a, f, b, h), sum(c, e, d, g), sum(c, f, d, h)]
}

fn matrix(rank: u32, at: usize) -> Matrix {
    [u64::from(rank) + 2, at as u64, 1, u64::from(rank * 7) + at as u64]
}

/// One object: so many bytes that depend on the rank and the object.
fn object(rank: u32, at: usize) -> Vec<u8> {
    (0..(rank as usize * 3 + at) % 17).map(|byte| (byte + at) as u8 ^ rank as u8).collect()
}

#[test]
fn a_reducer_that_is_not_commutative_is_called_in_the_order_of_the_ranks() {
    for together in [1, 2, 4] {
        let ranks = Ranks::new(4, together);
        ranks.all(|mut rank| {
            let own = rank.rank().0;
            for count in [0, 1, 3, 50, 40_000] {
                let mut mine: Vec<Matrix> = (0..count).map(|at| matrix(own, at)).collect();
                let by_hand = |at| (1..4).map(|rank| matrix(rank, at)).fold(matrix(0, at), times);
                rank.allreduce_custom(&mut mine, "product", times).unwrap();
                assert!(mine.iter().enumerate().all(|(at, seen)| *seen == by_hand(at)), "{count} products");
            }
            rank.finish(b"").unwrap();
        });
    }
}

#[test]
fn objects_of_different_lengths_are_folded_up_to_their_limit_also_when_it_is_large() {
    for limit in [64, 3 << 20] {
        let ranks = Ranks::new(3, 1);
        ranks.all(|mut rank| {
            let own = rank.rank().0;
            let mut objects: Vec<Vec<u8>> = (0..2).map(|at| object(own, at)).collect();
            let append = |accumulator: &mut Vec<u8>, other: &[u8]| {
                accumulator.extend_from_slice(other);
                Ok(())
            };
            rank.allreduce_objects(&mut objects, limit, "append", append, &Options::default()).unwrap();
            for (at, seen) in objects.iter().enumerate() {
                let expected: Vec<u8> = (0..3).flat_map(|rank| object(rank, at)).collect();
                assert_eq!(*seen, expected, "object {at} of at most {limit} bytes");
            }
            let mut long = [vec![0; limit + 1]];
            let refused = rank.allreduce_objects(&mut long, limit, "append", append, &Options::default()).unwrap_err();
            assert_eq!(refused.code, Code::BadArgument, "{refused}");
            rank.finish(b"").unwrap();
        });
    }
}

#[test]
fn an_object_that_outgrows_its_limit_or_a_reducer_that_fails_ends_the_job_at_every_rank() {
    for too_long in [false, true] {
        let ranks = Ranks::new(3, 1);
        let errors = ranks.all(|mut rank| {
            let grow = |accumulator: &mut Vec<u8>, _: &[u8]| match too_long {
                true => {
                    accumulator.resize(9, 0);
                    Ok(())
                }
                false => Err(FoldError("these can't be merged".into())),
            };
            rank.allreduce_objects(&mut [vec![1, 2]], 8, "grow", grow, &Options::default()).unwrap_err()
        });
        for error in errors {
            assert_eq!(error.code, Code::TrainingFailed, "{error}");
            let part = if too_long { "an object of 9 bytes; the limit given was 8" } else { "these can't be merged" };
            assert!(error.message.contains(part), "{error}");
        }
    }
}

#[test]
fn reducers_of_different_names_or_elements_are_never_paired() {
    for (name, limit) in [("other", 8), ("merge", 9)] {
        let ranks = Ranks::new(2, 1);
        let errors = ranks.all(|mut rank| {
            let keep = |_: &mut Vec<u8>, _: &[u8]| Ok(());
            let (name, limit) = if rank.rank() == Rank(1) { (name, limit) } else { ("merge", 8) };
            rank.allreduce_objects(&mut [vec![]], limit, name, keep, &Options::default()).unwrap_err()
        });
        for error in errors {
            assert_eq!(error.code, Code::Mismatch, "{error}");
            for part in [
                format!("objects of at most {limit} bytes"),
                format!("custom `{name}`"),
                "custom `merge`".into(),
                "tests/custom.rs".into(),
            ] {
                assert!(error.message.contains(&part), "{part} in {error}");
            }
        }
    }
}

#[test]
fn a_part_of_a_custom_reduction_in_ring_order_is_the_part_of_the_whole() {
    let ranks = Ranks::new(3, 1);
    ranks.all(|mut rank| {
        let own = rank.rank().0 as usize;
        // Keeps what came last in the fold: it shows the order.
        let last = Folding::custom("last", 2, |accumulator: &mut [u8], other: &[u8]| {
            accumulator.copy_from_slice(other);
            Ok(())
        });
        let (last, options) = (last.unwrap(), Options { order: Order::Ring, ..Options::default() });
        let input: Vec<u8> = (0..20).map(|at| own as u8 * 100 + at).collect();
        let whole = rank.allreduce_bytes(Input::Ready(&input), &last, &options).unwrap();
        // Segments of 3, 3 and 4 elements of 2 bytes; chunk k is folded from rank k on.
        let expected: Vec<u8> = (0..20).map(|at| [200, 0, 100][(at as usize / 6).min(2)] + at).collect();
        assert_eq!(whole, expected);
        let part = [0..6, 6..12, 12..20][own].clone();
        let mut mine = vec![0; part.len()];
        rank.reduce_scatter_bytes(Input::Ready(&input), &mut mine, &last, &options).unwrap();
        assert_eq!(mine, whole[part]);
        let refused = rank.reduce_scatter_bytes(Input::Ready(&input), &mut [0; 2], &last, &options).unwrap_err();
        assert_eq!(refused.code, Code::BadArgument);
        rank.finish(b"").unwrap();
    });
}

#[test]
fn buffers_are_prepared_where_they_are_needed_and_a_failure_to_do_so_is_the_calls() {
    let ranks = Ranks::new(3, 1);
    // The first one to fail ends the job: by then all have what they check.
    let checked = std::sync::Barrier::new(3);
    ranks.all(|mut rank| {
        let own = rank.rank().0;
        let options = Options::default();
        let mut asked = 0;
        let mut prepare = |buffer: &mut [u8]| {
            asked += 1;
            buffer.fill(own as u8 + 1);
            Ok(())
        };
        let mut bytes = [0; 5];
        let spread = Input::OnDemand(&mut bytes, &mut prepare);
        let spread = rank.broadcast_bytes(spread, Element::U8, Rank(2), &options).unwrap();
        assert_eq!(spread.as_deref(), Some(&[3; 5][..]));
        let mut all = [0; 6];
        let mut bytes = [0; 2];
        rank.allgather_bytes(Input::OnDemand(&mut bytes, &mut prepare), &mut all, Element::U8, &options).unwrap();
        assert_eq!(all, [1, 1, 2, 2, 3, 3]);
        let folding = Folding::known(Element::U8, Reduction::Sum).unwrap();
        let mut bytes = [0; 4];
        let sum = rank.allreduce_bytes(Input::OnDemand(&mut bytes, &mut prepare), &folding, &options).unwrap();
        assert_eq!(sum, [6; 4].as_slice());
        assert_eq!(asked, if own == 2 { 3 } else { 2 }, "only the root of a broadcast is asked");
        checked.wait();
        let mut fails = |_: &mut [u8]| Err(Error::new(Code::TrainingFailed, "no data"));
        let input = Input::OnDemand(&mut bytes, &mut fails);
        let error = rank.allreduce_bytes(input, &folding, &options).unwrap_err();
        assert_eq!(error.code, Code::TrainingFailed, "{error}");
    });
}

#[test]
fn a_communicator_whose_call_has_panicked_is_of_no_more_use() {
    let ranks = Ranks::new(1, 1);
    ranks.all(|mut rank| {
        let folding = Folding::known(Element::U8, Reduction::Sum).unwrap();
        let mut bytes = [1; 4];
        let mut panics = |_: &mut [u8]| panic!("on purpose");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let input = Input::OnDemand(&mut bytes, &mut panics);
            rank.allreduce_bytes(input, &folding, &Options::default()).map(drop)
        }));
        assert!(panicked.is_err());
        let input = Input::Ready(&bytes);
        let error = rank.allreduce_bytes(input, &folding, &Options::default()).unwrap_err();
        assert_eq!(error.code, Code::BadState, "{error}");
        assert!(error.message.contains("a call of it has panicked"), "{error}");
    });
}

#[test]
fn the_log_of_calls_is_the_same_at_all_ranks_up_to_where_they_begin_to_differ() {
    let ranks = Ranks::new(2, 1);
    let logs = std::thread::scope(|scope| {
        let ranks = &ranks;
        let threads: Vec<_> = (0..2)
            .map(|own| {
                scope.spawn(move || {
                    let lines = Arc::new(Mutex::new(Vec::new()));
                    let kept = lines.clone();
                    let process = ranks.process(&own.to_string());
                    let process = process.logging_calls(Arc::new(move |line| kept.lock().push(line.to_string())));
                    let mut rank = ranks::join(&process, own, 0, limits());
                    let boot = Options { boot: rejoin_communicator::Boot::Named("cuts".into()), ..Options::default() };
                    let most = Folding::known(Element::F32, Reduction::Max).unwrap();
                    rank.allreduce_bytes(Input::Ready(&[0; 8]), &most, &boot).unwrap();
                    rank.allreduce(&mut [1f32; 3], Reduction::Sum).unwrap();
                    rank.checkpoint(b"model").unwrap();
                    rank.allreduce(&mut vec![1f32; 4 + own as usize], Reduction::Sum).unwrap_err();
                    drop(rank);
                    let lines = lines.lock().clone();
                    lines
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<Vec<String>>>()
    });
    for (own, log) in logs.iter().enumerate() {
        let calls: Vec<&str> = log.iter().map(|line| line.split(" at ").next().unwrap()).collect();
        assert_eq!(
            calls,
            [
                format!("rank {own}.0 | boot | `cuts` (occurrence 0) | allreduce(2 f32, max)"),
                format!("rank {own}.0 | version 0 | collective 0 | allreduce(3 f32, sum)"),
                format!("rank {own}.0 | version 0 | end | checkpoint(5 bytes)"),
                format!("rank {own}.0 | version 1 | collective 0 | allreduce({} f32, sum)", 4 + own),
            ]
        );
        let sites = log.iter().filter(|line| line.contains("tests/custom.rs:")).count();
        assert_eq!(sites, 3, "each call names its place: {log:#?}");
    }
}
