//! Real trainings with a real XGBoost, through agents and a tracker: with the hook, through the
//! bridge, by XGBoost's own tracker, with and without deaths, the model is the same, byte for byte.
//! What XGBoost sends beside its collectives' functions goes over the channels of the same job.

mod common;
#[allow(clippy::duplicate_mod)]
mod hooked;
#[path = "../../communicator/tests/ranks/mod.rs"]
#[allow(clippy::duplicate_mod)]
mod ranks;

use bytes::Bytes;
use hooked::library::{file, has_context, RELEASES};
use hooked::xgboost::Xgboost;
use hooked::{copies, in_own_process};
use ranks::{attempt, Ranks, LIMIT};
use rejoin_agent::{checkpoint, digest, Agent, Joined, Taken, TrackerNotice};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::event::Event;
use rejoin_protocol::fault::{Action, FaultRule, Moment};
use rejoin_protocol::host::Start;
use rejoin_protocol::ids::{MemberId, Phase, Rank, Version};
use rejoin_xgboost::{BridgeConfig, HookUse, Plane, WireVariant};
use std::sync::Arc;
use std::time::Duration;

const ROUNDS: u32 = 4;
const ROWS: usize = 600;
const COLUMNS: usize = 6;

/// What is trained.
#[derive(Clone, Copy)]
struct Recipe {
    release: &'static str,
    /// `approx` sketches in every round, which goes over the channels from 3.3 on.
    method: &'static str,
    /// Rows that a tree is made of: up to 3.2 a rank that samples them has the stock model only if all Boosters are
    /// kept.
    subsample: &'static str,
}

impl Recipe {
    fn new(release: &'static str, method: &'static str) -> Self {
        Recipe { release, method, subsample: "0.7" }
    }
}

fn data(rank: u32) -> (Vec<f32>, Vec<f32>) {
    let mut state = u64::from(rank) * 7919 + 1;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    let features: Vec<f32> = (0..ROWS * COLUMNS).map(|_| random()).collect();
    let labels = features.chunks(COLUMNS).map(|row| f32::from(row[0] * row[1] * 8.0 + row[2] + random() > 0.0));
    let labels = labels.collect();
    (features, labels)
}

/// Boot, and the rounds from `start` on, before each of which `boundary` is called; at
/// last the end. A version is a round.
fn train(
    xgboost: &Xgboost,
    recipe: Recipe,
    rank: u32,
    start: (u32, &[u8]),
    mut boundary: impl FnMut(u32, &[u8]) -> Result<(), String>,
) -> Result<Vec<u8>, String> {
    let (features, labels) = data(rank);
    let matrix = xgboost.try_matrix(&features, ROWS, COLUMNS, &labels)?;
    let parameters = [
        ("objective", "binary:logistic"),
        ("tree_method", recipe.method),
        ("max_depth", "4"),
        ("subsample", recipe.subsample),
        ("nthread", "1"),
        ("seed_per_iteration", "true"),
    ];
    let mut shallow = parameters;
    shallow[2].1 = "1";
    if recipe.method == "hist" {
        xgboost.booster(&matrix, &shallow, None).update(&matrix, 0)?;
    }
    let (start, model) = start;
    let mut model = model.to_vec();
    let booster_of = |model: &[u8]| xgboost.booster(&matrix, &parameters, (!model.is_empty()).then_some(model));
    let keeps = has_context(recipe.release);
    let mut booster = keeps.then(|| booster_of(&model));
    for round in start..ROUNDS {
        boundary(round, &model)?;
        if !keeps {
            // Up to 3.2 part of the samplers' state isn't in the model.
            booster = Some(booster_of(&model));
        }
        let booster = booster.as_ref().expect("one was made");
        booster.update(&matrix, round)?;
        model = booster.model();
    }
    boundary(ROUNDS, &model)?;
    Ok(model)
}

fn stock(xgboost: &Xgboost, recipe: Recipe, world: u32) -> Vec<u8> {
    let (_, arguments) = xgboost.tracker(world);
    let inner = arguments.trim().trim_start_matches('{').trim_end_matches('}').to_owned();
    let inner = &inner;
    let models: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let one = move |task: u32| {
            xgboost.init_json(&format!("{{{inner},\"dmlc_task_id\":\"{task:05}\"}}")).expect("init");
            let model = train(xgboost, recipe, xgboost.rank() as u32, (0, &[]), |_, _| Ok(())).expect("training");
            xgboost.finalize().expect("shutdown");
            model
        };
        let threads: Vec<_> = (0..world).map(|task| scope.spawn(move || one(task))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a stock rank's thread panicked")).collect()
    });
    models[0].clone()
}

/// One process, as far as the engine can know.
#[derive(Clone)]
struct Process {
    agent: Arc<Agent>,
    plane: Arc<Plane>,
}

impl Process {
    fn new(ranks: &Ranks, executor: &str, hook: HookUse) -> Self {
        let config = BridgeConfig { worker_timeout: LIMIT, ..BridgeConfig::default() };
        let plane = Plane::start(config, hook).expect("a plane");
        let agent = Arc::new(Agent::start(ranks.config(executor), plane.planes()).expect("an agent"));
        Process { agent, plane }
    }

    fn join(&self, rank: u32, task: u32) -> Result<(MemberId, Start, Vec<u8>), Error> {
        match self.plane.join(&self.agent, Rank(rank), attempt(task), "terms".into(), LIMIT)? {
            Joined::Start { start, bytes, .. } => {
                let member = MemberId { rank: Rank(rank), incarnation: start.incarnation };
                Ok((member, start, bytes.unwrap_or_default().to_vec()))
            }
            Joined::Over { .. } => panic!("the job isn't over"),
        }
    }

    /// One incarnation's life, up to the job's end or its own.
    fn live(
        &self,
        xgboost: &Xgboost,
        recipe: Recipe,
        (member, start, model): (MemberId, Start, Vec<u8>),
    ) -> Option<Vec<u8>> {
        let MemberId { rank, incarnation: _ } = member;
        let variant = if has_context(recipe.release) { WireVariant::From33 } else { WireVariant::Until32 };
        let arguments = self.plane.communicator(member, variant).expect("a way in");
        let boundary = |round: u32, model: &[u8]| {
            let model = Bytes::copy_from_slice(model);
            let taken = checkpoint(start.lineage, Version(round), round, &model, round == ROUNDS);
            let taken = Taken::new(taken, 0, model);
            self.plane.take(&self.agent, member, taken).map_err(|error| error.to_string())
        };
        // It fails for a rank that a rule fires at as soon as it has entered boot.
        let begun = xgboost.init(&arguments);
        let trained = begun.and_then(|()| train(xgboost, recipe, rank.0, (start.version.0, &model), boundary));
        let shut = xgboost.finalize();
        let ended = trained.and_then(|model| {
            shut?;
            let ends = self.plane.ends(member);
            let result = (rank == Rank(0)).then(|| Bytes::copy_from_slice(&model));
            let ends = ends.and_then(|()| self.agent.finish(member, ROUNDS, digest(&model), result, LIMIT));
            ends.map(|_| model).map_err(|error| error.to_string())
        });
        let failure = self.agent.failure(member).or_else(|| self.plane.failure(member));
        self.plane.retire(member);
        match ended {
            Ok(model) => Some(model),
            Err(text) => {
                let error = failure.unwrap_or_else(|| panic!("rank {rank} failed without a reason: {text}"));
                assert!(error.code == Code::Io && error.message.contains("fault rule"), "rank {rank}: {error}; {text}");
                self.agent.leave(member, Some(error));
                None
            }
        }
    }
}

/// A death: rank, incarnation, moment.
type Died = (u32, u32, Moment);

/// Trains with so many ranks in a process, of which these die and come back; the model, and what was reported.
fn job(
    xgboost: &Xgboost,
    recipe: Recipe,
    (world, together): (u32, u32),
    hook: HookUse,
    deaths: &[Died],
) -> (Vec<u8>, Vec<Event>) {
    let rules = deaths.iter().enumerate().map(|(id, (rank, incarnation, moment))| FaultRule {
        id: id as u32,
        rank: Rank(*rank),
        incarnation: Some(*incarnation),
        moment: *moment,
        action: Action::Throw,
    });
    let ranks = &Ranks::with_rules(world, together as usize, rules.collect());
    let first = |process: u32| Process::new(ranks, &(process * together).to_string(), hook);
    let processes: Vec<Process> = (0..world.div_ceil(together)).map(first).collect();
    let live = |rank: u32| {
        let mut process = processes[(rank / together) as usize].clone();
        (0..).find_map(|task| {
            let started = process.join(rank, task).expect("it can join");
            let lived = process.live(xgboost, recipe, started);
            if lived.is_none() && together == 1 {
                process.agent.end();
                process = Process::new(ranks, &format!("{rank}-{}", task + 1), hook);
            }
            lived
        })
    };
    let live = &live;
    let models: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..world).map(|rank| scope.spawn(move || live(rank).expect("tries don't end"))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank's thread panicked")).collect()
    });
    assert!(models.iter().all(|model| *model == models[0]), "ranks disagree");
    ranks.event("the end", |event| matches!(event, Event::JobEnded { .. }));
    while let Ok(Some(reported)) = ranks.tracker.poll(Duration::ZERO) {
        if let TrackerNotice::Event(event) = reported {
            ranks.seen.lock().push(event);
        }
    }
    let seen = ranks.seen.lock().clone();
    let fired = seen.iter().filter(|event| matches!(event, Event::FaultFired { .. })).count();
    assert_eq!(fired, deaths.len(), "every rule has fired, once: {deaths:?}; {seen:#?}");
    (models[0].clone(), seen)
}

fn agreed(seen: &[Event]) -> (bool, String) {
    let reported = seen.iter().find_map(|event| match event {
        Event::HookAgreed { hooked, reason } => Some((*hooked, reason.clone())),
        _ => None,
    });
    reported.expect("the way is reported")
}

fn version(version: u32) -> Phase {
    Phase::Version(Version(version))
}

fn with_each_release(test: &str, body: impl Fn(&Xgboost, &'static str)) {
    for release in RELEASES {
        in_own_process(test, release, || body(&Xgboost::open(file(release).to_str().expect("UTF-8")), release));
    }
}

#[test]
fn the_model_is_the_same_with_the_hook_through_the_bridge_and_by_xgboosts_own_tracker() {
    with_each_release(
        "the_model_is_the_same_with_the_hook_through_the_bridge_and_by_xgboosts_own_tracker",
        |xgboost, release| {
            for method in ["hist", "approx"] {
                let recipe = Recipe::new(release, method);
                let expected = stock(xgboost, recipe, 3);
                let (bridged, seen) = job(xgboost, recipe, (3, 1), HookUse::Never, &[]);
                assert_eq!(agreed(&seen), (false, "rank 0 can't: the settings forbid it".into()));
                for together in [1, 2, 3] {
                    let (hooked, seen) = job(xgboost, recipe, (3, together), HookUse::IfPossible, &[]);
                    assert_eq!(agreed(&seen), (true, "all 3 ranks can".into()));
                    assert!(hooked == bridged, "{release} {method}, {together} together");
                }
                if has_context(release) {
                    // Up to 3.2 a Booster that is made anew in each round differs from one that is kept.
                    assert!(bridged == expected, "{release} {method}");
                }
            }
        },
    );
}

#[test]
fn deaths_at_any_moment_of_either_side_change_nothing() {
    with_each_release("deaths_at_any_moment_of_either_side_change_nothing", |xgboost, release| {
        let entering = |v, seqno| Moment::Entering { phase: version(v), seqno };
        let bytes = |phase, bytes| Moment::Bytes { phase, bytes };
        // `approx` sends next to nothing in boot: it sketches in every round.
        let cases = |boot_bytes| -> Vec<Vec<Died>> {
            vec![
                vec![(1, 0, entering(1, 0))],
                vec![(0, 0, entering(2, 3))],
                vec![(2, 0, Moment::Completed { phase: version(2), seqno: 1 })],
                vec![(0, 0, Moment::Sent { phase: version(1), seqno: 2, bytes: 1 })],
                // All have the first result when one is at the fourth call.
                vec![(1, 0, entering(2, 3)), (1, 1, Moment::Replayed { phase: version(2), seqno: 0 })],
                vec![(1, 0, Moment::Entering { phase: Phase::Boot, seqno: 1 })],
                vec![(1, 0, bytes(version(2), 0))],
                vec![(2, 0, bytes(version(1), 3_000))],
                vec![(0, 0, bytes(Phase::Boot, boot_bytes))],
                vec![(1, 0, entering(3, 2)), (1, 1, Moment::Replaying), (2, 0, entering(3, 4))],
                vec![(1, 0, entering(1, 2)), (2, 0, entering(1, 2))],
            ]
        };
        for method in ["hist", "approx"] {
            let recipe = Recipe::new(release, method);
            let (expected, _) = job(xgboost, recipe, (3, 3), HookUse::IfPossible, &[]);
            for deaths in &cases(if method == "hist" { 300 } else { 0 }) {
                for together in [1, 3] {
                    let (model, seen) = job(xgboost, recipe, (3, together), HookUse::IfPossible, deaths);
                    assert!(agreed(&seen).0);
                    assert!(model == expected, "{release} {method}, {together} together: {deaths:?}");
                }
            }
        }
    });
}

#[test]
fn two_jobs_one_of_which_has_deaths_and_a_stock_training_at_once_disturb_nobody() {
    with_each_release(
        "two_jobs_one_of_which_has_deaths_and_a_stock_training_at_once_disturb_nobody",
        |xgboost, release| {
            let (hist, approx) = (Recipe::new(release, "hist"), Recipe::new(release, "approx"));
            let plain = stock(xgboost, hist, 2);
            let alone = [(hist, 3), (approx, 2)]
                .map(|(recipe, world)| job(xgboost, recipe, (world, world), HookUse::IfPossible, &[]).0);
            for _ in 0..5 {
                std::thread::scope(|scope| {
                    let beside = scope.spawn(|| stock(xgboost, hist, 2));
                    let deaths = [
                        (1, 0, Moment::Entering { phase: version(1), seqno: 1 }),
                        (0, 0, Moment::Bytes { phase: version(2), bytes: 0 }),
                        (1, 1, Moment::Completed { phase: version(2), seqno: 2 }),
                    ];
                    let killed = scope.spawn(move || job(xgboost, hist, (3, 3), HookUse::IfPossible, &deaths).0);
                    let quiet = job(xgboost, approx, (2, 2), HookUse::IfPossible, &[]).0;
                    assert!(quiet == alone[1], "{release}: the job without deaths has another model");
                    assert!(killed.join().expect("no panics") == alone[0], "{release}: the job with deaths");
                    assert!(beside.join().expect("no panics") == plain, "{release}: the stock training");
                });
            }
        },
    );
}

#[test]
fn one_rank_that_must_not_keeps_all_on_the_bridge_and_one_that_comes_later_is_refused() {
    let test = "one_rank_that_must_not_keeps_all_on_the_bridge_and_one_that_comes_later_is_refused";
    in_own_process(test, "3.4.0", || {
        let xgboost = &Xgboost::open(file("3.4.0").to_str().expect("UTF-8"));
        let recipe = Recipe::new("3.4.0", "hist");
        let ranks = &Ranks::new(2, 1);
        let (one, other) = (Process::new(ranks, "0", HookUse::IfPossible), Process::new(ranks, "1", HookUse::Never));
        let models: Vec<_> = std::thread::scope(|scope| {
            let both = [(0, &one), (1, &other)].map(|(rank, process)| {
                scope.spawn(move || {
                    let started = process.join(rank, 0).expect("it can join");
                    assert!(!started.1.hooked);
                    process.live(xgboost, recipe, started).expect("no rank dies")
                })
            });
            both.map(|thread| thread.join().expect("no panics")).to_vec()
        });
        assert!(models[0] == stock(xgboost, recipe, 2));
        // In a job that has agreed on it, a rank that comes later and can't is refused.
        let ranks = &Ranks::new(2, 1);
        let processes: Vec<_> =
            (0..2).map(|rank| Process::new(ranks, &rank.to_string(), HookUse::IfPossible)).collect();
        std::thread::scope(|scope| {
            let both = [0, 1].map(|rank| {
                scope.spawn({
                    let process = &processes[rank as usize];
                    move || process.join(rank, 0).expect("a start")
                })
            });
            let started = both.map(|thread| thread.join().expect("no panics"));
            assert!(started.iter().all(|(_, start, _)| start.hooked));
            processes[1].agent.leave(started[1].0, Some(Error::new(Code::Io, "it has died")));
            let later = Process::new(ranks, "1-1", HookUse::Never);
            let error = later.join(1, 1).expect_err("it can't do as the others");
            assert_eq!(error.code, Code::Incompatible, "{error}");
            assert!(error.message.contains("the settings forbid it"), "{error}");
        });
    });
}

#[test]
fn a_library_that_is_not_as_expected_is_left_alone_and_trains_through_the_bridge_to_the_stock_model() {
    let test = "a_library_that_is_not_as_expected_is_left_alone_and_trains_through_the_bridge_to_the_stock_model";
    type Change = fn(&mut Vec<u8>);
    // What is changed is nothing that a training calls: names, and two entries of gathering.
    let changes: [(&str, Change, &str); 3] = [
        ("table", |bytes| copies::rename(bytes, "_ZTVN7xgboost10collective4CollE", "Coll"), "doesn't export the table"),
        (
            "function",
            |bytes| copies::rename(bytes, "_ZN7xgboost10collective4Coll9AllreduceE", "Allreduce"),
            "is an unknown version of XGBoost",
        ),
        (
            "entries",
            |bytes| copies::exchange_entries(bytes, 7, 8),
            "entry 7 holds _ZN7xgboost10collective4Coll10AllgatherV",
        ),
    ];
    for release in RELEASES {
        for (name, change, expected) in changes {
            in_own_process(test, &format!("{release} {name}"), || {
                let folder = tempfile::tempdir().expect("a temporary folder");
                let copy = copies::copy(&file(release), folder.path(), change);
                let xgboost = &Xgboost::open(copy.to_str().expect("UTF-8"));
                let recipe = Recipe { subsample: "1", ..Recipe::new(release, "hist") };
                let (model, seen) = job(xgboost, recipe, (3, 3), HookUse::IfPossible, &[]);
                let (hooked, reason) = agreed(&seen);
                assert!(!hooked && reason.starts_with("rank 0 can't: "), "{reason}");
                assert!(reason.contains(expected) && !reason.contains('\n'), "{reason}");
                assert!(model == stock(xgboost, recipe, 3), "{release} {name}");
            });
        }
    }
}
