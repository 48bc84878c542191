//! Which data links the ranks of this agent should have, and which ones stand.
//!
//! Between two living ranks of different agents there is one link; the lower rank makes it. Between ranks of one agent
//! there is none.

use crate::agent::MemberId;
use mio::Token;
use rejoin_protocol::host::Peer;
use rejoin_protocol::ids::{AgentId, Incarnation, Lineage, Rank};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// First pause after a failed try; doubled up to [`PAUSE_LIMIT`].
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_LIMIT: Duration = Duration::from_millis(500);
/// Failed tries after which the tracker is told.
const TRIES: u32 = 12;

/// One wanted link.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) incarnation: Incarnation,
    pub(crate) address: SocketAddr,
    pub(crate) local: bool,
    state: State,
    tries: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Not there; the one who makes it tries at this time.
    Down(Instant),
    /// On its way, over this connection.
    Making(Token),
    /// Handed to the plane, or not needed.
    Up,
}

/// All wanted links of the ranks of this agent.
#[derive(Default)]
pub(crate) struct DataLinks {
    members: BTreeMap<MemberId, (Lineage, BTreeMap<Rank, Wanted>)>,
}

impl DataLinks {
    /// The living peers of a member changed. Links that stand and are still wanted stay.
    pub(crate) fn want(&mut self, member: MemberId, lineage: Lineage, peers: &[Peer], own: AgentId, now: Instant) {
        self.members.retain(|other, _| other.rank != member.rank || *other == member);
        let (was, wanted) = self.members.entry(member).or_insert_with(|| (lineage, BTreeMap::new()));
        if *was != lineage {
            *was = lineage;
            wanted.clear();
        }
        wanted
            .retain(|rank, there| peers.iter().any(|peer| peer.rank == *rank && peer.incarnation == there.incarnation));
        for peer in peers {
            let local = peer.at.agent == own;
            wanted.entry(peer.rank).or_insert_with(|| Wanted {
                incarnation: peer.incarnation,
                address: peer.at.address,
                local,
                state: if local { State::Up } else { State::Down(now) },
                tries: 0,
            });
        }
    }

    /// A member is over.
    pub(crate) fn drop_member(&mut self, member: MemberId) {
        self.members.remove(&member);
    }

    /// The links that this side has to try now.
    pub(crate) fn due(&self, now: Instant) -> Vec<(MemberId, Rank, Incarnation, SocketAddr)> {
        let mut due = Vec::new();
        for (member, (_, wanted)) in &self.members {
            for (rank, link) in wanted {
                if member.rank < *rank && matches!(link.state, State::Down(at) if at <= now) {
                    due.push((*member, *rank, link.incarnation, link.address));
                }
            }
        }
        due
    }

    /// When the next try is due.
    pub(crate) fn next_try(&self) -> Option<Instant> {
        let wanted = self.members.iter().flat_map(|(member, (_, wanted))| wanted.iter().map(move |w| (member, w)));
        wanted
            .filter_map(|(member, (rank, link))| match link.state {
                State::Down(at) if member.rank < *rank => Some(at),
                _ => None,
            })
            .min()
    }

    /// A try is on its way.
    pub(crate) fn making(&mut self, member: MemberId, peer: Rank, token: Token) {
        if let Some(link) = self.find(member, peer) {
            link.state = State::Making(token);
        }
    }

    /// A link stands. False when nobody wants it (any more).
    pub(crate) fn up(&mut self, member: MemberId, peer: Rank, incarnation: Incarnation) -> bool {
        match self.find(member, peer) {
            Some(link) if link.incarnation == incarnation && !link.local => {
                link.state = State::Up;
                link.tries = 0;
                true
            }
            _ => false,
        }
    }

    /// A try failed. After [`TRIES`] of them in a row: true, tell the tracker.
    pub(crate) fn try_failed(&mut self, member: MemberId, peer: Rank, token: Token, now: Instant) -> bool {
        let Some(link) = self.find(member, peer) else { return false };
        if link.state != State::Making(token) {
            return false;
        }
        link.tries += 1;
        let pause = PAUSE.saturating_mul(1 << link.tries.min(10)).min(PAUSE_LIMIT);
        link.state = State::Down(now + pause);
        link.tries.is_multiple_of(TRIES)
    }

    /// A standing link broke. False when it was not the wanted one.
    pub(crate) fn broke(&mut self, member: MemberId, peer: Rank, incarnation: Incarnation, now: Instant) -> bool {
        match self.find(member, peer) {
            Some(link) if link.incarnation == incarnation && link.state == State::Up && !link.local => {
                link.state = State::Down(now);
                true
            }
            _ => false,
        }
    }

    /// Whether an incoming link fits: `Ok`, or the reason why not and whether to try again.
    pub(crate) fn fits(&self, rank: Rank, own: Incarnation, peer: Rank, theirs: Incarnation) -> Result<(), Misfit> {
        let member = MemberId { rank, incarnation: own };
        let Some((_, wanted)) = self.members.get(&member) else {
            let newest = self.members.keys().filter(|m| m.rank == rank).map(|m| m.incarnation).max();
            return match newest {
                Some(newest) if newest > own => {
                    Err(Misfit::Outdated(format!("rank {rank} is at incarnation {newest}, not {own}")))
                }
                _ => Err(Misfit::NotYet(format!("rank {rank} incarnation {own} isn't known here yet"))),
            };
        };
        match wanted.get(&peer) {
            Some(link) if link.incarnation == theirs => Ok(()),
            Some(link) if link.incarnation > theirs => Err(Misfit::Outdated(format!(
                "rank {peer} is at incarnation {}; incarnation {theirs} is fenced",
                link.incarnation
            ))),
            _ => Err(Misfit::NotYet(format!("rank {peer} incarnation {theirs} isn't in this side's view yet"))),
        }
    }

    fn find(&mut self, member: MemberId, peer: Rank) -> Option<&mut Wanted> {
        self.members.get_mut(&member)?.1.get_mut(&peer)
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
    use rejoin_protocol::view::AgentAddress;

    fn peer(rank: u32, incarnation: u32, agent: u64) -> Peer {
        let address = "127.0.0.1:9".parse().unwrap();
        Peer {
            rank: Rank(rank),
            incarnation: Incarnation(incarnation),
            at: AgentAddress { agent: AgentId(agent), address, host: "h".into() },
        }
    }

    fn member(rank: u32, incarnation: u32) -> MemberId {
        MemberId { rank: Rank(rank), incarnation: Incarnation(incarnation) }
    }

    #[test]
    fn the_lower_rank_makes_the_link_and_ranks_of_one_agent_need_none() {
        let now = Instant::now();
        let mut links = DataLinks::default();
        links.want(member(1, 0), Lineage(0), &[peer(0, 0, 2), peer(2, 0, 3), peer(3, 0, 1)], AgentId(1), now);
        let due: Vec<_> = links.due(now).into_iter().map(|(_, rank, _, _)| rank.0).collect();
        assert_eq!(due, [2]);
    }

    #[test]
    fn an_older_incarnation_is_refused_for_good_and_a_newer_one_asked_to_try_again() {
        let mut links = DataLinks::default();
        links.want(member(1, 0), Lineage(0), &[peer(0, 3, 2)], AgentId(1), Instant::now());
        assert_eq!(links.fits(Rank(1), Incarnation(0), Rank(0), Incarnation(3)), Ok(()));
        assert!(matches!(links.fits(Rank(1), Incarnation(0), Rank(0), Incarnation(2)), Err(Misfit::Outdated(_))));
        assert!(matches!(links.fits(Rank(1), Incarnation(0), Rank(0), Incarnation(4)), Err(Misfit::NotYet(_))));
        assert!(matches!(links.fits(Rank(1), Incarnation(1), Rank(0), Incarnation(3)), Err(Misfit::NotYet(_))));
    }

    #[test]
    fn a_peers_next_incarnation_gets_a_new_link_while_the_others_stay() {
        let now = Instant::now();
        let mut links = DataLinks::default();
        links.want(member(0, 0), Lineage(0), &[peer(1, 0, 2), peer(2, 0, 3)], AgentId(1), now);
        assert!(links.up(member(0, 0), Rank(1), Incarnation(0)));
        assert!(links.up(member(0, 0), Rank(2), Incarnation(0)));
        links.want(member(0, 0), Lineage(0), &[peer(1, 1, 4), peer(2, 0, 3)], AgentId(1), now);
        let due: Vec<_> = links.due(now).into_iter().map(|(_, rank, incarnation, _)| (rank.0, incarnation.0)).collect();
        assert_eq!(due, [(1, 1)]);
    }

    #[test]
    fn the_tracker_is_told_after_a_row_of_failed_tries() {
        let now = Instant::now();
        let mut links = DataLinks::default();
        links.want(member(0, 0), Lineage(0), &[peer(1, 0, 2)], AgentId(1), now);
        for try_number in 1..=TRIES {
            links.making(member(0, 0), Rank(1), Token(5));
            assert_eq!(links.try_failed(member(0, 0), Rank(1), Token(5), now), try_number == TRIES);
        }
    }
}
