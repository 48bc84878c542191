//! Frozen processes, cut links, slow ranks.

use crate::harness::{example, run_with};
use crate::{at, digest, survive};

#[test]
fn a_rank_that_is_frozen_for_a_moment_goes_on_as_if_nothing_had_been() {
    let ran = survive(&[format!("{},do=stop:300ms", at(3, 1, 9))]);
    assert!(!ran.err.contains("died"), "{}", ran.err);
}

#[test]
fn a_rank_that_is_frozen_for_good_is_declared_lost_killed_and_replaced() {
    let (program, rule) = (example("scenario"), format!("{},do=stop:1000s", at(3, 1, 9)));
    let ran = run_with("2s", &["-n", "10", "--restart", "--kill", &rule, "--", &program]).ended(0);
    ran.says("rank 3 is killed: it gave no sign of life").says("rank 3 died (SIGKILL)");
    digest(&ran);
}

#[test]
fn a_link_between_two_living_ranks_breaks_and_nobody_dies() {
    let ran = survive(&[format!("{},do=cut:7", at(3, 1, 9)), format!("{},at=sent:1000,do=cut:2", at(5, 2, 9))]);
    assert!(!ran.err.contains("died"), "{}", ran.err);
}

#[test]
fn a_tracker_that_comes_back_without_what_it_knew_ends_the_job_and_nobody_starts_from_nothing() {
    let (program, rule) = (example("scenario"), format!("{},do=tracker:100ms", at(1, 1, 3)));
    let ran = run_with("5s", &["-n", "4", "--restart", "--kill", &rule, "--", &program]).ended(4);
    ran.says("UNRECOVERABLE: the tracker was started again (life 2)");
    assert_eq!(ran.out.matches("starts at version 0").count(), 4, "{}", ran.out);
}

#[test]
fn a_slow_rank_is_waited_for() {
    let ran = survive(&[format!("{},do=delay:400ms", at(3, 1, 0))]);
    assert!(!ran.err.contains("died"), "{}", ran.err);
}

#[test]
fn a_rank_whose_call_ends_with_an_error_is_started_again() {
    survive(&[format!("{},do=throw", at(3, 1, 9))]).says("rank 3 died (status 9)");
}
