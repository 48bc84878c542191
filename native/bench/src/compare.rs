//! Ours and the peers in turn, pair by pair; a table of ratios, and which bars are met.

use crate::load::Load;
use crate::network::Host;
use crate::table::{sorted, Row, Table};
use clap::Args;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

/// What is compared.
#[derive(Args)]
pub struct Compared {
    /// How often ours and the peers are run, in turn.
    #[arg(long, default_value_t = 9)]
    pairs: usize,
    /// Beside load processes, two for each core, and with the means of calls: on busy machines a
    /// few calls take most of the time.
    #[arg(long)]
    busy: bool,
    /// Worlds [default: 2,4,8; busy 2,3,8].
    #[arg(long)]
    worlds: Option<String>,
    /// Bytes of float32 per rank [default: 8 to 67108864; busy 4096 to 262144].
    #[arg(long)]
    sizes: Option<String>,
    /// How long a line may take [default: 200; busy 1000].
    #[arg(long)]
    budget_ms: Option<f64>,
    /// The folder with the peers' drivers.
    #[arg(long, default_value = "native/bench/peers")]
    peers: PathBuf,
    /// The table goes to `collectives.csv` in this folder, to `collectives-busy.csv`, or to
    /// `collectives-network.csv` among hosts.
    #[arg(long, default_value = "build/bench")]
    out: PathBuf,
}

/// Calls that aren't counted on a busy machine, where each takes long, and memory that is new costs little beside it.
const BUSY_WARM_UP: &str = "50";

/// What of ours is compared with which peer.
struct Bar {
    ours: &'static str,
    /// The fastest of these counts, pair by pair.
    peers: &'static [&'static str],
    /// The ratio (ours / peer) that must not be exceeded with so many bytes; none where it is shown for the record.
    bar: fn(usize) -> Option<f64>,
}

const TCP_PEERS: &[&str] = &["openmpi-tcp", "gloo-bcube", "gloo-hd", "gloo-ring", "gloo-new-ring"];

/// Never slower than the peer.
fn faster(_bytes: usize) -> Option<f64> {
    Some(1.0)
}

fn no_bar(_bytes: usize) -> Option<f64> {
    None
}

/// What frames, records and log may cost beside the bare schedule, which keeps nothing.
fn price_of_recovery(bytes: usize) -> Option<f64> {
    Some(if bytes <= 64 << 10 { 1.02 } else { 1.10 })
}

const BARS: &[Bar] = &[
    Bar { ours: "rejoin-shared", peers: &["openmpi-shm"], bar: faster },
    Bar { ours: "rejoin-threads", peers: &["openmpi-shm"], bar: faster },
    Bar { ours: "rejoin", peers: TCP_PEERS, bar: faster },
    Bar { ours: "rejoin-shared", peers: &["segments"], bar: price_of_recovery },
    Bar { ours: "rejoin", peers: &["floor-chosen"], bar: price_of_recovery },
    Bar { ours: "rejoin-shared-in-place", peers: &["openmpi-shm"], bar: no_bar },
    Bar { ours: "rejoin-in-place", peers: TCP_PEERS, bar: no_bar },
    Bar { ours: "segments", peers: &["openmpi-shm"], bar: no_bar },
    Bar { ours: "floor-chosen", peers: TCP_PEERS, bar: no_bar },
];

/// What waiting may cost beside other load.
const BUSY_BARS: &[Bar] = &[
    Bar { ours: "rejoin", peers: &["ring"], bar: |_| Some(1.1) },
    Bar { ours: "rejoin", peers: &["openmpi-tcp"], bar: |_| Some(0.5) },
    Bar { ours: "rejoin-shared", peers: &["ring"], bar: |_| Some(1.1) },
    Bar { ours: "rejoin-shared", peers: &["openmpi-shm"], bar: |_| Some(0.5) },
];

/// How often a peer's driver may fail in a row.
const PEER_TRIES: usize = 3;

/// Microseconds by (peer, world, bytes): the median, or beside load the mean.
type Figures = BTreeMap<(String, usize, usize), f64>;

/// Runs everything, writes the table, prints it and the number of bars met.
pub fn run(compared: &Compared) -> Result<(), String> {
    let mut pairs: Vec<Figures> = Vec::new();
    let load = compared.busy.then(Load::start).transpose()?;
    for pair in 0..compared.pairs {
        let mut figures = Figures::new();
        for mut command in commands(compared)? {
            eprintln!("pair {} of {}: {command:?}", pair + 1, compared.pairs);
            figures.extend(output(&mut command)?.lines().filter_map(|line| figure(line, compared.busy)));
        }
        pairs.push(figures);
    }
    drop(load);
    let (what, bars, name) = match (compared.busy, Host::all()?.is_empty()) {
        (true, _) => ("allreduce busy", BUSY_BARS, "collectives-busy.csv"),
        (false, true) => ("allreduce", BARS, "collectives.csv"),
        (false, false) => ("allreduce", BARS, "collectives-network.csv"),
    };
    table(&pairs, what, bars).finish(&compared.out.join(name))
}

/// What a command prints. A peer that fails is run again a few times, and that is said: Gloo's
/// bcube gives a wrong sum now and then, which its driver notices.
fn output(command: &mut Command) -> Result<String, String> {
    let is_ours = std::env::current_exe().is_ok_and(|ours| command.get_program() == ours);
    let tries = if is_ours { 1 } else { PEER_TRIES };
    let mut failure = String::new();
    for _ in 0..tries {
        let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        failure = format!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
        eprintln!("{failure}");
    }
    Err(failure)
}

/// One pair's commands.
fn commands(compared: &Compared) -> Result<Vec<Command>, String> {
    let ours = std::env::current_exe().map_err(|error| error.to_string())?;
    let (worlds, sizes, budget) = match compared.busy {
        true => ("2,3,8", "4096,16384,65536,262144", 1000.0),
        false => ("2,4,8", "8,1024,65536,1048576,16777216,67108864", 200.0),
    };
    let worlds = compared.worlds.as_deref().unwrap_or(worlds);
    let sizes = compared.sizes.as_deref().unwrap_or(sizes);
    let budget = compared.budget_ms.unwrap_or(budget).to_string();
    let own = |first: &[&str]| {
        let mut command = Command::new(&ours);
        command.args(first).args(["--worlds", worlds, "--sizes", sizes, "--budget-ms", &budget]);
        command
    };
    let worlds = worlds.replace(',', " ");
    let peer = |script: &str, last: &[&str]| {
        let mut command = Command::new(compared.peers.join(script));
        command.args([worlds.as_str(), sizes, &budget]).args(last);
        command
    };
    if !Host::all()?.is_empty() {
        // Peers that share no memory, and can be made to listen elsewhere than on loopback.
        return Ok(vec![own(&["floor", "--algorithm", "chosen"]), peer("bench_gloo.sh", &["bcube hd ring new-ring"])]);
    }
    if compared.busy {
        return Ok(vec![
            own(&["engine-allreduce", "--warm-up", BUSY_WARM_UP]),
            peer("bench_openmpi.sh", &[]),
            own(&["engine-allreduce", "--warm-up", BUSY_WARM_UP, "--over-links"]),
            own(&["ring"]),
        ]);
    }
    Ok(vec![
        own(&["engine-allreduce"]),
        peer("bench_openmpi.sh", &[]),
        own(&["engine-allreduce", "--over-links"]),
        peer("bench_gloo.sh", &["bcube"]),
        own(&["engine-allreduce", "--threads"]),
        own(&["engine-allreduce", "--in-place"]),
        own(&["engine-allreduce", "--in-place", "--over-links"]),
        own(&["shared"]),
        own(&["floor", "--algorithm", "chosen"]),
    ])
}

/// A line of a driver: `peer,n,bytes,reps,median_us,min_us,p99_us,busbw_GBps,mean_us`. The line of
/// titles has no numbers in it.
fn figure(line: &str, mean: bool) -> Option<((String, usize, usize), f64)> {
    let fields: Vec<&str> = line.split(',').collect();
    let number = |place: usize| fields.get(place)?.parse::<f64>().ok();
    Some(((fields[0].to_string(), number(1)? as usize, number(2)? as usize), number(if mean { 8 } else { 4 })?))
}

fn table(pairs: &[Figures], what: &str, bars: &[Bar]) -> Table {
    let mut table = Table::default();
    let configs: BTreeSet<(usize, usize)> = pairs.iter().flatten().map(|((_, n, bytes), _)| (*n, *bytes)).collect();
    for bar in bars {
        for &(world, bytes) in &configs {
            let get = |figures: &Figures, who: &str| figures.get(&(who.to_string(), world, bytes)).copied();
            let mut rows: Vec<(f64, f64, &str)> = Vec::new();
            for figures in pairs {
                let peers = bar.peers.iter().filter_map(|&peer| Some((get(figures, peer)?, peer)));
                let best = peers.min_by(|left, right| left.0.total_cmp(&right.0));
                if let (Some(ours), Some((best, name))) = (get(figures, bar.ours), best) {
                    rows.push((ours, best, name));
                }
            }
            let Some(&(_, _, usual)) = rows.get(rows.len() / 2) else { continue };
            let peer = sorted(rows.iter().map(|row| row.1));
            let ratios = sorted(rows.iter().map(|row| row.0 / row.1));
            table.add(Row {
                name: format!("{what} {},n={world} {bytes} B", bar.ours),
                unit: "us",
                ours: sorted(rows.iter().map(|row| row.0)),
                peer: Some((usual.into(), peer, ratios)),
                bar: (bar.bar)(bytes),
            });
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drivers_line_gives_its_median_or_its_mean_and_its_titles_give_nothing() {
        let line = "openmpi-shm,2,65536,2000,20.7,19.8,41.9,3.1599,25.1";
        assert_eq!(figure(line, false), Some((("openmpi-shm".into(), 2, 65536), 20.7)));
        assert_eq!(figure(line, true), Some((("openmpi-shm".into(), 2, 65536), 25.1)));
        assert_eq!(figure(crate::samples::TITLES, true), None);
        assert_eq!(figure("", false), None);
    }
}
