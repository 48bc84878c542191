//! Processes that have no file descriptors left.

use crate::harness::{example, run, signal, until, Background};
use crate::{digest, process, Ran};
use rustix::process::{prlimit, Pid, Resource, Rlimit};
use std::time::{Duration, Instant};

/// Sets how many descriptors another process may have, and gives what it might before. Those that it has stay.
fn limit(process: u32, most: Option<u64>) -> Option<u64> {
    let pid = Pid::from_raw(process as i32).expect("a process id");
    let now = rustix::process::getrlimit(Resource::Nofile);
    let was = prlimit(Some(pid), Resource::Nofile, Rlimit { current: most, maximum: now.maximum });
    was.expect("the limit of a process of the same user can be set").current
}

/// Hundredths of a second that a process has computed.
fn computed(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("the process is there");
    let (_, rest) = stat.rsplit_once(')').expect("a name in parentheses");
    let fields: Vec<&str> = rest.split_whitespace().collect();
    fields[11].parse::<u64>().expect("a number") + fields[12].parse::<u64>().expect("a number")
}

/// Rank 1 can neither accept nor make a connection while another rank dies and comes back, for which it needs one.
fn survives_the_death_of(victim: u32) {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("events.jsonl");
    let (path, program) = (log.display().to_string(), example("scenario"));
    let rule = "rank=3,version=2,seqno=0,do=stop:1000s";
    let arguments =
        ["-n", "4", "--restart", "--lost-after", "40s", "--events", &path, "--kill", rule, "--", &program, "4"];
    let mut run = Background::start(&arguments);
    let events = || std::fs::read_to_string(&log).unwrap_or_default();
    let errors = || std::fs::read_to_string(run.folder.path().join("err")).unwrap_or_default();
    until("rank 3 is frozen", || events().contains("FaultFired"));
    let starved = process(&log, 1);
    let usual = limit(starved, Some(0));
    until("it is said that there are no descriptors", || errors().contains("Too many open files"));
    signal(process(&log, victim), "KILL");
    until("the victim is started again", || events().matches("Started").count() == 5);
    signal(process(&log, 3), "CONT");
    // A process that asks all the time whether there is one again computes for the whole of it.
    // The pause is what is measured, however long it becomes.
    let (before, since) = (computed(starved), Instant::now());
    std::thread::sleep(Duration::from_secs(1));
    let (busy, passed) = (Duration::from_millis(10 * (computed(starved) - before)), since.elapsed());
    assert!(busy < passed / 2, "rank 1 computed for {busy:?} of {passed:?} in which it could do nothing");
    assert!(!run.out().contains("digest"), "no rank ends without rank 1: {}", run.out());
    limit(starved, usual);
    let status = run.status();
    let errors = std::fs::read_to_string(run.folder.path().join("err")).unwrap_or_default();
    assert!(status.success(), "{errors}\n{}", events());
    assert_eq!(errors.matches("Too many open files").count(), 1, "said once: {errors}");
    let ended = Ran { status: Some(0), out: run.out(), err: errors };
    digest(&ended);
    assert!(!ended.out.contains("WRONG"), "{}", ended.out);
}

#[test]
fn a_rank_without_descriptors_accepts_who_comes_back_as_soon_as_it_has_some() {
    survives_the_death_of(0);
}

#[test]
fn a_rank_without_descriptors_connects_to_who_comes_back_as_soon_as_it_has_some() {
    survives_the_death_of(2);
}

#[test]
fn a_launcher_without_descriptors_starts_who_has_died_as_soon_as_it_has_some() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("events.jsonl");
    let (path, program) = (log.display().to_string(), example("scenario"));
    let rule = "rank=3,version=2,seqno=0,do=stop:1000s";
    let arguments =
        ["-n", "4", "--restart", "--lost-after", "40s", "--events", &path, "--kill", rule, "--", &program, "4"];
    let mut run = Background::start(&arguments);
    let events = || std::fs::read_to_string(&log).unwrap_or_default();
    let errors = |run: &Background| std::fs::read_to_string(run.folder.path().join("err")).unwrap_or_default();
    until("rank 3 is frozen", || events().contains("FaultFired"));
    let usual = limit(run.child.id(), Some(0));
    signal(process(&log, 1), "KILL");
    until("it can't be started", || errors(&run).contains("rank 1 can't be started now: Too many open files"));
    assert_eq!(events().matches("Started").count(), 4);
    limit(run.child.id(), usual);
    until("it is started", || events().matches("Started").count() == 5);
    signal(process(&log, 3), "CONT");
    let status = run.status();
    let errors = errors(&run);
    assert!(status.success(), "{errors}\n{}", events());
    assert_eq!(errors.matches("can't be started now").count(), 1, "said once: {errors}");
    digest(&Ran { status: Some(0), out: run.out(), err: errors });
}

#[test]
fn a_process_that_may_have_too_few_descriptors_to_take_part_says_so() {
    for most in [5, 8] {
        let script = format!("ulimit -n {most}; exec {}", example("scenario"));
        let ran = run(&["-n", "2", "--", "sh", "-c", &script]).ended(3);
        ran.says("Too many open files");
        assert!(!ran.out.contains("digest"), "{}", ran.out);
    }
}
