//! **Monotony.** Incarnations and generations grow; within an incarnation versions grow by one; lineages grow, and a
//! plan never starts a rank above what was reported.

use super::{Checked, Violation};
use rejoin_protocol::event::Event;
use rejoin_protocol::ids::{AgentId, Generation, Incarnation, Lineage, Rank, Version};
use std::collections::{BTreeMap, BTreeSet};

const NAME: &str = "Monotony";

/// What was seen last.
#[derive(Debug, Default)]
pub struct Monotony {
    generations: BTreeMap<AgentId, Generation>,
    incarnations: BTreeMap<Rank, Incarnation>,
    versions: BTreeMap<(Rank, Incarnation), (Lineage, Version)>,
    generation: Generation,
    lineage: Lineage,
    /// All agents that have joined in this life of the tracker.
    agents: BTreeSet<AgentId>,
    /// All that had joined before it, and knew how often ranks were started.
    former: BTreeSet<AgentId>,
    /// A later life of the tracker that no agent of a former one has joined: nobody can tell it how often ranks were
    /// started.
    knows_no_starts: bool,
    /// A new life of the tracker: the lineage that it goes on with is the newest that a living rank has heard of.
    takes_over: bool,
}

impl Monotony {
    /// For the tracker's next life: what it says goes on from there.
    pub(crate) fn next_life(&self) -> Self {
        let (incarnations, generation, lineage) = (self.incarnations.clone(), self.generation, self.lineage);
        // What has come since to a life that nobody could tell can tell the next one nothing.
        let told = if self.knows_no_starts { BTreeSet::new() } else { self.agents.clone() };
        Monotony {
            incarnations,
            former: told.union(&self.former).copied().collect(),
            knows_no_starts: true,
            generation,
            lineage,
            // Also what it hears of others that begin something while it is there already.
            takes_over: true,
            ..Self::default()
        }
    }

    pub(crate) fn view(&mut self, agent: AgentId, generation: Generation) -> Checked {
        let known = self.generations.entry(agent).or_default();
        if generation < *known {
            return Err(Violation::new(NAME, format!("agent {} went from view {known} to {generation}", agent.0)));
        }
        *known = generation;
        Ok(())
    }

    pub(crate) fn entered(&mut self, who: (Rank, Incarnation), lineage: Lineage, version: Version) -> Checked {
        if let Some((l, v)) = self.versions.insert(who, (lineage, version)) {
            if l != lineage || version.0 != v.0 + 1 {
                return Err(Violation::new(NAME, format!("{who:?} went from {l}/{v} to {lineage}/{version}")));
            }
        }
        Ok(())
    }

    pub(crate) fn event(&mut self, event: &Event) -> Checked {
        match event {
            Event::RankJoined { rank, incarnation, .. } => {
                let known = self.incarnations.insert(*rank, *incarnation);
                // What is shown, too: a life of the tracker may know of fewer starts than there were, and of none where
                // all who could tell it are gone.
                let shown = |known: Incarnation| known.number <= incarnation.number || self.knows_no_starts;
                let goes_on = |known: Incarnation| known < *incarnation && shown(known);
                if !known.is_none_or(goes_on) {
                    let text = format!("rank {rank} got the slot as {incarnation:?} after {known:?}");
                    return Err(Violation::new(NAME, text));
                }
                Ok(())
            }
            Event::AgentJoined { agent, .. } => {
                self.agents.insert(*agent);
                self.knows_no_starts &= !self.former.contains(agent);
                Ok(())
            }
            Event::ViewMade { generation, .. } if *generation <= self.generation => {
                Err(Violation::new(NAME, format!("view {generation} was made after {}", self.generation)))
            }
            Event::ViewMade { generation, .. } => {
                self.generation = *generation;
                Ok(())
            }
            Event::RolledBack { lineage, .. } | Event::PlanMade { lineage, .. } if self.takes_over => {
                self.takes_over = false;
                self.lineage = *lineage;
                Ok(())
            }
            Event::RolledBack { lineage, .. } if *lineage <= self.lineage => {
                Err(Violation::new(NAME, format!("lineage {lineage} was begun after {}", self.lineage)))
            }
            Event::RolledBack { lineage, .. } => {
                self.lineage = *lineage;
                Ok(())
            }
            Event::PlanMade { generation, lineage, .. }
                if (*generation, *lineage) != (self.generation, self.lineage) =>
            {
                Err(Violation::new(NAME, format!("a plan for {generation} in lineage {lineage} came out of turn")))
            }
            _ => Ok(()),
        }
    }
}
