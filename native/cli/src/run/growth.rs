//! What the launcher does when slots come and go: it starts processes in those that are open, and ends those that have
//! none any more.

use super::discovery::{refusal, Listing};
use super::launcher::{Due, Run, State};
use super::output::Sink;
use super::slots::Slots;
use super::{LauncherEvent, Options};
use crossbeam::channel::Receiver;
use rejoin_agent::protocol::error::{Code, Error};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

/// The slots of a run, and what a user was told of their discovery.
pub struct Growth {
    slots: Slots,
    /// The numbers of processes that were asked to end, since their slots are gone.
    leaving: BTreeSet<u32>,
    notes: Notes,
}

/// What was said already.
#[derive(Default)]
struct Notes {
    /// The script fails.
    fails: bool,
    refused: BTreeSet<String>,
}

/// How a wait for the first slots ended.
pub enum First {
    /// They are there.
    There(Growth),
    /// The launcher got this signal.
    Signalled(i32),
}

impl First {
    /// Waits until there are slots for all ranks that the job begins with.
    ///
    /// # Errors
    /// `MembersMissing` when they don't come in time; `BadArgument` when another host is named.
    pub fn wait(options: &Options, sink: &Sink, receiver: &Receiver<LauncherEvent>) -> Result<First, Error> {
        let (world, most) = (options.world, options.most_ranks());
        let Some(script) = &options.discovery else {
            return Ok(First::There(Growth::new(Slots::new(most, world))));
        };
        let (until, mut notes) = (Instant::now() + options.members, Notes::default());
        let mut seen = String::from("it has not answered");
        while let Ok(event) = receiver.recv_deadline(until) {
            match event {
                LauncherEvent::Signal(signal) => return Ok(First::Signalled(signal)),
                LauncherEvent::Listed(Ok(Listing { elsewhere, .. })) if !elsewhere.is_empty() => {
                    return Err(Error::new(Code::BadArgument, refusal(&elsewhere[0])));
                }
                LauncherEvent::Listed(Ok(Listing { here, .. })) if here >= world => {
                    return Ok(First::There(Growth { notes, ..Growth::new(Slots::new(most, here)) }));
                }
                LauncherEvent::Listed(Ok(Listing { here, .. })) => {
                    notes.fails = false;
                    seen = format!("it named {here}");
                }
                LauncherEvent::Listed(Err(text)) => {
                    notes.failed(script, &text, sink);
                    seen = text;
                }
                _ => {}
            }
        }
        Err(Error::new(
            Code::MembersMissing,
            format!(
                "--discovery {} was to name slots for {world} ranks within {} s (--members); {seen}. Begin with fewer \
                 ranks (-n), or wait longer",
                script.display(),
                options.members.as_secs_f64()
            ),
        ))
    }
}

impl Notes {
    fn failed(&mut self, script: &Path, text: &str, sink: &Sink) {
        if !std::mem::replace(&mut self.fails, true) {
            sink.say(&format!("--discovery {}: {text}; it is asked again every second", script.display()));
        }
    }
}

impl Growth {
    fn new(slots: Slots) -> Self {
        Growth { slots, leaving: BTreeSet::new(), notes: Notes::default() }
    }

    /// A process failed, and is not started again.
    pub fn fail(&mut self) {
        self.slots.fail();
    }

    /// Whether this process was asked to end, since its slot is gone. It is not any more, then.
    pub fn has_left(&mut self, number: u32) -> bool {
        self.leaving.remove(&number)
    }
}

impl Run<'_> {
    /// The script has answered.
    pub(super) fn listed(&mut self, listing: Result<Listing, String>) {
        let (Some(script), None) = (&self.options.discovery, &self.ending) else { return };
        match listing {
            // What it said last holds.
            Err(text) => self.growth.notes.failed(script, &text, &self.template.sink),
            Ok(Listing { here, elsewhere }) => {
                self.growth.notes.fails = false;
                for host in elsewhere {
                    if self.growth.notes.refused.insert(host.clone()) {
                        self.say(&refusal(&host));
                    }
                }
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

    /// Ends the processes that have no slot any more, those that came last first.
    fn evict(&mut self) {
        let there = self.there();
        let excess = self.growth.slots.excess(there.len() as u32);
        for number in there.into_iter().rev().take(excess as usize) {
            self.say(&format!("the slot of the process that was started as rank {number} is gone; it is ended"));
            match self.running(number) {
                Some(child) => {
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
            self.end(super::status::Ending::RankFailed("no rank is left, and none is started again".into()));
        }
    }
}
