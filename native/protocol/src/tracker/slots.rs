//! What the tracker keeps of each rank.

use crate::collective::{Extent, ObservedInput, SegmentAddress};
use crate::error::{Code, Error};
use crate::hook::Hook;
use crate::ids::{AgentId, Attempt, Incarnation, Millis, Position, Rank, Task, Version};
use crate::view::{SlotState, ViewSlot};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// Most versions of which a rank's own state is kept: many more than ranks can be apart that depend on each other.
const LOCALS_LIMIT: usize = 64;

/// How far the incarnation in a slot is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RankSlotState {
    /// No member is there.
    Vacant,
    /// Seated, waits for its start.
    Fresh,
    /// Was given a start. `oldest` is as of the last status report.
    Planned { at: Version, round: u32, oldest: Version },
    /// Has reported its end.
    Finished { at: Version, oldest: Version, rounds: u32, digest: u128 },
}

/// One death, for the limit and for the error's text.
#[derive(Clone, Debug)]
pub(super) struct Death {
    pub(super) at: Millis,
    pub(super) incarnation: Incarnation,
    /// The framework's task that had the rank, and its try: what the framework names it by.
    pub(super) task: (Task, Attempt),
    pub(super) executor: String,
    pub(super) reason: String,
    /// Whether it counts for certain.
    pub(super) is_counted: bool,
}

/// What a rank's recoveries have cost, for people who ask.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecoveryCost {
    /// Since when it hasn't worked with the others; `None` while it does.
    away_since: Option<Millis>,
    /// How long it was away before that.
    millis: u64,
    /// Rounds that it has computed twice.
    pub(super) rounds_again: u64,
}

impl RecoveryCost {
    pub(super) fn gone(&mut self, now: Millis) {
        self.away_since.get_or_insert(now);
    }

    /// It works with the others again, having computed so many rounds twice.
    pub(super) fn is_back(&mut self, rounds: u32, now: Millis) {
        self.millis = self.lost_millis(now);
        self.away_since = None;
        self.rounds_again += u64::from(rounds);
    }

    pub(super) fn lost_millis(&self, now: Millis) -> u64 {
        self.millis + self.away_since.map_or(0, |since| now.since(since))
    }
}

/// One rank's slot.
#[derive(Clone, Debug)]
pub(super) struct RankSlot {
    /// The incarnation that has the slot, or had it last.
    pub(super) incarnation: Option<Incarnation>,
    /// The framework's try that has the slot, or had it last.
    pub(super) attempt: Attempt,
    /// Whether `attempt` is known: after a takeover a view names a rank that was never here.
    pub(super) was_here: bool,
    /// The newest incarnation of the tracker's former lives that is known to be gone.
    pub(super) former: Option<Incarnation>,
    /// Meaningless in a vacant slot.
    pub(super) agent: AgentId,
    pub(super) state: RankSlotState,
    /// The framework's try may join a second time: it was sent back, not lost.
    pub(super) may_repeat: bool,
    /// The incarnation that is here has all that it starts from, and has said so.
    pub(super) has_entered: bool,
    /// The incarnation that was here trains on, and hears with its next call what it is in the world as it is now.
    pub(super) is_told: bool,
    /// Nothing is lost without it, or none will come: the world has grown by this rank and no incarnation has had it
    /// yet, or the framework has said that it starts no other task in place of the one that had it.
    pub(super) is_unawaited: bool,
    /// The task that had it, if that is gone, and its try.
    pub(super) left_by: Option<(Task, Attempt)>,
    /// Its task has ended well, by the framework's word.
    pub(super) ended_well: bool,
    /// Since when it waits for others, or for its plan.
    pub(super) waits_since: Millis,
    pub(super) vacant_since: Option<Millis>,
    /// Why it is vacant.
    pub(super) last_seen: String,
    pub(super) deaths: Vec<Death>,
    pub(super) cost: RecoveryCost,
    /// Which results of collectives it holds, as of the last status report.
    pub(super) results: Vec<Extent>,
    /// What it has heard of others that are gone, as of the last status report.
    pub(super) observed: Vec<ObservedInput>,
    /// The memory that it shares, as of the last status report.
    pub(super) segment: Option<SegmentAddress>,
    /// Whether its training library's collectives can be taken over, as it said last.
    pub(super) hook: Hook,
    /// What only this rank has, by version; `None` if it never had anything.
    pub(super) locals: Option<BTreeMap<Position, Vec<u8>>>,
}

impl RankSlot {
    pub(super) fn new(now: Millis) -> Self {
        RankSlot {
            incarnation: None,
            attempt: Attempt::default(),
            was_here: false,
            former: None,
            agent: AgentId(0),
            state: RankSlotState::Vacant,
            may_repeat: false,
            has_entered: false,
            is_told: false,
            is_unawaited: false,
            left_by: None,
            ended_well: false,
            waits_since: now,
            vacant_since: None,
            last_seen: "it never joined".into(),
            deaths: Vec::new(),
            cost: RecoveryCost::default(),
            results: Vec::new(),
            observed: Vec::new(),
            segment: None,
            hook: Hook::Unasked,
            locals: None,
        }
    }

    /// What a view says of this slot.
    pub(super) fn entry(&self) -> ViewSlot {
        let state = match self.state {
            RankSlotState::Vacant => SlotState::Vacant,
            _ => SlotState::Alive { agent: self.agent },
        };
        ViewSlot { incarnation: self.incarnation, state, planned: self.position().is_some() }
    }

    /// Whether this incarnation has the slot.
    pub(super) fn is(&self, incarnation: Incarnation) -> bool {
        self.state != RankSlotState::Vacant && self.incarnation == Some(incarnation)
    }

    pub(super) fn position(&self) -> Option<Version> {
        match self.state {
            RankSlotState::Planned { at, .. } | RankSlotState::Finished { at, .. } => Some(at),
            RankSlotState::Vacant | RankSlotState::Fresh => None,
        }
    }

    /// Keeps the newest few: those at which the rank may be started again.
    pub(super) fn keep_local(&mut self, at: Position, bytes: Vec<u8>, lowest: Version) {
        let locals = self.locals.get_or_insert_with(BTreeMap::new);
        locals.insert(at, bytes);
        // All may go back to what is held, which is at least the version below the lowest position.
        let floor = lowest.0.saturating_sub(1);
        locals.retain(|kept, _| kept.version.0 >= floor);
        while locals.len() > LOCALS_LIMIT {
            locals.pop_first();
        }
    }

    /// The rank's own state as of this version.
    pub(super) fn local(&self, origin: Position) -> Option<&Vec<u8>> {
        self.locals.as_ref()?.get(&origin)
    }
}

/// Turns a newcomer away.
pub(super) fn outdated(rank: Rank, attempt: Attempt, seen: Attempt) -> Error {
    Error::new(
        Code::Fenced,
        alloc::format!(
            "rank {rank} was asked for by attempt {attempt}, but attempt {seen} came before it; a try of the framework \
             takes part once, and older ones don't come back"
        ),
    )
}
