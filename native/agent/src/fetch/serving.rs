//! The answering side: one for each link that is fetched over.

use super::{Reply, Request, SLICE, WINDOW};
use crate::digest::part_digest;
use crate::logs::Logged;
use crate::plane::Planes;
use crate::store::CheckpointStore;
use bytes::Bytes;
use rejoin_protocol::collective::Entry;
use rejoin_protocol::error::Error;
use rejoin_protocol::ids::{Checkpoint, Lineage, Phase};
use rejoin_protocol::wire::{self, Header, Kind};
use rejoin_transport::{Flushed, Link, LinkError};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};
use twox_hash::XxHash3_128;

/// The answering side.
#[derive(Default)]
pub(crate) struct Serve {
    parts: VecDeque<PendingReply>,
    /// When it was last said that something is coming.
    announced: Option<Instant>,
    /// An own model of a rank elsewhere, its bytes so far, and their digest.
    keeping: Option<(Checkpoint, Vec<u8>, XxHash3_128)>,
}

/// How often that is said.
const ANNOUNCE_EVERY: Duration = Duration::from_millis(500);

/// One thing to be sent.
struct PendingReply {
    /// What stands before the bytes.
    reply: Option<Reply>,
    /// Phase and lineage of the bytes' frames.
    header: Header,
    bytes: Logged,
    /// Bytes before `sent` are not to be sent, or have been; nor are those from `end` on.
    sent: u64,
    end: u64,
    /// The bytes of this checkpoint, of which these are wanted, are still being made.
    awaits: Option<(Checkpoint, Range<u64>)>,
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
        planes: &Planes,
        link: &mut Link,
    ) -> Result<Option<Checkpoint>, Error> {
        match wire::decode(payload)? {
            Request::Checkpoint { checkpoint, from, to } => match store.find_made(&checkpoint) {
                Some((made, bytes)) => {
                    self.parts.push_back(PendingReply::checkpoint(&checkpoint, &made, bytes, from..to))
                }
                None if store.can_make(&checkpoint) => {
                    let waiting = PendingReply::checkpoint(&checkpoint, &checkpoint, Bytes::new(), 0..0);
                    self.parts.push_back(PendingReply { awaits: Some((checkpoint, from..to)), ..waiting });
                    return Ok(Some(checkpoint));
                }
                None => link.send_message(&Reply::Missing),
            },
            Request::Keep(checkpoint) if store.find(&checkpoint).is_some() => link.send_message(&Reply::Kept),
            Request::Keep(checkpoint) => {
                self.keeping = Some((checkpoint, Vec::new(), XxHash3_128::new()));
                link.send_message(&Reply::Send);
            }
            Request::Results { lineage, phase, from, to } => {
                let held = planes.collectives.as_ref().map(|plane| plane.results(lineage, phase, from, to));
                let entries = held.unwrap_or_default();
                let missing = (entries.len() as u64) < u64::from(to.saturating_sub(from));
                for (seqno, entry) in (from..to).zip(entries) {
                    let Entry { signature, key, result } = entry;
                    // What waits to be sent belongs to no log: it isn't to be counted as one's for
                    // as long as a slow rank takes.
                    let result = result.in_memory().cloned().map_or(result, Logged::Memory);
                    // The digest is made when its turn comes: many results at once would hold up the heartbeat.
                    let reply = Reply::Result { seqno, signature, key, length: result.len(), digest: 0 };
                    self.parts.push_back(PendingReply::new(Some(reply), phase, lineage, result));
                }
                if missing {
                    let nothing = PendingReply::new(Some(Reply::Missing), phase, lineage, Bytes::new());
                    self.parts.push_back(nothing);
                }
            }
            Request::Call { rank, place } => {
                let plane = planes.collectives.as_ref();
                link.send_message(&Reply::Call(plane.and_then(|plane| plane.signature(rank, &place))));
            }
        }
        Ok(None)
    }

    /// A checkpoint that was waited for is made, or can't be.
    pub(crate) fn made(&mut self, asked: &Checkpoint, made: &Result<(Checkpoint, Bytes), Error>) {
        for part in &mut self.parts {
            let Some((_, range)) = part.awaits.take_if(|(awaited, _)| awaited == asked) else { continue };
            *part = match made {
                Ok((made, bytes)) => PendingReply::checkpoint(asked, made, bytes.clone(), range),
                Err(_) => PendingReply::new(Some(Reply::Missing), part.header.phase, part.header.lineage, Bytes::new()),
            };
        }
    }

    /// Bytes of what has to be kept; with the last ones it is put into the store. Returns what is held from now on.
    ///
    /// # Errors
    /// In words: bytes in the wrong place, or with another digest than announced.
    pub(crate) fn keep(
        &mut self,
        header: Header,
        payload: &[u8],
        store: &CheckpointStore,
        link: &mut Link,
    ) -> Result<Option<Checkpoint>, String> {
        let Some((checkpoint, bytes, digest)) = &mut self.keeping else {
            return Err("bytes that were not asked for".into());
        };
        let have = bytes.len() as u64;
        if header.kind != Kind::Bulk || header.offset != have || have + payload.len() as u64 > checkpoint.length {
            return Err(format!("bytes {}+{} where {have} were expected", header.offset, payload.len()));
        }
        if part_digest(payload) != header.digest {
            return Err(format!("bytes {have}+{} came with another digest than announced", payload.len()));
        }
        bytes.extend_from_slice(payload);
        digest.write(payload);
        if (bytes.len() as u64) < checkpoint.length {
            return Ok(None);
        }
        let Some((checkpoint, bytes, digest)) = self.keeping.take() else { return Ok(None) };
        // A model without bytes has no digest.
        if !bytes.is_empty() && digest.finish_128() != checkpoint.digest {
            return Err("the bytes have another digest than announced".into());
        }
        let is_kept = store.put(checkpoint, Bytes::from(bytes)).is_ok();
        link.send_message(if is_kept { &Reply::Kept } else { &Reply::Differs });
        Ok(is_kept.then_some(checkpoint))
    }

    /// Says to the other side now and then that something is coming.
    pub(crate) fn announce(&mut self, link: &mut Link, now: Instant) {
        let waits = self.parts.front().is_some_and(|part| part.awaits.is_some());
        if waits && self.announced.is_none_or(|announced| now >= announced + ANNOUNCE_EVERY) {
            self.announced = Some(now);
            link.send_message(&Reply::Coming);
        }
    }

    /// Queues and sends at most a window. True when all of that is gone and more could follow at
    /// once; otherwise call again when the link is writable.
    ///
    /// # Errors
    /// The link's, which is then of no more use.
    pub(crate) fn pump(&mut self, link: &mut Link) -> Result<bool, LinkError> {
        while link.queued_bytes() < WINDOW {
            let Some(part) = self.parts.front_mut().filter(|part| part.awaits.is_none()) else { break };
            if part.push(link)? {
                self.parts.pop_front();
            }
        }
        let is_gone = link.flush()? == Flushed::Done;
        Ok(is_gone && self.parts.front().is_some_and(|part| part.awaits.is_none()))
    }
}

impl PendingReply {
    fn new(reply: Option<Reply>, phase: Phase, lineage: Lineage, bytes: impl Into<Logged>) -> Self {
        let bytes = bytes.into();
        let header = Header { kind: Kind::Bulk, phase, lineage, ..Header::control(0) };
        let end = bytes.len();
        PendingReply { reply, header, bytes, sent: 0, end, awaits: None }
    }

    fn checkpoint(asked: &Checkpoint, made: &Checkpoint, bytes: Bytes, wanted: Range<u64>) -> Self {
        let reply = (!asked.is_made()).then_some(Reply::Is(*made));
        let part = PendingReply::new(reply, Phase::Version(made.version), made.lineage, bytes);
        let end = wanted.end.min(part.end);
        PendingReply { sent: wanted.start.min(end), end, ..part }
    }

    /// Queues the next piece; true when it was the last one. A result that lies on disk is read piece by piece.
    ///
    /// # Errors
    /// When it can't be read: the link is of no more use, and the other side asks another.
    fn push(&mut self, link: &mut Link) -> io::Result<bool> {
        if let Some(mut reply) = self.reply.take() {
            if let Reply::Result { digest: of_all, .. } = &mut reply {
                *of_all = self.bytes.digest();
            }
            link.send_message(&reply);
        }
        let end = (self.sent + SLICE as u64).min(self.end);
        if end > self.sent {
            let part = self.bytes.part(self.sent, end)?;
            link.send(Header { offset: self.sent, digest: part_digest(&part), ..self.header }, part);
            self.sent = end;
        }
        Ok(self.sent == self.end)
    }
}
