//! Bringing a rank's own model to another process, which holds it for the case that this one dies.

use crate::digest::part_digest;
use crate::fetch::{Reply, Request, SLICE, WINDOW};
use bytes::Bytes;
use rejoin_protocol::ids::{AgentId, Checkpoint, Phase};
use rejoin_protocol::wire::{self, Header, Kind};
use rejoin_transport::{Flushed, Link, LinkError};
use std::time::Instant;

/// The sending side, on the control thread in small steps.
pub(crate) struct Copy {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) to: AgentId,
    bytes: Bytes,
    sent: usize,
    is_wanted: bool,
    is_whole: bool,
    pub(crate) last_heard: Instant,
}

/// What the other side has said.
pub(crate) enum Said {
    /// It wants the bytes.
    Send,
    /// It holds them.
    Kept,
    /// It holds others.
    Differs,
}

impl Copy {
    pub(crate) fn new(checkpoint: Checkpoint, to: AgentId, bytes: Bytes) -> Self {
        Copy { checkpoint, to, bytes, sent: 0, is_wanted: false, is_whole: false, last_heard: Instant::now() }
    }

    /// The link stands.
    pub(crate) fn ask(&self, link: &mut Link) {
        link.send_message(&Request::Keep(self.checkpoint));
    }

    /// A frame of the other side.
    ///
    /// # Errors
    /// In words, when it is none that is expected.
    pub(crate) fn take(&mut self, header: Header, payload: &[u8], now: Instant) -> Result<Said, String> {
        self.last_heard = now;
        match (header.kind, wire::decode::<Reply>(payload)) {
            (Kind::Control, Ok(Reply::Send)) => {
                self.is_wanted = true;
                Ok(Said::Send)
            }
            (Kind::Control, Ok(Reply::Kept)) => Ok(Said::Kept),
            (Kind::Control, Ok(Reply::Differs)) => Ok(Said::Differs),
            (kind, other) => Err(format!("a frame of kind {kind:?} came for a copy: {other:?}")),
        }
    }

    /// Queues and sends at most a window. True when all of that is gone and more could follow at
    /// once; otherwise call again when the link is writable.
    ///
    /// # Errors
    /// The link's, which is then of no more use.
    pub(crate) fn pump(&mut self, link: &mut Link, now: Instant) -> Result<bool, LinkError> {
        while self.is_wanted && !self.is_whole && link.queued_bytes() < WINDOW {
            let end = (self.sent + SLICE).min(self.bytes.len());
            let Checkpoint { version, lineage, .. } = self.checkpoint;
            let part = self.bytes.slice(self.sent..end);
            let header = Header {
                kind: Kind::Bulk,
                phase: Phase::Version(version),
                lineage,
                offset: self.sent as u64,
                digest: part_digest(&part),
                ..Header::control(0)
            };
            link.send(header, part);
            self.sent = end;
            // A model without bytes is one empty frame.
            self.is_whole = end == self.bytes.len();
            self.last_heard = now;
        }
        let is_gone = link.flush()? == Flushed::Done;
        Ok(is_gone && self.is_wanted && !self.is_whole)
    }
}
