//! What one rank does in a collective, as data.

use crate::{Buffer, Extent};
use alloc::vec::Vec;

/// The rank that a schedule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorldRank {
    /// The number of the rank whose part this is, from 0.
    pub rank: usize,
    /// How many ranks there are.
    pub world: usize,
}

impl WorldRank {
    /// A rank in a world.
    ///
    /// # Panics
    /// When the rank isn't within the world.
    pub fn new(rank: usize, world: usize) -> Self {
        assert!(rank < world, "rank {rank} in a world of {world}");
        WorldRank { rank, world }
    }
}

/// Place of a [`Receive`] in [`Schedule::receives`].
pub(crate) type ReceiveId = usize;

/// Place of a [`Work`] in [`Schedule::works`].
pub(crate) type WorkId = usize;

/// A run of bytes that comes from a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Receive {
    /// How many bytes come.
    pub(crate) length: usize,
    /// Where they land. When this is shorter than `length`, it is a ring: byte i lands at i modulo its length, as soon
    /// as the one work that reads it is past what lay there.
    pub(crate) landing: Extent,
    /// For a ring: the work that reads it, and as which of its sources.
    pub(crate) reader: Option<(WorkId, usize)>,
}

/// When the bytes of a [`Send`] are there to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// At once.
    Open,
    /// Byte i as soon as byte i of this receive has come.
    Received(ReceiveId),
    /// Byte i as soon as this work has made byte i.
    Made(WorkId),
}

/// A run of bytes that goes to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Send {
    /// Which bytes.
    pub(crate) extent: Extent,
    /// When they are there.
    pub(crate) gate: Gate,
}

/// Where an operand of a work comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// This rank's input, from this byte on.
    Input(usize),
    /// What is received, from this byte on.
    Received(ReceiveId, usize),
}

/// Something to be done here: the left fold of the sources, byte run by byte run, as they come. One source: a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// Where it is made, in the result. `None`: nothing is, it only waits until every source has come.
    pub(crate) into: Option<Extent>,
    /// How many bytes each source has, and the work makes.
    pub(crate) length: usize,
    /// The operands, from left to right.
    pub(crate) sources: Vec<Source>,
}

/// What goes to and comes from one peer, each in the order of its byte stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) sends: Vec<Send>,
    pub(crate) receives: Vec<ReceiveId>,
}

/// What one rank does in a collective: which bytes go to which rank, which come from which and where they land, and
/// what is folded. Pure data, the same for every call of the same shape, so it can be kept and used again.
///
/// Towards each peer, and from each peer, it is one stream of bytes without any marks in it: both ends know what comes
/// next. [`crate::LinkMachine`] executes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub(crate) me: WorldRank,
    pub(crate) element_bytes: usize,
    pub(crate) input_bytes: usize,
    pub(crate) result_bytes: usize,
    pub(crate) scratch_bytes: usize,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) receives: Vec<Receive>,
    pub(crate) works: Vec<Work>,
}

impl Schedule {
    /// A schedule in which nothing happens yet.
    pub(crate) fn new(me: WorldRank, element_bytes: usize, input_bytes: usize, result_bytes: usize) -> Self {
        Schedule {
            me,
            element_bytes,
            input_bytes,
            result_bytes,
            scratch_bytes: 0,
            lanes: alloc::vec![Lane::default(); me.world],
            receives: Vec::new(),
            works: Vec::new(),
        }
    }

    /// Whose it is.
    pub fn world_rank(&self) -> WorldRank {
        self.me
    }

    /// Bytes of the caller's input.
    pub fn input_bytes(&self) -> usize {
        self.input_bytes
    }

    /// Bytes of the result at this rank.
    pub fn result_bytes(&self) -> usize {
        self.result_bytes
    }

    /// Bytes of scratch that are needed.
    pub fn scratch_bytes(&self) -> usize {
        self.scratch_bytes
    }

    /// The ranks that something goes to or comes from, ascending.
    pub fn peers(&self) -> impl Iterator<Item = usize> + '_ {
        let busy = |lane: &Lane| !lane.sends.is_empty() || !lane.receives.is_empty();
        self.lanes.iter().enumerate().filter(move |(_, lane)| busy(lane)).map(|(rank, _)| rank)
    }

    /// All bytes that go to a peer.
    pub fn bytes_to(&self, peer: usize) -> usize {
        self.lanes[peer].sends.iter().map(|send| send.extent.length).sum()
    }

    /// All bytes that come from a peer.
    pub fn bytes_from(&self, peer: usize) -> usize {
        self.lanes[peer].receives.iter().map(|&id| self.receives[id].length).sum()
    }

    /// Room in scratch, at an address that suits a cache line when the scratch's start does.
    pub(crate) fn room(&mut self, length: usize) -> Extent {
        let start = self.scratch_bytes.next_multiple_of(64);
        self.scratch_bytes = start + length;
        Extent::new(Buffer::Scratch, start, length)
    }

    /// `landing.length` bytes come from a peer. Nothing happens for no bytes, but the id is good all the same.
    pub(crate) fn receive(&mut self, peer: usize, landing: Extent) -> ReceiveId {
        self.receive_around(peer, landing.length, landing)
    }

    /// `length` bytes come from a peer, into a ring when the landing is shorter.
    pub(crate) fn receive_around(&mut self, peer: usize, length: usize, landing: Extent) -> ReceiveId {
        debug_assert!(
            landing.length.is_multiple_of(self.element_bytes) || landing.length == length,
            "an element would be split"
        );
        debug_assert!(landing.length <= length && (length == 0 || landing.length > 0));
        let id = self.receives.len();
        self.receives.push(Receive { length, landing, reader: None });
        if length > 0 {
            self.lanes[peer].receives.push(id);
        }
        id
    }

    /// Bytes go to a peer, when the gate lets them.
    pub(crate) fn send(&mut self, peer: usize, extent: Extent, gate: Gate) {
        if extent.length > 0 {
            self.lanes[peer].sends.push(Send { extent, gate });
        }
    }

    /// The fold of these sources into the result.
    pub(crate) fn fold(&mut self, into: Extent, sources: Vec<Source>) -> WorkId {
        debug_assert_eq!(into.buffer, Buffer::Result);
        self.work(Work { into: Some(into), length: into.length, sources })
    }

    /// Waits until `length` bytes have come in each of these.
    pub(crate) fn join(&mut self, length: usize, receives: Vec<ReceiveId>) -> WorkId {
        self.work(Work {
            into: None,
            length,
            sources: receives.into_iter().map(|id| Source::Received(id, 0)).collect(),
        })
    }

    fn work(&mut self, work: Work) -> WorkId {
        let id = self.works.len();
        for (place, source) in work.sources.iter().enumerate() {
            if let Source::Received(receive, offset) = *source {
                let receive = &mut self.receives[receive];
                debug_assert!(offset + work.length <= receive.length, "a source with too few bytes");
                if receive.landing.length < receive.length {
                    debug_assert!(offset == 0 && work.length == receive.length && receive.reader.is_none());
                    receive.reader = Some((id, place));
                }
            }
        }
        self.works.push(work);
        id
    }
}
