//! Workers whose socket calls are served in place: the engine as their threads see it.

use super::Engine;
use crate::bridge::InPlace;
use crate::channel::Road;
use crate::seat::{Halt, Seat};
use crate::shared::Member;
use crate::tap::calls::{self, Tap};
use crate::tap::Kick;
use crate::worker_socket::WorkerSocket;
use bytes::Bytes;
use mio::Interest;
use rejoin_protocol::ids::Rank;
use std::os::fd::RawFd;
use std::sync::Arc;

/// What became of a worker's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// So many bytes.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// The channel was taken out of service.
    Gone,
}

/// What a worker that polls may do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// Where its next bytes come from.
    pub(crate) link: Option<RawFd>,
}

impl Engine {
    /// Serves a worker's calls in place from now on. Call it at a boundary, when all of its channels are at rest.
    pub(super) fn tap(&mut self, member: Member) {
        let (rank, _) = member;
        if self.untappable {
            return;
        }
        if self.config.in_place == InPlace::Never {
            self.untappable = true;
            return self.say_untapped(rank, "the settings forbid it");
        }
        let Some(seat) = self.member(member).filter(|seat| seat.kick.is_none()) else { return };
        let Some(training) = &mut seat.training else { return };
        let peers = training.neighbours(rank);
        let tapped = calls::install().and_then(|()| Kick::new().map(Arc::new).map_err(|cause| cause.to_string()));
        let kick = match tapped {
            Ok(kick) => kick,
            Err(reason) => {
                self.untappable = true;
                return self.say_untapped(rank, &reason);
            }
        };
        let mut taps = Vec::new();
        for peer in peers {
            let channel = self.seat(rank).and_then(|seat| seat.training.as_mut()?.channel(peer));
            let Some(worker) = channel.and_then(|channel| channel.worker.as_mut()) else { continue };
            if let Some(file) = worker.tap(kick.clone()) {
                taps.extend(worker.pipe().map(|pipe| (file, peer, pipe.state.clone())));
            }
        }
        for (file, peer, state) in taps {
            let (engine, waker) = (self.own.clone(), self.waker.clone());
            calls::add(file, Tap { engine, waker, member, peer, state, budget: self.shared.budget.clone() });
            self.leave_reading(rank, peer);
        }
        if let Some(seat) = self.member(member) {
            seat.kick = Some(kick);
        }
        self.shared.in_place.lock().insert(member);
        log::info!("{} incarnation {}: XGBoost's socket calls are served in place", self.shared.prefix(rank), member.1);
    }

    /// Once for all ranks of the process.
    fn say_untapped(&self, rank: Rank, reason: &str) {
        let prefix = self.shared.prefix(rank);
        log::info!("{prefix} XGBoost's socket calls are not served in place, its bytes go through sockets: {reason}");
    }

    /// The worker's thread reads the link itself from now on: this engine's thread is woken only when the link can be
    /// written again, or is gone.
    pub(super) fn leave_reading(&mut self, rank: Rank, peer: Rank) {
        let Engine { seats, sources, .. } = self;
        let seat = seats.iter_mut().find(|seat| seat.rank == rank);
        let Some(channel) = seat.and_then(|seat| seat.training.as_mut()?.channel(peer)) else { return };
        if !channel.worker.as_ref().is_some_and(WorkerSocket::is_tapped) || !channel.is_acquainted() {
            return;
        }
        let Road::Link(link) = &mut channel.road else { return };
        if link.left_to_worker {
            return;
        }
        match sources.watch(link.link.socket(), link.token, Interest::WRITABLE) {
            Ok(()) => link.left_to_worker = true,
            // Then both read, which is slower and no harm.
            Err(cause) => {
                log::warn!("{} the link to rank {peer} can't be registered anew: {cause}", self.shared.prefix(rank))
            }
        }
    }

    /// Whether this engine's thread has something to do, now or at a moment that it may not know of yet.
    pub(crate) fn is_busy(&self) -> bool {
        let waits_for_time = |seat: &Seat| matches!(seat.halt, Halt::Until(_));
        !self.busy.is_empty() || !self.graves.is_empty() || self.seats.iter().any(waits_for_time)
    }

    /// Wakes all worker's threads that wait: something may have changed for them.
    pub(super) fn kick_all(&self) {
        self.seats.iter().filter_map(|seat| seat.kick.as_ref()).for_each(|kick| kick.kick());
    }

    /// Whether the worker may send: unless what it sent before is held back, or the channel was taken out of service.
    pub(crate) fn tapped_may_send(&mut self, member: Member, peer: Rank) -> Moved {
        match self.tapped_worker(member, peer).and_then(WorkerSocket::pipe) {
            None => Moved::Gone,
            Some(pipe) if pipe.is_sent() => Moved::Bytes(0),
            Some(_) => Moved::Nothing,
        }
    }

    /// The worker sends, and may. Returns whether it may send more.
    pub(crate) fn tapped_send(&mut self, member: Member, peer: Rank, bytes: Bytes) -> Moved {
        if let Some(pipe) = self.tapped_worker(member, peer).and_then(WorkerSocket::pipe) {
            pipe.send(bytes);
            self.move_channel(member.0, peer);
        }
        self.tapped_may_send(member, peer)
    }

    /// The worker receives at most `most` bytes.
    pub(crate) fn tapped_receive(&mut self, member: Member, peer: Rank, most: usize, into: &mut Vec<Bytes>) -> Moved {
        let mut count = self.take_delivered(member, peer, most, into);
        if count == 0 {
            self.look_at_link(member.0, peer);
            count = self.take_delivered(member, peer, most, into);
        }
        self.became(member, peer, count)
    }

    fn became(&mut self, member: Member, peer: Rank, count: usize) -> Moved {
        match (count, self.tapped_worker(member, peer)) {
            (0, None) => Moved::Gone,
            (0, Some(_)) => Moved::Nothing,
            (count, _) => Moved::Bytes(count),
        }
    }

    fn take_delivered(&mut self, member: Member, peer: Rank, most: usize, into: &mut Vec<Bytes>) -> usize {
        let Some(pipe) = self.tapped_worker(member, peer).and_then(WorkerSocket::pipe) else { return 0 };
        let was_full = !pipe.has_room();
        let count = pipe.receive(most, into);
        if was_full && pipe.has_room() {
            // A peer of this process waits for this room, or the link has more.
            self.move_channel(peer, member.0);
            self.look_at_link(member.0, peer);
        }
        count
    }

    /// What the worker may do on a channel; the link is read first if the kernel says that something has come.
    pub(crate) fn tapped_look(&mut self, member: Member, peer: Rank, has_come: bool) -> Seen {
        if has_come {
            self.look_at_link(member.0, peer);
        }
        let pipe = self.tapped_worker(member, peer).and_then(WorkerSocket::pipe);
        let readable = pipe.is_some_and(|pipe| pipe.waiting() > 0);
        let writable = self.tapped_worker(member, peer).and_then(WorkerSocket::pipe).is_some_and(|pipe| pipe.is_sent());
        Seen { readable, writable, link: self.link_to_read(member, peer) }
    }

    fn look_at_link(&mut self, rank: Rank, peer: Rank) {
        let channel = self.seat(rank).and_then(|seat| seat.training.as_mut()?.channel(peer));
        if let Some(Road::Link(link)) = channel.map(|channel| &mut channel.road) {
            if link.left_to_worker {
                link.ready(true, false, false);
                self.move_channel(rank, peer);
            }
        }
    }

    /// The link's descriptor, if its next frame is for the worker.
    fn link_to_read(&mut self, member: Member, peer: Rank) -> Option<RawFd> {
        let seat = self.member(member).filter(|seat| seat.moves())?;
        match &mut seat.training.as_mut()?.channel(peer)?.road {
            Road::Link(link) if link.left_to_worker && !link.is_parked() => Some(link.descriptor()),
            _ => None,
        }
    }

    fn tapped_worker(&mut self, member: Member, peer: Rank) -> Option<&mut WorkerSocket> {
        self.member(member)?.training.as_mut()?.channel(peer)?.worker.as_mut()
    }
}
