//! What an elastic job is told on the command line, of a run as of a tracker.

use crate::times::time;
use rejoin_agent::protocol::resize::Elastic;
use std::time::Duration;

/// Within which bounds the world may change.
#[derive(clap::Args)]
pub struct ElasticArguments {
    /// Let the world shrink to this many ranks at the least: when a rank died and no replacement came in time, the
    /// others go on without it, from the newest version (the calls of their programs end with RESIZED).
    #[arg(long, value_name = "RANKS", value_parser = clap::value_parser!(u32).range(1..))]
    min: Option<u32>,
    /// With --min: let the world grow to this many ranks at the most, as slots come: of --discovery or --hosts, and to
    /// `rejoin tracker` with launchers (`rejoin run --join FILE --slots`) [default: those that it begins with].
    #[arg(
        long, requires = "min", value_name = "RANKS",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(rejoin_agent::event_log::MOST_RANKS))
    )]
    max: Option<u32>,
    /// With --min: how long a replacement is waited for.
    #[arg(long, requires = "min", value_parser = time, default_value = "30s", value_name = "TIME")]
    elastic_timeout: Duration,
    /// With --min: how long the world doesn't grow after it has changed.
    #[arg(long, requires = "min", value_parser = time, default_value = "10s", value_name = "TIME")]
    resize_interval: Duration,
    /// With --min: how often the world may change. After that it doesn't grow, and if it had to
    /// shrink the job ends with an error.
    #[arg(long, requires = "min", value_name = "TIMES")]
    reset_limit: Option<u32>,
    /// With --min: the own models of ranks that are gone may be lost, should no copy of one be left. Without it the job
    /// ends with an error then.
    #[arg(long, requires = "min")]
    own_may_be_lost: bool,
}

impl ElasticArguments {
    /// How a job may change its world that begins with so many ranks; `None` if it may not.
    ///
    /// # Errors
    /// The complaint about a most that is less than it begins with.
    pub fn elastic(&self, world: u32) -> Result<Option<Elastic>, String> {
        if let Some(max) = self.max.filter(|max| *max < world) {
            return Err(format!("--max {max}: the job begins with {world} ranks (-n); {world} or more are expected"));
        }
        Ok(self.min.map(|min| Elastic {
            min,
            max: self.max.unwrap_or(world),
            timeout_millis: self.elastic_timeout.as_millis() as u64,
            interval_millis: self.resize_interval.as_millis() as u64,
            most_resizes: self.reset_limit,
            own_may_be_lost: self.own_may_be_lost,
        }))
    }
}
