//! A tracker that is opened by what the header declares, with ranks in this process.

mod job;

use job::{text, BAD_ARGUMENT, BAD_STATE};
use rejoin::*;
use std::ffi::{CStr, CString};
use std::mem::size_of;
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

const OK: i32 = 0;
const MEMBERS_MISSING: i32 = 6;
const CANCELLED: i32 = 9;
const IO: i32 = 10;
const INTERNAL: i32 = 15;

fn config(world: u32) -> RejoinTrackerConfig {
    RejoinTrackerConfig {
        size: size_of::<RejoinTrackerConfig>(),
        world,
        job: null(),
        secret: null(),
        listen: null(),
        ports: null(),
        encrypt: 0,
        name: null(),
        join_file: null(),
        deaths: 0,
        lost_after_millis: 0,
        members_millis: 30_000,
        min: 0,
        max: 0,
        elastic_timeout_millis: 0,
        resize_interval_millis: 0,
        most_resizes: 0,
        own_may_be_lost: 0,
    }
}

/// A handle, which is closed at the end.
struct Tracker(*mut RejoinTracker);

// SAFETY: any thread may use it.
unsafe impl Sync for Tracker {}
// SAFETY: as above.
unsafe impl Send for Tracker {}

impl Tracker {
    fn open(change: impl FnOnce(&mut RejoinTrackerConfig)) -> (Tracker, i32) {
        let mut asked = config(1);
        change(&mut asked);
        let mut handle = null_mut();
        // SAFETY: the texts are there.
        let status = unsafe { rejoin_tracker_open(&asked, &mut handle) };
        (Tracker(handle), status)
    }

    fn message(&self) -> String {
        // SAFETY: the handle is open, here and below.
        text(unsafe { rejoin_tracker_message(self.0) })
    }

    fn poll(&self, millis: u64) -> (i32, Option<String>) {
        let mut event = c"not written".as_ptr();
        // SAFETY: see above.
        let status = unsafe { rejoin_tracker_poll(self.0, millis, &mut event) };
        (status, (!event.is_null()).then(|| text(event)))
    }

    /// All that is left, and how it ended.
    fn rest(&self) -> (i32, Vec<String>) {
        let (mut events, deadline) = (Vec::new(), Instant::now() + Duration::from_secs(40));
        while Instant::now() < deadline {
            match self.poll(100) {
                (OK, event) => events.extend(event),
                (status, event) => {
                    assert_eq!(event, None, "a status comes without an event");
                    return (status, events);
                }
            }
        }
        panic!("the job never ended; {events:?}");
    }

    fn result(&self) -> (i32, Vec<u8>) {
        let (mut model, mut length) = (null(), 0);
        // SAFETY: see above, and the bytes are the handle's.
        unsafe {
            let status = rejoin_tracker_result(self.0, &mut model, &mut length);
            let bytes = if length == 0 { &[] } else { std::slice::from_raw_parts(model.cast::<u8>(), length) };
            (status, bytes.to_vec())
        }
    }

    fn cancel(&self, failure: i32, reason: &CStr) -> i32 {
        // SAFETY: see above.
        unsafe { rejoin_tracker_cancel(self.0, failure, reason.as_ptr()) }
    }

    /// A rank in this process that joins and finishes with this.
    fn train(&self, model: &[u8]) {
        // SAFETY: see above, and the texts and bytes are there.
        unsafe {
            let asked = RejoinConfig {
                size: size_of::<RejoinConfig>(),
                job: rejoin_tracker_job(self.0),
                secret: rejoin_tracker_secret(self.0),
                tracker: rejoin_tracker_address(self.0),
                executor: c"the only one".as_ptr(),
                listen: null(),
                ports: null(),
                host: null(),
                encrypt: 0,
                tracker_timeout_millis: 0,
                log_memory: 0,
                log_disk: 0,
                spill: null(),
                durable: null(),
                durable_every: 0,
                own_copies: 0,
            };
            let (mut process, mut ranks) = (null_mut(), null_mut());
            assert_eq!(rejoin_process_start(&asked, &mut process), OK, "{}", text(rejoin_process_message(process)));
            assert_eq!(rejoin_join(process, 0, 0, 0, c"".as_ptr(), null(), &mut ranks), OK);
            rejoin_process_close(process);
            let (mut version, mut before, mut length) = (0, null(), 0);
            assert_eq!(rejoin_load(ranks, &mut version, &mut before, &mut length), OK);
            assert_eq!(rejoin_finish(ranks, model.as_ptr().cast(), model.len()), OK, "{}", text(rejoin_message(ranks)));
            rejoin_close(ranks);
        }
    }
}

impl Drop for Tracker {
    fn drop(&mut self) {
        // SAFETY: it is closed once, and no call is under way.
        unsafe { rejoin_tracker_close(self.0) };
    }
}

fn opened(change: impl FnOnce(&mut RejoinTrackerConfig)) -> Tracker {
    let (tracker, status) = Tracker::open(change);
    assert_eq!(status, OK, "{}", tracker.message());
    tracker
}

#[test]
fn a_job_ends_with_its_result_after_all_its_events() {
    let (job, secret) = (CString::new("0123456789abcdef".repeat(2)).expect("digits"), [7u8; 32]);
    for model in [&b"the model"[..], b""] {
        let tracker = opened(|config| (config.job, config.secret) = (job.as_ptr(), secret.as_ptr()));
        // SAFETY: the handle is open.
        assert_eq!(text(unsafe { rejoin_tracker_job(tracker.0) }).as_bytes(), job.as_bytes());
        assert_eq!(tracker.poll(0), (OK, None));
        assert_eq!(tracker.result().0, BAD_STATE);
        assert!(tracker.message().contains("has not ended"), "{}", tracker.message());
        tracker.train(model);
        let (status, events) = tracker.rest();
        assert_eq!(status, 64, "REJOIN_OVER: {}", tracker.message());
        assert!(events.iter().any(|event| event.starts_with("{\"RankFinished\":{\"rank\":0,")), "{events:?}");
        assert!(events.iter().any(|event| event.starts_with("{\"JobEnded\":{\"digest\":\"")), "{events:?}");
        assert_eq!(tracker.poll(60_000), (64, None), "again and again, and at once");
        assert_eq!(tracker.result(), (OK, model.to_vec()));
    }
}

#[test]
fn a_job_that_fails_says_why_again_and_again_and_has_no_result() {
    let tracker = opened(|config| (config.world, config.members_millis) = (2, 500));
    let (status, events) = tracker.rest();
    assert_eq!(status, MEMBERS_MISSING);
    assert!(events.iter().any(|event| event.starts_with("{\"JobFailed\":")), "{events:?}");
    for (status, said) in [(tracker.poll(0).0, tracker.message()), (tracker.result().0, tracker.message())] {
        assert_eq!(status, MEMBERS_MISSING);
        assert!(said.contains("rank"), "{said}");
    }
    // SAFETY: the handle is open.
    assert_eq!(unsafe { rejoin_tracker_is_over(tracker.0) }, 1);
}

#[test]
fn another_thread_cancels_the_job_while_one_polls_and_a_second_one_that_polls_is_refused() {
    let tracker = opened(|_| {});
    let handle = &tracker;
    std::thread::scope(|scope| {
        let poller = scope.spawn(move || loop {
            match handle.poll(20_000).0 {
                // An event; or the other one was first.
                OK | BAD_STATE => {}
                ended => break ended,
            }
        });
        let deadline = Instant::now() + Duration::from_secs(20);
        while handle.poll(0).0 != BAD_STATE {
            assert!(Instant::now() < deadline, "the other one never polls");
        }
        assert_eq!(handle.cancel(CANCELLED, c"enough"), OK);
        assert_eq!(poller.join().expect("no panic"), CANCELLED);
    });
    assert_eq!(tracker.poll(0).0, CANCELLED);
    assert!(tracker.message().contains("enough"), "{}", tracker.message());
    // SAFETY: the handle is open.
    let told = unsafe { rejoin_tracker_notify(tracker.0, c"nobody".as_ptr(), null()) };
    assert_eq!((told, tracker.cancel(INTERNAL, c"too late")), (OK, OK), "after the end it does nothing");
    assert_eq!(tracker.poll(0).0, CANCELLED);
}

#[test]
fn what_cannot_be_is_refused_by_its_name_and_the_handle_says_so_until_it_is_closed() {
    let here = tempfile::tempdir().expect("a folder");
    let no_join_file = CString::new(here.path().join("nowhere/join").display().to_string()).expect("a path");
    type Change<'a> = &'a dyn Fn(&mut RejoinTrackerConfig);
    let cases: [(Change, i32, &str); 10] = [
        (&|config| config.world = 0, BAD_ARGUMENT, "config.world is 0"),
        (&|config| config.world = 5000, BAD_ARGUMENT, "from 1 to 4096"),
        (&|config| config.size = 9, BAD_ARGUMENT, "REJOIN_TRACKER_CONFIG_INIT"),
        (&|config| config.job = c"+123".as_ptr(), BAD_ARGUMENT, "32 hexadecimal digits"),
        (&|config| config.listen = c"localhost".as_ptr(), BAD_ARGUMENT, "expected an IP address"),
        (&|config| config.listen = c"::".as_ptr(), BAD_ARGUMENT, "config.listen is ::"),
        (&|config| config.name = c"\xff".as_ptr(), BAD_ARGUMENT, "name is not UTF-8"),
        (&|config| config.max = 3, BAD_ARGUMENT, "config.max is 3"),
        (&|config| config.join_file = no_join_file.as_ptr(), IO, "can't be written"),
        (&|config| config.listen = c"192.0.2.1".as_ptr(), IO, "192.0.2.1"),
    ];
    for (change, expected, words) in cases {
        let (tracker, status) = Tracker::open(change);
        assert_eq!(status, expected, "{words}: {}", tracker.message());
        assert!(tracker.message().contains(words), "{words:?} in {}", tracker.message());
        // SAFETY: the handle is open.
        unsafe {
            assert!(rejoin_tracker_job(tracker.0).is_null() && rejoin_tracker_secret(tracker.0).is_null());
            assert!(rejoin_tracker_address(tracker.0).is_null());
            assert_eq!(rejoin_tracker_is_over(tracker.0), 0);
        }
        assert_eq!((tracker.poll(60_000), tracker.result().0), ((BAD_STATE, None), BAD_STATE));
        assert_eq!(tracker.cancel(CANCELLED, c""), BAD_STATE);
        assert!(tracker.message().contains("was not opened"), "{}", tracker.message());
    }
}

#[test]
fn null_and_numbers_that_stand_for_nothing_are_refused_and_the_job_goes_on() {
    let tracker = opened(|_| {});
    // SAFETY: NULL is refused, and the handle is open.
    unsafe {
        assert_eq!(rejoin_tracker_open(&config(1), null_mut()), BAD_ARGUMENT);
        assert_eq!(rejoin_tracker_poll(tracker.0, 0, null_mut()), BAD_ARGUMENT);
        assert_eq!(tracker.message(), "event is NULL");
        assert_eq!(rejoin_tracker_notify(tracker.0, null(), null()), BAD_ARGUMENT);
        assert!(tracker.message().contains("executor is NULL"), "{}", tracker.message());
        assert_eq!(rejoin_tracker_notify(tracker.0, c"\xff".as_ptr(), null()), BAD_ARGUMENT);
        let (mut event, mut model, mut length) = (null(), null(), 0);
        assert_eq!(rejoin_tracker_result(tracker.0, null_mut(), &mut length), BAD_ARGUMENT);
        for nobody in [null(), null_mut::<RejoinTracker>().cast_const()] {
            assert_eq!(rejoin_tracker_poll(nobody, 0, &mut event), BAD_ARGUMENT);
            assert_eq!(rejoin_tracker_result(nobody, &mut model, &mut length), BAD_ARGUMENT);
            assert_eq!(rejoin_tracker_notify(nobody, c"x".as_ptr(), null()), BAD_ARGUMENT);
            assert_eq!(rejoin_tracker_leaves(nobody, 0, 0, 0), BAD_ARGUMENT);
            assert_eq!(rejoin_tracker_cancel(nobody, CANCELLED, null()), BAD_ARGUMENT);
            assert_eq!(text(rejoin_tracker_message(nobody)), "the handle is NULL");
            assert!(rejoin_tracker_address(nobody).is_null());
        }
        rejoin_tracker_close(null_mut());
        assert_eq!(rejoin_tracker_leaves(tracker.0, 5, 0, 0), OK);
    }
    for nothing in [0, 64, 99, -1] {
        assert_eq!(tracker.cancel(nothing, c"no failure"), BAD_ARGUMENT);
        assert!(tracker.message().contains("REJOIN_CANCELLED"), "{}", tracker.message());
    }
    tracker.train(b"in order");
    assert_eq!(tracker.rest().0, 64);
}

#[test]
fn a_join_file_leads_to_the_tracker_and_is_gone_when_that_is_closed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("join");
    let file = CString::new(path.display().to_string()).expect("a path");
    let ask = |config: &mut RejoinTrackerConfig| (config.join_file, config.name) = (file.as_ptr(), c"mine".as_ptr());
    let tracker = opened(ask);
    // SAFETY: the handle is open.
    let address = text(unsafe { rejoin_tracker_address(tracker.0) });
    let written = std::fs::read_to_string(&path).expect("it is there");
    assert!(written.contains(&address) && written.contains("\"mine\""), "{written}");
    let (second, status) = Tracker::open(ask);
    assert_eq!(status, BAD_ARGUMENT);
    assert!(second.message().contains("is there already, of job mine with 1 ranks"), "{}", second.message());
    drop(second);
    assert!(path.exists(), "it is the first one's");
    drop(tracker);
    assert!(!path.exists());
}
