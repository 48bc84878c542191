//! The checkpoints that a process holds, by name; the bytes are in the driver's store.

use crate::error::{Code, Error};
use crate::ids::{Checkpoint, CheckpointName, Lineage, Rank, Version};
use alloc::collections::btree_map::{BTreeMap, Entry};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

/// What is held, and which rank took it (`None`: it was fetched).
#[derive(Clone, Debug, Default)]
pub(super) struct Holdings {
    held: BTreeMap<CheckpointName, (Checkpoint, Option<Rank>)>,
    /// Those that a program has handed over, and no rank has taken or fetched.
    handed_over: BTreeSet<CheckpointName>,
}

impl Holdings {
    pub(super) fn has(&self, checkpoint: &Checkpoint) -> bool {
        self.held.get(&checkpoint.name()).is_some_and(|(held, _)| held.agrees(checkpoint))
    }

    /// What ranks have taken or fetched, and what was handed over.
    pub(super) fn list(&self) -> (Vec<Checkpoint>, Vec<Checkpoint>) {
        let all = self.held.values().map(|(checkpoint, _)| *checkpoint);
        all.partition(|checkpoint| !self.handed_over.contains(&checkpoint.name()))
    }

    /// Keeps what a program hands over; the store has found that no other one of its name is here.
    pub(super) fn hand_over(&mut self, checkpoint: Checkpoint) {
        let name = checkpoint.name();
        if let Entry::Vacant(vacant) = self.held.entry(name) {
            vacant.insert((checkpoint, None));
            self.handed_over.insert(name);
        }
    }

    /// Adds one.
    /// # Errors
    /// `Mismatch` when another one is held under its name, naming both ranks.
    pub(super) fn add(&mut self, checkpoint: Checkpoint, rank: Option<Rank>) -> Result<(), Error> {
        let name = checkpoint.name();
        match self.held.get(&name) {
            Some((held, by)) if !held.agrees(&checkpoint) => {
                let who = |rank: Option<Rank>| match rank {
                    Some(rank) => format!("rank {rank}"),
                    None => "the rank it was fetched from".into(),
                };
                Err(Error::new(
                    Code::Mismatch,
                    format!(
                        "version {} was expected to be the same on every rank, but {} took {} (round {}, digest \
                         {:032x}) and {} took {} (round {}, digest {:032x}); training is not deterministic: check the \
                         order of rows, seeds and the program's own functions",
                        checkpoint.version,
                        who(*by),
                        held.size(),
                        held.round,
                        held.digest,
                        who(rank),
                        checkpoint.size(),
                        checkpoint.round,
                        checkpoint.digest
                    ),
                ))
            }
            Some(_) => {
                self.handed_over.remove(&name);
                Ok(())
            }
            None => {
                self.held.insert(name, (checkpoint, rank));
                Ok(())
            }
        }
    }

    /// Drops versions below this one; returns their names.
    pub(super) fn forget_below(&mut self, version: Version) -> Vec<(Lineage, Version)> {
        self.forget(|checkpoint| checkpoint.version < version)
    }

    /// A lineage begins at this version: what older ones have beyond it can never be trained from again.
    pub(super) fn forget_branches(&mut self, lineage: Lineage, from: Version) -> Vec<(Lineage, Version)> {
        self.forget(|checkpoint| checkpoint.lineage < lineage && checkpoint.version > from)
    }

    fn forget(&mut self, which: impl Fn(&Checkpoint) -> bool) -> Vec<(Lineage, Version)> {
        let gone: Vec<CheckpointName> =
            self.held.iter().filter(|(_, (checkpoint, _))| which(checkpoint)).map(|(name, _)| *name).collect();
        for name in &gone {
            self.held.remove(name);
            self.handed_over.remove(name);
        }
        let mut names: Vec<(Lineage, Version)> =
            gone.into_iter().map(|(lineage, version, _)| (lineage, version)).collect();
        names.dedup();
        names
    }
}
