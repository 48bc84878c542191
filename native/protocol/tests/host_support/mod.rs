//! An agent without sockets on a desk: what its tracker and its tasks say, and all that comes out.
#![allow(missing_docs)]

use rejoin_protocol::error::Code;
use rejoin_protocol::former::FormerWorlds;
use rejoin_protocol::host::{Host, HostConfig, HostInput, HostOutput, ONE_BY_ONE, OWN_COPIES};
use rejoin_protocol::ids::{
    AgentId, Attempt, Checkpoint, Generation, Incarnation, Lineage, MemberId, Millis, Rank, Version,
};
use rejoin_protocol::message::{AgentMessage, Newcomer, Plan, StatusReport, Timing, TrackerMessage};
use rejoin_protocol::view::{AgentAddress, SlotState, View, ViewSlot};

pub const TIMING: Timing =
    Timing { heartbeat_millis: 100, lost_after_millis: 1000, lease_millis: 10_000, members_millis: 60_000 };
pub const ZERO: Rank = Rank(0);

pub fn incarnation(number: u32) -> Incarnation {
    Incarnation::nth(number)
}

/// Rank 0 in one of its incarnations.
pub fn member(number: u32) -> MemberId {
    MemberId { rank: ZERO, incarnation: incarnation(number) }
}

pub fn attempt(task: u32) -> Attempt {
    Attempt { stage: 0, task }
}

pub fn checkpoint(version: u32) -> Checkpoint {
    let (length, digest) = if version == 0 { (0, 0) } else { (10, u128::from(version)) };
    Checkpoint {
        lineage: Lineage(0),
        version: Version(version),
        owner: None,
        has_own: false,
        round: version,
        length,
        digest,
        complete: false,
    }
}

pub fn address(agent: u64) -> AgentAddress {
    let host = if agent == 3 { "near" } else { "far" };
    let host = if agent == 1 { "near".into() } else { host.into() };
    AgentAddress { agent: AgentId(agent), address: ([127, 0, 0, 1], agent as u16).into(), host }
}

/// One rank per agent: agent n hosts rank n-1 in this incarnation; `None` is vacant.
pub fn view(number: u32, slots: &[Option<u32>], planned: bool) -> View {
    let slots = slots.iter().enumerate().map(|(rank, slot)| ViewSlot {
        incarnation: slot.map(Incarnation::nth),
        state: match slot {
            Some(_) => SlotState::Alive { agent: AgentId(rank as u64 + 1) },
            None => SlotState::Vacant,
        },
        planned: planned && slot.is_some(),
    });
    View {
        generation: Generation { epoch: 1, number },
        branches: Vec::new(),
        former: FormerWorlds::default(),
        has_begun: true,
        highest: None,
        fingerprint: None,
        hooked: None,
        lineage: Lineage(0),
        slots: slots.collect(),
        agents: (1..=4).map(address).collect(),
    }
}

pub fn newcomer(rank: u32, number: u32, version: u32) -> Newcomer {
    Newcomer {
        rank: Rank(rank),
        incarnation: incarnation(number),
        version: Version(version),
        checkpoint: (version > 0).then(|| checkpoint(version)),
        own: None,
        own_holders: Vec::new(),
        former: None,
        has_local: false,
    }
}

pub fn plan(number: u32, newcomers: Vec<Newcomer>, holders: &[u64]) -> Plan {
    Plan {
        generation: Generation { epoch: 1, number },
        lineage: Lineage(0),
        newcomers,
        table: Vec::new(),
        holders: holders.iter().copied().map(AgentId).collect(),
        reason: "because".into(),
        hooked: None,
    }
}

pub struct Desk {
    pub host: Host,
    pub now: u64,
}

impl Desk {
    /// Agent 1.
    pub fn new() -> Self {
        Desk::owing(OWN_COPIES)
    }

    /// Agent 1, whose ranks' own models are to be held by so many others.
    pub fn owing(own_copies: u32) -> Self {
        let config = HostConfig {
            agent: AgentId(1),
            executor: "exec-1".into(),
            host: "near".into(),
            address: address(1).address,
            pid: 11,
            tracker_millis: 5000,
            own_copies,
            one_by_one: ONE_BY_ONE,
        };
        let mut desk = Desk { host: Host::new(config, Millis(0)), now: 0 };
        assert_eq!(desk.drain(), [HostOutput::ConnectTracker]);
        desk
    }

    pub fn drain(&mut self) -> Vec<HostOutput> {
        std::iter::from_fn(|| self.host.poll()).collect()
    }

    pub fn input(&mut self, input: HostInput) -> Vec<HostOutput> {
        self.host.handle(input, Millis(self.now));
        self.drain()
    }

    pub fn received(&mut self, message: TrackerMessage) -> Vec<HostOutput> {
        self.input(HostInput::Tracker(message))
    }

    pub fn connected() -> Self {
        let mut desk = Desk::new();
        desk.input(HostInput::TrackerUp);
        desk.received(TrackerMessage::Registered { epoch: 1, timing: TIMING, wants_result: false });
        desk
    }

    pub fn join(&mut self, rank: u32, task: u32) -> Vec<HostOutput> {
        self.input(HostInput::Join {
            rank: Rank(rank),
            attempt: attempt(task),
            fingerprint: "terms".into(),
            offer: Default::default(),
        })
    }

    /// Rank 0 has a slot and a view with all three ranks.
    pub fn join_accepted() -> Self {
        let mut desk = Desk::connected();
        desk.join(0, 0);
        desk.received(TrackerMessage::JoinAccepted { rank: ZERO, attempt: attempt(0), incarnation: incarnation(0) });
        desk.received(TrackerMessage::View(view(1, &[Some(0), Some(0), Some(0)], false)));
        desk
    }

    /// The same, started at version 0 and settled, and trained to this version.
    pub fn trained_to(version: u32) -> Self {
        let mut desk = Desk::join_accepted();
        let all = (0..3).map(|rank| newcomer(rank, 0, 0)).collect();
        desk.received(TrackerMessage::Plan(plan(1, all, &[])));
        desk.received(TrackerMessage::Settled { generation: Generation { epoch: 1, number: 1 } });
        for v in 0..=version {
            desk.enter(v);
        }
        desk
    }

    pub fn enter(&mut self, version: u32) -> Vec<HostOutput> {
        self.input(HostInput::Entered { member: member(0), checkpoint: checkpoint(version), local: None })
    }

    pub fn hold(&mut self, number: u32, oldest: u32) -> Vec<HostOutput> {
        self.input(HostInput::Holding {
            member: member(number),
            oldest: Version(oldest),
            results: Vec::new(),
            observed: Vec::new(),
        })
    }

    pub fn wake(&mut self, at: u64) -> Vec<HostOutput> {
        self.now = at;
        self.input(HostInput::Wake)
    }
}

pub fn status(outputs: &[HostOutput]) -> Option<&StatusReport> {
    outputs.iter().find_map(|output| match output {
        HostOutput::Send(AgentMessage::StatusReport(status)) => Some(status),
        _ => None,
    })
}

pub fn freed(outputs: &[HostOutput]) -> Option<(Option<u32>, Code)> {
    outputs.iter().find_map(|output| match output {
        HostOutput::Free { incarnation, error, .. } => Some((incarnation.map(|i| i.number), error.code)),
        _ => None,
    })
}

pub fn forgotten(outputs: &[HostOutput]) -> Vec<u32> {
    let forgotten = outputs.iter().filter_map(|output| match output {
        HostOutput::Forget { version, .. } => Some(version.0),
        _ => None,
    });
    forgotten.collect()
}
