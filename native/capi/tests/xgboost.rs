//! Ranks that train with XGBoost, as C sees them: everything but XGBoost, which the tests of Python
//! (python/tests/test_xgboost.py) and of the bridge (native/xgboost) have.

mod job;

use job::*;
use rejoin::*;
use std::ffi::{c_void, CStr};
use std::mem::size_of;
use std::ptr::{null, null_mut};

const CANCELLED: i32 = 9;

fn options(version: *const std::ffi::c_char) -> RejoinXgboostOptions {
    RejoinXgboostOptions { size: size_of::<RejoinXgboostOptions>(), version, hook: 1 }
}

/// A process's handle, which the test closes, and what its start returned.
struct Process(*mut RejoinXgboostProcess, i32);

impl Process {
    fn new(job: &Job, options: &RejoinXgboostOptions, change: impl FnOnce(&mut RejoinConfig)) -> Process {
        job.with_config(c"the only one", change, |config| {
            let mut process = null_mut();
            // SAFETY: texts and bytes are there.
            let status = unsafe { rejoin_xgboost_process_start(config, options, &mut process) };
            Process(process, status)
        })
    }

    fn message(&self) -> String {
        // SAFETY: it is open.
        text(unsafe { rejoin_xgboost_process_message(self.0) })
    }

    fn join(&self, task: u32) -> (Member, i32) {
        let mut member = null_mut();
        // SAFETY: it is open.
        let status = unsafe { rejoin_xgboost_join(self.0, 0, 0, task, c"a test".as_ptr(), null(), &mut member) };
        (Member(member), status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SAFETY: it is closed once.
        unsafe { rejoin_xgboost_process_close(self.0) };
    }
}

struct Member(*mut RejoinXgboost);

impl Member {
    fn message(&self) -> String {
        // SAFETY: the text stays until the next call with the handle.
        text(unsafe { rejoin_xgboost_message(self.0) })
    }

    fn check(&self, status: i32) {
        assert_eq!(status, 0, "{}", self.message());
    }

    /// Version, round, whether complete, and the checkpoint's bytes; what only this rank had.
    fn load(&self) -> ((u32, u32, i32, Vec<u8>), Vec<u8>) {
        let (mut version, mut round, mut complete, mut data, mut bytes) = (9, 9, 9, null(), 9);
        let (mut own, mut own_bytes) = (null(), 9);
        // SAFETY: there is room for all, and the bytes are the handle's.
        unsafe {
            let loaded = rejoin_xgboost_load(self.0, &mut version, &mut round, &mut complete, &mut data, &mut bytes);
            self.check(loaded);
            self.check(rejoin_xgboost_load_own(self.0, &mut own, &mut own_bytes));
            ((version, round, complete, copied(data, bytes)), copied(own, own_bytes))
        }
    }

    fn enter(&self, version: u32, round: u32, model: &[u8], own: Option<&[u8]>, complete: i32) -> i32 {
        let mine = own.map_or(null(), |own| own.as_ptr().cast());
        let (data, bytes) = (model.as_ptr().cast(), model.len());
        let own_bytes = own.map_or(0, <[u8]>::len);
        // SAFETY: the bytes are there.
        unsafe { rejoin_xgboost_enter(self.0, version, round, data, bytes, mine, own_bytes, complete) }
    }

    fn communicator(&self) -> (String, i32) {
        let mut json = null();
        // SAFETY: there is room for a pointer.
        let status = unsafe { rejoin_xgboost_communicator(self.0, &mut json) };
        (if json.is_null() { String::new() } else { text(json) }, status)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // SAFETY: it is closed once.
        unsafe { rejoin_xgboost_close(self.0) };
    }
}

/// # Safety
/// So many bytes are there.
unsafe fn copied(data: *const c_void, bytes: usize) -> Vec<u8> {
    if data.is_null() {
        assert_eq!(bytes, 0);
        return Vec::new();
    }
    // SAFETY: as this function's.
    unsafe { std::slice::from_raw_parts(data.cast::<u8>(), bytes) }.to_vec()
}

#[test]
fn a_rank_that_comes_back_is_given_what_was_entered_and_all_that_is_known_of_it() {
    let job = Job::new(1);
    let process = Process::new(&job, &options(c"3.4.1".as_ptr()), |_| {});
    assert_eq!(process.1, 0, "{}", process.message());
    let (first, status) = process.join(0);
    first.check(status);
    assert_eq!(first.load(), ((0, 0, 0, Vec::new()), Vec::new()));
    // SAFETY: the handle is open, here and below.
    unsafe {
        let numbers =
            [rejoin_xgboost_rank(first.0), rejoin_xgboost_world(first.0), rejoin_xgboost_incarnation(first.0)];
        assert_eq!(numbers, [0, 1, 0]);
        assert_eq!((rejoin_xgboost_is_hooked(first.0), rejoin_xgboost_keeps_booster(first.0)), (0, 1));
    }
    let (json, status) = first.communicator();
    first.check(status);
    // XGBoost refuses a port that is a text.
    let port = json.split_once("\"dmlc_tracker_port\":").expect("a port").1;
    assert!(port.starts_with(|digit: char| digit.is_ascii_digit()), "{json}");
    assert!(json.contains("\"dmlc_tracker_uri\":\"127.0.0.1\"") && json.contains("\"dmlc_task_id\":\""), "{json}");
    first.check(first.enter(0, 0, b"", None, 0));
    first.check(first.enter(1, 5, b"a model", Some(b"mine"), 0));
    drop(first);

    let (second, status) = process.join(1);
    second.check(status);
    assert_eq!(second.load(), ((1, 5, 0, b"a model".to_vec()), b"mine".to_vec()));
    // SAFETY: as above.
    assert_eq!(unsafe { rejoin_xgboost_incarnation(second.0) }, 1);
    second.check(second.communicator().1);
    second.check(second.enter(1, 5, b"a model", Some(b"mine"), 0));
    // SAFETY: as above.
    second.check(unsafe { rejoin_xgboost_begin_round(second.0, 6) });
    second.check(second.enter(2, 7, b"the last", None, 1));
    // SAFETY: the bytes are there.
    second.check(unsafe { rejoin_xgboost_finish(second.0, 7, b"the last".as_ptr().cast(), 8) });
    drop(second);

    let (late, status) = process.join(2);
    assert_eq!(status, OVER);
    assert_eq!(late.communicator().1, BAD_STATE);
    assert!(late.message().contains("nothing to do"), "{}", late.message());
}

#[test]
fn more_of_its_own_than_is_kept_of_a_rank_is_refused_and_the_rank_goes_on() {
    let job = Job::new(1);
    let process = Process::new(&job, &options(c"3.4.1".as_ptr()), |_| {});
    let (first, status) = process.join(0);
    first.check(status);
    first.check(first.communicator().1);
    first.check(first.enter(0, 0, b"", None, 0));
    let most = vec![7; 262_144];
    first.check(first.enter(1, 5, b"a model", Some(&most), 0));
    assert_eq!(first.enter(2, 6, b"the next", Some(&vec![7; 262_145]), 0), BAD_ARGUMENT);
    assert!(first.message().contains("262145 bytes that only this rank has"), "{}", first.message());
    first.check(first.enter(2, 6, b"the next", Some(&most), 0));
    drop(first);
    let (second, status) = process.join(1);
    second.check(status);
    assert_eq!(second.load(), ((2, 6, 0, b"the next".to_vec()), most));
}

#[test]
fn a_checkpoint_that_is_another_one_than_before_is_refused() {
    let job = Job::new(1);
    let process = Process::new(&job, &options(c"3.2.0".as_ptr()), |_| {});
    let (first, status) = process.join(0);
    first.check(status);
    // SAFETY: the handle is open.
    assert_eq!(unsafe { rejoin_xgboost_keeps_booster(first.0) }, 0);
    first.check(first.communicator().1);
    first.check(first.enter(0, 0, b"", None, 0));
    first.check(first.enter(1, 5, b"a model", None, 0));
    drop(first);
    let (second, status) = process.join(1);
    second.check(status);
    second.check(second.communicator().1);
    assert_eq!(second.enter(1, 5, b"another", None, 0), MISMATCH);
    assert!(second.message().contains("other bytes than it was given"), "{}", second.message());
}

#[test]
fn what_cannot_be_used_is_refused_by_name_before_anything_is_started() {
    let job = Job::new(1);
    let refused = |options: &RejoinXgboostOptions, change: &dyn Fn(&mut RejoinConfig)| {
        let process = Process::new(&job, options, change);
        let (member, status) = process.join(0);
        assert_eq!(status, BAD_STATE, "{}", member.message());
        (process.1, process.message())
    };
    let nothing = |_: &mut RejoinConfig| {};
    let (status, said) = refused(&options(null()), &nothing);
    assert!(status == BAD_ARGUMENT && said.contains("version is NULL"), "{said}");
    let (status, said) = refused(&options(c"2.1.4".as_ptr()), &nothing);
    assert!(status == INCOMPATIBLE && said.contains("XGBoost \"2.1.4\" is not supported"), "{said}");
    let (status, said) = refused(&RejoinXgboostOptions { hook: 7, ..options(c"3.2.0".as_ptr()) }, &nothing);
    assert!(status == BAD_ARGUMENT && said.contains("hook 7 is unknown"), "{said}");
    let (status, said) = refused(&RejoinXgboostOptions { size: 3, ..options(c"3.2.0".as_ptr()) }, &nothing);
    assert!(status == BAD_ARGUMENT && said.contains("REJOIN_XGBOOST_OPTIONS_INIT"), "{said}");
}

#[test]
fn a_rank_that_is_freed_by_another_thread_says_why_and_an_abandoned_one_ends_the_job_with_its_reason() {
    let job = Job::new(1);
    let process = Process::new(&job, &options(c"3.2.0".as_ptr()), |_| {});
    let (first, status) = process.join(0);
    first.check(status);
    first.check(first.communicator().1);
    // SAFETY: the handle is open.
    first.check(unsafe { rejoin_xgboost_failure(first.0) });
    let handle = first.0 as usize;
    let free = |status, reason: &CStr| {
        let reason = reason.to_owned();
        // SAFETY: any thread may free an open handle.
        let call = move || unsafe { rejoin_xgboost_free(handle as *const RejoinXgboost, status, reason.as_ptr()) };
        std::thread::spawn(call).join().expect("no panic")
    };
    assert_eq!(free(0, c"no failure"), BAD_ARGUMENT);
    first.check(free(CANCELLED, c"the user has had enough"));
    assert_eq!(first.enter(0, 0, b"", None, 0), CANCELLED);
    // SAFETY: as above.
    assert_eq!(unsafe { rejoin_xgboost_failure(first.0) }, CANCELLED);
    assert_eq!(first.message(), "the user has had enough");
    drop(first);

    let (second, status) = process.join(1);
    second.check(status);
    // SAFETY: as above.
    second.check(unsafe { rejoin_xgboost_abandon(second.0, TRAINING_FAILED, c"bad labels".as_ptr()) });
    assert_eq!(second.communicator().1, BAD_STATE);
    let (third, status) = process.join(2);
    assert_eq!(status, TRAINING_FAILED);
    assert!(third.message().contains("bad labels"), "{}", third.message());
}
