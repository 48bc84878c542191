//! A job in a seeded world: production's tracker, agents and ranks ([`crate::ranks`]), in virtual
//! time, with a framework that starts tasks again, and a network that delays, breaks and parts.
//!
//! Checked are all promises, each by its file in [`crate::invariants`]. A run has two times: faults
//! on, and faults off. After that everything must heal, or must have ended with an error that is
//! allowed. The seed alone decides everything: `rejoin-sim --family hook --seed 17` prints a
//! run again.

mod changing;
mod connections;
mod ending;
mod faults;
mod framework;
mod history;
mod network;
mod processes;
mod sim_event;
mod sim_process;
mod state;
mod tally;
mod tasks;
mod tracker_turns;
mod trackers;

pub use changing::Changing;
pub use tally::Tally;

use crate::invariants::{deadlines, Violation};
use crate::ranks::{Defect, Input, Job, Plane, Program};
use crate::scenario::{Family, Scenario, FAULTS_END_MILLIS};
use fastrand::Rng;
use rejoin_protocol::message::TrackerMessage;
use sim_event::SimEvent;
use state::World;

/// A job that runs longer than this after the last fault is stuck.
const HEAL_MILLIS: u64 = 200_000;

/// Runs a seed of a family, with a defect in the driver or none.
///
/// # Errors
/// The first promise that was broken.
pub fn run(family: Family, seed: u64, defect: Option<Defect>, verbose: bool) -> Result<Tally, Violation> {
    let mut scenario = Scenario::of(family, seed);
    scenario.job.defect = defect;
    if verbose {
        println!("{scenario:#?}");
    }
    run_scenario(scenario, verbose)
}

/// Runs a scenario.
///
/// # Errors
/// The first promise that was broken.
pub fn run_scenario(scenario: Scenario, verbose: bool) -> Result<Tally, Violation> {
    let mut this = World::new(scenario, verbose);
    for (at, fault) in this.scenario.faults.clone() {
        this.at(at, SimEvent::Injected(fault));
    }
    this.begin(300);
    this.go()
}

/// The rendezvous of a job of so many ranks, each in a process of its own, up to the moment in
/// which the last one has its start: all that production's tracker and agents compute for it.
///
/// # Errors
/// The first promise that was broken.
pub fn rendezvous(world: u32) -> Result<Tally, Violation> {
    let job = Job::new(Program::new(world, &[], &[vec![None]]), Plane::Collectives, None);
    let mut this = World::new(Scenario::calm(job, 2, Rng::with_seed(u64::from(world))), false);
    this.begin(100);
    let mut started = 0;
    while started < world {
        let Some(((at, _), sim_event)) = this.queue.pop_first() else {
            return Err(crate::invariants::progress::ran_dry(&this.describe()));
        };
        this.now = at;
        this.tally.steps += 1;
        let starts = |this: &World, process: u32| this.processes.get(&process).map_or(0, |there| there.ends().count());
        let whose = sim_event.process();
        let before = whose.map_or(0, |process| starts(&this, process));
        this.happen(sim_event);
        if let Some(violation) = this.violation.take() {
            return Err(violation);
        }
        started += (whose.map_or(0, |process| starts(&this, process)) - before) as u32;
        crate::invariants::progress::check(at, HEAL_MILLIS, || this.describe())?;
    }
    this.tally.millis = this.now;
    Ok(this.tally)
}

impl World {
    /// The first life of the tracker, and the first tasks, which start within so many milliseconds.
    fn begin(&mut self, within: u64) {
        for _ in 0..self.scenario.executors.map_or(0, |executors| executors.count) {
            self.at(0, SimEvent::ExecutorStarts);
        }
        for rank in 0..self.scenario.first_tasks() {
            let at = self.draw(0..within);
            self.at(at, SimEvent::Starts { rank });
        }
        self.tracker_begins();
    }

    fn go(mut self) -> Result<Tally, Violation> {
        while let Some(((at, _), sim_event)) = self.queue.pop_first() {
            self.now = at;
            self.tally.steps += 1;
            self.happen(sim_event);
            if let Some(violation) = self.violation.take() {
                return Err(violation);
            }
            if self.is_over() {
                break;
            }
            crate::invariants::progress::check(at, FAULTS_END_MILLIS + HEAL_MILLIS, || self.describe())?;
            deadlines::ended(self.outcome.is_some(), at - self.over_at.min(at), || self.describe())?;
        }
        let Some(outcome) = self.outcome.take() else {
            return Err(crate::invariants::progress::ran_dry(&self.describe()));
        };
        self.tally.end = match &outcome {
            Ok(_) => "model".into(),
            Err(error) => error.code.name().into(),
        };
        self.say(|| format!("the end: {:?}", outcome.as_ref().map(|result| result.digest)));
        self.tally.millis = self.now;
        Ok(self.tally)
    }

    fn happen(&mut self, sim_event: SimEvent) {
        if let Some(process) = sim_event.process() {
            let Some(there) = self.processes.get_mut(&process).filter(|there| there.alive) else { return };
            if there.frozen {
                there.deferred.push(sim_event);
                return;
            }
        }
        match sim_event {
            SimEvent::ToTracker { link, .. } => {
                if let Some(epoch) = self.trackers.links.get(&link).map(|link| link.epoch) {
                    self.tracker_event(epoch, sim_event);
                }
            }
            SimEvent::TrackerHears { epoch, .. } | SimEvent::TrackerWakes { epoch } => {
                self.tracker_event(epoch, sim_event);
            }
            SimEvent::TrackerBegins => self.tracker_comes_back(),
            SimEvent::CutOff { epoch } => self.cut_off(epoch),
            SimEvent::LosesTracker { process, epoch } => self.loses_tracker(process, epoch),
            SimEvent::FrameworkReports(input) => self.framework_reports(&input),
            SimEvent::Hears { process, link, message } => {
                let there = self.processes.get_mut(&process);
                if let Some(there) = there.filter(|there| there.tracker_link == Some(link)) {
                    match &message {
                        TrackerMessage::Settled { .. } => there.settled = Some(self.now),
                        TrackerMessage::View(_) => there.settled = None,
                        _ => {}
                    }
                    self.input(process, Input::Tracker(message));
                }
            }
            SimEvent::LinkDies { process, link } => {
                let there = self.processes.get_mut(&process);
                if let Some(there) = there.filter(|there| there.tracker_link == Some(link)) {
                    there.tracker_link = None;
                    self.input(process, Input::TrackerDown);
                }
            }
            SimEvent::Connects { process } => self.connect(process),
            SimEvent::Wakes { process } => {
                if let Some(there) = self.processes.get_mut(&process) {
                    there.wakes = None;
                }
                self.input(process, Input::Wake);
            }
            SimEvent::Goes { process, id } => {
                self.paces(process, id, |pace| pace.goes = false);
                self.input(process, Input::Go(id));
            }
            SimEvent::Moves { process, id } => {
                self.paces(process, id, |pace| pace.moves = false);
                self.input(process, Input::Moves(id));
            }
            SimEvent::Joins { process, id } => self.input(process, Input::Join(id)),
            SimEvent::Fetches { process, id } => self.fetch(process, id),
            SimEvent::Looks { process, id } => self.look(process, id),
            SimEvent::Copies { process, to, own } => self.copy(process, to, own),
            SimEvent::LinkBroke { own, other, lane, link } => self.link_broke(own, other, lane, link),
            SimEvent::Arrives { from, to, link, frame } => self.arrives(from, to, link, frame),
            SimEvent::ExecutorStarts => drop(self.new_process()),
            SimEvent::Starts { rank } => self.start(rank),
            SimEvent::EndsWell { process, id } => self.end_well(process, id),
            SimEvent::Killed { process } => self.kill(process),
            SimEvent::Thaws { process } => self.thaw(process),
            SimEvent::Injected(fault) => self.inject(fault),
        }
    }
}
