//! What C holds: a communicator or a process, with the text of its last failure. A panic stops here.

use crate::numbers::{status, OK};
use crate::quiet::catch;
use bytes::Bytes;
use parking_lot::Mutex;
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_communicator::{Communicator, Placement, Printer, Process};
use std::collections::BTreeMap;
use std::ffi::{c_char, CString};
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) const NO_HANDLE: &std::ffi::CStr = c"the handle is NULL";
const BUSY: &std::ffi::CStr =
    c"another thread's call with this handle is under way; a handle belongs to one thread at a time";

/// A handle's inside, and what is said of its last call.
pub(crate) struct Guarded<T> {
    inside: Mutex<(T, CString)>,
}

impl<T> Guarded<T> {
    pub(crate) fn new(inside: T) -> Self {
        Guarded { inside: Mutex::new((inside, CString::default())) }
    }

    /// One call: its result as a status, with the text kept. After a panic `ruined` makes of the
    /// inside what is left of it.
    pub(crate) fn call(
        &self,
        work: impl FnOnce(&mut T) -> Result<i32, Error>,
        ruined: impl FnOnce(&mut T, &Error),
    ) -> i32 {
        let Some(mut inside) = self.inside.try_lock() else { return status(Code::BadState) };
        let (inside, text) = &mut *inside;
        let result = catch(|| work(inside)).unwrap_or_else(|panic| {
            let error = Error::new(Code::Internal, format!("a defect in Rejoin's library: {panic}; please report it"));
            ruined(inside, &error);
            Err(error)
        });
        let (number, said) = match result {
            Ok(number) => (number, String::new()),
            Err(error) => (status(error.code), error.message),
        };
        *text = CString::new(said.replace('\0', "?")).unwrap_or_default();
        number
    }

    /// The text, which stays where it is until the next call.
    pub(crate) fn message(&self) -> *const c_char {
        self.inside.try_lock().map_or(BUSY.as_ptr(), |inside| inside.1.as_ptr())
    }
}

impl<T: Clone> Guarded<Option<T>> {
    /// Holds what could be made; the text says why nothing was.
    pub(crate) fn made(make: impl FnOnce() -> Result<T, Error>) -> (Self, i32) {
        let handle = Guarded::new(None);
        let number = handle.call(
            |made| {
                *made = Some(make()?);
                Ok(OK)
            },
            |_, _| {},
        );
        (handle, number)
    }

    /// What was made. Several threads may ask, so nothing stays locked.
    pub(crate) fn get(&self) -> Result<T, Error> {
        let made = self.inside.lock().0.clone();
        made.ok_or_else(|| Error::new(Code::BadState, "this process was not started; its message says why"))
    }
}

/// What `rejoin_communicator` points to.
pub struct RejoinCommunicator {
    rank: AtomicU32,
    world: AtomicU32,
    incarnation: AtomicU32,
    /// As of the last call that is over: the caller needn't wait for the one that is under way.
    version: AtomicU32,
    /// Any thread prints, whatever call is under way.
    printer: Mutex<Option<Printer>>,
    guarded: Guarded<Rank>,
}

/// The changing part of a communicator's handle.
pub(crate) struct Rank {
    /// `None` before the join has succeeded, and after the end.
    pub(crate) communicator: Option<Communicator>,
    /// Why there is none.
    pub(crate) gone: String,
    /// What was loaded.
    pub(crate) model: Option<Bytes>,
    pub(crate) own: Option<Bytes>,
    pub(crate) own_of: BTreeMap<u32, Bytes>,
    /// The ranks whose own models it is given.
    pub(crate) given: Vec<u32>,
    /// The results of the last gathering of unequal parts.
    pub(crate) gathered: Option<(Bytes, Vec<usize>)>,
}

impl Rank {
    /// An error once it is finished or left.
    pub(crate) fn live(&mut self) -> Result<&mut Communicator, Error> {
        let gone = &self.gone;
        self.communicator.as_mut().ok_or_else(|| Error::new(Code::BadState, gone.clone()))
    }

    /// Takes the communicator, which is needed no more.
    pub(crate) fn take(&mut self, why: &str) -> Result<Communicator, Error> {
        self.live()?;
        let taken = self.communicator.take();
        self.gone = why.to_string();
        taken.ok_or_else(|| Error::new(Code::Internal, "a live communicator is there"))
    }

    fn ruin(&mut self, error: &Error) {
        self.gone = format!("this communicator is of no more use since {}: {}", error.code.name(), error.message);
        if let Some(communicator) = self.communicator.take() {
            // Its inside may be in any state; a second panic changes nothing.
            let _ = catch(|| communicator.abandon(error.clone()));
        }
    }
}

impl RejoinCommunicator {
    /// The handle of a join, whatever became of it.
    pub(crate) fn of(rank: u32, joined: Result<Option<Communicator>, Error>) -> (Box<RejoinCommunicator>, i32) {
        let (communicator, error, number) = match joined {
            Ok(Some(communicator)) => (Some(communicator), None, OK),
            Ok(None) => (None, None, crate::numbers::OVER),
            Err(error) => (None, Some(error.clone()), status(error.code)),
        };
        let (world, incarnation) = communicator.as_ref().map_or((0, 0), |known| (known.world(), known.incarnation()));
        // In an elastic job the rank is the job's to say.
        let rank = communicator.as_ref().map_or(rank, |known| known.rank().0);
        let (rank, world) = (AtomicU32::new(rank), AtomicU32::new(world));
        let gone = match &error {
            Some(error) => format!("this communicator's join has failed: {error}"),
            None => "the job was over when this rank joined; there is nothing to do".into(),
        };
        let version = AtomicU32::new(communicator.as_ref().map_or(0, |live| live.version().0));
        let inside = Rank {
            communicator,
            gone,
            model: None,
            own: None,
            own_of: BTreeMap::new(),
            given: Vec::new(),
            gathered: None,
        };
        let incarnation = AtomicU32::new(incarnation);
        let printer = Mutex::new(inside.communicator.as_ref().map(Communicator::printer));
        let handle = RejoinCommunicator { rank, world, incarnation, version, printer, guarded: Guarded::new(inside) };
        if let Some(error) = error {
            handle.guarded.call(|_| Err(error), |_, _| {});
        }
        (Box::new(handle), number)
    }

    pub(crate) fn call(&self, work: impl FnOnce(&mut Rank) -> Result<i32, Error>) -> i32 {
        let call = |rank: &mut Rank| {
            let result = work(rank);
            if let Some(live) = &rank.communicator {
                self.version.store(live.version().0, Ordering::Relaxed);
                if self.incarnation.swap(live.incarnation(), Ordering::Relaxed) != live.incarnation() {
                    *self.printer.lock() = Some(live.printer());
                }
                self.rank.store(live.rank().0, Ordering::Relaxed);
                self.world.store(live.world(), Ordering::Relaxed);
            }
            result
        };
        self.guarded.call(call, Rank::ruin)
    }

    pub(crate) fn print(&self, text: &str) -> i32 {
        match &*self.printer.lock() {
            Some(printer) => {
                printer.print(text);
                OK
            }
            None => status(Code::BadState),
        }
    }
}

/// What `rejoin_process` points to.
pub struct RejoinProcess {
    guarded: Guarded<Option<Process>>,
}

impl RejoinProcess {
    pub(crate) fn start(make: impl FnOnce() -> Result<Process, Error>) -> (Box<RejoinProcess>, i32) {
        let (guarded, number) = Guarded::made(make);
        (Box::new(RejoinProcess { guarded }), number)
    }

    /// The process. Joins of several ranks wait at the same time.
    pub(crate) fn process(&self) -> Result<Process, Error> {
        self.guarded.get()
    }
}

/// A call with a handle that may be NULL.
pub(crate) unsafe fn with(handle: *mut RejoinCommunicator, work: impl FnOnce(&mut Rank) -> Result<(), Error>) -> i32 {
    // SAFETY: as below.
    unsafe { with_status(handle, |rank| work(rank).map(|()| OK)) }
}

/// The same, of a call that has more than one good end.
pub(crate) unsafe fn with_status(
    handle: *mut RejoinCommunicator,
    work: impl FnOnce(&mut Rank) -> Result<i32, Error>,
) -> i32 {
    // SAFETY: the header asks for a handle that was given and not closed, or NULL.
    match unsafe { handle.as_ref() } {
        Some(handle) => handle.call(work),
        None => status(Code::BadArgument),
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_message(communicator: *const RejoinCommunicator) -> *const c_char {
    // SAFETY: as `with`.
    unsafe { communicator.as_ref() }.map_or(NO_HANDLE.as_ptr(), |handle| handle.guarded.message())
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_process_message(process: *const RejoinProcess) -> *const c_char {
    // SAFETY: as `with`.
    unsafe { process.as_ref() }.map_or(NO_HANDLE.as_ptr(), |handle| handle.guarded.message())
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_rank(communicator: *const RejoinCommunicator) -> u32 {
    // SAFETY: as `with`.
    unsafe { communicator.as_ref() }.map_or(0, |handle| handle.rank.load(Ordering::Relaxed))
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_world(communicator: *const RejoinCommunicator) -> u32 {
    // SAFETY: as `with`.
    unsafe { communicator.as_ref() }.map_or(0, |handle| handle.world.load(Ordering::Relaxed))
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_incarnation(communicator: *const RejoinCommunicator) -> u32 {
    // SAFETY: as `with`.
    unsafe { communicator.as_ref() }.map_or(0, |handle| handle.incarnation.load(Ordering::Relaxed))
}

/// What `rejoin_placement` is in the header.
#[repr(C)]
pub struct RejoinPlacement {
    /// The number of this rank among those of its host.
    pub local_rank: u32,
    /// How many ranks its host has.
    pub local_size: u32,
    /// The number of this rank among those that have its local rank.
    pub cross_rank: u32,
    /// How many hosts have a rank with its local rank.
    pub cross_size: u32,
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_place(communicator: *mut RejoinCommunicator, placement: *mut RejoinPlacement) -> i32 {
    // SAFETY: as `with`; the header asks for room for a placement, or NULL.
    unsafe {
        with(communicator, |rank| {
            let Placement { local_rank, local_size, cross_rank, cross_size } = rank.live()?.placement();
            let into = placement.as_mut().ok_or_else(|| {
                Error::new(Code::BadArgument, "placement is NULL; expected where the numbers are to be written")
            })?;
            *into = RejoinPlacement { local_rank, local_size, cross_rank, cross_size };
            Ok(())
        })
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_version(communicator: *const RejoinCommunicator) -> u32 {
    // SAFETY: as `with`.
    unsafe { communicator.as_ref() }.map_or(0, |handle| handle.version.load(Ordering::Relaxed))
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_close(communicator: *mut RejoinCommunicator) {
    if !communicator.is_null() {
        // SAFETY: it came from `Box::into_raw`, and is closed once.
        let handle = unsafe { Box::from_raw(communicator) };
        // What a panic leaves behind is lost, not the program.
        let _ = catch(|| drop(handle));
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_process_close(process: *mut RejoinProcess) {
    if !process.is_null() {
        // SAFETY: it came from `Box::into_raw`, and is closed once.
        let handle = unsafe { Box::from_raw(process) };
        let _ = catch(|| drop(handle));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn text(handle: &Guarded<u32>) -> String {
        // SAFETY: the text is the handle's.
        unsafe { CStr::from_ptr(handle.message()) }.to_str().unwrap().to_string()
    }

    #[test]
    fn a_panic_becomes_an_error_that_says_what_and_where_and_ruins_the_handle() {
        let handle = Guarded::new(1);
        let number = handle.call(|_| panic!("on purpose"), |inside, _| *inside = 0);
        assert_eq!(number, status(Code::Internal));
        assert!(text(&handle).contains("on purpose, at ") && text(&handle).contains("handle.rs"), "{}", text(&handle));
        assert_eq!(handle.inside.lock().0, 0);
    }

    #[test]
    fn the_text_is_that_of_the_last_call() {
        let handle = Guarded::new(1);
        assert_eq!(handle.call(|_| Err(Error::new(Code::Io, "a\0b")), |_, _| {}), status(Code::Io));
        assert_eq!(text(&handle), "a?b");
        assert_eq!(handle.call(|_| Ok(OK), |_, _| {}), OK);
        assert_eq!(text(&handle), "");
    }

    #[test]
    fn a_second_thread_is_refused_while_a_call_is_under_way() {
        let handle = Guarded::new(1);
        handle.call(
            |_| {
                assert_eq!(handle.call(|_| Ok(OK), |_, _| {}), status(Code::BadState));
                assert!(text(&handle).contains("another thread"));
                Ok(OK)
            },
            |_, _| {},
        );
        assert_eq!(handle.call(|_| Ok(OK), |_, _| {}), OK);
    }
}
