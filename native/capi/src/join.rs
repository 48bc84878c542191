//! Processes and joins.

use crate::arguments::{config, limits, text, RejoinConfig, RejoinLimits};
use crate::handle::{with_status, RejoinCommunicator, RejoinProcess};
use crate::numbers::{bad, status, OK, OVER};
use crate::quiet::catch;
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::ids::{Attempt, Rank, Task};
use rejoin_communicator::launched::Launched;
use rejoin_communicator::{Communicator, Language, Process};
use std::ffi::c_char;

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_process_start(given: *const RejoinConfig, process: *mut *mut RejoinProcess) -> i32 {
    if process.is_null() {
        return status(Code::BadArgument);
    }
    // SAFETY: the header asks for a config and its texts, or NULL.
    let (handle, number) = RejoinProcess::start(|| {
        // SAFETY: see above.
        let (agent, settings) = unsafe { config(given) }?;
        Process::start_with(agent, settings).map(|process| process.speaking(Language::C))
    });
    // SAFETY: it points to room for a pointer.
    unsafe { process.write(Box::into_raw(handle)) };
    number
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_join(
    process: *mut RejoinProcess,
    rank: u32,
    stage: u32,
    task: u32,
    terms: *const c_char,
    given: *const RejoinLimits,
    communicator: *mut *mut RejoinCommunicator,
) -> i32 {
    // SAFETY: the header asks for pointers that are right or NULL.
    let join = || unsafe {
        let process = process.as_ref().ok_or_else(|| bad("process is NULL".into()))?.process()?;
        let terms = text("terms", terms)?.unwrap_or_default();
        process.join(Rank(rank), Attempt { stage, task }, &terms, limits(given)?)
    };
    // SAFETY: as above.
    unsafe { joined(rank, join, communicator) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_join_as_task(
    process: *mut RejoinProcess,
    number: u32,
    stage: u32,
    task: u32,
    terms: *const c_char,
    given: *const RejoinLimits,
    communicator: *mut *mut RejoinCommunicator,
) -> i32 {
    // SAFETY: the header asks for pointers that are right or NULL.
    let join = || unsafe {
        let process = process.as_ref().ok_or_else(|| bad("process is NULL".into()))?.process()?;
        let terms = text("terms", terms)?.unwrap_or_default();
        process.join_as_task(Task(number), Attempt { stage, task }, &terms, limits(given)?)
    };
    // SAFETY: as above.
    unsafe { joined(number, join, communicator) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_join_launched(
    terms: *const c_char,
    given: *const RejoinLimits,
    communicator: *mut *mut RejoinCommunicator,
) -> i32 {
    let launched = catch(Launched::from_environment);
    let rank = launched.as_ref().ok().and_then(|launched| launched.as_ref().ok()).map_or(0, |launched| launched.rank.0);
    // SAFETY: the header asks for pointers that are right or NULL.
    let join = || unsafe {
        let terms = text("terms", terms)?.unwrap_or_default();
        let limits = limits(given)?;
        let launched = launched.map_err(|panic| Error::new(Code::Internal, panic))??;
        launched.join_in(&launched.process()?.speaking(Language::C), &terms, limits)
    };
    // SAFETY: as above.
    unsafe { joined(rank, join, communicator) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_join_again(communicator: *mut RejoinCommunicator) -> i32 {
    let call = |rank: &mut crate::handle::Rank| {
        // Before the communicator is taken: a rank that wasn't keeps it.
        rank.live()?.was_sent_back()?;
        let before = rank.take("joining again has failed; this process has to end")?;
        (rank.model, rank.own, rank.gathered) = (None, None, None);
        rank.own_of.clear();
        rank.given.clear();
        rank.communicator = before.join_again()?;
        Ok(if rank.communicator.is_some() {
            OK
        } else {
            rank.gone = "the job was over when this rank joined again; there is nothing to do".into();
            OVER
        })
    };
    // SAFETY: as above.
    unsafe { with_status(communicator, call) }
}

unsafe fn joined(
    rank: u32,
    join: impl FnOnce() -> Result<Option<Communicator>, Error>,
    communicator: *mut *mut RejoinCommunicator,
) -> i32 {
    if communicator.is_null() {
        return status(Code::BadArgument);
    }
    let joined = catch(join).unwrap_or_else(|panic| {
        Err(Error::new(Code::Internal, format!("a defect in Rejoin's library: {panic}; please report it")))
    });
    let (handle, number) = RejoinCommunicator::of(rank, joined);
    // SAFETY: it points to room for a pointer.
    unsafe { communicator.write(Box::into_raw(handle)) };
    number
}
