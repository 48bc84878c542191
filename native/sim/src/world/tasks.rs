//! What the framework does: it starts tasks, retries those that fail, and replaces processes that die.

use super::sim_event::SimEvent;
use super::sim_process::SimProcess;
use super::state::World;
use crate::ranks::{Input, Process, Try};
use crate::scenario::Executors;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Attempt, Incarnation, Millis, Rank, Task};
use rejoin_protocol::start::JobStart;
use rejoin_protocol::tracker::TrackerInput;
use std::collections::{BTreeMap, BTreeSet};

/// So long the framework waits for what leaves to be released.
const LEAVES_WITHIN: u64 = 3000;

/// How soon a task for which no executor is free is looked after again.
const NO_SLOT_MILLIS: u64 = 200;

impl World {
    fn start_later(&mut self, rank: u32) {
        let pause = self.draw(50..700);
        self.starts_after(pause, rank);
    }

    pub(super) fn starts_after(&mut self, millis: u64, rank: u32) {
        *self.framework.starting.entry(rank).or_default() += 1;
        self.after(millis, SimEvent::Starts { rank });
    }

    /// A process comes up, and connects to the tracker.
    pub(super) fn new_process(&mut self) -> u32 {
        let id = self.framework.next_process;
        self.framework.next_process += 1;
        // Most of those that share are on one host: one that isn't makes all go over links.
        let place = self.scenario.places.as_mut().map(|rng| (u32::from(rng.u32(0..20) == 0), rng.u32(0..20) == 0));
        let host = format!("host{}", place.map_or(id % 2, |(host, _)| host));
        let mut process = Process::new(id, &host, 30_000, self.scenario.job.one_by_one, Millis(self.now));
        if let Some((_, is_blind)) = place {
            process = process.sharing(is_blind);
        }
        if self.scenario.hookless > 0 && self.draw(0..4) < u64::from(self.scenario.hookless) {
            process = process.hookless();
        }
        let there = SimProcess {
            process,
            alive: true,
            frozen: false,
            deferred: Vec::new(),
            tracker_link: None,
            wakes: None,
            paces: BTreeMap::new(),
            settled: None,
        };
        self.processes.insert(id, there);
        match self.scenario.start {
            JobStart::Fresh => {}
            // Before the job begins.
            JobStart::HandedOver(_) if id >= self.scenario.job.program.world => {}
            start => self.input(id, Input::Given(start)),
        }
        self.after(1, SimEvent::Connects { process: id });
        id
    }

    /// An executor with a free slot. One whose agent is over is replaced.
    fn free_executor(&mut self, slots: u32) -> Option<u32> {
        let runs = |there: &SimProcess| {
            let tasks = there.process.tasks().iter();
            tasks.filter(|task| task.freed().is_none() && !matches!(task.outcome(), Some(Ok(_)))).count()
        };
        let over = self.processes.iter().find(|(_, there)| there.alive && !there.frozen && there.process.is_closed());
        if let Some(over) = over.map(|(id, _)| *id) {
            self.kill(over);
        }
        let free = self.processes.iter().filter(|(_, there)| there.alive && runs(there) < slots as usize);
        let free: Vec<u32> = free.map(|(id, _)| *id).collect();
        (!free.is_empty()).then(|| free[self.scenario.rng.usize(..free.len())])
    }

    /// A task starts, in an executor or in a process of its own, and joins.
    pub(super) fn start(&mut self, rank: u32) {
        let waiting = self.framework.starting.entry(rank).or_default();
        *waiting = waiting.saturating_sub(1);
        if self.framework.ended.contains_key(&rank) || self.framework.gone.contains(&rank) {
            return;
        }
        let process = match self.scenario.executors {
            None => Some(self.new_process()),
            Some(Executors { slots, .. }) => self.free_executor(slots),
        };
        let Some(process) = process else { return self.starts_after(NO_SLOT_MILLIS, rank) };
        let id = self.framework.next(rank);
        self.runs(process, id, 200);
    }

    fn runs(&mut self, process: u32, id: Try, within: u64) {
        let Some(there) = self.processes.get_mut(&process) else { return };
        let joins = match self.scenario.spares {
            0 if self.scenario.elastic.is_none() => {
                there.process.starts(id);
                id
            }
            _ => there.process.stands_by(id),
        };
        let Try { rank, attempt } = id;
        self.say(|| format!("process {process} starts with attempt {attempt} of task {rank}"));
        let pause = self.draw(1..within);
        self.after(pause, SimEvent::Joins { process, id: joins });
    }

    /// A rank's calls ended with an error: its task joins again when it was only sent back, and is
    /// tried again otherwise, in the same process or in another one, if no other task of its rank
    /// is there.
    pub(super) fn freed(&mut self, process: u32, id: Try, incarnation: Option<Incarnation>, error: &Error) {
        self.say(|| format!("process {process}: {error}"));
        let Some(there) = self.processes.get_mut(&process) else { return };
        let had_started = incarnation.is_some() && there.pace(id).started == incarnation;
        let was_late = incarnation.is_some_and(|incarnation| {
            self.trackers.may_forget(process, incarnation, had_started) || self.was_given_beside(id, incarnation)
        });
        let found = self.no_lost_work.freed(id.rank, incarnation, error, was_late);
        self.violate(found);
        if let (Code::Incompatible, Some(there)) = (error.code, self.processes.get_mut(&process)) {
            // The error says what to do, and it is done.
            there.process.is_mended();
        }
        match error.code {
            Code::RolledBack => {
                let pause = self.draw(1..100);
                self.after(pause, SimEvent::Joins { process, id });
            }
            // It asks which rank it is now.
            Code::Resized => {}
            _ => self.try_again(process, id),
        }
    }

    /// Two lives of the tracker lived at once and each gave the rank to another process: the life that follows them
    /// keeps what the newer one gave.
    fn was_given_beside(&self, id: Try, incarnation: Incarnation) -> bool {
        let mut tasks = self.processes.values().filter(|there| there.alive).flat_map(|there| there.process.tasks());
        tasks.any(|task| task.of.rank == id.rank && task.incarnation().epoch > incarnation.epoch)
    }

    /// Whether a rank's task runs, or is about to, or has ended well.
    fn is_cared_for(&self, rank: Rank) -> bool {
        let mut living = self.processes.values().filter(|there| there.alive).flat_map(|there| there.process.tasks());
        let runs = living.any(|task| task.of.rank == rank && task.freed().is_none());
        let has_no_more = self.framework.ended.contains_key(&rank.0) || self.framework.gone.contains(&rank.0);
        runs || has_no_more || self.framework.is_starting(rank)
    }

    fn try_again(&mut self, process: u32, id: Try) {
        let task = self.processes.get(&process).and_then(|there| there.process.task(id));
        let id = task.map_or(id, |task| task.of);
        let rank = id.rank;
        if self.scenario.executors.is_some() {
            let delay = self.draw(1..50);
            self.task_is_gone(id, delay);
        }
        if self.is_cared_for(rank) {
            return;
        }
        if self.scenario.executors.is_some() || self.scenario.rng.bool() {
            return self.start_later(rank.0);
        }
        let id = self.framework.next(rank.0);
        self.runs(process, id, 100);
    }

    /// The framework says that a task has ended, and whether that counts.
    fn task_is_gone(&mut self, id: Try, delay: u64) {
        let Try { rank, attempt, .. } = id;
        let (reason, counts) = ("the task failed".into(), self.scenario.framework_counts.unwrap_or(true));
        let task = Task(rank.0);
        self.after(delay, SimEvent::FrameworkReports(TrackerInput::TaskGone { task, attempt, reason, counts }));
    }

    pub(super) fn throw(&mut self, process: u32, id: Try) {
        self.may_lose(process);
        self.say(|| format!("process {process}: {id:?} throws"));
        self.input(process, Input::Throw(id));
        self.try_again(process, id);
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self, process: u32) {
        self.may_lose(process);
        let Some(there) = self.processes.get_mut(&process).filter(|there| there.alive) else { return };
        self.fired.insert("kill");
        there.alive = false;
        for task in there.process.tasks() {
            self.framework.leaving.remove(&task.of.rank.0);
        }
        there.deferred.clear();
        self.memory.is_gone(process);
        let link = there.tracker_link.take();
        let ids: Vec<Try> = there.process.tasks().iter().map(|task| task.of).collect();
        let ranks: Vec<Rank> = ids.iter().map(|id| id.rank).collect();
        self.say(|| format!("process {process} is killed, with tasks {ranks:?}"));
        self.connections_end(process, link);
        let noticed = self.draw(200..1500);
        let executor = process.to_string();
        let reason = "the executor has exited".into();
        self.after(noticed, SimEvent::FrameworkReports(TrackerInput::ExecutorGone { executor, reason }));
        if self.scenario.framework_counts.is_some() {
            ids.into_iter().for_each(|id| self.task_is_gone(id, noticed));
        }
        if self.scenario.executors.is_some() {
            let replaced = noticed + self.draw(300..3000);
            self.after(replaced, SimEvent::ExecutorStarts);
        }
        for rank in ranks {
            if !self.is_cared_for(rank) {
                self.start_later(rank.0);
            }
        }
    }

    /// SIGKILL, and there is no slot for its tasks any more.
    pub(super) fn kill_for_good(&mut self, process: u32) {
        self.loses_slot(process);
        self.kill(process);
    }

    /// The same by the framework's own will: it says so before it ends the process, or the death is heard first.
    pub(super) fn slot_goes(&mut self, process: u32) {
        let pause = self.draw(0..300);
        let is_late = pause.is_multiple_of(3);
        for task in self.loses_slot(process) {
            let leaves = leaves(task);
            match is_late {
                true => self.after(pause, SimEvent::FrameworkReports(leaves)),
                false => self.framework_reports(&leaves),
            }
        }
        self.after(if is_late { 0 } else { pause }, SimEvent::Killed { process });
    }

    /// The same with time to hand over what only that process has.
    pub(super) fn slot_leaves(&mut self, process: u32) {
        let tasks = self.loses_slot(process);
        self.framework.leaving.extend(tasks.iter().map(|id| id.rank.0));
        for task in tasks {
            self.framework_reports(&leaves(task));
        }
        self.after(LEAVES_WITHIN, SimEvent::Killed { process });
    }

    /// This try of a task may end. Its process does when that holds for all of its tasks.
    pub(super) fn released(&mut self, epoch: u32, task: Task, attempt: Attempt) {
        if !self.framework.leaving.remove(&task.0) {
            return;
        }
        let is_try = |its: Try| its.rank.0 == task.0 && its.attempt <= attempt;
        let is_its = |there: &SimProcess| there.process.tasks().iter().any(|its| is_try(its.of));
        let its = self.processes.iter().find(|(_, there)| there.alive && is_its(there));
        let Some((process, there)) = its.map(|(process, there)| (*process, there)) else { return };
        if there.process.tasks().iter().any(|other| self.framework.leaving.contains(&other.of.rank.0)) {
            return;
        }
        self.tally.released += 1;
        self.framework.ending.insert(process);
        let held = self.own_models_held(epoch, &BTreeSet::new());
        let others = self.own_models_held(epoch, &self.framework.ending);
        let found = self.own_models.released(process, &held, &others);
        self.violate(found);
        let pause = self.draw(0..50);
        self.after(pause, SimEvent::Killed { process });
    }

    fn loses_slot(&mut self, process: u32) -> Vec<Try> {
        let tasks = self.processes.get(&process).into_iter().flat_map(|there| there.process.tasks());
        let tries: Vec<Try> = tasks.map(|task| task.of).collect();
        for id in &tries {
            self.framework.gone.insert(id.rank.0);
            self.framework.told.insert(id.rank.0);
        }
        tries
    }

    /// A task that had no slot has one.
    pub(super) fn slot_comes(&mut self) {
        let leaving = &self.framework.leaving;
        let free = self.framework.gone.iter().copied().find(|task| !leaving.contains(task));
        if let Some(task) = free {
            self.framework.gone.remove(&task);
            self.say(|| format!("there is a slot for task {task}"));
            if !self.is_cared_for(Rank(task)) {
                self.start_later(task);
            }
        }
    }

    /// The framework believes that a process is gone; it lives on until it is notified.
    pub(super) fn declare_lost(&mut self, process: u32) {
        self.framework.lost.insert(process);
        self.may_lose(process);
        let executor = process.to_string();
        let reason = "the framework has lost it".into();
        self.after(0, SimEvent::FrameworkReports(TrackerInput::ExecutorGone { executor, reason }));
        let tasks = self.processes.get(&process).into_iter().flat_map(|there| there.process.tasks());
        for rank in tasks.map(|task| task.of.rank).collect::<Vec<Rank>>() {
            self.start_later(rank.0);
        }
    }

    /// Everything that is not done is started again; what runs goes on running.
    pub(super) fn restart_stage(&mut self) {
        self.framework.stage += 1;
        for rank in 0..self.scenario.tasks() {
            self.framework.tries[rank as usize] = 0;
            if !self.framework.ended.contains_key(&rank) {
                self.start_later(rank);
            }
        }
    }
}

/// The framework ends this try, and starts no other one in its place.
fn leaves(id: Try) -> TrackerInput {
    TrackerInput::TaskLeaves { task: Task(id.rank.0), attempt: id.attempt }
}
