//! Collectives that survive: the rules of one rank, without sockets, clocks or threads.
//!
//! Two ideas make them simple (`docs/adr/0006-collectives-are-atomic-at-a-rank.md`):
//!
//! - *A collective is atomic at a rank.* Its result is born in the replay log; the caller's input
//!   is read and never written before the whole result is there. So at any moment a rank either has
//!   the result of a position, and can serve it, or has its input untouched, and can run again.
//! - *Collectives belong to a generation.* Every frame is tagged with that of the plan under
//!   which it was sent. A view pauses: from its answer on, a rank finishes nothing until the plan
//!   comes. From the plan's table all derive the same: a position that any living rank has finished
//!   is fetched by those that lack it; one that none has finished is run again by all, tagged with
//!   the new generation. Frames of older generations are dropped.
//!
//! [`Participant`] is the state machine of one rank; [`frame::judge`] decides about a frame that
//! has come; [`Extent`] is what status reports say, and [`Plan`] what is derived from all of them;
//! [`sharing`] is how ranks of one host do without frames; [`InputDigests`] finds a rank that was started
//! again and doesn't repeat itself.

pub mod call;
pub mod frame;
pub mod inputs;
pub mod log;
mod participant;
mod plan;
pub mod sharing;
mod status;

pub use call::{BootKey, Call, Operation, Signature, Site};
pub use inputs::InputDigests;
pub use log::{Entry, ReplayLog};
pub use participant::{mismatch, Fetch, Next, Participant, ParticipantOutput};
pub use plan::{PhasePlan, RankPlan};
pub use status::{Extent, ObservedInput, SegmentAddress};

use crate::ids::{Lineage, Phase};
use core::fmt;
use serde::{Deserialize, Serialize};

/// Which collective: its phase, and its number within the phase, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CollectiveId {
    /// The lineage that is trained.
    pub lineage: Lineage,
    /// Boot, or a version.
    pub phase: Phase,
    /// Index within the phase.
    pub seqno: u32,
}

impl fmt::Display for CollectiveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "collective {} of {}", self.seqno, self.phase)
    }
}
