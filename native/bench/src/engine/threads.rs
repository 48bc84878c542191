//! A job whose ranks are threads of this process.

use rejoin_agent::protocol::ids::{Attempt, Rank};
use rejoin_agent::protocol::message::Timing;
use rejoin_agent::protocol::start::JobStart;
use rejoin_agent::protocol::tracker::{DeathLimit, TrackerConfig};
use rejoin_agent::transport::{JobId, PortRange, Secret};
use rejoin_agent::{AgentConfig, TrackerServer, TrackerServerConfig};
use rejoin_communicator::{Communicator, Limits, Process};
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};
use std::thread;

/// What a rank does; rank 0's lines are returned.
type Lines = Result<Vec<String>, Box<dyn Error + Send + Sync>>;

/// Runs a job of so many threads to its end.
pub fn run(world: usize, work: impl Fn(Communicator) -> Lines + Sync) -> Result<Vec<String>, String> {
    run_job(world, work).map_err(|error| error.to_string())
}

fn run_job(world: usize, work: impl Fn(Communicator) -> Lines + Sync) -> Lines {
    let (job, secret, listen) = (JobId([1; 16]), Secret::random()?, IpAddr::V4(Ipv4Addr::LOCALHOST));
    let rules = TrackerConfig {
        world: world as u32,
        spares: 0,
        elastic: None,
        epoch: 1,
        timing: Timing {
            heartbeat_millis: 250,
            lost_after_millis: 5_000,
            lease_millis: 30_000,
            members_millis: 60_000,
        },
        deaths: DeathLimit::new(1, "a benchmark's"),
        start: JobStart::Fresh,
        faults: Vec::new(),
        wants_result: false,
    };
    let (secret_too, ports) = (secret.clone(), PortRange::EPHEMERAL);
    let tracker =
        TrackerServer::start(TrackerServerConfig { job, secret: secret_too, encrypt: false, listen, ports, rules })?;
    let process = Process::start(AgentConfig {
        job,
        secret,
        encrypt: false,
        executor: "bench".into(),
        listen,
        ports,
        host: "localhost".into(),
        tracker: tracker.address(),
        join_file: None,
        tracker_millis: 10_000,
    })?;
    thread::scope(|scope| {
        let rank = |rank| {
            let (process, work) = (process.clone(), &work);
            scope.spawn(move || {
                let attempt = Attempt { stage: 0, task: 0 };
                match process.join(Rank(rank as u32), attempt, "bench", Limits::default())? {
                    Some(mut ranks) => {
                        ranks.load()?;
                        work(ranks)
                    }
                    None => Err("the job was over before it had begun".into()),
                }
            })
        };
        let ranks: Vec<_> = (0..world).map(rank).collect();
        let mut lines = Vec::new();
        for rank in ranks {
            lines.extend(rank.join().map_err(|_| "a rank panicked")??);
        }
        Ok(lines)
    })
}
