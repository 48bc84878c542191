//! Collectives as data and machines: no sockets, no clocks, no threads.
//!
//! Three things make up a collective here:
//!
//! - what is computed: [`Element`], [`Reduction`], a [`Reducer`] of them (or of the caller's own function), and the
//!   [`Order`] in which the ranks' inputs are folded. Order and result depend on ranks and counts alone;
//! - a [`Schedule`] per rank, made by a pure function of [`schedules`]: which bytes of which buffer go to which peer,
//!   which bytes come from which peer and where they land, and what is folded into the result. Which algorithm that is
//!   is looked up in [`choice`];
//! - a [`LinkMachine`] that executes a schedule for the owner of the links: it is asked what can be sent to a peer and
//!   where the next bytes from a peer go, takes in what went and came, and folds what has arrived.
//!
//! Ranks that see each other's memory don't need links: [`shared`] has a machine for them.
//!
//! The bytes of a result are the same whatever the schedule is: every element is a left fold of the
//! ranks' inputs in the stated order. [`mod@reference`] is that sentence in code; everything is
//! tested against it.
//!
//! Elements are in the byte order of the machine, and all machines of a job must have the same.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod buffers;
pub mod choice;
mod element;
mod fold;
mod machine;
mod order;
mod reducer;
mod reduction;
pub mod reference;
mod schedule;
pub mod schedules;
pub mod shared;

pub use buffers::{Buffer, Buffers, Extent};
pub use element::Element;
pub use machine::LinkMachine;
pub use order::Order;
pub use reducer::{FoldError, Objects, Reducer};
pub use reduction::{Reduction, Unfit};
pub use schedule::{Schedule, WorldRank};
