//! Lazy and durable checkpoints: made when somebody needs them, and there when nobody is left.

use crate::harness::{example, run, until, Background};
use crate::{at, digest, survive_with};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder on a disk of 100 KB, or as good as one.
struct SmallDisk {
    folder: tempfile::TempDir,
    is_mounted: bool,
}

impl SmallDisk {
    fn new() -> SmallDisk {
        let folder = tempfile::tempdir().expect("a folder");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=100k", "tmpfs"]).arg(folder.path()).status();
        SmallDisk { folder, is_mounted: mount.is_ok_and(|status| status.success()) }
    }

    /// What stands before the program: where nothing can be mounted, its files are limited instead, to less than one
    /// checkpoint.
    fn shell(&self) -> &'static str {
        if self.is_mounted {
            ""
        } else {
            "trap '' XFSZ; ulimit -f 32;"
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if self.is_mounted {
            // What is left mounted ends with the machine.
            let _ = Command::new("umount").arg(self.folder.path()).status();
        }
    }
}

fn files(folder: &Path) -> Vec<String> {
    let all = std::fs::read_dir(folder).expect("the folder is there");
    let mut names: Vec<String> = all.map(|entry| entry.expect("an entry").file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The events of a run that is under way, a line each.
fn events(log: &Path) -> String {
    std::fs::read_to_string(log).unwrap_or_default()
}

/// Four ranks that take two checkpoints and then wait for rank 0, all of which are killed at once.
fn all_die_at_once(extra: &[&str], program: &[&str]) -> (Background, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder").keep();
    let log = folder.join("events.jsonl");
    let (path, scenario) = (log.display().to_string(), example("scenario"));
    let mut arguments = vec!["-n", "4", "--restart", "--lost-after", "40s", "--events", &path];
    arguments.extend(["--kill", "rank=0,version=2,seqno=0,do=delay:45s"]);
    arguments.extend(extra);
    arguments.extend(["--", &scenario, "4", "10000"]);
    arguments.extend(program);
    let run = Background::start(&arguments);
    // Two versions: of one model, or of that and each rank's own.
    let wanted = if program.contains(&"own") { 10 } else { 2 };
    let is_written = |text: &str| extra.is_empty() || text.matches("DurableWritten").count() == wanted;
    until("rank 0 waits, and so do all", || {
        let text = events(&log);
        text.contains("FaultFired") && is_written(&text)
    });
    let text = events(&log);
    let pids: Vec<String> = text
        .lines()
        .filter(|line| line.contains("Started"))
        .filter_map(|line| line.split_once("\"pid\":")?.1.split(|c: char| !c.is_ascii_digit()).next())
        .filter(|pid| pid.parse().is_ok_and(|pid: u32| pid > 0))
        .map(String::from)
        .collect();
    assert_eq!(pids.len(), 4, "{text}");
    let killed = Command::new("kill").arg("-KILL").args(&pids).status().expect("kill is there");
    assert!(killed.success(), "{pids:?} in {text}");
    (run, log)
}

#[test]
fn lazy_checkpoints_are_made_for_those_who_come_back_and_for_nobody_else() {
    let undisturbed = run(&["-n", "10", "--", &example("scenario"), "3", "10000", "lazy"]).ended(0);
    assert!(!undisturbed.out.contains("makes its model"), "{}", undisturbed.out);
    let ran = survive_with(10, &["3", "10000", "lazy"], &[at(3, 1, 9), at(4, 2, 0), at(5, 2, 9)]);
    assert_eq!(digest(&ran), digest(&undisturbed));
    assert!(ran.out.contains("makes its model after version 0"), "{}", ran.out);
}

#[test]
fn ranks_get_their_own_models_back_when_they_and_a_neighbour_that_held_them_die() {
    let own = &["3", "10000", "own"];
    let undisturbed = run(&["-n", "10", "--", &example("scenario"), "3", "10000", "own"]).ended(0);
    for rules in [&[at(3, 1, 9)][..], &[at(3, 1, 9), at(4, 1, 9)], &[at(7, 1, 0), at(8, 1, 0), at(0, 2, 10)]] {
        assert_eq!(digest(&survive_with(10, own, rules)), digest(&undisturbed));
    }
    // One after the other, each time with what the one before was given back.
    let again = "rank=5,incarnation=1,version=2,seqno=3".to_string();
    let ran = survive_with(10, own, &[at(5, 1, 3), at(6, 1, 9), again]);
    assert_eq!(digest(&ran), digest(&undisturbed));
}

#[test]
fn ranks_die_while_they_give_their_own_models_to_others() {
    let rules = ["rank=2,version=2,at=checkpoint".into(), "rank=5,version=2,at=checkpoint".into(), at(8, 2, 0)];
    survive_with(10, &["3", "10000", "own"], &rules);
}

#[test]
fn a_rank_that_dies_with_all_who_hold_its_own_model_sends_everybody_back_or_ends_the_job() {
    // Three neighbours of four: only rank 3 is left, which holds the models of ranks 1 and 2, not of rank 0.
    let program = example("scenario");
    let mut arguments = vec!["-n".to_string(), "4".into(), "--restart".into()];
    for rank in 0..3 {
        arguments.extend(["--kill".into(), format!("rank={rank},version=1,seqno=9")]);
    }
    arguments.extend(["--", &program, "3", "10000", "own"].map(String::from));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ran = run(&arguments);
    assert!(!ran.out.contains("WRONG") && !ran.err.contains("WRONG"), "{}{}", ran.out, ran.err);
    match ran.status {
        Some(0) => drop(digest(&ran)),
        status => {
            assert_eq!(status, Some(4), "{}", ran.err);
            ran.says("the own state of rank");
        }
    }
}

#[test]
fn when_all_ranks_die_at_once_they_start_again_from_the_newest_durable_checkpoint() {
    for program in [&[][..], &["lazy"], &["own"]] {
        let durable = tempfile::tempdir().expect("a folder");
        let folder = durable.path().display().to_string();
        let (mut run, log) = all_die_at_once(&["--durable", &folder], program);
        assert!(run.status().success(), "{}", events(&log));
        assert_eq!(run.out().matches("starts at version 2 as incarnation 1").count(), 4, "{}", run.out());
        assert!(events(&log).contains("RolledBack"), "the new lineage is told");
        assert!(!run.out().contains("WRONG"), "{}", run.out());
        // The newest two versions, in the lineage that began with the loss.
        let names = files(durable.path());
        let global = names.iter().filter(|name| !name.contains("rank"));
        let kept: Vec<&str> = global.filter_map(|name| name.split_once('-')).map(|(_, rest)| rest).collect();
        assert_eq!(kept, ["000001-0000000003.checkpoint", "000001-0000000004.checkpoint"]);
    }
}

#[test]
fn when_all_ranks_die_at_once_and_nothing_is_durable_the_job_says_so_and_does_not_start_from_nothing() {
    let (mut run, log) = all_die_at_once(&[], &[]);
    assert_eq!(run.status().code(), Some(4), "{}", events(&log));
    assert!(events(&log).contains("no durable checkpoint was written that could be read"), "{}", events(&log));
    assert_eq!(run.out().matches("starts at version").count(), 4, "{}", run.out());
}

#[test]
fn a_full_disk_is_told_and_training_goes_on_and_the_last_whole_checkpoint_stays() {
    let disk = SmallDisk::new();
    let folder = disk.folder.path().display().to_string();
    let log = tempfile::NamedTempFile::new().expect("a file");
    let (path, script) = (log.path().display().to_string(), format!("{} exec {} 5", disk.shell(), example("scenario")));
    let ran = run(&["-n", "3", "--events", &path, "--durable", &folder, "--", "sh", "-c", &script]).ended(0);
    digest(&ran);
    let written = events(log.path()).matches("DurableWritten").count();
    let failed = events(log.path()).matches("DurableFailed").count();
    // 40 KB each: two fit on the disk.
    assert_eq!((written, failed), if disk.is_mounted { (2, 3) } else { (0, 5) }, "{}", events(log.path()));
    ran.says("can't be written").says("Training goes on");
    let names = files(disk.folder.path());
    assert_eq!(names.len(), written, "nothing unfinished is left: {names:?}");
    if disk.is_mounted {
        assert!(names[1].ends_with("-000000-0000000002.checkpoint"), "{names:?}");
    }
}
