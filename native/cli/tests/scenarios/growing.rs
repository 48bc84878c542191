//! Worlds that grow: slots come and go in a file that a discovery script prints.

use crate::harness::{example, finish, rejoin, until, Background, Ran};
use crate::{at, digest, ran};
use parking_lot::Mutex;
use rejoin_communicator::launch;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

/// Slots that a test raises and lowers.
struct Slots(TempDir);

impl Slots {
    /// A script that does this first, and then prints the slots.
    fn after(first: &str, slots: u32) -> Slots {
        let this = Slots(tempfile::tempdir().expect("a folder"));
        this.are(slots);
        let folder = this.0.path().display();
        // The answer is counted when it is made, so that a test knows that an older one is no longer under way.
        let text = format!("#!/bin/sh\ncd {folder}\n{first}\ncat slots && echo asked >> answers\n");
        // Another thread's fork may hold a file that was written here open, and it can't be run then.
        let mut made = Command::new("sh");
        made.args(["-c", "printf %s \"$1\" > \"$0\" && chmod 700 \"$0\""]);
        assert!(made.arg(this.script()).arg(text).status().expect("sh is there").success());
        this
    }

    fn of(slots: u32) -> Slots {
        Slots::after("", slots)
    }

    fn script(&self) -> PathBuf {
        self.0.path().join("discover")
    }

    /// So many from now on.
    fn are(&self, slots: u32) {
        self.name(&format!("localhost:{slots}\n"));
    }

    /// These lines from now on.
    fn name(&self, lines: &str) {
        let (new, file) = (self.0.path().join("new"), self.0.path().join("slots"));
        std::fs::write(&new, lines).expect("room for some lines");
        std::fs::rename(new, file).expect("a file takes another one's place");
    }

    fn answers(&self) -> usize {
        std::fs::read_to_string(self.0.path().join("answers")).map_or(0, |text| text.lines().count())
    }

    /// Waits until the launcher has asked again, and has had the answer.
    fn are_seen(&self) {
        // The next question is asked when the launcher has been sent the answer to the one before it.
        let before = self.answers();
        until("the script is asked again", || self.answers() >= before + 2);
    }
}

/// A run whose world begins with so many ranks and may have so many: the program goes on when the world has had these
/// sizes.
fn grows(world: u32, most: u32, slots: &Slots, options: &[&str], program: &[&str]) -> Background {
    let (world, most, script) = (world.to_string(), most.to_string(), slots.script().display().to_string());
    let elastic = ["-n", &world, "--min", "2", "--max", &most, "--discovery", &script];
    let times = ["--resize-interval", "100ms", "--lost-after", "5s"];
    Background::start(&[&elastic[..], &times, options, &["--"], program].concat())
}

/// Waits for the end; every version's sum is that of the world that has made it.
fn ended(running: Background) -> Ran {
    let ran = ran(running).ended(0);
    digest(&ran);
    let made: Vec<&str> = ran.out.lines().filter_map(|line| Some(line.split_once("made ")?.1)).collect();
    assert!(!made.is_empty(), "{}", ran.out);
    for (version, line) in made.into_iter().enumerate() {
        let (world, sum) = line.split_once(' ').expect("a world and a sum");
        let world: u64 = world.parse().expect("a world");
        let whole: u64 = (1..=world).map(|rank| rank * 1000 + version as u64).sum();
        assert_eq!(sum, whole.to_string(), "version {version} of a world of {world}");
    }
    ran
}

#[test]
fn a_world_grows_when_slots_come_and_its_model_is_that_of_the_worlds_it_had() {
    let slots = Slots::of(2);
    let running = grows(2, 4, &slots, &[], &[&example("elastic"), "2", "4"]);
    running.printed("reached 1", 2);
    slots.are(4);
    let ran = ended(running);
    ran.says("there is a slot for a process more, which is started as rank 2");
    ran.says("the world grows: task");
    assert_eq!(ran.out.matches("digest ").count(), 4, "{}", ran.out);
    for line in ["[0] is rank 0 of 4", "[1] is rank 1 of 4"] {
        assert!(ran.out.contains(line), "survivors keep their order: {}", ran.out);
    }
}

#[test]
fn a_world_grows_and_shrinks_and_grows_again_as_slots_come_and_go() {
    let slots = Slots::of(2);
    // A slot that has gone isn't waited for: otherwise the run would end with its limit.
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("events.jsonl").display().to_string();
    let options = ["--elastic-timeout", "55s", "--events", &log];
    let program = [&example("elastic"), "2", "4", "3", "4"];
    let running = grows(2, 4, &slots, &options, &program);
    for (reached, next) in [("reached 1", 4), ("reached 2", 3), ("reached 3", 4)] {
        running.printed(reached, 2);
        slots.are(next);
    }
    let ran = ended(running);
    ran.says("the slot of the process that was started as rank 3 is gone; it is ended");
    // Those that came at once have ranks in the order in which they joined.
    let left = [2, 3].into_iter().find(|rank| ran.out.contains(&format!("[3] is rank {rank} of 4"))).expect("a rank");
    ran.says(&format!("rank {left} leaves, so the world of 4 ranks goes on as one of 3"));
    let line = format!("[3] joins again after RESIZED: rank {left} of 4 takes no part in the world of 3 ranks");
    assert!(ran.out.contains(&line), "{}", ran.out);
    assert!(ran.out.contains("[3.1] reached 4"), "{}", ran.out);

    // The same model again: which versions each world makes is up to the log, and not to when slots come.
    let again = finish(&mut rejoin(&[&["run", "--timeout", "55s", "--worlds", &log, "--"], &program[..]].concat()));
    assert_eq!(digest(&again.ended(0)), digest(&ran));
}

#[test]
fn own_models_go_on_while_a_world_grows_and_shrinks_and_grows_again() {
    let slots = Slots::of(3);
    let program = ["env", "ELASTIC_OWN=1", &example("elastic"), "3", "4", "2", "3"];
    let running = grows(3, 4, &slots, &["--elastic-timeout", "55s"], &program);
    for (reached, next) in [("reached 1", 4), ("reached 2", 2), ("reached 3", 3)] {
        running.printed(reached, 2);
        slots.are(next);
    }
    let ran = ended(running);
    // Two go at once, and rank 2's model has a copy at one that stays.
    assert!(ran.out.contains("is given the own model of rank 2"), "{}", ran.out);
}

#[test]
fn any_number_of_ranks_leave_at_once_and_their_own_models_are_given_to_the_others_before_they_end() {
    let slots = Slots::of(6);
    let program = ["env", "ELASTIC_OWN=1", &example("elastic"), "6", "2"];
    let running = grows(6, 6, &slots, &["--elastic-timeout", "55s"], &program);
    running.printed("reached 1", 6);
    slots.are(2);
    let ran = ended(running);
    // An own model has a copy at one other rank, and only two ranks are left.
    for rank in 2..6 {
        let line = format!("is given the own model of rank {rank}");
        assert_eq!(ran.out.matches(&line).count(), 1, "{}", ran.out);
    }
    ran.says("rank 2, 3, 4 and 5 leaves, so the world of 6 ranks goes on as one of 2");
}

#[test]
fn a_rank_that_leaves_is_ended_after_the_grace_if_the_others_do_not_finish_the_version() {
    let slots = Slots::of(3);
    let rule = "rank=1,version=50,seqno=0,do=stop:3s";
    let options = ["--elastic-timeout", "55s", "--grace", "300ms", "--kill", rule];
    let running = grows(3, 3, &slots, &options, &[&example("elastic"), "3", "2"]);
    let err = running.folder.path().join("err");
    until("rank 1 is stopped", || std::fs::read_to_string(&err).is_ok_and(|text| text.contains("fired at rank 1")));
    slots.are(2);
    let ran = ended(running);
    ran.says("rank 2 is gone, and no replacement is waited for, so the world of 3 ranks goes on as one of 2");
}

#[test]
fn worlds_are_had_again_only_by_the_program_that_had_them_and_from_the_log_of_their_beginning() {
    let slots = Slots::of(2);
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("events.jsonl").display().to_string();
    let running = grows(2, 4, &slots, &["--events", &log], &[&example("elastic"), "2", "4"]);
    running.printed("reached 1", 2);
    slots.are(4);
    ended(running);
    let again = |log: &str, options: &[&str], size: &str| {
        let program = [&example("elastic"), size];
        finish(&mut rejoin(&[&["run", "--timeout", "55s", "--worlds", log], options, &["--"], &program[..]].concat()))
    };
    // It is over when it has had a world of two.
    let other = again(&log, &[], "2").ended(1);
    other.says("the program has ended before version");
    other.says("expected the program of that run, with its arguments");
    again("/nowhere/log", &[], "2").ended(1).says("--worlds /nowhere/log: /nowhere/log can't be opened");
    again(&log, &["--min", "2"], "2").ended(2).says("cannot be used with");
}

#[test]
fn a_run_in_the_same_worlds_says_that_models_of_one_rank_alone_are_not_handed_to_another_world() {
    let slots = Slots::of(6);
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("events.jsonl").display().to_string();
    let program = ["env", "ELASTIC_OWN=1", &example("elastic"), "6", "7"];
    let running = grows(6, 7, &slots, &["--events", &log], &program);
    running.printed("reached 1", 6);
    slots.are(7);
    ended(running);
    let again = finish(&mut rejoin(&[&["run", "--timeout", "55s", "--worlds", &log, "--"], &program[..]].concat()));
    let again = again.ended(1);
    again.says("each rank has a model of its own, which can't be handed to a world of 7 ranks");
    assert!(!again.out.contains("of 7 from version"), "no other world begins: {}", again.out);
}

#[test]
fn a_joiner_that_dies_at_once_is_given_up_and_the_others_grow_without_it() {
    let slots = Slots::of(2);
    let program = ["env", "ELASTIC_DIES=2", &example("elastic"), "2", "3"];
    let running = grows(2, 4, &slots, &[], &program);
    running.printed("reached 1", 2);
    slots.are(4);
    let ran = ended(running);
    ran.says("the process that was started as rank 2 failed (status 3)");
    assert!(ran.out.contains("[3] is rank 2 of 3"), "{}", ran.out);
}

#[test]
fn a_joiner_that_dies_in_its_first_call_is_started_again_as_the_same_rank() {
    let slots = Slots::of(2);
    // No incarnation of a larger world has a number that one before it had, or that its view names.
    let rule = "rank=2,incarnation=2,at=load";
    let options = ["--restart", "--elastic-timeout", "55s", "--kill", rule];
    let running = grows(2, 3, &slots, &options, &[&example("elastic"), "2", "3"]);
    running.printed("reached 1", 2);
    slots.are(3);
    ended(running).says(&format!("rule `{rule}` fired at rank 2"));
}

#[test]
fn the_tracker_dies_when_the_first_joiner_has_joined_and_its_next_life_goes_on_with_the_larger_world() {
    let slots = Slots::of(2);
    let rule = "rank=2,incarnation=2,at=join,do=tracker:200ms";
    let running = grows(2, 4, &slots, &["--kill", rule], &[&example("elastic"), "2", "4"]);
    running.printed("reached 1", 2);
    slots.are(4);
    ended(running).says(&format!("rule `{rule}` fired"));
}

#[test]
fn a_job_at_its_maximum_takes_no_more_slots() {
    let slots = Slots::of(2);
    let running = grows(2, 3, &slots, &[], &[&example("elastic"), "2", "3"]);
    running.printed("reached 1", 2);
    slots.are(9);
    let ran = ended(running);
    assert_eq!(ran.err.matches("there is a slot for a process more").count(), 1, "{}", ran.err);
    assert!(!ran.out.contains("of 4 from"), "{}", ran.out);
}

/// A rank is given up where so many slots are named, comes back when one was gone and is there again.
fn comes_back(named: u32) {
    let slots = Slots::of(named);
    let options = ["--elastic-timeout", "300ms", "--kill", &at(1, 3, 0)];
    let running = grows(3, 3, &slots, &options, &[&example("elastic"), "3", "2", "3"]);
    running.printed("reached 2", 2);
    slots.are_seen();
    let out = running.out();
    assert!(!out.contains("[1.1]"), "its slot was there all the time: {out}");
    slots.are(named - 1);
    slots.are_seen();
    let out = running.out();
    assert!(!out.contains("[1.1]"), "there is no other one instead: {out}");
    slots.are(named);
    let ran = ended(running);
    ran.says("the others go on without it");
    assert!(ran.out.contains("[1.1] is rank 2 of 3"), "it comes behind those that stayed: {}", ran.out);
}

#[test]
fn a_rank_that_was_given_up_comes_back_when_its_slot_was_gone_and_is_there_again() {
    comes_back(3);
}

#[test]
fn a_rank_that_was_given_up_comes_back_so_where_there_are_more_slots_than_are_used_too() {
    comes_back(9);
}

#[test]
fn a_discovery_script_that_fails_first_is_asked_again_and_that_is_said_once() {
    let slots = Slots::after("echo asked >> asked; test -e ready || { echo no scheduler >&2; exit 7; }", 2);
    let running = grows(2, 2, &slots, &[], &[&example("elastic"), "2"]);
    let asked = slots.0.path().join("asked");
    until("it is asked three times", || std::fs::read_to_string(&asked).is_ok_and(|text| text.lines().count() > 2));
    std::fs::write(slots.0.path().join("ready"), "").expect("room for a file");
    let ran = ended(running);
    assert_eq!(ran.err.matches("it ended with status 7 (no scheduler)").count(), 1, "{}", ran.err);
}

/// The script fails while this file is in its folder, and is asked again and again.
const BREAKS: &str = "echo asked >> asked; test -e broken && { echo no scheduler >&2; exit 7; }";

#[test]
fn a_world_stays_as_it_is_while_a_discovery_script_that_has_worked_fails_and_grows_when_it_works_again() {
    let slots = Slots::after(BREAKS, 3);
    let running = grows(3, 4, &slots, &[], &[&example("elastic"), "3", "4"]);
    running.printed("reached 1", 3);
    let (asked, broken) = (slots.0.path().join("asked"), slots.0.path().join("broken"));
    std::fs::write(&broken, "").expect("room for a file");
    slots.are(4);
    let times = || std::fs::read_to_string(&asked).map_or(0, |text| text.lines().count());
    let before = times();
    until("it is asked three times", || times() > before + 3);
    std::fs::remove_file(broken).expect("it is there");
    let ran = ended(running);
    assert_eq!(ran.err.matches("it ended with status 7 (no scheduler)").count(), 1, "{}", ran.err);
    assert!(!ran.err.contains("is gone"), "what it said last holds: {}", ran.err);
}

/// A run that is told its slots by whoever starts it.
fn told(arguments: &[&str], start: impl FnOnce(&mut Command) -> std::io::Result<Child>) -> Background {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| std::fs::File::create(folder.path().join(name)).expect("a file");
    let mut command = rejoin(&["run", "--timeout", "50s", "--min", "2", "--max", "4", "--discovery", "-"]);
    command.args(arguments).stdout(file("out")).stderr(file("err"));
    Background { child: start(&mut command).expect("the binary can be run"), folder }
}

#[test]
fn slots_that_a_function_names_come_and_go_and_those_of_last_time_hold_when_it_fails() {
    let named = Arc::new(Mutex::new(Ok(2)));
    let asked = named.clone();
    let slots = move || (*asked.lock()).map(|slots| vec![("localhost".to_string(), slots)]);
    let times = ["--resize-interval", "100ms", "--lost-after", "5s", "--grace", "15s"];
    let program = example("elastic");
    let arguments = [&["-n", "2"], &times[..], &["--", &program, "2", "4", "3"]].concat();
    let running = told(&arguments, |command| launch(command, slots));
    running.printed("reached 1", 2);
    *named.lock() = Err("no scheduler\nat all");
    let said = running.folder.path().join("err");
    until("the launcher says why", || {
        std::fs::read_to_string(&said).is_ok_and(|text| text.contains("no scheduler at"))
    });
    *named.lock() = Ok(4);
    running.printed("reached 2", 2);
    *named.lock() = Ok(3);
    let ran = ended(running);
    ran.says("--discovery -: no scheduler at all; what it has named last holds");
    assert_eq!(ran.err.matches("no scheduler").count(), 1, "{}", ran.err);
}

#[test]
fn a_run_goes_on_with_the_slots_named_last_when_its_standard_input_ends() {
    let program = example("elastic");
    let arguments = ["-n", "2", "--resize-interval", "100ms", "--", &program, "2", "3"];
    let running = told(&arguments, |command| {
        let mut child = command.stdin(Stdio::piped()).spawn()?;
        child.stdin.take().expect("it was asked for").write_all(b"localhost:3\n\nlocalhost:1")?;
        Ok(child)
    });
    let ran = ended(running);
    ran.says("--discovery -: its standard input has ended; what it has named last holds");
    assert!(!ran.err.contains("is gone"), "a listing that wasn't ended doesn't count: {}", ran.err);
}

/// Processes that keep the cores busy, ended with this.
struct Load(Vec<Child>);

impl Load {
    fn of(processes: usize) -> Load {
        let busy = |_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh is there");
        Load((0..processes).map(busy).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for process in &mut self.0 {
            process.kill().and_then(|()| process.wait()).expect("it is this process's child");
        }
    }
}

#[test]
fn a_world_of_two_becomes_one_of_eight_of_three_of_five_and_of_two_while_the_cores_are_busy() {
    let _load = Load::of(std::thread::available_parallelism().map_or(2, usize::from));
    let slots = Slots::of(2);
    let sizes = [2, 8, 3, 5, 2];
    let words = sizes.map(|size| size.to_string());
    let program = [&[example("elastic")], &words[..]].concat();
    let program: Vec<&str> = program.iter().map(String::as_str).collect();
    // A slot that has gone isn't waited for: otherwise the run would end with its limit.
    let running = grows(2, 8, &slots, &["--elastic-timeout", "55s"], &program);
    for (reached, next) in (1..).zip(&sizes[1..]) {
        // Two ranks are there in all of these worlds.
        running.printed(&format!("reached {reached}"), 2);
        slots.are(*next);
    }
    let ran = ended(running);
    assert_eq!(ran.out.matches("digest ").count(), 2, "{}", ran.out);
}

/// A run of two ranks, which fail until there is this file.
fn fails(slots: &Slots, unless: &str, options: &[&str]) -> Background {
    let script = format!("[ -e {unless} ] || exit 3; exec \"$0\" \"$@\"");
    let options = [&["--restart", "--restarts", "1000", "--failures-per-host", "1"], options].concat();
    grows(2, 2, slots, &options, &["sh", "-c", &script, &example("elastic"), "2"])
}

#[test]
fn a_run_whose_only_host_is_excluded_for_good_waits_for_its_members_and_ends_with_why() {
    let slots = Slots::of(2);
    let ran = ran(fails(&slots, "/nowhere/well", &["--members", "2s", "--elastic-timeout", "1s"])).ended(4);
    ran.says("host localhost is excluded for good: 1 processes have failed there").says("MEMBERS_MISSING");
}

#[test]
fn the_pause_of_a_host_that_is_excluded_again_and_again_grows_up_to_its_most_and_the_run_goes_on_when_it_is_well() {
    let slots = Slots::of(2);
    let folder = tempfile::tempdir().expect("a folder");
    let is_well = folder.path().join("well");
    let running = fails(&slots, &is_well.display().to_string(), &["--exclude-cooldown", "200ms,1500ms"]);
    let err = running.folder.path().join("err");
    let pauses = |text: &str| -> Vec<f64> {
        let rest = |line: &str| Some(line.split_once("localhost is excluded for ")?.1.split_once(" s:")?.0.to_string());
        text.lines().filter_map(rest).map(|pause| pause.parse().expect("seconds")).collect()
    };
    until("it is excluded five times", || std::fs::read_to_string(&err).is_ok_and(|text| pauses(&text).len() >= 5));
    std::fs::write(is_well, "").expect("room for a file");
    let ran = ended(running);
    let pauses = pauses(&ran.err);
    assert!(pauses.len() >= 5, "{}", ran.err);
    // It doubles, and what is drawn is at most as much again; a tenth of a second is what is printed.
    for (pause, least) in pauses.iter().zip([0.2, 0.4, 0.8, 1.5, 1.5]) {
        let most = f64::min(2.0 * least, 1.5);
        assert!((least - 0.11..=most + 0.11).contains(pause), "{pauses:?}");
    }
    ran.says("host localhost is used again");
}

fn refused(options: &[&str], status: i32) -> Ran {
    finish(rejoin(&["run", "--timeout", "50s"]).args(options).args(["--", "true"])).ended(status)
}

#[test]
fn what_cannot_be_is_refused_before_any_process_starts() {
    for (options, text) in [
        (&["-n", "4", "--min", "2", "--max", "3"][..], "--max 3: the job begins with 4 ranks"),
        (&["-n", "4", "--min", "2", "--max", "8"], "have to be named by a program (--discovery)"),
        (&["-n", "4", "--max", "4"], "--min <RANKS>"),
        (&["-n", "4", "--discovery", "/bin/true"], "--min <RANKS>"),
        (&["-n", "4", "--failures-per-host", "2"], "or this one brings --slots; give one of these"),
        (&["-n", "4", "--durable-every", "3"], "--durable <FOLDER>"),
        (&["-n", "4", "--restarts", "3"], "--restart"),
    ] {
        refused(options, 2).says(text);
    }
    refused(&["-n", "2", "--min", "2", "--discovery", "/nowhere"], 1).says("--discovery /nowhere can't be used");
}

#[test]
fn a_host_that_does_not_reach_the_tracker_is_refused_by_its_name_and_said_once() {
    let slots = Slots::of(2);
    let running = grows(2, 3, &slots, &[], &[&example("elastic"), "2", "3"]);
    running.printed("reached 1", 2);
    slots.name("localhost:2\nnode7:4\n");
    slots.are_seen();
    slots.are(3);
    let ran = ended(running);
    ran.says("--discovery names the host node7").says("begin with --listen ADDRESS");
    assert_eq!(ran.err.matches("names the host node7").count(), 1, "{}", ran.err);
}

#[test]
fn rules_are_refused_where_processes_may_go_to_other_hosts() {
    let slots = Slots::of(2);
    slots.name("localhost:1\nnode7:1\n");
    let script = slots.script().display().to_string();
    let options = ["-n", "2", "--min", "2", "--discovery", &script, "--kill", "rank=0,at=join"];
    refused(&options, 1).says("--kill is for one machine").says("names other hosts");
}

#[test]
fn a_run_that_is_not_given_its_first_slots_in_time_ends_with_how_many_there_were() {
    let slots = Slots::of(1);
    let script = slots.script().display().to_string();
    let ran = refused(&["-n", "2", "--min", "2", "--discovery", &script, "--members", "5s"], 1);
    ran.says("MEMBERS_MISSING: not there within 5 s (--members)").says("slots for 2 ranks; it named 1");
}

#[test]
fn the_limit_of_a_run_counts_while_its_first_slots_are_waited_for() {
    let slots = Slots::of(1);
    let script = slots.script().display().to_string();
    // Without it the wait would end after --members, with another status.
    let options = ["run", "--timeout", "2s", "-n", "2", "--min", "2", "--discovery", &script, "--members", "40s"];
    let ran = finish(rejoin(&options).args(["--", "true"])).ended(124);
    ran.says("the run took longer than --timeout 2 s; --discovery ").says("it named 1");
}
