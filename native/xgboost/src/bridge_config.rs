//! The settings of the bridge.

use std::path::PathBuf;
use std::time::Duration;

/// How a bridge is set up.
#[derive(Clone, Debug)]
pub struct BridgeConfig {
    /// Directory for logs that don't fit into memory. Must exist and be writable when it comes to that.
    pub spill_dir: PathBuf,
    /// Most bytes of logs in memory, over all ranks of the agent.
    pub log_memory_bytes: u64,
    /// Most bytes of logs on disk.
    pub log_disk_bytes: u64,
    /// XGBoost's `dmlc_timeout`: how long a worker waits for its peers within a collective. Must exceed the longest
    /// restart; that a rank is missing for too long is noticed by the tracker, not by XGBoost. At most 24 days.
    pub worker_timeout: Duration,
    /// How long a phase's last bytes may take to come out of the worker's sockets.
    pub drain_timeout: Duration,
    /// How long a worker that is being freed is left alone before its connections are reset.
    pub free_delay: Duration,
}

impl Default for BridgeConfig {
    fn default() -> Self {
        BridgeConfig {
            spill_dir: std::env::temp_dir(),
            log_memory_bytes: 256 << 20,
            log_disk_bytes: 16 << 30,
            worker_timeout: Duration::from_secs(7 * 24 * 3600),
            drain_timeout: Duration::from_secs(60),
            free_delay: Duration::from_millis(300),
        }
    }
}
