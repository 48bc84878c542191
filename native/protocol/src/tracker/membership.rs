//! The members: joins, losses, fencing, broken links.

use super::door::fingerprint_fits;
use super::slots::{outdated, Death, RankSlot};
use super::{RankSlotState, Tracker, TrackerOutput};
use crate::error::{Code, Error};
use crate::event::Event;
use crate::hook::{self, Hook};
use crate::ids::{AgentId, Attempt, Generation, Incarnation, MemberId, Millis, Position, Rank};
use crate::message::{RankGiven, TrackerMessage};
use crate::words::{list, place, times};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Reports of a broken link between the same two incarnations after which one of them has to go. An
/// agent reports a break, and then every dozen failed tries to make the link anew. Only the lower
/// rank's reports count: it is the one that makes the link.
const LINK_REPORTS_LIMIT: u32 = 8;
/// Reports further apart than this don't belong together.
const LINK_REPORTS_APART_MILLIS: u64 = 120_000;
/// A break is reported as one only if both ends are still alive so much later: mostly it is the first sign of a death.
const LINK_EVENT_MILLIS: u64 = 500;

/// What a survivor does that was sent back.
const JOIN_AGAIN: &str =
    "join again in the same process, which keeps what it holds, or end the process, so that the rank is \
                          started again: neither counts as a death";

/// How many times as long as for a missing one is waited for a rank that is there, and has been told what it is in a
/// world that has changed: it joins with the next call that its program makes.
const TOLD_TIMES: u64 = 5;

impl Tracker {
    /// Whether this incarnation has its rank's slot.
    pub(super) fn is_current(&self, member: MemberId) -> bool {
        self.slot(member.rank).is_some_and(|slot| slot.is(member.incarnation))
    }

    pub(super) fn sits(&self, member: MemberId, agent: AgentId) -> bool {
        self.slot(member.rank).is_some_and(|slot| slot.is(member.incarnation) && slot.agent == agent)
    }

    pub(super) fn join(&mut self, agent: AgentId, rank: Rank, attempt: Attempt, fingerprint: String, hook: Hook) {
        if let Some(over) = self.over.clone() {
            self.send(agent, TrackerMessage::Ended(over));
            return;
        }
        if self.joins_later(agent, rank, attempt, &fingerprint, &hook) {
            return;
        }
        if let Err(error) = self.admit(agent, rank, attempt, fingerprint, hook) {
            let reason = error.message.clone();
            self.send(agent, TrackerMessage::JoinRefused { rank, attempt, error });
            self.event(Event::RankRefused { rank, attempt, reason });
        }
    }

    fn admit(
        &mut self,
        agent: AgentId,
        rank: Rank,
        attempt: Attempt,
        fingerprint: String,
        hook: Hook,
    ) -> Result<(), Error> {
        if self.standings.former.contains(&RankGiven { rank, attempt }) {
            // Before all else: there may be no such rank any more.
            return Err(self.was_resized(rank));
        }
        let world = self.world();
        if self.slot(rank).is_none() {
            if self.config.elastic.is_some() {
                // It may have been given to a task that was believed lost, in a larger world.
                self.check_giving(agent, rank, attempt)?;
            }
            return Err(Error::new(
                Code::BadArgument,
                format!("rank {rank} asked to join a job of {world} ranks; 0 to {} are expected", world - 1),
            ));
        }
        if !fingerprint_fits(&fingerprint) {
            let text = format!(
                "rank {rank} comes with terms of {} bytes, which are too long to be sent to all",
                fingerprint.len()
            );
            return Err(Error::new(Code::BadArgument, text));
        }
        if let Some(agreed) = self.terms.fingerprint.as_ref().filter(|agreed| **agreed != fingerprint) {
            return Err(Error::new(
                Code::Incompatible,
                format!(
                    "rank {rank} comes with other terms than the first rank; expected `{agreed}`, seen \
                     `{fingerprint}`; use the same libraries and settings in all processes"
                ),
            ));
        }
        hook::fits(rank, &hook, self.terms.hooked)?;
        self.check_giving(agent, rank, attempt)?;
        let Some(slot) = self.slot(rank) else { return Ok(()) };
        if slot.state != RankSlotState::Vacant {
            if slot.attempt == attempt && slot.agent == agent {
                self.confirm_slot(agent, rank);
                return Ok(());
            }
            if attempt <= slot.attempt {
                return Err(outdated(rank, attempt, slot.attempt));
            }
            if attempt.stage > slot.attempt.stage {
                self.supersede_stage(attempt.stage);
            } else {
                self.lose(rank, format!("attempt {attempt} of its task took its place"), true);
            }
        } else if slot.was_here {
            let repeats = slot.may_repeat && attempt == slot.attempt;
            if attempt <= slot.attempt && !repeats {
                return Err(outdated(rank, attempt, slot.attempt));
            }
        }
        if let Some(over) = self.over.clone() {
            // That death was one too many.
            self.send(agent, TrackerMessage::Ended(over));
            return Ok(());
        }
        self.terms.fingerprint.get_or_insert(fingerprint);
        self.assign_slot(agent, rank, attempt);
        if let Some(slot) = self.slot_mut(rank) {
            slot.hook = hook;
        }
        Ok(())
    }

    /// The answer to its join was lost with a connection.
    fn confirm_slot(&mut self, agent: AgentId, rank: Rank) {
        let Some(slot) = self.slot(rank) else { return };
        let (attempt, Some(incarnation)) = (slot.attempt, slot.incarnation) else { return };
        self.send(agent, TrackerMessage::JoinAccepted { rank, attempt, incarnation });
        // Status reports that are under way don't know of the slot yet: they must not count.
        self.changed.get_or_insert_with(|| format!("rank {rank} was sent its slot again"));
    }

    fn assign_slot(&mut self, agent: AgentId, rank: Rank, attempt: Attempt) {
        let now = self.clock.now;
        let executor = self.executor_of(agent);
        let epoch = self.config.epoch;
        let Some(slot) = self.slot_mut(rank) else { return };
        let incarnation = Incarnation::after(slot.incarnation, epoch, attempt.task);
        let vacant_millis = slot.vacant_since.take().map_or(0, |since| now.since(since));
        slot.incarnation = Some(incarnation);
        (slot.attempt, slot.was_here) = (attempt, true);
        slot.agent = agent;
        slot.state = RankSlotState::Fresh;
        slot.results = Vec::new();
        slot.observed = Vec::new();
        slot.segment = None;
        slot.ended_well = false;
        (slot.may_repeat, slot.is_told, slot.is_unawaited, slot.left_by) = (false, false, false, None);
        // Those that are there already have waited for this one until now.
        for slot in self.slots.iter_mut().filter(|slot| slot.state == RankSlotState::Fresh) {
            slot.waits_since = now;
        }
        self.send(agent, TrackerMessage::JoinAccepted { rank, attempt, incarnation });
        let (index, attempt) = self.task_of(rank);
        self.event(Event::RankJoined { rank, incarnation, index, attempt, executor, vacant_millis });
        self.changed = Some(format!("rank {rank} joined as incarnation {incarnation}"));
    }

    /// Declares the incarnation in a slot lost, which is final.
    pub(super) fn lose(&mut self, rank: Rank, reason: String, counts: bool) {
        let silent_millis = self.silence_of(rank);
        let Some(incarnation) = self.vacate(rank, &reason, counts) else { return };
        self.forget_giving(rank);
        let Some(slot) = self.slot(rank) else { return };
        let deaths = slot.deaths.len() as u32;
        let agent = slot.agent;
        let executor = self.executor_of(agent);
        let error = Error::new(
            Code::Fenced,
            format!("rank {rank} incarnation {incarnation} was declared lost: {reason}; its task has to be retried"),
        );
        let member = MemberId { rank, incarnation };
        self.send(agent, TrackerMessage::Fenced { member, error });
        let shown = reason.clone();
        self.event(Event::RankLost { rank, incarnation, executor, reason: shown, silent_millis, deaths });
        if counts {
            self.end_after_too_many(rank);
        }
    }

    /// Empties a slot and drops what came with its incarnation. `None` if it was vacant.
    pub(super) fn vacate(&mut self, rank: Rank, reason: &str, counts: bool) -> Option<Incarnation> {
        let now = self.clock.now;
        let task = self.task_of(rank);
        let slot = self.slots.get_mut(rank.0 as usize).filter(|slot| slot.state != RankSlotState::Vacant)?;
        let incarnation = slot.incarnation?;
        if slot.position().is_some() {
            self.reach.has_lost_one();
        }
        slot.state = RankSlotState::Vacant;
        slot.has_entered = false;
        slot.vacant_since = Some(now);
        slot.waits_since = now;
        slot.last_seen = reason.to_string();
        slot.cost.gone(now);
        if counts {
            let executor = self.agents.get(&slot.agent).map(|agent| agent.executor.clone()).unwrap_or_default();
            let is_counted = !self.config.deaths.framework_counts;
            let reason = reason.to_string();
            slot.deaths.push(Death { at: now, incarnation, task, executor, reason, is_counted });
        }
        if rank == Rank(0) {
            self.forget_result();
        }
        let because = format!("rank {rank} was lost: {reason}");
        self.changed = Some(because);
        self.troubles.reports.retain(|(one, other), _| one.rank != rank && other.rank != rank);
        Some(incarnation)
    }

    fn silence_of(&self, rank: Rank) -> u64 {
        let agent = self.slot(rank).and_then(|slot| self.agents.get(&slot.agent));
        agent.map_or(0, |agent| self.clock.now.since(agent.last_heard))
    }

    /// The framework started all again: the older tries end, so that they don't keep the slots of the newer ones.
    pub(super) fn supersede_stage(&mut self, stage: u32) {
        let older: Vec<Rank> =
            self.living().filter(|(_, slot)| slot.attempt.stage < stage).map(|(rank, _)| rank).collect();
        let reason = format!("the framework started all tasks again: superseded by stage attempt {stage}");
        for rank in older {
            self.lose(rank, reason.clone(), false);
        }
        self.rollback_reason = Some(format!("the framework started all tasks again (stage attempt {stage})"));
    }

    /// Ends all living incarnations, so that all start again. Their tasks may join again themselves.
    pub(super) fn send_back(&mut self, reason: &str) {
        self.planned.all_begin_again = false;
        let living: Vec<Rank> = self.living().filter(|(_, s)| s.position().is_some()).map(|(rank, _)| rank).collect();
        for rank in living {
            let Some(incarnation) = self.vacate(rank, &format!("sent back: {reason}"), false) else { continue };
            let Some(slot) = self.slot_mut(rank) else { continue };
            slot.may_repeat = true;
            let agent = slot.agent;
            let error =
                Error::new(Code::RolledBack, format!("all start again from an older version: {reason}; {JOIN_AGAIN}"));
            let member = MemberId { rank, incarnation };
            self.send(agent, TrackerMessage::Fenced { member, error });
        }
        let at = self.clock.text(self.clock.now);
        self.losses.sent_back(&at, reason);
        self.rollback_reason = Some(reason.to_string());
        self.changed = Some(format!("all go back: {reason}"));
    }

    /// An incarnation that believes to be alive is notified again that it isn't.
    pub(super) fn fence_again(&mut self, agent: AgentId, member: MemberId) {
        let MemberId { rank, incarnation } = member;
        let error = match self.slot(rank) {
            _ if self.standings.moved.contains(&member) => self.was_resized(rank),
            Some(slot) if slot.may_repeat && slot.incarnation == Some(incarnation) => {
                Error::new(Code::RolledBack, format!("all start again from an older version; {JOIN_AGAIN}"))
            }
            _ => Error::new(
                Code::Fenced,
                format!("rank {rank} incarnation {incarnation} was declared lost before; its task has to be retried"),
            ),
        };
        self.send(agent, TrackerMessage::Fenced { member, error });
    }

    pub(super) fn leave(&mut self, rank: Rank, failure: Option<Error>) {
        match failure {
            // One task that is cancelled alone is retried; a job that is cancelled is reported by its driver.
            Some(error) if error.code.will_repeat() && error.code != Code::Cancelled => {
                let who = self.who(rank);
                self.fail(Error::new(error.code, format!("{who} failed in a way that will repeat: {}", error.message)));
            }
            Some(error) => {
                let counts = error.code != Code::Cancelled;
                self.lose(rank, format!("its task ended with {error}"), counts);
            }
            None => self.lose(rank, "its task ended before the job's end".into(), true),
        }
    }

    /// A rank's incarnation with its executor, for texts.
    pub(super) fn who(&self, rank: Rank) -> String {
        let Some(slot) = self.slot(rank) else { return format!("rank {rank}") };
        let place = place(&self.executor_of(slot.agent));
        format!("rank {rank} (incarnation {}, {place})", slot.incarnation.unwrap_or_default())
    }

    /// Where a rank is now. Only forward: a message may be older than what is known.
    pub(super) fn progress(&mut self, member: MemberId, at: Position, round: u32) {
        if at.lineage != self.chain.lineage() || !self.is_current(member) {
            return;
        }
        let rank = member.rank;
        let Some(RankSlotState::Planned { at: known, round: known_round, .. }) =
            self.slot_mut(rank).map(|slot| &mut slot.state)
        else {
            return;
        };
        *known = (*known).max(at.version);
        *known_round = (*known_round).max(round);
        self.reach.entered(at.version);
        self.check_rounds(rank, round);
    }

    /// A rank's own state as of a version. It may come from an incarnation that has ended since: what a rank has at a
    /// version is the same in all its incarnations.
    pub(super) fn local(&mut self, agent: AgentId, member: MemberId, at: Position, bytes: Vec<u8>) {
        let MemberId { rank, incarnation } = member;
        let lowest = self.lowest().unwrap_or_default();
        let on_line = self.chain.origin(at.version) == at;
        let known = self.slot(rank).is_some_and(|slot| {
            let was_here = slot.incarnation.is_some_and(|newest| incarnation <= newest);
            was_here && (!slot.is(incarnation) || slot.agent == agent)
        });
        if on_line && known && bytes.len() <= crate::message::LOCAL_LIMIT {
            if let Some(slot) = self.slot_mut(rank) {
                slot.keep_local(at, bytes, lowest);
            }
        }
    }

    pub(super) fn link_down(&mut self, one: MemberId, other: MemberId, reason: String) {
        if !self.is_current(other) {
            return;
        }
        let pair = if one.rank < other.rank { (one, other) } else { (other, one) };
        let now = self.clock.now;
        let (reports, last) = self.troubles.reports.entry(pair).or_insert((0, now));
        if now.since(*last) > LINK_REPORTS_APART_MILLIS {
            *reports = 0;
        }
        *reports += u32::from(one.rank < other.rank);
        *last = now;
        let reports = *reports;
        if !self.troubles.unreported.iter().any(|(_, a, b, _)| (*a, *b) == pair) {
            self.troubles.unreported.push((now.plus(LINK_EVENT_MILLIS), pair.0, pair.1, reason.clone()));
        }
        if reports >= LINK_REPORTS_LIMIT {
            // The rank that others can't reach either; the higher one if that doesn't decide.
            let involved = |rank: Rank| -> u32 {
                let all = self.troubles.reports.iter();
                all.filter(|((a, b), _)| a.rank == rank || b.rank == rank).map(|(_, (count, _))| *count).sum()
            };
            let (low, high) = (pair.0.rank, pair.1.rank);
            let (lost, kept) = if involved(low) > involved(high) { (low, high) } else { (high, low) };
            let reason = format!(
                "the link between ranks {lost} and {kept} broke or could not be made {}, the last time: {reason}",
                times(reports)
            );
            let Some(slot) = self.slot(lost) else { return };
            let (task, attempt) = self.task_of(lost);
            let executor = self.executor_of(slot.agent);
            self.lose(lost, reason.clone(), true);
            self.outputs.push_back(TrackerOutput::Kill { task, attempt, executor, reason });
        }
    }

    /// Frames of collectives are gone: a new view makes a new generation. Reported again until it comes, so it counts
    /// once.
    pub(super) fn interrupted(&mut self, rank: Rank, peer: Rank, generation: Generation, reason: &str) {
        if generation != self.generation {
            return;
        }
        let text = format!("collectives run again, because the link of ranks {rank} and {peer} broke: {reason}");
        self.changed.get_or_insert(text);
    }

    /// From now on no plan carries segments. A newer view has been made of the same reason, or will show it again.
    pub(super) fn cannot_share(&mut self, rank: Rank, peer: Rank, generation: Generation, reason: String) {
        let is_known = !self.terms.share_memory || generation != self.generation;
        // A rank about to be found dead has no memory to be opened, which need not be reported.
        let is_there = |rank: Rank| {
            let agent = self.slot(rank).filter(|slot| slot.state != RankSlotState::Vacant).map(|slot| slot.agent);
            agent.and_then(|agent| self.agents.get(&agent)).is_some_and(|agent| agent.counts() && agent.link.is_some())
        };
        if is_known || !is_there(peer) {
            return;
        }
        self.terms.share_memory = false;
        let text = format!(
            "collectives go over links from now on, because rank {rank} can't open the memory that rank {peer} shares: \
             {reason}"
        );
        self.event(Event::SharingEnded { rank, peer, reason });
        self.changed.get_or_insert(text);
    }

    pub(super) fn report_broken_links(&mut self) {
        let now = self.clock.now;
        let (due, later) = core::mem::take(&mut self.troubles.unreported).into_iter().partition(|(at, ..)| *at <= now);
        self.troubles.unreported = later;
        let due: Vec<(Millis, MemberId, MemberId, String)> = due;
        for (_, one, other, reason) in due {
            if self.is_current(one) && self.is_current(other) {
                self.event(Event::LinkBroken { rank: one.rank, peer: other.rank, reason });
            }
        }
    }

    /// Ends a job that waits for ranks which don't come.
    pub(super) fn judge_missing_members(&mut self) {
        if self.over.is_some() {
            return;
        }
        let limit = self.config.timing.members_millis;
        let now = self.clock.now;
        let unplanned =
            || self.slots.iter().enumerate().filter(|(_, slot)| slot.position().is_none() && !self.knew_the_end(slot));
        let is_late = |slot: &RankSlot| now.since(slot.waits_since) >= limit;
        // Only tasks that stand by are left, and none knows the model.
        let all_have_gone = || self.some_stand_by() && self.slots.iter().all(|s| self.knew_the_end(s) && is_late(s));
        if !unplanned().any(|(_, slot)| is_late(slot)) && !all_have_gone() {
            // That is cheap to say, and this is asked at every input.
            return;
        }
        let vacant = || unplanned().filter(|(_, slot)| slot.state == RankSlotState::Vacant);
        // Its task is there, and computes.
        let is_told = |(rank, slot): &(usize, &RankSlot)| {
            now.since(slot.waits_since) < TOLD_TIMES * limit && self.is_told(Rank(*rank as u32))
        };
        // Who is there waits for who isn't, and so it is the time of these that counts.
        let is_due = match vacant().next() {
            Some(_) => vacant().any(|one| is_late(one.1) && !is_told(&one)),
            None => unplanned().any(|(_, slot)| is_late(slot)),
        };
        if !is_due && !all_have_gone() {
            return;
        }
        let mut texts = Vec::new();
        for (rank, slot) in vacant().filter(|one| !is_told(one)) {
            let since = now.since(slot.waits_since) / 1000;
            texts.push(format!("rank {rank} is missing since {since} s ({})", slot.last_seen));
        }
        // Ranks that wait can't be started without those either, and they don't come again.
        for (rank, _) in self.slots.iter().enumerate().filter(|(_, slot)| self.knew_the_end(slot)) {
            texts.push(format!("rank {rank} ended well under a former life of the tracker, and doesn't come again"));
        }
        if texts.is_empty() {
            let fresh: Vec<Rank> = unplanned().map(|(rank, _)| Rank(rank as u32)).collect();
            let silent: Vec<String> = self
                .planned
                .missing_reports
                .iter()
                .filter_map(|a| self.agents.get(a))
                .map(|a| place(&a.executor))
                .collect();
            texts.push(format!(
                "rank {} waits to be started, and no report of what it holds has come from {}",
                list(&fresh),
                silent.join(", ")
            ));
        }
        let error = Error::new(
            Code::MembersMissing,
            format!(
                "the job waited {} s for its ranks, which is the limit: {}. {}See that {} tasks can run at once, and \
                 look for why those don't start; or raise the limit",
                limit / 1000,
                texts.join("; "),
                self.too_few(),
                self.config.world
            ),
        );
        self.fail(error);
    }
}
