//! What the tasks of this process do: join, take checkpoints, finish, end.

use super::following::starts_with;
use super::{Host, HostOutput, Local, Offer, MEMORY};
use crate::error::{Code, Error};
use crate::ids::{Attempt, Checkpoint, MemberId, Millis, Position, Rank, Version};
use crate::member::{Fetched, Fetching, Member, Running, Stage};
use crate::message::AgentMessage;
use crate::report::Report;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Tries in a row to fetch a checkpoint from all its holders, each of which brings nothing more,
/// before the task is given back to the framework.
const FETCH_TRIES: u32 = 5;
/// Pause after the first failure; doubled after each further one.
const FETCH_PAUSE_MILLIS: u64 = 100;

impl Host {
    pub(super) fn join(&mut self, rank: Rank, attempt: Attempt, fingerprint: String, offer: Offer) {
        if let Some(outcome) = self.ended.clone() {
            self.outputs.push_back(HostOutput::Over { rank, attempt, outcome });
            return;
        }
        let same = self.members.iter().position(|member| member.rank == rank && member.attempt == attempt);
        if let Some(index) = same {
            if !matches!(self.members[index].stage, Stage::Joining { .. }) {
                let error = Error::new(
                    Code::BadState,
                    format!("attempt {attempt} of rank {rank} takes part already; a task joins once"),
                );
                self.outputs.push_back(HostOutput::Free { rank, attempt, incarnation: None, error });
                return;
            }
            // Asked again: the caller of the first time is gone.
            self.members.remove(index);
        }
        self.members.push(Member::joining(rank, attempt, fingerprint.clone(), offer.clone(), self.now));
        self.send(AgentMessage::Join { rank, attempt, fingerprint, hook: offer.hook });
    }

    pub(super) fn refuse_join_when_closed(&mut self, rank: Rank, attempt: Attempt) {
        let output = match self.ended.clone() {
            Some(outcome) => HostOutput::Over { rank, attempt, outcome },
            None => HostOutput::Free { rank, attempt, incarnation: None, error: self.is_closed_already() },
        };
        self.outputs.push_back(output);
    }

    pub(super) fn is_closed_already(&self) -> Error {
        Error::new(
            Code::TrackerUnreachable,
            format!("the agent of this process was closed: {}", self.tracker.down_reason),
        )
    }

    pub(super) fn entered(&mut self, id: MemberId, checkpoint: Checkpoint, local: Option<Vec<u8>>) {
        let Some(member) = self.member(id) else { return };
        let Stage::Running(running) = &mut member.stage else { return };
        let taken = running.enter(checkpoint);
        let named = match taken {
            Ok(named) => named,
            Err(error) => return self.broken(id, error),
        };
        let at = Position { lineage: named.lineage, version: named.version };
        if named.version > Version(0) {
            if let Err(error) = self.holdings.add(named, Some(id.rank)) {
                return self.broken(id, error);
            }
            if named.lineage != checkpoint.lineage {
                // The store has the same bytes under both names.
                let (lineage, version) = (checkpoint.lineage, checkpoint.version);
                self.outputs.push_back(HostOutput::Forget { lineage, version });
            }
        }
        if let Some(bytes) = local {
            let local = Local { member: id, at, bytes };
            self.keep_local(local.clone());
            self.send_local(local);
        }
        if let Some(running) = self.member(id).and_then(Member::running_mut) {
            running.is_unreported = true;
        }
        if self.reports_at_once() {
            self.report_versions();
        }
        self.forget_old();
    }

    /// Whether a version that is entered now is reported now: recovery may wait for it, or a rank here
    /// has entered few. Otherwise the newest one goes ahead of the next message, which is a heartbeat
    /// if nothing else is, and `HostInput::Entered` may be handed in late: together with, and ahead
    /// of, the next input. Thousands of versions a second would wake this process and the tracker as
    /// often.
    pub fn reports_at_once(&self) -> bool {
        let entered = |running: &Running| running.version.0.saturating_sub(running.start.version.0);
        let mut running = self.members.iter().filter_map(Member::running);
        self.holding || running.any(|running| entered(running) < self.config.one_by_one)
    }

    /// Reports the versions that ranks have entered since they were reported. Without a tracker they stay due.
    pub(super) fn report_versions(&mut self) {
        if !self.tracker.up {
            return;
        }
        for member in &mut self.members {
            let Some(id) = member.id() else { continue };
            let Some(running) = member.running_mut().filter(|running| running.is_unreported) else { continue };
            running.is_unreported = false;
            let (Position { lineage, version }, round) = (running.position(), running.round);
            let report = Report::VersionEntered { lineage, version, round };
            self.outputs.push_back(HostOutput::Send(AgentMessage::Report { member: id, report }));
        }
    }

    /// Ahead of the version that it is of: the tracker has a rank's own state as of each version that it knows of.
    pub(super) fn send_local(&mut self, Local { member, at, bytes }: Local) {
        if self.tracker.up {
            self.outputs.push_back(HostOutput::Send(AgentMessage::Local { member, at, bytes }));
        }
    }

    /// Sent again when the tracker may have missed it, even after the task has ended. The newest
    /// two of a rank are enough.
    fn keep_local(&mut self, local: Local) {
        let rank = local.member.rank;
        self.locals.push(local);
        let count = self.locals.iter().filter(|kept| kept.member.rank == rank).count();
        if count > 2 {
            if let Some(oldest) = self.locals.iter().position(|kept| kept.member.rank == rank) {
                self.locals.remove(oldest);
            }
        }
    }

    /// Finishing version v proves that all have entered it, so no rank can be started below it again: unless a
    /// restarted rank is behind.
    pub(super) fn forget_old(&mut self) {
        if self.holding {
            return;
        }
        let newest = self.members.iter().filter_map(|member| member.running()).map(|running| running.version).max();
        let Some(newest) = newest else { return };
        let oldest = Version(newest.0.saturating_sub(1));
        self.replicas.forget_below(oldest);
        for (lineage, version) in self.holdings.forget_below(oldest) {
            self.outputs.push_back(HostOutput::Forget { lineage, version });
        }
    }

    pub(super) fn broken(&mut self, id: MemberId, error: Error) {
        let error = Error::new(error.code, format!("rank {}: {}", id.rank, error.message));
        self.report_broken(id, error);
    }

    /// The tracker ends the job with it. Sent again with every new connection, as long as the task
    /// is here: a mismatch that the tracker missed would leave all waiting.
    pub(super) fn report_broken(&mut self, id: MemberId, error: Error) {
        let first = self.broken.entry(id).or_insert(error).clone();
        self.report(id, Report::Broken(first));
    }

    pub(super) fn finish(&mut self, id: MemberId, rounds: u32, digest: u128) {
        let Some(member) = self.member(id) else { return };
        let Stage::Running(running) = &member.stage else { return };
        member.stage = Stage::Finished { running: running.clone(), rounds, digest };
        self.report(id, Report::Finished { rounds, digest });
    }

    pub(super) fn leave(&mut self, id: MemberId, failure: Option<Error>) {
        let Some(index) = self.find(id) else { return };
        if self.members[index].stage != Stage::Over {
            self.report(id, Report::Left { failure });
        }
        let attempt = self.members.remove(index).attempt;
        self.has_no_rank(id.rank, attempt);
        self.gone_from_answer(id);
        self.close_if_done();
    }

    pub(super) fn find(&self, id: MemberId) -> Option<usize> {
        self.members.iter().position(|member| member.id() == Some(id))
    }

    pub(super) fn fetched(&mut self, id: MemberId, bytes: u64, source: String, millis: u64) {
        let Some(checkpoint) = self.member(id).and_then(|member| member.asked.take()) else { return };
        if let Err(error) = self.holdings.add(checkpoint, None) {
            return self.broken(id, error);
        }
        let stage = self.member(id).map(|member| member.stage.clone());
        let Some(Stage::Fetching(Fetching { newcomer, lineage, bytes: known, .. })) = stage else {
            // A view that came meanwhile makes the plan void; a new one follows, and finds the checkpoint here.
            if let Some(member) = self.member(id) {
                member.came = Some(Fetched { checkpoint, source, millis });
            }
            return;
        };
        if !starts_with(&newcomer, &checkpoint) {
            return;
        }
        let bytes = if checkpoint.owner.is_none() { bytes } else { known };
        match self.lacking(&newcomer, true) {
            Some(own) => {
                let holders = self.nearest_holders(&newcomer, &own);
                if let Some(member) = self.member(id) {
                    member.asked = Some(own);
                    if let Stage::Fetching(fetching) = &mut member.stage {
                        (fetching.is_half_done, fetching.bytes) = (true, bytes);
                    }
                }
                self.outputs.push_back(HostOutput::Fetch { member: id, checkpoint: own, holders });
            }
            None => {
                self.start(newcomer, lineage, bytes, source, millis);
                self.link_all();
            }
        }
    }

    /// A rank that makes progress is never given up, however often its holders fail: what has come is kept, so that
    /// it ends.
    pub(super) fn fetch_failed(&mut self, id: MemberId, is_further: bool, reason: String) {
        let now = self.now;
        let Some(member) = self.member(id) else { return };
        member.asked = None;
        let Stage::Fetching(fetching) = &mut member.stage else { return };
        fetching.failures = if is_further { 1 } else { fetching.failures + 1 };
        if fetching.failures < FETCH_TRIES {
            fetching.again_at = Some(now.plus(FETCH_PAUSE_MILLIS << (fetching.failures - 1)));
            return;
        }
        let error = Error::new(
            Code::Io,
            format!(
                "rank {} could not fetch version {} from any agent that holds it, in {FETCH_TRIES} tries; the last \
                 time: {reason}. Check that processes can reach each other",
                id.rank, fetching.newcomer.version
            ),
        );
        self.give_up(id, error);
    }

    /// Ends a member from here: its task is retried.
    fn give_up(&mut self, id: MemberId, error: Error) {
        let Some(index) = self.find(id) else { return };
        let Member { rank, attempt, incarnation, .. } = self.members.remove(index);
        self.report(id, Report::Left { failure: Some(error.clone()) });
        self.has_no_rank(rank, attempt);
        self.outputs.push_back(HostOutput::Free { rank, attempt, incarnation, error });
        self.gone_from_answer(id);
    }

    /// Fetches whose pause is over.
    pub(super) fn fetch_again(&mut self) {
        let now = self.now;
        let due = |member: &&mut Member| super::fetch_again_at(member).is_some_and(|at: Millis| at <= now);
        let mut again = Vec::new();
        for member in self.members.iter_mut().filter(due) {
            if let (Some(id), Stage::Fetching(fetching)) = (member.id(), &mut member.stage) {
                fetching.again_at = None;
                again.push((id, fetching.clone()));
            }
        }
        for (id, Fetching { newcomer, lineage, is_half_done, bytes, .. }) in again {
            let Some(checkpoint) = self.lacking(&newcomer, is_half_done) else {
                // Another rank of this process has fetched it in the pause.
                self.start(newcomer, lineage, bytes, MEMORY.into(), 0);
                self.link_all();
                continue;
            };
            if let Some(member) = self.member(id) {
                member.asked = Some(checkpoint);
                if let Stage::Fetching(fetching) = &mut member.stage {
                    fetching.is_half_done |= checkpoint.owner.is_some();
                }
            }
            let holders = self.nearest_holders(&newcomer, &checkpoint);
            self.outputs.push_back(HostOutput::Fetch { member: id, checkpoint, holders });
        }
    }
}
