//! The agent of a process whose ranks make collectives.

use super::call_log::{CallLog, CallSink};
use super::calls::{Calls, Choices};
use super::communicator::{Communicator, JoinArguments};
use super::memory::Memory;
use super::options::{Language, Limits};
use super::plane::CollectivePlane;
use super::rank_profile::RankProfile;
use crate::agent::{Agent, AgentConfig, Joined, MemberId};
use crate::durable::Durable;
use crate::launched;
use crate::logs::{Budget, LogLimits};
use crate::plane::{DataPlane, PlaneUsage};
use bytes::Bytes;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::host::{Offer, OWN_COPIES};
use rejoin_protocol::ids::{Attempt, Rank};
use std::sync::Arc;

/// Which settings the limits of logs come from.
const LOG_SETTINGS: &str =
    "--log-memory, --log-disk and --spill of `rejoin run`, else log_memory, log_disk and spill where \
                            the process is started";

/// What a process may choose.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Durable checkpoints: rank 0's model is written every so many versions, and should all
    /// processes have died at once, the newest one that is whole is what they start from.
    pub durable: Option<Durable>,
    /// What the results that a rank that comes back is given again may use of memory and disk.
    pub logs: LogLimits,
    /// How many other processes hold each rank's own model ([`Communicator::checkpoint_with_own`]),
    /// on other hosts where there are any: so many less one may die together with the rank, at the
    /// same moment. At least 1; where there are fewer others, each of them holds one. The same at
    /// all ranks of a job.
    pub own_copies: u32,
}

impl Default for Settings {
    /// Nothing durable, [`LogLimits`]' default, and two copies of each own model.
    fn default() -> Self {
        Settings { durable: None, logs: LogLimits::default(), own_copies: OWN_COPIES }
    }
}

/// One process of one job. Any number of its ranks may live here, one thread each. Dropping it, and all communicators,
/// ends its agent.
#[derive(Clone)]
pub struct Process {
    agent: Arc<Agent>,
    plane: Arc<CollectivePlane>,
    details: bool,
    calls: CallLog,
    shares_memory: bool,
    own_copies: u32,
    language: Language,
}

impl Process {
    /// Starts the agent.
    ///
    /// # Errors
    /// As [`Agent::start`].
    pub fn start(config: AgentConfig) -> Result<Process, Error> {
        Process::start_with(config, Settings::default())
    }

    /// The same with settings.
    ///
    /// # Errors
    /// As [`Agent::start_keeping`].
    pub fn start_with(config: AgentConfig, settings: Settings) -> Result<Process, Error> {
        let plane = Arc::new(CollectivePlane::new(Budget::new(settings.logs, LOG_SETTINGS)));
        let agent = Arc::new(Agent::start_keeping(config, plane.clone(), settings.durable, settings.own_copies)?);
        let (calls, shares_memory) = (CallLog::default(), launched::shares_memory());
        let (own_copies, language) = (settings.own_copies, Language::default());
        Ok(Process { agent, plane, details: false, calls, shares_memory, own_copies, language })
    }

    /// The same process, whose ranks' errors name what to do in this language, from their next join on.
    pub fn speaking(self, language: Language) -> Process {
        Process { language, ..self }
    }

    /// The same process, whose ranks tell the tracker how they spend their time from their next join on
    /// ([`rejoin_protocol::event::Event::Spent`]). It costs two looks at the clock for each call.
    pub fn with_details(self, details: bool) -> Process {
        Process { details, ..self }
    }

    /// The same process, whose ranks tell each of their calls as one line from their next join on,
    /// before anything of it is sent:
    /// `rank 3.0 | version 2 | collective 5 | allreduce(100 f32, sum) at train.rs:12`, with the
    /// rank's incarnation after the point. All behind the first bar is the same at all ranks up to
    /// the place where they begin to differ. Called on the thread that makes the call.
    pub fn logging_calls(self, tell: Arc<CallSink>) -> Process {
        Process { calls: CallLog::new(Some(tell)), ..self }
    }

    /// The same process, whose ranks share memory with those of the same host from their next join
    /// on, or don't. They do if neither this nor the variable [`launched::SHARED_MEMORY`] says
    /// anything else. Collectives go through shared memory where all ranks are on one host and all
    /// share it, and over links otherwise; results and errors are the same.
    pub fn sharing_memory(self, shares_memory: bool) -> Process {
        Process { shares_memory, ..self }
    }

    pub(super) fn language(&self) -> Language {
        self.language
    }

    /// What the results that are kept for ranks that come back use of this process's memory and disk.
    pub fn usage(&self) -> PlaneUsage {
        self.plane.usage()
    }

    /// The agent.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Takes a rank's local rank, and waits until it can start: at the first rendezvous until all ranks
    /// are there, later until the checkpoint that it starts from is here. `given` says what this
    /// incarnation assumes and has to be equal everywhere.
    ///
    /// `Ok(None)`: the job has reached its end already.
    ///
    /// # Errors
    /// As [`Agent::join`]. The rank has no local rank then.
    pub fn join(
        &self,
        rank: Rank,
        attempt: Attempt,
        given: &str,
        limits: Limits,
    ) -> Result<Option<Communicator>, Error> {
        let segment = if self.shares_memory { self.plane.offer(rank) } else { None };
        let segment_address = segment.as_ref().map(|segment| segment.segment_address());
        let offer = Offer { segment: segment_address, ..Offer::default() };
        // A rank that wanted another number of copies would be given less than it relies on.
        let fingerprint = format!("collectives 1; own_copies {}; {given}", self.own_copies);
        let joined = self.agent.join_offering(rank, attempt, fingerprint, offer, limits.join)?;
        let (start, bytes) = match joined {
            Joined::Over { .. } => return Ok(None),
            Joined::Start { start, bytes, world } => {
                self.warn_of_fewer_copies(rank, world);
                (start, bytes)
            }
        };
        // A model may have no bytes.
        let bytes = bytes.or_else(|| start.checkpoint.map(|_| Bytes::new()));
        let member = MemberId { rank, incarnation: start.incarnation };
        let Some(local_rank) = self.plane.local_rank(member) else {
            let error = self.agent.failure(member).unwrap_or_else(|| {
                Error::new(
                    Code::Io,
                    format!("rank {rank} was started, but its local_rank could not be made in this process"),
                )
            });
            self.agent.leave(member, Some(error.clone()));
            return Err(error);
        };
        let choices = Choices {
            at_most: limits.call,
            rank_profile: RankProfile::new(self.details),
            log: self.calls.clone(),
            repeats: false,
        };
        let calls = Calls::new(self.plane.clone(), local_rank, Memory::new(member, segment), choices)?;
        let join_arguments = JoinArguments { process: self.clone(), attempt, terms: given.to_string() };
        Ok(Some(Communicator::start(self.agent.clone(), calls, start, bytes, (limits, join_arguments))))
    }

    /// More copies than there can ever be: whoever chose that relies on something else than there is.
    fn warn_of_fewer_copies(&self, rank: Rank, world: u32) {
        let (asked, others) = (self.own_copies, world.saturating_sub(1));
        if asked > others && asked != OWN_COPIES {
            log::warn!(
                "rank {rank}: {asked} copies of each rank's own model were asked for (own_copies), but there are \
                 {others} other ranks: each of them holds one"
            );
        }
    }
}
