//! A job with collectives in a seeded world: production's tracker, agents and ranks ([`crate::ranks`]), in virtual time, with
//! a framework that starts tasks again, and a network that delays, breaks and parts.
//!
//! Checked are all promises, each by its file in [`crate::invariants`]. A run has two times: faults on, and faults off. After
//! that everything must heal, or must have ended with an error that is allowed. The seed alone decides everything:
//! `rejoin simulate --family job --seed 17` tells a run again.

mod faults;
mod framework;
mod network;

use crate::invariants::{bounded, deadlines, no_lost_work::NoLostWork, Monotony, Violation};
use crate::ranks::{Defect, Frame, Input, Job, Output, Process, Program, Who};
use fastrand::Rng;
use faults::Fault;
use framework::Framework;
use network::Network;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::event::Event;
use rejoin_protocol::ids::{Attempt, Checkpoint, Lineage, Millis, Rank, Version};
use rejoin_protocol::message::{AgentMessage, Timing, TrackerMessage};
use rejoin_protocol::tracker::{Input as TrackerInput, JobResult, Output as TrackerOutput, Tracker, TrackerConfig};
use std::collections::{BTreeMap, BTreeSet};

const TIMING: Timing =
    Timing { heartbeat_millis: 200, lost_after_millis: 1500, lease_millis: 60_000, members_millis: 300_000 };
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
    /// Results that were computed, and handed out from a log.
    pub computed: u32,
    /// Results that were handed out from a log.
    pub replayed: u32,
}

#[derive(Debug)]
enum Happening {
    ToTracker { link: u64, message: AgentMessage },
    TrackerHears(TrackerInput),
    TrackerWakes,
    Hears { process: u32, link: u64, message: TrackerMessage },
    LinkDies { process: u32, link: u64 },
    Connects { process: u32 },
    Wakes { process: u32 },
    Goes { process: u32 },
    Joins { process: u32 },
    Fetches { process: u32 },
    LinkBroke { process: u32, other: u32, link: u64 },
    Arrives { from: u32, to: u32, link: u64, frame: Frame },
    Starts { rank: u32 },
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
    /// Checkpoints that it took or fetched.
    stored: BTreeSet<(Lineage, Version)>,
    settled: bool,
    waits_since: Option<u64>,
}

pub(crate) struct World {
    rng: Rng,
    now: u64,
    sequence: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    job: Job,
    tracker: Tracker,
    tracker_wake: u64,
    tracker_stalled_until: u64,
    tracker_deferred: Vec<Happening>,
    /// Process and whether the tracker's side stands.
    tracker_links: BTreeMap<u64, (u32, bool)>,
    processes: BTreeMap<u32, There>,
    network: Network,
    framework: Framework,
    delay_millis: u64,
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
    if faulty && world > 1 && rng.u32(0..20) == 0 {
        program.differs = Some(Rank(rng.u32(0..world)));
    }
    let config = TrackerConfig {
        world,
        epoch: 1,
        timing: TIMING,
        deaths_limit: 1000,
        deaths_setting: "the limit".into(),
        faults: Vec::new(),
    };
    let delay_millis = if rng.u32(0..4) == 0 { rng.u64(20..150) } else { rng.u64(1..10) };
    let mut this = World {
        tracker: Tracker::new(config, Millis(0)).expect("this configuration is right"),
        now: 0,
        sequence: 0,
        queue: BTreeMap::new(),
        tracker_wake: 0,
        tracker_stalled_until: 0,
        tracker_deferred: Vec::new(),
        tracker_links: BTreeMap::new(),
        processes: BTreeMap::new(),
        network: Network::default(),
        framework: Framework::new(world),
        delay_millis,
        struck: BTreeSet::new(),
        outcome: None,
        over_at: 0,
        monotony: Monotony::default(),
        no_lost_work: NoLostWork::new(false),
        violation: None,
        tally: Tally::default(),
        verbose,
        job: Job { program, defect },
        rng,
    };
    this.say(|| format!("{:?}", this.job.program));
    if faulty {
        for (at, fault) in faults::draw(&mut this.rng, FAULTS_END_MILLIS) {
            this.at(at, Happening::Strikes(fault));
        }
    }
    for rank in 0..world {
        let at = this.rng.u64(0..300);
        this.at(at, Happening::Starts { rank });
    }
    this.at(TIMING.heartbeat_millis, Happening::TrackerWakes);
    this.go()
}

impl World {
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

    fn is_over(&self) -> bool {
        self.outcome.is_some()
            && self.processes.values().filter(|there| there.alive).all(|there| {
                there.process.told().is_some() || there.process.freed().is_some() || there.process.is_closed()
            })
            && (self.framework.is_quiet() || matches!(self.outcome, Some(Err(_))))
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
        let whose = match &happening {
            Happening::Hears { process, .. }
            | Happening::LinkDies { process, .. }
            | Happening::Connects { process }
            | Happening::Wakes { process }
            | Happening::Goes { process }
            | Happening::Joins { process }
            | Happening::Fetches { process }
            | Happening::LinkBroke { process, .. } => Some(*process),
            Happening::Arrives { to, .. } => Some(*to),
            _ => None,
        };
        if let Some(process) = whose {
            let Some(there) = self.processes.get_mut(&process).filter(|there| there.alive) else { return };
            if there.frozen {
                there.deferred.push(happening);
                return;
            }
        }
        match happening {
            Happening::ToTracker { .. } | Happening::TrackerHears(_) | Happening::TrackerWakes => {
                self.tracker_happening(happening);
            }
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
            Happening::LinkBroke { process, other, link } => self.link_broke(process, other, link),
            Happening::Arrives { from, to, link, frame } => {
                if self.network.arrived(from, to, link, frame) {
                    self.read(to);
                }
            }
            Happening::Starts { rank } => self.start(rank),
            Happening::Killed { process } => self.kill(process),
            Happening::Thaws { process } => self.thaw(process),
            Happening::Strikes(fault) => self.strike(fault),
        }
    }

    fn input(&mut self, process: u32, input: Input) {
        let Some(there) = self.processes.get_mut(&process).filter(|there| there.alive) else { return };
        let outputs = there.process.handle(input, Millis(self.now), &self.job);
        self.carry_out(process, outputs);
        self.read(process);
    }

    /// Takes what lies on the links of a process, as far as it wants it.
    fn read(&mut self, process: u32) {
        loop {
            let mut took = false;
            for from in self.network.senders(process) {
                let Some(rank) = self.processes.get(&from).map(|there| there.process.who().rank) else { continue };
                let Some(frame) = self.network.first(from, process).cloned() else { continue };
                let Some(there) = self.processes.get_mut(&process).filter(|there| there.alive && !there.frozen) else {
                    return;
                };
                let read = there.process.reads((from, rank), &frame, Millis(self.now), &self.job);
                if let Some(outputs) = read {
                    self.network.took(from, process);
                    self.carry_out(process, outputs);
                    took = true;
                }
            }
            if !took {
                return self.follow_up(process);
            }
        }
    }

    /// What a process wants to be woken for.
    fn follow_up(&mut self, process: u32) {
        let pause = self.rng.u64(0..30);
        let Some(there) = self.processes.get_mut(&process).filter(|there| there.alive) else { return };
        let mut wanted = Vec::new();
        if let Some(at) = there.process.host().wake_at().map(|at| at.0.max(self.now)) {
            if there.wakes.is_none_or(|known| at < known) {
                there.wakes = Some(at);
                wanted.push((at, Happening::Wakes { process }));
            }
        }
        if there.process.is_idle() && !there.goes {
            there.goes = true;
            wanted.push((self.now + pause, Happening::Goes { process }));
        }
        if (there.process.wanted().is_some() || !there.process.wishes().is_empty()) && !there.fetches {
            there.fetches = true;
            wanted.push((self.now + pause % 7, Happening::Fetches { process }));
        }
        there.waits_since = match there.process.is_in_call() {
            true => there.waits_since.or(Some(self.now)),
            false => None,
        };
        let found = deadlines::call(there.waits_since, self.now, FAULTS_END_MILLIS, || there.process.describe());
        for (at, happening) in wanted {
            self.at(at, happening);
        }
        self.violate(found);
    }

    fn carry_out(&mut self, process: u32, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Connect => {
                    let pause = self.rng.u64(1..100);
                    self.after(pause, Happening::Connects { process });
                }
                Output::ToTracker(message) => self.send_to_tracker(process, message),
                Output::Frame { to, frame } => self.send_frame(process, to, frame),
                Output::Unlink(other) => self.unlink(process, other),
                Output::Freed(incarnation, error) => self.freed(process, incarnation, &error),
                Output::Over(_) => self.framework.done(process),
                Output::Closed => self.say(|| format!("the agent of process {process} is over")),
                Output::Replayed => self.tally.replayed += 1,
                Output::Computed => self.tally.computed += 1,
                Output::Started(start) => {
                    let Some(there) = self.processes.get_mut(&process) else { continue };
                    let rank = there.process.who().rank;
                    if let Some(checkpoint) = start.checkpoint {
                        there.stored.insert((checkpoint.lineage, checkpoint.version));
                    }
                    let found = self.no_lost_work.started(rank, &start);
                    self.violate(found);
                }
                Output::Entered(lineage, version) => {
                    let Some(there) = self.processes.get_mut(&process) else { continue };
                    there.stored.insert((lineage, version));
                    let kept = there.process.versions_kept();
                    let found = bounded::versions(kept, there.settled, || there.process.describe());
                    let who = (there.process.who().rank, there.process.incarnation());
                    self.violate(found);
                    let found = self.monotony.entered(who, lineage, version);
                    self.violate(found);
                }
                Output::View(generation) => {
                    let agent = rejoin_protocol::ids::AgentId(u64::from(process));
                    let found = self.monotony.view(agent, generation);
                    self.violate(found);
                }
                Output::Violated(violation) => self.violate(Err(violation)),
            }
        }
    }

    /// What it wants is brought from the first who lives, can be reached and has it.
    fn fetch(&mut self, process: u32) {
        let Some(there) = self.processes.get_mut(&process) else { return };
        there.fetches = false;
        let there = &self.processes[&process];
        if let Some((checkpoint, holders)) = there.process.wanted().cloned() {
            let has =
                |holder: &u32| self.reachable(process, *holder).is_some_and(|there| there.host().holds(&checkpoint));
            let found = holders.iter().any(has);
            return self.input(process, if found { Input::FetchedCheckpoint } else { Input::NoCheckpoint });
        }
        let count = there.process.wishes().len();
        if count == 0 {
            return;
        }
        let index = self.rng.usize(..count);
        let wish = self.processes[&process].process.wishes()[index].clone();
        let entry = wish.holders.iter().find_map(|(at, _)| {
            self.reachable(process, at.agent.0 as u32)?.entry(wish.lineage, wish.phase, wish.from, &self.job)
        });
        let newest = self.processes[&process].process.attempt();
        match entry {
            Some(entry) => self.input(process, Input::FetchedResult(index, entry)),
            None if newest > Some(wish.generation) => self.input(process, Input::WishIsOver(index)),
            // A holder that is gone makes a new plan; until then it is tried again.
            None => {
                if let Some(there) = self.processes.get_mut(&process) {
                    there.fetches = true;
                }
                self.after(50, Happening::Fetches { process });
            }
        }
    }

    fn reachable(&self, from: u32, holder: u32) -> Option<&Process> {
        let there = self.processes.get(&holder).filter(|there| there.alive && !there.frozen)?;
        (!self.network.is_parted(from, holder, self.now)).then_some(&there.process)
    }

    fn tracker_happening(&mut self, happening: Happening) {
        if self.now < self.tracker_stalled_until {
            if !matches!(happening, Happening::TrackerWakes) {
                self.tracker_deferred.push(happening);
            }
            return;
        }
        // What came in during a stall is read before silence is judged.
        for earlier in std::mem::take(&mut self.tracker_deferred) {
            self.tracker_takes(earlier);
        }
        self.tracker_takes(happening);
    }

    fn tracker_takes(&mut self, happening: Happening) {
        let input = match happening {
            Happening::ToTracker { link, message } => {
                if !self.tracker_links.get(&link).is_some_and(|(_, stands)| *stands) {
                    return;
                }
                TrackerInput::Message { link, message }
            }
            Happening::TrackerHears(TrackerInput::Closed { link, reason }) => {
                let Some((_, stands)) = self.tracker_links.get_mut(&link).filter(|(_, stands)| *stands) else { return };
                *stands = false;
                TrackerInput::Closed { link, reason }
            }
            Happening::TrackerHears(input) => input,
            _ => TrackerInput::Wake,
        };
        self.tracker.handle(input, Millis(self.now));
        while let Some(output) = self.tracker.poll() {
            self.tracker_wants(output);
        }
        if let Some(at) = self.tracker.wake_at() {
            if self.tracker_wake <= self.now || at.0 < self.tracker_wake {
                self.tracker_wake = at.0;
                self.at(at.0, Happening::TrackerWakes);
            }
        }
    }

    fn tracker_wants(&mut self, output: TrackerOutput) {
        match output {
            TrackerOutput::Send { link, message } => self.send_to_process(link, message),
            TrackerOutput::Close { link } => {
                if let Some((process, stands)) = self.tracker_links.get_mut(&link) {
                    *stands = false;
                    let process = *process;
                    self.after(1, Happening::LinkDies { process, link });
                }
            }
            TrackerOutput::Probe { agent, .. } => {
                let gone = !self.processes.get(&(agent.0 as u32)).is_some_and(|there| there.alive);
                let delay = self.delay();
                self.after(delay, Happening::TrackerHears(TrackerInput::Probed { agent, gone }));
            }
            TrackerOutput::Kill { executor, .. } => {
                if let Ok(process) = executor.parse() {
                    let delay = self.rng.u64(0..2000);
                    self.after(delay, Happening::Killed { process });
                }
            }
            TrackerOutput::Event(event) => self.tells(&event),
            TrackerOutput::Over(outcome) => self.over(outcome),
        }
    }

    fn tells(&mut self, event: &Event) {
        self.say(|| format!("{event:?}"));
        match event {
            Event::RankLost { .. } => self.tally.losses += 1,
            Event::ViewMade { .. } => self.tally.views += 1,
            _ => {}
        }
        let found = self.monotony.event(event).and_then(|()| self.no_lost_work.event(event));
        self.violate(found);
    }

    fn over(&mut self, outcome: Result<JobResult, Error>) {
        let program = &self.job.program;
        let right = u128::from(program.model(Version(program.versions())));
        let found = match &outcome {
            _ if self.outcome.is_some() => Err(Violation::new("Progress", "the job ended twice")),
            Ok(_) if program.differs_somewhere() => {
                Err(Violation::new("Identity", "ranks made different calls, and the job ended with a model"))
            }
            Ok(result) if result.digest != right => Err(Violation::new(
                "Agreement",
                format!("the job ended with {:x}, the true model is {right:x}", result.digest),
            )),
            Ok(_) => Ok(()),
            Err(error) if error.code == Code::Mismatch && program.differs_somewhere() => Ok(()),
            Err(error) if error.code == Code::Mismatch => Err(Violation::new("Identity", error.to_string())),
            Err(error) if error.code == Code::Unrecoverable && self.nobody_holds_anything() => Ok(()),
            Err(error) => Err(Violation::new("Progress", error.to_string())),
        };
        self.violate(found);
        self.over_at = self.now;
        self.outcome = Some(outcome);
    }

    /// Whether nobody who can be reached holds a checkpoint, after processes were killed.
    fn nobody_holds_anything(&self) -> bool {
        let kills = self.struck.contains("kill") || self.struck.contains("freeze") || self.struck.contains("part");
        let mut reached = self.processes.iter().filter(|(id, there)| {
            there.alive && !there.frozen && !self.network.is_parted(**id, network::TRACKER, self.now)
        });
        kills
            && !reached.any(|(_, there)| {
                let held = |(lineage, version): &(Lineage, Version)| {
                    version.0 > 0 && there.process.host().holds(&named(&self.job.program, *lineage, *version))
                };
                there.tracker_link.is_some() && there.stored.iter().any(held)
            })
    }
}

/// The checkpoint that is right under this name.
fn named(program: &Program, lineage: Lineage, version: Version) -> Checkpoint {
    crate::ranks::checkpoint(lineage, version, program.model(version))
}

fn attempt(task: u32) -> Attempt {
    Attempt { stage: 0, task }
}

fn who(process: u32, rank: u32, task: u32) -> Who {
    Who { process, rank: Rank(rank), attempt: attempt(task) }
}
