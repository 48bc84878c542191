//! What status reports say of collectives, and what follows from all of them together.

use super::sharing;
use super::status::{ObservedInput, SegmentAddress};
use crate::ids::{AgentId, Generation, Lineage, Phase, Rank};
use crate::message::{Plan, RankState};
use crate::view::{AgentAddress, SlotState, View};
use alloc::vec::Vec;

/// One phase, as all together have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhasePlan {
    /// Boot, or the version whose collective it is.
    pub phase: Phase,
    /// So many collectives were finished by a living rank. One that lacks results below this fetches them; what
    /// comes from here on is run by all.
    pub finished: u32,
    /// A living rank has ended the version after `finished` collectives.
    pub ended: bool,
    /// Which agents hold how many of the results: this agent first, then those of this host, then others.
    pub holders: Vec<(AgentAddress, u32)>,
}

/// What one rank has to know of a plan. A pure function of the tracker's plan and the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankPlan {
    /// The generation from now on.
    pub generation: Generation,
    /// The lineage that is trained.
    pub lineage: Lineage,
    /// Boot first, then versions, ascending.
    pub phases: Vec<PhasePlan>,
    /// The segments of all ranks, in rank order, when this generation's collectives go through shared
    /// memory; otherwise they go over links.
    pub segments: Option<Vec<SegmentAddress>>,
    /// The host of each rank, as a number: hosts are counted in the order in which the ranks have
    /// them first. Algorithms are chosen by that. The same at all ranks, because a generation's
    /// view has one host for each of its slots.
    pub hosts: Vec<usize>,
    /// Ranks without a member under this plan. Nothing is sent to them: the next incarnation is given what
    /// the others have finished.
    pub vacant: Vec<Rank>,
    /// What ranks have heard of incarnations that have been followed by newer ones, and which rank has.
    pub observed: Vec<(Rank, ObservedInput)>,
}

impl RankPlan {
    /// Derives it, for the ranks of one agent on one host.
    pub fn derive(plan: &Plan, view: &View, own: AgentId, host: &str) -> RankPlan {
        let mut phases: Vec<PhasePlan> = Vec::new();
        let mut all_observed = Vec::new();
        for status in &plan.table {
            let at = match status.state {
                RankState::At(at) | RankState::Finished { at, .. } => at,
                RankState::Fresh => continue,
            };
            let slot = view.slots.get(status.rank.0 as usize);
            let Some(SlotState::Alive { agent }) = slot.map(|slot| &slot.state) else { continue };
            let Some(address) = view.address(*agent) else { continue };
            if at.lineage != plan.lineage {
                continue;
            }
            all_observed.extend(status.observed.iter().map(|observed| (status.rank, *observed)));
            for extent in &status.results {
                let known = match phases.iter_mut().find(|known| known.phase == extent.phase) {
                    Some(known) => known,
                    None => {
                        let (phase, holders) = (extent.phase, Vec::new());
                        phases.push(PhasePlan { phase, finished: 0, ended: false, holders });
                        phases.last_mut().unwrap_or_else(|| unreachable!("one was pushed in the line above"))
                    }
                };
                known.finished = known.finished.max(extent.finished);
                known.ended |= extent.ended;
                match known.holders.iter_mut().find(|(holder, _)| holder.agent == *agent) {
                    Some((_, most)) => *most = (*most).max(extent.finished),
                    None => known.holders.push((address.clone(), extent.finished)),
                }
            }
        }
        for phase in &mut phases {
            // Among equals each begins with another one, so that not all ask the same.
            phase.holders.sort_by_key(|(at, _)| (at.agent != own, at.host != host, at.agent.0 ^ own.0));
        }
        phases.sort_by_key(|phase| phase.phase);
        let segments = sharing::segments(plan, view);
        let slots = (0..).map(Rank).zip(&view.slots);
        let vacant = slots.filter(|(_, slot)| slot.state == SlotState::Vacant).map(|(rank, _)| rank).collect();
        let (generation, lineage, observed) = (plan.generation, plan.lineage, all_observed);
        RankPlan { generation, lineage, phases, segments, hosts: view.hosts(), vacant, observed }
    }

    /// What all together have of a phase.
    pub fn phase(&self, phase: Phase) -> Option<&PhasePlan> {
        self.phases.iter().find(|known| known.phase == phase)
    }
}
