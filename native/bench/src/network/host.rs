//! What those that start ranks know of a host.

use std::process::Command;

/// Names the hosts to those that start ranks: `name=address` of each, with commas between.
pub const HOSTS: &str = "REJOIN_BENCH_HOSTS";

/// One host, as its user sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Of its namespace.
    pub name: String,
    /// In the network.
    pub address: std::net::Ipv4Addr,
}

impl Host {
    /// The hosts that the surroundings name; none when there is just this machine.
    ///
    /// # Errors
    /// When they can't be read.
    pub fn all() -> Result<Vec<Host>, String> {
        let Ok(text) = std::env::var(HOSTS) else { return Ok(Vec::new()) };
        let host = |entry: &str| {
            let (name, address) = entry.split_once('=')?;
            Some(Host { name: name.into(), address: address.parse().ok()? })
        };
        let hosts: Option<Vec<Host>> = text.split(',').map(host).collect();
        hosts.ok_or_else(|| format!("{HOSTS} is {text:?}; expected name=address,name=address"))
    }

    /// Runs a program in it.
    pub fn command(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }
}
