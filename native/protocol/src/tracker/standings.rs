//! What the tracker keeps of the tasks of a job with spares.

use crate::ids::{AgentId, Attempt, MemberId, Millis, Rank, Task};
use crate::message::{RankGiven, Standing};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// A try of a task that stands by, or was given a rank and has it as long as this is kept.
#[derive(Clone, Debug)]
pub(super) struct StandingTask {
    pub(super) agent: AgentId,
    pub(super) attempt: Attempt,
    pub(super) given: Option<RankGiven>,
    /// Smaller for one that came earlier.
    pub(super) order: u64,
    /// When it came.
    pub(super) since: Millis,
    /// The framework ends it, and starts no other one in its place.
    pub(super) leaves: bool,
    /// It had a rank in the world before.
    pub(super) had_rank: bool,
    /// That it may end has been said.
    pub(super) is_released: bool,
    /// That it stands by has been reported.
    pub(super) is_reported: bool,
}

/// The newest try of a task that is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewestTry {
    pub(super) attempt: Attempt,
    /// The framework says that it has ended.
    pub(super) is_gone: bool,
}

/// The tasks of a job with spares.
#[derive(Clone, Debug, Default)]
pub(super) struct Standings {
    pub(super) tasks: BTreeMap<Task, StandingTask>,
    pub(super) tries: BTreeMap<Task, NewestTry>,
    /// The newest try of each rank that was given away.
    pub(super) given: BTreeMap<Rank, Attempt>,
    pub(super) came: u64,
    /// What was given in a world that isn't any more, and given up for another rank.
    pub(super) former: BTreeSet<RankGiven>,
    /// The incarnations that were sent into another world.
    pub(super) moved: BTreeSet<MemberId>,
    /// The newest try of each task of which the framework has said that it ends it for good.
    pub(super) leaving: BTreeMap<Task, Attempt>,
    /// What agents have brought while the job is being taken over.
    pub(super) later: Vec<(AgentId, Standing)>,
}

impl Standings {
    pub(super) fn of_rank(&self, rank: Rank) -> Option<(Task, &StandingTask)> {
        let mut all = self.tasks.iter();
        all.find(|(_, standing)| standing.given.is_some_and(|given| given.rank == rank)).map(|(task, s)| (*task, s))
    }

    /// The task that was given this try of a rank.
    pub(super) fn of_try(&self, rank: Rank, attempt: Attempt) -> Option<(Task, &StandingTask)> {
        self.of_rank(rank).filter(|(_, standing)| standing.given == Some(RankGiven { rank, attempt }))
    }
}
