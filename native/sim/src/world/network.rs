//! Connections: they keep the order of what is sent, take their time, and break.

use super::{Happening, ProcessId, Who, World};
use crate::world::bridge::Frame;
use rejoin_protocol::host::Input;
use rejoin_protocol::message::{AgentMessage, TrackerMessage};

/// A connection between an agent and the tracker. Each side learns of its end by itself.
pub(super) struct TrackerLink {
    process: ProcessId,
    pub(super) tracker_side: bool,
    /// When the last message in each direction arrives: later ones don't overtake.
    to_tracker: u64,
    to_host: u64,
}

/// A data link between two ranks.
pub(super) struct DataLink {
    pub(super) ends: [(ProcessId, Who); 2],
    arrives: [u64; 2],
    pub(super) cut: bool,
}

impl World {
    pub(super) fn host_connects(&mut self, process: ProcessId) {
        let link = self.number();
        let Some(there) = self.processes.get_mut(&process) else { return };
        there.connecting = false;
        if there.closed || there.tracker_link.is_some() {
            return;
        }
        if self.tracker_is_down {
            return self.host_takes(process, Input::TrackerDown { reason: "connection refused".into() });
        }
        there.tracker_link = Some(link);
        let (to_tracker, to_host) = (self.now, self.now);
        self.tracker_links.insert(link, TrackerLink { process, tracker_side: true, to_tracker, to_host });
        self.host_takes(process, Input::TrackerUp);
    }

    pub(super) fn send_to_tracker(&mut self, process: ProcessId, message: AgentMessage) {
        let Some(link) = self.processes.get(&process).and_then(|there| there.tracker_link) else { return };
        let at = self.now + self.delay();
        let Some(there) = self.tracker_links.get_mut(&link) else { return };
        there.to_tracker = there.to_tracker.max(at);
        let at = there.to_tracker;
        self.at(at, Happening::ToTracker { link, message });
    }

    pub(super) fn send_to_host(&mut self, link: u64, message: TrackerMessage) {
        let at = self.now + self.delay();
        let Some(there) = self.tracker_links.get_mut(&link) else { return };
        there.to_host = there.to_host.max(at);
        let (at, process) = (there.to_host, there.process);
        self.at(at, Happening::ToHost { process, link, message });
    }

    /// Both sides learn of it, each in its time; what is under way is lost.
    pub(super) fn break_tracker_link(&mut self, link: u64, reason: &str) {
        let Some(there) = self.tracker_links.get(&link) else { return };
        let process = there.process;
        let (one, other) = (self.delay(), self.delay());
        self.queue.retain(|_, happening| {
            !matches!(happening, Happening::ToTracker { link: l, .. } | Happening::ToHost { link: l, .. } if *l == link)
        });
        self.after(one, Happening::TrackerLinkDies { link });
        self.after(other, Happening::HostLinkDies { process, link, reason: reason.into() });
    }

    pub(super) fn tracker_closes(&mut self, link: u64) {
        let Some(there) = self.tracker_links.get_mut(&link) else { return };
        there.tracker_side = false;
        let (at, process) = (there.to_host, there.process);
        self.at(at, Happening::HostLinkDies { process, link, reason: "closed by the tracker".into() });
    }

    pub(super) fn host_link_dies(&mut self, process: ProcessId, link: u64, reason: String) {
        let Some(there) = self.processes.get_mut(&process) else { return };
        if there.tracker_link == Some(link) {
            there.tracker_link = None;
            self.host_takes(process, Input::TrackerDown { reason });
        }
    }

    /// A rank's side makes a link to a peer, if both want it.
    pub(super) fn try_link(&mut self, process: ProcessId, who: Who, peer: Who) {
        let wanted = |world: &World, process: ProcessId, who: Who, peer: Who| {
            let seat = world.processes.get(&process).and_then(|there| there.seats.get(&who));
            seat.is_some_and(|seat| seat.wants(peer))
        };
        let Some(there) = self.processes.get(&process) else { return };
        let Some(seat) = there.seats.get(&who) else { return };
        if !seat.wants(peer) || seat.links.contains_key(&peer.0) {
            return;
        }
        let other = self
            .processes
            .iter()
            .find(|(_, there)| there.alive && there.frozen_until.is_none() && there.seats.contains_key(&peer));
        let other = other.map(|(id, _)| *id).filter(|other| wanted(self, *other, peer, who));
        let Some(other) = other else {
            let pause = self.rng.u64(10..120);
            self.after(pause, Happening::LinkTry { process, who, peer });
            return;
        };
        let link = self.number();
        self.links.insert(link, DataLink { ends: [(process, who), (other, peer)], arrives: [self.now; 2], cut: false });
        for (side, (process, who, peer)) in [(process, who, peer), (other, peer, who)].into_iter().enumerate() {
            let older = self.seat(process, who).and_then(|seat| seat.links.insert(peer.0, link));
            if let Some(older) = older {
                self.cut_link(older);
            }
            self.link_stands(process, who, peer.0);
            let receipt = self.seat(process, who).map(|seat| seat.receipt(peer.0));
            if let Some(receipt) = receipt {
                self.send_frame(link, side, Frame::Receipt(receipt));
            }
        }
    }

    /// From this side to the other one.
    pub(super) fn send_frame(&mut self, link: u64, side: usize, frame: Frame) {
        let Some(there) = self.links.get(&link) else { return };
        let local = there.ends[0].0 == there.ends[1].0;
        let delay = if local { 0 } else { self.delay() };
        let Some(there) = self.links.get_mut(&link) else { return };
        if there.cut {
            return;
        }
        there.arrives[side] = there.arrives[side].max(self.now + delay);
        let at = there.arrives[side];
        self.at(at, Happening::FrameArrives { link, side: 1 - side, frame });
    }

    /// Resets a link: frames under way are lost, both sides learn of it.
    pub(super) fn cut_link(&mut self, link: u64) {
        let Some(there) = self.links.get_mut(&link) else { return };
        if there.cut {
            return;
        }
        there.cut = true;
        let (one, other) = (self.delay(), self.delay());
        self.after(one, Happening::LinkDies { link, side: 0 });
        self.after(other, Happening::LinkDies { link, side: 1 });
    }

    pub(super) fn link_dies(&mut self, link: u64, side: usize) {
        let Some(there) = self.links.get(&link) else { return };
        let ((process, who), (_, peer)) = (there.ends[side], there.ends[1 - side]);
        if self.defer(process, || Happening::LinkDies { link, side }) {
            return;
        }
        let Some(seat) = self.seat(process, who) else { return };
        if seat.links.get(&peer.0) != Some(&link) {
            return;
        }
        seat.links.remove(&peer.0);
        seat.unlinked(peer.0);
        if !seat.wants(peer) {
            return;
        }
        let input = Input::LinkDown {
            rank: who.0,
            incarnation: who.1,
            peer: peer.0,
            peer_incarnation: peer.1,
            reason: "connection reset".into(),
        };
        self.control(process, input);
        if who.0 < peer.0 {
            let pause = self.rng.u64(0..30);
            self.after(pause, Happening::LinkTry { process, who, peer });
        }
    }

    /// A frozen process learns of things when it wakes, a dead one never. True: not now.
    pub(super) fn defer(&mut self, process: ProcessId, happening: impl FnOnce() -> Happening) -> bool {
        match self.processes.get_mut(&process).filter(|there| there.alive) {
            Some(there) if there.frozen_until.is_some() => {
                there.deferred.push(happening());
                true
            }
            Some(_) => false,
            None => true,
        }
    }
}
