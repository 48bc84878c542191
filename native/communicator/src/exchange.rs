//! Moves the bytes of one collective under one generation, on the caller's thread.

use super::call_context::{CallContext, ExchangeOutcome};
use super::local_rank::LocalRank;
use super::peer_links::{PeerLinks, Trouble};
use rejoin_collectives::{Buffers, LinkMachine, Reducer, Schedule};
use rejoin_protocol::ids::Rank;
use std::time::Instant;

/// Most bytes of one frame.
const FRAME_BYTES: usize = 256 << 10;
/// Most parts of one frame.
const PARTS: usize = 16;

/// One collective under one generation. Holds no bytes of the caller.
pub(super) struct Exchange {
    machine: LinkMachine,
    peers: Vec<usize>,
    /// Those of them without a member under this generation: what is for them counts as gone.
    vacant: Vec<usize>,
    /// Bytes handed to the lines.
    pub(super) sent: u64,
    /// Stop once when so many bytes were sent: a fault rule waits for it.
    pub(super) stop_at: Option<u64>,
}

impl Exchange {
    pub(super) fn new(schedule: &Schedule, vacant: &[Rank]) -> Self {
        let vacant = vacant.iter().map(|rank| rank.0 as usize).collect();
        Exchange {
            machine: LinkMachine::new(schedule),
            peers: schedule.peers().collect(),
            vacant,
            sent: 0,
            stop_at: None,
        }
    }

    /// Goes on until it is done or something else has to be done first.
    pub(super) fn advance(
        &mut self,
        schedule: &Schedule,
        buffers: &mut Buffers<'_>,
        reducer: &Reducer<'_>,
        context: &mut CallContext<'_>,
    ) -> ExchangeOutcome {
        let CallContext { peer_links, memory, local_rank, poll, backoff, rank_profile, seen, limit } = context;
        let (local_rank, seen) = (*local_rank, *seen);
        loop {
            let step = match self.step(schedule, buffers, reducer, peer_links, local_rank) {
                Ok(step) => step,
                Err(went) => return went,
            };
            if !matches!(step, ExchangeStep::Nothing) {
                backoff.over(Instant::now);
            }
            match step {
                ExchangeStep::Done => return ExchangeOutcome::Done,
                ExchangeStep::Stop => return ExchangeOutcome::Sent,
                _ if local_rank.changes() != seen => return ExchangeOutcome::Changed,
                ExchangeStep::Progress => continue,
                // A look is a system call for each rank: none of them costs nothing.
                ExchangeStep::Nothing if backoff.pause(0) => continue,
                ExchangeStep::Nothing => {}
            }
            let now = Instant::now();
            let Some(left) = limit.left(now) else { return ExchangeOutcome::Late };
            let awaited = self.machine.awaited(schedule).chain(self.machine.untaken(schedule));
            peer_links.listen(awaited.map(|(peer, _)| peer), now);
            if peer_links.has_to_report(now) {
                return ExchangeOutcome::Changed;
            }
            if let Some((peer, collective_id)) =
                peer_links.expected().and_then(|expected| memory.contradicts(&expected))
            {
                return ExchangeOutcome::Trouble(Trouble::Mismatch(peer, collective_id));
            }
            rank_profile.waiting(|| self.awaited(schedule).first().map(|(peer, _)| *peer));
            local_rank.sleep(poll, left, || local_rank.changes() != seen);
            rank_profile.exchanging();
        }
    }

    /// Whatever is possible now, once for each peer.
    fn step(
        &mut self,
        schedule: &Schedule,
        buffers: &mut Buffers<'_>,
        reducer: &Reducer<'_>,
        peer_links: &mut PeerLinks,
        local_rank: &LocalRank,
    ) -> Result<ExchangeStep, ExchangeOutcome> {
        let mut progress = false;
        if self.stop_at == Some(0) {
            self.stop_at = None;
            return Ok(ExchangeStep::Stop);
        }
        for index in 0..self.peers.len() {
            let peer = self.peers[index];
            while let Some(extent) = self.machine.wanted(schedule, peer) {
                let bytes = buffers.bytes_mut(extent);
                let count = peer_links.receive(peer, local_rank, bytes).map_err(ExchangeOutcome::Trouble)?;
                if count == 0 {
                    break;
                }
                self.machine.received(schedule, peer, count);
                progress = true;
                if self.machine.wanted(schedule, peer).is_none() {
                    // A ring is full: what has come makes room.
                    self.machine.work(schedule, buffers, reducer).map_err(ExchangeOutcome::Fold)?;
                }
            }
        }
        progress |= self.machine.work(schedule, buffers, reducer).map_err(ExchangeOutcome::Fold)?;
        let mut all_gone = true;
        for index in 0..self.peers.len() {
            let peer = self.peers[index];
            if self.vacant.contains(&peer) {
                // A rank that has what it needs goes on without the dead. The next incarnation finds the
                // result in the others' logs.
                let bytes = self.machine.sendable(schedule, peer).map(|extent| extent.length).sum();
                self.machine.sent(schedule, peer, bytes);
                progress |= bytes > 0;
                continue;
            }
            let before = self.sent;
            all_gone &= self.send(schedule, buffers, peer, peer_links);
            progress |= self.sent > before;
            if self.stop_at.is_some_and(|stop| self.sent >= stop) {
                self.stop_at = None;
                return Ok(ExchangeStep::Stop);
            }
        }
        if all_gone && self.machine.is_finished() {
            return Ok(ExchangeStep::Done);
        }
        Ok(if progress { ExchangeStep::Progress } else { ExchangeStep::Nothing })
    }

    /// Sends what a peer's link takes, up to where a rule waits. False if something is left that it doesn't take now.
    fn send(&mut self, schedule: &Schedule, buffers: &Buffers<'_>, peer: usize, peer_links: &mut PeerLinks) -> bool {
        // The next frame goes straight from the buffers when nothing waits before it.
        while peer_links.flush(peer) {
            let mut parts: [&[u8]; PARTS] = [&[]; PARTS];
            if peer_links.queued(peer).is_none() {
                return true;
            }
            let owed = peer_links.owed(peer);
            let bytes = self.payload(schedule, buffers, peer, owed, &mut parts);
            if bytes == 0 {
                return true;
            }
            let gone = peer_links.send_parts(peer, &parts);
            self.machine.sent(schedule, peer, gone);
            self.sent += gone as u64;
            if gone < bytes || self.stop_at.is_some_and(|stop| self.sent >= stop) {
                return gone == bytes;
            }
        }
        false
    }

    /// The parts of the next frame for a peer, or of those that are owed of the one that was begun,
    /// and how many bytes they are in all.
    fn payload<'b>(
        &self,
        schedule: &Schedule,
        buffers: &'b Buffers<'_>,
        peer: usize,
        owed: usize,
        parts: &mut [&'b [u8]; PARTS],
    ) -> usize {
        let most = if owed > 0 { owed } else { FRAME_BYTES };
        // A rule that waits for a byte gets frames that end there.
        let limit = self.stop_at.map_or(most, |stop| (stop - self.sent.min(stop)).clamp(1, most as u64) as usize);
        let mut bytes = 0;
        for (part, extent) in parts.iter_mut().zip(self.machine.sendable(schedule, peer)) {
            let all = buffers.bytes(extent);
            *part = &all[..all.len().min(limit - bytes)];
            bytes += part.len();
            if bytes == limit {
                break;
            }
        }
        bytes
    }

    /// Whose bytes are still to come, and how many.
    pub(super) fn awaited(&self, schedule: &Schedule) -> Vec<(usize, usize)> {
        self.machine.awaited(schedule).collect()
    }

    /// Who has yet to take bytes, and how many.
    pub(super) fn untaken(&self, schedule: &Schedule) -> Vec<(usize, usize)> {
        self.machine.untaken(schedule).collect()
    }
}

enum ExchangeStep {
    Done,
    Progress,
    Nothing,
    Stop,
}
