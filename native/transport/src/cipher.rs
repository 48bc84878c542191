//! Sealing and opening of the byte stream of an encrypted link.

use crate::LinkError;
use bytes::{Buf, BytesMut};
use snow::TransportState;

/// Most bytes of one Noise message.
const MESSAGE_LIMIT: usize = 65535;

/// Bytes of the authentication tag.
pub(crate) const TAG_BYTES: usize = 16;

/// Bytes of the length before a message.
pub(crate) const LENGTH_BYTES: usize = 2;

/// Most bytes of the stream in one message.
pub(crate) const CLEAR_LIMIT: usize = MESSAGE_LIMIT - TAG_BYTES;

/// Bytes that a buffer of incoming messages needs.
pub(crate) const SEALED_LIMIT: usize = LENGTH_BYTES + MESSAGE_LIMIT;

/// The keys of both directions. They count messages, so one that was left out, repeated or moved doesn't open.
pub(crate) struct Cipher(TransportState);

impl Cipher {
    pub(crate) fn new(keys: TransportState) -> Self {
        Cipher(keys)
    }

    /// Appends `clear` (at most [`CLEAR_LIMIT`] bytes) as one message with its length.
    pub(crate) fn seal(&mut self, clear: &[u8], out: &mut BytesMut) -> Result<(), LinkError> {
        let message = clear.len() + TAG_BYTES;
        let start = out.len();
        out.extend_from_slice(&u16::try_from(message).map_err(too_long)?.to_le_bytes());
        out.resize(start + LENGTH_BYTES + message, 0);
        match self.0.write_message(clear, &mut out[start + LENGTH_BYTES..]) {
            Ok(_) => Ok(()),
            Err(cause) => {
                out.truncate(start);
                Err(LinkError::Io(std::io::Error::other(format!("a message could not be sealed: {cause}"))))
            }
        }
    }

    /// Opens the first message of `sealed` if it is there as a whole, and appends what it holds to `clear`.
    pub(crate) fn open(&mut self, sealed: &mut BytesMut, clear: &mut BytesMut) -> Result<bool, LinkError> {
        let Some(length) = message_length(sealed) else { return Ok(false) };
        if length < TAG_BYTES {
            return Err(LinkError::Stranger(format!(
                "an encrypted message of {length} bytes; the shortest one has {TAG_BYTES}: bytes were lost or changed \
                 on their way"
            )));
        }
        let Some(message) = sealed.get(LENGTH_BYTES..LENGTH_BYTES + length) else { return Ok(false) };
        let start = clear.len();
        clear.resize(start + length - TAG_BYTES, 0);
        if let Err(cause) = self.0.read_message(message, &mut clear[start..]) {
            clear.truncate(start);
            return Err(LinkError::Stranger(format!(
                "an encrypted message of {length} bytes doesn't open ({cause}): it was changed on its way"
            )));
        }
        sealed.advance(LENGTH_BYTES + length);
        Ok(true)
    }
}

/// The length that stands before a message, if it is there.
pub(crate) fn message_length(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk().map(|length| usize::from(u16::from_le_bytes(*length)))
}

fn too_long(_: std::num::TryFromIntError) -> LinkError {
    LinkError::Io(std::io::Error::other(format!("a message of more than {CLEAR_LIMIT} bytes was to be sealed")))
}
