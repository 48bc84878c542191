//! Connections: they keep the order of what is sent, take their time, break, and part.

use super::trackers::TrackerLink;
use super::{SimEvent, World};
use crate::ranks::{End, Frame, Input};
use rejoin_protocol::ids::{Lane, Rank};
use rejoin_protocol::message::{AgentMessage, TrackerMessage};
use rejoin_protocol::tracker::Input as TrackerInput;
use std::collections::{BTreeMap, VecDeque};

/// One direction of a data link.
type LinkDirection = (End, End, Lane);

#[derive(Default)]
pub(super) struct Network {
    /// What has arrived and wasn't read, by receiver's process.
    inboxes: BTreeMap<u32, BTreeMap<LinkDirection, VecDeque<Frame>>>,
    /// Numbers of the links between pairs; a link that breaks is followed by the next one.
    links: BTreeMap<LinkDirection, u64>,
    /// Which link a sender uses: it goes on with a broken one until it is told.
    used: BTreeMap<LinkDirection, u64>,
    /// When the last thing that was sent arrives.
    arrives: BTreeMap<LinkDirection, u64>,
    /// The same between processes and the tracker, which is [`TRACKER`].
    tracker_arrives: BTreeMap<(u32, u32), u64>,
    parted: BTreeMap<(u32, u32), u64>,
}

/// Stands for the tracker among processes.
pub(super) const TRACKER: u32 = u32::MAX;

fn pair(one: u32, other: u32) -> (u32, u32) {
    (one.min(other), one.max(other))
}

fn link(one: End, other: End, lane: Lane) -> LinkDirection {
    (one.min(other), one.max(other), lane)
}

impl Network {
    /// On which links something waits for this process.
    pub(super) fn waiting(&self, process: u32) -> Vec<LinkDirection> {
        let inboxes = self.inboxes.get(&process).into_iter().flatten();
        inboxes.filter(|(_, frames)| !frames.is_empty()).map(|(way, _)| *way).collect()
    }

    pub(super) fn first(&self, way: &LinkDirection) -> Option<&Frame> {
        self.inboxes.get(&way.1.process)?.get(way)?.front()
    }

    pub(super) fn took(&mut self, way: &LinkDirection) {
        if let Some(inbox) = self.inbox(way) {
            inbox.pop_front();
        }
    }

    fn inbox(&mut self, way: &LinkDirection) -> Option<&mut VecDeque<Frame>> {
        self.inboxes.get_mut(&way.1.process)?.get_mut(way)
    }

    fn number(&self, one: End, other: End, lane: Lane) -> u64 {
        self.links.get(&link(one, other, lane)).copied().unwrap_or_default()
    }

    fn used(&self, way: &LinkDirection) -> u64 {
        self.used.get(way).copied().unwrap_or_default()
    }

    /// The link between two is over, with all that is on it. Returns the next one's number.
    fn ends(&mut self, one: End, other: End, lane: Lane) -> u64 {
        for way in [(one, other, lane), (other, one, lane)] {
            if let Some(inboxes) = self.inboxes.get_mut(&way.1.process) {
                inboxes.remove(&way);
            }
        }
        let number = self.links.entry(link(one, other, lane)).or_default();
        *number += 1;
        *number
    }

    fn died(&mut self, process: u32) {
        self.inboxes.remove(&process);
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

    /// When something arrives that is sent now: not before the two can reach each other.
    fn reaches(&self, one: u32, other: u32, at: u64) -> u64 {
        self.parted.get(&pair(one, other)).copied().unwrap_or_default().max(at)
    }

    /// The same, behind all that was sent before.
    fn arrival(&mut self, from: u32, to: u32, at: u64) -> u64 {
        let at = self.reaches(from, to, at);
        let last = self.tracker_arrives.entry((from, to)).or_default();
        *last = (*last).max(at);
        *last
    }

    fn data_arrival(&mut self, way: LinkDirection, at: u64) -> u64 {
        let at = self.reaches(way.0.process, way.1.process, at);
        let last = self.arrives.entry(way).or_default();
        *last = (*last).max(at);
        *last
    }
}

impl World {
    pub(super) fn send_frame(&mut self, from: End, to: End, frame: Frame) {
        let way = (from, to, frame.lane());
        let delay = if from.process == to.process { 0 } else { self.delay() };
        let at = self.network.data_arrival(way, self.now + delay);
        let link = self.network.used(&way);
        self.at(at, SimEvent::Arrives { from, to, link, frame });
    }

    /// A frame comes over this link: lost, when that is broken already; and a newer one says that the older one is.
    pub(super) fn arrives(&mut self, from: End, to: End, link: u64, frame: Frame) {
        let lane = frame.lane();
        if link != self.network.number(from, to, lane) {
            return;
        }
        self.link_broke(to, from, lane, link);
        let inboxes = self.network.inboxes.entry(to.process).or_default();
        inboxes.entry((from, to, lane)).or_default().push_back(frame);
        self.read(to.process);
    }

    /// Resets a link, with all that is on it; each learns of it in its time.
    pub(super) fn cut(&mut self, one: End, other: End, lane: Lane) {
        let link = self.network.ends(one, other, lane);
        for (own, other) in [(one, other), (other, one)] {
            let delay = self.delay();
            self.after(delay, SimEvent::LinkBroke { own, other, lane, link });
        }
    }

    /// One end doesn't want the other any more, which sees its links end.
    pub(super) fn unlink(&mut self, own: End, other: End) {
        for lane in [Lane::Channels, Lane::Collectives] {
            let link = self.network.ends(own, other, lane);
            self.network.used.insert((own, other, lane), link);
            let delay = self.delay();
            self.after(delay, SimEvent::LinkBroke { own: other, other: own, lane, link });
        }
    }

    /// This end learns that the link before this one has broken, if it doesn't know.
    pub(super) fn link_broke(&mut self, own: End, other: End, lane: Lane, link: u64) {
        let way = (own, other, lane);
        if self.network.used(&way) < link {
            self.network.used.insert(way, link);
            self.input(own.process, Input::LinkBroke(own, other, lane));
        }
    }

    /// The links of those who live, each once.
    pub(super) fn links(&self) -> Vec<LinkDirection> {
        let mut links = Vec::new();
        let all = || self.processes.values().filter(|there| there.alive).flat_map(|there| there.process.tasks());
        for (task, own) in all().filter_map(|task| Some((task, task.end()?))) {
            for (peer, other) in all().filter_map(|peer| Some((peer, peer.end()?))) {
                if own < other && own.process != other.process && task.is_linked(other) && peer.is_linked(own) {
                    links.extend(task.lanes().map(|lane| (own, other, lane)));
                }
            }
        }
        links
    }

    pub(super) fn is_parted_from_tracker(&self, process: u32) -> bool {
        self.network.is_parted(process, TRACKER, self.now)
    }

    /// A process connects to a life of the tracker: to any of those that are there.
    pub(super) fn connect(&mut self, process: u32) {
        if self.network.is_parted(process, TRACKER, self.now) {
            self.after(100, SimEvent::Connects { process });
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
        let epoch = lives[self.scenario.rng.usize(..lives.len())];
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
        self.at(at, SimEvent::TrackerHears { epoch, input: TrackerInput::Closed { link, reason } });
    }

    /// A process is dead. What the kernel hadn't sent yet is lost with it: of each connection the last part, or all.
    pub(super) fn connections_end(&mut self, process: u32, tracker_link: Option<u64>) {
        self.network.died(process);
        let ends: Vec<End> = self.processes.get(&process).into_iter().flat_map(super::There::ends).collect();
        let most = self.scenario.delay_millis;
        let out_until = self.now + self.draw(0..=most);
        self.queue.retain(|(at, _), sim_event| match sim_event {
            SimEvent::Arrives { from, .. } if from.process == process => *at <= out_until,
            SimEvent::ToTracker { link, .. } if Some(*link) == tracker_link => *at <= out_until,
            _ => true,
        });
        if let Some(link) = tracker_link {
            self.tracker_link_ends(process, link);
        }
        let linked = |there: &super::There| {
            let tasks = there.process.tasks().iter().filter_map(|task| Some((task, task.end()?)));
            tasks
                .flat_map(|(task, own)| ends.iter().filter(|end| task.is_linked(**end)).map(move |end| (own, *end)))
                .collect()
        };
        let living = self.processes.values().filter(|there| there.alive);
        let linked: Vec<(End, End)> = living.flat_map(|there| -> Vec<(End, End)> { linked(there) }).collect();
        for (own, other) in linked {
            for lane in [Lane::Channels, Lane::Collectives] {
                // What it has sent can still be read.
                let link = self.network.number(own, other, lane) + 1;
                let at = self.now + self.delay();
                let at = self.network.data_arrival((other, own, lane), at);
                self.at(at, SimEvent::LinkBroke { own, other, lane, link });
            }
        }
    }

    pub(super) fn send_to_tracker(&mut self, process: u32, message: AgentMessage) {
        let wants_result = self.processes.get(&process).is_some_and(|there| there.process.host().wants_result());
        if let (AgentMessage::Finish { rank: Rank(0), incarnation, digest, .. }, true) = (&message, wants_result) {
            let (incarnation, digest) = (*incarnation, *digest);
            let bytes = (digest as u64).to_le_bytes();
            for (offset, part) in [(0, &bytes[..5]), (5, &bytes[5..])] {
                let part = part.to_vec();
                let message = AgentMessage::ResultPart { rank: Rank(0), incarnation, offset, total: 8, bytes: part };
                self.send_to_tracker(process, message);
            }
        }
        let Some(link) = self.processes.get(&process).and_then(|there| there.tracker_link) else { return };
        let at = self.now + self.delay();
        let at = self.network.arrival(process, TRACKER, at);
        self.at(at, SimEvent::ToTracker { link, message });
    }

    pub(super) fn send_to_process(&mut self, link: u64, message: TrackerMessage) {
        let Some(process) = self.trackers.links.get(&link).map(|link| link.process) else { return };
        let at = self.now + self.delay();
        let at = self.network.arrival(TRACKER, process, at);
        self.at(at, SimEvent::Hears { process, link, message });
    }

    /// What is under way is lost; both sides learn of it, each in its time.
    pub(super) fn break_tracker_link(&mut self, process: u32) {
        let Some(link) = self.processes.get(&process).and_then(|there| there.tracker_link) else { return };
        self.queue.retain(|_, sim_event| {
            !matches!(sim_event, SimEvent::ToTracker { link: l, .. } | SimEvent::Hears { link: l, .. } if *l == link)
        });
        let delay = self.delay();
        self.tracker_link_ends(process, link);
        self.after(delay, SimEvent::LinkDies { process, link });
    }
}
