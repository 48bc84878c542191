//! What a rank that comes back has to be given again: how much memory and disk it may take, and results that lie on disk.

mod budget;
mod common;
mod logged;
mod memory;
mod shelf;

pub use budget::{Budget, LogLimits};
pub use common::Common;
pub use logged::{Logged, Spilled};

pub(crate) use common::Commons;
pub(crate) use logged::SpillFile;
pub(crate) use shelf::Shelf;
