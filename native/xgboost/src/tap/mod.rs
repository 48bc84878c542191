//! The tap: a worker's socket calls are served in place.
//!
//! Through sockets every message between two workers passes two threads and four copies more than XGBoost's own
//! collective needs. So once a worker stands at its first boundary (its sockets are at rest then), the calls by which
//! XGBoost moves bytes on its channels (`send`, `recv`, `poll`, and `close`) are served in the calling thread: what it
//! sends goes into the log and on over the link at once, and what it receives comes straight off the link. The sockets
//! stay open underneath; XGBoost doesn't notice.
//!
//! The four functions are put into the slots through which the loaded library calls the C library ([`slots`]). Each slot
//! is found by the name of the function, must hold that function (or the loader's stub for it), and all are swapped or
//! none; otherwise the bridge goes on through sockets, and one line says why. Only descriptors in the table of [`calls`]
//! are served, everything else of that library (a stock training in the same JVM, for instance) goes to the C library as
//! before.

pub(crate) mod calls;
pub(crate) mod slots;

use crate::chunks::Chunks;
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use rejoin_meet::Mark;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::Arc;

/// A worker's thread that doesn't read is given no more than this.
const INBOX_BYTES: usize = 1 << 20;

/// What wakes one worker's thread from its `poll`.
#[derive(Debug)]
pub(crate) struct Kick {
    event: OwnedFd,
    mark: Mark<AtomicU64>,
}

impl Kick {
    /// # Errors
    /// When the process has no descriptor left.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes no pointers; its result is checked.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made, and nobody else has it.
        let event = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Kick { event, mark: Mark::default() })
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    /// The worker's thread is about to wait. Called with the engine locked, so that nothing happens unseen before.
    pub(crate) fn about_to_wait(&self) {
        self.mark.about_to_wait();
    }

    /// The worker's thread is back; `kicked`: it has seen the descriptor ready.
    pub(crate) fn is_back(&self, kicked: bool) {
        self.mark.is_back(kicked, || {
            let mut count = [0u8; 8];
            // SAFETY: reads at most the 8 bytes of `count`. It fails only when there was no kick.
            unsafe { libc::read(self.descriptor(), count.as_mut_ptr().cast(), count.len()) };
        });
    }

    /// Something happened. Costs a system call only when the thread waits.
    pub(crate) fn kick(&self) {
        self.mark.kick(|| self.write());
    }

    fn write(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: writes the 8 bytes of `one`. It fails only if the counter is full, and then the thread is woken anyway.
        unsafe { libc::write(self.descriptor(), one.as_ptr().cast(), one.len()) };
    }
}

/// What the engine and the calls both know of one tapped channel.
#[derive(Debug)]
pub(crate) struct TapState {
    pub(crate) kick: Arc<Kick>,
    dead: AtomicBool,
    /// Where the worker's thread puts what it sends, without holding the engine meanwhile.
    buffer: Mutex<BytesMut>,
}

impl TapState {
    /// Whether calls on the channel end with a reset.
    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(SeqCst)
    }

    /// Copies what the worker sends, at most what its buffer still has room for.
    pub(crate) fn copy(&self, bytes: &[u8], chunks: &Chunks) -> Bytes {
        let mut buffer = self.buffer.lock();
        if buffer.capacity() == buffer.len() {
            *buffer = chunks.take();
        }
        let count = bytes.len().min(buffer.capacity() - buffer.len());
        buffer.extend_from_slice(&bytes[..count]);
        buffer.split().freeze()
    }
}

/// The bytes between the worker's thread and its channel.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) state: Arc<TapState>,
    fd: RawFd,
    outbox: VecDeque<Bytes>,
    inbox: VecDeque<Bytes>,
    inbox_bytes: usize,
}

impl Pipe {
    /// Nothing in it yet. `fd` is the worker's end.
    pub(crate) fn new(kick: Arc<Kick>, fd: RawFd) -> Self {
        let state = Arc::new(TapState { kick, dead: AtomicBool::new(false), buffer: Mutex::default() });
        let (outbox, inbox, inbox_bytes) = Default::default();
        Pipe { state, fd, outbox, inbox, inbox_bytes }
    }

    /// The worker sends bytes.
    pub(crate) fn send(&mut self, bytes: Bytes) {
        self.outbox.push_back(bytes);
    }

    /// Whether the engine has taken all that the worker sent.
    pub(crate) fn is_sent(&self) -> bool {
        self.outbox.is_empty()
    }

    /// The engine takes what the worker sent, at most `limit` bytes.
    pub(crate) fn take_sent(&mut self, limit: usize) -> Option<Bytes> {
        let front = self.outbox.front_mut()?;
        if front.len() > limit {
            return Some(front.split_to(limit));
        }
        self.outbox.pop_front()
    }

    /// The engine hands bytes to the worker.
    pub(crate) fn deliver(&mut self, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        self.inbox_bytes += bytes.len();
        self.inbox.push_back(bytes);
        self.state.kick.kick();
    }

    /// Bytes that the worker could receive.
    pub(crate) fn waiting(&self) -> usize {
        self.inbox_bytes
    }

    /// Whether more may be handed to the worker.
    pub(crate) fn has_room(&self) -> bool {
        self.inbox_bytes < INBOX_BYTES
    }

    /// The worker receives at most `most` bytes. Returns how many.
    pub(crate) fn receive(&mut self, most: usize, into: &mut Vec<Bytes>) -> usize {
        let mut left = most;
        while let Some(front) = self.inbox.front_mut().filter(|_| left > 0) {
            let part = if front.len() > left { front.split_to(left) } else { std::mem::take(front) };
            if front.is_empty() {
                self.inbox.pop_front();
            }
            left -= part.len();
            into.push(part);
        }
        self.inbox_bytes -= most - left;
        most - left
    }

    /// See [`crate::worker_socket::WorkerSocket::fresh_buffer`].
    pub(crate) fn fresh_buffer(&mut self) {
        *self.state.buffer.lock() = BytesMut::new();
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.state.dead.store(true, SeqCst);
        calls::remove(self.fd, Some(&self.state));
        self.state.kick.kick();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe() -> Pipe {
        Pipe::new(Arc::new(Kick::new().unwrap()), -1)
    }

    #[test]
    fn what_is_sent_comes_out_in_its_order_whatever_the_limits() {
        let (mut pipe, chunks) = (pipe(), Chunks::new(1 << 20));
        let all: Vec<u8> = (0..700_000u32).map(|i| (i % 251) as u8).collect();
        let mut rest = all.as_slice();
        let mut seen = Vec::new();
        while !rest.is_empty() {
            let part = pipe.state.copy(rest, &chunks);
            rest = &rest[part.len()..];
            pipe.send(part);
            while let Some(bytes) = pipe.take_sent(100_001) {
                assert!(bytes.len() <= 100_001);
                seen.extend_from_slice(&bytes);
            }
            assert!(pipe.is_sent());
        }
        assert!(seen == all);
    }

    #[test]
    fn what_is_delivered_is_received_in_pieces_of_any_size() {
        let mut pipe = pipe();
        for part in [&b"abc"[..], b"", b"defgh"] {
            pipe.deliver(Bytes::copy_from_slice(part));
        }
        assert_eq!(pipe.waiting(), 8);
        let mut receive = |most| {
            let mut parts = Vec::new();
            let count = pipe.receive(most, &mut parts);
            assert_eq!(count, parts.iter().map(Bytes::len).sum::<usize>());
            parts.concat()
        };
        assert_eq!(receive(5), b"abcde");
        assert_eq!(receive(5), b"fgh");
        assert_eq!(receive(5), b"");
        assert_eq!(pipe.waiting(), 0);
    }

    #[test]
    fn a_kick_wakes_only_who_waits_and_only_once() {
        let kick = Kick::new().unwrap();
        let poll = |timeout| {
            let mut fds = [libc::pollfd { fd: kick.descriptor(), events: libc::POLLIN, revents: 0 }];
            // SAFETY: one entry is given, and one is there.
            unsafe { libc::poll(fds.as_mut_ptr(), 1, timeout) }
        };
        kick.kick();
        assert_eq!(poll(0), 0, "nobody waits");
        kick.about_to_wait();
        kick.kick();
        kick.kick();
        assert_eq!(poll(10_000), 1);
        kick.is_back(true);
        assert_eq!(poll(0), 0, "the kick is used up");
        kick.about_to_wait();
        kick.is_back(false);
        assert_eq!(poll(0), 0);
        // A kick whose second half comes when the thread waits for the next one.
        kick.about_to_wait();
        kick.mark.kick(|| {
            kick.is_back(false);
            kick.about_to_wait();
            kick.write();
        });
        assert_eq!(poll(10_000), 1);
        kick.is_back(true);
        assert_eq!(poll(0), 0, "it wakes once");
    }
}
