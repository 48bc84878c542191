//! Starts the ranks, as threads or as processes, and introduces them to each other.

use crate::floor::FloorRanks;
use crate::measured::Measured;
use crate::network::Host;
use crate::placement::Placement;
use crate::ring::RingRanks;
use crate::samples::{measure, TITLES};
use crate::schedules::{compare, Turns};
use crate::shared::{SharedRanks, SLOT_BYTES};
use rejoin_collectives::choice::{LOOPBACK, NETWORK};
use rejoin_collectives::WorldRank;
use rejoin_transport::shm::{PeerSegment, Segment, SegmentAddress};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;

/// How the ranks talk.
#[derive(Clone, Serialize, Deserialize)]
pub enum Transport {
    Shared,
    Floor { algorithm: Option<String> },
    Ring,
    Schedules(Turns),
}

/// What a rank is given at its start.
#[derive(Clone, Serialize, Deserialize)]
struct RankSetup {
    rank: usize,
    world: usize,
    sizes: Vec<usize>,
    budget_ms: f64,
    transport: Transport,
    /// Where it listens.
    address: Ipv4Addr,
    /// The host of each rank, by number.
    hosts: Vec<usize>,
}

/// What a rank sends to the others.
#[derive(Clone, Serialize, Deserialize)]
struct Introduction {
    segment_address: Option<SegmentAddress>,
    address: Option<SocketAddr>,
}

/// What a rank keeps of its own introduction.
enum Kept {
    Segment(Arc<Segment>),
    Listener(TcpListener),
}

impl Transport {
    fn name(&self, threads: bool) -> String {
        match (self, threads) {
            (Transport::Shared, true) => "segments-threads".into(),
            (Transport::Shared, false) => "segments".into(),
            (Transport::Floor { algorithm }, _) => format!("floor-{}", algorithm.as_deref().unwrap_or("all")),
            (Transport::Ring, _) => "ring".into(),
            (Transport::Schedules(_), _) => "schedules".into(),
        }
    }

    fn introduce(&self, address: Ipv4Addr) -> Result<(Introduction, Kept), String> {
        match self {
            Transport::Shared => {
                let segment = Arc::new(Segment::new(SLOT_BYTES).map_err(|error| error.to_string())?);
                let segment_address = Some(segment.segment_address());
                Ok((Introduction { segment_address, address: None }, Kept::Segment(segment)))
            }
            Transport::Floor { .. } | Transport::Ring | Transport::Schedules(_) => {
                let listener = TcpListener::bind((address, 0)).map_err(|error| error.to_string())?;
                let address = Some(listener.local_addr().map_err(|error| error.to_string())?);
                Ok((Introduction { segment_address: None, address }, Kept::Listener(listener)))
            }
        }
    }
}

/// Runs all worlds; prints a line per world and size.
pub fn run(measured: &Measured, transport: Transport) -> Result<(), String> {
    println!("{TITLES}");
    run_worlds(measured, &transport, Placement::Spread, |line| println!("{line}"))
}

/// Runs all worlds, and hands on the lines that their ranks print.
pub fn run_worlds(
    measured: &Measured,
    transport: &Transport,
    placement: Placement,
    mut tell: impl FnMut(&str),
) -> Result<(), String> {
    let hosts = Host::all()?;
    for &world in &measured.worlds {
        let places: Vec<usize> = (0..world).map(|rank| placement.host(rank, world, hosts.len().max(1))).collect();
        let host = |rank: usize| hosts.get(places[rank]);
        let job = |rank| RankSetup {
            rank,
            world,
            sizes: measured.sizes.clone(),
            budget_ms: measured.budget_ms,
            transport: transport.clone(),
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

fn run_threads(jobs: Vec<RankSetup>) -> Result<(), String> {
    let introduced: Vec<(Introduction, Kept)> =
        jobs.iter().map(|job| job.transport.introduce(job.address)).collect::<Result<_, _>>()?;
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
    jobs: Vec<RankSetup>,
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
    let job: RankSetup = serde_json::from_str(job).map_err(|error| error.to_string())?;
    let (introduction, kept) = job.transport.introduce(job.address)?;
    println!("{}", serde_json::to_string(&introduction).map_err(|error| error.to_string())?);
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(|error| error.to_string())?;
    let introductions: Vec<Introduction> = serde_json::from_str(&line).map_err(|error| error.to_string())?;
    take_part(&job, kept, &introductions, None, "processes")
}

fn take_part(
    job: &RankSetup,
    kept: Kept,
    introductions: &[Introduction],
    here: Option<Vec<PeerSegment>>,
    ranks: &str,
) -> Result<(), String> {
    let me = WorldRank::new(job.rank, job.world);
    let name = job.transport.name(ranks == "threads");
    match kept {
        Kept::Segment(own) => {
            let open = |(rank, introduction): (usize, &Introduction)| match &introduction.segment_address {
                _ if rank == job.rank => Ok(PeerSegment::Here(own.clone())),
                Some(segment_address) => PeerSegment::open(segment_address).map_err(|error| error.to_string()),
                None => Err("a rank without a segment".to_string()),
            };
            let peers = match here {
                Some(here) => here,
                None => introductions.iter().enumerate().map(open).collect::<Result<_, _>>()?,
            };
            let mut ranks = SharedRanks::new(me, own.clone(), peers);
            for &bytes in &job.sizes {
                print(measure(&name, job.rank, job.world, bytes, job.budget_ms, &mut ranks)?);
            }
        }
        Kept::Listener(listener) => {
            let addresses: Vec<SocketAddr> =
                introductions.iter().filter_map(|introduction| introduction.address).collect();
            if let Transport::Ring = job.transport {
                let mut ranks = RingRanks::connect(me, &listener, &addresses)?;
                for &bytes in &job.sizes {
                    print(measure(&name, job.rank, job.world, bytes, job.budget_ms, &mut ranks)?);
                }
                return Ok(());
            }
            let choice = if job.address.is_loopback() { &LOOPBACK } else { &NETWORK };
            let mut ranks = FloorRanks::connect(me, &listener, &addresses, choice)?;
            let algorithm = match &job.transport {
                Transport::Floor { algorithm } => algorithm,
                Transport::Schedules(turns) => return compare(me, &job.hosts, &job.sizes, turns, &mut ranks),
                Transport::Shared | Transport::Ring => return Err("a listener for ranks that have none".into()),
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
