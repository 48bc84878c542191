//! Ranks that call what the header declares, many of them in one process.

#[path = "../job/mod.rs"]
mod job;

mod collectives;
mod incarnations;
mod refusals;

use job::*;
use rejoin::*;
use rejoin_agent::protocol::event::Event;
use std::ptr::null;

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
