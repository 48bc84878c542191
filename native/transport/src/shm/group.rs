//! All boards of a world as one rank sees them.

use super::segment::{PeerSegment, Segment, POST, SEE};
use rejoin_collectives::shared::{first_beat, Boards};
use std::sync::Arc;

/// One rank's own segment and those of all others: what [`rejoin_collectives::shared::SharedMachine`] works on.
///
/// One thread at a time uses it. That all ranks use areas of the same length, and follow the same calls, is what makes
/// reading safe: a rank writes an area only when all others have posted the beat after which they don't read it.
pub struct Group {
    rank: usize,
    own: Arc<Segment>,
    /// By rank; the own one is there too.
    peers: Vec<PeerSegment>,
    area_bytes: usize,
}

impl Group {
    /// The world as rank `rank` sees it. Enters attempt `attempt` (from 1 on): what was posted in earlier ones is over.
    /// Everybody's next collective has [`first_beat`]`(attempt)` as its base.
    ///
    /// `peers` are the segments by rank; the own one among them isn't used.
    ///
    /// # Panics
    /// When the rank isn't within the world.
    pub fn enter(rank: usize, own: Arc<Segment>, mut peers: Vec<PeerSegment>, attempt: u64) -> Self {
        peers[rank] = PeerSegment::Here(own.clone());
        // The shortest decides: all ranks know the same invitations, and come to the same.
        let area_bytes = peers.iter().map(PeerSegment::area_bytes).min().unwrap_or(0);
        let mut group = Group { rank, own, peers, area_bytes };
        group.post(first_beat(attempt));
        group
    }

    /// Bytes of an area, for all ranks: what a [`rejoin_collectives::shared::Shape`] wants to know.
    pub fn area_bytes(&self) -> usize {
        self.area_bytes
    }
}

impl Boards for Group {
    fn posted(&self, rank: usize) -> u64 {
        self.peers[rank].posted().load(SEE)
    }

    fn area(&self, rank: usize, beat: u64) -> &[u8] {
        // SAFETY: the area is within the segment's mapping, which lives as long as `self`. Its owner has posted the beat
        // (the machine reads no other areas) and writes the area again only when this rank has posted the next beat,
        // which takes `&mut self` and so ends this borrow. An owner that enters a later attempt while this rank still
        // reads can only be one that this rank's driver has frozen for it: it stops the machine before it answers.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts(self.peers[rank].area(beat), self.area_bytes)
        }
    }

    fn own_area(&mut self, beat: u64) -> &mut [u8] {
        // SAFETY: within the mapping of the own segment, which lives as long as `self`. Only this group writes it (a
        // segment is in one group at a time, and this takes `&mut self`); the others don't read it before the beat is
        // posted, and have posted the beat before, after which they don't read what was here.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts_mut(self.own.area(beat), self.area_bytes)
        }
    }

    fn post(&mut self, beat: u64) {
        debug_assert!(beat > self.posted(self.rank), "beats only grow");
        self.own.posted().store(beat, POST);
    }
}
