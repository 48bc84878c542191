//! What standings tell of collectives, and what follows from all of them together.

use super::inputs::Heard;
use super::sharing::{self, Invitation};
use crate::ids::{AgentId, Generation, Lineage, Phase, Rank};
use crate::message::{Plan as WholePlan, RankState};
use crate::view::{AgentAddress, SeatState, View};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// How much of one phase a rank holds: the results of its collectives 0 to `finished` (exclusive).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// The phase.
    pub phase: Phase,
    /// How many results, from the first on.
    pub finished: u32,
    /// There are no more: the version was ended after so many.
    pub ended: bool,
}

/// One phase, as everybody together has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhasePlan {
    /// The phase.
    pub phase: Phase,
    /// So many collectives were finished by somebody who lives. Whoever lacks results below this fetches them; whatever
    /// comes from here on is run by all.
    pub finished: u32,
    /// Somebody who lives has ended the version after `finished` collectives.
    pub ended: bool,
    /// Who holds how many of the results: this agent first, then those of this host, then others.
    pub holders: Vec<(AgentAddress, u32)>,
}

/// What one rank has to know of a plan. A pure function of the tracker's plan and the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The attempt from now on.
    pub generation: Generation,
    /// The lineage.
    pub lineage: Lineage,
    /// Boot first, then versions, ascending.
    pub phases: Vec<PhasePlan>,
    /// The boards of all ranks, in rank order, when this attempt's collectives go through shared memory; otherwise they go over
    /// links.
    pub boards: Option<Vec<Invitation>>,
    /// The host of each rank, as a number: hosts are counted in the order in which the ranks have them first. Algorithms are
    /// chosen by that. The same at all ranks, because a generation's view has one host for each of its seats.
    pub hosts: Vec<usize>,
    /// Ranks that nobody is under this plan. Nothing is sent to them: who comes next is given what the others have finished.
    pub vacant: Vec<Rank>,
    /// What ranks have heard of incarnations that have been followed by newer ones, and who has.
    pub heard: Vec<(Rank, Heard)>,
}

impl Plan {
    /// Derives it, for the ranks of one agent on one host.
    pub fn derive(plan: &WholePlan, view: &View, own: AgentId, host: &str) -> Plan {
        let mut phases: Vec<PhasePlan> = Vec::new();
        let mut all_heard = Vec::new();
        for standing in &plan.table {
            let at = match standing.state {
                RankState::At(at) | RankState::Finished { at, .. } => at,
                RankState::Fresh => continue,
            };
            let seat = view.seats.get(standing.rank.0 as usize);
            let Some(SeatState::Alive { agent }) = seat.map(|seat| &seat.state) else { continue };
            let Some(address) = view.agents.iter().find(|known| known.agent == *agent) else { continue };
            if at.lineage != plan.lineage {
                continue;
            }
            all_heard.extend(standing.heard.iter().map(|heard| (standing.rank, *heard)));
            for extent in &standing.results {
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
        phases.sort_by_key(|phase| order(phase.phase));
        let boards = sharing::boards(plan, view);
        let seats = (0..).map(Rank).zip(&view.seats);
        let vacant = seats.filter(|(_, seat)| seat.state == SeatState::Vacant).map(|(rank, _)| rank).collect();
        let (generation, lineage, heard) = (plan.generation, plan.lineage, all_heard);
        Plan { generation, lineage, phases, boards, hosts: hosts(view), vacant, heard }
    }

    /// What everybody together has of a phase.
    pub fn phase(&self, phase: Phase) -> Option<&PhasePlan> {
        self.phases.iter().find(|known| known.phase == phase)
    }
}

/// The number of each rank's host. Who isn't there takes part in nothing, and counts as on the first one.
fn hosts(view: &View) -> Vec<usize> {
    let mut names: Vec<&str> = Vec::new();
    let number = |rank| {
        let Some((_, at)) = view.alive(Rank(rank)) else { return 0 };
        names.iter().position(|name| *name == at.host).unwrap_or_else(|| {
            names.push(&at.host);
            names.len() - 1
        })
    };
    (0..view.world()).map(number).collect()
}

/// Boot comes before all versions.
pub(super) fn order(phase: Phase) -> u64 {
    match phase {
        Phase::Boot => 0,
        Phase::Version(version) => 1 + u64::from(version.0),
    }
}
