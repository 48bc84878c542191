//! Where newcomers start: a pure function of what is known when every agent has answered a view.
//!
//! The rules, in the order in which they are tried:
//!
//! 1. Two agents hold different bytes under one name: `Mismatch`.
//! 2. Some rank lives: the newest version that is not above the lowest living position, of which every living rank
//!    still has the logs, that some agent holds, and for which each newcomer's own state exists. No such version: all
//!    go back.
//! 3. No rank lives (all wait to be started): the newest version on the lineage's chain that some agent holds and for
//!    which the own state of all exists, in a new lineage. Nothing held: from the beginning, if no version was ever
//!    entered; otherwise the job is over.

use crate::error::{Code, Error};
use crate::former::{FormerWorlds, Heir, World};
use crate::ids::{AgentId, Checkpoint, Lineage, Position, Rank, Version};
use crate::message::LINEAGES_LIMIT;
use crate::words::list;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Which versions belong to the line that is trained: each lineage with the version at which it left the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Entry n: the version at which lineage n+1 left lineage n.
    branches: Vec<Version>,
    /// So many lineages may have followed that nobody has told of.
    untold: usize,
}

/// A life of the tracker can't learn of lineages that the former one planned and of which no agent is left. An agent
/// that was there when a lineage was planned has followed it by the time of the next one, so there are some only while
/// whole sets of agents are lost one after the other; and one of them may only be frozen, and come with checkpoints
/// that nothing of this life may be confused with.
const UNTOLD: usize = 16;

impl Chain {
    /// A chain whose lineages left each other at these versions.
    pub fn of(branches: Vec<Version>) -> Chain {
        Chain { branches, untold: 0 }
    }

    /// The same as the agents of the tracker's former life tell it, which may have planned more lineages.
    pub fn told(branches: Vec<Version>) -> Chain {
        Chain { branches, untold: UNTOLD }
    }

    /// The versions at which its lineages left each other, the oldest first.
    pub fn branches(&self) -> &[Version] {
        &self.branches
    }

    /// The lineage that is trained now.
    pub fn lineage(&self) -> Lineage {
        Lineage(self.branches.len() as u32)
    }

    /// Whether no agent would take a view of one more lineage.
    pub fn is_full(&self) -> bool {
        self.branches.len() + self.untold >= LINEAGES_LIMIT
    }

    /// The next lineage starts at this version of the present one.
    pub fn branch(&mut self, at: Version) {
        let untold = core::mem::take(&mut self.untold);
        self.branches.extend(core::iter::repeat_n(at, untold + 1));
    }

    /// The lineage in which this version of the present line was taken.
    pub fn origin(&self, version: Version) -> Position {
        let mut lineage = self.branches.len();
        while lineage > 0 && version <= self.branches[lineage - 1] {
            lineage -= 1;
        }
        Position { lineage: Lineage(lineage as u32), version }
    }

    /// Whether a checkpoint belongs to the present line.
    pub fn has(&self, checkpoint: &Checkpoint) -> bool {
        self.origin(checkpoint.version).lineage == checkpoint.lineage
    }
}

/// One rank, when every agent has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    /// No member is there.
    Vacant,
    /// Waits to be started.
    Fresh,
    /// Trains, or has finished.
    Living {
        /// The version it is in.
        version: Version,
        /// The oldest version of which it has the logs.
        oldest: Version,
    },
}

/// All that a decision depends on.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    /// In rank order.
    pub members: &'a [Member],
    /// The line that is trained.
    pub chain: &'a Chain,
    /// Whether any plan was made before.
    pub planned_before: bool,
    /// The highest version that any rank of this line is known to have entered.
    pub highest: Version,
    /// Which agent holds what.
    pub held: &'a [(AgentId, Checkpoint)],
    /// The worlds that an elastic job had before: a rank may start with own models of those.
    pub former: &'a FormerWorlds,
    /// Whether the own models of ranks that are gone may be lost.
    pub own_may_be_lost: bool,
    /// For each rank: of which versions its own state is kept; `None` for ranks that have none of their own.
    pub locals: &'a [Option<Vec<Position>>],
}

/// What to do, with the reason in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing yet.
    Wait {
        /** The cause in words. */
        reason: String,
    },
    /// Start all that are fresh here.
    Start {
        /** The version that they begin with. */
        version: Version,
        /** Its checkpoint; `None` is the beginning. */
        checkpoint: Option<Checkpoint>,
        /** The agents that hold it. */
        holders: Vec<AgentId>,
        /** Whether a new lineage begins with it. */
        branch: bool,
        /** The cause in words. */
        reason: String,
    },
    /// The living can't be joined: they have to be ended, so that all start again.
    RollBack {
        /** The cause in words. */
        reason: String,
    },
    /// The job is over.
    Fail(Error),
}

/// A checkpoint, or the beginning, with its holders.
type Source = (Option<Checkpoint>, Vec<AgentId>);

/// Decides. The work is bounded by what is held and by how many ranks there are, whatever numbers they report.
pub fn decide(situation: &Situation<'_>) -> Decision {
    if let Some(error) = contradiction(situation.held) {
        return Decision::Fail(error);
    }
    let fresh = ranks(situation, |member| *member == Member::Fresh);
    if fresh.is_empty() {
        return Decision::Wait { reason: "no rank waits to be started".into() };
    }
    let living = situation.members.iter().filter_map(|member| match member {
        Member::Living { version, oldest } => Some((*version, *oldest)),
        _ => None,
    });
    let mut decision = match (living.clone().map(|(version, _)| version).min(), living.map(|(_, oldest)| oldest).max())
    {
        (Some(lowest), Some(floor)) => join_the_living(situation, &fresh, lowest, floor),
        _ => start_everybody(situation, &fresh),
    };
    if let (Decision::Start { checkpoint: Some(checkpoint), reason, .. }, true) =
        (&mut decision, situation.own_may_be_lost)
    {
        let (_, lost) = Held::of(situation).lacking(situation, &fresh, checkpoint);
        if !lost.is_empty() {
            let lost = of_version(situation, &lost, checkpoint);
            reason.push_str(&format!("; the own model of {lost} is lost, as it may be"));
        }
    }
    decision
}

/// These ranks at a version, by the world that made it.
fn of_version(situation: &Situation<'_>, ranks: &[Rank], checkpoint: &Checkpoint) -> String {
    let mut text = format!("rank {}", list(ranks));
    if let World::Former(former) = situation.former.of(checkpoint.lineage) {
        text.push_str(&format!(" in the world of {} ranks that made it", former.ranks.len()));
    }
    text.push_str(&format!(" as of version {}", checkpoint.version));
    text
}

fn join_the_living(situation: &Situation<'_>, fresh: &[Rank], lowest: Version, floor: Version) -> Decision {
    // A rank that dropped the logs below `floor` had proof that all have entered it, even if a status report is older.
    let newest = lowest.max(floor);
    let held = Held::of(situation);
    // No rank can be started at a version that none holds, but at the beginning.
    let older = held.versions.iter().rev().copied().chain([Version(0)]).filter(|version| *version < newest);
    let start =
        |version, checkpoint, holders, reason| Decision::Start { version, checkpoint, holders, branch: false, reason };
    let reason = format!("the lowest living position is version {newest}");
    if let Some((checkpoint, holders)) = held.source(situation, fresh, newest) {
        return start(newest, checkpoint, holders, reason);
    }
    let failure = held.why_not(situation, fresh, newest);
    for version in older.filter(|version| *version >= floor) {
        if let Some((checkpoint, holders)) = held.source(situation, fresh, version) {
            let reason = format!("{reason}, but {failure}, so they start at version {version}");
            return start(version, checkpoint, holders, reason);
        }
    }
    let latest = ranks(situation, |member| matches!(member, Member::Living { oldest, .. } if *oldest == floor));
    let reason = format!("{failure}; rank {} has the logs of version {floor} and later only", list(&latest));
    if held.newest(situation, fresh).is_none() && situation.highest > Version(0) {
        return Decision::Fail(nothing_left(situation, fresh, &reason));
    }
    Decision::RollBack { reason }
}

fn start_everybody(situation: &Situation<'_>, fresh: &[Rank]) -> Decision {
    let vacant = ranks(situation, |member| *member == Member::Vacant);
    if !vacant.is_empty() {
        return Decision::Wait { reason: format!("all ranks start together; not there yet: {}", list(&vacant)) };
    }
    let held = Held::of(situation);
    if let Some((version, checkpoint, holders)) = held.newest(situation, fresh) {
        let reason = match checkpoint {
            Some(checkpoint) => format!(
                "no rank was left in training; version {version} (round {}) is the newest that is held whole, by {} \
                 agents",
                checkpoint.round,
                holders.len()
            ),
            None => "no rank was left in training, and the own state of some rank as of version 1 is lost".into(),
        };
        return Decision::Start { version, checkpoint, holders, branch: true, reason };
    }
    if situation.highest > Version(0) {
        let why = held.versions.last().map(|version| held.why_not(situation, fresh, *version));
        let why = why.unwrap_or_else(|| "no agent holds a usable checkpoint".into());
        return Decision::Fail(nothing_left(situation, fresh, &why));
    }
    let reason = if situation.planned_before {
        "all ranks were lost before the first checkpoint".into()
    } else {
        format!("all {} ranks are there", fresh.len())
    };
    Decision::Start {
        version: Version(0),
        checkpoint: None,
        holders: Vec::new(),
        branch: situation.planned_before,
        reason,
    }
}

/// What is held of the line that is trained, by version.
struct Held<'a> {
    by_version: BTreeMap<Version, HeldVersion<'a>>,
    /// Of which an agent holds the model that is the same at all ranks, the oldest first.
    versions: Vec<Version>,
}

#[derive(Default)]
struct HeldVersion<'a> {
    common: Vec<(AgentId, &'a Checkpoint)>,
    /// Whose own models.
    owners: BTreeSet<Rank>,
}

impl<'a> Held<'a> {
    fn of(situation: &Situation<'a>) -> Held<'a> {
        let mut by_version: BTreeMap<Version, HeldVersion<'a>> = BTreeMap::new();
        let mut lineages: BTreeMap<Version, Lineage> = BTreeMap::new();
        for (agent, held) in situation.held {
            let lineage = lineages.entry(held.version).or_insert_with(|| situation.chain.origin(held.version).lineage);
            if *lineage == held.lineage {
                let there = by_version.entry(held.version).or_default();
                match held.owner {
                    Some(owner) => drop(there.owners.insert(owner)),
                    None => there.common.push((*agent, held)),
                }
            }
        }
        let common = by_version.iter().filter(|(_, there)| !there.common.is_empty());
        let versions = common.map(|(version, _)| *version).collect();
        Held { by_version, versions }
    }

    fn at(&self, version: Version) -> &[(AgentId, &'a Checkpoint)] {
        self.by_version.get(&version).map(|there| &there.common[..]).unwrap_or_default()
    }

    /// One whose bytes are made already has its digest.
    fn checkpoint(&self, version: Version) -> Option<&'a Checkpoint> {
        let common = self.at(version);
        common.iter().find(|(_, held)| held.is_made()).or_else(|| common.first()).map(|(_, held)| *held)
    }

    /// Whose own state, of all that these would start with at this version, isn't there: what can't be
    /// done without, and what may be lost. In the numbers of the world that made the version.
    fn lacking(&self, situation: &Situation<'_>, fresh: &[Rank], checkpoint: &Checkpoint) -> (Vec<Rank>, Vec<Rank>) {
        let (lineage, version) = (checkpoint.lineage, checkpoint.version);
        let is_there = |owner: &Rank| self.by_version.get(&version).is_some_and(|there| there.owners.contains(owner));
        let is_kept = |rank: &Rank| match situation.locals.get(rank.0 as usize) {
            Some(Some(kept)) => kept.contains(&Position { lineage, version }),
            _ => true,
        };
        match (checkpoint.has_own, situation.former.of(lineage)) {
            (false, _) => (fresh.iter().copied().filter(|rank| !is_kept(rank)).collect(), Vec::new()),
            (true, World::Forgotten) => (fresh.to_vec(), Vec::new()),
            (true, World::Present) => (fresh.iter().copied().filter(|rank| !is_there(rank)).collect(), Vec::new()),
            (true, World::Former(former)) => {
                let heirs = former.heirs(situation.members.len() as u32).into_iter();
                let lacking = heirs.filter(|heir| fresh.binary_search(&heir.rank).is_ok() && !is_there(&heir.of));
                let (lost, needed): (Vec<Heir>, Vec<Heir>) =
                    lacking.partition(|heir| heir.is_gone && situation.own_may_be_lost);
                let of = |heirs: Vec<Heir>| heirs.into_iter().map(|heir| heir.of).collect();
                (of(needed), of(lost))
            }
        }
    }

    /// The checkpoint that begins `version`, with its holders, if all of these can start there.
    fn source(&self, situation: &Situation<'_>, fresh: &[Rank], version: Version) -> Option<Source> {
        if version == Version(0) {
            return Some((None, Vec::new()));
        }
        let checkpoint = self.checkpoint(version)?;
        let is_whole = self.lacking(situation, fresh, checkpoint).0.is_empty();
        is_whole.then(|| (Some(*checkpoint), self.at(version).iter().map(|(agent, _)| *agent).collect()))
    }

    /// Why they can't start there.
    fn why_not(&self, situation: &Situation<'_>, fresh: &[Rank], version: Version) -> String {
        let Some(checkpoint) = self.checkpoint(version) else {
            return format!("no agent that is connected holds version {version}");
        };
        let (lacking, _) = self.lacking(situation, fresh, checkpoint);
        let what = if checkpoint.has_own { "model" } else { "state" };
        let mut text = format!("the own {what} of {} is lost", of_version(situation, &lacking, checkpoint));
        if checkpoint.has_own {
            text.push_str(": its holder and those of its copies are gone");
        }
        if let World::Former(former) = situation.former.of(checkpoint.lineage) {
            let is_gone = |rank: &Rank| former.ranks.get(rank.0 as usize).is_some_and(Option::is_none);
            if checkpoint.has_own && lacking.iter().any(is_gone) {
                text.push_str(", and it may not be lost (own_may_be_lost; `rejoin run --own-may-be-lost`)");
            }
        }
        text
    }

    /// The newest version at which all of them could be started. The beginning counts when no more
    /// than version 1 is lost by it.
    fn newest(&self, situation: &Situation<'_>, fresh: &[Rank]) -> Option<(Version, Option<Checkpoint>, Vec<AgentId>)> {
        // In a restart of all those that live now start again too.
        let all: Vec<Rank> = (0..situation.members.len() as u32).map(Rank).collect();
        let whom = if fresh.len() < all.len() { &all[..] } else { fresh };
        let is_little_lost = !self.versions.is_empty() && situation.highest <= Version(1);
        let beginning = is_little_lost.then_some(Version(0));
        self.versions.iter().rev().copied().chain(beginning).find_map(|version| {
            self.source(situation, whom, version).map(|(checkpoint, holders)| (version, checkpoint, holders))
        })
    }
}

fn contradiction(held: &[(AgentId, Checkpoint)]) -> Option<Error> {
    let mut sorted: Vec<&(AgentId, Checkpoint)> = held.iter().collect();
    sorted.retain(|(_, held)| held.is_made());
    sorted.sort_by_key(|(agent, held)| (held.name(), *agent));
    sorted.windows(2).find_map(|pair| {
        let ((first, one), (second, other)) = (pair[0], pair[1]);
        (one.name() == other.name() && !one.agrees(other)).then(|| {
            Error::new(
                Code::Mismatch,
                format!(
                    "version {} of lineage {} was expected to be the same everywhere, but agent {:016x} holds {} \
                     (round {}, digest {:032x}) and agent {:016x} {} (round {}, digest {:032x}); training is not \
                     deterministic: check the order of rows, seeds and the program's own functions",
                    one.version,
                    one.lineage,
                    first.0,
                    one.size(),
                    one.round,
                    one.digest,
                    second.0,
                    other.size(),
                    other.round,
                    other.digest
                ),
            )
        })
    })
}

fn nothing_left(situation: &Situation<'_>, fresh: &[Rank], why: &str) -> Error {
    let mut agents: Vec<AgentId> = situation.held.iter().map(|(agent, _)| *agent).collect();
    agents.sort_unstable();
    agents.dedup();
    let copies = match situation.held.iter().any(|(_, held)| held.has_own || held.owner.is_some()) {
        true => "more copies of each rank's own model (own_copies; `rejoin run --own-copies`), ",
        false => "",
    };
    Error::new(
        Code::Unrecoverable,
        format!(
            "rank {} can't be started again: {why}. {} agents hold checkpoints, none of a version that all could \
             start from: too many processes died at once, and no durable checkpoint was written that could be read. \
             More deaths at one moment are survived with durable checkpoints, {copies}fewer ranks in one process, or \
             more processes than ranks",
            list(fresh),
            agents.len()
        ),
    )
}

fn ranks(situation: &Situation<'_>, which: impl Fn(&Member) -> bool) -> Vec<Rank> {
    let all = situation.members.iter().enumerate();
    all.filter(|(_, member)| which(member)).map(|(rank, _)| Rank(rank as u32)).collect()
}
