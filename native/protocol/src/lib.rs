//! The rules of Rejoin, without sockets, clocks, threads or payload bytes.
//!
//! Two state machines of one shape decide everything: [`tracker::Tracker`] (one job, on the driver)
//! and [`host::Host`] (the ranks of one process, each a [`member::Member`]). They take one input at
//! a time and are then drained of outputs. Time enters as a number. The agent, the simulator and
//! the model checker are three drivers of these very structs.
//!
//! [`channel`] holds the stream state of one directed XGBoost channel: which phases its sender logs, what its
//! receiver has, what is replayed, dropped and compared. [`collective`] holds the rules of Rejoin's own collectives.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod admission;
pub mod channel;
pub mod collective;
pub mod error;
pub mod event;
pub mod fault;
pub mod former;
pub mod hook;
pub mod host;
pub mod ids;
pub mod job_status;
pub mod launcher;
pub mod member;
pub mod message;
pub mod plan;
pub mod profile;
pub mod report;
pub mod resize;
pub mod spares;
pub mod start;
pub mod tracker;
pub mod view;
pub mod wire;
pub mod words;
