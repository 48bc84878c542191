//! What an agent reports to the tracker about one of its ranks: a value that the one that sees the fact
//! makes, and that is handed on as it is, up to the tracker's door.

use crate::error::Error;
use crate::ids::{Generation, Lane, Lineage, MemberId, Rank, Version};
use alloc::string::String;
use serde::{Deserialize, Serialize};

/// One fact about a member. Whose it is stands beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// It has taken the checkpoint that begins this version.
    VersionEntered {
        /// The lineage it trains in.
        lineage: Lineage,
        /// The version that it is in now.
        version: Version,
        /// The round that comes next.
        round: u32,
    },
    /// Its data link to a peer broke or can't be made.
    LinkDown {
        /// The other end.
        peer: MemberId,
        /// What the link carries.
        lane: Lane,
        /// What was seen.
        reason: String,
    },
    /// Frames of collectives were lost with a link between two living ranks: all need a new
    /// generation. Reported again until a newer view comes.
    Interrupted {
        /// The other end.
        peer: Rank,
        /// The generation whose frames were lost. A newer view has mended it already.
        generation: Generation,
        /// What was seen.
        reason: String,
    },
    /// The memory that a peer of the same host shares can't be opened: collectives have to go over
    /// links. Reported again until a newer view comes.
    CannotShare {
        /// Whose memory.
        peer: Rank,
        /// The generation that needs it.
        generation: Generation,
        /// What was seen.
        reason: String,
    },
    /// Something that makes the job impossible (a mismatch, no space): the job ends with it.
    Broken(Error),
    /// It has reached the end with this model.
    Finished {
        /// Rounds trained.
        rounds: u32,
        /// The model's digest (xxh3-128).
        digest: u128,
    },
    /// Its task has ended: cleanly, or with a failure.
    Left {
        /// What it failed with; one that will repeat ends the job.
        failure: Option<Error>,
    },
}

impl Report {
    /// What it says in words, which may be long.
    pub fn text(&mut self) -> Option<&mut String> {
        match self {
            Report::LinkDown { reason, .. }
            | Report::Interrupted { reason, .. }
            | Report::CannotShare { reason, .. } => Some(reason),
            Report::Broken(error) | Report::Left { failure: Some(error) } => Some(&mut error.message),
            Report::VersionEntered { .. } | Report::Finished { .. } | Report::Left { failure: None } => None,
        }
    }
}
