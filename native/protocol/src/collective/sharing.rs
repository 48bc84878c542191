//! Ranks of one host share memory: which can, with which, and what stands before the bytes on a segment.
//!
//! A rank's *segment* is memory that it alone writes and the others of its host read
//! (`rejoin_collectives::shared`). Every status says where the rank's segment is found, or that it
//! has none, and the plan's table carries all of them: so all ranks derive the same from it, and
//! use the same way in the same generation. A rank that can't open a segment reports it to the tracker, whose
//! plans carry no segments from then on.

use super::frame::{self, Expected, Verdict};
use super::status::SegmentAddress;
use crate::error::Error;
use crate::ids::Generation;
use crate::message::Plan;
use crate::view::View;
use crate::wire::{Header, HEADER_BYTES};
use alloc::vec::Vec;

/// Bytes of what stands before a rank's bytes on its segment.
pub const IDENTITY_BYTES: usize = 64;

/// The first bytes of an identity, which are the same at all ranks of a call. What follows is the rank's own.
pub const COMMON_BYTES: usize = 40;

/// The segments of all ranks, in rank order, when all of them have one and live on one host. The name
/// of a host says where it is worth trying; whether a segment can be opened shows when it is.
pub(super) fn segments(plan: &Plan, view: &View) -> Option<Vec<SegmentAddress>> {
    generation_number(plan.generation)?;
    let mut host = None;
    let of_rank = |(rank, slot): (usize, &crate::view::ViewSlot)| {
        let status = plan.table.iter().find(|status| status.rank.0 as usize == rank)?;
        let (incarnation, at) = view.alive(status.rank)?;
        let is_here = *host.get_or_insert(&at.host) == &at.host;
        let is_current = status.incarnation == incarnation && slot.incarnation == Some(incarnation);
        status.segment.filter(|_| is_here && is_current)
    };
    // A rank that is alone has none to share with.
    (view.world() > 1).then(|| view.slots.iter().enumerate().map(of_rank).collect::<Option<Vec<_>>>()).flatten()
}

/// The number under which a generation goes on segments, from 1 on; it grows with the generation.
/// `None` for generations that have none: then no rank shares memory.
pub fn generation_number(generation: Generation) -> Option<u64> {
    let Generation { epoch, number } = generation;
    // Beats need the rest of the bits.
    (epoch < 1 << 8 && number < 1 << 16 && (epoch, number) != (0, 0))
        .then_some(u64::from(epoch) << 16 | u64::from(number))
}

/// What a rank writes before its bytes: the header that a frame of the same call would have, and zeros.
pub fn identity(expected: &Expected) -> [u8; IDENTITY_BYTES] {
    let mut identity = [0; IDENTITY_BYTES];
    identity[..HEADER_BYTES].copy_from_slice(&frame::header(expected, 0).encode());
    identity
}

/// What an identity shows of all that its rank has given; 0 where nothing was promised.
///
/// # Errors
/// `Incompatible` for bytes that are no identity.
pub fn inputs(theirs: &[u8; IDENTITY_BYTES]) -> Result<u64, Error> {
    Ok(header(theirs)?.inputs)
}

/// Decides about another rank's identity as [`frame::judge`] does about its frames.
///
/// # Errors
/// `Incompatible` for bytes that are no identity.
pub fn judge(theirs: &[u8; IDENTITY_BYTES], expected: &Expected) -> Result<Verdict, Error> {
    Ok(frame::judge(&header(theirs)?, expected))
}

/// The id of a rank that has reported its end ([`identity`] of an id that no call has).
///
/// # Errors
/// `Incompatible` for bytes that are no identity.
pub fn collective_id(theirs: &[u8; IDENTITY_BYTES]) -> Result<super::CollectiveId, Error> {
    Ok(frame::collective_id(&header(theirs)?))
}

fn header(theirs: &[u8; IDENTITY_BYTES]) -> Result<Header, Error> {
    let mut header = [0; HEADER_BYTES];
    header.copy_from_slice(&theirs[..HEADER_BYTES]);
    Header::decode(&header)
}
