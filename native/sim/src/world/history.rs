//! What was before a life of the tracker, and is given to it by its starter: which ranks' tasks
//! have ended well. The tracker itself writes nothing down.

use super::sim_event::SimEvent;
use super::state::World;
use crate::ranks::{Defect, Input, Try};
use rejoin_protocol::ids::Task;
use rejoin_protocol::tracker::TrackerInput;

impl World {
    /// What `rejoin run` gives a tracker that it has started, be it the first one or one that comes back.
    pub(super) fn report_former_life(&mut self, epoch: u32) {
        if self.scenario.job.defect == Some(Defect::EndsUnreported) {
            return;
        }
        for (task, attempt) in self.framework.ended().collect::<Vec<_>>() {
            // It hears of them while it takes over.
            let delay = self.draw(0..20);
            self.after(delay, SimEvent::TrackerHears { epoch, input: TrackerInput::TaskEnded { task, attempt } });
        }
    }

    /// A task has ended well, and under `rejoin run` its process with it.
    pub(super) fn end_well(&mut self, process: u32, id: Try) {
        let Some(there) = self.processes.get_mut(&process).filter(|there| there.alive) else { return };
        let Try { rank, attempt } = there.process.task(id).map_or(id, |task| task.of);
        if self.scenario.exits {
            there.alive = false;
            self.memory.is_gone(process);
            there.deferred.clear();
            let link = there.tracker_link.take();
            self.connections_end(process, link);
        } else {
            self.input(process, Input::End(id));
        }
        self.say(|| format!("the task of rank {rank} in process {process} ends well"));
        self.framework.ends(rank.0, attempt);
        let delay = self.draw(0..50);
        self.after(delay, SimEvent::FrameworkReports(TrackerInput::TaskEnded { task: Task(rank.0), attempt }));
        if self.scenario.executors.is_some() {
            return;
        }
        // Whatever else runs for this rank is of no use.
        let runs =
            |there: &super::sim_process::SimProcess| there.process.tasks().iter().any(|task| task.of.rank == rank);
        let others = self.processes.iter().filter(|(_, there)| there.alive && runs(there));
        for other in others.map(|(other, _)| *other).collect::<Vec<u32>>() {
            let delay = self.draw(0..500);
            self.after(delay, SimEvent::Killed { process: other });
        }
    }
}
