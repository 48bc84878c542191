//! Hosts on one machine: network namespaces, joined by a switch of known bandwidth and delay, in
//! which ours and the peers run alike. Many kernels have no netem, so the switch is a program: a
//! TUN device in each namespace, and threads that pass the packets on when they are due.
//!
//! Needs the right to make namespaces (root), and `ip` (Debian: iproute2).

mod calibration;
mod host;
mod namespaces;
mod switch;

use clap::Args;
pub use host::{Host, HOSTS};
use namespaces::Namespaces;
use std::process::Command;
use std::time::Duration;
use switch::{LinkShape, Switch};

/// A network, and what is run in it.
#[derive(Args)]
pub struct Network {
    /// Number of hosts.
    #[arg(long, default_value_t = 4)]
    hosts: u8,
    /// What a host can send, and what it can receive at the same time.
    #[arg(long, default_value_t = 1000)]
    megabits: u64,
    /// From one host to another.
    #[arg(long, default_value_t = 1000)]
    delay_micros: u64,
    /// Run here; it finds the hosts in REJOIN_BENCH_HOSTS.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Makes the hosts, says how the network really is, runs the command, and takes everything down.
pub fn run(network: &Network) -> Result<(), String> {
    let line = LinkShape { megabits: network.megabits, delay: Duration::from_micros(network.delay_micros) };
    let namespaces = Namespaces::make(network.hosts)?;
    let hosts = namespaces.hosts();
    let switch = Switch::start(&hosts, line)?;
    if let [first, second, ..] = hosts.as_slice() {
        let seen = calibration::measure(first, second)?;
        eprintln!(
            "{} hosts, {} Mbit/s, {} µs one way; seen: round trip {:.0} µs, one stream {:.0} Mbit/s",
            hosts.len(),
            network.megabits,
            network.delay_micros,
            seen.round_trip_micros,
            seen.megabits
        );
    }
    let named: Vec<String> = hosts.iter().map(|host| format!("{}={}", host.name, host.address)).collect();
    let (program, arguments) = network.command.split_first().ok_or("a command is expected")?;
    let status = Command::new(program).args(arguments).env(HOSTS, named.join(",")).status();
    let status = status.map_err(|error| format!("{program}: {error}"))?;
    let dropped = switch.dropped();
    if dropped > 0 {
        eprintln!("{dropped} packets found a full buffer and were dropped, as in any network");
    }
    if status.success() {
        Ok(())
    } else {
        Err(format!("{program} ended with {status}"))
    }
}
