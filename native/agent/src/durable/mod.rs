//! Durable checkpoints: every so many versions one is written to a folder, in the background.

pub mod file;
pub mod resume;
mod writer;

pub(crate) use writer::Writer;

use rejoin_transport::JobId;
use std::path::PathBuf;
use xxhash_rust::xxh3::xxh3_128;

/// Where and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durable {
    /// A folder that is there, and that all processes of the job see.
    pub folder: PathBuf,
    /// Checkpoints whose version is a multiple of this are written; at least 1.
    pub every: u32,
    /// Under which number the files are written and found; `None`: the job's own, which nobody has a second time.
    pub identity: Option<JobId>,
}

/// The number of a job's files that was given a name: the same for the same name, so that a later run finds them.
pub fn identity(name: &str) -> JobId {
    JobId(xxh3_128(name.as_bytes()).to_be_bytes())
}
