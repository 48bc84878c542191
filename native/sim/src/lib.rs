//! A seeded world in virtual time: processes with agents, a tracker, a framework that retries
//! tasks, and a network between them. It drives the very structs that production drives, injects
//! faults into them, and checks the promises of `docs/architecture.md`, each in a file of
//! [`invariants`].
//!
//! A run has two times: faults on, and faults off. After that everything must heal, or must have
//! ended with an error that is allowed. The seed alone decides everything:
//! `cargo run -p rejoin-sim -- --seed 17` shows a run again.
#![forbid(unsafe_code)]

pub mod invariants;
pub mod ranks;
pub mod scenario;
pub mod world;

pub use invariants::Violation;
pub use scenario::{Family, Scenario};
pub use world::{rendezvous, run, Changing, Tally};
