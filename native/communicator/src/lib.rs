//! Rejoin's own collectives over an agent's links: they survive the death of any rank.
//!
//! - [`Process`] is the agent of this process with everything that its ranks' collectives need;
//!   [`Process::join`] gives a [`Communicator`], one for each rank. Where a trainer counts its
//!   versions itself, and its agent's plane is more than this one, [`Operations`] on a
//!   [`CollectivePlane`] are the same collectives.
//! - The caller's thread moves the bytes itself: [`exchange`] drives a step machine over the
//!   [`peer_links`] to the other ranks, or, where all ranks are on one host, [`shared_exchange`] one on
//!   the segments of their [`memory`]. The plan says which ([`transport`]).
//! - [`launch`] starts an elastic run whose slots this program names.
//! - A [`local_rank`] is what the caller's thread shares with the agent's control thread, which pauses
//!   it, brings plans and links, and serves its results to others *while the owner computes*
//!   ([`plane`]).

mod call_context;
mod call_log;
mod calls;
#[cfg(any(test, feature = "check"))]
pub mod check;
mod communicator;
mod exchange;
mod folding;
mod former;
mod launch;
pub mod launched;
mod local_rank;
mod memory;
mod mismatch;
mod operations;
mod options;
mod parts;
mod peer_links;
mod placement;
mod plane;
mod poll_interval;
mod printer;
mod process;
mod rank_profile;
mod results;
mod shape;
mod shared_exchange;
mod shared_result;
mod transport;

pub use call_log::CallSink;
pub use calls::{Input, Prepare};
pub use communicator::Communicator;
pub use folding::Folding;
pub use former::Former;
pub use launch::launch;
pub use operations::{LogBytes, Operations};
pub use options::{Boot, Language, Limits, Options, Typed};
pub use placement::Placement;
pub use plane::CollectivePlane;
pub use printer::{Printer, Prints};
pub use process::{Process, Settings, SHARED_MEMORY};
pub use rejoin_agent::digest;
pub use rejoin_collectives as collectives;
pub use rejoin_protocol as protocol;
pub use shared_result::SharedResult;
