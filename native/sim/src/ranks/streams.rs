//! The channels of one incarnation: production's stream state ([`Outgoing`], [`Incoming`]), with logs of
//! bytes, and the calls that a trainer makes over them.

use super::frame::Frame;
use super::peers::Peers;
use super::program::{parent, Program, Topology};
use super::{Defect, Job, Output};
use crate::invariants::agreement;
use rejoin_protocol::channel::{Due, Incoming, Outgoing, PhaseMark, SenderStep};
use rejoin_protocol::error::Error;
use rejoin_protocol::ids::{Lineage, Phase, Rank, Version};
use std::collections::{BTreeMap, VecDeque};

/// Both directions between a rank and one other.
#[derive(Clone, Debug)]
struct Stream {
    outgoing: Outgoing,
    log: BTreeMap<Phase, Vec<u8>>,
    incoming: Incoming,
    /// Written by the trainer, and not read by the bridge yet.
    socket: Vec<u8>,
    /// Come for the trainer, and not read by it.
    inbox: VecDeque<u8>,
}

/// A call that is carried by channels: what all give comes to all.
#[derive(Clone, Debug)]
struct Exchange {
    known: Vec<Option<u64>>,
    heard: Vec<bool>,
    has_sent_up: bool,
}

/// All channels of one incarnation.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    lineage: Lineage,
    start: Version,
    streams: BTreeMap<Rank, Stream>,
    exchange: Option<Exchange>,
    /// All of the trainer's calls are carried, as there is no hook.
    carries_all: bool,
}

impl Streams {
    pub(super) fn new(program: &Program, rank: Rank, at: (Lineage, Version), carries_all: bool) -> Self {
        let (lineage, start) = at;
        let stream = || Stream {
            outgoing: Outgoing::new(lineage, start),
            log: BTreeMap::new(),
            incoming: Incoming::new(lineage, start),
            socket: Vec::new(),
            inbox: VecDeque::new(),
        };
        let streams = program.neighbours(rank).into_iter().map(|peer| (peer, stream())).collect();
        let mut this = Streams { lineage, start, streams, exchange: None, carries_all };
        let entered = this.enter(Phase::Boot, PhaseMark { round: 0, checkpoint: 0 });
        debug_assert!(entered.is_ok(), "boot comes first");
        this
    }

    /// A link to this peer stands anew, or is about to: it is sent what was received here.
    pub(super) fn linked(&mut self, peer: Rank, peers: &Peers, out: &mut Vec<Output>) {
        let Some(stream) = self.streams.get_mut(&peer) else { return };
        stream.outgoing.unlinked();
        out.extend(peers.frame(peer, Frame::Receipt(stream.incoming.receipt())));
    }

    /// There is no peer to be linked with.
    pub(super) fn unlinked(&mut self, peer: Rank) {
        if let Some(stream) = self.streams.get_mut(&peer) {
            stream.outgoing.unlinked();
        }
    }

    pub(super) fn enter(&mut self, phase: Phase, mark: PhaseMark) -> Result<(), Error> {
        for stream in self.streams.values_mut() {
            for dropped in stream.outgoing.enter(phase, mark)? {
                stream.log.remove(&dropped);
            }
            stream.log.insert(phase, Vec::new());
            stream.incoming.enter(phase, mark)?;
        }
        Ok(())
    }

    /// The oldest version of which all is kept from now on.
    pub(super) fn hold(&mut self, defect: Option<Defect>) -> Version {
        let oldest = self.streams.values_mut().map(|stream| {
            if defect == Some(Defect::NoHolding) {
                return stream.outgoing.oldest();
            }
            stream.incoming.hold();
            stream.outgoing.hold()
        });
        oldest.max().unwrap_or(self.start)
    }

    pub(super) fn release(&mut self) {
        for stream in self.streams.values_mut() {
            stream.incoming.release();
            for dropped in stream.outgoing.release() {
                stream.log.remove(&dropped);
            }
        }
    }

    /// How many versions are logged.
    pub(super) fn versions_kept(&self) -> usize {
        let kept = self.streams.values().map(|stream| stream.log.keys().filter(|phase| **phase != Phase::Boot).count());
        kept.max().unwrap_or_default()
    }

    /// Whether all that the trainer wrote is logged.
    pub(super) fn is_at_rest(&self) -> bool {
        self.streams.values().all(|stream| stream.socket.is_empty())
    }

    /// Whether a peer's older incarnation has said something in this phase that another one would contradict.
    pub(super) fn knows(&self, peer: Rank, phase: Phase) -> bool {
        let receipt = self.streams.get(&peer).map(|stream| stream.incoming.receipt());
        receipt.is_some_and(|receipt| receipt.phases.iter().any(|had| had.phase == phase && had.bytes > 0))
    }

    /// A call begins, to which this rank gives that.
    pub(super) fn begin(&mut self, own: u64, peers: &Peers, job: &Job) {
        let world = job.program.world as usize;
        let mut known = vec![None; world];
        known[peers.own.rank.0 as usize] = Some(own);
        if job.program.topology == Topology::AllToAll {
            let message = job.program.message(&known);
            self.streams.values_mut().for_each(|stream| stream.socket.extend(&message));
        }
        self.exchange = Some(Exchange { known, heard: vec![false; world], has_sent_up: false });
    }

    /// What all have given to the call that is under way, once this rank knows it and has sent it.
    pub(super) fn advance(&mut self, rank: Rank, program: &Program) -> Option<Vec<u64>> {
        let Exchange { known, heard, has_sent_up } = self.exchange.as_mut()?;
        let is_tree = program.topology == Topology::Tree;
        let up = parent(rank).filter(|_| is_tree);
        let mut observe = |peer: Rank, stream: &mut Stream, known: &mut Vec<Option<u64>>| {
            let heard = &mut heard[peer.0 as usize];
            if !*heard && stream.inbox.len() >= program.message_bytes() {
                *heard = true;
                let message: Vec<u8> = stream.inbox.drain(..program.message_bytes()).collect();
                for (whose, value) in (0u32..).map(Rank).zip(message.chunks_exact(8)).take(known.len()) {
                    if program.tells(peer, rank, whose) {
                        known[whose.0 as usize] = value.try_into().ok().map(u64::from_le_bytes);
                    }
                }
            }
            *heard
        };
        let below = self.streams.iter_mut().filter(|(peer, _)| Some(**peer) != up);
        if below.filter_map(|(peer, stream)| (!observe(*peer, stream, known)).then_some(peer)).count() > 0 {
            return None;
        }
        if let Some((up, stream)) = up.and_then(|up| Some((up, self.streams.get_mut(&up)?))) {
            if !std::mem::replace(has_sent_up, true) {
                stream.socket.extend(program.message(known));
            }
            if !observe(up, stream, known) {
                return None;
            }
        }
        if is_tree {
            let message = program.message(known);
            let below = self.streams.iter_mut().filter(|(peer, _)| Some(**peer) != up);
            below.for_each(|(_, stream)| stream.socket.extend(&message));
        }
        let given = known.iter().map(|value| value.unwrap_or_default()).collect();
        self.exchange = None;
        Some(given)
    }

    /// The bridge logs what the trainer wrote, compares what has to be compared, and sends what can be sent.
    pub(super) fn moves(&mut self, peers: &Peers, job: &Job, out: &mut Vec<Output>) -> Result<(), Error> {
        for (peer, stream) in &mut self.streams {
            if !stream.socket.is_empty() {
                stream.outgoing.produced(stream.socket.len() as u64);
                let log = stream.log.entry(stream.outgoing.phase()).or_default();
                log.append(&mut stream.socket);
            }
            while let Some(step) = stream.outgoing.next(job.program.frame_bytes) {
                let bytes = |phase, from, to| stream.log[&phase][from as usize..to as usize].to_vec();
                let frame = match step {
                    SenderStep::Compare { phase, from, to } => {
                        let mut bytes = bytes(phase, from, to);
                        if job.defect == Some(Defect::NoComparison) {
                            let ends = (peers.own.rank, *peer);
                            let said = job.program.says(ends, phase, from, bytes.len(), self.carries_all);
                            bytes = said.unwrap_or(bytes);
                        }
                        stream.outgoing.compared(step, &bytes)?;
                        continue;
                    }
                    SenderStep::Start { phase, mark } => Frame::Start { phase, mark },
                    SenderStep::Bytes { phase, from, to } => {
                        Frame::Data { phase, offset: from, bytes: bytes(phase, from, to) }
                    }
                    SenderStep::End { phase, length } => Frame::End { phase, length },
                };
                let Some(output) = peers.frame(*peer, frame) else { break };
                out.push(output);
                stream.outgoing.done(step);
            }
        }
        Ok(())
    }

    /// Looks at the first frame of a link: whether it was taken, or stays where it is.
    pub(super) fn reads(
        &mut self,
        from: Rank,
        frame: &Frame,
        peers: &Peers,
        job: &Job,
        out: &mut Vec<Output>,
    ) -> Result<bool, Error> {
        let Some(stream) = self.streams.get_mut(&from) else { return Ok(true) };
        if let Frame::Receipt(receipt) = frame {
            stream.outgoing.receipt(receipt)?;
            return Ok(true);
        }
        if stream.incoming.due(&frame.header(self.lineage))? == Due::Later {
            return Ok(false);
        }
        match frame {
            Frame::Given(_) | Frame::Receipt(_) => {}
            Frame::Start { phase, mark } => stream.incoming.started(*phase, *mark)?,
            Frame::End { phase, length } => stream.incoming.ended(*phase, *length)?,
            Frame::Data { phase, offset, bytes } => {
                stream.incoming.took(*phase, *offset, bytes)?;
                stream.inbox.extend(bytes);
                if !job.lies {
                    let ends = (from, peers.own.rank);
                    let right = job.program.says(ends, *phase, *offset, bytes.len(), self.carries_all);
                    let found = agreement::delivered(ends, *phase, *offset, right.as_ref() == Some(bytes));
                    out.extend(found.err().map(Output::Violated));
                }
            }
        }
        Ok(true)
    }

    pub(super) fn describe(&self) -> String {
        let streams = self.streams.iter().map(|(peer, stream)| {
            let Stream { outgoing, incoming, socket, inbox, .. } = stream;
            format!("with {peer}: {outgoing:?} {incoming:?} written {} unread {}", socket.len(), inbox.len())
        });
        format!("{:?} {}", self.exchange, streams.collect::<Vec<_>>().join("; "))
    }
}
