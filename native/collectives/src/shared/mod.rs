//! Collectives among ranks that see each other's memory: threads of one process, processes of one host.
//!
//! Every rank has a *board*: two areas that it alone writes and all others read, and a number, the last beat that it has
//! posted. A collective is a few *beats*. In each beat a rank writes something into the area of that beat (they take
//! turns), posts the beat, waits for the posts that it depends on, and reads the others' areas. A rank writes an area
//! again two beats later, when all others have posted the beat between: they did so after they had read it.
//!
//! So there are no locks, and no memory that two write: whoever dies leaves nothing locked, and what it had half written
//! was never posted. Numbers only grow. After a failure the ranks go on from a higher number ([`first_beat`]); what was
//! posted before it counts no more.
//!
//! A buffer of any length passes through areas that stay in the cache: main memory is read once for the input and
//! written once for the result.
//!
//! - **Allreduce, few bytes**: one beat. All write their inputs, each reads and folds them all.
//! - **Allreduce, more bytes**: rank k owns segment k. In beat j all write slice j of every segment; the owner folds its
//!   own while it writes beat j+1, there it posts the folded slice, and all read it from there. So one beat more than
//!   slices.
//! - **Reduce-scatter**: the same, without writing the folded slice.
//! - **Broadcast, allgather**: in beat j the root (everybody) writes slice j of what it has; the others read it.
//! - **Barrier**: one beat with nothing in it.

mod layout;
mod machine;

pub use layout::{Shape, SharedCall};
pub use machine::{Identity, SharedError, SharedMachine, COMMON_BYTES, IDENTITY_BYTES};

/// The boards of all ranks as one of them sees them.
pub trait Boards {
    /// The last beat that this rank has posted. What it wrote before is visible to whoever has seen the number.
    fn posted(&self, rank: usize) -> u64;

    /// The area that this rank has written for a beat (or two beats earlier or later: see [`self`]).
    fn area(&self, rank: usize, beat: u64) -> &[u8];

    /// This rank's own area for a beat.
    fn own_area(&mut self, beat: u64) -> &mut [u8];

    /// Posts a beat: all that was written before becomes visible with it.
    fn post(&mut self, beat: u64);
}

/// The beat that the ranks post when they enter an attempt, before its first collective: then everything before it is
/// over for them. `attempt` counts the attempts of the job, from 1; each has room for 2^40 beats.
pub const fn first_beat(attempt: u64) -> u64 {
    attempt << 40
}
