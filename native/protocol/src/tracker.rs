//! The tracker of one job: who is alive, where newcomers start, when it is over.

use crate::error::Error;
use crate::event::Event;
use crate::fault::FaultRule;
use crate::ids::{AgentId, Attempt, Millis, Rank};
use crate::message::{AgentMessage, Timing, TrackerMessage};
use alloc::string::String;
use alloc::vec::Vec;

/// What a job is.
#[derive(Clone, Debug)]
pub struct TrackerConfig {
    /// Number of ranks, at least 1.
    pub world: u32,
    /// Which life of the tracker, from 1.
    pub epoch: u32,
    /// The rhythm.
    pub timing: Timing,
    /// How many deaths of one rank the framework retries; the next one ends the job. For the error's text.
    pub deaths_limit: u32,
    /// Name of the setting that raises it (Spark: `spark.task.maxFailures`).
    pub deaths_setting: String,
    /// Rules for tests and the demo.
    pub faults: Vec<FaultRule>,
}

/// One thing that happened to the tracker. `link` is the driver's number of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
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
    /// Answer to `Output::Probe`.
    Probed {
        /** The agent. */
        agent: AgentId,
        /** Its process is gone: nobody listens at its address. */
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
        /** Its rank. */
        rank: Rank,
        /** Which try. */
        attempt: Attempt,
        /** What the framework says. */
        reason: String,
    },
    /// The user or the framework ends the job.
    Cancel {
        /** Why. */
        error: Error,
    },
    /// The time asked for has come.
    Wake,
}

/// What the driver of this struct has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this.
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
        /** The agent. */
        agent: AgentId,
        /** Where. */
        address: core::net::SocketAddr,
    },
    /// Have the framework kill and replace what hosts this rank: it is lost, but its process may only be frozen.
    Kill {
        /** The rank. */
        rank: Rank,
        /** The framework's try. */
        attempt: Attempt,
        /** Its executor. */
        executor: String,
        /** Why. */
        reason: String,
    },
    /// A fact for the story.
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

/// The state machine of one job. Drive it: [`Tracker::handle`] one input, then [`Tracker::poll`] until `None`, then
/// sleep until [`Tracker::wake_at`] or the next input.
#[derive(Debug)]
pub struct Tracker {}

impl Tracker {
    /// A job whose ranks are all missing.
    /// # Errors
    /// `BadArgument` when the configuration can't work (no ranks, a limit below the heartbeat).
    pub fn new(_config: TrackerConfig, _now: Millis) -> Result<Self, Error> {
        todo!()
    }
    /// One thing that happened.
    pub fn handle(&mut self, _input: Input, _now: Millis) {
        todo!()
    }
    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Output> {
        todo!()
    }
    /// When to call with `Input::Wake` at the latest.
    pub fn wake_at(&self) -> Option<Millis> {
        todo!()
    }
}
