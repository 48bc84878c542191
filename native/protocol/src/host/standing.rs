//! Tasks of a job with spares: they ask for a rank, and stand by until they are given one.

use super::standing_here::StandingHere;
use super::{Host, HostOutput};
use crate::error::Error;
use crate::ids::{Attempt, Rank, Task};
use crate::message::{AgentMessage, RankGiven, Standing};

impl Host {
    pub(super) fn stand_by(&mut self, task: Task, attempt: Attempt) {
        if let Some(outcome) = self.ended.clone() {
            self.outputs.push_back(HostOutput::StandByOver { task, attempt, outcome });
            return;
        }
        // Asked again: the caller of the first time is gone.
        self.forget_standing(task, attempt);
        let standing = Standing { task, attempt, given: None };
        self.standing.push(StandingHere { standing, since: self.now });
        self.send(AgentMessage::StandBy { task, attempt });
    }

    pub(super) fn refuse_standing_when_closed(&mut self, task: Task, attempt: Attempt) {
        let outcome = self.ended.clone().unwrap_or_else(|| Err(self.is_closed_already()));
        self.outputs.push_back(HostOutput::StandByOver { task, attempt, outcome });
    }

    pub(super) fn stand_down(&mut self, task: Task, attempt: Attempt) {
        if self.forget_standing(task, attempt).is_some() {
            self.send(AgentMessage::StandDown { task, attempt });
        }
    }

    /// A member has ended for good, and with it what its task was given.
    pub(super) fn has_no_rank(&mut self, rank: Rank, attempt: Attempt) {
        let given = Some(RankGiven { rank, attempt });
        let its = self.standing.iter().find(|here| here.standing.given == given).map(|here| here.standing);
        if let Some(Standing { task, attempt, .. }) = its {
            self.stand_down(task, attempt);
        }
    }

    /// The world has changed, and with it which rank this task is: it stands by until it has asked which one.
    pub(super) fn asks_again(&mut self, rank: Rank, attempt: Attempt) {
        let given = Some(RankGiven { rank, attempt });
        self.standing
            .iter_mut()
            .filter(|here| here.standing.given == given)
            .for_each(|here| here.standing.given = None);
    }

    pub(super) fn rank_given(&mut self, task: Task, attempt: Attempt, given: RankGiven) {
        let its = |here: &&mut StandingHere| (here.standing.task, here.standing.attempt) == (task, attempt);
        match self.standing.iter_mut().find(its) {
            Some(here) if here.standing.given.is_some() => {} // sent again
            Some(here) => {
                here.standing.given = Some(given);
                self.outputs.push_back(HostOutput::RankGiven { task, attempt, given });
            }
            // The task has gone before it was given anything.
            None => self.send(AgentMessage::StandDown { task, attempt }),
        }
    }

    /// One that was given a rank learns of it by its join.
    pub(super) fn standing_ended(&mut self, task: Task, attempt: Attempt, error: Error) {
        if self.forget_standing(task, attempt).is_some_and(|standing| standing.given.is_none()) {
            self.outputs.push_back(HostOutput::StandByOver { task, attempt, outcome: Err(error) });
        }
    }

    /// The job is over, or this agent is: none stands by any longer.
    pub(super) fn end_standing(&mut self, outcome: Result<u128, Error>) {
        let all = core::mem::take(&mut self.standing).into_iter().map(|here| here.standing);
        for Standing { task, attempt, .. } in all.filter(|standing| standing.given.is_none()) {
            self.outputs.push_back(HostOutput::StandByOver { task, attempt, outcome: outcome.clone() });
        }
    }

    fn forget_standing(&mut self, task: Task, attempt: Attempt) -> Option<Standing> {
        let its = |here: &StandingHere| (here.standing.task, here.standing.attempt) == (task, attempt);
        let index = self.standing.iter().position(its)?;
        Some(self.standing.remove(index).standing)
    }
}
