//! What a rank that comes back has to be given again: how much memory and disk it may take, and
//! results that lie on disk.

mod budget;
mod buffer_pool;
mod cached_result;
mod logged;
mod memory;
mod result_cache;

pub use budget::{Budget, LogLimits};
pub use cached_result::CachedResult;
pub use logged::{Logged, Spilled};

pub use buffer_pool::BufferPool;
pub use logged::SpillFile;
pub use result_cache::ResultCache;
