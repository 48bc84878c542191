//! Which bytes a rank writes and reads in which step.

use crate::{Order, WorldRank};
use alloc::vec::Vec;
use core::ops::Range;

/// Bytes of an [`Identity`]: a cache line.
pub const IDENTITY_BYTES: usize = 64;

/// The first bytes of an [`Identity`], which are compared. What follows is the rank's own: a rank that
/// reads its slot may look at it.
pub const COMMON_BYTES: usize = 40;

/// What a rank is doing (generation, position, digest of the call), in its driver's words. All
/// ranks of a collective must have the same, as far as [`COMMON_BYTES`]; nothing is read from an
/// slot that bears another one.
pub type Identity = [u8; IDENTITY_BYTES];

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
    /// `count` elements in the input; the result of rank k is chunk k of the order.
    ReduceScatter {
        /// Elements of the input.
        count: usize,
        /// The order of the fold, and the chunks.
        order: Order,
    },
    /// The root's input and all results have `bytes` bytes, the others' inputs none.
    Broadcast {
        /// The rank that has the data.
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

/// A call's shape on segments with slots of a certain length.
#[derive(Clone, Debug)]
pub struct Shape {
    pub(super) call: SharedCall,
    pub(super) me: WorldRank,
    pub(super) element_bytes: usize,
    /// Bytes of one rank's slice in a step; a multiple of the element's size where elements are folded.
    pub(super) slice_bytes: usize,
    /// How many slices there are of the longest chunk or part.
    pub(super) slices: usize,
    /// Whether each rank folds everything by itself.
    pub(super) folds_all: bool,
    /// Whether a rank's result is its own part alone ([`Shape::in_parts`]).
    pub(super) in_parts: bool,
}

/// Up to so many bytes of input each rank folds everything: n times the reading, but one step only.
const FOLD_ALL_BYTES: usize = 4 << 10;

impl Shape {
    /// `slot_bytes` is the length of a slot. `once`: each element is folded at one rank only (custom reducers).
    /// `None` when an element is too long for the slots: then the collective must go over links.
    pub fn new(me: WorldRank, call: SharedCall, element_bytes: usize, slot_bytes: usize, once: bool) -> Option<Shape> {
        let room = slot_bytes.checked_sub(IDENTITY_BYTES)?;
        let world = me.world;
        let mut shape = Shape { call, me, element_bytes, slice_bytes: 0, slices: 0, folds_all: false, in_parts: false };
        shape.slice_bytes = match &shape.call {
            SharedCall::Allreduce { count, .. } | SharedCall::ReduceScatter { count, .. } => {
                let all = count * element_bytes;
                let is_allreduce = matches!(shape.call, SharedCall::Allreduce { .. });
                shape.folds_all = is_allreduce && !once && (1..=FOLD_ALL_BYTES.min(room)).contains(&all);
                // A slice of every chunk, and a folded one.
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

    /// The same for ranks that all see one memory: each writes its own part of the result, and
    /// no rank writes another one's. When a rank is done, all have written theirs. `None` where
    /// nothing is won by it: only an allreduce that is folded in chunks has parts.
    pub fn in_parts(self) -> Option<Shape> {
        let is_folded_in_parts = matches!(self.call, SharedCall::Allreduce { .. }) && self.steps() > 1;
        (is_folded_in_parts && !self.folds_all).then_some(Shape { in_parts: true, ..self })
    }

    /// Bytes of each rank's part of the result, by rank.
    pub fn parts(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.me.world).map(|rank| self.part(rank).len())
    }

    /// Bytes of the input at this rank.
    pub fn input_bytes(&self) -> usize {
        match &self.call {
            SharedCall::Allreduce { count, .. } | SharedCall::ReduceScatter { count, .. } => count * self.element_bytes,
            SharedCall::Broadcast { root, bytes } if *root == self.me.rank => *bytes,
            SharedCall::Broadcast { .. } | SharedCall::Barrier => 0,
            SharedCall::Allgather { part_bytes } => part_bytes[self.me.rank],
        }
    }

    /// Bytes of the result at this rank.
    pub fn result_bytes(&self) -> usize {
        match &self.call {
            SharedCall::Allreduce { .. } if self.in_parts => self.part(self.me.rank).len(),
            SharedCall::Allreduce { count, .. } => count * self.element_bytes,
            SharedCall::ReduceScatter { .. } => self.part(self.me.rank).len(),
            SharedCall::Broadcast { bytes, .. } => *bytes,
            SharedCall::Allgather { part_bytes } => part_bytes.iter().sum(),
            SharedCall::Barrier => 0,
        }
    }

    /// How many steps it takes.
    pub fn steps(&self) -> u64 {
        let steps = match &self.call {
            // A rank that is alone shows nothing.
            _ if self.me.world == 1 => 0,
            SharedCall::Barrier => 1,
            SharedCall::Allreduce { .. } if !self.folds_all && self.slices > 0 => self.slices + 1,
            _ => self.slices,
        };
        steps as u64
    }

    /// The bytes of the whole that rank `rank` owns or gives.
    pub(super) fn part(&self, rank: usize) -> Range<usize> {
        match &self.call {
            SharedCall::Allreduce { count, order } | SharedCall::ReduceScatter { count, order } => {
                let chunk = order.chunk(rank, *count, self.me.world);
                chunk.start * self.element_bytes..chunk.end * self.element_bytes
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
