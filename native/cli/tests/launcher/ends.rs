//! How a run ends, and with which status.

use crate::harness::{example, finish, rejoin, run, signal, until, Background};
use std::io::{BufRead, BufReader};

#[test]
fn a_rank_that_fails_ends_the_run_with_its_name_and_status_3() {
    let script = "if [ $REJOIN_RANK = 1 ]; then exit 7; fi; exec sleep 100";
    run(&["-n", "3", "--", "sh", "-c", script]).ended(3).says("rank 1 failed (status 7)").says("--restart");
}

#[test]
fn a_rank_that_dies_is_started_again_until_it_ends_well() {
    let script = "echo here; if [ $REJOIN_RANK = 1 ] && [ $REJOIN_ATTEMPT -lt 2 ]; then kill -KILL $$; fi";
    let ran = run(&["-n", "2", "--restart", "--", "sh", "-c", script]).ended(0);
    ran.says("rank 1 died (SIGKILL); attempt 1").says("attempt 2 starts after").says("after 2 restarts");
    for prefix in ["[0] ", "[1] ", "[1.1] ", "[1.2] "] {
        assert!(ran.lines(prefix).eq(["here"]), "{prefix}: {}", ran.out);
    }
}

#[test]
fn a_rank_that_dies_again_and_again_is_given_up_after_as_many_restarts_as_are_allowed() {
    let ran = run(&["-n", "1", "--restart", "--restarts", "2", "--", "sh", "-c", "echo here; exit 1"]).ended(3);
    ran.says("rank 0 failed (status 1), and it was started again 2 times").says("--restarts");
    assert_eq!(ran.out.lines().count(), 3);
}

#[test]
fn a_program_that_is_not_there_or_cannot_be_run_is_told_as_shells_do() {
    run(&["-n", "2", "--", "/nowhere/at-all"]).ended(127).says("/nowhere/at-all can't be run");
    run(&["-n", "2", "--", "/etc/passwd"]).ended(126).says("/etc/passwd can't be run");
}

#[test]
fn a_command_line_that_is_not_understood_ends_with_status_2_and_says_why() {
    run(&["-n", "2"]).ended(2).says("PROGRAM");
    run(&["-n", "0", "--", "true"]).ended(2).says("from 1 to 4096");
    run(&["-n", "2", "--kill", "rank=5,at=join", "--", "true"]).ended(2).says("ranks are 0 to 1");
    run(&["-n", "2", "--kill", "rank=1,at=lunch", "--", "true"]).ended(2).says("at=lunch is unknown");
    run(&["-n", "2", "--members", "90000s", "--", "true"]).ended(2).says("at most a day");
    run(&["-n", "2", "--durable", "folder", "--job", "", "--", "true"]).ended(2).says("--job");
    let ran = finish(&mut rejoin(&["run", "-n", "2", "--lost-after", "1ms", "--", "true"]));
    ran.ended(2).says("--lost-after").says("20 ms or more");
}

#[test]
fn a_place_that_cannot_be_written_is_named_with_its_option_and_nothing_is_run() {
    for option in ["--events", "--durable", "--spill"] {
        // Below a file there is no folder.
        let ran = run(&["-n", "2", option, "/etc/passwd/below", "--", "echo", "it runs"]).ended(1);
        ran.says(&format!("{option} /etc/passwd/below can't be used"));
        assert_eq!(ran.out, "");
    }
}

#[test]
fn a_run_that_takes_too_long_is_ended_and_says_who_was_not_done() {
    let script = "if [ $REJOIN_RANK = 0 ]; then exit 0; fi; exec sleep 100";
    let ran = finish(&mut rejoin(&["run", "-n", "3", "--timeout", "300ms", "--", "sh", "-c", script]));
    ran.ended(124).says("not done: rank 1, 2");
}

#[test]
fn a_tracker_that_never_comes_is_waited_for_until_a_limit_or_a_signal() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("join").display().to_string();
    let joins = |limit| ["run", "--join", &file, "--rank", "0", "--members", "40s", "--timeout", limit, "--", "true"];
    let ran = finish(&mut rejoin(&joins("300ms"))).ended(124);
    ran.says("the run took longer than --timeout 0.3 s; the tracker of the join file").says("there is no such file");

    let mut waiting = rejoin(&joins("50s")).stderr(std::process::Stdio::piped()).spawn().expect("it can be run");
    let mut said = String::new();
    let mut lines = BufReader::new(waiting.stderr.take().expect("a pipe"));
    lines.read_line(&mut said).expect("text");
    assert!(said.contains("waits for the join file"), "{said}");
    signal(waiting.id(), "TERM");
    assert_eq!(waiting.wait().expect("a child").code(), Some(143));
}

#[test]
fn ranks_that_join_end_with_one_model_and_status_0() {
    let ran = run(&["-n", "3", "--", &example("steps")]).ended(0);
    assert_eq!(ran.common("digest ", 3).len(), 32);
    assert!(ran.err.is_empty(), "{}", ran.err);
}

#[test]
fn a_rank_that_ends_well_before_the_job_has_left_the_others_alone() {
    let steps = example("steps");
    let script = format!("if [ $REJOIN_RANK = 1 ]; then exit 0; fi; exec {steps}");
    run(&["-n", "3", "--", "sh", "-c", &script]).ended(3).says("rank 1 ended with status 0 before the job's end");
}

#[test]
fn ranks_that_disagree_end_with_the_jobs_error_and_status_4() {
    let steps = example("steps");
    let script = format!("exec {steps} $((5 + REJOIN_RANK))");
    run(&["-n", "2", "--restart", "--", "sh", "-c", &script]).ended(4).says("MISMATCH");
}

#[test]
fn a_rank_that_fails_after_the_jobs_end_is_not_started_again_and_ends_the_run_when_the_others_are_done() {
    let script = "\"$0\"; if [ $REJOIN_RANK = 0 ]; then exit 1; fi; sleep 2; echo saved";
    let ran = run(&["-n", "2", "--restart", "--", "sh", "-c", script, &example("steps")]).ended(3);
    ran.says("rank 0 failed (status 1) after the job's end").says("belongs before the end (finish)");
    assert!(ran.lines("[1] ").any(|line| line == "saved"), "the other one is waited for: {}", ran.out);
    assert!(!ran.out.contains("[0.1]"), "{}", ran.out);
}

#[test]
fn ranks_that_go_on_after_the_jobs_end_are_named_once_with_what_to_do() {
    let script = "\"$0\"; if [ $REJOIN_RANK = 1 ]; then echo pid $$; sleep 1000; fi";
    let options = ["-n", "2", "--grace", "100ms", "--", "sh", "-c", script, &example("steps")];
    let mut run = Background::start(&options);
    let pid = run.printed("pid ", 1).remove(0);
    let text = format!("the job has ended, and rank 1's process ({pid}) goes on since 0.6 s");
    until("the rank is named", || run.err().contains(&text));
    run.signal("TERM");
    assert_eq!(run.status().code(), Some(143));
    let said = run.err();
    assert_eq!(said.matches("goes on since").count(), 1, "{said}");
    assert!(said.contains("end it, or begin with --timeout"), "{said}");
}

#[test]
fn a_program_that_loses_the_secrets_descriptor_says_what_was_expected() {
    let steps = example("steps");
    let script = format!("eval \"exec $REJOIN_SECRET_FD<&-\"; exec {steps}");
    run(&["-n", "1", "--", "sh", "-c", &script]).ended(3).says("inherited descriptors");
}

#[test]
fn a_program_that_nobody_launched_says_how_to_launch_it() {
    let ran = finish(&mut std::process::Command::new(example("steps")));
    ran.ended(9).says("rejoin run");
}

#[test]
fn the_help_tells_rules_and_statuses() {
    let ran = finish(&mut rejoin(&["run", "--help"])).ended(0);
    for text in ["sent:K", "at=WHERE", "Exit status", "128+N"] {
        assert!(ran.out.contains(text), "{text} in {}", ran.out);
    }
}

#[test]
fn a_launcher_that_never_has_enough_descriptors_gives_up_and_says_what_to_do() {
    let mut run = Background::start_with_files(&["-n", "40", "--", "sleep", "1000"], 40);
    assert_eq!(run.status().code(), Some(126));
    let errors = std::fs::read_to_string(run.folder.path().join("err")).expect("the output is text");
    for text in ["can't be started now: Too many open files", "for 10 s", "raise its limit (ulimit -n)"] {
        assert_eq!(errors.matches(text).count(), 1, "{text}: {errors}");
    }
}

#[test]
fn a_run_that_was_started_not_to_hear_of_a_terminals_end_goes_on() {
    let said = finish(std::process::Command::new("sh").args([
        "-c",
        "trap '' HUP; exec \"$0\" run --timeout 50s -n 1 -- sh -c 'kill -HUP $PPID; sleep 1; echo done'",
        env!("CARGO_BIN_EXE_rejoin"),
    ]))
    .ended(0);
    assert!(said.out.contains("done"), "{}", said.out);
}
