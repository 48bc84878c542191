//! What a process was given by the one that started it as a rank of a job (`rejoin run`).
//!
//! The environment only names things: which rank this process is, where the tracker is, and the number of
//! an inherited descriptor. The job's secret is what is read from that descriptor. So it stands in
//! no environment, no argument and no file, and a program may be wrapped in shells and interpreters
//! as long as they let descriptors through.

pub use crate::SHARED_MEMORY;
use crate::{Communicator, Limits, Process, Settings};
use rejoin_agent::durable::Durable;
pub use rejoin_agent::inject::INJECTED;
use rejoin_agent::logs::LogLimits;
use rejoin_agent::AgentConfig;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Attempt, Rank, Task};
use rejoin_protocol::message::Timing;
use rejoin_transport::{JobId, PortRange, Secret};
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// Number of this process's rank.
pub const RANK: &str = "REJOIN_RANK";
/// Number of ranks; of an elastic job the most that there may be.
pub const WORLD: &str = "REJOIN_WORLD";
/// How often the rank's process has been started before.
pub const ATTEMPT: &str = "REJOIN_ATTEMPT";
/// Number of this process's rank among those of its host, as far as it was known when the process was started. What is
/// true at any time, also when another rank has moved, [`crate::Communicator::placement`] says.
pub const LOCAL_RANK: &str = "REJOIN_LOCAL_RANK";
/// How many ranks its host has.
pub const LOCAL_SIZE: &str = "REJOIN_LOCAL_SIZE";
/// Its number among the ranks that have this local rank, one a host.
pub const CROSS_RANK: &str = "REJOIN_CROSS_RANK";
/// How many of those there are.
pub const CROSS_SIZE: &str = "REJOIN_CROSS_SIZE";
/// The address that peers reach this process at; 127.0.0.1 when it isn't set.
pub const ADDRESS: &str = "REJOIN_ADDRESS";
/// The name of this host: ranks of one name share memory. `localhost` when it isn't set.
pub const HOST: &str = "REJOIN_HOST";
/// The join file that says where the tracker is, if it may come back elsewhere.
pub const JOIN: &str = "REJOIN_JOIN";
/// The tracker's address and port.
pub const TRACKER: &str = "REJOIN_TRACKER";
/// The job, 32 hexadecimal digits.
pub const JOB: &str = "REJOIN_JOB";
/// Number of the inherited descriptor that the secret is read from.
pub const SECRET_DESCRIPTOR: &str = "REJOIN_SECRET_FD";
/// `1` if what ranks send each other is encrypted.
pub const ENCRYPT: &str = "REJOIN_ENCRYPT";
/// `1` if the job wants to know how each rank spends its time ([`rejoin_protocol::profile`]).
pub const DETAILS: &str = "REJOIN_DETAILS";

/// `1` if each rank's calls are to be written to standard error, a line each ([`Process::logging_calls`]).
pub const CALLS: &str = "REJOIN_CALLS";

/// Folder of durable checkpoints ([`Settings::durable`]).
pub const DURABLE: &str = "REJOIN_DURABLE";
/// Every how many versions a checkpoint is written there; 1 when it isn't set.
pub const DURABLE_EVERY: &str = "REJOIN_DURABLE_EVERY";

/// The number of its files ([`rejoin_agent::durable::identity`]); the job's own when it isn't set.
pub const DURABLE_IDENTITY: &str = "REJOIN_DURABLE_IDENTITY";

/// Most bytes of logs in this process's memory; [`LogLimits`]' default when it isn't set.
pub const LOG_MEMORY: &str = "REJOIN_LOG_MEMORY";
/// The same on disk.
pub const LOG_DISK: &str = "REJOIN_LOG_DISK";
/// The folder of logs on disk.
pub const SPILL: &str = "REJOIN_SPILL";

/// How many other processes hold each rank's own model ([`Settings::own_copies`]); 2 when it isn't set.
pub const OWN_COPIES: &str = "REJOIN_OWN_COPIES";

/// `1` if the job's world may shrink: the rank's number is the process's then, and which rank it is the job says
/// ([`Process::join_as_task`]).
pub const ELASTIC: &str = "REJOIN_ELASTIC";

/// Level of the agent's log on standard error: off, error, warn, info, debug or trace.
pub const LOG: &str = "REJOIN_LOG";

/// Name of the anonymous file that holds the secret, as it is seen in `/proc/PID/fd`.
pub const SECRET_NAME: &str = "rejoin-secret";

/// How long the tracker may be out of reach at the start, in milliseconds: as long as it may be for those that are
/// there already. One that gave up before them would use up its restarts, though nothing is wrong with it.
const TRACKER_MILLIS: u64 = Timing::LEASE_MILLIS;

/// This process as a rank of a job.
#[derive(Clone, Debug)]
pub struct Launched {
    /// The rank that this process is.
    pub rank: Rank,
    /// Number of ranks.
    pub world: u32,
    /// Which start of this rank's process it is.
    pub attempt: Attempt,
    /// The job's world may shrink: which rank this process is, the job says.
    pub elastic: bool,
    /// Whether the job wants to know how each rank spends its time.
    pub details: bool,
    /// Whether each call is to be written to standard error.
    pub calls: bool,
    /// Durable checkpoints, and limits.
    pub settings: Settings,
    /// For [`rejoin_agent::Agent::start`].
    pub agent: AgentConfig,
}

impl Launched {
    /// Reads what this process was given, and sets the level of the log. Can be called again: nothing is used up.
    ///
    /// # Errors
    /// `BadState` when the process was not started by a launcher, `BadArgument` when a variable
    /// can't be read, `Io` when the secret's descriptor is not what it should be: mostly something
    /// in between closed inherited descriptors.
    pub fn from_environment() -> Result<Launched, Error> {
        if let Ok(level) = std::env::var(LOG) {
            rejoin_agent::logging::level(&level)?;
        }
        Launched::from(|name| std::env::var(name).ok())
    }

    /// Starts this process's agent and takes the rank's slot; see [`Process::join`]. `Ok(None)`:
    /// the job has reached its end already.
    ///
    /// # Errors
    /// As [`Process::start`] and [`Process::join`].
    pub fn join(&self, terms: &str, limits: Limits) -> Result<Option<Communicator>, Error> {
        self.join_in(&self.process()?, terms, limits)
    }

    /// The same with an agent that was started.
    ///
    /// # Errors
    /// As [`Process::join`].
    pub fn join_in(&self, process: &Process, terms: &str, limits: Limits) -> Result<Option<Communicator>, Error> {
        match self.elastic {
            true => process.join_as_task(Task(self.rank.0), self.attempt, terms, limits),
            false => process.join(self.rank, self.attempt, terms, limits),
        }
    }

    /// Starts this process's agent, which reports what the launcher wants to know.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub fn process(&self) -> Result<Process, Error> {
        let process = Process::start_with(self.agent.clone(), self.settings.clone())?;
        let process = process.with_details(self.details);
        Ok(match self.calls {
            true => process.logging_calls(Arc::new(|line| eprintln!("call {line}"))),
            false => process,
        })
    }

    /// The same from another source of variables, for tests.
    pub(crate) fn from(variable: impl Fn(&str) -> Option<String>) -> Result<Launched, Error> {
        let get = |name: &str| {
            variable(name).ok_or_else(|| {
                Error::new(
                    Code::BadState,
                    format!(
                        "this process was expected to be started as a rank of a job, but {name} is not set in its \
                         environment; start it with `rejoin run -n 2 -- PROGRAM` (-n 1 for a world of its own)"
                    ),
                )
            })
        };
        let rank: u32 = read(RANK, &get(RANK)?, "a rank's number")?;
        let world: u32 = read(WORLD, &get(WORLD)?, "a number of ranks")?;
        if rank >= world {
            return Err(Error::new(
                Code::BadArgument,
                format!("{RANK} is {rank} in a world of {world} ranks; 0 to {} are expected", i64::from(world) - 1),
            ));
        }
        let task: u32 = read(ATTEMPT, &get(ATTEMPT)?, "how often the rank was started before")?;
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let address = set(ADDRESS).unwrap_or_else(|| "127.0.0.1".into());
        let listen: IpAddr = read(ADDRESS, &address, "an address, as 10.0.0.7")?;
        let tracker: SocketAddr = read(TRACKER, &get(TRACKER)?, "an address with a port, as 127.0.0.1:4711")?;
        let job = number(JOB, &get(JOB)?)?;
        let secret = secret(read(SECRET_DESCRIPTOR, &get(SECRET_DESCRIPTOR)?, "a descriptor's number")?)?;
        let is_wanted = |name| variable(name).is_some_and(|value| value == "1");
        let (details, calls, elastic) = (is_wanted(DETAILS), is_wanted(CALLS), is_wanted(ELASTIC));
        let durable = match variable(DURABLE).filter(|folder| !folder.is_empty()) {
            Some(folder) => {
                let every = variable(DURABLE_EVERY).unwrap_or_else(|| "1".into());
                let every = read(DURABLE_EVERY, &every, "a number of versions")?;
                let identity = variable(DURABLE_IDENTITY).filter(|text| !text.is_empty());
                let identity = identity.map(|text| number(DURABLE_IDENTITY, &text)).transpose()?;
                Some(Durable { identity, ..Durable::at(folder, every) })
            }
            None => None,
        };
        let mut logs = LogLimits::default();
        if let Some(bytes) = variable(LOG_MEMORY) {
            logs.memory_bytes = read(LOG_MEMORY, &bytes, "a number of bytes")?;
        }
        if let Some(bytes) = variable(LOG_DISK) {
            logs.disk_bytes = read(LOG_DISK, &bytes, "a number of bytes")?;
        }
        if let Some(folder) = variable(SPILL).filter(|folder| !folder.is_empty()) {
            logs.folder = folder.into();
        }
        let own_copies = match variable(OWN_COPIES) {
            Some(copies) => read::<NonZeroU32>(OWN_COPIES, &copies, "a number of copies, at least 1")?.get(),
            None => rejoin_protocol::host::OWN_COPIES,
        };
        let agent = AgentConfig {
            job,
            secret,
            encrypt: is_wanted(ENCRYPT),
            executor: executor(rank, task),
            listen,
            ports: PortRange::EPHEMERAL,
            host: set(HOST).unwrap_or_else(|| "localhost".into()),
            tracker,
            join_file: set(JOIN).map(PathBuf::from),
            tracker_millis: TRACKER_MILLIS,
        };
        Ok(Launched {
            rank: Rank(rank),
            world,
            attempt: Attempt { stage: 0, task },
            elastic,
            details,
            calls,
            settings: Settings { durable, logs, own_copies },
            agent,
        })
    }
}

/// The name under which the tracker knows the process of this start of a rank.
pub fn executor(rank: u32, attempt: u32) -> String {
    format!("process {rank}.{attempt}")
}

fn read<T: FromStr>(name: &str, text: &str, expected: &str) -> Result<T, Error> {
    // Numbers are read with a sign before them too, which no launcher writes.
    let unsigned = Some(text).filter(|text| !text.starts_with('+')).unwrap_or_default();
    unsigned.parse().map_err(|_| Error::new(Code::BadArgument, format!("{name} is {text:?}; expected {expected}")))
}

fn number(name: &str, text: &str) -> Result<JobId, Error> {
    let is_plain = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = is_plain.then(|| u128::from_str_radix(text, 16).ok()).flatten();
    let number = number
        .ok_or_else(|| Error::new(Code::BadArgument, format!("{name} is {text:?}; expected 32 hexadecimal digits")))?;
    Ok(JobId(number.to_be_bytes()))
}

/// Reads the secret through `/proc`, which opens the anonymous file anew: it doesn't matter what read it before.
fn secret(descriptor: u32) -> Result<Secret, Error> {
    let path = format!("/proc/self/fd/{descriptor}");
    let wrong = |seen: String| {
        Error::new(
            Code::Io,
            format!(
                "{SECRET_DESCRIPTOR} names descriptor {descriptor}, which was expected to be the launcher's \
                 {SECRET_NAME}; seen: {seen}. Whatever stands between the launcher and this program (a wrapper, a \
                 supervisor, Python's subprocess with close_fds) has to let inherited descriptors through"
            ),
        )
    };
    let target = std::fs::read_link(&path).map_err(|_| wrong("it is closed".into()))?.display().to_string();
    if !target.contains(SECRET_NAME) {
        return Err(wrong(target));
    }
    let mut file = File::open(&path).map_err(|cause| wrong(cause.to_string()))?;
    let mut bytes = [0; 32];
    file.read_exact(&mut bytes).map_err(|cause| wrong(format!("a file without 32 bytes ({cause})")))?;
    Ok(Secret::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::FromRawFd;

    fn launched(changed: &str, value: Option<&str>) -> Result<Launched, Error> {
        let found = |name: &str| {
            if name == changed {
                return value.map(String::from);
            }
            let usual = match name {
                RANK => "1",
                WORLD => "3",
                ATTEMPT => "0",
                TRACKER => "127.0.0.1:4711",
                JOB => "000102030405060708090a0b0c0d0e0f",
                SECRET_DESCRIPTOR => "0",
                _ => return None,
            };
            Some(usual.to_string())
        };
        Launched::from(found)
    }

    fn refused(changed: &str, value: Option<&str>) -> Error {
        launched(changed, value).expect_err("standard input is no secret")
    }

    #[test]
    fn a_process_that_nobody_launched_is_told_how_to_be() {
        let error = refused(RANK, None);
        assert_eq!(error.code, Code::BadState);
        assert!(error.message.contains("rejoin run"), "{error}");
    }

    #[test]
    fn a_variable_that_cannot_be_read_is_named_with_what_was_expected() {
        let error = refused(TRACKER, Some("here"));
        assert_eq!(error.message, "REJOIN_TRACKER is \"here\"; expected an address with a port, as 127.0.0.1:4711");
        assert_eq!(refused(JOB, Some("12")).code, Code::BadArgument);
        assert!(refused(RANK, Some("3")).message.contains("0 to 2 are expected"));
    }

    #[test]
    fn a_process_that_is_started_while_the_tracker_is_away_waits_for_it_as_long_as_those_that_were_there_before() {
        // SAFETY: the name is a constant with an end.
        #[allow(unsafe_code)]
        let descriptor = unsafe { libc::memfd_create(c"rejoin-secret".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(descriptor >= 0, "an anonymous file can be made");
        // SAFETY: the descriptor was made just now, and nobody else has it.
        #[allow(unsafe_code)]
        let mut secret = unsafe { File::from_raw_fd(descriptor) };
        secret.write_all(&[7; 32]).expect("room for a secret");
        let launched = launched(SECRET_DESCRIPTOR, Some(&descriptor.to_string())).expect("it is a rank");
        assert_eq!(launched.agent.tracker_millis, Timing::LEASE_MILLIS);
    }

    #[test]
    fn a_descriptor_that_is_something_else_is_not_read() {
        let error = refused("", None);
        assert_eq!(error.code, Code::Io);
        assert!(error.message.contains("rejoin-secret"), "{error}");
        assert!(refused(SECRET_DESCRIPTOR, Some("99999")).message.contains("it is closed"));
    }
}
