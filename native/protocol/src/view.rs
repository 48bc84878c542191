//! The membership as the tracker last decided it.

use crate::former::FormerWorlds;
use crate::ids::{AgentId, Generation, Incarnation, Lineage, Rank, Version};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use serde::{Deserialize, Serialize};

/// What the tracker knows of one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewSlot {
    /// The incarnation that holds the slot, or held it last; `None` before the first.
    pub incarnation: Option<Incarnation>,
    /// Alive and where, or not.
    pub state: SlotState,
    /// Whether a plan gave it a start: only then is it linked with. Newcomers of a plan join these.
    pub planned: bool,
}

/// Whether a slot is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SlotState {
    /// No member yet, or the last incarnation is lost.
    Vacant,
    /// A member is there.
    Alive {
        /// The agent that hosts it.
        agent: AgentId,
    },
}

/// Where an agent can be reached by its peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentAddress {
    /// The agent that listens there.
    pub agent: AgentId,
    /// Its listener.
    pub address: SocketAddr,
    /// Name of its host: holders on the same host are asked first.
    pub host: String,
}

/// The view: the members of one generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// The number of the view.
    pub generation: Generation,
    /// The lineage that is being trained.
    pub lineage: Lineage,
    /// The version at which each lineage left the one before, from the first on: what a tracker
    /// that comes back has to know.
    pub branches: Vec<Version>,
    /// The worlds that an elastic job had before.
    pub former: FormerWorlds,
    /// Whether any plan was made before this view, or may have been: a tracker that has come back
    /// and found no agent that knew can't say. One that has found a rank which was never started says
    /// no: whatever was planned, nothing can have been finished by all.
    pub has_begun: bool,
    /// The highest version that a rank of this line is known to have entered; `None` where a
    /// tracker that has come back can't know.
    pub highest: Option<Version>,
    /// What all incarnations agree on, once the first has joined.
    pub fingerprint: Option<String>,
    /// Whether the ranks' training library's collectives are taken over, once that was agreed ([`crate::hook`]).
    pub hooked: Option<bool>,
    /// One slot per rank, in rank order.
    pub slots: Vec<ViewSlot>,
    /// Every agent that is connected to the tracker, whether it hosts a rank or only holds things, in the order of
    /// their numbers: there may be thousands, of which one is looked for.
    pub agents: Vec<AgentAddress>,
}

impl View {
    /// Number of ranks.
    pub fn world(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The number of each rank's host. A rank that isn't there takes part in nothing, and counts as on the first one.
    pub fn hosts(&self) -> Vec<usize> {
        let mut names: Vec<&str> = Vec::new();
        let number = |rank| {
            let Some((_, at)) = self.alive(Rank(rank)) else { return 0 };
            names.iter().position(|name| *name == at.host).unwrap_or_else(|| {
                names.push(&at.host);
                names.len() - 1
            })
        };
        (0..self.world()).map(number).collect()
    }

    /// The ranks that are not there.
    pub fn vacant(&self) -> Vec<Rank> {
        let vacant = self.slots.iter().enumerate().filter(|(_, slot)| slot.state == SlotState::Vacant);
        vacant.map(|(rank, _)| Rank(rank as u32)).collect()
    }

    /// Whether this incarnation has its rank's slot, or held it last.
    pub fn has(&self, rank: Rank, incarnation: Incarnation) -> bool {
        self.slots.get(rank.0 as usize).is_some_and(|slot| slot.incarnation == Some(incarnation))
    }

    /// The living incarnation of `rank` and its agent's address, if there is one.
    pub fn alive(&self, rank: Rank) -> Option<(Incarnation, &AgentAddress)> {
        let slot = self.slots.get(rank.0 as usize)?;
        let SlotState::Alive { agent } = slot.state else { return None };
        Some((slot.incarnation?, self.address(agent)?))
    }

    /// Where an agent is reached, if it is connected to the tracker.
    pub fn address(&self, agent: AgentId) -> Option<&AgentAddress> {
        let index = self.agents.binary_search_by_key(&agent, |known| known.agent).ok()?;
        self.agents.get(index)
    }
}
