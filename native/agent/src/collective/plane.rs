//! The collectives' side of an agent: what the control thread tells is brought to the seats, and seats' results are served.

use super::memory::AREA_BYTES;
use super::parts::{Parts, Writing};
use super::seat::{Seat, State};
use crate::agent::MemberId;
use crate::logs::{Budget, Commons, Logged, Shelf};
use crate::plane::{AgentReports, DataPlane, PlanePeer, PlaneUsage};
use bytes::Bytes;
use parking_lot::Mutex;
use rejoin_protocol::collective::frame::Expected;
use rejoin_protocol::collective::{self, Entry, Extent, Fetch, Heard, Place, Signature};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::fault::{FaultRule, Moment};
use rejoin_protocol::host::Start;
use rejoin_protocol::ids::{Generation, Incarnation, Lane, Lineage, Phase, Rank, Version};
use rejoin_transport::shm::Segment;
use rejoin_transport::Link;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// The collectives of all ranks of one process: the agent's plane, or a part of it.
pub struct CollectivePlane {
    seats: Mutex<BTreeMap<MemberId, Arc<Seat>>>,
    agent: OnceLock<Arc<dyn AgentReports>>,
    rules: Mutex<Vec<FaultRule>>,
    has_rules: AtomicBool,
    /// What ranks of this process share, by nonce.
    segments: Mutex<BTreeMap<u64, Weak<Segment>>>,
    /// What the logs of all ranks may use.
    budget: Arc<Budget>,
    /// Memory for results that waits to be used again.
    pub(super) shelf: Arc<Shelf>,
    /// The longer results in memory, which the ranks' logs share.
    commons: Commons,
    /// Results that ranks of this process write together.
    writing: Writing,
    /// Has others who keep logs under this budget make room.
    relief: Option<Box<Relief>>,
    /// One rank at a time writes results to disk.
    spilling: Mutex<()>,
}

/// Asks somebody else to make room in the budget that is shared with him. Returns at once.
pub type Relief = dyn Fn() + Send + Sync;

impl CollectivePlane {
    /// Whose logs have this budget to themselves.
    pub fn new(budget: Budget) -> Self {
        CollectivePlane::sharing(Arc::new(budget), None)
    }

    /// Whose logs share a budget with other ones. `relief` asks those to make room.
    pub fn sharing(budget: Arc<Budget>, relief: Option<Box<Relief>>) -> Self {
        let shelf = Arc::new(Shelf::new(budget.clone()));
        CollectivePlane {
            commons: Commons::new(budget.clone(), shelf.clone()),
            shelf,
            writing: Writing::default(),
            seats: Mutex::default(),
            agent: OnceLock::new(),
            rules: Mutex::default(),
            has_rules: AtomicBool::new(false),
            segments: Mutex::default(),
            budget,
            relief,
            spilling: Mutex::new(()),
        }
    }

    /// Memory that a rank that is about to join shares with others of its host: its join tells them where it is. `None` when there
    /// is none to be had: then all go over links.
    pub fn offer(&self, rank: Rank) -> Option<Arc<Segment>> {
        match Segment::new(AREA_BYTES) {
            Ok(segment) => Some(self.share(segment)),
            Err(error) => {
                log::warn!("rank {rank} shares no memory with others: {error}");
                None
            }
        }
    }

    /// A result as a log of this process keeps it, and its bytes there.
    pub(super) fn logged(&self, attempt: Generation, place: Place, result: Bytes) -> (Logged, Bytes) {
        self.commons.keep(attempt, place, result)
    }

    /// The result of a collective whose ranks are all in this process, each of whom writes a part of so many bytes. `None` for one that
    /// another rank has begun otherwise.
    pub(super) fn parts(&self, expected: &Expected, lengths: Vec<usize>) -> Option<Arc<Parts>> {
        self.writing.of(expected.attempt, expected.place, lengths, &self.shelf)
    }

    /// Brings the oldest results in memory to disk while the logs use more than they may: those of this rank first. Called by
    /// ranks' own threads in their calls, never by the control thread, whose heartbeats must not wait for a disk.
    ///
    /// # Errors
    /// `OutOfSpace` when the disk or a limit doesn't allow it. All results are as they were.
    pub(super) fn make_room(&self, own: &Arc<Seat>) -> Result<(), Error> {
        self.shelf.make_room();
        if self.budget.excess() == 0 {
            return Ok(());
        }
        let _one = self.spilling.lock();
        let mut others = self.everybody();
        others.retain(|seat| seat.member != own.member);
        for seat in std::iter::once(own).chain(&others) {
            loop {
                let excess = self.budget.excess();
                if excess == 0 {
                    return Ok(());
                }
                let oldest = {
                    let mut state = seat.lock();
                    state.results.tell();
                    state.oldest(excess)
                };
                if oldest.is_empty() {
                    break;
                }
                for (phase, seqno, bytes) in oldest {
                    let file = seat.lock().results.file(phase)?;
                    // Written without the lock, which the control thread needs too.
                    let there = file.append(&bytes)?;
                    for holder in std::iter::once(own).chain(&others).filter(|holder| holder.lineage == seat.lineage) {
                        holder.lock().spilled(phase, seqno, &bytes, &there);
                    }
                    self.shelf.keep(bytes);
                }
            }
        }
        // What is left is too much for the books alone, or it is none of these logs': another one's under this budget, or a result that a
        // rank is about to log, which makes room itself then.
        if self.budget.excess() > 0 && self.books() > self.budget.memory_limit() {
            return Err(self.budget.books_alone());
        }
        if let (true, Some(relief)) = (self.budget.excess() > 0, &self.relief) {
            relief();
        }
        Ok(())
    }

    /// Bytes of memory that the ranks' logs take, without the results that they keep together.
    fn books(&self) -> u64 {
        self.everybody().iter().map(|seat| seat.lock().results.memory()).sum()
    }

    pub(super) fn seat(&self, member: MemberId) -> Option<Arc<Seat>> {
        self.seats.lock().get(&member).cloned()
    }

    /// A rank of this process is going to share this.
    fn share(&self, segment: Segment) -> Arc<Segment> {
        let segment = Arc::new(segment);
        let mut segments = self.segments.lock();
        segments.retain(|_, segment| segment.strong_count() > 0);
        segments.insert(segment.invitation().nonce, Arc::downgrade(&segment));
        segment
    }

    /// What a rank of this process shares.
    pub(super) fn segment(&self, nonce: u64) -> Option<Arc<Segment>> {
        self.segments.lock().get(&nonce)?.upgrade()
    }

    /// The agent; none before it has attached itself, which it does before it seats anybody.
    pub(super) fn agent(&self) -> Option<&dyn AgentReports> {
        self.agent.get().map(|agent| &**agent)
    }

    /// A rule whose moment this is, if there is one; it is used up. Nothing but one load while there are no rules.
    pub(super) fn due(&self, member: MemberId, is_now: impl Fn(&Moment) -> bool) -> Option<FaultRule> {
        if !self.has_rules.load(Ordering::Relaxed) {
            return None;
        }
        let mut rules = self.rules.lock();
        let found = rules.iter().position(|rule| {
            let incarnation = rule.incarnation.is_none_or(|wanted| wanted == member.incarnation);
            rule.rank == member.rank && incarnation && is_now(&rule.moment)
        })?;
        Some(rules.remove(found))
    }

    /// The lowest number of sent bytes that a rule waits for in a collective, before which `left` bytes were sent in its phase.
    pub(super) fn awaited_byte(&self, member: MemberId, phase: Phase, seqno: u32, left: u64) -> Option<u64> {
        if !self.has_rules.load(Ordering::Relaxed) {
            return None;
        }
        let rules = self.rules.lock();
        let mine = rules.iter().filter(|rule| {
            rule.rank == member.rank && rule.incarnation.is_none_or(|wanted| wanted == member.incarnation)
        });
        mine.filter_map(|rule| match rule.moment {
            Moment::Sent { phase: p, seqno: s, bytes } if (p, s) == (phase, seqno) => Some(bytes),
            Moment::Bytes { phase: p, bytes } if p == phase => Some(bytes.saturating_sub(left)),
            _ => None,
        })
        .min()
    }

    fn everybody(&self) -> Vec<Arc<Seat>> {
        self.seats.lock().values().cloned().collect()
    }

    /// Changes a seat, and does what its participant wants then. What other ranks of this process hold is taken from them
    /// at once.
    fn change<T>(&self, seat: &Seat, how: impl FnOnce(&mut State) -> T) -> T {
        let (answer, mut fetches, mut changed) = {
            let mut state = seat.lock();
            let answer = how(&mut state);
            let (fetches, changed) = state.drain();
            (answer, fetches, changed)
        };
        while let Some(mut fetch) = fetches.pop() {
            let here = self.results(fetch.lineage, fetch.phase, fetch.from, fetch.to);
            {
                let mut state = seat.lock();
                for entry in here {
                    if state.fetched(&fetch, fetch.from, entry).is_err() {
                        break; // another one than the next: nothing is lost, it is fetched from elsewhere
                    }
                    fetch.from += 1;
                }
                let (more, also) = state.drain();
                fetches.extend(more);
                changed |= also;
            }
            if let (true, Some(agent)) = (fetch.from < fetch.to, self.agent()) {
                agent.fetch(seat.member.rank, seat.member.incarnation, fetch);
            }
        }
        if changed {
            seat.changed();
        }
        answer
    }
}

impl DataPlane for CollectivePlane {
    fn attach(&self, agent: Arc<dyn AgentReports>) {
        // An agent attaches itself once.
        let _ = self.agent.set(agent);
    }

    fn seated(&self, rank: Rank, incarnation: Incarnation) {
        let error = Error::new(
            Code::Fenced,
            format!("rank {rank} has a newer incarnation, {incarnation}, in this process; retry nothing here"),
        );
        let mut older = Vec::new();
        self.seats.lock().retain(|member, seat| {
            let stays = member.rank != rank || member.incarnation >= incarnation;
            if !stays {
                older.push(seat.clone());
            }
            stays
        });
        for seat in older {
            seat.fail(error.clone());
        }
    }

    fn lanes(&self, _: bool) -> &'static [Lane] {
        &[Lane::Collectives]
    }

    fn start(&self, rank: Rank, world: u32, start: &Start) {
        let Start { incarnation, lineage, version, .. } = *start;
        let member = MemberId { rank, incarnation };
        match Seat::new(member, world, lineage, version, self.budget.clone()) {
            Ok(seat) => drop(self.seats.lock().insert(member, Arc::new(seat))),
            // The rank finds no seat after its join, which is told to it then; its peers see it leave.
            Err(error) => log::error!("{error}"),
        }
    }

    fn peers(&self, rank: Rank, incarnation: Incarnation, peers: Vec<PlanePeer>) {
        if let Some(seat) = self.seat(MemberId { rank, incarnation }) {
            seat.lock().peers = peers;
        }
        // Others of this process may have waited for this one to be there.
        for seat in self.everybody() {
            seat.changed();
        }
    }

    fn link(&self, rank: Rank, incarnation: Incarnation, peer: Rank, theirs: Incarnation, _: Lane, link: Link) {
        if let Some(seat) = self.seat(MemberId { rank, incarnation }) {
            seat.lock().mail.push((peer, theirs, link));
            seat.changed();
        }
    }

    fn free(&self, rank: Rank, incarnation: Incarnation, error: Error) {
        let member = MemberId { rank, incarnation };
        let gone = self.seats.lock().remove(&member);
        if let Some(seat) = gone {
            seat.fail(error);
        }
    }

    fn hold(&self, rank: Rank, incarnation: Incarnation) -> Version {
        let seat = self.seat(MemberId { rank, incarnation });
        seat.and_then(|seat| seat.lock().participant.log().oldest()).unwrap_or_default()
    }

    fn freeze(&self, rank: Rank, incarnation: Incarnation, generation: Generation) -> Vec<Extent> {
        let Some(seat) = self.seat(MemberId { rank, incarnation }) else { return Vec::new() };
        self.change(&seat, |state| state.participant.freeze(generation))
    }

    fn heard(&self, rank: Rank, incarnation: Incarnation) -> Vec<Heard> {
        let seat = self.seat(MemberId { rank, incarnation });
        seat.map_or(Vec::new(), |seat| seat.lock().participant.heard())
    }

    fn plan(&self, rank: Rank, incarnation: Incarnation, plan: collective::Plan) {
        let Some(seat) = self.seat(MemberId { rank, incarnation }) else { return };
        self.change(&seat, |state| state.participant.plan(plan));
    }

    fn results(&self, lineage: Lineage, phase: Phase, from: u32, to: u32) -> Vec<Entry<Logged>> {
        let mut best: Vec<Entry<Logged>> = Vec::new();
        for seat in self.everybody().into_iter().filter(|seat| seat.lineage == lineage) {
            let state = seat.lock();
            let log = state.participant.log();
            if log.finished(phase).min(to) > from + best.len() as u32 {
                best = (from..to).map_while(|seqno| log.entry(phase, seqno).cloned()).collect();
            }
        }
        best
    }

    fn fetched(&self, rank: Rank, incarnation: Incarnation, fetch: &Fetch, seqno: u32, entry: Entry<Bytes>) {
        let Some(seat) = self.seat(MemberId { rank, incarnation }) else { return };
        let Entry { signature, key, result } = entry;
        let place = Place { lineage: fetch.lineage, phase: fetch.phase, seqno };
        let entry = Entry { signature, key, result: self.logged(fetch.generation, place, result).0 };
        let taken = self.change(&seat, |state| state.fetched(fetch, seqno, entry));
        if let Err(error) = taken {
            seat.fail(error);
        }
    }

    fn signature(&self, rank: Rank, place: &Place) -> Option<Signature> {
        let seats = self.everybody();
        // The newest incarnation is the last one.
        let seat = seats.iter().rev().find(|seat| seat.member.rank == rank)?;
        let state = seat.lock();
        state.participant.signature(place)
    }

    fn told(&self, rank: Rank, incarnation: Incarnation, peer: Rank, place: &Place, call: Option<Signature>) {
        if let Some(seat) = self.seat(MemberId { rank, incarnation }) {
            seat.lock().told = Some((peer, *place, call));
            seat.changed();
        }
    }

    fn release(&self, rank: Rank, incarnation: Incarnation) {
        if let Some(seat) = self.seat(MemberId { rank, incarnation }) {
            self.change(&seat, |state| state.participant.release());
        }
    }

    fn faults(&self, rules: Vec<FaultRule>) {
        let mine = |rule: &FaultRule| {
            matches!(
                rule.moment,
                Moment::Entering { .. }
                    | Moment::Sent { .. }
                    | Moment::Bytes { .. }
                    | Moment::Completed { .. }
                    | Moment::Replayed { .. }
                    | Moment::Replaying
                    | Moment::Again { .. }
                    | Moment::Loading
            )
        };
        let rules: Vec<FaultRule> = rules.into_iter().filter(mine).collect();
        self.has_rules.store(!rules.is_empty(), Ordering::Relaxed);
        *self.rules.lock() = rules;
    }

    fn usage(&self) -> PlaneUsage {
        let (log_bytes, log_bytes_peak, spilled_bytes) = self.budget.used();
        PlaneUsage { log_bytes, idle_bytes: self.budget.idle(), log_bytes_peak, spilled_bytes }
    }

    fn is_full(&self) -> bool {
        self.budget.excess() > 0
    }

    fn close(&self) {
        let seats = std::mem::take(&mut *self.seats.lock());
        for seat in seats.into_values() {
            seat.fail(Error::new(Code::BadState, "the agent of this process is over"));
        }
    }
}
