//! Frozen processes, cut links, slow ranks.

use crate::harness::{example, run_with, signal, until, Background};
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
fn a_tracker_that_dies_and_comes_back_takes_the_running_job_over() {
    for back in ["0ms", "100ms", "700ms"] {
        let ran = survive(&[format!("{},do=tracker:{back}", at(1, 1, 3))]);
        assert!(!ran.err.contains("died"), "{}", ran.err);
        assert_eq!(ran.out.matches("starts at version 0").count(), 10, "no rank starts again: {}", ran.out);
    }
}

#[test]
fn ranks_die_while_the_tracker_is_away_and_come_back_after_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("events.jsonl");
    let (path, program, rule) =
        (log.display().to_string(), example("scenario"), format!("{},do=tracker:400ms", at(1, 1, 3)));
    // The second start of rank 2 comes under the tracker's next life, and the third one too.
    let second = "rank=2,incarnation=1,at=join,do=kill";
    let kills = ["--kill", &rule, "--kill", second];
    let arguments =
        ["-n", "10", "--restart", "--events", &path, kills[0], kills[1], kills[2], kills[3], "--", &program, "40"];
    let mut run = Background::start(&arguments);
    let events = || std::fs::read_to_string(&log).unwrap_or_default();
    until("the tracker is gone", || events().contains("TrackerKilled"));
    // Deaths from outside, which no rule announces.
    for rank in [2, 3] {
        let text = events();
        let started = format!("\"rank\":{rank},");
        let line = text.lines().find(|line| line.contains(&started) && line.contains("Started")).expect("its start");
        let pid = line.split_once("\"pid\":").expect("its process").1;
        let pid: u32 = pid.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default().parse().expect("a number");
        signal(pid, "KILL");
    }
    assert!(run.status().success(), "{}", events());
    let ended = crate::Ran { status: Some(0), out: run.out(), err: String::new() };
    digest(&ended);
    assert!(!ended.out.contains("WRONG"), "{}", ended.out);
    assert_eq!(ended.out.matches("starts at version 0").count(), 10, "no rank starts from nothing: {}", ended.out);
    assert_eq!(ended.out.matches("starts at version").count(), 12, "{}", ended.out);
    let shown = |number: u32| ended.out.matches(&format!(" as incarnation {number}\n")).count();
    assert_eq!((shown(0), shown(1), shown(2)), (10, 1, 1), "as often as rank 3 and rank 2 were started before");
    let joined = |rank: u32, number: u32| {
        let joined = format!("{{\"event\":{{\"RankJoined\":{{\"rank\":{rank},\"incarnation\":{number},");
        events().contains(&joined[1..])
    };
    assert!(joined(2, 1) && joined(2, 2) && joined(3, 1), "{}", events());
}

#[test]
fn rules_that_strike_while_the_tracker_is_away_are_told_and_a_process_that_they_stop_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("events.jsonl").display().to_string();
    let rules = [
        format!("{},do=tracker:2s", at(1, 1, 3)),
        // No rank gets past a collective that rank 1 is late for.
        format!("{},do=delay:300ms", at(1, 1, 5)),
        at(2, 1, 7),
        format!("{},do=delay:1ms", at(3, 1, 7)),
        format!("{},do=stop:50ms", at(4, 1, 7)),
    ];
    let program = example("scenario");
    let mut arguments = vec!["-n", "10", "--restart", "--events", &log];
    rules.iter().for_each(|rule| arguments.extend(["--kill", rule]));
    arguments.extend(["--", &program]);
    // How soon the tracker is gone is the machine's affair.
    for _ in 0..30 {
        let ran = run_with("5s", &arguments).ended(0);
        digest(&ran);
        for rule in &rules {
            assert_eq!(ran.err.matches(&format!("rule `{rule}` fired at rank")).count(), 1, "{}", ran.err);
        }
        let events = std::fs::read_to_string(&log).expect("the log is there");
        let place = |what: &str| events.find(what).unwrap_or_else(|| panic!("{what} is missing in {events}"));
        let fired = [2, 3, 4].map(|id| place(&format!("{{\"FaultFired\":{{\"id\":{id},")));
        if fired.iter().all(|fired| (place("TrackerKilled")..place("TrackerBack")).contains(fired)) {
            return;
        }
    }
    panic!("the tracker was never away in 30 runs when the rules fired");
}

#[test]
fn the_tracker_dies_while_a_rank_is_on_its_way_back() {
    survive(&[at(4, 1, 9), "rank=4,incarnation=1,at=join,do=tracker:50ms".into()]);
}

#[test]
fn the_tracker_dies_as_ranks_have_reported_their_ends() {
    survive(&["rank=0,at=finalize,do=tracker:100ms".into()]);
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
