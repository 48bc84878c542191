//! Why something cannot go on. One code per reason, stable for ever; the text says what was expected, what was
//! seen and what to do.

use alloc::string::String;
use core::fmt;
use serde::{Deserialize, Serialize};

/// Stable names of what went wrong, the same in Rust, on the wire and in the JVM's exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    /// An argument or a setting is not usable. Nothing was started.
    BadArgument,
    /// A handle was used after it was closed, or in a state that doesn't allow the call.
    BadState,
    /// This incarnation was declared lost or superseded; a newer one may be at work. Its calls end; retry the task.
    Fenced,
    /// All go back to an older version; run again from there.
    RolledBack,
    /// A rank did not repeat itself, or two ranks hold different bytes under one name. The job is over.
    Mismatch,
    /// Ranks were missing until a deadline.
    MembersMissing,
    /// More deaths than the framework will retry, or no rank left that holds what is needed.
    Unrecoverable,
    /// The tracker could not be reached until a deadline.
    TrackerUnreachable,
    /// The user or the framework cancelled.
    Cancelled,
    /// A socket, file or thread failed.
    Io,
    /// The memory and disk budget for logs is used up.
    OutOfSpace,
    /// Library, wire or terms of the two sides do not fit each other.
    Incompatible,
    /// The training code failed in a way that will repeat.
    TrainingFailed,
    /// A wait reached its deadline.
    TimedOut,
    /// A defect in Rejoin.
    Internal,
    /// The stored input of a rank is lost, and making it anew gave other rows. The job is over.
    InputLost,
    /// The world has changed: this rank is another one, in a world of another size. Run again from the newest version.
    Resized,
}

impl Code {
    /// All of them, in the order of their numbers on the wire.
    pub const ALL: [Code; 17] = [
        Code::BadArgument,
        Code::BadState,
        Code::Fenced,
        Code::RolledBack,
        Code::Mismatch,
        Code::MembersMissing,
        Code::Unrecoverable,
        Code::TrackerUnreachable,
        Code::Cancelled,
        Code::Io,
        Code::OutOfSpace,
        Code::Incompatible,
        Code::TrainingFailed,
        Code::TimedOut,
        Code::Internal,
        Code::InputLost,
        Code::Resized,
    ];

    /// The name that stands in logs and in the JVM's exception, for instance `FENCED`.
    pub fn name(self) -> &'static str {
        match self {
            Code::BadArgument => "BAD_ARGUMENT",
            Code::BadState => "BAD_STATE",
            Code::Fenced => "FENCED",
            Code::RolledBack => "ROLLED_BACK",
            Code::Mismatch => "MISMATCH",
            Code::MembersMissing => "MEMBERS_MISSING",
            Code::Unrecoverable => "UNRECOVERABLE",
            Code::TrackerUnreachable => "TRACKER_UNREACHABLE",
            Code::Cancelled => "CANCELLED",
            Code::Io => "IO",
            Code::OutOfSpace => "OUT_OF_SPACE",
            Code::Incompatible => "INCOMPATIBLE",
            Code::TrainingFailed => "TRAINING_FAILED",
            Code::TimedOut => "TIMED_OUT",
            Code::Internal => "INTERNAL",
            Code::InputLost => "INPUT_LOST",
            Code::Resized => "RESIZED",
        }
    }

    /// Whether the rank was sent back: it may join again in the same process.
    pub fn goes_back(self) -> bool {
        matches!(self, Code::RolledBack | Code::Resized)
    }

    /// Whether trying the same again would fail the same way: such an error ends the job at once.
    pub fn will_repeat(self) -> bool {
        let passes =
            [Code::Fenced, Code::RolledBack, Code::Resized, Code::Io, Code::TimedOut, Code::TrackerUnreachable];
        !passes.contains(&self)
    }
}

/// An error with its stable code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct Error {
    /// What kind.
    pub code: Code,
    /// What was expected, what was seen, what to do.
    pub message: String,
}

impl Error {
    /// An error of this code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Error { code, message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.message)
    }
}
