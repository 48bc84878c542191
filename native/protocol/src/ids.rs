//! Names and numbers of the protocol. One word, one thing (the table in `docs/architecture.md`).

use core::fmt;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

number!(
    /// 0-based identity of a member; the same after its restart.
    Rank, u32
);
number!(
    /// A task of the framework, by its number, whichever try of it. Without spares it is the number of its rank.
    /// In a job with spares those below the number of ranks begin as that rank, and the others stand by.
    Task, u32
);
number!(
    /// How many checkpoints have been taken; version v is the state after v of them. Grows within a lineage.
    Version, u32
);
number!(
    /// A line of versions; a rollback or a restart of all starts the next one.
    Lineage, u32
);
number!(
    /// One agent (one process of one job), drawn at random by the agent when it starts.
    AgentId, u64
);

impl Version {
    /// So many versions further.
    pub fn plus(self, versions: u32) -> Version {
        Version(self.0.saturating_add(versions))
    }
}

/// Milliseconds since some fixed moment of the driver of a state machine. Only differences count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Millis(pub u64);

impl Millis {
    /// How long ago `earlier` was, in milliseconds; 0 if it is in the future.
    pub fn since(self, earlier: Millis) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// This moment plus `millis`.
    pub fn plus(self, millis: u64) -> Millis {
        Millis(self.0.saturating_add(millis))
    }
}

/// Number of the membership view. A tracker that comes back takes a higher epoch; agents accept only growing ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Generation {
    /// Which life of the tracker.
    pub epoch: u32,
    /// Counts the changes of membership within the epoch, from 1; 0 is "no view yet".
    pub number: u32,
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.number)
    }
}

/// One start of a rank; a retry is the next incarnation. Given by the tracker.
///
/// The number is what is shown and what fault rules name: how many starts of the rank came before.
/// A tracker that comes back counts on from what is reported to it, which may be less than was: the
/// epoch keeps a later incarnation greater whatever its number is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation {
    /// Which life of the tracker gave it.
    pub epoch: u32,
    /// How often the rank was started before, as far as that life knew.
    pub number: u32,
}

impl Incarnation {
    /// The start before which there were so many, all in the tracker's first life.
    pub const fn nth(number: u32) -> Self {
        Incarnation { epoch: 1, number }
    }

    /// The start that follows `last` in this life of the tracker. `tries` of the rank's task came
    /// before: a life without a report of them counts them as starts, and the first life has
    /// seen all itself.
    pub(crate) fn after(last: Option<Incarnation>, epoch: u32, tries: u32) -> Self {
        let known = last.map_or(0, |last| last.number.saturating_add(1));
        let number = if epoch > 1 { known.max(tries) } else { known };
        Incarnation { epoch: last.map_or(epoch, |last| last.epoch.max(epoch)), number }
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number)
    }
}

/// Both parts on the wire; for readers of JSON the number, as everywhere that an incarnation is shown.
impl Serialize for Incarnation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => self.number.serialize(serializer),
            false => (self.epoch, self.number).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Incarnation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.is_human_readable() {
            true => u32::deserialize(deserializer).map(Incarnation::nth),
            false => <(u32, u32)>::deserialize(deserializer).map(|(epoch, number)| Incarnation { epoch, number }),
        }
    }
}

/// One member: a rank in one incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MemberId {
    /// The same after a restart.
    pub rank: Rank,
    /// Another one after a restart.
    pub incarnation: Incarnation,
}

/// Which try of the framework a task is: Spark's (stage attempt, task attempt). Later tries compare greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attempt {
    /// The framework's restart of all (Spark: stage attempt).
    pub stage: u32,
    /// The framework's restart of this one (Spark: task attempt within the stage attempt).
    pub task: u32,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.stage, self.task)
    }
}

/// A checkpoint's identity and what can be compared of it. The bytes are elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The lineage it was taken in.
    pub lineage: Lineage,
    /// The version it begins.
    pub version: Version,
    /// Whose own model it is; `None` for the model that is the same at all ranks.
    pub owner: Option<Rank>,
    /// Each rank has a model of its own beside this one: no rank can be started here without it.
    pub has_own: bool,
    /// The first round that is trained from it (rounds done so far).
    pub round: u32,
    /// Bytes of the model; [`UNMADE`] when they aren't made yet.
    pub length: u64,
    /// Digest of the model's bytes (xxh3-128).
    pub digest: u128,
    /// Whether training is complete: nothing is left to be trained from here.
    pub complete: bool,
}

/// The length of a lazy checkpoint's model, as long as its bytes were not needed.
pub const UNMADE: u64 = u64::MAX;

/// Under which name a checkpoint is kept.
pub type CheckpointName = (Lineage, Version, Option<Rank>);

impl Checkpoint {
    /// What it is asked for by, and held under.
    pub fn name(&self) -> CheckpointName {
        (self.lineage, self.version, self.owner)
    }

    /// Whether its bytes are known.
    pub fn is_made(&self) -> bool {
        self.length != UNMADE
    }

    /// Whether the two can be one checkpoint, as far as can be known: a lazy one may become any bytes.
    pub fn agrees(&self, other: &Checkpoint) -> bool {
        let known = |one: &Checkpoint| (one.name(), one.has_own, one.round, one.complete);
        let is_open = !self.is_made() || !other.is_made();
        known(self) == known(other) && (is_open || (self.length, self.digest) == (other.length, other.digest))
    }

    /// Its model's length in words.
    pub fn size(&self) -> alloc::string::String {
        if self.is_made() {
            alloc::format!("{} bytes", self.length)
        } else {
            "bytes that aren't made yet".into()
        }
    }
}

/// Where a rank is: the lineage and version it trains in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// The lineage that the version belongs to.
    pub lineage: Lineage,
    /// The version that the rank was given at its start, or entered since.
    pub version: Version,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.lineage, self.version)
    }
}

/// What a data link between two ranks carries. Between the same two there may be a link for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Lane {
    /// The channels of XGBoost's bridge.
    Channels,
    /// Rejoin's own collectives.
    Collectives,
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lane::Channels => "channels",
            Lane::Collectives => "collectives",
        })
    }
}

/// Which part of a job's byte streams: before the first version, or within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// From the communicator's start to the first round: data sketch and warm-up.
    Boot,
    /// From taking checkpoint v to taking checkpoint v+1.
    Version(Version),
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Phase::Boot => write!(f, "boot"),
            Phase::Version(v) => write!(f, "version {v}"),
        }
    }
}
