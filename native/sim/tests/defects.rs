//! The invariants bite: each defect that is built into the simulated driver on purpose is found.

use rejoin_sim::{run, Bug, Scenario, Violation};

/// The first of these seeds that shows the defect.
fn found(bug: Bug, seeds: std::ops::Range<u64>, scenario: fn(u64) -> Scenario) -> Violation {
    for seed in seeds.clone() {
        let scenario = Scenario { bug: Some(bug), ..scenario(seed) };
        if let Err(violation) = run(&scenario, false) {
            return violation;
        }
    }
    panic!("none of the seeds {seeds:?} shows {bug:?}");
}

#[test]
fn bytes_that_are_not_compared_are_found() {
    assert_eq!(found(Bug::NoComparison, 0..200, Scenario::liar_of).promise, "Identity");
}

#[test]
fn frames_of_dead_incarnations_are_found() {
    assert_eq!(found(Bug::NoFencing, 0..2000, Scenario::of).promise, "Fencing");
}

#[test]
fn a_start_at_an_older_version_than_planned_is_found() {
    assert_eq!(found(Bug::OlderStart, 0..200, Scenario::of).promise, "Agreement");
}

#[test]
fn logs_that_are_dropped_while_a_rank_is_behind_are_found() {
    assert_eq!(found(Bug::NoHolding, 0..10_000, Scenario::cascade_of).promise, "Progress");
}
