//! The promises, one file each. What is checked while a run goes on is fed from the simulated driver; the rest at its end.

pub mod agreement;
pub mod bounded;
pub mod deadlines;
pub mod fencing;
pub mod identity;
pub mod monotony;
pub mod no_lost_work;
pub mod progress;
pub mod replay;

pub(crate) use monotony::Monotony;

use crate::scenario::Scenario;
use crate::training::Truth;
use rejoin_protocol::error::Error;
use rejoin_protocol::event::Event;
use rejoin_protocol::host::Start;
use rejoin_protocol::ids::{AgentId, Checkpoint, Generation, Incarnation, Lineage, Phase, Rank, Version};
use rejoin_protocol::tracker::JobResult;
use std::fmt;

/// A promise was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its name in the protocol.
    pub promise: &'static str,
    /// What was seen.
    pub text: String,
}

impl Violation {
    /// A broken promise.
    pub fn new(promise: &'static str, text: impl Into<String>) -> Self {
        Violation { promise, text: text.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.text)
    }
}

type Checked = Result<(), Violation>;

/// All that is remembered for the checks.
#[derive(Debug, Default)]
pub struct Invariants {
    monotony: monotony::Monotony,
    no_lost_work: no_lost_work::NoLostWork,
}

impl Invariants {
    /// For a run of this scenario.
    pub fn of(scenario: &Scenario) -> Self {
        Invariants {
            no_lost_work: no_lost_work::NoLostWork::new(scenario.script.world, scenario.locals),
            ..Invariants::default()
        }
    }

    /// The tracker told a fact.
    pub fn event(&mut self, event: &Event) -> Checked {
        self.monotony.event(event)?;
        self.no_lost_work.event(1, event)
    }

    /// An agent has this view.
    pub fn view(&mut self, agent: AgentId, generation: Generation) -> Checked {
        self.monotony.view(agent, generation)
    }

    /// A rank was given a start.
    pub fn started(&mut self, rank: Rank, start: &Start, truth: &Truth, scenario: &Scenario) -> Checked {
        self.no_lost_work.started(rank, start)?;
        if scenario.liar {
            return Ok(()); // it may have been the first to say something
        }
        let locals = scenario.locals;
        replay::started(rank, start, truth, locals)
    }

    /// A rank's calls ended.
    pub fn freed(&mut self, rank: Rank, incarnation: Option<Incarnation>, error: &Error) -> Checked {
        self.no_lost_work.freed(rank, incarnation, error, false)
    }

    /// A worker took a checkpoint.
    pub fn entered(
        &mut self,
        who: (Rank, Incarnation),
        checkpoint: &Checkpoint,
        model: u64,
        unread: usize,
        truth: &Truth,
        liar: bool,
    ) -> Checked {
        self.monotony.entered(who, checkpoint.lineage, checkpoint.version)?;
        if liar {
            return Ok(());
        }
        agreement::entered(who.0, checkpoint.version, model, unread, truth)
    }

    /// Bytes came to a worker: source, destination, phase and place.
    pub fn delivered(
        &mut self,
        place: (Rank, Rank, Phase, u64),
        bytes: &[u8],
        sender: Option<Incarnation>,
        seated: Option<Incarnation>,
        truth: &Truth,
        liar: bool,
    ) -> Checked {
        fencing::delivered(place.0, place.1, sender, seated)?;
        if liar {
            return Ok(());
        }
        agreement::delivered(place, bytes, truth)
    }

    /// The tracker ended the job with an error; these processes held these checkpoints.
    pub fn failed(&mut self, scenario: &Scenario, error: &Error, held: Vec<(u32, (Lineage, Version))>) -> Checked {
        progress::failed(scenario, error, &held)
    }

    /// The job's end was told.
    pub fn over_once(&self, already: bool) -> Checked {
        progress::over_once(already)
    }

    /// The run is over.
    pub fn at_the_end(
        &self,
        scenario: &Scenario,
        truth: &Truth,
        outcome: &Result<JobResult, Error>,
        lied: bool,
    ) -> Checked {
        if scenario.liar {
            return identity::at_the_end(outcome, lied);
        }
        agreement::at_the_end(scenario, truth, outcome)
    }
}
