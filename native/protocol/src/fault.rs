//! Faults on demand, for tests and the demo. A rule reaches an agent only from its tracker, over the authenticated link.

use crate::ids::{Incarnation, Phase, Rank};
use serde::{Deserialize, Serialize};

/// When and what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultRule {
    /// Names the rule in reports.
    pub id: u32,
    /// The rank that is struck.
    pub rank: Rank,
    /// Which of its incarnations; `None` is any.
    pub incarnation: Option<Incarnation>,
    /// When.
    pub moment: Moment,
    /// What.
    pub action: Action,
}

/// The event that a rule waits for. No rule waits for a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moment {
    /// The rank's task has joined; its data are about to be loaded.
    Joined,
    /// So many bytes have left the rank's worker in this phase (0: it entered the phase).
    Bytes {
        /// The phase.
        phase: Phase,
        /// The bytes, over all channels.
        bytes: u64,
    },
    /// The rank, restarted, has fetched its checkpoint or been told that there is none.
    Restored,
    /// The rank, restarted, has been sent the first replayed byte.
    Replaying,
    /// The rank has reported its end; the job's end is not reached yet.
    Finishing,
}

/// What a fault does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// SIGKILL of the process.
    Kill,
    /// SIGSTOP of the process. The one who made the rule wakes it.
    Stop,
    /// The data link to this peer is reset.
    CutLink {
        /// The other end.
        peer: Rank,
    },
    /// The rank's worker is freed with an error, as if its task had thrown.
    Throw,
}
