//! Where newcomers start: a pure function of what is known when every agent has answered a view.
//!
//! The rules, in the order in which they are tried:
//!
//! 1. Two agents hold different bytes under one name: `Mismatch`.
//! 2. Somebody lives: the newest version that is not above the lowest living position, of which every living rank still
//!    has the logs, that some agent holds, and for which each newcomer's own state exists. No such version: everybody
//!    goes back.
//! 3. Nobody lives (all wait to be started): the newest version on the lineage's chain that some agent holds and for
//!    which everybody's own state exists, in a new lineage. Nothing held: from the beginning, if no version was ever
//!    entered; otherwise the job is over.

use crate::error::{Code, Error};
use crate::ids::{AgentId, Checkpoint, Lineage, Position, Rank, Version};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Which versions belong to the line that is trained: each lineage with the version at which it left the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Entry n: the version at which lineage n+1 left lineage n.
    branches: Vec<Version>,
}

impl Chain {
    /// A chain whose lineages left each other at these versions.
    pub fn of(branches: Vec<Version>) -> Chain {
        Chain { branches }
    }

    /// At which versions.
    pub fn branches(&self) -> &[Version] {
        &self.branches
    }

    /// The lineage that is trained now.
    pub fn lineage(&self) -> Lineage {
        Lineage(self.branches.len() as u32)
    }

    /// The next lineage starts at this version of the present one.
    pub fn branch(&mut self, at: Version) {
        self.branches.push(at);
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
    /// Nobody is there.
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
    /// For each rank: of which versions its own state is kept; `None` for ranks that have none of their own.
    pub locals: &'a [Option<Vec<Position>>],
}

/// What to do, with the reason in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing yet.
    Wait {
        /** Why. */
        reason: String,
    },
    /// Start all that are fresh here.
    Start {
        /** The version. */
        version: Version,
        /** Its checkpoint; `None` is the beginning. */
        checkpoint: Option<Checkpoint>,
        /** Who holds it. */
        holders: Vec<AgentId>,
        /** Whether a new lineage begins with it. */
        branch: bool,
        /** Why. */
        reason: String,
    },
    /// The living can't be joined: they have to be ended, so that everybody starts again.
    RollBack {
        /** Why. */
        reason: String,
    },
    /// The job is over.
    Fail(Error),
}

/// Decides.
pub fn decide(situation: &Situation<'_>) -> Decision {
    if let Some(error) = contradiction(situation.held) {
        return Decision::Fail(error);
    }
    let fresh = ranks(situation, |member| *member == Member::Fresh);
    if fresh.is_empty() {
        return Decision::Wait { reason: "nobody waits to be started".into() };
    }
    let living = situation.members.iter().filter_map(|member| match member {
        Member::Living { version, oldest } => Some((*version, *oldest)),
        _ => None,
    });
    match (living.clone().map(|(version, _)| version).min(), living.map(|(_, oldest)| oldest).max()) {
        (Some(lowest), Some(floor)) => join_the_living(situation, &fresh, lowest, floor),
        _ => start_everybody(situation, &fresh),
    }
}

fn join_the_living(situation: &Situation<'_>, fresh: &[Rank], lowest: Version, floor: Version) -> Decision {
    // Whoever dropped the logs below `floor` had proof that everybody has entered it, even if a standing is older.
    let newest = lowest.max(floor);
    let mut version = newest;
    let mut failure = String::new();
    loop {
        match source(situation, fresh, version) {
            Ok((checkpoint, holders)) => {
                let mut reason = format!("the lowest living position is version {newest}");
                if version < newest {
                    reason = format!("{reason}, but {failure}, so they start at version {version}");
                }
                return Decision::Start { version, checkpoint, holders, branch: false, reason };
            }
            Err(why) if failure.is_empty() => failure = why,
            Err(_) => {}
        }
        if version <= floor {
            break;
        }
        version = Version(version.0 - 1);
    }
    if newest_held(situation, fresh).is_none() && situation.highest > Version(0) {
        return Decision::Fail(nothing_left(situation, fresh, &failure));
    }
    Decision::RollBack {
        reason: format!("{failure}; the living ranks have the logs of version {floor} and later only"),
    }
}

fn start_everybody(situation: &Situation<'_>, fresh: &[Rank]) -> Decision {
    let vacant = ranks(situation, |member| *member == Member::Vacant);
    if !vacant.is_empty() {
        return Decision::Wait { reason: format!("all ranks start together; not there yet: {}", list(&vacant)) };
    }
    if let Some((version, checkpoint, holders)) = newest_held(situation, fresh) {
        let reason = match checkpoint {
            Some(checkpoint) => format!(
                "no rank was left in training; version {version} (round {}) is the newest that is held whole, by {} agents",
                checkpoint.round,
                holders.len()
            ),
            None => "no rank was left in training, and the own state of some rank as of version 1 is lost".into(),
        };
        return Decision::Start { version, checkpoint, holders, branch: true, reason };
    }
    if situation.highest > Version(0) {
        let held = situation.held.iter().map(|(_, held)| held);
        let newest =
            held.filter(|held| held.owner.is_none() && situation.chain.has(held)).map(|held| held.version).max();
        let why = newest.and_then(|version| source(situation, fresh, version).err());
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

/// The checkpoint that begins `version`, with its holders; or why nobody can start there.
fn source(
    situation: &Situation<'_>,
    fresh: &[Rank],
    version: Version,
) -> Result<(Option<Checkpoint>, Vec<AgentId>), String> {
    if version == Version(0) {
        return Ok((None, Vec::new()));
    }
    let origin = situation.chain.origin(version);
    let of = |owner: Option<Rank>| {
        let name = (origin.lineage, origin.version, owner);
        situation.held.iter().filter(move |(_, held)| held.name() == name)
    };
    let holders = || of(None);
    // One whose bytes are made already tells its digest.
    let Some((_, checkpoint)) = holders().find(|(_, held)| held.is_made()).or_else(|| holders().next()) else {
        return Err(format!("no agent that is connected holds version {version}"));
    };
    let lacking = fresh.iter().filter(|rank| match situation.locals.get(rank.0 as usize) {
        _ if checkpoint.has_own => of(Some(**rank)).next().is_none(),
        Some(Some(kept)) => !kept.contains(&origin),
        _ => false,
    });
    let lacking: Vec<Rank> = lacking.copied().collect();
    if !lacking.is_empty() {
        let (ranks, what) = (list(&lacking), if checkpoint.has_own { "model" } else { "state" });
        let mut text = format!("the own {what} of rank {ranks} as of version {version} is lost");
        if checkpoint.has_own {
            text.push_str(": whoever held it or a copy of it is gone");
        }
        return Err(text);
    }
    Ok((Some(*checkpoint), holders().map(|(agent, _)| *agent).collect()))
}

/// The newest version at which all of them could be started. The beginning counts when no more than version 1 is lost by
/// it.
fn newest_held(situation: &Situation<'_>, fresh: &[Rank]) -> Option<(Version, Option<Checkpoint>, Vec<AgentId>)> {
    // In a restart of everybody those who live now start again too.
    let everybody: Vec<Rank> = (0..situation.members.len() as u32).map(Rank).collect();
    let whom = if fresh.len() < everybody.len() { &everybody[..] } else { fresh };
    let mut versions: Vec<Version> = situation
        .held
        .iter()
        .filter(|(_, held)| held.owner.is_none() && situation.chain.has(held))
        .map(|(_, held)| held.version)
        .collect();
    versions.sort_unstable();
    versions.dedup();
    if !versions.is_empty() && situation.highest <= Version(1) {
        versions.insert(0, Version(0));
    }
    versions.into_iter().rev().find_map(|version| {
        source(situation, whom, version).ok().map(|(checkpoint, holders)| (version, checkpoint, holders))
    })
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
            "rank {} can't be started again: {why}. {} agents hold checkpoints, none of a version that all could start \
             from: too many processes died at once, and no durable checkpoint was written that could be read. More deaths \
             at one moment are survived with durable checkpoints, {copies}fewer ranks in one process, or more processes than ranks",
            list(fresh),
            agents.len()
        ),
    )
}

fn ranks(situation: &Situation<'_>, which: impl Fn(&Member) -> bool) -> Vec<Rank> {
    let all = situation.members.iter().enumerate();
    all.filter(|(_, member)| which(member)).map(|(rank, _)| Rank(rank as u32)).collect()
}

/// Ranks as a text: `0, 2 and 5`.
pub fn list(ranks: &[Rank]) -> String {
    let mut text = String::new();
    for (index, rank) in ranks.iter().enumerate() {
        if index > 0 {
            text.push_str(if index + 1 == ranks.len() { " and " } else { ", " });
        }
        text.push_str(&format!("{rank}"));
    }
    text
}
