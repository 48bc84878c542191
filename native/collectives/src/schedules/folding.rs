//! What the schedules that reduce have in common.

use crate::schedule::{ReceiveId, Schedule};
use crate::Extent;

/// Bytes of all rings of a schedule together: what is received and at once folded should stay in a core's cache.
const RINGS_BYTES: usize = 1 << 20;

/// Least and most bytes of one ring: shorter ones make too many system calls, longer ones gain nothing more.
const RING_BYTES: core::ops::RangeInclusive<usize> = 32 << 10..=256 << 10;

/// `length` bytes come from a peer to be folded, through a ring in scratch when they are many; the schedule has `rings`
/// such rings.
pub(super) fn receive_to_fold(schedule: &mut Schedule, peer: usize, length: usize, rings: usize) -> ReceiveId {
    let ring = (RINGS_BYTES / rings).clamp(*RING_BYTES.start(), *RING_BYTES.end());
    let ring = ring.next_multiple_of(schedule.element_bytes).min(length);
    let landing = schedule.room(ring);
    schedule.receive_around(peer, length, landing)
}

/// From indices of elements to bytes.
pub(super) fn elements(buffer: crate::Buffer, range: core::ops::Range<usize>, element_bytes: usize) -> Extent {
    Extent::new(buffer, range.start * element_bytes, range.len() * element_bytes)
}
