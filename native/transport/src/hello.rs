//! What the initiator of a link says about itself, inside the handshake.

use rejoin_protocol::ids::{AgentId, Generation, Incarnation, Lane, Rank};
use serde::{Deserialize, Serialize};

/// What a link is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Purpose {
    /// An agent's link to the tracker: control messages. Always encrypted.
    Tracker,
    /// Channels or collectives between two living ranks.
    Data {
        /// Which of the two.
        lane: Lane,
        /// The initiator's rank.
        rank: Rank,
        /// The initiator's incarnation.
        incarnation: Incarnation,
        /// The acceptor's rank.
        peer: Rank,
        /// The incarnation that the initiator knows of it.
        peer_incarnation: Incarnation,
        /// The view that the initiator acts on.
        generation: Generation,
    },
    /// The initiator fetches a checkpoint.
    Fetch,
    /// A launcher's link to the tracker: what becomes of processes, and of the job. Always encrypted.
    Launcher,
}

/// The initiator's word about itself. An acceptor sees it only after the proof that it is fresh and from the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hello {
    /// The end that makes the link.
    pub agent: AgentId,
    /// What for.
    pub purpose: Purpose,
    /// Whether frames are to be encrypted. [`crate::Link::connect`] sets it where the keys or the purpose demand it.
    pub encrypt: bool,
}

impl Hello {
    /// Whether a link for this purpose must be encrypted under a policy.
    pub(crate) fn must_encrypt(purpose: Purpose, policy: bool) -> bool {
        policy || matches!(purpose, Purpose::Tracker | Purpose::Launcher)
    }
}
