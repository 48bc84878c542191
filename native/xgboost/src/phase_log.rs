//! The bytes that a worker wrote on one channel in one phase, kept for a peer that has to get them again.

use crate::read_buffers::ReadBuffers;
use bytes::{Bytes, BytesMut};
use rejoin_agent::logs::{self, LogLimits};
use rejoin_protocol::error::Error;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Which settings the limits come from.
const SETTINGS: &str = "log.memory and log.disk";

/// What a piece costs besides its bytes.
const PIECE_COST: u64 = 64;

/// Pieces below this are joined when more follow: a replay of thousands of tiny messages goes out in few frames.
const SMALL_PIECE: usize = 16 << 10;

/// Length of such a join.
const JOINED_PIECE: usize = 64 << 10;

/// Most bytes of idle read buffers; less when the memory limit is small.
const IDLE_BYTES: u64 = 64 << 20;

/// What all logs of an agent may use, and buffers that are used again.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) limits: Arc<logs::Budget>,
    pub(crate) read_buffers: ReadBuffers,
}

impl Budget {
    /// Nothing used yet. Limits are in bytes.
    pub(crate) fn new(folder: PathBuf, memory_bytes: u64, disk_bytes: u64) -> Self {
        let read_buffers = ReadBuffers::new(IDLE_BYTES.min(memory_bytes / 4));
        let limits = LogLimits { memory_bytes, disk_bytes, folder };
        Budget { limits: Arc::new(logs::Budget::new(limits, SETTINGS)), read_buffers }
    }

    /// Bytes in memory, the most they ever were, bytes on disk.
    pub(crate) fn used(&self) -> (u64, u64, u64) {
        self.limits.used()
    }

    /// How many bytes have to leave the memory, with some more so that it doesn't come to this at every piece.
    pub(crate) fn excess(&self) -> u64 {
        self.limits.excess()
    }
}

/// The log of one phase of one directed channel, with random access. Its oldest bytes may lie in an
/// unlinked file, at the same offset as in the phase; the rest are the very buffers that the
/// worker's socket was read into.
#[derive(Debug)]
pub(crate) struct PhaseLog {
    budget: Arc<Budget>,
    file: Option<File>,
    on_disk: u64,
    pieces: VecDeque<(u64, Bytes)>,
    length: u64,
}

impl PhaseLog {
    /// An empty log.
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        PhaseLog { budget, file: None, on_disk: 0, pieces: VecDeque::new(), length: 0 }
    }

    /// The worker wrote these bytes next.
    pub(crate) fn append(&mut self, bytes: Bytes) {
        self.budget.limits.take_memory(bytes.len() as u64 + PIECE_COST);
        let at = self.length;
        self.length += bytes.len() as u64;
        self.pieces.push_back((at, bytes));
    }

    /// Bytes that lie in memory.
    pub(crate) fn in_memory(&self) -> u64 {
        self.length - self.on_disk
    }

    /// Bytes from `from` on, at most up to `to`; at least one. From memory without a copy, unless many small pieces
    /// follow each other.
    ///
    /// # Errors
    /// When the file can't be read.
    pub(crate) fn piece(&self, from: u64, to: u64) -> io::Result<Bytes> {
        debug_assert!(from < to && to <= self.length, "bytes {from}..{to} of a log of {}", self.length);
        if from < self.on_disk {
            return self.read_disk(from, to.min(self.on_disk));
        }
        let index = self.pieces.partition_point(|(at, _)| *at <= from) - 1;
        let cut = |(at, bytes): &(u64, Bytes)| {
            let first = from.saturating_sub(*at) as usize;
            bytes.slice(first..bytes.len().min((to - at) as usize))
        };
        let piece = cut(&self.pieces[index]);
        let wanted = (to - from) as usize;
        if piece.len() == wanted || piece.len() >= SMALL_PIECE {
            return Ok(piece);
        }
        let mut joined = BytesMut::with_capacity(wanted.min(JOINED_PIECE));
        for next in self.pieces.range(index..) {
            if joined.len() >= wanted.min(JOINED_PIECE) {
                break;
            }
            let part = cut(next);
            let room = wanted.min(JOINED_PIECE) - joined.len();
            joined.extend_from_slice(&part[..part.len().min(room)]);
        }
        Ok(joined.freeze())
    }

    /// All of the bytes from `from` to `to` in one.
    ///
    /// # Errors
    /// When the file can't be read.
    pub(crate) fn range(&self, from: u64, to: u64) -> io::Result<Bytes> {
        let first = self.piece(from, to)?;
        if first.len() as u64 == to - from {
            return Ok(first);
        }
        let mut all = BytesMut::with_capacity((to - from) as usize);
        all.extend_from_slice(&first);
        while (all.len() as u64) < to - from {
            all.extend_from_slice(&self.piece(from + all.len() as u64, to)?);
        }
        Ok(all.freeze())
    }

    fn read_disk(&self, from: u64, to: u64) -> io::Result<Bytes> {
        let file = self.file.as_ref().ok_or_else(|| io::Error::other("the log's file is gone"))?;
        let mut bytes = BytesMut::zeroed((to - from) as usize);
        file.read_exact_at(&mut bytes, from)?;
        Ok(bytes.freeze())
    }

    /// Moves the oldest bytes in memory to disk, at least `wanted` of them if there are so many. Returns how many.
    ///
    /// # Errors
    /// `OutOfSpace` when the disk's limit is reached or the disk is full.
    pub(crate) fn spill(&mut self, wanted: u64) -> Result<u64, Error> {
        let mut moved = 0;
        while moved < wanted {
            let Some((at, bytes)) = self.pieces.front() else { break };
            let length = bytes.len() as u64;
            self.budget.limits.take_disk(length)?;
            if self.file.is_none() {
                self.file = Some(self.budget.limits.file()?);
            }
            let written = self.file.as_ref().map_or(Ok(()), |file| file.write_all_at(bytes, *at));
            if let Err(cause) = written {
                self.budget.limits.give_disk(length);
                return Err(self.budget.limits.not_written(length, &cause));
            }
            self.pieces.pop_front();
            self.budget.limits.give_memory(length + PIECE_COST);
            self.on_disk += length;
            moved += length;
        }
        Ok(moved)
    }
}

impl Drop for PhaseLog {
    fn drop(&mut self) {
        let memory = self.in_memory() + PIECE_COST * self.pieces.len() as u64;
        self.budget.limits.give_memory(memory);
        self.budget.limits.give_disk(self.on_disk);
        self.budget.read_buffers.give_back(self.pieces.drain(..).map(|(_, bytes)| bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_protocol::error::Code;

    fn budget(memory: u64, disk: u64) -> Arc<Budget> {
        Arc::new(Budget::new(std::env::temp_dir(), memory, disk))
    }

    fn filled(budget: &Arc<Budget>, lengths: &[usize]) -> (PhaseLog, Vec<u8>) {
        let mut log = PhaseLog::new(budget.clone());
        let mut truth = Vec::new();
        for (number, length) in lengths.iter().enumerate() {
            let bytes: Vec<u8> = (0..*length).map(|i| (i * 7 + number * 13) as u8).collect();
            truth.extend_from_slice(&bytes);
            log.append(bytes.into());
        }
        (log, truth)
    }

    #[test]
    fn every_range_reads_back_what_was_written_in_memory_and_on_disk() {
        let budget = budget(1 << 30, 1 << 30);
        let (mut log, truth) = filled(&budget, &[1, 8, 100, 70_000, 3, 40_000, 8, 8, 8]);
        let cuts = [0, 1, 5, 9, 108, 109, 60_000, 70_110, 110_112, 110_130, truth.len()];
        for spilled in [0, 200, 80_000, u64::MAX] {
            log.spill(spilled).unwrap();
            for from in cuts {
                for to in cuts.into_iter().filter(|to| *to > from) {
                    let got = log.range(from as u64, to as u64).unwrap();
                    assert!(got[..] == truth[from..to], "{from}..{to} with {spilled} spilled");
                }
            }
        }
        assert_eq!(log.in_memory(), 0);
    }

    #[test]
    fn a_large_piece_is_not_copied_and_small_ones_are_joined() {
        let budget = budget(1 << 30, 0);
        let (log, _) = filled(&budget, &[100_000, 8, 8, 8]);
        let whole = log.piece(0, 100_024).unwrap();
        assert_eq!(whole.len(), 100_000);
        assert_eq!(whole.as_ptr(), log.pieces[0].1.as_ptr());
        assert_eq!(log.piece(100_000, 100_024).unwrap().len(), 24);
    }

    #[test]
    fn what_is_used_is_counted_and_given_back() {
        let budget = budget(1000, 1 << 20);
        let (mut log, _) = filled(&budget, &[600, 600]);
        assert_eq!(budget.used(), (1200 + 2 * PIECE_COST, 1200 + 2 * PIECE_COST, 0));
        assert!(budget.excess() > 200);
        assert_eq!(log.spill(budget.excess()).unwrap(), 600);
        assert_eq!(budget.used(), (600 + PIECE_COST, 1200 + 2 * PIECE_COST, 600));
        drop(log);
        assert_eq!(budget.used(), (0, 1200 + 2 * PIECE_COST, 0));
    }

    #[test]
    fn a_full_disk_is_an_error_that_names_both_limits() {
        let budget = budget(1000, 700);
        let (mut log, truth) = filled(&budget, &[600, 600]);
        let error = log.spill(1200).unwrap_err();
        assert_eq!(error.code, Code::OutOfSpace);
        assert!(error.message.contains("1000") && error.message.contains("700"), "{error}");
        assert_eq!(log.range(0, 1200).unwrap()[..], truth[..]);
    }
}
