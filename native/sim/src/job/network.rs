//! Connections: they keep the order of what is sent, take their time, break, and part.

use super::trackers::TrackerLink;
use super::{Happening, World};
use crate::ranks::{Frame, Input};
use rejoin_protocol::message::{AgentMessage, TrackerMessage};
use rejoin_protocol::tracker::Input as TrackerInput;
use std::collections::{BTreeMap, VecDeque};

#[derive(Default)]
pub(super) struct Network {
    /// What has arrived and wasn't read, by sender and receiver.
    inboxes: BTreeMap<(u32, u32), VecDeque<Frame>>,
    /// Numbers of the links between pairs; a link that breaks is followed by the next one.
    links: BTreeMap<(u32, u32), u64>,
    /// Which link a sender uses: it goes on with a broken one until it is told.
    used: BTreeMap<(u32, u32), u64>,
    /// When the last thing that was sent arrives, by sender and receiver; the tracker is [`TRACKER`].
    arrives: BTreeMap<(u32, u32), u64>,
    parted: BTreeMap<(u32, u32), u64>,
}

/// Stands for the tracker among processes.
pub(super) const TRACKER: u32 = u32::MAX;

fn pair(one: u32, other: u32) -> (u32, u32) {
    (one.min(other), one.max(other))
}

impl Network {
    pub(super) fn senders(&self, to: u32) -> Vec<u32> {
        self.inboxes.iter().filter(|((_, t), frames)| *t == to && !frames.is_empty()).map(|((f, _), _)| *f).collect()
    }

    pub(super) fn first(&self, from: u32, to: u32) -> Option<&Frame> {
        self.inboxes.get(&(from, to))?.front()
    }

    pub(super) fn took(&mut self, from: u32, to: u32) {
        if let Some(inbox) = self.inboxes.get_mut(&(from, to)) {
            inbox.pop_front();
        }
    }

    /// False when it was lost with its link.
    pub(super) fn arrived(&mut self, from: u32, to: u32, link: u64, frame: Frame) -> bool {
        let stands = self.links.get(&pair(from, to)).copied().unwrap_or_default() == link;
        if stands {
            self.inboxes.entry((from, to)).or_default().push_back(frame);
        }
        stands
    }

    /// One of the two doesn't want the other any more: what lies between them is dropped, and what is under way.
    pub(super) fn unlink(&mut self, one: u32, other: u32) {
        self.inboxes.remove(&(one, other));
        self.inboxes.remove(&(other, one));
        *self.links.entry(pair(one, other)).or_default() += 1;
        let link = self.links[&pair(one, other)];
        self.used.insert((one, other), link);
        self.used.insert((other, one), link);
    }

    pub(super) fn died(&mut self, process: u32) {
        self.inboxes.retain(|(_, to), _| *to != process);
    }

    pub(super) fn part(&mut self, one: u32, other: u32, until: u64) {
        let known = self.parted.entry(pair(one, other)).or_default();
        *known = (*known).max(until);
    }

    pub(super) fn part_from_tracker(&mut self, process: u32, until: u64) {
        self.part(process, TRACKER, until);
    }

    pub(super) fn is_parted(&self, one: u32, other: u32, now: u64) -> bool {
        self.parted.get(&pair(one, other)).is_some_and(|until| *until > now)
    }

    /// When something arrives that is sent now: behind all that was sent before, and not before the two can reach each other.
    fn arrival(&mut self, from: u32, to: u32, at: u64) -> u64 {
        let at = self.parted.get(&pair(from, to)).copied().unwrap_or_default().max(at);
        let last = self.arrives.entry((from, to)).or_default();
        *last = (*last).max(at);
        *last
    }
}

impl World {
    pub(super) fn send_frame(&mut self, from: u32, to: u32, frame: Frame) {
        let at = self.now + self.delay();
        let at = self.network.arrival(from, to, at);
        let link = self.network.used.get(&(from, to)).copied().unwrap_or_default();
        self.at(at, Happening::Arrives { from, to, link, frame });
    }

    /// Resets the link of two, with all that is on it; each learns of it in its time.
    pub(super) fn cut(&mut self, one: u32, other: u32) {
        if one == other {
            return;
        }
        let link = self.network.links.entry(pair(one, other)).or_default();
        *link += 1;
        let link = *link;
        self.network.inboxes.remove(&(one, other));
        self.network.inboxes.remove(&(other, one));
        for (process, other) in [(one, other), (other, one)] {
            let delay = self.delay();
            self.after(delay, Happening::LinkBroke { process, other, link });
        }
    }

    /// A process doesn't want another any more, which sees its link end.
    pub(super) fn unlink(&mut self, process: u32, other: u32) {
        self.network.unlink(process, other);
        let link = self.network.links[&pair(process, other)];
        let delay = self.delay();
        self.after(delay, Happening::LinkBroke { process: other, other: process, link });
    }

    pub(super) fn link_broke(&mut self, process: u32, other: u32, link: u64) {
        let used = self.network.used.entry((process, other)).or_default();
        *used = (*used).max(link);
        let linked = self.processes.get(&process).is_some_and(|there| there.process.is_linked(other));
        if let (true, Some(peer)) = (linked, self.processes.get(&other).map(|there| there.process.who().rank)) {
            self.input(process, Input::LinkBroke(peer));
        }
    }

    pub(super) fn is_parted_from_tracker(&self, process: u32) -> bool {
        self.network.is_parted(process, TRACKER, self.now)
    }

    /// A process connects to a life of the tracker: to any of those that are there.
    pub(super) fn connect(&mut self, process: u32) {
        if self.network.is_parted(process, TRACKER, self.now) {
            self.after(100, Happening::Connects { process });
            return;
        }
        self.sequence += 1;
        let link = self.sequence;
        let lives = self.trackers.epochs();
        let Some(there) = self.processes.get_mut(&process) else { return };
        if there.process.is_closed() || there.tracker_link.is_some() {
            return;
        }
        if lives.is_empty() {
            return self.input(process, Input::TrackerDown);
        }
        let epoch = lives[self.rng.usize(..lives.len())];
        there.tracker_link = Some(link);
        self.trackers.links.insert(link, TrackerLink { process, epoch, stands: true, heard: false });
        self.input(process, Input::TrackerUp);
    }

    /// A process has met an older life than it knows, and leaves it.
    pub(super) fn leave_tracker(&mut self, process: u32) {
        let Some(link) = self.processes.get_mut(&process).and_then(|there| there.tracker_link.take()) else { return };
        self.tracker_link_ends(process, link);
        self.input(process, Input::TrackerDown);
    }

    /// The tracker's side hears of the end behind all that was sent before.
    fn tracker_link_ends(&mut self, process: u32, link: u64) {
        let Some(epoch) = self.trackers.links.get(&link).map(|link| link.epoch) else { return };
        let at = self.now + self.delay();
        let at = self.network.arrival(process, TRACKER, at);
        let reason = "connection reset".into();
        self.at(at, Happening::TrackerHears { epoch, input: TrackerInput::Closed { link, reason } });
    }

    /// A process is dead. What the kernel hadn't sent yet is lost with it: of each connection the last part, or all.
    pub(super) fn connections_end(&mut self, process: u32, tracker_link: Option<u64>) {
        self.network.died(process);
        let out_until = self.now + self.rng.u64(0..=self.delay_millis);
        self.queue.retain(|(at, _), happening| match happening {
            Happening::Arrives { from, .. } if *from == process => *at <= out_until,
            Happening::ToTracker { link, .. } if Some(*link) == tracker_link => *at <= out_until,
            _ => true,
        });
        if let Some(link) = tracker_link {
            self.tracker_link_ends(process, link);
        }
        let linked = self.processes.iter().filter(|(_, there)| there.alive && there.process.is_linked(process));
        let linked: Vec<u32> = linked.map(|(other, _)| *other).collect();
        for other in linked {
            let link = self.network.links.get(&pair(process, other)).copied().unwrap_or_default();
            let at = self.now + self.delay();
            let at = self.network.arrival(process, other, at);
            self.at(at, Happening::LinkBroke { process: other, other: process, link });
        }
    }

    pub(super) fn send_to_tracker(&mut self, process: u32, message: AgentMessage) {
        let Some(link) = self.processes.get(&process).and_then(|there| there.tracker_link) else { return };
        let at = self.now + self.delay();
        let at = self.network.arrival(process, TRACKER, at);
        self.at(at, Happening::ToTracker { link, message });
    }

    pub(super) fn send_to_process(&mut self, link: u64, message: TrackerMessage) {
        let Some(process) = self.trackers.links.get(&link).map(|link| link.process) else { return };
        let at = self.now + self.delay();
        let at = self.network.arrival(TRACKER, process, at);
        self.at(at, Happening::Hears { process, link, message });
    }

    /// What is under way is lost; both sides learn of it, each in its time.
    pub(super) fn break_tracker_link(&mut self, process: u32) {
        let Some(link) = self.processes.get(&process).and_then(|there| there.tracker_link) else { return };
        self.queue.retain(|_, happening| {
            !matches!(happening, Happening::ToTracker { link: l, .. } | Happening::Hears { link: l, .. } if *l == link)
        });
        let delay = self.delay();
        self.tracker_link_ends(process, link);
        self.after(delay, Happening::LinkDies { process, link });
    }
}
