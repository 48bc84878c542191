//! What a rank that comes back has to be given again: how much memory and disk it may take, and
//! results that lie on disk.

mod budget;
mod buffer_pool;
mod logged;
mod memory;
mod result_cache;

pub use budget::{Budget, LogLimits};
pub use logged::{Logged, Spilled};
pub use result_cache::CachedResult;

pub(crate) use buffer_pool::BufferPool;
pub(crate) use logged::SpillFile;
pub(crate) use result_cache::ResultCache;
