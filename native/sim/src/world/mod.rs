//! A job in a seeded world: production's tracker, agents and ranks ([`crate::ranks`]), in virtual
//! time, with a framework that starts tasks again, and a network that delays, breaks and parts.
//!
//! Checked are all promises, each by its file in [`crate::invariants`]. A run has two times: faults
//! on, and faults off. After that everything must heal, or must have ended with an error that is
//! allowed. The seed alone decides everything: `rejoin simulate --family hook --seed 17` tells a
//! run again.

mod ending;
mod faults;
mod framework;
mod history;
mod network;
mod processes;
mod trackers;

use crate::invariants::{deadlines, no_lost_work::NoLostWork, Monotony, Violation};
use crate::ranks::{Defect, End, Frame, Input, Job, Memory, Plane, Process, Program, Try};
use crate::scenario::{Family, Fault, Scenario, FAULTS_END_MILLIS};
use fastrand::Rng;
use framework::Framework;
use network::Network;
use rejoin_protocol::error::Error;
use rejoin_protocol::ids::{Incarnation, Lane, Phase, Rank};
use rejoin_protocol::message::{AgentMessage, Timing, TrackerMessage};
use rejoin_protocol::tracker::{Input as TrackerInput, JobResult};
use std::collections::{BTreeMap, BTreeSet};
use trackers::Trackers;

const TIMING: Timing =
    Timing { heartbeat_millis: 200, lost_after_millis: 1500, lease_millis: 60_000, members_millis: 40_000 };
/// A job that runs longer than this after the last fault is stuck.
const HEAL_MILLIS: u64 = 200_000;

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// How the job ended.
    pub end: String,
    /// Virtual time, in milliseconds.
    pub millis: u64,
    /// Things that happened.
    pub steps: u64,
    /// Ranks that were lost.
    pub losses: u32,
    /// Views that were made.
    pub views: u32,
    /// Lives of the tracker.
    pub lives: u32,
    /// Whether all ranks agreed on the hook.
    pub hooked: bool,
    /// Results that were computed.
    pub computed: u32,
    /// Those of them that went through shared memory.
    pub shared: u32,
    /// Results that were handed out from a log.
    pub replayed: u32,
}

#[derive(Debug)]
enum SimEvent {
    ToTracker { link: u64, message: AgentMessage },
    TrackerHears { epoch: u32, input: TrackerInput },
    TrackerWakes { epoch: u32 },
    TrackerBegins,
    CutOff { epoch: u32 },
    LosesTracker { process: u32, epoch: u32 },
    FrameworkReports(TrackerInput),
    Hears { process: u32, link: u64, message: TrackerMessage },
    LinkDies { process: u32, link: u64 },
    Connects { process: u32 },
    Wakes { process: u32 },
    Goes { process: u32, id: Try },
    Moves { process: u32, id: Try },
    Joins { process: u32, id: Try },
    Fetches { process: u32, id: Try },
    Looks { process: u32, id: Try },
    LinkBroke { own: End, other: End, lane: Lane, link: u64 },
    Arrives { from: End, to: End, link: u64, frame: Frame },
    ExecutorStarts,
    Starts { rank: u32 },
    EndsWell { process: u32, id: Try },
    Killed { process: u32 },
    Thaws { process: u32 },
    Injected(Fault),
}

/// What a task is about to do.
#[derive(Default)]
struct Pace {
    goes: bool,
    moves: bool,
    fetches: bool,
    looks: bool,
    /// The incarnation that was started here last.
    started: Option<Incarnation>,
    /// Since when all was settled when it entered its version.
    settled: Option<u64>,
    waits_since: Option<u64>,
}

struct There {
    process: Process,
    alive: bool,
    frozen: bool,
    deferred: Vec<SimEvent>,
    tracker_link: Option<u64>,
    wakes: Option<u64>,
    paces: BTreeMap<Try, Pace>,
    /// Since when all is settled.
    settled: Option<u64>,
}

impl There {
    fn pace(&mut self, id: Try) -> &mut Pace {
        self.paces.entry(id).or_default()
    }

    fn ends(&self) -> impl Iterator<Item = End> + '_ {
        self.process.tasks().iter().filter_map(|task| task.end())
    }
}

pub(crate) struct World {
    scenario: Scenario,
    now: u64,
    sequence: u64,
    queue: BTreeMap<(u64, u64), SimEvent>,
    trackers: Trackers,
    processes: BTreeMap<u32, There>,
    network: Network,
    memory: Memory,
    framework: Framework,
    /// The tracker dies when the job ends, and comes back after so long.
    dies_at_end: Option<u64>,
    /// How long ranks that are slow pause between two calls.
    slow: BTreeMap<Rank, u64>,
    fired: BTreeSet<&'static str>,
    /// A rank hasn't repeated itself, and somebody could know.
    lied: bool,
    outcome: Option<Result<JobResult, Error>>,
    over_at: u64,
    monotony: Monotony,
    no_lost_work: NoLostWork,
    violation: Option<Violation>,
    tally: Tally,
    verbose: bool,
}

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

impl SimEvent {
    /// The process that it happens to.
    fn process(&self) -> Option<u32> {
        match self {
            SimEvent::Hears { process, .. }
            | SimEvent::LinkDies { process, .. }
            | SimEvent::Connects { process }
            | SimEvent::Wakes { process }
            | SimEvent::Goes { process, .. }
            | SimEvent::Moves { process, .. }
            | SimEvent::Joins { process, .. }
            | SimEvent::Fetches { process, .. }
            | SimEvent::Looks { process, .. }
            | SimEvent::EndsWell { process, .. } => Some(*process),
            SimEvent::LinkBroke { own: End { process, .. }, .. } => Some(*process),
            SimEvent::Arrives { to, .. } => Some(to.process),
            _ => None,
        }
    }
}

impl World {
    fn new(scenario: Scenario, verbose: bool) -> World {
        let world = scenario.job.program.world;
        let no_lost_work = NoLostWork::new(world, scenario.job.locals);
        let no_lost_work = match scenario.start.origin() {
            Some(origin) => no_lost_work.from(origin.checkpoint.version),
            None => no_lost_work.begun_alone(scenario.job.program.begins_alone()),
        };
        World {
            now: 0,
            sequence: 0,
            queue: BTreeMap::new(),
            trackers: Trackers::default(),
            processes: BTreeMap::new(),
            network: Network::default(),
            memory: Memory::default(),
            framework: Framework::new(world),
            dies_at_end: None,
            slow: BTreeMap::new(),
            fired: BTreeSet::new(),
            lied: false,
            outcome: None,
            over_at: 0,
            monotony: Monotony::default(),
            no_lost_work,
            violation: None,
            tally: Tally::default(),
            verbose,
            scenario,
        }
    }

    /// The first life of the tracker, and the first tasks, which start within so many milliseconds.
    fn begin(&mut self, within: u64) {
        for _ in 0..self.scenario.executors.map_or(0, |executors| executors.count) {
            self.at(0, SimEvent::ExecutorStarts);
        }
        for rank in 0..self.scenario.job.program.world {
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

    fn at(&mut self, at: u64, sim_event: SimEvent) {
        self.sequence += 1;
        self.queue.insert((at.max(self.now), self.sequence), sim_event);
    }

    fn after(&mut self, millis: u64, sim_event: SimEvent) {
        self.at(self.now + millis, sim_event);
    }

    fn draw(&mut self, among: impl std::ops::RangeBounds<u64>) -> u64 {
        self.scenario.rng.u64(among)
    }

    fn delay(&mut self) -> u64 {
        let most = self.scenario.delay_millis;
        // Mostly quick, sometimes slow.
        let most = if self.draw(0..4) == 0 { most } else { most.min(2) };
        self.draw(0..=most)
    }

    fn say(&self, text: impl FnOnce() -> String) {
        if self.verbose {
            println!("{:>8} ms  {}", self.now, text());
        }
    }

    fn violate(&mut self, found: Result<(), Violation>) {
        if let (Err(violation), None) = (found, &self.violation) {
            self.violation = Some(violation);
        }
    }

    fn describe(&self) -> String {
        let all = self.processes.iter().filter(|(_, there)| there.alive);
        let all = all.map(|(id, there)| format!("[process {id} frozen {} {}]", there.frozen, there.process.describe()));
        format!("at {} ms: {} {}", self.now, all.collect::<Vec<_>>().join(" "), self.framework.describe())
    }

    /// Somebody who lives could tell that a rank says other things in this phase than before.
    fn could_know(&self, rank: Rank, phase: Phase) -> bool {
        let living = self.processes.values().filter(|there| there.alive && !there.frozen);
        living.flat_map(|there| there.process.tasks()).any(|task| task.id.rank != rank && task.knows(rank, phase))
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

    fn paces(&mut self, process: u32, id: Try, change: impl FnOnce(&mut Pace)) {
        if let Some(there) = self.processes.get_mut(&process) {
            change(there.pace(id));
        }
    }
}
