//! What to do with a collective's frame that has come: a pure function of its header.

use super::CollectiveId;
use crate::ids::Generation;
use crate::wire::{Header, Kind};

/// What a rank waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The plan under which it runs.
    pub generation: Generation,
    /// Where it is.
    pub collective_id: CollectiveId,
    /// Digest of its call.
    pub digest: u64,
    /// What this rank shows of all that it has given to the phase ([`super::InputDigests::add_own`]); 0
    /// where nothing was promised. It is another one at each rank, and takes no part in the
    /// verdict.
    pub inputs: u64,
}

/// What the frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Of this call and generation: take it.
    Mine,
    /// Of a generation that is over: drop it.
    Outdated,
    /// Of a generation whose plan hasn't come here yet: leave it where it is.
    Early,
    /// The sender made another call here, or ended the version: the two can never be paired.
    Mismatch(CollectiveId),
}

/// Decides about the next frame of a peer from which bytes are wanted.
///
/// Between the same two ranks frames come in the order of the sender's calls, and a rank that finishes
/// a collective has taken all frames that were sent to it for that. So under one generation the first
/// unread frame belongs to the present call, or the two ranks make different calls. A frame of
/// another collective is reported as such: its id says which calls have to be compared.
pub fn judge(header: &Header, expected: &Expected) -> Verdict {
    if header.generation < expected.generation {
        return Verdict::Outdated;
    }
    if header.generation > expected.generation {
        return Verdict::Early;
    }
    let collective_id = collective_id(header);
    if collective_id == expected.collective_id && header.digest == expected.digest {
        Verdict::Mine
    } else {
        Verdict::Mismatch(collective_id)
    }
}

/// The collective that a frame belongs to.
pub fn collective_id(header: &Header) -> CollectiveId {
    CollectiveId { lineage: header.lineage, phase: header.phase, seqno: (header.offset >> 32) as u32 }
}

/// The header of a call's frame of this number. Its length is the sender's to fill in.
pub fn header(expected: &Expected, number: u32) -> Header {
    Header {
        length: 0,
        kind: Kind::Collective,
        phase: expected.collective_id.phase,
        lineage: expected.collective_id.lineage,
        offset: offset(expected.collective_id.seqno, number),
        digest: expected.digest,
        generation: expected.generation,
        inputs: expected.inputs,
    }
}

/// What a frame's header holds as its offset: the seqno, and the frame's number among those of the
/// call between two ranks.
pub fn offset(seqno: u32, number: u32) -> u64 {
    u64::from(seqno) << 32 | u64::from(number)
}

/// The frame's number among those of the call between two ranks; counts up from 0.
pub fn frame_number(header: &Header) -> u32 {
    header.offset as u32
}
