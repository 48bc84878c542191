//! Views, status reports and plans: from a change of membership to newcomers that have a start.

use super::{RankSlotState, Tracker};
use crate::error::{Code, Error};
use crate::event::Event;
use crate::former::{Former, Given, World};
use crate::hook;
use crate::ids::{AgentId, Checkpoint, Lineage, MemberId, Position, Rank, Version};
use crate::message::{Newcomer, Plan, RankState, RankStatus, StatusReport, TrackerMessage, LINEAGES_LIMIT};
use crate::plan::{decide, Decision, Member, Situation};
use crate::start::JobStart;
use crate::view::{AgentAddress, SlotState, View};
use crate::words::{list, place};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

/// So many processes are named in a plan that have ranks' own models, or eight for each rank if that is more. All have
/// those that are durable, and a plan that named each of them for each rank would not fit into a message where all of
/// some hundred ranks begin.
const NAMED_HOLDERS: usize = 16_384;

impl Tracker {
    /// Whatever the last input made due: a new view, a plan, the end of a time of recovery.
    pub(super) fn advance(&mut self) {
        if self.over.is_some() || self.is_taking_over() {
            return;
        }
        // A plan that sends all back changes the membership, which makes a view.
        while self.over.is_none() && !self.is_gathering() {
            if let Some(reason) = self.changed.take() {
                self.make_view(reason);
            } else {
                break;
            }
        }
        if self.over.is_none() {
            self.settle();
        }
    }

    /// A rendezvous isn't complete: the first one, or one of which the newest view has said that all ranks begin again.
    /// None has been started, so none needs a view; one for each rank that comes would be as many messages as the
    /// square of the ranks, each as long as there are ranks.
    fn is_gathering(&self) -> bool {
        let is_told = !self.planned.has_been || self.planned.all_begin_again;
        is_told && self.nobody_started() && self.slots.iter().any(|slot| slot.state == RankSlotState::Vacant)
    }

    pub(super) fn nobody_started(&self) -> bool {
        self.slots.iter().all(|slot| slot.position().is_none())
    }

    pub(super) fn view(&self) -> View {
        let agents = self.agents.iter().filter(|(_, agent)| agent.counts()).map(|(id, agent)| AgentAddress {
            agent: *id,
            address: agent.address,
            host: agent.host.clone(),
        });
        View {
            generation: self.generation,
            lineage: self.chain.lineage(),
            branches: self.chain.branches().to_vec(),
            former: self.worlds.former.clone(),
            has_begun: self.has_begun(),
            highest: (!self.former_life.knows_nothing).then_some(self.reach.highest),
            fingerprint: self.terms.fingerprint.clone(),
            hooked: self.terms.hooked,
            slots: self.slots.iter().map(|slot| slot.entry()).collect(),
            agents: agents.collect(),
        }
    }

    /// Whether the job had begun, as far as is known, when the present view was made. A job that is resumed has.
    fn has_begun(&self) -> bool {
        let was_planned = self.planned.has_been && self.planned.first_generation != Some(self.generation);
        was_planned || self.reach.highest > Version(0) || self.forgotten().is_some()
    }

    fn make_view(&mut self, reason: alloc::string::String) {
        self.generation.number += 1;
        self.reach.settled = false;
        self.planned.all_begin_again = self.planned.has_been && self.nobody_started();
        let view = self.view();
        let (alive, vacant): (Vec<_>, Vec<_>) =
            view.slots.iter().enumerate().partition(|(_, slot)| slot.state != SlotState::Vacant);
        let ranks = |slots: Vec<(usize, &crate::view::ViewSlot)>| -> Vec<Rank> {
            slots.into_iter().map(|(rank, _)| Rank(rank as u32)).collect()
        };
        let (alive, vacant) = (ranks(alive), ranks(vacant));
        self.event(Event::ViewMade { generation: self.generation, alive, vacant, reason });
        self.planned.missing_reports = self.agents.iter().filter(|(_, a)| a.counts()).map(|(id, _)| *id).collect();
        self.send_all(&TrackerMessage::View(view));
        self.plan_if_all_answered();
    }

    pub(super) fn status(&mut self, agent: AgentId, status: StatusReport) {
        if self.over.is_some() || status.generation != self.generation || self.changed.is_some() {
            return; // a newer view is on its way, and will be answered
        }
        if let Some(error) = self.begins_otherwise(agent, &status) {
            return self.fail(error);
        }
        let held = self.counts_as_held(status.held, &status.handed_over);
        if let Some(record) = self.agents.get_mut(&agent) {
            record.held = held;
        }
        let awaited = self.planned.missing_reports.remove(&agent);
        for received in &status.ranks {
            self.take_status(agent, received, awaited);
        }
        let here = self.living().filter(|(_, slot)| slot.agent == agent);
        let unknown = here.filter(|(rank, slot)| {
            !status
                .ranks
                .iter()
                .any(|received| received.rank == *rank && Some(received.incarnation) == slot.incarnation)
        });
        let unknown: Vec<Rank> = unknown.map(|(rank, _)| rank).collect();
        for rank in unknown {
            self.lose(rank, "its agent doesn't know it any more: its task has ended".into(), true);
        }
        if awaited {
            self.plan_if_all_answered();
        }
    }

    fn take_status(&mut self, agent: AgentId, received: &RankStatus, awaited: bool) {
        if !self.sits(received.id(), agent) {
            self.fence_again(agent, received.id());
            return;
        }
        if let Some(slot) = self.slot_mut(received.rank) {
            slot.segment = received.segment;
            slot.hook.clone_from(&received.hook);
        }
        let lineage = self.chain.lineage();
        match received.state {
            RankState::Fresh => {
                // Not started: it can be given a newer start, and what it was given before may be gone by now.
                if let Some(slot) = self.slot_mut(received.rank).filter(|slot| awaited && slot.position().is_some()) {
                    slot.state = RankSlotState::Fresh;
                }
            }
            RankState::At(position) | RankState::Finished { at: position, .. } => {
                if position.lineage != lineage {
                    // It was out of reach when all went back, and came to a later life of the tracker.
                    let reason = format!("it trains in lineage {}, and the others in {lineage}", position.lineage);
                    self.lose(received.rank, reason, false);
                    return;
                }
                self.progress(received.id(), position, 0);
                if let Some(RankSlotState::Planned { oldest, .. } | RankSlotState::Finished { oldest, .. }) =
                    self.slot_mut(received.rank).map(|slot| &mut slot.state)
                {
                    *oldest = received.oldest;
                }
                if let Some(slot) = self.slot_mut(received.rank) {
                    slot.results.clone_from(&received.results);
                    slot.observed.clone_from(&received.observed);
                }
            }
        }
    }

    pub(super) fn plan_if_all_answered(&mut self) {
        let planned_already = self.planned.of(self.generation).is_some();
        // Before the first view no agent was asked for anything.
        let is_asked = self.generation.number > 0 && self.planned.missing_reports.is_empty();
        if !is_asked || self.over.is_some() || self.changed.is_some() || planned_already {
            return;
        }
        let members: Vec<Member> = self
            .slots
            .iter()
            .map(|slot| match slot.state {
                RankSlotState::Vacant => Member::Vacant,
                RankSlotState::Fresh => Member::Fresh,
                RankSlotState::Planned { at, oldest, .. } | RankSlotState::Finished { at, oldest, .. } => {
                    Member::Living { version: at, oldest }
                }
            })
            .collect();
        let held = self.all_held();
        // What one rank has of its own, all have, even if nothing of it has arrived.
        let own = self.slots.iter().any(|slot| slot.locals.is_some());
        let kept = self.slots.iter().map(|slot| match &slot.locals {
            Some(locals) => Some(locals.keys().copied().collect()),
            None => own.then(Vec::new),
        });
        let locals: Vec<Option<Vec<Position>>> = kept.collect();
        let decision = decide(&Situation {
            members: &members,
            chain: &self.chain,
            planned_before: self.planned.has_been,
            highest: self.reach.highest,
            held: &held,
            locals: &locals,
            former: &self.worlds.former,
            own_may_be_lost: self.config.elastic.is_some_and(|elastic| elastic.own_may_be_lost),
        });
        match decision {
            Decision::Wait { reason } => self.plan_for_collectives(reason),
            Decision::Fail(error) => {
                let mut error = self.with_executors(error);
                if error.code == Code::Unrecoverable {
                    let expected = self.config.start.expected().filter(|_| !self.planned.has_been);
                    for received in [self.losses.summary(), expected].into_iter().flatten() {
                        error.message = format!("{}. {received}", error.message);
                    }
                }
                self.fail(error);
            }
            Decision::RollBack { reason } => self.send_back(&reason),
            Decision::Start { version, checkpoint, holders, branch, reason } => {
                if let Some(error) = self.forgotten().filter(|_| checkpoint.is_none()) {
                    return self.fail(error);
                }
                // What the view says is not unsaid when it is sent again after this plan.
                let had_begun = self.has_begun();
                self.former_life.knows_nothing = false;
                if branch && self.chain.is_full() {
                    let text = format!(
                        "all ranks have begun again, or the world has changed, {} times, and {reason}; a job can do so \
                         at most {LINEAGES_LIMIT} times. Start it again from its durable checkpoints, and find out why \
                         ranks go so often",
                        self.chain.branches().len()
                    );
                    return self.fail(Error::new(Code::Unrecoverable, text));
                }
                if branch {
                    self.branch(version, &reason);
                }
                self.agree_about_the_hook();
                let starting = !members.iter().any(|member| matches!(member, Member::Living { .. }));
                if starting {
                    self.reach.all_start_at(version);
                } else {
                    self.reach.some_start();
                }
                let (plan, locals) = self.make_plan(version, checkpoint, holders, reason);
                self.event(Event::PlanMade {
                    generation: plan.generation,
                    lineage: plan.lineage,
                    version,
                    round: checkpoint.map_or(0, |checkpoint| checkpoint.round),
                    newcomers: plan.newcomers.iter().map(|newcomer| newcomer.rank).collect(),
                    reason: plan.reason.clone(),
                });
                self.planned.made(plan, locals);
                if !had_begun {
                    self.planned.first_generation = Some(self.generation);
                }
                self.planned.has_been = true;
                self.send_plans();
            }
        }
    }

    /// A decision names agents by their numbers; the reader of an error knows executors and ranks.
    fn with_executors(&self, error: Error) -> Error {
        let Error { code, mut message } = error;
        for (agent, record) in &self.agents {
            let name = format!("agent {:016x}", agent.0);
            if message.contains(&name) {
                let here = self.living().filter(|(_, slot)| slot.agent == *agent);
                let ranks: Vec<Rank> = here.map(|(rank, _)| rank).collect();
                let whose = if ranks.is_empty() { "no rank".into() } else { format!("rank {}", list(&ranks)) };
                message.push_str(&format!("; {name} is {} with {whose}", place(&record.executor)));
            }
        }
        Error::new(code, message)
    }

    /// No rank is to be started, but ranks whose collectives were paused by the view wait for the table.
    fn plan_for_collectives(&mut self, reason: alloc::string::String) {
        if !self.living().any(|(_, slot)| slot.position().is_some() && !slot.results.is_empty()) {
            return;
        }
        let (lineage, table) = (self.lineage(), self.table());
        let (newcomers, holders) = (Vec::new(), Vec::new());
        let (generation, hooked) = (self.generation, self.terms.hooked);
        let plan = Plan { generation, lineage, newcomers, table, holders, reason, hooked };
        self.planned.made(plan, Vec::new());
        self.send_plans();
    }

    fn send_plans(&mut self) {
        let agents: Vec<AgentId> = self.agents.keys().copied().collect();
        for agent in agents {
            self.send_plan(agent);
        }
    }

    /// The newest plan, and ahead of it what only the ranks had that start there.
    pub(super) fn send_plan(&mut self, agent: AgentId) {
        let Some(plan) = self.planned.of(self.generation).cloned() else { return };
        let is_here = |member: MemberId| {
            self.slot(member.rank).is_some_and(|slot| slot.is(member.incarnation) && slot.agent == agent)
        };
        let locals: Vec<(MemberId, Vec<u8>)> =
            self.planned.locals().filter(|(member, _)| is_here(*member)).cloned().collect();
        for (member, bytes) in locals {
            self.send(agent, TrackerMessage::NewcomerLocal { member, bytes });
        }
        self.send(agent, TrackerMessage::Plan(plan));
    }

    /// The first plan decides, with what all ranks have said.
    fn agree_about_the_hook(&mut self) {
        if self.terms.hooked.is_some() {
            return;
        }
        let (hooked, reason) = hook::agree(self.slots.iter().map(|slot| &slot.hook));
        self.terms.hooked = Some(hooked);
        if let Some(reason) = reason {
            self.event(Event::HookAgreed { hooked, reason });
        }
    }

    fn branch(&mut self, version: Version, reason: &str) {
        let reason = match self.rollback_reason.take() {
            Some(cause) => format!("{cause}; {reason}"),
            None => reason.into(),
        };
        self.chain.branch(version);
        for slot in &mut self.slots {
            if let Some(locals) = slot.locals.as_mut() {
                locals.retain(|at, _| at.version <= version);
            }
        }
        self.event(Event::RolledBack { lineage: self.chain.lineage(), version, reason });
    }

    fn make_plan(
        &mut self,
        version: Version,
        checkpoint: Option<Checkpoint>,
        holders: Vec<AgentId>,
        reason: alloc::string::String,
    ) -> (Plan, Vec<(MemberId, Vec<u8>)>) {
        let table = self.table();
        let origin = self.chain.origin(version);
        let round = checkpoint.map_or(0, |checkpoint| checkpoint.round);
        let held: Vec<(AgentId, Checkpoint)> = self.all_held();
        let mut owned: BTreeMap<Rank, Vec<(AgentId, Checkpoint)>> = BTreeMap::new();
        let has_own = checkpoint.is_some_and(|checkpoint| checkpoint.has_own);
        if has_own {
            let here =
                held.into_iter().filter(|(_, held)| (held.lineage, held.version) == (origin.lineage, origin.version));
            for (agent, held) in here {
                if let Some(owner) = held.owner {
                    owned.entry(owner).or_default().push((agent, held));
                }
            }
        }
        let of_a_former_world = match self.worlds.former.of(origin.lineage) {
            World::Former(former) => Some(former),
            World::Present | World::Forgotten => None,
        };
        let heirs = of_a_former_world.map(|former| former.heirs(self.slots.len() as u32)).unwrap_or_default();
        let (mut newcomers, mut locals) = (Vec::new(), Vec::new());
        let fresh = self.slots.iter().filter(|slot| slot.state == RankSlotState::Fresh).count();
        let named = (NAMED_HOLDERS / fresh.max(1)).max(8);
        for (rank, slot) in self.slots.iter_mut().enumerate() {
            let (RankSlotState::Fresh, Some(incarnation)) = (&slot.state, slot.incarnation) else { continue };
            let its = slot.agent;
            let rank = Rank(rank as u32);
            let local = slot.local(origin).cloned();
            let has_local = local.is_some();
            locals.extend(local.map(|local| (MemberId { rank, incarnation }, local)));
            let was = of_a_former_world.map_or(Some(rank), |former| former.was(rank));
            let mut take = |owner: Option<Rank>| -> (Option<Checkpoint>, Vec<AgentId>) {
                let mut owns = owner.and_then(|owner| owned.remove(&owner)).unwrap_or_default();
                if owns.len() > named {
                    // Its own process, and others for each rank, so that not all ask the same ones.
                    let first = rank.0 as usize % owns.len();
                    owns.rotate_left(first);
                    owns.sort_by_key(|(agent, _)| *agent != its);
                    owns.truncate(named);
                }
                (owns.first().map(|(_, own)| *own), owns.iter().map(|(agent, _)| *agent).collect())
            };
            let (own, own_holders) = take(was);
            let former = of_a_former_world.map(|former| {
                let gone = heirs.iter().filter(|heir| has_own && heir.is_gone && heir.rank == rank);
                let given = gone.map(|heir| {
                    let (own, holders) = take(Some(heir.of));
                    Given { rank: heir.of, own, holders }
                });
                Box::new(Former { world: former.ranks.len() as u32, rank: was, given: given.collect() })
            });
            newcomers.push(Newcomer { rank, incarnation, version, checkpoint, own, own_holders, former, has_local });
            slot.state = RankSlotState::Planned { at: version, round, oldest: version };
        }
        let (generation, lineage, hooked) = (self.generation, self.lineage(), self.terms.hooked);
        (Plan { generation, lineage, newcomers, table, holders, reason, hooked }, locals)
    }

    /// What an agent has that is not what the job is to begin with. Once it has begun that does no harm.
    fn begins_otherwise(&self, agent: AgentId, status: &StatusReport) -> Option<Error> {
        if self.planned.has_been {
            return None;
        }
        let start = &self.config.start;
        let executor = self.executor_of(agent);
        if let Some(other) = status.handed_over.iter().find(|handed| !start.is_handed(handed)) {
            return Some(start.is_not(&executor, other));
        }
        // No rank has taken anything yet, unless under a former life of the tracker.
        let is_handed_over = matches!(start, JobStart::HandedOver(_)) && self.config.epoch == 1;
        status.held.first().filter(|_| is_handed_over).map(|left| start.is_older(&executor, left))
    }

    /// What an agent holds, with what it was handed if the job begins with that.
    pub(super) fn counts_as_held(&self, mut held: Vec<Checkpoint>, handed_over: &[Checkpoint]) -> Vec<Checkpoint> {
        held.extend(handed_over.iter().filter(|handed| self.config.start.is_handed(handed)));
        held
    }

    /// What every agent that can be asked holds.
    fn all_held(&self) -> Vec<(AgentId, Checkpoint)> {
        let there = self.agents.iter().filter(|(_, agent)| agent.counts());
        let held = there.flat_map(|(id, agent)| agent.held.iter().map(|held| (*id, *held)));
        held.filter(|(_, held)| self.config.start.admits(held)).collect()
    }

    fn lineage(&self) -> Lineage {
        self.chain.lineage()
    }

    fn table(&self) -> Vec<RankStatus> {
        let lineage = self.lineage();
        let position = |version| Position { lineage, version };
        let all = self.living().filter_map(|(rank, slot)| {
            let (state, oldest) = match slot.state {
                RankSlotState::Vacant => return None,
                RankSlotState::Fresh => (RankState::Fresh, Version(0)),
                RankSlotState::Planned { at, oldest, .. } => (RankState::At(position(at)), oldest),
                RankSlotState::Finished { at, oldest, digest, .. } => {
                    (RankState::Finished { at: position(at), digest }, oldest)
                }
            };
            let (results, observed) = (slot.results.clone(), slot.observed.clone());
            let (incarnation, attempt) = (slot.incarnation?, slot.attempt);
            let segment = slot.segment.filter(|_| self.terms.share_memory);
            let hook = slot.hook.clone();
            Some(RankStatus { rank, incarnation, attempt, state, oldest, results, observed, segment, hook })
        });
        all.collect()
    }

    /// All are planned, and none is behind a place that an older incarnation has reached: from here on, that
    /// a rank finishes a version proves again that all have entered it.
    fn settle(&mut self) {
        if self.reach.settled || self.generation.number == 0 {
            return;
        }
        if self.slots.iter().all(|slot| self.reach.is_beyond(slot.position())) {
            self.reach.settle();
            self.losses.forget();
            self.send_all(&TrackerMessage::Settled { generation: self.generation });
        }
    }
}
