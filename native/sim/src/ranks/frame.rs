//! Frames in place of bytes.

use rejoin_protocol::collective::{frame, Place};
use rejoin_protocol::ids::{Generation, Lineage, Phase, Version};
use rejoin_protocol::wire::{Header, Kind};

/// What goes over a data link: all that one rank gives to another in one attempt of a call, or, where the call goes by hosts, some
/// of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// As on the wire; its digest names the call.
    pub place: (u64, u32, u32, u64),
    /// Whether it belongs to boot.
    pub boot: bool,
    /// The attempt.
    pub attempt: Generation,
    /// What is given.
    pub value: u64,
    /// What goes by hosts.
    pub bytes: Vec<u8>,
    /// What is shown of all that was given.
    pub inputs: u64,
}

impl Frame {
    pub(super) fn new(place: Place, digest: u64, attempt: Generation, value: u64, inputs: u64) -> Self {
        let (boot, version) = match place.phase {
            Phase::Boot => (true, 0),
            Phase::Version(version) => (false, version.0),
        };
        Frame {
            place: (frame::offset(place.seqno, 0), place.lineage.0, version, digest),
            boot,
            attempt,
            value,
            bytes: Vec::new(),
            inputs,
        }
    }

    /// The same with bytes that go by hosts.
    pub(super) fn with(self, bytes: Vec<u8>) -> Self {
        Frame { bytes, ..self }
    }

    pub(super) fn header(&self) -> Header {
        let (offset, lineage, version, digest) = self.place;
        let phase = if self.boot { Phase::Boot } else { Phase::Version(Version(version)) };
        let (kind, attempt) = (Kind::Collective, self.attempt);
        Header {
            kind,
            phase,
            lineage: Lineage(lineage),
            offset,
            digest,
            attempt,
            inputs: self.inputs,
            ..Header::control(0)
        }
    }
}
