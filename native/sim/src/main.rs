//! Runs one seed and tells its story, or many seeds: `rejoin-sim --seed 17`, `rejoin-sim --seeds 0..1000`.
#![forbid(unsafe_code)]

use rejoin_sim::ranks::Defect;
use rejoin_sim::{job, run, Bug, Scenario};
use std::collections::BTreeMap;
use std::ops::Range;
use std::process::ExitCode;

const USAGE: &str =
    "usage: rejoin-sim --seed N | --seeds FROM..TO [--job | --liar | --cascade | --tracker] [--quiet] [--bug NAME]
  --job  a job with collectives; its bugs have the names of rejoin_sim::ranks::Defect
  --liar  one rank doesn't repeat itself after its first restart
  --cascade  tasks throw in quick succession while messages are slow
  --tracker  the tracker dies and comes back
  --bug   a defect in the driver: no-comparison, no-fencing, no-holding, older-start";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let liar = arguments.iter().any(|argument| argument == "--liar");
    let cascade = arguments.iter().any(|argument| argument == "--cascade");
    let tracker = arguments.iter().any(|argument| argument == "--tracker");
    let quiet = arguments.iter().any(|argument| argument == "--quiet");
    let after =
        |name: &str| arguments.iter().position(|argument| argument == name).and_then(|at| arguments.get(at + 1));
    let seeds = match (after("--seed"), after("--seeds")) {
        (Some(seed), None) => seed.parse().ok().map(|seed: u64| seed..seed + 1),
        (None, Some(range)) => range.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?)),
        _ => None,
    };
    if arguments.iter().any(|argument| argument == "--job") {
        let defect = match after("--bug") {
            None => Some(None),
            Some(name) => Defect::ALL.into_iter().find(|defect| format!("{defect:?}") == *name).map(Some),
        };
        let (Some(seeds), Some(defect)) = (seeds, defect) else {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        };
        return jobs(seeds, defect, quiet);
    }
    let bug = match after("--bug").map(|name| Bug::named(name)) {
        Some(None) => None,
        Some(known) => Some(known),
        None => Some(None),
    };
    let (Some(seeds), Some(bug)) = (seeds, bug) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let verbose = seeds.end - seeds.start == 1 && !quiet;
    let mut broken = 0;
    let mut ends: BTreeMap<String, u32> = BTreeMap::new();
    for seed in seeds {
        let mut scenario = match (liar, cascade) {
            (true, _) => Scenario::liar_of(seed),
            (_, true) => Scenario::cascade_of(seed),
            _ if tracker => Scenario::tracker_of(seed),
            _ => Scenario::of(seed),
        };
        scenario.bug = bug;
        if verbose {
            println!("{scenario:#?}");
        }
        match run(&scenario, verbose) {
            Ok(report) if verbose => println!("ended after {} ms: {:?}", report.millis, report.outcome),
            Ok(report) => {
                let name = match report.outcome {
                    Ok(_) => "ended with its model".into(),
                    Err(error) => format!("ended with {}", error.code.name()),
                };
                *ends.entry(name).or_default() += 1;
            }
            Err(violation) => {
                broken += 1;
                println!("seed {seed}: {violation}");
            }
        }
    }
    told(ends, broken)
}

/// The same for jobs with collectives.
fn jobs(seeds: Range<u64>, defect: Option<Defect>, quiet: bool) -> ExitCode {
    let verbose = seeds.end - seeds.start == 1 && !quiet;
    let (mut broken, mut ends) = (0, BTreeMap::new());
    for seed in seeds {
        match job::run(seed, defect, true, verbose) {
            Ok(tally) if verbose => println!("{tally:?}"),
            Ok(tally) => *ends.entry(format!("ended with {}", tally.end)).or_default() += 1,
            Err(violation) => {
                broken += 1;
                println!("seed {seed}: {violation}");
            }
        }
    }
    told(ends, broken)
}

fn told(ends: BTreeMap<String, u32>, broken: u32) -> ExitCode {
    for (end, count) in ends {
        println!("{count} {end}");
    }
    if broken > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
