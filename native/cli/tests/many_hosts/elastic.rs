//! Jobs whose world shrinks and grows by the slots of launchers.

use crate::harness::{example, finish, rejoin, signal, until, Ran};
use crate::jobs::{digest, worlds, Job, Started};
use crate::{missing, prints};
use std::collections::BTreeSet;

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
fn a_world_grows_by_the_slots_of_a_launcher_that_comes_and_shrinks_at_once_when_it_is_told_to_end() {
    let job = Job::new();
    let (mut tracker, mut a, mut b) = second_of_two_told_to_end(&job);
    let (a, b) = (a.ended().ended(0), b.ended().ended(143));
    digest(&[&a]);
    assert!(worlds(&[&a]).starts_with(&[2]) && worlds(&[&a]).contains(&4), "{}", a.out);
    assert_eq!(worlds(&[&a]).last(), Some(&2), "{}", a.out);
    assert!(!a.err.contains("died"), "those of the first host go on: {}", a.err);
    let placed = |ran: &Ran, of: &str| {
        let lines: BTreeSet<&str> = ran.out.lines().filter_map(|line| Some(line.split_once(of)?.1)).collect();
        lines.into_iter().map(String::from).collect::<Vec<String>>()
    };
    let on_host = |cross: &str| [0, 1].map(|local| format!("local {local} of 2, cross {cross}")).to_vec();
    assert_eq!(placed(&a, "of 2: "), on_host("0 of 1"));
    assert_eq!((placed(&a, "of 4: "), placed(&b, "of 4: ")), (on_host("0 of 2"), on_host("1 of 2")));
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
    let model = digest(&[&a, &b, &c]);
    for ran in [&a, &b, &c] {
        assert!(!ran.err.contains("starts rank"), "none is taken over: {}", ran.err);
    }
    second.ended().ended(0).says("takes over job training from life 1");
    // Both trackers have written the log, the second one behind the first.
    let again = ["run", "--timeout", "55s", "--worlds", &job.events(), "--", &example("elastic")];
    let again = finish(&mut rejoin(&[&again[..], &sizes].concat())).ended(0);
    assert_eq!(digest(&[&again]), model);
}

#[test]
fn of_two_trackers_of_an_elastic_job_the_later_one_stays_and_the_world_grows_under_it() {
    let job = Job::new();
    let times = ["-n", "2", "--min", "2", "--max", "3", "--elastic-timeout", "55s", "--resize-interval", "100ms"];
    let mut first = job.elastic_tracker("first", "127.0.0.1", &times);
    let mut a = job.slots("a", "2", &["2", "3"]);
    a.printed("reached 1", 2);
    let mut second = job.elastic_tracker("second", "127.0.0.9", &times);
    // Told to one of the two, whichever that is when it comes.
    let mut b = job.slots("b", "1", &["2", "3"]);
    first.ended().ended(7).says("job training has another tracker now: life 2 at 127.0.0.9:");
    let (a, b) = (a.ended().ended(0), b.ended().ended(0));
    digest(&[&a, &b]);
    assert_eq!(worlds(&[&a]), [2, 3]);
    assert!(!a.err.contains("died"), "those of the first host go on: {}", a.err);
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
