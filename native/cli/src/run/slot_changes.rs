//! What the launcher does when slots come and go: it starts processes in those that are open, and ends those that have
//! none any more.

use super::child::signal_name;
use super::ending::Ending;
use super::launcher::{Due, Run, State};
use super::say;
use super::slots::Listing;
use rejoin_agent::protocol::ids::{Attempt, Task};
use rejoin_agent::protocol::tracker::TrackerInput;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often a launcher that has slots without a number asks for one.
pub(super) const ASK: Duration = Duration::from_secs(1);

impl Run<'_> {
    /// A listing has come.
    pub(super) fn listed(&mut self, listing: Result<Listing, String>) {
        let (Some(discovery), None) = (&self.options.discovery, &self.ending) else { return };
        match listing {
            // What it said last holds.
            Err(text) => self.growth.notes.failed(discovery, &text),
            Ok(listing) => {
                self.growth.list(listing);
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

    /// Ends the processes that have no slot any more.
    fn evict(&mut self) {
        for number in self.growth.excess(&self.there()) {
            say(&format!("the slot of the process that was started as rank {number} is gone; it is ended"));
            self.part_with(number);
        }
        self.judge_left();
    }

    /// The slots of this launcher go, all of them.
    pub(super) fn give_up_slots(&mut self, signal: i32) {
        self.parting = Some(signal);
        let numbers: Vec<u32> = self.there();
        say(&format!(
            "caught {}: the {} processes here are ended as soon as the others have what they need of them, after {} s \
             at the latest",
            signal_name(signal),
            numbers.len(),
            self.options.limits.grace.as_secs_f64()
        ));
        numbers.into_iter().for_each(|number| self.part_with(number));
        self.judge_left();
    }

    /// A process is ended as soon as the world goes on without it: at the end of the version, when others have what
    /// only it has.
    fn part_with(&mut self, number: u32) {
        self.growth.hosts.leave(number);
        // No replacement is waited for when it is gone.
        let newest = self.first_attempt(number) + self.restarts.of(number);
        let attempt = Attempt { stage: 0, task: newest };
        self.tracker.notify(TrackerInput::TaskLeaves { task: Task(number), attempt });
        match self.running(number).map(|child| child.attempt) {
            Some(attempt) => {
                self.growth.leaving.insert(number);
                self.after(self.options.limits.grace, Due::Dismiss { rank: number, attempt });
            }
            None => {
                self.timers.retain(|(_, due)| !matches!(due, Due::Restart { rank, .. } if *rank == number));
                self.ranks.insert(number, State::GivenUp);
            }
        }
    }

    /// The tracker says that nothing is lost with this process: a later one of its number isn't meant.
    pub(super) fn released(&mut self, number: u32, newest: u32) {
        let attempt = self.running(number).map(|child| child.attempt).filter(|attempt| *attempt <= newest);
        if let Some(attempt) = attempt.filter(|_| self.growth.leaving.contains(&number)) {
            self.timers.retain(|(_, due)| !matches!(due, Due::Dismiss { rank, .. } if *rank == number));
            self.dismiss(number, attempt);
        }
    }

    /// Asks a process to end, which may have something to put in order.
    pub(super) fn dismiss(&mut self, number: u32, attempt: u32) {
        if self.is_ended() {
            // It ends by itself.
            return;
        }
        if let Some(child) = self.running(number).filter(|child| child.attempt == attempt) {
            child.signal(Signal::TERM);
            self.after(self.options.limits.grace, Due::Evict { rank: number, attempt });
        }
    }

    /// Starts processes in the slots that are open: those that wait for one, then those of the lowest numbers that are
    /// free.
    pub(super) fn fill(&mut self) {
        let has_ended = self.ranks.values().any(|state| matches!(state, State::Done { .. })) || self.is_ended();
        if self.ending.is_some() || self.parting.is_some() || has_ended {
            return;
        }
        let waiting = self.ranks.iter().filter_map(|(number, state)| match state {
            State::WithoutSlot { attempt } => Some((*number, *attempt)),
            _ => None,
        });
        let waiting: Vec<(u32, u32)> = waiting.collect();
        for (number, attempt) in waiting.into_iter().take(self.open()) {
            self.start(number, attempt);
        }
        let may_grow = self.options.discovery.is_some() || self.options.hosts.is_some();
        if !may_grow || self.options.elastic.is_none() {
            return;
        }
        let comes_back = self.options.discovery.is_some();
        let is_free = |number: &u32| {
            let state = self.ranks.get(number);
            let is_open = state.is_none() || comes_back && matches!(state, Some(State::GivenUp));
            is_open && !self.growth.leaving.contains(number)
        };
        let free: Vec<u32> = (0..self.options.most_ranks()).filter(is_free).take(self.open()).collect();
        for number in free {
            if self.ending.is_some() {
                return;
            }
            let attempt = match self.ranks.contains_key(&number) {
                true => self.first_attempt(number) + self.restarts.comes_back(number),
                false => 0,
            };
            say(&format!("there is a slot for a process more, which is started as rank {number}"));
            self.start(number, attempt);
        }
    }

    /// The attempt that this launcher began a number with: a later one than 0 where others had started it before.
    pub(super) fn first_attempt(&self, number: u32) -> u32 {
        self.attempts.get(&number).copied().unwrap_or_default()
    }

    fn open(&self) -> usize {
        self.growth.slots.open(self.there().len() as u32) as usize
    }

    /// A process of a host has failed. One that has failed too often is excluded.
    pub(super) fn count_failure(&mut self, number: u32) {
        let now = self.began.elapsed();
        let Some((host, exclusion)) = self.growth.failed(number, now.as_millis() as u64) else { return };
        let failures = self.options.exclusion.map_or(0, |rule| rule.failures);
        let until = match exclusion.back_at {
            Some(at) => {
                let pause = Duration::from_millis(at).saturating_sub(now);
                self.after(pause, Due::Readmit);
                format!("for {:.1} s", pause.as_secs_f64())
            }
            None => "for good".into(),
        };
        say(&format!("host {host} is excluded {until}: {failures} processes have failed there (--failures-per-host)"));
        self.growth.relist();
    }

    /// The time of some hosts is over.
    pub(super) fn readmit(&mut self) {
        for host in self.growth.come_back(self.began.elapsed().as_millis() as u64) {
            say(&format!("host {host} is used again"));
        }
        self.fill();
    }

    /// Ends a run of which no process is left.
    pub(super) fn judge_left(&mut self) {
        if let Some(signal) = self.parting {
            if !self.ranks.values().any(|state| matches!(state, State::Running(_))) {
                self.end(Ending::Signalled(signal));
            }
            return;
        }
        let waits = |state: &State| matches!(state, State::WithoutSlot { .. });
        let is_none = |state: &State| waits(state) || matches!(state, State::GivenUp);
        let comes = self.options.discovery.is_some() || self.growth.exclusions.any_comes_back();
        if self.ranks.values().any(waits) && self.ranks.values().all(is_none) && !comes {
            let reason = "no host is left: all are excluded (--failures-per-host), and none comes back; let them by \
                          --exclude-cooldown, or find out why processes fail there";
            return self.end(Ending::RankFailed(reason.into()));
        }
        if !self.ranks.is_empty() && self.ranks.values().all(|state| matches!(state, State::GivenUp)) {
            self.end(Ending::RankFailed("no rank is left, and none is started again".into()));
        }
    }

    /// How many slots of a job that is joined have no process yet, for lack of a number.
    pub(super) fn unnumbered(&self) -> u32 {
        let slots = self.options.joining.as_ref().map_or(0, |joining| joining.slots);
        slots.saturating_sub(self.ranks.len() as u32)
    }

    /// Asks for numbers for them, until they have some or the job is over.
    pub(super) fn ask_for_numbers(&mut self) {
        if self.unnumbered() == 0 || self.ending.is_some() || self.parting.is_some() {
            return;
        }
        match self.tracker.outcome() {
            Some(Err(error)) => return self.end(Ending::JobFailed(error.to_string())),
            Some(Ok(())) => return,
            None => self.tracker.ask_for_numbers(),
        }
        self.after(ASK, Due::AskForNumbers);
    }

    /// Another launcher has started this rank meanwhile: an attempt before that is refused.
    fn begin_no_earlier(&mut self, number: u32, attempt: u32) {
        // Who has started this launcher counts them, if one has.
        if self.options.order().is_some() {
            return;
        }
        let next = self.first_attempt(number) + self.restarts.of(number) + 1;
        if let Some(first) = self.attempts.get_mut(&number) {
            *first += attempt.saturating_sub(next);
        }
    }

    /// The tracker has given them.
    pub(super) fn numbered(&mut self, numbers: BTreeMap<u32, u32>) {
        for (number, attempt) in numbers {
            let is_going_on = self.ending.is_none() && self.parting.is_none();
            if self.ranks.contains_key(&number) {
                self.begin_no_earlier(number, attempt);
            } else if is_going_on && self.unnumbered() > 0 {
                self.attempts.insert(number, attempt);
                self.start(number, attempt);
            }
        }
    }
}
