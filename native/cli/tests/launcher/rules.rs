//! Kill rules at the moments that the agent itself sees.

use crate::harness::{example, run, run_with, Ran};

/// Three ranks with this rule; they end well and with one digest.
fn survives(rule: &str) -> Ran {
    let undisturbed = run(&["-n", "3", "--", &example("steps")]).ended(0).common("digest ", 3);
    let ran = run(&["-n", "3", "--restart", "--kill", rule, "--", &example("steps")]).ended(0);
    ran.says(&format!("rule `{rule}` fired at rank"));
    assert_eq!(ran.common("digest ", 3), undisturbed);
    ran
}

#[test]
fn a_rank_is_killed_as_it_joins() {
    survives("rank=1,at=join").says("rank 1 died (SIGKILL)");
}

#[test]
fn a_rank_is_killed_in_the_call_that_takes_a_checkpoint() {
    survives("rank=2,version=3,at=checkpoint").says("rank 2 died (SIGKILL)");
}

#[test]
fn a_rank_is_killed_as_it_has_reported_its_end() {
    survives("rank=0,at=finalize").says("rank 0 died (SIGKILL)");
}

#[test]
fn a_rank_is_killed_again_after_it_has_fetched_its_checkpoint() {
    let twice = ["--kill", "rank=1,version=2,at=checkpoint", "--kill", "rank=1,at=restored,incarnation=1"];
    let program = example("steps");
    let mut arguments = vec!["-n", "3", "--restart"];
    arguments.extend(twice);
    arguments.extend(["--", &program]);
    let ran = run(&arguments).ended(0);
    ran.says("attempt 2 starts");
    ran.common("digest ", 3);
}

#[test]
fn a_helper_is_killed_as_it_is_asked_for_a_checkpoint_and_another_one_helps() {
    let program = example("steps");
    let kills = ["--kill", "rank=1,version=3,at=checkpoint", "--kill", "rank=0,at=serving"];
    let mut arguments = vec!["-n", "3", "--restart"];
    arguments.extend(kills);
    arguments.extend(["--", &program, "5", "4000000"]);
    // Two ranks hold the checkpoint, and either may be asked first.
    for _ in 0..30 {
        let ran = run(&arguments);
        if ran.status == Some(5) {
            continue;
        }
        let ran = ran.ended(0);
        ran.says("at=serving` fired at rank 0").says("rank 0 died (SIGKILL)");
        ran.common("digest ", 3);
        return;
    }
    panic!("rank 0 was never asked in 30 runs");
}

#[test]
fn when_the_only_holder_of_a_checkpoint_dies_as_it_is_asked_for_it_the_job_says_so_and_does_not_start_from_nothing() {
    let program = example("steps");
    let kills = ["--kill", "rank=1,version=3,at=checkpoint", "--kill", "rank=0,at=serving"];
    let mut arguments = vec!["-n", "2", "--restart"];
    arguments.extend(kills);
    arguments.extend(["--", &program]);
    run(&arguments).ended(4).says("UNRECOVERABLE").says("no agent holds a usable checkpoint");
}

#[test]
fn a_rank_that_is_stopped_for_a_moment_goes_on_as_if_nothing_had_been() {
    let ran = survives("rank=1,version=2,at=checkpoint,do=stop:100ms");
    assert!(!ran.err.contains("died"), "{}", ran.err);
}

#[test]
fn a_rank_that_is_stopped_for_too_long_is_declared_lost_killed_and_started_again() {
    let program = example("steps");
    let rule = "rank=1,version=2,at=checkpoint,do=stop:1000s";
    let ran = run_with("1s", &["-n", "3", "--restart", "--kill", rule, "--", &program]).ended(0);
    ran.says("rank 1 is killed: it gave no sign of life").says("rank 1 died (SIGKILL)");
    ran.common("digest ", 3);
}

#[test]
fn a_rank_whose_calls_end_with_an_error_fails_and_is_started_again() {
    survives("rank=1,version=2,at=checkpoint,do=throw").says("rank 1 died (status 9)");
}

#[test]
fn a_rule_that_never_fired_is_told_and_ends_the_run_with_status_5() {
    let program = example("steps");
    let rule = "rank=1,version=99,at=checkpoint";
    let ran = run(&["-n", "2", "--restart", "--kill", rule, "--", &program]).ended(5);
    ran.says("rule `rank=1,version=99,at=checkpoint` never fired");
    ran.common("digest ", 2);
}

#[test]
fn a_death_without_restart_ends_the_run_and_every_rank_is_told_why() {
    let program = example("steps");
    let ran = run(&["-n", "3", "--kill", "rank=1,at=join", "--", &program]).ended(3);
    ran.says("rank 1 failed (SIGKILL), and ranks are started again only with --restart");
    for rank in [0, 2] {
        ran.says(&format!("[{rank}] failed: UNRECOVERABLE: rank 1 failed (SIGKILL)"));
    }
}
