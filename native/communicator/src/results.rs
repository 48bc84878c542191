//! What one rank's log of results takes of its process's memory and disk.

use bytes::Bytes;
use rejoin_agent::logs::{Budget, Logged, SpillFile};
use rejoin_protocol::error::Error;
use rejoin_protocol::ids::Phase;
use std::sync::{Arc, Weak};

/// What a result costs besides its bytes: the signature of its call, its entry in the log, the allocation.
pub(super) const ENTRY_COST: u64 = 256;

/// Results that are shorter stay in memory: where one lies on disk takes as much.
const WORTH_IT: usize = 128;

/// Most bytes that one rank has taken or given back unknown to the budget.
const STEP: u64 = 64 << 10;

/// The account of one rank's log. What it has taken it gives back at its end.
pub(super) struct Results {
    budget: Arc<Budget>,
    memory: u64,
    /// How much of it the budget knows. Ranks of one process would disturb each other if each small
    /// call changed a number that all of them read.
    reported: u64,
    /// A file for each phase, so that the disk is free again as the phases are dropped. The results in it keep it.
    files: Vec<(Phase, Weak<SpillFile>)>,
}

impl Results {
    pub(super) fn new(budget: Arc<Budget>) -> Self {
        Results { budget, memory: 0, reported: 0, files: Vec::new() }
    }

    /// Bytes of memory that a result in the log takes of this rank's account. One that the
    /// process's ranks keep together has one of its own.
    pub(super) fn cost(&self, result: &Logged) -> u64 {
        match result {
            Logged::Memory(bytes) => ENTRY_COST + bytes.len() as u64,
            Logged::Cached(_) | Logged::Spilled(_) => ENTRY_COST,
        }
    }

    /// A result of this cost is in the log from now on.
    pub(super) fn added(&mut self, cost: u64) {
        self.memory += cost;
        if self.memory - self.reported.min(self.memory) >= self.step() {
            self.report();
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
        if self.reported - self.memory.min(self.reported) >= self.step() {
            self.report();
        }
    }

    /// Bytes of memory that the log takes.
    pub(super) fn memory(&self) -> u64 {
        self.memory
    }

    /// Makes the budget know all that is in the log.
    pub(super) fn report(&mut self) {
        match self.memory > self.reported {
            true => self.budget.take_memory(self.memory - self.reported),
            false => self.budget.give_memory(self.reported - self.memory),
        }
        self.reported = self.memory;
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
        self.budget.give_memory(self.reported);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_agent::logs::LogLimits;

    #[test]
    fn what_the_budget_is_not_told_of_is_a_step_at_most() {
        let budget = Arc::new(Budget::new(LogLimits::default(), "settings"));
        let mut results = Results::new(budget.clone());
        for count in (1..100).chain((0..99).rev()) {
            match 5000 * count > results.memory() {
                true => results.added(5000),
                false => results.left_memory(5000),
            }
            assert_eq!(results.memory(), 5000 * count);
            assert!(results.memory().abs_diff(budget.used().0) < STEP);
        }
        results.report();
        drop(results);
        assert_eq!(budget.used().0, 0, "what it has taken it gives back");
    }
}
