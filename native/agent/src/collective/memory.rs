//! The memory that a rank shares with the others of its host, and with whom it does in which attempt.

use super::plane::CollectivePlane;
use crate::agent::MemberId;
use rejoin_collectives::shared::{first_beat, Boards, Identity};
use rejoin_protocol::collective::frame::{Expected, Verdict};
use rejoin_protocol::collective::sharing::{self, Invitation};
use rejoin_protocol::collective::Place;
use rejoin_protocol::ids::{Generation, Rank};
use rejoin_transport::shm::{Group, Patience, PeerSegment, Segment};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of each of the two areas of a rank's board.
pub(super) const AREA_BYTES: usize = 256 << 10;
/// How long a board that can't be opened is tried again before the tracker is told: its owner may have died, and then
/// nobody has to know of it.
const OPENING: Duration = Duration::from_secs(1);
/// The tracker is told again after so long without a newer view.
const TELL_AGAIN: Duration = Duration::from_secs(1);
/// So many beats of one attempt go through memory, and what comes after them over links: half of those that there are, and
/// years of the smallest collectives.
const MOST_BEATS: u64 = 1 << 39;

/// One rank's own.
pub(super) struct Memory {
    member: MemberId,
    own: Option<Arc<Segment>>,
    decided: Option<(Generation, Option<Entered>)>,
    /// Others' boards by nonce: an attempt needs most of those that the one before had.
    open: BTreeMap<u64, PeerSegment>,
    closed: Option<Closed>,
}

/// All boards of an attempt.
pub(super) struct Entered {
    pub(super) group: Group,
    /// The last beat that all have posted, or are going to post, before the next collective.
    pub(super) base: u64,
    /// What the others have to have done in the last collective, which nobody here has looked at.
    pub(super) uncompared: Option<Identity>,
    /// How to wait for the others, as the last waits were.
    pub(super) patience: Patience,
}

/// A board that can't be opened.
struct Closed {
    attempt: Generation,
    since: Instant,
    told: Option<Instant>,
}

/// Why an attempt can't be entered yet.
pub(super) struct Unopened {
    pub(super) peer: Rank,
    pub(super) reason: String,
    /// The tracker has to know now.
    pub(super) is_to_be_told: bool,
}

impl Memory {
    pub(super) fn new(member: MemberId, own: Option<Arc<Segment>>) -> Self {
        Memory { member, own, decided: None, open: BTreeMap::new(), closed: None }
    }

    /// Whether it is decided how this attempt's collectives go.
    pub(super) fn has_decided(&self, attempt: Generation) -> bool {
        self.decided.as_ref().is_some_and(|(decided, _)| *decided == attempt)
    }

    /// Enters an attempt with these boards of all ranks, or one whose collectives go over links.
    pub(super) fn enter(
        &mut self,
        attempt: Generation,
        boards: Option<&[Invitation]>,
        plane: &CollectivePlane,
    ) -> Result<(), Unopened> {
        let (Some(boards), Some(number)) = (boards, sharing::attempt_number(attempt)) else {
            self.decided = Some((attempt, None));
            self.open.clear();
            return Ok(());
        };
        let mut open = BTreeMap::new();
        let mut peers = Vec::with_capacity(boards.len());
        for (rank, board) in boards.iter().enumerate() {
            let peer = self.open(board, plane).map_err(|reason| self.not_open(attempt, Rank(rank as u32), reason))?;
            open.insert(board.nonce, peer.clone());
            peers.push(peer);
        }
        let rank = self.member.rank.0 as usize;
        let own = self.own.clone().filter(|own| boards.get(rank) == Some(&own.invitation()));
        let Some(own) = own else {
            // The plan is about another incarnation: this one is about to hear that it is over.
            return Err(self.not_open(attempt, self.member.rank, "the plan has another one's".into()));
        };
        let patience = Patience::new(peers.len());
        let group = Group::enter(rank, own, peers, number);
        self.open = open;
        self.closed = None;
        self.decided = Some((attempt, Some(Entered { group, base: first_beat(number), uncompared: None, patience })));
        Ok(())
    }

    fn open(&self, board: &Invitation, plane: &CollectivePlane) -> Result<PeerSegment, String> {
        if let Some(known) = self.open.get(&board.nonce) {
            return Ok(known.clone());
        }
        match plane.segment(board.nonce) {
            Some(here) => Ok(PeerSegment::Here(here)),
            None => PeerSegment::open(board).map_err(|error| error.to_string()),
        }
    }

    fn not_open(&mut self, attempt: Generation, peer: Rank, reason: String) -> Unopened {
        let now = Instant::now();
        let closed = match self.closed.take() {
            Some(closed) if closed.attempt == attempt => closed,
            _ => Closed { attempt, since: now, told: None },
        };
        let is_to_be_told = now >= closed.told.map_or(closed.since + OPENING, |told| told + TELL_AGAIN);
        let told = if is_to_be_told { Some(now) } else { closed.told };
        self.closed = Some(Closed { told, ..closed });
        Unopened { peer, reason, is_to_be_told }
    }

    /// The boards of this attempt; `None` when it goes over links.
    pub(super) fn entered(&mut self, attempt: Generation) -> Option<&mut Entered> {
        let (decided, entered) = self.decided.as_mut()?;
        let has_room = |entered: &&mut Entered| entered.base % first_beat(1) < MOST_BEATS;
        entered.as_mut().filter(|_| *decided == attempt).filter(has_room)
    }

    /// Another rank that makes another call at the same place, through memory where this one goes over links because its elements
    /// are too long for the areas. Who is at another place may have finished this one.
    pub(super) fn contradicts(&mut self, expected: &Expected) -> Option<(Rank, Place)> {
        let own = self.member.rank.0 as usize;
        let entered = self.entered(expected.attempt)?;
        let (group, beat) = (&entered.group, entered.base + 1);
        let posted = (0..group.world()).filter(|peer| *peer != own && group.posted(*peer) >= beat);
        posted.into_iter().find_map(|peer| {
            // It isn't written again before this rank has posted a beat.
            let mut identity = [0; sharing::IDENTITY_BYTES];
            identity.copy_from_slice(&group.area(peer, beat)[..sharing::IDENTITY_BYTES]);
            let place = match sharing::judge(&identity, expected) {
                Ok(Verdict::Mismatch(place)) if group.is_current() => place,
                _ => return None,
            };
            (place == expected.place).then_some((Rank(peer as u32), place))
        })
    }

    /// No more calls come from this rank: whoever waits for one, now or later, is told so.
    pub(super) fn say_goodbye(&self, words: &Identity) {
        if let Some(own) = &self.own {
            own.end(words);
        }
    }
}
