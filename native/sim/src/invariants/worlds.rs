//! **Worlds.** An elastic job's worlds stay within their bounds; those that stay keep their order,
//! those that come follow; a world grows at most once in an interval, unless ranks leave, and changes no more often
//! than it may; all ranks of a lineage are in one world, and have one model at each version; and no
//! version is lost that every survivor has entered.

use super::{Checked, Violation};
use rejoin_protocol::host::Start;
use rejoin_protocol::ids::{Checkpoint, Lineage, Rank, Version};
use rejoin_protocol::resize::Elastic;
use rejoin_protocol::start::Origin;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

const NAME: &str = "Worlds";

/// What ranks have begun and taken.
#[derive(Debug)]
pub struct Worlds {
    bounds: RangeInclusive<u32>,
    interval_millis: u64,
    most_resizes: Option<u32>,
    /// When each life of the tracker has resized the world last, and how often it has.
    resized: BTreeMap<u32, (u64, u32)>,
    /// How many ranks each lineage has.
    of: BTreeMap<Lineage, u32>,
    models: BTreeMap<(Lineage, Version), u128>,
    /// The version that every survivor of the newest resize had entered, and the processes that hold it.
    entered: Option<(Version, Vec<u32>)>,
}

impl Worlds {
    pub(crate) fn new(world: u32, elastic: Option<Elastic>) -> Self {
        let (bounds, interval_millis, most_resizes) = match elastic {
            Some(elastic) => (elastic.min..=elastic.max, elastic.interval_millis, elastic.most_resizes),
            None => (world..=world, 0, None),
        };
        let (of, resized, models) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Worlds { bounds, interval_millis, most_resizes, resized, of, models, entered: None }
    }

    /// With what the job begins with.
    pub(crate) fn from(mut self, origin: &Origin) -> Self {
        let Checkpoint { lineage, version, digest, .. } = origin.checkpoint;
        self.models.insert((lineage, version), digest);
        self
    }

    /// A life of the tracker says what becomes of the ranks of a world, and how many there are then. So many of those
    /// that have no part in it are there still, and leave.
    pub(crate) fn resized(&mut self, life: u32, ranks: &[Option<Rank>], world: u32, leave: usize, now: u64) -> Checked {
        let before = self.resized.get(&life).copied();
        let times = before.map_or(1, |(_, times)| times + 1);
        self.resized.insert(life, (now, times));
        let before = before.map(|(at, _)| at);
        if let Some(most) = self.most_resizes.filter(|most| times > *most) {
            return Err(Violation::new(NAME, format!("a world changes for the {times}. time, {most} are allowed")));
        }
        let in_order = ranks.iter().flatten().copied().eq((0..).map(Rank).take(ranks.iter().flatten().count()));
        let stay = ranks.iter().flatten().count() as u32;
        let joiners = world.saturating_sub(stay);
        let is_early = before.is_some_and(|before| now - before < self.interval_millis);
        let all_leave = leave > 0 && stay as usize + leave == ranks.len();
        let text = match (self.bounds.contains(&world), in_order, joiners) {
            (true, true, _) if all_leave => return Ok(()),
            (false, ..) => format!("a world of {world} ranks; {:?} is allowed", self.bounds),
            (_, false, _) => format!("those that stay are {ranks:?} of {world}"),
            (_, _, 0) if (world as usize) < ranks.len() => return Ok(()),
            (_, _, 0) => format!("a world of {world} ranks becomes one of as many"),
            _ if is_early => format!("a world grows {} ms after it has changed", now - before.unwrap_or_default()),
            _ if (stay as usize) < ranks.len() => format!("{joiners} ranks come while others go: {ranks:?}"),
            _ => return Ok(()),
        };
        Err(Violation::new(NAME, text))
    }

    /// Whether a life has changed the world as often as it may.
    pub(crate) fn is_exhausted(&self, life: u32) -> bool {
        let times = self.resized.get(&life).map_or(0, |(_, times)| *times);
        self.most_resizes.is_some_and(|most| times >= most)
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

    /// The world has changed: the lowest version that a survivor is in, and the processes of all survivors.
    pub(crate) fn shrunk(&mut self, lowest: Option<Version>, survivors: Vec<u32>) {
        self.entered = lowest.map(|lowest| (lowest, survivors));
    }

    /// All begin again at this version. `is_there` says of a process if it could be asked, `could_be` of a version if
    /// it could have been begun from.
    pub(crate) fn begun_again(
        &mut self,
        version: Version,
        is_there: impl Fn(u32) -> bool,
        could_be: impl Fn(Version) -> bool,
    ) -> Checked {
        match self.entered.take() {
            Some((entered, survivors))
                if version < entered && could_be(entered) && survivors.iter().any(|process| is_there(*process)) =>
            {
                let text = format!("all begin again at version {version}, but every survivor had entered {entered}");
                Err(Violation::new(NAME, text))
            }
            _ => Ok(()),
        }
    }
}
