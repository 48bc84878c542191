//! What a launcher that isn't in the tracker's process says to the tracker, and hears from it.
//!
//! A launcher starts the processes of some ranks and starts them again when they die. What agents
//! report of a death is enough for the job; the launcher's word comes sooner, and it has to hear
//! how the job ended, lest it starts ranks of a job that is over.

use crate::error::Error;
use crate::event::Event;
use crate::ids::{Attempt, Rank};
use crate::job_status::JobStatus;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// From a launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LauncherMessage {
    /// The first message of a link: which ranks are started here from now on.
    Starts {
        /** The launcher, by the number that it drew at its start. */
        launcher: u64,
        /** The name of its host. */
        host: String,
        /** The ranks. */
        ranks: Vec<Rank>,
        /** Those of them whose processes have ended well before. */
        ended: Vec<Rank>,
    },
    /// A process has died.
    ProcessDied {
        /** The name under which its agent registered. */
        executor: String,
        /** How. */
        reason: String,
    },
    /// A process has ended well, and is not started again.
    RankEnded {
        /** The rank that it was. */
        rank: Rank,
    },
    /// The job can't go on.
    Cancel {
        /** Why. */
        error: Error,
    },
    /// Asks for [`LauncherNews::Synced`] with this number: all that was known before has been said then.
    Sync {
        /** Grows. */
        number: u64,
    },
    /// Asks how the job is, with no need to start any ranks before.
    Status {
        /** The ranks before this one are left out. */
        from: Rank,
    },
}

/// To a launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LauncherNews {
    /// Answers [`LauncherMessage::Starts`].
    Accepted {
        /** The attempt that each of its ranks begins with, in their order: the one after the newest that is known. */
        attempts: Vec<u32>,
    },
    /// A fact.
    Event(Event),
    /// The process of this rank is lost, but may only be frozen: it has to be killed.
    Kill {
        /** The rank that is lost. */
        rank: Rank,
        /** Which try. */
        attempt: Attempt,
        /** The cause in words. */
        reason: String,
    },
    /// This rank is sent back to an older version: if its process ends now, that is no death.
    SentBack {
        /** The rank. */
        rank: Rank,
    },
    /// The job is over.
    Over(Result<(), Error>),
    /// Another launcher starts these ranks from now on.
    TakenOver {
        /** The name of its host. */
        host: String,
        /** The ranks. */
        ranks: Vec<Rank>,
    },
    /// Answers [`LauncherMessage::Sync`].
    Synced {
        /** Of the question. */
        number: u64,
    },
    /// Answers [`LauncherMessage::Status`].
    Status(JobStatus),
}
