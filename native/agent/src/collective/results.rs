//! What one rank's log of results takes of its process's memory and disk.

use crate::logs::{Budget, Logged, SpillFile};
use bytes::Bytes;
use rejoin_protocol::error::Error;
use rejoin_protocol::ids::Phase;
use std::sync::{Arc, Weak};

/// What a result costs besides its bytes: the signature of its call, its place in the log, the allocation.
const ENTRY_COST: u64 = 256;

/// Results that are shorter stay in memory: where one lies on disk takes as much.
const WORTH_IT: usize = 128;

/// Most bytes that one rank has taken or given back unknown to the budget.
const STEP: u64 = 64 << 10;

/// The account of one rank's log. What it has taken it gives back at its end.
pub(super) struct Results {
    budget: Arc<Budget>,
    memory: u64,
    /// How much of it the budget knows. Ranks of one process would disturb each other if each small call changed a number that
    /// all of them read.
    told: u64,
    /// Bytes of buffers that wait to be used again, and how many of them the budget knows.
    idle: u64,
    idle_told: u64,
    /// A file for each phase, so that the disk is free again as the phases are dropped. The results in it keep it.
    files: Vec<(Phase, Weak<SpillFile>)>,
}

impl Results {
    pub(super) fn new(budget: Arc<Budget>) -> Self {
        Results { budget, memory: 0, told: 0, idle: 0, idle_told: 0, files: Vec::new() }
    }

    /// Bytes of memory that a result in the log takes.
    pub(super) fn cost(&self, result: &Logged) -> u64 {
        match result {
            Logged::Memory(bytes) => ENTRY_COST + bytes.len() as u64,
            Logged::Spilled(_) => ENTRY_COST,
        }
    }

    /// A result of this cost is in the log from now on.
    pub(super) fn added(&mut self, cost: u64) {
        self.memory += cost;
        if self.memory - self.told.min(self.memory) >= self.step() {
            self.tell();
        }
    }

    /// A result has left the log.
    pub(super) fn dropped(&mut self, result: &Logged) {
        let cost = self.cost(result);
        self.left_memory(cost);
    }

    /// So many bytes of the log aren't in memory any more.
    pub(super) fn left_memory(&mut self, bytes: u64) {
        self.memory -= bytes;
        if self.told - self.memory.min(self.told) >= self.step() {
            self.tell();
        }
    }

    /// Bytes of memory that the log takes.
    pub(super) fn memory(&self) -> u64 {
        self.memory
    }

    /// Whether there is room for a buffer of so many bytes among those that wait to be used again. Then it counts as one from now on.
    /// They take a quarter of the limit at each rank at most, and with the logs a quarter more than it over all ranks.
    pub(super) fn may_wait(&mut self, bytes: u64) -> bool {
        let has_room = self.idle + bytes <= self.budget.memory_limit() / 4 && !self.is_crowded_by(bytes);
        if has_room {
            self.idle += bytes;
            if self.idle - self.idle_told.min(self.idle) >= self.step() {
                self.tell_idle();
            }
        }
        has_room
    }

    /// Whether logs have grown since, so that the buffers that wait are too many.
    pub(super) fn is_crowded(&self) -> bool {
        self.is_crowded_by(0)
    }

    fn is_crowded_by(&self, bytes: u64) -> bool {
        // What the budget doesn't know of this rank is added, so that a rank alone is counted to the byte.
        let known = self.budget.used().0 + self.budget.idle();
        let all = known + self.memory + self.idle - self.told - self.idle_told;
        let limit = self.budget.memory_limit();
        all.saturating_add(bytes) > limit.saturating_add(limit / 4)
    }

    /// A buffer of so many bytes is used again, or is no more.
    pub(super) fn waits_no_more(&mut self, bytes: u64) {
        self.idle -= bytes;
        if self.idle_told - self.idle.min(self.idle_told) >= self.step() {
            self.tell_idle();
        }
    }

    fn tell_idle(&mut self) {
        match self.idle > self.idle_told {
            true => self.budget.take_idle(self.idle - self.idle_told),
            false => self.budget.give_idle(self.idle_told - self.idle),
        }
        self.idle_told = self.idle;
    }

    /// Makes the budget know all that is in the log.
    pub(super) fn tell(&mut self) {
        match self.memory > self.told {
            true => self.budget.take_memory(self.memory - self.told),
            false => self.budget.give_memory(self.told - self.memory),
        }
        self.told = self.memory;
    }

    /// Bytes that the budget may be wrong by: much less than what leaves the memory when it is full.
    fn step(&self) -> u64 {
        STEP.min(self.budget.memory_limit() / 64)
    }

    /// Whether memory is won when this result goes to disk.
    pub(super) fn is_worth_it(&self, result: &Bytes) -> bool {
        result.len() >= WORTH_IT
    }

    /// The file for results of a phase.
    ///
    /// # Errors
    /// `OutOfSpace` when it can't be made.
    pub(super) fn file(&mut self, phase: Phase) -> Result<Arc<SpillFile>, Error> {
        self.files.retain(|(_, file)| file.strong_count() > 0);
        let there = self.files.iter().find(|(of, _)| *of == phase).and_then(|(_, file)| file.upgrade());
        if let Some(file) = there {
            return Ok(file);
        }
        let file = SpillFile::new(self.budget.clone())?;
        self.files.push((phase, Arc::downgrade(&file)));
        Ok(file)
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        self.budget.give_memory(self.told);
        self.budget.give_idle(self.idle_told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::LogLimits;

    #[test]
    fn buffers_that_wait_to_be_used_again_keep_to_their_limit_and_are_counted_over_all_ranks() {
        let limits = LogLimits { memory_bytes: 4 << 20, ..LogLimits::default() };
        let budget = Arc::new(Budget::new(limits, "settings"));
        let (mut one, mut other) = (Results::new(budget.clone()), Results::new(budget.clone()));
        assert!(one.may_wait(768 << 10) && !one.may_wait(512 << 10), "a quarter of the memory may wait");
        assert!(other.may_wait(1 << 20));
        assert_eq!(budget.idle(), 1792 << 10);
        other.waits_no_more(1 << 20);
        assert_eq!(budget.idle(), 768 << 10);
        budget.take_memory(100);
        assert_eq!(budget.used(), (100, 1792 << 10, 0), "the most was when both had some");
        drop(one);
        assert_eq!(budget.idle(), 0);
    }

    #[test]
    fn logs_and_buffers_that_wait_keep_to_a_quarter_more_than_the_limit_over_all_ranks() {
        const QUARTER: u64 = 1 << 20;
        let limits = LogLimits { memory_bytes: 4 * QUARTER, ..LogLimits::default() };
        let budget = Arc::new(Budget::new(limits, "settings"));
        let mut ranks: Vec<Results> = (0..8).map(|_| Results::new(budget.clone())).collect();
        let waiting = ranks.iter_mut().map(|rank| rank.may_wait(QUARTER)).filter(|may_wait| *may_wait);
        assert_eq!(waiting.count(), 5, "without logs they have all of it");
        assert!(!ranks[0].is_crowded());
        ranks[7].added(2 * QUARTER);
        assert!(ranks[0].is_crowded() && ranks[7].is_crowded(), "logs come first");
        for rank in &mut ranks[..2] {
            rank.waits_no_more(QUARTER);
        }
        assert!(ranks.iter().all(|rank| !rank.is_crowded()));
        assert!(!ranks[0].may_wait(QUARTER), "there is no more room");
    }

    #[test]
    fn what_the_budget_is_not_told_of_is_a_step_at_most() {
        let budget = Arc::new(Budget::new(LogLimits::default(), "settings"));
        let mut results = Results::new(budget.clone());
        for count in (1..100).chain((0..99).rev()) {
            match 5000 * count > results.idle {
                true => assert!(results.may_wait(5000)),
                false => results.waits_no_more(5000),
            }
            assert_eq!(results.idle, 5000 * count);
            assert!(results.idle.abs_diff(budget.idle()) < STEP);
        }
    }
}
