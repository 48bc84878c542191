//! What a call gives to an exchange of either kind, over links or through shared memory, and what it gets back.

use super::local_rank::LocalRank;
use super::memory::Memory;
use super::peer_links::{PeerLinks, Trouble};
use super::rank_profile::RankProfile;
use mio::Poll;
use rejoin_collectives::FoldError;
use rejoin_protocol::error::Error;
use rejoin_transport::{Backoff, WaitLimit};

/// What belongs to the rank and is used by the call that is under way.
pub(super) struct CallContext<'a> {
    pub(super) peer_links: &'a mut PeerLinks,
    pub(super) memory: &'a mut Memory,
    pub(super) local_rank: &'a LocalRank,
    pub(super) poll: &'a mut Poll,
    pub(super) backoff: &'a mut Backoff,
    pub(super) rank_profile: &'a mut RankProfile,
    /// [`LocalRank::changes`] as of the caller's last look.
    pub(super) seen: u64,
    pub(super) limit: &'a mut WaitLimit,
}

/// Why an exchange has stopped: it is over, or its caller has to do something first.
pub(super) enum ExchangeOutcome {
    /// The result is there, and everything has gone.
    Done,
    /// Something has changed that the call has to look at; it may go on afterwards.
    Changed,
    /// So long as was allowed.
    Late,
    /// A peer made another call.
    Trouble(Trouble),
    /// The caller's reducer failed.
    Fold(FoldError),
    /// A fault rule's moment: so many bytes have been sent.
    Sent,
    /// This rank's part of the result is whole, which others read when they see what it does next:
    /// it goes on without it.
    Part,
    /// It can't go on.
    Failed(Error),
}
