//! The collectives' side of an agent: what the control thread says is brought to the local ranks,
//! and local ranks' results are served.

use super::local_rank::{LocalRank, LocalRankState};
use super::parts::{Parts, Writing};
use bytes::Bytes;
use parking_lot::Mutex;
use rejoin_agent::logs::{Budget, BufferPool, Logged, ResultCache};
use rejoin_agent::{AgentReports, DataPlane, PlaneUsage, ResultPlane};
use rejoin_protocol::collective::frame::Expected;
use rejoin_protocol::collective::{self, CollectiveId, Entry, Extent, Fetch, ObservedInput, Signature};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::fault::{FaultRule, Moment};
use rejoin_protocol::host::Start;
use rejoin_protocol::ids::{Generation, Lineage, MemberId, Phase, Rank, Version};
use rejoin_transport::shm::Segment;
use rejoin_transport::Link;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Bytes of each of the two slots of a rank's segment.
const SLOT_BYTES: usize = 256 << 10;

/// The collectives of all ranks of one process: the agent's plane, or a part of it.
pub struct CollectivePlane {
    local_ranks: Mutex<BTreeMap<MemberId, Arc<LocalRank>>>,
    agent: OnceLock<Arc<dyn AgentReports>>,
    rules: Mutex<Vec<FaultRule>>,
    has_rules: AtomicBool,
    /// What ranks of this process share, by nonce.
    segments: Mutex<BTreeMap<u64, Weak<Segment>>>,
    /// What the logs of all ranks may use.
    budget: Arc<Budget>,
    /// Memory for results that waits to be used again.
    pub(super) pool: Arc<BufferPool>,
    /// The longer results in memory, which the ranks' logs share.
    result_cache: ResultCache,
    /// Results that ranks of this process write together.
    writing: Writing,
    /// Has others that keep logs under this budget make room.
    on_pressure: Option<Box<PressureCallback>>,
    /// One rank at a time writes results to disk.
    spilling: Mutex<()>,
    /// In which rounds ranks of this process were sent back that haven't gone on yet, by what they were in the world
    /// that has made what they will start from.
    sent_back: Mutex<BTreeMap<Rank, u32>>,
}

/// Asks another holder to make room in the budget that is shared with it. Returns at once.
pub type PressureCallback = dyn Fn() + Send + Sync;

impl CollectivePlane {
    /// Whose logs have this budget to themselves.
    pub fn new(budget: Budget) -> Self {
        CollectivePlane::sharing(Arc::new(budget), None)
    }

    /// Whose logs share a budget with other ones. `on_pressure` asks those to make room.
    pub fn sharing(budget: Arc<Budget>, on_pressure: Option<Box<PressureCallback>>) -> Self {
        let pool = Arc::new(BufferPool::new(budget.clone()));
        CollectivePlane {
            result_cache: ResultCache::new(budget.clone(), pool.clone()),
            pool,
            writing: Writing::default(),
            local_ranks: Mutex::default(),
            agent: OnceLock::new(),
            rules: Mutex::default(),
            has_rules: AtomicBool::new(false),
            segments: Mutex::default(),
            budget,
            on_pressure,
            spilling: Mutex::new(()),
            sent_back: Mutex::default(),
        }
    }

    /// A rank of this process was sent back to an older version in this round.
    pub(super) fn is_sent_back(&self, rank: Rank, round: u32) {
        self.sent_back.lock().insert(rank, round);
    }

    /// What was this rank begins again: the round in which it was sent back, if it was, in this process.
    pub(super) fn goes_on(&self, was: Rank) -> Option<u32> {
        self.sent_back.lock().remove(&was)
    }

    /// Memory that a rank that is about to join shares with others of its host: its join says
    /// where it is. `None` when there is none to be had: then all go over links.
    pub fn offer(&self, rank: Rank) -> Option<Arc<Segment>> {
        match Segment::new(SLOT_BYTES) {
            Ok(segment) => Some(self.share(segment)),
            Err(error) => {
                log::warn!("rank {rank} shares no memory with others: {error}");
                None
            }
        }
    }

    /// A result as a log of this process keeps it, and its bytes there.
    pub(super) fn logged(&self, generation: Generation, collective_id: CollectiveId, result: Bytes) -> (Logged, Bytes) {
        self.result_cache.keep(generation, collective_id, result)
    }

    /// The result of a collective whose ranks are all in this process, each of which writes a part
    /// of so many bytes. `None` for one that another rank has begun otherwise.
    pub(super) fn parts(&self, expected: &Expected, lengths: Vec<usize>) -> Option<Arc<Parts>> {
        self.writing.of(expected.generation, expected.collective_id, lengths, &self.pool)
    }

    /// Brings the oldest results in memory to disk while the logs use more than they may: those of
    /// this rank first. Called by ranks' own threads in their calls, never by the control thread,
    /// whose heartbeats must not wait for a disk.
    ///
    /// # Errors
    /// `OutOfSpace` when the disk or a limit doesn't allow it. All results are as they were.
    pub(super) fn make_room(&self, own: &Arc<LocalRank>) -> Result<(), Error> {
        self.pool.make_room();
        if self.budget.excess() == 0 {
            return Ok(());
        }
        let _one = self.spilling.lock();
        let mut others = self.local_ranks();
        others.retain(|local_rank| local_rank.member != own.member);
        for local_rank in std::iter::once(own).chain(&others) {
            loop {
                let excess = self.budget.excess();
                if excess == 0 {
                    return Ok(());
                }
                let oldest = {
                    let mut state = local_rank.lock();
                    state.results.report();
                    state.oldest(excess)
                };
                if oldest.is_empty() {
                    break;
                }
                for (phase, seqno, bytes) in oldest {
                    let file = local_rank.lock().results.file(phase)?;
                    // Written without the lock, which the control thread needs too.
                    let there = file.append(&bytes)?;
                    for holder in
                        std::iter::once(own).chain(&others).filter(|holder| holder.lineage == local_rank.lineage)
                    {
                        holder.lock().spilled(phase, seqno, &bytes, &there);
                    }
                    self.pool.keep(bytes);
                }
            }
        }
        // What is left is too much for the records alone, or it is none of these logs': another one's
        // under this budget, or a result that a rank is about to log, which makes room itself then.
        if self.budget.excess() > 0 && self.result_memory() > self.budget.memory_limit() {
            return Err(self.budget.overhead_alone());
        }
        if let (true, Some(on_pressure)) = (self.budget.excess() > 0, &self.on_pressure) {
            on_pressure();
        }
        Ok(())
    }

    /// Bytes of memory that the ranks' logs take, without the results that they keep together.
    fn result_memory(&self) -> u64 {
        self.local_ranks().iter().map(|local_rank| local_rank.lock().results.memory()).sum()
    }

    pub(super) fn local_rank(&self, member: MemberId) -> Option<Arc<LocalRank>> {
        self.local_ranks.lock().get(&member).cloned()
    }

    /// A rank of this process is going to share this.
    fn share(&self, segment: Segment) -> Arc<Segment> {
        let segment = Arc::new(segment);
        let mut segments = self.segments.lock();
        segments.retain(|_, segment| segment.strong_count() > 0);
        segments.insert(segment.segment_address().nonce, Arc::downgrade(&segment));
        segment
    }

    /// What a rank of this process shares.
    pub(super) fn segment(&self, nonce: u64) -> Option<Arc<Segment>> {
        self.segments.lock().get(&nonce)?.upgrade()
    }

    /// The agent; none before it has attached itself, which it does before its first rank.
    pub(super) fn agent(&self) -> Option<&dyn AgentReports> {
        self.agent.get().map(|agent| &**agent)
    }

    /// A rule whose moment this is, if there is one; it is used up. Nothing but one load while there are no rules.
    pub(super) fn due(&self, member: MemberId, is_now: impl Fn(&Moment) -> bool) -> Option<FaultRule> {
        if !self.has_rules.load(Ordering::Relaxed) {
            return None;
        }
        let mut rules = self.rules.lock();
        let found =
            rules.iter().position(|rule| rule.is_for(member.rank, member.incarnation) && is_now(&rule.moment))?;
        Some(rules.remove(found))
    }

    /// The lowest number of sent bytes that a rule waits for in a collective, before which `left`
    /// bytes were sent in its phase.
    pub(super) fn awaited_byte(&self, member: MemberId, phase: Phase, seqno: u32, left: u64) -> Option<u64> {
        if !self.has_rules.load(Ordering::Relaxed) {
            return None;
        }
        let rules = self.rules.lock();
        let mine = rules.iter().filter(|rule| rule.is_for(member.rank, member.incarnation));
        mine.filter_map(|rule| match rule.moment {
            Moment::Sent { phase: p, seqno: s, bytes } if (p, s) == (phase, seqno) => Some(bytes),
            Moment::Bytes { phase: p, bytes } if p == phase => Some(bytes.saturating_sub(left)),
            _ => None,
        })
        .min()
    }

    fn local_ranks(&self) -> Vec<Arc<LocalRank>> {
        self.local_ranks.lock().values().cloned().collect()
    }

    /// Changes a local rank, and does what its participant wants then. What other ranks of this
    /// process hold is taken from them at once.
    fn change<T>(&self, local_rank: &LocalRank, how: impl FnOnce(&mut LocalRankState) -> T) -> T {
        let (answer, mut fetches, mut changed) = {
            let mut state = local_rank.lock();
            let answer = how(&mut state);
            let (fetches, changed) = state.drain();
            (answer, fetches, changed)
        };
        while let Some(mut fetch) = fetches.pop() {
            let here = self.results(fetch.lineage, fetch.phase, fetch.from, fetch.to);
            {
                let mut state = local_rank.lock();
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
                agent.fetch(local_rank.member, fetch);
            }
        }
        if changed {
            local_rank.changed();
        }
        answer
    }
}

impl DataPlane for CollectivePlane {
    fn attach(&self, agent: Arc<dyn AgentReports>) {
        // An agent attaches itself once.
        let _ = self.agent.set(agent);
    }

    fn join_accepted(&self, newest: MemberId) {
        let MemberId { rank, incarnation } = newest;
        let error = Error::new(
            Code::Fenced,
            format!("rank {rank} has a newer incarnation, {incarnation}, in this process; retry nothing here"),
        );
        let mut older = Vec::new();
        self.local_ranks.lock().retain(|member, local_rank| {
            let stays = member.rank != rank || *member >= newest;
            if !stays {
                older.push(local_rank.clone());
            }
            stays
        });
        for local_rank in older {
            local_rank.fail(error.clone());
        }
    }

    fn start(&self, member: MemberId, hosts: &[usize], start: &Start) {
        let was = start.former.as_ref().map_or(Some(member.rank), |former| former.rank);
        match LocalRank::new(member, was, hosts.to_vec(), start.lineage, start.version, self.budget.clone()) {
            Ok(local_rank) => drop(self.local_ranks.lock().insert(member, Arc::new(local_rank))),
            // The rank finds no local rank after its join, which it learns then; its peers see it leave.
            Err(error) => log::error!("rank {}: {error}", member.rank),
        }
    }

    fn peers(&self, member: MemberId, peers: &[MemberId]) {
        if let Some(local_rank) = self.local_rank(member) {
            local_rank.lock().peers = peers.to_vec();
            local_rank.changed();
        }
    }

    fn link(&self, member: MemberId, peer: MemberId, link: Link) {
        if let Some(local_rank) = self.local_rank(member) {
            local_rank.lock().mail.push((peer, link));
            local_rank.changed();
        }
    }

    fn free(&self, member: MemberId, error: Error) {
        let gone = self.local_ranks.lock().remove(&member);
        if let Some(local_rank) = gone {
            local_rank.fail(error);
        }
    }

    fn hold(&self, member: MemberId) -> Version {
        let local_rank = self.local_rank(member);
        local_rank.and_then(|local_rank| local_rank.lock().participant.log().oldest()).unwrap_or_default()
    }

    fn release(&self, member: MemberId) {
        if let Some(local_rank) = self.local_rank(member) {
            self.change(&local_rank, |state| state.participant.release());
        }
    }

    fn faults(&self, rules: &[FaultRule]) {
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
        let rules: Vec<FaultRule> = rules.iter().filter(|rule| mine(rule)).cloned().collect();
        self.has_rules.store(!rules.is_empty(), Ordering::Relaxed);
        *self.rules.lock() = rules;
    }

    fn usage(&self) -> PlaneUsage {
        let (log_bytes, log_bytes_peak, spilled_bytes) = self.budget.used();
        PlaneUsage { log_bytes, idle_bytes: self.budget.idle(), log_bytes_peak, spilled_bytes }
    }

    fn close(&self) {
        let local_ranks = std::mem::take(&mut *self.local_ranks.lock());
        for local_rank in local_ranks.into_values() {
            local_rank.fail(Error::new(Code::BadState, "the agent of this process is over"));
        }
    }
}

impl ResultPlane for CollectivePlane {
    fn pause(&self, member: MemberId, generation: Generation) -> (Vec<Extent>, Vec<ObservedInput>) {
        let Some(local_rank) = self.local_rank(member) else { return Default::default() };
        self.change(&local_rank, |state| (state.participant.pause(generation), state.participant.observed()))
    }

    fn plan(&self, member: MemberId, plan: collective::RankPlan) {
        let Some(local_rank) = self.local_rank(member) else { return };
        self.change(&local_rank, |state| state.participant.plan(plan));
    }

    fn results(&self, lineage: Lineage, phase: Phase, from: u32, to: u32) -> Vec<Entry<Logged>> {
        let mut best: Vec<Entry<Logged>> = Vec::new();
        for local_rank in self.local_ranks().into_iter().filter(|local_rank| local_rank.lineage == lineage) {
            let state = local_rank.lock();
            if state.has_left {
                continue;
            }
            let log = state.participant.log();
            if log.finished(phase).min(to) > from + best.len() as u32 {
                best = (from..to).map_while(|seqno| log.entry(phase, seqno).cloned()).collect();
            }
        }
        best
    }

    fn left(&self, member: MemberId) {
        if let Some(local_rank) = self.local_rank(member) {
            local_rank.lock().has_left = true;
        }
    }

    fn fetched(&self, member: MemberId, fetch: &Fetch, seqno: u32, entry: Entry<Bytes>) {
        let Some(local_rank) = self.local_rank(member) else { return };
        let Entry { signature, key, result } = entry;
        let collective_id = CollectiveId { lineage: fetch.lineage, phase: fetch.phase, seqno };
        let entry = Entry { signature, key, result: self.logged(fetch.generation, collective_id, result).0 };
        let taken = self.change(&local_rank, |state| state.fetched(fetch, seqno, entry));
        if let Err(error) = taken {
            local_rank.fail(error);
        }
    }

    fn signature(&self, rank: Rank, collective_id: &CollectiveId) -> Option<Signature> {
        let local_ranks = self.local_ranks();
        // The newest incarnation is the last one.
        let local_rank = local_ranks.iter().rev().find(|local_rank| local_rank.member.rank == rank)?;
        let state = local_rank.lock();
        state.participant.signature(collective_id)
    }

    fn peer_call(&self, member: MemberId, peer: Rank, collective_id: &CollectiveId, call: Option<Signature>) {
        if let Some(local_rank) = self.local_rank(member) {
            local_rank.lock().peer_call = Some((peer, *collective_id, call));
            local_rank.changed();
        }
    }

    fn is_full(&self) -> bool {
        self.budget.excess() > 0
    }
}
