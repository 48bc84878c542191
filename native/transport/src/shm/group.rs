//! All segments of a world as one rank sees them.

use super::segment::{PeerSegment, Segment};
use rejoin_collectives::shared::{first_step, Segments};
use rejoin_sync::nobody_has_reached;
use rustix::thread::{futex, Timespec};
use std::sync::Arc;
use std::time::Duration;

/// One rank's own segment and those of all others: what [`rejoin_collectives::shared::SharedMachine`] works on.
///
/// One thread at a time uses it. That all ranks use slots of the same length, and follow the same calls, is what makes
/// reading safe: a rank writes a slot only when all others have published the step after which they don't read it.
pub struct Group {
    rank: usize,
    own: Arc<Segment>,
    /// By rank; the own one is there too.
    peers: Vec<PeerSegment>,
    slot_bytes: usize,
    generation: u64,
}

impl Group {
    /// The world as rank `rank` sees it. Enters generation `generation` (from 1 on): what was
    /// published in earlier ones is over. The next collective of each rank has
    /// [`first_step`]`(generation)` as its base.
    ///
    /// `peers` are the segments by rank; the own one among them isn't used.
    ///
    /// # Panics
    /// When the rank isn't within the world.
    pub fn enter(rank: usize, own: Arc<Segment>, mut peers: Vec<PeerSegment>, generation: u64) -> Self {
        peers[rank] = PeerSegment::Here(own.clone());
        // The shortest decides: all ranks know the same segment addresses, and come to the same.
        let slot_bytes = peers.iter().map(PeerSegment::slot_bytes).min().unwrap_or(0);
        let mut group = Group { rank, own, peers, slot_bytes, generation };
        group.publish(first_step(generation));
        group
    }

    /// The number of ranks.
    pub fn world(&self) -> usize {
        self.peers.len()
    }

    /// Whether all ranks are threads of this process.
    pub fn is_one_process(&self) -> bool {
        self.peers.iter().all(|peer| matches!(peer, PeerSegment::Here(_)))
    }

    /// Whether no other rank has entered a later generation. What was read from their slots counts only if this is so
    /// afterwards: a rank that was frozen for so long that the others went on without it may have read what they wrote
    /// meanwhile.
    pub fn is_current(&self) -> bool {
        nobody_has_reached(first_step(self.generation + 1), self.peers.iter().map(PeerSegment::counters))
    }

    /// The last words of a rank that has ended, if it has.
    pub fn last_words(&self, rank: usize) -> Option<[u8; 64]> {
        self.peers[rank].last_words()
    }

    /// Sleeps until that rank has published that step, at most so long; it may return earlier.
    pub fn sleep(&self, rank: usize, step: u64, at_most: Duration) {
        self.own.counters().sleep(&self.peers[rank].counters(), rank as u32, step, |bell, seen| {
            // A time that the kernel can't take isn't waited for.
            let limit = Timespec::try_from(at_most.min(Duration::from_secs(1))).unwrap_or_default();
            match futex::wait(bell, futex::Flags::empty(), seen, Some(&limit)) {
                Ok(()) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR | rustix::io::Errno::TIMEDOUT) => {}
                // A kernel that doesn't let a rank wait at memory it can only read.
                Err(_) => std::thread::sleep(at_most.min(Duration::from_micros(500))),
            }
        });
    }

    /// Bytes of a slot, for all ranks: what a [`rejoin_collectives::shared::Shape`] wants to know.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }
}

impl Segments for Group {
    fn published(&self, rank: usize) -> u64 {
        self.peers[rank].counters().published()
    }

    fn slot(&self, rank: usize, step: u64) -> &[u8] {
        // SAFETY: the slot is within the segment's mapping, which lives as long as `self`. Its
        // owner has published the step (the machine reads no other slots) and writes the slot again
        // only when this rank has published the next step, which takes `&mut self` and so ends this
        // borrow. An owner that enters a later generation writes there when the living incarnations of
        // all ranks have entered it too; one that was frozen meanwhile may still read here, and
        // throws away what it has read ([`Group::is_current`]): bytes, of which any are as good as
        // others.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts(self.peers[rank].slot(step), self.slot_bytes)
        }
    }

    fn own_slot(&mut self, step: u64) -> &mut [u8] {
        // SAFETY: within the mapping of the own segment, which lives as long as `self`. Only this group writes it (a
        // segment is in one group at a time, and this takes `&mut self`); the others don't read it before the step is
        // published, and have published the step before, after which they don't read what was here.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts_mut(self.own.slot(step), self.slot_bytes)
        }
    }

    fn publish(&mut self, step: u64) {
        debug_assert!(step > self.published(self.rank), "steps only grow");
        let others = self.peers.iter().map(PeerSegment::counters);
        self.own.counters().publish(self.rank as u32, step, others, |bell| {
            // If this fails sleepers wake when their time is over.
            let _ = futex::wake(bell, futex::Flags::empty(), i32::MAX as u32);
        });
    }
}
