//! Open MPI's `mpirun`, whose tasks are `rejoin run --rank auto`.

use crate::harness::{example, signal, Ran};
use crate::jobs::{digest, undisturbed, Job, Started, ITERATIONS};
use crate::processes::{dies_with_test, kill_rank, parent, with};
use crate::sshd::Hosts;

/// `mpirun` with these options, and the ranks that they say.
fn by_mpirun(job: &Job, name: &str, options: &[&str], ranks: &[&str]) -> Started {
    let (join, program) = (job.path("join"), example("scenario"));
    let mut command = dies_with_test("mpirun", "openmpi-bin");
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.args(["--oversubscribe"]).args(options);
    command.args([env!("CARGO_BIN_EXE_rejoin"), "run", "--join", &join]).args(ranks);
    command.args(["--restart", "--timeout", "50s", "--", &program, ITERATIONS]);
    job.start_command(name, &mut command)
}

fn ended(started: &mut Started) -> Ran {
    started.ended().ended(0)
}

#[test]
fn a_rank_under_mpirun_that_is_killed_is_started_again_below_it_and_the_model_is_that_of_an_undisturbed_run() {
    let job = Job::new();
    let mut tracker = job.tracker("tracker", "127.0.0.1");
    let mut all = by_mpirun(&job, "all", &["-n", "4"], &["--rank", "auto"]);
    job.is_under_way();
    kill_rank(&job, 2);
    let all = ended(&mut all);
    all.says("rank 2 died (SIGKILL); attempt 1 starts");
    assert_eq!(digest(&[&all]), undisturbed());
    ended(&mut tracker);
}

#[test]
#[ignore = "in make test-long"]
fn an_mpirun_on_two_hosts_sees_no_death_of_a_rank_on_either() {
    let hosts = Hosts::at(&["127.0.0.2", "127.0.0.3"]);
    let job = Job::new();
    let mut tracker = job.tracker("tracker", "127.0.0.1");
    let agent = hosts.client();
    // Its daemons would find each other by any interface, also by those of hosts that other tests make and take down.
    let interface = ["--mca", "oob_tcp_if_include", "lo"];
    let options = ["--host", "127.0.0.2:2,127.0.0.3:2", "--mca", "plm_rsh_agent", &agent, "-n", "4"];
    let options = [&interface[..], &options].concat();
    let mut all = by_mpirun(&job, "all", &options, &["--rank", "auto"]);
    job.is_under_way();
    for rank in [0, 3] {
        kill_rank(&job, rank);
    }
    let all = ended(&mut all);
    all.says("rank 0 died (SIGKILL)").says("rank 3 died (SIGKILL)");
    assert_eq!(digest(&[&all]), undisturbed());
    ended(&mut tracker);
}

#[test]
#[ignore = "in make test-long"]
fn the_ranks_of_an_mpirun_that_is_killed_with_all_its_processes_go_on_under_another_one() {
    let job = Job::new();
    let mut tracker = job.tracker("tracker", "127.0.0.1");
    let mut a = by_mpirun(&job, "a", &["-n", "1"], &["--ranks", "0-1", "--host", "a"]);
    let mut b = by_mpirun(&job, "b", &["-n", "1"], &["--ranks", "2-3", "--host", "b"]);
    job.is_under_way();
    let ranks = with(&["REJOIN_HOST=b".into(), format!("REJOIN_JOIN={}", job.path("join"))]);
    let launcher = ranks.first().and_then(|rank| parent(*rank)).expect("rank 2 has a launcher");
    for pid in [b.child.id(), launcher] {
        signal(pid, "KILL");
    }
    assert_eq!(b.ended().status, None, "it was killed");
    let mut c = by_mpirun(&job, "c", &["-n", "1"], &["--ranks", "2-3", "--host", "c"]);
    let (a, c) = (ended(&mut a), ended(&mut c));
    assert!(!a.err.contains("died"), "the other host's ranks go on: {}", a.err);
    assert_eq!(digest(&[&a, &c]), undisturbed());
    ended(&mut tracker);
}
