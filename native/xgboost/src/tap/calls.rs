//! The functions that a library with a tap calls instead of the C library's, and the table of what they serve.
//!
//! This table is `static` because a C function has no other way to find anything. It holds weak ends only: an engine that
//! is gone leaves nothing behind.

use super::slots::{self, Swap};
use super::TapState;
use crate::engine::{self, Engine, Moved};
use crate::loaded::pin_own;
use crate::phase_log::Budget;
use crate::shared::Member;
use libc::{c_int, c_void, nfds_t, pollfd, size_t, ssize_t, POLLIN, POLLOUT};
use mio::Waker;
use parking_lot::{Mutex, RwLock};
use rejoin_protocol::ids::Rank;
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The channel was taken out of service, and will be dead soon. No error number of the system's.
const GONE: c_int = -1;

/// How often a thread looks before it sleeps: for about 400 µs (docs/performance.md has what fewer gave).
const LOOKS: u32 = 400;

/// One channel that is served in place.
pub(crate) struct Tap {
    pub(crate) engine: Weak<Mutex<Engine>>,
    pub(crate) waker: Arc<Waker>,
    pub(crate) member: Member,
    pub(crate) peer: Rank,
    pub(crate) state: Arc<TapState>,
    pub(crate) budget: Arc<Budget>,
}

static TABLE: RwLock<BTreeMap<RawFd, Arc<Tap>>> = RwLock::new(BTreeMap::new());
/// Entries of the table: most calls of other trainings see 0 and go on.
static ENTRIES: AtomicUsize = AtomicUsize::new(0);

/// Puts our functions into the slots of every loaded XGBoost.
///
/// # Errors
/// What was unexpected; then nothing is served.
pub(crate) fn install() -> Result<(), String> {
    let swaps = [
        Swap { name: "send", original: libc::send as *const () as usize, ours: send as *const () as usize },
        Swap { name: "recv", original: libc::recv as *const () as usize, ours: recv as *const () as usize },
        Swap { name: "poll", original: libc::poll as *const () as usize, ours: poll as *const () as usize },
        Swap { name: "close", original: libc::close as *const () as usize, ours: close as *const () as usize },
    ];
    pin_own(send as *const () as usize)?;
    match slots::swap("xgboost", &swaps)? {
        0 => Err("no library with \"xgboost\" in its name is loaded".into()),
        _ => Ok(()),
    }
}

/// From now on calls on this descriptor are served.
pub(crate) fn add(fd: RawFd, tap: Tap) {
    let mut table = TABLE.write();
    table.insert(fd, Arc::new(tap));
    ENTRIES.store(table.len(), SeqCst);
}

/// Calls on this descriptor go to the C library again; with `state`, only if it is that channel's still.
pub(crate) fn remove(fd: RawFd, state: Option<&Arc<TapState>>) {
    let mut table = TABLE.write();
    if table.get(&fd).is_some_and(|tap| state.is_none_or(|state| Arc::ptr_eq(state, &tap.state))) {
        table.remove(&fd);
        ENTRIES.store(table.len(), SeqCst);
    }
}

fn find(fd: RawFd) -> Option<Arc<Tap>> {
    if ENTRIES.load(SeqCst) == 0 {
        return None;
    }
    TABLE.read().get(&fd).cloned()
}

impl Tap {
    /// Does something with the engine, and wakes its thread if that has left it something to do.
    fn with<T>(&self, what: impl FnOnce(&mut Engine) -> T) -> Option<T> {
        let engine = self.engine.upgrade()?;
        engine::with(&engine, &self.waker, what)
    }

    /// The bytes are copied without holding the engine: other ranks of this process go on meanwhile.
    fn send(&self, bytes: &[u8]) -> Result<usize, c_int> {
        if self.state.is_dead() {
            return Err(libc::ECONNRESET);
        }
        let mut may = self.with(|engine| engine.tapped_may_send(self.member, self.peer));
        let mut taken = 0;
        while taken < bytes.len() && matches!(may, Some(Moved::Bytes(_))) {
            // A long message goes on in parts, so that the peer reads the first while the next one is copied.
            let part = self.state.copy(&bytes[taken..], &self.budget.chunks);
            taken += part.len();
            may = self.with(|engine| engine.tapped_send(self.member, self.peer, part));
        }
        match may {
            _ if taken > 0 => Ok(taken),
            None => Err(libc::ECONNRESET),
            Some(Moved::Bytes(_)) => Ok(0),
            Some(Moved::Nothing) if bytes.is_empty() => Ok(0),
            Some(Moved::Nothing) => Err(libc::EAGAIN),
            Some(Moved::Gone) => Err(GONE),
        }
    }

    fn receive(&self, room: &mut [u8]) -> Result<usize, c_int> {
        if self.state.is_dead() {
            return Err(libc::ECONNRESET);
        }
        let mut parts = Vec::new();
        match self.with(|engine| engine.tapped_receive(self.member, self.peer, room.len(), &mut parts)) {
            None => Err(libc::ECONNRESET),
            Some(Moved::Bytes(count)) => {
                let mut rest = room;
                for part in parts {
                    let (now, later) = rest.split_at_mut(part.len());
                    now.copy_from_slice(&part);
                    rest = later;
                }
                Ok(count)
            }
            Some(Moved::Nothing) if room.is_empty() => Ok(0),
            Some(Moved::Nothing) => Err(libc::EAGAIN),
            Some(Moved::Gone) => Err(GONE),
        }
    }

    /// Calls on a blocking socket wait. So do those on a channel that was taken out of service, until it is dead: a
    /// descriptor that was ready must not have nothing after all, XGBoost ends the process then (`loop.cc` counts the -1).
    fn patiently(&self, fd: RawFd, flags: c_int, wanted: i16, call: impl FnMut() -> Result<usize, c_int>) -> ssize_t {
        let mut call = call;
        loop {
            match call() {
                Ok(count) => return count as ssize_t,
                Err(code)
                    if code == GONE || code == libc::EAGAIN && flags & libc::MSG_DONTWAIT == 0 && is_blocking(fd) =>
                {
                    let mut one = [pollfd { fd, events: wanted, revents: 0 }];
                    if wait(&mut one, -1) < 0 {
                        return -1;
                    }
                }
                Err(code) => return failure(code),
            }
        }
    }
}

fn is_blocking(fd: RawFd) -> bool {
    // SAFETY: asks for a descriptor's flags only.
    unsafe { libc::fcntl(fd, libc::F_GETFL) & libc::O_NONBLOCK == 0 }
}

fn failure(code: c_int) -> ssize_t {
    // SAFETY: this thread's own error number.
    unsafe { *libc::__errno_location() = code };
    -1
}

/// A panic must not cross into XGBoost: the call fails as on a reset connection.
fn guarded(call: impl FnOnce() -> ssize_t) -> ssize_t {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        log::error!(
            "a socket call of XGBoost's that was served in place has panicked; it fails as on a reset connection"
        );
        failure(libc::ECONNRESET)
    })
}

unsafe extern "C" fn send(fd: c_int, bytes: *const c_void, length: size_t, flags: c_int) -> ssize_t {
    let Some(tap) = find(fd) else {
        // SAFETY: the caller's own call.
        return unsafe { libc::send(fd, bytes, length, flags) };
    };
    guarded(|| {
        // SAFETY: the caller's promise to `send`.
        let bytes = if length == 0 { &[] } else { unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) } };
        tap.patiently(fd, flags, POLLOUT, || tap.send(bytes))
    })
}

unsafe extern "C" fn recv(fd: c_int, room: *mut c_void, length: size_t, flags: c_int) -> ssize_t {
    let Some(tap) = find(fd) else {
        // SAFETY: the caller's own call.
        return unsafe { libc::recv(fd, room, length, flags) };
    };
    guarded(|| {
        if flags & !(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_WAITALL) != 0 {
            return failure(libc::EOPNOTSUPP);
        }
        let room = match length {
            0 => &mut [],
            // SAFETY: the caller's promise to `recv`.
            _ => unsafe { std::slice::from_raw_parts_mut(room.cast::<u8>(), length) },
        };
        tap.patiently(fd, flags, POLLIN, || tap.receive(room))
    })
}

unsafe extern "C" fn close(fd: c_int) -> c_int {
    // A number that is closed may be another file's at once.
    if ENTRIES.load(SeqCst) > 0 {
        remove(fd, None);
    }
    // SAFETY: the caller's own call.
    unsafe { libc::close(fd) }
}

unsafe extern "C" fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    if ENTRIES.load(SeqCst) > 0 && count > 0 && !fds.is_null() {
        // SAFETY: the caller's promise to `poll`.
        let fds = unsafe { std::slice::from_raw_parts_mut(fds, count as usize) };
        if fds.iter().any(|one| find(one.fd).is_some()) {
            return guarded(|| wait(fds, timeout) as ssize_t) as c_int;
        }
    }
    // SAFETY: the caller's own call.
    unsafe { libc::poll(fds, count, timeout) }
}

/// The kernel's `poll`; looks a few times before it sleeps, since being woken costs more than most waits take. Whoever
/// else wants the core gets it meanwhile.
fn ask(asked: &mut [pollfd], patience: c_int) -> c_int {
    let mut poll = |patience| {
        // SAFETY: as many entries are given as are there.
        unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as nfds_t, patience) }
    };
    if patience != 0 {
        for _ in 0..LOOKS {
            match poll(0) {
                0 => std::thread::yield_now(),
                result => return result,
            }
        }
    }
    poll(patience)
}

/// `poll` over descriptors of which some are served here.
fn wait(fds: &mut [pollfd], timeout: c_int) -> c_int {
    let deadline = (timeout >= 0).then(|| Instant::now() + Duration::from_millis(timeout as u64));
    let taps: Vec<Option<Arc<Tap>>> = fds.iter().map(|one| find(one.fd)).collect();
    let Some(first) = taps.iter().flatten().next().cloned() else { return 0 };
    let kick = first.state.kick.clone();
    // What the kernel is asked for: a kick, then each descriptor, or the link behind it.
    let mut asked: Vec<pollfd> = Vec::with_capacity(fds.len() + 1);
    let mut come = vec![false; fds.len()];
    loop {
        asked.clear();
        asked.push(pollfd { fd: kick.descriptor(), events: POLLIN, revents: 0 });
        let mut ready = false;
        let look = |engine: &mut Engine| {
            for ((one, tap), come) in fds.iter_mut().zip(&taps).zip(&mut come) {
                one.revents = 0;
                let Some(tap) = tap else {
                    asked.push(*one);
                    continue;
                };
                let mut link = None;
                if tap.state.is_dead() {
                    one.revents = one.events & (POLLIN | POLLOUT) | libc::POLLERR | libc::POLLHUP;
                } else {
                    let seen = engine.tapped_look(tap.member, tap.peer, std::mem::take(come));
                    one.revents |= if seen.readable { one.events & POLLIN } else { 0 };
                    one.revents |= if seen.writable { one.events & POLLOUT } else { 0 };
                    link = seen.link.filter(|_| one.events & POLLIN != 0);
                }
                ready |= one.revents != 0;
                asked.push(pollfd { fd: link.unwrap_or(-1), events: POLLIN, revents: 0 });
            }
            if !ready {
                kick.about_to_wait();
            }
        };
        if first.with(look).is_none() {
            // The bridge is over: its channels are dead, and say so.
            for (one, tap) in fds.iter_mut().zip(&taps) {
                if tap.is_some() {
                    one.revents = one.events & (POLLIN | POLLOUT) | libc::POLLERR | libc::POLLHUP;
                }
            }
            return fds.iter().filter(|one| one.revents != 0).count() as c_int;
        }
        let patience = match deadline {
            _ if ready => 0,
            None => -1,
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now()) + Duration::from_micros(999);
                left.as_millis().min(c_int::MAX as u128) as c_int
            }
        };
        let others = taps.iter().any(Option::is_none);
        let result = if ready && !others { 0 } else { ask(&mut asked, patience) };
        if !ready {
            kick.is_back(asked[0].revents != 0);
        }
        if result < 0 {
            return -1;
        }
        let mut count = 0;
        for (((one, tap), asked), come) in fds.iter_mut().zip(&taps).zip(&asked[1..]).zip(&mut come) {
            match tap {
                None => one.revents = asked.revents,
                Some(_) => *come = asked.revents != 0,
            }
            count += c_int::from(one.revents != 0);
        }
        if count > 0 || ready || (result == 0 && patience >= 0) {
            return count;
        }
    }
}
