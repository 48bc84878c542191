//! The options that all measurements of collectives have.

use clap::Args;

/// What is measured.
#[derive(Args, Clone)]
pub struct Measured {
    /// Worlds.
    #[arg(long, value_delimiter = ',', default_value = "2,4,8")]
    pub worlds: Vec<usize>,
    /// Bytes of float32 per rank.
    #[arg(long, value_delimiter = ',', default_value = "8,1024,65536,1048576,16777216,67108864")]
    pub sizes: Vec<usize>,
    /// How long a line may take.
    #[arg(long, default_value_t = 1500.0)]
    pub budget_ms: f64,
    /// Ranks as threads of one process, not as processes.
    #[arg(long)]
    pub threads: bool,
}
