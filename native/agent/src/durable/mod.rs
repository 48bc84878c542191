//! Durable checkpoints: every so many versions one is written to a folder, in the background.

pub mod file;
mod writer;

pub(crate) use writer::Writer;

use std::path::PathBuf;

/// Where and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durable {
    /// A folder that is there, and that all processes of the job see.
    pub folder: PathBuf,
    /// Checkpoints whose version is a multiple of this are written; at least 1.
    pub every: u32,
}
