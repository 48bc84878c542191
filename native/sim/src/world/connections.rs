//! What the world does with its connections.

use super::network::{LinkDirection, TRACKER};
use super::sim_event::SimEvent;
use super::state::World;
use super::trackers::TrackerLink;
use crate::ranks::{End, Frame, Input};
use rejoin_protocol::ids::{Lane, MemberId, Rank};
use rejoin_protocol::message::{AgentMessage, TrackerMessage};
use rejoin_protocol::report::Report;
use rejoin_protocol::tracker::TrackerInput;

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
        self.read_what_came(to.process, (from, to, lane));
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

    /// The links of living processes, each once.
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
        let ends: Vec<End> =
            self.processes.get(&process).into_iter().flat_map(super::sim_process::SimProcess::ends).collect();
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
        let linked = |there: &super::sim_process::SimProcess| {
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
        if let (
            AgentMessage::Report {
                member: member @ MemberId { rank: Rank(0), .. },
                report: Report::Finished { digest, .. },
            },
            true,
        ) = (&message, wants_result)
        {
            let (member, digest) = (*member, *digest);
            let bytes = (digest as u64).to_le_bytes();
            for (offset, part) in [(0, &bytes[..5]), (5, &bytes[5..])] {
                let part = part.to_vec();
                let message = AgentMessage::ResultPart { member, offset, total: 8, bytes: part };
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
