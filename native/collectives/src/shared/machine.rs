//! Executes a collective on boards.

use super::layout::{Shape, SharedCall};
use super::Boards;
use crate::{FoldError, Order, Reducer, Seat};
use alloc::vec::Vec;

/// Bytes of an [`Identity`]: a cache line.
pub const IDENTITY_BYTES: usize = 64;

/// The first bytes of an [`Identity`], which are compared. What follows is the rank's own: whoever reads its area may look at it.
pub const COMMON_BYTES: usize = 40;

/// What a rank is doing (attempt, position, digest of the call), in its driver's words. All ranks of a collective must
/// have the same, as far as [`COMMON_BYTES`]; nothing is read from an area that bears another one.
pub type Identity = [u8; IDENTITY_BYTES];

/// Why a collective on boards can't go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SharedError {
    /// Another rank has posted something else at this beat. Nothing of it was used.
    #[error("rank {rank} does something else at this point")]
    Mismatch {
        /// Who.
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
    /// The beat before the first one.
    base: u64,
    /// How many beats are over, and whether the next one has been posted.
    done: u64,
    posted: bool,
    /// The first rank that hasn't been seen to have posted enough, for what is waited for now.
    seen: usize,
    /// The next beat's area is written, and not posted.
    written: bool,
    /// The last beat's area is written, with this rank's part of a result in parts, and the driver knows it.
    has_part: bool,
    shows_part: bool,
    /// What all have to have done in the beat before the first one, if this rank has not compared it yet.
    before: Option<Identity>,
    /// Bytes written so far, counted once for each rank that reads them.
    sent: u64,
    /// Stop once when so many were written, before they are posted.
    stop_at: Option<u64>,
    stopped: bool,
}

impl SharedMachine {
    /// `base` is the beat that all ranks have posted, or are going to post, before this collective: that of entering the
    /// attempt ([`super::first_beat`]), or the last one of the collective before ([`SharedMachine::last_beat`]).
    pub fn new(shape: Shape, identity: Identity, base: u64) -> Self {
        SharedMachine {
            shape,
            identity,
            base,
            done: 0,
            posted: false,
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

    /// What the others have to have done in this collective, where this rank goes on without looking: the root of a broadcast
    /// waits for nobody. Their areas show it until this rank posts again.
    pub fn uncompared(&self) -> Option<Identity> {
        let is_root = matches!(self.shape.call, SharedCall::Broadcast { root, .. } if root == self.shape.seat.rank);
        (is_root && self.shape.beats() > 0).then_some(self.identity)
    }

    /// Stops once when so many bytes were written, before they are posted; [`SharedMachine::has_stopped`] says so.
    pub fn stop_at(&mut self, bytes: Option<u64>) {
        self.stop_at = bytes;
    }

    /// The ranks whose bytes this one needs: of them, and only of them, it is certain after the last beat that its area shows
    /// their identity, until this rank posts again.
    pub fn givers(&self) -> impl Iterator<Item = usize> + '_ {
        let Seat { rank, world } = self.shape.seat;
        let gives = move |peer: usize| match self.shape.call {
            SharedCall::Broadcast { root, .. } => peer == root,
            _ => true,
        };
        (0..world).filter(move |peer| self.shape.beats() > 0 && *peer != rank && gives(*peer))
    }

    /// Whether [`SharedMachine::advance`] gave up because of [`SharedMachine::stop_at`]. It goes on when it is called again.
    pub fn has_stopped(&mut self) -> bool {
        core::mem::take(&mut self.stopped)
    }

    /// Whether [`SharedMachine::advance`] gave up because this rank's part of a result in parts is whole, and not posted yet: once the
    /// others see the post they may be done, and read it. From now on it is called without a result.
    pub fn shows_part(&mut self) -> bool {
        core::mem::take(&mut self.shows_part)
    }

    /// Bytes written so far, counted once for each rank that reads them: what links would have to carry.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Grows whenever something has been done.
    pub fn progress(&self) -> u64 {
        2 * self.done + u64::from(self.posted)
    }

    /// The collective's last beat: the next one's base.
    pub fn last_beat(&self) -> u64 {
        self.base + self.shape.beats()
    }

    /// Goes on as far as possible. Says whether it is finished: then the result is there whole (of one in parts, all
    /// parts are), and what this rank has posted stays readable for those who are behind.
    ///
    /// # Errors
    /// See [`SharedError`]. The boards can be used again from the next attempt on only.
    ///
    /// # Panics
    /// When the buffers aren't as long as the shape says.
    pub fn advance<B: Boards>(
        &mut self,
        boards: &mut B,
        input: &[u8],
        result: &mut [u8],
        reducer: &Reducer<'_>,
    ) -> Result<bool, SharedError> {
        assert!(
            input.len() == self.shape.input_bytes()
                && result.len() == if self.has_part { 0 } else { self.shape.result_bytes() },
            "buffers of other lengths than the shape's"
        );
        if self.shape.seat.world == 1 {
            result.copy_from_slice(input);
            return Ok(true);
        }
        while self.done < self.shape.beats() {
            let beat = self.base + self.done + 1;
            if !self.posted {
                if !self.written {
                    if !self.all_posted(boards, beat - 1) {
                        return Ok(false);
                    }
                    self.compare_before(boards)?;
                    self.sent += self.write(boards, beat, input, result, reducer)?;
                    self.written = true;
                    if self.stop_at.is_some_and(|stop| self.sent >= stop) {
                        self.stop_at = None;
                        self.stopped = true;
                        return Ok(false);
                    }
                }
                if self.shape.in_parts && !self.has_part && self.done + 1 == self.shape.beats() {
                    (self.has_part, self.shows_part) = (true, true);
                    return Ok(false);
                }
                boards.post(beat);
                (self.posted, self.written) = (true, false);
            }
            let ready = match self.shape.call {
                SharedCall::Broadcast { root, .. } => boards.posted(root) >= beat,
                // The folded slices of a reduce-scatter are not shown: what is read here is folded in the next beat.
                SharedCall::ReduceScatter { .. } if self.done + 1 < self.shape.beats() => true,
                _ => self.all_posted(boards, beat),
            };
            if !ready {
                return Ok(false);
            }
            self.read(boards, beat, input, result, reducer)?;
            self.done += 1;
            self.posted = false;
        }
        Ok(true)
    }

    /// A rank that this one waits for now, and the beat that it has to post.
    pub fn waits_for<B: Boards>(&self, boards: &B) -> Option<(usize, u64)> {
        let beat = self.base + self.done + u64::from(self.posted);
        self.awaited(boards).first().map(|rank| (*rank, beat))
    }

    /// The ranks that this one waits for now.
    pub fn awaited<B: Boards>(&self, boards: &B) -> Vec<usize> {
        let beat = self.base + self.done + u64::from(self.posted);
        let all = (0..self.shape.seat.world).filter(|&rank| rank != self.shape.seat.rank);
        let behind = all.filter(|&rank| boards.posted(rank) < beat);
        match self.shape.call {
            SharedCall::Broadcast { root, .. } if self.posted => behind.filter(|&rank| rank == root).collect(),
            _ => behind.collect(),
        }
    }

    /// Whether all others have posted this beat.
    fn all_posted<B: Boards>(&mut self, boards: &B, beat: u64) -> bool {
        let Seat { rank, world } = self.shape.seat;
        while self.seen < world {
            if self.seen != rank && boards.posted(self.seen) < beat {
                return false;
            }
            self.seen += 1;
        }
        self.seen = 0;
        true
    }

    /// All have posted the beat before the first one, and nobody the one after it: what they did in it still stands there.
    fn compare_before<B: Boards>(&mut self, boards: &B) -> Result<(), SharedError> {
        let Some(expected) = self.before.take() else { return Ok(()) };
        let Seat { rank, world } = self.shape.seat;
        for peer in (0..world).filter(|&peer| peer != rank) {
            let (theirs, _) = boards.area(peer, self.base).split_at(IDENTITY_BYTES);
            compare(peer, theirs, &expected)?;
        }
        Ok(())
    }

    /// Writes this rank's area for a beat. All have posted the beat before. Gives the bytes, counted once for each rank that
    /// reads them.
    fn write<B: Boards>(
        &self,
        boards: &mut B,
        beat: u64,
        input: &[u8],
        result: &mut [u8],
        reducer: &Reducer<'_>,
    ) -> Result<u64, SharedError> {
        let Seat { rank, world } = self.shape.seat;
        let slice = self.done as usize;
        let mut sent = 0;
        match &self.shape.call {
            SharedCall::Allreduce { .. } if self.shape.folds_all => {
                put(boards, beat, 0, input);
                sent += input.len() * (world - 1);
            }
            SharedCall::Allreduce { .. } | SharedCall::ReduceScatter { .. } => {
                for owner in (0..world).filter(|&owner| owner != rank) {
                    let place = owner * self.shape.slice_bytes;
                    let part = &input[self.shape.slice(owner, slice)];
                    put(boards, beat, place, part);
                    sent += part.len();
                }
                if slice > 0 {
                    let result_start = match self.shape.call {
                        SharedCall::Allreduce { .. } if !self.shape.in_parts => 0,
                        _ => self.shape.part(rank).start,
                    };
                    let folded = self.fold_slice(boards, beat - 1, slice - 1, input, result, result_start, reducer)?;
                    if matches!(self.shape.call, SharedCall::Allreduce { .. }) {
                        if !self.shape.in_parts {
                            put(boards, beat, world * self.shape.slice_bytes, folded);
                        }
                        sent += folded.len() * (world - 1);
                    }
                }
            }
            SharedCall::Broadcast { root, .. } if *root != rank => {}
            SharedCall::Broadcast { .. } | SharedCall::Allgather { .. } => {
                let own = self.shape.slice(rank, slice);
                let start = self.shape.part(rank).start;
                put(boards, beat, 0, &input[own.start - start..own.end - start]);
                result[own.clone()].copy_from_slice(&input[own.start - start..own.end - start]);
                sent += own.len() * (world - 1);
            }
            SharedCall::Barrier => {}
        }
        boards.own_area(beat)[..IDENTITY_BYTES].copy_from_slice(&self.identity);
        Ok(sent as u64)
    }

    /// Reads the others' areas of a beat. Those that are needed have posted it.
    fn read<B: Boards>(
        &self,
        boards: &B,
        beat: u64,
        input: &[u8],
        result: &mut [u8],
        reducer: &Reducer<'_>,
    ) -> Result<(), SharedError> {
        let Seat { rank, world } = self.shape.seat;
        let slice = self.done as usize;
        match &self.shape.call {
            SharedCall::Allreduce { count, order } if self.shape.folds_all => {
                self.fold_all(boards, beat, input, result, *count, *order, reducer)?;
            }
            SharedCall::Allreduce { .. } => {
                for owner in (0..world).filter(|&owner| owner != rank) {
                    let area = self.area(boards, owner, beat)?;
                    if let Some(folded) = slice.checked_sub(1).filter(|_| !self.shape.in_parts) {
                        let into = self.shape.slice(owner, folded);
                        let place = world * self.shape.slice_bytes;
                        let length = into.len();
                        result[into].copy_from_slice(&area[place..][..length]);
                    }
                }
            }
            SharedCall::ReduceScatter { .. } => {
                if self.done + 1 == self.shape.beats() {
                    let start = self.shape.part(rank).start;
                    self.fold_slice(boards, beat, slice, input, result, start, reducer)?;
                }
            }
            SharedCall::Broadcast { root, .. } if *root == rank => {}
            SharedCall::Broadcast { root, .. } => {
                let into = self.shape.slice(*root, slice);
                let length = into.len();
                result[into].copy_from_slice(&self.area(boards, *root, beat)?[..length]);
            }
            SharedCall::Allgather { .. } => {
                for giver in (0..world).filter(|&giver| giver != rank) {
                    let into = self.shape.slice(giver, slice);
                    let length = into.len();
                    result[into].copy_from_slice(&self.area(boards, giver, beat)?[..length]);
                }
            }
            SharedCall::Barrier => {
                for peer in (0..world).filter(|&peer| peer != rank) {
                    self.area(boards, peer, beat)?;
                }
            }
        }
        Ok(())
    }

    /// What a rank has posted at a beat, after its identity, which is checked.
    fn area<'b, B: Boards>(&self, boards: &'b B, rank: usize, beat: u64) -> Result<&'b [u8], SharedError> {
        let (theirs, area) = boards.area(rank, beat).split_at(IDENTITY_BYTES);
        compare(rank, theirs, &self.identity).map(|()| area)
    }

    /// Folds this rank's own slice, which all have posted at `beat`, into the result, whose first byte is byte
    /// `result_start` of the whole. Gives the folded bytes.
    #[expect(clippy::too_many_arguments, reason = "the buffers of a collective, which belong to the caller")]
    fn fold_slice<'r, B: Boards>(
        &self,
        boards: &B,
        beat: u64,
        slice: usize,
        input: &[u8],
        result: &'r mut [u8],
        result_start: usize,
        reducer: &Reducer<'_>,
    ) -> Result<&'r [u8], SharedError> {
        let Seat { rank, world } = self.shape.seat;
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
            Ok(&self.area(boards, source, beat)?[rank * self.shape.slice_bytes..][..own.len()])
        };
        fold(out, order.sources(rank, count, world), operand, reducer)?;
        Ok(out)
    }

    /// Folds everything here.
    #[expect(clippy::too_many_arguments, reason = "the buffers of a collective, which belong to the caller")]
    fn fold_all<B: Boards>(
        &self,
        boards: &B,
        beat: u64,
        input: &[u8],
        result: &mut [u8],
        count: usize,
        order: Order,
        reducer: &Reducer<'_>,
    ) -> Result<(), SharedError> {
        let Seat { rank, world } = self.shape.seat;
        let segments = if order.is_one(count, world) { 1 } else { world };
        for segment in 0..segments {
            let range = if segments == 1 { 0..input.len() } else { self.shape.part(segment) };
            let operand = |source: usize| match source {
                own if own == rank => Ok(&input[range.clone()]),
                peer => Ok(&self.area(boards, peer, beat)?[range.clone()]),
            };
            fold(&mut result[range.clone()], order.sources(segment, count, world), operand, reducer)?;
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

/// Writes behind the identity of this rank's own area.
fn put<B: Boards>(boards: &mut B, beat: u64, place: usize, bytes: &[u8]) {
    boards.own_area(beat)[IDENTITY_BYTES + place..][..bytes.len()].copy_from_slice(bytes);
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
