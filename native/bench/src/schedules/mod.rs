//! Every algorithm of every collective against the others, by turns, and whether the tables choose the fastest.
//!
//! A sample is the slowest rank's time for many calls in a row, divided by their number: with a delay of a millisecond between
//! hosts no barrier lets ranks begin a call at the same moment, so single calls can't be timed there.

mod judge;
mod kind;

use crate::floor::FloorRanks;
use crate::network::Host;
use crate::ranks::{self, Placement, Way};
use crate::samples::Allreduce as _;
use crate::Measured;
use clap::Args;
use judge::{Judge, Sample};
use kind::Kind;
use rejoin_collectives::{Element, Reducer, Reduction, Schedule, Seat};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Instant;

/// An algorithm whose time is so many times the fastest one's is not measured any further.
const LEFT_BEHIND: f64 = 3.0;

/// Most calls of a sample.
const MOST_CALLS: f64 = 1000.0;

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
    /// The table goes to `schedules.csv` in this folder, among hosts to `schedules-H-hosts-PLACEMENT.csv`; the figures of all
    /// algorithms have `-all` in their file's name.
    #[arg(long, default_value = "build/bench")]
    out: PathBuf,
}

/// What each rank is told.
#[derive(Clone, Serialize, Deserialize)]
pub struct Turns {
    rounds: usize,
    budget_ms: f64,
    collectives: Vec<String>,
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
    ranks::run_worlds(&judged.measured, &Way::Schedules(turns), judged.placement, |line| {
        match serde_json::from_str::<Sample>(line) {
            Ok(sample) => judge.add(sample),
            Err(_) => eprintln!("{line}"),
        }
    })?;
    let placement = format!("{:?}", judged.placement).to_lowercase();
    let name = if hosts == 0 { "schedules".into() } else { format!("schedules-{hosts}-hosts-{placement}") };
    judge.finish(&judged.out, &name)
}

/// One rank's part. Rank 0 prints a line for each sample.
pub fn take_part(
    seat: Seat,
    hosts: &[usize],
    sizes: &[usize],
    turns: &Turns,
    ranks: &mut FloorRanks,
) -> Result<(), String> {
    let reducer = Reducer::new(Reduction::Sum, Element::F32).map_err(|error| error.to_string())?;
    let wanted = |kind: &Kind| turns.collectives.is_empty() || turns.collectives.iter().any(|name| name == kind.name());
    for kind in Kind::ALL.into_iter().filter(wanted) {
        let sizes = if kind == Kind::Barrier { &[0][..] } else { sizes };
        for &bytes in sizes {
            let algorithms = kind.algorithms(hosts);
            let mut last = vec![0.0; algorithms.len()];
            for round in 0..=turns.rounds {
                let fastest = last.iter().copied().fold(f64::INFINITY, f64::min);
                for (index, algorithm) in algorithms.iter().enumerate() {
                    // All ranks have the same times, so all leave out the same. One sample counts for each in any case.
                    if round > 1 && last[index] > LEFT_BEHIND * fastest {
                        continue;
                    }
                    let schedules = kind.schedules(seat, hosts, bytes, algorithm)?;
                    let calls = turns.budget_ms * 1e3 / turns.rounds as f64 / last[index];
                    let turns = (calls.clamp(1.0, MOST_CALLS) / schedules.len() as f64).ceil() as usize;
                    // The first round wakes the links up, and says how long a call takes.
                    let turns = if round == 0 { 1 } else { turns };
                    last[index] = sample(kind, seat, &schedules, turns, &reducer, ranks)?;
                    if round > 0 && seat.rank == 0 {
                        let sample = Sample {
                            collective: kind.name().into(),
                            algorithm: algorithm.clone(),
                            world: seat.world,
                            bytes,
                            round,
                            micros: last[index],
                        };
                        println!("{}", serde_json::to_string(&sample).map_err(|error| error.to_string())?);
                    }
                }
            }
        }
    }
    Ok(())
}

/// The slowest rank's microseconds for one call.
fn sample(
    kind: Kind,
    seat: Seat,
    schedules: &[Schedule],
    turns: usize,
    reducer: &Reducer<'_>,
    ranks: &mut FloorRanks,
) -> Result<f64, String> {
    let longest = schedules.iter().map(Schedule::input_bytes).max().unwrap_or(0);
    let input = vec![(seat.rank + 1) as f32; longest / size_of::<f32>()];
    let input: &[u8] = bytemuck::cast_slice(&input);
    ranks.max(&mut [0.0])?;
    let start = Instant::now();
    for _ in 0..turns {
        for schedule in schedules {
            ranks.run(schedule, &input[..schedule.input_bytes()], reducer)?;
        }
    }
    let calls = turns * schedules.len();
    let mut micros = [start.elapsed().as_secs_f64() * 1e6 / calls as f64];
    ranks.max(&mut micros)?;
    let root = schedules.len() - 1;
    if let Some(schedule) = schedules.last() {
        let result = ranks.run(schedule, &input[..schedule.input_bytes()], reducer)?;
        check(kind, seat, root, result)?;
    }
    Ok(micros[0])
}

fn check(kind: Kind, seat: Seat, root: usize, result: &[u8]) -> Result<(), String> {
    let part = (result.len() / seat.world).max(1);
    for (place, bytes) in result.chunks_exact(size_of::<f32>()).enumerate() {
        let value: f32 = bytemuck::pod_read_unaligned(bytes);
        let expected = kind.expected(seat.world, root, place * size_of::<f32>() / part);
        if value != expected {
            return Err(format!("rank {}: element {place} of {} is {value}, not {expected}", seat.rank, kind.name()));
        }
    }
    Ok(())
}
