//! What a tracker that comes back hears of its former life, and whether the job had begun in it.

use super::RankSlot;
use crate::hook::Hook;
use crate::ids::{AgentId, Attempt, Incarnation, Millis, Rank, Task};
use crate::message::{RankState, RankStatus};
use crate::view::View;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// How far a life of the tracker knows what the one before knew.
#[derive(Clone, Debug, Default)]
pub(super) struct FormerLife {
    /// Of a later life, until it knows that again.
    pub(super) takeover: Option<Takeover>,
    /// Ranks that had asked for a slot during a takeover and were lost before its end: a slot at an agent
    /// that may be dead would keep all waiting.
    pub(super) late_joins: Vec<Join>,
    /// A later life that found no agent that knew anything.
    pub(super) knows_nothing: bool,
    /// The newest try of each task that has come to this life.
    pub(super) came: BTreeMap<Task, Attempt>,
}

impl FormerLife {
    /// A task's try is there.
    pub(super) fn comes(&mut self, task: Task, attempt: Attempt) {
        let newest = self.came.entry(task).or_insert(attempt);
        *newest = attempt.max(*newest);
    }

    pub(super) fn awaited_until(until: Millis) -> Self {
        FormerLife { takeover: Some(Takeover::new(until)), ..FormerLife::default() }
    }
}

/// What a new life of the tracker has heard so far.
#[derive(Clone, Debug)]
pub(super) struct Takeover {
    /// No agent is waited for any longer.
    pub(super) until: Millis,
    /// The newest view that any agent has.
    pub(super) newest: Option<View>,
    /// The ranks that asked for a slot meanwhile.
    pub(super) joins: Vec<Join>,
    /// The ranks that waited for a start when its agent came here. That stays true of an incarnation that has died
    /// since.
    pub(super) waited: Vec<Waiting>,
}

/// An incarnation that was never started.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) rank: Rank,
    pub(super) incarnation: Incarnation,
    pub(super) attempt: Attempt,
    /// No incarnation of its rank was started before it, as its number says, or its agent's view.
    pub(super) is_first: bool,
}

/// An agent asks for a slot of this rank, for this try, which came with these terms, and can hook or not.
pub(super) type Join = (AgentId, Rank, Attempt, String, Hook);

impl Takeover {
    pub(super) fn new(until: Millis) -> Self {
        Takeover { until, newest: None, joins: Vec::new(), waited: Vec::new() }
    }

    /// When the time of waiting ends, unless it has.
    pub(super) fn until(&self, now: Millis) -> Option<Millis> {
        (self.until > now).then_some(self.until)
    }

    /// Notes which ranks were never started.
    pub(super) fn hear(&mut self, received: &RankStatus, view: Option<&View>) {
        let RankStatus { rank, incarnation, attempt, .. } = *received;
        self.waited.retain(|known| (known.rank, known.incarnation) != (rank, incarnation));
        if received.state == RankState::Fresh {
            let is_first = incarnation == Incarnation::nth(0) || begins_with(view, rank, incarnation);
            self.waited.push(Waiting { rank, incarnation, attempt, is_first });
        }
    }

    /// Whether some rank was never started, in none of its incarnations. Then no collective that
    /// depends on all ranks was finished anywhere: it would need what that rank gives to it. So
    /// there is nothing to lose but what others did without it.
    ///
    /// An incarnation that waits for its start has never been started. It is the only one of its
    /// rank that might have been if it is the rank's first one, or if nothing had begun when a view
    /// was made that has this incarnation; and if none has come after it.
    pub(super) fn has_not_begun(&self, slots: &[RankSlot]) -> bool {
        let view = self.newest.as_ref();
        self.waited.iter().any(|Waiting { rank, incarnation, attempt, is_first }| {
            let index = rank.0 as usize;
            let is_newest_here = slots.get(index).is_some_and(|slot| slot.incarnation == Some(*incarnation));
            let is_newest = is_newest_here && view.is_none_or(|view| view.has(*rank, *incarnation));
            let is_first = *is_first || begins_with(view, *rank, *incarnation);
            is_newest && is_first && !self.was_replaced(*rank, *attempt)
        })
    }

    /// Whether a try of this rank's task asks for a slot before which there was another one after
    /// `attempt`: that one may have had the slot, if `attempt` was frozen or out of reach for long.
    fn was_replaced(&self, rank: Rank, attempt: Attempt) -> bool {
        let next = Attempt { task: attempt.task.saturating_add(1), ..attempt };
        self.joins.iter().any(|(_, joining, its, ..)| *joining == rank && *its > next)
    }
}

/// Whether nothing had begun when the view was made, which has this incarnation.
fn begins_with(view: Option<&View>, rank: Rank, incarnation: Incarnation) -> bool {
    view.is_some_and(|view| !view.has_begun && view.has(rank, incarnation))
}
