//! A job whose tracker dies, or has a second one beside it.

use crate::harness::{example, finish, rejoin, signal, until};
use crate::jobs::{digest, undisturbed, Job, WORLD};
use crate::missing;
use rejoin_agent::join_file::JoinFile;
use rejoin_agent::protocol::ids::AgentId;
use rejoin_agent::transport::{Hello, Keys, Link, Purpose, Received};
use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_tracker_that_is_killed_and_started_again_takes_the_job_over_at_another_address() {
    let job = Job::new();
    let mut first = job.tracker("first", "127.0.0.1");
    let (mut a, mut b) = (job.host("a", "127.0.0.2", "0-1"), job.host("b", "127.0.0.3", "2-3"));
    job.is_under_way();
    first.kill();
    let mut second = job.tracker("second", "127.0.0.9");
    // A death that only the second one can see to.
    until("rank 0's process is there", || !job.processes(&a).is_empty());
    signal(job.processes(&a)[0], "KILL");
    let (a, b) = (a.ended().ended(0), b.ended().ended(0));
    a.says("died (SIGKILL)");
    assert_eq!(digest(&[&a, &b]), undisturbed());
    second.ended().ended(0).says("takes over job training from life 1");
}

#[test]
fn a_secret_that_the_user_has_given_stands_in_no_join_file_and_serves_the_next_tracker_too() {
    let job = Job::new();
    let (join, secret) = (job.path("join"), job.path("secret"));
    let digits = "5eed".repeat(16);
    std::fs::write(&secret, &digits).expect("room for a secret");
    let tracker = |name: &str, options: &[&str]| {
        let common = ["tracker", "--job", "training", "-n", WORLD, "--join", &join, "--listen", "127.0.0.1"];
        job.start(name, &[&common[..], &["--events", &job.events()], options].concat())
    };
    std::fs::set_permissions(&secret, Permissions::from_mode(0o644)).expect("a mode");
    tracker("open", &["--secret", &secret]).ended().ended(1).says("has mode 644, so others can read it");
    std::fs::set_permissions(&secret, Permissions::from_mode(0o600)).expect("a mode");
    let mut first = tracker("first", &["--secret", &secret]);
    until("the tracker is ready", || first.text("out").contains("join file"));
    assert!(!std::fs::read_to_string(&join).expect("a join file").contains(&digits));
    let (mut a, mut b) = (job.host("a", "127.0.0.2", "0-1"), job.host("b", "127.0.0.3", "2-3"));
    job.is_under_way();
    let status = |name| job.start(name, &["status", "--join", &join]);
    status("asked").ended().ended(0);
    // As on a host that lacks it; who takes part already goes on.
    std::fs::remove_file(&secret).expect("it is there");
    let missing = "isn't there; expected it on each host of the job, under the same name";
    status("without-it").ended().ended(1).says(missing);
    job.host("c", "127.0.0.4", "0-1").ended().ended(1).says(missing);
    std::fs::write(&secret, &digits).expect("room for a secret");
    std::fs::set_permissions(&secret, Permissions::from_mode(0o600)).expect("a mode");
    first.kill();
    tracker("without", &[]).ended().ended(1).says("and the secret in ");
    let mut second = tracker("second", &["--secret", &secret]);
    let (a, b) = (a.ended().ended(0), b.ended().ended(0));
    assert_eq!(digest(&[&a, &b]), undisturbed());
    second.ended().ended(0).says("takes over job training from life 1");
}

#[test]
fn of_two_trackers_of_one_job_the_later_one_stays_and_the_other_one_says_who_has_taken_over() {
    let job = Job::new();
    let mut first = job.tracker("first", "127.0.0.1");
    let (mut a, mut b) = (job.host("a", "127.0.0.2", "0-1"), job.host("b", "127.0.0.3", "2-3"));
    job.is_under_way();
    let mut second = job.tracker("second", "127.0.0.9");
    first.ended().ended(7).says("job training has another tracker now: life 2 at 127.0.0.9:");
    let (a, b) = (a.ended().ended(0), b.ended().ended(0));
    assert_eq!(digest(&[&a, &b]), undisturbed());
    second.ended().ended(0);
}

#[test]
fn a_tracker_that_is_stopped_for_good_is_left_by_all_for_the_one_that_takes_over() {
    let job = Job::new();
    let first = job.tracker("first", "127.0.0.1");
    let (mut a, mut b) = (job.host("a", "127.0.0.2", "0-1"), job.host("b", "127.0.0.3", "2-3"));
    job.is_under_way();
    // Its connections stand, and the kernel acknowledges for it.
    signal(first.child.id(), "STOP");
    let mut second = job.tracker("second", "127.0.0.9");
    let (a, b) = (a.ended().ended(0), b.ended().ended(0));
    assert_eq!(digest(&[&a, &b]), undisturbed());
    second.ended().ended(0).says("takes over job training from life 1");
}

#[test]
fn what_ranks_send_each_other_is_encrypted_where_the_tracker_was_told_so() {
    let job = Job::new();
    let join = job.path("join");
    let common = ["tracker", "--job", "training", "-n", WORLD, "--join", &join, "--listen", "127.0.0.1"];
    let mut tracker = job.start("tracker", &[&common[..], &["--events", &job.events(), "--encrypt"]].concat());
    until("the tracker is ready", || tracker.text("out").contains("join file"));
    let (mut a, mut b) = (job.host("a", "127.0.0.2", "0-1"), job.host("b", "127.0.0.3", "2-3"));
    job.is_under_way();
    let join = JoinFile::read(join.as_ref()).expect("it can be read").expect("it is there");
    let keys = Keys { job: join.job, secret: join.secret.read().expect("a secret"), encrypt: false };
    let hello = Hello { agent: AgentId(8), purpose: Purpose::Fetch, encrypt: false };
    let address = listener(*job.processes(&a).first().expect("rank 0 runs"));
    let mut link = Link::connect(address, &keys, hello).expect("it listens");
    let mut seen = String::new();
    until("a link without encryption is refused", || match link.flush().map(drop).and_then(|()| link.receive()) {
        // This end knows the other one's answer a message later.
        Ok(Received::Pending | Received::Established) => false,
        other => {
            seen = format!("{other:?}");
            true
        }
    });
    assert!(seen.contains("encrypt"), "{seen}");
    let (a, b) = (a.ended().ended(0), b.ended().ended(0));
    assert_eq!(digest(&[&a, &b]), undisturbed());
    tracker.ended().ended(0);
}

/// Where a process listens.
fn listener(pid: u32) -> SocketAddr {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").flatten();
    let sockets: Vec<_> = links.filter_map(|link| std::fs::read_link(link.path()).ok()).collect();
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).expect("it runs");
    let its = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).find(|fields| {
        fields[3] == "0A" && sockets.iter().any(|socket| socket.to_string_lossy() == format!("socket:[{}]", fields[9]))
    });
    let (address, port) = its.expect("it listens")[1].split_once(':').expect("an address and a port");
    let hex = |digits| u32::from_str_radix(digits, 16).expect("a number");
    (hex(address).to_le_bytes(), hex(port) as u16).into()
}

#[test]
fn a_launcher_whose_join_file_has_become_another_jobs_leaves_that_one_alone() {
    let job = Job::new();
    let mut first = job.tracker("first", "127.0.0.1");
    let mut a = job.host("a", "127.0.0.2", "0-1");
    until("its ranks run", || job.processes(&a).len() == 2);
    first.kill();
    std::fs::remove_file(job.path("join")).expect("the tracker has left it");
    std::fs::remove_file(job.events()).expect("the tracker has left it");
    let mut second = job.tracker("second", "127.0.0.1");
    let (mut c, mut d) = (job.host("c", "127.0.0.4", "0-1"), job.host("d", "127.0.0.5", "2-3"));
    let (c, d) = (c.ended().ended(0), d.ended().ended(0));
    assert_eq!(digest(&[&c, &d]), undisturbed());
    assert!(!c.err.contains("another launcher"), "{}", c.err);
    second.ended().ended(0);
    assert!(a.child.try_wait().expect("it is this process's child").is_none(), "{}", a.text("err"));
    a.kill();
}

#[test]
fn a_tracker_with_another_jobs_event_log_is_refused_and_the_job_goes_on_under_the_one_that_it_has() {
    let job = Job::new();
    let mut first = job.tracker("first", "127.0.0.1");
    let (mut a, mut b) = (job.host("a", "127.0.0.2", "0-1"), job.host("b", "127.0.0.3", "2-3"));
    job.is_under_way();
    let (join, log) = (job.path("join"), job.path("other.jsonl"));
    let text = std::fs::read_to_string(job.events()).expect("a log").replace("[\"training\"]", "[\"another\"]");
    std::fs::write(&log, &text).expect("room for a log");
    let refused = ["tracker", "--job", "training", "-n", WORLD, "--join", &join, "--events", &log];
    finish(&mut rejoin(&refused)).ended(1).says("other.jsonl is another run's log; expected that of training");
    assert_eq!(std::fs::read_to_string(&log).expect("a log"), text);
    let (a, b) = (a.ended().ended(0), b.ended().ended(0));
    assert_eq!(digest(&[&a, &b]), undisturbed());
    first.ended().ended(0);
}

#[test]
fn a_tracker_that_is_killed_while_a_host_is_gone_is_followed_by_one_that_waits_for_its_ranks() {
    let job = Job::new();
    let mut first = job.tracker("first", "127.0.0.1");
    let (mut a, mut b) = (job.host("a", "127.0.0.2", "0-1"), job.host("b", "127.0.0.3", "2-3"));
    job.is_under_way();
    b.kill();
    until("both ranks are missing", || missing(&job) == 2);
    first.kill();
    let mut second = job.tracker("second", "127.0.0.1");
    let mut c = job.host("c", "127.0.0.4", "2-3");
    let (a, c) = (a.ended().ended(0), c.ended().ended(0));
    assert!(!a.err.contains("died"), "the other host's ranks go on: {}", a.err);
    assert_eq!(digest(&[&a, &c]), undisturbed());
    second.ended().ended(0).says("takes over job training from life 1");
}

#[test]
fn a_tracker_whose_words_nobody_can_take_serves_its_job_to_the_end() {
    let job = Job::new();
    let (join, events) = (job.path("join"), job.events());
    let tracker = rejoin(&["tracker", "--job", "training", "-n", WORLD, "--join", &join, "--events", &events]);
    // As on a disk that is full.
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "exec \"$@\" --listen 127.0.0.1 >/dev/full 2>&1", "sh"]).arg(tracker.get_program());
    let mut tracker = job.start_command("tracker", command.args(tracker.get_args()));
    let (mut a, mut b) = (job.host("a", "127.0.0.2", "0-1"), job.host("b", "127.0.0.3", "2-3"));
    job.is_under_way();
    signal(*job.processes(&b).first().expect("rank 2 runs"), "KILL");
    let (a, b) = (a.ended().ended(0), b.ended().ended(0));
    assert_eq!(digest(&[&a, &b]), undisturbed());
    tracker.ended().ended(0);
}

#[test]
fn a_signal_ends_a_tracker_whose_job_is_over_and_that_waits_for_one_who_is_still_linked() {
    let job = Job::new();
    let join = job.path("join");
    let tracker = ["tracker", "--job", "training", "-n", "1", "--join", &join, "--listen", "127.0.0.1"];
    let mut tracker = job.start("tracker", &tracker);
    let script = "\"$0\" 3; exec sleep 1000";
    let options = ["run", "--join", &join, "--rank", "0", "--timeout", "30s", "--", "sh", "-c", script];
    let mut host = job.start("host", &[&options[..], &[&example("scenario")]].concat());
    host.printed("digest ", 1);
    signal(tracker.child.id(), "TERM");
    tracker.ended().ended(0).says("every rank ended well");
    assert_eq!(host.child.try_wait().expect("a child"), None, "it was not waited for");
    signal(host.child.id(), "TERM");
    host.ended().ended(143);
}
