//! What the launcher does when slots come and go: it starts processes in those that are open, and ends those that have
//! none any more.

use super::ending::Ending;
use super::launcher::{Due, Run, State};
use super::slots::Listing;
use rejoin_agent::protocol::ids::Task;
use rejoin_agent::protocol::tracker::TrackerInput;
use rustix::process::Signal;

impl Run<'_> {
    /// The script has answered.
    pub(super) fn listed(&mut self, listing: Result<Listing, String>) {
        let (Some(script), None) = (&self.options.discovery, &self.ending) else { return };
        match listing {
            // What it said last holds.
            Err(text) => self.growth.notes.failed(script, &text, &self.template.sink),
            Ok(Listing { here: 0, elsewhere }) => {
                let text = format!("it named no slot of this machine, but the host {}", elsewhere.join(", "));
                self.growth.notes.failed(script, &text, &self.template.sink);
            }
            Ok(Listing { here, elsewhere }) => {
                self.growth.notes.answered(elsewhere, &self.template.sink);
                self.growth.slots.list(here);
                self.evict();
                self.fill();
            }
        }
    }

    /// The processes that have a slot.
    fn there(&self) -> Vec<u32> {
        let has_slot = |state: &State| matches!(state, State::Running(_) | State::Waiting);
        let all = self.ranks.iter().filter(|(_, state)| has_slot(state)).map(|(number, _)| *number);
        all.filter(|number| !self.growth.leaving.contains(number)).collect()
    }

    /// Ends the processes that have no slot any more, those of the highest numbers.
    fn evict(&mut self) {
        let there = self.there();
        let excess = self.growth.slots.excess(there.len() as u32);
        for number in there.into_iter().rev().take(excess as usize) {
            self.say(&format!("the slot of the process that was started as rank {number} is gone; it is ended"));
            match self.running(number) {
                Some(child) => {
                    // No replacement is waited for when it is gone.
                    self.tracker.notify(TrackerInput::TaskLeaves { task: Task(number) });
                    // It may have something to put in order.
                    child.signal(Signal::TERM);
                    let attempt = child.attempt;
                    self.growth.leaving.insert(number);
                    self.after(self.options.grace, Due::Evict { rank: number, attempt });
                }
                None => {
                    self.timers.retain(|(_, due)| !matches!(due, Due::Restart { rank, .. } if *rank == number));
                    self.ranks.insert(number, State::GivenUp);
                }
            }
        }
        self.judge_left();
    }

    /// Starts processes in the slots that are open, those of the lowest numbers that are free.
    pub(super) fn fill(&mut self) {
        let has_ended = self.ranks.values().any(|state| matches!(state, State::Done)) || self.is_ended();
        if self.options.discovery.is_none() || self.ending.is_some() || has_ended {
            return;
        }
        let open = self.growth.slots.open(self.there().len() as u32);
        let is_free = |number: &u32| {
            !self.growth.leaving.contains(number) && matches!(self.ranks.get(number), None | Some(State::GivenUp))
        };
        let free: Vec<u32> = (0..self.options.most_ranks()).filter(is_free).take(open as usize).collect();
        for number in free {
            if self.ending.is_some() {
                return;
            }
            let attempt = match self.ranks.contains_key(&number) {
                true => self.attempts.get(&number).copied().unwrap_or_default() + self.restarts.comes_back(number),
                false => 0,
            };
            self.say(&format!("there is a slot for a process more, which is started as rank {number}"));
            self.start(number, attempt);
        }
    }

    /// Ends a run of which no process is left.
    pub(super) fn judge_left(&mut self) {
        if self.ranks.values().all(|state| matches!(state, State::GivenUp)) {
            self.end(Ending::RankFailed("no rank is left, and none is started again".into()));
        }
    }
}
