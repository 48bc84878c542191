//! How the bytes of one collective go under one attempt: over links, or through shared memory.

use super::exchange::{Exchange, Went};
use super::lines::Lines;
use super::memory::Memory;
use super::notes::Notes;
use super::seat::Seat;
use super::shared_exchange::SharedExchange;
use mio::Poll;
use rejoin_collectives::{Buffers, Reducer, Schedule};
use rejoin_protocol::ids::Rank;
use std::sync::Arc;
use std::time::Instant;

/// What belongs to the rank and is used by the call that is under way.
pub(super) struct Tools<'a> {
    pub(super) lines: &'a mut Lines,
    pub(super) memory: &'a mut Memory,
    pub(super) seat: &'a Seat,
    pub(super) poll: &'a mut Poll,
    pub(super) notes: &'a mut Notes,
    /// [`Seat::changes`] as of the caller's last look.
    pub(super) seen: u64,
    pub(super) deadline: Instant,
}

/// One collective under one attempt. Holds no bytes of the caller.
pub(super) enum Way {
    Links(Arc<Schedule>, Exchange),
    Memory(Box<SharedExchange>),
}

impl Way {
    /// Bytes of the result that this rank writes.
    pub(super) fn result_bytes(&self) -> usize {
        match self {
            Way::Links(schedule, _) => schedule.result_bytes(),
            Way::Memory(exchange) => exchange.result_bytes(),
        }
    }

    /// Bytes that have gone to others.
    pub(super) fn sent(&self) -> u64 {
        match self {
            Way::Links(_, exchange) => exchange.sent,
            Way::Memory(exchange) => exchange.sent(),
        }
    }

    /// What was read, in the collective that is done, of other ranks' inputs. What came over links was told when it came.
    pub(super) fn heard(&self) -> &[(Rank, u64)] {
        match self {
            Way::Links(..) => &[],
            Way::Memory(exchange) => exchange.heard(),
        }
    }

    /// Goes on until it is done or something else has to be done first.
    pub(super) fn advance(&mut self, buffers: &mut Buffers<'_>, reducer: &Reducer<'_>, tools: &mut Tools<'_>) -> Went {
        match self {
            Way::Links(schedule, exchange) => exchange.advance(schedule, buffers, reducer, tools),
            Way::Memory(exchange) => exchange.advance(buffers.input, buffers.result, reducer, tools),
        }
    }

    /// Who is waited for, and what is known of them.
    pub(super) fn awaited(&self, memory: &mut Memory, lines: &Lines) -> Vec<String> {
        match self {
            Way::Links(schedule, exchange) => {
                let awaited = exchange.awaited(schedule).into_iter();
                let text = |(peer, bytes)| format!("rank {peer} ({bytes} bytes to come; {})", lines.describe(peer));
                awaited.map(text).collect()
            }
            Way::Memory(exchange) => {
                memory.entered(exchange.attempt()).map_or(Vec::new(), |entered| exchange.awaited(entered, lines))
            }
        }
    }
}
