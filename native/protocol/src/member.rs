//! One rank's task in one process: from its join to its end.

use crate::collective::{Extent, ObservedInput};
use crate::error::{Code, Error};
use crate::host::{Offer, Start};
use crate::ids::{Attempt, Checkpoint, Incarnation, Lineage, MemberId, Millis, Position, Rank, Version};
use crate::message::{Newcomer, RankState};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// How far a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Has asked for its rank's slot.
    Joining {
        /** Since when. */
        since: Millis,
    },
    /// Has the slot; waits for a plan.
    Fresh,
    /// Has a plan, and fetches its checkpoint.
    Fetching(Fetching),
    /// Trains.
    Running(Running),
    /// Has reported its end.
    Finished {
        /** Where it ended. */
        running: Running,
        /** Rounds trained. */
        rounds: u32,
        /** Its model. */
        digest: u128,
    },
    /// Knows that the job is over.
    Over,
}

/// A plan whose checkpoint isn't here yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetching {
    /// What the plan gave to this rank.
    pub newcomer: Newcomer,
    /// The lineage of the plan.
    pub lineage: Lineage,
    /// The model that is the same at all ranks was fetched: the rank's own one comes next.
    pub is_half_done: bool,
    /// How many bytes that model has; [`crate::ids::UNMADE`] until a lazy one was fetched.
    pub bytes: u64,
    /// Tries that failed with every holder.
    pub failures: u32,
    /// When to try again; `None` while a try is under way.
    pub again_at: Option<Millis>,
}

/// A member that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// From where.
    pub start: Start,
    /// The version it is in; that of its start before it entered any.
    pub version: Version,
    /// The round that comes next.
    pub round: u32,
    /// Whether it has entered a version.
    pub entered: bool,
    /// The tracker hasn't been sent yet which version it has entered.
    pub is_unreported: bool,
    /// The oldest version of which its channels have the logs, as far as reported.
    pub oldest: Version,
    /// Which results of collectives it holds, as reported when the newest view came.
    pub results: Vec<Extent>,
    /// What it has heard of other ranks' inputs, as reported then too.
    pub observed: Vec<ObservedInput>,
}

/// One task of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The rank that the task is.
    pub rank: Rank,
    /// The framework's try: its stage attempt and its task attempt.
    pub attempt: Attempt,
    /// What it assumes.
    pub fingerprint: String,
    /// Which start of the rank; `None` before its join is answered.
    pub incarnation: Option<Incarnation>,
    /// How far it is.
    pub stage: Stage,
    /// The checkpoint that is being fetched for it. A new plan may ask for another one meanwhile; what comes is held.
    pub asked: Option<Checkpoint>,
    /// What came when the plan for which it was fetched was void: the next one may start it there.
    pub came: Option<Fetched>,
    /// What it offers to the others.
    pub offer: Offer,
}

/// A checkpoint that was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Which one.
    pub checkpoint: Checkpoint,
    /// From where, in words.
    pub source: String,
    /// How long it took.
    pub millis: u64,
}

impl Member {
    /// A task that asks for its rank's slot.
    pub fn joining(rank: Rank, attempt: Attempt, fingerprint: String, offer: Offer, since: Millis) -> Self {
        let stage = Stage::Joining { since };
        Member { rank, attempt, fingerprint, incarnation: None, stage, asked: None, came: None, offer }
    }

    /// Rank and incarnation, once its join is answered.
    pub fn id(&self) -> Option<MemberId> {
        Some(MemberId { rank: self.rank, incarnation: self.incarnation? })
    }

    /// Its progress, if it was started and the job isn't over for it.
    pub fn running(&self) -> Option<&Running> {
        match &self.stage {
            Stage::Running(running) | Stage::Finished { running, .. } => Some(running),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub fn running_mut(&mut self) -> Option<&mut Running> {
        match &mut self.stage {
            Stage::Running(running) | Stage::Finished { running, .. } => Some(running),
            _ => None,
        }
    }

    /// What it reports in a status report.
    pub fn state(&self) -> Option<RankState> {
        match &self.stage {
            Stage::Joining { .. } | Stage::Over => None,
            Stage::Fresh | Stage::Fetching(_) => Some(RankState::Fresh),
            Stage::Running(running) => Some(RankState::At(running.position())),
            Stage::Finished { running, digest, .. } => {
                Some(RankState::Finished { at: running.position(), digest: *digest })
            }
        }
    }
}

impl Running {
    /// A member that starts here.
    pub fn new(start: Start) -> Self {
        let round = start.checkpoint.map_or(0, |checkpoint| checkpoint.round);
        let version = start.version;
        Running {
            start,
            version,
            round,
            entered: false,
            is_unreported: false,
            oldest: version,
            results: Vec::new(),
            observed: Vec::new(),
        }
    }

    /// Where it is.
    pub fn position(&self) -> Position {
        Position { lineage: self.start.lineage, version: self.version }
    }

    /// Takes the checkpoint that begins the next version, or the one it starts with; returns the checkpoint under the
    /// name that it has everywhere.
    /// # Errors
    /// `Mismatch` when the start's checkpoint comes back changed; `Internal` for any other version than the next one.
    pub fn enter(&mut self, checkpoint: Checkpoint) -> Result<Checkpoint, Error> {
        let next = if self.entered { Version(self.version.0 + 1) } else { self.start.version };
        if checkpoint.version != next {
            return Err(Error::new(
                Code::Internal,
                format!("version {next} comes next, but version {} was entered", checkpoint.version),
            ));
        }
        let named = match self.start.checkpoint {
            // A version that begins a lineage keeps the name it had before.
            Some(given) if !self.entered => {
                if !given.agrees(&Checkpoint { lineage: given.lineage, ..checkpoint }) {
                    return Err(Error::new(
                        Code::Mismatch,
                        format!(
                            "it was started with {} (round {}, digest {:032x}) as version {next} and entered that \
                             version with {} (round {}, digest {:032x})",
                            given.size(),
                            given.round,
                            given.digest,
                            checkpoint.size(),
                            checkpoint.round,
                            checkpoint.digest
                        ),
                    ));
                }
                given
            }
            _ => Checkpoint { lineage: self.start.lineage, ..checkpoint },
        };
        self.version = checkpoint.version;
        self.round = checkpoint.round;
        self.entered = true;
        Ok(named)
    }
}
