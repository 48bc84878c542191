//! The control thread of an agent: tracker link, heartbeats, listener, fetches, and the making of data links.
//!
//! It drives [`Host`] and does what that asks for. It never calls into the JVM and never moves bulk
//! data in one go, so that a heartbeat is never late because of other work: in each turn every
//! connection moves at most [`TURN_BYTES`].

mod connections;
mod data_links;
mod gatherings;
mod giving;
mod handing;
mod outputs;
mod results;
mod results_fetch;
mod shared;
#[cfg(test)]
mod slow_fetch;
#[cfg(test)]
mod tests;
mod tracker;
mod tracker_link;

pub(crate) use shared::{Command, Shared};

use crate::agent_config::AgentConfig;
use crate::copies::Copy;
use crate::durable::CheckpointFile;
use crate::fetch::{Gathering, Serve};
use crate::inject::Rules;
use crate::joined::{Joined, StoodBy};
use crate::links::DataLinks;
use crate::plane::Planes;
use crate::pulse::{self, Change, Pulse};
use crate::waiting::Waiting;
use bytes::Bytes;
use crossbeam::channel::Receiver;
use mio::{Events, Poll, Token, Waker};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::event::Event;
use rejoin_protocol::host::{Host, HostConfig, HostInput, ONE_BY_ONE};
use rejoin_protocol::ids::{AgentId, Attempt, Checkpoint, Incarnation, Lane, MemberId, Millis, Rank, Task};
use rejoin_transport::{Entrance, Keys, Link};
use results_fetch::{Question, ResultsFetch, WaitingResults};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracker::TrackerLink;

const WAKER: Token = Token(0);
const LISTENER: Token = Token(1);
const TRACKER: Token = Token(2);
const FIRST_LINK: usize = 16;
/// Between two reports of memory and disk in use.
const USAGE: Duration = Duration::from_secs(2);
/// A handshake of a link that is made here is given up when it takes longer.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How often is looked whether there are descriptors again: no event says so.
const LOOK_FOR_DESCRIPTORS: Duration = Duration::from_millis(100);
/// How often is looked whether there is room for results again.
const LOOK_FOR_ROOM: Duration = Duration::from_millis(5);
/// What one connection may move before all others have had a turn: half a millisecond, while a
/// fast sender's model takes seconds.
const TURN_BYTES: usize = 2 << 20;

/// What a connection other than the tracker's is for.
enum Role {
    /// A data link that this side makes.
    Making { member: MemberId, peer: MemberId, lane: Lane },
    /// A newcomer elsewhere fetches from here.
    Serving(Box<Serve>),
    /// A newcomer here fetches a stripe from there.
    Fetching(MemberId, u32),
    /// A process there is given an own model of a rank here.
    Copying(Box<Copy>),
    /// A rank here fetches results of collectives from there.
    Results(Box<ResultsFetch>),
    /// A rank here asks what a rank there has called.
    Asking(Box<Question>),
}

struct Connection {
    link: Link,
    role: Role,
    began: Instant,
    established: bool,
}

/// A member as the control thread knows it.
#[derive(Default)]
struct MemberState {
    attempt: Attempt,
    incarnation: Option<Incarnation>,
    joining: Option<Waiting<Joined>>,
    /// The slot that this attempt was given.
    join_accepted: Option<Incarnation>,
    /// The join was given up before there was a slot: it is given back when it comes.
    cancelled: Option<Error>,
    finishing: Option<Waiting<u128>>,
    /// Waits until its own model is held by others.
    copying: Option<(Checkpoint, Waiting<()>)>,
    result: Option<Bytes>,
}

/// Where other processes come in, or are sought.
struct Incoming {
    entrance: Entrance,
    /// Connections that were turned away.
    strangers: u64,
    /// The last connection could not be accepted or made for lack of descriptors.
    is_starved: bool,
}

/// What one connection may move before all others have had a turn.
struct Turn {
    /// Connections that had moved as much as they may. No event says that they can go on.
    unfinished: BTreeSet<Token>,
    bytes: usize,
}

/// What this process says of itself.
struct SelfReports {
    usage_next: Instant,
    pulse: Pulse,
}

/// The control thread's own.
pub(crate) struct Control {
    poll: Poll,
    shared: Arc<Shared>,
    commands: Receiver<Command>,
    host: Host,
    planes: Planes,
    agent: AgentId,
    executor: String,
    keys: Keys,
    began: Instant,
    incoming: Incoming,
    tracker: TrackerLink,
    connections: HashMap<Token, Connection>,
    next_token: usize,
    turn: Turn,
    links: DataLinks,
    /// Checkpoints that come for ranks here.
    gatherings: BTreeMap<MemberId, Gathering>,
    results: WaitingResults,
    /// Checkpoints that a thread makes or reads now.
    making: BTreeSet<Checkpoint>,
    members: BTreeMap<Rank, MemberState>,
    /// Tasks that stand by.
    standing: BTreeMap<(Task, Attempt), Waiting<StoodBy>>,
    rules: Rules,
    reports: SelfReports,
    over: Option<String>,
}

impl Control {
    pub(crate) fn new(
        config: &AgentConfig,
        keys: Keys,
        planes: Planes,
        durable: Vec<(Checkpoint, CheckpointFile)>,
        own_copies: u32,
    ) -> Result<(Control, Arc<Shared>), Error> {
        let io = |what: &'static str| {
            move |cause: std::io::Error| Error::new(Code::Io, format!("the agent can't {what}: {cause}"))
        };
        let mut entrance = Entrance::bind(config.listen, config.ports, "the ports of agents", keys.clone())?;
        let poll = Poll::new().map_err(io("make a poll"))?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(io("make a waker"))?;
        entrance.register(poll.registry(), LISTENER).map_err(io("watch its listener"))?;
        let now = Instant::now();
        let agent = AgentId(rejoin_transport::random_u64());
        let mut host = Host::new(
            HostConfig {
                agent,
                executor: config.executor.clone(),
                host: config.host.clone(),
                address: entrance.address(),
                pid: std::process::id(),
                tracker_millis: config.tracker_millis,
                own_copies,
                one_by_one: ONE_BY_ONE,
            },
            Millis(0),
        );
        let (shared, commands) = Shared::new(config.job, config.tracker, waker);
        let shared = Arc::new(shared);
        for (checkpoint, place) in durable {
            shared.store.is_durable(checkpoint, place);
            host.handle(HostInput::Durable(checkpoint), Millis(0));
        }
        let control = Control {
            poll,
            shared: shared.clone(),
            commands,
            host,
            planes,
            agent,
            executor: config.executor.clone(),
            keys,
            began: now,
            incoming: Incoming { entrance, strangers: 0, is_starved: false },
            tracker: TrackerLink::to(config.tracker, config.join_file.clone(), now),
            connections: HashMap::new(),
            next_token: FIRST_LINK,
            turn: Turn { unfinished: BTreeSet::new(), bytes: TURN_BYTES },
            links: DataLinks::default(),
            gatherings: BTreeMap::new(),
            results: WaitingResults::default(),
            making: BTreeSet::new(),
            members: BTreeMap::new(),
            standing: BTreeMap::new(),
            rules: Rules::default(),
            reports: SelfReports { usage_next: now + USAGE, pulse: Pulse::default() },
            over: None,
        };
        Ok((control, shared))
    }

    /// Where peers reach this agent.
    pub(crate) fn address(&self) -> SocketAddr {
        self.incoming.entrance.address()
    }

    fn now(&self) -> Millis {
        Millis(self.began.elapsed().as_millis() as u64)
    }

    /// Runs until the agent is over, and ends it, also where that is a defect's doing.
    pub(crate) fn live(mut self) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.run())) {
            let words = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            self.over = Some(format!("a defect in Rejoin: {}", words.unwrap_or("its control thread has panicked")));
        }
        // Who waits is told whatever has happened: nobody else would.
        let _ = catch_unwind(AssertUnwindSafe(|| self.finish()));
    }

    fn run(&mut self) {
        let mut events = Events::with_capacity(256);
        self.handle(None);
        if self.tracker.next.is_some() {
            // The pause is for tries that follow a failed one.
            self.connect_tracker();
        }
        while self.over.is_none() {
            self.turn(&mut events);
        }
    }

    /// Waits until there is something to be done, and does of it what can be done without making others wait.
    fn turn(&mut self, events: &mut Events) {
        let timeout = if self.turn.unfinished.is_empty() { self.timeout() } else { Duration::ZERO };
        if let Err(cause) = self.poll.poll(events, Some(timeout)) {
            if cause.kind() != std::io::ErrorKind::Interrupted {
                self.over = Some(format!("the control thread's poll failed: {cause}"));
                return;
            }
        }
        let mut ready = std::mem::take(&mut self.turn.unfinished);
        ready.extend(events.iter().map(|event| event.token()));
        for token in ready {
            match token {
                WAKER => {}
                LISTENER => self.accept(),
                TRACKER => self.serve_tracker(),
                token if self.incoming.entrance.is_of(token) => self.serve_entrance(token),
                token => self.serve_connection(token),
            }
        }
        self.take_commands();
        self.keep_time();
    }

    fn timeout(&self) -> Duration {
        let now = Instant::now();
        let host = self.host.wake_at().map(|at| Duration::from_millis(at.since(self.now())));
        let connect = self.tracker.next.map(|at| at.saturating_duration_since(now));
        let link = self.links.next_try().map(|at| at.saturating_duration_since(now));
        let again = self.results.again.iter().map(|(at, _)| at.saturating_duration_since(now)).min();
        let room = (!self.results.paused.is_empty()).then_some(LOOK_FOR_ROOM);
        let starved = self.incoming.is_starved.then_some(LOOK_FOR_DESCRIPTORS);
        let hurry = (!self.connections.is_empty()).then_some(Duration::from_millis(500));
        [host, connect, link, again, room, starved, hurry, self.incoming.entrance.next_timeout()]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(Duration::from_millis(200))
    }

    /// Feeds the host and does all that it asks for.
    fn handle(&mut self, input: Option<HostInput>) {
        if let Some(input) = input {
            let now = self.now();
            self.host.handle(input, now);
        }
        while let Some(output) = self.host.poll() {
            self.carry_out(output);
        }
        // Fault rules fire where a version is entered, not some versions later.
        self.shared.hears_versions(self.host.reports_at_once() || !self.rules.is_empty());
    }

    fn keep_time(&mut self) {
        let now = Instant::now();
        if self.host.wake_at().is_some_and(|at| at <= self.now()) {
            self.handle(Some(HostInput::Wake));
        }
        if self.tracker.next.is_some_and(|at| at <= now) {
            self.connect_tracker();
        }
        if now >= self.reports.usage_next {
            self.report_usage();
        }
        self.report_pulse();
        self.tracker_deadline(now);
        self.go_on_after_pause(now);
        self.connection_deadlines(now);
        self.make_due_links(now);
        self.fetch_results_again(now);
        self.flush_tracker();
    }

    /// Reports what this process uses: now and then, and before a rank reports its end.
    fn report_usage(&mut self) {
        self.reports.usage_next = Instant::now() + USAGE;
        let usage = self.planes.usage();
        self.handle(Some(HostInput::Event(Event::Usage {
            agent: self.agent,
            log_bytes: usage.log_bytes + usage.idle_bytes,
            spilled_bytes: usage.spilled_bytes,
            checkpoint_bytes: self.shared.store.bytes(),
            log_bytes_peak: usage.log_bytes_peak,
        })));
    }

    /// Reports that the program around this stands still, and that it runs again. What has no rank isn't waited for.
    fn report_pulse(&mut self) {
        let silence = if self.members.is_empty() { None } else { pulse::silence() };
        let Some(change) = self.reports.pulse.look(silence) else { return };
        let (agent, executor) = (self.agent, self.executor.clone());
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.handle(Some(HostInput::Event(match change {
            Change::Slow(silent) => Event::AgentSlow { agent, executor, silent_millis: millis(silent) },
            Change::Runs(silent) => Event::AgentRuns { agent, executor, silent_millis: millis(silent) },
        })));
    }

    /// Those that are there now: tasks that give more meanwhile keep no heartbeat waiting.
    fn take_commands(&mut self) {
        self.shared.commands_are_taken();
        for _ in 0..self.commands.len() {
            let Ok(command) = self.commands.try_recv() else { return };
            self.obey(command);
            if self.over.is_some() {
                return;
            }
        }
    }

    fn finish(&mut self) {
        let reason = self.over.clone().unwrap_or_else(|| "closed".into());
        log::info!("{} agent over: {reason}", self.shared.prefix());
        let error = Error::new(Code::BadState, format!("the agent of this process is over: {reason}"));
        for (_, member) in std::mem::take(&mut self.members) {
            if let Some(wait) = member.joining {
                wait.answer(Err(error.clone()));
            }
            if let Some(wait) = member.finishing {
                wait.answer(Err(error.clone()));
            }
            if let Some((_, wait)) = member.copying {
                wait.answer(Err(error.clone()));
            }
        }
        for (_, wait) in std::mem::take(&mut self.standing) {
            wait.answer(Err(error.clone()));
        }
        self.flush_tracker();
        self.shared.end(error.clone());
        // Commands that came in meanwhile are answered too: no caller waits for a thread that is gone.
        while let Ok(command) = self.commands.try_recv() {
            command.refuse(&error);
        }
        self.planes.all().for_each(|plane| plane.close());
        self.shared.store.clear();
    }
}
