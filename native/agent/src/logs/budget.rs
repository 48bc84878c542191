//! What all logs of a process may use, and what they use.

use rejoin_protocol::error::{Code, Error};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How much the logs of a process may use, over all its ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// Most bytes in memory; what is more goes to disk, the oldest first.
    pub memory_bytes: u64,
    /// Most bytes on disk; with 0 nothing goes there.
    pub disk_bytes: u64,
    /// The folder of their files, which have no names. Must be there and writable when it comes to that.
    pub folder: PathBuf,
}

impl Default for LogLimits {
    /// 1 GiB of memory, 16 GiB in the system's folder for temporary files.
    fn default() -> Self {
        LogLimits { memory_bytes: 1 << 30, disk_bytes: 16 << 30, folder: std::env::temp_dir() }
    }
}

/// The limits, and what is used of them. Any thread may count.
#[derive(Debug)]
pub struct Budget {
    limits: LogLimits,
    /// Which settings the limits come from, for errors.
    settings: &'static str,
    memory: AtomicU64,
    memory_peak: AtomicU64,
    idle: AtomicU64,
    disk: AtomicU64,
}

impl Budget {
    /// Nothing used yet. `settings` names what a user has to change.
    pub fn new(limits: LogLimits, settings: &'static str) -> Self {
        let (memory, memory_peak, idle, disk) = Default::default();
        Budget { limits, settings, memory, memory_peak, idle, disk }
    }

    /// Bytes in memory, the most that they and the idle ones ever were, bytes on disk.
    pub fn used(&self) -> (u64, u64, u64) {
        (self.memory.load(Relaxed), self.memory_peak.load(Relaxed), self.disk.load(Relaxed))
    }

    /// Bytes of memory that waits to be used again by logs. They come on top of those in use.
    pub fn idle(&self) -> u64 {
        self.idle.load(Relaxed)
    }

    /// Whether so many bytes more may wait to be used again: half of the limit may, and together
    /// with the logs a quarter more than the limit.
    pub fn may_wait(&self, bytes: u64) -> bool {
        self.idle() + bytes <= self.limits.memory_bytes / 2 && !self.is_crowded_by(bytes)
    }

    /// Whether logs have grown since, so that what waits is too much.
    pub fn is_crowded(&self) -> bool {
        self.is_crowded_by(0)
    }

    fn is_crowded_by(&self, bytes: u64) -> bool {
        let (all, limit) = (self.memory.load(Relaxed) + self.idle(), self.limits.memory_bytes);
        all.saturating_add(bytes) > limit.saturating_add(limit / 4)
    }

    /// Most bytes in memory.
    pub fn memory_limit(&self) -> u64 {
        self.limits.memory_bytes
    }

    /// How many bytes have to leave the memory, with some more so that it doesn't come to this at
    /// every piece; 0 within the limit.
    pub fn excess(&self) -> u64 {
        let (memory, limit) = (self.memory.load(Relaxed), self.limits.memory_bytes);
        if memory <= limit {
            return 0;
        }
        memory - limit + limit / 8
    }

    /// So many bytes more are in memory.
    pub fn take_memory(&self, bytes: u64) {
        let now = self.memory.fetch_add(bytes, Relaxed) + bytes;
        self.is_in_use(now + self.idle());
    }

    fn is_in_use(&self, bytes: u64) {
        if bytes > self.memory_peak.load(Relaxed) {
            self.memory_peak.fetch_max(bytes, Relaxed);
        }
    }

    /// So many bytes fewer are in memory.
    pub fn give_memory(&self, bytes: u64) {
        self.memory.fetch_sub(bytes, Relaxed);
    }

    /// So many bytes more are idle.
    pub fn take_idle(&self, bytes: u64) {
        let now = self.idle.fetch_add(bytes, Relaxed) + bytes;
        self.is_in_use(now + self.memory.load(Relaxed));
    }

    /// So many bytes fewer are idle.
    pub fn give_idle(&self, bytes: u64) {
        self.idle.fetch_sub(bytes, Relaxed);
    }

    /// So many bytes more are about to be on disk.
    ///
    /// # Errors
    /// `OutOfSpace` when the limit doesn't allow it. Nothing is counted then.
    pub fn take_disk(&self, bytes: u64) -> Result<(), Error> {
        let within = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.limits.disk_bytes);
        self.disk.fetch_update(Relaxed, Relaxed, within).map(drop).map_err(|used| {
            let (memory, LogLimits { memory_bytes, disk_bytes, .. }) = (self.memory.load(Relaxed), &self.limits);
            Error::new(
                Code::OutOfSpace,
                format!(
                    "the logs that a restarted rank needs use {memory} bytes of memory and {used} bytes on disk; the \
                     limits are {memory_bytes} and {disk_bytes}. Raise the limits ({}), or take checkpoints more often",
                    self.settings
                ),
            )
        })
    }

    /// So many bytes fewer are on disk.
    pub fn give_disk(&self, bytes: u64) {
        self.disk.fetch_sub(bytes, Relaxed);
    }

    /// A file without a name in the folder. It is gone with its last handle, and with the process.
    ///
    /// # Errors
    /// `OutOfSpace` when none can be made.
    pub fn file(&self) -> Result<File, Error> {
        tempfile::tempfile_in(&self.limits.folder).map_err(|cause| {
            Error::new(
                Code::OutOfSpace,
                format!(
                    "the logs need more than {} bytes of memory, and no file for them can be made in {}: {cause}. \
                     Raise the memory limit, or give a writable directory ({})",
                    self.limits.memory_bytes,
                    self.limits.folder.display(),
                    self.settings
                ),
            )
        })
    }

    /// Bytes that can't be written to a file in the folder.
    pub fn not_written(&self, length: u64, cause: &io::Error) -> Error {
        Error::new(
            Code::OutOfSpace,
            format!(
                "the logs that a restarted rank needs use more than {} bytes of memory, and {length} bytes of them \
                 can't be written to a file in {}: {cause}. Make room there, give another directory, raise the memory \
                 limit ({}), or take checkpoints more often",
                self.limits.memory_bytes,
                self.limits.folder.display(),
                self.settings
            ),
        )
    }

    /// Everything that can be is on disk, and the rest is too much.
    pub fn overhead_alone(&self) -> Error {
        Error::new(
            Code::OutOfSpace,
            format!(
                "the logs that a restarted rank needs use {} bytes of memory, though all results that are worth it \
                 lie on disk; the limit is {}. Take checkpoints more often, or raise the limit ({})",
                self.memory.load(Relaxed),
                self.limits.memory_bytes,
                self.settings
            ),
        )
    }
}
