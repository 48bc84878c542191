//! Durable checkpoints: every so many versions one is written to a folder, in the background.

pub mod file;
mod folder;
mod listing;
pub mod resume;
mod writer;

pub use folder::{Folder, LocalFolder};

pub(crate) use listing::Listing;
pub(crate) use writer::{Writer, WRITE_TIMEOUT};

use bytes::Bytes;
use rejoin_protocol::error::Error;
use rejoin_protocol::ids::Checkpoint;

use rejoin_transport::JobId;
use std::path::PathBuf;
use std::sync::Arc;
use twox_hash::XxHash3_128;

/// Where and how often.
#[derive(Clone, Debug)]
pub struct Durable {
    /// A folder that is there, and that all processes of the job see.
    pub folder: Arc<dyn Folder>,
    /// Checkpoints whose version is a multiple of this are written; at least 1.
    pub every: u32,
    /// Under which number the files are written and found; `None`: the job's own, which no other job has.
    pub identity: Option<JobId>,
}

impl Durable {
    /// In a folder of the file system, under the job's own number.
    pub fn at(folder: impl Into<PathBuf>, every: u32) -> Self {
        Durable { folder: Arc::new(LocalFolder(folder.into())), every, identity: None }
    }
}

/// The name of the file in which whoever has a job's tracker says which job has the files of this number.
pub fn mark(identity: JobId) -> String {
    format!("{identity}.lock")
}

/// Where one checkpoint lies.
#[derive(Clone, Debug)]
pub(crate) struct CheckpointFile {
    pub(crate) folder: Arc<dyn Folder>,
    pub(crate) name: String,
}

impl CheckpointFile {
    /// As [`file::read`].
    pub(crate) fn read(&self, expected: &Checkpoint) -> Result<Bytes, Error> {
        file::read(&*self.folder, &self.name, expected)
    }
}

/// The number of a job's files that was given a name: the same for the same name, so that a later run finds them.
pub fn identity(name: &str) -> JobId {
    JobId(XxHash3_128::oneshot(name.as_bytes()).to_be_bytes())
}
