//! Drives the protocol with real time and real links.
//!
//! [`Agent`] is the runtime of one process for one job: it hosts ranks, keeps checkpoints, makes
//! the links between ranks and serves newcomers, all on one control thread that does nothing heavy.
//! What moves the ranks' bytes is its [`Planes`]. [`TrackerServer`] is the driver's side: it owns
//! the tracker's state machine and the agents' connections.

mod agent;
mod agent_config;
mod asking;
#[cfg(any(test, feature = "check"))]
pub mod check;
mod control;
mod copies;
mod digest;
pub mod durable;
pub mod event_log;
mod fetch;
pub mod inject;
pub mod join_file;
mod joined;
mod launcher_link;
mod links;
pub mod logging;
pub mod logs;
mod plane;
pub mod pulse;
pub mod reservation;
mod store;
mod tracker;
pub mod tracker_life;
mod waiting;

pub use agent::{checkpoint, digested_checkpoint, lazy_checkpoint, Agent, Taken};
pub use agent_config::AgentConfig;
pub use asking::ask;
pub use digest::digest;
pub use joined::{Joined, StoodBy};
pub use launcher_link::{LauncherLink, LauncherNotice};
pub use plane::{AgentReports, DataPlane, PlaneUsage, Planes, ResultPlane};
pub use rejoin_protocol as protocol;
pub use rejoin_protocol::ids::MemberId;
pub use rejoin_transport as transport;
pub use store::{Model, Supplier};
pub use tracker::{TrackerNotice, TrackerServer, TrackerServerConfig};
