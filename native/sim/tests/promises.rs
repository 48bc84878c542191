//! Seeds of every kind of world keep every promise.

use rejoin_sim::{run, Scenario};
use std::collections::BTreeMap;

/// How many times more seeds than usual: `make test-long` says REJOIN_TIMES=10.
fn times() -> u64 {
    std::env::var("REJOIN_TIMES").map_or(1, |times| times.parse().expect("REJOIN_TIMES is a number"))
}

/// Runs these seeds; a broken promise is told with the command that shows it.
fn seeds(count: u64, option: &str, scenario: fn(u64) -> Scenario) -> BTreeMap<String, u64> {
    let mut ends = BTreeMap::new();
    for seed in 0..count {
        match run(&scenario(seed), false) {
            Ok(report) => {
                let end = report.outcome.map_or_else(|error| error.code.name().to_string(), |_| "model".to_string());
                *ends.entry(end).or_default() += 1;
            }
            Err(violation) => panic!(
                "seed {seed} broke a promise: {violation}\nto see it: cargo run -p rejoin-sim -- {option} --seed {seed}"
            ),
        }
    }
    ends
}

#[test]
fn a_thousand_worlds_with_random_faults_keep_all_promises() {
    let ends = seeds(1000 * times(), "", Scenario::of);
    // Most of them have to heal: errors are allowed only when all that is needed is gone.
    assert!(ends["model"] > 800 * times(), "{ends:?}");
}

#[test]
fn ranks_that_are_restarted_while_others_are_behind_catch_up() {
    let ends = seeds(500 * times(), "--cascade", Scenario::cascade_of);
    assert!(ends["model"] > 450 * times(), "{ends:?}");
}

#[test]
fn a_tracker_that_dies_and_comes_back_takes_the_running_job_over() {
    // An error is allowed when all who knew how far the job was have died before the tracker is back.
    let ends = seeds(500 * times(), "--tracker", Scenario::tracker_of);
    assert!(ends["model"] > 400 * times(), "{ends:?}");
}

#[test]
fn a_rank_that_does_not_repeat_itself_never_leaves_a_model_behind() {
    let ends = seeds(500 * times(), "--liar", Scenario::liar_of);
    assert!(ends["MISMATCH"] > 30 * times(), "{ends:?}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [3, 77, 275, 2591] {
        let story = |seed| run(&Scenario::of(seed), false).map(|report| (report.millis, report.inputs, report.events));
        assert_eq!(story(seed), story(seed), "seed {seed}");
    }
}
