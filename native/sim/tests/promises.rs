//! Seeds of every family keep every promise.

use rejoin_sim::world::run_scenario;
use rejoin_sim::{rendezvous, run, Changing, Family, Scenario, Tally};
use std::collections::BTreeMap;

/// How many times more seeds than usual: `make test-long` says REJOIN_TIMES=10.
fn times() -> u64 {
    std::env::var("REJOIN_TIMES").map_or(1, |times| times.parse().expect("REJOIN_TIMES is a number"))
}

/// Runs these seeds of a family, and counts how they end; a broken promise is printed with the command that shows it.
fn seeds(count: u64, family: Family) -> (BTreeMap<String, u64>, Tally, u64) {
    let (mut ends, mut sum, mut hooked) = (BTreeMap::new(), Tally::default(), 0);
    for seed in 0..count * times() {
        match run(family, seed, None, false) {
            Ok(tally) => {
                sum.steps += tally.steps;
                sum.losses += tally.losses;
                sum.replayed += tally.replayed;
                sum.computed += tally.computed;
                sum.lives += tally.lives;
                sum.spares += tally.spares;
                sum.chosen += tally.chosen;
                sum.resized += tally.resized;
                sum.grown += tally.grown;
                sum.released += tally.released;
                sum.shared += tally.shared;
                hooked += u64::from(tally.hooked);
                *ends.entry(tally.end).or_default() += 1;
            }
            Err(violation) => {
                let name = Family::ALL.into_iter().find(|(_, known)| *known == family).map_or("", |(name, _)| name);
                panic!(
                    "seed {seed} broke a promise: {violation}\nto see it: cargo run --release -p rejoin-sim -- \
                     --family {name} --seed {seed}"
                )
            }
        }
    }
    println!("{ends:?} {sum:?}, {hooked} hooked");
    (ends, sum, hooked)
}

#[test]
fn five_thousand_jobs_with_random_faults_keep_all_promises() {
    let (ends, sum, _) = seeds(5_000, Family::Job);
    // Most of them have to heal: errors are allowed only when all that is needed is gone.
    assert!(ends["model"] > 4_250 * times(), "{ends:?}");
    // About every tenth job has a tracker that dies, or a second one beside it.
    assert!(u64::from(sum.lives) > 5_400 * times(), "{sum:?}");
    // In every third job ranks share memory, mostly all of them.
    assert!(u64::from(sum.shared) > 5_000 * times(), "{sum:?}");
    assert!(sum.losses > 2_500 && sum.replayed > 2_250 && sum.computed > 50_000, "{sum:?}");
    // In every fourth job a checkpoint is wanted now and then.
    assert!(u64::from(sum.chosen) > 250 * times(), "{sum:?}");
}

#[test]
fn five_thousand_jobs_with_channels_and_collectives_keep_all_promises() {
    let (ends, sum, hooked) = seeds(5_000, Family::Hook);
    assert!(ends["model"] > 4_000 * times() && ends["MISMATCH"] > 30 * times(), "{ends:?}");
    // Nearly all agree on the hook.
    assert!(hooked > 4_000 * times(), "{hooked}");
    assert!(u64::from(sum.lives) > 5_200 * times() && u64::from(sum.shared) > 2_500 * times(), "{sum:?}");
    assert!(sum.losses > 2_500 && sum.replayed > 1_000 && sum.computed > 100_000, "{sum:?}");
}

#[test]
fn a_thousand_worlds_with_random_faults_keep_all_promises() {
    let (ends, ..) = seeds(1000, Family::Mixed);
    assert!(ends["model"] > 800 * times(), "{ends:?}");
}

#[test]
fn ranks_that_are_restarted_while_others_are_behind_catch_up() {
    let (ends, ..) = seeds(500, Family::Cascade);
    assert!(ends["model"] > 450 * times(), "{ends:?}");
}

#[test]
fn a_tracker_that_dies_and_comes_back_takes_the_running_job_over() {
    // An error is allowed when all agents that knew how far the job was have died before the tracker is back.
    let (ends, ..) = seeds(500, Family::Tracker);
    assert!(ends["model"] > 400 * times(), "{ends:?}");
}

#[test]
fn a_rank_that_does_not_repeat_itself_never_leaves_a_model_behind() {
    let (ends, ..) = seeds(500, Family::Liar);
    assert!(ends["MISMATCH"] > 30 * times(), "{ends:?}");
}

#[test]
fn without_faults_every_job_ends_with_its_model_and_keeps_two_versions() {
    for family in [Family::Job, Family::Hook] {
        for seed in 0..500 {
            match run_scenario(Scenario::of(family, seed).without_faults(), false) {
                Ok(tally) => assert_eq!((tally.end.as_str(), tally.losses), ("model", 0), "seed {seed}"),
                Err(violation) => panic!("seed {seed} broke a promise: {violation}"),
            }
        }
    }
}

/// All who could say how often ranks were started die before the tracker is back: its next life counts anew.
#[test]
fn a_tracker_that_nobody_can_tell_of_earlier_starts_counts_them_anew() {
    let tally = run(Family::Hook, 32256, None, false).unwrap();
    assert_eq!((tally.end.as_str(), tally.lives), ("UNRECOVERABLE", 2));
}

#[test]
fn the_same_seed_is_the_same_run() {
    let reported = |family, seed| run(family, seed, None, false).map(|tally| format!("{tally:?}"));
    for (_, family) in Family::ALL {
        for seed in [3, 77, 275, 2591] {
            assert_eq!(reported(family, seed), reported(family, seed), "seed {seed}");
        }
    }
}

#[test]
fn a_thousand_ranks_find_each_other_with_one_view_and_a_few_messages_each() {
    let tally = rendezvous(1000).unwrap_or_else(|violation| panic!("{violation}"));
    assert_eq!(tally.views, 1, "no rank has to know of a rendezvous that isn't complete");
    assert!(tally.steps < 20_000, "{tally:?}");
}

#[test]
fn four_thousand_jobs_whose_world_shrinks_and_grows_keep_all_promises() {
    let (ends, sum, _) = seeds(4_000, Family::Elastic);
    // Otherwise fewer ranks are left than the job needs, or one was gone before it had begun.
    assert!(ends["model"] > 2_600 * times(), "{ends:?}");
    // Two of three worlds shrink; in every third job the tracker dies.
    assert!(u64::from(sum.resized) > 2_300 * times() && u64::from(sum.lives) > 5_000 * times(), "{sum:?}");
}

#[test]
fn three_thousand_jobs_with_spares_keep_all_promises() {
    let (ends, sum, _) = seeds(3_000, Family::Spares);
    assert!(ends["model"] > 2_600 * times(), "{ends:?}");
    // In every third job or so a spare takes over.
    assert!(u64::from(sum.spares) > 1_000 * times(), "{sum:?}");
}

#[test]
fn a_large_world_grows_by_all_that_stand_by_and_shrinks_by_all_that_die_at_once_in_one_step_each() {
    let mut job = Changing::begin(100, 30);
    job.decides().expect("it grows");
    job.starts(100).expect("all are there");
    job.kill(30);
    job.decides().expect("it shrinks");
    job.starts(70).expect("all that are left are there");
}
