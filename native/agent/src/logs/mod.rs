//! What a rank that comes back has to be given again: how much memory and disk it may take, and results that lie on disk.

mod budget;
mod logged;
mod memory;

pub use budget::{Budget, LogLimits};
pub use logged::{Logged, Spilled};

pub(crate) use logged::SpillFile;
pub(crate) use memory::zeroed;
