//! The job's end, and whether it may end so.

use super::sim_event::SimEvent;
use super::sim_process::SimProcess;
use super::state::World;
use crate::invariants::{agreement, identity, progress, Violation};
use crate::scenario::{Fault, NO_LIMIT};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Checkpoint, CheckpointName, Version};
use rejoin_protocol::start::JobStart;
use rejoin_protocol::tracker::JobResult;
use std::collections::BTreeSet;

impl World {
    pub(super) fn is_over(&self) -> bool {
        self.outcome.is_some()
            && self.processes.values().filter(|there| there.alive).all(|there| {
                let mut tasks = there.process.tasks().iter();
                there.process.is_closed() || tasks.all(|task| task.outcome().is_some() || task.freed().is_some())
            })
            && (self.framework.is_quiet() || matches!(self.outcome, Some(Err(_))))
    }

    /// A life of the tracker says that the job is over.
    pub(super) fn over(&mut self, epoch: u32, outcome: Result<JobResult, Error>) {
        let superseded = matches!(&outcome, Err(error) if error.code == Code::BadState);
        if superseded && self.trackers.has_followed(epoch) {
            self.say(|| format!("life {epoch} of the tracker has met one who knows a newer life"));
            return self.end_life(epoch);
        }
        let found =
            if self.trackers.ends_once(epoch) { self.may_end(epoch, &outcome) } else { progress::over_once(true) };
        self.violate(found);
        self.over_at = self.now;
        if self.outcome.is_none() {
            self.outcome = Some(outcome);
            if let Some(millis) = self.dies_at_end.take() {
                let most = self.scenario.delay_millis + 3;
                let pause = self.draw(0..=most);
                self.after(pause, SimEvent::Injected(Fault::KillTracker(millis)));
            }
        }
    }

    /// Two lives at a time may have half of the processes each, and end the job each in its way:
    /// with the one model there is, or with an error that is right for the half it knows. A rank that
    /// learns of the other one's end ends with that.
    fn may_end(&self, epoch: u32, outcome: &Result<JobResult, Error>) -> Result<(), Violation> {
        let digests = |outcome: &Result<JobResult, Error>| outcome.as_ref().ok().map(|result| result.digest);
        if let Some(earlier) = self.outcome.as_ref() {
            let is_same = digests(earlier) == digests(outcome);
            let is_told = |there: &SimProcess| there.process.tasks().iter().any(|task| task.outcome().is_some());
            if is_same || self.reached_by(epoch).any(is_told) {
                return progress::same_end(digests(earlier), digests(outcome));
            }
        }
        let program = &self.scenario.job.program;
        // In channels it can't be seen that calls differ in what they count.
        let differs = program.differs_somewhere();
        let lies = self.scenario.job.lies;
        match outcome {
            Ok(_) if differs => Err(identity::unseen()),
            Ok(_) if lies => identity::lied(self.lied),
            Ok(result) if self.scenario.elastic.is_some() => {
                self.worlds.may_end(Version(program.versions()), result.digest)?;
                self.samples.ends(result.digest as u64)
            }
            Ok(result) => agreement::job(result, program.model(program.end())),
            Err(error) if error.code == Code::Mismatch => identity::claimed(error, differs || lies),
            Err(error) if error.code == Code::Cancelled && self.fired.contains("cancel") => Ok(()),
            Err(error) if error.code == Code::Unrecoverable && self.may_be_lost(epoch, error) => Ok(()),
            Err(error) if error.code == Code::MembersMissing && self.has_too_few(epoch, error) => Ok(()),
            // A rank that is fenced after the others have the end and are gone can't be started any more.
            Err(error) if error.code == Code::MembersMissing && error.message.contains("ended well under a former") => {
                Ok(())
            }
            Err(error) => Err(Violation::new("Progress", error.to_string())),
        }
    }

    /// An elastic job has fewer tasks left than it needs, or lacks one that it couldn't begin without.
    fn has_too_few(&self, epoch: u32, error: &Error) -> bool {
        let is_started = |there: &SimProcess| there.process.tasks().iter().any(|task| task.position().is_some());
        let has_begun = self.reached_by(epoch).any(is_started) || error.message.contains("hasn't joined again");
        let gone = &self.framework.gone;
        let left = self.scenario.tasks() - gone.len() as u32;
        let lacks_one = gone.iter().any(|task| *task < self.scenario.first_tasks());
        self.scenario.elastic.is_some_and(|elastic| left < elastic.min || lacks_one && !has_begun)
    }

    /// Processes that have sent something to this life, and can do so still.
    pub(super) fn reached_by(&self, epoch: u32) -> impl Iterator<Item = &SimProcess> {
        let reached = move |(process, there): &(&u32, &SimProcess)| {
            let knows = there.tracker_link.is_some_and(|link| self.trackers.knows(epoch, link));
            there.alive && !there.frozen && knows && !self.is_parted_from_tracker(**process)
        };
        self.processes.iter().filter(reached).map(|(_, there)| there)
    }

    /// What the processes that this life can reach hold, but for these.
    pub(super) fn own_models_held(&self, epoch: u32, but: &BTreeSet<u32>) -> BTreeSet<CheckpointName> {
        let others = self.reached_by(epoch).filter(|there| !but.contains(&there.process.number()));
        let held = others.flat_map(|there| {
            there.process.held().filter(|held| held.version.0 > 0 && there.process.host().holds(held))
        });
        held.map(Checkpoint::name).collect()
    }

    /// Whether a rank has died too often; or no process that this life can reach holds a
    /// checkpoint, after processes were killed, or what only one rank had.
    fn may_be_lost(&self, epoch: u32, error: &Error) -> bool {
        if error.message.contains("may not change again") {
            return self.worlds.is_exhausted(epoch);
        }
        if error.message.contains("gives up") {
            return self.scenario.deaths_limit < NO_LIMIT && self.scenario.framework_counts != Some(false);
        }
        // A tracker that comes back waits for agents that knew how far the job was as long as for a
        // silent agent, not longer.
        let kills = ["kill", "freeze", "part", "tracker"].iter().any(|fault| self.fired.contains(fault));
        let holds = |there: &SimProcess| {
            let mut held = there.process.held();
            held.any(|held| {
                let is_known = self.trackers.has_followed(epoch) || !self.begun_beside.contains(&held.lineage);
                held.version.0 > 0 && is_known && there.process.host().holds(held)
            })
        };
        // What is durable is there for all.
        let is_durable = matches!(self.scenario.start, JobStart::Durable(_));
        let is_held = match self.scenario.job.has_own {
            false => self.reached_by(epoch).any(holds),
            true => self.own_models.is_whole(&self.own_models_held(epoch, &BTreeSet::new())),
        };
        let was_further = self.no_lost_work.has_heard(epoch) || epoch > 1 && self.has_lost_one;
        let is_lost = !is_durable && !is_held && was_further;
        kills && (is_lost || self.scenario.job.locals)
    }
}
