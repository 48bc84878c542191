//! Launchers that are started on other hosts by ssh, by hand.

use crate::harness::{example, Ran};
use crate::jobs::{digest, undisturbed, Job, Started, ITERATIONS};
use crate::processes::kill_rank;
use crate::sshd::Hosts;
use std::process::Command;

/// `rejoin run` on a host, with these ranks.
fn by_ssh(job: &Job, hosts: &Hosts, host: &str, ranks: &str) -> Started {
    let rejoin = env!("CARGO_BIN_EXE_rejoin");
    let (join, program, client) = (job.path("join"), example("scenario"), hosts.client());
    let mut words = client.split(' ');
    let mut command = Command::new(words.next().expect("a program"));
    command.args(words).arg(host).args([rejoin, "run", "--join", &join, "--ranks", ranks, "--host", host]);
    command.args(["--restart", "--timeout", "50s", "--", &program, ITERATIONS]);
    job.start_command(host, &mut command)
}

fn ended(started: &mut Started) -> Ran {
    started.ended().ended(0)
}

#[test]
fn ranks_of_launchers_that_ssh_has_started_end_with_the_model_of_one_machine_whoever_is_killed() {
    let hosts = Hosts::at(&["127.0.0.2", "127.0.0.3"]);
    let job = Job::new();
    let mut tracker = job.tracker("tracker", "127.0.0.1");
    let (mut a, mut b) = (by_ssh(&job, &hosts, "127.0.0.2", "0-1"), by_ssh(&job, &hosts, "127.0.0.3", "2-3"));
    job.is_under_way();
    kill_rank(&job, 2);
    let (a, b) = (ended(&mut a), ended(&mut b));
    b.says("died (SIGKILL); attempt 1 starts");
    assert!(!a.err.contains("died"), "the other host's ranks go on: {}", a.err);
    assert_eq!(digest(&[&a, &b]), undisturbed());
    ended(&mut tracker);
}

#[test]
#[ignore = "in make test-long"]
fn the_ranks_of_a_host_that_died_with_its_sshd_go_on_where_ssh_starts_them_again() {
    let mut hosts = Hosts::at(&["127.0.0.2", "127.0.0.3", "127.0.0.4"]);
    let job = Job::new();
    let mut tracker = job.tracker("tracker", "127.0.0.1");
    let (mut a, mut b) = (by_ssh(&job, &hosts, "127.0.0.2", "0-1"), by_ssh(&job, &hosts, "127.0.0.3", "2-3"));
    job.is_under_way();
    hosts.kill("127.0.0.3");
    b.ended().ended(255);
    let mut c = by_ssh(&job, &hosts, "127.0.0.4", "2-3");
    let (a, c) = (ended(&mut a), ended(&mut c));
    assert!(!a.err.contains("died"), "the other host's ranks go on: {}", a.err);
    assert_eq!(digest(&[&a, &c]), undisturbed());
    ended(&mut tracker).says("rank 2 has joined as incarnation 1 (process 2.1)");
}
