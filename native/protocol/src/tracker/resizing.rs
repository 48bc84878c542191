//! An elastic job's world: when it shrinks and grows ([`crate::resize`]), and what becomes of its ranks.
//!
//! The ranks that are there are sent back, as by a rollback, and each task is given what it is in the new world. It
//! joins as that: a newcomer, with an incarnation above all of the old world, so that nothing which comes from there is
//! heard. When all are there, the plan begins a lineage at the newest version that is held, by the rules of every plan.

use super::slots::RankSlot;
use super::{RankSlotState, Tracker};
use crate::error::{Code, Error};
use crate::event::Event;
use crate::ids::{AgentId, Attempt, Incarnation, MemberId, Millis, Rank, Task, Version};
use crate::message::{RankGiven, TrackerMessage};
use crate::resize::{decide, Candidate, Decision, Elastic, Moment, Occupancy};
use crate::spares::Giving;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// What a survivor does whose world has changed.
const JOIN_AGAIN: &str = "join again in the same process, which keeps what it holds";

/// What one does that has no part in the new world.
const STAND_BY: &str =
    "join again in the same process: it stands by until the others have what only it holds, and may be ended then";

impl Tracker {
    /// Resizes the world if it is time; `entered` is the version that all were in when the present input came. Whether
    /// it has changed.
    pub(super) fn resize(&mut self, entered: Option<Version>) -> bool {
        let Some(elastic) = self.config.elastic else { return false };
        let has_ended = self.slots.iter().any(|slot| self.knew_the_end(slot));
        if self.over.is_some() || self.former_life.takeover.is_some() || !self.planned.has_been || has_ended {
            return false;
        }
        let (ranks, joiners, reason) = match decide(&self.occupancies(), &self.moment(entered), &elastic) {
            Decision::Stay => return false,
            Decision::Resize { ranks, joiners, reason } => (ranks, joiners, reason),
            Decision::Exhausted { reason } => {
                let what = "Allow more changes (the reset limit), or find out why ranks go for good";
                self.fail(Error::new(Code::Unrecoverable, format!("{reason}. {what}")));
                return true;
            }
        };
        let is_whole = self.occupancies().iter().all(Occupancy::is_there);
        if is_whole && self.chain.is_full() {
            // Nobody is missed: it goes on as it is.
            return false;
        }
        match self.has_local_state() {
            // It goes on as it is.
            true if is_whole => return false,
            true => self.fail(Error::new(
                Code::Unrecoverable,
                format!(
                    "{reason}; but its ranks have state of their own, which no other rank can go on with. Give all \
                     ranks one common model, or start the job with a fixed world"
                ),
            )),
            false => self.change_world(&ranks, &joiners, &reason),
        }
        true
    }

    /// Whether the world shrinks when enough time has passed, should nothing else happen.
    pub fn will_shrink(&self) -> bool {
        let Some(elastic) = self.config.elastic else { return false };
        let is_going_on = self.over.is_none() && self.former_life.takeover.is_none() && self.planned.has_been;
        let at_once = Elastic { timeout_millis: 0, ..elastic };
        is_going_on && decide(&self.occupancies(), &self.moment(None), &at_once) != Decision::Stay
    }

    /// When a replacement will have been waited for long enough, if that is still to come.
    pub(super) fn waits_for_replacements_until(&self) -> Option<Millis> {
        let elastic = self.config.elastic?;
        let missing = self.slots.iter().filter(|slot| slot.state == RankSlotState::Vacant);
        let due = missing.map(|slot| slot.waits_since.plus(elastic.timeout_millis));
        due.filter(|due| *due > self.clock.now).min()
    }

    /// The lowest version that a rank of an elastic job is in, if all train.
    pub(super) fn entered_by_all(&self) -> Option<Version> {
        self.config.elastic?;
        let trains = |slot: &RankSlot| match slot.state {
            RankSlotState::Planned { at, .. } => Some(at),
            _ => None,
        };
        self.slots.iter().map(trains).min().flatten()
    }

    fn moment(&self, before: Option<Version>) -> Moment {
        let now = self.entered_by_all();
        let standing_by = self.waiting().into_iter().map(|(task, standing)| {
            let host = self.agents.get(&standing.agent).map(|agent| agent.host.clone()).unwrap_or_default();
            Candidate { task, host, millis: self.clock.now.since(standing.since) }
        });
        Moment {
            is_boundary: before.is_some() && now > before,
            resizes: self.worlds.resizes,
            since_resize: self.worlds.resized.map(|at| self.clock.now.since(at)),
            standing_by: standing_by.collect(),
        }
    }

    fn occupancies(&self) -> Vec<Occupancy> {
        // How far the others are is known: what the dead had entered doesn't count, and what those have does.
        let have_answered = self.changed.is_none() && self.planned.missing_reports.is_empty()
            || self.planned.all_begin_again && self.nobody_started();
        // This is asked at every input: no look through all tasks for each rank.
        let leaves: BTreeMap<Rank, bool> =
            self.standings.tasks.values().filter_map(|one| Some((one.given?.rank, one.leaves))).collect();
        let all = (0..).map(Rank).zip(&self.slots);
        let occupancies = all.map(|(rank, slot)| match slot.state {
            RankSlotState::Vacant if !leaves.contains_key(&rank) => {
                let because = slot.last_seen.clone();
                match slot.is_unawaited && (have_answered || !slot.was_here) {
                    true => Occupancy::Abandoned { because },
                    false => Occupancy::Missing { millis: self.clock.now.since(slot.waits_since), because },
                }
            }
            _ => match leaves.get(&rank) {
                Some(true) => Occupancy::Leaving,
                _ => Occupancy::Taken,
            },
        });
        occupancies.collect()
    }

    /// Ranks have each for itself what only the tracker keeps, and a world of other ranks can't go on with.
    fn has_local_state(&self) -> bool {
        self.slots.iter().any(|slot| slot.locals.is_some())
    }

    fn change_world(&mut self, ranks: &[Option<Rank>], joiners: &[Task], reason: &str) {
        let left = ranks.iter().flatten().count() as u32;
        let world = left + joiners.len() as u32;
        let occupancies = self.occupancies();
        // No incarnation has this number: so one of the old world is older than what a view of the new one names, also
        // where its rank has not joined yet.
        let newest = self.slots.iter().filter_map(|slot| slot.incarnation).max();
        let newest = newest.map(|newest| Incarnation::after(Some(newest), self.config.epoch, 0));
        // What the others had entered alone is nothing that those could lose.
        let stay = self.slots.iter().zip(ranks).filter(|(_, next)| next.is_some());
        self.reach.survived_by(stay.filter_map(|(slot, _)| slot.position()).max());
        let given: Vec<(Task, Rank, RankGiven)> = self
            .standings
            .tasks
            .iter()
            .filter_map(|(task, standing)| {
                let given = standing.given?;
                let next = ranks.get(given.rank.0 as usize).copied().flatten()?;
                Some((*task, next, given))
            })
            .collect();
        let leaving = (0..).map(Rank).zip(ranks).filter(|(_, next)| next.is_none()).map(|(rank, _)| rank);
        for rank in leaving.collect::<Vec<Rank>>() {
            self.part_with(rank);
        }
        for (rank, next) in (0..).map(Rank).zip(ranks) {
            let agent = self.slot(rank).map(|slot| slot.agent).unwrap_or_default();
            let (now_it, then) = match next {
                Some(next) => (format!("is rank {next} of {world}"), JOIN_AGAIN),
                None => (format!("takes no part in the world of {world} ranks"), STAND_BY),
            };
            let Some(incarnation) = self.vacate(rank, &format!("it {now_it} now"), false) else { continue };
            let member = MemberId { rank, incarnation };
            self.standings.moved.insert(member);
            let text = format!("rank {rank} of {} {now_it} from now on: {reason}; {then}", self.slots.len());
            self.send(agent, TrackerMessage::Fenced { member, error: Error::new(Code::Resized, text) });
        }
        // The new world's first view is due, whoever was waited for in the old one.
        self.planned.all_begin_again = false;
        self.forget_former_worlds();
        self.worlds.former.resized(self.chain.lineage(), ranks);
        let now = self.clock.now;
        let former = core::mem::take(&mut self.slots);
        let staying = former.into_iter().zip(occupancies).zip(ranks).filter_map(|(slot, next)| next.map(|_| slot));
        self.slots = staying
            .map(|(slot, occupancy)| match occupancy {
                // It is waited for as long as before.
                Occupancy::Missing { .. } => RankSlot {
                    incarnation: newest,
                    deaths: slot.deaths,
                    cost: slot.cost,
                    vacant_since: slot.vacant_since,
                    last_seen: slot.last_seen,
                    left_by: slot.left_by,
                    ..RankSlot::new(slot.waits_since)
                },
                _ => RankSlot {
                    incarnation: newest,
                    deaths: slot.deaths,
                    cost: slot.cost,
                    vacant_since: Some(now),
                    last_seen: "it was there when the world changed, and hasn't joined again".into(),
                    is_told: true,
                    ..RankSlot::new(now)
                },
            })
            .collect();
        self.slots.extend(joiners.iter().map(|_| RankSlot {
            incarnation: newest,
            vacant_since: Some(now),
            last_seen: "its task is gone, which hadn't joined".into(),
            is_unawaited: true,
            ..RankSlot::new(now)
        }));
        for (task, rank, before) in given {
            self.standings.former.insert(before);
            let Some(attempt) = self.standings.tasks.get(&task).map(|standing| standing.attempt) else { continue };
            let next = RankGiven { rank, attempt: self.next_try(rank, task, attempt) };
            self.standings.given.insert(rank, next.attempt);
            if let Some(standing) = self.standings.tasks.get_mut(&task) {
                standing.given = Some(next);
            }
        }
        let at = self.clock.text(now);
        self.losses.sent_back(&at, reason);
        self.event(Event::Resized { ranks: ranks.to_vec(), world, reason: reason.into() });
        for (rank, task) in (left..).map(Rank).zip(joiners) {
            let reason = format!("it stood by when the world grew to {world} ranks");
            self.give(Giving { rank, task: *task, is_spare: true, reason });
        }
        self.worlds.resized = Some(now);
        self.worlds.resizes += 1;
        self.rollback_reason = Some(reason.into());
        self.changed = Some(format!("the world has {world} ranks now: {reason}"));
    }

    /// The task that has this rank, if any has it, has none any more: it is ended soon.
    fn part_with(&mut self, rank: Rank) {
        let Some((task, _)) = self.standings.of_rank(rank) else { return };
        let Some(standing) = self.standings.tasks.get_mut(&task) else { return };
        standing.had_rank = true;
        if let Some(given) = standing.given.take() {
            self.standings.former.insert(given);
        }
    }

    /// Worlds of which no version is held any more: none will be begun from. Where nobody is there to say, one may
    /// come that finds a version in the durable store.
    fn forget_former_worlds(&mut self) {
        let held = self.agents.values().flat_map(|agent| &agent.held).filter(|held| self.chain.has(held));
        if let Some(oldest) = held.map(|held| held.lineage).min() {
            self.worlds.former.forget_before(oldest);
        }
    }

    /// For an incarnation of a former world.
    pub(super) fn was_resized(&self, rank: Rank) -> Error {
        let world = self.slots.len();
        Error::new(
            Code::Resized,
            format!("rank {rank} was in a former world; that of now has {world} ranks; {JOIN_AGAIN}"),
        )
    }

    /// Whether a rank's task is there and has been told what it is: it joins when its program makes its next call.
    pub(super) fn is_told(&self, rank: Rank) -> bool {
        let told = self.slot(rank).filter(|slot| slot.is_told).and_then(|_| self.standings.of_rank(rank));
        told.is_some_and(|(_, standing)| self.agents.get(&standing.agent).is_some_and(|agent| agent.counts()))
    }

    /// What an elastic job lacks, for the error of one that waited for it.
    pub(super) fn too_few(&self) -> String {
        let Some(Elastic { min, .. }) = self.config.elastic else { return String::new() };
        let there = self.occupancies().iter().filter(|occupancy| occupancy.is_there()).count();
        format!("Its world doesn't go below {min} ranks, and {there} were there. ")
    }

    /// Whether the job may have so many ranks.
    pub(super) fn is_a_world(&self, ranks: usize) -> bool {
        let least = self.config.elastic.map_or(self.config.world, |elastic| elastic.min);
        (least as usize..=self.most_ranks() as usize).contains(&ranks)
    }

    /// Whether its world may change.
    pub fn is_elastic(&self) -> bool {
        self.config.elastic.is_some()
    }

    /// How many ranks the job has at the most.
    pub fn most_ranks(&self) -> u32 {
        self.config.elastic.map_or(self.config.world, |elastic| elastic.max)
    }

    /// A life that comes back has learned of a newer view: the world is that one's, and what was known of an
    /// incarnation before it counts no more.
    pub(super) fn fit_the_world(&mut self) {
        let newest = self.former_life.takeover.as_ref().and_then(|takeover| takeover.newest.as_ref());
        let (Some(_), Some(view)) = (self.config.elastic, newest) else { return };
        let (now, world) = (self.clock.now, view.slots.len());
        let known = self.living().filter_map(|(rank, slot)| {
            let incarnation = slot.incarnation?;
            Some((slot.agent, MemberId { rank, incarnation }, slot.attempt))
        });
        for (agent, member, attempt) in known.collect::<Vec<(AgentId, MemberId, Attempt)>>() {
            if self.is_of_a_former_world(member, attempt) {
                self.fence_again(agent, member);
                if let Some(slot) = self.slot_mut(member.rank) {
                    *slot = RankSlot::new(now);
                }
            }
        }
        self.slots.resize_with(world, || RankSlot::new(now));
    }

    /// Whether the newest view that a later life knows of has a later incarnation of this rank, or
    /// no such rank. It may have been another one then, in another world: so it is told that, and
    /// asks. One that was replaced stands by then.
    pub(super) fn is_of_a_former_world(&mut self, member: MemberId, attempt: Attempt) -> bool {
        let newest = self.former_life.takeover.as_ref().and_then(|takeover| takeover.newest.as_ref());
        let (Some(_), Some(view)) = (self.config.elastic, newest) else { return false };
        let slot = view.slots.get(member.rank.0 as usize);
        let is_former = slot.is_none_or(|slot| slot.incarnation > Some(member.incarnation));
        if is_former {
            self.has_moved(member, attempt);
        }
        is_former
    }

    /// The same of one that comes when a later life has taken the job over.
    pub(super) fn may_have_moved(&mut self, member: MemberId, attempt: Attempt) -> bool {
        let is_former = self.slot(member.rank).is_none_or(|slot| slot.incarnation > Some(member.incarnation));
        let is_moved = self.config.elastic.is_some() && is_former;
        if is_moved {
            self.has_moved(member, attempt);
        }
        is_moved
    }

    /// Its agent says next that its task was given this try of the rank, which must not be taken for a loss.
    fn has_moved(&mut self, member: MemberId, attempt: Attempt) {
        self.standings.moved.insert(member);
        self.standings.former.insert(RankGiven { rank: member.rank, attempt });
    }
}
