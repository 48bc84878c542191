//! Faults on demand, for tests and the demo. A rule reaches an agent only from its tracker, over
//! the authenticated link.

pub mod text;

use crate::ids::{Incarnation, Phase, Rank, Version};
use serde::{Deserialize, Serialize};

/// When and what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultRule {
    /// Names the rule in reports.
    pub id: u32,
    /// The rank that it fires at.
    pub rank: Rank,
    /// Which start of it, counted from 0; `None` is any.
    pub incarnation: Option<u32>,
    /// When.
    pub moment: Moment,
    /// What.
    pub action: Action,
}

impl FaultRule {
    /// Whether it may fire at this incarnation of this rank.
    pub fn is_for(&self, rank: Rank, incarnation: Incarnation) -> bool {
        self.rank == rank && self.incarnation.is_none_or(|wanted| wanted == incarnation.number)
    }
}

/// The event that a rule waits for. No rule waits for a clock.
///
/// Each moment says what watches for it. The *agent* watches on its control thread (`inject.rs`);
/// the *bridge* carries XGBoost's bytes; the *collectives' driver* is the code that moves a
/// collective's bytes on the caller's thread. A rule whose moment is no rank's in a job never fires,
/// which is reported at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moment {
    /// The rank's task has joined; its data are about to be loaded. Agent.
    Joined,
    /// So many bytes have left the rank's worker in this phase (0: it entered the phase). Bridge.
    Bytes {
        /// Boot, or the version.
        phase: Phase,
        /// The bytes, over all channels.
        bytes: u64,
    },
    /// The rank, restarted, has fetched its checkpoint or learned that there is none. Agent.
    Restored,
    /// The rank, restarted, has been sent the first replayed byte (bridge), or is about to be handed the first recorded
    /// result (collectives' driver).
    Replaying,
    /// The rank has reported its end; the job's end is not reached yet. Agent.
    Finishing,
    /// The rank has called this collective; nothing of it has left the rank, and nothing was looked
    /// up. Collectives' driver.
    Entering {
        /// Boot, or the version. Boot collectives are counted by themselves.
        phase: Phase,
        /// Index of the collective in that phase.
        seqno: u32,
    },
    /// At least so many bytes of payload of this collective have left the rank, to all peers together; more are to come
    /// or not. With 0 bytes it is the moment before the first one. Collectives' driver.
    Sent {
        /// Boot, or the version.
        phase: Phase,
        /// Index of the collective in that phase.
        seqno: u32,
        /// How many have left, at the least.
        bytes: u64,
    },
    /// The rank has the whole result of this collective, where peers can be served from; the caller hasn't got it yet.
    /// Collectives' driver.
    Completed {
        /// Boot, or the version.
        phase: Phase,
        /// Index of the collective in that phase.
        seqno: u32,
    },
    /// The rank is about to be handed the recorded result of this collective instead of computing
    /// it. Collectives' driver.
    Replayed {
        /// Boot, or the version.
        phase: Phase,
        /// Index of the collective in that phase.
        seqno: u32,
    },
    /// The collective was cut off by a death and is about to run again at this rank. Collectives' driver.
    Again {
        /// Boot, or the version.
        phase: Phase,
        /// Index of the collective in that phase.
        seqno: u32,
    },
    /// The rank is in the call that takes the checkpoint which begins this version: the bytes are
    /// kept by its agent, nothing was reported yet. Agent (as `Agent::take` has had it entered).
    Checkpointing {
        /// The version that the checkpoint begins.
        version: Version,
    },
    /// The rank has asked for what it starts from, and is about to be handed it: in any incarnation, also when there is
    /// nothing to be handed. Collectives' driver (`load`).
    Loading,
    /// A newcomer elsewhere has asked this rank's agent for a checkpoint or a result, of which
    /// nothing was sent yet. Agent for checkpoints, collectives' driver for results.
    Serving,
}

/// What a fault does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// SIGKILL of the process.
    Kill,
    /// SIGSTOP of the process. The rule's maker wakes it.
    Stop,
    /// The data link to this peer is reset.
    CutLink {
        /// The other end.
        peer: Rank,
    },
    /// The rank's worker is freed with an error, as if its task had thrown.
    Throw,
    /// The thread whose moment it is does nothing for so long. The code that watches for the moment does it, after
    /// [`crate::event::Event::FaultFired`] is on its way.
    Delay {
        /// For how long.
        millis: u32,
    },
    /// Nothing is done here: the rule's maker acts on the report that the rule fired
    /// (ends its tracker, say).
    Notify,
}
