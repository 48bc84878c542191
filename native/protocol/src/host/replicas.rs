//! Where the own models of this process's ranks have to be held besides here: which copies exist,
//! which are under way, which are due. Pure records; their driver sends the bytes.

use crate::ids::{AgentId, Checkpoint, CheckpointName, Millis, Rank, Version};
use crate::view::{AgentAddress, View};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// How many other processes hold each rank's own model, if there are as many and nothing else is chosen.
pub const OWN_COPIES: u32 = 2;
/// Before a copy that failed is tried again, should its target still be there.
const PAUSE_MILLIS: u64 = 50;

/// One own model.
#[derive(Clone, Debug)]
struct Owed {
    checkpoint: Checkpoint,
    /// The rank that has taken it, or starts with it: its owner in a former world may have been another number.
    at: Rank,
    /// The agents that have said that they hold it.
    on: BTreeSet<AgentId>,
    under_way: BTreeSet<AgentId>,
    again_at: Option<Millis>,
    /// Its owner was notified that all copies are there.
    is_told: bool,
}

/// The copies that this process owes.
#[derive(Clone, Debug)]
pub(super) struct Replicas {
    /// How many of each model.
    copies: u32,
    owed: BTreeMap<CheckpointName, Owed>,
}

/// The processes that have to hold a rank's own model: the processes of the next ranks, as many as there are
/// copies. Each other host has one before any has a second one, and this host comes last: hosts die
/// as a whole.
fn targets(view: &View, own: AgentId, host: &str, rank: Rank, copies: u32) -> Vec<AgentAddress> {
    let world = view.world();
    let (mut seen, mut of_host) = (BTreeSet::from([own]), BTreeMap::<&str, u32>::new());
    let mut others: Vec<((bool, u32), &AgentAddress)> = Vec::new();
    // The last one is the rank itself, which is another process's where the world has changed since.
    for step in 1..=world {
        let Some((_, at)) = view.alive(Rank((rank.0 + step) % world)) else { continue };
        if seen.insert(at.agent) {
            let before = of_host.entry(&at.host).or_default();
            others.push(((at.host == host, *before), at));
            *before += 1;
        }
    }
    others.sort_by_key(|(place, _)| *place);
    others.into_iter().take(copies as usize).map(|(_, at)| at.clone()).collect()
}

impl Replicas {
    /// Of a process that owes nothing yet, and later so many copies of each model.
    pub(super) fn of(copies: u32) -> Self {
        Replicas { copies, owed: BTreeMap::new() }
    }

    /// This rank of this process has this own model; its bytes are here.
    pub(super) fn owe(&mut self, checkpoint: Checkpoint, at: Rank) {
        let owed = self.owed.entry(checkpoint.name()).or_insert(Owed {
            checkpoint,
            at,
            on: BTreeSet::new(),
            under_way: BTreeSet::new(),
            again_at: None,
            is_told: false,
        });
        // What an older incarnation here was told, this one waits for anew.
        (owed.at, owed.is_told) = (at, false);
    }

    /// The copies that have to be made now; they are under way from here on.
    pub(super) fn due(
        &mut self,
        view: &View,
        own: AgentId,
        host: &str,
        now: Millis,
    ) -> Vec<(Checkpoint, AgentAddress)> {
        let mut due = Vec::new();
        for owed in self.owed.values_mut() {
            if owed.again_at.is_some_and(|at| at > now) {
                continue;
            }
            owed.again_at = None;
            for target in targets(view, own, host, owed.at, self.copies) {
                if !owed.on.contains(&target.agent) && owed.under_way.insert(target.agent) {
                    due.push((owed.checkpoint, target));
                }
            }
        }
        due
    }

    /// An agent holds a copy.
    pub(super) fn made(&mut self, checkpoint: &Checkpoint, agent: AgentId) {
        if let Some(owed) = self.owed.get_mut(&checkpoint.name()) {
            owed.under_way.remove(&agent);
            owed.on.insert(agent);
        }
    }

    /// A copy could not be made.
    pub(super) fn failed(&mut self, checkpoint: &Checkpoint, agent: AgentId, now: Millis) {
        if let Some(owed) = self.owed.get_mut(&checkpoint.name()) {
            owed.under_way.remove(&agent);
            owed.again_at = Some(now.plus(PAUSE_MILLIS));
        }
    }

    /// Models whose copies are all there, each once.
    pub(super) fn safe(&mut self, view: &View, own: AgentId, host: &str) -> Vec<Checkpoint> {
        let mut safe = Vec::new();
        for owed in self.owed.values_mut().filter(|owed| !owed.is_told) {
            if targets(view, own, host, owed.at, self.copies).iter().all(|target| owed.on.contains(&target.agent)) {
                owed.is_told = true;
                safe.push(owed.checkpoint);
            }
        }
        safe
    }

    /// When a copy is tried again.
    pub(super) fn again_at(&self) -> Option<Millis> {
        self.owed.values().filter_map(|owed| owed.again_at).min()
    }

    /// No rank will start below this version any more.
    pub(super) fn forget_below(&mut self, version: Version) {
        self.owed.retain(|name, _| name.1 >= version);
    }

    /// Whether this is a name that is no longer held, on a line that was left.
    pub(super) fn forget(&mut self, gone: impl Fn(&Checkpoint) -> bool) {
        self.owed.retain(|_, owed| !gone(&owed.checkpoint));
    }
}
