//! Runs one seed and prints its trace, or many seeds: `rejoin-sim --family hook --seed 17`,
//! `rejoin-sim --family job --seeds 0..1000`.
#![forbid(unsafe_code)]

use rejoin_sim::ranks::Defect;
use rejoin_sim::{run, Family};
use std::collections::BTreeMap;
use std::process::ExitCode;

const USAGE: &str = "usage: rejoin-sim [--family NAME] --seed N | --seeds FROM..TO [--defect NAME] [--quiet]
  --family  mixed, liar, cascade, tracker, job, spares, elastic, or hook, which is the default (docs/testing.md)
  --defect  a defect of the driver, by its name in rejoin_sim::ranks::Defect";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let quiet = arguments.iter().any(|argument| argument == "--quiet");
    let after =
        |name: &str| arguments.iter().position(|argument| argument == name).and_then(|at| arguments.get(at + 1));
    let seeds = match (after("--seed"), after("--seeds")) {
        (Some(seed), None) => seed.parse().ok().map(|seed: u64| seed..seed + 1),
        (None, Some(range)) => range.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?)),
        _ => None,
    };
    let family = match after("--family") {
        None => Some(Family::Hook),
        Some(name) => Family::ALL.into_iter().find(|(known, _)| known == name).map(|(_, family)| family),
    };
    let defect = match after("--defect") {
        None => Some(None),
        Some(name) => Defect::ALL.into_iter().find(|defect| format!("{defect:?}") == *name).map(Some),
    };
    let (Some(seeds), Some(family), Some(defect)) = (seeds, family, defect) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let verbose = seeds.end - seeds.start == 1 && !quiet;
    let (mut broken, mut ends) = (0, BTreeMap::<String, u32>::new());
    for seed in seeds {
        match run(family, seed, defect, verbose) {
            Ok(tally) if verbose => println!("{tally:?}"),
            Ok(tally) => *ends.entry(format!("ended with {}", tally.end)).or_default() += 1,
            Err(violation) => {
                broken += 1;
                println!("seed {seed}: {violation}");
            }
        }
    }
    for (end, count) in ends {
        println!("{count} {end}");
    }
    if broken > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
