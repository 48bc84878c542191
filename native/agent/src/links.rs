//! Which data links the ranks of this agent should have, and which ones stand.
//!
//! Between two living ranks there is one link for each lane that is needed, also where one agent
//! hosts both; the lower rank makes it.

use mio::Token;
use rejoin_protocol::host::Peer;
use rejoin_protocol::ids::{Incarnation, Lane, Lineage, MemberId, Rank};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// First pause after a failed try; doubled up to [`PAUSE_LIMIT`].
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_LIMIT: Duration = Duration::from_millis(500);
/// Failed tries in a row after which the tracker is notified.
const FAILURES: u32 = 12;

/// One wanted link.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) incarnation: Incarnation,
    pub(crate) address: SocketAddr,
    state: LinkState,
    /// Tries in a row that made no link: so long is the pause.
    tries: u32,
    /// Those of them that failed since the peer answered last.
    failures: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LinkState {
    /// Not there; the one that makes it tries at this time.
    Down(Instant),
    /// On its way, over this connection.
    Making(Token),
    /// Handed to the plane.
    Up,
}

/// All wanted links of one rank.
type OfMember = BTreeMap<(Rank, Lane), Wanted>;

/// All wanted links of the ranks of this agent.
pub(crate) struct DataLinks {
    members: BTreeMap<MemberId, (Lineage, OfMember)>,
    /// Longest pause between two tries.
    pub(crate) pause_limit: Duration,
}

impl Default for DataLinks {
    fn default() -> Self {
        DataLinks { members: BTreeMap::new(), pause_limit: PAUSE_LIMIT }
    }
}

/// A link that this side has to try now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) member: MemberId,
    pub(crate) peer: MemberId,
    pub(crate) lane: Lane,
    pub(crate) address: SocketAddr,
}

/// What a link was that broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broke {
    /// Not the wanted one, or known to be broken.
    Unwanted,
    /// The first of those between its two ranks: the tracker is notified.
    First,
    /// Another one between the same two is down already: the tracker knows.
    Another,
}

impl DataLinks {
    /// The living peers of a member changed. Links that stand and are still wanted stay.
    pub(crate) fn want(&mut self, member: MemberId, lineage: Lineage, peers: &[Peer], lanes: &[Lane], now: Instant) {
        self.members.retain(|other, _| other.rank != member.rank || *other == member);
        let (was, wanted) = self.members.entry(member).or_insert_with(|| (lineage, BTreeMap::new()));
        if *was != lineage {
            *was = lineage;
            wanted.clear();
        }
        wanted.retain(|(rank, lane), there| {
            let lives = |peer: &Peer| peer.member == MemberId { rank: *rank, incarnation: there.incarnation };
            lanes.contains(lane) && peers.iter().any(lives)
        });
        for (peer, lane) in peers.iter().flat_map(|peer| lanes.iter().map(move |lane| (peer, *lane))) {
            wanted.entry((peer.member.rank, lane)).or_insert_with(|| Wanted {
                incarnation: peer.member.incarnation,
                address: peer.at.address,
                state: LinkState::Down(now),
                tries: 0,
                failures: 0,
            });
        }
    }

    /// A member is over.
    pub(crate) fn drop_member(&mut self, member: MemberId) {
        self.members.remove(&member);
    }

    /// The links that this side has to try now.
    pub(crate) fn due(&self, now: Instant) -> Vec<Due> {
        let mut due = Vec::new();
        for (member, (_, wanted)) in &self.members {
            for ((rank, lane), Wanted { incarnation, address, state, .. }) in wanted {
                if member.rank < *rank && matches!(state, LinkState::Down(at) if *at <= now) {
                    let peer = MemberId { rank: *rank, incarnation: *incarnation };
                    due.push(Due { member: *member, peer, lane: *lane, address: *address });
                }
            }
        }
        due
    }

    /// When the next try is due.
    pub(crate) fn next_try(&self) -> Option<Instant> {
        let wanted = self.members.iter().flat_map(|(member, (_, wanted))| wanted.iter().map(move |w| (member, w)));
        wanted
            .filter_map(|(member, ((peer, _), link))| match link.state {
                LinkState::Down(at) if member.rank < *peer => Some(at),
                _ => None,
            })
            .min()
    }

    /// A try is on its way.
    pub(crate) fn making(&mut self, member: MemberId, peer: Rank, lane: Lane, token: Token) {
        if let Some(link) = self.find(member, peer, lane) {
            link.state = LinkState::Making(token);
        }
    }

    /// A link stands. False when no member wants it (any more).
    pub(crate) fn up(&mut self, member: MemberId, peer: MemberId, lane: Lane) -> bool {
        match self.find(member, peer.rank, lane) {
            Some(link) if link.incarnation == peer.incarnation => {
                link.state = LinkState::Up;
                (link.tries, link.failures) = (0, 0);
                true
            }
            _ => false,
        }
    }

    /// A try failed. After [`FAILURES`] of them in a row: true, report it to the tracker, for the
    /// first lane that is down.
    pub(crate) fn try_failed(&mut self, member: MemberId, peer: Rank, lane: Lane, token: Token, now: Instant) -> bool {
        let is_first = self.down(member, peer).all(|down| down >= lane);
        let Some(link) = self.tried(member, peer, lane, token, now) else { return false };
        link.failures += 1;
        is_first && link.failures.is_multiple_of(FAILURES)
    }

    /// The peer's process answered that it doesn't need the link yet: its rank may fetch its
    /// checkpoint for minutes. Nothing is wrong with the way to it, however often it says so;
    /// whether it comes on is judged by the holder that sends its bytes, and whether its process lives by
    /// the tracker.
    pub(crate) fn not_yet(&mut self, member: MemberId, peer: Rank, lane: Lane, token: Token, now: Instant) {
        if let Some(link) = self.tried(member, peer, lane, token, now) {
            link.failures = 0;
        }
    }

    /// This try made no link: the next one comes after a pause.
    fn tried(&mut self, member: MemberId, peer: Rank, lane: Lane, token: Token, now: Instant) -> Option<&mut Wanted> {
        let pause_limit = self.pause_limit;
        let link = self.find(member, peer, lane).filter(|link| link.state == LinkState::Making(token))?;
        link.tries = link.tries.saturating_add(1);
        let pause = PAUSE.saturating_mul(1 << link.tries.min(10)).min(pause_limit);
        link.state = LinkState::Down(now + pause);
        Some(link)
    }

    /// The most tries in a row that have made no link.
    #[cfg(test)]
    pub(crate) fn tries(&self) -> u32 {
        self.members.values().flat_map(|(_, wanted)| wanted.values()).map(|link| link.tries).max().unwrap_or(0)
    }

    /// A link broke that stood.
    pub(crate) fn broke(&mut self, member: MemberId, peer: MemberId, lane: Lane, now: Instant) -> Broke {
        let is_first = self.down(member, peer.rank).next().is_none();
        match self.find(member, peer.rank, lane) {
            Some(link) if link.incarnation == peer.incarnation && link.state == LinkState::Up => {
                link.state = LinkState::Down(now);
                if is_first {
                    Broke::First
                } else {
                    Broke::Another
                }
            }
            _ => Broke::Unwanted,
        }
    }

    /// The lanes to a peer that have no link now.
    fn down(&self, member: MemberId, peer: Rank) -> impl Iterator<Item = Lane> + '_ {
        let wanted = self.members.get(&member).into_iter().flat_map(|(_, wanted)| wanted);
        wanted.filter(move |((rank, _), link)| *rank == peer && link.state != LinkState::Up).map(|((_, lane), _)| *lane)
    }

    /// Whether an incoming link fits: `Ok`, or the reason why not and whether to try again.
    pub(crate) fn fits(&self, member: MemberId, peer: MemberId, lane: Lane) -> Result<(), Misfit> {
        let MemberId { rank, incarnation: own } = member;
        let MemberId { rank: peer, incarnation: theirs } = peer;
        let Some((_, wanted)) = self.members.get(&member) else {
            let newest = self.members.keys().filter(|m| m.rank == rank).map(|m| m.incarnation).max();
            return match newest {
                Some(newest) if newest > own => {
                    Err(Misfit::Outdated(format!("rank {rank} is at incarnation {newest}, not {own}")))
                }
                _ => Err(Misfit::NotYet(format!("rank {rank} incarnation {own} isn't known here yet"))),
            };
        };
        match wanted.get(&(peer, lane)) {
            Some(link) if link.incarnation == theirs => Ok(()),
            Some(link) if link.incarnation > theirs => Err(Misfit::Outdated(format!(
                "rank {peer} is at incarnation {}; incarnation {theirs} is fenced",
                link.incarnation
            ))),
            _ => Err(Misfit::NotYet(format!(
                "rank {peer} incarnation {theirs} isn't in this side's view yet, or a link for {lane} isn't needed"
            ))),
        }
    }

    fn find(&mut self, member: MemberId, peer: Rank, lane: Lane) -> Option<&mut Wanted> {
        self.members.get_mut(&member)?.1.get_mut(&(peer, lane))
    }
}

/// Why an incoming link is turned away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// This side's view isn't that new: try again.
    NotYet(String),
    /// It comes from, or wants, an incarnation that is gone.
    Outdated(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_protocol::ids::AgentId;
    use rejoin_protocol::view::AgentAddress;

    const CHANNELS: Lane = Lane::Channels;
    const ONE: &[Lane] = &[CHANNELS];
    const BOTH: &[Lane] = &[CHANNELS, Lane::Collectives];

    fn peer(rank: u32, incarnation: u32, agent: u64) -> Peer {
        let address = "127.0.0.1:9".parse().unwrap();
        Peer {
            member: member(rank, incarnation),
            at: AgentAddress { agent: AgentId(agent), address, host: "h".into() },
        }
    }

    fn member(rank: u32, incarnation: u32) -> MemberId {
        MemberId { rank: Rank(rank), incarnation: Incarnation::nth(incarnation) }
    }

    #[test]
    fn the_lower_rank_makes_the_link_also_to_a_rank_of_its_own_agent() {
        let now = Instant::now();
        let mut links = DataLinks::default();
        links.want(member(1, 0), Lineage(0), &[peer(0, 0, 2), peer(2, 0, 3), peer(3, 0, 1)], ONE, now);
        let due: Vec<_> = links.due(now).into_iter().map(|due| due.peer.rank.0).collect();
        assert_eq!(due, [2, 3]);
    }

    #[test]
    fn an_older_incarnation_is_refused_for_good_and_a_newer_one_asked_to_try_again() {
        let mut links = DataLinks::default();
        links.want(member(1, 0), Lineage(0), &[peer(0, 3, 2)], ONE, Instant::now());
        assert_eq!(links.fits(member(1, 0), member(0, 3), CHANNELS), Ok(()));
        assert!(matches!(links.fits(member(1, 0), member(0, 2), CHANNELS), Err(Misfit::Outdated(_))));
        assert!(matches!(links.fits(member(1, 0), member(0, 4), CHANNELS), Err(Misfit::NotYet(_))));
        assert!(matches!(links.fits(member(1, 1), member(0, 3), CHANNELS), Err(Misfit::NotYet(_))));
    }

    #[test]
    fn a_peers_next_incarnation_gets_a_new_link_while_the_others_stay() {
        let now = Instant::now();
        let mut links = DataLinks::default();
        links.want(member(0, 0), Lineage(0), &[peer(1, 0, 2), peer(2, 0, 3)], ONE, now);
        assert!(links.up(member(0, 0), member(1, 0), CHANNELS));
        assert!(links.up(member(0, 0), member(2, 0), CHANNELS));
        links.want(member(0, 0), Lineage(0), &[peer(1, 1, 4), peer(2, 0, 3)], ONE, now);
        let due: Vec<_> =
            links.due(now).into_iter().map(|due| (due.peer.rank.0, due.peer.incarnation.number)).collect();
        assert_eq!(due, [(1, 1)]);
    }

    #[test]
    fn the_tracker_is_told_after_a_row_of_failed_tries() {
        let now = Instant::now();
        let mut links = DataLinks::default();
        links.want(member(0, 0), Lineage(0), &[peer(1, 0, 2)], ONE, now);
        for try_number in 1..=FAILURES {
            links.making(member(0, 0), Rank(1), CHANNELS, Token(5));
            assert_eq!(links.try_failed(member(0, 0), Rank(1), CHANNELS, Token(5), now), try_number == FAILURES);
        }
    }

    #[test]
    fn a_peer_that_answers_that_it_is_not_there_yet_is_no_failed_try() {
        let now = Instant::now();
        let mut links = DataLinks::default();
        links.want(member(0, 0), Lineage(0), &[peer(1, 1, 2)], ONE, now);
        for _ in 0..10 {
            for _ in 1..FAILURES {
                links.making(member(0, 0), Rank(1), CHANNELS, Token(5));
                assert!(!links.try_failed(member(0, 0), Rank(1), CHANNELS, Token(5), now));
            }
            links.making(member(0, 0), Rank(1), CHANNELS, Token(5));
            links.not_yet(member(0, 0), Rank(1), CHANNELS, Token(5), now);
        }
        assert_eq!(links.next_try(), Some(now + PAUSE_LIMIT), "it is asked again");
    }

    #[test]
    fn each_lane_has_a_link_of_its_own_and_the_tracker_is_told_of_two_that_break_together_once() {
        let now = Instant::now();
        let (own, mut links) = (member(0, 0), DataLinks::default());
        links.want(own, Lineage(0), &[peer(1, 0, 2)], BOTH, now);
        let due: Vec<_> = links.due(now).into_iter().map(|due| due.lane).collect();
        assert_eq!(due, BOTH);
        for lane in BOTH {
            assert!(links.up(own, member(1, 0), *lane));
        }
        let mut broke = |lane| links.broke(own, member(1, 0), lane, now);
        assert_eq!(broke(Lane::Collectives), Broke::First);
        assert_eq!(broke(Lane::Collectives), Broke::Unwanted);
        assert_eq!(broke(CHANNELS), Broke::Another);
        for try_number in 1..=FAILURES {
            for (lane, is_told) in [(CHANNELS, try_number == FAILURES), (Lane::Collectives, false)] {
                links.making(own, Rank(1), lane, Token(5));
                assert_eq!(links.try_failed(own, Rank(1), lane, Token(5), now), is_told);
            }
        }
    }

    #[test]
    fn a_link_for_a_lane_that_this_side_does_not_need_yet_is_asked_to_try_again() {
        let mut links = DataLinks::default();
        links.want(member(1, 0), Lineage(0), &[peer(0, 0, 2)], ONE, Instant::now());
        let fits = |lane| links.fits(member(1, 0), member(0, 0), lane);
        assert_eq!(fits(CHANNELS), Ok(()));
        assert!(matches!(fits(Lane::Collectives), Err(Misfit::NotYet(_))));
    }
}
