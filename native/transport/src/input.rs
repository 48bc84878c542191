//! The bytes that came and the frames in them.

use crate::cipher::{Cipher, SEALED_LIMIT};
use crate::LinkError;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::wire::{Header, Kind, HEADER_BYTES};
use socket2::SockRef;
use std::io::{self, IoSliceMut, Read};

/// Bytes that a buffer has room for when it is made anew. Frames are parts of such buffers, not copies.
const CHUNK_BYTES: usize = 256 << 10;

/// A frame that is as short is read at once with its header, even when payloads are read to where
/// they belong: a copy costs less than a second system call.
const SHORT_BYTES: usize = 4 << 10;

/// The least room that is worth a read.
const READ_BYTES: usize = 16 << 10;

/// What a read came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// There is more than before.
    More,
    /// Nothing to be read now.
    Blocked,
    /// The other end has closed.
    End,
}

/// Cuts a stream into frames.
pub(crate) struct Input {
    /// The stream from the next header on, or from the next payload on when its header was taken off already.
    clear: BytesMut,
    /// The header whose payload comes next.
    header: Option<Header>,
    /// Bytes of that payload that weren't taken yet.
    left: usize,
    /// Encrypted links: what isn't opened yet.
    sealed: BytesMut,
    /// The last read left room: it has emptied the socket.
    drained: bool,
    /// Payloads are read to where they belong. So not more is read ahead than a short frame.
    in_place: bool,
}

impl Input {
    /// `start` came together with the last bytes of the handshake.
    pub(crate) fn new(start: BytesMut, encrypted: bool) -> Self {
        let (clear, sealed) = if encrypted { (BytesMut::new(), start) } else { (start, BytesMut::new()) };
        Input { clear, header: None, left: 0, sealed, drained: false, in_place: false }
    }

    /// The next frame's header, as soon as it is there. Its length is below the limit; nothing was reserved before
    /// that was checked.
    pub(crate) fn header(&mut self) -> Result<Option<Header>, LinkError> {
        if self.header.is_none() {
            if let Some(bytes) = self.clear.first_chunk::<HEADER_BYTES>() {
                let header = Header::decode(bytes).map_err(LinkError::Incompatible)?;
                self.clear.advance(HEADER_BYTES);
                self.header = Some(header);
                self.left = header.length as usize;
            }
        }
        Ok(self.header)
    }

    /// The next frame, if it is there as a whole.
    pub(crate) fn frame(&mut self) -> Result<Option<(Header, Bytes)>, LinkError> {
        match self.header()? {
            Some(header) if self.clear.len() >= self.left => {
                self.header = None;
                Ok(Some((header, self.clear.split_to(self.left).freeze())))
            }
            _ => Ok(None),
        }
    }

    /// What is there of the next frame's payload, with a header for just that: of a `Data` frame
    /// each part is one of its own, so a long frame needn't be there as a whole before its first
    /// bytes can be used. `None` when nothing is.
    pub(crate) fn part(&mut self) -> Result<Option<(Header, Bytes)>, LinkError> {
        match self.header()? {
            Some(mut header) if header.kind == Kind::Data && self.clear.len() < header.length as usize => {
                if self.clear.is_empty() {
                    return Ok(None);
                }
                let Some(offset) = header.offset.checked_add(self.clear.len() as u64) else {
                    let text =
                        format!("a frame of {} bytes at {}: no stream is that long", header.length, header.offset);
                    return Err(LinkError::Incompatible(Error::new(Code::Incompatible, text)));
                };
                let bytes = self.clear.split().freeze();
                let rest = Header { length: header.length - bytes.len() as u32, offset, ..header };
                self.header = Some(rest);
                self.left = rest.length as usize;
                header.length = bytes.len() as u32;
                Ok(Some((header, bytes)))
            }
            _ => self.frame(),
        }
    }

    /// Brings bytes of the payload of [`Input::header`] into `room`: those that lie here, and then,
    /// without encryption, what one read gives straight into it. How many; none when none are there
    /// now.
    pub(crate) fn payload(
        &mut self,
        room: &mut [u8],
        socket: &SockRef<'_>,
        mut cipher: Option<&mut Cipher>,
    ) -> Result<(usize, Filled), LinkError> {
        if self.header.is_none() {
            return Ok((0, Filled::Blocked));
        }
        self.in_place = true;
        let wanted = room.len().min(self.left);
        let mut filled = Filled::More;
        if self.clear.is_empty() && wanted > 0 {
            match &mut cipher {
                None => {
                    let (count, came) = self.read_payload(&mut room[..wanted], socket)?;
                    self.took(count);
                    return Ok((count, came));
                }
                Some(cipher) => filled = self.fill(socket, Some(cipher))?,
            }
        }
        let count = self.clear.len().min(wanted);
        room[..count].copy_from_slice(&self.clear[..count]);
        self.clear.advance(count);
        self.took(count);
        Ok((count, filled))
    }

    /// One read into `room`; with the payload's last bytes the next header comes too, if it is there.
    fn read_payload(&mut self, room: &mut [u8], socket: &SockRef<'_>) -> Result<(usize, Filled), LinkError> {
        let mut next = [0; HEADER_BYTES];
        let behind = if room.len() == self.left { HEADER_BYTES } else { 0 };
        let all = room.len() + behind;
        loop {
            let mut slices = [IoSliceMut::new(room), IoSliceMut::new(&mut next[..behind])];
            match (&**socket).read_vectored(&mut slices) {
                Ok(0) => return Ok((0, Filled::End)),
                Ok(count) => {
                    self.drained = count < all;
                    let of_room = count.min(room.len());
                    self.clear.extend_from_slice(&next[..count - of_room]);
                    return Ok((of_room, Filled::More));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.drained = true;
                    return Ok((0, Filled::Blocked));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Drops what lies here of the payload of [`Input::header`]; `Some` when that was the rest of it.
    pub(crate) fn skip(&mut self) -> Result<Option<()>, LinkError> {
        let count = self.clear.len().min(self.left);
        self.clear.advance(count);
        self.left -= count;
        if self.left > 0 {
            return Ok(None);
        }
        self.header = None;
        Ok(Some(()))
    }

    fn took(&mut self, count: usize) {
        self.left -= count;
        if self.left == 0 {
            self.header = None;
        }
    }

    /// Whether an end of the stream here would cut a frame or a message off.
    pub(crate) fn is_within_frame(&self) -> bool {
        self.header.is_some() || !self.clear.is_empty() || !self.sealed.is_empty()
    }

    /// Whether nothing lies here, and the last read has emptied the socket.
    pub(crate) fn is_empty(&self) -> bool {
        self.drained && self.clear.is_empty() && self.sealed.is_empty()
    }

    /// There may be something in the socket again.
    pub(crate) fn refilled(&mut self) {
        self.drained = false;
    }

    /// Gets more of the stream: from what lies here sealed, else with one read from the socket.
    pub(crate) fn fill(&mut self, socket: &SockRef<'_>, cipher: Option<&mut Cipher>) -> Result<Filled, LinkError> {
        let wanted = match self.header {
            Some(_) => self.left.saturating_sub(self.clear.len()),
            None => HEADER_BYTES.saturating_sub(self.clear.len()),
        };
        match cipher {
            None => {
                make_room(&mut self.clear, wanted);
                let room = self.clear.capacity() - self.clear.len();
                let most = if self.in_place { room.min(wanted.max(SHORT_BYTES)) } else { room };
                let before = self.clear.len();
                let filled = read(socket, &mut self.clear, most)?;
                self.drained = self.clear.len() - before < most;
                Ok(filled)
            }
            Some(cipher) => loop {
                make_room(&mut self.clear, wanted);
                if cipher.open(&mut self.sealed, &mut self.clear)? {
                    return Ok(Filled::More);
                }
                // The buffer is never shared, so this moves what is left of it to its front.
                self.sealed.reserve(SEALED_LIMIT - self.sealed.len().min(SEALED_LIMIT));
                let room = self.sealed.capacity() - self.sealed.len();
                let filled = read(socket, &mut self.sealed, room)?;
                self.drained = self.sealed.len() < self.sealed.capacity();
                match filled {
                    Filled::More => {}
                    other => return Ok(other),
                }
            },
        }
    }
}

/// Makes room for `wanted` more bytes, or for as many as make a read worth while.
fn make_room(buffer: &mut BytesMut, wanted: usize) {
    let room = buffer.capacity() - buffer.len();
    // A long frame's last bytes are read alone, so that the next frame begins a new buffer and needn't be copied there.
    if room < wanted || (room < READ_BYTES && buffer.len() < READ_BYTES) {
        buffer.reserve(wanted.max(CHUNK_BYTES.saturating_sub(buffer.len())));
    }
}

/// Reads once into the room that `buffer` has (there must be some), at most so many bytes.
pub(crate) fn read(socket: &SockRef<'_>, buffer: &mut BytesMut, most: usize) -> io::Result<Filled> {
    debug_assert!(most > 0 && buffer.capacity() - buffer.len() >= most, "no room: the read would look like an end");
    loop {
        match socket.recv(&mut buffer.spare_capacity_mut()[..most]) {
            Ok(0) => return Ok(Filled::End),
            Ok(count) => {
                // SAFETY: recv has initialised the first `count` bytes of the room, and count is at most its length.
                #[allow(unsafe_code)]
                unsafe {
                    buffer.advance_mut(count)
                };
                return Ok(Filled::More);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Filled::Blocked),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rejoin_protocol::ids::{Lineage, Phase, Version};
    use rejoin_protocol::wire::PAYLOAD_LIMIT;

    fn header(length: usize, offset: u64) -> Header {
        Header {
            length: length as u32,
            kind: Kind::Data,
            phase: Phase::Version(Version(3)),
            lineage: Lineage(1),
            offset,
            digest: 7,
            generation: Default::default(),
            inputs: 0,
        }
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in_wherever_the_stream_is_split(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..2000), 1..20),
            pieces in prop::collection::vec(1usize..700, 1..50),
        ) {
            let mut stream = Vec::new();
            for (index, payload) in payloads.iter().enumerate() {
                stream.extend_from_slice(&header(payload.len(), index as u64).encode());
                stream.extend_from_slice(payload);
            }
            let mut input = Input::new(BytesMut::new(), false);
            let (mut rest, mut seen) = (stream.as_slice(), Vec::new());
            for piece in pieces.iter().cycle() {
                let (now, later) = rest.split_at((*piece).min(rest.len()));
                input.clear.extend_from_slice(now);
                rest = later;
                while let Some(frame) = input.frame()? {
                    seen.push(frame);
                }
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert!(!input.is_within_frame());
            prop_assert_eq!(seen.len(), payloads.len());
            for (index, ((seen_header, seen_payload), payload)) in seen.iter().zip(&payloads).enumerate() {
                prop_assert_eq!(seen_header, &header(payload.len(), index as u64));
                prop_assert_eq!(seen_payload.as_ref(), payload.as_slice());
            }
        }
    }

    #[test]
    fn a_length_over_the_limit_is_refused_before_anything_is_reserved() {
        let mut bytes = header(0, 0).encode();
        bytes[..4].copy_from_slice(&(PAYLOAD_LIMIT + 1).to_le_bytes());
        let mut input = Input::new(BytesMut::from(bytes.as_slice()), false);
        let capacity = input.clear.capacity();
        let Err(LinkError::Incompatible(error)) = input.header() else { panic!("a length over the limit passed") };
        assert!(error.message.contains("1048577") && error.message.contains("1048576"), "{error}");
        assert_eq!(input.clear.capacity(), capacity);
    }

    #[test]
    fn a_part_of_a_frame_beyond_the_end_of_numbers_is_refused() {
        let mut input = Input::new(BytesMut::from(header(100, u64::MAX - 5).encode().as_slice()), false);
        input.clear.extend_from_slice(&[1; 10]);
        assert!(matches!(input.part(), Err(LinkError::Incompatible(_))));
    }

    #[test]
    fn room_is_reused_when_no_frame_of_it_is_left() {
        let mut buffer = BytesMut::new();
        make_room(&mut buffer, HEADER_BYTES);
        let capacity = buffer.capacity();
        for _ in 0..100 {
            buffer.resize(capacity - 10, 1);
            drop(buffer.split_to(capacity - 10).freeze());
            make_room(&mut buffer, HEADER_BYTES);
            assert_eq!(buffer.capacity(), capacity);
        }
    }
}
