//! One result of a collective as it is kept: in memory, or in a file.

use super::{Budget, CachedResult};
use crate::digest::digest;
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use rejoin_protocol::error::{Code, Error};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The bytes of a result.
#[derive(Clone, Debug)]
pub enum Logged {
    /// In memory, of one log alone.
    Memory(Bytes),
    /// In memory, of all logs of the process that have it.
    Cached(Arc<CachedResult>),
    /// In a file.
    Spilled(Arc<Spilled>),
}

/// Where a result lies in a file that has no name.
#[derive(Debug)]
pub struct Spilled {
    file: Arc<SpillFile>,
    offset: u64,
    length: u64,
    digest: u128,
}

/// One file, written from its beginning to its end. Results lie in it one behind the other; it is
/// gone when the last of them is.
#[derive(Debug)]
pub struct SpillFile {
    budget: Arc<Budget>,
    file: File,
    end: Mutex<u64>,
}

impl From<Bytes> for Logged {
    fn from(bytes: Bytes) -> Self {
        Logged::Memory(bytes)
    }
}

impl Logged {
    /// Its length in bytes.
    #[allow(clippy::len_without_is_empty)] // not asked for
    pub fn len(&self) -> u64 {
        match self {
            Logged::Memory(bytes) => bytes.len() as u64,
            Logged::Cached(common) => common.bytes().len() as u64,
            Logged::Spilled(spilled) => spilled.length,
        }
    }

    /// Its bytes, if they are in memory.
    pub fn in_memory(&self) -> Option<&Bytes> {
        match self {
            Logged::Memory(bytes) => Some(bytes),
            Logged::Cached(common) => Some(common.bytes()),
            Logged::Spilled(_) => None,
        }
    }

    /// The digest of its bytes; those in a file aren't read for it.
    pub fn digest(&self) -> u128 {
        match self {
            Logged::Memory(bytes) => digest(bytes),
            Logged::Cached(common) => digest(common.bytes()),
            Logged::Spilled(spilled) => spilled.digest,
        }
    }

    /// Some of its bytes; those in memory aren't copied.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn part(&self, from: u64, to: u64) -> io::Result<Bytes> {
        match self {
            Logged::Memory(bytes) => Ok(bytes.slice(from as usize..to as usize)),
            Logged::Cached(common) => Ok(common.bytes().slice(from as usize..to as usize)),
            Logged::Spilled(spilled) => {
                let mut bytes = BytesMut::zeroed((to - from) as usize);
                spilled.file.file.read_exact_at(&mut bytes, spilled.offset + from)?;
                Ok(bytes.freeze())
            }
        }
    }

    /// All of its bytes; those of a file are compared with their digest.
    ///
    /// # Errors
    /// `Io` when the file can't be read or has other bytes. Other ranks have the result too: the
    /// rank's next incarnation gets it from them.
    pub fn whole(&self) -> Result<Bytes, Error> {
        let failed = |cause: String| {
            let text = format!("a result of {} bytes can't be read back from its file: {cause}", self.len());
            Error::new(Code::Io, text)
        };
        let bytes = self.part(0, self.len()).map_err(|cause| failed(cause.to_string()))?;
        match self {
            Logged::Spilled(spilled) if digest(&bytes) != spilled.digest => {
                Err(failed("it has other bytes than were written".into()))
            }
            _ => Ok(bytes),
        }
    }
}

impl SpillFile {
    /// A new one.
    ///
    /// # Errors
    /// `OutOfSpace` when it can't be made.
    pub fn new(budget: Arc<Budget>) -> Result<Arc<SpillFile>, Error> {
        let file = budget.file()?;
        Ok(Arc::new(SpillFile { budget, file, end: Mutex::new(0) }))
    }

    /// Writes a result behind the others.
    ///
    /// # Errors
    /// `OutOfSpace` when the disk or its limit doesn't allow it. The file is as it was.
    pub fn append(self: &Arc<Self>, bytes: &Bytes) -> Result<Arc<Spilled>, Error> {
        let length = bytes.len() as u64;
        let mut end = self.end.lock();
        self.budget.take_disk(length)?;
        if let Err(cause) = self.file.write_all_at(bytes, *end) {
            self.budget.give_disk(length);
            return Err(self.budget.not_written(length, &cause));
        }
        let offset = *end;
        *end += length;
        Ok(Arc::new(Spilled { file: self.clone(), offset, length, digest: digest(bytes) }))
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        self.budget.give_disk(*self.end.get_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::LogLimits;

    fn budget(disk_bytes: u64) -> Arc<Budget> {
        Arc::new(Budget::new(LogLimits { memory_bytes: 1000, disk_bytes, ..LogLimits::default() }, "the test's"))
    }

    fn result(number: u8, length: usize) -> Bytes {
        (0..length).map(|at| (at as u8).wrapping_mul(7) ^ number).collect()
    }

    #[test]
    fn results_in_a_file_are_read_back_whole_and_in_parts() {
        let budget = budget(10_000);
        let file = SpillFile::new(budget.clone()).unwrap();
        let all: Vec<Bytes> =
            [0, 1, 3000, 17].iter().zip(1..).map(|(length, number)| result(number, *length)).collect();
        let spilled: Vec<Logged> = all.iter().map(|bytes| Logged::Spilled(file.append(bytes).unwrap())).collect();
        assert_eq!(budget.used(), (0, 0, 3018));
        for (there, truth) in spilled.iter().zip(&all) {
            assert_eq!(there.whole().unwrap(), truth);
            assert_eq!((there.len(), there.digest()), (truth.len() as u64, digest(truth)));
        }
        assert_eq!(spilled[2].part(100, 2999).unwrap(), all[2].slice(100..2999));
        drop(file);
        drop(spilled);
        assert_eq!(budget.used(), (0, 0, 0));
    }

    #[test]
    fn bytes_that_changed_in_the_file_are_not_handed_out() {
        let file = SpillFile::new(budget(10_000)).unwrap();
        let there = Logged::Spilled(file.append(&result(1, 100)).unwrap());
        file.file.write_all_at(&[0xff], 50).unwrap();
        assert_eq!(there.whole().unwrap_err().code, Code::Io);
    }

    #[test]
    fn what_the_limit_does_not_allow_is_refused_and_what_was_written_stays() {
        let budget = budget(150);
        let file = SpillFile::new(budget.clone()).unwrap();
        let one = Logged::Spilled(file.append(&result(1, 100)).unwrap());
        let error = file.append(&result(2, 100)).unwrap_err();
        assert_eq!(error.code, Code::OutOfSpace);
        assert!(error.message.contains("150") && error.message.contains("the test's"), "{error}");
        assert_eq!(one.whole().unwrap(), result(1, 100));
        assert_eq!(budget.used(), (0, 0, 100));
    }
}
