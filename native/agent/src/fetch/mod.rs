//! Bringing a checkpoint from its holders to a newcomer, over links of their own ([`gathering`]);
//! and the answering side of all fetches ([`serving`]).
//!
//! The newcomer's agent asks with a [`Request`]; the holder answers with [`Reply`]s and with `Bulk` frames in order.
//! Both sides run on the control thread in small steps, so that heartbeats are never held up.

mod gathering;
mod serving;

pub(crate) use gathering::{Gathering, NextStripe, Progress};
pub(crate) use serving::Serve;

use rejoin_protocol::collective::{BootKey, CollectiveId, Signature};
use rejoin_protocol::ids::{Checkpoint, Lineage, Phase, Rank};
use rejoin_protocol::message::RESULT_PART_LIMIT;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Longest silence of a holder before the next one is asked.
pub(crate) const WAIT_LIMIT: Duration = Duration::from_secs(5);
/// A newcomer's fetch goes on as long as a verified part comes within this time: a part is at most
/// [`SLICE`], so that a slow link is no silence.
pub(crate) const PART_LIMIT: Duration = Duration::from_secs(10);
pub(crate) const SLICE: usize = RESULT_PART_LIMIT;
pub(crate) const WINDOW: usize = 4 * SLICE;

/// What is asked for over a fetch link, one thing at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// A checkpoint's bytes `from` to `to` (exclusive), or to its end.
    Checkpoint { checkpoint: Checkpoint, from: u64, to: u64 },
    /// Hold this rank's own model too. Answered by `Send`, `Kept` or `Differs`; its bytes follow after `Send`.
    Keep(Checkpoint),
    /// Results of collectives, `from` to `to` (exclusive), each as a [`Reply::Result`] and its bytes.
    Results { lineage: Lineage, phase: Phase, from: u32, to: u32 },
    /// What a rank has called under an id.
    Call { rank: Rank, place: CollectiveId },
}

/// What is answered, but for bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// "I don't have it", or no more of it.
    Missing,
    /// A checkpoint is being made, or read; said again and again until it is there.
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
    /// The call that was made under an id; `None` when it isn't known.
    Call(Option<Signature>),
}
