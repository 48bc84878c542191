//! Ranks that call what the header declares, many of them in one process.

mod job;

use job::*;
use rejoin::*;
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::ids::Version;
use std::ffi::{c_void, CString};
use std::mem::size_of;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

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
fn the_settings_of_logs_are_the_processs_and_an_error_names_them() {
    let job = Job::new(1);
    let process = job.process_with(c"the only one", |config| (config.log_memory, config.log_disk) = (20_000, 1));
    let (rank, status) = job.join(process, 0, 0);
    rank.check(status);
    let failed = (0..10).find_map(|_| {
        let status = rank.allreduce(&mut [1.0; 1000], F64, SUM, c"sum");
        (status != 0).then_some(status)
    });
    assert_eq!(failed, Some(11), "OUT_OF_SPACE was expected: 8 KB each don't fit into 20");
    let said = rank.message();
    assert!(said.contains("20000") && said.contains("log_memory"), "{said}");
    // SAFETY: it is closed once.
    unsafe { rejoin_process_close(process) };
}

#[test]
fn a_process_with_another_number_of_copies_of_own_models_is_refused_with_both() {
    let job = Job::new(1);
    let first = job.process_with(c"first", |config| config.own_copies = 1);
    let (rank, status) = job.join(first, 0, 0);
    rank.check(status);
    let other = job.process_with(c"other", |_| {});
    let (refused, status) = job.join(other, 0, 1);
    assert_eq!(status, INCOMPATIBLE);
    let said = refused.message();
    assert!(said.contains("own_copies 1;") && said.contains("own_copies 2;"), "{said}");
    rank.check(rank.finish(b"model"));
    // SAFETY: each is closed once.
    unsafe {
        rejoin_process_close(first);
        rejoin_process_close(other);
    }
}

#[test]
fn when_all_processes_are_gone_those_who_come_go_on_from_the_durable_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = CString::new(folder.path().display().to_string()).expect("no zero byte");
    let job = Job::new(1);
    let live = |executor: &std::ffi::CStr, task, work: &dyn Fn(&Rank)| {
        let process = job.process_with(executor, |config| (config.durable, config.durable_every) = (path.as_ptr(), 2));
        let (rank, status) = job.join(process, 0, task);
        rank.check(status);
        work(&rank);
        drop(rank);
        // SAFETY: it is closed once.
        unsafe { rejoin_process_close(process) };
    };
    live(c"one", 0, &|rank| {
        for model in [b"first", b"secnd", b"third"] {
            // SAFETY: the bytes are there.
            rank.check(unsafe { rejoin_checkpoint(rank.0, model.as_ptr().cast(), model.len(), null()) });
        }
        job.until("version 2 is durable", |event| matches!(event, Event::DurableWritten { version: Version(2), .. }));
    });
    live(c"another", 1, &|rank| {
        let (mut version, mut model, mut bytes) = (0, null(), 0);
        // SAFETY: there is room for all.
        unsafe {
            rank.check(rejoin_load(rank.0, &mut version, &mut model, &mut bytes));
            assert_eq!((version, std::slice::from_raw_parts(model.cast::<u8>(), bytes)), (2, &b"secnd"[..]));
        }
        rank.check(rank.finish(b"end"));
    });
}

#[test]
fn what_a_rank_prints_reaches_the_job_from_a_thread_of_its_own_until_it_has_ended() {
    let job = Job::new(1);
    let process = job.process(c"talks");
    let (rank, status) = job.join(process, 0, 0);
    rank.check(status);
    let print = |said: &'static std::ffi::CStr| {
        let handle = rank.0 as usize;
        // SAFETY: any thread may print with an open handle.
        let call = move || unsafe { rejoin_print(handle as *const _, said.as_ptr()) };
        std::thread::spawn(call).join().expect("no panic")
    };
    rank.check(print(c"good \xc3\xa4ftern"));
    job.until("what it has printed", |event| matches!(event, Event::Printed { text, .. } if text == "good äftern"));
    assert_eq!(print(c"\xff"), BAD_ARGUMENT);
    rank.check(rank.finish(b""));
    // SAFETY: it is closed once; the others are NULL.
    unsafe {
        rejoin_process_close(process);
        assert_eq!(rejoin_print(null(), c"nobody".as_ptr()), BAD_ARGUMENT);
    }
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

/// One incarnation: a boot collective, and versions up to the second; how often its input was prepared.
fn live(rank: &Rank, starts_at: u32, dies_in: u32, in_version_1: impl Fn()) -> u32 {
    let (mut version, mut model, mut bytes, mut prepared) = (9, null(), 9, 0u32);
    // SAFETY: all pointers are to what is there.
    unsafe {
        rank.check(rejoin_load(rank.0, &mut version, &mut model, &mut bytes));
        assert_eq!((version, rejoin_version(rank.0)), (starts_at, starts_at));
        let loaded = if bytes == 0 { &[] } else { std::slice::from_raw_parts(model.cast::<u8>(), bytes) };
        assert_eq!(loaded, vec![7; starts_at as usize]);
        let mut options = no_options();
        (options.boot, options.boot_name) = (2, c"cuts".as_ptr());
        options.prepare = Some(ones);
        options.prepare_user = (&raw mut prepared).cast();
        let mut values = [0.0; 4];
        let data: *mut c_void = values.as_mut_ptr().cast();
        rank.check(rejoin_allreduce(rank.0, data, 4, F64, SUM, null(), &options));
        assert_eq!(values, [2.0; 4]);
        for version in version..2 {
            let mut one = [1.0];
            // A rank that has the result knows that the other one is in this version, too.
            rank.check(rank.allreduce(&mut one, F64, SUM, c""));
            assert_eq!(one, [2.0]);
            if version == dies_in {
                return prepared;
            }
            if version == 1 {
                in_version_1();
            }
            let model = vec![7u8; version as usize + 1];
            rank.check(rejoin_checkpoint(rank.0, model.as_ptr().cast(), model.len(), null()));
            assert_eq!(rejoin_version(rank.0), version + 1);
        }
        rank.check(rank.finish(b"the end"));
        assert_eq!(rejoin_version(rank.0), 2);
        let error = rejoin_barrier(rank.0, null(), null());
        assert_eq!((error, rank.message().as_str()), (BAD_STATE, "this communicator has reported its end"));
    }
    prepared
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

#[test]
fn versions_models_and_boot_collectives_outlive_an_incarnation() {
    let job = Job::new(2);
    let job = &job;
    let join = move |executor: &'static std::ffi::CStr, rank, task| {
        let process = job.process(executor);
        let (rank, status) = job.join(process, rank, task);
        rank.check(status);
        // The communicator outlives what it was made of.
        // SAFETY: it is closed once.
        unsafe { rejoin_process_close(process) };
        rank
    };
    // Rank 1 stays in version 1 until the second incarnation of rank 0 has started there.
    let (started, is_started) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let wait = || is_started.recv().expect("the other one starts again");
            assert_eq!(live(&join(c"one", 1, 0), 0, 9, wait), 1, "it has to prepare its input");
        });
        assert_eq!(live(&join(c"zero", 0, 0), 0, 1, || {}), 1);
        let second = join(c"zero again", 0, 1);
        started.send(()).expect("the other one waits");
        // SAFETY: it is open.
        assert_eq!(unsafe { rejoin_incarnation(second.0) }, 1);
        assert_eq!(live(&second, 1, 9, || {}), 0, "it is handed the recorded result");
    });
}

/// A snapshot that counts.
struct Snapshot {
    asked: AtomicU32,
    released: AtomicU32,
}

unsafe extern "C" fn supply(user: *mut c_void, into: *mut RejoinBytes) -> i32 {
    // SAFETY: the test hands a snapshot over, and the library its own.
    unsafe {
        (*user.cast::<Snapshot>()).asked.fetch_add(1, Ordering::SeqCst);
        rejoin_supply(into, b"lazy".as_ptr().cast(), 4);
    }
    0
}

unsafe extern "C" fn release(user: *mut c_void) {
    // SAFETY: as above.
    unsafe { (*user.cast::<Snapshot>()).released.fetch_add(1, Ordering::SeqCst) };
}

#[test]
fn a_lazy_checkpoint_is_made_for_the_rank_that_comes_back_and_released_in_the_end() {
    let job = Job::new(2);
    let snapshots = [0, 1].map(|_| Snapshot { asked: 0.into(), released: 0.into() });
    let join = |executor: &std::ffi::CStr, rank: u32, task| {
        let process = job.process(executor);
        let (handle, status) = job.join(process, rank, task);
        handle.check(status);
        // SAFETY: it is closed once.
        unsafe { rejoin_process_close(process) };
        handle
    };
    let checkpoint = |rank: &Rank| {
        let snapshot = &snapshots[rank.number() as usize];
        let user: *mut c_void = std::ptr::from_ref(snapshot).cast_mut().cast();
        // SAFETY: the snapshots live until the end of the test.
        unsafe { rejoin_checkpoint_lazy(rank.0, Some(supply), Some(release), user, null()) }
    };
    let meet = |rank: &Rank| rank.check(rank.allreduce(&mut [1.0], F64, SUM, c""));
    std::thread::scope(|scope| {
        let (join, checkpoint, meet) = (&join, &checkpoint, &meet);
        scope.spawn(move || {
            let rank = join(c"one", 1, 0);
            rank.check(checkpoint(&rank));
            meet(&rank);
            meet(&rank);
            rank.check(rank.finish(b"end"));
        });
        let first = join(c"zero", 0, 0);
        first.check(checkpoint(&first));
        meet(&first);
        drop(first);
        let second = join(c"zero again", 0, 1);
        let (mut version, mut model, mut bytes) = (0, null(), 0);
        // SAFETY: there is room for all.
        unsafe {
            second.check(rejoin_load(second.0, &mut version, &mut model, &mut bytes));
            assert_eq!((version, std::slice::from_raw_parts(model.cast::<u8>(), bytes)), (1, &b"lazy"[..]));
            assert_eq!(rejoin_checkpoint_lazy(second.0, None, None, null_mut(), null()), BAD_ARGUMENT);
        }
        meet(&second);
        meet(&second);
        second.check(second.finish(b"end"));
    });
    assert!(snapshots[1].asked.load(Ordering::SeqCst) >= 1, "a rank needed it");
    assert_eq!(snapshots.map(|snapshot| snapshot.released.into_inner()), [1, 1]);
}

#[test]
fn a_model_of_its_own_comes_back_with_the_rank() {
    let job = Job::new(3);
    let join = |executor: &std::ffi::CStr, rank: u32, task| {
        let process = job.process(executor);
        let (handle, status) = job.join(process, rank, task);
        handle.check(status);
        // SAFETY: it is closed once.
        unsafe { rejoin_process_close(process) };
        handle
    };
    let checkpoint = |rank: &Rank| {
        let (model, own) = (b"shared", [rank.number() as u8; 5]);
        let (model, own) = ((model.as_ptr().cast(), model.len()), (own.as_ptr().cast(), own.len()));
        // SAFETY: the bytes are there.
        rank.check(unsafe { rejoin_checkpoint_with_own(rank.0, model.0, model.1, own.0, own.1, null()) });
    };
    let meet = |rank: &Rank| rank.check(rank.allreduce(&mut [1.0], F64, SUM, c""));
    std::thread::scope(|scope| {
        let (join, checkpoint, meet) = (&join, &checkpoint, &meet);
        for (executor, number) in [(c"one", 1), (c"two", 2)] {
            scope.spawn(move || {
                let rank = join(executor, number, 0);
                checkpoint(&rank);
                meet(&rank);
                meet(&rank);
                rank.check(rank.finish(b"end"));
            });
        }
        let first = join(c"zero", 0, 0);
        checkpoint(&first);
        meet(&first);
        drop(first);
        let second = join(c"zero again", 0, 1);
        let (mut own, mut bytes) = (null(), 0);
        // SAFETY: there is room for both.
        unsafe {
            second.check(rejoin_load_own(second.0, &mut own, &mut bytes));
            assert_eq!(std::slice::from_raw_parts(own.cast::<u8>(), bytes), [0; 5]);
        }
        meet(&second);
        meet(&second);
        second.check(second.finish(b"end"));
    });
}

#[test]
fn what_cannot_be_is_refused_with_a_text_and_the_handle_stays_usable() {
    Job::new(1).all(|rank| {
        let mut one = [1.0f64];
        let refused = |status: i32, said: &str| {
            assert_eq!(status, BAD_ARGUMENT);
            assert!(rank.message().contains(said), "{said:?} was expected in {:?}", rank.message());
        };
        refused(rank.allreduce(&mut one, 12, SUM, c""), "element 12 is unknown");
        refused(rank.allreduce(&mut one, F64, 7, c""), "reduction 7 is unknown");
        refused(rank.allreduce(&mut one, F64, 4, c""), "not defined for f64");
        let data: *mut c_void = one.as_mut_ptr().cast();
        // SAFETY: nothing that is refused is read.
        unsafe {
            refused(rejoin_allreduce(rank.0, null_mut(), 3, F64, SUM, null(), null()), "buffer is NULL, but 24 bytes");
            refused(rejoin_allreduce(rank.0, data, usize::MAX, F64, SUM, null(), null()), "more than an address space");
            refused(rejoin_broadcast(rank.0, data, 1, F64, 5, null(), null()), "rank 5");
            let mut options = no_options();
            options.boot = 1;
            refused(rejoin_barrier(rank.0, null(), &options), "REJOIN_HERE");
            options.boot = 2;
            refused(rejoin_barrier(rank.0, null(), &options), "boot_name");
            options = no_options();
            options.prepare = Some(ones);
            refused(rejoin_barrier(rank.0, null(), &options), "no prepare function");
            refused(rejoin_allgather(rank.0, data, 1, data, F64, null(), &options), "must not overlap");
            refused(rejoin_barrier(rank.0, c"\xff".as_ptr(), null()), "not UTF-8");
            refused(rejoin_abandon(rank.0, 0, null()), "status 0 is unknown");
            assert_eq!(rejoin_barrier(null_mut(), null(), null()), BAD_ARGUMENT);
            assert_eq!(text(rejoin_message(null())), "the handle is NULL");
            assert_eq!(rejoin_join_launched(null(), null(), null_mut()), BAD_ARGUMENT);
        }
        rank.check(rank.allreduce(&mut one, F64, SUM, c""));
        rank.check(rank.finish(b""));
    });
}

#[test]
fn different_calls_are_named_with_their_sites_at_every_rank() {
    let reported = Job::new(2).all(|rank| {
        let mut values = [0.0; 4];
        let mine = if rank.number() == 0 { &mut values[..3] } else { &mut values[..] };
        let site = if rank.number() == 0 { c"one.c:10" } else { c"two.c:20" };
        let status = rank.allreduce(mine, F64, SUM, site);
        let said = rank.message();
        assert_eq!(rank.allreduce(&mut [0.0], F64, SUM, site), BAD_STATE);
        assert!(rank.message().contains("of no more use"), "{}", rank.message());
        (status, said)
    });
    for (status, said) in reported {
        assert_eq!(status, MISMATCH);
        for word in ["allreduce(3 f64, sum)", "one.c:10", "allreduce(4 f64, sum)", "two.c:20"] {
            assert!(said.contains(word), "{word} was expected in {said}");
        }
    }
}

#[test]
fn a_prepare_function_that_fails_ends_the_job_at_every_rank() {
    let reported = Job::new(2).all(|rank| {
        let mut options = no_options();
        // Both are there before the job ends; the other one may hear of that in its first call already.
        // SAFETY: NULL is allowed.
        let met = unsafe { rejoin_barrier(rank.0, null(), null()) };
        if met != 0 {
            return (met, rank.message());
        }
        options.prepare = (rank.number() == 1).then_some(fails as _);
        let mut values = [0.0; 4];
        let data: *mut c_void = values.as_mut_ptr().cast();
        // SAFETY: the values are there.
        let status = unsafe { rejoin_allreduce(rank.0, data, 4, F64, SUM, c"here.c:1".as_ptr(), &options) };
        (status, rank.message())
    });
    for (status, said) in reported {
        assert_eq!(status, TRAINING_FAILED, "{said}");
        assert!(said.contains("the prepare function of a buffer of 32 bytes returned 7"), "{said}");
    }
}

#[test]
fn a_rank_that_is_abandoned_for_good_ends_the_job_with_its_reason() {
    let reported = Job::new(2).all(|rank| {
        // SAFETY: NULL is allowed.
        let met = unsafe { rejoin_barrier(rank.0, null(), null()) };
        if met != 0 {
            return (met, rank.message());
        }
        if rank.number() == 1 {
            // SAFETY: the texts are there.
            rank.check(unsafe { rejoin_abandon(rank.0, TRAINING_FAILED, c"the data are upside down".as_ptr()) });
        }
        // SAFETY: as above.
        let status = unsafe { rejoin_barrier(rank.0, null(), null()) };
        (status, rank.message())
    });
    assert_eq!(reported[0].0, TRAINING_FAILED, "{}", reported[0].1);
    assert!(reported[0].1.contains("the data are upside down"), "{}", reported[0].1);
    assert_eq!(reported[1], (BAD_STATE, "this communicator was abandoned".into()));
}

#[test]
fn the_version_is_read_while_another_thread_waits_in_a_collective() {
    let job = &Job::new(2);
    let (called, is_called) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let process = job.process(c"the only one") as usize;
        let join = move |rank| {
            let (rank, status) = job.join(process as *mut RejoinProcess, rank, 0);
            rank.check(status);
            rank
        };
        let one = scope.spawn(move || join(1));
        let zero = join(0);
        let one = one.join().expect("it joins");
        let handle = zero.0 as usize;
        let waits = scope.spawn(move || {
            let mut options = no_options();
            options.prepare = Some(tells);
            options.prepare_user = (&raw const called).cast_mut().cast();
            let mut value = [1.0f64];
            let data: *mut c_void = value.as_mut_ptr().cast();
            // SAFETY: the value is there.
            zero.check(unsafe { rejoin_allreduce(zero.0, data, 1, F64, SUM, null(), &options) });
            zero.check(zero.finish(b""));
        });
        is_called.recv().expect("it is in its collective");
        let (reported, version) = std::sync::mpsc::channel();
        scope.spawn(move || {
            // SAFETY: it is open until the other rank has made its call.
            reported.send(unsafe { rejoin_version(handle as *mut RejoinCommunicator) }).expect("the test waits for it");
        });
        let version = version.recv_timeout(std::time::Duration::from_secs(15));
        one.check(one.allreduce(&mut [1.0], F64, SUM, c""));
        one.check(one.finish(b""));
        waits.join().expect("it ends");
        assert_eq!(version, Ok(0), "it is read at once");
        // SAFETY: it is closed once.
        unsafe { rejoin_process_close(process as *mut RejoinProcess) };
    });
}

/// A prepare function that says that the call is under way.
unsafe extern "C" fn tells(user: *mut c_void, _: *mut c_void, _: usize) -> i32 {
    // SAFETY: the test hands a sender over.
    unsafe { (*user.cast::<std::sync::mpsc::Sender<()>>()).send(()).expect("the test waits for it") };
    0
}

#[test]
fn a_rank_that_was_not_sent_back_does_not_join_again_and_goes_on() {
    Job::new(1).all(|rank| {
        // SAFETY: the handle is open, and NULL is allowed.
        let (refused, none) = unsafe { (rejoin_join_again(rank.0), rejoin_join_again(null_mut())) };
        assert_eq!((refused, none), (BAD_STATE, BAD_ARGUMENT));
        assert!(rank.message().contains("no call has failed"), "{}", rank.message());
        rank.check(rank.allreduce(&mut [1.0], F64, SUM, c""));
        rank.check(rank.finish(b""));
    });
}

#[test]
fn a_call_before_load_and_a_load_after_a_checkpoint_are_refused_and_end_the_job() {
    let job = Job::new(1);
    let process = job.process(c"the only one");
    let mut handle = null_mut();
    // SAFETY: the process is open, and there is room for the handle.
    unsafe { assert_eq!(rejoin_join(process, 0, 0, 0, c"a test".as_ptr(), null(), &mut handle), 0) };
    let rank = Rank(handle);
    assert_eq!(rank.allreduce(&mut [1.0], F64, SUM, c"train.c:12"), BAD_STATE);
    let said = rank.message();
    for text in ["allreduce(1 f64, sum) at train.c:12", "rejoin_load() first", "options.boot = REJOIN_BOOT_BY_SITE"] {
        assert!(said.contains(text), "{text} in {said}");
    }
    drop(rank);
    let (ended, status) = job.join(process, 0, 1);
    assert_eq!(status, BAD_STATE, "the same try would fail again: {}", ended.message());
    assert!(ended.message().contains("train.c:12"), "{}", ended.message());
    // SAFETY: it is closed once.
    unsafe { rejoin_process_close(process) };

    Job::new(1).all(|rank| {
        // SAFETY: no bytes are there.
        rank.check(unsafe { rejoin_checkpoint(rank.0, null(), 0, null()) });
        let (mut version, mut model, mut bytes) = (9, null(), 9);
        // SAFETY: there is room for all.
        assert_eq!(unsafe { rejoin_load(rank.0, &mut version, &mut model, &mut bytes) }, BAD_STATE);
        assert!(rank.message().contains("it is in version 1"), "{}", rank.message());
        assert_eq!((version, bytes), (9, 9), "nothing is handed out");
    });
}

#[test]
fn who_comes_after_the_end_is_told_that_it_is_over() {
    let job = Job::new(1);
    let process = job.process(c"the only one");
    let (rank, status) = job.join(process, 0, 0);
    rank.check(status);
    rank.check(rank.finish(b"model"));
    drop(rank);
    let (late, status) = job.join(process, 0, 1);
    assert_eq!(status, OVER, "{}", late.message());
    assert_eq!(late.message(), "");
    // SAFETY: handle and process are open.
    unsafe {
        assert_eq!(rejoin_barrier(late.0, null(), null()), BAD_STATE);
        assert!(late.message().contains("the job was over"));
        rejoin_process_close(process);
        rejoin_process_close(null_mut());
        rejoin_close(null_mut());
    }
}

#[test]
fn a_process_that_nobody_launched_is_told_how_to_be() {
    let mut handle = null_mut();
    // SAFETY: there is room for the handle.
    let status = unsafe { rejoin_join_launched(c"alone".as_ptr(), null(), &mut handle) };
    let rank = Rank(handle);
    assert_eq!(status, BAD_STATE);
    assert!(rank.message().contains("rejoin run"), "{}", rank.message());
    // SAFETY: as above.
    assert_eq!(unsafe { rejoin_barrier(rank.0, null(), null()) }, BAD_STATE);
    assert!(rank.message().contains("join has failed"), "{}", rank.message());
}

#[test]
fn a_configuration_that_cannot_be_used_says_which_part() {
    let mut process = null_mut();
    let config = RejoinConfig {
        size: size_of::<RejoinConfig>(),
        job: c"12".as_ptr(),
        secret: null(),
        tracker: null(),
        listen: null(),
        ports: null(),
        host: null(),
        executor: null(),
        encrypt: 0,
        tracker_timeout_millis: 0,
        log_memory: 0,
        log_disk: 0,
        spill: null(),
        durable: null(),
        durable_every: 0,
        own_copies: 0,
    };
    // SAFETY: what is not NULL is there.
    unsafe {
        assert_eq!(rejoin_process_start(&config, &mut process), BAD_ARGUMENT);
        let said = text(rejoin_process_message(process));
        assert_eq!(said, "config.job is \"12\"; expected 32 hexadecimal digits");
        let mut handle = null_mut();
        assert_eq!(rejoin_join(process, 0, 0, 0, null(), null(), &mut handle), BAD_STATE);
        drop(Rank(handle));
        rejoin_process_close(process);
    }
}

#[test]
fn numbers_have_names_sizes_and_digests_are_the_engines() {
    assert_eq!(text(rejoin_status_name(0)), "OK");
    assert_eq!(text(rejoin_status_name(MISMATCH)), "MISMATCH");
    assert_eq!(text(rejoin_status_name(OVER)), "OVER");
    assert_eq!(text(rejoin_status_name(63)), "UNKNOWN");
    assert_eq!(text(rejoin_status_name(-1)), "UNKNOWN");
    assert_eq!((rejoin_status_will_repeat(MISMATCH), rejoin_status_will_repeat(10)), (1, 0));
    assert_eq!((rejoin_element_bytes(F64), rejoin_element_bytes(9), rejoin_element_bytes(12)), (8, 2, 0));
    assert_eq!(text(rejoin_library_version()), env!("CARGO_PKG_VERSION"));
    let mut digest = [1; 33];
    // SAFETY: there is room for 33.
    unsafe { rejoin_digest(b"abc".as_ptr().cast(), 3, digest.as_mut_ptr()) };
    assert_eq!(text(digest.as_ptr()), format!("{:032x}", rejoin_agent::digest(b"abc")));
    // SAFETY: texts are there.
    unsafe {
        assert_eq!(rejoin_log_level(c"loud".as_ptr()), BAD_ARGUMENT);
        assert_eq!(rejoin_log_level(c"off".as_ptr()), 0);
    }
}
