//! Latency and bandwidth of Rejoin's collectives, one line per world and size, in the format of the
//! peers' drivers (`peers/README.md`):
//! `peer,n,bytes,reps,median_us,min_us,p99_us,busbw_GBps,mean_us`. A sample is the slowest rank's
//! time.

mod compare;
mod engine;
mod floor;
mod load;
mod measured;
mod network;
mod placement;
mod ranks;
mod report;
mod ring;
mod samples;
mod schedules;
mod shared;
mod table;

use clap::{Parser, Subcommand};
use measured::Measured;

#[derive(Parser)]
#[command(name = "rejoin-bench", about = "Latency and bandwidth of Rejoin's collectives")]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Allreduce among ranks of this host through shared memory.
    Shared(Measured),
    /// Allreduce over bare TCP sockets: schedules and machines alone, without recovery. For choosing algorithms.
    Floor {
        #[command(flatten)]
        measured: Measured,
        /// star, exchange, doubling, direct or chain, or the one that the table for loopback says: chosen.
        /// All by turns when not given.
        #[arg(long)]
        algorithm: Option<String>,
    },
    /// Allreduce in a ring of blocking sockets, as trainers' own networks do it: what ours is held
    /// against on busy machines.
    Ring(Measured),
    /// Every schedule of every collective over bare TCP sockets, by turns, and what the tables
    /// choose beside the fastest: the evidence of the tables, on this host or, within `network`, on
    /// several.
    Schedules(schedules::Judged),
    /// Ours and the peers in turn, and a table of ratios.
    Compare(compare::Compared),
    /// Allreduce through the communicator, recovery on: ranks are processes that `rejoin run` starts.
    EngineAllreduce {
        #[command(flatten)]
        measured: Measured,
        #[command(flatten)]
        how: engine::How,
    },
    /// Rendezvous, checkpoints, and from a death to going on, against their bars.
    Engine(engine::Measures),
    /// A table of figures that the benches of Spark (`scripts/bench.sh`) and Flink (`scripts/bench-flink.sh`) have
    /// printed.
    Report(report::Reported),
    /// Runs a command among hosts (network namespaces) with limited bandwidth and delay between them. Needs root.
    Network(network::Network),
    /// One rank that `rejoin run` has started for the engine's figures.
    #[command(hide = true)]
    Launched {
        /// What it is to do (JSON).
        job: String,
    },
    /// A process that computes as long as its parent lives: what others want the cores for.
    #[command(hide = true)]
    Load,
    /// One rank in a process of its own; started by the others.
    #[command(hide = true)]
    Rank {
        /// What its starter gave it (JSON).
        job: String,
    },
}

fn main() {
    let outcome = match Command::parse().what {
        What::Shared(measured) => ranks::run(&measured, ranks::Transport::Shared),
        What::Floor { measured, algorithm } => ranks::run(&measured, ranks::Transport::Floor { algorithm }),
        What::Ring(measured) => ranks::run(&measured, ranks::Transport::Ring),
        What::Schedules(judged) => schedules::run(&judged),
        What::Compare(compared) => compare::run(&compared),
        What::EngineAllreduce { measured, how } => engine::allreduce(&measured, &how),
        What::Engine(measures) => engine::run(&measures),
        What::Report(reported) => report::run(&reported),
        What::Network(network) => network::run(&network),
        What::Launched { job } => engine::run_launched(&job),
        What::Load => load::run(),
        What::Rank { job } => ranks::run_rank(&job),
    };
    if let Err(error) = outcome {
        eprintln!("rejoin-bench: {error}");
        std::process::exit(1);
    }
}
