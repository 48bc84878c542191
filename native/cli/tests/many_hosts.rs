//! A job whose tracker is a process of its own, and whose ranks are started by several launchers: each one stands for
//! a host, with an address and a host's name of its own. Real processes, real signals.

#[allow(dead_code)] // this test and the launcher's need different parts
#[path = "launcher/harness.rs"]
mod harness;
#[allow(dead_code)]
#[path = "launcher/jobs.rs"]
mod jobs;

use harness::{example, finish, rejoin, signal, until, Ran};
use jobs::{digest, undisturbed, worlds, Job, Started, ITERATIONS};
use parking_lot::Mutex;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn ranks_of_two_hosts_end_with_the_model_of_one_and_a_dead_one_is_started_again() {
    let job = Job::new();
    let mut tracker = job.tracker("tracker", "127.0.0.1");
    let (mut a, mut b) = (job.host("a", "127.0.0.2", "0-1"), job.host("b", "127.0.0.3", "2,3"));
    job.is_under_way("tracker");
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
fn a_tracker_that_is_killed_and_started_again_takes_the_job_over_at_another_address() {
    let job = Job::new();
    let mut first = job.tracker("first", "127.0.0.1");
    let (mut a, mut b) = (job.host("a", "127.0.0.2", "0-1"), job.host("b", "127.0.0.3", "2-3"));
    job.is_under_way("first");
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
fn the_ranks_of_a_host_that_is_gone_go_on_where_another_launcher_starts_them() {
    let job = Job::new();
    let mut tracker = job.tracker("tracker", "127.0.0.1");
    let (mut a, mut b) = (job.host("a", "127.0.0.2", "0-1"), job.host("b", "127.0.0.3", "2-3"));
    job.is_under_way("tracker");
    // Its ranks die with it.
    b.kill();
    let mut c = job.host("c", "127.0.0.4", "2-3");
    let (a, c) = (a.ended().ended(0), c.ended().ended(0));
    assert!(!a.err.contains("died"), "the other host's ranks go on: {}", a.err);
    assert_eq!(digest(&[&a, &c]), undisturbed());
    tracker.ended().ended(0).says("rank 2 has joined as incarnation 1 (process 2.1)");
}

#[test]
fn a_launcher_that_comes_later_takes_ranks_over_and_the_former_one_ends_and_says_so() {
    let job = Job::new();
    let mut tracker = job.tracker("tracker", "127.0.0.1");
    let (mut a, mut b) = (job.host("a", "127.0.0.2", "0-1"), job.host("b", "127.0.0.3", "2-3"));
    job.is_under_way("tracker");
    let mut c = job.host("c", "127.0.0.4", "2-3");
    b.ended().ended(7).says("a launcher on c that came later starts rank 2, 3 now");
    let (a, c) = (a.ended().ended(0), c.ended().ended(0));
    assert!(!a.err.contains("died"), "the other host's ranks go on: {}", a.err);
    assert_eq!(digest(&[&a, &c]), undisturbed());
    tracker.ended().ended(0);
}

/// The way of a host to the tracker, which can be cut off without a word to either end.
struct Way {
    join: String,
    is_cut: Arc<AtomicBool>,
    links: Arc<Mutex<Vec<TcpStream>>>,
}

impl Way {
    fn new(job: &Job) -> Way {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let here = listener.local_addr().expect("it is bound").to_string();
        let (join, own) = (job.path("join"), job.path("join-by-the-way"));
        std::fs::copy(&join, &own).expect("the join file is there");
        let text = std::fs::read_to_string(&join).expect("it is text").replace(&tracker_in(&join), &here);
        std::fs::write(&own, text).expect("room for a file");
        let (is_cut, links): (Arc<AtomicBool>, Arc<Mutex<Vec<TcpStream>>>) = Default::default();
        let (cut, made) = (is_cut.clone(), links.clone());
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                while cut.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                let Ok(far) = TcpStream::connect(tracker_in(&join)) else { continue };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().expect("a file"), to.try_clone().expect("a file"));
                    let cut = cut.clone();
                    std::thread::spawn(move || carry(from, to, &cut));
                }
                made.lock().extend([near, far]);
            }
        });
        Way { join: own, is_cut, links }
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
    }

    /// Connections of before are over.
    fn mend(&self) {
        self.links.lock().drain(..).for_each(|link| drop(link.shutdown(Shutdown::Both)));
        self.is_cut.store(false, Ordering::Release);
    }
}

fn tracker_in(join: &str) -> String {
    let text = std::fs::read_to_string(join).expect("the join file is there");
    let tracker = text.split_once("\"tracker\"").and_then(|(_, rest)| rest.split('"').nth(1));
    tracker.expect("it names the tracker").into()
}

fn carry(mut from: TcpStream, mut to: TcpStream, is_cut: &AtomicBool) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        while is_cut.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(5));
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// A job of two ranks of which the second one's host is cut off, and another one has it meanwhile: the tracker, the
/// hosts, and the way.
fn second_of_two_cut_off(job: &Job) -> (Started, [Started; 3], Way) {
    let tracker = job.elastic_tracker("tracker", "127.0.0.1", &["-n", "2"]);
    let way = Way::new(job);
    // The program goes on until the world has three ranks, which it never has.
    let host = |name: &str, join: &str, rank: &str| {
        let options = ["run", "--join", join, "--rank", rank, "--host", name, "--address", "127.0.0.1"];
        let program = ["--restart", "--restarts", "3", "--timeout", "50s", "--", &example("elastic"), "2", "3"];
        job.start(name, &[&options[..], &program].concat())
    };
    let (a, b) = (host("a", &job.path("join"), "0"), host("b", &way.join, "1"));
    a.printed("reached 1", 1);
    b.printed("reached 1", 1);
    way.cut();
    let c = host("c", &job.path("join"), "1");
    c.printed("is rank 1 of 2 from version", 1);
    (tracker, [a, b, c], way)
}

#[test]
fn a_launcher_that_is_back_goes_on_with_its_ranks_where_the_one_that_had_them_meanwhile_is_gone() {
    let job = Job::new();
    let (mut tracker, [mut a, b, mut c], way) = second_of_two_cut_off(&job);
    signal(c.child.id(), "TERM");
    c.ended().ended(143);
    way.mend();
    b.printed("is rank 1 of 2 from version", 2);
    assert!(!tracker.text("err").contains("UNRECOVERABLE"), "{}", tracker.text("err"));
    signal(tracker.child.id(), "TERM");
    tracker.ended().says("ended by SIGTERM");
    assert!(!a.ended().err.contains("died"), "those of the first host go on: {}", a.text("err"));
}

#[test]
fn a_launcher_that_is_back_leaves_its_ranks_to_the_one_that_has_them_also_under_a_later_tracker() {
    let job = Job::new();
    let (mut tracker, [mut a, mut b, mut c], way) = second_of_two_cut_off(&job);
    tracker.kill();
    let mut second = job.elastic_tracker("second", "127.0.0.1", &["-n", "2"]);
    let log = job.path("second.jsonl");
    until("both processes have found it", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        ["a", "c"].iter().all(|host| text.contains(&format!("\"host\":\"{host}\"")))
    });
    way.mend();
    b.ended().ended(7).says("a launcher on c that came later starts rank 1 now");
    signal(second.child.id(), "TERM");
    second.ended().says("ended by SIGTERM");
    for host in [&mut a, &mut c] {
        assert!(!host.ended().err.contains("died"), "they go on: {}", host.text("err"));
    }
}

#[test]
fn of_two_trackers_of_one_job_the_later_one_stays_and_the_other_one_says_who_has_taken_over() {
    let job = Job::new();
    let mut first = job.tracker("first", "127.0.0.1");
    let (mut a, mut b) = (job.host("a", "127.0.0.2", "0-1"), job.host("b", "127.0.0.3", "2-3"));
    job.is_under_way("first");
    let mut second = job.tracker("second", "127.0.0.9");
    first.ended().ended(7).says("job training has another tracker now: life 2 at 127.0.0.9:");
    let (a, b) = (a.ended().ended(0), b.ended().ended(0));
    assert_eq!(digest(&[&a, &b]), undisturbed());
    second.ended().ended(0);
}

/// The tracker, and the launchers of a world that has grown from two ranks to four by the second one's slots, which
/// was then told to end.
fn second_of_two_told_to_end(job: &Job) -> (Started, Started, Started) {
    // A slot that is given up isn't waited for: otherwise the run would end with its limit.
    let times = ["-n", "2", "--min", "1", "--max", "4", "--elastic-timeout", "55s", "--resize-interval", "100ms"];
    let tracker = job.elastic_tracker("tracker", "127.0.0.1", &times);
    let sizes = ["2", "4", "2"];
    let a = job.slots("a", "2", &sizes);
    a.printed("reached 1", 2);
    let b = job.slots("b", "2", &sizes);
    b.printed("reached 2", 2);
    let status = finish(&mut rejoin(&["status", "--join", &job.path("join")])).ended(0);
    prints(&status, "its world has changed ");
    signal(b.child.id(), "TERM");
    (tracker, a, b)
}

#[test]
fn a_tracker_that_is_killed_while_a_host_is_gone_is_followed_by_one_that_waits_for_its_ranks() {
    let job = Job::new();
    let mut first = job.tracker("first", "127.0.0.1");
    let (mut a, mut b) = (job.host("a", "127.0.0.2", "0-1"), job.host("b", "127.0.0.3", "2-3"));
    job.is_under_way("first");
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

/// How many ranks are missing, as the job's status says.
fn missing(job: &Job) -> usize {
    let status = finish(&mut rejoin(&["status", "--join", &job.path("join")]));
    status.out.matches(" is missing: ").count()
}

/// An elastic job of three ranks on two hosts, of which the second one is killed, and its tracker after it, at the
/// moment that this waits for: the next one shrinks the world, with the sums that are right for each.
fn shrinks_under_the_next_tracker(timeout: &str, moment: impl FnOnce(&Job, &Started)) {
    let job = Job::new();
    let times = ["-n", "3", "--min", "2", "--max", "3", "--elastic-timeout", timeout];
    let mut first = job.elastic_tracker("first", "127.0.0.1", &times);
    let sizes = ["3", "2"];
    let mut a = job.slots("a", "2", &sizes);
    let mut b = job.slots("b", "1", &sizes);
    a.printed("reached 1", 2);
    let survivor = *job.processes(&a).last().expect("it has two");
    // It can't say anything before the tracker is gone.
    signal(survivor, "STOP");
    b.kill();
    moment(&job, &first);
    first.kill();
    let mut second = job.elastic_tracker("second", "127.0.0.1", &times);
    signal(survivor, "CONT");
    let a = a.ended().ended(0);
    assert_eq!(worlds(&[&a]), [3, 2]);
    assert!(!a.err.contains("died"), "those of the first host go on: {}", a.err);
    second.ended().ended(0);
}

#[test]
fn a_tracker_that_is_killed_while_a_rank_is_dead_is_followed_by_one_that_shrinks_the_world() {
    shrinks_under_the_next_tracker("2s", |job, _| until("the rank is missing", || missing(job) == 1));
}

#[test]
fn a_tracker_that_is_killed_in_the_middle_of_a_resize_is_followed_by_one_that_ends_it() {
    let is_decided = |tracker: &Started| tracker.text("err").contains("the world of 3 ranks goes on as one of 2");
    shrinks_under_the_next_tracker("300ms", |_, tracker| until("the world changes", || is_decided(tracker)));
}

#[test]
fn the_status_of_an_elastic_job_says_that_the_others_go_on_without_a_rank_that_is_missing() {
    let job = Job::new();
    let times = ["-n", "2", "--min", "1", "--max", "2", "--elastic-timeout", "55s"];
    let mut tracker = job.elastic_tracker("tracker", "127.0.0.1", &times);
    let (mut a, mut b) = (job.slots("a", "1", &["2", "1"]), job.slots("b", "1", &["2", "1"]));
    a.printed("is rank", 1);
    b.printed("is rank", 1);
    b.kill();
    let mut said = String::new();
    until("a rank is missing", || {
        said = finish(&mut rejoin(&["status", "--join", &job.path("join")])).ended(0).out;
        said.contains(" is missing: ")
    });
    assert!(
        said.contains("the others go on without it (--elastic-timeout); where they are too few, the job"),
        "{said}"
    );
    signal(tracker.child.id(), "TERM");
    tracker.ended();
    a.ended();
}

#[test]
fn a_world_grows_by_the_slots_of_a_launcher_that_comes_and_shrinks_at_once_when_it_is_told_to_end() {
    let job = Job::new();
    let (mut tracker, mut a, mut b) = second_of_two_told_to_end(&job);
    b.ended().ended(143);
    let a = a.ended().ended(0);
    digest(&[&a]);
    assert!(worlds(&[&a]).starts_with(&[2]) && worlds(&[&a]).contains(&4), "{}", a.out);
    assert_eq!(worlds(&[&a]).last(), Some(&2), "{}", a.out);
    assert!(!a.err.contains("died"), "those of the first host go on: {}", a.err);
    tracker.ended().ended(0).says("ranks goes on as one of 4").says("leaves, so the world of 4 ranks");
}

#[test]
fn slots_on_which_processes_fail_again_and_again_are_excluded_for_a_while_and_the_world_grows_when_all_is_well() {
    let job = Job::new();
    let times = ["-n", "2", "--min", "2", "--max", "3", "--resize-interval", "100ms"];
    let mut tracker = job.elastic_tracker("tracker", "127.0.0.1", &times);
    let mut a = job.slots("a", "2", &["2", "3"]);
    a.printed("reached 1", 2);
    let (join, is_well, program) = (job.path("join"), job.path("well"), example("elastic"));
    let script = format!("[ -e {is_well} ] || exit 3; exec \"$0\" \"$@\"");
    let run = ["run", "--join", &join, "--slots", "1", "--host", "b", "--timeout", "50s", "--restart"];
    let limits = ["--restarts", "1000", "--failures-per-host", "2", "--exclude-cooldown", "200ms,500ms", "--"];
    let mut b = job.start("b", &[&run[..], &limits, &["sh", "-c", &script, &program, "2", "3"]].concat());
    until("it is excluded twice", || b.text("err").matches(" is excluded for 0.").count() > 1);
    std::fs::write(is_well, "").expect("room for a file");
    let (a, b) = (a.ended().ended(0), b.ended().ended(0));
    assert_eq!(worlds(&[&a]), [2, 3]);
    assert_eq!(format!("{}{}", a.out, b.out).matches("digest ").count(), 3);
    b.says("2 processes have failed there (--failures-per-host)").says(" is used again");
    tracker.ended().ended(0);
}

#[test]
fn a_launcher_whose_slots_are_excluded_for_good_ends_and_says_so_and_another_ones_are_used() {
    let job = Job::new();
    let times = ["-n", "2", "--min", "2", "--max", "3", "--resize-interval", "100ms"];
    let mut tracker = job.elastic_tracker("tracker", "127.0.0.1", &times);
    let mut a = job.slots("a", "2", &["2", "3"]);
    a.printed("reached 1", 2);
    let run = ["run", "--join", &job.path("join"), "--slots", "1", "--host", "b", "--timeout", "50s", "--restart"];
    let mut b = job.start("b", &[&run[..], &["--failures-per-host", "2", "--", "sh", "-c", "exit 3"]].concat());
    b.ended().ended(3).says(" is excluded for good: 2 processes have failed there").says("no host is left");
    let mut c = job.slots("c", "1", &["2", "3"]);
    let (a, c) = (a.ended().ended(0), c.ended().ended(0));
    digest(&[&a, &c]);
    assert_eq!(worlds(&[&a]), [2, 3]);
    tracker.ended().ended(0);
}

#[test]
fn a_launcher_that_is_told_to_end_and_hears_of_the_jobs_end_first_starts_nothing_again_and_ends_by_its_signal() {
    let job = Job::new();
    let (mut tracker, mut a, mut b) = second_of_two_told_to_end(&job);
    until("the world shrinks", || tracker.text("err").contains("leaves, so the world of 4 ranks"));
    signal(b.child.id(), "STOP");
    a.ended().ended(0);
    signal(b.child.id(), "CONT");
    let b = b.ended().ended(143);
    tracker.ended().ended(0);
    assert!(!b.err.contains("starts after"), "{}", b.err);
}

#[test]
fn a_host_that_is_gone_is_waited_for_in_vain_and_another_one_takes_its_numbers_and_no_more_than_there_are() {
    let job = Job::new();
    let times = ["-n", "4", "--min", "2", "--max", "4", "--elastic-timeout", "300ms", "--resize-interval", "100ms"];
    let mut tracker = job.elastic_tracker("tracker", "127.0.0.1", &times);
    let sizes = ["4", "2", "4"];
    let (mut a, mut b) = (job.slots("a", "2", &sizes), job.slots("b", "2", &sizes));
    a.printed("reached 1", 2);
    b.kill();
    a.printed("reached 2", 2);
    let mut c = job.slots("c", "3", &sizes);
    let (a, c) = (a.ended().ended(0), c.ended().ended(0));
    digest(&[&a, &c]);
    assert_eq!(c.out.matches("digest ").count(), 2, "there are numbers for two of its three slots: {}", c.out);
    tracker.ended().ended(0).says("came within 0.3 s").says("ranks goes on as one of 4");
}

#[test]
fn a_tracker_that_takes_an_elastic_job_over_knows_its_world_and_gives_no_number_twice() {
    let job = Job::new();
    let times = ["-n", "2", "--min", "2", "--max", "4", "--elastic-timeout", "55s", "--resize-interval", "100ms"];
    let mut first = job.elastic_tracker("first", "127.0.0.1", &times);
    let sizes = ["2", "3", "4"];
    let (mut a, mut b) = (job.slots("a", "2", &sizes), job.slots("b", "1", &sizes));
    b.printed("reached 2", 1);
    first.kill();
    let mut second = job.elastic_tracker("second", "127.0.0.9", &times);
    let mut c = job.slots("c", "1", &sizes);
    let (a, b, c) = (a.ended().ended(0), b.ended().ended(0), c.ended().ended(0));
    digest(&[&a, &b, &c]);
    for ran in [&a, &b, &c] {
        assert!(!ran.err.contains("starts rank"), "none is taken over: {}", ran.err);
    }
    second.ended().ended(0).says("takes over job training from life 1");
}

#[test]
fn processes_whose_launcher_was_told_to_end_before_the_tracker_died_leave_in_order_when_it_is_back() {
    let job = Job::new();
    // A slot that is given up isn't waited for: otherwise the run would end with its limit.
    let times = ["-n", "2", "--min", "2", "--max", "4", "--elastic-timeout", "55s", "--resize-interval", "100ms"];
    let mut first = job.elastic_tracker("first", "127.0.0.1", &times);
    let (join, program, sizes) = (job.path("join"), example("elastic"), ["2", "4", "2"]);
    let mut a = job.slots("a", "2", &sizes);
    a.printed("reached 1", 2);
    // It isn't to end its processes by itself, however long this takes.
    let slots = ["run", "--join", &join, "--slots", "2", "--host", "b", "--timeout", "50s", "--grace", "45s"];
    let mut b = job.start("b", &[&slots[..], &["--restart", "--", &program], &sizes].concat());
    b.printed("reached 2", 2);
    // No version is finished, so the world doesn't change, before the tracker is back.
    let stopped = job.processes(&a)[0];
    signal(stopped, "STOP");
    signal(b.child.id(), "TERM");
    until("its launcher has said so", || b.text("err").contains("as soon as the others have what they need"));
    first.kill();
    let mut second = job.elastic_tracker("second", "127.0.0.9", &times);
    signal(stopped, "CONT");
    let b = b.ended().ended(143);
    assert!(!b.err.contains("died") && !b.err.contains("is killed"), "{}", b.err);
    let a = a.ended().ended(0);
    digest(&[&a]);
    assert_eq!(worlds(&[&a]).last(), Some(&2), "{}", a.out);
    second.ended().ended(0).says("leaves, so the world of 4 ranks goes on as one of 2");
}

#[test]
fn slots_of_a_job_whose_ranks_are_fixed_and_another_world_than_that_of_the_join_file_are_refused() {
    let job = Job::new();
    let mut tracker = job.tracker("tracker", "127.0.0.1");
    let join = job.path("join");
    let ran = finish(&mut rejoin(&["run", "--join", &join, "--slots", "2", "--", "true"])).ended(1);
    ran.says("--slots 2: job training has 4 ranks, which are fixed");
    tracker.kill();
    let elastic = ["tracker", "--job", "training", "-n", "4", "--min", "2", "--max", "8", "--join", &join];
    let ran = finish(&mut rejoin(&elastic)).ended(1);
    ran.says("is of job training with 4 ranks, and job training with 4 ranks (at most 8) was asked for");
}

fn prints(ran: &Ran, text: &str) {
    assert!(ran.out.contains(text), "{text:?} was expected in:\n{}", ran.out);
}

#[test]
fn the_status_says_where_each_rank_is_and_who_is_missing_since_when_until_the_job_is_over() {
    let job = Job::new();
    let mut tracker = job.tracker("tracker", "127.0.0.1");
    let (mut a, mut b) = (job.host("a", "127.0.0.2", "0-1"), job.host("b", "127.0.0.3", "2-3"));
    job.is_under_way("tracker");
    let join = job.path("join");
    let mut watched = job.start("watched", &["status", "--join", &join, "--watch", "--json"]);
    let status = |more: &[&str]| finish(&mut rejoin(&[&["status", "--join", &join][..], more].concat())).ended(0);
    let object = || serde_json::from_str::<serde_json::Value>(&status(&["--json"]).out).expect("it is JSON");
    prints(&status(&[]), "job training: 4 ranks, 0 missing, 0 deaths; life 1 of its tracker at 127.0.0.1:");
    // Its ranks die with it, and nobody starts them again.
    b.kill();
    until("both ranks are missing", || status(&[]).out.contains("2 missing"));
    let json = object();
    let ranks = json["ranks"].as_array().expect("a list");
    let hosts: Vec<_> = ranks.iter().map(|rank| rank["place"]["host"].as_str()).collect();
    assert_eq!((&json["job"], hosts), (&"training".into(), vec![Some("a"), Some("a"), None, None]), "{json}");
    assert!(ranks[3]["state"]["Missing"]["millis"].is_u64() && ranks[3]["deaths"] == 1, "{json}");
    // The launcher that would say how often it starts rank 3 again is gone.
    assert!(ranks[0]["most_deaths"] == 10 && ranks[3]["most_deaths"].is_null(), "{json}");
    assert!(ranks[0]["lost_millis"] == 0 && ranks[0]["rounds_again"] == 0, "{json}");
    until("the death costs time", || object()["ranks"][3]["lost_millis"].as_u64() > Some(0));
    let told = status(&[]);
    ["process 0.0", "0 of 10  -", "rank 3 is missing: ", "; the job ends in "]
        .iter()
        .for_each(|text| prints(&told, text));
    let mut c = job.host("c", "127.0.0.4", "2-3");
    for host in [&mut a, &mut c] {
        host.ended().ended(0);
    }
    tracker.ended().ended(0);
    let watched = watched.ended().ended(0);
    let is_json = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
    assert!(!watched.out.is_empty() && watched.out.lines().all(is_json), "{}", watched.out);
    watched.says("the job is over");
    finish(&mut rejoin(&["status", "--join", &join])).ended(1).says("there is no join file");
}

#[test]
fn the_status_of_a_rank_that_was_started_as_another_one_says_its_own_deaths_and_its_own_launchers_restarts() {
    let job = Job::new();
    let times = ["-n", "2", "--min", "2", "--max", "4", "--elastic-timeout", "300ms", "--resize-interval", "100ms"];
    let mut tracker = job.elastic_tracker("tracker", "127.0.0.1", &times);
    let (join, program, sizes) = (job.path("join"), example("elastic"), ["2", "4", "2", "4"]);
    let mut a = job.slots("a", "2", &sizes);
    a.printed("reached 1", 2);
    let slots = ["run", "--join", &join, "--slots", "2", "--host", "b", "--timeout", "50s", "--restart"];
    let mut b = job.start("b", &[&slots[..], &["--restarts", "7", "--", &program], &sizes].concat());
    b.printed("reached 2", 2);
    let ranks = || {
        let ran = finish(&mut rejoin(&["status", "--join", &join, "--json"])).ended(0);
        let json: serde_json::Value = serde_json::from_str(&ran.out).expect("it is JSON");
        json["ranks"].as_array().expect("a list").clone()
    };
    let of = |ranks: &[serde_json::Value], name: &str| ranks.iter().map(|rank| rank[name].as_u64()).collect::<Vec<_>>();
    assert_eq!(of(&ranks(), "most_deaths"), [Some(10), Some(10), Some(7), Some(7)]);

    // Those that it has started as rank 2 and 3 are rank 0 and 1 from now on.
    a.kill();
    b.printed("reached 3", 2);
    let before = ranks();
    assert_eq!((of(&before, "most_deaths"), of(&before, "deaths")), (vec![Some(7); 2], vec![Some(0); 2]), "{before:?}");
    signal(job.processes(&b)[0], "KILL");
    let process = |rank: &serde_json::Value| rank["place"]["process"].as_str().unwrap_or_default().to_string();
    let mut after = ranks();
    until("the rank is there again", || {
        after = ranks();
        after.iter().all(|rank| !process(rank).is_empty()) && after.iter().any(|rank| rank["deaths"] == 1)
    });
    let started = after.iter().position(|rank| rank["deaths"] == 1).expect("one has died");
    assert_eq!(process(&after[started]), process(&before[started]).replace(".0", ".1"), "{after:?}");
    assert_eq!(after[started]["incarnation"].as_u64(), before[started]["incarnation"].as_u64().map(|nth| nth + 1));
    assert_eq!(after[1 - started]["deaths"], 0, "{after:?}");
    assert_eq!(of(&after, "most_deaths"), [Some(7), Some(7)]);
    prints(&finish(&mut rejoin(&["status", "--join", &join])).ended(0), "1 of 7");

    let mut c = job.slots("c", "2", &sizes);
    let (b, c) = (b.ended().ended(0), c.ended().ended(0));
    digest(&[&b, &c]);
    tracker.ended().ended(0);
}

#[test]
fn the_status_of_a_run_of_its_own_is_asked_by_a_file_that_is_for_that_alone_and_goes_with_the_run() {
    let job = Job::new();
    let (file, go, program) = (job.path("status"), job.path("go"), example("scenario"));
    let line = "while [ ! -e \"$0\" ]; do sleep 0.05; done; exec \"$@\"";
    let of_run = ["run", "-n", "2", "--job", "mine", "--durable", &job.path("durable"), "--status", &file, "--"];
    let mut running = job.start("run", &[&of_run[..], &["sh", "-c", line, &go, &program, "3", "1000"]].concat());
    let status = || finish(&mut rejoin(&["status", "--join", &file]));
    until("the run answers", || status().out.contains("job mine: 2 ranks, 2 missing"));
    let joins = finish(&mut rejoin(&["run", "--join", &file, "--ranks", "0-1", "--", "true"])).ended(1);
    joins.says("starts all ranks itself");
    let again = finish(&mut rejoin(&["run", "-n", "1", "--status", &file, "--", "true"])).ended(1);
    again.says("is there already");
    std::fs::write(&go, "").expect("room for a file");
    running.ended().ended(0);
    assert!(!std::path::Path::new(&file).exists());
    status().ended(1).says("there is no join file");
}

#[test]
fn the_status_of_a_job_whose_tracker_is_gone_is_an_error_that_says_where_it_was() {
    let job = Job::new();
    job.tracker("tracker", "127.0.0.1").kill();
    let ran = finish(&mut rejoin(&["status", "--join", &job.path("join")])).ended(1);
    ran.says("TRACKER_UNREACHABLE").says("the tracker of job training (life 1) at 127.0.0.1:");
}

#[test]
fn a_rank_that_fails_for_good_ends_the_job_on_all_hosts() {
    let job = Job::new();
    let mut tracker = job.tracker("tracker", "127.0.0.1");
    let (join, program) = (job.path("join"), example("scenario"));
    let mut a = job.host("a", "127.0.0.2", "0-2");
    let mut b =
        job.start("b", &["run", "--join", &join, "--rank", "3", "--timeout", "50s", "--", &program, ITERATIONS]);
    job.is_under_way("tracker");
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
    job.is_under_way("tracker");
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
    ran.says("has mode 644, so others can read the job's secret");
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
