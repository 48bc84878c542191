//! A job's tracker in the caller's own process.

use crate::arguments::text;
use crate::handle::{Guarded, NO_HANDLE};
use crate::numbers::{bad, code, status, unknown, OK, OVER};
use crate::quiet::catch;
use crate::tracker_config::{tracker_config, Asked, RejoinTrackerConfig};
use bytes::Bytes;
use parking_lot::Mutex;
use rejoin_agent::join_file::{JobSecret, JoinFile};
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::ids::{Attempt, Task};
use rejoin_agent::protocol::tracker::TrackerInput;
use rejoin_agent::transport::{JobId, Secret};
use rejoin_agent::{TrackerNotice, TrackerServer};
use serde_json::json;
use std::collections::HashMap;
use std::ffi::{c_char, c_void, CString};
use std::path::{Path, PathBuf};
use std::ptr::null;
use std::thread::{current, ThreadId};
use std::time::{Duration, Instant};

/// Once the job is over no event comes that wakes a poll: the end is looked for so often.
const LOOK: Duration = Duration::from_millis(20);

/// What `rejoin_tracker` points to.
pub struct RejoinTracker {
    /// `None` when it couldn't be opened.
    opened: Option<Opened>,
    guarded: Guarded<Given>,
    /// Why the last call of a thread failed that may come while another one polls.
    refused: Mutex<HashMap<ThreadId, CString>>,
}

/// What stays as it is until the tracker is closed, so that any thread may use it.
struct Opened {
    server: TrackerServer,
    job: JobId,
    job_text: CString,
    secret: Secret,
    address: CString,
    join_file: Option<PathBuf>,
}

/// What the caller was given last, and may still read.
#[derive(Default)]
struct Given {
    event: CString,
    result: Option<Bytes>,
}

impl Opened {
    fn open(asked: Asked) -> Result<Opened, Error> {
        let Asked { server: config, name, join_file } = asked;
        if let Some(path) = &join_file {
            refuse_present(path)?;
        }
        let (job, secret, world) = (config.job, config.secret.clone(), config.rules.world);
        let (max, encrypt) = (config.rules.elastic.map(|elastic| elastic.max), config.encrypt);
        let server = TrackerServer::start(config)?;
        let tracker = server.address();
        if let Some(path) = &join_file {
            let (secret, durable) = (JobSecret::Here(secret.clone()), None);
            JoinFile { name, job, secret, world, tracker, life: 1, max, encrypt, is_for_status: false, durable }
                .write(path)?;
        }
        let text = |text: String| CString::new(text).unwrap_or_default();
        let (job_text, address) = (text(job.to_string()), text(tracker.to_string()));
        Ok(Opened { server, job, job_text, secret, address, join_file })
    }

    /// How the job has ended, or that it goes on.
    fn end(&self) -> Result<Option<Bytes>, Error> {
        self.server.result()
    }

    /// The next event; without one the end, if it was reached.
    fn poll(&self, at_most: Duration, given: &mut Given) -> Result<(i32, bool), Error> {
        let until = Instant::now().checked_add(at_most);
        loop {
            let left = until.map_or(LOOK, |until| until.saturating_duration_since(Instant::now()));
            // Looked at first: what is reported after it is no event of the job's any more.
            let has_ended = self.end();
            let wait = if matches!(has_ended, Ok(None)) { left.min(LOOK) } else { Duration::ZERO };
            match self.server.poll(wait) {
                Ok(Some(notice)) => {
                    given.event = CString::new(line(&notice)?).unwrap_or_default();
                    return Ok((OK, true));
                }
                Ok(None) => {}
                // Its thread is gone before its owner has closed it.
                Err(_) if matches!(has_ended, Ok(None)) => {
                    let text = "the tracker's thread has ended before the job; its log (rejoin_log_level) says why";
                    return Err(Error::new(Code::Internal, text));
                }
                Err(_) => {}
            }
            if has_ended?.is_some() {
                return Ok((OVER, false));
            }
            if left.is_zero() {
                return Ok((OK, false));
            }
        }
    }

    fn close(self) {
        self.server.close();
        let Some(path) = self.join_file else { return };
        // Only if it is still this job's.
        if JoinFile::read(&path).ok().flatten().is_some_and(|now| now.job == self.job) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A file that is there may be of a job that is under way: its ranks would be led here.
fn refuse_present(path: &Path) -> Result<(), Error> {
    match JoinFile::read(path)? {
        None => Ok(()),
        Some(found) => Err(bad(format!(
            "the join file {} is there already, of job {} with {} ranks; name another file, or remove it if that job \
             is over",
            path.display(),
            found.name,
            found.world
        ))),
    }
}

/// An event as one object with one key, its name, as in `rejoin run --events`.
fn line(notice: &TrackerNotice) -> Result<String, Error> {
    let line = match notice {
        TrackerNotice::Event(event) => serde_json::to_string(event),
        TrackerNotice::Kill { task, attempt, executor, reason } => serde_json::to_string(
            &json!({ "KillWanted": { "index": task, "attempt": attempt, "executor": executor, "reason": reason } }),
        ),
    };
    line.map_err(|cause| Error::new(Code::Internal, format!("an event can't be written: {cause}; please report it")))
}

impl RejoinTracker {
    fn opened(&self) -> Result<&Opened, Error> {
        let text = "this tracker was not opened; the message of its rejoin_tracker_open said why";
        self.opened.as_ref().ok_or_else(|| Error::new(Code::BadState, text))
    }

    /// A call of the one thread that polls.
    fn call(&self, work: impl FnOnce(&Opened, &mut Given) -> Result<i32, Error>) -> i32 {
        self.refused.lock().remove(&current().id());
        self.guarded.call(|given| work(self.opened()?, given), |_, _| {})
    }

    /// A call that may come while another thread polls.
    fn tell(&self, fact: impl FnOnce() -> Result<TrackerInput, Error>) -> i32 {
        let told = catch(|| {
            self.opened()?.server.notify(fact()?);
            Ok(())
        });
        let mut refused = self.refused.lock();
        let Err(error) = told.unwrap_or_else(|panic| Err(Error::new(Code::Internal, panic))) else {
            refused.remove(&current().id());
            return OK;
        };
        refused.insert(current().id(), CString::new(error.message).unwrap_or_default());
        status(error.code)
    }

    /// Why this thread's last call failed. The text stays until its next one.
    fn message(&self) -> *const c_char {
        let refused = self.refused.lock().get(&current().id()).map(|text| text.as_ptr());
        refused.unwrap_or_else(|| self.guarded.message())
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_tracker_open(
    given: *const RejoinTrackerConfig,
    tracker: *mut *mut RejoinTracker,
) -> i32 {
    if tracker.is_null() {
        return status(Code::BadArgument);
    }
    let mut handle =
        Box::new(RejoinTracker { opened: None, guarded: Guarded::new(Given::default()), refused: Mutex::default() });
    let opened = &mut handle.opened;
    let open = |_: &mut Given| {
        // SAFETY: the header asks for a config and its texts, or NULL.
        *opened = Some(Opened::open(unsafe { tracker_config(given) }?)?);
        Ok(OK)
    };
    let number = handle.guarded.call(open, |_, _| {});
    // SAFETY: it points to room for a pointer.
    unsafe { tracker.write(Box::into_raw(handle)) };
    number
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_tracker_message(tracker: *const RejoinTracker) -> *const c_char {
    // SAFETY: the header asks for a handle that was given and not closed, or NULL; here and below.
    unsafe { tracker.as_ref() }.map_or(NO_HANDLE.as_ptr(), RejoinTracker::message)
}

unsafe fn fact<T>(tracker: *const RejoinTracker, get: impl FnOnce(&'static Opened) -> *const T) -> *const T {
    // SAFETY: what is handed out is said to live as long as the handle.
    unsafe { tracker.as_ref() }.and_then(|handle| handle.opened.as_ref()).map_or(null(), get)
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_tracker_address(tracker: *const RejoinTracker) -> *const c_char {
    // SAFETY: as above.
    unsafe { fact(tracker, |opened| opened.address.as_ptr()) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_tracker_job(tracker: *const RejoinTracker) -> *const c_char {
    // SAFETY: as above.
    unsafe { fact(tracker, |opened| opened.job_text.as_ptr()) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_tracker_secret(tracker: *const RejoinTracker) -> *const u8 {
    // SAFETY: as above.
    unsafe { fact(tracker, |opened| opened.secret.expose().as_ptr()) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_tracker_poll(
    tracker: *const RejoinTracker,
    timeout_millis: u64,
    event: *mut *const c_char,
) -> i32 {
    // SAFETY: as above.
    let Some(handle) = (unsafe { tracker.as_ref() }) else { return status(Code::BadArgument) };
    if !event.is_null() {
        // SAFETY: it points to room for a pointer, here and below.
        unsafe { event.write(null()) };
    }
    handle.call(|opened, given| {
        if event.is_null() {
            return Err(bad("event is NULL".into()));
        }
        let (number, is_there) = opened.poll(Duration::from_millis(timeout_millis), given)?;
        if is_there {
            // SAFETY: see above.
            unsafe { event.write(given.event.as_ptr()) };
        }
        Ok(number)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_tracker_is_over(tracker: *const RejoinTracker) -> i32 {
    // SAFETY: as above.
    let opened = unsafe { tracker.as_ref() }.and_then(|handle| handle.opened.as_ref());
    opened.is_some_and(|opened| !matches!(opened.end(), Ok(None))).into()
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_tracker_result(
    tracker: *const RejoinTracker,
    model: *mut *const c_void,
    length: *mut usize,
) -> i32 {
    // SAFETY: as above.
    let Some(handle) = (unsafe { tracker.as_ref() }) else { return status(Code::BadArgument) };
    handle.call(|opened, given| {
        if model.is_null() || length.is_null() {
            return Err(bad("model or bytes is NULL".into()));
        }
        let result = opened.end()?.ok_or_else(|| {
            let text = "the job has not ended, so there is no result yet; poll until it has";
            Error::new(Code::BadState, text)
        })?;
        // SAFETY: they point to room for a pointer and a number.
        unsafe {
            model.write(if result.is_empty() { null() } else { result.as_ptr().cast() });
            length.write(result.len());
        }
        given.result = Some(result);
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_tracker_notify(
    tracker: *const RejoinTracker,
    executor: *const c_char,
    reason: *const c_char,
) -> i32 {
    // SAFETY: as above; the texts are right or NULL.
    let Some(handle) = (unsafe { tracker.as_ref() }) else { return status(Code::BadArgument) };
    handle.tell(|| {
        // SAFETY: see above.
        let (executor, reason) = unsafe { (text("executor", executor)?, text("reason", reason)?) };
        let executor = executor.ok_or_else(|| bad("executor is NULL; expected the name of a process".into()))?;
        let reason = reason.unwrap_or_else(|| "whoever has started it says that it is gone".into());
        Ok(TrackerInput::ExecutorGone { executor, reason })
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_tracker_leaves(
    tracker: *const RejoinTracker,
    number: u32,
    stage: u32,
    task: u32,
) -> i32 {
    // SAFETY: as above.
    let Some(handle) = (unsafe { tracker.as_ref() }) else { return status(Code::BadArgument) };
    handle.tell(|| Ok(TrackerInput::TaskLeaves { task: Task(number), attempt: Attempt { stage, task } }))
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_tracker_cancel(
    tracker: *const RejoinTracker,
    failure: i32,
    reason: *const c_char,
) -> i32 {
    // SAFETY: as above; the text is right or NULL.
    let Some(handle) = (unsafe { tracker.as_ref() }) else { return status(Code::BadArgument) };
    handle.tell(|| {
        let expected = "the number of a failure, as REJOIN_CANCELLED";
        let code = code(failure).ok_or_else(|| unknown("status", failure.into(), expected))?;
        // SAFETY: see above.
        let reason = unsafe { text("reason", reason) }?.unwrap_or_else(|| "the program gave no reason".into());
        Ok(TrackerInput::Cancel { error: Error::new(code, reason) })
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_tracker_close(tracker: *mut RejoinTracker) {
    if !tracker.is_null() {
        // SAFETY: it came from `Box::into_raw`, and is closed once.
        let handle = unsafe { Box::from_raw(tracker) };
        let _ = catch(|| handle.opened.map(Opened::close));
    }
}
