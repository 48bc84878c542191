//! Real processes, real signals: ten ranks that check each result of each call for its value, and
//! meet many faults.

#[allow(dead_code)] // this test and the launcher's need different parts
#[path = "../launcher/harness.rs"]
mod harness;

mod checkpoints;
mod crowds;
mod deaths;
mod descriptors;
mod elastic;
mod freezes;
mod growing;
mod programs;
mod rust_example;
mod strangers;

use harness::{example, run, Background, Ran};
use std::path::{Path, PathBuf};

/// Ten ranks of the scenario with these rules, each of which has to fire; they end well, with the undisturbed model.
fn survive(rules: &[String]) -> Ran {
    survive_with(10, &[], rules)
}

/// The same with as many ranks, and these arguments for the program.
fn survive_with(world: u32, arguments: &[&str], rules: &[String]) -> Ran {
    survive_choosing(world, &[], arguments, rules)
}

/// The same with options of the launcher.
fn survive_choosing(world: u32, options: &[&str], arguments: &[&str], rules: &[String]) -> Ran {
    // Collectives go through shared memory, and then over links; the last run is returned.
    let shared = survive_one_way(world, options, arguments, rules);
    let ran = survive_one_way(world, &[options, &["--no-shared-memory"]].concat(), arguments, rules);
    assert_eq!(digest(&shared), digest(&ran));
    ran
}

fn survive_one_way(world: u32, way: &[&str], arguments: &[&str], rules: &[String]) -> Ran {
    let (world, program) = (world.to_string(), example("scenario"));
    let mut all = vec!["-n", &world, "--restart"];
    all.extend(way);
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("events.jsonl").display().to_string();
    all.extend(["--events", &log]);
    for rule in rules {
        all.extend(["--kill", rule]);
    }
    all.extend(["--", &program]);
    all.extend(arguments);
    let ran = run(&all);
    if ran.status != Some(0) {
        keep(&log);
    }
    let ran = ran.ended(0);
    for rule in rules {
        ran.says(&format!("rule `{rule}` fired"));
    }
    assert!(!ran.err.contains("WRONG RESULT") && !ran.out.contains("WRONG RESULT"));
    digest(&ran);
    ran
}

/// The model that all ranks ended with that saw the end.
fn digest(ran: &Ran) -> String {
    let mut found: Vec<&str> = ran.out.lines().filter_map(|line| Some(line.split_once("digest ")?.1)).collect();
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 1, "one digest was expected in:\n{}", ran.out);
    found[0].to_string()
}

/// A failed run's events and their picture, to look into.
fn keep(log: &str) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let name = std::thread::current().name().unwrap_or("run").replace("::", "-");
    let kept = folder.join(format!("{name}.jsonl"));
    if std::fs::copy(log, &kept).is_ok() {
        eprintln!("the events are kept in {}", kept.display());
    }
}

/// `rank=R,version=V,seqno=S`.
fn at(rank: u32, version: u32, seqno: u32) -> String {
    format!("rank={rank},version={version},seqno={seqno}")
}

/// The process of a rank's last start.
fn process(log: &Path, rank: u32) -> u32 {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let of_rank = format!("\"rank\":{rank},");
    let mut starts = text.lines().filter(|line| line.contains("Started") && line.contains(&of_rank));
    let line = starts.next_back().unwrap_or_else(|| panic!("rank {rank} was started: {text}"));
    let digits = line.split_once("\"pid\":").map(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next());
    digits.flatten().and_then(|digits| digits.parse().ok()).expect("a process id")
}

/// The end of a run in the background.
fn ran(mut run: Background) -> Ran {
    let status = run.status().code();
    let err = std::fs::read_to_string(run.folder.path().join("err")).expect("text");
    Ran { status, out: run.out(), err }
}
