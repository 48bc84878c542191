//! One worker's channel to one peer: the stream state, the log, the worker's socket and the link to the peer.

use crate::phase_log::{Budget, PhaseLog};
use crate::worker_socket::{Taken, WorkerSocket};
use bytes::Bytes;
use mio::Token;
use rejoin_protocol::channel::{Due, Incoming, Outgoing, PhaseMark, Receipt, SenderStep};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Incarnation, Lineage, Phase, Rank, Version};
use rejoin_protocol::wire::{self, Header, Kind};
use rejoin_transport::{Flushed, Link};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Most bytes of one frame.
const FRAME_BYTES: u64 = 256 << 10;

/// Nothing more is handed to a link that has so many bytes to send. The log has them, so nothing is lost by waiting.
const QUEUE_BYTES: usize = 1 << 20;

/// Most bytes that one channel moves before others have their turn.
const TURN_BYTES: u64 = 1 << 20;

/// Why a channel can't go on.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The link is of no more use.
    Link(String),
    /// What this rank produced can't be what it is supposed to be.
    Outgoing(Error),
    /// What the peer sent can't be what it is supposed to be.
    Incoming(Error),
    /// Something that ends the job, whichever side is to blame.
    Job(Error),
}

/// What moved.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    /// Bytes that the worker wrote.
    pub(crate) left: u64,
    /// Bytes that the worker was given.
    pub(crate) arrived: u64,
    /// Bytes that went on to the peer.
    pub(crate) sent: u64,
    /// There is more to do at once.
    pub(crate) more: bool,
}

/// A link to the agent of an incarnation of the peer, and what is known of its readiness.
pub(crate) struct PeerLink {
    pub(crate) link: Link,
    pub(crate) token: Token,
    pub(crate) incarnation: Incarnation,
    readable: bool,
    writable: bool,
    /// The other end is closing: no event comes for what is still to be read.
    closing: bool,
    /// The peer's receipt is here.
    has_receipt: bool,
    /// The next frame is for a phase that the worker has not entered.
    parked: bool,
}

impl PeerLink {
    pub(crate) fn new(link: Link, token: Token, incarnation: Incarnation) -> Self {
        let (readable, writable) = (true, true);
        let (closing, has_receipt, parked) = Default::default();
        PeerLink { link, token, incarnation, readable, writable, closing, has_receipt, parked }
    }

    pub(crate) fn ready(&mut self, readable: bool, writable: bool, closing: bool) {
        self.readable |= readable;
        self.writable |= writable;
        self.closing |= closing;
        if readable {
            self.link.refilled();
        }
    }

    /// Whether a read would give nothing, so that its system call can be spared.
    fn is_exhausted(&self) -> bool {
        !self.closing && self.link.is_empty()
    }

    fn flush(&mut self) -> Result<(), Trouble> {
        if self.writable && self.link.queued_bytes() > 0 {
            let flushed = self.link.flush().map_err(|cause| Trouble::Link(cause.to_string()))?;
            self.writable = flushed == Flushed::Done;
        }
        Ok(())
    }
}

/// Where an incarnation trains.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartPoint {
    pub(crate) lineage: Lineage,
    pub(crate) start: Version,
}

/// See the module's documentation.
pub(crate) struct Channel {
    pub(crate) peer: Rank,
    place: StartPoint,
    pub(crate) outgoing: Outgoing,
    pub(crate) incoming: Incoming,
    logs: BTreeMap<Phase, (PhaseLog, u64)>,
    budget: Arc<Budget>,
    pub(crate) worker: Option<WorkerSocket>,
    /// None at the moment, or the one that stands.
    pub(crate) link: Option<Box<PeerLink>>,
    /// Whether it stands in the list of channels that have something to do.
    pub(crate) queued: bool,
}

impl Channel {
    pub(crate) fn new(peer: Rank, place: StartPoint, budget: Arc<Budget>) -> Self {
        Channel {
            peer,
            place,
            outgoing: Outgoing::new(place.lineage, place.start),
            incoming: Incoming::new(place.lineage, place.start),
            logs: BTreeMap::new(),
            budget,
            worker: None,
            link: None,
            queued: false,
        }
    }

    /// The worker enters a phase. # Errors: see [`Outgoing::enter`] and [`Incoming::enter`].
    pub(crate) fn enter(&mut self, phase: Phase, mark: PhaseMark) -> Result<(), Trouble> {
        let dropped = self.outgoing.enter(phase, mark).map_err(Trouble::Outgoing)?;
        self.drop_logs(dropped);
        self.incoming.enter(phase, mark).map_err(Trouble::Incoming)?;
        let was_boot = self.logs.keys().all(|known| *known == Phase::Boot);
        self.logs.insert(phase, (PhaseLog::new(self.budget.clone()), mark.checkpoint as u64));
        if let Some(worker) = self.worker.as_mut().filter(|_| was_boot) {
            worker.fresh_buffer();
        }
        if let Some(peer) = &mut self.link {
            peer.parked = false;
        }
        Ok(())
    }

    /// Phases that no rank can need any more.
    pub(crate) fn drop_logs(&mut self, phases: Vec<Phase>) {
        for phase in phases {
            self.logs.remove(&phase);
        }
    }

    /// Nothing of this incarnation will be heard again.
    pub(crate) fn drop_all_logs(&mut self) {
        self.logs.clear();
    }

    /// The oldest phase that has bytes in memory, with its log.
    pub(crate) fn oldest_in_memory(&mut self) -> Option<(Phase, &mut PhaseLog)> {
        let found = self.logs.iter_mut().find(|(_, (log, _))| log.in_memory() > 0);
        found.map(|(phase, (log, _))| (*phase, log))
    }

    /// A link to the peer stands: it is sent at once what was received here.
    pub(crate) fn linked(&mut self, mut peer: PeerLink) {
        let receipt = Bytes::from(wire::encode(&self.incoming.receipt()));
        peer.link.send(self.header(Kind::Receipt, Phase::Boot, 0), receipt);
        self.outgoing.unlinked();
        self.link = Some(Box::new(peer));
    }

    /// The link to the peer, if there was one, is none of this channel's any more.
    pub(crate) fn unlinked(&mut self) -> Option<Box<PeerLink>> {
        self.outgoing.unlinked();
        self.link.take()
    }

    /// Whether the peer's receipt is here.
    pub(crate) fn is_acquainted(&self) -> bool {
        self.link.as_ref().is_some_and(|peer| peer.has_receipt)
    }

    /// Reads what the worker wrote, at most `allowance` bytes, into the log.
    pub(crate) fn read_worker(&mut self, allowance: u64, moved: &mut Moved) {
        let Some(worker) = self.worker.as_mut() else { return };
        let phase = self.outgoing.phase();
        let Some((log, _)) = self.logs.get_mut(&phase) else { return };
        let allowance = allowance.min(TURN_BYTES);
        let mut left = 0;
        while left < allowance {
            match worker.read((allowance - left) as usize, &self.budget.read_buffers) {
                Taken::Bytes(bytes) => {
                    left += bytes.len() as u64;
                    self.outgoing.produced(bytes.len() as u64);
                    log.append(bytes);
                }
                Taken::Blocked | Taken::Ended => break,
            }
        }
        moved.more |= left == TURN_BYTES;
        moved.left += left;
    }

    /// Compares and sends what can be sent over the link, and takes from it what is due.
    pub(crate) fn exchange(&mut self, moved: &mut Moved) -> Result<(), Trouble> {
        self.send(moved)?;
        let acquainted = self.is_acquainted();
        self.receive(moved)?;
        if acquainted != self.is_acquainted() {
            // The receipt that came has opened the way.
            self.send(moved)?;
        }
        Ok(())
    }

    fn send(&mut self, moved: &mut Moved) -> Result<(), Trouble> {
        while let Some(step) = self.outgoing.next(FRAME_BYTES) {
            if let SenderStep::Compare { phase, from, to } = step {
                self.compare(step, phase, from, to)?;
                continue;
            }
            let Some(peer) = &mut self.link else { return Ok(()) };
            if peer.link.queued_bytes() >= QUEUE_BYTES {
                peer.flush()?;
                if peer.link.queued_bytes() >= QUEUE_BYTES {
                    return Ok(());
                }
            }
            let (header, payload, done) = self.frame(step)?;
            moved.sent += if header.kind == Kind::Data { payload.len() as u64 } else { 0 };
            let Some(peer) = &mut self.link else { return Ok(()) };
            peer.link.send(header, payload);
            self.outgoing.done(done);
        }
        self.link.as_mut().map_or(Ok(()), |peer| peer.flush())
    }

    fn receive(&mut self, moved: &mut Moved) -> Result<(), Trouble> {
        let Some(peer) = &mut self.link else { return Ok(()) };
        let broken = |cause: rejoin_transport::LinkError| Trouble::Link(cause.to_string());
        if let Some(worker) = &mut self.worker {
            worker.flush();
        }
        let mut taken = 0;
        while peer.readable && !peer.parked {
            if taken >= TURN_BYTES {
                moved.more = true;
                break;
            }
            if peer.is_exhausted() {
                peer.readable = false;
                break;
            }
            let Some(header) = peer.link.next_header().map_err(broken)? else {
                peer.readable = false;
                break;
            };
            if peer.has_receipt {
                if self.incoming.due(&header).map_err(Trouble::Incoming)? == Due::Later {
                    peer.parked = true;
                    break;
                }
                if header.kind == Kind::Data && !self.worker.as_ref().is_some_and(WorkerSocket::is_free) {
                    break;
                }
            }
            let Some((header, payload)) = peer.link.take_part().map_err(broken)? else {
                peer.readable = false;
                break;
            };
            if !peer.has_receipt {
                let receipt = receipt(&header, &payload).map_err(Trouble::Link)?;
                self.outgoing.receipt(&receipt).map_err(Trouble::Outgoing)?;
                peer.has_receipt = true;
                continue;
            }
            taken += payload.len() as u64;
            moved.arrived += accept(&mut self.incoming, self.worker.as_mut(), &header, payload)?;
        }
        Ok(())
    }

    fn compare(&mut self, step: SenderStep, phase: Phase, from: u64, to: u64) -> Result<(), Trouble> {
        let bytes = self.log(phase)?.range(from, to).map_err(unreadable)?;
        self.outgoing.compared(step, &bytes).map_err(Trouble::Outgoing)
    }

    /// The frame of a step, and the step as far as the frame carries it.
    fn frame(&self, step: SenderStep) -> Result<(Header, Bytes, SenderStep), Trouble> {
        let header = self.header_of(step);
        Ok(match step {
            SenderStep::Bytes { phase, from, to } => {
                let bytes = self.log(phase)?.piece(from, to).map_err(unreadable)?;
                let done = SenderStep::Bytes { phase, from, to: from + bytes.len() as u64 };
                (header, bytes, done)
            }
            SenderStep::Start { mark, .. } => (header, wire::encode(&mark).into(), step),
            SenderStep::End { .. } | SenderStep::Compare { .. } => (header, Bytes::new(), step),
        })
    }

    fn header_of(&self, step: SenderStep) -> Header {
        match step {
            SenderStep::Start { phase, .. } => self.header(Kind::PhaseStart, phase, 0),
            SenderStep::End { phase, length } => self.header(Kind::PhaseEnd, phase, length),
            SenderStep::Bytes { phase, from, .. } | SenderStep::Compare { phase, from, .. } => {
                self.header(Kind::Data, phase, from)
            }
        }
    }

    fn header(&self, kind: Kind, phase: Phase, offset: u64) -> Header {
        let digest = self.logs.get(&phase).map_or(0, |(_, digest)| *digest);
        let lineage = self.place.lineage;
        Header { length: 0, kind, phase, lineage, offset, digest, generation: Default::default(), inputs: 0 }
    }

    fn log(&self, phase: Phase) -> Result<&PhaseLog, Trouble> {
        let missing = || Trouble::Job(Error::new(Code::Internal, format!("the log of {phase} is wanted but gone")));
        self.logs.get(&phase).map(|(log, _)| log).ok_or_else(missing)
    }
}

/// Handles a frame that is due. Returns the bytes that it had for the worker.
fn accept(
    incoming: &mut Incoming,
    worker: Option<&mut WorkerSocket>,
    header: &Header,
    payload: Bytes,
) -> Result<u64, Trouble> {
    match header.kind {
        Kind::PhaseStart => {
            let mark: PhaseMark = wire::decode(&payload).map_err(|error| Trouble::Link(error.to_string()))?;
            incoming.started(header.phase, mark).map_err(Trouble::Incoming)?;
            Ok(0)
        }
        Kind::PhaseEnd => {
            incoming.ended(header.phase, header.offset).map_err(Trouble::Incoming)?;
            Ok(0)
        }
        Kind::Data => {
            let bytes = payload.len() as u64;
            incoming.took(header.phase, header.offset, &payload).map_err(Trouble::Incoming)?;
            if let Some(worker) = worker {
                worker.write(payload);
            }
            Ok(bytes)
        }
        other => Err(Trouble::Link(format!("a frame of kind {other:?} came, which is none of a channel"))),
    }
}

/// The first frame of a link.
fn receipt(header: &Header, payload: &[u8]) -> Result<Receipt, String> {
    if header.kind != Kind::Receipt {
        return Err(format!("expected a receipt as the link's first frame, saw {:?}", header.kind));
    }
    wire::decode(payload).map_err(|error| error.to_string())
}

fn unreadable(cause: io::Error) -> Trouble {
    Trouble::Job(Error::new(Code::Io, format!("a log can't be read back: {cause}")))
}
