//! What happens to a process, and what follows from it.

use super::frame::{End, Frame};
use crate::Violation;
use rejoin_collectives::shared::Identity;
use rejoin_protocol::collective::Entry;
use rejoin_protocol::error::Error;
use rejoin_protocol::host::Start;
use rejoin_protocol::ids::{Attempt, Checkpoint, Generation, Incarnation, Lane, Lineage, Rank, Version};
use rejoin_protocol::message::{AgentMessage, TrackerMessage};
use rejoin_protocol::start::JobStart;

/// A task of the framework, or the rank that it joins as: the same unless the job has spares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Try {
    /// The rank that it is to be.
    pub rank: Rank,
    /// The framework's try: its stage attempt and its task attempt.
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
    /// The rank's task asks to take part; one that stands by asks for a rank.
    Join(Try),
    /// The rank's thread takes the next step of its program.
    Go(Try),
    /// The checkpoint that was asked for is here.
    FetchedCheckpoint(Try),
    /// No holder gave it.
    NoCheckpoint(Try),
    /// A result that was asked for; which wish, and the entry.
    FetchedResult(Try, usize, Entry<u64>),
    /// The first wish is given up; its plan is over.
    WishIsOver(Try, usize),
    /// The bridge looks at what the rank's trainer wrote.
    Moves(Try),
    /// The link from this end to that one broke, with what was on it.
    LinkBroke(End, End, Lane),
    /// The task throws.
    Throw(Try),
    /// Another process has given it a copy of a rank's own model.
    Kept(Checkpoint),
    /// A copy that was to be held by that process is held there.
    Copied(Checkpoint, u32),
    /// It couldn't be made.
    CopyFailed(Checkpoint, u32),
    /// The task ends, after it was given the job's end.
    End(Try),
    /// It holds what the job starts from.
    Given(JobStart),
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
    /// Send this over a data link.
    Frame {
        /** From this end. */
        from: End,
        /** To that one. */
        to: End,
        /** What. */
        frame: Frame,
    },
    /// The rank makes no more calls: what its segment says of that.
    LastWords {
        /** The segment's number. */
        segment: u64,
        /** What. */
        words: Identity,
    },
    /// The data links from this end to that one, if there are any, are cut: it isn't a peer any more.
    Unlink(End, End),
    /// The calls of this incarnation of a task's rank ended with this error; none, when it had no slot.
    Freed(Try, Option<Incarnation>, Error),
    /// The task was given the job's end.
    Over(Try, Result<u128, Error>),
    /// The link to the tracker is to be ended: it is an older life than the newest that is known.
    LeaveTracker,
    /// The agent is over.
    Closed,
    /// A result was handed out from the log.
    Replayed,
    /// A result was computed.
    Computed,
    /// A rank was given what rank 0 has chosen.
    Chose {
        /** The rank. */
        by: End,
        /** Whether a checkpoint is to be taken. */
        chosen: bool,
        /** It is, and all ranks have that choice. */
        is_confirmed: bool,
    },
    /// The task that stood by is to join as this.
    Given(Try),
    /// The task's rank was given a start.
    Started(Try, Start),
    /// The task's rank has entered a version.
    Entered(Try, Lineage, Version),
    /// The task's rank begins in a world of so many ranks.
    Began(Try, Start, u32),
    /// A rank has a model: that of this version, taken in this lineage, or the last one.
    Model(Lineage, Version, u128),
    /// A rank that has this model takes the samples for that number.
    Deals(Lineage, u64, Rank, Rank),
    /// A rank has made a model of the one before.
    Made {
        /** The lineage it did so in. */
        lineage: Lineage,
        /** The one before. */
        before: u64,
        /** Its digest. */
        model: u64,
        /** How many ranks have taken samples for it. */
        dealers: u32,
    },
    /// A rank has taken a model of its own, in a world of so many ranks.
    Own(Checkpoint, u32),
    /// A rank goes on to a version, as others hold its own model: those of its view that have a rank.
    Safe(Checkpoint, Vec<u32>),
    /// That process is to hold a copy of this.
    Copy(Checkpoint, u32),
    /// The agent follows this view.
    View(Generation),
    /// A promise was broken.
    Violated(Violation),
}
