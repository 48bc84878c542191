//! **Worlds.** An elastic job's worlds stay within their bounds; all ranks of a lineage are in one world, and have one
//! model at each version; and no version is lost that every survivor has entered.

use super::{Checked, Violation};
use rejoin_protocol::host::Start;
use rejoin_protocol::ids::{Lineage, Rank, Version};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

const NAME: &str = "Worlds";

/// What ranks have begun and taken.
#[derive(Debug)]
pub struct Worlds {
    bounds: RangeInclusive<u32>,
    /// How many ranks each lineage has.
    of: BTreeMap<Lineage, u32>,
    models: BTreeMap<(Lineage, Version), u128>,
    /// The version that every survivor of the newest resize had entered, and the processes that hold it.
    entered: Option<(Version, Vec<u32>)>,
}

impl Worlds {
    pub(crate) fn new(bounds: RangeInclusive<u32>) -> Self {
        Worlds { bounds, of: BTreeMap::new(), models: BTreeMap::new(), entered: None }
    }

    pub(crate) fn began(&mut self, rank: Rank, start: &Start, world: u32) -> Checked {
        let known = *self.of.entry(start.lineage).or_insert(world);
        if known != world || !self.bounds.contains(&world) {
            let bounds = &self.bounds;
            let text = format!(
                "rank {rank} begins lineage {} in a world of {world}, another one in one of {known}; {bounds:?} is \
                 allowed",
                start.lineage
            );
            return Err(Violation::new(NAME, text));
        }
        match start.checkpoint {
            Some(from) => match self.models.get(&(from.lineage, from.version)) {
                Some(model) if *model == from.digest => Ok(()),
                known => {
                    let text = format!("rank {rank} begins with {from:?}, but {known:x?} was taken");
                    Err(Violation::new(NAME, text))
                }
            },
            None => Ok(()),
        }
    }

    /// A rank has this model.
    pub(crate) fn has(&mut self, lineage: Lineage, version: Version, model: u128) -> Checked {
        let known = *self.models.entry((lineage, version)).or_insert(model);
        if known != model {
            let text = format!("version {version} of lineage {lineage} is {model:x} at one rank, {known:x} at another");
            return Err(Violation::new(NAME, text));
        }
        Ok(())
    }

    /// Whether the job may end with this model.
    pub(crate) fn may_end(&self, version: Version, model: u128) -> Checked {
        if self.models.iter().any(|((_, known), its)| *known == version && *its == model) {
            return Ok(());
        }
        Err(Violation::new(NAME, format!("the job ended with {model:x}, which no rank had at version {version}")))
    }

    /// The world has shrunk: the lowest version that a survivor is in, and the processes of all survivors.
    pub(crate) fn shrunk(&mut self, lowest: Option<Version>, survivors: Vec<u32>) {
        self.entered = lowest.map(|lowest| (lowest, survivors));
    }

    /// All begin again at this version. `is_there` says of a process if it could be asked.
    pub(crate) fn begun_again(&mut self, version: Version, is_there: impl Fn(u32) -> bool) -> Checked {
        match self.entered.take() {
            Some((entered, survivors)) if version < entered && survivors.iter().any(|process| is_there(*process)) => {
                let text = format!("all begin again at version {version}, but every survivor had entered {entered}");
                Err(Violation::new(NAME, text))
            }
            _ => Ok(()),
        }
    }
}
