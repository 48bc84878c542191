//! What was before a life of the tracker, and is told to it by who started it: what the run goes on from, and which ranks' tasks
//! have ended well. The tracker itself writes nothing down.

use super::{Happening, World};
use crate::ranks::{checkpoint, Defect, Input as ToProcess, Program};
use fastrand::Rng;
use rejoin_protocol::ids::{Checkpoint, Lineage, Rank, Version};
use rejoin_protocol::tracker::Input;

/// A run that goes on from a durable checkpoint of an earlier one, which every process can read.
pub(super) struct Resumed {
    branches: Vec<Version>,
    pub(super) checkpoint: Checkpoint,
}

impl Resumed {
    /// Of every sixth job that has a version to go on from.
    pub(super) fn draw(rng: &mut Rng, program: &Program) -> Option<Self> {
        if program.versions() < 2 || rng.u32(0..6) > 0 {
            return None;
        }
        let version = Version(rng.u32(1..program.versions()));
        // The earlier run may have gone back before it took the checkpoint, and after it.
        let (before, after) = (rng.usize(0..2), rng.usize(1..3));
        let mut branches = vec![Version(0); before];
        branches.resize(before + after, version);
        let checkpoint = checkpoint(Lineage(before as u32), version, program.model(version));
        Some(Resumed { branches, checkpoint })
    }

    /// Its place in the line of the job.
    pub(super) fn at(&self) -> (Lineage, Version) {
        (self.checkpoint.lineage, self.checkpoint.version)
    }
}

impl World {
    /// What `rejoin run` tells a tracker that it has started, be it the first one or one that comes back.
    pub(super) fn tell_what_was(&mut self, epoch: u32) {
        let is_told = |defect| self.job.defect != Some(defect) || epoch == 1;
        let mut facts = Vec::new();
        if let Some(Resumed { branches, checkpoint }) = self.resumed.as_ref().filter(|_| is_told(Defect::StartUntold)) {
            facts.push(Input::Resume { branches: branches.clone(), version: checkpoint.version });
        }
        if is_told(Defect::EndsUntold) {
            facts.extend(self.framework.ended().map(|rank| Input::RankEnded { rank: Rank(rank) }));
        }
        for input in facts {
            // The first life hears of it before anybody comes; later ones while they take over.
            let delay = if epoch == 1 { 0 } else { self.rng.u64(0..20) };
            self.after(delay, Happening::TrackerHears { epoch, input });
        }
    }

    /// The task of a process has ended well, and under `rejoin run` the process with it.
    pub(super) fn end_well(&mut self, process: u32) {
        let Some(there) = self.processes.get_mut(&process).filter(|there| there.alive) else { return };
        let rank = there.process.who().rank;
        if self.exits {
            there.alive = false;
            self.memory.is_gone(process);
            there.deferred.clear();
            let link = there.tracker_link.take();
            self.connections_end(process, link);
        } else {
            self.input(process, ToProcess::End);
        }
        self.say(|| format!("the task of rank {rank} in process {process} ends well"));
        self.framework.ends(rank.0);
        let delay = self.rng.u64(0..50);
        self.after(delay, Happening::FrameworkTells(Input::RankEnded { rank }));
        // Whatever else runs for this rank is of no use.
        let others = self.processes.iter().filter(|(_, there)| there.alive && there.process.who().rank == rank);
        for other in others.map(|(other, _)| *other).collect::<Vec<u32>>() {
            let delay = self.rng.u64(0..500);
            self.after(delay, Happening::Killed { process: other });
        }
    }
}
