//! The memory that a rank shares with the others of its host, and the ranks that do in a generation.

use super::plane::CollectivePlane;
use rejoin_collectives::shared::{first_step, Identity, Segments};
use rejoin_protocol::collective::frame::{Expected, Verdict};
use rejoin_protocol::collective::CollectiveId;
use rejoin_protocol::collective::{sharing, SegmentAddress};
use rejoin_protocol::ids::{Generation, MemberId, Rank};
use rejoin_transport::shm::{Group, PeerSegment, Segment};
use rejoin_transport::Backoff;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a segment that can't be opened is tried again before it is reported to the tracker: its owner may have
/// died, and then there is nothing to report.
const OPENING: Duration = Duration::from_secs(1);
/// It is reported to the tracker again after so long without a newer view.
const REPORT_AGAIN: Duration = Duration::from_secs(1);
/// So many steps of one generation go through memory, and what comes after them over links: half of
/// those that there are, and years of the smallest collectives.
const MOST_STEPS: u64 = 1 << 39;

/// One rank's own.
pub(super) struct Memory {
    member: MemberId,
    own: Option<Arc<Segment>>,
    decided: Option<(Generation, Option<Entered>)>,
    /// Others' segments by nonce: a generation needs most of those that the one before had.
    open: BTreeMap<u64, PeerSegment>,
    closed: Option<Closed>,
}

/// All segments of a generation.
pub(super) struct Entered {
    pub(super) group: Group,
    /// The last step that all have published, or are going to publish, before the next collective.
    pub(super) base: u64,
    /// What the others have to have done in the last collective, which was not looked at here.
    pub(super) uncompared: Option<Identity>,
    /// Looks at the others' segments that cost nothing ([`Backoff::spins`]).
    pub(super) spins: u32,
}

/// A segment that can't be opened.
struct Closed {
    generation: Generation,
    since: Instant,
    reported: Option<Instant>,
}

/// Why a generation can't be entered yet.
pub(super) struct Unopened {
    pub(super) peer: Rank,
    pub(super) reason: String,
    /// The tracker has to know now.
    pub(super) is_to_be_reported: bool,
}

impl Memory {
    pub(super) fn new(member: MemberId, own: Option<Arc<Segment>>) -> Self {
        Memory { member, own, decided: None, open: BTreeMap::new(), closed: None }
    }

    /// Whether it is decided how this generation's collectives go.
    pub(super) fn has_decided(&self, generation: Generation) -> bool {
        self.decided.as_ref().is_some_and(|(decided, _)| *decided == generation)
    }

    /// Enters a generation with these segments of all ranks, or one whose collectives go over links.
    pub(super) fn enter(
        &mut self,
        generation: Generation,
        segments: Option<&[SegmentAddress]>,
        plane: &CollectivePlane,
    ) -> Result<(), Unopened> {
        let (Some(segments), Some(number)) = (segments, sharing::generation_number(generation)) else {
            self.decided = Some((generation, None));
            self.open.clear();
            return Ok(());
        };
        let mut open = BTreeMap::new();
        let mut peers = Vec::with_capacity(segments.len());
        for (rank, segment) in segments.iter().enumerate() {
            let peer =
                self.open(segment, plane).map_err(|reason| self.not_open(generation, Rank(rank as u32), reason))?;
            open.insert(segment.nonce, peer.clone());
            peers.push(peer);
        }
        let rank = self.member.rank.0 as usize;
        let own = self.own.clone().filter(|own| segments.get(rank) == Some(&own.segment_address()));
        let Some(own) = own else {
            // The plan is about another incarnation: this one is about to hear that it is over.
            return Err(self.not_open(generation, self.member.rank, "the plan has another one's".into()));
        };
        let spins = Backoff::spins(peers.len());
        let group = Group::enter(rank, own, peers, number);
        self.open = open;
        self.closed = None;
        self.decided = Some((generation, Some(Entered { group, base: first_step(number), uncompared: None, spins })));
        Ok(())
    }

    fn open(&self, segment: &SegmentAddress, plane: &CollectivePlane) -> Result<PeerSegment, String> {
        if let Some(known) = self.open.get(&segment.nonce) {
            return Ok(known.clone());
        }
        match plane.segment(segment.nonce) {
            Some(here) => Ok(PeerSegment::Here(here)),
            None => PeerSegment::open(segment).map_err(|error| error.to_string()),
        }
    }

    fn not_open(&mut self, generation: Generation, peer: Rank, reason: String) -> Unopened {
        let now = Instant::now();
        let closed = match self.closed.take() {
            Some(closed) if closed.generation == generation => closed,
            _ => Closed { generation, since: now, reported: None },
        };
        let is_to_be_reported =
            now >= closed.reported.map_or(closed.since + OPENING, |reported| reported + REPORT_AGAIN);
        let reported = if is_to_be_reported { Some(now) } else { closed.reported };
        self.closed = Some(Closed { reported, ..closed });
        Unopened { peer, reason, is_to_be_reported }
    }

    /// The segments of this generation; `None` when it goes over links.
    pub(super) fn entered(&mut self, generation: Generation) -> Option<&mut Entered> {
        let (decided, entered) = self.decided.as_mut()?;
        let has_room = |entered: &&mut Entered| entered.base % first_step(1) < MOST_STEPS;
        entered.as_mut().filter(|_| *decided == generation).filter(has_room)
    }

    /// Another rank that makes another call of the same id, through memory where this one goes
    /// over links because its elements are too long for the slots. A rank at another call may have
    /// finished this one.
    pub(super) fn contradicts(&mut self, expected: &Expected) -> Option<(Rank, CollectiveId)> {
        let own = self.member.rank.0 as usize;
        let entered = self.entered(expected.generation)?;
        let (group, step) = (&entered.group, entered.base + 1);
        let published = (0..group.world()).filter(|peer| *peer != own && group.published(*peer) >= step);
        published.into_iter().find_map(|peer| {
            // It isn't written again before this rank has published a step.
            let mut identity = [0; sharing::IDENTITY_BYTES];
            identity.copy_from_slice(&group.slot(peer, step)[..sharing::IDENTITY_BYTES]);
            let collective_id = match sharing::judge(&identity, expected) {
                Ok(Verdict::Mismatch(collective_id)) if group.is_current() => collective_id,
                _ => return None,
            };
            (collective_id == expected.collective_id).then_some((Rank(peer as u32), collective_id))
        })
    }

    /// No more calls come from this rank: ranks that wait for one, now or later, are notified.
    pub(super) fn say_goodbye(&self, words: &Identity) {
        if let Some(own) = &self.own {
            own.end(words);
        }
    }
}
