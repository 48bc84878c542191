//! The bridge's thread: one poll for all sockets of all ranks of the agent.
//!
//! It reads readiness, notes which channels have something to do, and lets each of them move its bytes in turn. Sockets
//! are registered once, edge-triggered, and remember themselves whether they can be read or written.

mod door;
mod entering;
mod members;
mod moving;

use crate::bridge_config::BridgeConfig;
use crate::bridged_rank::{BridgedRank, Door, Halt};
use crate::channel::{StartPoint, Trouble};
use crate::faults::Watch;
use crate::shared::{Command, Commands, Shared};
use crate::sources::{Source, Sources, WAKER};
use crate::worker_socket::WorkerSocket;
use mio::event::Event;
use mio::{Events, Poll, Waker};
use parking_lot::Mutex;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{MemberId, Rank};
use rejoin_transport::Link;
use std::collections::VecDeque;
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Room for events of one poll.
const EVENTS: usize = 256;

/// How soon a boundary that is not at rest is looked at again, if no event comes before.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// How often it is looked whether the other ends of links are within reach.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);

/// Sockets of a worker that is being freed, until they are reset.
struct PendingReset {
    member: MemberId,
    due: Instant,
    sockets: Vec<WorkerSocket>,
    door: Option<Door>,
}

/// See the module's documentation.
pub(crate) struct Engine {
    config: BridgeConfig,
    sources: Sources,
    commands: Commands,
    shared: Arc<Shared>,
    bridged_ranks: Vec<BridgedRank>,
    pending_resets: Vec<PendingReset>,
    watch: Watch,
    /// Channels that have something to do, as (rank, peer).
    busy: VecDeque<(Rank, Rank)>,
    /// How many were turned away at the gates.
    strangers: u64,
    /// When it was looked last whether the links' other ends are within reach.
    listened: Option<Instant>,
    /// A call on its own thread has panicked within the engine.
    pub(crate) has_panicked: bool,
    over: bool,
}

/// Runs until the bridge is closed. The engine is locked but for the poll.
pub(crate) fn run(engine: &Arc<Mutex<Engine>>, mut poll: Poll) {
    let mut events = Events::with_capacity(EVENTS);
    loop {
        let next_timeout = engine.lock().next_timeout();
        if let Err(cause) = poll.poll(&mut events, next_timeout) {
            if cause.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            // Nothing that this thread could do without its poll would be right.
            panic!("the poll of the bridge's thread failed: {cause}");
        }
        let mut engine = engine.lock();
        assert!(!engine.has_panicked, "a call on its own thread has panicked within the bridge");
        engine.turn(&events);
        if engine.over {
            engine.close();
            break;
        }
    }
    loop {
        let next_reset = engine.lock().next_reset();
        let Some(due) = next_reset else { break };
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        engine.lock().keep_times();
    }
    engine.lock().close_doors();
}

/// Does something with the engine on the caller's thread, and wakes its own thread if that has left
/// it something to do. `None` when the engine has panicked, now or before.
pub(crate) fn with<T>(engine: &Mutex<Engine>, waker: &Waker, what: impl FnOnce(&mut Engine) -> T) -> Option<T> {
    let mut engine = engine.lock();
    if engine.has_panicked {
        return None;
    }
    let result = catch_unwind(AssertUnwindSafe(|| what(&mut engine)));
    let Ok(result) = result else {
        // Its state may be half written: nothing of it is used any more. Its own thread ends with this, and says why.
        engine.has_panicked = true;
        drop(engine);
        let _ = waker.wake();
        return None;
    };
    let more = engine.is_busy();
    drop(engine);
    if more {
        // It fails only when the process can write no descriptor at all; the thread's own poll fails then too.
        let _ = waker.wake();
    }
    Some(result)
}

impl Engine {
    pub(crate) fn new(
        config: BridgeConfig,
        poll: &Poll,
        commands: Commands,
        shared: Arc<Shared>,
    ) -> io::Result<Arc<Mutex<Self>>> {
        let sources = Sources::new(poll.registry().try_clone()?);
        Ok(Arc::new(Mutex::new(Engine {
            config,
            sources,
            commands,
            shared,
            bridged_ranks: Vec::new(),
            pending_resets: Vec::new(),
            watch: Watch::default(),
            busy: VecDeque::new(),
            strangers: 0,
            listened: None,
            has_panicked: false,
            over: false,
        })))
    }

    fn turn(&mut self, events: &Events) {
        for event in events.iter() {
            self.note(event);
        }
        while let Ok(command) = self.commands.try_recv() {
            self.obey(command);
        }
        self.move_all();
        self.look_at_boundaries();
        self.look_at_gates();
        self.listen();
        self.keep_times();
    }

    /// Gives up links whose other ends are out of reach.
    fn listen(&mut self) {
        let now = Instant::now();
        if self.listened.is_some_and(|listened| now < listened + LISTEN_AGAIN / 2) {
            return;
        }
        self.listened = Some(now);
        let mut silent = Vec::new();
        for bridged_rank in &mut self.bridged_ranks {
            let rank = bridged_rank.rank;
            for channel in bridged_rank.training.iter_mut().flat_map(|training| &mut training.channels) {
                if channel.link.as_mut().is_some_and(|link| link.link.is_out_of_reach(now)) {
                    silent.push((rank, channel.peer));
                }
            }
        }
        for (rank, peer) in silent {
            self.handle_trouble(rank, peer, Trouble::Link(Link::OUT_OF_REACH.into()));
        }
    }

    /// Does what was asked on the asking thread, after all that was asked before. Whether a caller
    /// waits for more. Once the bridge is over nothing is done, and the one that waits for the answer is
    /// notified by its closed reply.
    pub(crate) fn obey_here(&mut self, command: Command) -> bool {
        while let Ok(earlier) = self.commands.try_recv() {
            self.obey(earlier);
        }
        if self.over {
            return false;
        }
        self.obey(command);
        self.move_all();
        self.bridged_ranks.iter().any(|bridged_rank| bridged_rank.waiting.is_some())
    }

    /// Whether this engine's thread has something to do, now or at a moment that it may not know of yet.
    fn is_busy(&self) -> bool {
        let waits_for_time = |bridged_rank: &BridgedRank| matches!(bridged_rank.halt, Halt::Until(_));
        !self.busy.is_empty() || !self.pending_resets.is_empty() || self.bridged_ranks.iter().any(waits_for_time)
    }

    /// How long the poll may wait.
    fn next_timeout(&self) -> Option<Duration> {
        if !self.busy.is_empty() {
            return Some(Duration::ZERO);
        }
        let now = Instant::now();
        let resumes = self.bridged_ranks.iter().filter_map(|bridged_rank| match bridged_rank.halt {
            Halt::Until(moment) => Some(moment),
            _ => None,
        });
        let gates = self.bridged_ranks.iter().filter_map(|bridged_rank| bridged_rank.door.as_ref()?.again());
        let moments = self.next_reset().into_iter().chain(resumes).chain(gates);
        // Rounded up to the poll's milliseconds, so that it doesn't wake before the moment.
        let next = moments.min().map(|moment| moment.saturating_duration_since(now) + Duration::from_micros(999));
        let trainings = self.bridged_ranks.iter().flat_map(|bridged_rank| &bridged_rank.training);
        let has_link = trainings.flat_map(|training| &training.channels).any(|channel| channel.link.is_some());
        let next = if has_link { Some(next.map_or(LISTEN_AGAIN, |next| next.min(LISTEN_AGAIN))) } else { next };
        if self.bridged_ranks.iter().any(|bridged_rank| bridged_rank.waiting.is_some()) {
            return Some(next.map_or(LOOK_AGAIN, |next| next.min(LOOK_AGAIN)));
        }
        next
    }

    /// When the next of the freed workers' connections are due.
    fn next_reset(&self) -> Option<Instant> {
        self.pending_resets.iter().map(|pending_reset| pending_reset.due).min()
    }

    /// A socket is ready.
    fn note(&mut self, event: &Event) {
        if event.token() == WAKER {
            return;
        }
        let closing = event.is_read_closed() || event.is_error();
        let (readable, writable) = (event.is_readable() || closing, event.is_writable() || closing);
        match self.sources.find(event.token()) {
            None => {}
            Some(Source::Tracker(rank)) => self.answer_door(rank),
            Some(Source::Dialogue(rank)) => self.listen_to(rank, event.token()),
            Some(Source::Bootstrap(rank)) => self.go_on_connecting(rank),
            Some(Source::Worker(rank, peer)) => {
                if let Some(worker) = self.worker(rank, peer).filter(|worker| worker.token() == event.token()) {
                    worker.ready(readable, writable, closing);
                    self.make_busy(rank, peer);
                }
            }
            Some(Source::Link(rank, peer)) => {
                let channel =
                    self.bridged_rank(rank).and_then(|bridged_rank| bridged_rank.training.as_mut()?.channel(peer));
                if let Some(link) = channel.and_then(|channel| channel.link.as_mut()) {
                    if link.token == event.token() {
                        link.ready(readable, writable, closing);
                        self.make_busy(rank, peer);
                    }
                }
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::JoinAccepted(member) => self.join_accepted(member),
            Command::Start { member, world, lineage, version, hooked } => {
                let place = StartPoint { lineage, start: version };
                self.start(member, world, place, hooked);
            }
            Command::Peers { member, peers } => self.peers(member, &peers),
            Command::Link { member, peer, link } => self.link(member, peer, *link),
            Command::Free { member, error } => self.free(member, error),
            Command::Unhold(member) => self.unhold(member),
            Command::Faults(rules) => {
                self.watch.replace(rules);
                let all: Vec<Rank> = self.bridged_ranks.iter().map(|bridged_rank| bridged_rank.rank).collect();
                all.into_iter().for_each(|rank| self.make_all_busy(rank));
            }
            Command::MakeRoom => {
                if let Some(rank) = self.bridged_ranks.first().map(|bridged_rank| bridged_rank.rank) {
                    self.spill_excess(rank);
                }
            }
            Command::Communicator { member, variant, reply } => {
                // No receiver means that the trainer's thread is gone.
                let _ = reply.send(self.communicator(member, variant));
            }
            Command::Wait { member, goal, reply } => self.ask_to_wait(member, goal, reply),
            Command::GiveUp { member, error, reply } => {
                self.give_up(member, error);
                // No receiver means that the trainer's thread is gone.
                let _ = reply.send(());
            }
            Command::Retire(member) => self.retire(member),
            Command::Close => self.over = true,
        }
    }

    /// What is due by the clock.
    fn keep_times(&mut self) {
        if self.pending_resets.is_empty() && self.bridged_ranks.iter().all(|bridged_rank| bridged_rank.halt == Halt::No)
        {
            return;
        }
        let now = Instant::now();
        let (due, later) =
            std::mem::take(&mut self.pending_resets).into_iter().partition(|pending_reset| pending_reset.due <= now);
        self.pending_resets = later;
        let due: Vec<PendingReset> = due;
        due.into_iter().for_each(|pending_reset| self.bury(pending_reset));
        let resumed: Vec<Rank> = self
            .bridged_ranks
            .iter_mut()
            .filter(|bridged_rank| matches!(bridged_rank.halt, Halt::Until(moment) if moment <= now))
            .map(|bridged_rank| {
                bridged_rank.halt = Halt::No;
                bridged_rank.rank
            })
            .collect();
        resumed.into_iter().for_each(|rank| self.make_all_busy(rank));
    }

    /// Resets a freed worker's connections.
    fn bury(&mut self, pending_reset: PendingReset) {
        for mut socket in pending_reset.sockets {
            let token = socket.token();
            self.sources.remove(socket.stream(), token);
            socket.reset();
        }
        if let Some(door) = pending_reset.door {
            self.dismantle(door);
        }
    }

    /// The bridge is over: those that wait are notified, workers that still hang are freed a little later.
    fn close(&mut self) {
        let members: Vec<MemberId> = self.bridged_ranks.iter().map(|bridged_rank| bridged_rank.id()).collect();
        for MemberId { rank, .. } in members {
            self.reset_later(rank);
            if let Some(bridged_rank) = self.bridged_rank(rank) {
                let text = format!("rank {rank}: the bridge to XGBoost is closed");
                bridged_rank.answer(Err(Error::new(Code::BadState, text)));
            }
        }
        self.shared.members.lock().clear();
        self.shared.reports.lock().take();
    }

    /// Nothing that a worker says to its tracker is answered any more.
    fn close_doors(&mut self) {
        for mut bridged_rank in std::mem::take(&mut self.bridged_ranks) {
            self.close_door(&mut bridged_rank);
        }
    }

    fn bridged_rank(&mut self, rank: Rank) -> Option<&mut BridgedRank> {
        self.bridged_ranks.iter_mut().find(|bridged_rank| bridged_rank.rank == rank)
    }

    /// The bridged rank of exactly this incarnation.
    fn member(&mut self, member: MemberId) -> Option<&mut BridgedRank> {
        self.bridged_rank(member.rank).filter(|bridged_rank| bridged_rank.id() == member)
    }

    fn worker(&mut self, rank: Rank, peer: Rank) -> Option<&mut WorkerSocket> {
        self.bridged_rank(rank)?.training.as_mut()?.channel(peer)?.worker.as_mut()
    }

    /// A channel has something to do.
    fn make_busy(&mut self, rank: Rank, peer: Rank) {
        let channel = self.bridged_rank(rank).and_then(|bridged_rank| bridged_rank.training.as_mut()?.channel(peer));
        if let Some(channel) = channel.filter(|channel| !channel.queued) {
            channel.queued = true;
            self.busy.push_back((rank, peer));
        }
    }

    /// All channels of a rank have something to do.
    fn make_all_busy(&mut self, rank: Rank) {
        let neighbours =
            self.bridged_rank(rank).and_then(|bridged_rank| Some(bridged_rank.training.as_ref()?.neighbours(rank)));
        for peer in neighbours.unwrap_or_default() {
            self.make_busy(rank, peer);
        }
    }
}
