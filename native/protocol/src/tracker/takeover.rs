//! A tracker that comes back takes over the job that its former life had: from what the agents know.
//!
//! Every agent tells with its registration the newest view it has, what its ranks do, and what it holds. The newest of all
//! views says which ranks there are; whoever it shows as alive is waited for, at most as long as a silent agent would be.
//! Until then nobody is given a seat and nothing is planned. Training goes on all the while. As long as no view is known, not
//! every seat is taken and nobody asks for one, whoever has a view may still wake from being frozen: the wait for missing members
//! bounds that.
//!
//! A job in which some rank has never been started hasn't begun, whoever else has followed the first plan and is gone: see
//! [`Takeover::has_not_begun`].
//!
//! What only the former life knew is gone: how often ranks have died, and what ranks told it of their own
//! ([`crate::message::AgentMessage::Local`]) unless their agents still live, and tell it again.

use super::agents::AgentRecord;
use super::{Output, SeatRecord, State, Tracker};
use crate::error::{Code, Error};
use crate::event::Event;
use crate::hook::Hook;
use crate::ids::{AgentId, Attempt, Incarnation, Millis, Rank, Version};
use crate::message::{RankStanding, RankState};
use crate::plan::Chain;
use crate::view::{SeatState, View};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// What a new life of the tracker has heard so far.
#[derive(Clone, Debug)]
pub(super) struct Takeover {
    /// Nobody is waited for any longer.
    until: Millis,
    /// The newest view that any agent has.
    newest: Option<View>,
    /// Who asked for a seat meanwhile.
    joins: Vec<Join>,
    /// Who waited for a start when its agent came here. That stays true of an incarnation that has died since.
    waited: Vec<Waiting>,
}

/// An incarnation that was never started.
#[derive(Clone, Debug)]
struct Waiting {
    rank: Rank,
    incarnation: Incarnation,
    attempt: Attempt,
    /// No incarnation of its rank was started before it, as its number says, or its agent's view.
    is_first: bool,
}

/// An agent asks for a seat of this rank, for this try, which came with these terms, and can hook or not.
pub(super) type Join = (AgentId, Rank, Attempt, String, Hook);

/// Each life of the tracker numbers incarnations from a place of its own on: the one before may have given numbers that
/// nobody who lives has heard of.
const INCARNATIONS_PER_LIFE: u32 = 1000;

impl Takeover {
    pub(super) fn new(until: Millis) -> Self {
        Takeover { until, newest: None, joins: Vec::new(), waited: Vec::new() }
    }

    /// When the time of waiting ends, unless it has.
    pub(super) fn until(&self, now: Millis) -> Option<Millis> {
        (self.until > now).then_some(self.until)
    }

    /// Notes who was never started.
    fn hear(&mut self, told: &RankStanding, view: Option<&View>) {
        let RankStanding { rank, incarnation, attempt, .. } = *told;
        self.waited.retain(|known| (known.rank, known.incarnation) != (rank, incarnation));
        if told.state == RankState::Fresh {
            let is_first = incarnation == Incarnation::default() || begins_with(view, rank, incarnation);
            self.waited.push(Waiting { rank, incarnation, attempt, is_first });
        }
    }

    /// Whether some rank was never started, in none of its incarnations. Then no collective that depends on all ranks was finished
    /// anywhere: it would need what that rank gives to it. So there is nothing to lose but what others did without it.
    ///
    /// An incarnation that waits for its start has never been started. It is the only one of its rank that might have been if it is the
    /// rank's first one, or if nothing had begun when a view was made that has this incarnation; and if nobody has come after it.
    fn has_not_begun(&self, seats: &[SeatRecord]) -> bool {
        let view = self.newest.as_ref();
        self.waited.iter().any(|Waiting { rank, incarnation, attempt, is_first }| {
            let index = rank.0 as usize;
            let is_newest_here = seats.get(index).is_some_and(|seat| seat.incarnation == Some(*incarnation));
            let is_newest = is_newest_here && view.is_none_or(|view| view.has(*rank, *incarnation));
            let is_first = *is_first || begins_with(view, *rank, *incarnation);
            is_newest && is_first && !self.was_replaced(*rank, *attempt)
        })
    }

    /// Whether a try of this rank's task asks for a seat before which there was another one after `attempt`: that one may have had the
    /// seat, if `attempt` was frozen or out of reach for long.
    fn was_replaced(&self, rank: Rank, attempt: Attempt) -> bool {
        let next = Attempt { task: attempt.task.saturating_add(1), ..attempt };
        self.joins.iter().any(|(_, joining, its, ..)| *joining == rank && *its > next)
    }
}

/// Whether nothing had begun when the view was made, which has this incarnation.
fn begins_with(view: Option<&View>, rank: Rank, incarnation: Incarnation) -> bool {
    view.is_some_and(|view| !view.has_begun && view.has(rank, incarnation))
}

impl Tracker {
    /// An agent of the former life. What it tells is believed: digests and incarnations are compared later, as always.
    pub(super) fn adopt(&mut self, agent: AgentId, view: Option<View>, ranks: &[RankStanding]) {
        let Some(takeover) = self.takeover.as_mut() else { return };
        ranks.iter().for_each(|told| takeover.hear(told, view.as_ref()));
        // Of two in one generation, one that has seen the plan knows more.
        let age = |view: &View| (view.generation, view.seats.iter().filter(|seat| seat.planned).count());
        let is_newer = |view: &View| takeover.newest.as_ref().is_none_or(|known| age(known) < age(view));
        if let Some(view) = view.filter(is_newer) {
            if takeover.newest.is_none() {
                // The first who knows of the others; they may have been frozen as it was.
                takeover.until = takeover.until.max(self.now.plus(self.config.timing.lost_after_millis));
            }
            self.chain = Chain::of(view.branches.clone());
            if self.terms.is_none() {
                self.terms.clone_from(&view.terms);
            }
            // What was agreed was agreed for the life of the job: no two views say different things.
            self.hooked = self.hooked.or(view.hooked);
            takeover.newest = Some(view);
        }
        for told in ranks {
            let now = self.now;
            let Some(seat) = self.seat_mut(told.rank) else { continue };
            if seat.incarnation.is_some_and(|known| known >= told.incarnation) {
                continue;
            }
            seat.incarnation = Some(told.incarnation);
            (seat.attempt, seat.was_here, seat.agent, seat.waits_since) = (told.attempt, true, agent, now);
            seat.results.clone_from(&told.results);
            seat.heard.clone_from(&told.heard);
            seat.board = told.board;
            seat.hook.clone_from(&told.hook);
            seat.state = match told.state {
                RankState::Fresh => State::Fresh,
                // One that has reported its end does so again.
                RankState::At(at) | RankState::Finished { at, .. } => {
                    State::Planned { at: at.version, round: 0, oldest: told.oldest }
                }
            };
            let version = seat.position().unwrap_or_default();
            self.highest = self.highest.max(version);
        }
    }

    /// What ranks assume that a former life has given seats to. It had compared that, unless there were two: then they
    /// don't go on together.
    pub(super) fn adopt_terms(&mut self, agent: AgentId, told: Vec<String>) {
        for terms in told {
            let agreed = self.terms.get_or_insert_with(|| terms.clone());
            if *agreed != terms {
                let executor = self.agents.get(&agent).map(|agent| agent.executor.clone()).unwrap_or_default();
                let error = Error::new(
                    Code::Incompatible,
                    format!(
                        "the ranks of executor {executor} come with other terms than those that came before; expected \
                         `{agreed}`, seen `{terms}`; use the same libraries and settings in all processes"
                    ),
                );
                return self.fail(error);
            }
        }
    }

    /// The line of an earlier job, whose checkpoints the agents can read. Having been that far, the job doesn't begin from
    /// nothing should they turn out unreadable. What agents know is newer.
    pub(super) fn resume(&mut self, branches: Vec<Version>, version: Version) {
        let is_told = self.takeover.as_ref().is_some_and(|takeover| takeover.newest.is_some());
        if self.generation.number == 0 && !self.planned_before && !is_told {
            self.chain = Chain::of(branches);
            self.highest = version;
        }
    }

    /// The lowest number that this life gives to an incarnation.
    pub(super) fn first_incarnation(&self) -> Incarnation {
        Incarnation((self.config.epoch - 1).saturating_mul(INCARNATIONS_PER_LIFE))
    }

    /// A seat is asked for while the job is being taken over: later. True when it was put off.
    pub(super) fn joins_later(
        &mut self,
        agent: AgentId,
        rank: Rank,
        attempt: Attempt,
        terms: &str,
        hook: &Hook,
    ) -> bool {
        let Some(takeover) = self.takeover.as_mut() else { return false };
        takeover.joins.retain(|(other, its, older, ..)| (*other, *its, *older) != (agent, rank, attempt));
        takeover.joins.push((agent, rank, attempt, terms.into(), hook.clone()));
        true
    }

    /// Whether this life still waits for those who knew what the former one knew. It does so at most as long as an agent may be
    /// silent, and seats nobody meanwhile.
    pub fn waits_for_former(&self) -> bool {
        self.takeover.is_some()
    }

    /// Whether the job is still being taken over. Ends that when everybody is there, or it is time.
    pub(super) fn is_taking_over(&mut self) -> bool {
        let Some(takeover) = &self.takeover else { return false };
        let is_taken = |(rank, seat): (usize, &SeatRecord)| {
            seat.state != State::Vacant
                || self.knew_the_end(seat)
                // Its next attempt is there: the one before has ended.
                || takeover.joins.iter().any(|(_, joining, ..)| joining.0 as usize == rank)
        };
        let is_whole = self.seats.iter().all(|seat| seat.state != State::Vacant);
        let all_there = takeover.newest.as_ref().is_some_and(|view| {
            let is_expected = |rank: usize| view.seats.get(rank).is_some_and(|seat| seat.state != SeatState::Vacant);
            let mut expected = self.seats.iter().enumerate().filter(|(rank, _)| is_expected(*rank));
            is_whole || self.has_all_agents_of(view) && expected.all(is_taken)
        });
        // Whoever knows the job may only be frozen: nothing has to be decided before somebody asks for a seat, or all have
        // one. Nobody has a view of a first rendezvous that isn't complete.
        let is_awaited = takeover.newest.is_some() || !takeover.joins.is_empty() || is_whole;
        if !all_there && (self.now < takeover.until || !is_awaited) {
            return true;
        }
        if let Some(takeover) = self.takeover.take() {
            self.take_over(takeover);
        }
        false
    }

    /// Whoever was left out of a view may have a newer one; here are all who were not.
    fn has_all_agents_of(&self, view: &View) -> bool {
        view.generation.epoch.checked_add(1) == Some(self.config.epoch)
            && view.agents.iter().all(|agent| self.agents.contains_key(&agent.agent))
    }

    fn take_over(&mut self, takeover: Takeover) {
        // What was entered alone counts as begun.
        let some_rank_never_started = self.highest == Version(0) && takeover.has_not_begun(&self.seats);
        let Takeover { newest, mut joins, .. } = takeover;
        let now = self.now;
        match newest {
            Some(view) => {
                // A plan that reached none of those it was for has begun nothing.
                let mut planned = view.seats.iter().enumerate().filter(|(_, seat)| seat.planned);
                let was_followed = planned.any(|(rank, told)| {
                    let seat = self.seat(Rank(rank as u32));
                    !seat.is_some_and(|seat| seat.incarnation == told.incarnation && seat.state == State::Fresh)
                });
                let was_planned = view.has_begun || was_followed || self.highest > Version(0);
                // A view tells who was there, and not how far they were; and there may have been newer ones.
                let has_not_begun = some_rank_never_started || !was_planned && self.has_all_agents_of(&view);
                self.planned_before = was_planned && !has_not_begun;
                for (rank, told) in view.seats.iter().enumerate() {
                    let rank = Rank(rank as u32);
                    let Some(seat) = self.seat_mut(rank).filter(|seat| seat.state == State::Vacant) else { continue };
                    seat.incarnation = seat.incarnation.max(told.incarnation);
                    seat.former = seat.incarnation;
                    let ended_well = seat.ended_well;
                    let Some(incarnation) = seat.incarnation else { continue };
                    let reason = String::from("it was not there any more when the tracker came back");
                    seat.last_seen.clone_from(&reason);
                    (seat.vacant_since, seat.waits_since) = (Some(now), now);
                    if told.state != SeatState::Vacant && !ended_well {
                        let executor = String::new();
                        let (silent_millis, deaths) = (0, 0);
                        self.event(Event::RankLost { rank, incarnation, executor, reason, silent_millis, deaths });
                    }
                }
                self.knows_nothing = !has_not_begun && !self.seats.iter().any(|seat| seat.position().is_some());
                // The dead may have been further than anybody who lives.
                self.ceiling = was_planned.then(|| self.highest.plus(2));
            }
            None => self.knows_nothing = !some_rank_never_started,
        }
        self.changed = Some(format!("the tracker came back (life {})", self.config.epoch));
        // The newest try of each rank gets the seat, and the others are refused.
        joins.sort_by_key(|(_, _, attempt, ..)| core::cmp::Reverse(*attempt));
        let is_there = |(agent, ..): &Join| self.agents.get(agent).is_some_and(AgentRecord::counts);
        let (here, late): (Vec<Join>, Vec<Join>) = joins.into_iter().partition(is_there);
        self.late_joins = late;
        for (agent, rank, attempt, terms, hook) in here {
            self.join(agent, rank, attempt, terms, hook);
        }
    }

    /// An agent that was lost during the takeover speaks again, over the same connection: it still waits for its seats.
    pub(super) fn admit_late(&mut self, agent: AgentId) {
        let (here, late) = core::mem::take(&mut self.late_joins).into_iter().partition(|(late, ..)| *late == agent);
        self.late_joins = late;
        let here: Vec<Join> = here;
        for (agent, rank, attempt, terms, hook) in here {
            self.join(agent, rank, attempt, terms, hook);
        }
    }

    /// A rank of a former life that this one has gone on without: it was frozen, or could not reach the tracker.
    pub(super) fn comes_too_late(&mut self, agent: AgentId, rank: Rank, incarnation: Incarnation) {
        let first = self.first_incarnation();
        let executor = self.agents.get(&agent).map(|agent| agent.executor.clone()).unwrap_or_default();
        let Some(seat) = self.seat_mut(rank).filter(|seat| incarnation < first && seat.former < Some(incarnation))
        else {
            return;
        };
        seat.former = Some(incarnation);
        let deaths = seat.deaths.len() as u32;
        let reason = format!("it came back when life {} of the tracker had gone on without it", self.config.epoch);
        self.event(Event::RankLost { rank, incarnation, executor, reason, silent_millis: 0, deaths });
    }

    /// An agent of the former life after the time of taking over. If nobody has come who knew anything, what it knows is enough to
    /// start from what is held, and not to lose silently what isn't.
    pub(super) fn comes_late(&mut self, view: &View) {
        let is_known = view.branches.len() < self.chain.branches().len();
        if self.knows_nothing && !is_known && (view.has_begun || view.seats.iter().any(|seat| seat.planned)) {
            self.chain = Chain::of(view.branches.clone());
            self.planned_before = true;
            self.hooked = self.hooked.or(view.hooked);
        }
    }

    /// Nobody was left who knew how far the job was when this life of the tracker began, and ranks come that were started
    /// before: to begin with version 0 would be to throw their work away without a word.
    pub(super) fn forgotten(&self) -> Option<Error> {
        // A rank that comes with its very first try was never there before: so the job can't have begun.
        let is_restart = self.seats.iter().all(|seat| seat.attempt > Attempt::default());
        (self.knows_nothing && (is_restart || self.planned_before)).then(|| {
            Error::new(
                Code::Unrecoverable,
                format!(
                    "the tracker was started again (life {}) and nobody is left who knows how far the job was: its ranks \
                     died before it was back, and no durable checkpoint can be read. Start the job again",
                    self.config.epoch
                ),
            )
        })
    }

    /// Another life of the tracker has this job already. Nothing is told to anybody: they are its agents.
    pub(super) fn superseded(&mut self, link: u64, executor: &str, epoch: u32) {
        self.outputs.push_back(Output::Close { link });
        if self.over.is_some() {
            return;
        }
        let error = Error::new(
            Code::BadState,
            format!(
                "life {epoch} of the tracker has taken this job over, as executor {executor} tells; this is life {}, which \
                 ends",
                self.config.epoch
            ),
        );
        self.over = Some(Err(error.clone()));
        self.changed = None;
        self.missing_standings.clear();
        self.outputs.push_back(Output::Over(Err(error)));
    }

    /// An agent knows how the job ended, which the former life had told it.
    pub(super) fn ended_before(&mut self, executor: &str, outcome: Result<u128, Error>) {
        if self.over.is_some() {
            return;
        }
        self.takeover = None;
        match outcome {
            Ok(digest) => {
                self.over = Some(Ok(digest));
                self.event(Event::JobEnded { digest, deaths: 0 });
                let job = super::JobResult { digest, result: Vec::new(), deaths: Vec::new() };
                self.outputs.push_back(Output::Over(Ok(job)));
                self.send_all(&crate::message::TrackerMessage::Ended(Ok(digest)));
            }
            Err(Error { code, message }) => {
                self.fail(Error::new(
                    code,
                    format!("{message} (so ended a former life of the tracker, as executor {executor} tells)"),
                ));
            }
        }
    }
}
