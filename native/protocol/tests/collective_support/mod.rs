//! One rank's collectives on a desk: results are texts.
#![allow(missing_docs)]

use rejoin_protocol::collective::{
    BootKey, Call, Entry, Extent, Fetch, Next, Operation, Participant, ParticipantOutput, PhasePlan, RankPlan, Site,
};
use rejoin_protocol::ids::{AgentId, Generation, Incarnation, Lineage, Phase, Rank, Version};
use rejoin_protocol::message::{Plan, RankStatus};
use rejoin_protocol::view::AgentAddress;

pub type Desk = Participant<&'static str>;

pub fn generation(number: u32) -> Generation {
    Generation { epoch: 1, number }
}

pub fn version(version: u32) -> Phase {
    Phase::Version(Version(version))
}

pub fn sum(count: u64) -> Call {
    let site = Site::Code { file: "train.rs", line: 7 };
    Call { operation: Operation::Allreduce, element: "f32".into(), count, reduction: "sum".into(), root: None, site }
}

pub fn broadcast(root: u32) -> Call {
    let site = Site::Code { file: "train.rs", line: 9 };
    let root = Some(Rank(root));
    Call { operation: Operation::Broadcast, element: "u8".into(), count: 3, reduction: "".into(), root, site }
}

pub fn barrier() -> Call {
    let site = Site::Named("here".into());
    Call { operation: Operation::Barrier, element: "".into(), count: 0, reduction: "".into(), root: None, site }
}

pub fn key(name: &str) -> BootKey {
    BootKey { name: name.into(), occurrence: 0 }
}

/// Agent 9 holds what is said of each phase.
pub fn plan(number: u32, phases: &[(Phase, u32, bool)]) -> RankPlan {
    let holder = AgentAddress { agent: AgentId(9), address: ([127, 0, 0, 1], 9).into(), host: "far".into() };
    let phases = phases.iter().map(|(phase, finished, ended)| PhasePlan {
        phase: *phase,
        finished: *finished,
        ended: *ended,
        holders: vec![(holder.clone(), *finished)],
    });
    RankPlan {
        generation: generation(number),
        lineage: Lineage(0),
        phases: phases.collect(),
        segments: None,
        hosts: Vec::new(),
        vacant: Vec::new(),
        observed: Vec::new(),
    }
}

/// The tracker's plan in which no rank starts.
pub fn whole_plan(number: u32, table: Vec<RankStatus>) -> Plan {
    Plan {
        generation: generation(number),
        lineage: Lineage(0),
        newcomers: Vec::new(),
        table,
        holders: Vec::new(),
        reason: String::new(),
        hooked: None,
    }
}

pub fn extent(phase: Phase, finished: u32, ended: bool) -> Extent {
    Extent { phase, finished, ended }
}

/// Rank 1, started at this version, without a plan.
pub fn started(at: u32) -> Desk {
    Participant::new(Rank(1), Incarnation::nth(0), Lineage(0), Version(at))
}

/// The same with the plan of generation 1: all start together.
pub fn running() -> Desk {
    let mut desk = started(0);
    desk.plan(plan(1, &[]));
    drain(&mut desk);
    desk
}

pub fn drain(desk: &mut Desk) -> Vec<ParticipantOutput<&'static str>> {
    std::iter::from_fn(|| desk.poll()).collect()
}

pub fn fetches(outputs: &[ParticipantOutput<&'static str>]) -> Vec<Fetch> {
    let fetches = outputs.iter().filter_map(|output| match output {
        ParticipantOutput::Fetch(fetch) => Some(fetch.clone()),
        _ => None,
    });
    fetches.collect()
}

pub fn dropped(outputs: &[ParticipantOutput<&'static str>]) -> Vec<&'static str> {
    let dropped = outputs.iter().filter_map(|output| match output {
        ParticipantOutput::Dropped(result) => Some(*result),
        _ => None,
    });
    dropped.collect()
}

/// A whole call under the present plan.
pub fn makes(desk: &mut Desk, call: &Call, result: &'static str) {
    desk.begin(call, None).unwrap();
    let Next::Run(generation) = desk.proceed().unwrap() else { panic!("the call doesn't run") };
    assert!(desk.finish(generation, result));
}

pub fn waits(desk: &mut Desk) -> String {
    match desk.proceed() {
        Ok(Next::Wait(reason)) => reason,
        other => panic!("it doesn't wait: {other:?}"),
    }
}

/// A result of another rank.
pub fn entry(call: &Call, result: &'static str) -> Entry<&'static str> {
    Entry { signature: call.signature(None), key: None, result }
}
