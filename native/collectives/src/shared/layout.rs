//! Which bytes a rank writes and reads in which beat.

use super::IDENTITY_BYTES;
use crate::{Order, Seat};
use alloc::vec::Vec;
use core::ops::Range;

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharedCall {
    /// `count` elements; input and result have all of them at every rank.
    Allreduce {
        /// Elements.
        count: usize,
        /// The order of the fold.
        order: Order,
    },
    /// `count` elements in the input; the result of rank k is segment k of the order.
    ReduceScatter {
        /// Elements of the input.
        count: usize,
        /// The order of the fold, and the segments.
        order: Order,
    },
    /// The root's input and everybody's result have `bytes` bytes, the others' inputs none.
    Broadcast {
        /// Who has the data.
        root: usize,
        /// How many bytes.
        bytes: usize,
    },
    /// Rank k's input has `part_bytes[k]` bytes; the result has them all, in the order of the ranks.
    Allgather {
        /// Bytes of each rank's part.
        part_bytes: Vec<usize>,
    },
    /// Nothing but waiting for all.
    Barrier,
}

/// A call's shape on boards with areas of a certain length.
#[derive(Clone, Debug)]
pub struct Shape {
    pub(super) call: SharedCall,
    pub(super) seat: Seat,
    pub(super) element_bytes: usize,
    /// Bytes of one rank's slice in a beat; a multiple of the element's size where elements are folded.
    pub(super) slice_bytes: usize,
    /// How many slices there are of the longest segment or part.
    pub(super) slices: usize,
    /// Whether each rank folds everything by itself.
    pub(super) folds_all: bool,
    /// Whether a rank's result is its own part alone ([`Shape::in_parts`]).
    pub(super) in_parts: bool,
}

/// Up to so many bytes of input everybody folds everything: n times the reading, but one beat only.
const FOLD_ALL_BYTES: usize = 4 << 10;

impl Shape {
    /// `area_bytes` is the length of an area. `once`: each element is folded at one rank only (custom reducers).
    /// `None` when an element is too long for the areas: then the collective must go over links.
    pub fn new(seat: Seat, call: SharedCall, element_bytes: usize, area_bytes: usize, once: bool) -> Option<Shape> {
        let room = area_bytes.checked_sub(IDENTITY_BYTES)?;
        let world = seat.world;
        let mut shape =
            Shape { call, seat, element_bytes, slice_bytes: 0, slices: 0, folds_all: false, in_parts: false };
        shape.slice_bytes = match &shape.call {
            SharedCall::Allreduce { count, .. } | SharedCall::ReduceScatter { count, .. } => {
                let all = count * element_bytes;
                let is_allreduce = matches!(shape.call, SharedCall::Allreduce { .. });
                shape.folds_all = is_allreduce && !once && (1..=FOLD_ALL_BYTES.min(room)).contains(&all);
                // A slice of every segment, and a folded one.
                let slice = room / (world + 1) / element_bytes * element_bytes;
                if slice == 0 && !shape.folds_all && all > 0 {
                    return None;
                }
                slice
            }
            SharedCall::Broadcast { .. } | SharedCall::Allgather { .. } => room,
            SharedCall::Barrier => 0,
        };
        let longest = (0..world).map(|rank| shape.part(rank).len()).max().unwrap_or(0);
        shape.slices = if shape.folds_all { 1 } else { longest.div_ceil(shape.slice_bytes.max(1)) };
        Some(shape)
    }

    /// The same for ranks that all see one memory: each writes its own part of the result, and nobody writes another one's. When a rank is
    /// done, all have written theirs. `None` where nothing is won by it: only an allreduce that is folded in segments has parts.
    pub fn in_parts(self) -> Option<Shape> {
        let is_folded_in_parts = matches!(self.call, SharedCall::Allreduce { .. }) && self.beats() > 1;
        (is_folded_in_parts && !self.folds_all).then_some(Shape { in_parts: true, ..self })
    }

    /// Bytes of each rank's part of the result, by rank.
    pub fn parts(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.seat.world).map(|rank| self.part(rank).len())
    }

    /// Bytes of the input at this rank.
    pub fn input_bytes(&self) -> usize {
        match &self.call {
            SharedCall::Allreduce { count, .. } | SharedCall::ReduceScatter { count, .. } => count * self.element_bytes,
            SharedCall::Broadcast { root, bytes } if *root == self.seat.rank => *bytes,
            SharedCall::Broadcast { .. } | SharedCall::Barrier => 0,
            SharedCall::Allgather { part_bytes } => part_bytes[self.seat.rank],
        }
    }

    /// Bytes of the result at this rank.
    pub fn result_bytes(&self) -> usize {
        match &self.call {
            SharedCall::Allreduce { .. } if self.in_parts => self.part(self.seat.rank).len(),
            SharedCall::Allreduce { count, .. } => count * self.element_bytes,
            SharedCall::ReduceScatter { .. } => self.part(self.seat.rank).len(),
            SharedCall::Broadcast { bytes, .. } => *bytes,
            SharedCall::Allgather { part_bytes } => part_bytes.iter().sum(),
            SharedCall::Barrier => 0,
        }
    }

    /// How many beats it takes.
    pub fn beats(&self) -> u64 {
        let beats = match &self.call {
            // Who is alone has nobody to show anything.
            _ if self.seat.world == 1 => 0,
            SharedCall::Barrier => 1,
            SharedCall::Allreduce { .. } if !self.folds_all && self.slices > 0 => self.slices + 1,
            _ => self.slices,
        };
        beats as u64
    }

    /// The bytes of the whole that rank `rank` owns or gives.
    pub(super) fn part(&self, rank: usize) -> Range<usize> {
        match &self.call {
            SharedCall::Allreduce { count, order } | SharedCall::ReduceScatter { count, order } => {
                let segment = order.segment(rank, *count, self.seat.world);
                segment.start * self.element_bytes..segment.end * self.element_bytes
            }
            SharedCall::Broadcast { root, bytes } if *root == rank => 0..*bytes,
            SharedCall::Allgather { part_bytes } => {
                let start = part_bytes[..rank].iter().sum();
                start..start + part_bytes[rank]
            }
            SharedCall::Broadcast { .. } | SharedCall::Barrier => 0..0,
        }
    }

    /// The bytes of the whole that slice `slice` of rank `rank`'s part has; none after its end.
    pub(super) fn slice(&self, rank: usize, slice: usize) -> Range<usize> {
        let part = self.part(rank);
        let start = (part.start + slice * self.slice_bytes).min(part.end);
        start..(start + self.slice_bytes).min(part.end)
    }
}
