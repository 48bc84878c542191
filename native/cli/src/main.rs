//! `rejoin`: runs a program as N ranks on this machine, kills them by rule, draws what happened, replays a simulation.
#![warn(missing_docs)]

mod hosts;
mod listen;
mod ranks;
mod run;
mod service;
mod simulate;
mod size;
mod status;
mod timeline;

use clap::builder::NonEmptyStringValueParser;
use clap::{CommandFactory, Parser, Subcommand};
use listen::Listen;
use ranks::{OneRank, Ranks};
use rejoin_agent::join_file::JoinSource;
use rejoin_agent::protocol::error::Error;
use rejoin_agent::protocol::fault::text::{duration, BadRule, Rule, GRAMMAR};
use rejoin_agent::protocol::host::OWN_COPIES;
use rejoin_agent::protocol::resize::Elastic;
use run::durable::Wanted;
use run::exclusions::Cooldown;
use run::order::Order;
use run::{Discovery, Joining};
use service::Service;
use simulate::Family;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Training in lock-step that survives a death by starting one rank again.
#[derive(Parser)]
#[command(name = "rejoin", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a program as N ranks on this machine, with their tracker.
    #[command(after_long_help = format!("{}\n\n{}", GRAMMAR, run::ending::STATUSES))]
    Run(Box<RunArguments>),
    /// Serve a job's tracker, for launchers on any hosts (`rejoin run --join`).
    ///
    /// Started again with the same name and join file after it was killed, it takes the job over.
    #[command(after_long_help = run::ending::STATUSES)]
    Tracker(Box<TrackerArguments>),
    /// Say how the job of a `rejoin tracker` is: what each rank does, where it is, and since when it is missing.
    ///
    /// Exit status: 0 if the tracker answers, 1 if it doesn't, or there is no join file: then the job is over, or has
    /// not begun.
    Status {
        /// The join file that the tracker has written.
        #[arg(long, value_name = "FILE")]
        join: PathBuf,
        /// Say it again every second, until the job is over.
        #[arg(long)]
        watch: bool,
        /// As a JSON object a line.
        #[arg(long)]
        json: bool,
    },
    /// Draw what each rank did when, from an event log, as an SVG picture.
    Timeline {
        /// A log written by `rejoin run --events`.
        log: PathBuf,
        /// Where the picture goes; standard output if it isn't given.
        #[arg(short, long)]
        output: Option<PathBuf>,
    },
    /// Replay a seed of the simulator and print its trace.
    Simulate {
        /// The seed.
        #[arg(long)]
        seed: u64,
        /// What the seed is drawn from.
        #[arg(long, value_enum, default_value = "mixed")]
        family: Family,
    },
}

#[derive(clap::Args)]
struct RunArguments {
    /// Number of ranks; with --join the ranks that are started here, as 0-3 or 0,2,5-7 [default with --hosts: one for
    /// each slot].
    #[arg(
        short = 'n', long = "ranks", value_name = "RANKS",
        required_unless_present_any = ["rank", "hosts", "slots", "worlds"]
    )]
    ranks: Option<Ranks>,
    /// Start the ranks on these hosts, so many on each (one if no number is given), by ssh. `rejoin`, the program and
    /// the folder have to be at the same paths there; `localhost` is this machine, without ssh. Slots that are left
    /// over take the ranks of a host that is gone.
    #[arg(
        short = 'H', long, value_name = "HOST[:SLOTS],…", value_delimiter = ',', value_parser = hosts::host,
        conflicts_with_all = ["join", "kills"]
    )]
    hosts: Option<Vec<(String, u32)>>,
    /// The command that starts a command on another host (--hosts, --discovery), with its options. It is given the host
    /// and a line for a shell, hands its standard input on, and asks for no password.
    #[arg(long, conflicts_with = "join", default_value = "ssh -o BatchMode=yes", value_name = "COMMAND")]
    ssh: String,
    /// Where the tracker listens, an address that other hosts reach [default: the one on the way to other hosts if such
    /// are named by --hosts, or by --discovery at first; else 127.0.0.1].
    #[arg(long, conflicts_with = "join", value_name = "ADDRESS[:PORT]")]
    listen: Option<Listen>,
    /// With --join: the one rank that is started here; `auto` reads it from what Slurm, MPI,
    /// Kubernetes or torchrun has set.
    #[arg(long, requires = "join", conflicts_with = "ranks", value_name = "RANK")]
    rank: Option<OneRank>,
    /// With --join, in an elastic job (`rejoin tracker --min`): start so many processes here. The job says which ranks
    /// they are.
    #[arg(
        long, requires = "join", conflicts_with_all = ["ranks", "rank"], value_name = "SLOTS",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    slots: Option<u32>,
    /// Start ranks of the job whose tracker (`rejoin tracker`) has written this file. Rules, durable
    /// checkpoints (`rejoin tracker --durable`) and the limit of silence are the tracker's then.
    #[arg(
        long, value_name = "FILE",
        conflicts_with_all = ["kills", "durable", "durable_every", "job", "resume", "lost_after"]
    )]
    join: Option<PathBuf>,
    /// With --join: the address that other hosts reach these ranks at [default: the one on the way
    /// to the tracker].
    #[arg(long, requires = "join", value_name = "ADDRESS")]
    address: Option<IpAddr>,
    /// With --join: the name of this host. Ranks of one name share memory, so containers that can't
    /// need names of their own [default: the host's name].
    #[arg(long, requires = "join", value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    host: Option<String>,
    /// Write a join file, by which `rejoin status --join FILE` says how this run is. It must not be there, has the
    /// job's secret, is this user's alone, and is removed at the end.
    #[arg(long, conflicts_with = "join", value_name = "FILE")]
    status: Option<PathBuf>,
    /// Start a rank that died again.
    #[arg(long)]
    restart: bool,
    /// How often each rank may be started again.
    #[arg(long, default_value_t = 10, value_name = "TIMES")]
    restarts: u32,
    /// Let the world shrink to this many ranks at the least: when a rank died and no replacement came in time, the
    /// others go on without it, from the newest version (the calls of their programs end with RESIZED).
    #[arg(long, value_name = "RANKS", conflicts_with = "join", value_parser = clap::value_parser!(u32).range(1..))]
    min: Option<u32>,
    /// With --min, and --discovery or --hosts: let the world grow to this many ranks at the most,
    /// as slots come [default: those that it begins with].
    #[arg(
        long, requires = "min", value_name = "RANKS",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(rejoin_agent::event_log::MOST_RANKS))
    )]
    max: Option<u32>,
    /// With --min: a program that prints the slots there are, as `HOST` or `HOST:SLOTS`, a line
    /// each; `localhost` is this machine, others are reached by ssh. It is asked every second. `-`:
    /// such lines come on standard input, and an empty one ends each listing; `! WHY` says that
    /// there is none. Processes are started as slots come, and ended (SIGTERM, then SIGKILL) as
    /// they go.
    #[arg(long, requires = "min", conflicts_with = "hosts", value_name = "PROGRAM")]
    discovery: Option<Discovery>,
    /// With --discovery: the slots of a host that it names without a number.
    #[arg(
        long, requires = "discovery", default_value_t = 1, value_name = "SLOTS",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    slots_per_host: u32,
    /// With --min: how long a replacement is waited for.
    #[arg(long, requires = "min", value_parser = time, default_value = "30s", value_name = "TIME")]
    elastic_timeout: Duration,
    /// With --min: how long the world doesn't grow after it has changed.
    #[arg(long, requires = "min", value_parser = time, default_value = "10s", value_name = "TIME")]
    resize_interval: Duration,
    /// Make the model of an elastic run again, byte for byte: each of the worlds that this event log of it tells of
    /// (`--events`) is started when the one before has made the versions that it made then. --events is of the last
    /// one.
    #[arg(
        long, value_name = "LOG",
        conflicts_with_all = ["ranks", "rank", "slots", "hosts", "join", "min", "kills", "durable", "job", "resume"]
    )]
    worlds: Option<PathBuf>,
    /// With --min: how often the world may change. After that it doesn't grow, and if it had to
    /// shrink the job ends with an error.
    #[arg(long, requires = "min", value_name = "TIMES")]
    reset_limit: Option<u32>,
    /// With --min: the own models of ranks that are gone may be lost, should no copy of one be left. Without it the job
    /// ends with an error then.
    #[arg(long, requires = "min")]
    own_may_be_lost: bool,
    /// With --hosts, --discovery or --slots: exclude a host after so many processes have failed there, or
    /// couldn't be started. No more are started there then; those that are there go on.
    #[arg(long, value_name = "FAILURES", value_parser = clap::value_parser!(u32).range(1..))]
    failures_per_host: Option<u32>,
    /// With --failures-per-host: for how long, at the least the first time and at the most ever; it doubles each time.
    /// Somewhat more is drawn at random, so that hosts don't come back together [default: for good].
    #[arg(long, requires = "failures_per_host", value_parser = cooldown, value_name = "MIN,MAX")]
    exclude_cooldown: Option<Cooldown>,
    /// Inject a fault into a rank at a moment; may be given more than once. `--help` says all of it.
    #[arg(long = "kill", value_name = "RULE")]
    kills: Vec<Rule>,
    /// Write what happens to this file, a JSON object a line.
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// End the whole run after so long.
    #[arg(long, value_parser = time, value_name = "TIME")]
    timeout: Option<Duration>,
    /// How long processes are given to end when the run ends early.
    #[arg(long, value_parser = time, default_value = "5s", value_name = "TIME")]
    grace: Duration,
    /// Silence after which a process is declared lost.
    #[arg(long, value_parser = silence, default_value = "1500ms", value_name = "TIME")]
    lost_after: Duration,
    /// How long a rank may be missing before the job ends with an error; with --join how long the
    /// tracker is waited for.
    #[arg(long, value_parser = time, default_value = "60s", value_name = "TIME")]
    members: Duration,
    /// Write durable checkpoints to this folder, which is made if it isn't there: what is started
    /// from should all ranks die at once. With other hosts it has to be one that all share.
    #[arg(long, value_name = "FOLDER")]
    durable: Option<PathBuf>,
    /// Every how many versions a durable checkpoint is written.
    #[arg(long, default_value = "1", value_name = "VERSIONS")]
    durable_every: NonZeroU32,
    /// Send all bytes of collectives over links, also between ranks of this machine, which share memory otherwise.
    #[arg(long)]
    no_shared_memory: bool,
    /// Name of the job, under which durable checkpoints are written and found again.
    #[arg(long, requires = "durable", value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    job: Option<String>,
    /// Start from the newest durable checkpoint of the job's name that is whole; from the beginning if there is none.
    #[arg(long, requires = "job")]
    resume: bool,
    /// Memory for results that a rank that comes back is given again, in each process; older ones go to disk.
    #[arg(long, value_parser = size::bytes, default_value = "1g", value_name = "BYTES")]
    log_memory: u64,
    /// The same on disk; more ends the job with an error. With 0 nothing goes there.
    #[arg(long, value_parser = size::bytes, default_value = "16g", value_name = "BYTES")]
    log_disk: u64,
    /// Folder for those on disk, in files without names; it is made if it isn't there. Default: the
    /// system's for temporary files.
    #[arg(long, value_name = "FOLDER")]
    spill: Option<PathBuf>,
    /// How many other ranks hold each rank's own model, for programs that take checkpoints with
    /// one: so many less one may die at the same moment as the rank. Where there are fewer others,
    /// each of them holds one.
    #[arg(
        long, default_value_t = OWN_COPIES, value_name = "COPIES",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    own_copies: u32,
    /// Write every call of every rank to standard error, one line each: to find where two ranks' calls begin to differ.
    #[arg(long)]
    calls: bool,
    /// Level of Rejoin's own log on standard error: off, error, warn, info, debug or trace.
    #[arg(long, default_value = "error", value_name = "LEVEL")]
    log: String,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

#[derive(clap::Args)]
struct TrackerArguments {
    /// Name of the job.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    job: String,
    /// Number of ranks.
    #[arg(
        short = 'n', long = "world", value_name = "RANKS",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(rejoin_agent::event_log::MOST_RANKS))
    )]
    world: u32,
    /// Let the world shrink to this many ranks at the least, as `rejoin run --min`.
    #[arg(long, value_name = "RANKS", value_parser = clap::value_parser!(u32).range(1..))]
    min: Option<u32>,
    /// With --min: let the world grow to this many ranks at the most, as launchers with slots come (`rejoin run
    /// --slots`) [default: those that it begins with].
    #[arg(
        long, requires = "min", value_name = "RANKS",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(rejoin_agent::event_log::MOST_RANKS))
    )]
    max: Option<u32>,
    /// With --min: how long a replacement is waited for.
    #[arg(long, requires = "min", value_parser = time, default_value = "30s", value_name = "TIME")]
    elastic_timeout: Duration,
    /// With --min: how long the world doesn't grow after it has changed.
    #[arg(long, requires = "min", value_parser = time, default_value = "10s", value_name = "TIME")]
    resize_interval: Duration,
    /// With --min: how often the world may change. After that it doesn't grow, and if it had to
    /// shrink the job ends with an error.
    #[arg(long, requires = "min", value_name = "TIMES")]
    reset_limit: Option<u32>,
    /// With --min: the own models of ranks that are gone may be lost, should no copy of one be left. Without it the job
    /// ends with an error then.
    #[arg(long, requires = "min")]
    own_may_be_lost: bool,
    /// The join file: address and secret, for this user's launchers on hosts that share the folder.
    /// It is removed when the job is over.
    #[arg(long, value_name = "FILE")]
    join: PathBuf,
    /// Take the job's secret from this file, 64 hexadecimal digits, which each host has under the same name (as a
    /// Secret that Kubernetes mounts). The join file names it, and has none itself.
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    /// Where it listens, an address that other hosts reach [default: the one on the way to other hosts].
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    listen: Option<Listen>,
    /// Silence after which a process is declared lost.
    #[arg(long, value_parser = silence, default_value = "1500ms", value_name = "TIME")]
    lost_after: Duration,
    /// How long a rank may be missing before the job ends with an error.
    #[arg(long, value_parser = time, default_value = "60s", value_name = "TIME")]
    members: Duration,
    /// Have all ranks write durable checkpoints to this folder, one that all hosts share under the same name: what is
    /// started from should all ranks die at once, or the whole job. It is made if it isn't there.
    #[arg(long, value_name = "FOLDER")]
    durable: Option<PathBuf>,
    /// With --durable: every how many versions one is written.
    #[arg(long, requires = "durable", default_value = "1", value_name = "VERSIONS")]
    durable_every: NonZeroU32,
    /// With --durable: start from the newest durable checkpoint of the job's name that is whole; from the beginning if
    /// there is none.
    #[arg(long, requires = "durable")]
    resume: bool,
    /// Encrypt what ranks send each other; what they say to the tracker always is.
    #[arg(long)]
    encrypt: bool,
    /// Write what happens to this file, a JSON object a line; behind what a former life of this tracker has written.
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Level of Rejoin's own log on standard error: off, error, warn, info, debug or trace.
    #[arg(long, default_value = "error", value_name = "LEVEL")]
    log: String,
}

fn time(text: &str) -> Result<Duration, BadRule> {
    duration("the time", text)
}

/// The bounds of a cool-down.
fn cooldown(text: &str) -> Result<Cooldown, String> {
    let expected = || "expected two times, the first not longer than the second, as 10s,10m".to_string();
    let (min, max) = text.split_once(',').ok_or_else(expected)?;
    let millis = |text| time(text).map(|time| time.as_millis() as u64).map_err(|bad| bad.to_string());
    let (min, max) = (millis(min)?, millis(max)?);
    if min > max {
        return Err(expected());
    }
    Ok(Cooldown { min, max })
}

/// A limit of silence: below the least one a process that only waits for its turn would count as dead.
fn silence(text: &str) -> Result<Duration, BadRule> {
    const LEAST: Duration = Duration::from_millis(20);
    let given = time(text)?;
    if given < LEAST {
        return Err(BadRule::new(format!("the time is {text:?}; expected {} ms or more", LEAST.as_millis())));
    }
    Ok(given)
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Run(arguments) => start(*arguments),
        Command::Tracker(arguments) => serve(*arguments),
        Command::Status { join, watch, json } => ended(status::status(&join, watch, json)),
        Command::Timeline { log, output } => match timeline::draw(&log, output.as_deref()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(text) => complain(&text),
        },
        Command::Simulate { seed, family } => {
            if simulate::simulate(seed, family) {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

fn complain(text: &str) -> ExitCode {
    eprintln!("rejoin: {text}");
    ExitCode::FAILURE
}

fn refuse(text: String) -> ! {
    Arguments::command().error(clap::error::ErrorKind::ValueValidation, text).exit()
}

fn ended(status: Result<u8, Error>) -> ExitCode {
    match status {
        Ok(status) => ExitCode::from(status),
        Err(error) => complain(&error.to_string()),
    }
}

fn serve(arguments: TrackerArguments) -> ExitCode {
    let TrackerArguments { job, world, join, secret, listen, lost_after, members, encrypt, events, log, .. } =
        arguments;
    if let Some(max) = arguments.max.filter(|max| *max < world) {
        refuse(format!("--max {max}: the job begins with {world} ranks (-n); {world} or more are expected"));
    }
    let wanted =
        |folder| Wanted { folder, every: arguments.durable_every, name: Some(job.clone()), resume: arguments.resume };
    let durable = arguments.durable.map(wanted);
    let elastic = arguments.min.map(|min| Elastic {
        min,
        max: arguments.max.unwrap_or(world),
        timeout_millis: arguments.elastic_timeout.as_millis() as u64,
        interval_millis: arguments.resize_interval.as_millis() as u64,
        most_resizes: arguments.reset_limit,
        own_may_be_lost: arguments.own_may_be_lost,
    });
    ended(service::serve(&Service {
        name: job,
        world,
        elastic,
        join,
        secret,
        listen,
        lost_after,
        members,
        durable,
        encrypt,
        events,
        log,
    }))
}

/// The number of ranks of a run of its own, or the ranks of a job that is joined.
fn joining(arguments: &RunArguments) -> (u32, Option<Joining>) {
    let Some(file) = arguments.join.clone() else {
        let slots =
            arguments.hosts.as_ref().map(|hosts| hosts.iter().fold(0_u32, |sum, (_, n)| sum.saturating_add(*n)));
        return match &arguments.ranks {
            Some(Ranks::Count(count)) => match slots.filter(|slots| slots < count) {
                Some(slots) => refuse(format!("--ranks {count}: --hosts has {slots} slots; expected as many or more")),
                None => (*count, None),
            },
            None => match slots {
                Some(slots) if slots <= rejoin_agent::event_log::MOST_RANKS => (slots, None),
                slots => refuse(format!("--hosts has {} slots, which is too many ranks", slots.unwrap_or_default())),
            },
            _ => refuse("--ranks: expected a number of ranks; which ones are started is said with --join".into()),
        };
    };
    let ranks = match (&arguments.ranks, arguments.rank) {
        (Some(Ranks::These(these)), _) => these.clone(),
        (Some(Ranks::Count(count)), _) => refuse(format!(
            "--ranks {count}: with --join the ranks that are started here are expected, as 0-3; --rank {count} is one"
        )),
        (None, Some(one)) => match one.number(|name| std::env::var(name).ok()) {
            Ok(rank) => [rank].into(),
            Err(bad) => refuse(bad.to_string()),
        },
        (None, None) if arguments.slots.is_some() => BTreeSet::new(),
        (None, None) => refuse("--join: which ranks are started here is expected, as --ranks 0-3".into()),
    };
    let host = arguments.host.clone().unwrap_or_else(run::host_name);
    let (source, order) = match file.as_os_str() == "-" {
        true => match Order::read(&mut std::io::stdin().lock()) {
            Ok((join, order)) => (JoinSource::Told(Box::new(join)), Some(order)),
            Err(error) => refuse(error.message),
        },
        false => (JoinSource::File(file), None),
    };
    // The number of ranks is the tracker's to say.
    let slots = arguments.slots.unwrap_or_default();
    let restarts = restarts(arguments);
    (0, Some(Joining { source, order, ranks, slots, restarts, host, address: arguments.address }))
}

/// How often a rank is started again after a death.
fn restarts(arguments: &RunArguments) -> u32 {
    if arguments.restart {
        arguments.restarts
    } else {
        0
    }
}

/// The most ranks that a run may have, whose world begins with so many.
fn most_ranks(arguments: &RunArguments, world: u32) -> u32 {
    match arguments.max {
        Some(max) if max < world => {
            refuse(format!("--max {max}: the job begins with {world} ranks (-n); {world} or more are expected"))
        }
        Some(max) if max > world && arguments.discovery.is_none() && arguments.hosts.is_none() => refuse(format!(
            "--max {max}: the job begins with {world} ranks (-n), and the slots for more have to be named by a program \
             (--discovery), or with their hosts (--hosts)"
        )),
        Some(max) => max,
        None => world,
    }
}

fn start(arguments: RunArguments) -> ExitCode {
    let (world, joining) = match arguments.worlds {
        // The log says how many ranks there are.
        Some(_) => (1, None),
        None => joining(&arguments),
    };
    if let Some(failures) = arguments.failures_per_host {
        if arguments.hosts.is_none() && arguments.discovery.is_none() && arguments.slots.is_none() {
            refuse(format!(
                "--failures-per-host {failures}: hosts are named by --hosts or --discovery, or this one brings \
                 --slots; give one of these"
            ));
        }
    }
    let (most, restarts) = (most_ranks(&arguments, world), restarts(&arguments));
    let numbered = arguments.kills.into_iter().enumerate().map(|(id, rule)| rule.numbered(id as u32, most));
    let rules = match numbered.collect::<Result<Vec<Rule>, BadRule>>() {
        Ok(rules) => rules,
        Err(bad) => refuse(format!("--kill {bad}")),
    };
    let options = run::Options {
        world,
        joining,
        hosts: arguments.hosts,
        ssh: arguments.ssh,
        listen: arguments.listen,
        min: arguments.min,
        max: arguments.max,
        discovery: arguments.discovery,
        slots_per_host: arguments.slots_per_host,
        elastic_timeout: arguments.elastic_timeout,
        resize_interval: arguments.resize_interval,
        until: None,
        reset_limit: arguments.reset_limit,
        own_may_be_lost: arguments.own_may_be_lost,
        failures_per_host: arguments.failures_per_host,
        exclude_cooldown: arguments.exclude_cooldown,
        restarts,
        rules,
        events: arguments.events,
        timeout: arguments.timeout,
        grace: arguments.grace,
        lost_after: arguments.lost_after,
        members: arguments.members,
        status: arguments.status,
        durable: arguments.durable,
        durable_every: arguments.durable_every,
        shares_memory: !arguments.no_shared_memory,
        job: arguments.job,
        resume: arguments.resume,
        log_memory: arguments.log_memory,
        log_disk: arguments.log_disk,
        spill: arguments.spill,
        own_copies: arguments.own_copies,
        calls: arguments.calls,
        log: arguments.log,
        command: arguments.command,
    };
    ended(match arguments.worlds {
        Some(log) => run::worlds::again(&options, &log),
        None => run::run(&options),
    })
}
