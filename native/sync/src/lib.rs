//! Where threads and processes meet: sleepers and wakers, publishers and readers. Each rule
//! is a small type over [`Atomic`], so that the tests run the very code that production runs on
//! loom's counters, in every order that the memory model allows.
//!
//! None of the rules rests on one total order of single accesses (`SeqCst`), which loom doesn't
//! know. Where two look at what the other one has written, both go through a read-modify-write of
//! the same word ([`Parker`]), or have a fence between their write and their look ([`Counters`]: a
//! rank can't write what another one's segment says). A word that is read by read-modify-writes is
//! written by nothing else: loom would let one read another store than the last one, if that is a
//! plain one. It costs nothing: on x86 a `SeqCst` store is a swap too.
#![no_std]
#![forbid(unsafe_code)]

mod atomic;
mod parker;
mod segment;

pub use atomic::Atomic;
pub use parker::Parker;
pub use segment::{nobody_has_reached, Counters};
