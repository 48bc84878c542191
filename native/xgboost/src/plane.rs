//! What carries the bytes of an agent whose ranks train with XGBoost: the bridge, and beside it, in
//! a job that has agreed on the hook, the engine's collectives.
//!
//! Both have the same phases. A rank enters a version in its collectives first: where nothing of a
//! version went over the channels, it is they that show that all ranks have entered it. What a rank
//! that comes back is given again, each of the two brings by itself.

use crate::bridge::Bridge;
use crate::bridge_config::BridgeConfig;
use crate::hook;
use crate::topology::WireVariant;
use bytes::Bytes;
use parking_lot::Mutex;
use rejoin_agent::collective::{CollectivePlane, Operations};
use rejoin_agent::logs::Logged;
use rejoin_agent::{Agent, AgentReports, DataPlane, Joined, PlaneUsage, Taken};
use rejoin_protocol::channel::PhaseMark;
use rejoin_protocol::collective::{self, CollectiveId, Entry, Extent, Fetch, ObservedInput, Signature};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::event::Event;
use rejoin_protocol::fault::FaultRule;
use rejoin_protocol::hook::Hook;
use rejoin_protocol::host::{Offer, Start};
use rejoin_protocol::ids::{Attempt, Checkpoint, Generation, Lane, Lineage, MemberId, Phase, Rank, Version};
use rejoin_protocol::report::Report;
use rejoin_transport::Link;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// What errors call the trainer, and the boot cache its calls.
const TRAINER: &str = "XGBoost";

/// Whether XGBoost's collectives are taken over, where all ranks of a job can do so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookUse {
    /// Wherever the loaded libraries allow it.
    IfPossible,
    /// Never.
    Never,
}

/// The data plane of an agent whose ranks train with XGBoost, and the calls of their trainers' threads.
///
/// A trainer's thread calls [`join`](Self::join), then [`communicator`](Self::communicator) before
/// XGBoost's `Communicator.init`, [`take`](Self::take) at each boundary of versions,
/// [`ends`](Self::ends) after the last one, and [`retire`](Self::retire) when its task ends in
/// whatever way.
pub struct Plane {
    bridge: Arc<Bridge>,
    collectives: Arc<CollectivePlane>,
    hook: HookUse,
    /// How long a hooked call may wait for its peers.
    at_most: Duration,
    hooked: Mutex<BTreeMap<MemberId, HookedIncarnation>>,
    rules: Mutex<Rules>,
    own: Weak<Plane>,
}

/// One incarnation whose collectives are taken over.
#[derive(Clone)]
struct HookedIncarnation {
    operations: Arc<Operations>,
    world: u32,
}

/// Both sides watch for the same moments, and each rule fires once.
#[derive(Default)]
struct Rules {
    all: Vec<FaultRule>,
    fired: BTreeSet<u32>,
}

impl Plane {
    /// Starts the bridge and its thread.
    ///
    /// # Errors
    /// As [`Bridge::start`].
    pub fn start(config: BridgeConfig, hook: HookUse) -> Result<Arc<Plane>, Error> {
        let at_most = config.worker_timeout;
        let bridge = Bridge::start(config)?;
        let relieved = Arc::downgrade(&bridge);
        let on_pressure = move || {
            if let Some(bridge) = relieved.upgrade() {
                bridge.make_room();
            }
        };
        let collectives = Arc::new(CollectivePlane::sharing(bridge.log_budget(), Some(Box::new(on_pressure))));
        Ok(Arc::new_cyclic(|own| Plane {
            bridge,
            collectives,
            hook,
            at_most,
            hooked: Mutex::default(),
            rules: Mutex::default(),
            own: own.clone(),
        }))
    }

    /// Whether this process's XGBoost can have its collectives taken over. XGBoost has to be loaded.
    fn can(&self) -> Hook {
        match self.hook {
            HookUse::Never => Hook::Impossible("the settings forbid it".into()),
            HookUse::IfPossible => hook::install().map_or_else(Hook::Impossible, |()| Hook::Possible),
        }
    }

    /// [`Agent::join`] of the agent that has this plane; it also says whether XGBoost's collectives
    /// can be taken over in this process, for which XGBoost has to be loaded, and makes ready for
    /// it where the job agrees ([`Start::hooked`]).
    ///
    /// # Errors
    /// As [`Agent::join_offering`].
    pub fn join(
        &self,
        agent: &Agent,
        rank: Rank,
        attempt: Attempt,
        terms: String,
        at_most: Duration,
    ) -> Result<Joined, Error> {
        let hook = self.can();
        let memory = if hook == Hook::Possible { self.collectives.offer(rank) } else { None };
        let segment = memory.as_ref().map(|memory| memory.segment_address());
        let joined = agent.join_offering(rank, attempt, terms, Offer { segment, hook }, at_most)?;
        if let Joined::Start { start: Start { incarnation, hooked: true, .. }, world, .. } = &joined {
            let member = MemberId { rank, incarnation: *incarnation };
            match Operations::open(&self.collectives, member, memory, TRAINER, self.at_most) {
                Ok(operations) => {
                    let hooked = HookedIncarnation { operations: Arc::new(operations), world: *world };
                    self.hooked.lock().insert(member, hooked);
                }
                Err(error) => {
                    let error = agent.failure(member).unwrap_or(error);
                    agent.leave(member, Some(error.clone()));
                    return Err(error);
                }
            }
        }
        Ok(joined)
    }

    /// Opens XGBoost's way in for a worker, whose thread this is, and enters boot
    /// ([`Bridge::communicator`]). From now on, if the job has agreed on it, this thread's
    /// collectives are the engine's.
    ///
    /// # Errors
    /// As [`Bridge::communicator`]; `Incompatible` when an XGBoost was loaded meanwhile that can't be hooked.
    pub fn communicator(&self, member: MemberId, variant: WireVariant) -> Result<Vec<(String, String)>, Error> {
        let hooked = self.hooked(member);
        if hooked.is_some() {
            // Another XGBoost may have been loaded since the join, and be the one that is used.
            hook::install().map_err(|reason| {
                let text = format!(
                    "rank {}: the job has agreed on the hook, which isn't possible any more: {reason}",
                    member.rank
                );
                Error::new(Code::Incompatible, text)
            })?;
        }
        let arguments = self.bridge.communicator(member, variant)?;
        if let Some(HookedIncarnation { operations, world }) = hooked {
            self.bridge.hook(member, world, operations);
        }
        Ok(arguments)
    }

    /// Takes what the worker has at a boundary, and enters the version that it begins, in the
    /// engine's collectives as well as in the bridge ([`Agent::take`]).
    ///
    /// # Errors
    /// Why the member's calls end; as [`Agent::take`], [`Operations::enter`] and [`Bridge::enter`].
    /// After an error the incarnation is of no more use.
    pub fn take(&self, agent: &Agent, member: MemberId, taken: Taken) -> Result<(), Error> {
        if let Some(failure) = agent.failure(member) {
            return Err(failure);
        }
        let Checkpoint { version, round, digest, .. } = taken.checkpoint;
        agent.take(member, taken, |entered| {
            if let Some(HookedIncarnation { operations, .. }) = self.hooked(member) {
                operations.enter(version, round)?;
            }
            let mark = PhaseMark { round, checkpoint: digest };
            self.bridge.enter(member, Phase::Version(version), mark)?;
            entered();
            Ok(())
        })
    }

    /// The worker begins this round, within a version: what a rank that was started again computes
    /// twice is counted by rounds ([`Event::CaughtUp`]).
    ///
    /// # Errors
    /// As [`Bridge::begin_round`].
    pub fn begin_round(&self, member: MemberId, round: u32) -> Result<(), Error> {
        match self.hooked(member) {
            Some(HookedIncarnation { operations, .. }) => {
                operations.begin_round(round);
                Ok(())
            }
            None => self.bridge.begin_round(member, round).map(drop),
        }
    }

    /// Bytes that the worker's phase has added to the logs for this rank alone: what it has sent
    /// ([`Bridge::sent`]), and short results of hooked calls. An incarnation that repeats the phase
    /// counts the same.
    ///
    /// # Errors
    /// As [`Bridge::sent`].
    pub fn logged(&self, member: MemberId) -> Result<u64, Error> {
        let results = self.hooked(member).map_or(0, |hooked| hooked.operations.log_bytes().each);
        Ok(self.bridge.sent(member)? + results)
    }

    /// Bytes of the results of hooked calls in this phase of which the process's logs keep one copy
    /// for all its ranks. An incarnation that repeats the phase counts the same.
    pub fn logged_together(&self, member: MemberId) -> u64 {
        self.hooked(member).map_or(0, |hooked| hooked.operations.log_bytes().together)
    }

    /// The worker has made its last collective: those that wait for another one of it are notified.
    /// What it has stays for others.
    ///
    /// # Errors
    /// As [`Operations::end`].
    pub fn ends(&self, member: MemberId) -> Result<(), Error> {
        self.hooked(member).map_or(Ok(()), |hooked| hooked.operations.end())
    }

    /// [`Bridge::retire`].
    pub fn retire(&self, member: MemberId) {
        self.bridge.retire(member);
    }

    /// [`Bridge::failure`].
    pub fn failure(&self, member: MemberId) -> Option<Error> {
        self.bridge.failure(member)
    }

    fn hooked(&self, member: MemberId) -> Option<HookedIncarnation> {
        self.hooked.lock().get(&member).cloned()
    }

    /// Rules that haven't fired yet go to both sides.
    fn update_rules(&self) {
        let rules = {
            let rules = self.rules.lock();
            let left = rules.all.iter().filter(|rule| !rules.fired.contains(&rule.id));
            left.cloned().collect::<Vec<_>>()
        };
        self.bridge.faults(rules.clone());
        self.collectives.faults(rules);
    }
}

impl DataPlane for Plane {
    fn attach(&self, agent: Arc<dyn AgentReports>) {
        let plane = self.own.clone();
        self.bridge.attach(Arc::new(Reports { agent: agent.clone(), plane: plane.clone(), is_bridge: true }));
        self.collectives.attach(Arc::new(Reports { agent, plane, is_bridge: false }));
    }

    fn lanes(&self, hooked: bool) -> &'static [Lane] {
        if hooked {
            &[Lane::Channels, Lane::Collectives]
        } else {
            &[Lane::Channels]
        }
    }

    fn join_accepted(&self, member: MemberId) {
        self.collectives.join_accepted(member);
        self.bridge.join_accepted(member);
        self.hooked.lock().retain(|older, _| older.rank != member.rank || *older >= member);
    }

    fn start(&self, member: MemberId, world: u32, start: &Start) {
        if start.hooked {
            self.collectives.start(member, world, start);
        }
        self.bridge.start(member, world, start);
    }

    fn peers(&self, member: MemberId, peers: Vec<MemberId>) {
        self.collectives.peers(member, peers.clone());
        self.bridge.peers(member, peers);
    }

    fn link(&self, member: MemberId, peer: MemberId, lane: Lane, link: Link) {
        match lane {
            Lane::Channels => self.bridge.link(member, peer, lane, link),
            Lane::Collectives => self.collectives.link(member, peer, lane, link),
        }
    }

    fn free(&self, member: MemberId, error: Error) {
        // The bridge first: a hooked call that ends with this asks it for a way back to XGBoost.
        self.bridge.free(member, error.clone());
        self.collectives.free(member, error);
        self.hooked.lock().remove(&member);
    }

    fn hold(&self, member: MemberId) -> Version {
        self.bridge.hold(member).max(self.collectives.hold(member))
    }

    fn pause(&self, member: MemberId, generation: Generation) -> Vec<Extent> {
        self.collectives.pause(member, generation)
    }

    fn observed(&self, member: MemberId) -> Vec<ObservedInput> {
        self.collectives.observed(member)
    }

    fn plan(&self, member: MemberId, plan: collective::RankPlan) {
        self.collectives.plan(member, plan);
    }

    fn results(&self, lineage: Lineage, phase: Phase, from: u32, to: u32) -> Vec<Entry<Logged>> {
        self.collectives.results(lineage, phase, from, to)
    }

    fn fetched(&self, member: MemberId, fetch: &Fetch, seqno: u32, entry: Entry<Bytes>) {
        self.collectives.fetched(member, fetch, seqno, entry);
    }

    fn signature(&self, rank: Rank, place: &CollectiveId) -> Option<Signature> {
        self.collectives.signature(rank, place)
    }

    fn peer_call(&self, member: MemberId, peer: Rank, place: &CollectiveId, call: Option<Signature>) {
        self.collectives.peer_call(member, peer, place, call);
    }

    fn release(&self, member: MemberId) {
        self.collectives.release(member);
        self.bridge.release(member);
    }

    fn faults(&self, rules: Vec<FaultRule>) {
        self.rules.lock().all = rules;
        self.update_rules();
    }

    fn usage(&self) -> PlaneUsage {
        // One budget counts both.
        self.bridge.usage()
    }

    fn is_full(&self) -> bool {
        self.collectives.is_full()
    }

    fn close(&self) {
        self.collectives.close();
        self.bridge.close();
        self.hooked.lock().clear();
    }
}

/// What one side reports to the agent.
struct Reports {
    agent: Arc<dyn AgentReports>,
    plane: Weak<Plane>,
    is_bridge: bool,
}

impl AgentReports for Reports {
    fn prefix(&self, rank: Rank) -> String {
        self.agent.prefix(rank)
    }

    fn situation(&self) -> String {
        self.agent.situation()
    }

    fn report(&self, member: MemberId, report: Report) {
        self.agent.report(member, report);
    }

    fn fetch(&self, member: MemberId, fetch: Fetch) {
        self.agent.fetch(member, fetch);
    }

    fn ask(&self, member: MemberId, peer: Rank, place: CollectiveId) {
        self.agent.ask(member, peer, place);
    }

    fn report_event(&self, event: Event) {
        if let (Event::CaughtUp { rank, incarnation, .. }, true) = (&event, self.is_bridge) {
            // Of a hooked rank the channels carry too little to know it by; its collectives show it.
            if self
                .plane
                .upgrade()
                .is_some_and(|plane| plane.hooked(MemberId { rank: *rank, incarnation: *incarnation }).is_some())
            {
                return;
            }
        }
        self.agent.report_event(event);
    }

    fn inject(&self, rule: FaultRule) {
        if let Some(plane) = self.plane.upgrade() {
            if !plane.rules.lock().fired.insert(rule.id) {
                return;
            }
            plane.update_rules();
        }
        self.agent.inject(rule);
    }
}
