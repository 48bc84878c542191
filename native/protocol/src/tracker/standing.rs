//! A job with spares: the tasks that ask for a rank, and which of them is given one ([`crate::spares`]).
//!
//! Every task of such a job asks, and joins as the rank that it is given. What it joins as is a try of that rank that
//! is greater than all before it, whichever task had the rank: so all that is said of an older incarnation is fenced
//! as without spares.

use super::agent_record::AgentRecord;
use super::slots::RankSlot;
use super::standings::{NewestTry, StandingTask};
use super::{RankSlotState, Tracker, TrackerOutput};
use crate::error::{Code, Error};
use crate::event::Event;
use crate::ids::{AgentId, Attempt, Rank, Task};
use crate::message::{RankGiven, Standing, TrackerMessage};
use crate::spares::{decide, Giving, OpenRank};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

impl Tracker {
    /// Whether tasks ask for ranks, and none is its rank by its number.
    pub(super) fn gives_ranks(&self) -> bool {
        self.config.spares > 0 || self.config.elastic.is_some()
    }

    /// A task asks for a rank, or its agent says again which it was given.
    pub(super) fn stand_by(&mut self, agent: AgentId, standing: Standing) {
        if let Some(over) = self.over.clone() {
            return self.send(agent, TrackerMessage::Ended(over));
        }
        if self.former_life.takeover.is_some() {
            self.standings.later.retain(|(other, later)| (*other, later.task) != (agent, standing.task));
            self.standings.later.push((agent, standing));
            return;
        }
        if let Err(error) = self.admit_standing(agent, standing) {
            let Standing { task, attempt, .. } = standing;
            self.send(agent, TrackerMessage::StandByEnded { task, attempt, error });
        }
    }

    fn admit_standing(&mut self, agent: AgentId, standing: Standing) -> Result<(), Error> {
        let Standing { task, attempt, given } = standing;
        let (most, spares) = (self.most_ranks(), self.config.spares);
        if task.0 >= most.saturating_add(spares) {
            let text = format!("task {task} asked for a rank of a job of {most} ranks with {spares} spares");
            return Err(Error::new(Code::BadArgument, text));
        }
        if let Some(newest) = self.standings.tries.get(&task) {
            if attempt < newest.attempt || attempt == newest.attempt && newest.is_gone {
                let text = format!(
                    "task {task} asked for a rank in its try {attempt}, but the newest one is {}{}; a try of the \
                     framework takes part once",
                    newest.attempt,
                    if newest.is_gone { ", which has ended" } else { "" }
                );
                return Err(Error::new(Code::Fenced, text));
            }
        }
        match self.standings.tasks.get_mut(&task) {
            Some(known) if known.attempt == attempt => {
                known.agent = agent;
                let known = known.given;
                match (known, given) {
                    (Some(known), None) => {
                        // The answer was lost with a connection.
                        self.send(agent, TrackerMessage::RankGiven { task, attempt, given: known });
                    }
                    (None, Some(claimed)) => self.claim(task, agent, claimed)?,
                    _ => {}
                }
                return Ok(());
            }
            Some(_) => self.end_standing(task, &format!("try {attempt} of task {task} took its place")),
            None => {}
        }
        if self.living().any(|(_, slot)| slot.attempt.stage < attempt.stage) {
            self.supersede_stage(attempt.stage);
        }
        self.end_older_stages(attempt.stage);
        if let Some(over) = self.over.clone() {
            // That death was one too many.
            self.send(agent, TrackerMessage::Ended(over));
            return Ok(());
        }
        self.standings.tries.insert(task, NewestTry { attempt, is_gone: false });
        self.standings.came += 1;
        let (order, since) = (self.standings.came, self.clock.now);
        let leaves = self.standings.leaving.get(&task).is_some_and(|left| attempt <= *left);
        let standing = StandingTask {
            agent,
            attempt,
            given: None,
            order,
            since,
            leaves,
            had_rank: false,
            is_released: false,
            is_reported: false,
        };
        self.standings.tasks.insert(task, standing);
        match given {
            Some(claimed) => self.claim(task, agent, claimed),
            None => Ok(()),
        }
    }

    /// A task says that a former life of the tracker, or this one, gave it a rank. It keeps that unless it was lost.
    fn claim(&mut self, task: Task, agent: AgentId, claimed: RankGiven) -> Result<(), Error> {
        let RankGiven { rank, attempt } = claimed;
        let is_former = self.slot(rank).is_none() || self.standings.former.contains(&claimed);
        if self.config.elastic.is_some() && is_former {
            // Of a larger world that this life of the tracker knows nothing of, or that is no more,
            // or of the world that it has left: it asks again, and what it is given then, maybe the
            // same rank, has to be told from this.
            self.standings.former.insert(claimed);
            let newest = self.standings.given.entry(rank).or_insert(attempt);
            *newest = (*newest).max(attempt);
            return Ok(());
        }
        let other = self.standings.of_rank(rank).is_some_and(|(other, _)| other != task);
        let newest = self.standings.given.get(&rank).copied();
        let is_its_own = self.slot(rank).is_some_and(|slot| match slot.state {
            RankSlotState::Vacant => {
                !slot.was_here || attempt > slot.attempt || slot.may_repeat && attempt == slot.attempt
            }
            _ => slot.attempt == attempt && slot.agent == agent,
        });
        let counts = self.agents.get(&agent).is_some_and(AgentRecord::counts);
        if other || newest > Some(attempt) || !is_its_own || !counts {
            self.standings.tasks.remove(&task);
            let text = format!(
                "task {task} was given rank {rank} (its try {attempt}), which was lost since; the task has to be \
                 retried, and stands by then"
            );
            return Err(Error::new(Code::Fenced, text));
        }
        self.standings.given.insert(rank, attempt);
        if let Some(standing) = self.standings.tasks.get_mut(&task) {
            standing.given = Some(claimed);
        }
        Ok(())
    }

    /// All that an agent has, as of its registration: what it doesn't name has ended.
    pub(super) fn stand_again(&mut self, agent: AgentId, all: Vec<Standing>) {
        if self.former_life.takeover.is_some() {
            self.standings.later.retain(|(other, _)| *other != agent);
        }
        let is_named = |task: &Task, standing: &StandingTask| {
            all.iter().any(|named| (named.task, named.attempt) == (*task, standing.attempt))
        };
        let tasks = self.standings.tasks.iter();
        let ended = tasks.filter(|(task, standing)| standing.agent == agent && !is_named(task, standing));
        let ended: Vec<Task> = ended.map(|(task, _)| *task).collect();
        ended.into_iter().for_each(|task| self.remove_standing(task));
        for standing in all {
            self.former_life.comes(standing.task, standing.attempt);
            self.stand_by(agent, standing);
        }
    }

    pub(super) fn stand_down(&mut self, agent: AgentId, task: Task, attempt: Attempt) {
        self.standings.later.retain(|(other, later)| (*other, later.task, later.attempt) != (agent, task, attempt));
        let its = self.standings.tasks.get(&task).filter(|known| (known.agent, known.attempt) == (agent, attempt));
        if its.is_some() {
            self.remove_standing(task);
        }
    }

    /// This try takes no part any more, whether it had a rank or not.
    fn end_standing(&mut self, task: Task, reason: &str) {
        let Some(StandingTask { agent, attempt, given, .. }) = self.standings.tasks.get(&task).cloned() else { return };
        if let Some(given) = given.filter(|given| self.has_slot(*given)) {
            self.lose(given.rank, reason.into(), true);
        }
        self.remove_standing(task);
        let error = Error::new(Code::Fenced, format!("task {task} stands by no more: {reason}"));
        self.send(agent, TrackerMessage::StandByEnded { task, attempt, error });
    }

    /// The framework has started all tasks again: those of before stand by for nothing.
    fn end_older_stages(&mut self, stage: u32) {
        let older = self.standings.tasks.iter().filter(|(_, standing)| standing.attempt.stage < stage);
        let older: Vec<Task> = older.map(|(task, _)| *task).collect();
        for task in older {
            let reason = format!("the framework started all tasks again: superseded by stage attempt {stage}");
            self.end_standing(task, &reason);
        }
    }

    fn has_slot(&self, given: RankGiven) -> bool {
        self.living().any(|(rank, slot)| rank == given.rank && slot.attempt == given.attempt)
    }

    /// Whether this agent's task may join as this try of the rank.
    pub(super) fn check_giving(&self, agent: AgentId, rank: Rank, attempt: Attempt) -> Result<(), Error> {
        let given = Some(RankGiven { rank, attempt });
        let is_given = |standing: &StandingTask| standing.agent == agent && standing.given == given;
        if !self.gives_ranks() || self.standings.tasks.values().any(is_given) {
            return Ok(());
        }
        let text = format!(
            "rank {rank} was asked for (its try {attempt}) by a task that hasn't been given it, or was believed lost \
             since; the task has to be retried, and stands by then"
        );
        Err(Error::new(Code::Fenced, text))
    }

    /// The task that has a rank, or had it last, and its try: for the framework, which knows nothing else.
    pub(super) fn task_of(&self, rank: Rank) -> (Task, Attempt) {
        let attempt = self.slot(rank).map(|slot| slot.attempt).unwrap_or_default();
        match self.standings.of_try(rank, attempt) {
            Some((task, standing)) => (task, standing.attempt),
            None => (Task(rank.0), attempt),
        }
    }

    /// The number that the framework has started the task with which has this rank, or had it last.
    pub fn started_as(&self, rank: Rank) -> Rank {
        Rank(self.task_of(rank).0 .0)
    }

    /// The rank that this try of a task has in a slot.
    pub(super) fn rank_of(&self, task: Task, attempt: Attempt) -> Option<Rank> {
        if !self.gives_ranks() {
            return self.living().find(|(r, slot)| r.0 == task.0 && slot.attempt == attempt).map(|(rank, _)| rank);
        }
        let standing = self.standings.tasks.get(&task).filter(|standing| standing.attempt == attempt)?;
        standing.given.filter(|given| self.has_slot(*given)).map(|given| given.rank)
    }

    /// The framework says that a try has ended: whatever it says from now on, it is given no rank.
    pub(super) fn standing_is_gone(&mut self, task: Task, attempt: Attempt, reason: &str) {
        if !self.gives_ranks() {
            return;
        }
        let newest = self.standings.tries.entry(task).or_insert(NewestTry { attempt, is_gone: true });
        if newest.attempt <= attempt {
            *newest = NewestTry { attempt, is_gone: true };
        }
        if self.standings.tasks.get(&task).is_some_and(|standing| standing.attempt == attempt) {
            self.end_standing(task, &format!("the framework reports it ended: {reason}"));
        }
    }

    /// A rank was lost: the task that had it takes no part any more.
    pub(super) fn forget_giving(&mut self, rank: Rank) {
        let attempt = self.slot(rank).map(|slot| slot.attempt).unwrap_or_default();
        if let Some((task, _)) = self.standings.of_try(rank, attempt) {
            self.remove_standing(task);
        }
    }

    /// A task is gone. If none comes in its place its rank isn't waited for.
    fn remove_standing(&mut self, task: Task) {
        let Some(standing) = self.standings.tasks.remove(&task) else { return };
        let now = self.clock.now;
        if let Some(slot) = standing.given.and_then(|given| self.slot_mut(given.rank)) {
            slot.left_by = Some((task, standing.attempt));
            slot.is_unawaited |= standing.leaves;
            if slot.is_told {
                // Until now it was there, and had to join only.
                (slot.is_told, slot.waits_since, slot.vacant_since) = (false, now, Some(now));
                slot.last_seen = "its task is gone, which hadn't joined again after the world had changed".into();
            }
        }
    }

    /// The framework ends this try of a task, and all before it, and starts no other one in its place.
    pub(super) fn task_leaves(&mut self, task: Task, attempt: Attempt) {
        if self.standings.leaving.get(&task).is_some_and(|said| attempt <= *said) {
            // A launcher says it again over each connection.
            return;
        }
        self.standings.leaving.insert(task, attempt);
        if self.former_life.takeover.is_none() {
            self.stand_for_no_other(task, attempt);
        }
    }

    /// What follows for a try that is known, or was.
    fn stand_for_no_other(&mut self, task: Task, attempt: Attempt) {
        if let Some(standing) = self.standings.tasks.get_mut(&task) {
            standing.leaves |= standing.attempt <= attempt;
            return;
        }
        // Its death may have been heard first, by another connection.
        let is_its = |slot: &RankSlot| {
            let by_it = slot.left_by.is_some_and(|(by, tried)| by == task && tried <= attempt);
            by_it && matches!(slot.state, RankSlotState::Vacant)
        };
        self.slots.iter_mut().filter(|slot| is_its(slot)).for_each(|slot| slot.is_unawaited = true);
        if self.config.elastic.is_some() {
            let (executor, reason) = (String::new(), "it takes no part".into());
            self.event(Event::TaskReleased { index: task, attempt, executor, reason });
        }
    }

    /// Says of tasks that leave when they may end: when what only they have is with those that go on.
    pub(super) fn release(&mut self) {
        if self.config.elastic.is_none() || self.over.is_some() || self.former_life.takeover.is_some() {
            return;
        }
        let is_handed_over = self.slots.iter().all(|slot| slot.has_entered);
        let agents = &self.agents;
        // Of a rank that it had under a former life of the tracker no more is known than what its process has brought.
        let holds =
            |one: &StandingTask| one.had_rank || agents.get(&one.agent).is_some_and(|agent| !agent.held.is_empty());
        let may_end = |one: &StandingTask| {
            one.leaves && !one.is_released && one.given.is_none() && (is_handed_over || !holds(one))
        };
        let free = self.standings.tasks.iter_mut().filter(|(_, standing)| may_end(standing));
        let free: Vec<(Task, Attempt, AgentId, bool)> = free
            .map(|(task, standing)| {
                standing.is_released = true;
                (*task, standing.attempt, standing.agent, holds(standing))
            })
            .collect();
        for (index, attempt, agent, holds) in free {
            let reason = match holds {
                true => "all ranks of the world without it have what they go on from",
                false => "it has no rank",
            };
            let executor = self.executor_of(agent);
            self.event(Event::TaskReleased { index, attempt, executor, reason: reason.into() });
        }
    }

    /// The numbers of the tasks that take part; `None` while that isn't known, since the job is being taken over.
    pub fn tasks_there(&self) -> Option<BTreeSet<Rank>> {
        self.former_life.takeover.is_none().then(|| self.standings.tasks.keys().map(|task| Rank(task.0)).collect())
    }

    /// An agent is lost: what its tasks were given and haven't joined as is free. Those that stand by are given
    /// nothing before it speaks again; where it may be frozen, the framework is asked to replace all of them.
    pub(super) fn standings_lost(&mut self, agent: AgentId, executor: &str, reason: &str, kill: bool) {
        let here = self.standings.tasks.iter().filter(|(_, standing)| standing.agent == agent);
        let here: Vec<(Task, Attempt, bool)> =
            here.map(|(task, standing)| (*task, standing.attempt, standing.given.is_some())).collect();
        for (task, attempt, has_rank) in here {
            if has_rank {
                // It has not joined as that: one that has was lost before.
                self.remove_standing(task);
            }
            if kill {
                let (executor, reason) = (executor.to_string(), reason.to_string());
                self.outputs.push_back(TrackerOutput::Kill { task, attempt, executor, reason });
            }
        }
    }

    /// What was brought while the job was being taken over, the newest try of each task first.
    pub(super) fn stand_after_takeover(&mut self) {
        let mut later = core::mem::take(&mut self.standings.later);
        later.sort_by_key(|(_, standing)| {
            (core::cmp::Reverse(standing.attempt), core::cmp::Reverse(standing.given.map(|given| given.attempt)))
        });
        for (agent, standing) in later {
            self.stand_by(agent, standing);
        }
        for (task, attempt) in self.standings.leaving.clone() {
            self.stand_for_no_other(task, attempt);
        }
    }

    /// Whether any task waits for the job to be taken over.
    pub(super) fn some_stand_later(&self) -> bool {
        !self.standings.later.is_empty()
    }

    /// Whether any task that was given no rank is there.
    pub(super) fn some_stand_by(&self) -> bool {
        self.standings.tasks.values().any(|standing| standing.given.is_none())
    }

    /// Gives open ranks to tasks that stand by.
    pub(super) fn give_ranks(&mut self) {
        if !self.gives_ranks() || self.over.is_some() || self.former_life.takeover.is_some() {
            return;
        }
        let waiting: Vec<Task> = self.waiting().into_iter().map(|(task, _)| task).collect();
        if waiting.is_empty() {
            return self.report_spares();
        }
        let open: Vec<OpenRank> = self.open_ranks();
        let given = self.standings.tasks.iter().filter(|(_, standing)| standing.given.is_some());
        let have_ranks: BTreeSet<Task> = given.map(|(task, _)| *task).collect();
        for giving in decide(&open, &waiting, &have_ranks) {
            self.give(giving);
        }
        self.report_spares();
    }

    /// The tasks that could be given a rank at once, the one that came first first.
    pub(super) fn waiting(&self) -> Vec<(Task, &StandingTask)> {
        let ready = |standing: &StandingTask| {
            let agent = self.agents.get(&standing.agent);
            let is_there = agent.is_some_and(|agent| agent.counts() && agent.link.is_some());
            standing.given.is_none() && !standing.leaves && is_there
        };
        let all = self.standings.tasks.iter().filter(|(_, standing)| ready(standing));
        let mut all: Vec<(Task, &StandingTask)> = all.map(|(task, standing)| (*task, standing)).collect();
        all.sort_unstable_by_key(|(_, standing)| standing.order);
        all
    }

    fn open_ranks(&self) -> Vec<OpenRank> {
        // All may be open at once: no look through all tasks for each rank.
        let given: BTreeSet<Rank> =
            self.standings.tasks.values().filter_map(|standing| Some(standing.given?.rank)).collect();
        let all = (0..).map(Rank).zip(&self.slots);
        let open = all.filter(|(rank, slot)| {
            let own = self.standings.tasks.get(&Task(rank.0));
            let comes_back = own.is_some_and(|own| own.given.is_none() && !own.leaves);
            // One that has the end by a former life isn't waited for, unless it comes.
            slot.state == RankSlotState::Vacant && !given.contains(rank) && (comes_back || !self.knew_the_end(slot))
        });
        let open = open.map(|(rank, slot)| {
            let own = Task(rank.0);
            // One that leaves takes no rank any more.
            let has_ended = self.standings.tries.get(&own).is_some_and(|own| own.is_gone);
            let leaves = self.standings.tasks.get(&own).is_some_and(|own| own.leaves);
            let was_taken = slot.incarnation.is_some();
            let because = match (was_taken, leaves, has_ended) {
                (false, true, _) => "its own task leaves, and had not joined".into(),
                (false, false, true) => "its own task ended before it had joined".into(),
                _ => slot.last_seen.clone(),
            };
            OpenRank { rank, is_left: was_taken || has_ended || leaves, because }
        });
        open.collect()
    }

    pub(super) fn give(&mut self, Giving { rank, task, is_spare, reason }: Giving) {
        let Some(standing) = self.standings.tasks.get(&task) else { return };
        let (agent, attempt) = (standing.agent, standing.attempt);
        let given = RankGiven { rank, attempt: self.next_try(rank, task, attempt) };
        self.standings.given.insert(rank, given.attempt);
        if let Some(standing) = self.standings.tasks.get_mut(&task) {
            standing.given = Some(given);
        }
        self.send(agent, TrackerMessage::RankGiven { task, attempt, given });
        if is_spare {
            let executor = self.executor_of(agent);
            let vacant_millis =
                self.slot(rank).and_then(|slot| slot.vacant_since).map_or(0, |at| self.clock.now.since(at));
            let spares = self.spares_ready();
            self.event(Event::SpareTook { rank, index: task, attempt, executor, vacant_millis, spares, reason });
        }
    }

    /// The try of a rank that comes next: greater than all that are known, by its number of starts too. A rank's own
    /// task goes by its own number at least, so that a rank that was never given away is the framework's first try.
    pub(super) fn next_try(&self, rank: Rank, task: Task, attempt: Attempt) -> Attempt {
        let slot = self.slot(rank);
        let here = slot.filter(|slot| slot.was_here).map(|slot| slot.attempt);
        let known = here.max(self.standings.given.get(&rank).copied());
        let starts = slot.and_then(|slot| slot.incarnation).map_or(0, |last| last.number.saturating_add(1));
        let own = if task.0 == rank.0 { attempt.task } else { 1 };
        let stage = known.map_or(0, |known| known.stage).max(attempt.stage);
        let next = known.filter(|known| known.stage == stage).map_or(0, |known| known.task.saturating_add(1));
        Attempt { stage, task: next.max(starts).max(own) }
    }

    /// A task that wasn't given a rank at once stands by from now on.
    fn report_spares(&mut self) {
        let is_new = |standing: &StandingTask| standing.given.is_none() && !standing.leaves && !standing.is_reported;
        let new = self.standings.tasks.iter_mut().filter(|(_, standing)| is_new(standing));
        let new: Vec<(Task, Attempt, AgentId)> = new
            .map(|(task, standing)| {
                standing.is_reported = true;
                (*task, standing.attempt, standing.agent)
            })
            .collect();
        if new.is_empty() {
            return;
        }
        let spares = self.spares_ready();
        for (task, attempt, agent) in new {
            let executor = self.executor_of(agent);
            self.event(Event::SpareStandsBy { index: task, attempt, executor, spares });
        }
    }

    /// How many tasks stand by and could be given a rank at once.
    fn spares_ready(&self) -> u32 {
        self.waiting().len() as u32
    }
}
