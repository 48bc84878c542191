//! The stream state of one directed channel between two ranks: opaque bytes in phases.
//!
//! [`Outgoing`] is the sender's side: lengths of the phases it logs, what the receiver has, what goes out next, and the
//! comparison of bytes that a restarted worker produces again. [`Incoming`] is the receiver's side: what was delivered,
//! its digests, and whether a frame is due now, later or never. The bytes themselves are the driver's.
//!
//! How long a phase is kept: boot for the job's life, and the version a rank is in with the one before it. Finishing
//! version v proves that every rank has entered v, so no rank can need v-1 once v+1 is entered. The proof speaks of the
//! incarnations that made those bytes: it fails while a restarted rank is still behind the place where its older
//! incarnation died. From the first loss until all have caught up both ends therefore `hold`: nothing is dropped.

mod incoming;
mod outgoing;

pub use incoming::{Due, Incoming};
pub use outgoing::Outgoing;

use crate::ids::{Lineage, Phase, Version};
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
    /// Boot, or the version whose collective it is.
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

/// What a receiver sends the sender on every new link: first frame in each direction.
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
pub enum SenderStep {
    /// Read these bytes back from the log and hand them to [`Outgoing::compared`]: the receiver has them from an older
    /// incarnation.
    Compare {
        /** The phase whose log has them. */
        phase: Phase,
        /** First byte. */
        from: u64,
        /** End. */
        to: u64,
    },
    /// Send a `PhaseStart` frame.
    Start {
        /** The phase that starts. */
        phase: Phase,
        /** Payload. */
        mark: PhaseMark,
    },
    /// Send these bytes of the log as `Data`.
    Bytes {
        /** The phase whose log has them. */
        phase: Phase,
        /** First byte. */
        from: u64,
        /** End. */
        to: u64,
    },
    /// Send a `PhaseEnd` frame.
    End {
        /** The phase that ends. */
        phase: Phase,
        /** All bytes that the sender's worker wrote in it. */
        length: u64,
    },
}

impl Phase {
    /// The phase that follows for an incarnation that starts at `start`.
    pub fn next(self, start: Version) -> Phase {
        match self {
            Phase::Boot => Phase::Version(start),
            Phase::Version(v) => Phase::Version(Version(v.0 + 1)),
        }
    }
}
