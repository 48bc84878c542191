//! The job's end, and whether it may end so.

use super::World;
use crate::invariants::{agreement, identity, progress, Violation};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Lineage, Version};
use rejoin_protocol::tracker::JobResult;

impl World {
    pub(super) fn is_over(&self) -> bool {
        self.outcome.is_some()
            && self.processes.values().filter(|there| there.alive).all(|there| {
                there.process.told().is_some() || there.process.freed().is_some() || there.process.is_closed()
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
        let found = if self.trackers.ends_once(epoch) { self.may_end(&outcome) } else { progress::over_once(true) };
        self.violate(found);
        if self.outcome.is_none() {
            self.over_at = self.now;
            self.outcome = Some(outcome);
        }
    }

    fn may_end(&self, outcome: &Result<JobResult, Error>) -> Result<(), Violation> {
        if let Some(earlier) = &self.outcome {
            // Another life is told the end by the agents that know it.
            let digests = |outcome: &Result<JobResult, Error>| outcome.as_ref().ok().map(|result| result.digest);
            return progress::same_end(digests(earlier), digests(outcome));
        }
        let program = &self.job.program;
        let differs = program.differs_somewhere();
        match outcome {
            Ok(_) if differs => Err(identity::unseen()),
            Ok(result) => agreement::job(result.digest, u128::from(program.model(Version(program.versions())))),
            Err(error) if error.code == Code::Mismatch => identity::claimed(error, differs),
            Err(error) if error.code == Code::Unrecoverable && self.nobody_holds_anything() => Ok(()),
            Err(error) => Err(Violation::new("Progress", error.to_string())),
        }
    }

    /// Whether nobody who can be reached holds a checkpoint, after processes were killed.
    fn nobody_holds_anything(&self) -> bool {
        // A tracker that comes back waits for those who knew how far the job was as long as for a silent agent, not longer.
        let kills = ["kill", "freeze", "part", "tracker"].iter().any(|fault| self.struck.contains(fault));
        let mut reached = self.processes.iter().filter(|(_, there)| there.alive && !there.frozen);
        kills
            && !reached.any(|(process, there)| {
                let held = |(lineage, version): &(Lineage, Version)| {
                    let model = self.job.program.model(*version);
                    version.0 > 0 && there.process.host().holds(&crate::ranks::checkpoint(*lineage, *version, model))
                };
                let link = there.tracker_link.is_some_and(|link| self.trackers.knows(link));
                link && !self.is_parted_from_tracker(*process) && there.stored.iter().any(held)
            })
    }
}
