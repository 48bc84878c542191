//! The model: the very structs that production runs
//! ([`Tracker`](rejoin_protocol::tracker::Tracker), [`Host`](rejoin_protocol::host::Host),
//! [`Participant`](rejoin_protocol::collective::Participant)), in every order in which messages,
//! frames, results and deaths can come. Checked by `stateright`: not a sample of the runs, as in
//! the simulator, but all of a small job's.
//!
//! Time stands still: heartbeats and silence are the simulator's. The one deadline that something
//! waits for, a tracker's that has come back and waits for agents that won't come any more, is an
//! action. The tracker learns of a crash when it takes the end of the process' connection.
//! Everything else is free: which message is taken next, when a rank makes its next call, when the
//! framework starts a task again, which link is read first.
//!
//! What makes it fit is that a state of the world holds *names* of states ([`memory`]): each
//! machine's state is kept once, and what an input does to it is computed once.
#![forbid(unsafe_code)]

mod acts;
pub mod memory;
mod moves;
mod possible;
mod settle;
pub mod setup;
mod steps;
mod tracker;
pub mod world;

pub use setup::Setup;
pub use world::{Action, JobModel, State};

use memory::Name;
use stateright::{Checker, HasDiscoveries, Model};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// What an exhaustive check came to.
#[derive(Debug)]
pub struct Verdict {
    /// Different states that were seen.
    pub states: usize,
    /// All states of the tracker in which it has decided the end, by name: what differs in any way
    /// that a rank or the tracker has sent the other comes to another one.
    pub ends: BTreeSet<Name>,
    /// How long it took.
    pub took: Duration,
    /// The promise that is broken, and the way there: one line for each step.
    pub broken: Option<(&'static str, Vec<String>)>,
}

/// Looks at every state that a job of this setup can come to.
pub fn check(setup: Setup, threads: usize) -> Verdict {
    let began = Instant::now();
    let checker = JobModel::new(setup).checker().threads(threads).finish_when(HasDiscoveries::Any).spawn_bfs().join();
    let broken = checker.discoveries().into_iter().next().map(|(name, path)| {
        let last = path.last_state().clone();
        let steps = path.into_vec();
        let said = |(state, action): &(State, Option<Action>)| Some(checker.model().told(state, (*action)?));
        let mut trace: Vec<String> = steps.iter().filter_map(said).collect();
        trace.extend(checker.model().describe(&last));
        (name, trace)
    });
    let ends = checker.model().ends.iter().map(|end| *end).collect();
    Verdict { states: checker.unique_state_count(), ends, took: began.elapsed(), broken }
}
