//! Lazy and durable checkpoints: made when a rank needs them, and there when no rank is left.

use crate::harness::{example, run, run_with, until, Background};
use crate::{at, digest, survive_choosing, survive_with};
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
    let wanted = match (program.contains(&"own"), extra.contains(&"--resume")) {
        (_, true) => 0, // it begins where it waits
        (true, _) => 10,
        _ => 2,
    };
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
    // The tracker is in the launcher: it learns of all deaths before a rank is started again,
    // however busy the machine is.
    run.signal("STOP");
    let killed = Command::new("kill").arg("-KILL").args(&pids).status().expect("kill is there");
    until("all four have ended", || pids.iter().all(|pid| is_gone(pid)));
    run.signal("CONT");
    assert!(killed.success(), "{pids:?} in {text}");
    (run, log)
}

/// Whether a process has ended, though the launcher that is stopped can't reap it: its connections are closed then.
fn is_gone(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.is_empty() || stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

/// With the result of version 2's first allreduce: every rank has entered that version by then, so that all are
/// named as holders. At an allreduce's beginning others may still be keeping the model.
const DIES_WHEN_ALL_HOLD_IT: &str = "rank=1,version=2,seqno=0,at=completed";

/// Four ranks with a model of 26 MB, one of which dies, and whatever else these rules do. For each
/// rank that came back: its name, and the addresses of those that gave it parts of the model.
fn restored(rules: &[&str]) -> Vec<(u64, Vec<String>)> {
    let log = tempfile::NamedTempFile::new().expect("a file");
    let (path, scenario) = (log.path().display().to_string(), example("scenario"));
    let mut arguments = vec!["-n", "4", "--restart", "--events", &path];
    rules.iter().for_each(|rule| arguments.extend(["--kill", rule]));
    arguments.extend(["--", &scenario, "3", "6500000", "big"]);
    // A rank that only waits for its turn on a busy machine isn't taken for dead: deaths are counted here.
    let ran = run_with("40s", &arguments).ended(0);
    for rule in rules {
        ran.says(&format!("rule `{rule}` fired"));
    }
    assert!(!ran.out.contains("WRONG"), "{}", ran.out);
    digest(&ran);
    let text = events(log.path());
    // Shown where the test fails: who was asked, and why a holder brought nothing, stands in no digest.
    println!("{text}");
    let after = |line: &str, word: &str| line.split_once(word).map(|(_, rest)| rest.to_string());
    let number = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok());
    let found = text.lines().filter_map(|line| after(line, "\"Restored\":")).map(|line| {
        let field = |name: &str| after(&line, &format!("\"{name}\":")).unwrap_or_else(|| panic!("{name} in {line}"));
        assert_eq!(number(&field("bytes")), Some(26_000_000), "{line}");
        let source = field("source");
        let holders = source.trim_start_matches('"').split('"').next().unwrap_or_default().split(", ");
        (number(&field("rank")).expect("a rank"), holders.map(String::from).collect())
    });
    found.collect()
}

#[test]
fn a_large_model_comes_in_stripes_from_all_who_hold_it() {
    let restored = restored(&[DIES_WHEN_ALL_HOLD_IT]);
    let [(1, holders)] = &restored[..] else { panic!("rank 1 alone was restored: {restored:?}") };
    assert_eq!(holders.len(), 3, "a stripe of each of the others: {holders:?}");
}

#[test]
fn when_a_holder_dies_as_it_is_asked_for_its_stripe_the_others_bring_it() {
    // All three are asked, so the rule fires at the one it names.
    let restored = restored(&[DIES_WHEN_ALL_HOLD_IT, "rank=3,at=serving"]);
    let mut ranks: Vec<u64> = restored.iter().map(|(rank, _)| *rank).collect();
    ranks.sort();
    assert_eq!(ranks, [1, 3], "{restored:?}");
    assert!(restored.iter().all(|(_, holders)| holders.len() >= 2), "{restored:?}");
}

#[test]
fn lazy_checkpoints_are_made_for_those_who_come_back_and_each_first_one_twice_to_see_that_it_is_a_snapshot() {
    let undisturbed = run(&["-n", "10", "--", &example("scenario"), "3", "10000", "lazy"]).ended(0);
    assert_eq!(undisturbed.out.matches("makes its model").count(), 20, "{}", undisturbed.out);
    assert_eq!(undisturbed.out.matches("makes its model after version 0").count(), 20, "{}", undisturbed.out);
    let ran = survive_with(10, &["3", "10000", "lazy"], &[at(3, 1, 9), at(4, 2, 0), at(5, 2, 9)]);
    assert_eq!(digest(&ran), digest(&undisturbed));
    // Twice for rank 3, which comes back in version 1, and for those that come back in version 2.
    assert!(ran.out.matches("makes its model after version 1").count() > 2, "{}", ran.out);
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
fn with_one_copy_ranks_die_whose_neighbours_live_and_with_three_copies_three_neighbours_at_once() {
    let own = &["3", "10000", "own"];
    let undisturbed = run(&["-n", "10", "--", &example("scenario"), "3", "10000", "own"]).ended(0);
    let one = survive_choosing(10, &["--own-copies", "1"], own, &[at(3, 1, 9), at(5, 1, 9), at(9, 2, 0)]);
    assert_eq!(digest(&one), digest(&undisturbed));
    let three = survive_choosing(10, &["--own-copies", "3"], own, &[at(3, 2, 9), at(4, 2, 9), at(5, 2, 9)]);
    assert_eq!(digest(&three), digest(&undisturbed));
}

#[test]
fn more_copies_than_there_are_others_are_told_and_no_copies_are_refused() {
    let scenario = example("scenario");
    let reported = run(&["-n", "2", "--own-copies", "4", "--", &scenario, "2", "1000", "own"]).ended(0);
    reported.says("--own-copies 4 is more than the 1 others").says("each of them holds one");
    run(&["-n", "2", "--own-copies", "0", "--", &scenario]).ended(2).says("--own-copies");
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
            ran.says("the own model of rank");
        }
    }
}

#[test]
fn when_all_ranks_die_at_once_they_start_again_from_the_newest_durable_checkpoint() {
    for program in [&[][..], &["lazy"], &["own"], &["empty"], &["own", "empty"]] {
        let durable = tempfile::tempdir().expect("a folder");
        let folder = durable.path().display().to_string();
        let (mut run, log) = all_die_at_once(&["--durable", &folder], program);
        assert!(run.status().success(), "{}", events(&log));
        assert_eq!(run.out().matches("starts at version 2 as incarnation 1").count(), 4, "{}", run.out());
        assert!(events(&log).contains("RolledBack"), "the new lineage is reported");
        assert!(!run.out().contains("WRONG"), "{}", run.out());
        // The newest two versions, in the lineage that began with the loss.
        let names = files(durable.path());
        let global = names.iter().filter(|name| !name.contains("rank"));
        let kept: Vec<&str> = global.filter_map(|name| name.split_once('-')).map(|(_, rest)| rest).collect();
        assert_eq!(kept, ["000001-0000000003.checkpoint", "000001-0000000004.checkpoint"]);
    }
}

/// What four ranks do of which 1 and 2 die in version 7, so that no rank has rank 1's own model any
/// more: all go back to an older version, which is durable (the disk may be behind). Rank 0 dies
/// once more after that, which is as often as it may.
fn sent_back(program: &[&str]) -> crate::harness::Ran {
    let (durable, met) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (folder, met) = (durable.path().display().to_string(), met.path().display().to_string());
    // Rank 1's next process ends the one that holds the copy: a rank that outlived its holder would
    // have another copy made. It joins when that one's next process is there.
    let wait = format!(
        "case $REJOIN_RANK.$REJOIN_ATTEMPT in 2.0) echo $$ >{met}/holder;; 2.1) touch {met}/again;; \
         1.1) kill -KILL $(cat {met}/holder); until [ -e {met}/again ]; do sleep 0.01; done;; esac; exec \"$@\""
    );
    let mut arguments = vec!["-n", "4", "--restart", "--restarts", "1", "--own-copies", "1", "--durable", &folder];
    arguments.extend(["--durable-every", "2"]);
    for kill in ["rank=1,version=7,seqno=9", "rank=0,incarnation=1,version=7,seqno=4"] {
        arguments.extend(["--kill", kill]);
    }
    let scenario = example("scenario");
    arguments.extend(["--", "sh", "-c", &wait, "sh", &scenario, "9", "10000", "own"]);
    arguments.extend(program);
    run_with("20s", &arguments)
}

fn goes_back(ran: &crate::harness::Ran) {
    let line = ran.err.lines().find(|line| line.contains("all ranks go back to version "));
    let line = line.unwrap_or_else(|| panic!("all go back: {}", ran.err));
    let durable = ["2", "4", "6"].iter().any(|version| line.contains(&format!("go back to version {version}: ")));
    assert!(durable && line.contains("the own model of rank 1"), "{line}");
}

#[test]
fn ranks_that_are_sent_back_join_again_in_the_same_process_and_that_counts_as_no_death() {
    let ran = sent_back(&["again"]).ended(0);
    goes_back(&ran);
    for survivor in ["[0]", "[3]"] {
        assert!(ran.out.contains(&format!("{survivor} joins again after ROLLED_BACK")), "{}", ran.out);
    }
    assert!(!ran.err.contains("was sent back and has ended"), "{}", ran.err);
    ran.says("all 4 ranks ended well after 3 restarts");
    let undisturbed = run(&["-n", "4", "--", &example("scenario"), "9", "10000", "own"]).ended(0);
    assert_eq!(digest(&ran), digest(&undisturbed));
}

#[test]
fn ranks_that_are_sent_back_may_end_their_process_and_that_counts_as_no_death_either() {
    let ran = sent_back(&[]).ended(0);
    goes_back(&ran);
    ran.says("rank 0 was sent back and has ended (status 9); attempt 1 starts");
    ran.says("rank 0 died").says("rank 3 was sent back and has ended (status 9); attempt 1 starts");
    // Rank 2 may have begun again before rank 1 is there, and is sent back with the others then.
    let ended = |restarts| ran.err.contains(&format!("all 4 ranks ended well after {restarts} restarts"));
    assert!(ended(5) || ended(6), "{}", ran.err);
    let undisturbed = run(&["-n", "4", "--", &example("scenario"), "9", "10000", "own"]).ended(0);
    assert_eq!(digest(&ran), digest(&undisturbed));
}

#[test]
fn a_durable_checkpoint_is_written_every_so_many_versions_and_resumed_from() {
    let durable = tempfile::tempdir().expect("a folder");
    let folder = durable.path().display().to_string();
    let scenario = example("scenario");
    let options =
        ["-n", "3", "--durable", &folder, "--durable-every", "3", "--job", "a model", "--resume", "--", &scenario];
    run(&[&options[..], &["7"]].concat()).ended(0);
    let names = files(durable.path());
    let kept: Vec<&str> = names.iter().filter_map(|name| Some(name.split_once("-000000-")?.1)).collect();
    assert_eq!(kept, ["0000000003.checkpoint", "0000000006.checkpoint"]);
    let resumed = run(&[&options[..], &["8"]].concat()).ended(0);
    assert_eq!(resumed.out.matches("starts at version 6").count(), 3, "{}", resumed.out);
}

#[test]
fn when_all_ranks_die_at_once_and_nothing_is_durable_the_job_says_so_and_does_not_start_from_nothing() {
    let (mut run, log) = all_die_at_once(&[], &[]);
    assert_eq!(run.status().code(), Some(4), "{}", events(&log));
    assert!(events(&log).contains("no durable checkpoint was written that could be read"), "{}", events(&log));
    assert_eq!(run.out().matches("starts at version").count(), 4, "{}", run.out());
}

#[test]
fn a_job_that_is_run_again_goes_on_from_its_newest_whole_version_if_it_is_told_to() {
    for program in [&[][..], &["own"], &["own", "empty"]] {
        let durable = tempfile::tempdir().expect("a folder");
        let folder = durable.path().display().to_string();
        let scenario = example("scenario");
        let again = |iterations: &str, options: &[&str]| {
            let common = ["-n", "3", "--durable", &folder];
            run(&[&common[..], options, &["--", &scenario, iterations, "10000"], program].concat())
        };
        let undisturbed = run(&[&["-n", "3", "--", &scenario, "6", "10000"], program].concat()).ended(0);

        let first = again("3", &["--job", "a model", "--resume"]).ended(0);
        first.says("it starts from the beginning");
        assert_eq!(first.out.matches("starts at version 0").count(), 3, "{}", first.out);
        // Nothing that was done is thrown away without a word, and nothing is taken over without one.
        let refused = again("6", &["--job", "a model"]).ended(1);
        refused.says("up to version 3").says("--resume");
        assert_eq!(refused.out, "");
        let other = again("1", &["--job", "another"]).ended(0);
        other.says("checkpoints of other jobs");
        assert_eq!(other.out.matches("starts at version 0").count(), 3, "{}", other.out);

        let resumed = again("6", &["--job", "a model", "--resume"]).ended(0);
        resumed.says("goes on from version 3").says("checkpoints of other jobs");
        assert_eq!(resumed.out.matches("starts at version 3").count(), 3, "{}", resumed.out);
        assert_eq!(digest(&resumed), digest(&undisturbed), "as if it had never ended");
        let resumed = again("7", &["--job", "a model", "--resume"]).ended(0);
        assert_eq!(resumed.out.matches("starts at version 6").count(), 3, "the newer run's: {}", resumed.out);
    }
}

#[test]
fn models_of_each_ranks_own_are_gone_on_from_by_as_many_ranks_as_took_them_and_by_no_others() {
    for program in [&["own"][..], &["own", "empty"]] {
        let durable = tempfile::tempdir().expect("a folder");
        let folder = durable.path().display().to_string();
        let scenario = example("scenario");
        let started = |ranks: &str, iterations: &str| {
            let options = ["-n", ranks, "--durable", &folder, "--job", "a model", "--resume", "--", &scenario];
            run(&[&options[..], &[iterations, "10000"], program].concat())
        };
        started("3", "2").ended(0);
        for ranks in ["2", "4"] {
            let refused = started(ranks, "3").ended(1);
            refused.says("taken by 3 ranks").says("can't go on from it").says("Start as many as before");
            assert_eq!(refused.out, "", "no rank is started");
        }
        let resumed = started("3", "3").ended(0);
        assert_eq!(resumed.out.matches("starts at version 2").count(), 3, "{}", resumed.out);
    }
}

#[test]
fn a_resumed_job_passes_over_what_is_not_whole_and_survives_the_death_of_all_again() {
    let durable = tempfile::tempdir().expect("a folder");
    let folder = durable.path().display().to_string();
    let scenario = example("scenario");
    run(&["-n", "4", "--durable", &folder, "--job", "a model", "--", &scenario, "3", "10000"]).ended(0);
    let newest = files(durable.path()).into_iter().rev().find(|name| name.ends_with("0003.checkpoint"));
    let newest = durable.path().join(newest.expect("version 3"));
    let mut bytes = std::fs::read(&newest).expect("it can be read");
    *bytes.last_mut().expect("it isn't empty") ^= 1;
    std::fs::write(&newest, bytes).expect("it can be changed");

    let options = ["--durable", &folder, "--job", "a model", "--resume"];
    let mut first = Background::start(&[&["-n", "1"], &options[..], &["--", "sleep", "20"]].concat());
    until("it runs", || {
        std::fs::read_to_string(first.folder.path().join("err")).unwrap_or_default().contains("goes on")
    });
    let second = run(&[&["-n", "4"], &options[..], &["--", &scenario]].concat()).ended(1);
    second.says("another run of job `a model` is at work");
    first.signal("TERM");
    assert_eq!(first.status().code(), Some(143));

    let (mut run, log) = all_die_at_once(&options, &[]);
    assert!(run.status().success(), "{}", events(&log));
    let (out, err) = (run.out(), std::fs::read_to_string(run.folder.path().join("err")).unwrap_or_default());
    assert!(err.contains("goes on from version 2"), "{err}");
    assert!(!out.contains("WRONG") && !out.contains("starts at version 0"), "{out}");
}

#[test]
fn ranks_that_come_back_are_given_results_that_lie_on_disk() {
    let spill = tempfile::tempdir().expect("a folder");
    let folder = spill.path().display().to_string();
    let log = spill.path().join("events.jsonl").display().to_string();
    let undisturbed = run(&["-n", "4", "--", &example("scenario")]).ended(0);
    let (early, late) = (at(1, 1, 9), at(2, 2, 10));
    let arguments = ["-n", "4", "--restart", "--events", &log, "--log-memory", "100k", "--spill", &folder];
    let rules = ["--kill", &early, "--kill", &late, "--", &example("scenario")];
    let ran = run(&[&arguments[..], &rules].concat()).ended(0);
    assert_eq!(digest(&ran), digest(&undisturbed));
    let text = events(Path::new(&log));
    let spilled = text.lines().filter(|line| line.contains("\"Usage\"") && !line.contains("\"spilled_bytes\":0"));
    assert!(spilled.count() > 0, "an iteration has 450 KB of results: {text}");
    assert_eq!(files(spill.path()), ["events.jsonl"], "files of logs have no names");
}

#[test]
fn a_disk_that_is_full_for_logs_ends_the_job_with_an_error_that_names_folder_and_setting() {
    let disk = SmallDisk::new();
    let folder = disk.folder.path().display().to_string();
    let script = format!("{} exec {} 5", disk.shell(), example("scenario"));
    let ran = run(&["-n", "3", "--log-memory", "50k", "--spill", &folder, "--", "sh", "-c", &script]).ended(4);
    assert!(!ran.out.contains("WRONG") && !ran.out.contains("digest"), "{}", ran.out);
    ran.says("OUT_OF_SPACE").says("can't be written").says(&folder).says("--log-memory");
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
