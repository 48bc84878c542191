//! How a running job is, for people who ask its tracker.

use crate::ids::{Incarnation, Lineage, Rank, Version};
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// A job at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStatus {
    /// Which life of the tracker answers; the first is 1.
    pub life: u32,
    /// How long this life has been there, in milliseconds.
    pub millis: u64,
    /// The line of versions that is trained; each rollback and each resize begins a new one.
    pub lineage: Lineage,
    /// How the job ended, in words; `None` while it goes on.
    pub over: Option<String>,
    /// How long a rank may be missing before the job ends, in milliseconds.
    pub members_millis: u64,
    /// The number of ranks.
    pub world: u32,
    /// How often the world of an elastic job has changed, as far as this life of the tracker knows.
    pub resizes: u32,
    /// How often it may change (the reset limit); `None`: any number of times, or never, as the world is fixed.
    pub most_resizes: Option<u32>,
    /// In rank order, from the one that was asked for on; a message has [`RANKS_IN_A_MESSAGE`] of them at the most.
    pub ranks: Vec<RankNow>,
}

/// With all names and causes as long as they may be, so many ranks are less than a message's limit.
pub const RANKS_IN_A_MESSAGE: usize = 128;

/// One rank at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankNow {
    /// Its number in the present world.
    pub rank: Rank,
    /// Which start of the rank is there, or was there last, counted from 0.
    pub incarnation: Option<Incarnation>,
    /// What it does.
    pub state: RankActivity,
    /// Where it is; `None` while it is missing.
    pub place: Option<Place>,
    /// How often it has died, as far as this life of the tracker knows.
    pub deaths: u32,
    /// How many deaths are survived, one less than those that end the job; `None` if whoever starts it has set no limit
    /// or hasn't said one.
    pub most_deaths: Option<u32>,
    /// For how long in all it was dead or behind the others, in milliseconds: from each death, or each return to an
    /// older version or to another world, until it works with the others again.
    pub lost_millis: u64,
    /// How many rounds it has computed twice for that; of a rank that has versions only, versions.
    pub rounds_again: u64,
}

/// What a rank does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RankActivity {
    /// No process has it.
    Missing {
        /** For how long, in milliseconds. */
        millis: u64,
        /** The cause in words. */
        because: String,
    },
    /// It waits for the others, or for its start.
    Waits {
        /** For how long, in milliseconds. */
        millis: u64,
    },
    /// It trains, or fetches what it starts from.
    Trains {
        /** The version that it is in, as it said last. */
        version: Version,
        /** How many rounds are in the version. */
        round: u32,
    },
    /// It has reported its end.
    Finished {
        /** How many rounds it has trained. */
        rounds: u32,
    },
}

/// Where a rank is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The name of its host.
    pub host: String,
    /// The name of its process.
    pub process: String,
    /// The last sign of life of that process, in milliseconds before now.
    pub seen_millis: u64,
    /// Whether it has been declared lost, or its connection is broken and not made again yet.
    pub is_silent: bool,
}
