//! Executes a collective on segments.

use super::layout::{Identity, Shape, SharedCall, COMMON_BYTES, IDENTITY_BYTES};
use super::Segments;
use crate::{FoldError, Order, Reducer, WorldRank};
use alloc::vec::Vec;

/// Why a collective on segments can't go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SharedError {
    /// Another rank has published something else at this step. Nothing of it was used.
    #[error("rank {rank} does something else at this point")]
    Mismatch {
        /// The one that does.
        rank: usize,
        /// What it says it is doing.
        theirs: Identity,
    },
    /// The caller's own function has failed.
    #[error(transparent)]
    Fold(#[from] FoldError),
}

/// One collective under way at one rank. [`SharedMachine::advance`] goes on as far as the others let it; between two
/// calls of it the driver waits, and looks whether it should still go on at all.
#[derive(Clone, Debug)]
pub struct SharedMachine {
    shape: Shape,
    identity: Identity,
    /// The step before the first one.
    base: u64,
    /// How many steps are over, and whether the next one has been published.
    done: u64,
    published: bool,
    /// The first rank that hasn't been seen to have published enough, for what is waited for now.
    seen: usize,
    /// The next step's slot is written, and not published.
    written: bool,
    /// The last step's slot is written, with this rank's part of a result in parts, and the driver knows it.
    has_part: bool,
    shows_part: bool,
    /// What all have to have done in the step before the first one, if this rank has not compared it yet.
    before: Option<Identity>,
    /// Bytes written so far, counted once for each rank that reads them.
    sent: u64,
    /// Stop once when so many were written, before they are published.
    stop_at: Option<u64>,
    stopped: bool,
}

impl SharedMachine {
    /// `base` is the step that all ranks have published, or are going to publish, before this collective:
    /// that of entering the generation ([`super::first_step`]), or the last one of the collective
    /// before ([`SharedMachine::last_step`]).
    pub fn new(shape: Shape, identity: Identity, base: u64) -> Self {
        SharedMachine {
            shape,
            identity,
            base,
            done: 0,
            published: false,
            seen: 0,
            written: false,
            has_part: false,
            shows_part: false,
            before: None,
            sent: 0,
            stop_at: None,
            stopped: false,
        }
    }

    /// The same, which compares first whether all others have done this in the collective before:
    /// [`SharedMachine::uncompared`] of that one.
    pub fn after(mut self, before: Option<Identity>) -> Self {
        self.before = before;
        self
    }

    /// What the others have to have done in this collective, where this rank goes on without
    /// looking: the root of a broadcast waits for no rank. Their slots show it until this rank publishes
    /// again.
    pub fn uncompared(&self) -> Option<Identity> {
        let is_root = matches!(self.shape.call, SharedCall::Broadcast { root, .. } if root == self.shape.me.rank);
        (is_root && self.shape.steps() > 0).then_some(self.identity)
    }

    /// Stops once when so many bytes were written, before they are published; [`SharedMachine::has_stopped`] says so.
    pub fn stop_at(&mut self, bytes: Option<u64>) {
        self.stop_at = bytes;
    }

    /// The ranks whose bytes this one needs: of them, and only of them, it is certain after the
    /// last step that its slot shows their identity, until this rank publishes again.
    pub fn givers(&self) -> impl Iterator<Item = usize> + '_ {
        let WorldRank { rank, world } = self.shape.me;
        let gives = move |peer: usize| match self.shape.call {
            SharedCall::Broadcast { root, .. } => peer == root,
            _ => true,
        };
        (0..world).filter(move |peer| self.shape.steps() > 0 && *peer != rank && gives(*peer))
    }

    /// Whether [`SharedMachine::advance`] gave up because of [`SharedMachine::stop_at`]. It goes on
    /// when it is called again.
    pub fn has_stopped(&mut self) -> bool {
        core::mem::take(&mut self.stopped)
    }

    /// Whether [`SharedMachine::advance`] gave up because this rank's part of a result in parts is
    /// whole, and not published yet: once the others see the publish they may be done, and read it. From
    /// now on it is called without a result.
    pub fn shows_part(&mut self) -> bool {
        core::mem::take(&mut self.shows_part)
    }

    /// Bytes written so far, counted once for each rank that reads them: what links would have to carry.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Grows whenever something has been done.
    pub fn progress(&self) -> u64 {
        2 * self.done + u64::from(self.published)
    }

    /// The collective's last step: the next one's base.
    pub fn last_step(&self) -> u64 {
        self.base + self.shape.steps()
    }

    /// Goes on as far as possible. Says whether it is finished: then the result is there whole (of one in parts, all
    /// parts are), and what this rank has published stays readable for those that are behind.
    ///
    /// # Errors
    /// See [`SharedError`]. The segments can be used again from the next generation on only.
    ///
    /// # Panics
    /// When the buffers aren't as long as the shape says.
    pub fn advance<B: Segments>(
        &mut self,
        segments: &mut B,
        input: &[u8],
        result: &mut [u8],
        reducer: &Reducer<'_>,
    ) -> Result<bool, SharedError> {
        assert!(
            input.len() == self.shape.input_bytes()
                && result.len() == if self.has_part { 0 } else { self.shape.result_bytes() },
            "buffers of other lengths than the shape's"
        );
        if self.shape.me.world == 1 {
            result.copy_from_slice(input);
            return Ok(true);
        }
        while self.done < self.shape.steps() {
            let step = self.base + self.done + 1;
            if !self.published {
                if !self.written {
                    if !self.all_published(segments, step - 1) {
                        return Ok(false);
                    }
                    self.compare_before(segments)?;
                    self.sent += self.write(segments, step, input, result, reducer)?;
                    self.written = true;
                    if self.stop_at.is_some_and(|stop| self.sent >= stop) {
                        self.stop_at = None;
                        self.stopped = true;
                        return Ok(false);
                    }
                }
                if self.shape.in_parts && !self.has_part && self.done + 1 == self.shape.steps() {
                    (self.has_part, self.shows_part) = (true, true);
                    return Ok(false);
                }
                segments.publish(step);
                (self.published, self.written) = (true, false);
            }
            let ready = match self.shape.call {
                SharedCall::Broadcast { root, .. } => segments.published(root) >= step,
                // The folded slices of a reduce-scatter are not shown: what is read here is folded in the next step.
                SharedCall::ReduceScatter { .. } if self.done + 1 < self.shape.steps() => true,
                _ => self.all_published(segments, step),
            };
            if !ready {
                return Ok(false);
            }
            self.read(segments, step, input, result, reducer)?;
            self.done += 1;
            self.published = false;
        }
        Ok(true)
    }

    /// A rank that this one waits for now, and the step that it has to publish.
    pub fn waits_for<B: Segments>(&self, segments: &B) -> Option<(usize, u64)> {
        let step = self.base + self.done + u64::from(self.published);
        self.awaited(segments).first().map(|rank| (*rank, step))
    }

    /// The ranks that this one waits for now.
    pub fn awaited<B: Segments>(&self, segments: &B) -> Vec<usize> {
        let step = self.base + self.done + u64::from(self.published);
        let all = (0..self.shape.me.world).filter(|&rank| rank != self.shape.me.rank);
        let behind = all.filter(|&rank| segments.published(rank) < step);
        match self.shape.call {
            SharedCall::Broadcast { root, .. } if self.published => behind.filter(|&rank| rank == root).collect(),
            _ => behind.collect(),
        }
    }

    /// Whether all others have published this step.
    fn all_published<B: Segments>(&mut self, segments: &B, step: u64) -> bool {
        let WorldRank { rank, world } = self.shape.me;
        while self.seen < world {
            if self.seen != rank && segments.published(self.seen) < step {
                return false;
            }
            self.seen += 1;
        }
        self.seen = 0;
        true
    }

    /// All have published the step before the first one, and none the one after it: what they did in
    /// it still stands there.
    fn compare_before<B: Segments>(&mut self, segments: &B) -> Result<(), SharedError> {
        let Some(expected) = self.before.take() else { return Ok(()) };
        let WorldRank { rank, world } = self.shape.me;
        for peer in (0..world).filter(|&peer| peer != rank) {
            let (theirs, _) = segments.slot(peer, self.base).split_at(IDENTITY_BYTES);
            compare(peer, theirs, &expected)?;
        }
        Ok(())
    }

    /// Writes this rank's slot for a step. All have published the step before. Gives the bytes,
    /// counted once for each rank that reads them.
    fn write<B: Segments>(
        &self,
        segments: &mut B,
        step: u64,
        input: &[u8],
        result: &mut [u8],
        reducer: &Reducer<'_>,
    ) -> Result<u64, SharedError> {
        let WorldRank { rank, world } = self.shape.me;
        let slice = self.done as usize;
        let mut sent = 0;
        match &self.shape.call {
            SharedCall::Allreduce { .. } if self.shape.folds_all => {
                put(segments, step, 0, input);
                sent += input.len() * (world - 1);
            }
            SharedCall::Allreduce { .. } | SharedCall::ReduceScatter { .. } => {
                for owner in (0..world).filter(|&owner| owner != rank) {
                    let place = owner * self.shape.slice_bytes;
                    let part = &input[self.shape.slice(owner, slice)];
                    put(segments, step, place, part);
                    sent += part.len();
                }
                if slice > 0 {
                    let result_start = match self.shape.call {
                        SharedCall::Allreduce { .. } if !self.shape.in_parts => 0,
                        _ => self.shape.part(rank).start,
                    };
                    let folded =
                        self.fold_slice(segments, step - 1, slice - 1, input, result, result_start, reducer)?;
                    if matches!(self.shape.call, SharedCall::Allreduce { .. }) {
                        if !self.shape.in_parts {
                            put(segments, step, world * self.shape.slice_bytes, folded);
                        }
                        sent += folded.len() * (world - 1);
                    }
                }
            }
            SharedCall::Broadcast { root, .. } if *root != rank => {}
            SharedCall::Broadcast { .. } | SharedCall::Allgather { .. } => {
                let own = self.shape.slice(rank, slice);
                let start = self.shape.part(rank).start;
                put(segments, step, 0, &input[own.start - start..own.end - start]);
                result[own.clone()].copy_from_slice(&input[own.start - start..own.end - start]);
                sent += own.len() * (world - 1);
            }
            SharedCall::Barrier => {}
        }
        segments.own_slot(step)[..IDENTITY_BYTES].copy_from_slice(&self.identity);
        Ok(sent as u64)
    }

    /// Reads the others' slots of a step. Those that are needed have published it.
    fn read<B: Segments>(
        &self,
        segments: &B,
        step: u64,
        input: &[u8],
        result: &mut [u8],
        reducer: &Reducer<'_>,
    ) -> Result<(), SharedError> {
        let WorldRank { rank, world } = self.shape.me;
        let slice = self.done as usize;
        match &self.shape.call {
            SharedCall::Allreduce { count, order } if self.shape.folds_all => {
                self.fold_all(segments, step, input, result, *count, *order, reducer)?;
            }
            SharedCall::Allreduce { .. } => {
                for owner in (0..world).filter(|&owner| owner != rank) {
                    let slot = self.slot(segments, owner, step)?;
                    if let Some(folded) = slice.checked_sub(1).filter(|_| !self.shape.in_parts) {
                        let into = self.shape.slice(owner, folded);
                        let place = world * self.shape.slice_bytes;
                        let length = into.len();
                        result[into].copy_from_slice(&slot[place..][..length]);
                    }
                }
            }
            SharedCall::ReduceScatter { .. } => {
                if self.done + 1 == self.shape.steps() {
                    let start = self.shape.part(rank).start;
                    self.fold_slice(segments, step, slice, input, result, start, reducer)?;
                }
            }
            SharedCall::Broadcast { root, .. } if *root == rank => {}
            SharedCall::Broadcast { root, .. } => {
                let into = self.shape.slice(*root, slice);
                let length = into.len();
                result[into].copy_from_slice(&self.slot(segments, *root, step)?[..length]);
            }
            SharedCall::Allgather { .. } => {
                for giver in (0..world).filter(|&giver| giver != rank) {
                    let into = self.shape.slice(giver, slice);
                    let length = into.len();
                    result[into].copy_from_slice(&self.slot(segments, giver, step)?[..length]);
                }
            }
            SharedCall::Barrier => {
                for peer in (0..world).filter(|&peer| peer != rank) {
                    self.slot(segments, peer, step)?;
                }
            }
        }
        Ok(())
    }

    /// What a rank has published at a step, after its identity, which is checked.
    fn slot<'b, B: Segments>(&self, segments: &'b B, rank: usize, step: u64) -> Result<&'b [u8], SharedError> {
        let (theirs, slot) = segments.slot(rank, step).split_at(IDENTITY_BYTES);
        compare(rank, theirs, &self.identity).map(|()| slot)
    }

    /// Folds this rank's own slice, which all have published at `step`, into the result, whose first byte is byte
    /// `result_start` of the whole. Gives the folded bytes.
    #[expect(clippy::too_many_arguments, reason = "the buffers of a collective, which belong to the caller")]
    fn fold_slice<'r, B: Segments>(
        &self,
        segments: &B,
        step: u64,
        slice: usize,
        input: &[u8],
        result: &'r mut [u8],
        result_start: usize,
        reducer: &Reducer<'_>,
    ) -> Result<&'r [u8], SharedError> {
        let WorldRank { rank, world } = self.shape.me;
        let (SharedCall::Allreduce { count, order } | SharedCall::ReduceScatter { count, order }) = self.shape.call
        else {
            return Ok(&[]);
        };
        let own = self.shape.slice(rank, slice);
        let out = &mut result[own.start - result_start..own.end - result_start];
        let operand = |source: usize| -> Result<&[u8], SharedError> {
            if source == rank {
                return Ok(&input[own.clone()]);
            }
            Ok(&self.slot(segments, source, step)?[rank * self.shape.slice_bytes..][..own.len()])
        };
        fold(out, order.sources(rank, count, world), operand, reducer)?;
        Ok(out)
    }

    /// Folds everything here.
    #[expect(clippy::too_many_arguments, reason = "the buffers of a collective, which belong to the caller")]
    fn fold_all<B: Segments>(
        &self,
        segments: &B,
        step: u64,
        input: &[u8],
        result: &mut [u8],
        count: usize,
        order: Order,
        reducer: &Reducer<'_>,
    ) -> Result<(), SharedError> {
        let WorldRank { rank, world } = self.shape.me;
        let chunks = if order.is_one(count, world) { 1 } else { world };
        for chunk in 0..chunks {
            let range = if chunks == 1 { 0..input.len() } else { self.shape.part(chunk) };
            let operand = |source: usize| match source {
                own if own == rank => Ok(&input[range.clone()]),
                peer => Ok(&self.slot(segments, peer, step)?[range.clone()]),
            };
            fold(&mut result[range.clone()], order.sources(chunk, count, world), operand, reducer)?;
        }
        Ok(())
    }
}

/// Whether a rank does what it has to.
fn compare(rank: usize, theirs: &[u8], expected: &Identity) -> Result<(), SharedError> {
    if theirs[..COMMON_BYTES] == expected[..COMMON_BYTES] {
        return Ok(());
    }
    let mut identity = [0; IDENTITY_BYTES];
    identity.copy_from_slice(theirs);
    Err(SharedError::Mismatch { rank, theirs: identity })
}

/// Writes behind the identity of this rank's own slot.
fn put<B: Segments>(segments: &mut B, step: u64, place: usize, bytes: &[u8]) {
    segments.own_slot(step)[IDENTITY_BYTES + place..][..bytes.len()].copy_from_slice(bytes);
}

/// The left fold of the operands of these sources (two or more).
fn fold<'o>(
    out: &mut [u8],
    mut sources: impl Iterator<Item = usize>,
    operand: impl Fn(usize) -> Result<&'o [u8], SharedError>,
    reducer: &Reducer<'_>,
) -> Result<(), SharedError> {
    if let (Some(first), Some(second)) = (sources.next(), sources.next()) {
        reducer.combine(out, operand(first)?, operand(second)?)?;
    }
    for source in sources {
        reducer.fold(out, operand(source)?)?;
    }
    Ok(())
}
