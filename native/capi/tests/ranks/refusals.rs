//! What is refused, and what ends a job, each with its reason.

use crate::job::*;
use rejoin::*;
use std::ffi::c_void;
use std::mem::size_of;
use std::ptr::{null, null_mut};

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
