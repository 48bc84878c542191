//! One process of a job with collectives, as a machine without time and without a network of its own: production's
//! [`Host`](rejoin_protocol::host::Host) and [`Participant`](rejoin_protocol::collective::Participant) with frames in place
//! of bytes, and a program whose every result is known beforehand.
//!
//! Two drivers share it: the simulator's world of collectives, where seeds decide what happens when, and the model checker,
//! where everything that can happen next does.

mod by_hosts;
mod frame;
mod happening;
mod life;
mod memory;
mod process;
mod program;

pub use frame::Frame;
pub use happening::{Input, Output, Who};
pub use memory::Memory;
pub(crate) use process::checkpoint;
pub use process::Process;
pub use program::{Program, Step};

/// What a process runs.
#[derive(Clone, Debug)]
pub struct Job {
    /// The calls of its rank.
    pub program: Program,
    /// A defect of the driver.
    pub defect: Option<Defect>,
}

/// A defect built into the driver of the state machines on purpose, to see that the promises' checks find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Defect {
    /// Frames of attempts that are over are taken.
    OldAttempts,
    /// A view is answered without freezing.
    NoFreeze,
    /// Results that were asked for under an older plan count under the newest one.
    LateResults,
    /// Nothing is kept of the version before the present one.
    NothingOfThePrevious,
    /// Frames of incarnations that the view has not are taken.
    NoFencing,
    /// A second use of one boot key is looked up as the first one.
    NoOccurrence,
    /// A result counts as soon as all but one rank have given to it.
    UnfinishedIsFinal,
    /// A tracker that comes back isn't told which tasks have ended well.
    EndsUntold,
    /// A tracker that comes back isn't told what the run went on from.
    StartUntold,
    /// A rank that is started again has given something else before, to the calls whose results are known.
    Forgets,
    /// A rank that can't open another one's memory goes over links, whatever the others do.
    OwnWay,
}

impl Defect {
    /// All of them.
    pub const ALL: [Defect; 11] = [
        Defect::OldAttempts,
        Defect::NoFreeze,
        Defect::LateResults,
        Defect::NothingOfThePrevious,
        Defect::NoFencing,
        Defect::NoOccurrence,
        Defect::UnfinishedIsFinal,
        Defect::EndsUntold,
        Defect::StartUntold,
        Defect::Forgets,
        Defect::OwnWay,
    ];
}
