//! A job whose ranks are threads of this process: the engine with agents and a tracker, and a
//! bridge for what XGBoost sends itself. A stock job, with XGBoost's own tracker.

use super::library::Collective;
use crate::common::World;
use crate::ranks::{attempt, Ranks, LIMIT};
use rejoin_agent::logs::{Budget, LogLimits};
use rejoin_agent::{Agent, Joined};
use rejoin_communicator::{CollectivePlane, Operations};
use rejoin_protocol::hook::Hook;
use rejoin_protocol::host::Offer;
use rejoin_protocol::ids::{MemberId, Rank};
use rejoin_xgboost::hook::{self, Served};
use rejoin_xgboost::{Bridge, WireVariant};
use std::sync::{Arc, Mutex};

/// One rank of a hooked job, in its thread.
pub struct Member<'a> {
    pub collective: &'a Collective,
    pub rank: u32,
    pub world: u32,
    pub bridge: Arc<Bridge>,
    pub operations: Arc<Operations>,
    pub agent: Arc<Agent>,
    pub member: MemberId,
}

impl Member<'_> {
    /// What the hook has served of this rank so far.
    pub fn served(&self) -> Served {
        self.bridge.hooked(self.member).expect("the rank is hooked")
    }
}

/// How the engine's bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Memory,
    Links,
}

/// Runs `work` in every rank of a hooked job, each in a thread of its own; results in rank order.
/// So many ranks are in one process, as far as the engine can know.
pub fn hooked<T: Send>(
    collective: &Collective,
    variant: WireVariant,
    world: u32,
    together: u32,
    transport: Transport,
    work: impl Fn(&Member<'_>) -> T + Sync,
) -> Vec<T> {
    hook::install().expect("the library can be hooked");
    let ranks = Ranks::new(world, together as usize);
    let homes: Vec<usize> = (0..world).map(|rank| (rank / together) as usize).collect();
    let bridges = Mutex::new(World::new(&homes));
    let processes: Vec<(Arc<CollectivePlane>, Arc<Agent>)> = (0..world.div_ceil(together))
        .map(|process| {
            let plane = Arc::new(CollectivePlane::new(Budget::new(LogLimits::default(), "the test's")));
            let config = ranks.config(&(process * together).to_string());
            (plane.clone(), Arc::new(Agent::start(config, plane).expect("an agent")))
        })
        .collect();
    let one = |rank: u32| {
        let (plane, agent) = &processes[(rank / together) as usize];
        let segment = if transport == Transport::Memory { plane.offer(Rank(rank)) } else { None };
        let offer = Offer { segment: segment.as_ref().map(|segment| segment.segment_address()), hook: Hook::Possible };
        let joined = agent.join_offering(Rank(rank), attempt(0), "terms".into(), offer, LIMIT).expect("a start");
        let Joined::Start { start, .. } = joined else { panic!("the job isn't over") };
        assert!(start.hooked, "all ranks can");
        let member = MemberId { rank: Rank(rank), incarnation: start.incarnation };
        let operations = Operations::open(plane, member, segment, "xgboost", LIMIT).expect("collectives");
        let operations = Arc::new(operations);
        let bridge = bridges.lock().expect("no panics").agent(rank).bridge.clone();
        let arguments = bridge.communicator(member, variant).expect("a way in");
        bridge.hook(member, world, operations.clone());
        collective.xgboost.init(&arguments).expect("init");
        let agent = agent.clone();
        let own = Member { collective, rank, world, bridge, operations, agent, member };
        let result = work(&own);
        // It fails where the rank's collectives have failed.
        let _ = collective.xgboost.finalize();
        own.bridge.retire(member);
        result
    };
    let one = &one;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..world).map(|rank| scope.spawn(move || one(rank))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank's thread panicked")).collect()
    })
}

/// Runs `work` in every rank of a stock job.
pub fn stock<T: Send>(collective: &Collective, world: u32, work: impl Fn(u32) -> T + Sync) -> Vec<T> {
    let xgboost = &collective.xgboost;
    let (_, arguments) = xgboost.tracker(world);
    let inner = arguments.trim().trim_start_matches('{').trim_end_matches('}').to_owned();
    let (inner, work) = (&inner, &work);
    let mut results: Vec<(i32, T)> = std::thread::scope(|scope| {
        let one = move |task: u32| {
            xgboost.init_json(&format!("{{{inner},\"dmlc_task_id\":\"{task:05}\"}}")).expect("init");
            let rank = xgboost.rank();
            let result = work(rank as u32);
            xgboost.finalize().expect("shutdown");
            (rank, result)
        };
        let threads: Vec<_> = (0..world).map(|task| scope.spawn(move || one(task))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a stock rank's thread panicked")).collect()
    });
    results.sort_by_key(|(rank, _)| *rank);
    results.into_iter().map(|(_, result)| result).collect()
}
