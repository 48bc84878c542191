//! Ranks that come back, with what they start from.

use crate::job::*;
use rejoin::*;
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::ids::Version;
use std::ffi::{c_void, CString};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

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
