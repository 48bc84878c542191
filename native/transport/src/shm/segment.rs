//! The memory of one segment.
//!
//! Layout, in bytes of the machine's own order: 64 of header (magic, nonce, length of a slot);
//! then, each in 64 bytes of its own, the last published step, the rank that the owner sleeps for, the bell,
//! and whether the owner has ended, followed by its last words; then the two slots, from 4096 on.

use memmap2::{MmapOptions, MmapRaw};
use rejoin_protocol::collective::sharing::IDENTITY_BYTES;
pub use rejoin_protocol::collective::SegmentAddress;
use rustix::fs::{fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create, MemfdFlags, SealFlags};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

/// Stands at the start of every segment; the last digits are the layout's version.
pub(crate) const MAGIC: u64 = 0x724a_6f49_4e00_0002;

/// Where the published step stands: in a cache line of its own.
const PUBLISHED: usize = 64;

/// Where the owner says that it sleeps until another one publishes: that one's rank plus one, or 0.
const SLEEPS_FOR: usize = 128;

/// Where a number grows with each published step that a rank sleeps for: sleepers wait at it.
const BELL: usize = 192;

/// Where it says whether the owner has ended, and with which last words.
const ENDED: usize = 256;
const LAST_WORDS: usize = 320;

/// Where the slots begin: at a page.
pub(crate) const SLOTS: usize = 4096;

/// Most bytes of a slot: what an segment address may make a process map.
const SLOT_LIMIT: u64 = 1 << 30;

/// Seals that must be there: the segment stays as long as it is, and no process that opens it anew can write it.
pub(crate) const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE);

/// Why a segment can't be made or opened. The ranks then use a link.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The kernel won't.
    #[error("shared memory can't be {doing}: {cause}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// Why not.
        #[source]
        cause: io::Error,
    },
    /// There is something, but not the segment of the segment address: another host, another process namespace, or the
    /// process has ended and its number was given again.
    #[error("process {process} has no such segment here ({why}): another host or process namespace, or it has ended")]
    Other {
        /// The process that the segment address names.
        process: u32,
        /// What was seen.
        why: String,
    },
}

/// The counters on a segment.
pub(super) type Counters<'b> = rejoin_sync::Counters<'b, AtomicU64, AtomicU32>;

/// A segment's memory, mapped by its owner, which alone writes it. Threads of the process that read it share it.
#[derive(Debug)]
pub struct Segment {
    memory: MmapRaw,
    slot_bytes: usize,
    nonce: u64,
    /// Kept open, so that others can open it.
    file: File,
}

/// A segment's memory as others see it.
#[derive(Clone, Debug)]
pub enum PeerSegment {
    /// A rank of this process.
    Here(Arc<Segment>),
    /// A rank of another process; mapped for reading only.
    Mapped(Arc<Mapped>),
}

/// Another process's segment.
#[derive(Debug)]
pub struct Mapped {
    memory: MmapRaw,
    slot_bytes: usize,
}

impl Segment {
    /// Makes a segment with two slots of at least `slot_bytes` bytes each (rounded up to pages). Nothing is published.
    ///
    /// # Errors
    /// When there is no memory, or no descriptor left.
    pub fn new(slot_bytes: usize) -> Result<Self, SegmentError> {
        let slot_bytes = slot_bytes.next_multiple_of(SLOTS);
        let failed = |doing| move |cause: io::Error| SegmentError::Io { doing, cause };
        let made = memfd_create("rejoin", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING);
        let file = File::from(made.map_err(io::Error::from).map_err(failed("made"))?);
        let length = (SLOTS + 2 * slot_bytes) as u64;
        ftruncate(&file, length).map_err(io::Error::from).map_err(failed("given its length"))?;
        let memory = MmapOptions::new().map_raw(&file).map_err(failed("mapped"))?;
        fcntl_add_seals(&file, SEALS).map_err(io::Error::from).map_err(failed("sealed"))?;
        let nonce = crate::random_u64();
        for (place, word) in [MAGIC, nonce, slot_bytes as u64].into_iter().enumerate() {
            // SAFETY: the first 64 bytes of the mapping; no other process has it yet.
            #[allow(unsafe_code)]
            unsafe {
                memory.as_mut_ptr().cast::<u64>().add(place).write(word);
            }
        }
        Ok(Segment { memory, slot_bytes, nonce, file })
    }

    /// How other processes of this host find it, as long as it isn't dropped.
    pub fn segment_address(&self) -> SegmentAddress {
        SegmentAddress {
            process: std::process::id(),
            descriptor: self.file.as_raw_fd(),
            nonce: self.nonce,
            slot_bytes: self.slot_bytes as u64,
        }
    }

    /// Bytes of each of its two slots.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Says to all that look, from now on, that the owner publishes nothing more, with its last words. Once only.
    pub fn end(&self, words: &[u8; IDENTITY_BYTES]) {
        if self.word(ENDED).load(Ordering::Relaxed) != 0 {
            return;
        }
        // SAFETY: within the first page of the mapping. Only the owner writes here, once, before
        // others look at it: the store below says so to them.
        #[allow(unsafe_code)]
        unsafe {
            self.memory.as_mut_ptr().add(LAST_WORDS).copy_from_nonoverlapping(words.as_ptr(), IDENTITY_BYTES);
        }
        self.word(ENDED).store(1, Ordering::Release);
    }

    pub(super) fn counters(&self) -> Counters<'_> {
        counters(&self.memory)
    }

    fn word(&self, place: usize) -> &AtomicU32 {
        word(&self.memory, place)
    }

    pub(super) fn slot(&self, step: u64) -> *mut u8 {
        slot(&self.memory, self.slot_bytes, step)
    }
}

impl PeerSegment {
    /// Opens the segment of a rank of another process of this host.
    ///
    /// # Errors
    /// When it isn't there, or isn't what the segment address says, or may not be read. Nothing is mapped then.
    pub fn open(segment_address: &SegmentAddress) -> Result<Self, SegmentError> {
        let process = segment_address.process;
        let other = |why: String| SegmentError::Other { process, why };
        let path = format!("/proc/{process}/fd/{}", segment_address.descriptor);
        // The number may be another process's by now, and a named pipe without a writer would never be opened.
        let opened = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        let file = opened.map_err(|cause| other(format!("{path}: {cause}")))?;
        // Without these seals its owner could shorten it, and reading it would be a fault.
        let seals = fcntl_get_seals(&file).map_err(|cause| other(format!("{path} is no sealed memory: {cause}")))?;
        if !seals.contains(SEALS) {
            return Err(other(format!("{path} isn't sealed")));
        }
        let length = file.metadata().map_err(|cause| SegmentError::Io { doing: "measured", cause })?.len();
        let are_pages = segment_address.slot_bytes > 0 && segment_address.slot_bytes.is_multiple_of(SLOTS as u64);
        if !are_pages
            || segment_address.slot_bytes > SLOT_LIMIT
            || length != SLOTS as u64 + 2 * segment_address.slot_bytes
        {
            return Err(other(format!(
                "{path} has {length} bytes, not two slots of {} in whole pages",
                segment_address.slot_bytes
            )));
        }
        let memory =
            MmapOptions::new().map_raw_read_only(&file).map_err(|cause| SegmentError::Io { doing: "mapped", cause })?;
        let expected = [MAGIC, segment_address.nonce, segment_address.slot_bytes];
        for (place, expected) in expected.into_iter().enumerate() {
            // SAFETY: the first 64 bytes of a mapping of at least 4096, which its owner wrote
            // before it gave out its address.
            #[allow(unsafe_code)]
            let word = unsafe { memory.as_ptr().cast::<u64>().add(place).read_volatile() };
            if word != expected {
                return Err(other(format!("{path} is another segment, or of another version of Rejoin")));
            }
        }
        Ok(PeerSegment::Mapped(Arc::new(Mapped { memory, slot_bytes: segment_address.slot_bytes as usize })))
    }

    /// Bytes of each of its two slots.
    pub fn slot_bytes(&self) -> usize {
        match self {
            PeerSegment::Here(segment) => segment.slot_bytes,
            PeerSegment::Mapped(mapped) => mapped.slot_bytes,
        }
    }

    fn memory(&self) -> &MmapRaw {
        match self {
            PeerSegment::Here(segment) => &segment.memory,
            PeerSegment::Mapped(mapped) => &mapped.memory,
        }
    }

    pub(super) fn counters(&self) -> Counters<'_> {
        counters(self.memory())
    }

    /// The last words of its owner ([`Segment::end`]), if it has.
    pub fn last_words(&self) -> Option<[u8; IDENTITY_BYTES]> {
        if word(self.memory(), ENDED).load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut words = [0; IDENTITY_BYTES];
        // SAFETY: within the first page of the mapping. The owner wrote them before it stored what
        // was just seen, and writes them once.
        #[allow(unsafe_code)]
        unsafe {
            words.as_mut_ptr().copy_from_nonoverlapping(self.memory().as_ptr().add(LAST_WORDS), IDENTITY_BYTES);
        }
        Some(words)
    }

    pub(super) fn slot(&self, step: u64) -> *const u8 {
        match self {
            PeerSegment::Here(segment) => segment.slot(step),
            PeerSegment::Mapped(mapped) => slot(&mapped.memory, mapped.slot_bytes, step),
        }
    }
}

/// Those of one segment. Readers of a mapping that is read-only only load them.
fn counters(memory: &MmapRaw) -> Counters<'_> {
    // SAFETY: within the first page of the mapping, aligned, valid as long as the mapping; all access to these bytes is
    // atomic.
    #[allow(unsafe_code)]
    let published = unsafe { AtomicU64::from_ptr(memory.as_mut_ptr().add(PUBLISHED).cast()) };
    Counters::new(published, word(memory, SLEEPS_FOR), word(memory, BELL))
}

fn word(memory: &MmapRaw, place: usize) -> &AtomicU32 {
    // SAFETY: as above; the places are multiples of 64 below 4096.
    #[allow(unsafe_code)]
    unsafe {
        AtomicU32::from_ptr(memory.as_mut_ptr().add(place).cast())
    }
}

fn slot(memory: &MmapRaw, slot_bytes: usize, step: u64) -> *mut u8 {
    memory.as_mut_ptr().wrapping_add(SLOTS + (step % 2) as usize * slot_bytes)
}
