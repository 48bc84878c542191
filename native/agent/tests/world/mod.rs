//! A tracker and agents with real sockets, in one process; a plane that only remembers what it was given.

#![allow(dead_code)]

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use rejoin_agent::durable::Durable;
use rejoin_agent::protocol::error::Error;
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::fault::FaultRule;
use rejoin_agent::protocol::host::Start;
use rejoin_agent::protocol::ids::{Attempt, Checkpoint, Incarnation, Lane, Lineage, MemberId, Rank, Version};
use rejoin_agent::protocol::message::Timing;
use rejoin_agent::protocol::report::Report;
use rejoin_agent::protocol::start::JobStart;
use rejoin_agent::protocol::tracker::{DeathLimit, TrackerConfig};
use rejoin_agent::transport::{JobId, Link, PortRange, Secret};
use rejoin_agent::{
    checkpoint, digest, Agent, AgentConfig, AgentReports, DataPlane, Joined, PlaneUsage, Planes, Taken, TrackerNotice,
    TrackerServer, TrackerServerConfig,
};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait of any test step: reached only when something is broken.
pub const LIMIT: Duration = Duration::from_secs(20);

pub const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn member(rank: u32, incarnation: u32) -> MemberId {
    MemberId { rank: Rank(rank), incarnation: Incarnation::nth(incarnation) }
}

#[derive(Default)]
struct Remembered {
    links: BTreeMap<(Rank, Rank), (MemberId, MemberId, Link)>,
    freed: Vec<(MemberId, Error)>,
    closed: bool,
}

/// Remembers what an agent gave it.
#[derive(Clone, Default)]
pub struct TestPlane {
    remembered: Arc<(Mutex<Remembered>, Condvar)>,
    reports: Arc<Mutex<Option<Arc<dyn AgentReports>>>>,
}

impl TestPlane {
    fn change(&self, what: impl FnOnce(&mut Remembered)) {
        what(&mut self.remembered.0.lock());
        self.remembered.1.notify_all();
    }

    fn until(&self, what: &str, mut done: impl FnMut(&mut Remembered) -> bool) {
        let deadline = Instant::now() + LIMIT;
        let mut remembered = self.remembered.0.lock();
        while !done(&mut remembered) {
            let late = self.remembered.1.wait_until(&mut remembered, deadline).timed_out();
            assert!(!late, "never happened: {what}");
        }
    }

    /// Waits for a link of these incarnations.
    pub fn linked(&self, rank: u32, incarnation: u32, peer: u32, peer_incarnation: u32) {
        let wanted = (member(rank, incarnation), member(peer, peer_incarnation));
        self.until(&format!("link {rank}.{incarnation} to {peer}.{peer_incarnation}"), |remembered| {
            remembered.links.get(&(Rank(rank), Rank(peer))).is_some_and(|(own, theirs, _)| (*own, *theirs) == wanted)
        });
    }

    /// Waits until an incarnation was freed, and says why.
    pub fn freed(&self, rank: u32, incarnation: u32) -> Error {
        let mut found = None;
        self.until(&format!("rank {rank} incarnation {incarnation} is freed"), |remembered| {
            let mut freed = remembered.freed.iter();
            found = freed.find(|(freed, _)| *freed == member(rank, incarnation)).map(|(_, error)| error.clone());
            found.is_some()
        });
        found.expect("the wait above ends only when it was found")
    }

    /// Breaks a link as a plane would that saw an error on it.
    pub fn break_link(&self, rank: u32, incarnation: u32, peer: u32, peer_incarnation: u32) {
        self.change(|remembered| drop(remembered.links.remove(&(Rank(rank), Rank(peer)))));
        let reports = self.reports.lock();
        let reports = reports.as_ref().expect("the agent has attached itself before it makes links");
        let (lane, reason) = (Lane::Channels, "cut by the test".into());
        let peer = member(peer, peer_incarnation);
        reports.report(member(rank, incarnation), Report::LinkDown { peer, lane, reason });
    }

    pub fn has_closed(&self) {
        self.until("the plane is closed", |remembered| remembered.closed);
    }
}

impl DataPlane for TestPlane {
    fn attach(&self, agent: Arc<dyn AgentReports>) {
        *self.reports.lock() = Some(agent);
    }
    fn join_accepted(&self, _: MemberId) {}
    fn start(&self, _: MemberId, _: &[usize], _: &Start) {}
    fn peers(&self, _: MemberId, _: &[MemberId]) {}
    fn link(&self, member: MemberId, peer: MemberId, link: Link) {
        self.change(|remembered| {
            remembered.links.insert((member.rank, peer.rank), (member, peer, link));
        });
    }
    fn free(&self, member: MemberId, error: Error) {
        self.change(|remembered| remembered.freed.push((member, error)));
    }
    fn hold(&self, _: MemberId) -> Version {
        Version(0)
    }
    fn release(&self, _: MemberId) {}
    fn faults(&self, _: &[FaultRule]) {}
    fn usage(&self) -> PlaneUsage {
        PlaneUsage::default()
    }
    fn close(&self) {
        self.change(|remembered| remembered.closed = true);
    }
}

fn planes() -> (TestPlane, Planes) {
    let plane = TestPlane::default();
    (plane.clone(), Planes { channels: Some(Arc::new(plane)), ..Planes::default() })
}

/// One job.
pub struct World {
    pub tracker: TrackerServer,
    pub job: JobId,
    pub secret: Secret,
    pub seen: Mutex<Vec<Event>>,
}

/// One agent, with its plane.
pub struct Process {
    pub agent: Agent,
    pub plane: TestPlane,
}

impl World {
    pub fn new(world: u32) -> World {
        World::with(world, |_| {})
    }

    pub fn with(world: u32, change: impl FnOnce(&mut TrackerConfig)) -> World {
        let job = JobId::random().unwrap();
        let secret = Secret::random().unwrap();
        let timing =
            Timing { heartbeat_millis: 50, lost_after_millis: 1500, lease_millis: 5_000, members_millis: 15_000 };
        let mut rules = TrackerConfig {
            world,
            spares: 0,
            elastic: None,
            epoch: 1,
            timing,
            deaths: DeathLimit::new(4, "test.maxFailures"),
            start: JobStart::Fresh,
            faults: Vec::new(),
            wants_result: true,
        };
        change(&mut rules);
        let tracker = TrackerServer::start(TrackerServerConfig {
            job,
            secret: secret.clone(),
            encrypt: false,
            listen: LOCALHOST,
            ports: PortRange::EPHEMERAL,
            rules,
        })
        .unwrap();
        World { tracker, job, secret, seen: Mutex::new(Vec::new()) }
    }

    pub fn process(&self, executor: &str) -> Process {
        self.process_with(executor, self.secret.clone(), self.tracker.address(), 5_000)
    }

    pub fn process_with(&self, executor: &str, secret: Secret, tracker: SocketAddr, tracker_millis: u64) -> Process {
        let config = self.config(executor, secret, tracker, tracker_millis);
        let (plane, planes) = planes();
        Process { agent: Agent::start(config, planes).unwrap(), plane }
    }

    /// A process that writes each version to this folder.
    pub fn durable_process(&self, executor: &str, folder: &Path) -> Process {
        let config = self.config(executor, self.secret.clone(), self.tracker.address(), 5_000);
        let (plane, planes) = planes();
        let durable = Some(Durable::at(folder, 1));
        Process { agent: Agent::start_keeping(config, planes, durable, 2).unwrap(), plane }
    }

    fn config(&self, executor: &str, secret: Secret, tracker: SocketAddr, tracker_millis: u64) -> AgentConfig {
        AgentConfig {
            job: self.job,
            secret,
            encrypt: false,
            executor: executor.into(),
            listen: LOCALHOST,
            ports: PortRange::EPHEMERAL,
            host: "localhost".into(),
            tracker,
            join_file: None,
            tracker_millis,
        }
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

impl Process {
    /// Joins and starts; panics when the join fails or the job is over.
    pub fn join(&self, rank: u32, attempt: u32) -> (MemberId, Lineage, Version, Option<Bytes>) {
        match self.try_join(rank, attempt) {
            Ok(Joined::Start { start, bytes, .. }) => {
                let member = MemberId { rank: Rank(rank), incarnation: start.incarnation };
                (member, start.lineage, start.version, bytes)
            }
            other => panic!("rank {rank} could not start: {other:?}"),
        }
    }

    pub fn try_join(&self, rank: u32, attempt: u32) -> Result<Joined, Error> {
        self.agent.join(Rank(rank), Attempt { stage: 0, task: attempt }, "terms".into(), LIMIT)
    }

    pub fn enter(&self, member: MemberId, lineage: Lineage, version: u32, model: &[u8]) {
        let model = Bytes::copy_from_slice(model);
        let checkpoint = checkpoint(lineage, Version(version), version, &model, false);
        self.take(member, checkpoint, model);
    }

    pub fn take(&self, member: MemberId, checkpoint: Checkpoint, model: Bytes) {
        let entered = |entered: &mut dyn FnMut()| {
            entered();
            Ok(())
        };
        self.agent.take(member, Taken::new(checkpoint, 0, model), entered).unwrap();
    }

    pub fn finish(&self, member: MemberId, model: &[u8], result: Option<&'static [u8]>) -> Result<u128, Error> {
        self.agent.finish(member, 5, digest(model), result.map(Bytes::from_static), LIMIT)
    }
}

/// Runs one closure per rank, each on a thread of its own, and gives their results in rank order.
pub fn together<T: Send>(world: u32, work: impl Fn(u32) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..world)
            .map(|rank| {
                scope.spawn({
                    let work = &work;
                    move || work(rank)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank's thread panicked")).collect()
    })
}
