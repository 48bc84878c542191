//! Jobs with collectives in a seeded world keep every promise; and each defect that is built in on purpose is found.

use rejoin_sim::job::{rendezvous, run, shares_memory, Tally};
use rejoin_sim::ranks::Defect;
use std::collections::BTreeMap;

/// Seeds of `make test`.
const SEEDS: u64 = 10_000;

/// How many times more seeds than usual: `make test-long` says REJOIN_TIMES=10.
fn times() -> u64 {
    std::env::var("REJOIN_TIMES").map_or(1, |times| times.parse().expect("REJOIN_TIMES is a number"))
}

#[test]
fn ten_thousand_jobs_with_random_faults_keep_all_promises() {
    let mut sum = Tally::default();
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 0..SEEDS * times() {
        match run(seed, None, true, false) {
            Ok(tally) => {
                sum.steps += tally.steps;
                sum.losses += tally.losses;
                sum.replayed += tally.replayed;
                sum.computed += tally.computed;
                sum.lives += tally.lives;
                sum.shared += tally.shared;
                *ends.entry(tally.end).or_default() += 1;
            }
            Err(violation) => panic!(
                "seed {seed} broke a promise: {violation}\nto see it: rejoin simulate --family job --seed {seed}"
            ),
        }
    }
    println!("{ends:?} {sum:?}");
    // Most of them have to heal: errors are allowed only when all that is needed is gone.
    assert!(ends["model"] > 8_500 * times(), "{ends:?}");
    // About every tenth job has a tracker that dies, or a second one beside it.
    assert!(u64::from(sum.lives) > 10_800 * times(), "{sum:?}");
    // In every third job ranks share memory, mostly all of them.
    assert!(u64::from(sum.shared) > 10_000 * times(), "{sum:?}");
    assert!(sum.losses > 5_000 && sum.replayed > 4_500 && sum.computed > 100_000, "{sum:?}");
}

#[test]
fn without_faults_every_job_ends_with_its_model_and_keeps_two_versions() {
    for seed in 0..500 {
        match run(seed, None, false, false) {
            Ok(tally) => assert_eq!((tally.end.as_str(), tally.losses), ("model", 0), "seed {seed}"),
            Err(violation) => panic!("seed {seed} broke a promise: {violation}"),
        }
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let told = |seed| run(seed, None, true, false).map(|tally| format!("{tally:?}"));
    for seed in [3, 77, 275, 2591] {
        assert_eq!(told(seed), told(seed), "seed {seed}");
    }
}

#[test]
fn a_thousand_ranks_find_each_other_with_one_view_and_a_few_messages_each() {
    let tally = rendezvous(1000).unwrap_or_else(|violation| panic!("{violation}"));
    assert_eq!(tally.views, 1, "nobody has to know of a rendezvous that isn't complete");
    assert!(tally.steps < 20_000, "{tally:?}");
}

fn found(defect: Defect, within: u64) -> String {
    let found = (0..within).find_map(|seed| run(seed, Some(defect), true, false).err().map(|found| (seed, found)));
    let (seed, violation) = found.unwrap_or_else(|| panic!("none of {within} seeds shows {defect:?}"));
    println!("{defect:?} is found by seed {seed}: {}", violation.promise);
    violation.promise.to_string()
}

#[test]
fn fencing_that_was_dropped_is_found() {
    found(Defect::NoFencing, 2_000);
}

#[test]
fn a_previous_version_of_which_nothing_is_kept_is_found() {
    found(Defect::NothingOfThePrevious, 2_000);
}

#[test]
fn a_boot_key_whose_number_was_forgotten_is_found() {
    found(Defect::NoOccurrence, 100);
}

#[test]
fn an_unfinished_result_that_counts_as_final_is_found() {
    assert_eq!(found(Defect::UnfinishedIsFinal, 100), "Agreement");
}

#[test]
fn frames_of_an_old_generation_that_are_taken_are_found() {
    found(Defect::OldAttempts, 5_000);
}

#[test]
fn a_standing_without_freezing_is_found() {
    found(Defect::NoFreeze, 2_000);
}

#[test]
fn a_tracker_that_comes_back_and_is_not_told_who_has_ended_is_found() {
    assert_eq!(found(Defect::EndsUntold, 5_000), "Progress");
}

#[test]
fn a_tracker_that_comes_back_and_is_not_told_what_the_run_went_on_from_is_found() {
    found(Defect::StartUntold, 5_000);
}

#[test]
fn a_rank_that_does_not_repeat_itself_is_found() {
    assert_eq!(found(Defect::Forgets, 100), "Identity");
}

#[test]
fn a_rank_that_does_not_repeat_itself_is_found_by_what_it_has_shown_in_shared_memory() {
    let seeds: Vec<u64> = (0..1500).filter(|seed| shares_memory(*seed)).collect();
    let found = seeds.iter().filter(|seed| run(**seed, Some(Defect::Forgets), true, false).is_err()).count();
    // It is found in 45 of 504 jobs; in 23, by what went over links, if ranks don't note what boards show them.
    assert!(found >= 35, "{found} of {}", seeds.len());
}

#[test]
fn a_rank_that_goes_another_way_than_the_others_is_found() {
    assert_eq!(found(Defect::OwnWay, 500), "Deadlines");
}

#[test]
fn results_that_come_late_and_count_are_found() {
    found(Defect::LateResults, 20_000);
}
