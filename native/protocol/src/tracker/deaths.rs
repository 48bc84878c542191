//! Deaths of a rank, and how many of them the framework retries.

use super::slots::Death;
use super::Tracker;
use crate::error::{Code, Error};
use crate::ids::{Attempt, Millis, Rank, Task};
use crate::words::{place, times};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

impl Tracker {
    /// The framework says that a task has ended, maybe one that was declared lost before, and whether that counts.
    pub(super) fn task_gone(&mut self, task: Task, attempt: Attempt, reason: &str, counts: bool) {
        if self.over.is_some() {
            return;
        }
        if let Some(rank) = self.rank_of(task, attempt) {
            self.lose(rank, format!("the framework reports its task ended: {reason}"), counts);
        }
        self.standing_is_gone(task, attempt, reason);
        let is_its = |death: &Death| death.task == (task, attempt);
        let mut ranks = Vec::new();
        for (rank, slot) in (0..).map(Rank).zip(&mut self.slots).filter(|(_, slot)| slot.deaths.iter().any(is_its)) {
            if counts {
                slot.deaths.iter_mut().filter(|death| is_its(death)).for_each(|death| death.is_counted = true);
                ranks.push(rank);
            } else {
                slot.deaths.retain(|death| !is_its(death));
            }
        }
        for rank in ranks {
            self.end_after_too_many(rank);
        }
    }

    /// Ends the job if the framework will not start the rank again.
    pub(super) fn end_after_too_many(&mut self, rank: Rank) {
        let counted = self.slot(rank).map_or(0, |slot| slot.deaths.iter().filter(|death| death.is_counted).count());
        if self.config.deaths.ends_job && self.over.is_none() && counted as u32 >= self.config.deaths.deaths {
            let error = self.too_many_deaths(rank, counted);
            self.fail(error);
        }
    }

    fn too_many_deaths(&self, rank: Rank, counted: usize) -> Error {
        let mut all: Vec<(Millis, String)> = Vec::new();
        for (index, slot) in self.slots.iter().enumerate() {
            for Death { at, incarnation, executor, reason, .. } in &slot.deaths {
                let text = format!(
                    "rank {index} incarnation {incarnation} on {} at {}: {reason}",
                    place(executor),
                    self.clock.text(*at)
                );
                all.push((*at, text));
            }
        }
        all.sort();
        let texts: Vec<String> = all.into_iter().map(|(_, text)| text).collect();
        let limit = &self.config.deaths;
        Error::new(
            Code::Unrecoverable,
            format!(
                "rank {rank} died {}, and the framework gives up at {}; raise {} to survive more. All \
                 deaths, by the time since the job began: {}",
                times(counted as u32),
                limit.deaths,
                limit.setting,
                texts.join("; ")
            ),
        )
    }
}
