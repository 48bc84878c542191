//! The algorithms: for each collective, pure functions from a rank and a shape to a [`Schedule`].
//!
//! Every rank of a collective must make its schedule with the same algorithm and the same shape.

mod allgather;
mod allreduce;
mod barrier;
mod broadcast;
mod by_hosts;
mod fold_paths;
mod folding;
mod pairing;
mod reduce_scatter;

pub use allgather::{allgather, allgather_parts, Allgather};
pub use allreduce::{allreduce, Allreduce};
pub use barrier::{barrier, Barrier};
pub use broadcast::{broadcast, Broadcast};
pub use by_hosts::allreduce_by_hosts;
pub use reduce_scatter::reduce_scatter;
