//! Collectives among ranks that see each other's memory: threads of one process, processes of one host.
//!
//! Every rank has a *segment*: two slots that it alone writes and all others read, and a number, the
//! last step that it has published. A collective is a few *steps*. In each step a rank writes
//! something into the slot of that step (they take turns), publishes the step, waits for the publishes that
//! it depends on, and reads the others' slots. A rank writes a slot again two steps later, when
//! all others have published the step between: they did so after they had read it.
//!
//! So there are no locks, and no memory that two write: a rank that dies leaves nothing locked, and
//! what it had half written was never published. Numbers only grow. After a failure the ranks go on
//! from a higher number ([`first_step`]); what was published before it counts no more.
//!
//! A buffer of any length passes through slots that stay in the cache: main memory is read once for the input and
//! written once for the result.
//!
//! - **Allreduce, few bytes**: one step. All write their inputs, each reads and folds them all.
//! - **Allreduce, more bytes**: rank k owns chunk k. In step j all write slice j of every
//!   segment; the owner folds its own while it writes step j+1, there it publishes the folded slice,
//!   and all read it from there. So one step more than slices.
//! - **Reduce-scatter**: the same, without writing the folded slice.
//! - **Broadcast, allgather**: in step j the root (each rank) writes slice j of what it has; the others read it.
//! - **Barrier**: one step with nothing in it.

mod layout;
mod machine;

pub use layout::{Identity, Shape, SharedCall, COMMON_BYTES, IDENTITY_BYTES};
pub use machine::{SharedError, SharedMachine};

/// The segments of all ranks as one of them sees them.
pub trait Segments {
    /// The last step that this rank has published. What it wrote before is visible to all that have seen the number.
    fn published(&self, rank: usize) -> u64;

    /// The slot that this rank has written for a step (or two steps earlier or later: see [`self`]).
    fn slot(&self, rank: usize, step: u64) -> &[u8];

    /// This rank's own slot for a step.
    fn own_slot(&mut self, step: u64) -> &mut [u8];

    /// Posts a step: all that was written before becomes visible with it.
    fn publish(&mut self, step: u64);
}

/// The step that the ranks publish when they enter a generation, before its first collective: then
/// everything before it is over for them. `generation` counts the generations of the job, from 1;
/// each has room for 2^40 steps.
pub const fn first_step(generation: u64) -> u64 {
    generation << 40
}
