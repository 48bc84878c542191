//! `rejoin run -H` on hosts with networks of their own: namespaces on a bridge. Needs root, and Debian's iproute2.

use crate::harness::{example, signal, until};
use crate::jobs::{digest, undisturbed, Job, ITERATIONS};
use crate::processes::with;
use crate::sshd::Hosts;
use std::process::Command;

/// A bridge, with this machine at its first address, and a namespace at each of the next ones.
struct Network {
    bridge: String,
    addresses: Vec<String>,
    namespaces: Vec<String>,
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().expect("ip is there (apt-get install iproute2)");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {}: {said}; namespaces need root", arguments.join(" "));
}

impl Network {
    fn of(hosts: u32) -> Network {
        let pid = std::process::id();
        let at = |host: u32| format!("10.{}.{}.{host}", 200 + pid % 50, pid / 50 % 250);
        let bridge = format!("rj{pid}");
        let mut network = Network { bridge: bridge.clone(), addresses: vec![at(1)], namespaces: Vec::new() };
        ip(&["link", "add", &bridge, "type", "bridge"]);
        ip(&["address", "add", &format!("{}/24", at(1)), "dev", &bridge]);
        ip(&["link", "set", &bridge, "up"]);
        for host in 1..=hosts {
            let (name, end) = (format!("rj{pid}-{host}"), network.link(host));
            ip(&["netns", "add", &name]);
            network.namespaces.push(name.clone());
            ip(&["link", "add", &end, "type", "veth", "peer", "name", "eth0", "netns", &name]);
            ip(&["link", "set", &end, "master", &bridge, "up"]);
            ip(&["-n", &name, "address", "add", &format!("{}/24", at(host + 1)), "dev", "eth0"]);
            for device in ["eth0", "lo"] {
                ip(&["-n", &name, "link", "set", device, "up"]);
            }
            network.addresses.push(at(host + 1));
        }
        network
    }

    /// The bridge's end of a host's cable.
    fn link(&self, host: u32) -> String {
        format!("{}v{host}", self.bridge)
    }

    /// Pulls a host's cable: nobody is told, and nothing comes through.
    fn part(&self, host: u32) {
        ip(&["link", "set", &self.link(host), "down"]);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for (host, namespace) in (1..).zip(&self.namespaces) {
            // A namespace lives on until the last of its processes has ended.
            let _ = Command::new("ip").args(["link", "delete", &self.link(host)]).status();
            let _ = Command::new("ip").args(["netns", "delete", namespace]).status();
        }
        let _ = Command::new("ip").args(["link", "delete", &self.bridge]).status();
    }
}

#[test]
#[ignore = "in make test-long; needs root"]
fn a_rank_is_killed_and_a_host_is_cut_off_without_a_word_and_the_model_is_that_of_one_machine() {
    let network = Network::of(3);
    let [here, a, b, c] = [0, 1, 2, 3].map(|index: usize| network.addresses[index].as_str());
    let named = network.addresses[1..].iter().cloned().zip(network.namespaces.iter().cloned());
    let mut hosts = Hosts::within(&[a, b, c], named.collect());
    let job = Job::new();
    let (events, ssh, program) = (job.path("run.jsonl"), hosts.client(), example("scenario"));
    let mark = format!("NAMESPACE={events}");
    let listed = format!("{a}:2,{b}:2,{c}:2");
    let options = ["run", "-H", &listed, "-n", "4", "--listen", here, "--ssh", &ssh, "--events", &events, "--restart"];
    let run = [&options[..], &["--timeout", "55s", "--", "env", &mark, &program, ITERATIONS]].concat();
    let mut run = job.start("run", &run);
    job.is_under_way("run");
    let processes = |host: &str| with(&[format!("REJOIN_HOST={host}"), mark.clone()]);
    signal(processes(a)[0], "KILL");
    network.part(2);
    until("both of its ranks are on the third host", || processes(c).len() == 2);
    let ran = run.ended().ended(0);
    assert_eq!(digest(&[&ran]), undisturbed());
    ran.says("died (on 10.").says("is killed: ").says("is out of reach (the connection to 10.");
    // They would wait for their tracker.
    hosts.kill(b);
}
