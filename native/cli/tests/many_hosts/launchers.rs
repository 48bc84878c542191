//! Ranks that two launchers want to start: one that comes later, and one that is back after it was cut off.

use crate::harness::{example, signal, until};
use crate::jobs::{digest, undisturbed, Job, Started};
use parking_lot::Mutex;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn a_launcher_that_comes_later_takes_ranks_over_and_the_former_one_ends_and_says_so() {
    let job = Job::new();
    let mut tracker = job.tracker("tracker", "127.0.0.1");
    let (mut a, mut b) = (job.host("a", "127.0.0.2", "0-1"), job.host("b", "127.0.0.3", "2-3"));
    job.is_under_way();
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
    let log = job.events();
    until("both processes have found it", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let text = text.rsplit_once("TrackerBack").map_or("", |(_, text)| text);
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
