//! How the launcher exits. Scripts may rely on these numbers.

use rejoin_agent::protocol::error::Error;

/// The numbers, for `--help`.
pub const STATUSES: &str = "\
Exit status:
    0  every rank ended with status 0, and every kill rule fired
    1  the run was not begun: an option names what can't be used
    2  the command line was not understood
    3  a rank failed and was not started again (no --restart, --restarts used up, or the job had ended)
    4  the job ended with an error (the tracker's or the ranks': a mismatch, missing ranks, …)
    5  all went well, but a kill rule never fired
    6  the event log, or what the ranks print, could not be written to its end
    7  another launcher has taken over ranks of this one, or another tracker the job (--join)
  124  --timeout was reached
  126  the program could not be run      127  it was not found
  128+N  the launcher was ended by signal N (130: Ctrl-C, 143: SIGTERM)";

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every rank ended with status 0.
    Well,
    /// The version that was to be reached is durable.
    Reached,
    /// A rank failed for good.
    RankFailed(String),
    /// The job's own error.
    JobFailed(String),
    /// Another launcher starts ranks that were this one's.
    TakenOver(String),
    /// The limit of the whole run.
    TimedOut(String),
    /// The program doesn't start.
    NotRun { found: bool, reason: String },
    /// A signal to the launcher.
    Signalled(i32),
}

impl Ending {
    /// The exit status.
    pub fn status(&self) -> u8 {
        match self {
            Ending::Well | Ending::Reached => 0,
            Ending::RankFailed(_) => 3,
            Ending::JobFailed(_) => 4,
            Ending::TakenOver(_) => 7,
            Ending::TimedOut(_) => 124,
            Ending::NotRun { found: true, .. } => 126,
            Ending::NotRun { found: false, .. } => 127,
            Ending::Signalled(signal) => 128u8.saturating_add((*signal).clamp(0, 127) as u8),
        }
    }

    /// In words.
    pub fn reason(&self) -> String {
        match self {
            Ending::Well => "every rank ended well".into(),
            Ending::Reached => "the version that was to be reached is durable".into(),
            Ending::RankFailed(reason)
            | Ending::JobFailed(reason)
            | Ending::TakenOver(reason)
            | Ending::TimedOut(reason)
            | Ending::NotRun { reason, .. } => reason.clone(),
            Ending::Signalled(signal) => format!("ended by {}", super::child::signal_name(*signal)),
        }
    }
}

/// Why a run was not begun.
pub enum NotBegun {
    /// What was asked for can't be.
    Failed(Error),
    /// It is over before it began: its time was up, or a signal came.
    Over(Ending),
}

impl From<Error> for NotBegun {
    fn from(error: Error) -> NotBegun {
        NotBegun::Failed(error)
    }
}

/// Status when a kill rule never fired though all else went well.
pub const RULE_NEVER_FIRED: u8 = 5;
/// Status when the event log, or what the ranks have printed, isn't whole though all else went well.
pub const OUTPUT_FAILED: u8 = 6;
