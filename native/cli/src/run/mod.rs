//! `rejoin run`: the ranks of a job as processes of this machine, and their tracker, in one program.

mod child;
mod closing;
mod discovery;
pub mod durable;
pub mod ending;
pub mod exclusions;
mod growth;
mod hearing;
mod hosts;
mod injections;
mod joined;
mod launcher;
pub mod order;
pub mod output;
mod processes;
pub mod ready;
mod restarts;
pub mod signals;
mod slot_changes;
mod slots;
mod ssh;
mod timers;
pub mod tracker;
mod wait;
pub mod worlds;

use crate::listen::{own_address, Listen};
use crate::size::bytes;
use crate::times::{silence, time};
use durable::Wanted;
use exclusions::ExclusionRule;
use order::Order;
use rejoin_agent::join_file::JoinSource;
use rejoin_agent::protocol::fault::text::Rule;
use rejoin_agent::protocol::ids::Version;
use rejoin_agent::protocol::resize::Elastic;
use rejoin_agent::TrackerNotice;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

pub use launcher::run;
pub use ready::host_name;
pub use slots::Discovery;

/// What is to be run, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of ranks, at least 1.
    pub world: u32,
    /// The job that is joined, instead of one of the run's own.
    pub joining: Option<Joining>,
    /// The hosts that processes are started on, with their slots; `None`: this machine.
    pub hosts: Option<Vec<(String, u32)>>,
    /// The command by which they are started there.
    pub ssh: String,
    /// Where the run's own tracker listens; 127.0.0.1 if no other host is named, and else the address on the way to
    /// other hosts.
    pub listen: Option<Listen>,
    /// Within which bounds the world may change; `None`: it is fixed.
    pub elastic: Option<Elastic>,
    /// Who lists the slots there are; `None`: there is one for each rank, and always will be.
    pub discovery: Option<Discovery>,
    /// The slots of a host that is named without a number.
    pub slots_per_host: u32,
    /// When a host is excluded; `None`: never.
    pub exclusion: Option<ExclusionRule>,
    /// How often each rank may be started again.
    pub restarts: u32,
    /// Kill rules, numbered by their place.
    pub rules: Vec<Rule>,
    /// Where the event log goes.
    pub events: Option<PathBuf>,
    /// Whether ranks share memory.
    pub shares_memory: bool,
    /// Where a join file is written by which the run's status can be asked.
    pub status: Option<PathBuf>,
    /// Durable checkpoints, if there are to be any.
    pub durable: Option<Wanted>,
    /// What the results that are kept for ranks that come back may take.
    pub logs: LogSizes,
    /// How many other ranks hold each rank's own model.
    pub own_copies: u32,
    /// Whether ranks write their calls to standard error.
    pub calls: bool,
    /// The version that ends the run as soon as it is durable; `None`: the program ends it.
    pub until: Option<Version>,
    /// How long what may take.
    pub limits: TimeLimits,
    /// Level of the log.
    pub log: String,
    /// Program and arguments.
    pub command: Vec<OsString>,
}

/// What the results that are kept for ranks that come back may take.
#[derive(Clone, Debug, clap::Args)]
pub struct LogSizes {
    /// Memory for results that a rank that comes back is given again, in each process; older ones go to disk.
    #[arg(id = "log_memory", long = "log-memory", value_parser = bytes, default_value = "1g", value_name = "BYTES")]
    pub memory: u64,
    /// The same on disk; more ends the job with an error. With 0 nothing goes there.
    #[arg(id = "log_disk", long = "log-disk", value_parser = bytes, default_value = "16g", value_name = "BYTES")]
    pub disk: u64,
    /// Folder for those on disk, in files without names; it is made if it isn't there. Default: the
    /// system's for temporary files.
    #[arg(long, value_name = "FOLDER")]
    pub spill: Option<PathBuf>,
}

/// How long what may take.
#[derive(Clone, Debug, clap::Args)]
pub struct TimeLimits {
    /// End the whole run after so long.
    #[arg(long, value_parser = time, value_name = "TIME")]
    pub timeout: Option<Duration>,
    /// How long processes are given to end when the run ends early. Those that go on six times as long after the
    /// job's end are named, and waited for.
    #[arg(long, value_parser = time, default_value = "5s", value_name = "TIME")]
    pub grace: Duration,
    /// Silence after which a process is declared lost.
    #[arg(long, value_parser = silence, default_value = "1500ms", value_name = "TIME")]
    pub lost_after: Duration,
    /// How long a rank may be missing before the job ends with an error; with --join how long the
    /// tracker is waited for.
    #[arg(long, value_parser = time, default_value = "60s", value_name = "TIME")]
    pub members: Duration,
}

impl Options {
    /// How many ranks the job may have.
    pub fn most_ranks(&self) -> u32 {
        self.elastic.map_or(self.world, |elastic| elastic.max)
    }

    /// What the launcher has said that has started this one, if one has.
    pub fn order(&self) -> Option<&Order> {
        self.joining.as_ref().and_then(|joining| joining.order.as_ref())
    }

    /// Whether the job wants to know how each rank spends its time.
    pub fn wants_details(&self) -> bool {
        self.events.is_some() || self.order().is_some_and(|order| order.details)
    }

    /// Where the run's own tracker and the processes of this machine are reached.
    pub fn own_address(&self, goes_elsewhere: bool) -> IpAddr {
        match self.listen {
            Some(listen) => listen.address,
            None if goes_elsewhere => own_address(),
            None => Ipv4Addr::LOCALHOST.into(),
        }
    }
}

/// Ranks of a job whose tracker is elsewhere.
#[derive(Clone, Debug)]
pub struct Joining {
    /// Where the job's tracker is found.
    pub source: JoinSource,
    /// What the launcher has said that has started this one, if one has.
    pub order: Option<Order>,
    /// The ranks that are started here.
    pub ranks: BTreeSet<u32>,
    /// Of an elastic job, whose launchers are given numbers for their processes: how many are started here.
    pub slots: u32,
    /// How often each is started again after a death.
    pub restarts: u32,
    /// The name of this host.
    pub host: String,
    /// The address that other hosts reach its ranks at; the one on the way to the tracker if it isn't given.
    pub address: Option<IpAddr>,
}

/// A line of the launcher's own.
fn say(text: &str) {
    output::say(&format!("rejoin: {text}"));
}

/// What the launcher's thread waits for.
pub enum LauncherEvent {
    /// A process has ended and waits to be reaped.
    Ended {
        /** The rank that the process was. */
        rank: u32,
        /** Which start of it. */
        attempt: u32,
    },
    /// The tracker reported something.
    Notice(TrackerNotice),
    /// The tracker, in another process, has been out of reach for too long.
    TrackerGone {
        /** For so long. */
        limit: Duration,
        /** What was seen last. */
        reason: String,
    },
    /// The tracker has numbers for processes of this launcher, with the attempt that each begins with.
    Numbered(BTreeMap<u32, u32>),
    /// Another launcher starts these ranks now.
    TakenOver {
        /** The name of its host. */
        host: String,
        /** Which, of those that this launcher had. */
        ranks: Vec<u32>,
    },
    /// The connection to the launcher that has started this one is gone.
    StarterGone,
    /// The program that lists slots has answered, or failed.
    Listed(Result<slots::Listing, String>),
    /// The launcher got this signal.
    Signal(i32),
}
