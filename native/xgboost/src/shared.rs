//! What the bridge's thread and its callers both see.

use crate::bridged_rank::Goal;
use crate::hook::ServedRank;
use crate::phase_log::Budget;
use crossbeam::channel::{Receiver, Sender};
use parking_lot::Mutex;
use rejoin_agent::AgentReports;
use rejoin_protocol::error::Error;
use rejoin_protocol::fault::FaultRule;
use rejoin_protocol::ids::{Lineage, MemberId, Rank, Version};
use rejoin_transport::Link;
use std::collections::HashMap;
use std::sync::Arc;

use crate::topology::WireVariant;

/// What is asked of the bridge's thread.
pub(crate) enum Command {
    JoinAccepted(MemberId),
    Start {
        member: MemberId,
        world: u32,
        lineage: Lineage,
        version: Version,
        /// Its collectives are the engine's.
        hooked: bool,
    },
    Peers {
        member: MemberId,
        peers: Vec<MemberId>,
    },
    Link {
        member: MemberId,
        peer: MemberId,
        link: Box<Link>,
    },
    Free {
        member: MemberId,
        error: Error,
    },
    /// As `Free`, by the worker's own thread, which waits for nothing of XGBoost's. Answered when
    /// its connections are reset.
    GiveUp {
        member: MemberId,
        error: Error,
        reply: Sender<()>,
    },
    /// Logs that were held may go.
    Unhold(MemberId),
    Faults(Vec<FaultRule>),
    /// Others whose logs share the budget need memory.
    MakeRoom,
    Communicator {
        member: MemberId,
        variant: WireVariant,
        reply: Sender<Result<Vec<(String, String)>, Error>>,
    },
    Wait {
        member: MemberId,
        goal: Goal,
        reply: Sender<Result<u64, Error>>,
    },
    /// The worker is done, or its task has ended.
    Retire(MemberId),
    Close,
}

/// Whether an incarnation's channels drop nothing, and what the oldest version is that they have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hold {
    pub(crate) holding: bool,
    pub(crate) oldest: Version,
}

/// See the module's documentation.
pub(crate) struct Shared {
    pub(crate) budget: Arc<Budget>,
    /// Set by `attach`, taken away at the end: the agent holds the bridge in turn.
    pub(crate) reports: Mutex<Option<Arc<dyn AgentReports>>>,
    /// Why an incarnation's calls end. A superseded one's, too: its task may have yet to hear of it.
    pub(crate) failures: Mutex<HashMap<MemberId, Error>>,
    /// Locked while a phase is entered, so that a hold comes either before or after it.
    pub(crate) holds: Mutex<HashMap<MemberId, Hold>>,
    /// Incarnations whose worker's collectives are served by the hook.
    pub(crate) served_ranks: Mutex<HashMap<MemberId, Arc<ServedRank>>>,
    /// Ranks that the thread serves, so that they can be notified if it dies.
    pub(crate) members: Mutex<Vec<MemberId>>,
}

impl Shared {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        let (reports, failures, holds, served_ranks, members) = Default::default();
        Shared { budget, reports, failures, holds, served_ranks, members }
    }

    /// The agent, as long as there is one.
    pub(crate) fn agent(&self) -> Option<Arc<dyn AgentReports>> {
        self.reports.lock().clone()
    }

    /// What a log line about a rank begins with: job, rank, generation, version.
    pub(crate) fn prefix(&self, rank: Rank) -> String {
        self.agent().map_or_else(|| format!("[rank {rank}]"), |agent| agent.prefix(rank))
    }

    /// Notes why an incarnation's calls end; the first reason stays.
    pub(crate) fn fail(&self, member: MemberId, error: &Error) {
        self.failures.lock().entry(member).or_insert_with(|| error.clone());
    }
}

/// The commands' way in, as the thread sees it.
pub(crate) type Commands = Receiver<Command>;
