//! Bringing a checkpoint from a holder to a newcomer, over a link of its own.
//!
//! The newcomer's agent asks with a [`Request`]; the holder answers with `Bulk` frames in order, or with a [`Missing`].
//! Both sides run on the control thread in small steps, so that heartbeats are never held up.

use bytes::Bytes;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{AgentId, Checkpoint, Phase};
use rejoin_protocol::message::RESULT_PART_LIMIT;
use rejoin_protocol::view::AgentAddress;
use rejoin_protocol::wire::{self, Header, Kind};
use rejoin_transport::{Link, LinkError};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::agent::MemberId;
use crate::store::{digest, CheckpointStore};

/// Longest silence of a holder before the next one is asked.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
const SLICE: usize = RESULT_PART_LIMIT;
const WINDOW: usize = 4 * SLICE;

/// "Send me this checkpoint."
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Request {
    checkpoint: Checkpoint,
}

/// "I don't have it."
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Missing;

/// The asking side.
pub(crate) struct Fetch {
    pub(crate) member: MemberId,
    pub(crate) checkpoint: Checkpoint,
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
        link.send_message(&Request { checkpoint: self.checkpoint });
    }

    /// A frame of the holder.
    pub(crate) fn take(&mut self, header: Header, payload: &[u8], now: Instant) -> Progress {
        self.heard = now;
        match header.kind {
            Kind::Control => match wire::decode::<Missing>(payload) {
                Ok(Missing) => Progress::Failed("doesn't hold it any more".into()),
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
    sending: Option<(Checkpoint, Bytes)>,
    sent: usize,
}

impl Serve {
    /// A request.
    ///
    /// # Errors
    /// `Incompatible` when it can't be read.
    pub(crate) fn request(&mut self, payload: &[u8], store: &CheckpointStore, link: &mut Link) -> Result<(), Error> {
        let request: Request = wire::decode(payload)?;
        match store.find(&request.checkpoint) {
            Some(bytes) => {
                self.sending = Some((request.checkpoint, bytes));
                self.sent = 0;
            }
            None => link.send_message(&Missing),
        }
        Ok(())
    }

    /// Queues and sends what fits; call again when the link is writable.
    ///
    /// # Errors
    /// The link's, which is then of no more use.
    pub(crate) fn pump(&mut self, link: &mut Link) -> Result<(), LinkError> {
        loop {
            if let Some((checkpoint, bytes)) = &self.sending {
                while link.queued_bytes() < WINDOW && self.sent < bytes.len() {
                    let end = (self.sent + SLICE).min(bytes.len());
                    let header = Header {
                        length: 0,
                        kind: Kind::Bulk,
                        phase: Phase::Version(checkpoint.version),
                        lineage: checkpoint.lineage,
                        offset: self.sent as u64,
                        digest: checkpoint.digest as u64,
                    };
                    link.send(header, bytes.slice(self.sent..end));
                    self.sent = end;
                }
                if self.sent == bytes.len() {
                    self.sending = None;
                }
            }
            match link.flush()? {
                rejoin_transport::Flushed::Done if self.sending.is_some() => continue,
                _ => return Ok(()),
            }
        }
    }
}

/// Nobody could serve a checkpoint.
pub(crate) fn failure(fetch: &Fetch) -> Error {
    Error::new(
        Code::Io,
        format!(
            "rank {} needs checkpoint {} (round {}, {} bytes), but no holder could give it: {}",
            fetch.member.rank,
            fetch.checkpoint.version,
            fetch.checkpoint.round,
            fetch.checkpoint.length,
            fetch.report()
        ),
    )
}
