//! Our end of one channel of a local worker: the worker takes it for its peer.

use crate::kernel::{self, OwnConnections};
use crate::read_buffers::ReadBuffers;
use bytes::{Buf, Bytes, BytesMut};
use mio::net::TcpStream;
use mio::Token;
use socket2::SockRef;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::RawFd;

/// A read into less room than this isn't worth a system call.
const LEAST_ROOM: usize = 4 << 10;

/// What a read gave.
#[derive(Debug)]
pub(crate) enum Taken {
    /// Bytes, in a part of the read buffer.
    Bytes(Bytes),
    /// Nothing now; the poll says when there is more.
    Blocked,
    /// The worker has closed its end.
    Ended,
}

/// Whether a channel is at rest at a boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// All that the worker wrote was read, and the worker has read all that it was given.
    Complete,
    /// Bytes are on their way.
    Moving,
    /// The worker was given bytes that it has not read.
    Unread(u64),
    /// The worker's end is closed.
    Gone,
}

/// One channel's socket.
#[derive(Debug)]
pub(crate) struct WorkerSocket {
    stream: TcpStream,
    token: Token,
    /// Addresses of the worker's end: its own, and ours as it sees it.
    ends: (SocketAddr, SocketAddr),
    worker_file: Option<RawFd>,
    readable: bool,
    writable: bool,
    closing: bool,
    ended: bool,
    buffer: BytesMut,
    /// Bytes for the worker that its socket did not take yet.
    pending: Bytes,
}

impl WorkerSocket {
    /// Takes over a socket whose bootstrap is over; it is registered under `token`.
    ///
    /// # Errors
    /// When the connection is gone.
    pub(crate) fn new(stream: TcpStream, token: Token) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let ends = (stream.peer_addr()?, stream.local_addr()?);
        Ok(WorkerSocket {
            stream,
            token,
            ends,
            worker_file: None,
            readable: true,
            writable: true,
            closing: false,
            ended: false,
            buffer: BytesMut::new(),
            pending: Bytes::new(),
        })
    }

    /// The name under which it is registered.
    pub(crate) fn token(&self) -> Token {
        self.token
    }

    /// The poll says so.
    pub(crate) fn ready(&mut self, readable: bool, writable: bool, closing: bool) {
        self.readable |= readable;
        self.writable |= writable;
        self.closing |= closing;
    }

    /// Whether all bytes for the worker are in its socket.
    pub(crate) fn is_free(&self) -> bool {
        self.pending.is_empty() && !self.ended
    }

    /// Reads at most `limit` bytes, `limit` > 0, into a buffer of `read_buffers`.
    pub(crate) fn read(&mut self, limit: usize, read_buffers: &ReadBuffers) -> Taken {
        if self.ended {
            return Taken::Ended;
        }
        if !self.readable {
            return Taken::Blocked;
        }
        if self.buffer.capacity() - self.buffer.len() < LEAST_ROOM {
            self.buffer = read_buffers.take();
        }
        let room = (self.buffer.capacity() - self.buffer.len()).min(limit);
        loop {
            match kernel::read_into(&self.stream, &mut self.buffer, limit) {
                Ok(0) => return self.end(),
                Ok(count) => {
                    // A read that doesn't fill its room has emptied the socket. The end of the stream makes no further
                    // event once it was announced.
                    self.readable = count == room || self.closing;
                    return Taken::Bytes(self.buffer.split().freeze());
                }
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    return Taken::Blocked;
                }
                Err(_) => return self.end(),
            }
        }
    }

    fn end(&mut self) -> Taken {
        self.ended = true;
        self.pending = Bytes::new();
        Taken::Ended
    }

    /// Gives bytes to the worker; what its socket doesn't take now is kept. Only when [`WorkerSocket::is_free`].
    pub(crate) fn write(&mut self, bytes: Bytes) {
        debug_assert!(self.pending.is_empty(), "bytes wait for the worker already");
        self.pending = bytes;
        self.flush();
    }

    /// Goes on with the bytes that wait.
    pub(crate) fn flush(&mut self) {
        while self.writable && !self.pending.is_empty() && !self.ended {
            match (&self.stream).write(&self.pending) {
                Ok(count) => {
                    self.pending.advance(count);
                    self.writable = self.pending.is_empty();
                }
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(_) => {
                    self.end();
                }
            }
        }
    }

    /// A new phase begins: what comes next shares no buffer with a boot log, which is kept for the job's life.
    pub(crate) fn fresh_buffer(&mut self) {
        self.buffer = BytesMut::new();
    }

    /// Whether nothing is on its way in either direction. Call it after [`WorkerSocket::read`] said that it is blocked,
    /// while the worker makes no calls.
    ///
    /// `own` is scanned once for all channels, when the worker's end isn't known yet.
    ///
    /// # Errors
    /// When the worker's end is not in this process, or the kernel doesn't answer.
    pub(crate) fn rest(&mut self, own: &mut Option<OwnConnections>) -> io::Result<Rest> {
        if self.ended {
            return Ok(Rest::Gone);
        }
        if !self.pending.is_empty() {
            return Ok(Rest::Unread(self.pending.len() as u64));
        }
        if !OwnConnections::known() {
            // Loopback delivers within the call, so what isn't in our queue is not on its way as a rule.
            let waiting = kernel::unread(kernel::descriptor(&self.stream))?;
            self.readable |= waiting > 0;
            return Ok(if waiting > 0 { Rest::Moving } else { Rest::Complete });
        }
        let Some(file) = self.worker_end(own)? else { return Ok(Rest::Gone) };
        self.rest_between(file)
    }

    /// The same for what the worker sent alone, whatever is on its way to it: `Moving`, `Complete` or `Gone`.
    ///
    /// # Errors
    /// As [`WorkerSocket::rest`].
    pub(crate) fn rest_of_sent(&mut self, own: &mut Option<OwnConnections>) -> io::Result<Rest> {
        if self.ended {
            return Ok(Rest::Gone);
        }
        let mut on_its_way = 0;
        if OwnConnections::known() {
            let Some(file) = self.worker_end(own)? else { return Ok(Rest::Gone) };
            on_its_way = self.unread_by_worker(file)?;
        }
        let waiting = kernel::unread(kernel::descriptor(&self.stream))?;
        self.readable |= on_its_way > 0 || waiting > 0;
        Ok(if on_its_way > 0 || waiting > 0 { Rest::Moving } else { Rest::Complete })
    }

    /// Bytes that the worker wrote and that our end has not got.
    #[cfg(target_os = "linux")]
    fn unread_by_worker(&mut self, worker: RawFd) -> io::Result<u64> {
        kernel::acknowledge(&self.stream);
        kernel::unacknowledged(worker)
    }

    #[cfg(not(target_os = "linux"))]
    fn unread_by_worker(&mut self, _worker: RawFd) -> io::Result<u64> {
        Ok(0)
    }

    #[cfg(target_os = "linux")]
    fn rest_between(&mut self, worker: RawFd) -> io::Result<Rest> {
        let own = kernel::descriptor(&self.stream);
        kernel::acknowledge(&self.stream);
        if kernel::unacknowledged(worker)? > 0 {
            self.readable = true;
            return Ok(Rest::Moving);
        }
        if kernel::unread(own)? > 0 {
            self.readable = true;
            return Ok(Rest::Moving);
        }
        if kernel::unacknowledged(own)? > 0 {
            kernel::acknowledge_file(worker);
            if kernel::unacknowledged(own)? > 0 {
                return Ok(Rest::Moving);
            }
        }
        match kernel::unread(worker)? {
            0 => Ok(Rest::Complete),
            unread => Ok(Rest::Unread(unread)),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn rest_between(&mut self, _worker: RawFd) -> io::Result<Rest> {
        Ok(Rest::Complete)
    }

    /// The worker's end of this connection. Its number may be another file's by now, so the addresses are compared.
    fn worker_end(&mut self, own: &mut Option<OwnConnections>) -> io::Result<Option<RawFd>> {
        if let Some(file) = self.worker_file.filter(|file| kernel::ends_of(*file) == Some(self.ends)) {
            return Ok(Some(file));
        }
        if own.is_none() {
            *own = Some(OwnConnections::scan()?);
        }
        self.worker_file = own.as_ref().and_then(|own| own.find(self.ends.0, self.ends.1));
        Ok(self.worker_file)
    }

    /// Closes with a reset.
    pub(crate) fn reset(self) {
        rejoin_transport::reset(self.stream);
    }

    /// To deregister it.
    pub(crate) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }
}

/// Settings that every loopback socket gets.
pub(crate) fn prepare(stream: &TcpStream) {
    // A connection that is gone already is noticed at its first read.
    let _ = SockRef::from(stream).set_tcp_nodelay(true);
}
