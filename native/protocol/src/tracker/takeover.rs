//! A tracker that comes back takes over the job that its former life had: from what the agents know.
//!
//! Every agent reports with its registration the newest view it has, what its ranks do, and what it
//! holds. The newest of all views says which ranks there are; a rank that it shows as alive is waited
//! for, at most as long as a silent agent would be. Until then no rank is given a slot and nothing
//! is planned. Training goes on all the while. As long as no view is known, not every slot is taken
//! and none is asked for, an agent with a view may still wake from being frozen: the wait for
//! missing members bounds that.
//!
//! A job in which some rank has never been started hasn't begun, whichever other has followed the
//! first plan and is gone: see [`Takeover::has_not_begun`].
//!
//! What only the former life knew is gone: how often ranks have died, and what ranks sent it of their own
//! ([`crate::message::AgentMessage::Local`]) unless their agents still live, and send it again.

use super::agent_record::AgentRecord;
use super::former_life::{Join, Takeover};
use super::{RankSlot, RankSlotState, Tracker, TrackerOutput};
use crate::error::{Code, Error};
use crate::event::Event;
use crate::hook::Hook;
use crate::ids::{AgentId, Attempt, MemberId, Rank, Task, Version};
use crate::message::{RankState, RankStatus};
use crate::plan::Chain;
use crate::view::{SlotState, View, ViewSlot};
use crate::words::place;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A view after which none is made before all ranks are there: none is started, and some are missing.
fn gathers(view: &View) -> bool {
    let is_missing = |slot: &ViewSlot| slot.state == SlotState::Vacant;
    view.slots.iter().any(is_missing) && !view.slots.iter().any(|slot| slot.planned)
}

impl Tracker {
    /// An agent of the former life. What it reports is believed: digests and incarnations are compared later, as
    /// always.
    pub(super) fn adopt(&mut self, agent: AgentId, view: Option<View>, ranks: &[RankStatus]) {
        let Some(takeover) = self.former_life.takeover.as_mut() else { return };
        ranks.iter().for_each(|received| takeover.hear(received, view.as_ref()));
        // Of two in one generation, one that has seen the plan knows more.
        let age = |view: &View| (view.generation, view.slots.iter().filter(|slot| slot.planned).count());
        let is_newer = |view: &View| takeover.newest.as_ref().is_none_or(|known| age(known) < age(view));
        if let Some(view) = view.filter(is_newer) {
            if takeover.newest.is_none() {
                // The first that knows of the others; they may have been frozen as it was.
                takeover.until = takeover.until.max(self.clock.now.plus(self.config.timing.lost_after_millis));
            }
            self.chain = Chain::told(view.branches.clone());
            self.worlds.former.clone_from(&view.former);
            if self.terms.fingerprint.is_none() {
                self.terms.fingerprint.clone_from(&view.fingerprint);
            }
            // What was agreed was agreed for the life of the job: no two views say different things.
            self.terms.hooked = self.terms.hooked.or(view.hooked);
            takeover.newest = Some(view);
            self.fit_the_world();
        }
        for received in ranks {
            if !self.gives_ranks() {
                self.former_life.comes(Task(received.rank.0), received.attempt);
            }
            if self.is_of_a_former_world(received.id(), received.attempt) {
                // No view may come for long that it would be told by.
                self.fence_again(agent, received.id());
                continue;
            }
            let now = self.clock.now;
            let Some(slot) = self.slot_mut(received.rank) else { continue };
            if slot.incarnation.is_some_and(|known| known >= received.incarnation) {
                continue;
            }
            slot.incarnation = Some(received.incarnation);
            (slot.attempt, slot.was_here, slot.agent, slot.waits_since) = (received.attempt, true, agent, now);
            slot.results.clone_from(&received.results);
            slot.observed.clone_from(&received.observed);
            slot.segment = received.segment;
            slot.hook.clone_from(&received.hook);
            slot.state = match received.state {
                RankState::Fresh => RankSlotState::Fresh,
                // One that has reported its end does so again.
                RankState::At(at) | RankState::Finished { at, .. } => {
                    RankSlotState::Planned { at: at.version, round: 0, oldest: received.oldest }
                }
            };
            let version = slot.position().unwrap_or_default();
            self.reach.entered(version);
        }
    }

    /// What ranks assume that a former life has given slots to. It had compared that, unless there were two: then they
    /// don't go on together.
    pub(super) fn adopt_fingerprint(&mut self, agent: AgentId, received: Vec<String>) {
        let place = place(&self.executor_of(agent));
        for fingerprint in received {
            let agreed = self.terms.fingerprint.get_or_insert_with(|| fingerprint.clone());
            if *agreed != fingerprint {
                let error = Error::new(
                    Code::Incompatible,
                    format!(
                        "the ranks of {place} come with other terms than those that came before; expected \
                         `{agreed}`, seen `{fingerprint}`; use the same libraries and settings in all processes"
                    ),
                );
                return self.fail(error);
            }
        }
    }

    /// A slot is asked for while the job is being taken over: later. True when it was put off.
    pub(super) fn joins_later(
        &mut self,
        agent: AgentId,
        rank: Rank,
        attempt: Attempt,
        fingerprint: &str,
        hook: &Hook,
    ) -> bool {
        let Some(takeover) = self.former_life.takeover.as_mut() else { return false };
        takeover.joins.retain(|(other, its, older, ..)| (*other, *its, *older) != (agent, rank, attempt));
        takeover.joins.push((agent, rank, attempt, fingerprint.into(), hook.clone()));
        true
    }

    /// Whether this life still waits for those that knew what the former one knew. It does so at
    /// most as long as an agent may be silent, and gives no slot meanwhile.
    pub fn waits_for_former(&self) -> bool {
        self.former_life.takeover.is_some()
    }

    /// Whether the job is still being taken over. Ends that when all are there, or it is time.
    pub(super) fn is_taking_over(&mut self) -> bool {
        let Some(takeover) = &self.former_life.takeover else { return false };
        let is_taken = |(rank, slot): (usize, &RankSlot)| {
            slot.state != RankSlotState::Vacant
                || self.knew_the_end(slot)
                // Its next attempt is there: the one before has ended.
                || takeover.joins.iter().any(|(_, joining, ..)| joining.0 as usize == rank)
        };
        // One that was lost under the former life may be back, and the one after it not yet.
        let newest = |rank: usize| takeover.newest.as_ref().and_then(|view| view.slots.get(rank)?.incarnation);
        let is_there =
            |(rank, slot): (usize, &RankSlot)| slot.state != RankSlotState::Vacant && slot.incarnation >= newest(rank);
        let is_whole = self.slots.iter().enumerate().all(is_there);
        let all_there = takeover.newest.as_ref().is_some_and(|view| {
            let is_expected = |rank: usize| view.slots.get(rank).is_some_and(|slot| slot.state != SlotState::Vacant);
            let mut expected = self.slots.iter().enumerate().filter(|(rank, _)| is_expected(*rank));
            is_whole || !gathers(view) && self.has_all_agents_of(view) && expected.all(is_taken)
        });
        // An agent that knows the job may only be frozen: nothing has to be decided before a rank asks
        // for a slot, or all have one. There is no view of a first rendezvous that isn't complete.
        let asks = !takeover.joins.is_empty() || self.some_stand_later();
        let is_awaited = takeover.newest.is_some() || asks || is_whole;
        if !all_there && (self.clock.now < takeover.until || !is_awaited) {
            return true;
        }
        if let Some(takeover) = self.former_life.takeover.take() {
            self.take_over(takeover);
        }
        false
    }

    /// An agent that a view left out may have a newer one; here are all that were not. Of one that gathers ranks
    /// those may have come since of which it says nothing.
    fn has_all_agents_of(&self, view: &View) -> bool {
        view.generation.epoch.checked_add(1) == Some(self.config.epoch)
            && view.agents.iter().all(|agent| self.agents.contains_key(&agent.agent))
    }

    /// Whether all who were there when a view was made live, and hold no checkpoint: so none of them has entered a
    /// version since.
    fn holds_nothing(&self, view: &View) -> bool {
        let lives = |agent: AgentId| self.agents.get(&agent).is_some_and(AgentRecord::counts);
        view.agents.iter().all(|at| lives(at.agent)) && self.agents.values().all(|agent| agent.held.is_empty())
    }

    fn take_over(&mut self, takeover: Takeover) {
        // What was entered alone counts as begun.
        let some_rank_never_started = self.reach.highest == Version(0) && takeover.has_not_begun(&self.slots);
        let Takeover { newest, mut joins, .. } = takeover;
        let now = self.clock.now;
        match newest {
            Some(view) => {
                // A plan that reached none of those it was for has begun nothing.
                let mut planned = view.slots.iter().enumerate().filter(|(_, slot)| slot.planned);
                let was_followed = planned.any(|(rank, received)| {
                    let slot = self.slot(Rank(rank as u32));
                    !slot.is_some_and(|slot| {
                        slot.incarnation == received.incarnation && slot.state == RankSlotState::Fresh
                    })
                });
                let was_planned = view.has_begun || was_followed || self.reach.highest > Version(0);
                // A view says which ranks were there, and not how far they were; and there may have been newer ones.
                let is_last = self.has_all_agents_of(&view);
                let has_not_begun = some_rank_never_started || !was_planned && is_last;
                let is_at_the_beginning = view.highest == Some(Version(0)) && is_last && self.holds_nothing(&view);
                let loses_nothing = has_not_begun || is_at_the_beginning;
                self.planned.has_been = was_planned && !has_not_begun;
                self.fence_those_before(&view);
                for (rank, received) in view.slots.iter().enumerate() {
                    let rank = Rank(rank as u32);
                    let Some(slot) = self.slot_mut(rank).filter(|slot| slot.state == RankSlotState::Vacant) else {
                        continue;
                    };
                    slot.incarnation = slot.incarnation.max(received.incarnation);
                    slot.former = slot.incarnation;
                    let ended_well = slot.ended_well;
                    let Some(incarnation) = slot.incarnation else { continue };
                    let reason = String::from("it was not there any more when the tracker came back");
                    slot.last_seen.clone_from(&reason);
                    (slot.vacant_since, slot.waits_since) = (Some(now), now);
                    if received.state != SlotState::Vacant && !ended_well {
                        let executor = String::new();
                        let (silent_millis, deaths) = (0, 0);
                        self.event(Event::RankLost { rank, incarnation, executor, reason, silent_millis, deaths });
                    }
                }
                self.former_life.knows_nothing =
                    !loses_nothing && !self.slots.iter().any(|slot| slot.position().is_some());
                self.reach.taken_over(was_planned);
            }
            None => self.former_life.knows_nothing = !some_rank_never_started,
        }
        self.changed = Some(format!("the tracker came back (life {})", self.config.epoch));
        // The newest try of each rank gets the slot, and the others are refused.
        joins.sort_by_key(|(_, _, attempt, ..)| core::cmp::Reverse(*attempt));
        let is_there = |(agent, ..): &Join| self.agents.get(agent).is_some_and(AgentRecord::counts);
        let (here, late): (Vec<Join>, Vec<Join>) = joins.into_iter().partition(is_there);
        self.former_life.late_joins = late;
        // What was given by the former life is joined as below.
        self.stand_after_takeover();
        for (agent, rank, attempt, fingerprint, hook) in here {
            self.join(agent, rank, attempt, fingerprint, hook);
        }
    }

    /// Ranks that are here in an incarnation before the one that the newest view has: they had been
    /// lost under the former life, which is final, though the later one isn't here. (Those of a
    /// world that was left are never taken in.)
    fn fence_those_before(&mut self, view: &View) {
        let newest = |rank: Rank| view.slots.get(rank.0 as usize).and_then(|slot| slot.incarnation);
        let before = self.living().filter(|(rank, slot)| newest(*rank) > slot.incarnation);
        let before: Vec<(Rank, AgentId)> = before.map(|(rank, slot)| (rank, slot.agent)).collect();
        for (rank, agent) in before {
            let reason = String::from("it was lost under a former life of the tracker");
            let Some(incarnation) = self.vacate(rank, &reason, false) else { continue };
            self.forget_giving(rank);
            let executor = self.executor_of(agent);
            let Some(slot) = self.slot_mut(rank) else { continue };
            slot.incarnation = newest(rank);
            let deaths = slot.deaths.len() as u32;
            self.event(Event::RankLost { rank, incarnation, executor, reason, silent_millis: 0, deaths });
            self.fence_again(agent, MemberId { rank, incarnation });
        }
    }

    /// An agent that was lost during the takeover speaks again, over the same connection: it still waits for its slots.
    pub(super) fn admit_late(&mut self, agent: AgentId) {
        let (here, late) =
            core::mem::take(&mut self.former_life.late_joins).into_iter().partition(|(late, ..)| *late == agent);
        self.former_life.late_joins = late;
        let here: Vec<Join> = here;
        for (agent, rank, attempt, fingerprint, hook) in here {
            self.join(agent, rank, attempt, fingerprint, hook);
        }
    }

    /// A rank of a former life that this one has gone on without: it was frozen, or could not reach the tracker.
    pub(super) fn comes_too_late(&mut self, agent: AgentId, member: MemberId, attempt: Attempt) {
        let MemberId { rank, incarnation } = member;
        let epoch = self.config.epoch;
        if incarnation.epoch < epoch && self.may_have_moved(member, attempt) {
            return;
        }
        let executor = self.executor_of(agent);
        let Some(slot) =
            self.slot_mut(rank).filter(|slot| incarnation.epoch < epoch && slot.former < Some(incarnation))
        else {
            return;
        };
        slot.former = Some(incarnation);
        if slot.state == RankSlotState::Vacant {
            slot.incarnation = slot.incarnation.max(Some(incarnation));
        }
        let deaths = slot.deaths.len() as u32;
        let reason = format!("it came back when life {} of the tracker had gone on without it", self.config.epoch);
        self.event(Event::RankLost { rank, incarnation, executor, reason, silent_millis: 0, deaths });
    }

    /// An agent of the former life after the time of taking over. If none has come that knew
    /// anything, what it knows is enough to start from what is held, and not to lose silently what
    /// isn't.
    pub(super) fn comes_late(&mut self, view: &View) {
        let is_known = view.branches.len() < self.chain.branches().len();
        if self.former_life.knows_nothing && !is_known && (view.has_begun || view.slots.iter().any(|slot| slot.planned))
        {
            self.chain = Chain::told(view.branches.clone());
            self.worlds.former.clone_from(&view.former);
            let (there, now) = (view.slots.len() as u32, self.slots.len() as u32);
            if there != now {
                // This life has the world that it was begun with.
                let ranks: Vec<Option<Rank>> = (0..there).map(|rank| (rank < now).then_some(Rank(rank))).collect();
                self.worlds.former.resized(view.lineage, &ranks);
            }
            self.planned.has_been = true;
            self.terms.hooked = self.terms.hooked.or(view.hooked);
        }
    }

    /// No rank was left that knew how far the job was when this life of the tracker began, and ranks
    /// come that were started before: to begin with version 0 would be to throw their work away
    /// without a word.
    pub(super) fn forgotten(&self) -> Option<Error> {
        // A rank that comes with its very first try was never there before: so the job can't have begun.
        let is_restart = self.slots.iter().all(|slot| slot.attempt > Attempt::default());
        (self.former_life.knows_nothing && (is_restart || self.planned.has_been)).then(|| {
            Error::new(
                Code::Unrecoverable,
                format!(
                    "the tracker was started again (life {}) and no rank is left that knows how far the job was: its \
                     ranks died before it was back, and no durable checkpoint can be read. Start the job again",
                    self.config.epoch
                ),
            )
        })
    }

    /// Another life of the tracker has this job already. Nothing is sent: they are its agents.
    pub(super) fn superseded(&mut self, link: u64, executor: &str, epoch: u32) {
        self.outputs.push_back(TrackerOutput::Close { link });
        if self.over.is_some() {
            return;
        }
        let error = Error::new(
            Code::BadState,
            format!(
                "life {epoch} of the tracker has taken this job over, as {} reports; this is life {}, \
                 which ends",
                place(executor),
                self.config.epoch
            ),
        );
        self.over = Some(Err(error.clone()));
        self.changed = None;
        self.planned.missing_reports.clear();
        self.outputs.push_back(TrackerOutput::Over(Err(error)));
    }

    /// An agent knows how the job ended, which the former life had sent it.
    pub(super) fn ended_before(&mut self, executor: &str, outcome: Result<u128, Error>) {
        if self.over.is_some() {
            return;
        }
        self.former_life.takeover = None;
        match outcome {
            Ok(digest) => {
                self.over = Some(Ok(digest));
                self.event(Event::JobEnded { digest, deaths: 0 });
                let job = super::JobResult { digest, result: Vec::new(), deaths: Vec::new() };
                self.outputs.push_back(TrackerOutput::Over(Ok(job)));
                self.send_all(&crate::message::TrackerMessage::Ended(Ok(digest)));
            }
            Err(Error { code, message }) => {
                self.fail(Error::new(
                    code,
                    format!("{message} (so ended a former life of the tracker, as {} reports)", place(executor)),
                ));
            }
        }
    }
}
