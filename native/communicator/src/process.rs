//! The agent of a process whose ranks make collectives.

use super::call_log::{CallLog, CallSink};
use super::options::Language;
use super::plane::CollectivePlane;
use rejoin_agent::digested_checkpoint;
use rejoin_agent::durable::Durable;
use rejoin_agent::logs::{Budget, LogLimits};
use rejoin_agent::Agent;
use rejoin_agent::AgentConfig;
use rejoin_agent::{DataPlane, PlaneUsage};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::host::OWN_COPIES;
use rejoin_protocol::ids::{Lineage, Version};
use std::sync::Arc;

/// Which settings the limits of logs come from.
const LOG_SETTINGS: &str =
    "--log-memory, --log-disk and --spill of `rejoin run`, else log_memory, log_disk and spill where \
                            the process is started";

/// `0` in the environment if ranks of the same host don't share memory ([`Process::sharing_memory`]).
pub const SHARED_MEMORY: &str = "REJOIN_SHARED_MEMORY";

/// What a process may choose.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Durable checkpoints: rank 0's model is written every so many versions, and should all
    /// processes have died at once, the newest one that is whole is what they start from.
    pub durable: Option<Durable>,
    /// What the results that a rank that comes back is given again may use of memory and disk.
    pub logs: LogLimits,
    /// How many other processes hold each rank's own model
    /// ([`Communicator::checkpoint_with_own`](super::Communicator::checkpoint_with_own)), on other hosts where there
    /// are any: so many less one may die together with the rank, at the same moment. At least 1; where there are
    /// fewer others, each of them holds one. The same at all ranks of a job.
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
    pub(super) agent: Arc<Agent>,
    pub(super) plane: Arc<CollectivePlane>,
    pub(super) details: bool,
    pub(super) calls: CallLog,
    pub(super) shares_memory: bool,
    pub(super) own_copies: u32,
    pub(super) language: Language,
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
        let (calls, shares_memory) = (CallLog::default(), shares_memory());
        let (own_copies, language) = (settings.own_copies, Language::default());
        Ok(Process { agent, plane, details: false, calls, shares_memory, own_copies, language })
    }

    /// The same process, whose ranks' errors name what to do in this language, from their next join on.
    pub fn speaking(self, language: Language) -> Process {
        Process { language, ..self }
    }

    /// The same process, whose ranks report to the tracker how they spend their time from their next join on
    /// ([`rejoin_protocol::event::Event::Spent`]). It costs two looks at the clock for each call.
    pub fn with_details(self, details: bool) -> Process {
        Process { details, ..self }
    }

    /// The same process, whose ranks report each of their calls as one line from their next join on,
    /// before anything of it is sent:
    /// `rank 3.0 | version 2 | collective 5 | allreduce(100 f32, sum) at train.rs:12`, with the
    /// rank's incarnation after the point. All behind the first bar is the same at all ranks up to
    /// where they begin to differ. Called on the thread that makes the call.
    pub fn logging_calls(self, tell: Arc<CallSink>) -> Process {
        Process { calls: CallLog::new(Some(tell)), ..self }
    }

    /// The same process, whose ranks share memory with those of the same host from their next join
    /// on, or don't. They do if neither this nor the variable [`SHARED_MEMORY`] says
    /// anything else. Collectives go through shared memory where all ranks are on one host and all
    /// share it, and over links otherwise; results and errors are the same.
    pub fn sharing_memory(self, shares_memory: bool) -> Process {
        Process { shares_memory, ..self }
    }

    /// Hands over the model of this version that the job is to begin with
    /// ([`JobStart::handed_over`](rejoin_protocol::start::JobStart::handed_over)), before a rank here
    /// joins: at one process at least; the others fetch it. It is copied.
    ///
    /// # Errors
    /// `BadArgument` for version 0; `Mismatch` when other bytes of that version are here;
    /// `OutOfSpace`. The job ends with `Mismatch` if it was to begin with something else.
    pub fn hand_over(&self, version: Version, model: &[u8]) -> Result<(), Error> {
        if version == Version(0) {
            let text =
                "a model of version 0 was handed over; a job begins with a model from version 1 on, and without \
                        one otherwise";
            return Err(Error::new(Code::BadArgument, text));
        }
        let (bytes, digest) = self.agent.copy(model)?;
        let length = bytes.len() as u64;
        self.agent.hand_over(digested_checkpoint(Lineage(0), version, version.0, (length, digest), false), bytes)
    }

    /// What the results that are kept for ranks that come back use of this process's memory and disk.
    pub fn usage(&self) -> PlaneUsage {
        self.plane.usage()
    }

    /// The agent that hosts this process's ranks.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }
}

/// What [`SHARED_MEMORY`] says of this process, however it has come to its job.
fn shares_memory() -> bool {
    std::env::var(SHARED_MEMORY).map_or(true, |value| value != "0")
}
