//! The lines to the other ranks: a link each, or memory for those of this process. Frames with their identity checked.

use super::plane::CollectivePlane;
use super::seat::{Seat, State};
use crate::agent::MemberId;
use bytes::{Buf, Bytes};
use mio::{Interest, Poll, Token};
use rejoin_protocol::collective::frame::{self, Expected, Verdict};
use rejoin_protocol::collective::Place;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Generation, Incarnation, Lane, Rank};
use rejoin_protocol::wire::{Header, Kind};
use rejoin_transport::Link;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A lost attempt is told of again after so long without a newer one.
const TELL_AGAIN: Duration = Duration::from_secs(1);

/// One other rank.
#[derive(Default)]
struct Line {
    incarnation: Option<Incarnation>,
    port: Port,
    /// Frames of this attempt were lost: nothing of it is sent or taken any more.
    cut: Option<Generation>,
    /// Bytes to come of the frame that is being taken, and, of one from this process, these bytes.
    left: usize,
    taking: Bytes,
    /// Frames of the present call that were taken, and that were sent.
    taken: u32,
    sent: u32,
}

#[derive(Default)]
enum Port {
    #[default]
    None,
    Link(Box<Link>),
    Memory(Arc<Seat>),
}

/// Frames were lost on the line to this rank.
struct Cut {
    rank: Rank,
    reason: String,
    /// The agent doesn't know yet that the link is gone.
    link_is_down: bool,
}

/// Why a call can't go on over a line.
pub(super) enum Trouble {
    /// The peer has made another call, whose place is this.
    Mismatch(Rank, Place),
}

/// All lines of one rank; they belong to its own thread.
pub(super) struct Lines {
    member: MemberId,
    lines: Vec<Line>,
    expected: Option<Expected>,
    /// Cuts of the present attempt, to be told until a newer one comes.
    cuts: Vec<Cut>,
    told_at: Option<Instant>,
}

impl Lines {
    pub(super) fn new(member: MemberId, world: u32) -> Self {
        let lines = (0..world).map(|_| Line::default()).collect();
        Lines { member, lines, expected: None, cuts: Vec::new(), told_at: None }
    }

    /// Takes what the control thread has brought: who lives, and new links.
    pub(super) fn refresh(&mut self, state: &mut State, plane: &CollectivePlane, poll: &Poll) -> Result<(), Error> {
        for rank in 0..self.lines.len() {
            let peer = state.peers.iter().find(|peer| peer.rank.0 as usize == rank);
            let line = &mut self.lines[rank];
            let incarnation = peer.map(|peer| peer.incarnation);
            if line.incarnation != incarnation {
                *line = Line { incarnation, ..Line::default() };
            }
            if let (Some(peer), Port::None) = (peer.filter(|peer| peer.local), &line.port) {
                let MemberId { rank, incarnation } = MemberId { rank: peer.rank, incarnation: peer.incarnation };
                line.port = plane.seat(MemberId { rank, incarnation }).map_or(Port::None, Port::Memory);
            }
        }
        for (rank, incarnation, mut link) in std::mem::take(&mut state.mail) {
            let Some(line) = self.lines.get_mut(rank.0 as usize) else { continue };
            if line.incarnation != Some(incarnation) {
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
            if matches!(line.port, Port::Link(_)) {
                // The other side has seen the older one break, with whatever was in it.
                let attempt = self.expected.map(|expected| expected.attempt);
                self.cut(rank, attempt, "the other side has made it anew".into(), false);
            }
            self.lines[rank.0 as usize].port = Port::Link(Box::new(link));
        }
        Ok(())
    }

    /// A call begins, or begins again under a new attempt.
    pub(super) fn begin(&mut self, expected: Expected) {
        self.expected = Some(expected);
        // One that the call before didn't need is in the way of this one all the same.
        let Lines { lines, cuts, .. } = self;
        cuts.retain(|cut| lines[cut.rank.0 as usize].cut >= Some(expected.attempt));
        for line in &mut self.lines {
            line.drop_frame();
            (line.taken, line.sent) = (0, 0);
            if let Port::Link(link) = &mut line.port {
                link.give_up_frame();
            }
        }
    }

    /// What the present call expects of its frames.
    pub(super) fn expected(&self) -> Option<Expected> {
        self.expected
    }

    /// Whether bytes of a peer are to come that belong to the present call and attempt: the frame that they are in is there.
    pub(super) fn look(&mut self, peer: usize, seat: &Seat) -> Result<bool, Trouble> {
        let Some(expected) = self.expected else { return Ok(false) };
        while self.lines[peer].left == 0 {
            if self.is_cut(peer) {
                return Ok(false);
            }
            let line = &mut self.lines[peer];
            let rank = Rank(peer as u32);
            let header = match &mut line.port {
                Port::None => return Ok(false),
                Port::Memory(_) => {
                    let Some(incarnation) = line.incarnation else { return Ok(false) };
                    let mut verdict = Verdict::Early;
                    let frame = seat.inbox.next(rank, incarnation, |header| {
                        verdict = frame::judge(header, &expected);
                        matches!(verdict, Verdict::Mine | Verdict::Outdated)
                    });
                    match (verdict, frame) {
                        (Verdict::Mismatch(place), _) => return Err(Trouble::Mismatch(rank, place)),
                        (Verdict::Mine, Some((header, payload))) => {
                            (line.left, line.taking) = (payload.len(), payload);
                            header
                        }
                        (Verdict::Outdated, Some(_)) => continue,
                        _ => return Ok(false),
                    }
                }
                Port::Link(link) => match from_link(link, &expected) {
                    Ok(Came::Frame(header)) => {
                        line.left = header.length as usize;
                        header
                    }
                    Ok(Came::Nothing) => return Ok(false),
                    Ok(Came::Mismatch(place)) => return Err(Trouble::Mismatch(rank, place)),
                    Err(reason) => {
                        self.broke(peer, expected.attempt, reason);
                        return Ok(false);
                    }
                },
            };
            if header.inputs != 0 && line.taken == 0 {
                // At once: should this rank not finish the call, another one may have.
                let incarnation = line.incarnation.unwrap_or_default();
                seat.lock().participant.hears(rank, incarnation, &expected.place, header.inputs);
            }
            if frame::step(&header) != line.taken {
                let seen = format!("frame {} came where {} was expected", frame::step(&header), line.taken);
                self.broke(peer, expected.attempt, seen);
                return Ok(false);
            }
            line.taken += 1;
        }
        Ok(true)
    }

    /// Brings the next bytes of a peer, of the present call and attempt, into `room`; how many, or 0 when none are there.
    pub(super) fn receive(&mut self, peer: usize, seat: &Seat, room: &mut [u8]) -> Result<usize, Trouble> {
        if !self.look(peer, seat)? {
            return Ok(0);
        }
        let line = &mut self.lines[peer];
        let came = match &mut line.port {
            Port::None => Ok(0),
            Port::Memory(_) => {
                let count = line.taking.len().min(room.len());
                line.taking.split_to(count).copy_to_slice(&mut room[..count]);
                Ok(count)
            }
            Port::Link(link) => link.read_payload(room),
        };
        match came {
            Ok(count) => {
                line.left -= count;
                Ok(count)
            }
            Err(error) => {
                let attempt = self.expected.map(|expected| expected.attempt).unwrap_or_default();
                self.broke(peer, attempt, error.to_string());
                Ok(0)
            }
        }
    }

    /// Whether something can be sent to a peer now, and how many bytes wait to be given to the kernel.
    pub(super) fn queued(&self, peer: usize) -> Option<usize> {
        if self.is_cut(peer) {
            return None;
        }
        match &self.lines[peer].port {
            Port::None => None,
            Port::Link(link) => Some(link.queued_bytes()),
            Port::Memory(_) => Some(0),
        }
    }

    /// Sends bytes of the present call to a peer that [`Lines::queued`] said something of.
    pub(super) fn send(&mut self, peer: usize, payload: Bytes) {
        let Some(expected) = self.expected else { return };
        let line = &mut self.lines[peer];
        let header = frame::header(&expected, line.sent);
        line.sent += 1;
        match &mut line.port {
            Port::None => {}
            Port::Link(link) => link.send(header, payload),
            Port::Memory(seat) => {
                seat.inbox.push(self.member, header, payload);
                seat.arrived();
            }
        }
    }

    /// The last frame to everybody, after which this rank makes no calls. It is empty and small: when a link takes it not at
    /// once, that peer is far behind, and finds its end in a later plan or at its own limit.
    pub(super) fn say_goodbye(&mut self) {
        for peer in 0..self.lines.len() {
            if self.queued(peer).is_some() {
                self.send(peer, Bytes::new());
                self.flush(peer);
            }
        }
    }

    /// The same, straight from where the bytes are: the rest of the frame that was begun, or a new one. Returns how many have
    /// gone; the others are still the caller's.
    pub(super) fn send_parts(&mut self, peer: usize, parts: &[&[u8]]) -> usize {
        let Some(expected) = self.expected else { return 0 };
        let line = &mut self.lines[peer];
        let Port::Link(link) = &mut line.port else {
            self.send(peer, Bytes::from(parts.concat()));
            return parts.iter().map(|part| part.len()).sum();
        };
        let gone = if link.owed() > 0 {
            link.send_rest(parts)
        } else {
            line.sent += 1;
            link.send_parts(frame::header(&expected, line.sent - 1), parts)
        };
        gone.unwrap_or_else(|error| {
            self.broke(peer, expected.attempt, error.to_string());
            0
        })
    }

    /// Bytes of a frame to a peer that was begun and of which these have to follow.
    pub(super) fn owed(&self, peer: usize) -> usize {
        match &self.lines[peer].port {
            Port::Link(link) => link.owed(),
            _ => 0,
        }
    }

    /// Gives to the kernel what it takes. Whether everything has gone.
    pub(super) fn flush(&mut self, peer: usize) -> bool {
        let Port::Link(link) = &mut self.lines[peer].port else { return true };
        if link.queued_bytes() == 0 {
            return true;
        }
        match link.flush() {
            Ok(flushed) => flushed == rejoin_transport::Flushed::Done,
            Err(error) => {
                let attempt = self.expected.map(|expected| expected.attempt).unwrap_or_default();
                self.broke(peer, attempt, error.to_string());
                false
            }
        }
    }

    /// What the agent has to be told: links that broke, and attempts that lost frames with them.
    pub(super) fn tell(&mut self, plane: &CollectivePlane) {
        let Some(agent) = plane.agent() else { return };
        self.told_at = Some(Instant::now());
        for cut in &mut self.cuts {
            let line = &self.lines[cut.rank.0 as usize];
            let (Some(attempt), Some(theirs)) = (line.cut, line.incarnation) else { continue };
            let MemberId { rank: own, incarnation } = self.member;
            if std::mem::take(&mut cut.link_is_down) {
                agent.link_down(own, incarnation, cut.rank, theirs, Lane::Collectives, cut.reason.clone());
            }
            agent.interrupted(own, incarnation, cut.rank, attempt, cut.reason.clone());
        }
    }

    /// Whether there is something to be told, or to be told again: with a broken connection to the tracker it may be lost.
    pub(super) fn has_to_tell(&self, now: Instant) -> bool {
        !self.cuts.is_empty() && self.told_at.is_none_or(|at| now >= at + TELL_AGAIN)
    }

    /// Breaks the line to a peer, for tests.
    pub(super) fn reset(&mut self, peer: Rank) {
        let Some(line) = self.lines.get_mut(peer.0 as usize) else { return };
        let attempt = self.expected.map(|expected| expected.attempt).unwrap_or_default();
        if let Port::Link(link) = std::mem::take(&mut line.port) {
            link.reset();
        }
        self.broke(peer.0 as usize, attempt, "cut by a fault rule".into());
    }

    /// What is known of a peer, for errors.
    pub(super) fn describe(&self, peer: usize) -> String {
        let line = &self.lines[peer];
        match (line.incarnation, &line.port) {
            (None, _) => "not there".into(),
            (Some(_), _) if self.is_cut(peer) => "its link broke".into(),
            (Some(incarnation), Port::None) => format!("incarnation {incarnation}, not linked yet"),
            (Some(incarnation), _) => format!("incarnation {incarnation}, linked"),
        }
    }

    fn is_cut(&self, peer: usize) -> bool {
        match (self.lines[peer].cut, self.expected) {
            (Some(cut), Some(expected)) => expected.attempt <= cut,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    fn broke(&mut self, peer: usize, attempt: Generation, reason: String) {
        self.lines[peer].port = Port::None;
        self.cut(Rank(peer as u32), Some(attempt), reason, true);
    }

    fn cut(&mut self, rank: Rank, attempt: Option<Generation>, reason: String, link_is_down: bool) {
        let line = &mut self.lines[rank.0 as usize];
        line.cut = line.cut.max(attempt);
        line.drop_frame();
        self.told_at = None;
        self.cuts.push(Cut { rank, reason, link_is_down });
    }
}

impl Line {
    /// What is still to come of the frame that is being taken isn't wanted any more.
    fn drop_frame(&mut self) {
        (self.left, self.taking) = (0, Bytes::new());
    }
}

enum Came {
    Frame(Header),
    Nothing,
    Mismatch(Place),
}

/// The next frame of the present call, whose bytes come next; those of older attempts are dropped.
fn from_link(link: &mut Link, expected: &Expected) -> Result<Came, String> {
    loop {
        let Some(header) = link.next_header().map_err(|error| error.to_string())? else { return Ok(Came::Nothing) };
        if header.kind != Kind::Collective {
            return Err(format!("a frame of kind {:?} came where one of a collective was expected", header.kind));
        }
        match frame::judge(&header, expected) {
            Verdict::Early => return Ok(Came::Nothing),
            Verdict::Mismatch(place) => return Ok(Came::Mismatch(place)),
            Verdict::Mine if header.length > 0 => return Ok(Came::Frame(header)),
            Verdict::Mine | Verdict::Outdated => {
                if !link.skip_payload().map_err(|error| error.to_string())? {
                    return Ok(Came::Nothing);
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
        let place = Place { lineage: Lineage(0), phase: Phase::Boot, seqno };
        Expected { attempt: Generation { epoch: 1, number }, place, digest: 7, inputs: 0 }
    }

    #[test]
    fn a_cut_that_the_call_in_which_it_was_seen_did_not_need_is_told_by_the_next_one_of_the_attempt() {
        let member = MemberId { rank: Rank(0), incarnation: Incarnation(0) };
        let mut lines = Lines::new(member, 2);
        let now = Instant::now();
        lines.begin(call(2, 5));
        lines.cut(Rank(1), Some(call(2, 5).attempt), "the other side has made it anew".into(), false);
        lines.begin(call(2, 6));
        assert!(lines.is_cut(1), "nothing of this attempt comes over it any more");
        assert!(lines.has_to_tell(now), "nobody would make another attempt");
        lines.begin(call(3, 6));
        assert!(!lines.is_cut(1) && !lines.has_to_tell(now), "what is over needs no telling");
    }
}
