//! The framework: it starts tasks, retries those that fail, and replaces processes that die.

use super::{who, Happening, There, World};
use crate::ranks::{Input, Process};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Attempt, Incarnation, Millis, Rank};
use rejoin_protocol::tracker::Input as TrackerInput;
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct Framework {
    next_process: u32,
    tries: Vec<u32>,
    /// Ranks whose tasks have ended well.
    ended: BTreeSet<u32>,
    /// Starts that are on their way, by rank.
    starting: BTreeMap<u32, u32>,
}

impl Framework {
    pub(super) fn new(world: u32) -> Self {
        let starting = (0..world).map(|rank| (rank, 1)).collect();
        Framework { next_process: 0, tries: vec![0; world as usize], ended: BTreeSet::new(), starting }
    }

    pub(super) fn ends(&mut self, rank: u32) {
        self.ended.insert(rank);
    }

    pub(super) fn ended(&self) -> impl Iterator<Item = u32> + '_ {
        self.ended.iter().copied()
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.starting.values().all(|count| *count == 0)
    }

    pub(super) fn describe(&self) -> String {
        format!("tries {:?} starting {:?}", self.tries, self.starting)
    }
}

impl World {
    fn start_later(&mut self, rank: u32) {
        *self.framework.starting.entry(rank).or_default() += 1;
        let pause = self.rng.u64(50..700);
        self.after(pause, Happening::Starts { rank });
    }

    /// A task starts in a new process, which connects to the tracker and joins.
    pub(super) fn start(&mut self, rank: u32) {
        let waiting = self.framework.starting.entry(rank).or_default();
        *waiting = waiting.saturating_sub(1);
        if self.framework.ended.contains(&rank) {
            return;
        }
        let id = self.framework.next_process;
        self.framework.next_process += 1;
        let task = self.framework.tries[rank as usize];
        self.framework.tries[rank as usize] += 1;
        // Most of those that share are on one host: one that isn't makes all go over links.
        let place = self.places.as_mut().map(|rng| (u32::from(rng.u32(0..20) == 0), rng.u32(0..20) == 0));
        let host = format!("host{}", place.map_or(id % 2, |(host, _)| host));
        let process = Process::new(who(id, rank, task), &host, 30_000, Millis(self.now));
        let process = match place {
            Some((_, is_blind)) => process.sharing(is_blind),
            None => process,
        };
        let there = There {
            process,
            alive: true,
            frozen: false,
            deferred: Vec::new(),
            tracker_link: None,
            wakes: None,
            goes: false,
            fetches: false,
            looks: false,
            stored: BTreeSet::new(),
            started: None,
            settled: false,
            waits_since: None,
        };
        self.processes.insert(id, there);
        if let Some(resumed) = &self.resumed {
            let checkpoint = resumed.checkpoint;
            self.input(id, Input::Durable(checkpoint));
        }
        self.say(|| format!("process {id} starts with task {task} of rank {rank}"));
        self.after(1, Happening::Connects { process: id });
        let pause = self.rng.u64(1..200);
        self.after(pause, Happening::Joins { process: id });
    }

    /// A rank's calls ended with an error: its task joins again when it was only sent back, and is tried again otherwise, in
    /// the same process or in another one, if no other task of its rank is there.
    pub(super) fn freed(&mut self, process: u32, incarnation: Option<Incarnation>, error: &Error) {
        self.say(|| format!("process {process}: {error}"));
        let Some(there) = self.processes.get(&process) else { return };
        let rank = there.process.who().rank;
        let had_started = incarnation.is_some() && there.started == incarnation;
        let was_late =
            incarnation.is_some_and(|incarnation| self.trackers.may_forget(incarnation, had_started, self.now));
        let found = self.no_lost_work.freed(rank, incarnation, error, was_late);
        self.violate(found);
        match error.code {
            Code::RolledBack => {
                let pause = self.rng.u64(1..100);
                self.after(pause, Happening::Joins { process });
            }
            _ => self.try_again(process, rank),
        }
    }

    fn try_again(&mut self, process: u32, rank: Rank) {
        let another = self.processes.iter().any(|(id, there)| {
            *id != process && there.alive && there.process.who().rank == rank && there.process.freed().is_none()
        });
        if another
            || self.framework.ended.contains(&rank.0)
            || self.framework.starting.get(&rank.0).is_some_and(|count| *count > 0)
        {
            return;
        }
        if self.rng.bool() {
            return self.start_later(rank.0);
        }
        let task = self.framework.tries[rank.0 as usize];
        self.framework.tries[rank.0 as usize] += 1;
        if let Some(there) = self.processes.get_mut(&process) {
            there.process.tries_again(Attempt { stage: 0, task });
        }
        let pause = self.rng.u64(1..100);
        self.after(pause, Happening::Joins { process });
    }

    pub(super) fn throw(&mut self, process: u32) {
        let Some(there) = self.processes.get(&process).filter(|there| there.process.position().is_some()) else {
            return;
        };
        if there.process.told().is_some() {
            return;
        }
        let rank = there.process.who().rank;
        self.input(process, Input::Throw);
        self.try_again(process, rank);
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self, process: u32) {
        let Some(there) = self.processes.get_mut(&process).filter(|there| there.alive) else { return };
        self.struck.insert("kill");
        there.alive = false;
        there.deferred.clear();
        self.memory.is_gone(process);
        let (rank, link) = (there.process.who().rank, there.tracker_link.take());
        self.say(|| format!("process {process} is killed, with rank {rank}"));
        self.connections_end(process, link);
        let noticed = self.rng.u64(200..1500);
        let executor = process.to_string();
        let reason = "the executor has exited".into();
        self.after(noticed, Happening::FrameworkTells(TrackerInput::ExecutorGone { executor, reason }));
        if !self.framework.ended.contains(&rank.0) {
            self.try_elsewhere(process, rank);
        }
    }

    fn try_elsewhere(&mut self, process: u32, rank: Rank) {
        let another = self.processes.iter().any(|(id, there)| {
            *id != process && there.alive && there.process.who().rank == rank && there.process.freed().is_none()
        });
        if !another && self.framework.starting.get(&rank.0).is_none_or(|count| *count == 0) {
            self.start_later(rank.0);
        }
    }

    /// The framework believes that a process is gone; it lives on until it is told.
    pub(super) fn declare_lost(&mut self, process: u32) {
        let executor = process.to_string();
        let reason = "the framework has lost it".into();
        self.after(0, Happening::FrameworkTells(TrackerInput::ExecutorGone { executor, reason }));
        let rank = self.processes.get(&process).map(|there| there.process.who().rank);
        if let Some(rank) = rank {
            self.start_later(rank.0);
        }
    }
}
