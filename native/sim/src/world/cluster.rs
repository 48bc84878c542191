//! The framework: it starts tasks in free slots, retries those that fail, and replaces processes that die.

use super::{Happening, ProcessId, World};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::host::Input as HostInput;
use rejoin_protocol::ids::{Attempt, Incarnation, Rank};
use rejoin_protocol::tracker::Input as TrackerInput;
use std::collections::{BTreeMap, BTreeSet};

/// Tasks of the stage.
pub(super) struct Cluster {
    done: Vec<bool>,
    /// The next task attempt of each partition in the present stage.
    next: Vec<u32>,
    stage: u32,
    waiting: BTreeSet<(Attempt, Rank)>,
    running: BTreeMap<(Rank, Attempt), ProcessId>,
}

impl Cluster {
    pub(super) fn new(world: u32) -> Self {
        let mut cluster = Cluster {
            done: vec![false; world as usize],
            next: vec![0; world as usize],
            stage: 0,
            waiting: BTreeSet::new(),
            running: BTreeMap::new(),
        };
        (0..world).for_each(|rank| cluster.submit(Rank(rank)));
        cluster
    }

    pub(super) fn all_done(&self) -> bool {
        self.done.iter().all(|done| *done)
    }

    pub(super) fn describe(&self) -> String {
        format!("framework: waiting {:?} running {:?} done {:?}", self.waiting, self.running, self.done)
    }

    fn submit(&mut self, rank: Rank) {
        let task = &mut self.next[rank.0 as usize];
        let attempt = Attempt { stage: self.stage, task: *task };
        *task += 1;
        self.waiting.insert((attempt, rank));
    }

    /// Everything that is not done is started again, lowest first; what runs goes on running.
    pub(super) fn restart_stage(&mut self) {
        self.stage += 1;
        self.waiting.clear();
        for rank in 0..self.done.len() as u32 {
            self.next[rank as usize] = 0;
            if !self.done[rank as usize] {
                self.submit(Rank(rank));
            }
        }
    }
}

impl World {
    pub(super) fn schedule_tasks(&mut self) {
        let slots = self.scenario.slots as usize;
        let failed = matches!(self.outcome, Some(Err(_)));
        while let Some((attempt, rank)) = self.cluster.waiting.first().copied().filter(|_| !failed) {
            let used = |id: ProcessId| self.cluster.running.values().filter(|there| **there == id).count();
            let free: Vec<ProcessId> = self
                .processes
                .iter()
                .filter(|(id, there)| there.alive && used(**id) < slots)
                .map(|(id, _)| *id)
                .collect();
            if free.is_empty() {
                return;
            }
            let process = free[self.rng.usize(0..free.len())];
            self.cluster.waiting.remove(&(attempt, rank));
            self.cluster.running.insert((rank, attempt), process);
            let pause = self.rng.u64(1..200);
            self.after(pause, Happening::TaskStarts { process, rank, attempt });
        }
    }

    pub(super) fn task_starts(&mut self, process: ProcessId, rank: Rank, attempt: Attempt) {
        self.say(|| format!("task of rank {rank}, attempt {attempt}, starts in process {process}"));
        self.ensure_host(process);
        if let Some(there) = self.processes.get_mut(&process) {
            there.tasks.insert((rank, attempt), None);
        }
        // It loads its data.
        let pause = self.rng.u64(1..300);
        self.after(pause, Happening::TaskJoins { process, rank, attempt });
    }

    pub(super) fn task_joins(&mut self, process: ProcessId, rank: Rank, attempt: Attempt) {
        if self.processes.get(&process).is_some_and(|there| there.tasks.contains_key(&(rank, attempt))) {
            self.control(
                process,
                HostInput::Join { rank, attempt, terms: "the same for all".into(), offer: Default::default() },
            );
        }
    }

    /// Its calls end with an error: it ends, or joins again when it was only sent back.
    pub(super) fn task_is_freed(&mut self, process: ProcessId, rank: Rank, attempt: Attempt, error: &Error) {
        let Some(there) = self.processes.get_mut(&process) else { return };
        let Some(incarnation) = there.tasks.get_mut(&(rank, attempt)) else { return };
        *incarnation = None;
        let pause = self.rng.u64(1..100);
        if error.code == Code::RolledBack {
            self.after(pause, Happening::TaskJoins { process, rank, attempt });
        } else {
            self.task_is_over(process, rank, attempt, false);
        }
    }

    /// A task returns. The framework hears of it a little later, if the process lives until then.
    pub(super) fn task_is_over(&mut self, process: ProcessId, rank: Rank, attempt: Attempt, succeeded: bool) {
        let Some(there) = self.processes.get_mut(&process) else { return };
        if there.tasks.remove(&(rank, attempt)).is_some() {
            let pause = self.rng.u64(1..100);
            self.after(pause, Happening::TaskEnded { rank, attempt, succeeded });
        }
    }

    pub(super) fn task_ended(&mut self, rank: Rank, attempt: Attempt, succeeded: bool) {
        if self.cluster.running.remove(&(rank, attempt)).is_none() {
            return; // its process died before the result was out
        }
        if succeeded {
            self.cluster.done[rank.0 as usize] = true;
        } else {
            let reason = "the task failed".into();
            let delay = self.rng.u64(1..50);
            self.after(delay, Happening::TrackerHears(TrackerInput::TaskGone { rank, attempt, reason }));
            self.retry(rank, attempt);
        }
        self.after(0, Happening::Scheduling);
    }

    fn retry(&mut self, rank: Rank, attempt: Attempt) {
        // Tries of an older stage are not tried again: the newer stage has its own.
        if !self.cluster.done[rank.0 as usize] && attempt.stage == self.cluster.stage {
            self.cluster.submit(rank);
        }
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self, process: ProcessId) {
        let Some(there) = self.processes.get_mut(&process).filter(|there| there.alive) else { return };
        there.alive = false;
        there.deferred.clear();
        there.store.clear();
        let (slot, link) = (there.slot, there.tracker_link.take());
        let tasks: Vec<(Rank, Attempt)> = there.tasks.keys().copied().collect();
        there.tasks.clear();
        there.seats.clear();
        self.say(|| format!("process {process} is killed, with {tasks:?}"));
        let ends: Vec<u64> =
            self.links.iter().filter(|(_, l)| l.ends.iter().any(|e| e.0 == process)).map(|(id, _)| *id).collect();
        for link in ends {
            self.cut_link(link);
        }
        if let Some(link) = link {
            let delay = self.delay();
            self.after(delay, Happening::TrackerLinkDies { link });
        }
        let gone: Vec<(Rank, Attempt)> =
            self.cluster.running.iter().filter(|(_, there)| **there == process).map(|(task, _)| *task).collect();
        let noticed = self.rng.u64(200..1500);
        let reason = || "the executor has exited".to_string();
        self.after(
            noticed,
            Happening::TrackerHears(TrackerInput::ExecutorGone { executor: process.to_string(), reason: reason() }),
        );
        for (rank, attempt) in gone {
            self.cluster.running.remove(&(rank, attempt));
            self.retry(rank, attempt);
        }
        self.after(noticed, Happening::Scheduling);
        let replaced = noticed + self.rng.u64(300..3000);
        self.after(replaced, Happening::ProcessStarts { slot });
    }

    /// A task throws: its worker is gone, its member leaves.
    pub(super) fn throw(&mut self, process: ProcessId, rank: Rank, attempt: Attempt, incarnation: Incarnation) {
        self.say(|| format!("task of rank {rank}, attempt {attempt}, throws"));
        self.drop_seat(process, (rank, incarnation));
        let failure = Some(Error::new(Code::Io, "thrown by the user's objective"));
        self.control(process, HostInput::Leave { rank, incarnation, failure });
        self.task_is_over(process, rank, attempt, false);
    }
}
