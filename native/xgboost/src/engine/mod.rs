//! The bridge's thread: one poll for all sockets of all ranks of the agent.
//!
//! It reads readiness, notes which channels have something to do, and lets each of them move its bytes in turn. Sockets
//! are registered once, edge-triggered, and remember themselves whether they can be read or written.

mod door;
mod entering;
mod members;
mod moving;

use crate::bootstrap::Bootstrap;
use crate::bridge::BridgeConfig;
use crate::channel::Road;
use crate::faults::Watch;
use crate::seat::{Halt, Seat};
use crate::shared::{Command, Commands, Member, Shared};
use crate::sources::{Source, Sources, WAKER};
use crate::worker_socket::WorkerSocket;
use mio::event::Event;
use mio::{Events, Poll, Waker};
use parking_lot::Mutex;
use rejoin_protocol::ids::Rank;
use std::collections::VecDeque;
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Room for events of one poll.
const EVENTS: usize = 256;

/// How soon a boundary that is not at rest is looked at again, if no event comes before.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Sockets of a worker that is being freed, until they are reset.
struct Grave {
    member: Member,
    due: Instant,
    sockets: Vec<WorkerSocket>,
    bootstrap: Option<Bootstrap>,
}

/// See the module's documentation.
pub(crate) struct Engine {
    config: BridgeConfig,
    sources: Sources,
    commands: Commands,
    shared: Arc<Shared>,
    seats: Vec<Seat>,
    graves: Vec<Grave>,
    watch: Watch,
    /// Channels that have something to do, as (rank, peer).
    busy: VecDeque<(Rank, Rank)>,
    /// How many were turned away at the gates.
    strangers: u64,
    /// A call on its own thread has panicked within the engine.
    pub(crate) has_panicked: bool,
    over: bool,
}

/// Runs until the bridge is closed. The engine is locked but for the poll.
pub(crate) fn run(engine: &Arc<Mutex<Engine>>, mut poll: Poll) {
    let mut events = Events::with_capacity(EVENTS);
    loop {
        let patience = engine.lock().patience();
        if let Err(cause) = poll.poll(&mut events, patience) {
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
            return engine.close();
        }
    }
}

/// Does something with the engine on the caller's thread, and wakes its own thread if that has left it something to do. `None` when the engine
/// has panicked, now or before.
pub(crate) fn with<T>(engine: &Mutex<Engine>, waker: &Waker, what: impl FnOnce(&mut Engine) -> T) -> Option<T> {
    let mut engine = engine.lock();
    if engine.has_panicked {
        return None;
    }
    let result = catch_unwind(AssertUnwindSafe(|| what(&mut engine)));
    let Ok(result) = result else {
        // Its books may be half written: nothing of it is used any more. Its own thread ends with this, and tells why.
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
            seats: Vec::new(),
            graves: Vec::new(),
            watch: Watch::default(),
            busy: VecDeque::new(),
            strangers: 0,
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
        self.keep_times();
    }

    /// Does what was asked on the asking thread, after all that was asked before. Whether somebody waits for more. Once the bridge is over
    /// nothing is done, and who waits for the answer is told by its closed reply.
    pub(crate) fn obey_here(&mut self, command: Command) -> bool {
        while let Ok(earlier) = self.commands.try_recv() {
            self.obey(earlier);
        }
        if self.over {
            return false;
        }
        self.obey(command);
        self.move_all();
        self.seats.iter().any(|seat| seat.waiting.is_some())
    }

    /// Whether this engine's thread has something to do, now or at a moment that it may not know of yet.
    fn is_busy(&self) -> bool {
        let waits_for_time = |seat: &Seat| matches!(seat.halt, Halt::Until(_));
        !self.busy.is_empty() || !self.graves.is_empty() || self.seats.iter().any(waits_for_time)
    }

    /// How long the poll may wait.
    fn patience(&self) -> Option<Duration> {
        if !self.busy.is_empty() {
            return Some(Duration::ZERO);
        }
        let now = Instant::now();
        let resumes = self.seats.iter().filter_map(|seat| match seat.halt {
            Halt::Until(moment) => Some(moment),
            _ => None,
        });
        let gates = self.seats.iter().filter_map(|seat| seat.door.as_ref()?.again());
        let moments = self.graves.iter().map(|grave| grave.due).chain(resumes).chain(gates);
        // Rounded up to the poll's milliseconds, so that it doesn't wake before the moment.
        let next = moments.min().map(|moment| moment.saturating_duration_since(now) + Duration::from_micros(999));
        if self.seats.iter().any(|seat| seat.waiting.is_some()) {
            return Some(next.map_or(LOOK_AGAIN, |next| next.min(LOOK_AGAIN)));
        }
        next
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
                    if writable {
                        self.make_counterpart_busy(rank, peer);
                    }
                }
            }
            Some(Source::Link(rank, peer)) => {
                let channel = self.seat(rank).and_then(|seat| seat.training.as_mut()?.channel(peer));
                if let Some(Road::Link(link)) = channel.map(|channel| &mut channel.road) {
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
            Command::Seated(member) => self.seated(member),
            Command::Start { member, world, lineage, version } => self.start(member, world, lineage, version),
            Command::Peers { member, peers } => self.peers(member, peers),
            Command::Link { member, peer, peer_incarnation, link } => {
                self.link(member, peer, peer_incarnation, *link);
            }
            Command::Free { member, error } => self.free(member, error),
            Command::Unhold(member) => self.unhold(member),
            Command::Faults(rules) => {
                self.watch.replace(rules);
                let all: Vec<Rank> = self.seats.iter().map(|seat| seat.rank).collect();
                all.into_iter().for_each(|rank| self.make_all_busy(rank));
            }
            Command::MakeRoom => {
                if let Some(rank) = self.seats.first().map(|seat| seat.rank) {
                    self.spill_excess(rank);
                }
            }
            Command::Communicator { member, variant, reply } => {
                // Nobody there to hear it means that the trainer's thread is gone.
                let _ = reply.send(self.communicator(member, variant));
            }
            Command::Wait { member, goal, reply } => self.ask_to_wait(member, goal, reply),
            Command::GiveUp { member, error, reply } => {
                self.give_up(member, error);
                // Nobody there to hear it means that the trainer's thread is gone.
                let _ = reply.send(());
            }
            Command::Retire(member) => self.retire(member),
            Command::Close => self.over = true,
        }
    }

    /// What is due by the clock.
    fn keep_times(&mut self) {
        if self.graves.is_empty() && self.seats.iter().all(|seat| seat.halt == Halt::No) {
            return;
        }
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.graves).into_iter().partition(|grave| grave.due <= now);
        self.graves = later;
        let due: Vec<Grave> = due;
        due.into_iter().for_each(|grave| self.bury(grave));
        let resumed: Vec<Rank> = self
            .seats
            .iter_mut()
            .filter(|seat| matches!(seat.halt, Halt::Until(moment) if moment <= now))
            .map(|seat| {
                seat.halt = Halt::No;
                seat.rank
            })
            .collect();
        resumed.into_iter().for_each(|rank| self.make_all_busy(rank));
    }

    /// Resets a freed worker's connections.
    fn bury(&mut self, grave: Grave) {
        for mut socket in grave.sockets {
            let token = socket.token();
            self.sources.remove(socket.stream(), token);
            socket.reset();
        }
        if let Some(bootstrap) = grave.bootstrap {
            bootstrap.abandon(&mut self.sources);
        }
    }

    /// The bridge is over: whoever waits is told, workers that still hang are freed.
    fn close(&mut self) {
        let members: Vec<Member> = self.seats.iter().map(|seat| (seat.rank, seat.incarnation)).collect();
        for (rank, _) in members {
            self.dig_grave(rank);
            if let Some(seat) = self.seat(rank) {
                seat.answer(Err(crate::engine::members::closed(rank)));
            }
        }
        for grave in std::mem::take(&mut self.graves) {
            self.bury(grave);
        }
        self.shared.members.lock().clear();
        self.shared.reports.lock().take();
    }

    fn seat(&mut self, rank: Rank) -> Option<&mut Seat> {
        self.seats.iter_mut().find(|seat| seat.rank == rank)
    }

    /// The seat of exactly this incarnation.
    fn member(&mut self, (rank, incarnation): Member) -> Option<&mut Seat> {
        self.seat(rank).filter(|seat| seat.incarnation == incarnation)
    }

    fn worker(&mut self, rank: Rank, peer: Rank) -> Option<&mut WorkerSocket> {
        self.seat(rank)?.training.as_mut()?.channel(peer)?.worker.as_mut()
    }

    /// A channel has something to do.
    fn make_busy(&mut self, rank: Rank, peer: Rank) {
        let channel = self.seat(rank).and_then(|seat| seat.training.as_mut()?.channel(peer));
        if let Some(channel) = channel.filter(|channel| !channel.queued) {
            channel.queued = true;
            self.busy.push_back((rank, peer));
        }
    }

    /// The peer's channel may go on, if the peer is in this process.
    fn make_counterpart_busy(&mut self, rank: Rank, peer: Rank) {
        let channel = self.seat(rank).and_then(|seat| seat.training.as_mut()?.channel(peer));
        if channel.is_some_and(|channel| matches!(channel.road, Road::Local(_))) {
            self.make_busy(peer, rank);
        }
    }

    /// All channels of a rank, and those of local peers to it, have something to do.
    fn make_all_busy(&mut self, rank: Rank) {
        let neighbours = self.seat(rank).and_then(|seat| Some(seat.training.as_ref()?.neighbours(rank)));
        for peer in neighbours.unwrap_or_default() {
            self.make_busy(rank, peer);
            self.make_counterpart_busy(rank, peer);
        }
    }
}
