//! The memory that ranks of one host share, and one rank's part in it. Production's machine runs on it
//! ([`rejoin_collectives::shared`]); only the memory itself is made up.

use super::program::combine;
use rejoin_collectives::shared::IDENTITY_BYTES;
use rejoin_collectives::shared::{first_beat, Boards, Identity, Shape, SharedCall, SharedError, SharedMachine};
use rejoin_collectives::{Element, Reducer, Reduction, Seat};
use rejoin_protocol::collective::frame::{Expected, Verdict};
use rejoin_protocol::collective::sharing::{self, Invitation};
use rejoin_protocol::collective::{Call, Operation, Place};
use rejoin_protocol::ids::{Generation, Millis, Rank};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of what a rank gives to a call.
const VALUE_BYTES: usize = 8;
/// A word fits in two beats: machines go on from slice to slice.
const AREA_BYTES: usize = IDENTITY_BYTES + VALUE_BYTES / 2;
/// How long a board that can't be opened is tried again, and how often the tracker is told: as in the agent.
const OPENING_MILLIS: u64 = 1_000;

/// The board that a process makes when it joins the so manieth time.
pub(super) fn invitation(process: u32, joins: u32) -> Invitation {
    let nonce = u64::from(process) << 32 | u64::from(joins);
    Invitation { process, descriptor: joins as i32, nonce, area_bytes: AREA_BYTES as u64 }
}

/// All boards of a job, as they are now.
#[derive(Debug, Default)]
pub struct Memory {
    boards: BTreeMap<u64, Board>,
    /// Processes that are dead: nobody who hasn't opened their boards can open them.
    gone: BTreeSet<u32>,
    posts: u64,
}

#[derive(Debug)]
struct Board {
    posted: u64,
    areas: [[u8; AREA_BYTES]; 2],
    words: Option<Identity>,
}

impl Memory {
    /// A process has died.
    pub fn is_gone(&mut self, process: u32) {
        self.gone.insert(process);
    }

    /// No more calls come from the rank with this board.
    pub fn ends(&mut self, board: u64, words: Identity) {
        self.board(board).words = Some(words);
    }

    /// A number that grows with each post.
    pub fn posts(&self) -> u64 {
        self.posts
    }

    fn board(&mut self, nonce: u64) -> &mut Board {
        let nothing = Board { posted: 0, areas: [[0; AREA_BYTES]; 2], words: None };
        self.boards.entry(nonce).or_insert(nothing)
    }
}

/// The boards of all ranks as one of them sees them.
struct Seen<'m> {
    memory: &'m mut Memory,
    nonces: &'m [u64],
    rank: usize,
}

impl Boards for Seen<'_> {
    fn posted(&self, rank: usize) -> u64 {
        self.memory.boards.get(&self.nonces[rank]).map_or(0, |board| board.posted)
    }

    fn area(&self, rank: usize, beat: u64) -> &[u8] {
        &self.memory.boards[&self.nonces[rank]].areas[beat as usize % 2]
    }

    fn own_area(&mut self, beat: u64) -> &mut [u8] {
        &mut self.memory.board(self.nonces[self.rank]).areas[beat as usize % 2]
    }

    fn post(&mut self, beat: u64) {
        self.memory.posts += 1;
        self.memory.board(self.nonces[self.rank]).posted = beat;
    }
}

/// One rank's part, in one incarnation.
#[derive(Clone, Debug)]
pub(super) struct Sharing {
    own: Invitation,
    /// It can open no board but its own.
    is_blind: bool,
    /// Boards that it has opened.
    open: BTreeSet<u64>,
    closed: Option<Closed>,
    entered: Option<Entered>,
    under: Option<Under>,
}

/// A board that can't be opened.
#[derive(Clone, Debug)]
struct Closed {
    attempt: Generation,
    since: Millis,
    told: Option<Millis>,
}

/// All boards of an attempt.
#[derive(Clone, Debug)]
struct Entered {
    attempt: Generation,
    nonces: Vec<u64>,
    base: u64,
    uncompared: Option<Identity>,
}

/// A call under way.
#[derive(Clone, Debug)]
struct Under {
    attempt: Generation,
    place: Place,
    machine: SharedMachine,
    result: Vec<u8>,
}

/// What came of a look at the memory.
pub(super) enum Looked {
    /// Others have to do something first.
    Waits,
    /// This rank's board can't be opened; the tracker has to know if so.
    Closed(Rank, bool),
    /// What all have given comes to this, and what they have shown of their inputs.
    Done(u64, Vec<(Rank, u64)>),
    /// Another rank is at another place, or makes another call.
    Mismatch(Rank, Place),
}

impl Sharing {
    /// With this board of its own.
    pub(super) fn new(own: Invitation, is_blind: bool) -> Self {
        Sharing { own, is_blind, open: BTreeSet::new(), closed: None, entered: None, under: None }
    }

    /// Whether a board couldn't be opened that this attempt needs.
    pub(super) fn is_shut_out(&self, attempt: Generation) -> bool {
        self.closed.as_ref().is_some_and(|closed| closed.attempt == attempt)
    }

    /// Goes on with a call in an attempt that has these boards, as far as it can now.
    pub(super) fn look(
        &mut self,
        boards: &[Invitation],
        call: &Call,
        expected: &Expected,
        (rank, own): (Rank, u64),
        now: Millis,
        memory: &mut Memory,
    ) -> Looked {
        let Expected { attempt, place, .. } = *expected;
        if self.entered.as_ref().is_none_or(|entered| entered.attempt != attempt) {
            if let Some(looked) = self.enter(attempt, boards, rank, now, memory) {
                return looked;
            }
        }
        let Some(Entered { nonces, base, uncompared, .. }) = &mut self.entered else { return Looked::Waits };
        let world = nonces.len();
        if self.under.as_ref().is_none_or(|under| (under.attempt, under.place) != (attempt, place)) {
            let shape = Shape::new(Seat::new(rank.0 as usize, world), shared(call, world), 1, AREA_BYTES, false)
                .expect("a byte fits in an area");
            let result = vec![0; shape.result_bytes()];
            let machine = SharedMachine::new(shape, sharing::identity(expected), *base).after(*uncompared);
            self.under = Some(Under { attempt, place, machine, result });
        }
        let Some(Under { machine, result, .. }) = &mut self.under else { return Looked::Waits };
        let mut seen = Seen { memory, nonces, rank: rank.0 as usize };
        let gives = call.operation != Operation::Barrier && call.root.is_none_or(|root| root == rank);
        let value = own.to_le_bytes();
        let input = if gives { &value[..] } else { &[] };
        let reducer = Reducer::new(Reduction::Sum, Element::U8).expect("bytes can be added");
        let came = machine.advance(&mut seen, input, result, &reducer);
        // Whatever was read, or seen to be wrong, may be of a later attempt: then others have gone on without this rank.
        let later = first_beat(sharing::attempt_number(attempt).unwrap_or_default() + 1);
        if (0..world).any(|peer| peer != rank.0 as usize && seen.posted(peer) >= later) {
            return Looked::Waits;
        }
        match came {
            Ok(true) => {
                if machine.last_beat() > *base {
                    *base = machine.last_beat();
                    *uncompared = machine.uncompared();
                }
                let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
                let given: Vec<u64> = match call.root {
                    Some(_) => vec![word(result); world],
                    None => result.chunks(VALUE_BYTES).map(word).collect(),
                };
                let shown = |peer: usize| {
                    let area = seen.area(peer, machine.last_beat()).first_chunk()?;
                    Some((Rank(peer as u32), sharing::inputs(area).ok()?))
                };
                let heard = machine.givers().filter_map(shown).collect();
                self.under = None;
                Looked::Done(combine(call, &given), heard)
            }
            Ok(false) => {
                let ended = machine.awaited(&seen).into_iter().find_map(|peer| {
                    let words = seen.memory.boards.get(&nonces[peer])?.words?;
                    Some(Looked::Mismatch(Rank(peer as u32), sharing::place(&words).ok()?))
                });
                ended.unwrap_or(Looked::Waits)
            }
            Err(SharedError::Mismatch { rank, theirs }) => match sharing::judge(&theirs, expected) {
                Ok(Verdict::Mismatch(place)) => Looked::Mismatch(Rank(rank as u32), place),
                seen => panic!("rank {rank} at {place} was seen to do {seen:?} on its board in the same attempt"),
            },
            Err(SharedError::Fold(error)) => panic!("bytes can't be added: {error}"),
        }
    }

    /// Opens all boards of an attempt, and posts that this rank is in it.
    fn enter(
        &mut self,
        attempt: Generation,
        boards: &[Invitation],
        rank: Rank,
        now: Millis,
        memory: &mut Memory,
    ) -> Option<Looked> {
        let nonces: Vec<u64> = boards.iter().map(|board| board.nonce).collect();
        let opens = |board: &Invitation| {
            let is_new_to_reach = self.open.contains(&board.nonce) || !memory.gone.contains(&board.process);
            *board == self.own || (!self.is_blind && is_new_to_reach)
        };
        if let Some(peer) = boards.iter().position(|board| !opens(board)) {
            let closed = match self.closed.take() {
                Some(closed) if closed.attempt == attempt => closed,
                _ => Closed { attempt, since: now, told: None },
            };
            let is_due = now >= closed.told.unwrap_or(closed.since).plus(OPENING_MILLIS);
            self.closed = Some(Closed { told: if is_due { Some(now) } else { closed.told }, ..closed });
            return Some(Looked::Closed(Rank(peer as u32), is_due));
        }
        if nonces[rank.0 as usize] != self.own.nonce {
            // The plan is about another incarnation: this one is about to hear that it is over.
            return Some(Looked::Waits);
        }
        let base = first_beat(sharing::attempt_number(attempt)?);
        memory.posts += 1;
        memory.board(self.own.nonce).posted = base;
        self.open = nonces.iter().copied().collect();
        self.closed = None;
        self.entered = Some(Entered { attempt, nonces, base, uncompared: None });
        None
    }

    /// The nonce of its own board.
    pub(super) fn board(&self) -> u64 {
        self.own.nonce
    }
}

/// A call as the machine knows it. What all give is brought to everybody, and combined there.
fn shared(call: &Call, world: usize) -> SharedCall {
    match (call.operation, call.root) {
        (Operation::Barrier, _) => SharedCall::Barrier,
        (_, Some(root)) => SharedCall::Broadcast { root: root.0 as usize, bytes: VALUE_BYTES },
        _ => SharedCall::Allgather { part_bytes: vec![VALUE_BYTES; world] },
    }
}
