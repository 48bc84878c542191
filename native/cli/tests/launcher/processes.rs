//! No process is left behind, whatever ends the launcher.

use crate::harness::{lives, until, Background};
use std::os::unix::process::ExitStatusExt;

/// Each rank prints its process and one that it has started itself.
const FAMILY: &str = "sleep 1000 & echo pid $$; echo pid $!; wait";

fn gone(pids: &[String]) {
    until(&format!("processes {pids:?} are gone"), || !pids.iter().any(|pid| lives(pid)));
}

fn ends_all(signal: &str, status: i32) {
    let mut run = Background::start(&["-n", "3", "--", "sh", "-c", FAMILY]);
    let pids = run.printed("pid ", 6);
    assert!(pids.iter().all(|pid| lives(pid)));
    run.signal(signal);
    assert_eq!(run.status().code(), Some(status));
    gone(&pids);
}

#[test]
fn ctrl_c_ends_all_ranks_and_what_they_have_started() {
    ends_all("INT", 130);
}

#[test]
fn a_sigterm_ends_all_ranks_and_what_they_have_started() {
    ends_all("TERM", 143);
}

#[test]
fn ranks_that_ignore_sigterm_are_killed_after_the_grace() {
    let script = format!("trap '' TERM; {FAMILY}");
    let mut run = Background::start(&["-n", "2", "--grace", "300ms", "--", "sh", "-c", &script]);
    let pids = run.printed("pid ", 4);
    run.signal("TERM");
    assert_eq!(run.status().code(), Some(143));
    gone(&pids);
}

#[test]
fn ranks_die_with_a_launcher_that_is_killed() {
    let mut run = Background::start(&["-n", "3", "--", "sh", "-c", "echo pid $$; exec sleep 1000"]);
    let pids = run.printed("pid ", 3);
    run.signal("KILL");
    assert_eq!(run.status().signal(), Some(9));
    gone(&pids);
}

#[test]
fn what_a_dead_rank_has_started_is_ended_before_it_is_started_again() {
    let script = "if [ $REJOIN_ATTEMPT = 0 ]; then sleep 1000 & echo pid $!; kill -KILL $$; fi; echo again";
    let mut run = Background::start(&["-n", "1", "--restart", "--", "sh", "-c", script]);
    let pids = run.printed("pid ", 1);
    assert!(run.status().success());
    gone(&pids);
    assert!(run.out().contains("[0.1] again"));
}
