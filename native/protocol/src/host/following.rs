//! What the tracker says, and what follows from it here.

use super::{Host, HostOutput, Peer, Start, MEMORY};
use crate::collective;
use crate::error::{Code, Error};
use crate::event::Event;
use crate::ids::{Attempt, Checkpoint, Incarnation, Lineage, MemberId, Rank, Version};
use crate::member::{Fetched, Fetching, Member, Running, Stage};
use crate::message::{AgentMessage, Newcomer, Plan, TrackerMessage};
use crate::report::Report;
use crate::view::{AgentAddress, View};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

impl Host {
    pub(super) fn follow(&mut self, message: TrackerMessage) {
        self.tracker.is_heard();
        match message {
            _ if self.tracker.is_outdated => {}
            TrackerMessage::Registered { epoch, .. } if self.tracker.epoch > epoch => {
                self.tracker.is_outdated = true;
                let known = self.tracker.epoch;
                let reason = format!("it is life {epoch} of the tracker, but life {known} has followed it");
                self.outputs.push_back(HostOutput::LeaveTracker { reason });
            }
            TrackerMessage::Registered { timing, epoch, wants_result } => {
                self.tracker.registered(epoch, timing, wants_result, self.now);
            }
            TrackerMessage::Refused(error) => self.close(error),
            TrackerMessage::JoinAccepted { rank, attempt, incarnation } => {
                self.join_accepted(rank, attempt, incarnation)
            }
            TrackerMessage::JoinRefused { rank, attempt, error } => self.join_refused(rank, attempt, error),
            TrackerMessage::View(view) => self.take_view(view),
            TrackerMessage::Plan(plan) => self.take_plan(plan),
            TrackerMessage::NewcomerLocal { member, bytes } => {
                self.newcomer_locals.insert(member, bytes);
            }
            TrackerMessage::Settled { generation } => {
                if self.view.as_ref().is_some_and(|view| view.generation == generation) {
                    self.release();
                }
            }
            TrackerMessage::Fenced { member, error } => self.fenced(member, error),
            TrackerMessage::Ended(outcome) => self.end(outcome),
            TrackerMessage::Faults(rules) => self.outputs.push_back(HostOutput::Faults(rules)),
            TrackerMessage::CheckpointWanted(wish) => self.outputs.push_back(HostOutput::CheckpointWanted(wish)),
            TrackerMessage::HeartbeatAck { .. } => {}
            TrackerMessage::RankGiven { task, attempt, given } => self.rank_given(task, attempt, given),
            TrackerMessage::StandByEnded { task, attempt, error } => self.standing_ended(task, attempt, error),
        }
    }

    fn join_accepted(&mut self, rank: Rank, attempt: Attempt, incarnation: Incarnation) {
        let known = self.members.iter().position(|member| member.rank == rank && member.attempt == attempt);
        let Some(index) = known else {
            // The task has gone before its slot was given.
            self.report(MemberId { rank, incarnation }, Report::Left { failure: None });
            return;
        };
        if self.members[index].incarnation.is_some() {
            return; // sent again
        }
        self.members[index].incarnation = Some(incarnation);
        self.members[index].stage = Stage::Fresh;
        let older: Vec<Member> = {
            let older = |member: &Member| member.rank == rank && member.incarnation.is_some_and(|i| i < incarnation);
            let gone = self.members.iter().filter(|member| older(member)).cloned().collect();
            self.members.retain(|member| !older(member));
            gone
        };
        for member in older {
            let error = Error::new(
                Code::Fenced,
                format!("rank {rank} has a newer incarnation, {incarnation}, from attempt {attempt} of its task"),
            );
            self.free(member, error);
        }
        self.outputs.push_back(HostOutput::JoinAccepted { rank, attempt, incarnation });
    }

    fn free(&mut self, member: Member, error: Error) {
        let id = member.id();
        let Member { rank, attempt, incarnation, stage, .. } = member;
        match error.code {
            // One that is sent back joins again as the same.
            Code::RolledBack => {}
            // Its task asks again, and is another rank then.
            Code::Resized => self.asks_again(rank, attempt),
            _ => self.has_no_rank(rank, attempt),
        }
        if stage != Stage::Over {
            self.outputs.push_back(HostOutput::Free { rank, attempt, incarnation, error });
        }
        if let Some(id) = id {
            self.gone_from_answer(id);
        }
    }

    fn join_refused(&mut self, rank: Rank, attempt: Attempt, error: Error) {
        let refused = |member: &Member| {
            member.rank == rank && member.attempt == attempt && matches!(member.stage, Stage::Joining { .. })
        };
        if let Some(index) = self.members.iter().position(refused) {
            let member = self.members.remove(index);
            self.free(member, error);
        }
    }

    fn fenced(&mut self, id: MemberId, error: Error) {
        if let Some(index) = self.find(id) {
            let member = self.members.remove(index);
            self.free(member, error);
        }
    }

    fn take_view(&mut self, view: View) {
        // The same one comes again with a new connection.
        if self.view.as_ref().is_some_and(|known| known.generation > view.generation) || self.ended.is_some() {
            return;
        }
        let generation = view.generation;
        self.tracker.epoch = self.tracker.epoch.max(generation.epoch);
        self.view = Some(view);
        self.plan = None;
        self.newcomer_locals.clear();
        self.holding = true;
        for member in &mut self.members {
            if matches!(member.stage, Stage::Fetching(_)) {
                member.stage = Stage::Fresh; // planned anew
            }
        }
        let asked: BTreeSet<MemberId> = self.running().collect();
        self.outputs.extend(asked.iter().map(|member| HostOutput::Hold { member: *member, generation }));
        self.unanswered = Some(asked);
        self.link_all();
        self.copy();
        self.answer_if_known();
    }

    /// The channels of a rank keep all that they have, from this version on.
    pub(super) fn holds_logs(
        &mut self,
        id: MemberId,
        oldest: Version,
        results: Vec<collective::Extent>,
        observed: Vec<collective::ObservedInput>,
    ) {
        if let Some(running) = self.member(id).and_then(|member| member.running_mut()) {
            // Channels that have no stream state yet know nothing of where they will start.
            running.oldest = oldest.max(running.start.version);
            running.results = results;
            running.observed = observed;
        }
        self.gone_from_answer(id);
    }

    pub(super) fn gone_from_answer(&mut self, member: MemberId) {
        if let Some(unanswered) = &mut self.unanswered {
            unanswered.remove(&member);
        }
        self.answer_if_known();
    }

    fn answer_if_known(&mut self) {
        if self.unanswered.as_ref().is_some_and(|unanswered| unanswered.is_empty()) {
            self.unanswered = None;
            let status = self.status();
            self.send(AgentMessage::StatusReport(status));
        }
    }

    fn release(&mut self) {
        self.holding = false;
        let released: Vec<HostOutput> = self.running().map(|member| HostOutput::Release { member }).collect();
        self.outputs.extend(released);
        self.forget_old();
    }

    fn take_plan(&mut self, plan: Plan) {
        let Some(view) = self.view.as_mut().filter(|view| view.generation == plan.generation) else { return };
        view.lineage = plan.lineage;
        view.hooked = plan.hooked.or(view.hooked);
        if let Some(first) = plan.newcomers.first() {
            // A plan that begins a lineage comes after its view.
            view.branches.resize(plan.lineage.0 as usize, first.version);
        }
        for newcomer in &plan.newcomers {
            if let Some(slot) = view.slots.get_mut(newcomer.rank.0 as usize) {
                slot.planned |= slot.incarnation == Some(newcomer.incarnation);
            }
        }
        if let Some(first) = plan.newcomers.first() {
            for (lineage, version) in self.holdings.forget_branches(plan.lineage, first.version) {
                self.outputs.push_back(HostOutput::Forget { lineage, version });
            }
            let (lineage, from) = (plan.lineage, first.version);
            self.replicas.forget(|own| own.lineage < lineage && own.version > from);
        }
        self.plan_holders.clone_from(&plan.holders);
        let collectives = collective::RankPlan::derive(&plan, view, self.config.agent, &self.config.host);
        self.plan = Some(collectives.clone());
        let sent: Vec<HostOutput> =
            self.running().map(|member| HostOutput::Plan { member, plan: collectives.clone() }).collect();
        self.outputs.extend(sent);
        for newcomer in plan.newcomers {
            let fresh = self.member(newcomer.id()).is_some_and(|member| member.stage == Stage::Fresh);
            if fresh {
                self.begin(newcomer, plan.lineage);
            }
        }
        self.link_all();
    }

    /// A plan gave this rank its start.
    fn begin(&mut self, newcomer: Newcomer, lineage: Lineage) {
        match self.lacking(&newcomer, false) {
            Some(checkpoint) => {
                let id = newcomer.id();
                let is_half_done = checkpoint.owner.is_some();
                let holders = self.nearest_holders(&newcomer, &checkpoint);
                let bytes = newcomer.checkpoint.map_or(0, |global| global.length);
                let fetching = Fetching { newcomer, lineage, is_half_done, bytes, failures: 0, again_at: None };
                if let Some(member) = self.member(id) {
                    member.stage = Stage::Fetching(fetching);
                    member.asked = Some(checkpoint);
                }
                self.outputs.push_back(HostOutput::Fetch { member: id, checkpoint, holders });
            }
            None => {
                let bytes = newcomer.checkpoint.map_or(0, |global| global.length);
                let came = self.member(newcomer.id()).and_then(|member| member.came.take());
                let (source, millis) = match came {
                    Some(Fetched { checkpoint, source, millis }) if starts_with(&newcomer, &checkpoint) => {
                        (source, millis)
                    }
                    _ => (MEMORY.into(), 0),
                };
                self.start(newcomer, lineage, bytes, source, millis);
            }
        }
    }

    /// What a newcomer has to fetch next: the model that is the same at all ranks, then its own, then those of ranks
    /// that are gone.
    pub(super) fn lacking(&self, newcomer: &Newcomer, is_half_done: bool) -> Option<Checkpoint> {
        // One without bytes is here wherever one is; a lazy one that this process holds has to be made.
        let lacks = |wanted: &Checkpoint| wanted.length > 0 && !(wanted.is_made() && self.holds(wanted));
        newcomer
            .checkpoint
            .filter(|global| !is_half_done && lacks(global))
            .or_else(|| newcomer.own_models().map(|(own, _)| own).find(lacks))
    }

    /// The agents that hold what a newcomer starts from and are connected: of this agent, of this host, others.
    pub(super) fn nearest_holders(&self, newcomer: &Newcomer, wanted: &Checkpoint) -> Vec<AgentAddress> {
        let Some(view) = &self.view else { return Vec::new() };
        let known = match wanted.owner {
            Some(_) => newcomer.own_models().find(|(own, _)| own == wanted).map(|(_, holders)| holders),
            None => Some(&self.plan_holders[..]),
        };
        let known = known.unwrap_or_default().iter();
        let mut holders: Vec<AgentAddress> = known.filter_map(|agent| view.address(*agent)).cloned().collect();
        let own = self.config.agent;
        // Among equals each newcomer begins with another one, so that not all ask the same.
        holders.sort_by_key(|at| (at.agent != own, at.host != self.config.host, at.agent.0 ^ own.0));
        holders
    }

    /// A rank of this process has a model of its own.
    pub(super) fn own_model(&mut self, checkpoint: Checkpoint) {
        let Some(rank) = checkpoint.owner else { return };
        let incarnation = self.members.iter().filter(|member| member.rank == rank).find_map(|m| m.incarnation);
        self.starts_with_own(MemberId { rank, incarnation: incarnation.unwrap_or_default() }, checkpoint);
    }

    /// The same of one that a rank has taken, or starts with: that may be a gone rank's.
    fn starts_with_own(&mut self, id: MemberId, checkpoint: Checkpoint) {
        match self.holdings.add(checkpoint, checkpoint.owner) {
            Ok(()) => {
                self.replicas.owe(checkpoint, id.rank);
                self.copy();
            }
            Err(error) => self.broken(id, error),
        }
    }

    /// Has copies made that are due, and reports whose are all there.
    pub(super) fn copy(&mut self) {
        let Some(view) = &self.view else { return };
        let (own, host) = (self.config.agent, &self.config.host);
        for (checkpoint, to) in self.replicas.due(view, own, host, self.now) {
            self.outputs.push_back(HostOutput::Copy { checkpoint, to });
        }
        self.outputs.extend(self.replicas.safe(view, own, host).into_iter().map(HostOutput::Safe));
    }

    /// The task's join returns.
    pub(super) fn start(&mut self, newcomer: Newcomer, lineage: Lineage, bytes: u64, source: String, millis: u64) {
        let own_models: Vec<Checkpoint> = newcomer.own_models().map(|(own, _)| own).collect();
        let id = newcomer.id();
        let Newcomer { rank, incarnation, version, checkpoint, own, former, has_local, .. } = newcomer;
        let local = self.newcomer_locals.remove(&id);
        if has_local && local.is_none() {
            // It comes ahead of the plan, over the same link.
            let error = Error::new(Code::Internal, "what only this rank had did not come with its plan");
            return self.broken(id, error);
        }
        let hooked = self.view.as_ref().is_some_and(|view| view.hooked == Some(true));
        let start = Start { incarnation, lineage, version, checkpoint, own, former, local, hooked };
        let Some(member) = self.member(id) else { return };
        let attempt = member.attempt;
        member.stage = Stage::Running(Running::new(start.clone()));
        self.outputs.push_back(HostOutput::Start { rank, attempt, start });
        // The holders of copies may be gone: the newcomer owes them again.
        own_models.into_iter().for_each(|own| self.starts_with_own(id, own));
        if let Some(checkpoint) = checkpoint {
            let round = checkpoint.round;
            let event = Event::Restored { rank, incarnation, version, round, bytes, source, millis };
            self.send(AgentMessage::Event(event));
        }
        if let (true, Some(view)) = (self.holding, &self.view) {
            let generation = view.generation;
            self.outputs.push_back(HostOutput::Hold { member: id, generation });
        }
        if let Some(plan) = self.plan.clone() {
            self.outputs.push_back(HostOutput::Plan { member: id, plan });
        }
        if !self.holding {
            // All had caught up before its checkpoint was here: nothing else says so to it.
            self.outputs.push_back(HostOutput::Release { member: id });
        }
    }

    /// Sends every started rank of this process its peers.
    pub(super) fn link_all(&mut self) {
        let Some(view) = &self.view else { return };
        let mut links = Vec::new();
        for member in &self.members {
            let (Some(running), Some(id)) = (member.running(), member.id()) else { continue };
            let MemberId { rank, incarnation } = id;
            if !view.has(rank, incarnation) || view.alive(rank).is_none() {
                continue; // it is about to be fenced
            }
            let others = (0..view.world()).map(Rank).filter(|other| *other != rank);
            let peers = others.filter_map(|other| {
                let slot = view.slots.get(other.0 as usize)?;
                let (incarnation, at) = view.alive(other)?;
                slot.planned.then(|| Peer { member: MemberId { rank: other, incarnation }, at: at.clone() })
            });
            let (lineage, peers) = (running.start.lineage, peers.collect());
            links.push(HostOutput::Links { member: id, lineage, peers });
        }
        self.outputs.extend(links);
    }

    fn end(&mut self, outcome: Result<u128, Error>) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(outcome.clone());
        self.unanswered = None;
        for member in &mut self.members {
            if member.stage != Stage::Over {
                member.stage = Stage::Over;
                let (rank, attempt) = (member.rank, member.attempt);
                self.outputs.push_back(HostOutput::Over { rank, attempt, outcome: outcome.clone() });
            }
        }
        self.end_standing(outcome);
    }
}

/// Whether a newcomer starts with this.
pub(super) fn starts_with(newcomer: &Newcomer, checkpoint: &Checkpoint) -> bool {
    newcomer.checkpoint.as_ref() == Some(checkpoint) || newcomer.own_models().any(|(own, _)| own == *checkpoint)
}
