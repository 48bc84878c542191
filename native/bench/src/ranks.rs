//! Starts the ranks, as threads or as processes, and introduces them to each other.

use crate::floor::FloorRanks;
use crate::network::Host;
use crate::samples::measure;
use crate::schedules;
use crate::shared::{SharedRanks, AREA_BYTES};
use crate::Measured;
use clap::ValueEnum;
use rejoin_collectives::choice::{LOOPBACK, NETWORK};
use rejoin_collectives::Seat;
use rejoin_transport::shm::{Invitation, PeerSegment, Segment};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;

/// How the ranks talk.
#[derive(Clone, Serialize, Deserialize)]
pub enum Way {
    Shared,
    Floor { algorithm: Option<String> },
    Schedules(schedules::Turns),
}

/// What a rank is told at its start.
#[derive(Clone, Serialize, Deserialize)]
struct Job {
    rank: usize,
    world: usize,
    sizes: Vec<usize>,
    budget_ms: f64,
    way: Way,
    /// Where it listens.
    address: Ipv4Addr,
    /// The host of each rank, by number.
    hosts: Vec<usize>,
}

/// How ranks are placed on hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Placement {
    /// One after the other on each host in turn.
    Spread,
    /// The first ones on the first host, the next ones on the second, and so on.
    Together,
}

impl Placement {
    /// The number of a rank's host.
    pub fn host(self, rank: usize, world: usize, hosts: usize) -> usize {
        match self {
            Placement::Spread => rank % hosts,
            Placement::Together => rank * hosts / world,
        }
    }
}

/// What a rank tells the others.
#[derive(Clone, Serialize, Deserialize)]
struct Introduction {
    invitation: Option<Invitation>,
    address: Option<SocketAddr>,
}

/// What a rank keeps of its own introduction.
enum Kept {
    Segment(Arc<Segment>),
    Listener(TcpListener),
}

impl Way {
    fn name(&self, threads: bool) -> String {
        match (self, threads) {
            (Way::Shared, true) => "boards-threads".into(),
            (Way::Shared, false) => "boards".into(),
            (Way::Floor { algorithm }, _) => format!("floor-{}", algorithm.as_deref().unwrap_or("all")),
            (Way::Schedules(_), _) => "schedules".into(),
        }
    }

    fn introduce(&self, address: Ipv4Addr) -> Result<(Introduction, Kept), String> {
        match self {
            Way::Shared => {
                let segment = Arc::new(Segment::new(AREA_BYTES).map_err(|error| error.to_string())?);
                let invitation = Some(segment.invitation());
                Ok((Introduction { invitation, address: None }, Kept::Segment(segment)))
            }
            Way::Floor { .. } | Way::Schedules(_) => {
                let listener = TcpListener::bind((address, 0)).map_err(|error| error.to_string())?;
                let address = Some(listener.local_addr().map_err(|error| error.to_string())?);
                Ok((Introduction { invitation: None, address }, Kept::Listener(listener)))
            }
        }
    }
}

/// Runs all worlds; prints a line per world and size.
pub fn run(measured: &Measured, way: Way) -> Result<(), String> {
    println!("peer,n,bytes,reps,median_us,min_us,p99_us,busbw_GBps");
    run_worlds(measured, &way, Placement::Spread, |line| println!("{line}"))
}

/// Runs all worlds, and hands on the lines that their ranks print.
pub fn run_worlds(
    measured: &Measured,
    way: &Way,
    placement: Placement,
    mut tell: impl FnMut(&str),
) -> Result<(), String> {
    let hosts = Host::all()?;
    for &world in &measured.worlds {
        let places: Vec<usize> = (0..world).map(|rank| placement.host(rank, world, hosts.len().max(1))).collect();
        let host = |rank: usize| hosts.get(places[rank]);
        let job = |rank| Job {
            rank,
            world,
            sizes: measured.sizes.clone(),
            budget_ms: measured.budget_ms,
            way: way.clone(),
            address: host(rank).map_or(Ipv4Addr::LOCALHOST, |host| host.address),
            hosts: places.clone(),
        };
        if measured.threads {
            run_threads((0..world).map(job).collect())?;
        } else {
            run_processes((0..world).map(job).collect(), host, &mut tell)?;
        }
    }
    Ok(())
}

fn run_threads(jobs: Vec<Job>) -> Result<(), String> {
    let introduced: Vec<(Introduction, Kept)> =
        jobs.iter().map(|job| job.way.introduce(job.address)).collect::<Result<_, _>>()?;
    let (introductions, kept): (Vec<Introduction>, Vec<Kept>) = introduced.into_iter().unzip();
    let here: Option<Vec<PeerSegment>> = kept
        .iter()
        .map(|kept| match kept {
            Kept::Segment(segment) => Some(PeerSegment::Here(segment.clone())),
            Kept::Listener(_) => None,
        })
        .collect();
    thread::scope(|scope| {
        let ranks: Vec<_> = jobs
            .into_iter()
            .zip(kept)
            .map(|(job, kept)| {
                let (introductions, here) = (introductions.clone(), here.clone());
                scope.spawn(move || take_part(&job, kept, &introductions, here, "threads"))
            })
            .collect();
        ranks.into_iter().try_for_each(|rank| rank.join().map_err(|_| "a rank panicked".to_string())?)
    })
}

/// Every rank in a process of its own, on its host.
fn run_processes<'a>(
    jobs: Vec<Job>,
    host: impl Fn(usize) -> Option<&'a Host>,
    mut tell: impl FnMut(&str),
) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut children: Vec<Child> = Vec::new();
    for job in &jobs {
        let text = serde_json::to_string(job).map_err(|error| error.to_string())?;
        let mut command = host(job.rank).map_or_else(|| Command::new(&program), |host| host.command(&program));
        let child = command.args(["rank", &text]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        children.push(child.map_err(|error| format!("a rank can't be started: {error}"))?);
    }
    let mut outputs: Vec<_> = children.iter_mut().filter_map(|child| child.stdout.take()).map(BufReader::new).collect();
    let mut introductions = Vec::new();
    for output in &mut outputs {
        let mut line = String::new();
        output.read_line(&mut line).map_err(|error| error.to_string())?;
        introductions.push(line.trim().to_string());
    }
    let all = format!("[{}]\n", introductions.join(","));
    for child in &mut children {
        if let Some(mut input) = child.stdin.take() {
            input.write_all(all.as_bytes()).map_err(|error| error.to_string())?;
        }
    }
    for output in &mut outputs {
        for line in output.lines() {
            tell(&line.map_err(|error| error.to_string())?);
        }
    }
    for mut child in children {
        let status = child.wait().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("a rank ended with {status}"));
        }
    }
    Ok(())
}

/// One rank in a process of its own: introduces itself on standard output, and is introduced to the others on standard
/// input.
pub fn run_rank(job: &str) -> Result<(), String> {
    let job: Job = serde_json::from_str(job).map_err(|error| error.to_string())?;
    let (introduction, kept) = job.way.introduce(job.address)?;
    println!("{}", serde_json::to_string(&introduction).map_err(|error| error.to_string())?);
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(|error| error.to_string())?;
    let introductions: Vec<Introduction> = serde_json::from_str(&line).map_err(|error| error.to_string())?;
    take_part(&job, kept, &introductions, None, "processes")
}

fn take_part(
    job: &Job,
    kept: Kept,
    introductions: &[Introduction],
    here: Option<Vec<PeerSegment>>,
    ranks: &str,
) -> Result<(), String> {
    let seat = Seat::new(job.rank, job.world);
    let name = job.way.name(ranks == "threads");
    match kept {
        Kept::Segment(own) => {
            let open = |(rank, introduction): (usize, &Introduction)| match &introduction.invitation {
                _ if rank == job.rank => Ok(PeerSegment::Here(own.clone())),
                Some(invitation) => PeerSegment::open(invitation).map_err(|error| error.to_string()),
                None => Err("a rank without a segment".to_string()),
            };
            let peers = match here {
                Some(here) => here,
                None => introductions.iter().enumerate().map(open).collect::<Result<_, _>>()?,
            };
            let mut ranks = SharedRanks::new(seat, own.clone(), peers);
            for &bytes in &job.sizes {
                print(measure(&name, job.rank, job.world, bytes, job.budget_ms, &mut ranks)?);
            }
        }
        Kept::Listener(listener) => {
            let addresses: Vec<SocketAddr> =
                introductions.iter().filter_map(|introduction| introduction.address).collect();
            let choice = if job.address.is_loopback() { &LOOPBACK } else { &NETWORK };
            let mut ranks = FloorRanks::connect(seat, &listener, &addresses, choice)?;
            let algorithm = match &job.way {
                Way::Floor { algorithm } => algorithm,
                Way::Schedules(turns) => return schedules::take_part(seat, &job.hosts, &job.sizes, turns, &mut ranks),
                Way::Shared => return Err("a listener for shared memory".into()),
            };
            for &bytes in &job.sizes {
                for algorithm in FloorRanks::algorithms(algorithm.as_deref())? {
                    ranks.choose(algorithm);
                    let name = format!("floor-{}", FloorRanks::name(algorithm));
                    print(measure(&name, job.rank, job.world, bytes, job.budget_ms, &mut ranks)?);
                }
            }
        }
    }
    Ok(())
}

fn print(line: Option<String>) {
    if let Some(line) = line {
        println!("{line}");
    }
}
