//! Collectives: what every rank gets.

use crate::job::*;
use rejoin::*;
use std::ffi::c_void;
use std::mem::size_of;
use std::ptr::{null, null_mut};

const WORLD: usize = 3;

#[test]
fn every_collective_gives_every_rank_its_value() {
    Job::new(WORLD as u32).all(|rank| {
        let own = rank.number();
        let mut sums = [f64::from(own), 1.0, -2.5];
        rank.check(rank.allreduce(&mut sums, F64, SUM, c"sum"));
        assert_eq!(sums, [3.0, 3.0, -7.5]);
        let mut most = [own as i32, -(own as i32)];
        rank.check(rank.allreduce(&mut most, I32, MAX, c"max"));
        assert_eq!(most, [2, 0]);

        let (mut first, mut length) = (0, 0);
        let input: Vec<f64> = (0..7).map(|at| f64::from(at) + f64::from(own)).collect();
        // SAFETY: all buffers are as long as is said, here and below.
        unsafe {
            assert_eq!(rejoin_part(own, WORLD as u32, 7, 0, &mut first, &mut length), 0);
            let mut part = vec![0.0; length];
            let data = input.as_ptr().cast();
            let output = part.as_mut_ptr().cast();
            rank.check(rejoin_reduce_scatter(rank.0, data, 7, output, length, F64, SUM, null(), null()));
            let expected: Vec<f64> = (first..first + length).map(|at| 3.0 * at as f64 + 3.0).collect();
            assert_eq!(part, expected);

            let mut spread = [if own == 1 { 42u8 } else { 0 }; 5];
            rank.check(rejoin_broadcast(rank.0, spread.as_mut_ptr().cast(), 5, U8, 1, null(), null()));
            assert_eq!(spread, [42; 5]);

            let mut gathered = [0i32; 2 * WORLD];
            let mine = [own as i32, 10 * own as i32];
            let output = gathered.as_mut_ptr().cast();
            rank.check(rejoin_allgather(rank.0, mine.as_ptr().cast(), 2, output, I32, null(), null()));
            assert_eq!(gathered, [0, 0, 1, 10, 2, 20]);

            let mine = vec![own as i32; own as usize];
            let (mut all, mut counts) = (null(), null());
            let data = mine.as_ptr().cast();
            rank.check(rejoin_allgather_v(rank.0, data, mine.len(), I32, &mut all, &mut counts, null(), null()));
            assert_eq!(std::slice::from_raw_parts(counts, WORLD), [0, 1, 2]);
            let values: Vec<i32> = (0..3).map(|at| all.cast::<i32>().add(at).read_unaligned()).collect();
            assert_eq!(values, [1, 2, 2]);

            rank.check(rejoin_barrier(rank.0, c"barrier".as_ptr(), null()));
            rank.check(rejoin_allreduce(rank.0, null_mut(), 0, F64, SUM, null(), null()));
        }
        rank.check(rank.finish(b"model"));
    });
}

#[test]
fn input_and_output_may_be_one_buffer() {
    Job::new(WORLD as u32).all(|rank| {
        let own = rank.number() as usize;
        let mut gathered = [0f64; WORLD];
        gathered[own] = own as f64 + 1.0;
        let output: *mut f64 = gathered.as_mut_ptr();
        // SAFETY: the input is one of the output's elements.
        unsafe {
            rank.check(rejoin_allgather(rank.0, output.add(own).cast(), 1, output.cast(), F64, null(), null()));
            let mut scattered = [1.0, 2.0, 4.0];
            let data: *mut f64 = scattered.as_mut_ptr();
            rank.check(rejoin_reduce_scatter(rank.0, data.cast(), 3, data.cast(), 1, F64, SUM, null(), null()));
            assert_eq!(scattered, [3.0 * f64::from(1 << own), 2.0, 4.0]);
        }
        assert_eq!(gathered, [1.0, 2.0, 3.0]);
        rank.check(rank.finish(b""));
    });
}

/// (a, b) ∘ (c, d) = (a c, b c + d): the order matters.
unsafe extern "C" fn affine(user: *mut c_void, accumulator: *mut c_void, other: *const c_void, count: usize) -> i32 {
    let (left, right) = (accumulator.cast::<f64>(), other.cast::<f64>());
    // SAFETY: so many pairs are there; the user pointer is a counter.
    unsafe {
        *user.cast::<usize>() += count;
        for at in 0..count {
            let [a, b] = [left.add(2 * at).read_unaligned(), left.add(2 * at + 1).read_unaligned()];
            let [c, d] = [right.add(2 * at).read_unaligned(), right.add(2 * at + 1).read_unaligned()];
            left.add(2 * at).write_unaligned(a * c);
            left.add(2 * at + 1).write_unaligned(b * c + d);
        }
    }
    0
}

/// Puts one object behind the other.
unsafe extern "C" fn concatenate(
    _: *mut c_void,
    accumulator: *mut c_void,
    bytes: *mut usize,
    limit: usize,
    other: *const c_void,
    other_bytes: usize,
) -> i32 {
    // SAFETY: the accumulator has room up to the limit.
    unsafe {
        if *bytes + other_bytes > limit {
            return 9;
        }
        accumulator.cast::<u8>().add(*bytes).copy_from_nonoverlapping(other.cast(), other_bytes);
        *bytes += other_bytes;
    }
    0
}

#[test]
fn functions_of_the_callers_own_fold_from_left_to_right() {
    let folded = Job::new(WORLD as u32).all(|rank| {
        let own = f64::from(rank.number());
        let mut counted = 0usize;
        let user: *mut c_void = (&raw mut counted).cast();
        let mut pairs = [own + 1.0, own, 2.0, 1.0];
        let size = size_of::<[f64; 2]>();
        // SAFETY: buffers and texts are there.
        unsafe {
            let data = pairs.as_mut_ptr().cast();
            let name = c"affine".as_ptr();
            rank.check(rejoin_allreduce_custom(rank.0, data, 2, size, name, Some(affine), user, null(), null()));
            assert_eq!(pairs, [6.0, 5.0, 8.0, 7.0]);
            let (mut part, given) = ([0.0; 2], [2.0, own, 2.0, own, 2.0, own]);
            let (input, output) = (given.as_ptr().cast(), part.as_mut_ptr().cast());
            let fold = Some(affine as RejoinFold);
            let status =
                rejoin_reduce_scatter_custom(rank.0, input, 3, output, 1, size, name, fold, user, null(), null());
            rank.check(status);
            assert_eq!(part, [8.0, 4.0]);

            let mut object = [0u8; 20];
            let words = ["no", "", "restart"][rank.number() as usize];
            object[..words.len()].copy_from_slice(words.as_bytes());
            let (data, mut bytes) = (object.as_mut_ptr().cast(), words.len());
            let name = c"concatenate".as_ptr();
            let fold = Some(concatenate as RejoinFoldObject);
            rank.check(rejoin_allreduce_object(rank.0, data, &mut bytes, 20, name, fold, null_mut(), null(), null()));
            assert_eq!(&object[..bytes], b"norestart");
            let status = rejoin_allreduce_object(rank.0, data, &mut bytes, 20, name, None, null_mut(), null(), null());
            assert_eq!((status, rank.message().as_str()), (BAD_ARGUMENT, "fold is NULL"));
            // More than there is room for: nothing of it is read.
            for mut more in [21, usize::MAX >> 1] {
                let name = c"more".as_ptr();
                let user = null_mut();
                let status = rejoin_allreduce_object(rank.0, data, &mut more, 20, name, fold, user, null(), null());
                assert_eq!(status, BAD_ARGUMENT);
                assert!(rank.message().contains("at most 20, the limit"), "{}", rank.message());
            }
        }
        rank.check(rank.finish(b""));
        counted
    });
    assert_eq!(folded.iter().sum::<usize>(), 2 * (2 + 3), "each element is folded at one rank only");
}

#[test]
fn an_object_that_outgrows_its_limit_ends_the_job_with_the_functions_name() {
    let reported = Job::new(2).all(|rank| {
        let (mut object, mut bytes) = ([1u8; 4], 4);
        let (data, name) = (object.as_mut_ptr().cast(), c"concatenate".as_ptr());
        let fold = Some(concatenate as RejoinFoldObject);
        // SAFETY: buffers and texts are there.
        let status =
            unsafe { rejoin_allreduce_object(rank.0, data, &mut bytes, 4, name, fold, null_mut(), null(), null()) };
        (status, rank.message())
    });
    for (status, said) in reported {
        assert_eq!(status, TRAINING_FAILED, "{said}");
        assert!(said.contains("`concatenate` returned 9"), "{said}");
    }
}
