//! Collectives in a seeded world keep every promise; and each defect that is built in on purpose is found.

use rejoin_sim::collectives::{run, Mutant, Tally};

/// Seeds of `make test`.
const SEEDS: u64 = 10_000;

/// How many times more seeds than usual: `make test-long` says REJOIN_TIMES=10.
fn times() -> u64 {
    std::env::var("REJOIN_TIMES").map_or(1, |times| times.parse().expect("REJOIN_TIMES is a number"))
}

#[test]
fn ten_thousand_worlds_with_deaths_and_broken_links_keep_all_promises() {
    let mut sum = Tally::default();
    for seed in 0..SEEDS * times() {
        match run(seed, None, true) {
            Ok(tally) => {
                sum.deaths += tally.deaths;
                sum.cuts += tally.cuts;
                sum.replayed += tally.replayed;
                sum.run += tally.run;
            }
            Err(violation) => panic!("seed {seed} broke a promise: {violation}"),
        }
    }
    assert!(sum.deaths > 10_000 && sum.cuts > 5_000 && sum.replayed > 50_000 && sum.run > 100_000, "{sum:?}");
}

#[test]
fn without_faults_nobody_keeps_more_than_two_versions() {
    for seed in 0..1_000 {
        if let Err(violation) = run(seed, None, false) {
            panic!("seed {seed} broke a promise: {violation}");
        }
    }
}

fn found(mutant: Mutant, within: u64) -> String {
    let found = (0..within).find_map(|seed| run(seed, Some(mutant), true).err());
    found.unwrap_or_else(|| panic!("none of {within} seeds shows {mutant:?}")).promise.to_string()
}

#[test]
fn frames_of_older_attempts_that_are_taken_are_found() {
    assert_eq!(found(Mutant::OldAttempts, 500), "Identity");
}

#[test]
fn a_standing_without_freezing_is_found() {
    found(Mutant::NoFreeze, 500);
}

#[test]
fn results_that_come_late_and_count_are_found() {
    found(Mutant::LateResults, 2_000);
}

#[test]
fn a_previous_version_that_is_not_kept_is_found() {
    assert_eq!(found(Mutant::NothingOfThePrevious, 500), "Progress");
}
