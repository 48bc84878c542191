//! Durable checkpoints of a job whose tracker is a process of its own, in a folder that all hosts share: each launcher
//! stands for a host. Real processes, real kills.

#[allow(dead_code)] // this test and the launcher's need different parts
#[path = "launcher/harness.rs"]
mod harness;
#[allow(dead_code)]
#[path = "launcher/jobs.rs"]
mod jobs;

use harness::{example, finish, lives, rejoin, run, signal, until, Ran};
use jobs::{digest, undisturbed, Job, Started, ITERATIONS, WORLD};
use std::path::Path;
use std::process::Command;

/// A job with a folder of durable checkpoints.
struct Durable(Job);

impl Durable {
    fn new() -> Durable {
        Durable(Job::new())
    }

    fn folder(&self) -> String {
        self.0.path("shared")
    }

    fn command(&self, world: &str, join: &str, options: &[&str]) -> Vec<String> {
        let (join, folder) = (self.0.path(join), self.folder());
        let job = ["tracker", "--job", "training", "-n", world, "--join", &join, "--listen", "127.0.0.1"];
        [&job[..], &["--durable", &folder], options].concat().into_iter().map(String::from).collect()
    }

    /// A tracker, which can be joined.
    fn tracker(&self, name: &str, world: &str, options: &[&str]) -> Started {
        let events = self.0.path(&format!("{name}.jsonl"));
        let command = self.command(world, "join", &[&["--events", &events], options].concat());
        let tracker = self.0.start(name, &command.iter().map(String::as_str).collect::<Vec<_>>());
        until("the tracker is ready", || tracker.text("out").contains("join file"));
        tracker
    }

    /// A tracker that is refused.
    fn refused(&self, world: &str, join: &str, options: &[&str]) -> Ran {
        let command = self.command(world, join, options);
        finish(&mut rejoin(&command.iter().map(String::as_str).collect::<Vec<_>>())).ended(1)
    }

    /// A host with these ranks, whose program is told what else it is to do.
    fn host(&self, name: &str, ranks: &str, program: &[&str]) -> Started {
        let (join, scenario) = (self.0.path("join"), example("scenario"));
        let options = ["run", "--join", &join, "--ranks", ranks, "--host", name, "--restart", "--timeout", "50s", "--"];
        self.0.start(name, &[&options[..], &[scenario.as_str(), ITERATIONS], program].concat())
    }

    /// The newest version of which there is a file, with its lineage.
    fn newest(&self) -> (u32, u32) {
        let folder = std::fs::read_dir(self.folder()).into_iter().flatten().flatten();
        let names = folder.filter_map(|entry| entry.file_name().into_string().ok());
        let numbers = names.filter_map(|name| {
            let (numbers, _) = name.split_once(".checkpoint")?;
            let mut numbers = numbers.split('-').skip(1);
            Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
        });
        numbers.max().unwrap_or_default()
    }

    /// Waits for a checkpoint that is newer than that.
    fn is_beyond(&self, newest: (u32, u32)) {
        until("a newer durable checkpoint is there", || self.newest() > newest);
    }

    /// All processes of these hosts are killed, and gone.
    fn kill_all<const N: usize>(&self, hosts: [&mut Started; N]) {
        let ranks: Vec<u32> = hosts.iter().flat_map(|host| self.0.processes(host)).collect();
        hosts.into_iter().for_each(Started::kill);
        until("the ranks have died with their launchers", || ranks.iter().all(|pid| !lives(&pid.to_string())));
    }
}

/// From which version each rank has started.
fn starts(ran: &[&Ran]) -> Vec<u32> {
    let lines = ran.iter().flat_map(|ran| ran.out.lines());
    let texts = lines.filter_map(|line| line.split_once("starts at version ")?.1.split(' ').next());
    texts.map(|text| text.parse().expect("a version")).collect()
}

#[test]
fn a_job_of_which_nothing_is_left_goes_on_on_other_hosts_in_a_smaller_world() {
    let job = Durable::new();
    let mut tracker = job.tracker("first", WORLD, &["--durable-every", "3"]);
    let (mut a, mut b) = (job.host("a", "0-1", &[]), job.host("b", "2-3", &[]));
    job.is_beyond((0, 2));
    tracker.kill();
    job.kill_all([&mut a, &mut b]);
    let (_, newest) = job.newest();
    assert_eq!(newest % 3, 0);
    std::fs::remove_file(job.0.path("join")).expect("the tracker has left it");
    job.refused("3", "join", &[]).says("up to version").says("--resume goes on from there");

    let mut second = job.tracker("second", "3", &["--resume"]);
    let goes_on = format!("goes on from version {newest} in {}", job.folder());
    assert!(second.text("err").contains(&goes_on), "{}", second.text("err"));
    // Before anybody has heard of it: the next life has only the folder to know that by.
    second.kill();
    let mut tracker = job.tracker("third", "3", &[]);
    let of_four = ["10000", WORLD];
    let (mut c, mut d) = (job.host("c", "0,2", &of_four), job.host("d", "1-1", &of_four));
    let (c, d) = (c.ended().ended(0), d.ended().ended(0));
    tracker.ended().ended(0).says("takes over job training from life 1");
    assert_eq!(starts(&[&c, &d]), [newest; 3]);
    let alone = run(&["-n", "3", "--", &example("scenario"), ITERATIONS]).ended(0);
    assert_eq!(digest(&[&c, &d]), digest(&[&alone]));
    assert!(job.newest() > (1, newest), "the second job writes them, too");
}

#[test]
fn a_tracker_that_is_started_again_goes_on_from_what_is_durable_when_all_ranks_are_gone_and_each_time() {
    let job = Durable::new();
    let mut known = (0, 0);
    for round in 0..3_u32 {
        // The same command line each time, as a supervisor has it.
        let mut tracker = job.tracker(&format!("life {round}"), WORLD, &[]);
        let (mut a, mut b) = (job.host("a", "0-1", &[]), job.host("b", "2-3", &[]));
        if round == 2 {
            let (a, b) = (a.ended().ended(0), b.ended().ended(0));
            assert_eq!(starts(&[&a, &b]), [known.1; 4]);
            assert_eq!(digest(&[&a, &b]), undisturbed());
            tracker.ended().ended(0).says("takes over job training from life 2");
            return;
        }
        job.is_beyond((known.0 + u32::from(round > 0), known.1 + 1));
        tracker.kill();
        job.kill_all([&mut a, &mut b]);
        known = job.newest();
    }
}

#[test]
fn a_job_that_is_told_to_end_and_queued_again_goes_on_from_its_newest_version() {
    let job = Durable::new();
    for round in 0..2 {
        let mut tracker = job.tracker(&format!("queued {round}"), WORLD, &["--resume"]);
        let mut all = job.host("a", "0-3", &[]);
        if round == 1 {
            let ran = all.ended().ended(0);
            let newest = starts(&[&ran])[0];
            assert!(newest > 2, "{}", ran.out);
            assert_eq!((starts(&[&ran]), digest(&[&ran])), (vec![newest; 4], undisturbed()));
            tracker.ended().ended(0);
            return;
        }
        job.is_beyond((0, 2));
        signal(tracker.child.id(), "TERM");
        all.ended().ended(4).says("CANCELLED");
        tracker.ended().ended(143);
        assert!(!Path::new(&job.0.path("join")).exists(), "nothing is in the way of the next one");
    }
}

#[test]
fn a_tracker_that_dies_alone_takes_the_job_over_and_ranks_go_on_from_where_they_are() {
    let job = Durable::new();
    let mut first = job.tracker("first", WORLD, &[]);
    let (mut a, mut b) = (job.host("a", "0-1", &[]), job.host("b", "2-3", &[]));
    job.is_beyond((0, 2));
    first.kill();
    let mut second = job.tracker("second", WORLD, &[]);
    // One that comes back starts where the others are, and not from a file.
    until("rank 3's process is there", || !job.0.processes(&b).is_empty());
    signal(job.0.processes(&b)[0], "KILL");
    let (a, b) = (a.ended().ended(0), b.ended().ended(0));
    assert_eq!(digest(&[&a, &b]), undisturbed());
    second.ended().ended(0).says("takes over job training from life 1");
    assert_eq!(job.newest(), (0, ITERATIONS.parse().expect("a number")), "no version was thrown away");
}

#[test]
fn a_life_that_is_frozen_while_another_one_takes_over_keeps_nobody_from_the_folder_but_strangers() {
    let job = Durable::new();
    let mut first = job.tracker("first", WORLD, &[]);
    let (mut a, mut b) = (job.host("a", "0-1", &[]), job.host("b", "2-3", &[]));
    job.is_beyond((0, 1));
    job.refused(WORLD, "another", &["--resume"]).says("another run of job `training` is at work");
    signal(first.child.id(), "STOP");
    let mut second = job.tracker("second", WORLD, &[]);
    signal(first.child.id(), "CONT");
    first.ended().ended(7).says("has another tracker now: life 2");
    let mark = std::fs::read_dir(job.folder()).expect("it is there").flatten().map(|entry| entry.path());
    let mark = mark.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "lock")).expect("a mark");
    until("the second life has the folder", || {
        let free = Command::new("flock").arg("-n").arg(&mark).arg("true").status().expect("flock is there");
        !free.success()
    });
    job.refused(WORLD, "another", &["--resume"]).says("another run of job `training` is at work");
    let (a, b) = (a.ended().ended(0), b.ended().ended(0));
    assert_eq!(digest(&[&a, &b]), undisturbed());
    second.ended().ended(0);
}

#[test]
fn a_host_that_does_not_see_the_folder_and_another_folder_than_that_of_the_job_are_refused() {
    let job = Durable::new();
    let mut tracker = job.tracker("tracker", WORLD, &["--durable-every", "2"]);
    let (folder, hidden) = (job.folder(), job.0.path("hidden"));
    std::fs::rename(&folder, &hidden).expect("it is moved");
    let says_where = |ran: Ran| {
        ran.says(&format!("checkpoints go to {folder}")).says("Name a folder that all hosts share");
        assert_eq!(ran.out, "", "no rank is started");
    };
    says_where(job.host("a", "0-3", &[]).ended().ended(1));
    // A folder of this name that isn't that one.
    std::fs::create_dir(&folder).expect("it is made");
    says_where(job.host("a", "0-3", &[]).ended().ended(1));
    // One in which an earlier job of this name was.
    let marks = std::fs::read_dir(&hidden).expect("it is there").flatten().map(|entry| entry.file_name());
    let mark = marks.into_iter().find(|name| name.to_string_lossy().ends_with(".lock")).expect("a mark");
    std::fs::write(Path::new(&folder).join(mark), "0123456789abcdef0123456789abcdef").expect("room for it");
    says_where(job.host("a", "0-3", &[]).ended().ended(1));
    std::fs::remove_dir_all(&folder).expect("it goes");
    std::fs::rename(&hidden, &folder).expect("it is moved back");
    tracker.kill();
    let every = format!("with 4 ranks and every 2th checkpoint in {folder}");
    job.refused(WORLD, "join", &[]).says(&every).says(&format!("and every checkpoint in {folder} was asked for"));
    let join = job.0.path("join");
    let without = ["tracker", "--job", "training", "-n", WORLD, "--join", &join];
    finish(&mut rejoin(&without)).ended(1).says(&every).says("with 4 ranks was asked for");
}

#[test]
fn what_can_not_be_is_refused_before_anything_is_begun() {
    let job = Durable::new();
    let join = job.0.path("join");
    let tracker = ["tracker", "--job", "training", "-n", "2", "--join", &join];
    for options in [&["--durable-every", "2"][..], &["--resume"]] {
        finish(rejoin(&tracker).args(options)).ended(2).says("--durable <FOLDER>");
    }
    finish(rejoin(&tracker).args(["--durable", "d", "--durable-every", "0"])).ended(2).says("--durable-every");
    std::fs::write(job.0.path("file"), "").expect("room for a file");
    let below = job.0.path("file/below");
    finish(rejoin(&tracker).args(["--durable", &below])).ended(1).says(&format!("--durable {below} can't be used"));
    assert!(!Path::new(&join).exists());
}
