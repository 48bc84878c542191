//! No process is left behind, whatever ends the launcher.

use crate::harness::{lives, until, Background};
use std::os::raw::c_void;
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
fn why_a_run_ends_is_said_at_once_and_a_second_signal_kills_whatever_it_ends_for() {
    let script = format!("if [ $REJOIN_RANK = 1 ]; then exit 7; fi; trap '' TERM; {FAMILY}");
    let mut run = Background::start(&["-n", "2", "--grace", "1000s", "--", "sh", "-c", &script]);
    let pids = run.printed("pid ", 2);
    until("it is said", || run.err().contains("rejoin: rank 1 failed (status 7)"));
    // Of two that are the same one the second may be taken for the first.
    run.signal("INT");
    run.signal("TERM");
    assert_eq!(run.status().code(), Some(3));
    gone(&pids);
    assert_eq!(run.err().matches("rank 1 failed").count(), 1, "{}", run.err());
}

#[test]
fn a_process_that_does_not_end_after_sigkill_is_named_and_not_waited_for() {
    let mut run = Background::start(&["-n", "1", "--grace", "300ms", "--", "sh", "-c", "echo pid $$; exec sleep 1000"]);
    let pid = run.printed("pid ", 1).remove(0);
    let process: i32 = pid.parse().expect("a number");
    let none = std::ptr::null_mut::<c_void>();
    // SAFETY: it reads and writes no memory. While this thread traces the process, nobody else is told of its end.
    let seized = unsafe { libc::ptrace(libc::PTRACE_SEIZE, process, none, none) };
    assert_eq!(seized, 0, "{}", std::io::Error::last_os_error());
    run.signal("INT");
    assert_eq!(run.status().code(), Some(130));
    let text = format!("rank 0's process ({pid}) doesn't end, 5 s after SIGKILL, and is not waited for");
    assert!(run.err().contains(&text), "{}", run.err());
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
