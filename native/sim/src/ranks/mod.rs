//! One process of a job, as a machine without time and without a network of its own: production's
//! [`Host`](rejoin_protocol::host::Host), and for each of its ranks what production's plane has:
//! channels ([`Outgoing`](rejoin_protocol::channel::Outgoing),
//! [`Incoming`](rejoin_protocol::channel::Incoming)), collectives
//! ([`Participant`](rejoin_protocol::collective::Participant)), or both; and a program whose every
//! result is known beforehand.
//!
//! Two drivers share it: the simulator's world, where seeds decide what happens when, and the model
//! checker, where everything that can happen next does.

mod by_hosts;
mod collectives;
mod frame;
mod memory;
mod peers;
mod process;
mod process_io;
mod program;
mod reporting;
mod sim_rank;
mod streams;
mod task;

pub use frame::{End, Frame, Given};
pub use memory::Memory;
pub use process::Process;
pub use process_io::{Input, Output, Try};
pub use program::{own_model, Program, ProgramStep, Topology};
pub use task::Task;

/// What carries the bytes of a job's ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plane {
    /// XGBoost's channels; no rank may hook.
    Channels,
    /// Rejoin's own collectives.
    Collectives,
    /// Channels, and beside them collectives where all ranks agree on the hook.
    Both,
}

/// What a process runs.
#[derive(Clone, Debug)]
pub struct Job {
    /// The calls of its ranks.
    pub program: Program,
    /// What carries them.
    pub plane: Plane,
    /// Bytes go straight between trainers and logs, not through sockets that have to be looked at.
    pub in_place: bool,
    /// Ranks have state of their own, which the tracker keeps.
    pub locals: bool,
    /// Ranks that are started again don't repeat themselves in the version that they start with.
    pub lies: bool,
    /// So many versions of each incarnation are reported one by one
    /// ([`HostConfig::one_by_one`](rejoin_protocol::host::HostConfig::one_by_one)).
    pub one_by_one: u32,
    /// The world may shrink and grow: what comes of the program's calls follows from how many ranks there were.
    pub is_elastic: bool,
    /// Each rank has a model of its own beside the one that all have.
    pub has_own: bool,
    /// A defect of the driver.
    pub defect: Option<Defect>,
}

/// The fewest versions that may be reported one by one.
pub const FEWEST_ONE_BY_ONE: u32 = 3;

impl Job {
    /// Ranks that repeat themselves, with nothing of their own.
    pub fn new(program: Program, plane: Plane, defect: Option<Defect>) -> Self {
        let one_by_one = FEWEST_ONE_BY_ONE;
        Job {
            program,
            plane,
            in_place: true,
            locals: false,
            lies: false,
            one_by_one,
            is_elastic: false,
            has_own: false,
            defect,
        }
    }
}

/// A defect built into the driver of the state machines on purpose, to see that the promises' checks find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Defect {
    /// Frames of generations that are over are taken.
    OldGenerations,
    /// A view is answered without freezing.
    NoPause,
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
    /// A tracker that comes back isn't given which tasks have ended well.
    EndsUnreported,
    /// A tracker that comes back isn't given what the run went on from.
    StartUnreported,
    /// A rank that is started again has given something else before, to the calls whose results are known.
    Forgets,
    /// A rank that can't open another one's memory goes over links, whatever the others do.
    OwnWay,
    /// Bytes of channels that are produced again are dropped without a comparison.
    NoComparison,
    /// Channels drop what is old although a rank is missing.
    NoHolding,
    /// A rank that is started again trains from an older version than its plan says.
    OlderStart,
    /// A boundary is crossed when collectives have entered the version, whatever of the channels'
    /// bytes is still to be logged.
    OneLaneDrained,
    /// A rank that is started again replays its collectives from an older version on than its channels.
    LanesApart,
    /// A rank is hooked if its own process can be, whatever the job has agreed on.
    OwnMind,
    /// A process answers a view before it has handed in which versions its ranks have entered.
    VersionsOvertaken,
    /// Versions are handed in late although a rank is missing or behind.
    VersionsLate,
    /// The last version that a rank enters is never reported.
    LastUnreported,
    /// A spare trains on the rows that its own number has, whichever rank it was given.
    RowsOfItsNumber,
    /// A task that is given a rank doesn't join.
    GivenInVain,
    /// A task that stands by isn't given the job's end.
    SparesUnreported,
    /// A rank goes on with the number of ranks that its process began with.
    OldWorld,
    /// A rank of a smaller world trains on the rows that its task had in the larger one.
    OldRows,
    /// A task whose world has changed joins as what it was before, without asking again.
    AsBefore,
    /// A task whose world has changed doesn't ask again.
    AsksNoMore,
    /// A rank by which the world has grown begins with nothing, whatever its plan says.
    FromNothing,
    /// A tracker that comes back isn't given that the world may grow.
    BoundsUnreported,
    /// A tracker isn't given how often the world may change.
    LimitUnreported,
    /// Rank 0's choice is compared with that of its earlier incarnations, as other input is.
    ChoiceRepeated,
    /// A checkpoint that was chosen is taken before all ranks have the choice.
    ChoiceUnconfirmed,
    /// A rank begins with the own model of the rank that had its number in the world before.
    OwnByNumber,
    /// What a rank is given of those that are gone is not begun with.
    GivenIsDropped,
    /// A tracker that comes back isn't given which worlds there were.
    WorldsUnreported,
    /// An own model counts as copied when it is sent.
    CopiesInVain,
    /// What leaves is ended when the world has changed, before it is released.
    EndsUnreleased,
    /// A rank of another world goes on with the samples for the number that its task began with.
    OldSamples,
}

impl Defect {
    /// All of them.
    pub const ALL: [Defect; 38] = [
        Defect::OldGenerations,
        Defect::NoPause,
        Defect::LateResults,
        Defect::NothingOfThePrevious,
        Defect::NoFencing,
        Defect::NoOccurrence,
        Defect::UnfinishedIsFinal,
        Defect::EndsUnreported,
        Defect::StartUnreported,
        Defect::Forgets,
        Defect::OwnWay,
        Defect::NoComparison,
        Defect::NoHolding,
        Defect::OlderStart,
        Defect::OneLaneDrained,
        Defect::LanesApart,
        Defect::OwnMind,
        Defect::VersionsOvertaken,
        Defect::VersionsLate,
        Defect::LastUnreported,
        Defect::RowsOfItsNumber,
        Defect::GivenInVain,
        Defect::SparesUnreported,
        Defect::OldWorld,
        Defect::OldRows,
        Defect::AsBefore,
        Defect::AsksNoMore,
        Defect::FromNothing,
        Defect::BoundsUnreported,
        Defect::LimitUnreported,
        Defect::ChoiceRepeated,
        Defect::ChoiceUnconfirmed,
        Defect::OwnByNumber,
        Defect::GivenIsDropped,
        Defect::WorldsUnreported,
        Defect::CopiesInVain,
        Defect::EndsUnreleased,
        Defect::OldSamples,
    ];
}
