//! What each rank does. It writes what it saw into a file of its own: `NAME,NANOSECONDS` a line.

use crate::samples::{measure, Allreduce, WARM_UP};
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_communicator::collectives::Reduction;
use rejoin_communicator::launched::Launched;
use rejoin_communicator::{Communicator, Limits, SharedResult};
use rustix::process::{getpid, kill_process, Signal};
use rustix::time::{clock_gettime, ClockId};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What a rank is given.
#[derive(Serialize, Deserialize)]
pub struct Job {
    /// Where each rank writes its file.
    pub folder: PathBuf,
    pub task: Task,
}

#[derive(Serialize, Deserialize)]
pub enum Task {
    /// Lines of the peers' format, by rank 0.
    Allreduce { name: String, sizes: Vec<usize>, budget_ms: f64, in_place: bool, warm_up: Option<usize> },
    /// Joins and ends.
    Rendezvous,
    /// Takes checkpoints of so many bytes, and copies as many for comparison.
    Checkpoint { bytes: usize, repetitions: usize },
    /// One rank kills itself, or freezes, between two collectives and comes back.
    Recovery { bytes: usize, frozen: bool },
    /// Goes on in another world: one of fewer ranks, since one has killed itself, or one of so many, as more come.
    Resize { bytes: usize, world: u32 },
    /// Takes so many checkpoints of 8 bytes, each after a sum of one number.
    Versions { count: u32 },
}

/// The rank that dies, and in front of which collective.
const VICTIM: u32 = 3;
const DEATH: u32 = 10;

/// Results are kept until the version after the next; a new version is begun when this much has come together.
const VERSION_BYTES: usize = 32 << 20;

fn now() -> i128 {
    let time = clock_gettime(ClockId::Monotonic);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

/// Does what a launched rank was given to do.
pub fn run_launched(job: &str) -> Result<(), String> {
    let job: Job = serde_json::from_str(job).map_err(|error| error.to_string())?;
    work(&job).map_err(|error| error.to_string())
}

fn work(job: &Job) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let came = now();
    let launched = Launched::from_environment()?;
    let path = job.folder.join(launched.rank.0.to_string());
    let mut figures = OpenOptions::new().create(true).append(true).open(path)?;
    let Some(mut ranks) = launched.join("bench", Limits::default())? else { return Ok(()) };
    if let Task::Resize { bytes, world } = &job.task {
        return resizing(ranks, launched.rank.0, (*bytes, *world), &mut figures);
    }
    // What the recovery goes on with it loads itself.
    ranks.load()?;
    match &job.task {
        Task::Allreduce { name, sizes, budget_ms, in_place, warm_up } => {
            for line in allreduce(ranks, name, sizes, *budget_ms, *in_place, *warm_up)? {
                writeln!(figures, "{line}")?;
            }
        }
        Task::Resize { .. } => {}
        Task::Rendezvous => {
            writeln!(figures, "came,{came}\njoined,{}", now())?;
            ranks.finish(&[])?;
        }
        Task::Checkpoint { bytes, repetitions } => {
            checkpoints(&mut ranks, *bytes, *repetitions, &mut figures)?;
            ranks.finish(&[])?;
        }
        Task::Recovery { bytes, frozen } => {
            let signal = if *frozen { Signal::STOP } else { Signal::KILL };
            recovery(&mut ranks, *bytes, signal, &mut figures)?;
            ranks.finish(&[])?;
        }
        Task::Versions { count } => versions(ranks, *count, &mut figures)?,
    }
    Ok(())
}

fn checkpoints(
    ranks: &mut Communicator,
    bytes: usize,
    repetitions: usize,
    figures: &mut File,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let model = vec![1; bytes];
    for _ in 0..repetitions + 2 {
        ranks.allreduce(&mut [1.0f32], Reduction::Sum)?;
        let start = Instant::now();
        ranks.checkpoint(&model)?;
        writeln!(figures, "checkpoint,{}", start.elapsed().as_nanos())?;
        ranks.allreduce(&mut [1.0f32], Reduction::Sum)?;
        let start = Instant::now();
        std::hint::black_box(model.clone());
        writeln!(figures, "memcpy,{}", start.elapsed().as_nanos())?;
    }
    Ok(())
}

fn recovery(
    ranks: &mut Communicator,
    bytes: usize,
    signal: Signal,
    figures: &mut File,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    // A rank that comes back goes on with the bytes that were loaded: what a program makes of them is its own time.
    let (version, loaded) = ranks.load()?;
    let model = loaded.unwrap_or_else(|| vec![1; bytes].into());
    for round in version.0..DEATH + 2 {
        if round == DEATH && ranks.rank().0 == VICTIM && ranks.incarnation() == 0 {
            writeln!(figures, "died,{}", now())?;
            kill_process(getpid(), signal)?;
        }
        ranks.allreduce(&mut [1.0f32], Reduction::Sum)?;
        if round == DEATH {
            writeln!(figures, "went on,{}", now())?;
        }
        ranks.checkpoint(&model)?;
    }
    Ok(())
}

/// What a program computes between two collectives, so that a world that grows does so in its first hundred versions,
/// which ranks report one by one.
const WORK: Duration = Duration::from_millis(2);

/// Longest wait for the other world.
const LIMIT: Duration = Duration::from_secs(30);

/// Rounds until the world is this one, and three more; `number` is the process's.
fn resizing(
    mut ranks: Communicator,
    number: u32,
    (bytes, world): (usize, u32),
    figures: &mut File,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    loop {
        match rounds(&mut ranks, number, (bytes, world), figures).and_then(|()| ranks.end(&[])) {
            Err(error) if error.code.goes_back() => match ranks.join_again()? {
                Some(next) => ranks = next,
                None => return Ok(()),
            },
            ended => return Ok(ended?),
        }
    }
}

fn rounds(
    ranks: &mut Communicator,
    number: u32,
    (bytes, world): (usize, u32),
    figures: &mut File,
) -> Result<(), Error> {
    let (version, loaded) = ranks.load()?;
    let model = loaded.unwrap_or_else(|| vec![1; bytes].into());
    let mut report = |name: &str, number: i128| {
        let written = writeln!(figures, "{name},{number}");
        written.map_err(|cause| Error::new(Code::Io, format!("a figure can't be written: {cause}")))
    };
    let is_there = ranks.world() == world;
    let began = Instant::now();
    for round in 0.. {
        if is_there && round == 3 || began.elapsed() > LIMIT {
            break;
        }
        if !is_there {
            std::thread::sleep(WORK);
        }
        if world < ranks.world() && number == VICTIM && ranks.version().0 == DEATH {
            report("died", now())?;
            let _ = kill_process(getpid(), Signal::KILL);
        }
        ranks.allreduce(&mut [1.0f32], Reduction::Sum)?;
        if is_there && round == 0 {
            report("went on", now())?;
            report("from", i128::from(version.0))?;
        }
        ranks.checkpoint(&model)?;
        report(&format!("entered {}", ranks.version()), now())?;
    }
    Ok(())
}

fn versions(
    mut ranks: Communicator,
    count: u32,
    figures: &mut File,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let (wakes, start) = (others_wakes()?, Instant::now());
    for version in 0..count {
        ranks.allreduce(&mut [1.0f32], Reduction::Sum)?;
        ranks.checkpoint(&u64::from(version).to_le_bytes())?;
    }
    writeln!(figures, "versions,{}\nwakes,{}", start.elapsed().as_nanos(), others_wakes()? - wakes)?;
    ranks.finish(&[])?;
    let used = clock_gettime(ClockId::ProcessCPUTime);
    writeln!(figures, "processor,{}", i128::from(used.tv_sec) * 1_000_000_000 + i128::from(used.tv_nsec))?;
    Ok(())
}

/// How often this process' threads have slept and were woken, without the one that calls.
fn others_wakes() -> std::io::Result<u64> {
    let own = getpid().to_string();
    let mut wakes = 0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let thread = thread?;
        if thread.file_name().to_str() != Some(&own) {
            let status = std::fs::read_to_string(thread.path().join("status"))?;
            let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            wakes += count.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or_default();
        }
    }
    Ok(wakes)
}

/// The communicator as the drivers see it.
struct EngineRanks {
    ranks: Communicator,
    /// The result comes into the input's place, which costs a copy, and another one before the call that isn't timed.
    in_place: bool,
    /// Most calls that aren't counted.
    most_warm_up: usize,
    last: Option<SharedResult<f32>>,
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

/// As many results of 32 KiB as are kept.
const MOST_WARM_UP: usize = 3 * VERSION_BYTES / (32 << 10);

/// What a result counts for besides its bytes.
const RESULT_OVERHEAD: usize = 1024;

impl Allreduce for EngineRanks {
    /// Until the memory of results is used for the second time, as it is from a training's third
    /// version on. That of small ones is the allocator's.
    fn warm_up(&self, bytes: usize) -> usize {
        WARM_UP + (3 * VERSION_BYTES / (bytes + RESULT_OVERHEAD)).min(self.most_warm_up)
    }

    fn prepare(&mut self, input: &[f32], output: &mut [f32]) -> Result<(), String> {
        // A caller that still holds a result when the log drops it keeps its memory from being used again.
        self.last = None;
        if self.in_place {
            output.copy_from_slice(input);
        }
        self.took(size_of_val(input) + RESULT_OVERHEAD).map_err(|error| error.to_string())
    }

    fn sum(&mut self, input: &[f32], output: &mut [f32]) -> Result<(), String> {
        let made = match self.in_place {
            true => self.ranks.allreduce(output, Reduction::Sum),
            false => self.ranks.allreduce_shared(input, Reduction::Sum).map(|sum| self.last = Some(sum)),
        };
        made.map_err(|error| error.to_string())
    }

    fn show(&mut self, output: &mut [f32]) {
        if let Some(last) = self.last.take() {
            output.copy_from_slice(&last);
        }
    }

    fn max(&mut self, values: &mut [f64]) -> Result<(), String> {
        self.ranks.allreduce(values, Reduction::Max).map_err(|error| error.to_string())
    }
}

/// Measures all sizes at one rank, and ends its part. Rank 0 gets the lines.
pub fn allreduce(
    ranks: Communicator,
    name: &str,
    sizes: &[usize],
    budget_ms: f64,
    in_place: bool,
    warm_up: Option<usize>,
) -> Result<Vec<String>, Box<dyn std::error::Error + Send + Sync>> {
    let (rank, world) = (ranks.rank().0 as usize, ranks.world() as usize);
    let most_warm_up = warm_up.unwrap_or(MOST_WARM_UP);
    let mut engine = EngineRanks { ranks, in_place, most_warm_up, last: None, kept: 0 };
    let mut lines = Vec::new();
    for &bytes in sizes {
        lines.extend(measure(name, rank, world, bytes, budget_ms, &mut engine)?);
    }
    engine.ranks.finish(&[])?;
    Ok(lines)
}
