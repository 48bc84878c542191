//! The book of one directed channel between two ranks: opaque bytes in phases.
//!
//! [`Outgoing`] is the sender's side: lengths of the phases it logs, what the receiver has, what goes out next, and the
//! comparison of bytes that a restarted worker produces again. [`Incoming`] is the receiver's side: what was delivered,
//! its digests, and whether a frame is due now, later or never. The bytes themselves are the driver's.

use crate::error::Error;
use crate::ids::{Lineage, Phase, Version};
use crate::wire::Header;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Distance of the points of a phase at which the digest of all bytes so far is kept.
pub const DIGEST_STRIDE: u64 = 64 << 10;

/// How a phase begins; the receiver compares it with its own boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseMark {
    /// First round of the phase; 0 in boot.
    pub round: u32,
    /// Digest of the checkpoint that the phase starts from; 0 in boot and version 0.
    pub checkpoint: u128,
}

/// What a receiver has of one phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseReceipt {
    /// The phase.
    pub phase: Phase,
    /// Bytes taken.
    pub bytes: u64,
    /// Digest (xxh3-64) of the first `DIGEST_STRIDE`, 2 x `DIGEST_STRIDE`, … bytes of the phase.
    pub strides: Vec<u64>,
    /// Digest of all `bytes`.
    pub digest: u64,
    /// Whether the receiver has left the phase: its length is final.
    pub closed: bool,
}

/// What a receiver tells the sender on every new link: first frame in each direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The lineage that it trains in.
    pub lineage: Lineage,
    /// The version at which this incarnation started: after boot it wants this one, and nothing older.
    pub start: Version,
    /// What it has, oldest phase first.
    pub phases: Vec<PhaseReceipt>,
}

/// What the sender's driver does next on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read these bytes back from the log and hand them to [`Outgoing::compared`]: the receiver has them from an older
    /// incarnation.
    Compare {
        /** Phase. */
        phase: Phase,
        /** First byte. */
        from: u64,
        /** End. */
        to: u64,
    },
    /// Send a `PhaseStart` frame.
    Start {
        /** Phase. */
        phase: Phase,
        /** Payload. */
        mark: PhaseMark,
    },
    /// Send these bytes of the log as `Data`.
    Bytes {
        /** Phase. */
        phase: Phase,
        /** First byte. */
        from: u64,
        /** End. */
        to: u64,
    },
    /// Send a `PhaseEnd` frame.
    End {
        /** Phase. */
        phase: Phase,
        /** Its length. */
        length: u64,
    },
}

/// The sender's book of one directed channel, for one incarnation of the sender.
#[derive(Clone, Debug)]
pub struct Outgoing {}

impl Outgoing {
    /// A sender that starts at `start` (boot comes first).
    pub fn new(_lineage: Lineage, _start: Version) -> Self {
        todo!()
    }
    /// The worker enters a phase (boot first); the one before is closed with the length produced so far. Returns the
    /// phases whose logs nobody can need any more (all but boot, the new one and the one before).
    /// # Errors
    /// `Mismatch` if the closed phase is shorter or longer than what the receiver had of it.
    pub fn enter(&mut self, _phase: Phase, _mark: PhaseMark) -> Result<Vec<Phase>, Error> {
        todo!()
    }
    /// The phase that the worker is in.
    pub fn phase(&self) -> Phase {
        todo!()
    }
    /// The worker wrote so many more bytes; they are in the log.
    pub fn produced(&mut self, _bytes: u64) {
        todo!()
    }
    /// A new link stands and the receiver told what it has. # Errors: `Mismatch` where that contradicts the book.
    pub fn receipt(&mut self, _receipt: &Receipt) -> Result<(), Error> {
        todo!()
    }
    /// The link is gone; nothing goes out until the next receipt.
    pub fn unlinked(&mut self) {
        todo!()
    }
    /// What to do next, with at most `limit` bytes; `None` until more is produced, entered or received.
    /// Do it, then call [`Outgoing::done`] (or [`Outgoing::compared`] for `Compare`).
    pub fn next(&self, _limit: u64) -> Option<Step> {
        todo!()
    }
    /// A step other than `Compare` was done (handed to the link).
    pub fn done(&mut self, _step: Step) {
        todo!()
    }
    /// The bytes of a `Compare` step. # Errors: `Mismatch`, naming phase and byte range.
    pub fn compared(&mut self, _step: Step, _bytes: &[u8]) -> Result<(), Error> {
        todo!()
    }
    /// Bytes compared so far (produced a second time and not sent).
    pub fn regenerated(&self) -> u64 {
        todo!()
    }
    /// Whether bytes are still to be compared: this incarnation has not caught up with what the receiver has.
    pub fn behind(&self) -> bool {
        todo!()
    }
}

/// When a frame may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Now.
    Now,
    /// When this rank has entered the frame's phase: leave it in the link.
    Later,
}

/// The receiver's book of one directed channel, for one incarnation of the receiver. Survives the sender's restarts.
#[derive(Clone, Debug)]
pub struct Incoming {}

impl Incoming {
    /// A receiver that starts at `start` (boot comes first).
    pub fn new(_lineage: Lineage, _start: Version) -> Self {
        todo!()
    }
    /// The local worker enters a phase. # Errors: `Mismatch` when the sender's mark or the length of the phase that
    /// ended contradicts this boundary.
    pub fn enter(&mut self, _phase: Phase, _mark: PhaseMark) -> Result<(), Error> {
        todo!()
    }
    /// What to tell the sender on a new link.
    pub fn receipt(&self) -> Receipt {
        todo!()
    }
    /// Whether a `PhaseStart`, `Data` or `PhaseEnd` frame may be handled now. # Errors: `Mismatch` for a frame that
    /// can't come here (a phase that is over here, bytes at a wrong offset, another lineage).
    pub fn due(&self, _header: &Header) -> Result<Due, Error> {
        todo!()
    }
    /// A `PhaseStart` that is due. # Errors: `Mismatch`.
    pub fn started(&mut self, _phase: Phase, _mark: PhaseMark) -> Result<(), Error> {
        todo!()
    }
    /// `Data` that is due, whole or a part of it; the driver delivers it to the worker. # Errors: `Mismatch`.
    pub fn took(&mut self, _phase: Phase, _offset: u64, _bytes: &[u8]) -> Result<(), Error> {
        todo!()
    }
    /// A `PhaseEnd` that is due (also for a phase that is closed here already). # Errors: `Mismatch`.
    pub fn ended(&mut self, _phase: Phase, _length: u64) -> Result<(), Error> {
        todo!()
    }
}
