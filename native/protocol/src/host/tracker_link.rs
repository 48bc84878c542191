//! The connection to the tracker: registering, heartbeats, and how long is waited without it.

use super::{Host, HostOutput};
use crate::collective::ObservedInput;
use crate::error::{Code, Error};
use crate::ids::{Millis, Rank};
use crate::member::{Member, Stage};
use crate::message::{AgentMessage, RankProgress, RankStatus, Registration, StatusReport};
use crate::report::Report;
use crate::view::View;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

impl Host {
    /// Sends all that the tracker may have missed.
    pub(super) fn tracker_up(&mut self) {
        self.tracker.stands(self.now);
        self.broken.retain(|id, _| self.members.iter().any(|member| member.id() == Some(*id)));
        for member in &mut self.members {
            if matches!(member.stage, Stage::Fetching(_)) {
                // It is reported as one that waits: a tracker that has come back plans it anew, and the
                // same one sends its plan again. Starting by the former plan, it would be running
                // where the new plan wants it to begin.
                member.stage = Stage::Fresh;
            }
        }
        let config = &self.config;
        let join_accepted = self.members.iter().filter(|member| member.incarnation.is_some());
        let fingerprint: BTreeSet<String> = join_accepted.map(|member| member.fingerprint.clone()).collect();
        let registration = Registration {
            agent: config.agent,
            executor: config.executor.clone(),
            host: config.host.clone(),
            address: config.address,
            pid: config.pid,
            status: self.status(),
            fingerprint: fingerprint.into_iter().collect(),
            epoch: self.tracker.epoch,
            view: self.view.clone().map(Box::new),
            ended: self.ended.clone().map(Box::new),
            standing: self.standing.iter().map(|here| here.standing).collect(),
        };
        // First of all: an agent that isn't registered has nothing to report.
        self.outputs.push_back(HostOutput::Send(AgentMessage::Register(registration)));
        for local in self.locals.clone() {
            self.send_local(local);
        }
        self.report_versions();
        for member in self.members.clone() {
            self.resend(member);
        }
    }

    fn resend(&mut self, member: Member) {
        let id = member.id();
        let Member { rank, attempt, fingerprint, stage, offer, .. } = member;
        if let Stage::Joining { .. } = stage {
            self.send(AgentMessage::Join { rank, attempt, fingerprint, hook: offer.hook });
            return;
        }
        let Some(id) = id else { return };
        if let Some(error) = self.broken.get(&id).cloned() {
            self.report(id, Report::Broken(error));
        }
        let Stage::Finished { rounds, digest, .. } = stage else { return };
        self.report(id, Report::Finished { rounds, digest });
    }

    pub(super) fn status(&self) -> StatusReport {
        let ranks = self.members.iter().filter_map(|member| {
            let oldest = member.running().map(|running| running.oldest).unwrap_or_default();
            Some(RankStatus {
                rank: member.rank,
                incarnation: member.incarnation?,
                attempt: member.attempt,
                state: member.state()?,
                oldest,
                results: member.running().map(|running| running.results.clone()).unwrap_or_default(),
                observed: member.running().map(|running| self.of_former(&running.observed)).unwrap_or_default(),
                segment: member.offer.segment,
                hook: member.offer.hook.clone(),
            })
        });
        let generation = self.view.as_ref().map(|view: &View| view.generation).unwrap_or_default();
        let (mut held, handed_over) = self.holdings.list();
        held.extend(self.durable.iter().filter(|there| !self.holdings.has(there)));
        StatusReport { generation, ranks: ranks.collect(), held, handed_over }
    }

    /// Of what was heard, that of incarnations which are not the view's: only their successors need it.
    fn of_former(&self, observed: &[ObservedInput]) -> Vec<ObservedInput> {
        let slot = |rank: Rank| self.view.as_ref()?.slots.get(rank.0 as usize)?.incarnation;
        observed.iter().filter(|observed| slot(observed.rank) != Some(observed.incarnation)).copied().collect()
    }

    pub(super) fn tracker_down(&mut self, reason: String) {
        self.tracker.is_lost(reason, self.now);
        self.unanswered = None; // the view comes again with the next connection
        self.outputs.push_back(HostOutput::ConnectTracker);
        self.close_if_done();
    }

    /// Before anything was heard of the job this is no passing trouble: a caller that waits would only
    /// wait in vain. Later the tracker's port may be another's for a while. While none waits
    /// there is none to report it to, and the next try will show it again.
    pub(super) fn tracker_incompatible(&mut self, error: Error) {
        let waits = !self.members.is_empty() || !self.standing.is_empty();
        if self.tracker.timing.is_none() && waits {
            self.close(error);
        } else {
            self.tracker_down(error.message);
        }
    }

    /// When a caller has waited long enough for the tracker.
    pub(super) fn tracker_deadline(&self) -> Option<Millis> {
        if self.tracker.up {
            return None;
        }
        match self.tracker.timing {
            Some(timing) => Some(self.tracker.down_since.plus(timing.lease_millis)),
            None => {
                let joins = self.members.iter().filter_map(|member| match member.stage {
                    Stage::Joining { since, .. } => Some(since.max(self.tracker.down_since)),
                    _ => None,
                });
                let standing = self.standing.iter().map(|here| here.since.max(self.tracker.down_since));
                let since = joins.chain(standing).min().unwrap_or(self.tracker.down_since);
                Some(since.plus(self.config.tracker_millis))
            }
        }
    }

    pub(super) fn keep_time(&mut self) {
        if self.closed {
            return;
        }
        if let Some(millis) = self.tracker.silent_for() {
            self.tracker.is_heard();
            let reason = format!("it has answered no heartbeat for {millis} ms");
            self.outputs.push_back(HostOutput::LeaveTracker { reason });
        } else if let Some(sequence) = self.tracker.due_heartbeat(self.now) {
            self.heartbeat(sequence);
        }
        self.fetch_again();
        if self.replicas.again_at().is_some_and(|at| at <= self.now) {
            self.copy();
        }
        if self.tracker_deadline().is_some_and(|at| at <= self.now) {
            self.give_up_tracker();
        }
    }

    fn heartbeat(&mut self, sequence: u64) {
        let ranks = self.members.iter().filter_map(|member| {
            let running = member.running()?;
            let (at, round) = (running.position(), running.round);
            Some(RankProgress { member: member.id()?, at, round })
        });
        let ranks: Vec<RankProgress> = ranks.collect();
        self.send(AgentMessage::Heartbeat { sequence, ranks });
    }

    fn give_up_tracker(&mut self) {
        let seconds = self.now.since(self.tracker.down_since) / 1000;
        let error = Error::new(
            Code::TrackerUnreachable,
            format!(
                "the tracker could not be reached for {seconds} s; the last try: {}. Check that it is alive and that \
                 this process can connect to it",
                self.tracker.down_reason
            ),
        );
        self.close(error);
    }

    /// The agent is over: callers that wait are given the reason.
    pub(super) fn close(&mut self, error: Error) {
        for member in core::mem::take(&mut self.members) {
            if member.stage != Stage::Over {
                let Member { rank, attempt, incarnation, .. } = member;
                self.outputs.push_back(HostOutput::Free { rank, attempt, incarnation, error: error.clone() });
            }
        }
        self.end_standing(Err(error.clone()));
        self.closed = true;
        self.tracker.down_reason = error.message.clone();
        self.outputs.push_back(HostOutput::Close { reason: error.message });
    }

    /// After the job's end an agent stays as long as its tasks and its tracker do.
    pub(super) fn close_if_done(&mut self) {
        if self.ended.is_some() && !self.tracker.up && self.members.is_empty() && !self.closed {
            self.closed = true;
            self.outputs.push_back(HostOutput::Close { reason: "the job is over and its tracker is gone".into() });
        }
    }
}
