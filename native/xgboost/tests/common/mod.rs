//! A world of fake workers around real bridges: what the agents and the tracker would send them, sent by hand.
#![allow(dead_code)]

pub mod worker;

use mio::net::TcpStream;
use parking_lot::{Condvar, Mutex};
use rejoin_agent::{AgentReports, DataPlane};
use rejoin_protocol::collective::{self, Fetch};
use rejoin_protocol::error::Error;
use rejoin_protocol::event::Event;
use rejoin_protocol::fault::FaultRule;
use rejoin_protocol::host::Start;
use rejoin_protocol::ids::{AgentId, Generation, Incarnation, Lane, Lineage, MemberId, Rank, Version};
use rejoin_protocol::report::Report;
use rejoin_transport::{Hello, JobId, Keys, Link, Listener, PortRange, Purpose, Received, Secret};
use rejoin_xgboost::{Bridge, BridgeConfig};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub fn member(rank: u32, incarnation: u32) -> MemberId {
    MemberId { rank: Rank(rank), incarnation: Incarnation::nth(incarnation) }
}

/// Only there so that a hanging test ends with words.
pub const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// What a bridge reported to its agent.
#[derive(Clone, Debug)]
pub enum Told {
    Report(MemberId, Report),
    Event(Event),
    Fired(FaultRule),
}

/// Writes everything down.
#[derive(Default)]
pub struct Notebook {
    reports: Mutex<Vec<Told>>,
    more: Condvar,
}

impl Notebook {
    /// Waits for a report.
    pub fn wait<T>(&self, what: &str, find: impl Fn(&Told) -> Option<T>) -> T {
        let deadline = Instant::now() + WAIT_LIMIT;
        let mut reports = self.reports.lock();
        loop {
            if let Some(found) = reports.iter().find_map(&find) {
                return found;
            }
            let late = self.more.wait_until(&mut reports, deadline).timed_out();
            assert!(!late, "no report of {what}; there were {reports:?}");
        }
    }

    pub fn broken(&self) -> Error {
        self.wait("a broken job", |report| match report {
            Told::Report(_, Report::Broken(error)) => Some(error.clone()),
            _ => None,
        })
    }

    pub fn all(&self) -> Vec<Told> {
        self.reports.lock().clone()
    }

    fn add(&self, report: Told) {
        self.reports.lock().push(report);
        self.more.notify_all();
    }
}

struct Pen(Arc<Notebook>);

impl AgentReports for Pen {
    fn prefix(&self, rank: Rank) -> String {
        format!("[job test rank {rank} gen 1.1 version 0 round 0]")
    }
    fn situation(&self) -> String {
        "nothing is known".into()
    }
    fn report(&self, member: MemberId, report: Report) {
        self.0.add(Told::Report(member, report));
    }
    fn fetch(&self, _: MemberId, _: Fetch) {
        unreachable!("the bridge makes no collectives");
    }
    fn ask(&self, _: MemberId, _: Rank, _: collective::CollectiveId) {
        unreachable!("the bridge makes no collectives");
    }
    fn report_event(&self, event: Event) {
        self.0.add(Told::Event(event));
    }
    fn inject(&self, rule: FaultRule) -> bool {
        self.0.add(Told::Fired(rule));
        true
    }
}

/// One agent: its bridge, and what it was sent.
#[derive(Clone)]
pub struct Agent {
    pub bridge: Arc<Bridge>,
    pub notes: Arc<Notebook>,
}

/// Prints log lines; the test harness shows them when a test fails.
struct Printer;

impl log::Log for Printer {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        eprintln!("{:5} {}", record.level(), record.args());
    }
    fn flush(&self) {}
}

impl Agent {
    pub fn new(config: BridgeConfig) -> Self {
        // Fails when another test was first.
        if log::set_logger(&Printer).is_ok() && std::env::var_os("REJOIN_TEST_LOG").is_some() {
            log::set_max_level(log::LevelFilter::Debug);
        }
        let bridge = Bridge::start(config).expect("a bridge can be started");
        let notes = Arc::new(Notebook::default());
        bridge.attach(Arc::new(Pen(notes.clone())));
        Agent { bridge, notes }
    }
}

/// Where a rank is.
#[derive(Clone)]
struct RankLocation {
    agent: usize,
    incarnation: Incarnation,
}

/// All agents, and the membership as a tracker would have it.
pub struct World {
    pub agents: Vec<Agent>,
    ranks: Vec<Option<RankLocation>>,
    pub lineage: Lineage,
    /// The version that each rank has entered.
    pub entered: Arc<Mutex<HashMap<u32, u32>>>,
}

pub fn config() -> BridgeConfig {
    BridgeConfig { free_delay: Duration::from_millis(50), ..BridgeConfig::default() }
}

impl World {
    /// `homes[rank]` is the number of the rank's agent.
    pub fn new(homes: &[usize]) -> Self {
        World::with(homes, config())
    }

    pub fn with(homes: &[usize], config: BridgeConfig) -> Self {
        let agents = (0..=*homes.iter().max().expect("at least one rank")).map(|_| Agent::new(config.clone()));
        let agents = agents.collect();
        let mut world = World { agents, ranks: vec![None; homes.len()], lineage: Lineage(1), entered: Arc::default() };
        for (rank, home) in homes.iter().enumerate() {
            world.seat(rank as u32, *home, 0);
        }
        for rank in 0..homes.len() {
            world.start(rank as u32, 0);
        }
        world
    }

    pub fn size(&self) -> u32 {
        self.ranks.len() as u32
    }

    pub fn agent(&self, rank: u32) -> &Agent {
        &self.agents[self.place(rank).agent]
    }

    pub fn incarnation(&self, rank: u32) -> Incarnation {
        self.place(rank).incarnation
    }

    pub fn home(&self, rank: u32) -> usize {
        self.place(rank).agent
    }

    fn place(&self, rank: u32) -> &RankLocation {
        self.ranks[rank as usize].as_ref().expect("the rank is alive")
    }

    /// A new incarnation has its slot; others don't know of it yet.
    pub fn seat(&mut self, rank: u32, agent: usize, incarnation: u32) {
        let incarnation = Incarnation::nth(incarnation);
        self.agents[agent].bridge.join_accepted(MemberId { rank: Rank(rank), incarnation });
        self.ranks[rank as usize] = Some(RankLocation { agent, incarnation });
    }

    /// The rank starts at a version, and is linked with all others that are alive.
    pub fn start(&mut self, rank: u32, version: u32) {
        let place = self.place(rank).clone();
        let bridge = &self.agents[place.agent].bridge;
        let (incarnation, lineage) = (place.incarnation, self.lineage);
        let (checkpoint, own, local) = (None, None, None);
        let start = Start {
            incarnation,
            lineage,
            version: Version(version),
            checkpoint,
            own,
            former: None,
            local,
            hooked: false,
        };
        let hosts = vec![0; self.size() as usize];
        DataPlane::start(&**bridge, MemberId { rank: Rank(rank), incarnation }, &hosts, &start);
        self.update_peers();
        for peer in (0..self.size()).filter(|peer| *peer != rank) {
            if self.ranks[peer as usize].is_some() {
                self.link(rank, peer);
            }
        }
    }

    /// Sends to all which members are alive.
    pub fn update_peers(&self) {
        for (rank, place) in self.living() {
            let others = self.living().filter(|(other, _)| *other != rank);
            let others = others.map(|(rank, there)| MemberId { rank, incarnation: there.incarnation });
            self.agents[place.agent]
                .bridge
                .peers(MemberId { rank, incarnation: place.incarnation }, &others.collect::<Vec<_>>());
        }
    }

    fn living(&self) -> impl Iterator<Item = (Rank, &RankLocation)> {
        self.ranks.iter().enumerate().filter_map(|(rank, place)| Some((Rank(rank as u32), place.as_ref()?)))
    }

    /// Makes a link between two living ranks.
    pub fn link(&self, a: u32, b: u32) {
        let [(one, left), (other, right)] = [a, b].map(|rank| {
            let place = self.place(rank);
            (MemberId { rank: Rank(rank), incarnation: place.incarnation }, &self.agents[place.agent].bridge)
        });
        let (near, far) = links(one, other);
        left.link(one, other, near);
        right.link(other, one, far);
    }

    /// The rank is lost; its process lives on.
    pub fn lose(&mut self, rank: u32) {
        self.ranks[rank as usize] = None;
        self.update_peers();
    }

    /// The process of an agent is gone with all its ranks and logs. A new one stands in its place.
    pub fn kill(&mut self, agent: usize, config: BridgeConfig) {
        self.agents[agent].bridge.close();
        for place in &mut self.ranks {
            if place.as_ref().is_some_and(|there| there.agent == agent) {
                *place = None;
            }
        }
        self.update_peers();
        self.agents[agent] = Agent::new(config);
    }

    /// A rank has died and will start again at `version`. That is the lowest version of the
    /// living, as a tracker would have chosen it: so this waits until all are there. Nothing they
    /// need for that has to come from the dead one.
    pub fn hold_all(&self, version: u32) {
        let ranks: Vec<u32> = self.living().map(|(rank, _)| rank.0).collect();
        until("the version from which the dead rank will go on", || {
            let entered = self.entered.lock();
            ranks.iter().all(|rank| version == 0 || entered.get(rank) >= Some(&version)).then_some(())
        });
        for (rank, place) in self.living() {
            self.agents[place.agent].bridge.hold(MemberId { rank, incarnation: place.incarnation });
        }
    }
}

/// Both ends of a link that stands.
fn links(MemberId { rank, incarnation }: MemberId, peer: MemberId) -> (Link, Link) {
    let keys = Keys { job: JobId([7; 16]), secret: Secret::new([42; 32]), encrypt: false };
    let mut listener =
        Listener::bind(IpAddr::V4(Ipv4Addr::LOCALHOST), PortRange::EPHEMERAL, "ports").expect("loopback has a port");
    let generation = Generation { epoch: 1, number: 1 };
    let MemberId { rank: peer, incarnation: peer_incarnation } = peer;
    let purpose = Purpose::Data { lane: Lane::Channels, rank, incarnation, peer, peer_incarnation, generation };
    let hello = Hello { agent: AgentId(1), purpose, encrypt: false };
    let mut left = Link::connect(listener.address(), &keys, hello).expect("loopback is reachable");
    let _ = listener.socket();
    let stream: TcpStream = until("a connection", || listener.accept().expect("accepting works")).0;
    let mut right = Link::accept(stream, &keys).expect("the connection is there");
    until("the link", || {
        left.flush().expect("the link's left end is well");
        right.flush().expect("the link's right end is well");
        if let Received::Hello(_) = right.receive().expect("the right handshake goes on") {
            right.admit();
        }
        matches!(left.receive(), Ok(Received::Established)).then_some(())
    });
    (left, right)
}

/// What comes of work that may never come to an end: it has a thread of its own, and the test ends
/// with words without it.
pub fn within<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::spawn(work);
    until(what, || thread.is_finished().then_some(()));
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

pub fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + WAIT_LIMIT;
    loop {
        if let Some(result) = attempt() {
            return result;
        }
        assert!(Instant::now() < deadline, "{what} didn't happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}
