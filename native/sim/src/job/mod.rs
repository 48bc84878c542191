//! A job with collectives in a seeded world: production's tracker, agents and ranks ([`crate::ranks`]), in virtual time, with
//! a framework that starts tasks again, and a network that delays, breaks and parts.
//!
//! Checked are all promises, each by its file in [`crate::invariants`]. A run has two times: faults on, and faults off. After
//! that everything must heal, or must have ended with an error that is allowed. The seed alone decides everything:
//! `rejoin simulate --family job --seed 17` tells a run again.

mod ending;
mod faults;
mod framework;
mod history;
mod network;
mod processes;
mod trackers;

use crate::invariants::{deadlines, no_lost_work::NoLostWork, Monotony, Violation};
use crate::ranks::{Defect, Frame, Input, Job, Memory, Process, Program, Who};
use fastrand::Rng;
use faults::Fault;
use framework::Framework;
use history::Resumed;
use network::Network;
use rejoin_protocol::error::Error;
use rejoin_protocol::ids::{Attempt, Incarnation, Lineage, Rank, Version};
use rejoin_protocol::message::{AgentMessage, Timing, TrackerMessage};
use rejoin_protocol::tracker::{Input as TrackerInput, JobResult};
use std::collections::{BTreeMap, BTreeSet};
use trackers::Trackers;

const TIMING: Timing =
    Timing { heartbeat_millis: 200, lost_after_millis: 1500, lease_millis: 60_000, members_millis: 40_000 };
/// Faults stop at this time; then everything has to heal.
const FAULTS_END_MILLIS: u64 = 6_000;
/// A job that runs longer than this after the last fault is stuck.
const HEAL_MILLIS: u64 = 200_000;

/// What a run came to.
#[derive(Debug, Default)]
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
    /// Results that were computed.
    pub computed: u32,
    /// Those of them that went through shared memory.
    pub shared: u32,
    /// Results that were handed out from a log.
    pub replayed: u32,
}

#[derive(Debug)]
enum Happening {
    ToTracker { link: u64, message: AgentMessage },
    TrackerHears { epoch: u32, input: TrackerInput },
    TrackerWakes { epoch: u32 },
    TrackerBegins,
    CutOff { epoch: u32 },
    LosesTracker { process: u32, epoch: u32 },
    FrameworkTells(TrackerInput),
    Hears { process: u32, link: u64, message: TrackerMessage },
    LinkDies { process: u32, link: u64 },
    Connects { process: u32 },
    Wakes { process: u32 },
    Goes { process: u32 },
    Joins { process: u32 },
    Fetches { process: u32 },
    Looks { process: u32 },
    LinkBroke { process: u32, other: u32, link: u64 },
    Arrives { from: u32, to: u32, link: u64, frame: Frame },
    Starts { rank: u32 },
    EndsWell { process: u32 },
    Killed { process: u32 },
    Thaws { process: u32 },
    Strikes(Fault),
}

struct There {
    process: Process,
    alive: bool,
    frozen: bool,
    deferred: Vec<Happening>,
    tracker_link: Option<u64>,
    wakes: Option<u64>,
    goes: bool,
    fetches: bool,
    looks: bool,
    /// Checkpoints that it took or fetched.
    stored: BTreeSet<(Lineage, Version)>,
    /// The incarnation that was started here last.
    started: Option<Incarnation>,
    settled: bool,
    waits_since: Option<u64>,
}

pub(crate) struct World {
    rng: Rng,
    now: u64,
    sequence: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    job: Job,
    trackers: Trackers,
    processes: BTreeMap<u32, There>,
    network: Network,
    memory: Memory,
    /// Processes share memory with those of their host: draws where each of them is, and whether it can open what others share.
    places: Option<Rng>,
    framework: Framework,
    resumed: Option<Resumed>,
    /// Processes end with their tasks, as under `rejoin run`; otherwise they stay, as executors do.
    exits: bool,
    /// The tracker dies when the job ends, and comes back after so long.
    dies_at_end: Option<u64>,
    delay_millis: u64,
    /// How long ranks that are slow pause between two calls.
    slow: BTreeMap<Rank, u64>,
    struck: BTreeSet<&'static str>,
    outcome: Option<Result<JobResult, Error>>,
    over_at: u64,
    monotony: Monotony,
    no_lost_work: NoLostWork,
    violation: Option<Violation>,
    tally: Tally,
    verbose: bool,
}

/// Runs a seed, with a defect in the driver or none, with faults or without.
///
/// # Errors
/// The first promise that was broken.
pub fn run(seed: u64, defect: Option<Defect>, faulty: bool, verbose: bool) -> Result<Tally, Violation> {
    let mut rng = Rng::with_seed(seed ^ 0x0b5e_55ed);
    let world = rng.u32(1..=6);
    let mut program = Program::draw(&mut rng, world, 6);
    program.promises = true;
    if faulty && world > 1 && rng.u32(0..20) == 0 {
        program.differs = Some(Rank(rng.u32(0..world)));
    }
    let delay_millis = if rng.u32(0..4) == 0 { rng.u64(20..150) } else { rng.u64(1..10) };
    let (resumed, exits) = (Resumed::draw(&mut rng, &program), rng.bool());
    let mut this = World::new(rng, Job { program, defect }, delay_millis, verbose);
    this.resume(resumed, exits);
    // Drawn apart, so that seeds without shared memory are the same runs as before there was any.
    this.places = places(seed);
    this.job.program.by_hosts = Rng::with_seed(seed ^ 0x0b05_7a11).bool();
    this.say(|| {
        format!(
            "{:?}, goes on from {:?}, processes end with their tasks: {exits}, share memory: {}",
            this.job.program,
            this.resumed.as_ref().map(Resumed::at),
            this.places.is_some()
        )
    });
    if faulty {
        for (at, fault) in faults::draw(&mut this.rng, FAULTS_END_MILLIS) {
            this.at(at, Happening::Strikes(fault));
        }
    }
    this.begin(300);
    this.go()
}

/// Whether a seed's processes share memory with those of their host.
pub fn shares_memory(seed: u64) -> bool {
    places(seed).is_some()
}

/// What draws where they are, if they share memory.
fn places(seed: u64) -> Option<Rng> {
    let mut places = Rng::with_seed(seed ^ 0x00b0_a4d5);
    (places.u32(0..3) == 0).then_some(places)
}

/// The rendezvous of a job of so many ranks, each in a process of its own, up to the moment in which the last one has its start:
/// all that production's tracker and agents compute for it.
///
/// # Errors
/// The first promise that was broken.
pub fn rendezvous(world: u32) -> Result<Tally, Violation> {
    let job = Job { program: Program::new(world, &[], &[vec![None]]), defect: None };
    let mut this = World::new(Rng::with_seed(u64::from(world)), job, 2, false);
    this.begin(100);
    let mut started = 0;
    while started < this.job.program.world {
        let Some(((at, _), happening)) = this.queue.pop_first() else {
            return Err(crate::invariants::progress::ran_dry(&this.describe()));
        };
        this.now = at;
        this.tally.steps += 1;
        let whose = happening.process();
        let before = whose.and_then(|process| this.processes.get(&process)?.started);
        this.happen(happening);
        if let Some(violation) = this.violation.take() {
            return Err(violation);
        }
        let after = whose.and_then(|process| this.processes.get(&process)?.started);
        started += u32::from(before.is_none() && after.is_some());
        crate::invariants::progress::check(at, HEAL_MILLIS, || this.describe())?;
    }
    this.tally.millis = this.now;
    Ok(this.tally)
}

impl Happening {
    /// The process that it happens to.
    fn process(&self) -> Option<u32> {
        match self {
            Happening::Hears { process, .. }
            | Happening::LinkDies { process, .. }
            | Happening::Connects { process }
            | Happening::Wakes { process }
            | Happening::Goes { process }
            | Happening::Joins { process }
            | Happening::Fetches { process }
            | Happening::Looks { process }
            | Happening::EndsWell { process }
            | Happening::LinkBroke { process, .. } => Some(*process),
            Happening::Arrives { to, .. } => Some(*to),
            _ => None,
        }
    }
}

impl World {
    fn new(rng: Rng, job: Job, delay_millis: u64, verbose: bool) -> World {
        let world = job.program.world;
        World {
            now: 0,
            sequence: 0,
            queue: BTreeMap::new(),
            trackers: Trackers::default(),
            processes: BTreeMap::new(),
            network: Network::default(),
            memory: Memory::default(),
            places: None,
            framework: Framework::new(world),
            resumed: None,
            exits: false,
            dies_at_end: None,
            delay_millis,
            slow: BTreeMap::new(),
            struck: BTreeSet::new(),
            outcome: None,
            over_at: 0,
            monotony: Monotony::default(),
            no_lost_work: NoLostWork::new(world, false).begun_alone(job.program.begins_alone()),
            violation: None,
            tally: Tally::default(),
            verbose,
            job,
            rng,
        }
    }

    fn resume(&mut self, resumed: Option<Resumed>, exits: bool) {
        (self.resumed, self.exits) = (resumed, exits);
        if let Some(resumed) = &self.resumed {
            let nothing = NoLostWork::new(self.job.program.world, false);
            self.no_lost_work = nothing.from(resumed.checkpoint.version);
        }
    }

    /// The first life of the tracker, and the first tasks, which start within so many milliseconds.
    fn begin(&mut self, within: u64) {
        for rank in 0..self.job.program.world {
            let at = self.rng.u64(0..within);
            self.at(at, Happening::Starts { rank });
        }
        self.tracker_begins();
    }

    fn go(mut self) -> Result<Tally, Violation> {
        while let Some(((at, _), happening)) = self.queue.pop_first() {
            self.now = at;
            self.tally.steps += 1;
            self.happen(happening);
            if let Some(violation) = self.violation.take() {
                return Err(violation);
            }
            if self.is_over() {
                break;
            }
            crate::invariants::progress::check(at, FAULTS_END_MILLIS + HEAL_MILLIS, || self.describe())?;
            deadlines::told(self.outcome.is_some(), at - self.over_at.min(at), || self.describe())?;
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

    fn at(&mut self, at: u64, happening: Happening) {
        self.sequence += 1;
        self.queue.insert((at.max(self.now), self.sequence), happening);
    }

    fn after(&mut self, millis: u64, happening: Happening) {
        self.at(self.now + millis, happening);
    }

    fn delay(&mut self) -> u64 {
        let most = self.delay_millis;
        // Mostly quick, sometimes slow.
        let most = if self.rng.u32(0..4) == 0 { most } else { most.min(2) };
        self.rng.u64(0..=most)
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

    fn happen(&mut self, happening: Happening) {
        if let Some(process) = happening.process() {
            let Some(there) = self.processes.get_mut(&process).filter(|there| there.alive) else { return };
            if there.frozen {
                there.deferred.push(happening);
                return;
            }
        }
        match happening {
            Happening::ToTracker { link, .. } => {
                if let Some(epoch) = self.trackers.links.get(&link).map(|link| link.epoch) {
                    self.tracker_happening(epoch, happening);
                }
            }
            Happening::TrackerHears { epoch, .. } | Happening::TrackerWakes { epoch } => {
                self.tracker_happening(epoch, happening);
            }
            Happening::TrackerBegins => self.tracker_comes_back(),
            Happening::CutOff { epoch } => self.cut_off(epoch),
            Happening::LosesTracker { process, epoch } => self.loses_tracker(process, epoch),
            Happening::FrameworkTells(input) => self.framework_tells(&input),
            Happening::Hears { process, link, message } => {
                let there = self.processes.get_mut(&process);
                if let Some(there) = there.filter(|there| there.tracker_link == Some(link)) {
                    match &message {
                        TrackerMessage::Settled { .. } => there.settled = true,
                        TrackerMessage::View(_) => there.settled = false,
                        _ => {}
                    }
                    self.input(process, Input::Tracker(message));
                }
            }
            Happening::LinkDies { process, link } => {
                let there = self.processes.get_mut(&process);
                if let Some(there) = there.filter(|there| there.tracker_link == Some(link)) {
                    there.tracker_link = None;
                    self.input(process, Input::TrackerDown);
                }
            }
            Happening::Connects { process } => self.connect(process),
            Happening::Wakes { process } => {
                if let Some(there) = self.processes.get_mut(&process) {
                    there.wakes = None;
                }
                self.input(process, Input::Wake);
            }
            Happening::Goes { process } => {
                if let Some(there) = self.processes.get_mut(&process) {
                    there.goes = false;
                }
                self.input(process, Input::Go);
            }
            Happening::Joins { process } => self.input(process, Input::Join),
            Happening::Fetches { process } => self.fetch(process),
            Happening::Looks { process } => self.look(process),
            Happening::LinkBroke { process, other, link } => self.link_broke(process, other, link),
            Happening::Arrives { from, to, link, frame } => {
                if self.network.arrived(from, to, link, frame) {
                    self.read(to);
                }
            }
            Happening::Starts { rank } => self.start(rank),
            Happening::EndsWell { process } => self.end_well(process),
            Happening::Killed { process } => self.kill(process),
            Happening::Thaws { process } => self.thaw(process),
            Happening::Strikes(fault) => self.strike(fault),
        }
    }
}

fn attempt(task: u32) -> Attempt {
    Attempt { stage: 0, task }
}

fn who(process: u32, rank: u32, task: u32) -> Who {
    Who { process, rank: Rank(rank), attempt: attempt(task) }
}
