//! `rejoin`: runs a program as N ranks on this machine, kills them by rule, draws what happened.
#![warn(missing_docs)]

mod elastic;
mod hosts;
mod listen;
mod ranks;
mod run;
mod service;
mod size;
mod status;
mod timeline;
mod times;

use clap::builder::NonEmptyStringValueParser;
use clap::{CommandFactory, Parser, Subcommand};
use elastic::ElasticArguments;
use listen::Listen;
use ranks::{OneRank, Ranks};
use rejoin_agent::join_file::JoinSource;
use rejoin_agent::protocol::error::Error;
use rejoin_agent::protocol::fault::text::{BadRule, Rule, GRAMMAR};
use rejoin_agent::protocol::host::OWN_COPIES;
use rejoin_agent::protocol::resize::Elastic;
use run::durable::Wanted;
use run::exclusions::Cooldown;
use run::order::Order;
use run::{Discovery, Joining};
use service::Service;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use times::{silence, time};

/// How other hosts are reached where it isn't said. A host that is gone without a word is noticed by the connection's
/// end, also when the job is over and nobody is waited for by the tracker; before that the tracker's own limit decides.
fn ssh(lost_after: Duration) -> String {
    const INTERVAL: u64 = 5;
    let count = (2 * lost_after.as_secs()).div_ceil(INTERVAL).max(3);
    format!("ssh -o BatchMode=yes -o ServerAliveInterval={INTERVAL} -o ServerAliveCountMax={count}")
}

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
    /// and a line for a shell, hands its standard input on, and asks for no password [default: ssh -o BatchMode=yes, by
    /// which a host that is gone without a word is noticed after 15 s, or twice --lost-after].
    #[arg(long, conflicts_with = "join", value_name = "COMMAND")]
    ssh: Option<String>,
    /// Where the tracker listens, an address that other hosts reach [default: the one on the way to other hosts if such
    /// are named by --hosts, or by --discovery at first; else 127.0.0.1].
    #[arg(long, conflicts_with = "join", value_name = "ADDRESS[:PORT]")]
    listen: Option<Listen>,
    #[command(flatten)]
    joining: JoinArguments,
    /// Write a join file, by which `rejoin status --join FILE` says how this run is. It must not be there, has the
    /// job's secret, is this user's alone, and is removed at the end.
    #[arg(long, conflicts_with = "join", value_name = "FILE")]
    status: Option<PathBuf>,
    /// Start a rank that died again.
    #[arg(long)]
    restart: bool,
    /// With --restart: how often each rank may be started again.
    #[arg(long, requires = "restart", default_value_t = 10, value_name = "TIMES")]
    restarts: u32,
    #[command(flatten)]
    elastic: ElasticArguments,
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
    /// Make the model of an elastic run again, byte for byte: each of the worlds that this event log of it tells of
    /// (`--events`) is started when the one before has made the versions that it made then. --events is of the last
    /// one.
    #[arg(
        long, value_name = "LOG",
        conflicts_with_all = ["ranks", "rank", "slots", "hosts", "join", "min", "kills", "durable", "job", "resume"]
    )]
    worlds: Option<PathBuf>,
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
    #[command(flatten)]
    limits: run::TimeLimits,
    /// Write durable checkpoints to this folder, which is made if it isn't there: what is started
    /// from should all ranks die at once. With other hosts it has to be one that all share.
    #[arg(long, value_name = "FOLDER")]
    durable: Option<PathBuf>,
    /// With --durable: every how many versions a durable checkpoint is written.
    #[arg(long, requires = "durable", default_value = "1", value_name = "VERSIONS")]
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
    #[command(flatten)]
    logs: run::LogSizes,
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

/// Of ranks whose tracker is elsewhere.
#[derive(clap::Args)]
struct JoinArguments {
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
        conflicts_with_all = ["kills", "durable", "durable_every", "job", "resume", "lost_after", "min"]
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
    #[command(flatten)]
    elastic: ElasticArguments,
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

fn main() -> ExitCode {
    let status = execute(Arguments::parse().command);
    run::output::drain();
    status
}

fn execute(command: Command) -> ExitCode {
    match command {
        Command::Run(arguments) => start(*arguments),
        Command::Tracker(arguments) => serve(*arguments),
        Command::Status { join, watch, json } => ended(status::status(&join, watch, json)),
        Command::Timeline { log, output } => match timeline::draw(&log, output.as_deref()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(text) => complain(&text),
        },
    }
}

fn complain(text: &str) -> ExitCode {
    run::output::say(&format!("rejoin: {text}"));
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
    let elastic = within(&arguments.elastic, world);
    let wanted =
        |folder| Wanted { folder, every: arguments.durable_every, name: Some(job.clone()), resume: arguments.resume };
    let durable = arguments.durable.map(wanted);
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
    let Some(file) = arguments.joining.join.clone() else {
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
    let ranks = match (&arguments.ranks, arguments.joining.rank) {
        (Some(Ranks::These(these)), _) => these.clone(),
        (Some(Ranks::Count(count)), _) => refuse(format!(
            "--ranks {count}: with --join the ranks that are started here are expected, as 0-3; --rank {count} is one"
        )),
        (None, Some(one)) => match one.number(|name| std::env::var(name).ok()) {
            Ok(rank) => [rank].into(),
            Err(bad) => refuse(bad.to_string()),
        },
        (None, None) if arguments.joining.slots.is_some() => BTreeSet::new(),
        (None, None) => refuse("--join: which ranks are started here is expected, as --ranks 0-3".into()),
    };
    let host = arguments.joining.host.clone().unwrap_or_else(run::host_name);
    let (source, order) = match file.as_os_str() == "-" {
        true => match Order::read(&mut std::io::stdin().lock()) {
            Ok((join, order)) => (JoinSource::Told(Box::new(join)), Some(order)),
            Err(error) => refuse(error.message),
        },
        false => (JoinSource::File(file), None),
    };
    // The number of ranks is the tracker's to say.
    let slots = arguments.joining.slots.unwrap_or_default();
    let restarts = restarts(arguments);
    (0, Some(Joining { source, order, ranks, slots, restarts, host, address: arguments.joining.address }))
}

/// How often a rank is started again after a death.
fn restarts(arguments: &RunArguments) -> u32 {
    if arguments.restart {
        arguments.restarts
    } else {
        0
    }
}

/// How a job may change its world that begins with so many ranks.
fn within(arguments: &ElasticArguments, world: u32) -> Option<Elastic> {
    arguments.elastic(world).unwrap_or_else(|text| refuse(text))
}

/// The same of a run, whose world can't grow by itself.
fn elastic(arguments: &RunArguments, world: u32) -> Option<Elastic> {
    let elastic = within(&arguments.elastic, world)?;
    let max = elastic.max;
    if max > world && arguments.discovery.is_none() && arguments.hosts.is_none() {
        refuse(format!(
            "--max {max}: the job begins with {world} ranks (-n), and the slots for more have to be named by a program \
             (--discovery), or with their hosts (--hosts)"
        ));
    }
    Some(elastic)
}

fn start(arguments: RunArguments) -> ExitCode {
    let (world, joining) = match arguments.worlds {
        // The log says how many ranks there are.
        Some(_) => (1, None),
        None => joining(&arguments),
    };
    if let Some(failures) = arguments.failures_per_host {
        if arguments.hosts.is_none() && arguments.discovery.is_none() && arguments.joining.slots.is_none() {
            refuse(format!(
                "--failures-per-host {failures}: hosts are named by --hosts or --discovery, or this one brings \
                 --slots; give one of these"
            ));
        }
    }
    let (elastic, restarts) = (elastic(&arguments, world), restarts(&arguments));
    let most = elastic.map_or(world, |elastic| elastic.max);
    let numbered = arguments.kills.into_iter().enumerate().map(|(id, rule)| rule.numbered(id as u32, most));
    let rules = match numbered.collect::<Result<Vec<Rule>, BadRule>>() {
        Ok(rules) => rules,
        Err(bad) => refuse(format!("--kill {bad}")),
    };
    let (every, name, resume) = (arguments.durable_every, arguments.job, arguments.resume);
    let durable = arguments.durable.map(|folder| Wanted { folder, every, name, resume });
    let options = run::Options {
        world,
        joining,
        hosts: arguments.hosts,
        ssh: arguments.ssh.unwrap_or_else(|| ssh(arguments.limits.lost_after)),
        listen: arguments.listen,
        elastic,
        discovery: arguments.discovery,
        slots_per_host: arguments.slots_per_host,
        until: None,
        exclusion: arguments
            .failures_per_host
            .map(|failures| run::exclusions::ExclusionRule { failures, cooldown: arguments.exclude_cooldown }),
        restarts,
        rules,
        events: arguments.events,
        limits: arguments.limits,
        status: arguments.status,
        durable,
        shares_memory: !arguments.no_shared_memory,
        logs: arguments.logs,
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
