//! The engine as a program sees it, recovery on: ranks are processes that `rejoin run` starts. What
//! is measured by more than one process is compared by the machine's monotonic clock.

mod program;
mod threads;

use crate::measured::Measured;
use crate::samples::TITLES;
use crate::table::{sorted, Row, Table};
use clap::Args;
use program::{Job, Task};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

pub use program::run_launched;

/// What of the engine is measured.
#[derive(Args)]
pub struct Measures {
    /// How often a rendezvous and a death are measured.
    #[arg(long, default_value_t = 9)]
    repetitions: usize,
    /// Only figures with this in their names.
    #[arg(long, default_value = "")]
    only: String,
    /// The table goes to `engine.csv` in this folder.
    #[arg(long, default_value = "build/bench")]
    out: PathBuf,
}

const MEGABYTE: usize = 1 << 20;

/// Ranks, and milliseconds from the moment in which the last one has come to that in which all can start.
const RENDEZVOUS: &[(usize, f64)] = &[(2, 10.0), (8, 20.0), (16, 30.0)];

/// Ranks of the simulated rendezvous, and milliseconds of real time for all that tracker and agents compute for it.
const SIMULATED: (u32, f64) = (1000, 2000.0);

/// Bytes of the model; more than one memcpy of as many bytes into new memory it must not cost.
const CHECKPOINTS: &[usize] = &[MEGABYTE, 100 * MEGABYTE];

/// Bytes of the model, whether the process freezes (SIGSTOP) instead of dying, and milliseconds
/// from then to the end of the next collective at the slowest rank.
const RECOVERIES: &[(usize, bool, f64)] = &[(0, false, 60.0), (100 * MEGABYTE, false, 150.0), (0, true, 2060.0)];

/// Bytes of the model, and milliseconds of Rejoin's own until all go on in another world: from a death on, without the
/// time for which a replacement is waited for, and from the version on at whose end the world grows.
const RESIZES: &[(usize, f64)] = &[(0, 60.0), (100 * MEGABYTE, 300.0)];

/// For how long a replacement is waited for.
const ELASTIC_TIMEOUT_MILLIS: f64 = 200.0;

/// Ranks of the simulated job whose world changes, by how many it does, and milliseconds of real time for each change.
const SIMULATED_RESIZES: (u32, &[u32], f64) = (1000, &[100], 2000.0);

/// Ranks that take so many tiny versions.
const VERSIONS: (usize, u32) = (2, 20_000);

/// Ranks for checkpoints and recoveries.
const WORLD: usize = 8;

/// Measures everything, writes the table, prints it and the number of bars met.
pub fn run(measures: &Measures) -> Result<(), String> {
    let mut table = Table::default();
    for &(world, bar) in RENDEZVOUS {
        let name = format!("rendezvous,n={world}");
        if name.contains(&measures.only) {
            let mut times = Vec::new();
            for _ in 0..measures.repetitions {
                let reported = measured(world, Task::Rendezvous, &[])?;
                times.push((reported.latest("joined")? - reported.latest("came")?) / 1e6);
            }
            table.add(absolute(name, times, bar));
        }
    }
    let (ranks, bar) = SIMULATED;
    let name = format!("simulated rendezvous,n={ranks}");
    if name.contains(&measures.only) {
        let mut times = Vec::new();
        for _ in 0..measures.repetitions {
            let began = Instant::now();
            rejoin_sim::rendezvous(ranks).map_err(|violation| violation.to_string())?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
        table.add(absolute(name, times, bar));
    }
    let (ranks, steps, bar) = SIMULATED_RESIZES;
    for &by in steps {
        let name = |what: &str| format!("simulated {what},n={ranks} by {by}");
        if name("grow").contains(&measures.only) || name("shrink").contains(&measures.only) {
            // Once: it takes two minutes, nearly all of them before and between the changes.
            let (grown, shrunk) = simulated_resizes(ranks, by)?;
            table.add(absolute(name("grow"), vec![grown], bar));
            table.add(absolute(name("shrink"), vec![shrunk], bar));
        }
    }
    for &bytes in CHECKPOINTS {
        let name = format!("checkpoint,n={WORLD} {} MB", bytes / MEGABYTE);
        if name.contains(&measures.only) {
            table.add(checkpoint(name, bytes, measures.repetitions)?);
        }
    }
    for &(bytes, frozen, bar) in RECOVERIES {
        let what = if frozen { ", frozen" } else { "" };
        let name = format!("recovery,n={WORLD} model {} MB{what}", bytes / MEGABYTE);
        if name.contains(&measures.only) {
            let mut times = Vec::new();
            for _ in 0..measures.repetitions {
                let reported = measured(WORLD, Task::Recovery { bytes, frozen }, &["--restart", "--restarts", "1"])?;
                times.push((reported.latest("went on")? - reported.latest("died")?) / 1e6);
            }
            table.add(absolute(name, times, bar));
        }
    }
    for &(bytes, bar) in RESIZES {
        let name = format!("shrink,n={WORLD} to {} model {} MB", WORLD - 1, bytes / MEGABYTE);
        if name.contains(&measures.only) {
            table.add(absolute(name, times(measures, || shrink(bytes))?, bar));
        }
        let name = format!("grow,n={} to {WORLD} model {} MB", WORLD - 1, bytes / MEGABYTE);
        if name.contains(&measures.only) {
            table.add(absolute(name, times(measures, || grow(bytes))?, bar));
        }
    }
    let (ranks, count) = VERSIONS;
    if format!("versions,n={ranks}").contains(&measures.only) {
        versions(ranks, count, measures.repetitions)?.into_iter().for_each(|row| table.add(row));
    }
    table.finish(&measures.out.join("engine.csv"))
}

/// Real time from the tracker's decision until all ranks can start: of a world that grows to so many, and of the one
/// that shrinks by as many after that.
fn simulated_resizes(ranks: u32, by: u32) -> Result<(f64, f64), String> {
    let said = |violation: rejoin_sim::Violation| violation.to_string();
    let mut job = rejoin_sim::Changing::begin(ranks, by);
    let change = |job: &mut rejoin_sim::Changing, ranks| {
        job.decides().map_err(said)?;
        let began = Instant::now();
        job.starts(ranks).map_err(said)?;
        Ok::<f64, String>(began.elapsed().as_secs_f64() * 1e3)
    };
    let grown = change(&mut job, ranks)?;
    job.kill(by);
    Ok((grown, change(&mut job, ranks - by)?))
}

/// One figure so often.
fn times(measures: &Measures, one: impl Fn() -> Result<f64, String>) -> Result<Vec<f64>, String> {
    (0..measures.repetitions).map(|_| one()).collect()
}

/// From a death of which no replacement comes to the end of the next collective at the slowest rank, without the time
/// for which it was waited for.
fn shrink(bytes: usize) -> Result<f64, String> {
    let (least, timeout) = ((WORLD - 1).to_string(), format!("{ELASTIC_TIMEOUT_MILLIS}ms"));
    let settings = ["--min", &least, "--elastic-timeout", &timeout];
    let reported = measured(WORLD, Task::Resize { bytes, world: WORLD as u32 - 1 }, &settings)?;
    Ok((reported.latest("went on")? - reported.latest("died")?) / 1e6 - ELASTIC_TIMEOUT_MILLIS)
}

/// From the moment in which the last rank has entered the version that the larger world begins with to the end of the
/// next collective at the slowest rank. The process that joins has stood by before.
fn grow(bytes: usize) -> Result<f64, String> {
    let (fewer, all, hosts) = ((WORLD - 1).to_string(), WORLD.to_string(), format!("localhost:{WORLD}"));
    let settings = ["-n", &fewer, "-H", &hosts, "--listen", "127.0.0.1", "--min", &fewer, "--max", &all];
    let reported = measured(WORLD, Task::Resize { bytes, world: WORLD as u32 }, &settings)?;
    let boundary = format!("entered {}", reported.latest("from")?);
    Ok((reported.latest("went on")? - reported.latest(&boundary)?) / 1e6)
}

fn absolute(name: String, times: Vec<f64>, bar: f64) -> Row {
    let ours = sorted(times.into_iter());
    Row { name, unit: "ms", ours, peer: None, bar: Some(bar) }
}

/// The slowest rank counts, beside a memcpy by the same ranks at the same time.
fn checkpoint(name: String, bytes: usize, repetitions: usize) -> Result<Row, String> {
    let reported = measured(WORLD, Task::Checkpoint { bytes, repetitions }, &[])?;
    let (ours, copies) = (reported.slowest("checkpoint")?, reported.slowest("memcpy")?);
    let ratios = sorted(ours.iter().zip(&copies).map(|(ours, copy)| ours / copy));
    let millis = |times: Vec<f64>| sorted(times.into_iter().map(|nanos| nanos / 1e6));
    Ok(Row {
        name,
        unit: "ms",
        ours: millis(ours),
        peer: Some(("memcpy".into(), millis(copies), ratios)),
        bar: Some(1.0),
    })
}

/// A version at the slowest rank; what the launcher, with the tracker in it, computes for it; and how
/// often the other threads of a rank's process wake meanwhile.
fn versions(world: usize, count: u32, repetitions: usize) -> Result<[Row; 3], String> {
    let (mut times, mut launcher, mut wakes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..repetitions {
        let before = children_seconds()?;
        let reported = measured(world, Task::Versions { count }, &[])?;
        let ranks: f64 = reported.of("processor").flatten().sum();
        let versions = f64::from(count);
        times.push(reported.latest("versions")? / 1e3 / versions);
        launcher.push(((children_seconds()? - before) * 1e6 - ranks / 1e3) / versions);
        wakes.push(reported.latest("wakes")? / versions);
    }
    let row = |what: &str, unit, values: Vec<f64>| {
        let name = format!("versions,n={world}{what}");
        Row { name, unit, ours: sorted(values.into_iter()), peer: None, bar: None }
    };
    Ok([
        row("", "us", times),
        row(" processor of the launcher", "us", launcher),
        row(" wakes of a rank's other threads", "per version", wakes),
    ])
}

/// The processor time of all children that have ended, with theirs.
fn children_seconds() -> Result<f64, String> {
    let stat = std::fs::read_to_string("/proc/self/stat").map_err(|error| error.to_string())?;
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    // The 16th and 17th field; the second one, in brackets, is the last that was cut off.
    let ticks: Vec<f64> = fields.skip(13).take(2).filter_map(|ticks| ticks.parse().ok()).collect();
    Ok(ticks.iter().sum::<f64>() / rustix::param::clock_ticks_per_second() as f64)
}

/// What the ranks wrote down: for each rank and name its numbers (nanoseconds), in their order.
struct RankFigures(BTreeMap<(usize, String), Vec<f64>>);

impl RankFigures {
    fn read(folder: &Path, world: usize) -> Result<RankFigures, String> {
        let mut figures: BTreeMap<(usize, String), Vec<f64>> = BTreeMap::new();
        for rank in 0..world {
            let path = folder.join(rank.to_string());
            let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            for line in text.lines() {
                let (name, number) =
                    line.split_once(',').ok_or_else(|| format!("expected NAME,NUMBER, saw {line:?}"))?;
                let number: f64 = number.parse().map_err(|error| format!("{line:?}: {error}"))?;
                figures.entry((rank, name.into())).or_default().push(number);
            }
        }
        Ok(RankFigures(figures))
    }

    fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Vec<f64>> {
        self.0.iter().filter(move |((_, its), _)| its == name).map(|(_, numbers)| numbers)
    }

    /// The latest time under this name.
    fn latest(&self, name: &str) -> Result<f64, String> {
        let times = self.of(name).flatten().copied();
        times.max_by(f64::total_cmp).ok_or_else(|| format!("no rank reported when it {name:?}"))
    }

    /// Repetition by repetition, the largest of all ranks.
    fn slowest(&self, name: &str) -> Result<Vec<f64>, String> {
        let count = self.of(name).map(Vec::len).min().ok_or_else(|| format!("no rank reported {name:?}"))?;
        Ok((0..count).map(|place| self.of(name).map(|numbers| numbers[place]).fold(0.0, f64::max)).collect())
    }
}

/// Runs the ranks of one job to its end, with these settings of `rejoin run`, and reads what they
/// wrote into its folder.
fn launch<T>(
    world: usize,
    task: Task,
    settings: &[&str],
    read: impl FnOnce(&Path) -> Result<T, String>,
) -> Result<T, String> {
    let folder = std::env::temp_dir().join(format!("rejoin-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let reported = launch_in(&folder, world, task, settings).and_then(|()| read(&folder));
    let _ = std::fs::remove_dir_all(&folder);
    reported
}

/// The same, in numbers.
fn measured(world: usize, task: Task, settings: &[&str]) -> Result<RankFigures, String> {
    launch(world, task, settings, |folder| RankFigures::read(folder, world))
}

/// How an allreduce through the communicator is measured.
#[derive(Args)]
pub struct How {
    /// Over links, where the ranks would share memory.
    #[arg(long, conflicts_with = "threads")]
    over_links: bool,
    /// The result comes into the input's place; otherwise it is read where the log keeps it.
    #[arg(long)]
    in_place: bool,
    /// Most calls of each size that are made before any is counted; otherwise as many as it takes
    /// until the memory of results is used for the second time.
    #[arg(long)]
    warm_up: Option<usize>,
}

impl How {
    fn name(&self, threads: bool) -> String {
        let transport = match (self.over_links, threads) {
            (true, _) => "rejoin",
            (_, true) => "rejoin-threads",
            _ => "rejoin-shared",
        };
        format!("{transport}{}", if self.in_place { "-in-place" } else { "" })
    }
}

/// A line for each size, in the format of the peers' drivers.
pub fn allreduce(measured: &Measured, how: &How) -> Result<(), String> {
    println!("{TITLES}");
    for &world in &measured.worlds {
        let (name, sizes, budget_ms) = (how.name(measured.threads), measured.sizes.clone(), measured.budget_ms);
        if measured.threads {
            let lines = threads::run(world, |ranks| {
                program::allreduce(ranks, &name, &sizes, budget_ms, how.in_place, how.warm_up)
            })?;
            lines.iter().for_each(|line| println!("{line}"));
            continue;
        }
        let task = Task::Allreduce { name, sizes, budget_ms, in_place: how.in_place, warm_up: how.warm_up };
        let transport: &[&str] = if how.over_links { &["--no-shared-memory"] } else { &[] };
        let lines = launch(world, task, transport, |folder| {
            std::fs::read_to_string(folder.join("0")).map_err(|error| format!("rank 0's lines: {error}"))
        });
        print!("{}", lines?);
    }
    Ok(())
}

fn launch_in(folder: &Path, world: usize, task: Task, settings: &[&str]) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let launcher = program.with_file_name("rejoin");
    let job = Job { folder: folder.to_path_buf(), task };
    let job = serde_json::to_string(&job).map_err(|error| error.to_string())?;
    let mut command = Command::new(&launcher);
    command.arg("run").args(settings);
    if !settings.contains(&"-n") {
        command.args(["-n", &world.to_string()]);
    }
    command.arg("--").arg(&program).args(["launched", &job]).stdin(Stdio::null());
    let output = command.output().map_err(|error| {
        format!("{}: {error}; build it first: cargo build --release -p rejoin-cli", launcher.display())
    })?;
    if !output.status.success() {
        let text = [output.stdout, output.stderr].concat();
        return Err(format!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&text)));
    }
    Ok(())
}
