//! `rejoin simulate`: a seed of the simulator, with its story.

use rejoin_sim::{run, Scenario};

/// Which family of scenarios a seed is drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Family {
    /// Kills, freezes, cut links, stalls, cancels.
    Mixed,
    /// A rank that doesn't repeat itself after its first restart.
    Liar,
    /// Tasks that throw in quick succession while messages are slow.
    Cascade,
    /// The tracker dies and comes back.
    Tracker,
    /// Jobs with collectives: kills, freezes, partitions, broken links, second tasks of a rank.
    Job,
}

/// Tells the story of a seed on standard output; `false` when a promise was broken.
pub fn simulate(seed: u64, family: Family) -> bool {
    if family == Family::Job {
        return simulate_job(seed);
    }
    let scenario = match family {
        Family::Mixed | Family::Job => Scenario::of(seed),
        Family::Liar => Scenario::liar_of(seed),
        Family::Cascade => Scenario::cascade_of(seed),
        Family::Tracker => Scenario::tracker_of(seed),
    };
    println!("{scenario:#?}");
    match run(&scenario, true) {
        Ok(report) => {
            let outcome = match &report.outcome {
                Ok(result) => format!("the end with model {:032x}", result.digest),
                Err(error) => format!("an error: {error}"),
            };
            println!(
                "seed {seed} kept every promise: {} inputs in {} ms of its own time, {} events, {outcome}",
                report.inputs,
                report.millis,
                report.events.len()
            );
            true
        }
        Err(violation) => {
            println!("seed {seed} broke a promise: {violation}");
            false
        }
    }
}

fn simulate_job(seed: u64) -> bool {
    match rejoin_sim::job::run(seed, None, true, true) {
        Ok(tally) => {
            println!("seed {seed} kept every promise: {tally:?}");
            true
        }
        Err(violation) => {
            println!("seed {seed} broke a promise: {violation}");
            false
        }
    }
}
