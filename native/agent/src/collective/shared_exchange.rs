//! Moves the bytes of one collective through shared memory under one attempt, on the caller's thread.

use super::exchange::{sleep, Went};
use super::lines::{Lines, Trouble};
use super::memory::Entered;
use super::naps::Naps;
use super::seat::Seat;
use super::way::Tools;
use rejoin_collectives::shared::{self, Boards, SharedError, SharedMachine, COMMON_BYTES};
use rejoin_collectives::Reducer;
use rejoin_protocol::collective::frame::{Expected, Verdict};
use rejoin_protocol::collective::sharing;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Generation, Rank};
use rejoin_transport::shm::Group;
use std::time::Instant;

const _: () = assert!(COMMON_BYTES == sharing::COMMON_BYTES, "what boards compare is what identities have in common");

/// One collective under one attempt.
pub(super) struct SharedExchange {
    machine: SharedMachine,
    expected: Expected,
    result_bytes: usize,
    stop_at: Option<u64>,
    /// Others have gone on to a later attempt: nothing that is read counts any more.
    is_over: bool,
    /// What others have shown of their inputs, once it is done.
    heard: Vec<(Rank, u64)>,
}

impl SharedExchange {
    pub(super) fn new(shape: shared::Shape, expected: Expected, entered: &Entered, stop_at: Option<u64>) -> Self {
        let result_bytes = shape.result_bytes();
        let mut machine =
            SharedMachine::new(shape, sharing::identity(&expected), entered.base).after(entered.uncompared);
        machine.stop_at(stop_at);
        SharedExchange { machine, expected, result_bytes, stop_at, is_over: false, heard: Vec::new() }
    }

    pub(super) fn attempt(&self) -> Generation {
        self.expected.attempt
    }

    pub(super) fn result_bytes(&self) -> usize {
        self.result_bytes
    }

    pub(super) fn sent(&self) -> u64 {
        self.machine.sent()
    }

    /// What others have shown of their inputs; nothing before it is done, and where nobody promises anything.
    pub(super) fn heard(&self) -> &[(Rank, u64)] {
        &self.heard
    }

    /// Who is waited for, and what is known of them.
    pub(super) fn awaited(&self, entered: &Entered, lines: &Lines) -> Vec<String> {
        let awaited = self.machine.awaited(&entered.group).into_iter();
        awaited.map(|peer| format!("rank {peer} (through shared memory; {})", lines.describe(peer))).collect()
    }

    /// Goes on until it is done or something else has to be done first.
    pub(super) fn advance(
        &mut self,
        input: &[u8],
        result: &mut [u8],
        reducer: &Reducer<'_>,
        tools: &mut Tools<'_>,
    ) -> Went {
        if self.stop_at.take() == Some(0) {
            self.machine.stop_at(None);
            return Went::Sent;
        }
        let Tools { lines, memory, seat, poll, notes, seen, deadline } = tools;
        let (seat, seen, deadline) = (*seat, *seen, *deadline);
        let Some(entered) = memory.entered(self.expected.attempt) else {
            return Went::Failed(Error::new(Code::Internal, "a collective is under way on boards that were given up"));
        };
        let mut naps = Naps::default();
        loop {
            if !self.is_over {
                if let Some(went) = self.look(entered, &mut naps, input, result, reducer) {
                    return went;
                }
            }
            if seat.changes() != seen {
                return Went::Changed;
            }
            if !self.is_over && !entered.patience.is_long() {
                entered.patience.pause();
                continue;
            }
            let now = Instant::now();
            if now >= deadline {
                return Went::Late;
            }
            if let Some(trouble) = self.ended(entered, naps.looks_at_links().then_some(&mut **lines), seat) {
                return Went::Trouble(trouble);
            }
            if lines.has_to_tell(now) {
                return Went::Changed;
            }
            let left = deadline - now;
            match self.rest(&entered.group) {
                Rest::Nothing => {}
                Rest::UntilPosted(peer, beat) => {
                    notes.waiting(|| Some(peer));
                    entered.group.sleep(peer, beat, left.min(naps.next()));
                }
                Rest::UntilChanged => {
                    notes.waiting(|| None);
                    sleep(seat, poll, left, || seat.changes() != seen);
                }
            }
            notes.exchanging();
        }
    }

    /// Goes on as far as the boards allow; `None`: others have to post first.
    fn look(
        &mut self,
        entered: &mut Entered,
        naps: &mut Naps,
        input: &[u8],
        result: &mut [u8],
        reducer: &Reducer<'_>,
    ) -> Option<Went> {
        let before = self.machine.progress();
        let advanced = self.machine.advance(&mut entered.group, input, result, reducer);
        if let (Ok(true), true) = (&advanced, self.expected.inputs != 0) {
            let (group, last) = (&entered.group, self.machine.last_beat());
            let shown = self.machine.givers().filter_map(|peer| Some((Rank(peer as u32), shown(group, peer, last)?)));
            self.heard = shown.collect();
        }
        match advanced {
            Ok(false) => {}
            // Whatever was read, or seen to be wrong, may be of a later attempt.
            _ if !entered.group.is_current() => self.is_over = true,
            Ok(true) => {
                entered.patience.reset();
                if self.machine.last_beat() > entered.base {
                    entered.base = self.machine.last_beat();
                    entered.uncompared = self.machine.uncompared();
                }
                return Some(Went::Done);
            }
            Err(SharedError::Fold(error)) => return Some(Went::Fold(error)),
            Err(SharedError::Mismatch { rank, theirs }) => {
                return Some(match sharing::judge(&theirs, &self.expected) {
                    Ok(Verdict::Mismatch(place)) => Went::Trouble(Trouble::Mismatch(Rank(rank as u32), place)),
                    seen => Went::Failed(Error::new(
                        Code::Internal,
                        format!("{:?} was expected on rank {rank}'s board, seen {seen:?}", self.expected),
                    )),
                });
            }
        }
        if self.machine.has_stopped() {
            return Some(Went::Sent);
        }
        if self.machine.shows_part() {
            return Some(Went::Part);
        }
        if self.machine.progress() > before {
            entered.patience.reset();
            naps.begin_again();
        }
        None
    }

    /// What there is to sleep for.
    fn rest(&self, group: &Group) -> Rest {
        match self.machine.waits_for(group) {
            _ if self.is_over => Rest::UntilChanged,
            Some((peer, beat)) => Rest::UntilPosted(peer, beat),
            // The last one has posted since it was looked for: nobody will tell of that again.
            None => Rest::Nothing,
        }
    }

    /// Whether somebody who is waited for makes no more calls. It is told on the board and, to whoever is not yet in this
    /// attempt, over the link, which shows as well that the other one is gone.
    fn ended(&self, entered: &Entered, mut lines: Option<&mut Lines>, seat: &Seat) -> Option<Trouble> {
        for peer in self.machine.awaited(&entered.group) {
            let told = unless_posted(&self.machine, &entered.group, peer, || {
                let place = entered.group.last_words(peer).and_then(|words| sharing::place(&words).ok());
                place.map(|place| Trouble::Mismatch(Rank(peer as u32), place))
            });
            let told = told.or_else(|| {
                let lines = lines.as_mut()?;
                unless_posted(&self.machine, &entered.group, peer, || lines.look(peer, seat).map(drop).err())
            });
            if told.is_some() {
                return told;
            }
        }
        None
    }
}

/// How a rank waits that has no more patience.
#[derive(Debug, PartialEq, Eq)]
enum Rest {
    /// It doesn't: it can go on.
    Nothing,
    /// For this rank's post of this beat.
    UntilPosted(usize, u64),
    /// For a later attempt.
    UntilChanged,
}

/// What a rank shows of its inputs in the area of a beat.
fn shown(group: &Group, peer: usize, beat: u64) -> Option<u64> {
    sharing::inputs(group.area(peer, beat).first_chunk()?).ok()
}

/// What a rank that is waited for has told with its end. Before it ended it may have posted, meanwhile, all that it was waited for: that
/// is seen by now, and then its end is of no concern here.
fn unless_posted<T>(
    machine: &SharedMachine,
    group: &Group,
    peer: usize,
    told: impl FnOnce() -> Option<T>,
) -> Option<T> {
    told().filter(|_| machine.awaited(group).contains(&peer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_collectives::shared::{first_beat, Shape, SharedCall};
    use rejoin_collectives::{Element, Order, Reduction, Seat};
    use rejoin_protocol::collective::Place;
    use rejoin_protocol::ids::{Lineage, Phase};
    use rejoin_transport::shm::{Patience, PeerSegment, Segment};
    use std::sync::Arc;

    /// Two ranks of one host, and a barrier of each.
    fn barriers() -> [(Group, SharedExchange); 2] {
        let segments: Vec<Arc<Segment>> = (0..2).map(|_| Arc::new(Segment::new(4096).unwrap())).collect();
        let peers: Vec<PeerSegment> = segments.iter().cloned().map(PeerSegment::Here).collect();
        [0, 1].map(|rank| {
            let group = Group::enter(rank, segments[rank].clone(), peers.clone(), 1);
            let shape = Shape::new(Seat::new(rank, 2), SharedCall::Barrier, 1, 4096, false).unwrap();
            let attempt = Generation { epoch: 1, number: 1 };
            let place = Place { lineage: Lineage(0), phase: Phase::Boot, seqno: 0 };
            let exchange = SharedExchange {
                machine: SharedMachine::new(shape, [1; 64], first_beat(1)),
                expected: Expected { attempt, place, digest: 0, inputs: 0 },
                result_bytes: 0,
                stop_at: None,
                is_over: false,
                heard: Vec::new(),
            };
            (group, exchange)
        })
    }

    #[test]
    fn a_rank_whose_peer_has_posted_while_it_was_looked_for_does_not_go_to_sleep() {
        let reducer = Reducer::new(Reduction::Sum, Element::U8).unwrap();
        let [(mut own, mut waiting), (mut its, mut other)] = barriers();
        assert_eq!(waiting.machine.advance(&mut own, &[], &mut [], &reducer), Ok(false));
        assert_eq!(waiting.rest(&own), Rest::UntilPosted(1, first_beat(1) + 1));
        assert_eq!(other.machine.advance(&mut its, &[], &mut [], &reducer), Ok(true));
        assert_eq!(waiting.rest(&own), Rest::Nothing);
        waiting.is_over = true;
        assert_eq!(waiting.rest(&own), Rest::UntilChanged, "what was posted is of a later attempt");
    }

    /// A call of both ranks of one host, with what rank 0 finds when it has been frozen since it entered attempt 1: rank 1 has posted
    /// its part there, and `meanwhile` happens before rank 0 wakes.
    fn wakes(identity: [u8; 64], meanwhile: impl FnOnce(&mut Group, [Arc<Segment>; 2])) -> (Option<Went>, bool) {
        let segments = [0, 1].map(|_| Arc::new(Segment::new(4096).unwrap()));
        let peers: Vec<PeerSegment> = segments.iter().cloned().map(PeerSegment::Here).collect();
        let reducer = Reducer::new(Reduction::Sum, Element::U8).unwrap();
        let call = |rank| {
            let allreduce = SharedCall::Allreduce { count: 8, order: Order::Rank };
            Shape::new(Seat::new(rank, 2), allreduce, 1, 4096, false).unwrap()
        };
        let mut entered = Entered {
            group: Group::enter(0, segments[0].clone(), peers.clone(), 1),
            base: first_beat(1),
            uncompared: None,
            patience: Patience::new(2),
        };
        let mut group = Group::enter(1, segments[1].clone(), peers, 1);
        let mut other = SharedMachine::new(call(1), identity, first_beat(1));
        assert_eq!(other.advance(&mut group, &[1; 8], &mut [0; 8], &reducer), Ok(false));
        let place = Place { lineage: Lineage(0), phase: Phase::Boot, seqno: 0 };
        let mut exchange = SharedExchange {
            machine: SharedMachine::new(call(0), [1; 64], first_beat(1)),
            expected: Expected { attempt: Generation { epoch: 1, number: 1 }, place, digest: 0, inputs: 0 },
            result_bytes: 8,
            stop_at: None,
            is_over: false,
            heard: Vec::new(),
        };
        meanwhile(&mut group, segments);
        let went = exchange.look(&mut entered, &mut Naps::default(), &[2; 8], &mut [0; 8], &reducer);
        (went, exchange.is_over)
    }

    #[test]
    fn a_rank_that_wakes_when_others_are_in_a_later_attempt_throws_away_what_it_has_read() {
        assert!(matches!(wakes([1; 64], |_, _| {}), (Some(Went::Done), false)), "nothing has happened meanwhile");
        let goes_on = |group: &mut Group, segments: [Arc<Segment>; 2]| {
            // Its board's memory is written again, and rank 0 can't tell that by the beats.
            group.own_area(first_beat(1) + 1)[64..72].copy_from_slice(&[77; 8]);
            let peers = segments.iter().cloned().map(PeerSegment::Here).collect();
            *group = Group::enter(1, segments[1].clone(), peers, 2);
        };
        let (went, is_over) = wakes([1; 64], goes_on);
        assert!(went.is_none() && is_over, "a result that nobody else has");
        let (went, is_over) = wakes([2; 64], goes_on);
        assert!(went.is_none() && is_over, "another call, of a later attempt, contradicts nobody");
    }

    #[test]
    fn a_rank_that_posts_and_ends_while_it_is_looked_at_has_made_the_call() {
        let reducer = Reducer::new(Reduction::Sum, Element::U8).unwrap();
        let [(mut own, mut waiting), (mut its, mut other)] = barriers();
        let (waiting, other) = (&mut waiting.machine, &mut other.machine);
        assert_eq!(waiting.advance(&mut own, &[], &mut [], &reducer), Ok(false));
        assert_eq!(unless_posted(waiting, &own, 1, || Some("its end")), Some("its end"));
        let ends = || {
            assert_eq!(other.advance(&mut its, &[], &mut [], &reducer), Ok(true));
            Some("its end")
        };
        assert_eq!(unless_posted(waiting, &own, 1, ends), None);
        assert_eq!(waiting.advance(&mut own, &[], &mut [], &reducer), Ok(true));
    }
}
