//! Agents: registered, heard of, silent, gone.

use super::agent_record::{AgentRecord, Broken};
use super::{RankSlotState, Tracker, TrackerConfig, TrackerOutput};
use crate::event::Event;
use crate::ids::{AgentId, Attempt, Incarnation, Millis, Position, Rank, Task, Version};
use crate::message::{RankProgress, RankState, Registration, Timing, TrackerMessage};
use crate::words::place;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Pause before the second probe; each further one is twice as long, up to a heartbeat. A process that is killed closes
/// its connections one after the other, and the first probe often finds its listener still open.
const PROBE_PAUSE_MILLIS: u64 = 5;

impl Tracker {
    pub(super) fn register(&mut self, link: u64, registration: Registration) {
        let Registration { agent, executor, host, address, pid, status, fingerprint, epoch, view, ended, standing } =
            registration;
        let newest = view.as_ref().map_or(status.generation, |view| view.generation.max(status.generation));
        let epoch = epoch.max(newest.epoch);
        if epoch > self.config.epoch {
            return self.superseded(link, &executor, epoch);
        }
        let held = self.counts_as_held(status.held, &status.handed_over);
        let known = self.agents.get(&agent);
        let unnamed = known.is_none_or(|known| known.lost) && !held.is_empty();
        if let Some(older) = known.and_then(|known| known.link).filter(|older| *older != link) {
            self.links.remove(&older);
            self.outputs.push_back(TrackerOutput::Close { link: older });
        }
        if known.is_none_or(|known| known.lost) {
            self.event(Event::AgentJoined { agent, executor: executor.clone(), host: host.clone(), pid });
        }
        // It asks anew for what it waits for.
        self.former_life.late_joins.retain(|(late, ..)| *late != agent);
        self.links.insert(link, agent);
        let record = AgentRecord {
            executor: executor.clone(),
            host,
            pid,
            address,
            link: Some(link),
            last_heard: self.clock.now,
            lost: false,
            broken: None,
            held,
        };
        self.agents.insert(agent, record);
        let TrackerConfig { epoch, timing, wants_result, .. } = self.config;
        let registered = TrackerMessage::Registered { epoch, timing, wants_result };
        self.send_link(link, registered);
        if let Some(over) = self.over.clone() {
            self.send_link(link, TrackerMessage::Ended(over));
            return;
        }
        if !self.config.faults.is_empty() {
            self.send_link(link, TrackerMessage::Faults(self.config.faults.clone()));
        }
        if let Some(wish) = self.wish {
            self.send_link(link, TrackerMessage::CheckpointWanted(wish));
        }
        if let Some(outcome) = ended {
            return self.ended_before(&executor, *outcome);
        }
        if self.former_life.takeover.is_some() {
            self.adopt(agent, view.map(|view| *view), &status.ranks);
            self.stand_again(agent, standing);
            return self.adopt_fingerprint(agent, fingerprint);
        }
        if let Some(view) = view {
            self.comes_late(&view);
        }
        let received: BTreeMap<Rank, Incarnation> = status.ranks.iter().map(|r| (r.rank, r.incarnation)).collect();
        for rank in &status.ranks {
            if !self.sits(rank.id(), agent) {
                self.comes_too_late(agent, rank.id(), rank.attempt);
                self.fence_again(agent, rank.id());
                continue;
            }
            if let RankState::At(position) | RankState::Finished { at: position, .. } = rank.state {
                self.progress(rank.id(), position, 0);
            }
        }
        // Started here, and unknown there: its task ended while the connection was broken.
        let here = self.living().filter(|(rank, slot)| {
            slot.agent == agent && slot.state != RankSlotState::Fresh && received.get(rank).copied() != slot.incarnation
        });
        let ended: Vec<Rank> = here.map(|(rank, _)| rank).collect();
        for rank in ended {
            self.lose(rank, "its task ended while its agent was disconnected".into(), true);
        }
        self.stand_again(agent, standing);
        if unnamed {
            self.view_has_to_name(agent);
        }
        self.send_state(agent);
    }

    /// Everything that a newly connected agent has to know; it may have missed any of it.
    fn send_state(&mut self, agent: AgentId) {
        if self.changed.is_some() || self.generation.number == 0 {
            return; // a new view goes to all
        }
        let view = self.view();
        self.planned.missing_reports.insert(agent);
        self.send(agent, TrackerMessage::View(view));
        if self.planned.of(self.generation).is_some() {
            self.planned.missing_reports.remove(&agent);
            self.send_plan(agent);
        }
        if self.reach.settled {
            self.send(agent, TrackerMessage::Settled { generation: self.generation });
        }
    }

    /// An agent that was declared lost and speaks again counts again: what it holds can't be wrong, digests show it.
    pub(super) fn sign_of_life(&mut self, agent: AgentId) {
        let Some(record) = self.agents.get_mut(&agent) else { return };
        record.last_heard = self.clock.now;
        if !record.lost {
            return;
        }
        record.lost = false;
        let (executor, host, pid) = (record.executor.clone(), record.host.clone(), record.pid);
        self.event(Event::AgentJoined { agent, executor, host, pid });
        if self.over.is_none() {
            self.view_has_to_name(agent);
            self.send_state(agent);
            self.admit_late(agent);
        }
    }

    /// Bytes of an agent have come that aren't handed in yet. One that is lost counts again when it says something.
    pub(super) fn bytes_came(&mut self, link: u64) {
        let agent = self.links.get(&link).and_then(|agent| self.agents.get_mut(agent));
        if let Some(record) = agent {
            record.last_heard = self.clock.now;
        }
    }

    /// The name of an agent's executor; empty for one that is unknown.
    pub(super) fn executor_of(&self, agent: AgentId) -> String {
        self.agents.get(&agent).map(|agent| agent.executor.clone()).unwrap_or_default()
    }

    /// An agent counts again that the present view doesn't name. A plan that is still to be made
    /// may name it as a holder, and those that have only the view wouldn't know where it is: so
    /// there is a new view first.
    fn view_has_to_name(&mut self, agent: AgentId) {
        let planned = self.planned.of(self.generation).is_some();
        if self.generation.number > 0 && !planned {
            let place = place(&self.executor_of(agent));
            self.changed.get_or_insert_with(|| format!("{place}, which was believed lost, is there again"));
        }
    }

    pub(super) fn heartbeat(&mut self, agent: AgentId, sequence: u64, ranks: &[RankProgress]) {
        if self.over.is_none() {
            for RankProgress { member, at, round } in ranks {
                if self.sits(*member, agent) {
                    self.progress(*member, *at, *round);
                } else {
                    self.fence_again(agent, *member);
                }
            }
        }
        let lowest = self.lowest().map(|version| Position { lineage: self.chain.lineage(), version });
        self.send(agent, TrackerMessage::HeartbeatAck { sequence, lowest });
    }

    pub(super) fn lowest(&self) -> Option<Version> {
        self.slots.iter().filter_map(|slot| slot.position()).min()
    }

    /// A connection ended. Its process may live: the agent has the heartbeat limit to come back, unless nothing listens
    /// at its address any more.
    pub(super) fn closed(&mut self, link: u64, reason: String) {
        let Some(agent) = self.links.remove(&link) else { return };
        let Some(record) = self.agents.get_mut(&agent) else { return };
        if record.link != Some(link) {
            return;
        }
        record.link = None;
        if record.lost || self.over.is_some() {
            return;
        }
        record.broken = Some(Broken { reason, probe_at: None, pause_millis: PROBE_PAUSE_MILLIS });
        let address = record.address;
        self.outputs.push_back(TrackerOutput::Probe { agent, address });
    }

    pub(super) fn probed(&mut self, agent: AgentId, gone: bool) {
        let (now, most) = (self.clock.now, self.config.timing.heartbeat_millis);
        let Some(record) = self.agents.get_mut(&agent) else { return };
        let Some(broken) = record.broken.as_mut() else { return };
        if gone {
            let reason = format!("its connection ended ({}) and its process is gone", broken.reason);
            self.agent_gone(agent, &reason, false);
        } else {
            broken.probe_at = Some(now.plus(broken.pause_millis.min(most)));
            broken.pause_millis = (2 * broken.pause_millis).min(most);
        }
    }

    /// When the next probe is due.
    pub(super) fn next_probe(&self) -> Option<Millis> {
        self.agents.values().filter_map(|agent| agent.broken.as_ref()?.probe_at).min()
    }

    pub(super) fn executor_gone(&mut self, executor: &str, reason: &str) {
        let agents: Vec<AgentId> = self
            .agents
            .iter()
            .filter(|(_, agent)| agent.counts() && agent.executor == executor)
            .map(|(id, _)| *id)
            .collect();
        for agent in agents {
            self.agent_gone(agent, &format!("its process is gone, by the word of who started it: {reason}"), false);
        }
    }

    /// Probes again where a connection broke.
    pub(super) fn probe_again(&mut self) {
        if self.over.is_some() {
            return;
        }
        for (agent, record) in self.agents.iter_mut().filter(|(_, record)| record.counts()) {
            let due = record.broken.as_mut().filter(|broken| broken.probe_at.is_some_and(|at| at <= self.clock.now));
            if let Some(broken) = due {
                broken.probe_at = None;
                self.outputs.push_back(TrackerOutput::Probe { agent: *agent, address: record.address });
            }
        }
    }

    /// Declares lost the agents that were silent for too long.
    pub(super) fn judge_silence(&mut self) {
        if self.over.is_some() {
            return;
        }
        let Timing { lost_after_millis: limit, lease_millis, .. } = self.config.timing;
        let now = self.clock.now;
        self.clock.judges_at = now.plus(self.config.timing.heartbeat_millis);
        let mut late = Vec::new();
        for (id, agent) in self.agents.iter().filter(|(_, agent)| agent.counts()) {
            let silence = now.since(agent.last_heard);
            if silence >= limit {
                let what = match &agent.broken {
                    Some(broken) => format!("its connection ended ({}) and was not made again for", broken.reason),
                    None => "it gave no sign of life for".into(),
                };
                late.push((*id, format!("{what} {silence} ms, {limit} ms are allowed")));
            }
        }
        // One that is silent for so long has ended itself.
        for agent in self.agents.values_mut().filter(|agent| now.since(agent.last_heard) > lease_millis) {
            agent.held.clear();
        }
        for (agent, reason) in late {
            // It may only be frozen: then nothing else ends its process.
            self.agent_gone(agent, &reason, true);
        }
    }

    /// `is_silent`: its process may live, and is ended; otherwise it is gone for certain.
    pub(super) fn agent_gone(&mut self, agent: AgentId, reason: &str, is_silent: bool) {
        if self.over.is_some() {
            return;
        }
        let Some(record) = self.agents.get_mut(&agent).filter(|record| record.counts()) else { return };
        record.lost = true;
        record.broken = None;
        // One that is silent may speak again, and has it then: the worlds that made it are to be known still.
        let held = if is_silent { record.held.clone() } else { core::mem::take(&mut record.held) };
        let executor = record.executor.clone();
        let at = self.clock.text(self.clock.now);
        self.losses.gone(&at, &executor, &held, reason);
        self.planned.missing_reports.remove(&agent);
        self.event(Event::AgentLost { agent, executor: executor.clone(), reason: reason.into() });
        let here = self.living().filter(|(_, slot)| slot.agent == agent);
        let ranks: Vec<Rank> = here.map(|(rank, _)| rank).collect();
        for rank in ranks {
            if self.over.is_some() {
                return;
            }
            let (task, attempt) = self.task_of(rank);
            self.lose(rank, reason.into(), true);
            if is_silent {
                let (executor, reason) = (executor.clone(), String::from(reason));
                self.outputs.push_back(TrackerOutput::Kill { task, attempt, executor, reason });
            }
        }
        if is_silent && !self.gives_ranks() {
            // Those that were sent back and have not joined again.
            let sent_back = (0..)
                .zip(&self.slots)
                .filter(|(_, slot)| slot.state == RankSlotState::Vacant && slot.may_repeat && slot.agent == agent);
            let sent_back: Vec<(u32, Attempt)> = sent_back.map(|(rank, slot)| (rank, slot.attempt)).collect();
            for (task, attempt) in sent_back {
                let (executor, reason) = (executor.clone(), String::from(reason));
                self.outputs.push_back(TrackerOutput::Kill { task: Task(task), attempt, executor, reason });
            }
        }
        self.standings_lost(agent, &executor, reason, is_silent);
        // It may have been the last one whose status was awaited.
        self.plan_if_all_answered();
    }
}
