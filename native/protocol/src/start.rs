//! How a job begins.

use crate::error::{Code, Error};
use crate::ids::{Checkpoint, Lineage, Version};
use crate::message::LINEAGES_LIMIT;
use crate::plan::Chain;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

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
    /// What all ranks start from: its lineage, its version, its digest.
    pub checkpoint: Checkpoint,
    /// A lineage after those of all checkpoints that the earlier job has left, so that none of them
    /// is taken for one of this job.
    pub lineage: Lineage,
}

impl JobStart {
    /// What there was before.
    pub fn origin(&self) -> Option<&Origin> {
        match self {
            JobStart::Fresh => None,
            JobStart::Durable(origin) | JobStart::HandedOver(origin) => Some(origin),
        }
    }

    /// The version that all ranks start from.
    pub fn version(&self) -> Version {
        self.origin().map(|origin| origin.checkpoint.version).unwrap_or_default()
    }

    /// The line of lineages that is trained on.
    pub(crate) fn chain(&self) -> Chain {
        let Some(Origin { checkpoint, lineage }) = self.origin() else { return Chain::default() };
        // Which of the line's checkpoints were taken before that lineage is of no use.
        let mut branches: Vec<Version> = (0..checkpoint.lineage.0).map(|_| Version(0)).collect();
        branches.resize(lineage.0 as usize, checkpoint.version);
        Chain::of(branches)
    }

    /// Whether an agent holds what it says: nothing counts that has the name of what the job starts
    /// from, and is something else.
    pub(crate) fn admits(&self, held: &Checkpoint) -> bool {
        self.origin().is_none_or(|Origin { checkpoint, .. }| {
            (checkpoint.lineage, checkpoint.version, None) != held.name() || checkpoint.agrees(held)
        })
    }

    /// What agents should have held of it, for the error of a job that can't begin.
    pub(crate) fn expected(&self) -> Option<String> {
        let (Origin { checkpoint, .. }, from) = match self {
            JobStart::Fresh => return None,
            JobStart::Durable(origin) => (origin, "all agents find in the durable store"),
            JobStart::HandedOver(origin) => (origin, "agents are handed before their ranks join"),
        };
        let Checkpoint { version, round, digest, .. } = checkpoint;
        Some(format!("It was to begin with version {version} (round {round}, digest {digest:032x}), which {from}"))
    }

    /// # Errors
    /// `BadArgument` for what no job can begin with.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Some(Origin { checkpoint, lineage }) = self.origin() else { return Ok(()) };
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
