//! How a job begins.

use crate::error::{Code, Error};
use crate::former::FormerWorlds;
use crate::ids::{Checkpoint, Lineage, Rank, Version};
use crate::message::LINEAGES_LIMIT;
use crate::plan::Chain;
use crate::words::place;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// How a job begins. Each life of its tracker is given when it begins itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobStart {
    /// From nothing.
    #[default]
    Fresh,
    /// From a checkpoint that every agent finds in a durable store.
    Durable(Origin),
    /// From a checkpoint whose bytes agents are handed before the ranks there join.
    HandedOver(Origin),
}

/// What an earlier job has left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// What all ranks start from: its lineage, its version, its digest. (Its length isn't compared.)
    pub checkpoint: Checkpoint,
    /// A lineage after those of all checkpoints that the earlier job has left, so that none of them
    /// is taken for one of this job.
    pub lineage: Lineage,
    /// How many ranks have taken it; 0 where that isn't known. An elastic job may begin with more or fewer: own models
    /// of ranks that there are no more are given to the others.
    pub world: u32,
}

impl JobStart {
    /// What there was before.
    pub fn origin(&self) -> Option<&Origin> {
        match self {
            JobStart::Fresh => None,
            JobStart::Durable(origin) | JobStart::HandedOver(origin) => Some(origin),
        }
    }

    /// Whether an agent was handed what the job begins with: that model, or a rank's own one beside it.
    pub(crate) fn is_handed(&self, handed: &Checkpoint) -> bool {
        let JobStart::HandedOver(Origin { checkpoint, .. }) = self else { return false };
        let is_beside_it = (checkpoint.lineage, checkpoint.version) == (handed.lineage, handed.version);
        is_this(checkpoint, handed) || checkpoint.has_own && handed.owner.is_some() && is_beside_it
    }

    /// The version that all ranks start from.
    pub fn version(&self) -> Version {
        self.origin().map(|origin| origin.checkpoint.version).unwrap_or_default()
    }

    /// The line of lineages that is trained on.
    pub(crate) fn chain(&self) -> Chain {
        let Some(Origin { checkpoint, lineage, .. }) = self.origin() else { return Chain::default() };
        // Which of the line's checkpoints were taken before that lineage is of no use.
        let mut branches: Vec<Version> = (0..checkpoint.lineage.0).map(|_| Version(0)).collect();
        branches.resize(lineage.0 as usize, checkpoint.version);
        Chain::of(branches)
    }

    /// The world that has taken the own models of what a job of so many ranks begins with, if it was another one.
    pub(crate) fn former_worlds(&self, world: u32) -> FormerWorlds {
        let mut former = FormerWorlds::default();
        if let Some(Origin { checkpoint, lineage, world: took }) = self.origin() {
            if checkpoint.has_own && ![0, world].contains(took) {
                let ranks: Vec<Option<Rank>> = (0..*took).map(|rank| (rank < world).then_some(Rank(rank))).collect();
                former.resized(Lineage(lineage.0 - 1), &ranks);
            }
        }
        former
    }

    /// Whether an agent holds what it says: nothing counts that has the name of what the job starts
    /// from, and is something else.
    pub(crate) fn admits(&self, held: &Checkpoint) -> bool {
        self.origin().is_none_or(|Origin { checkpoint, .. }| {
            (checkpoint.lineage, checkpoint.version, None) != held.name() || is_this(checkpoint, held)
        })
    }

    /// What agents should have held of it, for the error of a job that can't begin.
    pub(crate) fn expected(&self) -> Option<String> {
        self.origin().map(|_| format!("It was to begin {self}"))
    }

    /// For an agent that was handed something else.
    pub(crate) fn is_not(&self, executor: &str, handed: &Checkpoint) -> Error {
        let text = format!(
            "{} was handed {}, but the job begins {self}. Hand over what the job is to begin with, \
             or say where its tracker is started that it begins with this",
            place(executor),
            named(handed)
        );
        Error::new(Code::Mismatch, text)
    }

    /// For an agent that finds durable checkpoints of an earlier job where nothing was taken yet.
    pub(crate) fn is_older(&self, executor: &str, held: &Checkpoint) -> Error {
        let text = format!(
            "{} finds {} in its durable store before any rank has started: it is of an earlier job \
             with this job's id, but this one begins {self}. Give each job an id or a store of its own",
            place(executor),
            named(held)
        );
        Error::new(Code::Mismatch, text)
    }

    /// What a job of communicators begins with that hands over a model of this version and digest.
    pub fn handed_over(version: Version, digest: u128) -> JobStart {
        let (lineage, round) = (Lineage(0), version.0);
        let checkpoint =
            Checkpoint { lineage, version, owner: None, has_own: false, round, length: 0, digest, complete: false };
        JobStart::HandedOver(Origin { checkpoint, lineage: Lineage(1), world: 0 })
    }

    /// # Errors
    /// `BadArgument` for what no job can begin with.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Some(Origin { checkpoint, lineage, .. }) = self.origin() else { return Ok(()) };
        let is_a_model = checkpoint.version > Version(0) && checkpoint.owner.is_none() && checkpoint.is_made();
        if is_a_model && checkpoint.lineage < *lineage && (lineage.0 as usize) < LINEAGES_LIMIT {
            return Ok(());
        }
        let text = format!(
            "a job was to begin in lineage {lineage} with version {} of lineage {}; expected the common model of a \
             version above 0, with its bytes, and a later lineage below {LINEAGES_LIMIT}",
            checkpoint.version, checkpoint.lineage
        );
        Err(Error::new(Code::BadArgument, text))
    }
}

impl fmt::Display for JobStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Origin { checkpoint, .. }, from) = match self {
            JobStart::Fresh => return f.write_str("from nothing"),
            JobStart::Durable(origin) => (origin, "all agents find in the durable store"),
            JobStart::HandedOver(origin) => (origin, "agents are handed before their ranks join"),
        };
        write!(f, "with {}, which {from}", named(checkpoint))
    }
}

fn named(checkpoint: &Checkpoint) -> String {
    let Checkpoint { version, round, digest, .. } = checkpoint;
    format!("version {version} (round {round}, digest {digest:032x})")
}

/// Whether this is the checkpoint that is expected; the digest says enough of its bytes.
fn is_this(expected: &Checkpoint, held: &Checkpoint) -> bool {
    Checkpoint { length: held.length, ..*expected }.agrees(held)
}
