//! Incarnations come, are told of their peers, and go.

use super::{Engine, Grave};
use crate::channel::{Channel, PeerLink, Place, Road};
use crate::seat::{Seat, Training};
use crate::shared::Member;
use crate::sources::Source;
use crate::story::Story;
use mio::Interest;
use rejoin_agent::PlanePeer;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Incarnation, Lane, Lineage, Rank, Version};
use rejoin_transport::Link;
use std::time::Instant;

/// Why calls end when the bridge does.
pub(super) fn closed(rank: Rank) -> Error {
    Error::new(Code::BadState, format!("rank {rank}: the bridge to XGBoost is closed"))
}

impl Engine {
    pub(super) fn seated(&mut self, (rank, incarnation): Member) {
        if self.seat(rank).is_some_and(|seat| seat.incarnation >= incarnation) {
            return;
        }
        self.vacate(rank);
        self.seats.push(Seat::new(rank, incarnation));
        self.shared.members.lock().push((rank, incarnation));
        self.shared.holds.lock().retain(|(other, old), _| *other != rank || *old >= incarnation);
        let mut failures = self.shared.failures.lock();
        if failures.get(&rank).is_some_and(|(old, _)| *old < incarnation) {
            failures.remove(&rank);
        }
    }

    /// Drops all that is left of a rank's older incarnation.
    fn vacate(&mut self, rank: Rank) {
        let Some(old) = self.seat(rank).map(|seat| seat.incarnation) else { return };
        let superseded = format!("rank {rank}: incarnation {old} was superseded by a newer one");
        self.free((rank, old), Error::new(Code::Fenced, superseded));
        let Some(index) = self.seats.iter().position(|seat| seat.rank == rank) else { return };
        let mut seat = self.seats.swap_remove(index);
        self.shared.members.lock().retain(|(other, _)| *other != rank);
        self.shared.routed.lock().remove(&(rank, old));
        self.close_door(&mut seat);
        for mut channel in seat.training.into_iter().flat_map(|training| training.channels) {
            self.drop_road(&mut channel);
        }
        for seat in &mut self.seats {
            let channel = seat.training.as_mut().and_then(|training| training.channel(rank));
            if let Some(channel) = channel.filter(|channel| matches!(channel.road, Road::Local(_))) {
                channel.unlinked();
            }
        }
    }

    pub(super) fn start(&mut self, member: Member, world: u32, lineage: Lineage, version: Version) {
        let budget = self.shared.budget.clone();
        let Some(seat) = self.member(member).filter(|seat| seat.training.is_none()) else { return };
        let place = Place { lineage, start: version };
        let channels = (0..world).map(|peer| Channel::new(Rank(peer), place, budget.clone())).collect();
        let story = Story::new(member.1);
        seat.training = Some(Training { world, place, channels, variant: None, phase: None, left: 0, story });
        for (peer, peer_incarnation, link) in std::mem::take(&mut seat.early_links) {
            self.link(member, peer, peer_incarnation, link);
        }
        self.join_local(member.0);
    }

    pub(super) fn peers(&mut self, member: Member, peers: Vec<PlanePeer>) {
        let Some(seat) = self.member(member) else { return };
        seat.early_links.retain(|(peer, incarnation, _)| is_among(&peers, *peer, *incarnation));
        seat.peers = peers;
        let Some(training) = &mut seat.training else { return };
        let mut cut = Vec::new();
        for channel in &mut training.channels {
            let stays = match &channel.road {
                Road::None => true,
                Road::Local(incarnation) => is_among(&seat.peers, channel.peer, *incarnation),
                Road::Link(link) => is_among(&seat.peers, channel.peer, link.incarnation),
            };
            if !stays {
                cut.push(channel.unlinked());
            }
        }
        cut.into_iter().for_each(|road| self.discard(road));
        self.join_local(member.0);
    }

    pub(super) fn link(&mut self, member: Member, peer: Rank, peer_incarnation: Incarnation, mut link: Link) {
        let (rank, _) = member;
        let Some(seat) = self.member(member) else { return link.reset() };
        // One whose rank has failed is kept as well, though it is of no use: a peer would only make it anew, again and again, for as
        // long as nobody but this rank's own thread knows that it has failed.
        if seat.failure.is_some() || seat.training.is_none() {
            seat.early_links.retain(|(other, _, _)| *other != peer);
            return seat.early_links.push((peer, peer_incarnation, link));
        }
        let interest = Interest::READABLE | Interest::WRITABLE;
        let token = match self.sources.add(link.socket(), Source::Link(rank, peer), interest) {
            Ok(token) => token,
            Err(cause) => {
                log::warn!("{} the link to rank {peer} can't be listened to: {cause}", self.shared.prefix(rank));
                link.reset();
                return self.report_link_down(member, peer, peer_incarnation, cause.to_string());
            }
        };
        let made = PeerLink::new(link, token, peer_incarnation);
        let channel = self.member(member).and_then(|seat| seat.training.as_mut()?.channel(peer));
        match channel {
            Some(channel) => {
                let old = channel.unlinked();
                channel.linked(made);
                self.discard(old);
                self.make_busy(rank, peer);
            }
            None => self.discard(Road::Link(Box::new(made))),
        }
    }

    /// Lets ranks of this process that know each other pass their bytes directly.
    fn join_local(&mut self, rank: Rank) {
        let others: Vec<Rank> = self.seats.iter().map(|seat| seat.rank).filter(|other| *other != rank).collect();
        for other in others {
            if self.are_local_peers(rank, other) && self.are_local_peers(other, rank) {
                self.join_pair(rank, other);
            }
        }
    }

    /// Whether `rank` was told that the present incarnation of `peer` is alive in this process, and both have started.
    fn are_local_peers(&mut self, rank: Rank, peer: Rank) -> bool {
        let Some((incarnation, lineage)) = self.seat(peer).and_then(|seat| {
            let training = seat.training.as_ref().filter(|_| seat.failure.is_none())?;
            Some((seat.incarnation, training.place.lineage))
        }) else {
            return false;
        };
        let Some(seat) = self.seat(rank).filter(|seat| seat.failure.is_none()) else { return false };
        let told = seat.peers.iter().any(|p| p.rank == peer && p.incarnation == incarnation && p.local);
        told && seat.training.as_ref().is_some_and(|training| training.place.lineage == lineage)
    }

    fn join_pair(&mut self, a: Rank, b: Rank) {
        let (Some(at), Some(bt)) =
            (self.seats.iter().position(|seat| seat.rank == a), self.seats.iter().position(|seat| seat.rank == b))
        else {
            return;
        };
        // The positions of two different ranks differ, and both were just found.
        let Ok([first, second]) = self.seats.get_disjoint_mut([at, bt]) else { return };
        let (of_first, of_second) = (first.incarnation, second.incarnation);
        let channels = (
            first.training.as_mut().and_then(|training| training.channel(b)),
            second.training.as_mut().and_then(|training| training.channel(a)),
        );
        let (Some(ours), Some(theirs)) = channels else { return };
        let is_joined = |channel: &Channel, with| matches!(channel.road, Road::Local(old) if old == with);
        if is_joined(ours, of_second) && is_joined(theirs, of_first) {
            return;
        }
        let old = [ours.unlinked(), theirs.unlinked()];
        let joined = [(a, b, ours.join(theirs, of_second)), (b, a, theirs.join(ours, of_first))];
        old.into_iter().for_each(|road| self.discard(road));
        for (rank, peer, result) in joined {
            match result {
                Ok(()) => self.make_busy(rank, peer),
                Err(trouble) => self.handle_trouble(rank, peer, trouble),
            }
        }
    }

    /// The incarnation is over: its calls end with the error, its worker is freed a little later.
    pub(super) fn free(&mut self, member: Member, error: Error) {
        let Some(seat) = self.member(member) else { return };
        let error = seat.failure.get_or_insert(error).clone();
        seat.answer(Err(error.clone()));
        // Nothing of it goes out any more. Its links stay: their ends are told to the peers' agents by the tracker.
        for channel in seat.training.iter_mut().flat_map(|training| &mut training.channels) {
            channel.drop_all_logs();
        }
        self.shared.fail(member, &error);
        self.dig_grave(member.0);
    }

    /// Takes a worker's sockets out of service; they are reset after the delay. Closing them at once would sometimes
    /// hang XGBoost's event loop for ever.
    pub(super) fn dig_grave(&mut self, rank: Rank) {
        let due = Instant::now() + self.config.free_delay;
        let Some(seat) = self.seat(rank) else { return };
        let member = (rank, seat.incarnation);
        let bootstrap = seat.door.as_mut().and_then(|door| door.bootstrap.take());
        let channels = seat.training.iter_mut().flat_map(|training| &mut training.channels);
        let sockets: Vec<_> = channels.filter_map(|channel| channel.worker.take()).collect();
        if bootstrap.is_some() || !sockets.is_empty() {
            self.graves.push(Grave { member, due, sockets, bootstrap });
        }
    }

    /// The incarnation is over, and its worker's own thread says so: it waits for nothing of XGBoost's, so that the connections
    /// can be reset at once.
    pub(super) fn give_up(&mut self, member: Member, error: Error) {
        self.free(member, error);
        let (now, later) = std::mem::take(&mut self.graves).into_iter().partition(|grave| grave.member == member);
        self.graves = later;
        let now: Vec<Grave> = now;
        now.into_iter().for_each(|grave| self.bury(grave));
    }

    pub(super) fn retire(&mut self, member: Member) {
        let Some(seat) = self.member(member) else { return };
        seat.answer(Err(Error::new(Code::BadState, format!("rank {}: its task has ended", member.0))));
        let mut door = seat.door.take();
        let channels = seat.training.iter_mut().flat_map(|training| &mut training.channels);
        let sockets: Vec<_> = channels.filter_map(|channel| channel.worker.take()).collect();
        if let Some(bootstrap) = door.as_mut().and_then(|door| door.bootstrap.take()) {
            bootstrap.abandon(&mut self.sources);
        }
        for mut socket in sockets {
            let token = socket.token();
            self.sources.remove(socket.stream(), token);
        }
        if let Some(door) = door {
            self.dismantle(door);
        }
    }

    /// Everybody has caught up: the logs are dropped as usual again.
    pub(super) fn unhold(&mut self, member: Member) {
        let shared = self.shared.clone();
        let mut holds = shared.holds.lock();
        let Some(hold) = holds.get_mut(&member).filter(|hold| !hold.holding) else { return };
        let Some(training) = self.member(member).and_then(|seat| seat.training.as_mut()) else { return };
        for peer in training.neighbours(member.0) {
            if let Some(channel) = training.channel(peer) {
                let dropped = channel.outgoing.release();
                channel.drop_logs(dropped);
                channel.incoming.release();
                hold.oldest = hold.oldest.max(channel.outgoing.oldest());
            }
        }
    }

    fn drop_road(&mut self, channel: &mut Channel) {
        let road = channel.unlinked();
        self.discard(road);
    }

    /// Resets a link that is of no more use.
    pub(super) fn discard(&mut self, road: Road) {
        if let Road::Link(mut peer) = road {
            self.sources.remove(peer.link.socket(), peer.token);
            peer.link.reset();
        }
    }

    pub(super) fn report_link_down(
        &mut self,
        member: Member,
        peer: Rank,
        peer_incarnation: Incarnation,
        reason: String,
    ) {
        if let Some(agent) = self.shared.agent() {
            agent.link_down(member.0, member.1, peer, peer_incarnation, Lane::Channels, reason);
        }
    }
}

fn is_among(peers: &[PlanePeer], peer: Rank, incarnation: Incarnation) -> bool {
    peers.iter().any(|known| known.rank == peer && known.incarnation == incarnation)
}
