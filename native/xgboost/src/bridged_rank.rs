//! One incarnation of a rank of this process, as the bridge sees it.

use crate::bootstrap::Bootstrap;
use crate::catch_up::CatchUp;
use crate::channel::{Channel, StartPoint};
use crate::dialogue::Dialogue;
use crate::gate::Gate;
use crate::topology::{connected, WireVariant};
use crossbeam::channel::Sender;
use mio::net::TcpStream;
use mio::Token;
use rejoin_protocol::channel::PhaseMark;
use rejoin_protocol::error::Error;
use rejoin_protocol::ids::{Incarnation, MemberId, Phase, Rank};
use rejoin_transport::Link;
use std::collections::HashMap;
use std::time::Instant;

/// What a trainer's thread waits for, while its worker makes no calls.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// That everything is at rest, and that the phase is entered.
    Enter(Phase, PhaseMark),
    /// That everything that the worker wrote is counted.
    Count,
    /// The same, at the beginning of this round.
    Round(u32),
}

/// A trainer's thread that waits. It is answered with how many bytes its worker has sent in the phase that it was in.
pub(crate) struct Waiting {
    pub(crate) goal: Goal,
    pub(crate) since: Instant,
    pub(crate) reply: Sender<Result<u64, Error>>,
}

/// Whether a fault rule holds the rank's bytes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// They flow.
    No,
    /// The process is about to be killed.
    ForGood,
    /// The process is about to be stopped; when it is woken, this moment has passed.
    Until(Instant),
}

/// One connection of the worker to its tracker.
pub(crate) struct Talk {
    pub(crate) stream: TcpStream,
    pub(crate) dialogue: Dialogue,
    pub(crate) outbox: Vec<u8>,
    pub(crate) greeted: bool,
}

/// What plays the tracker for a worker.
pub(crate) struct Door {
    pub(crate) gate: Gate,
    /// What the worker has to say as its task id.
    pub(crate) secret: String,
    pub(crate) talks: HashMap<Token, Talk>,
    pub(crate) bootstrap: Option<Bootstrap>,
    /// The channels' sockets were handed over once.
    pub(crate) opened: bool,
}

impl Door {
    /// When it has to be looked at though no event comes.
    pub(crate) fn again(&self) -> Option<Instant> {
        let bootstrap = self.bootstrap.as_ref().and_then(Bootstrap::again);
        [self.gate.again(), bootstrap].into_iter().flatten().min()
    }
}

/// Where an incarnation trains, and its channels.
pub(crate) struct Training {
    pub(crate) world: u32,
    pub(crate) place: StartPoint,
    /// By peer; the rank's own place holds a channel that is never used.
    pub(crate) channels: Vec<Channel>,
    pub(crate) variant: Option<WireVariant>,
    pub(crate) phase: Option<Phase>,
    /// Bytes that left the worker in this phase, over all channels.
    pub(crate) left: u64,
    pub(crate) catch_up: CatchUp,
}

impl Training {
    /// Peers that XGBoost connects with this rank; none before the wire variant is known.
    pub(crate) fn neighbours(&self, rank: Rank) -> Vec<Rank> {
        let Some(variant) = self.variant else { return Vec::new() };
        crate::topology::neighbours(variant, self.world, rank)
    }

    /// Whether XGBoost connects the two; false before the wire variant is known.
    pub(crate) fn connects(&self, rank: Rank, peer: Rank) -> bool {
        peer.0 < self.world && self.variant.is_some_and(|variant| connected(variant, self.world, rank, peer))
    }

    /// Bytes that the worker has produced again, over all channels.
    pub(crate) fn regenerated(&self, rank: Rank) -> u64 {
        let channels = self.neighbours(rank).into_iter().filter_map(|peer| self.channels.get(peer.0 as usize));
        channels.map(|channel| channel.outgoing.regenerated()).sum()
    }

    /// `None` for a number beyond the world.
    pub(crate) fn channel(&mut self, peer: Rank) -> Option<&mut Channel> {
        self.channels.get_mut(peer.0 as usize)
    }
}

/// See the module's documentation.
pub(crate) struct BridgedRank {
    pub(crate) rank: Rank,
    pub(crate) incarnation: Incarnation,
    pub(crate) training: Option<Training>,
    pub(crate) door: Option<Door>,
    pub(crate) waiting: Option<Waiting>,
    pub(crate) failure: Option<Error>,
    pub(crate) halt: Halt,
    /// Links that came before the start.
    pub(crate) early_links: Vec<(MemberId, Link)>,
}

impl BridgedRank {
    pub(crate) fn new(rank: Rank, incarnation: Incarnation) -> Self {
        BridgedRank {
            rank,
            incarnation,
            training: None,
            door: None,
            waiting: None,
            failure: None,
            halt: Halt::No,
            early_links: Vec::new(),
        }
    }

    /// Rank and incarnation.
    pub(crate) fn id(&self) -> MemberId {
        MemberId { rank: self.rank, incarnation: self.incarnation }
    }

    /// Whether its bytes may move.
    pub(crate) fn moves(&self) -> bool {
        self.failure.is_none() && self.halt == Halt::No
    }

    /// A call that waits ends with this.
    pub(crate) fn answer(&mut self, result: Result<u64, Error>) {
        if let Some(waiting) = self.waiting.take() {
            // No receiver means that the thread is gone, which wanted to know.
            let _ = waiting.reply.send(result);
        }
    }
}
