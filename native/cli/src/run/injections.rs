//! What agents report to the launcher itself: that a fault rule fires. The tracker may be away then,
//! and the process gone in a moment.

use super::LauncherEvent;
use crossbeam::channel::Sender;
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::wire::decode;
use rejoin_agent::TrackerNotice;
use rustix::io::{fcntl_setfd, FdFlags};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::thread::JoinHandle;

/// A pipe from all processes of a run.
pub struct InjectionReports {
    writer: PipeWriter,
    reader: JoinHandle<()>,
}

impl InjectionReports {
    /// Begins to listen.
    ///
    /// # Errors
    /// When there is no pipe to be had.
    pub fn open(tell: Sender<LauncherEvent>) -> io::Result<InjectionReports> {
        let (mut reader, writer) = io::pipe()?;
        // Processes inherit it, as they do the secret.
        fcntl_setfd(&writer, FdFlags::empty())?;
        let reader = std::thread::spawn(move || {
            while let Ok(Some(bytes)) = next(&mut reader) {
                if let Ok(event @ Event::FaultFired { .. }) = decode(&bytes) {
                    // The launcher may be over.
                    let _ = tell.send(LauncherEvent::Notice(TrackerNotice::Event(event)));
                }
            }
        });
        Ok(InjectionReports { writer, reader })
    }

    /// What a process is given of it: the number of the descriptor, and what has to be there.
    ///
    /// # Errors
    /// When `/proc` doesn't show it.
    pub fn variable(&self) -> io::Result<String> {
        let descriptor = self.writer.as_raw_fd();
        let pipe = std::fs::read_link(format!("/proc/self/fd/{descriptor}"))?;
        Ok(format!("{descriptor} {}", pipe.display()))
    }

    /// Ends it; all that was reported before is in the launcher's queue then.
    pub fn close(mut self) {
        // Others may hold the pipe open: its end is a word.
        if self.writer.write_all(&[0]).is_ok() {
            let _ = self.reader.join();
        }
    }
}

/// An event behind its length; `None` behind a length of 0.
fn next(reader: &mut PipeReader) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0];
    reader.read_exact(&mut length)?;
    let mut bytes = vec![0; usize::from(length[0])];
    reader.read_exact(&mut bytes)?;
    Ok((length[0] > 0).then_some(bytes))
}
