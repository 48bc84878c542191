//! **No lost work.** A survivor is never set back unless the plan says so; never a silent restart
//! from version 0; a rank starts where the plan of its generation says, with the checkpoint in
//! hand.

use super::{Checked, Violation};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::event::Event;
use rejoin_protocol::host::Start;
use rejoin_protocol::ids::{Checkpoint, Incarnation, Lineage, Rank, Version};
use std::collections::{BTreeMap, BTreeSet};

const NAME: &str = "NoLostWork";

/// What the tracker's lives have reported and heard.
#[derive(Debug, Default)]
pub struct NoLostWork {
    lost: BTreeSet<(Rank, Incarnation)>,
    planned: BTreeMap<Rank, Vec<(Lineage, Version)>>,
    /// By life of the tracker: the highest version that it has heard of, or its former ones before it began.
    highest: BTreeMap<u32, Version>,
    world: usize,
    locals: bool,
    /// A rank may enter version 1 before another one has its start. A tracker that comes back and
    /// finds a rank that waits for its first start begins anew: none has more than that.
    is_begun_alone: bool,
    /// The newest incarnation of each rank that has joined.
    joined: BTreeMap<Rank, Incarnation>,
    /// Those that were there when all were sent back.
    sent_back: BTreeSet<(Rank, Incarnation)>,
    /// What the tracker's lives have heard of ranks that they don't know to be lost.
    entered: BTreeMap<Rank, Version>,
    /// Where the newest life's plans start ranks that it doesn't know to be lost.
    given: BTreeMap<Rank, Version>,
    /// The world has changed at least once.
    is_resized: bool,
    /// At which version each lineage has left the one before.
    branches: BTreeMap<Lineage, Version>,
}

impl NoLostWork {
    /// Ranks with state of their own may lose version 1, and then start from the beginning.
    pub(crate) fn new(world: u32, locals: bool) -> Self {
        NoLostWork { world: world as usize, locals, ..NoLostWork::default() }
    }

    /// For a job whose version 0 has nothing that depends on all ranks.
    pub(crate) fn begun_alone(self, is_begun_alone: bool) -> Self {
        NoLostWork { is_begun_alone, ..self }
    }

    /// The highest version that may be lost.
    fn kept(&self, life: u32) -> Version {
        match (self.locals, self.is_begun_alone && life > 1) {
            (true, _) => Version(2),
            (false, true) => Version(1),
            (false, false) => Version(0),
        }
    }

    /// For a run that goes on from this version of an earlier one.
    pub(crate) fn from(mut self, version: Version) -> Self {
        self.highest.insert(0, version);
        self
    }

    /// A life of the tracker begins: what is known by then was reported to a former one. If the furthest rank that is
    /// left is in version 0, this life can't know that one which is gone had entered version 1 alone.
    pub(crate) fn life_begins(&mut self, life: u32, furthest: Option<Version>) {
        let known = self.highest.values().max().copied().unwrap_or_default();
        self.highest.insert(life, if furthest == Some(Version(0)) { Version(0) } else { known });
        self.given.clear();
    }

    /// Whether a rank had entered a version, as a life of the tracker has heard, or a former one.
    pub(crate) fn has_heard(&self, life: u32) -> bool {
        self.highest.get(&life).is_some_and(|highest| *highest > Version(0))
    }

    /// A life of the tracker hears of this version. What another one hears that lives at the same time it can't know.
    pub(crate) fn hears(&mut self, life: u32, version: Version) {
        let known = self.highest.entry(life).or_default();
        *known = (*known).max(version);
    }

    pub(crate) fn event(&mut self, life: u32, event: &Event) -> Checked {
        let highest = self.highest.get(&life).copied().unwrap_or_default();
        match event {
            Event::RankLost { rank, incarnation, .. } => {
                self.lost.insert((*rank, *incarnation));
                self.entered.remove(rank);
                self.given.remove(rank);
            }
            Event::VersionEntered { rank, version, .. } => {
                self.entered.insert(*rank, *version);
                self.hears(life, *version);
            }
            Event::RolledBack { version, reason, .. } if *version == Version(0) && highest > self.kept(life) => {
                return Err(Violation::new(NAME, format!("all ranks start again from version 0: {reason}")));
            }
            Event::Resized { world, .. } => (self.world, self.is_resized) = (*world as usize, true),
            Event::RankJoined { rank, incarnation, .. } => {
                let newest = self.joined.entry(*rank).or_insert(*incarnation);
                *newest = (*newest).max(*incarnation);
            }
            Event::ViewMade { reason, .. } if reason.contains("go back") => {
                self.sent_back.extend(self.joined.iter().map(|(rank, incarnation)| (*rank, *incarnation)));
            }
            Event::PlanMade { version, newcomers, reason, .. }
                if *version == Version(0) && highest > self.kept(life) && newcomers.len() == self.world =>
            {
                return Err(Violation::new(NAME, format!("all ranks are started from version 0: {reason}")));
            }
            Event::PlanMade { lineage, version, newcomers, .. } => {
                self.hears(life, *version);
                for rank in newcomers {
                    self.planned.entry(*rank).or_default().push((*lineage, *version));
                    self.given.insert(*rank, *version);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// All begin again at a version in a new lineage, though these checkpoints can be fetched: none of them is a newer
    /// one of the same line.
    pub(crate) fn begun_again<'a>(
        &mut self,
        (lineage, version): (Lineage, Version),
        held: impl Iterator<Item = &'a Checkpoint>,
    ) -> Checked {
        let left = |from: Lineage| self.branches.range(from..).skip_while(move |(to, _)| **to == from);
        let newer = |held: &&Checkpoint| {
            held.version > version && left(held.lineage).all(|(_, branch)| held.version <= *branch)
        };
        let found = held.filter(newer).max_by_key(|held| held.version).copied();
        self.branches.insert(lineage, version);
        match found {
            Some(newer) => Err(Violation::new(NAME, format!("all begin again at {version}, and {newer:?} is held"))),
            None => Ok(()),
        }
    }

    /// The world has changed: the furthest that a survivor is, if one was started, or was to be; and what each rank is
    /// now. What others had entered is lost.
    pub(crate) fn shrunk(&mut self, furthest: Option<Version>, ranks: &[Option<Rank>]) {
        let heard = std::mem::take(&mut self.entered).into_values().max();
        let stays = |rank: &Rank| ranks.get(rank.0 as usize).is_some_and(Option::is_some);
        let given = std::mem::take(&mut self.given);
        let planned = given.iter().filter(|(rank, _)| stays(rank)).map(|(_, version)| *version).max();
        let furthest = furthest.max(heard).or(planned);
        let most = |known: &mut Version| *known = furthest.map_or(*known, |furthest| furthest.min(*known));
        self.highest.values_mut().for_each(most);
    }

    pub(crate) fn started(&self, rank: Rank, start: &Start) -> Checked {
        let plans = self.planned.get(&rank);
        if !plans.is_some_and(|plans| plans.contains(&(start.lineage, start.version))) {
            let text = format!("rank {rank} starts at {}/{}, no plan says so", start.lineage, start.version);
            return Err(Violation::new(NAME, text));
        }
        if start.checkpoint.is_none() && start.version != Version(0) {
            return Err(Violation::new(NAME, format!("rank {rank} starts at {} without a checkpoint", start.version)));
        }
        Ok(())
    }

    /// A rank's calls ended. `was_late`: a new life of the tracker didn't wait for it, and it had
    /// lost nothing or came too late.
    pub(crate) fn freed(&self, rank: Rank, incarnation: Option<Incarnation>, error: &Error, was_late: bool) -> Checked {
        if error.code == Code::BadArgument {
            return Err(Violation::new(NAME, format!("rank {rank} was given what it can't join as: {error}")));
        }
        let Some(incarnation) = incarnation else { return Ok(()) };
        let reported = self.lost.contains(&(rank, incarnation)) || was_late;
        let right = match error.code {
            Code::Fenced => reported,
            Code::RolledBack => self.sent_back.contains(&(rank, incarnation)),
            // One that was replaced is told the same by a life that can't tell it from one that was moved.
            Code::Resized => self.is_resized || reported,
            // It gives up by itself, which the tracker hears of.
            Code::Io | Code::TrackerUnreachable => true,
            _ => false,
        };
        if !right {
            let text = format!("rank {rank} incarnation {incarnation} was ended, but not declared lost: {error}");
            return Err(Violation::new(NAME, text));
        }
        Ok(())
    }
}

/// A rank that starts from a checkpoint has it.
pub(crate) fn held(rank: Rank, version: Version, held: bool) -> Checked {
    if !held {
        return Err(Violation::new(NAME, format!("rank {rank} was started at {version} from what isn't there")));
    }
    Ok(())
}
