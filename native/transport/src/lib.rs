//! Links: framed TCP connections between agents and to the tracker.
//!
//! Every link starts with a mutual proof of the job's secret (see [Handshake](self#handshake)); after that it carries
//! frames of [`rejoin_protocol::wire`], plain or encrypted. Nothing here has a thread or blocks: a [`Link`] is driven
//! by the owner of the [`mio::Poll`] that its socket is registered with, and may move from one to another.
//!
//! # Handshake
//!
//! `Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s` (noiseprotocol.org, revision 34) with the job's secret as pre-shared key and
//! `"rejoin"`, the wire version and the job's id as prologue:
//!
//! 1. both: 8 clear bytes, `"RJN"`, the wire version (u16), three zeros. They protect nothing; they make a mismatch of
//!    versions tellable. A wrong claim in them fails later, since the version is in the prologue too.
//! 2. initiator: first Noise message, with its [`Hello`] as payload. It proves the secret, but may be a replay.
//! 3. acceptor: second Noise message. It proves the secret and is fresh.
//! 4. initiator: an empty transport message. It proves that message 2 was not a replay: only now does the acceptor's
//!    driver hear of the [`Hello`] and decide.
//! 5. acceptor: the verdict, a transport message. Admitted, or refused with an error that says why.
//!
//! Every message has its length before it (u16). All numbers are little endian. Until the link is established, no
//! length that comes from the other end makes anything be allocated.
//!
//! # Frames
//!
//! Plain: header and payload follow each other on the stream. Encrypted: the same stream is cut into Noise transport
//! messages of at most 65535 bytes, each with its length before it.
#![deny(unsafe_code)]

mod backoff;
#[cfg(any(test, feature = "check"))]
pub mod check;
mod cipher;
mod entrance;
mod handshake;
mod hello;
mod input;
mod link;
mod link_error;
mod listener;
mod output;
mod reset;
mod secret;
pub mod shm;
mod silence;
mod wait_limit;

pub use backoff::{Backoff, Pause};
pub use entrance::{Arrival, Entrance};
pub use hello::{Hello, Purpose};
pub use link::{Flushed, Link, Received};
pub use link_error::LinkError;
pub use listener::{Listener, PortRange};
pub use reset::reset;
pub use secret::{random_u64, JobId, Keys, Secret};
pub use wait_limit::WaitLimit;
