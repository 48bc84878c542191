//! Where threads and processes meet: who sleeps and who wakes, who posts and who reads. Each rule is a small type over [`Word`], so that
//! the tests run the very code that production runs on loom's numbers, in every order that the memory model allows.
//!
//! None of the rules rests on one total order of single accesses (`SeqCst`), which loom doesn't know. Where two look at what the other one
//! has written, both go through a read-modify-write of the same word ([`Doze`]), or have a fence between their write and their
//! look ([`Numbers`]: a rank can't write what another one's board says). A word that is read by read-modify-writes is written by nothing else:
//! loom would let one read another store than the last one, if that is a plain one. It costs nothing: on x86 a `SeqCst` store is a swap too.
#![no_std]
#![forbid(unsafe_code)]

mod board;
mod doze;
mod word;

pub use board::{nobody_has_reached, Numbers};
pub use doze::Doze;
pub use word::Word;
