//! XGBoost's way in that changes nothing in XGBoost: the bridge.
//!
//! XGBoost trains over its own collective, a small TCP protocol. The [`Bridge`] speaks it too: for
//! each local worker it is the tracker and every peer, on loopback. What a worker writes is opaque
//! bytes; they are logged by phase, carried to the peer's agent, delivered to its worker there, and
//! replayed to a worker that was restarted. What a restarted worker writes again is not sent but
//! compared with what its peers have.
//!
//! One thread does all of it for all ranks and channels of an agent ([`mio`]). The trainer's threads make the few calls
//! that wait: [`Bridge::communicator`], [`Bridge::enter`].
//!
//! What stays exposed: loopback is open to every user of the host. Connections *to* the bridge are
//! accepted only from this process's own sockets (Linux; elsewhere a random token in the task id is
//! the only guard). The worker's own listener, which XGBoost opens for as long as its `init` takes,
//! accepts any connection that is faster than we are; a stranger's connection there makes `init` fail or
//! hang until its deadline, it can't go unnoticed, because the worker's own end of every channel
//! must be found in this process before the first round. A second listener of XGBoost's, for errors,
//! stays open on all addresses for the whole training, and a connection to it can end the process
//! (docs/security.md). XGBoost prints a worker's task id, and so the token, into its own log.
#![warn(missing_docs)]
#![deny(unsafe_code)]

mod bootstrap;
mod bridge;
mod bridge_config;
mod bridged_rank;
mod catch_up;
mod channel;
mod dialogue;
mod engine;
mod faults;
mod gate;
#[allow(unsafe_code)]
pub mod hook;
mod hooked;
#[allow(unsafe_code)]
mod kernel;
#[allow(unsafe_code)]
mod loaded;
mod member;
mod phase_log;
mod plane;
mod process;
mod read_buffers;
mod shared;
mod sources;
#[allow(unsafe_code)]
mod topology;
mod version;
mod worker_socket;

pub use bridge::Bridge;
pub use bridge_config::BridgeConfig;
pub use member::Member;
pub use plane::{HookUse, Plane};
pub use process::Process;
pub use topology::WireVariant;
pub use version::XgboostVersion;
