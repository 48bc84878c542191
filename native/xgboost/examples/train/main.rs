//! Trains with a real XGBoost library through the bridge, ranks as threads of this process.
//!
//! ```text
//! cargo run --release -p rejoin-xgboost --example train -- LIBRARY key=value…
//! ```
//!
//! `LIBRARY` is the `libxgboost4j.so` of a jar or the `libxgboost.so` of a wheel. Keys: `wire` (33
//! or 32), `homes` (for each rank the number of its agent, `0,0` or `0,1`), `rows` and `columns`
//! (in total), `depth`, `rounds`, `throw=rank@round` (that rank is freed after `bytes` bytes of the
//! round and comes back from the last checkpoint; `interval` must be 1), `interval` (rounds between
//! checkpoints), `stock=1` (XGBoost's own tracker instead), `pairs=N` (time both in turn and give
//! the ratio). Prints digests and seconds of the rounds.
#![allow(missing_docs)]

#[path = "../../tests/common/mod.rs"]
mod common;
mod library;

use common::World;
use library::Xgboost;
use rejoin_agent::DataPlane;
use rejoin_protocol::channel::PhaseMark;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::fault::{Action, FaultRule, Moment};
use rejoin_protocol::ids::{MemberId, Phase, Rank, Version};
use rejoin_xgboost::WireVariant;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

type Settings = HashMap<String, String>;

#[derive(Clone)]
struct Job {
    settings: Arc<Settings>,
    world: u32,
    rounds: u32,
    /// Models by version.
    checkpoints: Arc<Mutex<HashMap<u32, Vec<u8>>>>,
}

/// Seconds of the rounds, and a digest of the model.
struct Trained {
    seconds: f64,
    digest: u64,
}

fn number(settings: &Settings, key: &str, default: usize) -> usize {
    settings.get(key).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{key} is no number")))
}

fn data(rank: u32, rows: usize, columns: usize) -> (Vec<f32>, Vec<f32>) {
    let mut state = u64::from(rank) * 7919 + 1;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    let features: Vec<f32> = (0..rows * columns).map(|_| random()).collect();
    let labels = features.chunks(columns).map(|row| {
        let score: f32 = row.iter().enumerate().map(|(i, x)| x * ((i * 37 % 11) as f32 - 5.0)).sum();
        f32::from(score + row[0] * row[1] * 8.0 + random() > 0.0)
    });
    let labels = labels.collect();
    (features, labels)
}

fn train(
    xgboost: &Xgboost,
    job: &Job,
    rank: u32,
    start: u32,
    mut boundary: impl FnMut(u32, &[u8]) -> Result<(), Error>,
) -> Result<Trained, String> {
    let columns = number(&job.settings, "columns", 50);
    let rows = number(&job.settings, "rows", 100_000) / job.world as usize;
    let (features, labels) = data(rank, rows, columns);
    let matrix = xgboost.matrix(&features, rows, columns, &labels);
    let depth = number(&job.settings, "depth", 6).to_string();
    let parameters = [
        ("objective", "binary:logistic"),
        ("tree_method", "hist"),
        ("max_depth", depth.as_str()),
        ("nthread", "1"),
        ("seed_per_iteration", "true"),
    ];
    let mut shallow = parameters;
    shallow[2].1 = "1";
    xgboost.booster(&matrix, &shallow, None).update(&matrix, 0)?;
    let model = job.checkpoints.lock().expect("no panics").get(&start).cloned();
    let model = model.filter(|model| !model.is_empty());
    let booster = xgboost.booster(&matrix, &parameters, model.as_deref());
    let interval = number(&job.settings, "interval", 1) as u32;
    let mut first = Instant::now();
    for round in start..job.rounds {
        if round % interval == 0 {
            let model = if round == 0 { Vec::new() } else { booster.model() };
            boundary(round, &model).map_err(|error| error.to_string())?;
        }
        if round == start {
            first = Instant::now();
        }
        booster.update(&matrix, round)?;
    }
    let seconds = first.elapsed().as_secs_f64();
    let model = booster.model();
    boundary(job.rounds, &model).map_err(|error| error.to_string())?;
    Ok(Trained { seconds, digest: digest(&model) })
}

fn digest(bytes: &[u8]) -> u64 {
    rejoin_agent::digest(bytes) as u64
}

fn stock(xgboost: &Xgboost, job: &Job) -> Trained {
    let (_, arguments) = xgboost.tracker(job.world);
    let inner = arguments.trim().trim_start_matches('{').trim_end_matches('}').to_owned();
    let trained = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..job.world)
            .map(|task| {
                let inner = &inner;
                scope.spawn(move || {
                    xgboost.init_json(&format!("{{{inner},\"dmlc_task_id\":\"{task:05}\"}}")).expect("init");
                    let trained = train(xgboost, job, xgboost.rank() as u32, 0, |_, _| Ok(())).expect("training");
                    xgboost.finalize().expect("shutdown");
                    trained
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().expect("no panics")).collect::<Vec<_>>()
    });
    slowest(trained)
}

fn bridged(xgboost: &Xgboost, job: &Job) -> Trained {
    let homes = job.settings.get("homes").map_or("0,0", String::as_str);
    let homes: Vec<usize> = homes.split(',').map(|home| home.parse().expect("homes are numbers")).collect();
    let world = Mutex::new(World::new(&homes));
    let variant = if number(&job.settings, "wire", 33) == 33 { WireVariant::From33 } else { WireVariant::Until32 };
    if let Some((rank, round)) = job.settings.get("throw").and_then(|text| text.split_once('@')) {
        let rank: u32 = rank.parse().expect("throw=rank@round");
        let phase = Phase::Version(Version(round.parse().expect("throw=rank@round")));
        let moment = Moment::Bytes { phase, bytes: number(&job.settings, "bytes", 20_000) as u64 };
        let rule = FaultRule { id: 1, rank: Rank(rank), incarnation: Some(0), moment, action: Action::Throw };
        world.lock().expect("no panics").agent(rank).bridge.faults(&[rule]);
    }
    let trained = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..job.world)
            .map(|rank| {
                let world = &world;
                scope.spawn(move || member(xgboost, job, world, rank, variant))
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().expect("no panics")).collect::<Vec<_>>()
    });
    for agent in &world.lock().expect("no panics").agents {
        let usage = agent.bridge.usage();
        println!(
            "  logs: {} bytes in memory, at most {}; {:?}",
            usage.log_bytes,
            usage.log_bytes_peak,
            agent.notes.all()
        );
        agent.bridge.close();
    }
    slowest(trained)
}

/// One rank, again and again until it is done.
fn member(xgboost: &Xgboost, job: &Job, world: &Mutex<World>, rank: u32, variant: WireVariant) -> Trained {
    let mut start = 0;
    loop {
        let (bridge, incarnation, home) = {
            let world = world.lock().expect("no panics");
            (world.agent(rank).bridge.clone(), world.incarnation(rank), world.home(rank))
        };
        let arguments = bridge.communicator(MemberId { rank: Rank(rank), incarnation }, variant).expect("a way in");
        let began = Instant::now();
        xgboost.init(&arguments).expect("init");
        println!("  rank {rank} incarnation {incarnation}: init took {:.1} ms", began.elapsed().as_secs_f64() * 1e3);
        assert_eq!(xgboost.rank(), rank as i32);
        let interval = number(&job.settings, "interval", 1) as u32;
        let result = train(xgboost, job, rank, start, |round, model| {
            let checkpoint = if model.is_empty() { 0 } else { u128::from(digest(model)) };
            job.checkpoints.lock().expect("no panics").insert(round, model.to_vec());
            let (version, mark) = (round.div_ceil(interval), PhaseMark { round, checkpoint });
            bridge.enter(MemberId { rank: Rank(rank), incarnation }, Phase::Version(Version(version)), mark)
        });
        let shut = xgboost.finalize();
        bridge.retire(MemberId { rank: Rank(rank), incarnation });
        match result {
            Ok(trained) => {
                shut.expect("shutdown");
                return trained;
            }
            Err(cause) => {
                let failure: Option<Error> = bridge.failure(MemberId { rank: Rank(rank), incarnation });
                println!(
                    "  rank {rank} incarnation {incarnation} ended with {failure:?}: {:.60?}; shutdown {shut:.60?}",
                    cause
                );
                assert!(failure.is_some_and(|error| error.code == Code::Io), "only the thrown rank fails");
                let mut world = world.lock().expect("no panics");
                // The rank was thrown in the middle of a round: no rank is behind its last checkpoint.
                world.hold_all(0);
                world.lose(rank);
                let (_, round) = job.settings["throw"].split_once('@').expect("throw=rank@round");
                start = round.parse().expect("throw=rank@round");
                world.seat(rank, home, incarnation.number + 1);
                world.start(rank, start);
            }
        }
    }
}

fn slowest(all: Vec<Trained>) -> Trained {
    assert!(all.iter().all(|one| one.digest == all[0].digest), "ranks disagree");
    let seconds = all.iter().map(|one| one.seconds).fold(0.0, f64::max);
    Trained { seconds, digest: all[0].digest }
}

fn main() {
    let mut words = std::env::args().skip(1);
    let path = words.next().expect("the first argument is the library");
    let settings: Settings = words
        .map(|word| word.split_once('=').map(|(key, value)| (key.into(), value.into())).expect("key=value"))
        .collect();
    let world = settings.get("homes").map_or(2, |homes| homes.split(',').count()) as u32;
    let xgboost = Xgboost::open(&path);
    let job = || Job {
        world,
        rounds: number(&settings, "rounds", 20) as u32,
        settings: Arc::new(settings.clone()),
        checkpoints: Arc::default(),
    };
    let pairs = number(&settings, "pairs", 0);
    if pairs == 0 {
        let run = if settings.contains_key("stock") { stock } else { bridged };
        let trained = run(&xgboost, &job());
        println!("digest {:016x} seconds {:.3}", trained.digest, trained.seconds);
        return;
    }
    let mut ratios: Vec<f64> = (0..pairs)
        .map(|_| {
            let (peer, ours) = (stock(&xgboost, &job()), bridged(&xgboost, &job()));
            assert_eq!(peer.digest, ours.digest);
            println!("stock {:.3} bridge {:.3} ratio {:.3}", peer.seconds, ours.seconds, ours.seconds / peer.seconds);
            ours.seconds / peer.seconds
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    println!("median ratio {:.3}", ratios[ratios.len() / 2]);
}
