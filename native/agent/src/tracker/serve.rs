//! The tracker's thread: listener, one link per agent, probes of agents that fell silent.

#[cfg(test)]
#[path = "turns.rs"]
mod turns;

use super::launchers::Launchers;
use super::owner::{Outcome, TrackerNotice, TrackerServerConfig};
use bytes::Bytes;
use crossbeam::channel::{Receiver, Sender};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token, Waker};
use parking_lot::Mutex;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::event::Event;
use rejoin_protocol::ids::{AgentId, Millis, Rank};
use rejoin_protocol::launcher::LauncherNews;
use rejoin_protocol::message::{AgentMessage, TrackerMessage};
use rejoin_protocol::tracker::{Tracker, TrackerInput, TrackerOutput};
use rejoin_protocol::wire::{self, HEADER_BYTES};
use rejoin_protocol::words::place;
use rejoin_transport::{Arrival, Entrance, Flushed, Hello, Keys, Link, Purpose, Received};
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

const WAKER: Token = Token(0);
const LISTENER: Token = Token(1);
const FIRST_LINK: usize = 16;
const PROBE: Duration = Duration::from_secs(1);
/// How long agents are given to take the last messages when the tracker closes.
const FAREWELL: Duration = Duration::from_secs(1);
/// What is read of one link before all others have had a turn: some milliseconds.
const TURN_BYTES: usize = 1 << 20;
/// A message counts as so many bytes at least.
const MESSAGE_BYTES: usize = 4 << 10;
/// What is read of a link that is over: as much as kernels hold.
const LAST_BYTES: usize = 16 << 20;

struct AgentLink {
    link: Link,
    closing: bool,
}

struct Probe {
    agent: AgentId,
    stream: TcpStream,
    began: Instant,
}

pub(super) struct Server {
    pub(super) poll: Poll,
    pub(super) job: String,
    entrance: Entrance,
    pub(super) rules: Tracker,
    facts: Receiver<TrackerInput>,
    notices_sender: Sender<TrackerNotice>,
    pub(super) outcome: Arc<Mutex<Outcome>>,
    closing: Arc<AtomicBool>,
    /// How many agents and launchers are linked.
    pub(super) linked: Arc<AtomicUsize>,
    /// Whether it ends without a word.
    pub(super) abandoned: Arc<AtomicBool>,
    links: HashMap<Token, AgentLink>,
    pub(super) launchers: Launchers,
    probes: HashMap<Token, Probe>,
    next_token: usize,
    /// Links of which more can be read than was in their last turn. No event says so.
    unfinished: BTreeSet<Token>,
    pub(super) began: Instant,
    strangers: u64,
    /// The listener gave an error the last time.
    is_failing: bool,
}

impl Server {
    pub(super) fn new(
        config: TrackerServerConfig,
        facts: Receiver<TrackerInput>,
        notices_sender: Sender<TrackerNotice>,
        outcome: Arc<Mutex<Outcome>>,
        closing: Arc<AtomicBool>,
    ) -> Result<(Server, Waker), Error> {
        let io = |what: &'static str| {
            move |cause: std::io::Error| Error::new(Code::Io, format!("the tracker can't {what}: {cause}"))
        };
        let rules = Tracker::new(config.rules, Millis(0))?;
        let job = config.job.to_string();
        let keys = Keys { job: config.job, secret: config.secret, encrypt: config.encrypt };
        let mut entrance = Entrance::bind(config.listen, config.ports, "the ports of the tracker", keys)?;
        let poll = Poll::new().map_err(io("make a poll"))?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(io("make a waker"))?;
        entrance.register(poll.registry(), LISTENER).map_err(io("watch its listener"))?;
        let server = Server {
            poll,
            job,
            entrance,
            rules,
            facts,
            notices_sender,
            outcome,
            closing,
            linked: Arc::default(),
            abandoned: Arc::new(AtomicBool::new(false)),
            links: HashMap::new(),
            launchers: Launchers::default(),
            probes: HashMap::new(),
            next_token: FIRST_LINK,
            unfinished: BTreeSet::new(),
            began: Instant::now(),
            strangers: 0,
            is_failing: false,
        };
        Ok((server, waker))
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.entrance.address()
    }

    pub(super) fn now(&self) -> Millis {
        Millis(self.began.elapsed().as_millis() as u64)
    }

    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(256);
        self.carry_out();
        while !self.closing.load(Ordering::Acquire) {
            let wake = self.rules.wake_at().map(|at| Duration::from_millis(at.since(self.now())));
            let unfinished = (!self.unfinished.is_empty()).then_some(Duration::ZERO);
            let at_most = Some(Duration::from_millis(500));
            let next = [wake, self.entrance.next_timeout(), unfinished, at_most].into_iter().flatten().min();
            if let Err(cause) = self.poll.poll(&mut events, next) {
                if cause.kind() != std::io::ErrorKind::Interrupted {
                    let error = Error::new(Code::Io, format!("the tracker's poll failed: {cause}"));
                    self.handle(TrackerInput::Cancel { error });
                    break;
                }
            }
            self.turn(&mut events);
        }
        if !self.abandoned.load(Ordering::Acquire) {
            self.farewell();
        }
    }

    /// Does what there is to do, of each link as much as may be read in one turn.
    fn turn(&mut self, events: &mut Events) {
        let mut ready = std::mem::take(&mut self.unfinished);
        let is_full = events.iter().count() == events.capacity();
        let readable = events.iter().filter(|event| event.is_readable()).map(|event| event.token());
        let unread: BTreeSet<Token> = readable.chain(ready.iter().copied()).collect();
        ready.extend(events.iter().map(|event| event.token()));
        if is_full {
            // There may be more than it could hold: no agent is judged before that is known.
            *events = Events::with_capacity(2 * events.capacity());
        } else if self.rules.wake_at().is_some_and(|at| at <= self.now()) {
            self.wake(&unread);
        }
        for token in ready {
            match token {
                WAKER => {}
                LISTENER => self.accept(),
                token if self.probes.contains_key(&token) => self.probed(token),
                token if self.launchers.has(token) => self.serve_launcher(token),
                token if self.entrance.is_of(token) => {
                    self.entrance.serve(token);
                    self.take_arrivals();
                }
                token => self.serve(token),
            }
        }
        while let Ok(fact) = self.facts.try_recv() {
            self.handle(fact);
        }
        self.deadlines();
        self.linked.store(self.links.len() + self.launchers.count(), Ordering::Release);
    }

    /// Silence is judged before anything is read: reading takes time, in which others may say
    /// something. A link that has said something by now, read or not, isn't silent.
    fn wake(&mut self, unread: &BTreeSet<Token>) {
        let now = self.now();
        for token in unread.iter().filter(|token| self.links.contains_key(token)) {
            self.rules.handle(TrackerInput::BytesCame { link: token.0 as u64 }, now);
        }
        self.rules.handle(TrackerInput::Wake, now);
        self.carry_out();
    }

    pub(super) fn handle(&mut self, input: TrackerInput) {
        let now = self.now();
        self.rules.handle(input, now);
        self.carry_out();
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.rules.poll() {
            match output {
                TrackerOutput::Send { link, message } => {
                    self.take_note(&message);
                    if let Some(agent) = self.links.get_mut(&Token(link as usize)) {
                        agent.link.send_message(&message);
                    }
                }
                TrackerOutput::Close { link } => {
                    if let Some(agent) = self.links.get_mut(&Token(link as usize)) {
                        agent.closing = true;
                    }
                }
                TrackerOutput::Probe { agent, address } => self.probe(agent, address),
                TrackerOutput::Kill { task, attempt, executor, reason } => {
                    log::warn!(
                        "[job {}] task {task} attempt {attempt} on {} should be killed: {reason}",
                        self.job,
                        place(&executor)
                    );
                    self.announce(TrackerNotice::Kill { task, attempt, executor, reason });
                }
                TrackerOutput::Event(event) => {
                    log::debug!("[job {}] {event:?}", self.job);
                    self.announce(TrackerNotice::Event(event));
                }
                TrackerOutput::Over(outcome) => {
                    let outcome = outcome.map(|job| Bytes::from(job.result));
                    self.launchers.tell_all(&LauncherNews::Over(outcome.as_ref().map(drop).map_err(Clone::clone)));
                    self.outcome.lock().result = Some(outcome);
                }
            }
        }
    }

    /// Known before the rank hears of it: its process may end at once.
    fn take_note(&mut self, message: &TrackerMessage) {
        match message {
            TrackerMessage::Fenced { member, error } if error.code == Code::RolledBack => {
                // Launchers know tasks, by the numbers that they have started them with.
                let rank = self.rules.started_as(member.rank);
                self.outcome.lock().sent_back.insert(rank);
                self.launchers.tell_all(&LauncherNews::SentBack { rank });
            }
            TrackerMessage::JoinAccepted { rank, .. } => {
                let rank = self.rules.started_as(*rank);
                self.outcome.lock().sent_back.remove(&rank);
            }
            _ => {}
        }
    }

    /// The owner is told, and every launcher.
    fn announce(&mut self, notice: TrackerNotice) {
        self.launchers.tell_all(&match &notice {
            TrackerNotice::Event(event) => LauncherNews::Event(event.clone()),
            // A launcher's jobs have no spares.
            TrackerNotice::Kill { task, attempt, reason, .. } => {
                LauncherNews::Kill { rank: Rank(task.0), attempt: *attempt, reason: reason.clone() }
            }
        });
        let _ = self.notices_sender.send(notice);
    }

    /// Sends what is queued, and what follows from links that turn out to be over.
    fn flush_all(&mut self) {
        loop {
            let mut broken = Vec::new();
            for (token, agent) in &mut self.links {
                match agent.link.flush() {
                    Ok(Flushed::Done) if agent.closing => broken.push((*token, "closed by the tracker".to_string())),
                    Ok(_) => {}
                    Err(cause) => broken.push((*token, cause.to_string())),
                }
            }
            if broken.is_empty() {
                break;
            }
            for (token, reason) in broken {
                self.closed(token, reason);
            }
        }
        self.flush_launchers();
    }

    fn accept(&mut self) {
        match self.entrance.accept(self.poll.registry(), &mut self.next_token) {
            Ok(()) => self.is_failing = false,
            // Said once. No event comes for those that are there: it is looked for again at least twice a second.
            Err(cause) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    log::error!(
                        "[job {}] the tracker can't accept connections: {cause}. Agents wait until it can; if it has \
                         no descriptors left, close files or raise the limit (ulimit -n) of its process",
                        self.job
                    );
                }
            }
        }
        self.take_arrivals();
    }

    fn take_arrivals(&mut self) {
        while let Some(arrival) = self.entrance.arrived() {
            match arrival {
                Arrival::Proven(token, link, hello) => self.let_in(token, *link, hello),
                Arrival::Stranger { address, reason } => self.stranger(address.to_string(), reason),
            }
        }
    }

    fn let_in(&mut self, token: Token, mut link: Link, hello: Hello) {
        match hello.purpose {
            Purpose::Tracker => {
                link.admit();
                self.links.insert(token, AgentLink { link, closing: false });
                self.serve(token);
            }
            Purpose::Launcher => {
                link.admit();
                // One that is gone already says so when it is read.
                let _ = link.set_silence_limit(crate::launcher_link::SILENCE);
                self.launchers.let_in(token, link);
                self.serve_launcher(token);
            }
            Purpose::Data { .. } | Purpose::Fetch => link.refuse(Error::new(
                Code::BadArgument,
                "the tracker was connected to as if it were an agent; the agent's address is wrong",
            )),
        }
    }

    /// Reads what is there, at most as much as may be read in one turn.
    fn serve(&mut self, token: Token) {
        let mut read = 0;
        while let Some(agent) = self.links.get_mut(&token) {
            if read >= TURN_BYTES {
                self.unfinished.insert(token);
                return;
            }
            match agent.link.receive() {
                Ok(Received::Pending) => break,
                Ok(Received::Frame(_, payload)) => {
                    read += payload.len().max(MESSAGE_BYTES);
                    match wire::decode::<AgentMessage>(&payload) {
                        Ok(message) => self.handle(TrackerInput::Message { link: token.0 as u64, message }),
                        Err(error) => return self.closed(token, error.message),
                    }
                }
                Ok(Received::Hello(_) | Received::Established | Received::Refused(_)) => {
                    return self.closed(token, "spoke as if its link were not established".into())
                }
                Err(cause) => return self.closed(token, cause.to_string()),
            }
        }
        let flushed = self.links.get_mut(&token).map(|agent| agent.link.flush());
        if let Some(Err(cause)) = flushed {
            self.closed(token, cause.to_string());
        }
    }

    /// Reported and logged once; further ones are only counted, so that a port scanner can't fill a disk.
    fn stranger(&mut self, address: String, reason: String) {
        self.strangers += 1;
        if self.strangers == 1 {
            log::warn!("[job {}] turned away {address}: {reason} (further ones are only counted)", self.job);
            self.announce(TrackerNotice::Event(Event::StrangerRefused { address, reason }));
        }
    }

    fn closed(&mut self, token: Token, reason: String) {
        let Some(mut agent) = self.links.remove(&token) else { return };
        let _ = self.poll.registry().deregister(agent.link.socket());
        log::debug!("[job {}] an agent's connection ended: {reason}", self.job);
        // A process that is killed resets its connections, and writing fails before its last words are read.
        let mut last_words = Vec::new();
        let mut read = 0;
        while !agent.closing && read < LAST_BYTES {
            let Ok(Received::Frame(_, payload)) = agent.link.receive() else { break };
            read += HEADER_BYTES + payload.len();
            last_words.extend(wire::decode::<AgentMessage>(&payload));
        }
        for message in last_words {
            self.handle(TrackerInput::Message { link: token.0 as u64, message });
        }
        self.handle(TrackerInput::Closed { link: token.0 as u64, reason });
    }

    fn probe(&mut self, agent: AgentId, address: SocketAddr) {
        let token = Token(self.next_token);
        self.next_token += 1;
        match TcpStream::connect(address) {
            Ok(mut stream) => {
                let interest = Interest::READABLE | Interest::WRITABLE;
                if self.poll.registry().register(&mut stream, token, interest).is_ok() {
                    self.probes.insert(token, Probe { agent, stream, began: Instant::now() });
                }
            }
            Err(cause) => {
                let gone = cause.kind() == std::io::ErrorKind::ConnectionRefused;
                // Not answered from here: the rules are in the middle of being drained. The queue brings it back.
                self.probes_answer_later(agent, gone);
            }
        }
    }

    fn probes_answer_later(&mut self, agent: AgentId, gone: bool) {
        let now = self.now();
        self.rules.handle(TrackerInput::Probed { agent, gone }, now);
    }

    fn probed(&mut self, token: Token) {
        let Some(probe) = self.probes.get_mut(&token) else { return };
        let answer = match probe.stream.take_error() {
            Ok(Some(cause)) => Some(cause.kind() == std::io::ErrorKind::ConnectionRefused),
            Ok(None) => probe.stream.peer_addr().is_ok().then_some(false),
            Err(_) => Some(false),
        };
        if let Some(gone) = answer {
            self.probe_done(token, gone);
        }
    }

    fn probe_done(&mut self, token: Token, gone: bool) {
        if let Some(mut probe) = self.probes.remove(&token) {
            let _ = self.poll.registry().deregister(&mut probe.stream);
            self.handle(TrackerInput::Probed { agent: probe.agent, gone });
        }
    }

    fn deadlines(&mut self) {
        let now = Instant::now();
        let silent: Vec<Token> =
            self.probes.iter().filter(|(_, probe)| now > probe.began + PROBE).map(|(t, _)| *t).collect();
        for token in silent {
            self.probe_done(token, false);
        }
        self.entrance.keep_time();
        self.accept();
        self.flush_all();
    }

    /// Ends the job if it is not over, and gives the agents a moment to take it.
    fn farewell(&mut self) {
        let over = self.outcome.lock().result.is_some();
        if !over {
            let error = Error::new(Code::Cancelled, "the tracker was closed by its owner before the job had ended");
            self.handle(TrackerInput::Cancel { error });
        }
        let until = Instant::now() + FAREWELL;
        let is_queued = |server: &Server| {
            server.links.values().any(|agent| agent.link.queued_bytes() > 0) || server.launchers.is_queued()
        };
        while Instant::now() < until && is_queued(self) {
            self.flush_all();
            std::thread::sleep(Duration::from_millis(1));
        }
        log::info!("[job {}] tracker closed", self.job);
    }
}
