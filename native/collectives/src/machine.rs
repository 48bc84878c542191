//! Executes a schedule for the owner of the links.

use crate::schedule::{Gate, Receive, Schedule, Source, WorkId};
use crate::{Buffer, Buffers, Extent, FoldError, Reducer};
use alloc::vec;
use alloc::vec::Vec;

/// Bytes that are folded at a time, so that what one source has left in the cache is still there for the next.
const BLOCK_BYTES: usize = 16 << 10;

/// One collective under way at one rank.
///
/// - Read: [`LinkMachine::sendable`] (what can go to a peer now), [`LinkMachine::wanted`] (where the next bytes from a
///   peer go), [`LinkMachine::is_finished`], [`LinkMachine::awaited`].
/// - Handle: [`LinkMachine::sent`] and [`LinkMachine::received`], with any number of bytes, for any
///   peer, in any order of peers; then [`LinkMachine::work`], which folds what has come. After each
///   of them more may be sendable or wanted, for other peers too.
///
/// It never waits for anything but a peer's bytes, which that peer can send without this rank's doing anything that it
/// could not do already. So a driver that goes on with whatever is possible, for all peers, always comes to the end.
///
/// It is a position in a schedule and holds no bytes: dropping it half done harms nothing but the result buffer.
#[derive(Clone, Debug)]
pub struct LinkMachine {
    lanes: Vec<LaneState>,
    /// For each receive, how many bytes of it have come.
    received: Vec<usize>,
    /// For each source of each work, how many bytes of it have been used; the last one's is what is made.
    used: Vec<Vec<usize>>,
    /// Bytes of all receives that haven't come, of all sends that haven't gone, of all works that aren't made.
    to_receive: usize,
    to_send: usize,
    to_make: usize,
}

/// How far the streams to and from one peer are.
#[derive(Clone, Copy, Debug, Default)]
struct LaneState {
    /// The send that is under way, and how many of its bytes have gone.
    send: usize,
    gone: usize,
    /// The receive that is under way (how much of it has come stands in `received`).
    receive: usize,
}

impl LinkMachine {
    /// At the beginning of a schedule. The other methods must be given the same schedule.
    pub fn new(schedule: &Schedule) -> Self {
        let in_lanes =
            |bytes: fn(&Schedule, usize) -> usize| (0..schedule.lanes.len()).map(|peer| bytes(schedule, peer)).sum();
        LinkMachine {
            lanes: vec![LaneState::default(); schedule.lanes.len()],
            received: vec![0; schedule.receives.len()],
            used: schedule.works.iter().map(|work| vec![0; work.sources.len()]).collect(),
            to_receive: in_lanes(Schedule::bytes_from),
            to_send: in_lanes(Schedule::bytes_to),
            to_make: schedule.works.iter().map(|work| work.length).sum(),
        }
    }

    /// What can be sent to a peer now, in this order: runs of bytes that follow each other in the stream. None of them
    /// is empty, and none of the bytes changes any more before it has been sent.
    pub fn sendable<'m>(&'m self, schedule: &'m Schedule, peer: usize) -> impl Iterator<Item = Extent> + 'm {
        let lane = self.lanes[peer];
        let mut gone = lane.gone;
        let mut blocked = false;
        schedule.lanes[peer].sends[lane.send..].iter().map_while(move |send| {
            let start = core::mem::take(&mut gone);
            if blocked {
                return None;
            }
            let there = match send.gate {
                Gate::Open => send.extent.length,
                Gate::Received(id) => self.received[id],
                Gate::Made(id) => self.made(id),
            };
            blocked = there < send.extent.length;
            (there > start).then(|| send.extent.part(start, there - start))
        })
    }

    /// The next `count` bytes of [`LinkMachine::sendable`] have been sent to this peer.
    ///
    /// # Panics
    /// When that is more than the schedule has for this peer.
    pub fn sent(&mut self, schedule: &Schedule, peer: usize, mut count: usize) {
        self.to_send -= count;
        let lane = &mut self.lanes[peer];
        while count > 0 {
            let left = schedule.lanes[peer].sends[lane.send].extent.length - lane.gone;
            if count < left {
                lane.gone += count;
                return;
            }
            count -= left;
            lane.send += 1;
            lane.gone = 0;
        }
    }

    /// Where the next bytes from a peer go. `None`: none are wanted for the moment (there is no room until
    /// [`LinkMachine::work`] has been done, and others may have to send first), or none come any more
    /// ([`LinkMachine::is_received`]). More may come than fit: then the next run is asked for after
    /// [`LinkMachine::received`].
    pub fn wanted(&self, schedule: &Schedule, peer: usize) -> Option<Extent> {
        let &id = schedule.lanes[peer].receives.get(self.lanes[peer].receive)?;
        let receive = &schedule.receives[id];
        let come = self.received[id];
        let room = self.room(receive, come);
        let place = come % receive.landing.length;
        let length = room.min(receive.landing.length - place).min(receive.length - come);
        (length > 0).then(|| receive.landing.part(place, length))
    }

    /// `count` bytes have come from a peer and lie where [`LinkMachine::wanted`] said; at most as many as it said.
    pub fn received(&mut self, schedule: &Schedule, peer: usize, count: usize) {
        if count == 0 {
            return;
        }
        let lane = &mut self.lanes[peer];
        let id = schedule.lanes[peer].receives[lane.receive];
        self.received[id] += count;
        self.to_receive -= count;
        if self.received[id] == schedule.receives[id].length {
            lane.receive += 1;
        }
    }

    /// Folds and copies what has come. Says whether there was anything to be done.
    ///
    /// # Errors
    /// When the caller's own function fails. The collective can't be finished then.
    ///
    /// # Panics
    /// When the buffers aren't as long as the schedule says, or the reducer's elements aren't those of the schedule.
    pub fn work(
        &mut self,
        schedule: &Schedule,
        buffers: &mut Buffers<'_>,
        reducer: &Reducer<'_>,
    ) -> Result<bool, FoldError> {
        if self.to_make == 0 {
            return Ok(false);
        }
        assert!(
            buffers.input.len() == schedule.input_bytes
                && buffers.result.len() == schedule.result_bytes
                && buffers.scratch.len() >= schedule.scratch_bytes,
            "buffers of other lengths than the schedule's"
        );
        let before = self.to_make;
        let mut stepped = false;
        for id in 0..schedule.works.len() {
            if self.made(id) < schedule.works[id].length {
                stepped |= match schedule.works[id].sources.len() {
                    1 => self.copy(schedule, id, buffers),
                    _ if schedule.works[id].into.is_none() => self.wait(schedule, id),
                    _ => self.fold(schedule, id, buffers, reducer)?,
                };
            }
        }
        Ok(stepped || self.to_make < before)
    }

    /// Whether everything has come, gone, and been made.
    pub fn is_finished(&self) -> bool {
        self.to_send == 0 && self.has_result()
    }

    /// Whether the result is there whole. Others may still need what is to be sent.
    pub fn has_result(&self) -> bool {
        self.to_receive == 0 && self.to_make == 0
    }

    /// Whether everything has come that comes from this peer.
    pub fn is_received(&self, schedule: &Schedule, peer: usize) -> bool {
        self.lanes[peer].receive == schedule.lanes[peer].receives.len()
    }

    /// The peers whose bytes are still to come, and how many.
    pub fn awaited<'m>(&'m self, schedule: &'m Schedule) -> impl Iterator<Item = (usize, usize)> + 'm {
        (0..self.lanes.len()).filter_map(move |peer| {
            let left = |&id: &usize| schedule.receives[id].length - self.received[id];
            let bytes = schedule.lanes[peer].receives[self.lanes[peer].receive..].iter().map(left).sum();
            (bytes > 0).then_some((peer, bytes))
        })
    }

    /// The peers that have yet to take bytes, and how many.
    pub fn untaken<'m>(&'m self, schedule: &'m Schedule) -> impl Iterator<Item = (usize, usize)> + 'm {
        (0..self.lanes.len()).filter_map(move |peer| {
            let lane = self.lanes[peer];
            let all: usize = schedule.lanes[peer].sends[lane.send..].iter().map(|send| send.extent.length).sum();
            (all > lane.gone).then_some((peer, all - lane.gone))
        })
    }

    /// How many bytes a work has made, from its beginning on.
    fn made(&self, work: WorkId) -> usize {
        self.used[work].last().copied().unwrap_or(0)
    }

    /// How many more bytes of a receive may come before something unread would be overwritten.
    fn room(&self, receive: &Receive, come: usize) -> usize {
        match receive.reader {
            Some((work, place)) => receive.landing.length - (come - self.used[work][place]),
            None => receive.length - come,
        }
    }

    /// How many bytes of a source have come, from its beginning on, in whole elements.
    fn come(&self, schedule: &Schedule, source: Source, length: usize) -> usize {
        match source {
            Source::Input(_) => length,
            Source::Received(id, offset) => match self.received[id].saturating_sub(offset) {
                enough if enough >= length => length,
                some => some / schedule.element_bytes * schedule.element_bytes,
            },
        }
    }

    fn copy(&mut self, schedule: &Schedule, id: WorkId, buffers: &mut Buffers<'_>) -> bool {
        let work = &schedule.works[id];
        let Some(into) = work.into else { return self.wait(schedule, id) };
        let mut stepped = false;
        loop {
            let start = self.used[id][0];
            let length = self.come(schedule, work.sources[0], work.length) - start;
            let (from, length) = place(schedule, work.sources[0], start, length);
            if length == 0 {
                return stepped;
            }
            let from = match from.buffer {
                Buffer::Input => &buffers.input[from.start..][..length],
                _ => &buffers.scratch[from.start..][..length],
            };
            buffers.result[into.start + start..][..length].copy_from_slice(from);
            self.used[id][0] += length;
            self.to_make -= length;
            stepped = true;
        }
    }

    fn wait(&mut self, schedule: &Schedule, id: WorkId) -> bool {
        let work = &schedule.works[id];
        let come = work.sources.iter().map(|&source| self.come(schedule, source, work.length)).min().unwrap_or(0);
        let before = self.made(id);
        self.used[id].fill(come);
        self.to_make -= come - before;
        come > before
    }

    /// Source by source, block by block: a source follows the one before it at a block's distance.
    fn fold(
        &mut self,
        schedule: &Schedule,
        id: WorkId,
        buffers: &mut Buffers<'_>,
        reducer: &Reducer<'_>,
    ) -> Result<bool, FoldError> {
        let work = &schedule.works[id];
        let Some(into) = work.into else { return Ok(self.wait(schedule, id)) };
        let block = BLOCK_BYTES.next_multiple_of(schedule.element_bytes);
        let last = work.sources.len() - 1;
        let mut stepped = false;
        loop {
            let mut progressed = false;
            for index in 1..=last {
                let source = work.sources[index];
                let start = self.used[id][index];
                let end = if index == 1 {
                    self.come(schedule, work.sources[0], work.length)
                } else {
                    self.used[id][index - 1]
                };
                let length = end.min(self.come(schedule, source, work.length)).saturating_sub(start).min(block);
                let (right, length) = place(schedule, source, start, length);
                let (left, length) =
                    if index == 1 { place(schedule, work.sources[0], start, length) } else { (right, length) };
                if length == 0 {
                    continue;
                }
                let operand = |from: Extent| match from.buffer {
                    Buffer::Input => &buffers.input[from.start..][..length],
                    _ => &buffers.scratch[from.start..][..length],
                };
                let out = &mut buffers.result[into.start + start..][..length];
                if index == 1 {
                    reducer.combine(out, operand(left), operand(right))?;
                    self.used[id][0] += length;
                } else {
                    reducer.fold(out, operand(right))?;
                }
                self.used[id][index] += length;
                if index == last {
                    self.to_make -= length;
                }
                progressed = true;
            }
            if !progressed {
                return Ok(stepped);
            }
            stepped = true;
        }
    }
}

/// Where `length` bytes of a source lie from byte `offset` on, and how many of them lie there in a row.
fn place(schedule: &Schedule, source: Source, offset: usize, length: usize) -> (Extent, usize) {
    match source {
        Source::Input(start) => (Extent::new(Buffer::Input, start + offset, length), length),
        Source::Received(id, first) => {
            let landing = schedule.receives[id].landing;
            if landing.length == 0 {
                return (landing, 0);
            }
            let start = (first + offset) % landing.length;
            let length = length.min(landing.length - start);
            (landing.part(start, length), length)
        }
    }
}
