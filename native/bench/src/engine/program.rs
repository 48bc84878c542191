//! What each rank does. It writes what it saw into a file of its own: `NAME,NANOSECONDS` a line.

use crate::samples::{measure, Allreduce};
use rejoin_agent::collective::{Communicator, Limits};
use rejoin_agent::collectives::Reduction;
use rejoin_agent::launched::Launched;
use rejoin_agent::protocol::error::Error;
use rustix::time::{clock_gettime, ClockId};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

/// What a rank is told.
#[derive(Serialize, Deserialize)]
pub struct Job {
    /// Where each rank writes its file.
    pub folder: PathBuf,
    pub task: Task,
}

#[derive(Serialize, Deserialize)]
pub enum Task {
    /// Lines of the peers' format, by rank 0.
    Allreduce { name: String, sizes: Vec<usize>, budget_ms: f64 },
    /// Joins and ends.
    Rendezvous,
    /// Takes checkpoints of so many bytes, and copies as many for comparison.
    Checkpoint { bytes: usize, repetitions: usize },
    /// One rank kills itself between two collectives and comes back.
    Recovery { bytes: usize },
}

/// Who dies, and in front of which collective.
const VICTIM: u32 = 3;
const DEATH: u32 = 10;

/// Results are kept until the version after the next; a new version is begun when this much has come together.
const VERSION_BYTES: usize = 32 << 20;

fn now() -> i128 {
    let time = clock_gettime(ClockId::Monotonic);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

/// Does what a launched rank was told.
pub fn run_launched(job: &str) -> Result<(), String> {
    let job: Job = serde_json::from_str(job).map_err(|error| error.to_string())?;
    work(&job).map_err(|error| error.to_string())
}

fn work(job: &Job) -> Result<(), Box<dyn std::error::Error>> {
    let came = now();
    let launched = Launched::from_environment()?;
    let path = job.folder.join(launched.rank.0.to_string());
    let mut told = OpenOptions::new().create(true).append(true).open(path)?;
    let Some(mut ranks) = launched.join("bench", Limits::default())? else { return Ok(()) };
    match &job.task {
        Task::Allreduce { name, sizes, budget_ms } => allreduce(ranks, name, sizes, *budget_ms, told)?,
        Task::Rendezvous => {
            writeln!(told, "came,{came}\njoined,{}", now())?;
            ranks.finish(&[])?;
        }
        Task::Checkpoint { bytes, repetitions } => {
            checkpoints(&mut ranks, *bytes, *repetitions, &mut told)?;
            ranks.finish(&[])?;
        }
        Task::Recovery { bytes } => {
            recovery(&mut ranks, *bytes, &mut told)?;
            ranks.finish(&[])?;
        }
    }
    Ok(())
}

fn checkpoints(
    ranks: &mut Communicator,
    bytes: usize,
    repetitions: usize,
    told: &mut File,
) -> Result<(), Box<dyn std::error::Error>> {
    let model = vec![1; bytes];
    for _ in 0..repetitions + 2 {
        ranks.allreduce(&mut [1.0f32], Reduction::Sum)?;
        let start = Instant::now();
        ranks.checkpoint(&model)?;
        writeln!(told, "checkpoint,{}", start.elapsed().as_nanos())?;
        ranks.allreduce(&mut [1.0f32], Reduction::Sum)?;
        let start = Instant::now();
        std::hint::black_box(model.clone());
        writeln!(told, "memcpy,{}", start.elapsed().as_nanos())?;
    }
    Ok(())
}

fn recovery(ranks: &mut Communicator, bytes: usize, told: &mut File) -> Result<(), Box<dyn std::error::Error>> {
    let mut model = vec![1; bytes];
    let (version, loaded) = ranks.load()?;
    if let Some(loaded) = loaded {
        model.copy_from_slice(&loaded);
    }
    for round in version.0..DEATH + 2 {
        if round == DEATH && ranks.rank().0 == VICTIM && ranks.incarnation() == 0 {
            writeln!(told, "died,{}", now())?;
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)?;
        }
        ranks.allreduce(&mut [1.0f32], Reduction::Sum)?;
        if round == DEATH {
            writeln!(told, "went on,{}", now())?;
        }
        ranks.checkpoint(&model)?;
    }
    Ok(())
}

/// The communicator as the drivers see it.
struct EngineRanks {
    ranks: Communicator,
    kept: usize,
}

impl EngineRanks {
    /// Begins a new version when much has been kept of this one.
    fn took(&mut self, bytes: usize) -> Result<(), Error> {
        self.kept += bytes;
        if self.kept >= VERSION_BYTES {
            self.kept = 0;
            self.ranks.checkpoint(&[])?;
        }
        Ok(())
    }
}

impl Allreduce for EngineRanks {
    fn prepare(&mut self, input: &[f32], output: &mut [f32]) -> Result<(), String> {
        // The communicator's calls are in place.
        output.copy_from_slice(input);
        self.took(size_of_val(input) + 1024).map_err(|error| error.to_string())
    }

    fn sum(&mut self, _input: &[f32], output: &mut [f32]) -> Result<(), String> {
        self.ranks.allreduce(output, Reduction::Sum).map_err(|error| error.to_string())
    }

    fn max(&mut self, values: &mut [f64]) -> Result<(), String> {
        self.ranks.allreduce(values, Reduction::Max).map_err(|error| error.to_string())
    }
}

fn allreduce(
    ranks: Communicator,
    name: &str,
    sizes: &[usize],
    budget_ms: f64,
    mut told: File,
) -> Result<(), Box<dyn std::error::Error>> {
    let (rank, world) = (ranks.rank().0 as usize, ranks.world() as usize);
    let mut engine = EngineRanks { ranks, kept: 0 };
    for &bytes in sizes {
        if let Some(line) = measure(name, rank, world, bytes, budget_ms, &mut engine)? {
            writeln!(told, "{line}")?;
        }
    }
    engine.ranks.finish(&[])?;
    Ok(())
}
