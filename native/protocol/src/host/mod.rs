//! The ranks of one process and what the process holds: the agent without sockets, clocks and bytes.
//!
//! Outlives its members: a rank's task may come and go, checkpoints and the view stay.

mod following;
mod holdings;
mod replicas;
mod standing;
mod standing_here;
mod start;
mod tasks;
mod tracker_connection;
mod tracker_link;

use crate::collective::{self, Extent, ObservedInput};
use crate::error::Error;
use crate::event::Event;
use crate::fault::FaultRule;
use crate::ids::{
    AgentId, Attempt, Checkpoint, Generation, Incarnation, Lineage, MemberId, Millis, Position, Rank, Task, Version,
};
use crate::member::Member;
use crate::message::{AgentMessage, CheckpointWish, RankGiven, TrackerMessage};
use crate::report::Report;
use crate::view::{AgentAddress, View};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use holdings::Holdings;
use replicas::Replicas;
use standing_here::StandingHere;
use tracker_connection::TrackerConnection;

pub use replicas::OWN_COPIES;
pub use start::{Offer, Start};

/// Where a checkpoint came from that was not fetched.
const MEMORY: &str = "the memory of this process";

/// This agent's name.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Drawn at random.
    pub agent: AgentId,
    /// The framework's name of the executor.
    pub executor: String,
    /// Name of the host.
    pub host: String,
    /// Where peers reach it.
    pub address: SocketAddr,
    /// The process.
    pub pid: u32,
    /// How long the tracker may be out of reach at the start before a join fails.
    pub tracker_millis: u64,
    /// How many other processes hold each own model of this one's ranks, as far as there are as
    /// many; the same at all ranks of a job ([`OWN_COPIES`] if nothing is chosen).
    pub own_copies: u32,
    /// So many versions of each incarnation, from its first one on, are reported as they are entered
    /// ([`ONE_BY_ONE`] if nothing is chosen). At least 3: whether a rank was in version 1, and in
    /// version 2, decides what happens should all die.
    pub one_by_one: u32,
}

/// As many versions of an incarnation are reported one by one as short trainings have, so that
/// their event logs show each. Of longer ones each heartbeat shows where they are.
pub const ONE_BY_ONE: u32 = 100;

/// One thing that happened to the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostInput {
    /// The link to the tracker stands (again).
    TrackerUp,
    /// The link to the tracker broke, or a try to make it failed.
    TrackerDown {
        /** What was seen. */
        reason: String,
    },
    /// What answers at the tracker's address doesn't fit this agent: another version of Rejoin.
    TrackerIncompatible {
        /** What was expected, what was seen. */
        error: Error,
    },
    /// The tracker said something.
    Tracker(TrackerMessage),
    /// A task asks to take part. Answered by exactly one of `Start`, `Over` or `Free` for this attempt.
    Join {
        /** The rank that the task is to be. */
        rank: Rank,
        /** The framework's try. */
        attempt: Attempt,
        /** What it assumes. */
        fingerprint: String,
        /** What it offers to the others. */
        offer: Offer,
    },
    /// In a job with spares: a task asks for a rank. Answered by exactly one of `RankGiven` or `StandByOver` for this
    /// try, unless it stands down before.
    StandBy {
        /** The framework's task. */
        task: Task,
        /** Its try. */
        attempt: Attempt,
    },
    /// A task that asked for a rank has ended, or has no use for what it was given.
    StandDown {
        /** The framework's task. */
        task: Task,
        /** Its try. */
        attempt: Attempt,
    },
    /// A fetch asked for by `HostOutput::Fetch` is done; the bytes are in the store and their digest was verified.
    Fetched {
        /** The rank that it is for. */
        member: MemberId,
        /** How many there are, which are not known of a lazy checkpoint before. */
        bytes: u64,
        /** From where, in words. */
        source: String,
        /** How long. */
        millis: u64,
    },
    /// A fetch failed with every holder that was named. What has come is kept for the next try.
    FetchFailed {
        /** The rank that it is for. */
        member: MemberId,
        /** More of it has come than at its last failure. */
        is_further: bool,
        /** What was seen. */
        reason: String,
    },
    /// A task took this checkpoint (its bytes are in the store already) and entered the version that it begins.
    /// Version 0 (no bytes, length 0) is entered in the same way. May be late where [`Host::reports_at_once`] says so.
    Entered {
        /** The member that has. */
        member: MemberId,
        /** What. */
        checkpoint: Checkpoint,
        /** What only this rank has. */
        local: Option<Vec<u8>>,
    },
    /// A fact about a rank here. Of one that has finished, the result's bytes, if it is rank 0's,
    /// have been handed to the driver of this struct, which sends them as `ResultPart`s before the
    /// report, if they are wanted ([`Host::wants_result`]).
    Report {
        /** The member that it is about. */
        member: MemberId,
        /** What. */
        report: Report,
    },
    /// Answer to `HostOutput::Hold`. Queue it behind all `Entered` that tasks have handed in by then.
    Holding {
        /** The member whose channels they are. */
        member: MemberId,
        /** The oldest version of which its channels still have the logs. */
        oldest: Version,
        /** Which results of collectives it holds; it finishes no more before the plan of this view. */
        results: Vec<Extent>,
        /** What it has heard of other ranks' inputs. */
        observed: Vec<ObservedInput>,
    },
    /// A rank of this process has this own model, whose bytes are in the store: others have to hold it too. Answered by
    /// `HostOutput::Safe` when they do.
    Own(Checkpoint),
    /// The bytes of another rank's own model are in the store, for the case that its process dies.
    Kept(Checkpoint),
    /// The program has handed over what the job is to begin with; its bytes are in the store.
    HandedOver(Checkpoint),
    /// A copy that `HostOutput::Copy` asked for is held there.
    Copied {
        /** Which. */
        checkpoint: Checkpoint,
        /** The agent at the other end. */
        agent: AgentId,
    },
    /// A copy that `HostOutput::Copy` asked for could not be made.
    CopyFailed {
        /** Which. */
        checkpoint: Checkpoint,
        /** The agent at the other end. */
        agent: AgentId,
    },
    /// This process can read this checkpoint from a durable store, also after it was forgotten here.
    Durable(Checkpoint),
    /// The durable store has nothing any more that is older than this version.
    Tidied {
        /** Of the oldest that stays. */
        lineage: Lineage,
        /** The oldest that stays. */
        version: Version,
    },
    /// A fact for the event log.
    Event(Event),
    /// The time asked for has come.
    Wake,
}

/// A rank to be linked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its living incarnation; nothing from another one is accepted.
    pub member: MemberId,
    /// Where; the same agent as this one means that no link is needed.
    pub at: AgentAddress,
}

/// What the driver of this struct has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostOutput {
    /// Connect to the tracker (again).
    ConnectTracker,
    /// Close the connection to the tracker and report `HostInput::TrackerDown`: it is a life of it that
    /// another one has followed.
    LeaveTracker {
        /** Why, in words. */
        reason: String,
    },
    /// To the tracker, behind what is on its way.
    Send(AgentMessage),
    /// The rank's task has a slot: what its older incarnations had here (channels, worker) is dropped now.
    JoinAccepted {
        /** The rank that has one now. */
        rank: Rank,
        /** Its task. */
        attempt: Attempt,
        /** Its number. */
        incarnation: Incarnation,
    },
    /// Bring this checkpoint into the store, from the nearest of these that has it (they are
    /// sorted: this agent, same host, others).
    Fetch {
        /** The rank that it is for. */
        member: MemberId,
        /** What. */
        checkpoint: Checkpoint,
        /** The agents to get it from. */
        holders: Vec<AgentAddress>,
    },
    /// Have this own model, which is in the store, held there too.
    /// Answered by `HostInput::Copied` or `HostInput::CopyFailed`.
    Copy {
        /** Which. */
        checkpoint: Checkpoint,
        /** Where. */
        to: AgentAddress,
    },
    /// This own model is held by as many others as it has to be.
    Safe(Checkpoint),
    /// The task's join returns: train from here.
    Start {
        /** The rank whose join returns. */
        rank: Rank,
        /** Its task. */
        attempt: Attempt,
        /** From where. */
        start: Start,
    },
    /// The living peers of a rank changed: cut links to others, make those that are missing. Sent after every view.
    Links {
        /** Which. */
        member: MemberId,
        /** The lineage that the links' frames belong to. */
        lineage: Lineage,
        /** All others that are alive and planned. */
        peers: Vec<Peer>,
    },
    /// The rank's channels keep all that they have from now on ([`crate::channel::Outgoing::hold`],
    /// [`crate::channel::Incoming::hold`]): a rank is missing, and what it will need isn't known yet. Answered by
    /// `HostInput::Holding`, without which no status is sent; also for an incarnation that the driver knows nothing
    /// of (any `oldest` will do then). Asked again in later views. A rank with collectives pauses
    /// ([`crate::collective::Participant::pause`]), unless it has the plan of this generation.
    Hold {
        /** Which. */
        member: MemberId,
        /** The view that is answered with it. */
        generation: Generation,
    },
    /// The plan, as far as the rank's collectives are concerned ([`crate::collective::Participant::plan`]).
    Plan {
        /** Which. */
        member: MemberId,
        /** What all have. */
        plan: collective::RankPlan,
    },
    /// All are there and have caught up: the rank's channels drop what is old, as usual.
    Release {
        /** Which. */
        member: MemberId,
    },
    /// The incarnation is over: its worker is freed, its calls end with this error. For a join that has no slot yet,
    /// `incarnation` is `None`.
    Free {
        /** The rank whose incarnation is over. */
        rank: Rank,
        /** Its task. */
        attempt: Attempt,
        /** Its number. */
        incarnation: Option<Incarnation>,
        /** Why. */
        error: Error,
    },
    /// The job is over: joins and finishes of this rank return with this.
    Over {
        /** The rank whose calls return. */
        rank: Rank,
        /** Its task. */
        attempt: Attempt,
        /** The model's digest, or the error. */
        outcome: Result<u128, Error>,
    },
    /// The task joins as this try of this rank.
    RankGiven {
        /** The framework's task. */
        task: Task,
        /** Its try. */
        attempt: Attempt,
        /** What it joins as. */
        given: RankGiven,
    },
    /// The task stands by no more: the job is over, or the tracker has no use for it.
    StandByOver {
        /** The framework's task. */
        task: Task,
        /** Its try. */
        attempt: Attempt,
        /** The model's digest, or the error. */
        outcome: Result<u128, Error>,
    },
    /// No rank needs these bytes any more, whichever owns them.
    Forget {
        /** The lineage of the version to be forgotten. */
        lineage: Lineage,
        /** All checkpoints of it go. */
        version: Version,
    },
    /// Rules to be watched from now on (they replace older ones).
    Faults(Vec<FaultRule>),
    /// A checkpoint is wanted before its turn (it replaces an older wish).
    CheckpointWanted(CheckpointWish),
    /// The agent is over: it frees all it holds.
    Close {
        /** Why. */
        reason: String,
    },
}

/// What only one rank has, as of a version.
#[derive(Clone, Debug)]
struct Local {
    member: MemberId,
    at: Position,
    bytes: Vec<u8>,
}

/// The state machine of one agent. Drive it: [`Host::handle`] one input, then [`Host::poll`] until `None`, then sleep
/// until [`Host::wake_at`] or the next input.
#[derive(Clone, Debug)]
pub struct Host {
    config: HostConfig,
    now: Millis,
    tracker: TrackerConnection,
    members: Vec<Member>,
    /// The tasks that stand by, or were given a rank.
    standing: Vec<StandingHere>,
    locals: Vec<Local>,
    holdings: Holdings,
    replicas: Replicas,
    /// What can be read from a durable store.
    durable: Vec<Checkpoint>,
    view: Option<View>,
    /// The agents that hold what the newest plan starts from.
    plan_holders: Vec<AgentId>,
    /// What only the ranks had that the next or the newest plan starts here.
    newcomer_locals: BTreeMap<MemberId, Vec<u8>>,
    /// The newest plan for ranks with collectives, until the next view.
    plan: Option<collective::RankPlan>,
    /// Nothing that a rank may still need is dropped: a rank is missing, or hasn't caught up.
    holding: bool,
    /// The view isn't answered yet: these haven't said yet what their channels hold.
    unanswered: Option<BTreeSet<MemberId>>,
    /// What can't be gone on with, as it was reported to the tracker.
    broken: BTreeMap<MemberId, Error>,
    ended: Option<Result<u128, Error>>,
    closed: bool,
    outputs: VecDeque<HostOutput>,
}

impl Host {
    /// A new agent; asks to be connected to its tracker at once.
    pub fn new(config: HostConfig, now: Millis) -> Self {
        let mut outputs = VecDeque::new();
        outputs.push_back(HostOutput::ConnectTracker);
        let replicas = Replicas::of(config.own_copies);
        Host {
            config,
            now,
            tracker: TrackerConnection::none_yet(now),
            members: Vec::new(),
            standing: Vec::new(),
            locals: Vec::new(),
            holdings: Holdings::default(),
            replicas,
            durable: Vec::new(),
            view: None,
            plan_holders: Vec::new(),
            newcomer_locals: BTreeMap::new(),
            plan: None,
            holding: true,
            unanswered: None,
            broken: BTreeMap::new(),
            ended: None,
            closed: false,
            outputs,
        }
    }

    /// One thing that happened.
    pub fn handle(&mut self, input: HostInput, now: Millis) {
        self.now = now.max(self.now);
        if self.closed {
            match input {
                HostInput::Join { rank, attempt, .. } => self.refuse_join_when_closed(rank, attempt),
                HostInput::StandBy { task, attempt } => self.refuse_standing_when_closed(task, attempt),
                _ => {}
            }
            return;
        }
        match input {
            HostInput::TrackerUp => self.tracker_up(),
            HostInput::TrackerDown { reason } => self.tracker_down(reason),
            HostInput::TrackerIncompatible { error } => self.tracker_incompatible(error),
            HostInput::Tracker(message) => self.follow(message),
            HostInput::Join { rank, attempt, fingerprint, offer } => self.join(rank, attempt, fingerprint, offer),
            HostInput::StandBy { task, attempt } => self.stand_by(task, attempt),
            HostInput::StandDown { task, attempt } => self.stand_down(task, attempt),
            HostInput::Fetched { member, bytes, source, millis } => self.fetched(member, bytes, source, millis),
            HostInput::FetchFailed { member, is_further, reason } => self.fetch_failed(member, is_further, reason),
            HostInput::Entered { member, checkpoint, local } => self.entered(member, checkpoint, local),
            HostInput::Report { member, report } => match report {
                Report::Finished { rounds, digest } => self.finish(member, rounds, digest),
                Report::Left { failure } => self.leave(member, failure),
                Report::Broken(error) => self.report_broken(member, error),
                report => self.report(member, report),
            },
            HostInput::Holding { member, oldest, results, observed } => {
                self.holds_logs(member, oldest, results, observed)
            }
            HostInput::Own(checkpoint) => self.own_model(checkpoint),
            // Another one than before is found by the store, and reported to its owner.
            HostInput::Kept(checkpoint) => drop(self.holdings.add(checkpoint, None)),
            HostInput::HandedOver(checkpoint) => self.holdings.hand_over(checkpoint),
            HostInput::Copied { checkpoint, agent } => {
                self.replicas.made(&checkpoint, agent);
                self.copy();
            }
            HostInput::CopyFailed { checkpoint, agent } => self.replicas.failed(&checkpoint, agent, self.now),
            HostInput::Durable(checkpoint) => {
                // A rank that was started again repeats its version.
                if !self.durable.contains(&checkpoint) {
                    self.durable.push(checkpoint);
                }
            }
            HostInput::Tidied { lineage, version } => {
                self.durable.retain(|there| (there.lineage, there.version) >= (lineage, version));
            }
            HostInput::Event(event) => self.send(AgentMessage::Event(event)),
            HostInput::Wake => {}
        }
        self.keep_time();
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<HostOutput> {
        self.outputs.pop_front()
    }

    /// When to call with `HostInput::Wake` at the latest.
    pub fn wake_at(&self) -> Option<Millis> {
        if self.closed {
            return None;
        }
        let fetches = self.members.iter().filter_map(fetch_again_at).min();
        [self.tracker.heartbeat_at(), fetches, self.replicas.again_at(), self.tracker_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether a checkpoint is held here.
    pub fn holds(&self, checkpoint: &Checkpoint) -> bool {
        self.holdings.has(checkpoint)
    }

    /// Whether the tracker has sent the job's end, good or bad.
    pub fn job_is_over(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether the tracker asks for rank 0's result: known from the first registration on.
    pub fn wants_result(&self) -> bool {
        self.tracker.wants_result
    }

    /// What this host is called; agents of one host have the same name.
    pub fn host_name(&self) -> &str {
        &self.config.host
    }

    /// The newest view; data links are made and accepted by it.
    pub fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    /// The ranks' tasks in this process.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// What is lost with a connection is sent again when the next one stands. The newest versions that
    /// are still to be reported go first: nothing is said of a rank before where it is.
    fn send(&mut self, message: AgentMessage) {
        if self.tracker.up {
            self.report_versions();
            self.outputs.push_back(HostOutput::Send(message));
        }
    }

    fn report(&mut self, member: MemberId, report: Report) {
        self.send(AgentMessage::Report { member, report });
    }

    fn member(&mut self, id: MemberId) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.id() == Some(id))
    }

    /// The ranks here that were started.
    fn running(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.members.iter().filter(|member| member.running().is_some()).filter_map(Member::id)
    }
}

fn fetch_again_at(member: &Member) -> Option<Millis> {
    match &member.stage {
        crate::member::Stage::Fetching(fetching) => fetching.again_at,
        _ => None,
    }
}
