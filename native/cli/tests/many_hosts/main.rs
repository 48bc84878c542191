//! A job whose tracker is a process of its own, and whose ranks are started by several launchers: each one stands for
//! a host, with an address and a host's name of its own. Real processes, real signals.

#[allow(dead_code)] // this test and the launcher's need different parts
#[path = "../launcher/harness.rs"]
mod harness;
#[allow(dead_code)]
#[path = "../launcher/jobs.rs"]
mod jobs;

mod elastic;
mod launchers;
mod status;
mod trackers;

use harness::{example, finish, rejoin, signal, Ran};
use jobs::{digest, undisturbed, Job, ITERATIONS};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

#[test]
fn ranks_of_two_hosts_end_with_the_model_of_one_and_a_dead_one_is_started_again() {
    let job = Job::new();
    let mut tracker = job.tracker("tracker", "127.0.0.1");
    let (mut a, mut b) = (job.host("a", "127.0.0.2", "0-1"), job.host("b", "127.0.0.3", "2,3"));
    job.is_under_way();
    signal(*job.processes(&b).first().expect("rank 2 runs"), "KILL");
    let (a, b) = (a.ended().ended(0), b.ended().ended(0));
    b.says("died (SIGKILL); attempt 1 starts").says("all 2 ranks ended well after 1 restarts");
    assert!(!a.err.contains("died"), "the other host's ranks go on: {}", a.err);
    assert_eq!(digest(&[&a, &b]), undisturbed());
    // Also at the start of the rank that came again.
    let places = |ran: &Ran, text: &str| ran.out.lines().filter(|line| line.ends_with(text)).count();
    let first = "is local rank 0 of 2, cross rank 0 of 2";
    assert_eq!(
        (places(&a, first), places(&b, "is local rank 0 of 2, cross rank 1 of 2")),
        (1, 2),
        "{}{}",
        a.out,
        b.out
    );
    assert_eq!(places(&b, "is local rank 1 of 2, cross rank 1 of 2"), 1, "{}", b.out);
    tracker.ended().ended(0).says("is lost").says("every rank ended well");
    assert!(!PathBuf::from(job.path("join")).exists(), "the join file is removed at the end");
}

#[test]
fn the_ranks_of_a_host_that_is_gone_go_on_where_another_launcher_starts_them() {
    let job = Job::new();
    let mut tracker = job.tracker("tracker", "127.0.0.1");
    let (mut a, mut b) = (job.host("a", "127.0.0.2", "0-1"), job.host("b", "127.0.0.3", "2-3"));
    job.is_under_way();
    // Its ranks die with it.
    b.kill();
    let mut c = job.host("c", "127.0.0.4", "2-3");
    let (a, c) = (a.ended().ended(0), c.ended().ended(0));
    assert!(!a.err.contains("died"), "the other host's ranks go on: {}", a.err);
    assert_eq!(digest(&[&a, &c]), undisturbed());
    tracker.ended().ended(0).says("rank 2 has joined as incarnation 1 (process 2.1)");
}

/// How many ranks are missing, as the job's status says.
fn missing(job: &Job) -> usize {
    let status = finish(&mut rejoin(&["status", "--join", &job.path("join")]));
    status.out.matches(" is missing: ").count()
}

#[test]
fn a_rank_that_fails_for_good_ends_the_job_on_all_hosts() {
    let job = Job::new();
    let mut tracker = job.tracker("tracker", "127.0.0.1");
    let (join, program) = (job.path("join"), example("scenario"));
    let mut a = job.host("a", "127.0.0.2", "0-2");
    let mut b =
        job.start("b", &["run", "--join", &join, "--rank", "3", "--timeout", "50s", "--", &program, ITERATIONS]);
    job.is_under_way();
    signal(job.processes(&b)[0], "KILL");
    b.ended().ended(3).says("ranks are started again only with --restart");
    a.ended().ended(4).says("rank 3 failed (SIGKILL)");
    tracker.ended().ended(4).says("rank 3 failed (SIGKILL)");
    assert!(!PathBuf::from(job.path("join")).exists(), "the join file is removed at the end");
}

#[test]
fn ctrl_c_to_the_tracker_ends_the_job_on_all_hosts() {
    let job = Job::new();
    let mut tracker = job.tracker("tracker", "127.0.0.1");
    let (mut a, mut b) = (job.host("a", "127.0.0.2", "0-1"), job.host("b", "127.0.0.3", "2-3"));
    job.is_under_way();
    signal(tracker.child.id(), "INT");
    a.ended().ended(4).says("CANCELLED").says("SIGINT");
    b.ended().ended(4);
    tracker.ended().ended(130);
}

#[test]
fn a_launcher_that_finds_no_tracker_ends_and_says_what_it_waited_for() {
    let job = Job::new();
    let join = job.path("join");
    let all = ["run", "--join", &join, "--ranks", "0-1", "--members", "300ms", "--", "true"];
    let ran = finish(&mut rejoin(&all)).ended(1);
    ran.says("there is no such file").says("rejoin tracker --join");
    // One that was killed leaves its file behind.
    job.tracker("tracker", "127.0.0.1").kill();
    let ran = finish(&mut rejoin(&all)).ended(1);
    ran.says("TRACKER_UNREACHABLE").says("not there within 0.3 s (--members)");
}

#[test]
fn a_join_file_that_others_can_read_and_ranks_that_the_job_does_not_have_are_refused() {
    let job = Job::new();
    let _tracker = job.tracker("tracker", "127.0.0.1");
    let join = job.path("join");
    let ran = finish(&mut rejoin(&["run", "--join", &join, "--ranks", "2-4", "--", "true"])).ended(1);
    ran.says("job training has ranks 0 to 3; --ranks names 4");
    std::fs::set_permissions(&join, std::fs::Permissions::from_mode(0o644)).expect("a mode");
    let ran = finish(&mut rejoin(&["run", "--join", &join, "--ranks", "0-1", "--", "true"])).ended(1);
    ran.says("has mode 644, so others can read what joins the job");
    std::fs::set_permissions(&join, std::fs::Permissions::from_mode(0o600)).expect("a mode");
    match std::os::unix::fs::chown(&join, Some(65534), None) {
        Ok(()) => {
            let ran = finish(&mut rejoin(&["run", "--join", &join, "--ranks", "0-1", "--", "true"])).ended(1);
            ran.says("belongs to user 65534");
        }
        Err(cause) => println!("only root gives a file away, so another user's isn't tried: {cause}"),
    }
}

#[test]
fn what_can_not_go_together_is_refused_with_what_is_expected() {
    let refused = |arguments: &[&str], text: &str| {
        finish(&mut rejoin(arguments)).ended(2).says(text);
    };
    refused(&["run", "--join", "f", "-n", "4", "--", "true"], "the ranks that are started here are expected, as 0-3");
    refused(&["run", "--join", "f", "--ranks", "0-1", "--durable", "d", "--", "true"], "cannot be used with");
    refused(
        &["run", "-n", "0-3", "--", "true"],
        "expected a number of ranks; which ones are started is said with --join",
    );
    refused(&["run", "--rank", "3", "--", "true"], "--join");
    refused(
        &["tracker", "--job", "j", "-n", "2", "--join", "f", "--listen", "0.0.0.0"],
        "the address that other hosts reach",
    );
    let mut auto = rejoin(&["run", "--join", "f", "--rank", "auto", "--", "true"]);
    for name in ["SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "JOB_COMPLETION_INDEX", "RANK"] {
        auto.env_remove(name);
    }
    finish(&mut auto).ended(2).says("SLURM_PROCID");
}

fn prints(ran: &Ran, text: &str) {
    assert!(ran.out.contains(text), "{text:?} was expected in:\n{}", ran.out);
}
