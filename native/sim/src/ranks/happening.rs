//! What happens to a process, and what follows from it.

use super::frame::Frame;
use crate::Violation;
use rejoin_collectives::shared::Identity;
use rejoin_protocol::collective::Entry;
use rejoin_protocol::error::Error;
use rejoin_protocol::host::Start;
use rejoin_protocol::ids::{Attempt, Checkpoint, Generation, Incarnation, Lineage, Rank, Version};
use rejoin_protocol::message::{AgentMessage, TrackerMessage};

/// A process that hosts a task, by the number that its world gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Who {
    /// The process.
    pub process: u32,
    /// The rank of its task.
    pub rank: Rank,
    /// The framework's try.
    pub attempt: Attempt,
}

/// One thing that happens to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The link to the tracker stands.
    TrackerUp,
    /// It broke.
    TrackerDown,
    /// The tracker said something.
    Tracker(TrackerMessage),
    /// The rank's task asks to take part.
    Join,
    /// The rank's thread takes the next step of its program.
    Go,
    /// The checkpoint that was asked for is here.
    FetchedCheckpoint,
    /// Nobody gave it.
    NoCheckpoint,
    /// A result that was asked for; which wish, and the entry.
    FetchedResult(usize, Entry<u64>),
    /// The first wish is given up; its plan is over.
    WishIsOver(usize),
    /// The link to this rank broke, with what was on it.
    LinkBroke(Rank),
    /// The task throws.
    Throw,
    /// The task ends, after it was told the job's end.
    End,
    /// It can read this durable checkpoint.
    Durable(Checkpoint),
    /// Time passes.
    Wake,
}

/// What has to be done for a process, or is to be known.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Make a link to the tracker.
    Connect,
    /// Send this to the tracker.
    ToTracker(AgentMessage),
    /// Send this to a process.
    Frame {
        /** The process. */
        to: u32,
        /** What. */
        frame: Frame,
    },
    /// The rank makes no more calls: what its board says of that.
    LastWords {
        /** The board. */
        board: u64,
        /** What. */
        words: Identity,
    },
    /// The data link to this process, if there is one, is cut: it isn't a peer any more.
    Unlink(u32),
    /// The calls of this incarnation of the rank ended with this error; none, when it had no seat.
    Freed(Option<Incarnation>, Error),
    /// The rank was told the job's end.
    Over(Result<u128, Error>),
    /// The link to the tracker is to be ended: it is an older life than the newest that is known.
    LeaveTracker,
    /// The agent is over.
    Closed,
    /// A result was handed out from the log.
    Replayed,
    /// A result was computed.
    Computed,
    /// The rank was given a start.
    Started(Start),
    /// The rank took a checkpoint.
    Entered(Lineage, Version),
    /// The agent follows this view.
    View(Generation),
    /// A promise was broken.
    Violated(Violation),
}
