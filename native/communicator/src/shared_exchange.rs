//! Moves the bytes of one collective through shared memory under one generation, on the caller's thread.

use super::call_context::{CallContext, ExchangeOutcome};
use super::local_rank::LocalRank;
use super::memory::Entered;
use super::peer_links::{PeerLinks, Trouble};
use super::poll_interval::PollInterval;
use rejoin_collectives::shared::{self, Segments, SharedError, SharedMachine, COMMON_BYTES};
use rejoin_collectives::Reducer;
use rejoin_protocol::collective::frame::{Expected, Verdict};
use rejoin_protocol::collective::sharing;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Generation, Rank};
use rejoin_transport::shm::Group;
use rejoin_transport::Backoff;
use std::time::Instant;

const _: () = assert!(COMMON_BYTES == sharing::COMMON_BYTES, "what segments compare is what identities have in common");

/// One collective under one generation.
pub(super) struct SharedExchange {
    machine: SharedMachine,
    expected: Expected,
    result_bytes: usize,
    stop_at: Option<u64>,
    /// Others have gone on to a later generation: nothing that is read counts any more.
    is_over: bool,
    /// What others have shown of their inputs, once it is done.
    observed: Vec<(Rank, u64)>,
}

impl SharedExchange {
    pub(super) fn new(shape: shared::Shape, expected: Expected, entered: &Entered, stop_at: Option<u64>) -> Self {
        let result_bytes = shape.result_bytes();
        let mut machine =
            SharedMachine::new(shape, sharing::identity(&expected), entered.base).after(entered.uncompared);
        machine.stop_at(stop_at);
        SharedExchange { machine, expected, result_bytes, stop_at, is_over: false, observed: Vec::new() }
    }

    pub(super) fn generation(&self) -> Generation {
        self.expected.generation
    }

    pub(super) fn result_bytes(&self) -> usize {
        self.result_bytes
    }

    pub(super) fn sent(&self) -> u64 {
        self.machine.sent()
    }

    /// What others have shown of their inputs; nothing before it is done, and where no rank promises anything.
    pub(super) fn observed(&self) -> &[(Rank, u64)] {
        &self.observed
    }

    /// The ranks that are waited for, and what is known of them.
    pub(super) fn awaited(&self, entered: &Entered, peer_links: &PeerLinks) -> Vec<String> {
        let awaited = self.machine.awaited(&entered.group).into_iter();
        awaited.map(|peer| format!("rank {peer} (through shared memory; {})", peer_links.describe(peer))).collect()
    }

    /// Goes on until it is done or something else has to be done first.
    pub(super) fn advance(
        &mut self,
        input: &[u8],
        result: &mut [u8],
        reducer: &Reducer<'_>,
        context: &mut CallContext<'_>,
    ) -> ExchangeOutcome {
        if self.stop_at.take() == Some(0) {
            self.machine.stop_at(None);
            return ExchangeOutcome::Sent;
        }
        let CallContext { peer_links, memory, local_rank, poll, backoff, rank_profile, seen, limit } = context;
        let (local_rank, seen) = (*local_rank, *seen);
        let Some(entered) = memory.entered(self.expected.generation) else {
            return ExchangeOutcome::Failed(Error::new(
                Code::Internal,
                "a collective is under way on segments that were given up",
            ));
        };
        let mut poll_interval = PollInterval::default();
        loop {
            if !self.is_over {
                if let Some(went) = self.look(entered, backoff, &mut poll_interval, input, result, reducer) {
                    return went;
                }
            }
            if local_rank.changes() != seen {
                return ExchangeOutcome::Changed;
            }
            if !self.is_over && backoff.pause(entered.spins) {
                continue;
            }
            let now = Instant::now();
            let Some(left) = limit.left(now) else { return ExchangeOutcome::Late };
            if let Some(trouble) =
                self.ended(entered, poll_interval.looks_at_links().then_some(&mut **peer_links), local_rank)
            {
                return ExchangeOutcome::Trouble(trouble);
            }
            if peer_links.has_to_report(now) {
                return ExchangeOutcome::Changed;
            }
            match self.rest(&entered.group) {
                Rest::Nothing => {}
                Rest::UntilPublished(peer, step) => {
                    rank_profile.waiting(|| Some(peer));
                    entered.group.sleep(peer, step, left.min(poll_interval.next()));
                }
                Rest::UntilChanged => {
                    rank_profile.waiting(|| None);
                    local_rank.sleep(poll, left, || local_rank.changes() != seen);
                }
            }
            rank_profile.exchanging();
        }
    }

    /// Goes on as far as the segments allow; `None`: others have to publish first.
    fn look(
        &mut self,
        entered: &mut Entered,
        backoff: &mut Backoff,
        poll_interval: &mut PollInterval,
        input: &[u8],
        result: &mut [u8],
        reducer: &Reducer<'_>,
    ) -> Option<ExchangeOutcome> {
        let before = self.machine.progress();
        let advanced = self.machine.advance(&mut entered.group, input, result, reducer);
        if let (Ok(true), true) = (&advanced, self.expected.inputs != 0) {
            let (group, last) = (&entered.group, self.machine.last_step());
            let shown =
                self.machine.givers().filter_map(|peer| Some((Rank(peer as u32), observed_in(group, peer, last)?)));
            self.observed = shown.collect();
        }
        match advanced {
            Ok(false) => {}
            // Whatever was read, or seen to be wrong, may be of a later generation.
            _ if !entered.group.is_current() => self.is_over = true,
            Ok(true) => {
                backoff.over(Instant::now);
                if self.machine.last_step() > entered.base {
                    entered.base = self.machine.last_step();
                    entered.uncompared = self.machine.uncompared();
                }
                return Some(ExchangeOutcome::Done);
            }
            Err(SharedError::Fold(error)) => return Some(ExchangeOutcome::Fold(error)),
            Err(SharedError::Mismatch { rank, theirs }) => {
                return Some(match sharing::judge(&theirs, &self.expected) {
                    Ok(Verdict::Mismatch(collective_id)) => {
                        ExchangeOutcome::Trouble(Trouble::Mismatch(Rank(rank as u32), collective_id))
                    }
                    seen => ExchangeOutcome::Failed(Error::new(
                        Code::Internal,
                        format!("{:?} was expected on rank {rank}'s segment, seen {seen:?}", self.expected),
                    )),
                });
            }
        }
        if self.machine.has_stopped() {
            return Some(ExchangeOutcome::Sent);
        }
        if self.machine.shows_part() {
            return Some(ExchangeOutcome::Part);
        }
        if self.machine.progress() > before {
            backoff.over(Instant::now);
            poll_interval.begin_again();
        }
        None
    }

    /// What there is to sleep for.
    fn rest(&self, group: &Group) -> Rest {
        match self.machine.waits_for(group) {
            _ if self.is_over => Rest::UntilChanged,
            Some((peer, step)) => Rest::UntilPublished(peer, step),
            // The last one has published since it was looked for: that isn't reported again.
            None => Rest::Nothing,
        }
    }

    /// Whether a rank that is waited for makes no more calls. It is said on the segment and, to
    /// those not yet in this generation, over the link, which shows as well that the other one
    /// is gone.
    fn ended(
        &self,
        entered: &Entered,
        mut peer_links: Option<&mut PeerLinks>,
        local_rank: &LocalRank,
    ) -> Option<Trouble> {
        for peer in self.machine.awaited(&entered.group) {
            let reported = unless_published(&self.machine, &entered.group, peer, || {
                let collective_id =
                    entered.group.last_words(peer).and_then(|words| sharing::collective_id(&words).ok());
                collective_id.map(|collective_id| Trouble::Mismatch(Rank(peer as u32), collective_id))
            });
            let reported = reported.or_else(|| {
                let peer_links = peer_links.as_mut()?;
                unless_published(&self.machine, &entered.group, peer, || {
                    peer_links.look(peer, local_rank).map(drop).err()
                })
            });
            if reported.is_some() {
                return reported;
            }
        }
        None
    }
}

/// How a rank sleeps.
#[derive(Debug, PartialEq, Eq)]
enum Rest {
    /// It doesn't: it can go on.
    Nothing,
    /// For this rank's publish of this step.
    UntilPublished(usize, u64),
    /// For a later generation.
    UntilChanged,
}

/// What a rank shows of its inputs in the slot of a step.
fn observed_in(group: &Group, peer: usize, step: u64) -> Option<u64> {
    sharing::inputs(group.slot(peer, step).first_chunk()?).ok()
}

/// What a rank that is waited for has said with its end. Before it ended it may have published,
/// meanwhile, all that it was waited for: that is seen by now, and then its end is of no concern
/// here.
fn unless_published<T>(
    machine: &SharedMachine,
    group: &Group,
    peer: usize,
    reported: impl FnOnce() -> Option<T>,
) -> Option<T> {
    reported().filter(|_| machine.awaited(group).contains(&peer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_collectives::shared::{first_step, Shape, SharedCall};
    use rejoin_collectives::{Element, Order, Reduction, WorldRank};
    use rejoin_protocol::collective::CollectiveId;
    use rejoin_protocol::ids::{Lineage, Phase};
    use rejoin_transport::shm::{PeerSegment, Segment};
    use std::sync::Arc;

    /// Two ranks of one host, and a barrier of each.
    fn barriers() -> [(Group, SharedExchange); 2] {
        let segments: Vec<Arc<Segment>> = (0..2).map(|_| Arc::new(Segment::new(4096).unwrap())).collect();
        let peers: Vec<PeerSegment> = segments.iter().cloned().map(PeerSegment::Here).collect();
        [0, 1].map(|rank| {
            let group = Group::enter(rank, segments[rank].clone(), peers.clone(), 1);
            let shape = Shape::new(WorldRank::new(rank, 2), SharedCall::Barrier, 1, 4096, false).unwrap();
            let generation = Generation { epoch: 1, number: 1 };
            let collective_id = CollectiveId { lineage: Lineage(0), phase: Phase::Boot, seqno: 0 };
            let exchange = SharedExchange {
                machine: SharedMachine::new(shape, [1; 64], first_step(1)),
                expected: Expected { generation, collective_id, digest: 0, inputs: 0 },
                result_bytes: 0,
                stop_at: None,
                is_over: false,
                observed: Vec::new(),
            };
            (group, exchange)
        })
    }

    #[test]
    fn a_rank_whose_peer_has_published_while_it_was_looked_for_does_not_go_to_sleep() {
        let reducer = Reducer::new(Reduction::Sum, Element::U8).unwrap();
        let [(mut own, mut waiting), (mut its, mut other)] = barriers();
        assert_eq!(waiting.machine.advance(&mut own, &[], &mut [], &reducer), Ok(false));
        assert_eq!(waiting.rest(&own), Rest::UntilPublished(1, first_step(1) + 1));
        assert_eq!(other.machine.advance(&mut its, &[], &mut [], &reducer), Ok(true));
        assert_eq!(waiting.rest(&own), Rest::Nothing);
        waiting.is_over = true;
        assert_eq!(waiting.rest(&own), Rest::UntilChanged, "what was published is of a later generation");
    }

    /// A call of both ranks of one host, with what rank 0 finds when it has been frozen since it
    /// entered generation 1: rank 1 has published its part there, and `meanwhile` happens before
    /// rank 0 wakes.
    fn wakes(
        identity: [u8; 64],
        meanwhile: impl FnOnce(&mut Group, [Arc<Segment>; 2]),
    ) -> (Option<ExchangeOutcome>, bool) {
        let segments = [0, 1].map(|_| Arc::new(Segment::new(4096).unwrap()));
        let peers: Vec<PeerSegment> = segments.iter().cloned().map(PeerSegment::Here).collect();
        let reducer = Reducer::new(Reduction::Sum, Element::U8).unwrap();
        let call = |rank| {
            let allreduce = SharedCall::Allreduce { count: 8, order: Order::Rank };
            Shape::new(WorldRank::new(rank, 2), allreduce, 1, 4096, false).unwrap()
        };
        let mut entered = Entered {
            group: Group::enter(0, segments[0].clone(), peers.clone(), 1),
            base: first_step(1),
            uncompared: None,
            spins: 0,
        };
        let mut group = Group::enter(1, segments[1].clone(), peers, 1);
        let mut other = SharedMachine::new(call(1), identity, first_step(1));
        assert_eq!(other.advance(&mut group, &[1; 8], &mut [0; 8], &reducer), Ok(false));
        let collective_id = CollectiveId { lineage: Lineage(0), phase: Phase::Boot, seqno: 0 };
        let mut exchange = SharedExchange {
            machine: SharedMachine::new(call(0), [1; 64], first_step(1)),
            expected: Expected { generation: Generation { epoch: 1, number: 1 }, collective_id, digest: 0, inputs: 0 },
            result_bytes: 8,
            stop_at: None,
            is_over: false,
            observed: Vec::new(),
        };
        meanwhile(&mut group, segments);
        let went = exchange.look(
            &mut entered,
            &mut Backoff::default(),
            &mut PollInterval::default(),
            &[2; 8],
            &mut [0; 8],
            &reducer,
        );
        (went, exchange.is_over)
    }

    #[test]
    fn a_rank_that_wakes_when_others_are_in_a_later_generation_throws_away_what_it_has_read() {
        assert!(
            matches!(wakes([1; 64], |_, _| {}), (Some(ExchangeOutcome::Done), false)),
            "nothing has happened meanwhile"
        );
        let goes_on = |group: &mut Group, segments: [Arc<Segment>; 2]| {
            // Its segment's memory is written again, and rank 0 can't know that by the steps.
            group.own_slot(first_step(1) + 1)[64..72].copy_from_slice(&[77; 8]);
            let peers = segments.iter().cloned().map(PeerSegment::Here).collect();
            *group = Group::enter(1, segments[1].clone(), peers, 2);
        };
        let (went, is_over) = wakes([1; 64], goes_on);
        assert!(went.is_none() && is_over, "a result that no other has");
        let (went, is_over) = wakes([2; 64], goes_on);
        assert!(went.is_none() && is_over, "another call, of a later generation, contradicts none");
    }

    #[test]
    fn a_rank_that_publishes_and_ends_while_it_is_looked_at_has_made_the_call() {
        let reducer = Reducer::new(Reduction::Sum, Element::U8).unwrap();
        let [(mut own, mut waiting), (mut its, mut other)] = barriers();
        let (waiting, other) = (&mut waiting.machine, &mut other.machine);
        assert_eq!(waiting.advance(&mut own, &[], &mut [], &reducer), Ok(false));
        assert_eq!(unless_published(waiting, &own, 1, || Some("its end")), Some("its end"));
        let ends = || {
            assert_eq!(other.advance(&mut its, &[], &mut [], &reducer), Ok(true));
            Some("its end")
        };
        assert_eq!(unless_published(waiting, &own, 1, ends), None);
        assert_eq!(waiting.advance(&mut own, &[], &mut [], &reducer), Ok(true));
    }
}
