//! Frames in place of bytes.

use rejoin_protocol::channel::{PhaseMark, Receipt};
use rejoin_protocol::collective::{frame, CollectiveId};
use rejoin_protocol::ids::{Generation, Incarnation, Lane, Lineage, MemberId, Phase, Rank, Version};
use rejoin_protocol::wire::{Header, Kind};

/// One end of data links: an incarnation of a rank, in its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// The process that the end is in.
    pub process: u32,
    /// The rank whose end it is.
    pub rank: Rank,
    /// Which start of the rank, counted from 0.
    pub incarnation: Incarnation,
}

impl End {
    /// The rank's incarnation, wherever it runs.
    pub fn member(&self) -> MemberId {
        MemberId { rank: self.rank, incarnation: self.incarnation }
    }
}

/// What goes over a data link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Of a collective.
    Given(Given),
    /// What a receiver has of a channel: the first frame of each link.
    Receipt(Receipt),
    /// A phase of a channel begins.
    Start {
        /** Boot, or the version whose collective it is. */
        phase: Phase,
        /** How. */
        mark: PhaseMark,
    },
    /// Bytes of a channel.
    Data {
        /** Their phase. */
        phase: Phase,
        /** Where they belong in it. */
        offset: u64,
        /** What the sender's worker wrote. */
        bytes: Vec<u8>,
    },
    /// A phase of a channel ends.
    End {
        /** Boot, or the version whose collective it is. */
        phase: Phase,
        /** All bytes that the sender's worker wrote in it. */
        length: u64,
    },
}

/// All that one rank gives to another in one generation of a call, or, where the call goes by hosts, some of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// As on the wire; its digest names the call.
    pub place: (u64, u32, u32, u64),
    /// Whether it belongs to boot.
    pub boot: bool,
    /// The generation that it was sent under.
    pub generation: Generation,
    /// What is given.
    pub value: u64,
    /// What goes by hosts.
    pub bytes: Vec<u8>,
    /// What is shown of all that was given.
    pub inputs: u64,
}

impl Given {
    pub(super) fn new(place: CollectiveId, digest: u64, generation: Generation, value: u64, inputs: u64) -> Self {
        let (boot, version) = match place.phase {
            Phase::Boot => (true, 0),
            Phase::Version(version) => (false, version.0),
        };
        Given {
            place: (frame::offset(place.seqno, 0), place.lineage.0, version, digest),
            boot,
            generation,
            value,
            bytes: Vec::new(),
            inputs,
        }
    }

    /// The same with bytes that go by hosts.
    pub(super) fn with(self, bytes: Vec<u8>) -> Self {
        Given { bytes, ..self }
    }

    pub(super) fn header(&self) -> Header {
        let (offset, lineage, version, digest) = self.place;
        let phase = if self.boot { Phase::Boot } else { Phase::Version(Version(version)) };
        let (kind, generation) = (Kind::Collective, self.generation);
        Header {
            kind,
            phase,
            lineage: Lineage(lineage),
            offset,
            digest,
            generation,
            inputs: self.inputs,
            ..Header::control(0)
        }
    }
}

impl Frame {
    /// What the link that it goes over carries.
    pub fn lane(&self) -> Lane {
        match self {
            Frame::Given(_) => Lane::Collectives,
            _ => Lane::Channels,
        }
    }

    /// The generation that it belongs to; none on a channel.
    pub fn generation(&self) -> Option<Generation> {
        match self {
            Frame::Given(given) => Some(given.generation),
            _ => None,
        }
    }

    /// The header of a channel's frame.
    pub(super) fn header(&self, lineage: Lineage) -> Header {
        let (kind, phase, offset) = match self {
            Frame::Given(given) => return given.header(),
            Frame::Receipt(_) => (Kind::Receipt, Phase::Boot, 0),
            Frame::Start { phase, .. } => (Kind::PhaseStart, *phase, 0),
            Frame::Data { phase, offset, .. } => (Kind::Data, *phase, *offset),
            Frame::End { phase, length } => (Kind::PhaseEnd, *phase, *length),
        };
        Header { kind, phase, lineage, offset, ..Header::control(0) }
    }
}
