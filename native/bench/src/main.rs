//! Latency and bandwidth of Rejoin's collectives, one line per world and size, in the format of the peers' drivers
//! (`peers/README.md`): `peer,n,bytes,reps,median_us,min_us,p99_us,busbw_GBps`. A sample is the slowest rank's time.

mod compare;
mod engine;
mod floor;
mod network;
mod ranks;
mod report;
mod samples;
mod schedules;
mod shared;
mod table;

use clap::{Args, Parser, Subcommand};

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
    /// Allreduce over bare TCP sockets: schedules and step machines alone, without recovery. For choosing algorithms.
    Floor {
        #[command(flatten)]
        measured: Measured,
        /// star, exchange, doubling, direct or chain, or the one that the table for loopback says: chosen.
        /// All by turns when not given.
        #[arg(long)]
        algorithm: Option<String>,
    },
    /// Every schedule of every collective over bare TCP sockets, by turns, and what the tables choose beside the fastest: the
    /// evidence of the tables, on this host or, within `network`, on several.
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
    /// A table of figures that XGBoost's and Spark's bench has told (`scripts/bench.sh`).
    Report(report::Reported),
    /// Runs a command among hosts (network namespaces) with limited bandwidth and delay between them. Needs root.
    Network(network::Network),
    /// One rank that `rejoin run` has started for the engine's figures.
    #[command(hide = true)]
    Launched {
        /// What it is to do (JSON).
        job: String,
    },
    /// One rank in a process of its own; started by the others.
    #[command(hide = true)]
    Rank {
        /// What its starter told it (JSON).
        job: String,
    },
}

/// What is measured.
#[derive(Args, Clone)]
struct Measured {
    /// Worlds.
    #[arg(long, value_delimiter = ',', default_value = "2,4,8")]
    worlds: Vec<usize>,
    /// Bytes of float32 per rank.
    #[arg(long, value_delimiter = ',', default_value = "8,1024,65536,1048576,16777216,67108864")]
    sizes: Vec<usize>,
    /// How long a line may take.
    #[arg(long, default_value_t = 1500.0)]
    budget_ms: f64,
    /// Ranks as threads of one process, not as processes.
    #[arg(long)]
    threads: bool,
}

fn main() {
    let outcome = match Command::parse().what {
        What::Shared(measured) => ranks::run(&measured, ranks::Way::Shared),
        What::Floor { measured, algorithm } => ranks::run(&measured, ranks::Way::Floor { algorithm }),
        What::Schedules(judged) => schedules::run(&judged),
        What::Compare(compared) => compare::run(&compared),
        What::EngineAllreduce { measured, how } => engine::allreduce(&measured, &how),
        What::Engine(measures) => engine::run(&measures),
        What::Report(reported) => report::run(&reported),
        What::Network(network) => network::run(&network),
        What::Launched { job } => engine::run_launched(&job),
        What::Rank { job } => ranks::run_rank(&job),
    };
    if let Err(error) = outcome {
        eprintln!("rejoin-bench: {error}");
        std::process::exit(1);
    }
}
