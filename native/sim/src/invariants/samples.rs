//! **Samples.** The versions from which the job's model was made, in whatever worlds, have dealt out each sample of the
//! data once: the toy program has a sampler, whose place is part of the model. A rank takes the next samples for its
//! number in each version to which all ranks have to give something.

use super::{Checked, Violation};
use rejoin_protocol::ids::{Lineage, Rank};
use std::collections::BTreeMap;

const NAME: &str = "Samples";

/// How many a rank takes in each version.
const BATCH: u64 = 4;

/// What makes another model of one, for which so many ranks take samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Made {
    lineage: Lineage,
    before: u64,
    dealers: u32,
}

/// What was dealt out, and what became of it.
#[derive(Debug, Default)]
pub struct Samples {
    /// For which number each rank has taken samples, with this model, in this lineage.
    dealt: BTreeMap<(Lineage, u64), BTreeMap<Rank, Rank>>,
    made: BTreeMap<u64, Made>,
}

fn violated(text: String) -> Checked {
    Err(Violation::new(NAME, text))
}

impl Samples {
    /// A rank that has this model takes the samples for that number.
    pub(crate) fn deals(&mut self, lineage: Lineage, model: u64, rank: Rank, number: Rank) -> Checked {
        let known = *self.dealt.entry((lineage, model)).or_default().entry(rank).or_insert(number);
        match known == number {
            true => Ok(()),
            false => {
                violated(format!("rank {rank} takes samples for {number}, and has taken those for {known} before"))
            }
        }
    }

    /// A rank makes a model of the one before, for which so many ranks take samples.
    pub(crate) fn makes(&mut self, lineage: Lineage, before: u64, model: u64, dealers: u32) -> Checked {
        let made = Made { lineage, before, dealers };
        let known = *self.made.entry(model).or_insert(made);
        match (known.before, known.dealers) == (before, dealers) {
            true => Ok(()),
            false => violated(format!("model {model:x} is made by {made:?}, and was by {known:?}")),
        }
    }

    /// The job ends with this model.
    pub(crate) fn ends(&self, model: u64) -> Checked {
        let mut history = Vec::new();
        let mut next = model;
        while let Some(made) = self.made.get(&next) {
            history.push(made);
            next = made.before;
        }
        let mut place = 0;
        for made in history.into_iter().rev() {
            let dealt = self.dealt.get(&(made.lineage, made.before));
            let mut begins: Vec<u64> =
                dealt.into_iter().flatten().map(|(_, number)| place + u64::from(number.0) * BATCH).collect();
            begins.sort_unstable();
            let next = place + u64::from(made.dealers) * BATCH;
            if !begins.iter().copied().eq((place..next).step_by(BATCH as usize)) {
                return violated(format!(
                    "samples {place} to {next} of the job's model were to be dealt out once each, {BATCH} a rank; \
                     those from {begins:?} on were, by {dealt:?}"
                ));
            }
            place = next;
        }
        Ok(())
    }
}
