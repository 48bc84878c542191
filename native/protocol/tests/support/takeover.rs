//! Agents of a tracker's former life.

use super::{checkpoint, config, Desk, Start};
use rejoin_protocol::former::FormerWorlds;
use rejoin_protocol::ids::{AgentId, Generation, Incarnation, Lineage, Version};
use rejoin_protocol::message::{AgentMessage, RankStatus, Registration, StatusReport};
use rejoin_protocol::tracker::{TrackerConfig, TrackerOutput};
use rejoin_protocol::view::{AgentAddress, SlotState, View, ViewSlot};

pub fn second_life(world: u32) -> Desk {
    Desk::with(TrackerConfig { epoch: 2, ..config(world) })
}

/// The view that life 1 had sent last: ranks with these incarnations are alive, each at the agent
/// of its number plus one.
pub fn former(number: u32, slots: &[Option<impl Start>], branches: &[u32]) -> View {
    let slot = |(rank, incarnation): (usize, Option<Incarnation>)| ViewSlot {
        incarnation: incarnation.or(Some(Incarnation::nth(0))),
        state: match incarnation {
            Some(_) => SlotState::Alive { agent: AgentId(rank as u64 + 1) },
            None => SlotState::Vacant,
        },
        planned: incarnation.is_some(),
    };
    View {
        generation: Generation { epoch: 1, number },
        lineage: Lineage(branches.len() as u32),
        branches: branches.iter().copied().map(Version).collect(),
        former: FormerWorlds::default(),
        has_begun: true,
        highest: None,
        fingerprint: Some("terms".into()),
        hooked: None,
        slots: slots.iter().map(|slot| slot.map(Start::start)).enumerate().map(slot).collect(),
        agents: (1..=slots.len()).map(|agent| address(agent as u64)).collect(),
    }
}

pub fn address(agent: u64) -> AgentAddress {
    AgentAddress { agent: AgentId(agent), address: ([127, 0, 0, 1], 4000 + agent as u16).into(), host: "host".into() }
}

pub fn comes_back(desk: &mut Desk, agent: u64, view: &View, ranks: Vec<RankStatus>) -> Vec<TrackerOutput> {
    let status =
        StatusReport { generation: view.generation, ranks, held: vec![checkpoint(3)], handed_over: Vec::new() };
    let registration = Registration {
        status,
        fingerprint: vec!["terms".into()],
        view: Some(Box::new(view.clone())),
        ..Desk::registration(agent, Vec::new(), Vec::new())
    };
    desk.says(agent, AgentMessage::Register(registration)).to_vec()
}
