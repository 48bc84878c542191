//! The lines to the other ranks: a link each. Frames with their identity checked.

use super::local_rank::{LocalRank, LocalRankState};
use super::plane::CollectivePlane;
use bytes::Bytes;
use mio::{Interest, Poll, Token};
use rejoin_protocol::collective::frame::{self, Expected, Verdict};
use rejoin_protocol::collective::CollectiveId;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Generation, Incarnation, Lane, MemberId, Rank};
use rejoin_protocol::report::Report;
use rejoin_protocol::wire::{Header, Kind};
use rejoin_transport::Link;
use std::time::{Duration, Instant};

/// A lost generation is reported again after so long without a newer one.
const REPORT_AGAIN: Duration = Duration::from_secs(1);

/// One other rank.
#[derive(Default)]
struct PeerLink {
    incarnation: Option<Incarnation>,
    link: Option<Box<Link>>,
    /// Frames of this generation were lost: nothing of it is sent or taken any more.
    cut: Option<Generation>,
    /// Bytes to come of the frame that is being taken.
    left: usize,
    /// Frames of the present call that were taken, and that were sent.
    taken: u32,
    sent: u32,
}

/// Frames were lost on the link to this rank.
struct LostFrames {
    rank: Rank,
    reason: String,
    /// The agent doesn't know yet that the link is gone.
    link_is_down: bool,
}

/// Why a call can't go on over a line.
pub(super) enum Trouble {
    /// The peer has made another call, whose id is this.
    Mismatch(Rank, CollectiveId),
}

/// All lines of one rank; they belong to its own thread.
pub(super) struct PeerLinks {
    member: MemberId,
    peer_links: Vec<PeerLink>,
    expected: Option<Expected>,
    /// Cuts of the present generation, to be reported until a newer one comes.
    cuts: Vec<LostFrames>,
    reported_at: Option<Instant>,
}

impl PeerLinks {
    pub(super) fn new(member: MemberId, world: u32) -> Self {
        let peer_links = (0..world).map(|_| PeerLink::default()).collect();
        PeerLinks { member, peer_links, expected: None, cuts: Vec::new(), reported_at: None }
    }

    /// Takes what the control thread has brought: which ranks live, and new links.
    pub(super) fn refresh(&mut self, state: &mut LocalRankState, poll: &Poll) -> Result<(), Error> {
        for rank in 0..self.peer_links.len() {
            let peer = state.peers.iter().find(|peer| peer.rank.0 as usize == rank);
            let incarnation = peer.map(|peer| peer.incarnation);
            let peer_link = &mut self.peer_links[rank];
            if peer_link.incarnation != incarnation {
                *peer_link = PeerLink { incarnation, ..PeerLink::default() };
            }
        }
        for (MemberId { rank, incarnation }, mut link) in std::mem::take(&mut state.mail) {
            let Some(peer_link) = self.peer_links.get_mut(rank.0 as usize) else { continue };
            if peer_link.incarnation != Some(incarnation) {
                continue; // that peer is gone meanwhile
            }
            let token = Token(rank.0 as usize + 1);
            poll.registry().register(link.socket(), token, Interest::READABLE | Interest::WRITABLE).map_err(
                |cause| {
                    Error::new(
                        Code::Io,
                        format!("rank {}'s link to rank {rank} can't be watched: {cause}", self.member.rank),
                    )
                },
            )?;
            if peer_link.link.is_some() {
                // The other side has seen the older one break, with whatever was in it.
                let generation = self.expected.map(|expected| expected.generation);
                self.cut(rank, generation, "the other side has made it anew".into(), false);
            }
            self.peer_links[rank.0 as usize].link = Some(Box::new(link));
        }
        Ok(())
    }

    /// A call begins, or begins again under a new generation.
    pub(super) fn begin(&mut self, expected: Expected) {
        self.expected = Some(expected);
        // One that the call before didn't need is in the way of this one all the same.
        let PeerLinks { peer_links, cuts, .. } = self;
        cuts.retain(|cut| {
            let peer_link = &peer_links[cut.rank.0 as usize];
            // A link of which the agent doesn't know that it broke is made anew by nobody.
            let is_unknown = cut.link_is_down && peer_link.cut.is_some() && peer_link.link.is_none();
            is_unknown || peer_link.cut >= Some(expected.generation)
        });
        for peer_link in &mut self.peer_links {
            (peer_link.left, peer_link.taken, peer_link.sent) = (0, 0, 0);
            if let Some(link) = &mut peer_link.link {
                link.give_up_frame();
            }
        }
    }

    /// What the present call expects of its frames.
    pub(super) fn expected(&self) -> Option<Expected> {
        self.expected
    }

    /// Whether bytes of a peer are to come that belong to the present call and generation: the
    /// frame that they are in is there.
    pub(super) fn look(&mut self, peer: usize, local_rank: &LocalRank) -> Result<bool, Trouble> {
        let Some(expected) = self.expected else { return Ok(false) };
        while self.peer_links[peer].left == 0 {
            if self.is_cut(peer) {
                return Ok(false);
            }
            let peer_link = &mut self.peer_links[peer];
            let rank = Rank(peer as u32);
            let Some(link) = &mut peer_link.link else { return Ok(false) };
            let header = match from_link(link, &expected) {
                Ok(NextFrame::Frame(header)) => header,
                Ok(NextFrame::Nothing) => return Ok(false),
                Ok(NextFrame::Mismatch(collective_id)) => return Err(Trouble::Mismatch(rank, collective_id)),
                Err(reason) => {
                    self.broke(peer, expected.generation, reason);
                    return Ok(false);
                }
            };
            peer_link.left = header.length as usize;
            if header.inputs != 0 && peer_link.taken == 0 {
                // At once: should this rank not finish the call, another one may have.
                let incarnation = peer_link.incarnation.unwrap_or_default();
                local_rank.lock().participant.observe(rank, incarnation, &expected.collective_id, header.inputs);
            }
            if frame::frame_number(&header) != peer_link.taken {
                let seen =
                    format!("frame {} came where {} was expected", frame::frame_number(&header), peer_link.taken);
                self.broke(peer, expected.generation, seen);
                return Ok(false);
            }
            peer_link.taken += 1;
        }
        Ok(true)
    }

    /// Brings the next bytes of a peer, of the present call and generation, into `room`; how many,
    /// or 0 when none are there.
    pub(super) fn receive(&mut self, peer: usize, local_rank: &LocalRank, room: &mut [u8]) -> Result<usize, Trouble> {
        if !self.look(peer, local_rank)? {
            return Ok(0);
        }
        let peer_link = &mut self.peer_links[peer];
        let Some(link) = &mut peer_link.link else { return Ok(0) };
        match link.read_payload(room) {
            Ok(count) => {
                peer_link.left -= count;
                Ok(count)
            }
            Err(error) => {
                let generation = self.expected.map(|expected| expected.generation).unwrap_or_default();
                self.broke(peer, generation, error.to_string());
                Ok(0)
            }
        }
    }

    /// Whether something can be sent to a peer now, and how many bytes wait to be given to the kernel.
    pub(super) fn queued(&self, peer: usize) -> Option<usize> {
        if self.is_cut(peer) {
            return None;
        }
        self.peer_links[peer].link.as_ref().map(|link| link.queued_bytes())
    }

    /// The last frame to all, after which this rank makes no calls. It is empty and small:
    /// when a link takes it not at once, that peer is far behind, and finds its end in a later plan
    /// or at its own limit.
    pub(super) fn say_goodbye(&mut self) {
        for peer in 0..self.peer_links.len() {
            if self.is_cut(peer) {
                continue;
            }
            let peer_link = &mut self.peer_links[peer];
            if let (Some(link), Some(expected)) = (&mut peer_link.link, self.expected) {
                link.send(frame::header(&expected, peer_link.sent), Bytes::new());
                peer_link.sent += 1;
                self.flush(peer);
            }
        }
    }

    /// Sends bytes of the present call to a peer that [`PeerLinks::queued`] said something of,
    /// straight from where they are: the rest of the frame that was begun, or a new one. Returns
    /// how many have gone; the others are still the caller's.
    pub(super) fn send_parts(&mut self, peer: usize, parts: &[&[u8]]) -> usize {
        let Some(expected) = self.expected else { return 0 };
        let peer_link = &mut self.peer_links[peer];
        let Some(link) = &mut peer_link.link else { return 0 };
        let gone = if link.owed() > 0 {
            link.send_rest(parts)
        } else {
            peer_link.sent += 1;
            link.send_parts(frame::header(&expected, peer_link.sent - 1), parts)
        };
        gone.unwrap_or_else(|error| {
            self.broke(peer, expected.generation, error.to_string());
            0
        })
    }

    /// Bytes of a frame to a peer that was begun and of which these have to follow.
    pub(super) fn owed(&self, peer: usize) -> usize {
        self.peer_links[peer].link.as_ref().map_or(0, |link| link.owed())
    }

    /// Gives to the kernel what it takes. Whether everything has gone.
    pub(super) fn flush(&mut self, peer: usize) -> bool {
        let Some(link) = &mut self.peer_links[peer].link else { return true };
        if link.queued_bytes() == 0 {
            return true;
        }
        match link.flush() {
            Ok(flushed) => flushed == rejoin_transport::Flushed::Done,
            Err(error) => {
                let generation = self.expected.map(|expected| expected.generation).unwrap_or_default();
                self.broke(peer, generation, error.to_string());
                false
            }
        }
    }

    /// What the agent has to hear: links that broke, and generations that lost frames with them.
    pub(super) fn report(&mut self, plane: &CollectivePlane) {
        let Some(agent) = plane.agent() else { return };
        self.reported_at = Some(Instant::now());
        for cut in &mut self.cuts {
            let peer_link = &self.peer_links[cut.rank.0 as usize];
            let (Some(generation), Some(theirs)) = (peer_link.cut, peer_link.incarnation) else { continue };
            let (peer, reason) = (MemberId { rank: cut.rank, incarnation: theirs }, cut.reason.clone());
            if std::mem::take(&mut cut.link_is_down) && peer_link.link.is_none() {
                let (lane, reason) = (Lane::Collectives, reason.clone());
                agent.report(self.member, Report::LinkDown { peer, lane, reason });
            }
            if self.expected.is_none_or(|expected| generation >= expected.generation) {
                agent.report(self.member, Report::Interrupted { peer: cut.rank, generation, reason });
            }
        }
    }

    /// Whether there is something to report, or to report again: with a broken connection to the
    /// tracker it may be lost.
    pub(super) fn has_to_report(&self, now: Instant) -> bool {
        !self.cuts.is_empty() && self.reported_at.is_none_or(|at| now >= at + REPORT_AGAIN)
    }

    /// Breaks the link to a peer, for tests.
    pub(super) fn reset(&mut self, peer: Rank) {
        let Some(peer_link) = self.peer_links.get_mut(peer.0 as usize) else { return };
        let generation = self.expected.map(|expected| expected.generation).unwrap_or_default();
        if let Some(link) = peer_link.link.take() {
            link.reset();
        }
        self.broke(peer.0 as usize, generation, "cut by a fault rule".into());
    }

    /// What is known of a peer, for errors.
    pub(super) fn describe(&self, peer: usize) -> String {
        let peer_link = &self.peer_links[peer];
        match (peer_link.incarnation, &peer_link.link) {
            (None, _) => "not there".into(),
            (Some(_), _) if self.is_cut(peer) => "its link broke".into(),
            (Some(incarnation), None) => format!("incarnation {incarnation}, not linked yet"),
            (Some(incarnation), _) => format!("incarnation {incarnation}, linked"),
        }
    }

    fn is_cut(&self, peer: usize) -> bool {
        match (self.peer_links[peer].cut, self.expected) {
            (Some(cut), Some(expected)) => expected.generation <= cut,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    /// Gives up the links to those of these ranks, which are waited for, that are out of reach.
    pub(super) fn listen(&mut self, peers: impl Iterator<Item = usize>, now: Instant) {
        let generation = self.expected.map(|expected| expected.generation).unwrap_or_default();
        for peer in peers {
            let link = self.peer_links[peer].link.take_if(|link| link.is_out_of_reach(now));
            if let Some(link) = link {
                link.reset();
                self.broke(peer, generation, Link::OUT_OF_REACH.into());
            }
        }
    }

    fn broke(&mut self, peer: usize, generation: Generation, reason: String) {
        self.peer_links[peer].link = None;
        self.cut(Rank(peer as u32), Some(generation), reason, true);
    }

    fn cut(&mut self, rank: Rank, generation: Option<Generation>, reason: String, link_is_down: bool) {
        let peer_link = &mut self.peer_links[rank.0 as usize];
        peer_link.cut = peer_link.cut.max(generation);
        peer_link.left = 0;
        self.reported_at = None;
        self.cuts.push(LostFrames { rank, reason, link_is_down });
    }
}

enum NextFrame {
    Frame(Header),
    Nothing,
    Mismatch(CollectiveId),
}

/// The next frame of the present call, whose bytes come next; those of older generations are dropped.
fn from_link(link: &mut Link, expected: &Expected) -> Result<NextFrame, String> {
    loop {
        let Some(header) = link.next_header().map_err(|error| error.to_string())? else {
            return Ok(NextFrame::Nothing);
        };
        if header.kind != Kind::Collective {
            return Err(format!("a frame of kind {:?} came where one of a collective was expected", header.kind));
        }
        match frame::judge(&header, expected) {
            Verdict::Early => return Ok(NextFrame::Nothing),
            Verdict::Mismatch(collective_id) => return Ok(NextFrame::Mismatch(collective_id)),
            Verdict::Mine if header.length > 0 => return Ok(NextFrame::Frame(header)),
            Verdict::Mine | Verdict::Outdated => {
                if !link.skip_payload().map_err(|error| error.to_string())? {
                    return Ok(NextFrame::Nothing);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_protocol::ids::{Lineage, Phase};

    fn call(number: u32, seqno: u32) -> Expected {
        let collective_id = CollectiveId { lineage: Lineage(0), phase: Phase::Boot, seqno };
        Expected { generation: Generation { epoch: 1, number }, collective_id, digest: 7, inputs: 0 }
    }

    #[test]
    fn a_cut_that_the_call_in_which_it_was_seen_did_not_need_is_told_by_the_next_one_of_the_attempt() {
        let member = MemberId { rank: Rank(0), incarnation: Incarnation::nth(0) };
        let mut peer_links = PeerLinks::new(member, 2);
        let now = Instant::now();
        peer_links.begin(call(2, 5));
        peer_links.cut(Rank(1), Some(call(2, 5).generation), "the other side has made it anew".into(), false);
        peer_links.begin(call(2, 6));
        assert!(peer_links.is_cut(1), "nothing of this generation comes over it any more");
        assert!(peer_links.has_to_report(now), "none would make another generation");
        peer_links.begin(call(3, 6));
        assert!(!peer_links.is_cut(1) && !peer_links.has_to_report(now), "what is over needs no report");
    }

    #[test]
    fn a_link_that_broke_at_the_end_of_a_generation_is_told_in_the_next_one() {
        let member = MemberId { rank: Rank(0), incarnation: Incarnation::nth(0) };
        let mut peer_links = PeerLinks::new(member, 2);
        peer_links.begin(call(2, 5));
        peer_links.broke(1, call(2, 5).generation, "Connection reset by peer".into());
        peer_links.begin(call(3, 6));
        assert!(!peer_links.is_cut(1), "this generation has lost nothing");
        assert!(peer_links.has_to_report(Instant::now()), "nobody else would make it anew");
    }
}
