//! Every algorithm of every collective against the others, by turns, and whether the tables choose the fastest.
//!
//! A sample is the slowest rank's time for many calls in a row, divided by their number: with a
//! delay of a millisecond between hosts no barrier lets ranks begin a call at the same moment, so
//! single calls can't be timed there.

mod judge;
mod kind;
mod turns;

use crate::measured::Measured;
use crate::network::Host;
use crate::placement::Placement;
use crate::ranks::{self, Transport};
use clap::Args;
use judge::{Judge, Sample};
use kind::Kind;
use std::path::PathBuf;
pub use turns::{compare, Turns};

/// What is judged.
#[derive(Args)]
pub struct Judged {
    #[command(flatten)]
    measured: Measured,
    /// Samples of each algorithm, taken by turns. A line's budget is shared out among them.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Only these collectives: allreduce, allreduce-ring (the same in XGBoost's order), broadcast, allgather, barrier.
    #[arg(long, value_delimiter = ',')]
    collectives: Vec<String>,
    /// Where several ranks are on one host.
    #[arg(long, value_enum, default_value_t = Placement::Spread)]
    placement: Placement,
    /// The table goes to `schedules.csv` in this folder, among hosts to
    /// `schedules-H-hosts-PLACEMENT.csv`; the figures of all algorithms have `-all` in their file's
    /// name.
    #[arg(long, default_value = "build/bench")]
    out: PathBuf,
}

/// Measures everything, prints all figures, and then what was chosen beside the fastest of the others.
pub fn run(judged: &Judged) -> Result<(), String> {
    if let Some(unknown) = judged.collectives.iter().find(|name| Kind::named(name).is_none()) {
        return Err(format!("no collective is called {unknown}; expected {:?}", Kind::ALL.map(Kind::name)));
    }
    let turns =
        Turns { rounds: judged.rounds, budget_ms: judged.measured.budget_ms, collectives: judged.collectives.clone() };
    let hosts = Host::all()?.len();
    let mut judge = Judge::new(hosts, judged.placement);
    ranks::run_worlds(&judged.measured, &Transport::Schedules(turns), judged.placement, |line| {
        match serde_json::from_str::<Sample>(line) {
            Ok(sample) => judge.add(sample),
            Err(_) => eprintln!("{line}"),
        }
    })?;
    let placement = format!("{:?}", judged.placement).to_lowercase();
    let name = if hosts == 0 { "schedules".into() } else { format!("schedules-{hosts}-hosts-{placement}") };
    judge.finish(&judged.out, &name)
}
