//! Agents of a tracker's former life.

use super::{checkpoint, config, Desk};
use rejoin_protocol::ids::{AgentId, Generation, Lineage, Version};
use rejoin_protocol::message::{AgentMessage, RankStanding, Registration, Standing};
use rejoin_protocol::tracker::{Output, TrackerConfig};
use rejoin_protocol::view::{AgentAddress, Seat, SeatState, View};

pub fn second_life(world: u32) -> Desk {
    Desk::with(TrackerConfig { epoch: 2, ..config(world) })
}

/// The view that life 1 had told last: ranks with these incarnations are alive, each at the agent of its number plus one.
pub fn former(number: u32, seats: &[Option<u32>], branches: &[u32]) -> View {
    let seat = |(rank, incarnation): (usize, &Option<u32>)| Seat {
        incarnation: incarnation.map(rejoin_protocol::ids::Incarnation).or(Some(Default::default())),
        state: match incarnation {
            Some(_) => SeatState::Alive { agent: AgentId(rank as u64 + 1) },
            None => SeatState::Vacant,
        },
        planned: incarnation.is_some(),
    };
    View {
        generation: Generation { epoch: 1, number },
        lineage: Lineage(branches.len() as u32),
        branches: branches.iter().copied().map(Version).collect(),
        has_begun: true,
        terms: Some("terms".into()),
        hooked: None,
        seats: seats.iter().enumerate().map(seat).collect(),
        agents: (1..=seats.len()).map(|agent| address(agent as u64)).collect(),
    }
}

pub fn address(agent: u64) -> AgentAddress {
    AgentAddress { agent: AgentId(agent), address: ([127, 0, 0, 1], 4000 + agent as u16).into(), host: "host".into() }
}

pub fn comes_back(desk: &mut Desk, agent: u64, view: &View, ranks: Vec<RankStanding>) -> Vec<Output> {
    let standing = Standing { generation: view.generation, ranks, held: vec![checkpoint(3)] };
    let registration = Registration {
        standing,
        terms: vec!["terms".into()],
        view: Some(Box::new(view.clone())),
        ..Desk::registration(agent, Vec::new(), Vec::new())
    };
    desk.says(agent, AgentMessage::Register(registration)).to_vec()
}
