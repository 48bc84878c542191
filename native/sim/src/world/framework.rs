//! What the framework knows of its tasks and processes.

use crate::ranks::Try;
use rejoin_protocol::ids::{Attempt, Rank, Task};
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct Framework {
    pub(super) next_process: u32,
    /// All tasks that aren't done were started again so often.
    pub(super) stage: u32,
    /// The next try of each task in this stage: of the ranks' own, and of those that stand by beside them.
    pub(super) tries: Vec<u32>,
    /// Tasks that have ended well, by number, with the tries that have.
    pub(super) ended: BTreeMap<u32, Attempt>,
    /// Tasks that are not started, or not again: there is no slot for them.
    pub(super) gone: BTreeSet<u32>,
    /// Tasks of which it has said that they go, and which it ends when they are released.
    pub(super) leaving: BTreeSet<u32>,
    /// Tasks of which it has said, or is about to say, that they go. A word that comes late is of the next try, too.
    pub(super) told: BTreeSet<u32>,
    /// Processes that it ends in a moment, since their tasks are released.
    pub(super) ending: BTreeSet<u32>,
    /// Processes that it has lost, whether they live or not: it says nothing more of their tasks.
    pub(super) lost: BTreeSet<u32>,
    /// Starts that are on their way, by the task's number.
    pub(super) starting: BTreeMap<u32, u32>,
}

impl Framework {
    /// So many tasks at first, of at most so many.
    pub(super) fn new(first: u32, tasks: u32) -> Self {
        let starting = (0..first).map(|task| (task, 1)).collect();
        let (tries, ended, gone) = (vec![0; tasks as usize], BTreeMap::new(), (first..tasks).collect());
        Framework {
            next_process: 0,
            stage: 0,
            tries,
            ended,
            gone,
            leaving: BTreeSet::new(),
            told: BTreeSet::new(),
            ending: BTreeSet::new(),
            lost: BTreeSet::new(),
            starting,
        }
    }

    pub(super) fn ends(&mut self, rank: u32, attempt: Attempt) {
        self.ended.insert(rank, attempt);
    }

    pub(super) fn ended(&self) -> impl Iterator<Item = (Task, Attempt)> + '_ {
        self.ended.iter().map(|(task, attempt)| (Task(*task), *attempt))
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.starting
            .iter()
            .all(|(rank, count)| *count == 0 || self.ended.contains_key(rank) || self.gone.contains(rank))
    }

    pub(super) fn describe(&self) -> String {
        format!("stage {} tries {:?} starting {:?} ended {:?}", self.stage, self.tries, self.starting, self.ended)
    }

    pub(super) fn next(&mut self, rank: u32) -> Try {
        let task = &mut self.tries[rank as usize];
        *task += 1;
        Try { rank: Rank(rank), attempt: Attempt { stage: self.stage, task: *task - 1 } }
    }

    pub(super) fn is_starting(&self, rank: Rank) -> bool {
        self.starting.get(&rank.0).is_some_and(|count| *count > 0)
    }
}
