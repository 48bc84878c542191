//! How the bytes of one collective go under one generation: over links, or through shared memory.

use super::call_context::{CallContext, ExchangeOutcome};
use super::exchange::Exchange;
use super::memory::Memory;
use super::peer_links::PeerLinks;
use super::shared_exchange::SharedExchange;
use rejoin_collectives::{Buffers, Reducer, Schedule};
use rejoin_protocol::ids::Rank;
use std::sync::Arc;

/// One collective under one generation. Holds no bytes of the caller.
pub(super) enum Transport {
    Links(Arc<Schedule>, Exchange),
    Memory(Box<SharedExchange>),
}

impl Transport {
    /// Bytes of the result that this rank writes.
    pub(super) fn result_bytes(&self) -> usize {
        match self {
            Transport::Links(schedule, _) => schedule.result_bytes(),
            Transport::Memory(exchange) => exchange.result_bytes(),
        }
    }

    /// Bytes that have gone to others.
    pub(super) fn sent(&self) -> u64 {
        match self {
            Transport::Links(_, exchange) => exchange.sent,
            Transport::Memory(exchange) => exchange.sent(),
        }
    }

    /// What was read, in the collective that is done, of other ranks' inputs. What came over links
    /// was reported when it came.
    pub(super) fn observed(&self) -> &[(Rank, u64)] {
        match self {
            Transport::Links(..) => &[],
            Transport::Memory(exchange) => exchange.observed(),
        }
    }

    /// Goes on until it is done or something else has to be done first.
    pub(super) fn advance(
        &mut self,
        buffers: &mut Buffers<'_>,
        reducer: &Reducer<'_>,
        context: &mut CallContext<'_>,
    ) -> ExchangeOutcome {
        match self {
            Transport::Links(schedule, exchange) => exchange.advance(schedule, buffers, reducer, context),
            Transport::Memory(exchange) => exchange.advance(buffers.input, buffers.result, reducer, context),
        }
    }

    /// The ranks that are waited for, and what is known of them.
    pub(super) fn awaited(&self, memory: &mut Memory, peer_links: &PeerLinks) -> Vec<String> {
        match self {
            Transport::Links(schedule, exchange) => {
                let (ranks, what) = match exchange.awaited(schedule) {
                    none if none.is_empty() => (exchange.untaken(schedule), "for it to take"),
                    awaited => (awaited, "to come"),
                };
                let text = |(peer, bytes)| format!("rank {peer} ({bytes} bytes {what}; {})", peer_links.describe(peer));
                ranks.into_iter().map(text).collect()
            }
            Transport::Memory(exchange) => memory
                .entered(exchange.generation())
                .map_or(Vec::new(), |entered| exchange.awaited(entered, peer_links)),
        }
    }
}
