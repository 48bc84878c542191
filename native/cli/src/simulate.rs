//! `rejoin simulate`: a seed of the simulator, with its trace.

/// Which family of scenarios a seed is drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Family {
    /// Channels: kills, freezes, cut links, stalls, cancels.
    Mixed,
    /// Channels, and a rank that doesn't repeat itself after its first restart.
    Liar,
    /// Channels, and tasks that throw in quick succession while messages are slow.
    Cascade,
    /// Channels, and a tracker that dies and comes back.
    Tracker,
    /// Collectives: kills, freezes, partitions, broken links, second tasks of a rank.
    Job,
    /// The jobs of mixed, hook and job, with tasks that stand by.
    Spares,
    /// Collectives, in a world that shrinks when a rank is gone for good, and grows when slots come.
    Elastic,
    /// Channels and collectives, as Spark jobs have them, with all of these faults.
    Hook,
}

/// Prints the trace of a seed to standard output; `false` when a promise was broken.
pub fn simulate(seed: u64, family: Family) -> bool {
    let family = match family {
        Family::Mixed => rejoin_sim::Family::Mixed,
        Family::Liar => rejoin_sim::Family::Liar,
        Family::Cascade => rejoin_sim::Family::Cascade,
        Family::Tracker => rejoin_sim::Family::Tracker,
        Family::Job => rejoin_sim::Family::Job,
        Family::Spares => rejoin_sim::Family::Spares,
        Family::Elastic => rejoin_sim::Family::Elastic,
        Family::Hook => rejoin_sim::Family::Hook,
    };
    match rejoin_sim::run(family, seed, None, true) {
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
