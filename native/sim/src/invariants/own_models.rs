//! **Own models.** A rank that was there when a version was made begins it with its own model, and no other; those of
//! ranks that are gone are given to one rank each; and none is lost that may not be.

use super::{Checked, Violation};
use crate::ranks::own_model;
use rejoin_protocol::former::Former;
use rejoin_protocol::host::Start;
use rejoin_protocol::ids::{Checkpoint, CheckpointName, Lineage, Rank, Version};
use rejoin_protocol::start::Origin;
use std::collections::{BTreeMap, BTreeSet};

const NAME: &str = "OwnModels";

/// Who has taken own models, and who has begun with whose.
#[derive(Debug)]
pub struct OwnModels {
    may_be_lost: bool,
    /// How many ranks the world had that made a version.
    worlds: BTreeMap<(Lineage, Version), u32>,
    /// Whose own models each rank has begun a version of a lineage with.
    begun: BTreeMap<(Lineage, Version), BTreeMap<Rank, Vec<Rank>>>,
}

fn violated(text: String) -> Checked {
    Err(Violation::new(NAME, text))
}

impl OwnModels {
    pub(crate) fn new(may_be_lost: bool) -> Self {
        OwnModels { may_be_lost, worlds: BTreeMap::new(), begun: BTreeMap::new() }
    }

    /// With what the job begins with.
    pub(crate) fn from(mut self, origin: &Origin) -> Self {
        let Origin { checkpoint, world, .. } = origin;
        self.worlds.extend(checkpoint.has_own.then_some(((checkpoint.lineage, checkpoint.version), *world)));
        self
    }

    /// A rank has taken this, in a world of so many.
    pub(crate) fn took(&mut self, own: &Checkpoint, world: u32) -> Checked {
        let known = *self.worlds.entry((own.lineage, own.version)).or_insert(world);
        match known == world {
            true => Ok(()),
            false => violated(format!("{own:?} was taken in a world of {world}, others in one of {known}")),
        }
    }

    pub(crate) fn began(&mut self, rank: Rank, start: &Start, world: u32) -> Checked {
        let Some(from) = start.checkpoint.filter(|from| from.has_own) else { return Ok(()) };
        let made = self.worlds.get(&(from.lineage, from.version)).copied().unwrap_or_default();
        let here = Former { world, rank: Some(rank), given: Vec::new() };
        let Former { world: told, rank: was, given } = start.former.as_deref().unwrap_or(&here);
        if *told != made {
            return violated(format!("rank {rank} is told of a world of {told}, one of {made} has made {from:?}"));
        }
        if start.own.and_then(|own| own.owner) != *was {
            return violated(format!("rank {rank}, which was {was:?}, begins {from:?} with {:?}", start.own));
        }
        for given in given {
            match given.own {
                None if self.may_be_lost => {}
                None => return violated(format!("rank {rank} is given that of rank {}, which is lost", given.rank)),
                Some(own) if own.owner != Some(given.rank) => {
                    return violated(format!("rank {rank} is given {own:?} as that of rank {}", given.rank));
                }
                Some(_) => {}
            }
        }
        for own in start.own.iter().chain(given.iter().filter_map(|given| given.own.as_ref())) {
            if own.owner.map(|owner| own_model(&from, owner)) != Some(*own) {
                return violated(format!("rank {rank} begins {from:?} with {own:?}"));
            }
        }
        let owners = was.iter().copied().chain(given.iter().map(|given| given.rank)).collect();
        let begun = self.begun.entry((start.lineage, start.version)).or_default();
        begun.insert(rank, owners);
        let dealt: Vec<Rank> = begun.values().flatten().copied().collect();
        let each: BTreeSet<Rank> = dealt.iter().copied().collect();
        let (is_dealt_twice, all_there) = (each.len() < dealt.len(), begun.len() == world as usize);
        if is_dealt_twice || all_there && each.len() < made as usize {
            return violated(format!("own models of {made} ranks as of {from:?} are begun with as {begun:?}"));
        }
        Ok(())
    }

    /// A process may end: these are held, and these without it.
    pub(crate) fn released(
        &self,
        process: u32,
        held: &BTreeSet<CheckpointName>,
        others: &BTreeSet<CheckpointName>,
    ) -> Checked {
        match self.is_whole(held) && !self.is_whole(others) && !self.may_be_lost {
            true => violated(format!("process {process} is released, and own models are lost with it")),
            false => Ok(()),
        }
    }

    /// Whether one of these checkpoints is whole: with the own models of all that have made it.
    pub(crate) fn is_whole(&self, held: &BTreeSet<CheckpointName>) -> bool {
        held.iter().any(|(_, version, _)| self.is_whole_at(held, *version))
    }

    /// The same of a version.
    pub(crate) fn is_whole_at(&self, held: &BTreeSet<CheckpointName>, version: Version) -> bool {
        held.iter().filter(|(_, its, owner)| *its == version && owner.is_none()).any(|(lineage, ..)| {
            let made = self.worlds.get(&(*lineage, version)).copied().unwrap_or_default();
            (0..made).map(Rank).all(|owner| held.contains(&(*lineage, version, Some(owner))))
        })
    }
}

/// A rank is told that others hold its own model.
pub(crate) fn safe(own: &Checkpoint, is_held: bool) -> Checked {
    match is_held {
        true => Ok(()),
        false => violated(format!("{own:?} counts as copied, but no other process holds it")),
    }
}
