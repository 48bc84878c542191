//! The trainers' side of an agent whose ranks train with XGBoost: the calls of their threads to the
//! bridge, and, in a job that has agreed on the hook, to the engine's collectives.
//!
//! Both have the same phases. A rank enters a version in its collectives first: where nothing of a
//! version went over the channels, it is they that show that all ranks have entered it. What a rank
//! that comes back is given again, each of the two brings by itself.

use crate::bridge::Bridge;
use crate::bridge_config::BridgeConfig;
use crate::hook;
use crate::topology::WireVariant;
use parking_lot::Mutex;
use rejoin_agent::{Agent, Joined, Planes, Taken};
use rejoin_communicator::{CollectivePlane, Operations};
use rejoin_protocol::channel::PhaseMark;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::hook::Hook;
use rejoin_protocol::host::{Offer, Start};
use rejoin_protocol::ids::{Attempt, Checkpoint, MemberId, Phase, Rank, Version};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What errors call the trainer, and the boot cache its calls.
const TRAINER: &str = "XGBoost";

/// Whether XGBoost's collectives are taken over, where all ranks of a job can do so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookUse {
    /// Wherever the loaded libraries allow it.
    IfPossible,
    /// All go through the bridge.
    Never,
}

/// The bridge and the engine's collectives, which an agent is started with ([`Plane::planes`]), and the
/// calls of trainers' threads to both.
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
}

/// One incarnation whose collectives are taken over.
#[derive(Clone)]
struct HookedIncarnation {
    operations: Arc<Operations>,
    world: u32,
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
        Ok(Arc::new(Plane { bridge, collectives, hook, at_most, hooked: Mutex::default() }))
    }

    /// What the agent of these ranks is started with.
    pub fn planes(&self) -> Planes {
        Planes { collectives: Some(self.collectives.clone()), channels: Some(self.bridge.clone()) }
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
                    let mut all = self.hooked.lock();
                    // A newer incarnation of the rank may have come meanwhile; then this one is over.
                    if !all.keys().any(|other| other.rank == rank && *other > member) {
                        all.retain(|older, _| older.rank != rank);
                        all.insert(member, hooked);
                    }
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
                self.bridge.failure(member).map_or(Ok(()), Err)
            }
            None => self.bridge.begin_round(member, round).map(drop),
        }
    }

    /// Whether all ranks are to take a checkpoint between two rounds, before its turn: what rank 0's
    /// process was asked for, in a job whose collectives are hooked; always `false` in others, whose
    /// ranks have nothing but what XGBoost sends, which has to repeat itself. Every rank calls it at
    /// the same places.
    ///
    /// # Errors
    /// As [`Operations::choose`].
    pub fn checkpoints_early(&self, agent: &Agent, member: MemberId, version: Version) -> Result<bool, Error> {
        match self.hooked(member) {
            Some(HookedIncarnation { operations, .. }) => operations.choose(agent.wants_checkpoint(version)),
            None => Ok(false),
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
        self.hooked.lock().remove(&member);
    }

    /// [`Bridge::failure`].
    pub fn failure(&self, member: MemberId) -> Option<Error> {
        self.bridge.failure(member)
    }

    fn hooked(&self, member: MemberId) -> Option<HookedIncarnation> {
        self.hooked.lock().get(&member).cloned()
    }
}
