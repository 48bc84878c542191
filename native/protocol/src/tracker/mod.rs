//! The tracker of one job: which ranks live, where newcomers start, when it is over.

mod agent_record;
mod agents;
mod clock;
mod deaths;
mod door;
mod ending;
mod former_life;
mod incoming_result;
mod losses;
mod membership;
mod pair_troubles;
mod planned;
mod planning;
mod reach;
mod resizing;
mod slots;
mod standing;
mod standings;
mod status;
mod takeover;
mod terms;
mod worlds;

use crate::error::{Code, Error};
use crate::event::Event;
use crate::fault::FaultRule;
use crate::former::FormerWorlds;
use crate::ids::{AgentId, Attempt, Generation, MemberId, Millis, Position, Rank, Task};
use crate::message::{AgentMessage, CheckpointWish, Standing, Timing, TrackerMessage};
use crate::plan::Chain;
use crate::report::Report;
use crate::resize::Elastic;
use crate::start::JobStart;
use agent_record::AgentRecord;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use clock::Clock;
use former_life::FormerLife;
use incoming_result::IncomingResult;
use losses::Losses;
use pair_troubles::PairTroubles;
use planned::Planned;
use reach::Reach;
use slots::{RankSlot, RankSlotState};
use standings::Standings;
use terms::Terms;
use worlds::Worlds;

/// What a job is.
#[derive(Clone, Debug)]
pub struct TrackerConfig {
    /// Number of ranks, at least 1.
    pub world: u32,
    /// So many tasks more than ranks does the framework run: each task asks for a rank, and those that get none stand
    /// by ([`crate::spares`]). With 0 each task is its rank.
    pub spares: u32,
    /// Within which bounds the world may shrink and grow, which has `world` ranks at first. In such a job too each task
    /// asks for a rank: the one that it has changes with the world. `None`: the world is fixed.
    pub elastic: Option<Elastic>,
    /// Which life of the tracker, from 1.
    pub epoch: u32,
    /// The rhythm.
    pub timing: Timing,
    /// How many deaths of one rank end the job.
    pub deaths: DeathLimit,
    /// How the job begins. What agents know in a later life is newer.
    pub start: JobStart,
    /// Rules for tests and the demo.
    pub faults: Vec<FaultRule>,
    /// Whether the owner asks for rank 0's result. Otherwise only the model's digest is sent.
    pub wants_result: bool,
}

/// How many deaths of one rank end the job.
#[derive(Clone, Debug)]
pub struct DeathLimit {
    /// So many do: the framework gives up after as many failures. At least 1.
    pub deaths: u32,
    /// Name of the setting that raises it, as the user of the framework knows it.
    pub setting: String,
    /// Whether the framework says of each death if it counts ([`TrackerInput::TaskGone`]), which may be after
    /// the tracker has seen it: a death ends the job then and not before. What a cluster manager took away doesn't
    /// count with Spark. Otherwise each death counts when it is seen.
    pub framework_counts: bool,
    /// Whether the job ends at the limit. Otherwise who starts the ranks counts their deaths and ends it, and the limit
    /// is for people who ask how the job is.
    pub ends_job: bool,
}

impl DeathLimit {
    /// Each death counts when it is seen.
    pub fn new(deaths: u32, setting: impl Into<String>) -> Self {
        DeathLimit { deaths, setting: setting.into(), framework_counts: false, ends_job: true }
    }

    /// Who starts the ranks counts for itself.
    pub fn of_starter(deaths: u32, setting: impl Into<String>) -> Self {
        DeathLimit { ends_job: false, ..DeathLimit::new(deaths, setting) }
    }
}

/// One thing that happened to the tracker. `link` is the driver's number of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrackerInput {
    /// An agent said something.
    Message {
        /** Over which connection. */
        link: u64,
        /** What. */
        message: AgentMessage,
    },
    /// A connection ended.
    Closed {
        /** Which. */
        link: u64,
        /** What was seen. */
        reason: String,
    },
    /// Answer to `TrackerOutput::Probe`.
    Probed {
        /** The agent that was probed. */
        agent: AgentId,
        /** Its process is gone: nothing listens at its address. */
        gone: bool,
    },
    /// The framework says that an executor is gone.
    ExecutorGone {
        /** Its name. */
        executor: String,
        /** What the framework says. */
        reason: String,
    },
    /// The framework says that a task has failed or was killed.
    TaskGone {
        /** By its number among the job's tasks, which is its rank unless it was given another one. */
        task: Task,
        /** Which try. */
        attempt: Attempt,
        /** What the framework says. */
        reason: String,
        /** Whether that counts against the number of retries ([`DeathLimit`]). */
        counts: bool,
    },
    /// The framework says that a task has ended well, and is not started again.
    TaskEnded {
        /** By its number among the job's tasks. */
        task: Task,
        /** Which try of it. */
        attempt: Attempt,
    },
    /// The framework is about to end a task, and starts no other one in its place: its slot is gone. In an elastic job
    /// it is given up by the others at the end of the version; [`Event::TaskReleased`] says when it may end.
    TaskLeaves {
        /** By its number among the job's tasks. */
        task: Task,
        /** Its newest try. A later one, in a slot that came since, takes part as any other. */
        attempt: Attempt,
    },
    /// The framework is about to take hosts away, and a newer checkpoint is of use: all agents are told, also those
    /// that come later.
    CheckpointWanted(CheckpointWish),
    /// The user or the framework ends the job.
    Cancel {
        /** Why. */
        error: Error,
    },
    /// Bytes have come over a connection, maybe only a part of a message: their sender isn't silent.
    BytesCame {
        /** Over which connection. */
        link: u64,
    },
    /// The time asked for has come. Silence is judged now, and only now: a sender of anything
    /// that wasn't handed in yet has to be reported by `BytesCame` before.
    Wake,
}

/// What the driver of this struct has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrackerOutput {
    /// Put a message behind those that are on their way.
    Send {
        /** Over which connection. */
        link: u64,
        /** What. */
        message: TrackerMessage,
    },
    /// End a connection, after all that was sent on it is out.
    Close {
        /** Which. */
        link: u64,
    },
    /// Try to connect to the agent's listener: refused means that its process is gone. Answered by `Probed`.
    Probe {
        /** The agent that may be gone. */
        agent: AgentId,
        /** Where. */
        address: core::net::SocketAddr,
    },
    /// Have the framework kill and replace what hosts this task: it is lost, but its process may only be frozen.
    Kill {
        /** The task that is lost. */
        task: Task,
        /** The framework's try. */
        attempt: Attempt,
        /** The executor that it ran in. */
        executor: String,
        /** Why. */
        reason: String,
    },
    /// A fact for the event log.
    Event(Event),
    /// The end: the result is whole and every rank agrees; or the job is over with an error.
    Over(Result<JobResult, Error>),
}

/// What a job leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobResult {
    /// The model's digest.
    pub digest: u128,
    /// Rank 0's bytes.
    pub result: Vec<u8>,
    /// Deaths by rank.
    pub deaths: Vec<u32>,
}

/// The state machine of one job. Drive it: [`Tracker::handle`] one input, then [`Tracker::poll`]
/// until `None`, then sleep until [`Tracker::wake_at`] or the next input. Report every connection
/// that has something unread before a `Wake` ([`TrackerInput::BytesCame`]): silence is judged by it.
#[derive(Clone, Debug)]
pub struct Tracker {
    config: TrackerConfig,
    clock: Clock,
    generation: Generation,
    chain: Chain,
    agents: BTreeMap<AgentId, AgentRecord>,
    links: BTreeMap<u64, AgentId>,
    slots: Vec<RankSlot>,
    terms: Terms,
    /// Why the next view is due.
    changed: Option<String>,
    planned: Planned,
    reach: Reach,
    rollback_reason: Option<String>,
    losses: Losses,
    result: IncomingResult,
    troubles: PairTroubles,
    former_life: FormerLife,
    standings: Standings,
    worlds: Worlds,
    /// The checkpoint that the framework has asked for last.
    wish: Option<CheckpointWish>,
    over: Option<Result<u128, Error>>,
    outputs: VecDeque<TrackerOutput>,
}

impl Tracker {
    /// A job whose ranks are all missing.
    /// # Errors
    /// `BadArgument` when the configuration can't work (no ranks, a limit below the heartbeat).
    pub fn new(config: TrackerConfig, now: Millis) -> Result<Self, Error> {
        check(&config)?;
        config.start.check()?;
        let slots = (0..config.world).map(|_| RankSlot::new(now)).collect();
        let generation = Generation { epoch: config.epoch, number: 0 };
        let former_life = match config.epoch > 1 {
            true => FormerLife::awaited_until(now.plus(config.timing.lost_after_millis)),
            false => FormerLife::default(),
        };
        let worlds = Worlds {
            former: config.elastic.map_or_else(FormerWorlds::default, |_| config.start.former_worlds(config.world)),
            // A former life may have resized it a moment ago.
            resized: (config.epoch > 1).then_some(now),
            resizes: 0,
        };
        Ok(Tracker {
            clock: Clock::new(now, config.timing.heartbeat_millis),
            generation,
            chain: config.start.chain(),
            agents: BTreeMap::new(),
            links: BTreeMap::new(),
            slots,
            terms: Terms { fingerprint: None, hooked: None, share_memory: true },
            changed: None,
            planned: Planned::default(),
            // Having been that far, the job doesn't begin from nothing should what it begins with turn out unreadable.
            reach: Reach::new(config.start.version()),
            rollback_reason: None,
            losses: Losses::default(),
            result: IncomingResult::default(),
            troubles: PairTroubles::default(),
            former_life,
            standings: Standings::default(),
            worlds,
            wish: None,
            over: None,
            outputs: VecDeque::new(),
            config: TrackerConfig { epoch: config.epoch.max(1), ..config },
        })
    }

    /// One thing that happened.
    pub fn handle(&mut self, input: TrackerInput, now: Millis) {
        self.take_time(now);
        let entered = self.entered_by_all();
        match input {
            TrackerInput::Message { link, message } => self.message(link, message),
            TrackerInput::Closed { link, reason } => self.closed(link, reason),
            TrackerInput::Probed { agent, gone } => self.probed(agent, gone),
            TrackerInput::ExecutorGone { executor, reason } => self.executor_gone(&executor, &reason),
            TrackerInput::TaskGone { task, attempt, reason, counts } => {
                self.task_gone(task, attempt, &reason, counts);
            }
            TrackerInput::TaskEnded { task, attempt } => self.task_ended(task, attempt),
            TrackerInput::TaskLeaves { task, attempt } => self.task_leaves(task, attempt),
            TrackerInput::CheckpointWanted(wish) => self.want_checkpoint(wish),
            TrackerInput::Cancel { error } => self.fail(error),
            TrackerInput::BytesCame { link } => self.bytes_came(link),
            TrackerInput::Wake => self.judge_silence(),
        }
        self.probe_again();
        self.report_broken_links();
        self.judge_missing_members();
        self.advance();
        self.give_ranks();
        if self.resize(entered) {
            self.advance();
        }
        self.release();
        if self.slots.iter().any(|slot| self.knew_the_end(slot)) {
            // It may have been the last one that others waited for.
            self.end_if_all_finished();
        }
        self.clock.wake_at = self.next_wake();
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<TrackerOutput> {
        self.outputs.pop_front()
    }

    /// When to call with `TrackerInput::Wake` at the latest.
    pub fn wake_at(&self) -> Option<Millis> {
        self.over.is_none().then_some(self.clock.wake_at)
    }

    /// Number of ranks at present.
    pub fn world(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Which life it is.
    pub fn epoch(&self) -> u32 {
        self.config.epoch
    }

    /// The framework's newest try of a rank that is known; `None` where no task has asked for it. In a job whose tasks
    /// are given ranks it is that of the task of this number.
    pub fn newest_attempt(&self, rank: Rank) -> Option<Attempt> {
        if self.gives_ranks() {
            let asked = self.standings.tries.get(&Task(rank.0)).map(|newest| newest.attempt);
            // One may have left before it had asked.
            return asked.max(self.standings.leaving.get(&Task(rank.0)).copied());
        }
        self.slots.get(rank.0 as usize).filter(|slot| slot.was_here).map(|slot| slot.attempt)
    }

    /// The host of the process that this number's newest try is, if that is there.
    pub fn host_of_newest(&self, rank: Rank) -> Option<&str> {
        let newest = self.newest_attempt(rank)?;
        let agent = match self.gives_ranks() {
            true => self.standings.tasks.get(&Task(rank.0)).filter(|its| its.attempt == newest)?.agent,
            false => self.slot(rank).filter(|slot| slot.state != RankSlotState::Vacant)?.agent,
        };
        self.agents.get(&agent).map(|agent| agent.host.as_str())
    }

    /// Whether the end was reached, or the job has failed.
    pub fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// The driver may have been stopped or starved: then no agent was silent, and none is late by that time.
    fn take_time(&mut self, now: Millis) {
        let stall = self.clock.take(now);
        let now = self.clock.now;
        if stall >= self.config.timing.heartbeat_millis {
            for agent in self.agents.values_mut() {
                agent.last_heard = agent.last_heard.plus(stall).min(now);
            }
            for slot in &mut self.slots {
                slot.waits_since = slot.waits_since.plus(stall).min(now);
            }
            // That time is counted once, however many messages come before the next look.
            self.clock.judges_at = self.clock.judges_at.max(now);
        }
    }

    /// Nothing but a probe, the end of a takeover, and a world that shrinks has to happen earlier than silence is
    /// judged: every heartbeat's time, which bounds how long the tracker can stall without noticing.
    fn next_wake(&self) -> Millis {
        let until = self.former_life.takeover.as_ref().and_then(|takeover| takeover.until(self.clock.now));
        let earlier = [until, self.next_probe(), self.waits_for_replacements_until()];
        earlier.into_iter().flatten().fold(self.clock.judges_at, Millis::min)
    }

    fn message(&mut self, link: u64, message: AgentMessage) {
        if let AgentMessage::Register(registration) = message {
            if let Some(registration) = self.let_register(link, registration) {
                self.register(link, registration);
            }
            return;
        }
        let Some(agent) = self.links.get(&link).copied() else {
            let error = Error::new(Code::BadState, "an agent spoke before it had registered");
            self.send_link(link, TrackerMessage::Refused(error));
            self.outputs.push_back(TrackerOutput::Close { link });
            return;
        };
        self.sign_of_life(agent);
        let Some(message) = self.let_in(link, agent, message) else { return };
        match message {
            AgentMessage::Register(_) => {}
            AgentMessage::Heartbeat { sequence, ranks } => self.heartbeat(agent, sequence, &ranks),
            AgentMessage::Join { rank, attempt, fingerprint, hook } => {
                if !self.gives_ranks() {
                    self.former_life.comes(Task(rank.0), attempt);
                }
                self.join(agent, rank, attempt, fingerprint, hook)
            }
            AgentMessage::StatusReport(status) => self.status(agent, status),
            AgentMessage::Local { member, at, bytes } => self.local(agent, member, at, bytes),
            AgentMessage::ResultPart { member, offset, total, bytes } => {
                self.result_part(member.rank, offset, total, &bytes)
            }
            AgentMessage::Report { .. } if self.over.is_some() => {}
            AgentMessage::Report { member, report } => self.report(member, report),
            AgentMessage::Event(event) => self.fact(event),
            AgentMessage::StandBy { task, attempt } => {
                self.former_life.comes(task, attempt);
                self.stand_by(agent, Standing { task, attempt, given: None });
            }
            AgentMessage::StandDown { task, attempt } => self.stand_down(agent, task, attempt),
        }
    }

    /// The door has seen that it comes from the agent of the incarnation that has the slot.
    fn report(&mut self, member: MemberId, report: Report) {
        let MemberId { rank, incarnation } = member;
        match report {
            Report::VersionEntered { lineage, version, round } if lineage == self.chain.lineage() => {
                self.event(Event::VersionEntered { rank, incarnation, lineage, version, round });
                if let Some(slot) = self.slot_mut(rank) {
                    slot.has_entered = true;
                }
                self.progress(member, Position { lineage, version }, round);
            }
            Report::VersionEntered { .. } => {}
            Report::LinkDown { peer, reason, .. } => self.link_down(member, peer, reason),
            Report::Interrupted { peer, generation, reason } => self.interrupted(rank, peer, generation, &reason),
            Report::CannotShare { peer, generation, reason } => self.cannot_share(rank, peer, generation, reason),
            Report::Broken(error) => self.broken(rank, error),
            Report::Finished { rounds, digest } => self.finish(member, rounds, digest),
            Report::Left { failure } => self.leave(rank, failure),
        }
    }

    /// An agent has seen it.
    fn fact(&mut self, event: Event) {
        let now = self.clock.now;
        if let Event::CaughtUp { rank, incarnation, rounds_again, .. } = &event {
            // Not what comes late of an incarnation that is gone.
            if let Some(slot) = self.slot_mut(*rank).filter(|slot| slot.incarnation == Some(*incarnation)) {
                slot.cost.is_back(*rounds_again, now);
            }
        }
        self.event(event);
    }

    fn event(&mut self, event: Event) {
        self.outputs.push_back(TrackerOutput::Event(event));
    }

    fn send_link(&mut self, link: u64, message: TrackerMessage) {
        self.outputs.push_back(TrackerOutput::Send { link, message });
    }

    /// To an agent, if it is connected. What is lost with a link is sent again when the agent registers again.
    fn send(&mut self, agent: AgentId, message: TrackerMessage) {
        if let Some(link) = self.agents.get(&agent).and_then(|agent| agent.link) {
            self.send_link(link, message);
        }
    }

    fn want_checkpoint(&mut self, wish: CheckpointWish) {
        if self.over.is_none() && self.wish.replace(wish) != Some(wish) {
            self.send_all(&TrackerMessage::CheckpointWanted(wish));
        }
    }

    fn send_all(&mut self, message: &TrackerMessage) {
        let links: Vec<u64> = self.agents.values().filter_map(|agent| agent.link).collect();
        for link in links {
            self.send_link(link, message.clone());
        }
    }

    fn slot(&self, rank: Rank) -> Option<&RankSlot> {
        self.slots.get(rank.0 as usize)
    }

    fn slot_mut(&mut self, rank: Rank) -> Option<&mut RankSlot> {
        self.slots.get_mut(rank.0 as usize)
    }

    fn living(&self) -> impl Iterator<Item = (Rank, &RankSlot)> {
        let all = self.slots.iter().enumerate().map(|(rank, slot)| (Rank(rank as u32), slot));
        all.filter(|(_, slot)| slot.state != RankSlotState::Vacant)
    }
}

fn check(config: &TrackerConfig) -> Result<(), Error> {
    let timing = &config.timing;
    let bad = |text: String| Err(Error::new(Code::BadArgument, text));
    if config.world == 0 {
        return bad("a job of 0 ranks was asked for; at least 1 is needed".into());
    }
    if config.deaths.deaths == 0 {
        return bad(
            "a limit of 0 deaths was asked for; at least 1 is needed, which lets the first death end the job".into()
        );
    }
    if timing.heartbeat_millis == 0 {
        return bad("heartbeats every 0 ms were asked for; at least 1 ms is needed".into());
    }
    let least = timing.heartbeat_millis.saturating_mul(2);
    for (name, value) in [
        ("silence after which an agent is lost", timing.lost_after_millis),
        ("lease of an agent without a tracker", timing.lease_millis),
        ("wait for missing members", timing.members_millis),
    ] {
        if value < least {
            return bad(format!(
                "the {name} is {value} ms; with a heartbeat every {} ms it has to be {least} ms or more",
                timing.heartbeat_millis
            ));
        }
    }
    let Some(Elastic { min, max, timeout_millis, .. }) = config.elastic else { return Ok(()) };
    let world = config.world;
    if min == 0 || min > world {
        return bad(format!("a world of {world} ranks was to shrink to {min} at the least; 1 to {world} are expected"));
    }
    if max < world {
        return bad(format!("a world of {world} ranks was to grow to {max} at the most; {world} or more are expected"));
    }
    if timeout_millis < timing.heartbeat_millis || timeout_millis >= timing.members_millis {
        return bad(format!(
            "a replacement of a rank was to be waited for {timeout_millis} ms before the world shrinks; expected at \
             least a heartbeat ({} ms), and less than the wait for missing members ({} ms), which ends the job",
            timing.heartbeat_millis, timing.members_millis
        ));
    }
    Ok(())
}
