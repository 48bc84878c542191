//! Connecting one worker: the agent answers as its tracker and as every peer.
//!
//! The dialogue (source: `src/collective/comm.cc` of XGBoost):
//!
//! 1. The worker gets the world's size and the next rank's address. It connects there (to us) and
//!    accepts one connection from the previous rank (from us).
//! 2. Over these two run two ring allgathers, of host names and of ports. The worker sends its slots to the next rank
//!    and reads those of all from the previous one; both can be answered without any other rank.
//! 3. Channels: of each pair the lower rank connects and says its number. From 3.3 on the two ring sockets stay as the
//!    channels to these neighbours; with two ranks only the one that the lower rank opened.

use crate::dialogue;
use crate::gate::{loopback, Gate};
use crate::kernel;
use crate::sources::{Source, Sources};
use crate::topology::{neighbours, next, previous, WireVariant};
use crate::worker_socket::prepare;
use mio::net::TcpStream;
use mio::{Interest, Token};
use rejoin_protocol::ids::Rank;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Instant;

/// Bytes of a slot in the allgather of host names.
const HOST_SLOT: usize = 64;

/// Bytes of a slot in the allgather of ports.
const PORT_BYTES: usize = 4;

/// One socket on its way: bytes that have to go out, bytes that have to come in, then it is ready.
#[derive(Debug)]
struct Loose {
    stream: TcpStream,
    token: Token,
    connected: bool,
    outbox: Vec<u8>,
    inbox: Vec<u8>,
    expected: usize,
}

impl Loose {
    /// Moves what can be moved. # Errors: the connection is over.
    fn advance(&mut self) -> io::Result<()> {
        if !self.connected {
            if let Some(cause) = self.stream.take_error()? {
                return Err(cause);
            }
            match self.stream.peer_addr() {
                Ok(_) => self.connected = true,
                Err(cause) if cause.kind() == ErrorKind::NotConnected => return Ok(()),
                Err(cause) => return Err(cause),
            }
        }
        while !self.outbox.is_empty() {
            match self.stream.write(&self.outbox) {
                Ok(count) => drop(self.outbox.drain(..count)),
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                Err(cause) if cause.kind() == ErrorKind::WouldBlock => break,
                Err(cause) => return Err(cause),
            }
        }
        let mut buffer = [0; 4096];
        while self.inbox.len() < self.expected {
            // Not one byte more: what follows belongs to the channel.
            let most = buffer.len().min(self.expected - self.inbox.len());
            match self.stream.read(&mut buffer[..most]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.inbox.extend_from_slice(&buffer[..count]);
                    kernel::acknowledge(&self.stream);
                }
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                Err(cause) if cause.kind() == ErrorKind::WouldBlock => break,
                Err(cause) => return Err(cause),
            }
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        self.connected && self.outbox.is_empty() && self.inbox.len() == self.expected
    }
}

/// A channel's socket that is ready for the worker's bytes.
pub(crate) type Ready = BTreeMap<Rank, (TcpStream, Token)>;

/// The bootstrap of one worker, from its start command to its channels.
#[derive(Debug)]
pub(crate) struct Bootstrap {
    rank: Rank,
    world: u32,
    variant: WireVariant,
    worker_port: u16,
    /// The tracker's connection, closed when all is done.
    tracker: Loose,
    /// Where the worker finds the peers that it connects to itself.
    gates: BTreeMap<Rank, Gate>,
    /// Connections of the worker to these peers whose turn has not come.
    early: BTreeMap<Rank, VecDeque<TcpStream>>,
    /// Ring sockets: accepted as the next rank, opened as the previous one.
    ring_next: Option<Loose>,
    ring_previous: Option<Loose>,
    ring_over: bool,
    /// Channels on their way, by peer.
    opening: BTreeMap<Rank, Loose>,
    /// Strangers that knocked.
    strangers: Vec<SocketAddr>,
}

impl Bootstrap {
    /// Answers a start command that came on `tracker`; the worker listens at `worker_port`.
    ///
    /// # Errors
    /// When a socket can't be made.
    pub(crate) fn begin(
        rank: Rank,
        world: u32,
        variant: WireVariant,
        worker_port: u16,
        tracker: (TcpStream, Token),
        sources: &mut Sources,
    ) -> io::Result<Self> {
        let mut gates = BTreeMap::new();
        let mut ports = BTreeMap::from([(rank, worker_port)]);
        let after = next(rank, world);
        for peer in (0..world).map(Rank).filter(|peer| *peer != rank) {
            let opened_by_worker = peer > rank && neighbours(variant, world, rank).contains(&peer);
            if peer != after && !opened_by_worker {
                // Never connected to; XGBoost only wants some port.
                ports.insert(peer, worker_port);
                continue;
            }
            let gate = Gate::open(Source::Bootstrap(rank), sources)?;
            ports.insert(peer, gate.port()?);
            gates.insert(peer, gate);
        }
        let mut ring_previous = None;
        if world > 1 {
            // Slot k describes rank k + 1, and slots travel from the previous rank in descending order.
            let described = (0..world).map(|step| Rank((rank.0 + world - step) % world));
            let mut slots = Vec::with_capacity(world as usize * (HOST_SLOT + PORT_BYTES));
            for _ in 0..world {
                let host = b"127.0.0.1";
                slots.extend_from_slice(host);
                slots.resize(slots.len() + HOST_SLOT - host.len(), 0);
            }
            described.for_each(|peer| slots.extend_from_slice(&i32::from(ports[&peer]).to_le_bytes()));
            ring_previous = Some(dial(rank, worker_port, slots, sources)?);
        }
        let (stream, token) = tracker;
        let outbox = dialogue::welcome(world, ports[&after], after.0);
        Ok(Bootstrap {
            rank,
            world,
            variant,
            worker_port,
            tracker: Loose { stream, token, connected: true, outbox, inbox: Vec::new(), expected: 0 },
            gates,
            early: BTreeMap::new(),
            ring_next: None,
            ring_previous,
            ring_over: world == 1,
            opening: BTreeMap::new(),
            strangers: Vec::new(),
        })
    }

    /// Does what can be done now. Gives the channels' sockets when all of them are there; then the bootstrap is over.
    ///
    /// # Errors
    /// When the worker has gone away.
    pub(crate) fn advance(&mut self, sources: &mut Sources) -> io::Result<Option<Ready>> {
        self.tracker.advance()?;
        self.accept(sources)?;
        if !self.ring_over {
            self.advance_ring(sources)?;
        }
        if !self.ring_over {
            return Ok(None);
        }
        for loose in self.opening.values_mut() {
            loose.advance()?;
        }
        for (peer, loose) in self.opening.iter().filter(|(_, loose)| loose.is_ready() && loose.expected == 4) {
            if loose.inbox != (self.rank.0 as i32).to_le_bytes() {
                let text = format!("the worker opened a channel to rank {peer} in the name of another rank");
                return Err(io::Error::new(ErrorKind::InvalidData, text));
            }
        }
        let wanted = neighbours(self.variant, self.world, self.rank);
        let whole = wanted.iter().all(|peer| self.opening.get(peer).is_some_and(Loose::is_ready));
        if !whole || !self.tracker.is_ready() {
            return Ok(None);
        }
        let ready = std::mem::take(&mut self.opening);
        Ok(Some(ready.into_iter().map(|(peer, loose)| (peer, (loose.stream, loose.token))).collect()))
    }

    /// Addresses of strangers that were turned away since the last call.
    pub(crate) fn take_strangers(&mut self) -> Vec<SocketAddr> {
        std::mem::take(&mut self.strangers)
    }

    /// When it has to go on though no event comes.
    pub(crate) fn again(&self) -> Option<Instant> {
        self.gates.values().filter_map(Gate::again).min()
    }

    /// Accepts what the worker opens itself: the ring to the next rank, and channels to higher ranks.
    fn accept(&mut self, sources: &mut Sources) -> io::Result<()> {
        for (peer, gate) in &mut self.gates {
            let mut knocks = gate.knocks(Instant::now())?;
            self.strangers.append(&mut knocks.strangers);
            let early = self.early.entry(*peer).or_default();
            early.extend(knocks.own);
            loop {
                let for_ring = !self.ring_over && self.ring_next.is_none() && *peer == next(self.rank, self.world);
                if !for_ring && !self.ring_over {
                    // A channel, opened while the ring is still closing here.
                    break;
                }
                let Some(stream) = early.pop_front() else { break };
                if !for_ring && self.opening.contains_key(peer) {
                    self.strangers.extend(stream.peer_addr());
                    rejoin_transport::reset(stream);
                    continue;
                }
                let expected = if for_ring { self.world as usize * (HOST_SLOT + PORT_BYTES) } else { 4 };
                let loose = loose(self.rank, stream, true, Vec::new(), expected, sources)?;
                if for_ring {
                    self.ring_next = Some(loose);
                } else {
                    self.opening.insert(*peer, loose);
                }
            }
        }
        Ok(())
    }

    fn advance_ring(&mut self, sources: &mut Sources) -> io::Result<()> {
        let (Some(after), Some(before)) = (&mut self.ring_next, &mut self.ring_previous) else { return Ok(()) };
        after.advance()?;
        before.advance()?;
        if !after.is_ready() || !before.is_ready() {
            return Ok(());
        }
        self.ring_over = true;
        let (next, previous) = (next(self.rank, self.world), previous(self.rank, self.world));
        // This rank opened the one to the next rank, the previous rank opened the other.
        let ring = [(next, self.rank, self.ring_next.take()), (previous, previous, self.ring_previous.take())];
        for (peer, opener, loose) in ring {
            let Some(mut loose) = loose else { continue };
            let opened_by_lower = opener == self.rank.min(peer);
            let stays = self.variant == WireVariant::From33 && (next != previous || opened_by_lower);
            if stays {
                loose.inbox.clear();
                loose.expected = 0;
                self.opening.insert(peer, loose);
            } else {
                sources.remove(&mut loose.stream, loose.token);
            }
        }
        for peer in neighbours(self.variant, self.world, self.rank) {
            if peer < self.rank && !self.opening.contains_key(&peer) {
                let name = (peer.0 as i32).to_le_bytes().to_vec();
                self.opening.insert(peer, dial(self.rank, self.worker_port, name, sources)?);
            }
        }
        // Its event may be long gone.
        self.accept(sources)
    }

    /// Frees a worker that sits in the bootstrap: all its connections are reset. Once it knows the next rank it may sit
    /// in `accept`, where only a connection wakes it, so it gets one that ends at once.
    pub(crate) fn abandon(mut self, sources: &mut Sources) {
        std::mem::take(&mut self.gates).into_values().for_each(|gate| gate.close(sources));
        std::mem::take(&mut self.early).into_values().flatten().for_each(rejoin_transport::reset);
        let Bootstrap { tracker, ring_next, ring_previous, opening, worker_port, .. } = self;
        let all = [Some(tracker), ring_next, ring_previous].into_iter().flatten().chain(opening.into_values());
        for mut loose in all {
            sources.remove(&mut loose.stream, loose.token);
            rejoin_transport::reset(loose.stream);
        }
        // Connecting to a listener of this host doesn't wait; if it listens no more there is nothing to free.
        if let Ok(stream) = std::net::TcpStream::connect_timeout(&loopback(worker_port), ABANDON_LIMIT) {
            drop(stream);
        }
    }

    /// The sockets are no longer of use: all channels were handed over.
    pub(crate) fn end(mut self, sources: &mut Sources) {
        sources.remove(&mut self.tracker.stream, self.tracker.token);
        self.gates.into_values().for_each(|gate| gate.close(sources));
    }
}

/// How long the connection that frees a worker from `accept` may take.
const ABANDON_LIMIT: std::time::Duration = std::time::Duration::from_millis(100);

fn dial(rank: Rank, port: u16, outbox: Vec<u8>, sources: &mut Sources) -> io::Result<Loose> {
    loose(rank, TcpStream::connect(loopback(port))?, false, outbox, 0, sources)
}

fn loose(
    rank: Rank,
    mut stream: TcpStream,
    connected: bool,
    outbox: Vec<u8>,
    expected: usize,
    sources: &mut Sources,
) -> io::Result<Loose> {
    prepare(&stream);
    let token = sources.add(&mut stream, Source::Bootstrap(rank), Interest::READABLE | Interest::WRITABLE)?;
    Ok(Loose { stream, token, connected, outbox, inbox: Vec::new(), expected })
}
