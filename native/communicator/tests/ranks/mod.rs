//! A tracker and processes with real agents on loopback; ranks are threads.

#![allow(dead_code)]

pub mod program;

use parking_lot::Mutex;
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::fault::FaultRule;
use rejoin_agent::protocol::ids::{Attempt, Rank};
use rejoin_agent::protocol::message::Timing;
use rejoin_agent::protocol::resize::Elastic;
use rejoin_agent::protocol::start::JobStart;
use rejoin_agent::protocol::tracker::{DeathLimit, TrackerConfig};
use rejoin_agent::transport::{JobId, PortRange, Secret};
use rejoin_agent::{AgentConfig, TrackerNotice, TrackerServer, TrackerServerConfig};
use rejoin_communicator::{Communicator, Limits, Process, Settings};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

/// Longest wait of any test step: reached only when something is broken.
pub const LIMIT: Duration = Duration::from_secs(30);
const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// One job.
pub struct Ranks {
    pub world: u32,
    together: usize,
    pub tracker: TrackerServer,
    job: JobId,
    pub secret: Secret,
    pub seen: Mutex<Vec<Event>>,
    shares_memory: bool,
    hosts: u32,
    /// Of every process.
    pub settings: Settings,
}

impl Ranks {
    /// So many ranks, so many of them in one process.
    pub fn new(world: u32, together: usize) -> Self {
        Ranks::with_rules(world, together, Vec::new())
    }

    pub fn with_rules(world: u32, together: usize, faults: Vec<FaultRule>) -> Self {
        Ranks::in_worlds(world, together, faults, None)
    }

    /// The same in a world that may change.
    pub fn in_worlds(world: u32, together: usize, faults: Vec<FaultRule>, elastic: Option<Elastic>) -> Self {
        let job = JobId(rejoin_agent::transport::random_u64().to_le_bytes().repeat(2).try_into().unwrap());
        let secret = Secret::random().unwrap();
        let rules = TrackerConfig {
            world,
            spares: 0,
            elastic,
            epoch: 1,
            timing: Timing {
                heartbeat_millis: 50,
                lost_after_millis: 2_000,
                lease_millis: 10_000,
                members_millis: 20_000,
            },
            deaths: DeathLimit::new(20, "test.maxFailures"),
            start: JobStart::Fresh,
            faults,
            wants_result: false,
        };
        let tracker = TrackerServer::start(TrackerServerConfig {
            job,
            secret: secret.clone(),
            encrypt: false,
            listen: LOCALHOST,
            ports: PortRange::EPHEMERAL,
            rules,
        })
        .unwrap();
        let (seen, settings) = (Mutex::new(Vec::new()), Settings::default());
        Ranks { world, together, tracker, job, secret, seen, shares_memory: true, hosts: 1, settings }
    }

    /// The same ranks, which share memory or go over links.
    pub fn sharing_memory(self, shares_memory: bool) -> Self {
        Ranks { shares_memory, ..self }
    }

    /// The same ranks; their processes say by turns that they are on so many hosts.
    pub fn on_hosts(self, hosts: u32) -> Self {
        Ranks { hosts, ..self }
    }

    pub fn config(&self, executor: &str) -> AgentConfig {
        // A process is called after its first rank.
        let first = executor.split('-').next().and_then(|rank| rank.parse().ok()).unwrap_or(0);
        AgentConfig {
            job: self.job,
            secret: self.secret.clone(),
            encrypt: false,
            executor: executor.into(),
            listen: LOCALHOST,
            ports: PortRange::EPHEMERAL,
            host: format!("host{}", first % self.hosts),
            tracker: self.tracker.address(),
            join_file: None,
            tracker_millis: 5_000,
        }
    }

    pub fn process(&self, executor: &str) -> Process {
        let process = Process::start_with(self.config(executor), self.settings.clone()).unwrap();
        process.sharing_memory(self.shares_memory)
    }

    /// Runs the work of every rank on a thread of its own; results in rank order.
    pub fn all<T: Send>(&self, work: impl Fn(Communicator) -> T + Sync) -> Vec<T> {
        self.all_with(|_| {}, work)
    }

    pub fn all_with<T: Send>(&self, change: impl Fn(&mut Limits), work: impl Fn(Communicator) -> T + Sync) -> Vec<T> {
        let mut limits = limits();
        change(&mut limits);
        let processes: Vec<Process> =
            (0..self.world as usize).step_by(self.together).map(|first| self.process(&first.to_string())).collect();
        std::thread::scope(|scope| {
            let (work, processes, together) = (&work, &processes, self.together);
            let threads: Vec<_> = (0..self.world)
                .map(|rank| {
                    scope.spawn(move || {
                        let process = &processes[rank as usize / together];
                        work(join(process, rank, 0, limits))
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("a rank's thread panicked")).collect()
        })
    }

    /// Waits for an event, keeping those before it.
    pub fn event(&self, what: &str, wanted: impl Fn(&Event) -> bool) -> Event {
        let deadline = Instant::now() + LIMIT;
        if let Some(event) = self.seen.lock().iter().find(|event| wanted(event)) {
            return event.clone();
        }
        while Instant::now() < deadline {
            if let Some(TrackerNotice::Event(event)) = self.tracker.poll(Duration::from_millis(50)).unwrap() {
                self.seen.lock().push(event.clone());
                if wanted(&event) {
                    return event;
                }
            }
        }
        panic!("never happened: {what}; seen: {:#?}", self.seen.lock());
    }
}

pub fn limits() -> Limits {
    Limits { join: LIMIT, call: LIMIT, finish: LIMIT }
}

/// Takes a rank's slot and loads what it starts from.
pub fn join(process: &Process, rank: u32, task: u32, limits: Limits) -> Communicator {
    let mut rank = process.join(Rank(rank), attempt(task), "", limits).expect("it joins").expect("the job isn't over");
    rank.load().expect("it loads");
    rank
}

pub fn attempt(task: u32) -> Attempt {
    Attempt { stage: 0, task }
}

/// A rank's numbers; a higher rank's are greater at every place.
pub fn values(rank: u32, count: usize) -> Vec<f64> {
    (0..count).map(|at| value(rank, at)).collect()
}

/// One of them.
pub fn value(rank: u32, at: usize) -> f64 {
    f64::from(rank) * 1000.25 + (at % 997) as f64 * 0.125
}
