//! How faults are injected.

use super::sim_event::SimEvent;
use super::state::World;
use crate::ranks::Try;
use crate::scenario::Fault;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::Rank;
use rejoin_protocol::message::CheckpointWish;
use rejoin_protocol::tracker::TrackerInput;

impl World {
    pub(super) fn inject(&mut self, fault: Fault) {
        let is_of_tracker = matches!(fault, Fault::KillTracker(_) | Fault::CutTracker | Fault::StallTracker(_));
        if self.outcome.is_some() && !is_of_tracker {
            return;
        }
        self.say(|| format!("fault: {fault:?}"));
        match fault {
            Fault::Kill(count) => (0..count).for_each(|_| self.kill_one()),
            Fault::KillForGood => {
                if let Some(process) = self.pick() {
                    self.kill_for_good(process);
                }
            }
            Fault::SlotGoes => {
                if let Some(process) = self.pick() {
                    self.slot_goes(process);
                }
            }
            Fault::SlotsLeave(count) => (0..count).for_each(|_| {
                if let Some(process) = self.pick().filter(|process| !self.framework.lost.contains(process)) {
                    self.slot_leaves(process);
                }
            }),
            Fault::SlotComes => self.slot_comes(),
            Fault::KillAll => (0..self.processes.len()).for_each(|_| self.kill_one()),
            Fault::Throw => self.throw_one(),
            Fault::Freeze(millis) => self.freeze_one(millis),
            Fault::CutLink => {
                let links = self.links();
                if !links.is_empty() {
                    let (one, other, lane) = links[self.scenario.rng.usize(..links.len())];
                    self.cut(one, other, lane);
                }
            }
            Fault::CutTracker => {
                if let Some(process) = self.pick() {
                    self.break_tracker_link(process);
                }
            }
            Fault::PartData(millis) => {
                if let (Some(one), Some(other)) = (self.pick(), self.pick()) {
                    self.network.part(one, other, self.now + millis);
                }
            }
            Fault::PartTracker(millis) => {
                self.fired.insert("part");
                if let Some(process) = self.pick() {
                    self.may_lose(process);
                    self.network.part_from_tracker(process, self.now + millis);
                }
            }
            Fault::StallTracker(millis) => {
                self.stall_tracker(millis);
            }
            Fault::KillTracker(millis) => self.kill_tracker(millis),
            Fault::KillTrackerAtEnd(millis) => self.dies_at_end = Some(millis),
            Fault::SecondTracker(millis) => self.second_tracker(millis),
            Fault::Slow(millis) => {
                let rank = Rank(self.any_rank());
                self.slow.insert(rank, millis);
            }
            Fault::Duplicate => {
                let rank = self.any_rank();
                self.has_lost_one = true;
                self.starts_after(0, rank);
            }
            Fault::DeclareLost => {
                self.fired.insert("kill");
                if let Some(process) = self.pick() {
                    self.declare_lost(process);
                }
            }
            Fault::StageRestart => {
                self.kill_one();
                self.restart_stage();
            }
            Fault::WantCheckpoint => self.want_checkpoint(),
            Fault::KillWhoChooses => self.kills_who_chooses = true,
            Fault::Cancel => {
                self.fired.insert("cancel");
                let error = Error::new(Code::Cancelled, "the user cancelled");
                self.framework_reports(&TrackerInput::Cancel { error });
            }
        }
    }

    fn throw_one(&mut self) {
        let Some(process) = self.pick() else { return };
        let tasks = self.processes[&process].process.tasks().iter();
        let started = tasks.filter(|task| task.end().is_some() && task.outcome().is_none());
        let started: Vec<Try> = started.map(|task| task.id).collect();
        if !started.is_empty() {
            let id = started[self.scenario.rng.usize(..started.len())];
            self.throw(process, id);
        }
    }

    fn freeze_one(&mut self, millis: u64) {
        self.fired.insert("freeze");
        let Some(process) = self.pick() else { return };
        self.may_lose(process);
        if let Some(there) = self.processes.get_mut(&process) {
            there.frozen = true;
        }
        self.say(|| format!("process {process} is frozen for {millis} ms"));
        self.after(millis, SimEvent::Thaws { process });
    }

    fn want_checkpoint(&mut self) {
        let there = self.processes.values().filter(|there| there.alive);
        let entered = there.flat_map(|there| there.process.tasks()).filter_map(|task| task.position());
        let after = entered.map(|(_, version)| version).max().unwrap_or_default();
        self.framework_reports(&TrackerInput::CheckpointWanted(CheckpointWish { after, durable: false }));
    }

    fn any_rank(&mut self) -> u32 {
        let world = self.scenario.job.program.world;
        self.scenario.rng.u32(0..world)
    }

    fn pick(&mut self) -> Option<u32> {
        // Idle processes are no victims.
        let busy =
            |there: &&super::sim_process::SimProcess| there.alive && !there.frozen && !there.process.tasks().is_empty();
        let all: Vec<u32> = self.processes.iter().filter(|(_, there)| busy(there)).map(|(id, _)| *id).collect();
        (!all.is_empty()).then(|| all[self.scenario.rng.usize(..all.len())])
    }

    fn kill_one(&mut self) {
        if let Some(process) = self.pick() {
            self.kill(process);
        }
    }

    pub(super) fn thaw(&mut self, process: u32) {
        let Some(there) = self.processes.get_mut(&process).filter(|there| there.alive) else { return };
        there.frozen = false;
        let deferred = std::mem::take(&mut there.deferred);
        self.say(|| format!("process {process} wakes"));
        for sim_event in deferred {
            // Before anything that comes now: connections keep their order.
            self.happen(sim_event);
        }
    }
}
