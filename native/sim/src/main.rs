//! Runs one seed and tells its story, or many seeds: `rejoin-sim --seed 17`, `rejoin-sim --seeds 0..1000`.
#![forbid(unsafe_code)]

use rejoin_sim::{run, Scenario};
use std::process::ExitCode;

const USAGE: &str = "usage: rejoin-sim --seed N | --seeds FROM..TO [--liar] [--quiet]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let liar = arguments.iter().any(|argument| argument == "--liar");
    let quiet = arguments.iter().any(|argument| argument == "--quiet");
    let after =
        |name: &str| arguments.iter().position(|argument| argument == name).and_then(|at| arguments.get(at + 1));
    let seeds = match (after("--seed"), after("--seeds")) {
        (Some(seed), None) => seed.parse().ok().map(|seed: u64| seed..seed + 1),
        (None, Some(range)) => range.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?)),
        _ => None,
    };
    let Some(seeds) = seeds else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let verbose = seeds.end - seeds.start == 1 && !quiet;
    let mut broken = 0;
    for seed in seeds {
        let scenario = if liar { Scenario::liar_of(seed) } else { Scenario::of(seed) };
        if verbose {
            println!("{scenario:#?}");
        }
        match run(&scenario, verbose) {
            Ok(report) if verbose => println!("ended after {} ms: {:?}", report.millis, report.outcome),
            Ok(_) => {}
            Err(violation) => {
                broken += 1;
                println!("seed {seed}: {violation}");
            }
        }
    }
    if broken > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
