//! What agent and tracker send each other. Encoded by [`crate::wire::encode`] into control frames.

use crate::collective::{Extent, ObservedInput, SegmentAddress};
use crate::error::Error;
use crate::event::Event;
use crate::fault::FaultRule;
use crate::former::Former;
use crate::hook::Hook;
use crate::ids::{
    AgentId, Attempt, Checkpoint, Generation, Incarnation, Lineage, MemberId, Position, Rank, Task, Version,
};
use crate::report::Report;
use crate::view::View;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use serde::{Deserialize, Serialize};

/// From an agent to the tracker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentMessage {
    /// First message on every connection, also after a reconnection: the agent, its address, and all that it holds.
    Register(Registration),
    /// Sign of life, with where the ranks are.
    Heartbeat {
        /// Counts from 0 on this connection; answered with the same number.
        sequence: u64,
        /// Where each hosted rank is and the round it comes from.
        ranks: Vec<RankProgress>,
    },
    /// A task asks for its rank's slot.
    Join {
        /// The rank that the task is to be.
        rank: Rank,
        /// The framework's try.
        attempt: Attempt,
        /// What this incarnation can do and assumes; must be equal for all of a job.
        fingerprint: String,
        /// Whether its training library's collectives can be taken over.
        hook: Hook,
    },
    /// Answer to a view: what the agent's ranks do and what the agent holds.
    StatusReport(StatusReport),
    /// Piece of state that only this rank has (metrics computed locally), as of a version. Kept by the tracker.
    Local {
        /// Whose.
        member: MemberId,
        /// As of this version.
        at: Position,
        /// Opaque; at most [`LOCAL_LIMIT`].
        bytes: Vec<u8>,
    },
    /// A piece of the final result (model and metrics) of rank 0, if the tracker wants it; all
    /// pieces come before it reports that it has finished, and whatever else there is to say goes
    /// ahead of the next one.
    ResultPart {
        /// Whose.
        member: MemberId,
        /// Place of this piece.
        offset: u64,
        /// Length of the whole.
        total: u64,
        /// At most [`RESULT_PART_LIMIT`].
        #[serde(with = "crate::wire::run")]
        bytes: Vec<u8>,
    },
    /// A fact about one of its ranks.
    Report {
        /// The member that it is about.
        member: MemberId,
        /// What.
        report: Report,
    },
    /// A fact for the event log, and nothing else.
    Event(Event),
    /// In a job with spares: a task asks for a rank, and stands by until it is given one.
    StandBy {
        /// The framework's task.
        task: Task,
        /// Its try.
        attempt: Attempt,
    },
    /// That try neither stands by any more, nor joins as the rank that it was given.
    StandDown {
        /// The framework's task.
        task: Task,
        /// Its try.
        attempt: Attempt,
    },
}

/// A task of a job with spares in an agent: it stands by, or was given a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The framework's task.
    pub task: Task,
    /// Its try.
    pub attempt: Attempt,
    /// What it was given; `None` as long as it stands by.
    pub given: Option<RankGiven>,
}

/// A rank that was given to a task that stood by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RankGiven {
    /// As which the task joins.
    pub rank: Rank,
    /// The try of that rank as which the task joins: greater than all before it, whichever task had the rank.
    pub attempt: Attempt,
}

/// Most bytes of [`AgentMessage::Local`].
pub const LOCAL_LIMIT: usize = 256 << 10;
/// Most bytes of one [`AgentMessage::ResultPart`].
pub const RESULT_PART_LIMIT: usize = 256 << 10;
/// The highest version, lineage or incarnation: no job counts so far, and whatever is below can be counted on from.
pub const COUNT_LIMIT: u32 = u32::MAX / 2;
/// Most bytes of terms, and of any other text, which is cut. What is sent to all has to fit into one frame.
pub const TEXT_LIMIT: usize = 64 << 10;
/// Most bytes of the name of an executor or a host.
pub const NAME_LIMIT: usize = 1 << 10;
/// Most lineages of a job: how often all went back.
pub const LINEAGES_LIMIT: usize = 4096;

/// An agent's names and address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// Drawn at random when the agent starts.
    pub agent: AgentId,
    /// The framework's name of the executor.
    pub executor: String,
    /// Name of the host.
    pub host: String,
    /// Where peers reach it.
    pub address: SocketAddr,
    /// The process.
    pub pid: u32,
    /// What its ranks do and what it holds, under the newest generation it has accepted.
    pub status: StatusReport,
    /// What those of its ranks assume that have slots, each once: a tracker that comes back knows
    /// from it what its former life had agreed with them, also if no view of it was sent.
    pub fingerprint: Vec<String>,
    /// The newest life of the tracker that it has heard of; 0 before the first one. An older life
    /// that is sent it ends.
    pub epoch: u32,
    /// The newest view that it knows: a tracker that comes back learns from it what its former life had decided.
    pub view: Option<Box<View>>,
    /// How the job has ended, if it is known.
    pub ended: Option<Box<Result<u128, Error>>>,
    /// The tasks here that stand by or were given a rank, in a job with spares.
    pub standing: Vec<Standing>,
}

/// Where a rank is, as reported in heartbeats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankProgress {
    /// Whose.
    pub member: MemberId,
    /// Where.
    pub at: Position,
    /// The next round.
    pub round: u32,
}

/// What one agent reports when a view changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusReport {
    /// The generation that it answers.
    pub generation: Generation,
    /// One entry for each task of a rank that the agent hosts.
    pub ranks: Vec<RankStatus>,
    /// The checkpoints it holds, whichever rank took them.
    pub held: Vec<Checkpoint>,
    /// What it was handed by its program, and no rank has taken or fetched. It counts only in a job
    /// that is to begin with it ([`crate::start::JobStart::HandedOver`]).
    pub handed_over: Vec<Checkpoint>,
}

/// What one incarnation is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankStatus {
    /// The rank that it is of.
    pub rank: Rank,
    /// Its number.
    pub incarnation: Incarnation,
    /// Its framework's try.
    pub attempt: Attempt,
    /// How far it is.
    pub state: RankState,
    /// The oldest version of which its channels keep the logs, from now on until `Settled`. A newcomer can't be started
    /// before it.
    pub oldest: Version,
    /// Which results of collectives it holds; nothing for a rank that makes none, as those of XGBoost's bridge.
    pub results: Vec<Extent>,
    /// What it has heard of other ranks' inputs, of those whose newest incarnation it hasn't heard.
    pub observed: Vec<ObservedInput>,
    /// Where ranks of the same host find the memory that this one shares; `None` if it shares none.
    pub segment: Option<SegmentAddress>,
    /// Whether its training library's collectives can be taken over, as it said in its join.
    pub hook: Hook,
}

/// How far an incarnation is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RankState {
    /// Seated and not started: it has no plan yet, or hasn't fetched its checkpoint. It is planned (again).
    Fresh,
    /// Given a start; on its way through boot, or in the version it was given, or beyond.
    At(Position),
    /// Has reported its end (its position stays that of the complete checkpoint).
    Finished {
        /// Where.
        at: Position,
        /// Its model.
        digest: u128,
    },
}

/// From the tracker to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TrackerMessage {
    /// The registration is accepted.
    Registered {
        /// The tracker's life.
        epoch: u32,
        /// The rhythm that all keep.
        timing: Timing,
        /// Whether rank 0's result is asked for. If not, its end is reported without one.
        wants_result: bool,
    },
    /// The registration is refused for good.
    Refused(Error),
    /// Answer to `Join`: the slot is given. A plan follows when all that are needed are there.
    JoinAccepted {
        /// The rank whose slot it is.
        rank: Rank,
        /// Its task.
        attempt: Attempt,
        /// Its new number.
        incarnation: Incarnation,
    },
    /// Answer to `Join`: no. The task's join ends with this error.
    JoinRefused {
        /// The rank whose slot was asked for.
        rank: Rank,
        /// Its task.
        attempt: Attempt,
        /// Why.
        error: Error,
    },
    /// The membership changed. Answered with a status report.
    View(View),
    /// Where newcomers start. For a job with collectives it follows every view, with or without newcomers.
    Plan(Plan),
    /// All of this generation are there and have caught up: what is old may be dropped again.
    Settled {
        /// The view's number.
        generation: Generation,
    },
    /// This incarnation is over: its calls end with the error.
    Fenced {
        /// Which.
        member: MemberId,
        /// `Fenced` or `RolledBack`, in words.
        error: Error,
    },
    /// The job is over: with the model's digest, or with an error.
    Ended(Result<u128, Error>),
    /// Fault rules for ranks of this agent (tests and demo only).
    Faults(Vec<FaultRule>),
    /// Answer to a heartbeat.
    HeartbeatAck {
        /// Its number.
        sequence: u64,
        /// The lowest position among the living.
        lowest: Option<Position>,
    },
    /// Answer to `StandBy`, sooner or later: the task joins as this rank.
    RankGiven {
        /// The framework's task.
        task: Task,
        /// Its try.
        attempt: Attempt,
        /// What it joins as.
        given: RankGiven,
    },
    /// This try of a task stands by no more, and what it was given is void.
    StandByEnded {
        /// The framework's task.
        task: Task,
        /// Its try.
        attempt: Attempt,
        /// Why.
        error: Error,
    },
    /// The framework is about to take hosts away: a checkpoint that is newer than the ones there are is of use.
    CheckpointWanted(CheckpointWish),
    /// What only this rank had, as of the version that it starts at by the plan that follows. In a message of its own:
    /// that of all ranks is more than a frame takes.
    NewcomerLocal {
        /// The newcomer.
        member: MemberId,
        /// What was reported of it with [`AgentMessage::Local`].
        bytes: Vec<u8>,
    },
}

/// A checkpoint that is wanted before its turn. A later wish replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointWish {
    /// Any version after this one will do.
    pub after: Version,
    /// It is to be in the durable store too, whether it is its turn or not.
    pub durable: bool,
}

impl CheckpointWish {
    /// Whether a rank in this version should take a checkpoint as soon as it can.
    pub fn is_open_in(&self, version: Version) -> bool {
        version <= self.after
    }

    /// Whether the checkpoint that begins this version is to be durable because of the wish. Two
    /// versions are: a rank may have been in the first of them when it heard of the wish.
    pub fn makes_durable(&self, version: Version) -> bool {
        self.durable && version > self.after && version.0 <= self.after.0.saturating_add(2)
    }
}

/// The rhythm of a job, decided by the tracker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// Between two heartbeats.
    pub heartbeat_millis: u64,
    /// Silence after which an agent is lost.
    pub lost_after_millis: u64,
    /// How long an agent without a tracker keeps what it holds.
    pub lease_millis: u64,
    /// How long a rank may be missing before the job ends with an error.
    pub members_millis: u64,
}

impl Timing {
    /// How long agents and launchers go on without a tracker, where nothing else is set: a minute.
    pub const LEASE_MILLIS: u64 = 60_000;
    /// Between two heartbeats, if the limit of silence allows it.
    const HEARTBEAT_MILLIS: u64 = 200;

    /// The usual rhythm with these two limits: several heartbeats have to fail before an agent is lost.
    pub fn usual(lost_after_millis: u64, members_millis: u64) -> Timing {
        Timing {
            heartbeat_millis: Self::HEARTBEAT_MILLIS.min(lost_after_millis / 4).max(1),
            lost_after_millis,
            lease_millis: Self::LEASE_MILLIS,
            members_millis,
        }
    }
}

/// The table of all status reports and the decisions made of it ([`crate::plan::decide`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The view that it belongs to.
    pub generation: Generation,
    /// The lineage that is trained from now on.
    pub lineage: Lineage,
    /// Where each newcomer starts.
    pub newcomers: Vec<Newcomer>,
    /// All ranks as they reported.
    pub table: Vec<RankStatus>,
    /// The agents that hold the checkpoint at which newcomers start.
    pub holders: Vec<AgentId>,
    /// The decision in words.
    pub reason: String,
    /// Whether the ranks' training library's collectives are taken over, once that was agreed ([`crate::hook`]).
    pub hooked: Option<bool>,
}

/// One newcomer's part of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Newcomer {
    /// The rank that starts.
    pub rank: Rank,
    /// Its number.
    pub incarnation: Incarnation,
    /// The version it starts at; checkpoint is `None` only at version 0 of the first lineage and its restarts.
    pub version: Version,
    /// What is to be fetched.
    pub checkpoint: Option<Checkpoint>,
    /// The rank's own model beside that one, to be fetched too.
    pub own: Option<Checkpoint>,
    /// The agents that hold it.
    pub own_holders: Vec<AgentId>,
    /// The world that made the version, if it was another one.
    pub former: Option<Box<Former>>,
    /// Whether there is something that only this rank had, as of that version ([`TrackerMessage::NewcomerLocal`]).
    pub has_local: bool,
}

impl RankStatus {
    /// Rank and incarnation.
    pub fn id(&self) -> MemberId {
        MemberId { rank: self.rank, incarnation: self.incarnation }
    }
}

impl Newcomer {
    /// Rank and incarnation.
    pub fn id(&self) -> MemberId {
        MemberId { rank: self.rank, incarnation: self.incarnation }
    }

    /// The own models that it starts with, and who holds each: its own one, and those that it is given of ranks that
    /// are gone.
    pub fn own_models(&self) -> impl Iterator<Item = (Checkpoint, &[AgentId])> {
        let own = self.own.map(|own| (own, &self.own_holders[..]));
        let given = self.former.iter().flat_map(|former| &former.given);
        own.into_iter().chain(given.filter_map(|given| Some((given.own?, &given.holders[..]))))
    }
}
