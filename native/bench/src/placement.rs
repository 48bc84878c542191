//! Which rank is on which host.

use clap::ValueEnum;

/// How ranks are placed on hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Placement {
    /// One after the other on each host in turn.
    Spread,
    /// The first ones on the first host, the next ones on the second, and so on.
    Together,
}

impl Placement {
    /// The number of a rank's host.
    pub fn host(self, rank: usize, world: usize, hosts: usize) -> usize {
        match self {
            Placement::Spread => rank % hosts,
            Placement::Together => rank * hosts / world,
        }
    }
}
