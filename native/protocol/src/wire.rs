//! The header that stands before every payload, and the encoding of control messages (postcard).

use crate::error::{Code, Error};
use crate::ids::{Generation, Lineage, Phase, Version};
use alloc::format;
use alloc::vec::Vec;
use serde::de::DeserializeOwned;
use serde::Serialize;

/// Version of everything in this module and in [`crate::message`]. Both ends must have the same.
pub const WIRE_VERSION: u16 = 25;

/// Bytes of a frame header.
pub const HEADER_BYTES: usize = 48;

/// Most bytes of payload in one frame; a longer one is refused before anything is allocated.
pub const PAYLOAD_LIMIT: u32 = 1 << 20;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A control message (postcard), on links between agent and tracker and for fetches.
    Control = 1,
    /// Part of a checkpoint's or a result's bytes; `offset` says where.
    Bulk = 2,
    /// Bytes of a channel; `offset` is their place in the phase.
    Data = 3,
    /// A phase begins on a channel (payload: [`crate::channel::PhaseMark`]).
    PhaseStart = 4,
    /// A phase is over on a channel; `offset` is its length.
    PhaseEnd = 5,
    /// What the receiver of a channel has already (payload: [`crate::channel::Receipt`]).
    Receipt = 6,
    /// Bytes of a collective; `offset` is made by [`crate::collective::frame::offset`],
    /// `generation` is the plan's generation.
    Collective = 7,
}

/// What stands before a payload: kind, position, call digest and boot flag.
///
/// Layout, little endian: length u32, kind u8, flags u8 (bit 0: boot), reserved u16 (0), lineage u32, version u32,
/// offset u64, digest u64, generation (epoch u32, number u32), inputs u64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of payload that follow.
    pub length: u32,
    /// What it is.
    pub kind: Kind,
    /// The phase that it belongs to (boot flag and version).
    pub phase: Phase,
    /// The lineage that its phase belongs to.
    pub lineage: Lineage,
    /// CollectiveId within the phase: bytes of a channel, or the seqno of a collective with the frame's number.
    pub offset: u64,
    /// Digest of the call for collectives; for channels the low half of the checkpoint's digest.
    pub digest: u64,
    /// Collectives: the plan under which it was sent. Zero for all others.
    pub generation: Generation,
    /// Collectives whose callers promise to repeat themselves: all that the sender has given to the
    /// phase. Zero for all others.
    pub inputs: u64,
}

impl Header {
    /// A control frame's header.
    pub fn control(length: u32) -> Self {
        Header {
            length,
            kind: Kind::Control,
            phase: Phase::Boot,
            lineage: Lineage(0),
            offset: 0,
            digest: 0,
            generation: Generation::default(),
            inputs: 0,
        }
    }

    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let (boot, version) = match self.phase {
            Phase::Boot => (1u8, 0),
            Phase::Version(v) => (0, v.0),
        };
        let mut out = [0; HEADER_BYTES];
        out[0..4].copy_from_slice(&self.length.to_le_bytes());
        out[4] = self.kind as u8;
        out[5] = boot;
        out[8..12].copy_from_slice(&self.lineage.0.to_le_bytes());
        out[12..16].copy_from_slice(&version.to_le_bytes());
        out[16..24].copy_from_slice(&self.offset.to_le_bytes());
        out[24..32].copy_from_slice(&self.digest.to_le_bytes());
        out[32..36].copy_from_slice(&self.generation.epoch.to_le_bytes());
        out[36..40].copy_from_slice(&self.generation.number.to_le_bytes());
        out[40..48].copy_from_slice(&self.inputs.to_le_bytes());
        out
    }

    /// Reads a header; refuses unknown kinds, non-zero reserved bits and inputs where there are
    /// none, and lengths over [`PAYLOAD_LIMIT`].
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, Error> {
        let u32_at = |i: usize| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
        let u64_at = |i: usize| u64::from(u32_at(i)) | u64::from(u32_at(i + 4)) << 32;
        let kind = match bytes[4] {
            1 => Kind::Control,
            2 => Kind::Bulk,
            3 => Kind::Data,
            4 => Kind::PhaseStart,
            5 => Kind::PhaseEnd,
            6 => Kind::Receipt,
            7 => Kind::Collective,
            other => return Err(Error::new(Code::Incompatible, format!("frame of unknown kind {other}"))),
        };
        let length = u32_at(0);
        if length > PAYLOAD_LIMIT {
            return Err(Error::new(
                Code::Incompatible,
                format!("frame of {length} bytes; at most {PAYLOAD_LIMIT} are allowed"),
            ));
        }
        if bytes[5] > 1 || bytes[6] != 0 || bytes[7] != 0 {
            return Err(Error::new(Code::Incompatible, "frame with unknown flags"));
        }
        let version = u32_at(12);
        let phase = match (bytes[5], version) {
            (1, 0) => Phase::Boot,
            (1, _) => return Err(Error::new(Code::Incompatible, "boot frame with a version")),
            (_, v) => Phase::Version(Version(v)),
        };
        let generation = Generation { epoch: u32_at(32), number: u32_at(36) };
        let (lineage, offset, digest, inputs) = (Lineage(u32_at(8)), u64_at(16), u64_at(24), u64_at(40));
        if inputs != 0 && kind != Kind::Collective {
            return Err(Error::new(Code::Incompatible, format!("frame of kind {kind:?} that has an input digest")));
        }
        Ok(Header { length, kind, phase, lineage, offset, digest, generation, inputs })
    }
}

/// Bytes in a message as one run. They are on the wire as a list of bytes is, which serde takes one
/// by one: a hundred times the work.
pub(crate) mod run {
    use alloc::vec::Vec;
    use core::fmt;
    use serde::de::{Deserializer, Error, Visitor};
    use serde::Serializer;

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        struct Run;
        impl Visitor<'_> for Run {
            type Value = Vec<u8>;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a run of bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_vec())
            }
        }
        deserializer.deserialize_bytes(Run)
    }
}

/// The payload of a control frame, which [`decode`] reads.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    // postcard fails only for types without a known length, which no message has.
    postcard::to_allocvec(message).unwrap_or_default()
}

/// Decodes a message; trailing or missing bytes are an error.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    match postcard::take_from_bytes::<T>(bytes) {
        Ok((message, [])) => Ok(message),
        Ok((_, rest)) => Err(Error::new(Code::Incompatible, format!("message with {} bytes too many", rest.len()))),
        Err(cause) => Err(Error::new(Code::Incompatible, format!("message can't be read: {cause}"))),
    }
}
