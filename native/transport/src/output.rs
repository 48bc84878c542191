//! The bytes that wait to be sent.

use crate::cipher::{Cipher, CLEAR_LIMIT};
use crate::LinkError;
use bytes::{Buf, Bytes, BytesMut};
use rejoin_protocol::wire::{Header, HEADER_BYTES};
use socket2::SockRef;
use std::collections::VecDeque;
use std::io::{self, IoSlice};

/// Most parts that one system call sends: half of them headers.
const SLICES: usize = 64;

struct Outgoing {
    header: [u8; HEADER_BYTES],
    payload: Bytes,
    /// How much of header and payload has gone.
    gone: usize,
}

impl Outgoing {
    /// What is left of header and payload.
    fn rest(&self) -> (&[u8], &[u8]) {
        let of_header = self.gone.min(HEADER_BYTES);
        (&self.header[of_header..], &self.payload[self.gone - of_header..])
    }

    fn left(&self) -> usize {
        HEADER_BYTES + self.payload.len() - self.gone
    }
}

/// A queue of frames, with bytes before it that are as they go on the wire: the handshake's, and sealed messages.
#[derive(Default)]
pub(crate) struct Output {
    pub(crate) wire: BytesMut,
    frames: VecDeque<Outgoing>,
    /// Bytes in `frames`.
    queued: usize,
    /// Encrypted links: where a message is put together.
    clear: Vec<u8>,
    /// Bytes of a frame's payload that its owner still has, and brings before anything else is sent.
    owed: usize,
}

impl Output {
    pub(crate) fn push(&mut self, header: &Header, payload: Bytes) {
        let frame = Outgoing { header: header.encode(), payload, gone: 0 };
        self.queued += frame.left();
        self.frames.push_back(frame);
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.wire.is_empty() && self.frames.is_empty() && self.owed == 0
    }

    /// Begins a frame and gives to the kernel what it takes, straight from the parts of the
    /// payload, when nothing waits before it. How many bytes of the payload have gone; the others
    /// are owed.
    pub(crate) fn send_parts(&mut self, socket: &SockRef<'_>, header: &Header, parts: &[&[u8]]) -> io::Result<usize> {
        let header = header.encode();
        let gone = send_all(socket, &header, parts)?;
        self.wire.extend_from_slice(&header[gone.min(HEADER_BYTES)..]);
        let of_payload = gone.saturating_sub(HEADER_BYTES);
        self.owed = parts.iter().map(|part| part.len()).sum::<usize>() - of_payload;
        Ok(of_payload)
    }

    /// Goes on with the payload of the frame that was begun.
    pub(crate) fn send_rest(&mut self, socket: &SockRef<'_>, parts: &[&[u8]]) -> io::Result<usize> {
        debug_assert!(parts.iter().map(|part| part.len()).sum::<usize>() <= self.owed, "more than is owed");
        if !self.flush_wire(socket)? {
            return Ok(0);
        }
        let gone = send_all(socket, &[], parts)?;
        self.owed -= gone;
        Ok(gone)
    }

    /// Bytes of the payload that was begun that have to follow.
    pub(crate) fn owed(&self) -> usize {
        self.owed
    }

    /// What is owed will not be read: zeros are queued in its place.
    pub(crate) fn pad(&mut self) {
        self.wire.resize(self.wire.len() + std::mem::take(&mut self.owed), 0);
    }

    /// Bytes not yet given to the kernel.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.wire.len() + self.queued
    }

    /// Sends what is ready for the wire, but no frames. Whether all of it went.
    pub(crate) fn flush_wire(&mut self, socket: &SockRef<'_>) -> io::Result<bool> {
        while !self.wire.is_empty() {
            match send(socket, &[IoSlice::new(&self.wire)])? {
                Some(count) => self.wire.advance(count),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Sends everything. Whether all of it went; if not, the kernel's buffer is full.
    pub(crate) fn flush(&mut self, socket: &SockRef<'_>, mut cipher: Option<&mut Cipher>) -> Result<bool, LinkError> {
        loop {
            if !self.flush_wire(socket)? {
                return Ok(false);
            }
            if self.frames.is_empty() {
                return Ok(true);
            }
            match &mut cipher {
                // Not more than one message is sealed ahead of the socket.
                Some(cipher) => self.seal(cipher)?,
                None => match self.send_frames(socket)? {
                    Some(count) => self.went(count),
                    None => return Ok(false),
                },
            }
        }
    }

    fn send_frames(&self, socket: &SockRef<'_>) -> io::Result<Option<usize>> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let mut used = 0;
        for frame in self.frames.iter().take(SLICES / 2) {
            let (header, payload) = frame.rest();
            for part in [header, payload].into_iter().filter(|part| !part.is_empty()) {
                slices[used] = IoSlice::new(part);
                used += 1;
            }
        }
        send(socket, &slices[..used])
    }

    /// Puts as many frames, and parts of frames, as fit into one message.
    fn seal(&mut self, cipher: &mut Cipher) -> Result<(), LinkError> {
        self.clear.clear();
        for frame in &self.frames {
            let (header, payload) = frame.rest();
            for part in [header, payload] {
                let room = CLEAR_LIMIT - self.clear.len();
                self.clear.extend_from_slice(&part[..part.len().min(room)]);
            }
            if self.clear.len() == CLEAR_LIMIT {
                break;
            }
        }
        cipher.seal(&self.clear, &mut self.wire)?;
        self.went(self.clear.len());
        Ok(())
    }

    /// Drops the first `count` bytes of the queue.
    fn went(&mut self, mut count: usize) {
        self.queued -= count;
        while let Some(frame) = self.frames.front_mut() {
            let left = frame.left();
            if count < left {
                frame.gone += count;
                return;
            }
            count -= left;
            self.frames.pop_front();
        }
    }
}

/// All bytes of the parts.
pub(crate) fn joined(parts: &[&[u8]]) -> Bytes {
    let mut all = BytesMut::with_capacity(parts.iter().map(|part| part.len()).sum());
    for part in parts {
        all.extend_from_slice(part);
    }
    all.freeze()
}

/// One system call for a header and the parts behind it: how many bytes the kernel took.
fn send_all(socket: &SockRef<'_>, header: &[u8], parts: &[&[u8]]) -> io::Result<usize> {
    let mut slices = [IoSlice::new(&[]); SLICES];
    let mut used = 0;
    for part in std::iter::once(&header).chain(parts).filter(|part| !part.is_empty()).take(SLICES) {
        slices[used] = IoSlice::new(part);
        used += 1;
    }
    if used == 0 {
        return Ok(0);
    }
    Ok(send(socket, &slices[..used])?.unwrap_or(0))
}

/// One system call; `None` when the kernel's buffer is full. A peer that is gone is an error, never a signal.
fn send(socket: &SockRef<'_>, slices: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const FLAGS: libc::c_int = libc::MSG_NOSIGNAL;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const FLAGS: libc::c_int = 0;
    loop {
        match socket.send_vectored_with_flags(slices, FLAGS) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => return Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_right_wherever_the_kernel_stops() {
        let payloads = [5, 0, 0, 100, 1].map(|length: u8| Bytes::from(vec![length; length.into()]));
        for step in 1..150 {
            let (mut output, mut expected) = (Output::default(), Vec::new());
            for payload in payloads.clone() {
                let header = Header::control(payload.len() as u32);
                expected.extend_from_slice(&header.encode());
                expected.extend_from_slice(&payload);
                output.push(&header, payload);
            }
            let mut sent = Vec::new();
            while !output.frames.is_empty() {
                let rest: Vec<u8> =
                    output.frames.iter().flat_map(|frame| [frame.rest().0, frame.rest().1].concat()).collect();
                assert_eq!(rest.len(), output.queued_bytes());
                let now = step.min(rest.len());
                sent.extend_from_slice(&rest[..now]);
                output.went(now);
            }
            assert_eq!(sent, expected, "in steps of {step} bytes");
            assert_eq!(output.queued_bytes(), 0);
        }
    }
}
