//! The memory that ranks of one host share, and one rank's part in it. Production's machine runs on it
//! ([`rejoin_collectives::shared`]); only the memory itself is made up.

use super::program::combine;
use rejoin_collectives::shared::IDENTITY_BYTES;
use rejoin_collectives::shared::{first_step, Identity, Segments, Shape, SharedCall, SharedError, SharedMachine};
use rejoin_collectives::{Element, Reducer, Reduction, WorldRank};
use rejoin_protocol::collective::frame::{Expected, Verdict};
use rejoin_protocol::collective::{sharing, SegmentAddress};
use rejoin_protocol::collective::{Call, CollectiveId, Operation};
use rejoin_protocol::ids::{Generation, Millis, Rank};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of what a rank gives to a call.
const VALUE_BYTES: usize = 8;
/// A word fits in two steps: machines go on from slice to slice.
const SLOT_BYTES: usize = IDENTITY_BYTES + VALUE_BYTES / 2;
/// How long a segment that can't be opened is tried again, and how often the tracker is notified: as in the agent.
const OPENING_MILLIS: u64 = 1_000;

/// The segment that a process makes when it joins the so manieth time.
pub(super) fn segment_address(process: u32, joins: u32) -> SegmentAddress {
    let nonce = u64::from(process) << 32 | u64::from(joins);
    SegmentAddress { process, descriptor: joins as i32, nonce, slot_bytes: SLOT_BYTES as u64 }
}

/// All segments of a job, as they are now.
#[derive(Debug, Default)]
pub struct Memory {
    segments: BTreeMap<u64, Segment>,
    /// Processes that are dead: their segments can't be opened any more.
    gone: BTreeSet<u32>,
    publishes: u64,
}

#[derive(Debug)]
struct Segment {
    published: u64,
    slots: [[u8; SLOT_BYTES]; 2],
    words: Option<Identity>,
}

impl Memory {
    /// A process has died.
    pub fn is_gone(&mut self, process: u32) {
        self.gone.insert(process);
    }

    /// No more calls come from the rank with this segment.
    pub fn ends(&mut self, segment: u64, words: Identity) {
        self.segment(segment).words = Some(words);
    }

    /// A number that grows with each step that is published.
    pub fn publishes(&self) -> u64 {
        self.publishes
    }

    fn segment(&mut self, nonce: u64) -> &mut Segment {
        let nothing = Segment { published: 0, slots: [[0; SLOT_BYTES]; 2], words: None };
        self.segments.entry(nonce).or_insert(nothing)
    }
}

/// The segments of all ranks as one of them sees them.
struct Seen<'m> {
    memory: &'m mut Memory,
    nonces: &'m [u64],
    rank: usize,
}

impl Segments for Seen<'_> {
    fn published(&self, rank: usize) -> u64 {
        self.memory.segments.get(&self.nonces[rank]).map_or(0, |segment| segment.published)
    }

    fn slot(&self, rank: usize, step: u64) -> &[u8] {
        &self.memory.segments[&self.nonces[rank]].slots[step as usize % 2]
    }

    fn own_slot(&mut self, step: u64) -> &mut [u8] {
        &mut self.memory.segment(self.nonces[self.rank]).slots[step as usize % 2]
    }

    fn publish(&mut self, step: u64) {
        self.memory.publishes += 1;
        self.memory.segment(self.nonces[self.rank]).published = step;
    }
}

/// One rank's part, in one incarnation.
#[derive(Clone, Debug)]
pub(super) struct Sharing {
    own: SegmentAddress,
    /// It can open no segment but its own.
    is_blind: bool,
    /// Segments that it has opened.
    open: BTreeSet<u64>,
    closed: Option<Closed>,
    entered: Option<Entered>,
    under: Option<CallInMemory>,
}

/// A segment that can't be opened.
#[derive(Clone, Debug)]
struct Closed {
    generation: Generation,
    since: Millis,
    reported: Option<Millis>,
}

/// All segments of a generation.
#[derive(Clone, Debug)]
struct Entered {
    generation: Generation,
    nonces: Vec<u64>,
    base: u64,
    uncompared: Option<Identity>,
}

/// A call under way.
#[derive(Clone, Debug)]
struct CallInMemory {
    generation: Generation,
    collective_id: CollectiveId,
    machine: SharedMachine,
    result: Vec<u8>,
}

/// What came of a look at the memory.
pub(super) enum Looked {
    /// Others have to do something first.
    Waits,
    /// This rank's segment can't be opened; the tracker has to know if so.
    Closed(Rank, bool),
    /// What all have given comes to this, and what they have shown of their inputs.
    Done(u64, Vec<(Rank, u64)>),
    /// Another rank is at another collective, or makes another call.
    Mismatch(Rank, CollectiveId),
}

impl Sharing {
    /// With this segment of its own.
    pub(super) fn new(own: SegmentAddress, is_blind: bool) -> Self {
        Sharing { own, is_blind, open: BTreeSet::new(), closed: None, entered: None, under: None }
    }

    /// Whether a segment couldn't be opened that this generation needs.
    pub(super) fn is_shut_out(&self, generation: Generation) -> bool {
        self.closed.as_ref().is_some_and(|closed| closed.generation == generation)
    }

    /// Goes on with a call in a generation that has these segments, as far as it can now.
    pub(super) fn look(
        &mut self,
        segments: &[SegmentAddress],
        call: &Call,
        expected: &Expected,
        (rank, own): (Rank, u64),
        now: Millis,
        memory: &mut Memory,
    ) -> Looked {
        let Expected { generation, collective_id, .. } = *expected;
        if self.entered.as_ref().is_none_or(|entered| entered.generation != generation) {
            if let Some(looked) = self.enter(generation, segments, rank, now, memory) {
                return looked;
            }
        }
        let Some(Entered { nonces, base, uncompared, .. }) = &mut self.entered else { return Looked::Waits };
        let world = nonces.len();
        if self
            .under
            .as_ref()
            .is_none_or(|under| (under.generation, under.collective_id) != (generation, collective_id))
        {
            let shape = Shape::new(WorldRank::new(rank.0 as usize, world), shared(call, world), 1, SLOT_BYTES, false)
                .expect("a byte fits in a slot");
            let result = vec![0; shape.result_bytes()];
            let machine = SharedMachine::new(shape, sharing::identity(expected), *base).after(*uncompared);
            self.under = Some(CallInMemory { generation, collective_id, machine, result });
        }
        let Some(CallInMemory { machine, result, .. }) = &mut self.under else { return Looked::Waits };
        let mut seen = Seen { memory, nonces, rank: rank.0 as usize };
        let gives = call.operation != Operation::Barrier && call.root.is_none_or(|root| root == rank);
        let value = own.to_le_bytes();
        let input = if gives { &value[..] } else { &[] };
        let reducer = Reducer::new(Reduction::Sum, Element::U8).expect("bytes can be added");
        let came = machine.advance(&mut seen, input, result, &reducer);
        // Whatever was read, or seen to be wrong, may be of a later generation: then others have gone
        // on without this rank.
        let later = first_step(sharing::generation_number(generation).unwrap_or_default() + 1);
        if (0..world).any(|peer| peer != rank.0 as usize && seen.published(peer) >= later) {
            return Looked::Waits;
        }
        match came {
            Ok(true) => {
                if machine.last_step() > *base {
                    *base = machine.last_step();
                    *uncompared = machine.uncompared();
                }
                let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
                let given: Vec<u64> = match call.root {
                    Some(_) => vec![word(result); world],
                    None => result.chunks(VALUE_BYTES).map(word).collect(),
                };
                let shown = |peer: usize| {
                    let slot = seen.slot(peer, machine.last_step()).first_chunk()?;
                    Some((Rank(peer as u32), sharing::inputs(slot).ok()?))
                };
                let observed = machine.givers().filter_map(shown).collect();
                self.under = None;
                Looked::Done(combine(call, &given), observed)
            }
            Ok(false) => {
                let ended = machine.awaited(&seen).into_iter().find_map(|peer| {
                    let words = seen.memory.segments.get(&nonces[peer])?.words?;
                    Some(Looked::Mismatch(Rank(peer as u32), sharing::collective_id(&words).ok()?))
                });
                ended.unwrap_or(Looked::Waits)
            }
            Err(SharedError::Mismatch { rank, theirs }) => match sharing::judge(&theirs, expected) {
                Ok(Verdict::Mismatch(collective_id)) => Looked::Mismatch(Rank(rank as u32), collective_id),
                seen => panic!(
                    "rank {rank} at {collective_id} was seen to do {seen:?} on its segment in the same generation"
                ),
            },
            Err(SharedError::Fold(error)) => panic!("bytes can't be added: {error}"),
        }
    }

    /// Opens all segments of a generation, and publishes that this rank is in it.
    fn enter(
        &mut self,
        generation: Generation,
        segments: &[SegmentAddress],
        rank: Rank,
        now: Millis,
        memory: &mut Memory,
    ) -> Option<Looked> {
        let nonces: Vec<u64> = segments.iter().map(|segment| segment.nonce).collect();
        let opens = |segment: &SegmentAddress| {
            let is_new_to_reach = self.open.contains(&segment.nonce) || !memory.gone.contains(&segment.process);
            *segment == self.own || (!self.is_blind && is_new_to_reach)
        };
        if let Some(peer) = segments.iter().position(|segment| !opens(segment)) {
            let closed = match self.closed.take() {
                Some(closed) if closed.generation == generation => closed,
                _ => Closed { generation, since: now, reported: None },
            };
            let is_due = now >= closed.reported.unwrap_or(closed.since).plus(OPENING_MILLIS);
            self.closed = Some(Closed { reported: if is_due { Some(now) } else { closed.reported }, ..closed });
            return Some(Looked::Closed(Rank(peer as u32), is_due));
        }
        if nonces[rank.0 as usize] != self.own.nonce {
            // The plan is about another incarnation: this one is about to hear that it is over.
            return Some(Looked::Waits);
        }
        let base = first_step(sharing::generation_number(generation)?);
        memory.publishes += 1;
        memory.segment(self.own.nonce).published = base;
        self.open = nonces.iter().copied().collect();
        self.closed = None;
        self.entered = Some(Entered { generation, nonces, base, uncompared: None });
        None
    }

    /// The nonce of its own segment.
    pub(super) fn segment(&self) -> u64 {
        self.own.nonce
    }
}

/// A call as the machine knows it. What all give is brought to all, and combined there.
fn shared(call: &Call, world: usize) -> SharedCall {
    match (call.operation, call.root) {
        (Operation::Barrier, _) => SharedCall::Barrier,
        (_, Some(root)) => SharedCall::Broadcast { root: root.0 as usize, bytes: VALUE_BYTES },
        _ => SharedCall::Allgather { part_bytes: vec![VALUE_BYTES; world] },
    }
}
