//! Incarnations come, are given their peers, and go.

use super::{Engine, PendingReset};
use crate::bridged_rank::{BridgedRank, Training};
use crate::catch_up::CatchUp;
use crate::channel::{Channel, PeerLink, StartPoint};
use crate::sources::Source;
use mio::Interest;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Lane, MemberId, Rank};
use rejoin_protocol::report::Report;
use rejoin_transport::Link;
use std::time::Instant;

impl Engine {
    pub(super) fn join_accepted(&mut self, member: MemberId) {
        let MemberId { rank, incarnation } = member;
        if self.bridged_rank(rank).is_some_and(|bridged_rank| bridged_rank.incarnation >= incarnation) {
            return;
        }
        self.vacate(rank);
        self.bridged_ranks.push(BridgedRank::new(rank, incarnation));
        self.shared.members.lock().push(member);
        self.shared.holds.lock().retain(|other, _| other.rank != rank || *other >= member);
    }

    /// Drops all that is left of a rank's older incarnation.
    fn vacate(&mut self, rank: Rank) {
        let Some(old) = self.bridged_rank(rank).map(|bridged_rank| bridged_rank.id()) else { return };
        let superseded = format!("rank {rank}: incarnation {} was superseded by a newer one", old.incarnation);
        self.free(old, Error::new(Code::Fenced, superseded));
        let Some(index) = self.bridged_ranks.iter().position(|bridged_rank| bridged_rank.rank == rank) else { return };
        let mut bridged_rank = self.bridged_ranks.swap_remove(index);
        self.shared.members.lock().retain(|other| other.rank != rank);
        let served_rank = self.shared.served_ranks.lock().remove(&old);
        if let Some(served_rank) = served_rank {
            served_rank.retire();
        }
        self.close_door(&mut bridged_rank);
        for mut channel in bridged_rank.training.into_iter().flat_map(|training| training.channels) {
            self.discard(channel.unlinked());
        }
    }

    pub(super) fn start(&mut self, member: MemberId, world: u32, place: StartPoint, hooked: bool) {
        let budget = self.shared.budget.clone();
        let Some(bridged_rank) = self.member(member).filter(|bridged_rank| bridged_rank.training.is_none()) else {
            return;
        };
        let channels = (0..world).map(|peer| Channel::new(Rank(peer), place, budget.clone())).collect();
        let catch_up = CatchUp::new(member.incarnation, hooked);
        bridged_rank.training =
            Some(Training { world, place, channels, variant: None, phase: None, left: 0, catch_up });
        for (peer, link) in std::mem::take(&mut bridged_rank.early_links) {
            self.link(member, peer, link);
        }
    }

    pub(super) fn peers(&mut self, member: MemberId, peers: &[MemberId]) {
        let Some(bridged_rank) = self.member(member) else { return };
        bridged_rank.early_links.retain(|(peer, _)| peers.contains(peer));
        let Some(training) = &mut bridged_rank.training else { return };
        let mut cut = Vec::new();
        for channel in &mut training.channels {
            let linked = channel.link.as_ref().map(|link| link.incarnation);
            if linked.is_some_and(|incarnation| !peers.contains(&MemberId { rank: channel.peer, incarnation })) {
                cut.push(channel.unlinked());
            }
        }
        cut.into_iter().for_each(|link| self.discard(link));
    }

    pub(super) fn link(&mut self, member: MemberId, peer: MemberId, mut link: Link) {
        let Some(bridged_rank) = self.member(member) else { return link.reset() };
        // One whose rank has failed is kept as well, though it is of no use: a peer would only make
        // it anew, again and again, for as long as only this rank's own thread knows that it
        // has failed.
        if bridged_rank.failure.is_some() || bridged_rank.training.is_none() {
            bridged_rank.early_links.retain(|(other, _)| other.rank != peer.rank);
            return bridged_rank.early_links.push((peer, link));
        }
        let rank = member.rank;
        let interest = Interest::READABLE | Interest::WRITABLE;
        let token = match self.sources.add(link.socket(), Source::Link(rank, peer.rank), interest) {
            Ok(token) => token,
            Err(cause) => {
                let prefix = self.shared.prefix(rank);
                log::warn!("{prefix} the link to rank {} can't be listened to: {cause}", peer.rank);
                link.reset();
                return self.report_link_down(member, peer, cause.to_string());
            }
        };
        let made = PeerLink::new(link, token, peer.incarnation);
        let channel = self.member(member).and_then(|bridged_rank| bridged_rank.training.as_mut()?.channel(peer.rank));
        match channel {
            Some(channel) => {
                let old = channel.unlinked();
                channel.linked(made);
                self.discard(old);
                self.make_busy(rank, peer.rank);
            }
            None => self.discard(Some(Box::new(made))),
        }
    }

    /// The incarnation is over: its calls end with the error, its worker is freed a little later.
    pub(super) fn free(&mut self, member: MemberId, error: Error) {
        let Some(bridged_rank) = self.member(member) else { return };
        let error = bridged_rank.failure.get_or_insert(error).clone();
        bridged_rank.answer(Err(error.clone()));
        // Nothing of it goes out any more. Its links stay: their ends are sent to the peers' agents by the tracker.
        for channel in bridged_rank.training.iter_mut().flat_map(|training| &mut training.channels) {
            channel.drop_all_logs();
        }
        self.shared.fail(member, &error);
        self.reset_later(member.rank);
    }

    /// Takes a worker's sockets out of service; they are reset after the delay. Closing them at once would sometimes
    /// hang XGBoost's event loop for ever.
    pub(super) fn reset_later(&mut self, rank: Rank) {
        let due = Instant::now() + self.config.free_delay;
        let Some(bridged_rank) = self.bridged_rank(rank) else { return };
        let member = bridged_rank.id();
        // A worker that isn't connected yet is freed by the end of what it talks to. A connected
        // one has yet to say there that it shuts down.
        let door = bridged_rank.door.take_if(|door| !door.opened);
        let channels = bridged_rank.training.iter_mut().flat_map(|training| &mut training.channels);
        let sockets: Vec<_> = channels.filter_map(|channel| channel.worker.take()).collect();
        if door.is_some() || !sockets.is_empty() {
            self.pending_resets.push(PendingReset { member, due, sockets, door });
        }
    }

    /// The incarnation is over, and its worker's own thread says so: it waits for nothing of
    /// XGBoost's, so that the connections can be reset at once.
    pub(super) fn give_up(&mut self, member: MemberId, error: Error) {
        self.free(member, error);
        let (now, later) = std::mem::take(&mut self.pending_resets)
            .into_iter()
            .partition(|pending_reset| pending_reset.member == member);
        self.pending_resets = later;
        let now: Vec<PendingReset> = now;
        now.into_iter().for_each(|pending_reset| self.bury(pending_reset));
    }

    pub(super) fn retire(&mut self, member: MemberId) {
        let Some(bridged_rank) = self.member(member) else { return };
        bridged_rank.answer(Err(Error::new(Code::BadState, format!("rank {}: its task has ended", member.rank))));
        let door = bridged_rank.door.take();
        let channels = bridged_rank.training.iter_mut().flat_map(|training| &mut training.channels);
        let sockets: Vec<_> = channels.filter_map(|channel| channel.worker.take()).collect();
        for mut socket in sockets {
            let token = socket.token();
            self.sources.remove(socket.stream(), token);
        }
        if let Some(door) = door {
            self.dismantle(door);
        }
    }

    /// All have caught up: the logs are dropped as usual again.
    pub(super) fn unhold(&mut self, member: MemberId) {
        let shared = self.shared.clone();
        let mut holds = shared.holds.lock();
        let Some(hold) = holds.get_mut(&member).filter(|hold| !hold.holding) else { return };
        let Some(training) = self.member(member).and_then(|bridged_rank| bridged_rank.training.as_mut()) else {
            return;
        };
        for peer in training.neighbours(member.rank) {
            if let Some(channel) = training.channel(peer) {
                let dropped = channel.outgoing.release();
                channel.drop_logs(dropped);
                channel.incoming.release();
                hold.oldest = hold.oldest.max(channel.outgoing.oldest());
            }
        }
    }

    /// Resets a link that is of no more use.
    pub(super) fn discard(&mut self, link: Option<Box<PeerLink>>) {
        if let Some(mut peer) = link {
            self.sources.remove(peer.link.socket(), peer.token);
            peer.link.reset();
        }
    }

    pub(super) fn report_link_down(&mut self, member: MemberId, peer: MemberId, reason: String) {
        if let Some(agent) = self.shared.agent() {
            agent.report(member, Report::LinkDown { peer, lane: Lane::Channels, reason });
        }
    }
}
