//! What was before a life of the tracker, and is told to it by who started it: what the run goes on from, and which ranks' tasks
//! have ended well. The tracker itself writes nothing down.

use super::{Happening, World};
use crate::ranks::{Defect, Input as ToProcess, Try};
use rejoin_protocol::ids::Rank;
use rejoin_protocol::tracker::Input;

impl World {
    /// What `rejoin run` tells a tracker that it has started, be it the first one or one that comes back.
    pub(super) fn tell_what_was(&mut self, epoch: u32) {
        let is_told = |defect| self.scenario.job.defect != Some(defect) || epoch == 1;
        let mut facts = Vec::new();
        if let Some(resumed) = self.scenario.resumed.as_ref().filter(|_| is_told(Defect::StartUntold)) {
            facts.push(Input::Resume { branches: resumed.branches.clone(), version: resumed.checkpoint.version });
        }
        if is_told(Defect::EndsUntold) {
            facts.extend(self.framework.ended().map(|rank| Input::RankEnded { rank: Rank(rank) }));
        }
        for input in facts {
            // The first life hears of it before anybody comes; later ones while they take over.
            let delay = if epoch == 1 { 0 } else { self.draw(0..20) };
            self.after(delay, Happening::TrackerHears { epoch, input });
        }
    }

    /// A task has ended well, and under `rejoin run` its process with it.
    pub(super) fn end_well(&mut self, process: u32, id: Try) {
        let Some(there) = self.processes.get_mut(&process).filter(|there| there.alive) else { return };
        let rank = id.rank;
        if self.scenario.exits {
            there.alive = false;
            self.memory.is_gone(process);
            there.deferred.clear();
            let link = there.tracker_link.take();
            self.connections_end(process, link);
        } else {
            self.input(process, ToProcess::End(id));
        }
        self.say(|| format!("the task of rank {rank} in process {process} ends well"));
        self.framework.ends(rank.0);
        let delay = self.draw(0..50);
        self.after(delay, Happening::FrameworkTells(Input::RankEnded { rank }));
        if self.scenario.executors.is_some() {
            return;
        }
        // Whatever else runs for this rank is of no use.
        let runs = |there: &super::There| there.process.tasks().iter().any(|task| task.id.rank == rank);
        let others = self.processes.iter().filter(|(_, there)| there.alive && runs(there));
        for other in others.map(|(other, _)| *other).collect::<Vec<u32>>() {
            let delay = self.draw(0..500);
            self.after(delay, Happening::Killed { process: other });
        }
    }
}
