//! Bringing a checkpoint from a holder to a newcomer, over a link of its own; and the answering side of all fetches.
//!
//! The newcomer's agent asks with a [`Request`]; the holder answers with [`Reply`]s and with `Bulk` frames in order.
//! Both sides run on the control thread in small steps, so that heartbeats are never held up.

use bytes::Bytes;
use rejoin_protocol::collective::{BootKey, Entry, Place, Signature};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{AgentId, Checkpoint, Lineage, Phase, Rank};
use rejoin_protocol::message::RESULT_PART_LIMIT;
use rejoin_protocol::view::AgentAddress;
use rejoin_protocol::wire::{self, Header, Kind};
use rejoin_transport::{Link, LinkError};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use crate::agent::MemberId;
use crate::logs::Logged;
use crate::plane::DataPlane;
use crate::store::{digest, CheckpointStore};

/// Longest silence of a holder before the next one is asked.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
pub(crate) const SLICE: usize = RESULT_PART_LIMIT;
pub(crate) const WINDOW: usize = 4 * SLICE;

/// What is asked for over a fetch link, one thing at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// A checkpoint's bytes.
    Checkpoint(Checkpoint),
    /// Hold this rank's own model too. Answered by `Send`, `Kept` or `Differs`; its bytes follow after `Send`.
    Keep(Checkpoint),
    /// Results of collectives, `from` to `to` (exclusive), each as a [`Reply::Result`] and its bytes.
    Results { lineage: Lineage, phase: Phase, from: u32, to: u32 },
    /// What a rank has called at a place.
    Call { rank: Rank, place: Place },
}

/// What is answered, but for bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// "I don't have it", or no more of it.
    Missing,
    /// A checkpoint is being made, or read; told again and again until it is there.
    Coming,
    /// What was asked for as a lazy checkpoint is this, and its bytes follow.
    Is(Checkpoint),
    /// Send the bytes of what has to be kept.
    Send,
    /// It is held.
    Kept,
    /// Other bytes are held under its name.
    Differs,
    /// A result follows.
    Result { seqno: u32, signature: Signature, key: Option<BootKey>, length: u64, digest: u128 },
    /// The call.
    Call(Option<Signature>),
}

/// The asking side.
pub(crate) struct Fetch {
    pub(crate) member: MemberId,
    /// What is being fetched; as it was asked for until a holder tells what a lazy one has become.
    pub(crate) checkpoint: Checkpoint,
    asked: Checkpoint,
    holders: VecDeque<AgentAddress>,
    holder: Option<AgentAddress>,
    tried: Vec<String>,
    received: Vec<u8>,
    pub(crate) began: Instant,
    pub(crate) heard: Instant,
}

/// What became of a step.
pub(crate) enum Progress {
    /// Nothing more to read now.
    Wait,
    /// The bytes are whole and verified.
    Done(Bytes),
    /// This holder is of no use.
    Failed(String),
}

impl Fetch {
    pub(crate) fn new(member: MemberId, checkpoint: Checkpoint, holders: Vec<AgentAddress>, now: Instant) -> Self {
        Fetch {
            member,
            checkpoint,
            asked: checkpoint,
            holders: holders.into(),
            holder: None,
            tried: Vec::new(),
            received: Vec::new(),
            began: now,
            heard: now,
        }
    }

    /// The next holder to be asked; `None` when all have been.
    pub(crate) fn next_holder(&mut self, now: Instant) -> Option<AgentAddress> {
        self.received.clear();
        self.checkpoint = self.asked;
        self.heard = now;
        self.holder = self.holders.pop_front();
        self.holder.clone()
    }

    /// Notes why the present holder is of no use.
    pub(crate) fn failed(&mut self, reason: &str) {
        if let Some(holder) = &self.holder {
            self.tried.push(format!("{} at {}: {reason}", holder.host, holder.address));
        }
    }

    /// Who was asked and what they said.
    pub(crate) fn report(&self) -> String {
        if self.tried.is_empty() {
            "nobody holds it".into()
        } else {
            self.tried.join("; ")
        }
    }

    /// The holder in words.
    pub(crate) fn source(&self, own: AgentId) -> String {
        match &self.holder {
            Some(holder) if holder.agent == own => "this process".into(),
            Some(holder) => format!("{} ({})", holder.host, holder.address),
            None => "nobody".into(),
        }
    }

    /// The link to the holder stands: ask.
    pub(crate) fn ask(&self, link: &mut Link) {
        link.send_message(&Request::Checkpoint(self.checkpoint));
    }

    /// A frame of the holder.
    pub(crate) fn take(&mut self, header: Header, payload: &[u8], now: Instant) -> Progress {
        self.heard = now;
        match header.kind {
            Kind::Control => match wire::decode::<Reply>(payload) {
                Ok(Reply::Missing) => Progress::Failed("doesn't hold it any more".into()),
                Ok(Reply::Coming) => Progress::Wait,
                Ok(Reply::Is(made)) if made.is_made() && made.agrees(&self.asked) => {
                    self.checkpoint = made;
                    if made.length == 0 {
                        return Progress::Done(Bytes::new());
                    }
                    Progress::Wait
                }
                Ok(other) => Progress::Failed(format!("answered with {other:?} where bytes were expected")),
                Err(error) => Progress::Failed(error.message),
            },
            Kind::Bulk => self.piece(header.offset, payload),
            other => Progress::Failed(format!("sent a frame of kind {other:?} where bytes were expected")),
        }
    }

    fn piece(&mut self, offset: u64, payload: &[u8]) -> Progress {
        let have = self.received.len() as u64;
        if offset != have || have + payload.len() as u64 > self.checkpoint.length {
            return Progress::Failed(format!(
                "sent bytes {offset}+{} where {have} of {} were expected",
                payload.len(),
                self.checkpoint.length
            ));
        }
        self.received.extend_from_slice(payload);
        if (self.received.len() as u64) < self.checkpoint.length {
            return Progress::Wait;
        }
        let bytes = std::mem::take(&mut self.received);
        if digest(&bytes) != self.checkpoint.digest {
            return Progress::Failed(format!("its {} bytes have another digest than planned", bytes.len()));
        }
        Progress::Done(bytes.into())
    }
}

/// The answering side.
#[derive(Default)]
pub(crate) struct Serve {
    parts: VecDeque<Part>,
    /// When it was last told that something is coming.
    told: Option<Instant>,
    /// An own model of a rank elsewhere, and its bytes so far.
    keeping: Option<(Checkpoint, Vec<u8>)>,
}

/// How often that is told.
const TELL_COMING: Duration = Duration::from_millis(500);

/// One thing to be sent.
struct Part {
    /// What stands before the bytes.
    reply: Option<Reply>,
    /// Phase, lineage and digest of the bytes' frames.
    header: Header,
    bytes: Logged,
    sent: u64,
    /// The bytes of this checkpoint are still being made.
    awaits: Option<Checkpoint>,
}

impl Serve {
    /// A request. What is returned has to be made; hand it to [`Serve::made`].
    ///
    /// # Errors
    /// `Incompatible` when it can't be read.
    pub(crate) fn request(
        &mut self,
        payload: &[u8],
        store: &CheckpointStore,
        plane: &dyn DataPlane,
        link: &mut Link,
    ) -> Result<Option<Checkpoint>, Error> {
        match wire::decode(payload)? {
            Request::Checkpoint(checkpoint) => match store.find_made(&checkpoint) {
                Some((made, bytes)) => self.parts.push_back(Part::checkpoint(&checkpoint, &made, bytes)),
                None if store.can_make(&checkpoint) => {
                    let waiting = Part::checkpoint(&checkpoint, &checkpoint, Bytes::new());
                    self.parts.push_back(Part { awaits: Some(checkpoint), ..waiting });
                    return Ok(Some(checkpoint));
                }
                None => link.send_message(&Reply::Missing),
            },
            Request::Keep(checkpoint) if store.find(&checkpoint).is_some() => link.send_message(&Reply::Kept),
            Request::Keep(checkpoint) => {
                self.keeping = Some((checkpoint, Vec::new()));
                link.send_message(&Reply::Send);
            }
            Request::Results { lineage, phase, from, to } => {
                let entries = plane.results(lineage, phase, from, to);
                let missing = (entries.len() as u64) < u64::from(to.saturating_sub(from));
                for (seqno, entry) in (from..to).zip(entries) {
                    let Entry { signature, key, result } = entry;
                    // The digest is made when its turn comes: many results at once would hold up the heartbeat.
                    let reply = Reply::Result { seqno, signature, key, length: result.len(), digest: 0 };
                    self.parts.push_back(Part::new(Some(reply), phase, lineage, 0, result));
                }
                if missing {
                    let nothing = Part::new(Some(Reply::Missing), phase, lineage, 0, Bytes::new());
                    self.parts.push_back(nothing);
                }
            }
            Request::Call { rank, place } => link.send_message(&Reply::Call(plane.signature(rank, &place))),
        }
        Ok(None)
    }

    /// A checkpoint that was waited for is made, or can't be.
    pub(crate) fn made(&mut self, asked: &Checkpoint, made: &Result<(Checkpoint, Bytes), Error>) {
        for part in self.parts.iter_mut().filter(|part| part.awaits.as_ref() == Some(asked)) {
            *part = match made {
                Ok((made, bytes)) => Part::checkpoint(asked, made, bytes.clone()),
                Err(_) => Part::new(Some(Reply::Missing), part.header.phase, part.header.lineage, 0, Bytes::new()),
            };
        }
    }

    /// Bytes of what has to be kept; with the last ones it is put into the store. Returns what is held from now on.
    ///
    /// # Errors
    /// In words: bytes in the wrong place, or with another digest than told.
    pub(crate) fn keep(
        &mut self,
        header: Header,
        payload: &[u8],
        store: &CheckpointStore,
        link: &mut Link,
    ) -> Result<Option<Checkpoint>, String> {
        let Some((checkpoint, bytes)) = &mut self.keeping else { return Err("bytes that nobody asked for".into()) };
        let have = bytes.len() as u64;
        if header.kind != Kind::Bulk || header.offset != have || have + payload.len() as u64 > checkpoint.length {
            return Err(format!("bytes {}+{} where {have} were expected", header.offset, payload.len()));
        }
        bytes.extend_from_slice(payload);
        if (bytes.len() as u64) < checkpoint.length {
            return Ok(None);
        }
        let Some((checkpoint, bytes)) = self.keeping.take() else { return Ok(None) };
        // A model without bytes has no digest.
        if !bytes.is_empty() && digest(&bytes) != checkpoint.digest {
            return Err("the bytes have another digest than told".into());
        }
        let is_kept = store.put(checkpoint, bytes.into()).is_ok();
        link.send_message(if is_kept { &Reply::Kept } else { &Reply::Differs });
        Ok(is_kept.then_some(checkpoint))
    }

    /// Tells the other side now and then that something is coming.
    pub(crate) fn tell_coming(&mut self, link: &mut Link, now: Instant) {
        let waits = self.parts.front().is_some_and(|part| part.awaits.is_some());
        if waits && self.told.is_none_or(|told| now >= told + TELL_COMING) {
            self.told = Some(now);
            link.send_message(&Reply::Coming);
        }
    }

    /// Queues and sends what fits; call again when the link is writable.
    ///
    /// # Errors
    /// The link's, which is then of no more use.
    pub(crate) fn pump(&mut self, link: &mut Link) -> Result<(), LinkError> {
        loop {
            while link.queued_bytes() < WINDOW {
                let Some(part) = self.parts.front_mut().filter(|part| part.awaits.is_none()) else { break };
                if part.push(link)? {
                    self.parts.pop_front();
                }
            }
            match link.flush()? {
                rejoin_transport::Flushed::Done if self.parts.front().is_some_and(|part| part.awaits.is_none()) => {
                    continue
                }
                _ => return Ok(()),
            }
        }
    }
}

impl Part {
    fn new(reply: Option<Reply>, phase: Phase, lineage: Lineage, digest: u64, bytes: impl Into<Logged>) -> Self {
        let bytes = bytes.into();
        let header = Header { kind: Kind::Bulk, phase, lineage, digest, ..Header::control(0) };
        Part { reply, header, bytes, sent: 0, awaits: None }
    }

    fn checkpoint(asked: &Checkpoint, made: &Checkpoint, bytes: Bytes) -> Self {
        let reply = (!asked.is_made()).then_some(Reply::Is(*made));
        Part::new(reply, Phase::Version(made.version), made.lineage, made.digest as u64, bytes)
    }

    /// Queues the next piece; true when it was the last one. A result that lies on disk is read piece by piece.
    ///
    /// # Errors
    /// When it can't be read: the link is of no more use, and the other side asks somebody else.
    fn push(&mut self, link: &mut Link) -> io::Result<bool> {
        if let Some(mut reply) = self.reply.take() {
            if let Reply::Result { digest: of_all, .. } = &mut reply {
                *of_all = self.bytes.digest();
            }
            link.send_message(&reply);
        }
        let end = (self.sent + SLICE as u64).min(self.bytes.len());
        if end > self.sent {
            link.send(Header { offset: self.sent, ..self.header }, self.bytes.part(self.sent, end)?);
            self.sent = end;
        }
        Ok(self.sent == self.bytes.len())
    }
}

/// Nobody could serve a checkpoint.
pub(crate) fn failure(fetch: &Fetch) -> Error {
    Error::new(
        Code::Io,
        format!(
            "rank {} needs checkpoint {} (round {}, {}), but no holder could give it: {}",
            fetch.member.rank,
            fetch.checkpoint.version,
            fetch.checkpoint.round,
            fetch.checkpoint.size(),
            fetch.report()
        ),
    )
}
