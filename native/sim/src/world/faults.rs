//! Faults strike.

use super::{Happening, ProcessId, World};
use crate::scenario::{Fault, FAULTS_END_MILLIS};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::Rank;
use rejoin_protocol::tracker::Input;

impl World {
    pub(super) fn strike(&mut self, index: usize) {
        if self.outcome.as_ref().is_some_and(|outcome| outcome.is_err()) || self.now >= FAULTS_END_MILLIS {
            return;
        }
        let (_, fault) = self.scenario.faults[index];
        self.say(|| format!("fault: {fault:?}"));
        match fault {
            Fault::Kill { processes } => self.kill_some(processes as usize),
            Fault::KillAll => self.kill_some(usize::MAX),
            Fault::Throw => self.throw_somewhere(),
            Fault::Freeze { millis } => self.freeze(millis),
            Fault::CutLink => {
                let standing: Vec<u64> = self.links.iter().filter(|(_, link)| !link.cut).map(|(id, _)| *id).collect();
                if let Some(link) = self.pick(&standing) {
                    self.cut_link(link);
                }
            }
            Fault::CutTracker => {
                let links: Vec<u64> = self
                    .processes
                    .values()
                    .filter(|there| there.alive)
                    .filter_map(|there| there.tracker_link)
                    .collect();
                if let Some(link) = self.pick(&links) {
                    self.break_tracker_link(link, "connection reset");
                }
            }
            Fault::KillTracker { millis } => self.kill_tracker(millis),
            Fault::StallTracker { millis } => self.stall_tracker(millis),
            Fault::StageRestart => {
                self.kill_some(1);
                self.cluster.restart_stage();
                self.after(300, Happening::Scheduling);
            }
            Fault::Slow => {
                let rank = Rank(self.rng.u32(0..self.scenario.script.world));
                self.slow.insert(rank, 10);
            }
            Fault::Cancel => {
                let error = Error::new(Code::Cancelled, "the user cancelled");
                self.after(0, Happening::TrackerHears(Input::Cancel { error }));
            }
        }
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        (!all.is_empty()).then(|| all[self.rng.usize(0..all.len())].clone())
    }

    fn kill_some(&mut self, most: usize) {
        for _ in 0..most.min(self.processes.len()) {
            let busy: Vec<ProcessId> = self
                .processes
                .iter()
                .filter(|(_, there)| there.alive && (most == usize::MAX || !there.tasks.is_empty()))
                .map(|(id, _)| *id)
                .collect();
            if let Some(process) = self.pick(&busy) {
                self.kill(process);
            }
        }
    }

    fn throw_somewhere(&mut self) {
        let tasks = self.processes.iter().filter(|(_, there)| there.alive && there.frozen_until.is_none()).flat_map(
            |(id, there)| {
                let seated = |(who, attempt): (&Rank, _), incarnation| (*id, *who, attempt, incarnation);
                there
                    .tasks
                    .iter()
                    .filter_map(move |((rank, attempt), known)| Some(seated((rank, *attempt), (*known)?)))
                    .filter(|(_, rank, _, incarnation)| there.seats.contains_key(&(*rank, *incarnation)))
                    .collect::<Vec<_>>()
            },
        );
        let tasks: Vec<_> = tasks.collect();
        if let Some((process, rank, attempt, incarnation)) = self.pick(&tasks) {
            self.throw(process, rank, attempt, incarnation);
        }
    }

    fn freeze(&mut self, millis: u64) {
        let awake: Vec<ProcessId> = self
            .processes
            .iter()
            .filter(|(_, there)| there.alive && there.frozen_until.is_none() && !there.tasks.is_empty())
            .map(|(id, _)| *id)
            .collect();
        let Some(process) = self.pick(&awake) else { return };
        self.say(|| format!("process {process} is frozen for {millis} ms"));
        let until = self.now + millis;
        if let Some(there) = self.processes.get_mut(&process) {
            there.frozen_until = Some(until);
        }
        self.at(until, Happening::ProcessWakes { process });
    }

    pub(super) fn wake(&mut self, process: ProcessId) {
        let Some(there) = self.processes.get_mut(&process).filter(|there| there.alive) else { return };
        there.frozen_until = None;
        let deferred = std::mem::take(&mut there.deferred);
        self.say(|| format!("process {process} wakes"));
        for happening in deferred {
            // Before anything that comes now: connections keep their order.
            self.happen(happening);
        }
    }
}
