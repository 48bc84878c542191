//! The tracker in the simulated world.

use super::{Happening, World, TIMING};
use rejoin_protocol::error::Error;
use rejoin_protocol::event::Event;
use rejoin_protocol::ids::Millis;
use rejoin_protocol::tracker::{Input, JobResult, Output, Tracker};

impl World {
    /// Its process dies: all connections to it end, and what comes for it meanwhile is nobody's.
    pub(super) fn kill_tracker(&mut self, millis: u64) {
        if self.outcome.is_some() || self.tracker_is_down {
            return;
        }
        self.tracker_is_down = true;
        self.tracker_deferred.clear();
        let links: Vec<u64> = self.tracker_links.keys().copied().collect();
        for link in links {
            self.break_tracker_link(link, "the tracker died");
        }
        self.after(millis, Happening::TrackerComesBack);
    }

    /// In its next life, which knows nothing.
    pub(super) fn tracker_comes_back(&mut self) {
        self.tracker_is_down = false;
        self.tracker_stalled_until = 0;
        self.tracker_links.clear();
        self.tracker_epoch += 1;
        let config = super::tracker_config(&self.scenario, self.tracker_epoch);
        self.tracker = Tracker::new(config, Millis(self.now)).expect("the scenario's configuration is right");
        self.say(|| format!("life {} of the tracker begins", self.tracker_epoch));
        self.wake_tracker();
    }

    pub(super) fn tracker_happening(&mut self, happening: Happening) {
        if self.tracker_is_down {
            return;
        }
        if self.now < self.tracker_stalled_until {
            if !matches!(happening, Happening::TrackerWakes) {
                self.tracker_deferred.push(happening);
            }
            return;
        }
        // What came in during a stall is read before silence is judged.
        let deferred = std::mem::take(&mut self.tracker_deferred);
        for earlier in deferred {
            self.tracker_takes(earlier);
        }
        self.tracker_takes(happening);
    }

    pub(super) fn stall_tracker(&mut self, millis: u64) {
        self.tracker_stalled_until = self.now + millis;
        self.at(self.tracker_stalled_until, Happening::TrackerWakes);
    }

    fn tracker_takes(&mut self, happening: Happening) {
        let input = match happening {
            Happening::ToTracker { link, message } => {
                if !self.tracker_links.get(&link).is_some_and(|link| link.tracker_side) {
                    return;
                }
                Input::Message { link, message }
            }
            Happening::TrackerLinkDies { link } => {
                let Some(there) = self.tracker_links.get_mut(&link).filter(|link| link.tracker_side) else { return };
                there.tracker_side = false;
                Input::Closed { link, reason: "connection reset".into() }
            }
            Happening::TrackerHears(input) => input,
            _ => {
                if self.tracker.wake_at().is_none_or(|at| at.0 > self.now) {
                    return self.wake_tracker();
                }
                Input::Wake
            }
        };
        self.tracker_handles(input);
    }

    pub(super) fn tracker_handles(&mut self, input: Input) {
        self.inputs += 1;
        self.tracker.handle(input, Millis(self.now));
        while let Some(output) = self.tracker.poll() {
            self.tracker_wants(output);
        }
        self.wake_tracker();
    }

    fn wake_tracker(&mut self) {
        if let Some(at) = self.tracker.wake_at() {
            if self.tracker_wake <= self.now || at.0 < self.tracker_wake {
                self.tracker_wake = at.0;
                self.at(at.0, Happening::TrackerWakes);
            }
        }
    }

    fn tracker_wants(&mut self, output: Output) {
        match output {
            Output::Send { link, message } => self.send_to_host(link, message),
            Output::Close { link } => self.tracker_closes(link),
            Output::Probe { agent, .. } => {
                // Refused only if nobody listens there any more; a frozen process' kernel still accepts.
                let there = self.processes.values().any(|process| process.agent == agent && process.alive);
                let delay = self.delay();
                self.after(delay, Happening::TrackerHears(Input::Probed { agent, gone: !there }));
            }
            Output::Kill { executor, rank, reason, .. } => {
                self.say(|| format!("the tracker wants executor {executor} killed for rank {rank}: {reason}"));
                if let Ok(process) = executor.parse() {
                    let delay = self.rng.u64(0..2000);
                    self.after(delay, Happening::KillWanted { process });
                }
            }
            Output::Event(event) => self.tracker_tells(event),
            Output::Over(outcome) => self.job_is_over(outcome),
        }
    }

    fn tracker_tells(&mut self, event: Event) {
        self.say(|| format!("{event:?}"));
        let found = self.invariants.event(&event);
        self.violate(found);
        self.events.push((self.now, event));
    }

    fn job_is_over(&mut self, outcome: Result<JobResult, Error>) {
        if let Err(error) = &outcome {
            let holders = self.processes.iter().filter(|(_, process)| {
                process.alive && process.frozen_until.is_none() && process.tracker_link.is_some()
            });
            let held = holders.flat_map(|(id, process)| process.store.keys().map(move |name| (*id, *name)));
            let found = self.invariants.failed(&self.scenario, error, held.collect());
            self.violate(found);
        }
        let found = self.invariants.over_once(self.outcome.is_some());
        self.violate(found);
        self.outcome = Some(outcome);
        self.after(TIMING.heartbeat_millis, Happening::Scheduling);
    }
}
