//! Ranks that train with XGBoost.

use crate::arguments::{bytes, config, limits, text, xgboost, RejoinConfig, RejoinLimits, RejoinXgboostOptions};
use crate::handle::{Guarded, NO_HANDLE};
use crate::numbers::{bad, code, status, OK, OVER};
use crate::quiet::catch;
use bytes::Bytes;
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::ids::{Attempt, Rank, Task, Version};
use rejoin_agent::{Agent, AgentConfig, StoodBy};
use rejoin_communicator::launched::Launched;
use rejoin_communicator::{Limits, Settings};
use rejoin_xgboost::{BridgeConfig, HookUse, Member, Process, XgboostVersion};
use std::ffi::{c_char, c_void, CString};
use std::sync::Arc;
use std::time::Duration;

/// What `rejoin_xgboost_process` points to.
pub struct RejoinXgboostProcess {
    guarded: Guarded<Option<(Arc<Process>, XgboostVersion)>>,
}

/// What `rejoin_xgboost` points to.
pub struct RejoinXgboost {
    joined: Option<Joined>,
    guarded: Guarded<HandleState>,
}

/// What a join came to.
struct Joined {
    member: Member,
    version: XgboostVersion,
    finish: Duration,
}

/// The changing part of the handle.
struct HandleState {
    /// Why it can be used no more.
    gone: Option<String>,
    arguments: CString,
}

impl RejoinXgboost {
    fn of(joined: Result<Joined, Error>) -> (Box<RejoinXgboost>, i32) {
        let (joined, error) = match joined {
            Ok(joined) => (Some(joined), None),
            Err(error) => (None, Some(error)),
        };
        let is_over = joined.as_ref().is_some_and(|joined| joined.member.is_over());
        let gone = match &error {
            Some(error) => Some(format!("this rank's join has failed: {error}")),
            None => is_over.then(|| "the job was over when this rank joined; there is nothing to do".to_string()),
        };
        let guarded = Guarded::new(HandleState { gone, arguments: CString::default() });
        let handle = RejoinXgboost { joined, guarded };
        let number = match error {
            Some(error) => handle.guarded.call(|_| Err(error), |_, _| {}),
            None if is_over => OVER,
            None => OK,
        };
        (Box::new(handle), number)
    }

    fn call(&self, work: impl FnOnce(&Joined, &mut HandleState) -> Result<(), Error>) -> i32 {
        let call = |state: &mut HandleState| {
            let joined = match (&self.joined, &state.gone) {
                (Some(joined), None) => joined,
                (_, gone) => return Err(Error::new(Code::BadState, gone.clone().unwrap_or_default())),
            };
            work(joined, state).map(|()| OK)
        };
        let ruined =
            |state: &mut HandleState, error: &Error| self.leave(state, Some(error.clone()), "a defect has ended it");
        self.guarded.call(call, ruined)
    }

    /// Gives the slot back, once.
    fn leave(&self, state: &mut HandleState, failure: Option<Error>, why: &str) {
        if state.gone.replace(why.to_string()).is_none() {
            if let Some(joined) = &self.joined {
                joined.member.leave(failure);
            }
        }
    }
}

/// A call with a handle that may be NULL.
unsafe fn with(handle: *mut RejoinXgboost, work: impl FnOnce(&Joined, &mut HandleState) -> Result<(), Error>) -> i32 {
    // SAFETY: the header asks for a handle that was given and not closed, or NULL.
    unsafe { handle.as_ref() }.map_or(status(Code::BadArgument), |handle| handle.call(work))
}

/// A number of a handle that may be NULL; 0 where the rank has none.
unsafe fn number(handle: *const RejoinXgboost, of: impl FnOnce(&Joined) -> u32) -> u32 {
    // SAFETY: as `with`.
    unsafe { handle.as_ref() }.and_then(|handle| handle.joined.as_ref()).map_or(0, of)
}

/// The rank that a task of a job with spares is given, and the try of it that it joins as; `None` at the job's end.
fn given_rank(
    agent: &Agent,
    task: Task,
    attempt: Attempt,
    at_most: Duration,
) -> Result<Option<(Rank, Attempt)>, Error> {
    match agent.stand_by(task, attempt, at_most)? {
        Some(StoodBy::Rank(given)) => Ok(Some((given.rank, given.attempt))),
        Some(StoodBy::Over { .. }) => Ok(None),
        None => {
            agent.stand_down(task, attempt);
            let waited = at_most.as_secs();
            let text = format!("task {task} (its try {attempt}) stood by for {waited} s, and was given no rank");
            Err(Error::new(Code::TimedOut, text))
        }
    }
}

fn start((agent, settings): (AgentConfig, Settings), hook: HookUse) -> Result<Arc<Process>, Error> {
    let bridge = BridgeConfig {
        spill_dir: settings.logs.folder,
        log_memory_bytes: settings.logs.memory_bytes,
        log_disk_bytes: settings.logs.disk_bytes,
        ..BridgeConfig::default()
    };
    Process::start(agent, bridge, hook, settings.durable)
}

fn join(
    (process, version): (Arc<Process>, XgboostVersion),
    (rank, attempt): (Rank, Attempt),
    terms: &str,
    limits: Limits,
) -> Result<Joined, Error> {
    let terms = format!("XGBoost {version}; {terms}");
    let member = Member::join(&process, rank, attempt, terms, limits.join)?;
    Ok(Joined { member, version, finish: limits.finish })
}

unsafe fn joined(join: impl FnOnce() -> Result<Joined, Error>, member: *mut *mut RejoinXgboost) -> i32 {
    if member.is_null() {
        return status(Code::BadArgument);
    }
    let joined = catch(join).unwrap_or_else(|panic| {
        Err(Error::new(Code::Internal, format!("a defect in Rejoin's library: {panic}; please report it")))
    });
    let (handle, number) = RejoinXgboost::of(joined);
    // SAFETY: it points to room for a pointer.
    unsafe { member.write(Box::into_raw(handle)) };
    number
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_xgboost_process_start(
    given: *const RejoinConfig,
    options: *const RejoinXgboostOptions,
    process: *mut *mut RejoinXgboostProcess,
) -> i32 {
    if process.is_null() {
        return status(Code::BadArgument);
    }
    // SAFETY: the header asks for pointers that are right or NULL.
    let (guarded, number) = Guarded::made(|| unsafe {
        let (version, hook) = xgboost(options)?;
        Ok((start(config(given)?, hook)?, version))
    });
    // SAFETY: it points to room for a pointer.
    unsafe { process.write(Box::into_raw(Box::new(RejoinXgboostProcess { guarded }))) };
    number
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_xgboost_process_message(process: *const RejoinXgboostProcess) -> *const c_char {
    // SAFETY: as `with`.
    unsafe { process.as_ref() }.map_or(NO_HANDLE.as_ptr(), |handle| handle.guarded.message())
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_xgboost_process_close(process: *mut RejoinXgboostProcess) {
    if !process.is_null() {
        // SAFETY: it came from `Box::into_raw`, and is closed once.
        let handle = unsafe { Box::from_raw(process) };
        let _ = catch(|| drop(handle));
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_xgboost_join(
    process: *mut RejoinXgboostProcess,
    rank: u32,
    stage: u32,
    task: u32,
    terms: *const c_char,
    given: *const RejoinLimits,
    member: *mut *mut RejoinXgboost,
) -> i32 {
    // SAFETY: the header asks for pointers that are right or NULL.
    let join = || unsafe {
        let process = process.as_ref().ok_or_else(|| bad("process is NULL".into()))?.guarded.get()?;
        let terms = text("terms", terms)?.unwrap_or_default();
        join(process, (Rank(rank), Attempt { stage, task }), &terms, limits(given)?)
    };
    // SAFETY: as above.
    unsafe { joined(join, member) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_xgboost_join_as_task(
    process: *mut RejoinXgboostProcess,
    number: u32,
    stage: u32,
    task: u32,
    terms: *const c_char,
    given: *const RejoinLimits,
    member: *mut *mut RejoinXgboost,
) -> i32 {
    // SAFETY: the header asks for pointers that are right or NULL.
    let join = || unsafe {
        let (process, version) = process.as_ref().ok_or_else(|| bad("process is NULL".into()))?.guarded.get()?;
        let (terms, limits) = (text("terms", terms)?.unwrap_or_default(), limits(given)?);
        let (index, attempt) = (Task(number), Attempt { stage, task });
        let agent = process.agent();
        // After the job's end any join says so.
        let joins_as = given_rank(agent, index, attempt, limits.join)?.unwrap_or((Rank(index.0), attempt));
        join((process.clone(), version), joins_as, &terms, limits).inspect_err(|_| agent.stand_down(index, attempt))
    };
    // SAFETY: as above.
    unsafe { joined(join, member) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_xgboost_join_launched(
    terms: *const c_char,
    options: *const RejoinXgboostOptions,
    given: *const RejoinLimits,
    member: *mut *mut RejoinXgboost,
) -> i32 {
    // SAFETY: the header asks for pointers that are right or NULL.
    let join = || unsafe {
        let (version, hook) = xgboost(options)?;
        let (terms, limits) = (text("terms", terms)?.unwrap_or_default(), limits(given)?);
        let launched = Launched::from_environment()?;
        if launched.elastic {
            let text =
                "XGBoost's ranks were started in a world that may shrink (rejoin run --min), which they can't do \
                        yet: start them without it";
            return Err(Error::new(Code::BadState, text));
        }
        let process = start((launched.agent, launched.settings), hook)?;
        join((process, version), (launched.rank, launched.attempt), &terms, limits)
    };
    // SAFETY: as above.
    unsafe { joined(join, member) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_xgboost_message(member: *const RejoinXgboost) -> *const c_char {
    // SAFETY: as `with`.
    unsafe { member.as_ref() }.map_or(NO_HANDLE.as_ptr(), |handle| handle.guarded.message())
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_xgboost_rank(member: *const RejoinXgboost) -> u32 {
    // SAFETY: as `with`.
    unsafe { number(member, |joined| joined.member.rank().0) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_xgboost_world(member: *const RejoinXgboost) -> u32 {
    // SAFETY: as `with`.
    unsafe { number(member, |joined| joined.member.world()) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_xgboost_incarnation(member: *const RejoinXgboost) -> u32 {
    // SAFETY: as `with`.
    unsafe { number(member, |joined| joined.member.start().map_or(0, |start| start.incarnation.number)) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_xgboost_is_hooked(member: *const RejoinXgboost) -> i32 {
    // SAFETY: as `with`.
    unsafe { number(member, |joined| joined.member.start().is_ok_and(|start| start.hooked).into()) as i32 }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_xgboost_keeps_booster(member: *const RejoinXgboost) -> i32 {
    // SAFETY: as `with`.
    unsafe { number(member, |joined| joined.version.keeps_booster().into()) as i32 }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_xgboost_load(
    member: *mut RejoinXgboost,
    version: *mut u32,
    round: *mut u32,
    complete: *mut i32,
    checkpoint: *mut *const c_void,
    length: *mut usize,
) -> i32 {
    let call = |joined: &Joined, _: &mut HandleState| {
        let pointers = [version.is_null(), round.is_null(), complete.is_null(), checkpoint.is_null(), length.is_null()];
        if pointers.contains(&true) {
            return Err(bad("version, round, complete, checkpoint or bytes is NULL".into()));
        }
        let start = joined.member.start()?;
        let (at, whole) = start.checkpoint.map_or((0, false), |known| (known.round, known.complete));
        let (data, bytes) = placed(joined.member.checkpoint().map(|bytes| &**bytes));
        // SAFETY: they point to room for what the header says.
        unsafe {
            version.write(start.version.0);
            round.write(at);
            complete.write(whole.into());
            checkpoint.write(data);
            length.write(bytes);
        }
        Ok(())
    };
    // SAFETY: as above.
    unsafe { with(member, call) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_xgboost_load_own(
    member: *mut RejoinXgboost,
    own: *mut *const c_void,
    length: *mut usize,
) -> i32 {
    let call = |joined: &Joined, _: &mut HandleState| {
        if own.is_null() || length.is_null() {
            return Err(bad("own or bytes is NULL".into()));
        }
        let (data, bytes) = placed(joined.member.local());
        // SAFETY: they point to room for what the header says.
        unsafe {
            own.write(data);
            length.write(bytes);
        }
        Ok(())
    };
    // SAFETY: as above.
    unsafe { with(member, call) }
}

/// Where bytes are, and how many; NULL for none.
fn placed(bytes: Option<&[u8]>) -> (*const c_void, usize) {
    bytes.map_or((std::ptr::null(), 0), |bytes| (bytes.as_ptr().cast(), bytes.len()))
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_xgboost_communicator(member: *mut RejoinXgboost, json: *mut *const c_char) -> i32 {
    let call = |joined: &Joined, state: &mut HandleState| {
        if json.is_null() {
            return Err(bad("json is NULL".into()));
        }
        let arguments = joined.member.communicator_json(joined.version.wire())?;
        state.arguments = CString::new(arguments).unwrap_or_default(); // JSON has no zero bytes
                                                                       // SAFETY: it points to room for a pointer.
        unsafe { json.write(state.arguments.as_ptr()) };
        Ok(())
    };
    // SAFETY: as above.
    unsafe { with(member, call) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_xgboost_enter(
    member: *mut RejoinXgboost,
    version: u32,
    round: u32,
    checkpoint: *const c_void,
    length: usize,
    own: *const c_void,
    own_length: usize,
    complete: i32,
) -> i32 {
    // SAFETY: the header asks for pointers to so many bytes.
    let call = |joined: &Joined, _: &mut HandleState| unsafe {
        let taken = Bytes::copy_from_slice(bytes("checkpoint", checkpoint, length)?);
        let local = match own.is_null() {
            true => None,
            false => Some(bytes("own", own, own_length)?.to_vec()),
        };
        joined.member.enter(Version(version), round, taken, local, complete != 0)
    };
    // SAFETY: as above.
    unsafe { with(member, call) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_xgboost_begin_round(member: *mut RejoinXgboost, round: u32) -> i32 {
    // SAFETY: as `with`.
    unsafe { with(member, |joined, _| joined.member.begin_round(round)) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_xgboost_finish(
    member: *mut RejoinXgboost,
    rounds: u32,
    model: *const c_void,
    length: usize,
) -> i32 {
    // SAFETY: the header asks for so many bytes.
    let call = |joined: &Joined, _: &mut HandleState| unsafe {
        let model = bytes("model", model, length)?;
        let result = (joined.member.rank() == Rank(0)).then(|| Bytes::copy_from_slice(model));
        joined.member.finish(rounds, model, result, joined.finish)
    };
    // SAFETY: as above.
    unsafe { with(member, call) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_xgboost_failure(member: *mut RejoinXgboost) -> i32 {
    let call = |joined: &Joined, _: &mut HandleState| joined.member.failure().map_or(Ok(()), Err);
    // SAFETY: as `with`.
    unsafe { with(member, call) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_xgboost_free(member: *const RejoinXgboost, number: i32, reason: *const c_char) -> i32 {
    // Another thread's call may be under way: what is guarded isn't touched.
    let free = || {
        // SAFETY: the header asks for a handle and a text that are right, or NULL.
        let (handle, reason) = unsafe { (member.as_ref(), text("reason", reason)?.unwrap_or_default()) };
        let known = code(number).ok_or_else(|| bad(format!("status {number} is no failure")))?;
        let joined = handle.and_then(|handle| handle.joined.as_ref()).ok_or_else(|| bad("no rank".into()))?;
        joined.member.free(Error::new(known, reason))
    };
    match catch(free) {
        Ok(Ok(())) => OK,
        Ok(Err(error)) => status(error.code),
        Err(_) => status(Code::Internal),
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_xgboost_abandon(member: *mut RejoinXgboost, number: i32, reason: *const c_char) -> i32 {
    // SAFETY: as `with`.
    let Some(handle) = (unsafe { member.as_ref() }) else { return status(Code::BadArgument) };
    handle.call(|_, state| {
        let known = code(number).ok_or_else(|| bad(format!("status {number} is no failure")))?;
        // SAFETY: the header asks for a text or NULL.
        let reason = unsafe { text("reason", reason) }?.unwrap_or_default();
        handle.leave(state, Some(Error::new(known, reason)), "this rank was abandoned");
        Ok(())
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_xgboost_close(member: *mut RejoinXgboost) {
    if !member.is_null() {
        // SAFETY: it came from `Box::into_raw`, and is closed once.
        let handle = unsafe { Box::from_raw(member) };
        let close = |state: &mut HandleState| {
            handle.leave(state, None, "it is closed");
            Ok(OK)
        };
        handle.guarded.call(close, |_, _| {});
        // What a panic leaves behind is lost, not the program.
        let _ = catch(|| drop(handle));
    }
}
