//! The promises, one file each. They are fed from where the world learns of a fact.

pub mod agreement;
pub mod bounded;
pub(crate) mod choices;
pub mod deadlines;
pub mod fencing;
pub mod identity;
pub mod monotony;
pub mod no_lost_work;
pub mod own_models;
pub mod progress;
pub mod replay;
pub(crate) mod reports;
pub mod samples;
pub(crate) mod spares;
pub mod worlds;

pub(crate) use monotony::Monotony;
pub(crate) use spares::Spares;

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
