//! What of a job is in its folder of durable checkpoints, as this process knows it.

use super::file::{self, Found};
use super::{CheckpointFile, Durable, WRITE_TIMEOUT};
use crate::control::{Command, Shared};
use crossbeam::channel::bounded;
use parking_lot::Mutex;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::Checkpoint;
use rejoin_transport::JobId;
use std::sync::Arc;
use std::time::Duration;

/// Lists the folder.
pub(crate) struct Listing {
    durable: Durable,
    job: JobId,
    /// What was there when it was listed last. A file is written once, so its header isn't read again.
    known: Mutex<Vec<Found>>,
}

impl Listing {
    /// Of the files of this number.
    pub(crate) fn of(durable: Durable, job: JobId) -> Self {
        Listing { durable, job, known: Mutex::default() }
    }

    /// The checkpoints that are there.
    ///
    /// # Errors
    /// `Io` when the folder can't be read.
    pub(crate) fn found(&self) -> Result<Vec<(Checkpoint, CheckpointFile)>, Error> {
        let folder = &self.durable.folder;
        let known = self.known.lock().clone();
        let found = file::list_again(&**folder, self.job, &known)?;
        *self.known.lock() = found.clone();
        let place = |name| CheckpointFile { folder: folder.clone(), name };
        Ok(found.into_iter().map(|found| (found.checkpoint, place(found.name))).collect())
    }

    /// Lists it once more for a rank that is about to join: others have written and removed files
    /// since, and this process may be the only one that is left to name them. A folder that can't be read, or
    /// takes too long, keeps nobody from joining.
    pub(crate) fn renew(self: &Arc<Self>, shared: &Shared, at_most: Duration) {
        let (tell, told) = bounded(1);
        let listing = self.clone();
        let look = move || drop(tell.send(listing.found()));
        let found = match std::thread::Builder::new().name("rejoin-listing".into()).spawn(look) {
            Ok(_) => told.recv_timeout(at_most.min(WRITE_TIMEOUT)).unwrap_or_else(|_| {
                let seconds = at_most.min(WRITE_TIMEOUT).as_secs();
                Err(Error::new(Code::TimedOut, format!("the folder has given no list for {seconds} s")))
            }),
            Err(cause) => Err(Error::new(Code::Io, format!("no thread can be started: {cause}"))),
        };
        match found {
            Ok(found) => {
                // Whoever removes files removes the older ones.
                if let Some(oldest) = found.iter().map(|(there, _)| (there.lineage, there.version)).min() {
                    shared.store.tidied(oldest.0, oldest.1);
                    shared.command(Command::Tidied { lineage: oldest.0, version: oldest.1 });
                }
                for (checkpoint, place) in found {
                    shared.store.is_durable(checkpoint, place);
                    shared.command(Command::Durable(checkpoint));
                }
            }
            Err(error) => log::warn!(
                "durable checkpoints that other processes have written to {} aren't known here: {}",
                self.durable.folder,
                error.message
            ),
        }
    }
}
