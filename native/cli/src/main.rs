//! `rejoin`: runs a program as N ranks on this machine, kills them by rule, draws what happened, replays a simulation.
#![warn(missing_docs)]

mod run;
mod simulate;
mod size;
mod timeline;

use clap::builder::NonEmptyStringValueParser;
use clap::{CommandFactory, Parser, Subcommand};
use rejoin_agent::protocol::fault::text::{duration, BadRule, Rule, GRAMMAR};
use rejoin_agent::protocol::host::OWN_COPIES;
use simulate::Family;
use std::ffi::OsString;
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
    #[command(after_long_help = format!("{}\n\n{}", GRAMMAR, run::status::STATUSES))]
    Run(Box<RunArguments>),
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
    /// Number of ranks.
    #[arg(
        short = 'n', long = "ranks",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(rejoin_agent::event_log::MOST_RANKS))
    )]
    ranks: u32,
    /// Start a rank that died again.
    #[arg(long)]
    restart: bool,
    /// How often each rank may be started again.
    #[arg(long, default_value_t = 10, value_name = "TIMES")]
    restarts: u32,
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
    /// How long a rank may be missing before the job ends with an error.
    #[arg(long, value_parser = time, default_value = "60s", value_name = "TIME")]
    members: Duration,
    /// Write durable checkpoints to this folder, which is made if it isn't there: what is started
    /// from should all ranks die at once.
    #[arg(long, value_name = "FOLDER")]
    durable: Option<PathBuf>,
    /// Every how many versions a durable checkpoint is written.
    #[arg(long, default_value_t = 1, value_name = "VERSIONS", value_parser = clap::value_parser!(u32).range(1..))]
    durable_every: u32,
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

fn time(text: &str) -> Result<Duration, BadRule> {
    duration("the time", text)
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

fn start(arguments: RunArguments) -> ExitCode {
    let world = arguments.ranks;
    let numbered = arguments.kills.into_iter().enumerate().map(|(id, rule)| rule.numbered(id as u32, world));
    let rules = match numbered.collect::<Result<Vec<Rule>, BadRule>>() {
        Ok(rules) => rules,
        Err(bad) => Arguments::command().error(clap::error::ErrorKind::ValueValidation, format!("--kill {bad}")).exit(),
    };
    let options = run::Options {
        world,
        restarts: if arguments.restart { arguments.restarts } else { 0 },
        rules,
        events: arguments.events,
        timeout: arguments.timeout,
        grace: arguments.grace,
        lost_after: arguments.lost_after,
        members: arguments.members,
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
    match run::run(&options) {
        Ok(status) => ExitCode::from(status),
        Err(error) => complain(&error.to_string()),
    }
}
