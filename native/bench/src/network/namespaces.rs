//! Network namespaces of their own, taken down when they are dropped.

use super::Host;
use rustix::thread::{move_into_link_name_space, LinkNameSpaceType};
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::Command;

pub struct Namespaces {
    hosts: Vec<Host>,
}

impl Namespaces {
    /// Makes so many.
    ///
    /// # Errors
    /// Without the right to do so, or without `ip`. What was made until then is taken down.
    pub fn make(count: u8) -> Result<Namespaces, String> {
        let mut made = Namespaces { hosts: Vec::new() };
        for number in 1..=count {
            let name = format!("rejoin-{}-{number}", std::process::id());
            ip(&["netns", "add", &name])?;
            made.hosts.push(Host { name: name.clone(), address: Ipv4Addr::new(10, 77, 0, number) });
            ip(&["-n", &name, "link", "set", "lo", "up"])?;
        }
        Ok(made)
    }

    pub fn hosts(&self) -> Vec<Host> {
        self.hosts.clone()
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for host in &self.hosts {
            if let Err(error) = ip(&["netns", "delete", &host.name]) {
                eprintln!("{error}");
            }
        }
    }
}

/// Moves the thread that calls, and no other, into a host's namespace: sockets that it opens from now on are there.
pub fn enter(host: &Host) -> Result<(), String> {
    let path = format!("/run/netns/{}", host.name);
    let file = File::open(&path).map_err(|error| format!("{path}: {error}"))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|error| format!("{path} can't be entered: {error}; it needs root"))
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).output();
    let output = output.map_err(|error| format!("ip: {error}; on Debian it is in iproute2"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("ip {} ended with {}: {}; namespaces need root", arguments.join(" "), output.status, said.trim()))
}
