//! Processes and their agents.

use super::{bridge::Seat, Happening, Process, ProcessId, Who, World};
use rejoin_protocol::host::{Host, HostConfig, Input, Output, Peer, Start, OWN_COPIES};
use rejoin_protocol::ids::{AgentId, Attempt, Checkpoint, Incarnation, Millis, Rank, Version};
use rejoin_protocol::message::{AgentMessage, TrackerMessage};
use std::collections::{BTreeMap, VecDeque};

impl World {
    pub(super) fn start_process(&mut self, slot: u32) {
        let id = self.number() as ProcessId;
        let host = self.new_host(id);
        let process = Process {
            slot,
            alive: true,
            frozen_until: None,
            deferred: Vec::new(),
            agent: host.1,
            host: host.0,
            closed: false,
            connecting: false,
            tracker_link: None,
            control: VecDeque::new(),
            control_due: false,
            wake_at: None,
            seats: BTreeMap::new(),
            tasks: BTreeMap::new(),
            store: BTreeMap::new(),
        };
        self.say(|| format!("process {id} starts in slot {slot}"));
        self.processes.insert(id, process);
        self.drain_host(id);
        self.after(0, Happening::Scheduling);
    }

    fn new_host(&mut self, id: ProcessId) -> (Host, AgentId) {
        let agent = AgentId(self.rng.u64(..));
        let config = HostConfig {
            agent,
            executor: id.to_string(),
            host: format!("host{}", id % 2),
            address: ([127, 0, 0, 1], 1000 + (id % 60_000) as u16).into(),
            pid: id,
            tracker_millis: 30_000,
            own_copies: OWN_COPIES,
        };
        (Host::new(config, Millis(self.now)), agent)
    }

    /// A task comes to a process whose agent is over: it gets a new one.
    pub(super) fn ensure_host(&mut self, id: ProcessId) {
        if !self.processes.get(&id).is_some_and(|there| there.closed) {
            return;
        }
        let (host, agent) = self.new_host(id);
        if let Some(there) = self.processes.get_mut(&id) {
            there.host = host;
            there.agent = agent;
            there.closed = false;
            there.seats.clear();
            there.store.clear();
        }
        self.drain_host(id);
    }

    pub(super) fn seat(&mut self, process: ProcessId, who: Who) -> Option<&mut Seat> {
        self.processes.get_mut(&process)?.seats.get_mut(&who)
    }

    /// Queues an input behind the others that are there already.
    pub(super) fn control(&mut self, process: ProcessId, input: Input) {
        let delay = self.rng.u64(0..=2);
        let Some(there) = self.processes.get_mut(&process) else { return };
        there.control.push_back(input);
        if !there.control_due {
            there.control_due = true;
            self.after(delay, Happening::Control { process });
        }
    }

    pub(super) fn take_control(&mut self, process: ProcessId) {
        let Some(there) = self.processes.get_mut(&process) else { return };
        there.control_due = false;
        self.take_all_control(process);
    }

    fn take_all_control(&mut self, process: ProcessId) {
        while let Some(input) = self.processes.get_mut(&process).and_then(|there| there.control.pop_front()) {
            self.host_takes(process, input);
        }
    }

    pub(super) fn host_hears(&mut self, process: ProcessId, link: u64, message: TrackerMessage) {
        if self.processes.get(&process).is_some_and(|there| there.tracker_link == Some(link)) {
            // As the agent does: what tasks have said counts before what the tracker says.
            self.take_all_control(process);
            self.host_takes(process, Input::Tracker(message));
        }
    }

    pub(super) fn host_wakes(&mut self, process: ProcessId) {
        let Some(there) = self.processes.get_mut(&process) else { return };
        there.wake_at = None;
        if there.host.wake_at().is_some_and(|at| at.0 <= self.now) {
            self.host_takes(process, Input::Wake);
        } else {
            self.drain_host(process);
        }
    }

    pub(super) fn host_takes(&mut self, process: ProcessId, input: Input) {
        let now = Millis(self.now);
        self.inputs += 1;
        let Some(there) = self.processes.get_mut(&process) else { return };
        there.host.handle(input, now);
        self.drain_host(process);
    }

    fn drain_host(&mut self, process: ProcessId) {
        while let Some(output) = self.processes.get_mut(&process).and_then(|there| there.host.poll()) {
            self.host_wants(process, output);
        }
        let Some(there) = self.processes.get_mut(&process) else { return };
        let view = there.host.view().map(|view| view.generation);
        let agent = there.agent;
        if let Some(generation) = view {
            let found = self.invariants.view(agent, generation);
            self.violate(found);
        }
        let Some(there) = self.processes.get_mut(&process) else { return };
        if let Some(at) = there.host.wake_at() {
            if there.wake_at.is_none_or(|known| at.0 < known) {
                there.wake_at = Some(at.0);
                self.at(at.0, Happening::HostWakes { process });
            }
        }
    }

    fn host_wants(&mut self, process: ProcessId, output: Output) {
        match output {
            Output::ConnectTracker => {
                let pause = self.rng.u64(1..100);
                if let Some(there) = self.processes.get_mut(&process).filter(|there| !there.connecting) {
                    there.connecting = true;
                    self.after(pause, Happening::HostConnects { process });
                }
            }
            Output::LeaveTracker { reason } => {
                if let Some(link) = self.processes.get(&process).and_then(|there| there.tracker_link) {
                    self.break_tracker_link(link, &reason);
                }
            }
            Output::Send(message) => self.host_sends(process, message),
            Output::Seated { rank, attempt, incarnation } => self.seated(process, rank, attempt, incarnation),
            Output::Fetch { rank, incarnation, checkpoint, holders } => {
                let holders = holders.into_iter().map(|holder| holder.agent).collect();
                let (who, began) = ((rank, incarnation), self.now);
                let delay = self.delay();
                self.after(delay, Happening::FetchTry { process, who, checkpoint, holders, began });
            }
            Output::Start { rank, attempt: _, start } => self.start_rank(process, rank, start),
            Output::Links { rank, incarnation, peers, .. } => self.link_rank(process, (rank, incarnation), &peers),
            Output::Plan { .. } => {}
            Output::Hold { rank, incarnation, generation: _ } => {
                let bug = self.scenario.bug;
                let oldest = self.seat(process, (rank, incarnation)).map(|seat| seat.hold(bug)).unwrap_or_default();
                self.control(
                    process,
                    Input::Holding { rank, incarnation, oldest, results: Vec::new(), heard: Vec::new() },
                );
            }
            Output::Release { rank, incarnation } => {
                if let Some(seat) = self.seat(process, (rank, incarnation)) {
                    seat.release();
                }
            }
            Output::Free { rank, attempt, incarnation, error } => {
                self.say(|| format!("rank {rank} attempt {attempt} is freed: {error}"));
                let found = self.invariants.freed(rank, incarnation, &error);
                self.violate(found);
                if let Some(incarnation) = incarnation {
                    self.drop_seat(process, (rank, incarnation));
                }
                self.task_is_freed(process, rank, attempt, &error);
            }
            Output::Over { rank, attempt, outcome } => {
                let incarnation = self.processes[&process].tasks.get(&(rank, attempt)).copied().flatten();
                if let Some(incarnation) = incarnation {
                    if outcome.is_err() {
                        self.drop_seat(process, (rank, incarnation));
                    }
                    self.control(process, Input::Leave { rank, incarnation, failure: None });
                }
                self.task_is_over(process, rank, attempt, outcome.is_ok());
            }
            Output::Forget { lineage, version } => {
                if let Some(there) = self.processes.get_mut(&process) {
                    there.store.remove(&(lineage, version));
                }
            }
            // No rank here has a model of its own.
            Output::Copy { .. } | Output::Safe(_) | Output::Faults(_) => {}
            Output::Close { reason } => {
                self.say(|| format!("the agent of process {process} is over: {reason}"));
                let Some(there) = self.processes.get_mut(&process) else { return };
                there.closed = true;
                let seats: Vec<Who> = there.seats.keys().copied().collect();
                let link = there.tracker_link.take();
                for who in seats {
                    self.drop_seat(process, who);
                }
                if let Some(link) = link {
                    self.after(0, Happening::TrackerLinkDies { link });
                }
            }
        }
    }

    fn host_sends(&mut self, process: ProcessId, message: AgentMessage) {
        if let AgentMessage::Finish { rank: Rank(0), incarnation, .. } = message {
            let bytes = self.truth.models[self.scenario.script.versions as usize].to_le_bytes();
            for (offset, part) in [(0, &bytes[..5]), (5, &bytes[5..])] {
                let part = part.to_vec();
                let message = AgentMessage::ResultPart { rank: Rank(0), incarnation, offset, total: 8, bytes: part };
                self.send_to_tracker(process, message);
            }
        }
        self.send_to_tracker(process, message);
    }

    fn seated(&mut self, process: ProcessId, rank: Rank, attempt: Attempt, incarnation: Incarnation) {
        let Some(there) = self.processes.get_mut(&process) else { return };
        if let Some(known) = there.tasks.get_mut(&(rank, attempt)) {
            *known = Some(incarnation);
        }
        let older: Vec<Who> = there.seats.keys().filter(|who| who.0 == rank).copied().collect();
        for who in older {
            self.drop_seat(process, who);
        }
    }

    /// Its worker and its channels are gone; peers see their links to it end.
    pub(super) fn drop_seat(&mut self, process: ProcessId, who: Who) {
        let Some(seat) = self.processes.get_mut(&process).and_then(|there| there.seats.remove(&who)) else { return };
        for link in seat.links.into_values() {
            self.cut_link(link);
        }
    }

    pub(super) fn fetch(
        &mut self,
        process: ProcessId,
        who: Who,
        checkpoint: Checkpoint,
        mut holders: VecDeque<AgentId>,
        began: u64,
    ) {
        let (rank, incarnation) = who;
        let Some(agent) = holders.pop_front() else {
            let reason = "no holder gave it".into();
            self.control(process, Input::FetchFailed { rank, incarnation, is_further: false, reason });
            return;
        };
        let name = (checkpoint.lineage, checkpoint.version);
        let holder = self.processes.values().find(|there| there.agent == agent && there.alive);
        let held = holder.filter(|there| there.frozen_until.is_none()).and_then(|there| there.store.get(&name));
        match held.copied().filter(|(there, _)| *there == checkpoint) {
            Some(bytes) => {
                let Some(there) = self.processes.get_mut(&process) else { return };
                there.store.insert(name, bytes);
                let (source, millis) = (format!("agent {}", agent.0), self.now - began);
                let bytes = checkpoint.length;
                self.control(process, Input::Fetched { rank, incarnation, bytes, source, millis });
            }
            None => {
                let pause = self.rng.u64(10..1000);
                self.after(pause, Happening::FetchTry { process, who, checkpoint, holders, began });
            }
        }
    }

    fn start_rank(&mut self, process: ProcessId, rank: Rank, mut start: Start) {
        let who = (rank, start.incarnation);
        let found = self.invariants.started(rank, &start, &self.truth, &self.scenario);
        self.violate(found);
        if self.scenario.bug == Some(crate::scenario::Bug::OlderStart) && start.version.0 > 1 && start.incarnation.0 > 0
        {
            start.version = Version(start.version.0 - 1);
        }
        let model = match start.checkpoint {
            None => crate::training::FIRST_MODEL,
            Some(checkpoint) => {
                let name = (checkpoint.lineage, checkpoint.version);
                let held = self.processes.get(&process).and_then(|there| there.store.get(&name)).copied();
                let found = crate::invariants::no_lost_work::held(rank, &checkpoint, held.is_some());
                self.violate(found);
                held.map_or(0, |(_, model)| model)
            }
        };
        let complete = start.checkpoint.is_some_and(|checkpoint| checkpoint.complete);
        let mut seat = Seat::new(&self.scenario.script, rank, start, model);
        if self.scenario.liar && who.1 .0 > 0 && self.liar.is_none_or(|liar| liar == rank) {
            self.liar = Some(rank);
            self.plant(&mut seat, rank);
        }
        let Some(there) = self.processes.get_mut(&process) else { return };
        there.seats.insert(who, seat);
        if complete {
            self.finish_rank(process, who, model);
        } else {
            self.enter_boot(process, who);
        }
    }

    fn link_rank(&mut self, process: ProcessId, who: Who, peers: &[Peer]) {
        let bug = self.scenario.bug;
        let Some(seat) = self.seat(process, who) else { return };
        let (cut, made) = seat.peers_are(peers, bug);
        for link in cut {
            self.cut_link(link);
        }
        for peer in made {
            if who.0 < peer.0 {
                let pause = self.rng.u64(0..5);
                self.after(pause, Happening::LinkTry { process, who, peer });
            }
        }
    }
}
