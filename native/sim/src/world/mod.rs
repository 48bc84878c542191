//! The simulated world: time, the queue of what will happen, and who is there.

mod bridge;
mod cluster;
mod faults;
mod hosts;
mod network;
mod rules;

use crate::invariants::{Invariants, Violation};
use crate::scenario::Scenario;
use crate::training::Truth;
use bridge::{Frame, Seat};
use cluster::Cluster;
use fastrand::Rng;
use network::{DataLink, TrackerLink};
use rejoin_protocol::error::Error;
use rejoin_protocol::event::Event;
use rejoin_protocol::host::{Host, Input as HostInput};
use rejoin_protocol::ids::{AgentId, Attempt, Checkpoint, Incarnation, Lineage, Millis, Rank, Version};
use rejoin_protocol::message::{AgentMessage, Timing, TrackerMessage};
use rejoin_protocol::tracker::{Input as TrackerInput, JobResult, Tracker, TrackerConfig};
use std::collections::{BTreeMap, VecDeque};

/// A job that runs longer than this after the last fault is stuck.
const HEAL_MILLIS: u64 = 400_000;
const TIMING: Timing =
    Timing { heartbeat_millis: 200, lost_after_millis: 1500, lease_millis: 60_000, members_millis: 300_000 };

/// A process: one slot of the cluster may see several, one after another.
type ProcessId = u32;

/// One incarnation of a rank.
type Who = (Rank, Incarnation);

/// What will happen.
#[derive(Debug)]
enum Happening {
    ToTracker { link: u64, message: AgentMessage },
    TrackerHears(TrackerInput),
    TrackerLinkDies { link: u64 },
    TrackerWakes,
    ToHost { process: ProcessId, link: u64, message: TrackerMessage },
    HostLinkDies { process: ProcessId, link: u64, reason: String },
    HostConnects { process: ProcessId },
    Control { process: ProcessId },
    HostWakes { process: ProcessId },
    WorkerGoesOn { process: ProcessId, who: Who },
    FetchTry { process: ProcessId, who: Who, checkpoint: Checkpoint, holders: VecDeque<AgentId>, began: u64 },
    LinkTry { process: ProcessId, who: Who, peer: Who },
    FrameArrives { link: u64, side: usize, frame: Frame },
    LinkDies { link: u64, side: usize },
    ProcessStarts { slot: u32 },
    ProcessWakes { process: ProcessId },
    TaskStarts { process: ProcessId, rank: Rank, attempt: Attempt },
    TaskJoins { process: ProcessId, rank: Rank, attempt: Attempt },
    TaskEnded { rank: Rank, attempt: Attempt, succeeded: bool },
    Scheduling,
    KillWanted { process: ProcessId },
    FaultStrikes { index: usize },
    TrackerComesBack,
}

/// One process with its agent.
struct Process {
    slot: u32,
    alive: bool,
    frozen_until: Option<u64>,
    /// What happened to it while it was frozen.
    deferred: Vec<Happening>,
    host: Host,
    agent: AgentId,
    closed: bool,
    connecting: bool,
    tracker_link: Option<u64>,
    /// Inputs for the host, in their order.
    control: VecDeque<HostInput>,
    control_due: bool,
    wake_at: Option<u64>,
    seats: BTreeMap<Who, Seat>,
    tasks: BTreeMap<(Rank, Attempt), Option<Incarnation>>,
    store: BTreeMap<(Lineage, Version), (Checkpoint, u64)>,
}

/// What a run came to.
#[derive(Debug)]
pub struct Report {
    /// How the job ended.
    pub outcome: Result<JobResult, Error>,
    /// Virtual time.
    pub millis: u64,
    /// Inputs handled by all state machines.
    pub inputs: u64,
    /// The tracker's story.
    pub events: Vec<(u64, Event)>,
    /// Whether the liar said something else to somebody who could know.
    pub lied: bool,
}

/// The world.
struct World {
    scenario: Scenario,
    truth: Truth,
    rng: Rng,
    now: u64,
    sequence: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    tracker: Tracker,
    tracker_epoch: u32,
    tracker_is_down: bool,
    tracker_stalled_until: u64,
    tracker_wake: u64,
    tracker_deferred: Vec<Happening>,
    tracker_links: BTreeMap<u64, TrackerLink>,
    processes: BTreeMap<ProcessId, Process>,
    links: BTreeMap<u64, DataLink>,
    next_number: u64,
    cluster: Cluster,
    slow: BTreeMap<Rank, u64>,
    events: Vec<(u64, Event)>,
    outcome: Option<Result<JobResult, Error>>,
    invariants: Invariants,
    violation: Option<Violation>,
    lied: bool,
    liar: Option<Rank>,
    inputs: u64,
    verbose: bool,
}

/// Runs a scenario to its end.
///
/// # Errors
/// The first promise that was broken.
pub fn run(scenario: &Scenario, verbose: bool) -> Result<Report, Violation> {
    let config = tracker_config(scenario, 1);
    let tracker = Tracker::new(config, Millis(0)).expect("the scenario's configuration is right");
    let world = World {
        scenario: scenario.clone(),
        truth: Truth::of(&scenario.script),
        rng: Rng::with_seed(scenario.seed ^ 0x5eed),
        now: 0,
        sequence: 0,
        queue: BTreeMap::new(),
        tracker,
        tracker_epoch: 1,
        tracker_is_down: false,
        tracker_stalled_until: 0,
        tracker_wake: 0,
        tracker_deferred: Vec::new(),
        tracker_links: BTreeMap::new(),
        processes: BTreeMap::new(),
        links: BTreeMap::new(),
        next_number: 1,
        cluster: Cluster::new(scenario.script.world),
        slow: BTreeMap::new(),
        events: Vec::new(),
        outcome: None,
        invariants: Invariants::of(scenario),
        violation: None,
        lied: false,
        liar: None,
        inputs: 0,
        verbose,
    };
    world.run()
}

fn tracker_config(scenario: &Scenario, epoch: u32) -> TrackerConfig {
    TrackerConfig {
        world: scenario.script.world,
        epoch,
        timing: TIMING,
        deaths_limit: scenario.deaths_limit,
        deaths_setting: "the limit".into(),
        faults: Vec::new(),
        wants_result: true,
    }
}

impl World {
    fn run(mut self) -> Result<Report, Violation> {
        for slot in 0..self.scenario.processes {
            self.after(0, Happening::ProcessStarts { slot });
        }
        for (index, (at, _)) in self.scenario.faults.clone().into_iter().enumerate() {
            self.at(at, Happening::FaultStrikes { index });
        }
        self.after(1, Happening::Scheduling);
        self.after(TIMING.heartbeat_millis, Happening::TrackerWakes);
        while let Some(((at, _), happening)) = self.queue.pop_first() {
            self.now = at;
            self.happen(happening);
            if let Some(violation) = self.violation.take() {
                return Err(violation);
            }
            if self.is_over() {
                break;
            }
            let deadline = crate::scenario::FAULTS_END_MILLIS + HEAL_MILLIS;
            crate::invariants::progress::check(self.now, deadline, || self.describe())?;
        }
        let Some(outcome) = self.outcome.take() else {
            return Err(crate::invariants::progress::ran_dry(&self.describe()));
        };
        self.invariants.at_the_end(&self.scenario, &self.truth, &outcome, self.lied)?;
        Ok(Report { outcome, millis: self.now, inputs: self.inputs, events: self.events, lied: self.lied })
    }

    /// The job is over and every task has been told.
    fn is_over(&self) -> bool {
        match &self.outcome {
            Some(Ok(_)) => self.cluster.all_done(),
            Some(Err(_)) => self.processes.values().all(|process| !process.alive || process.tasks.is_empty()),
            None => false,
        }
    }

    fn at(&mut self, at: u64, happening: Happening) {
        self.sequence += 1;
        self.queue.insert((at.max(self.now), self.sequence), happening);
    }

    fn after(&mut self, millis: u64, happening: Happening) {
        self.at(self.now + millis, happening);
    }

    fn delay(&mut self) -> u64 {
        let most = self.scenario.delay_millis;
        // Mostly quick, sometimes slow.
        if self.rng.u32(0..4) == 0 {
            self.rng.u64(0..=most)
        } else {
            self.rng.u64(0..=most.min(2))
        }
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
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

    fn happen(&mut self, happening: Happening) {
        if let Some(process) = process_of(&happening) {
            let Some(there) = self.processes.get_mut(&process).filter(|there| there.alive) else { return };
            if there.frozen_until.is_some() {
                there.deferred.push(happening);
                return;
            }
        }
        match happening {
            Happening::ToTracker { .. }
            | Happening::TrackerHears(_)
            | Happening::TrackerLinkDies { .. }
            | Happening::TrackerWakes => self.tracker_happening(happening),
            Happening::ToHost { process, link, message } => self.host_hears(process, link, message),
            Happening::HostLinkDies { process, link, reason } => self.host_link_dies(process, link, reason),
            Happening::HostConnects { process } => self.host_connects(process),
            Happening::Control { process } => self.take_control(process),
            Happening::HostWakes { process } => self.host_wakes(process),
            Happening::WorkerGoesOn { process, who } => self.worker_goes_on(process, who),
            Happening::FetchTry { process, who, checkpoint, holders, began } => {
                self.fetch(process, who, checkpoint, holders, began);
            }
            Happening::LinkTry { process, who, peer } => self.try_link(process, who, peer),
            Happening::FrameArrives { link, side, frame } => self.frame_arrives(link, side, frame),
            Happening::LinkDies { link, side } => self.link_dies(link, side),
            Happening::ProcessStarts { slot } => self.start_process(slot),
            Happening::ProcessWakes { process } => self.wake(process),
            Happening::TaskStarts { process, rank, attempt } => self.task_starts(process, rank, attempt),
            Happening::TaskJoins { process, rank, attempt } => self.task_joins(process, rank, attempt),
            Happening::TaskEnded { rank, attempt, succeeded } => self.task_ended(rank, attempt, succeeded),
            Happening::Scheduling => self.schedule_tasks(),
            Happening::KillWanted { process } => self.kill(process),
            Happening::FaultStrikes { index } => self.strike(index),
            Happening::TrackerComesBack => self.tracker_comes_back(),
        }
    }

    fn describe(&self) -> String {
        let mut text = format!("at {} ms: ", self.now);
        for (id, process) in self.processes.iter().filter(|(_, process)| process.alive) {
            text += &format!("[process {id} tasks {:?}", process.tasks);
            for (who, seat) in &process.seats {
                text += &format!(" {who:?}: {}", seat.describe());
            }
            for member in process.host.members() {
                text += &format!(" member {}: {:?}", member.rank, member.stage);
            }
            text += "] ";
        }
        text + &self.cluster.describe()
    }
}

/// Whose time a happening needs. Frozen processes get it when they wake.
fn process_of(happening: &Happening) -> Option<ProcessId> {
    match happening {
        Happening::ToHost { process, .. }
        | Happening::HostLinkDies { process, .. }
        | Happening::HostConnects { process }
        | Happening::Control { process }
        | Happening::HostWakes { process }
        | Happening::WorkerGoesOn { process, .. }
        | Happening::FetchTry { process, .. }
        | Happening::LinkTry { process, .. }
        | Happening::TaskStarts { process, .. }
        | Happening::TaskJoins { process, .. } => Some(*process),
        _ => None,
    }
}
