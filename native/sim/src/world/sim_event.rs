//! What can happen in the world.

use crate::ranks::{End, Frame, Try};
use crate::scenario::Fault;
use rejoin_protocol::ids::{Checkpoint, Lane};
use rejoin_protocol::message::{AgentMessage, TrackerMessage};
use rejoin_protocol::tracker::TrackerInput;

/// One thing that happens, to the one that it names.
#[derive(Debug)]
pub(super) enum SimEvent {
    ToTracker { link: u64, message: AgentMessage },
    TrackerHears { epoch: u32, input: TrackerInput },
    TrackerWakes { epoch: u32 },
    TrackerBegins,
    CutOff { epoch: u32 },
    LosesTracker { process: u32, epoch: u32 },
    FrameworkReports(TrackerInput),
    Hears { process: u32, link: u64, message: TrackerMessage },
    LinkDies { process: u32, link: u64 },
    Connects { process: u32 },
    Wakes { process: u32 },
    Goes { process: u32, id: Try },
    Moves { process: u32, id: Try },
    Joins { process: u32, id: Try },
    Fetches { process: u32, id: Try },
    Looks { process: u32, id: Try },
    Copies { process: u32, to: u32, own: Checkpoint },
    LinkBroke { own: End, other: End, lane: Lane, link: u64 },
    Arrives { from: End, to: End, link: u64, frame: Frame },
    ExecutorStarts,
    Starts { rank: u32 },
    EndsWell { process: u32, id: Try },
    Killed { process: u32 },
    Thaws { process: u32 },
    Injected(Fault),
}

impl SimEvent {
    /// The process that it happens to.
    pub(super) fn process(&self) -> Option<u32> {
        match self {
            SimEvent::Hears { process, .. }
            | SimEvent::LinkDies { process, .. }
            | SimEvent::Connects { process }
            | SimEvent::Wakes { process }
            | SimEvent::Goes { process, .. }
            | SimEvent::Moves { process, .. }
            | SimEvent::Joins { process, .. }
            | SimEvent::Fetches { process, .. }
            | SimEvent::Looks { process, .. }
            | SimEvent::Copies { process, .. }
            | SimEvent::EndsWell { process, .. } => Some(*process),
            SimEvent::LinkBroke { own: End { process, .. }, .. } => Some(*process),
            SimEvent::Arrives { to, .. } => Some(to.process),
            _ => None,
        }
    }
}
