//! Jobs on hosts with networks of their own: namespaces on a bridge. Needs root, and Debian's iproute2.

use crate::harness::{example, signal, until, Ran};
use crate::jobs::{digest, undisturbed, worlds, Job, Started, ITERATIONS};
use crate::processes::with;
use crate::sshd::Hosts;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many networks these tests have made: each has a name and addresses of its own.
static NETWORKS: AtomicU32 = AtomicU32::new(0);

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
        let (pid, nth) = (std::process::id(), NETWORKS.fetch_add(1, Ordering::Relaxed));
        // So many addresses has each: 16 hosts are more than enough.
        let at = |host: u32| format!("10.{}.{}.{}", 200 + pid % 50, pid / 50 % 250, nth * 16 + host);
        let bridge = format!("rj{pid}n{nth}");
        let mut network = Network { bridge: bridge.clone(), addresses: vec![at(1)], namespaces: Vec::new() };
        ip(&["link", "add", &bridge, "type", "bridge"]);
        ip(&["address", "add", &format!("{}/28", at(1)), "dev", &bridge]);
        ip(&["link", "set", &bridge, "up"]);
        for host in 1..=hosts {
            let (name, end) = (format!("{bridge}-{host}"), network.link(host));
            ip(&["netns", "add", &name]);
            network.namespaces.push(name.clone());
            ip(&["link", "add", &end, "type", "veth", "peer", "name", "eth0", "netns", &name]);
            ip(&["link", "set", &end, "master", &bridge, "up"]);
            ip(&["-n", &name, "address", "add", &format!("{}/28", at(host + 1)), "dev", "eth0"]);
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

    /// Plugs it in again.
    fn mend(&self, host: u32) {
        ip(&["link", "set", &self.link(host), "up"]);
    }

    /// Has the bridge pass nothing between hosts, which this machine reaches still, or everything again.
    fn isolate(&self, hosts: &[u32], how: &str) {
        for host in hosts {
            ip(&["link", "set", &self.link(*host), "type", "bridge_slave", "isolated", how]);
        }
    }

    /// A launcher on a host with two slots, whose program ends when the world has had these sizes.
    fn slots(&self, job: &Job, host: u32, sizes: &[&str]) -> Started {
        let (namespace, name) = (&self.namespaces[host as usize - 1], format!("host{host}"));
        let (join, program) = (job.path("join"), example("elastic"));
        let mut command = Command::new("ip");
        command.args([
            "netns",
            "exec",
            namespace,
            env!("CARGO_BIN_EXE_rejoin"),
            "run",
            "--join",
            &join,
            "--slots",
            "2",
        ]);
        command.args(["--host", &name, "--timeout", "55s", "--restart", "--", &program]).args(sizes);
        job.start_command(&name, &mut command)
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
    let (events, ssh, program) = (job.events(), hosts.client(), example("scenario"));
    let mark = format!("NAMESPACE={events}");
    let listed = format!("{a}:2,{b}:2,{c}:2");
    let options = ["run", "-H", &listed, "-n", "4", "--listen", here, "--ssh", &ssh, "--events", &events, "--restart"];
    let run = [&options[..], &["--timeout", "55s", "--", "env", &mark, &program, ITERATIONS]].concat();
    let mut run = job.start("run", &run);
    job.is_under_way();
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

#[test]
#[ignore = "in make test-long; needs root"]
fn hosts_that_reach_the_tracker_and_not_each_other_notice_it_and_go_on_when_they_do_again() {
    let network = Network::of(2);
    let [here, a, b] = [0, 1, 2].map(|index: usize| network.addresses[index].as_str());
    let named = network.addresses[1..].iter().cloned().zip(network.namespaces.iter().cloned());
    let hosts = Hosts::within(&[a, b], named.collect());
    let job = Job::new();
    let (events, ssh, program, listed) = (job.events(), hosts.client(), example("scenario"), format!("{a}:2,{b}:2"));
    let options = ["run", "-H", &listed, "-n", "4", "--listen", here, "--ssh", &ssh, "--events", &events];
    let mut run = job.start("run", &[&options[..], &["--timeout", "100s", "--", &program, ITERATIONS]].concat());
    job.is_under_way();
    network.isolate(&[1, 2], "on");
    let said = || std::fs::read_to_string(&events).unwrap_or_default();
    until("a link is given up", || said().contains("the other host has answered nothing for 30 s"));
    network.isolate(&[1, 2], "off");
    let ran = run.ended().ended(0);
    assert_eq!(digest(&[&ran]), undisturbed());
    assert!(!ran.err.contains("died"), "nobody is lost by it: {}", ran.err);
}

/// A job of at least 2 and at most 4 ranks, of two hosts with two slots each, when the second host has been cut off
/// without a word and the world has gone on without it.
fn second_of_two_cut_off(job: &Job, network: &Network, sizes: &[&str]) -> (Started, Started, Started) {
    let times = ["-n", "4", "--min", "2", "--max", "4", "--elastic-timeout", "300ms", "--resize-interval", "100ms"];
    let tracker = job.elastic_tracker("tracker", &network.addresses[0], &times);
    let (a, b) = (network.slots(job, 1, sizes), network.slots(job, 2, sizes));
    a.printed("reached 1", 2);
    network.part(2);
    a.printed("reached 2", 2);
    assert!(!b.text("out").contains("reached 2"), "{}", b.text("out"));
    (tracker, a, b)
}

/// Each version's sum is that of the world that has made it, and these are the worlds, but for those on the way from
/// one to the next.
fn had_worlds(ran: &[&Ran], expected: &[u64]) {
    digest(ran);
    let had = worlds(ran);
    let mut rest = had.iter();
    assert!(expected.iter().all(|size| rest.any(|world| world == size)), "{expected:?} were expected of {had:?}");
    assert_eq!((had.first(), had.last()), (expected.first(), expected.last()), "{had:?}");
    assert!(!ran[0].err.contains("died"), "those of the first host go on: {}", ran[0].err);
}

#[test]
#[ignore = "in make test-long; needs root"]
fn an_elastic_world_goes_on_without_a_host_that_is_cut_off_and_grows_when_its_cable_is_plugged_in_again() {
    let network = Network::of(2);
    let job = Job::new();
    let (mut tracker, mut a, mut b) = second_of_two_cut_off(&job, &network, &["4", "2", "4"]);
    network.mend(2);
    let (a, b) = (a.ended().ended(0), b.ended().ended(0));
    had_worlds(&[&a, &b], &[4, 2, 4]);
    tracker.ended().ended(0).says("came within 0.3 s").says("ranks goes on as one of 4");
}

#[test]
#[ignore = "in make test-long; needs root"]
fn a_host_that_comes_has_the_numbers_of_one_that_is_cut_off_which_ends_when_it_is_within_reach_again() {
    let network = Network::of(3);
    let job = Job::new();
    let sizes = ["4", "2", "4", "2"];
    let (mut tracker, mut a, mut b) = second_of_two_cut_off(&job, &network, &sizes);
    let mut c = network.slots(&job, 3, &sizes);
    a.printed("reached 3", 2);
    network.mend(2);
    b.ended().ended(7).says("a launcher on host3 that came later starts rank");
    signal(c.child.id(), "TERM");
    let (a, c) = (a.ended().ended(0), c.ended().ended(143));
    had_worlds(&[&a], &[4, 2, 4, 2]);
    assert!(!c.err.contains("died"), "who comes back takes nothing from it: {}", c.err);
    tracker.ended().ended(0).says("leaves, so the world of 4 ranks");
}
