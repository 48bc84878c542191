//! `rejoin run -H`: ranks on other hosts, each of which is a real sshd at a loopback address of its own. Real kills.

#[allow(dead_code)] // this test and the launcher's need different parts
#[path = "launcher/harness.rs"]
mod harness;
#[allow(dead_code)]
#[path = "launcher/jobs.rs"]
mod jobs;
#[path = "launcher/ports.rs"]
mod ports;
#[allow(dead_code)]
#[path = "launcher/found.rs"]
mod processes;
#[path = "launcher/sshd.rs"]
mod sshd;

use harness::{example, finish, lives, rejoin, signal, until, Ran};
use jobs::{digest, undisturbed, worlds, Job, Started, ITERATIONS};
use processes::{parent, with};
use sshd::Hosts;
use std::path::Path;
use std::process::Command;

const A: &str = "127.0.0.2";
const B: &str = "127.0.0.3";
const NOWHERE: &str = "/nowhere/program";
const C: &str = "127.0.0.4";

/// A run on hosts, and what tells its processes from those of other tests.
struct Run {
    job: Job,
    running: Started,
    mark: String,
}

impl Run {
    fn start(hosts: &Hosts, listed: &str, options: &[&str]) -> Run {
        Run::of(hosts, listed, options, &[&example("scenario"), ITERATIONS])
    }

    fn of(hosts: &Hosts, listed: &str, options: &[&str], program: &[&str]) -> Run {
        Run::with(hosts, &[&["-H", listed], options].concat(), program)
    }

    fn with(hosts: &Hosts, options: &[&str], program: &[&str]) -> Run {
        let job = Job::new();
        let (events, ssh) = (job.path("events"), hosts.client());
        let mark = format!("BY_SSH={events}");
        let run = ["run", "--ssh", &ssh, "--listen", "127.0.0.1", "--timeout", "55s", "--events", &events];
        let run = [&run[..], options, &["--"]].concat();
        // Nothing of this environment comes to other hosts.
        let arguments = match program[0] {
            NOWHERE => [&run[..], program].concat(),
            _ => [&run[..], &["env", &mark], program].concat(),
        };
        Run { running: job.start("run", &arguments), job, mark }
    }

    /// All have the model of version 1 then.
    fn is_under_way(&self) {
        let log = self.job.path("events");
        until("version 3 is entered", || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            text.lines().any(|line| line.contains("VersionEntered") && line.contains("\"version\":3,"))
        });
    }

    /// The process of a rank on a host.
    fn process(&self, host: &str, rank: u32) -> u32 {
        let variables = [format!("REJOIN_RANK={rank}"), format!("REJOIN_HOST={host}"), self.mark.clone()];
        let mut found = Vec::new();
        until(&format!("rank {rank}'s process is on {host}"), || {
            found = with(&variables);
            !found.is_empty()
        });
        found[0]
    }

    fn processes(&self) -> Vec<u32> {
        with(std::slice::from_ref(&self.mark))
    }

    fn ended(mut self, status: i32) -> Ran {
        self.running.ended().ended(status)
    }
}

fn same_model(run: Run) -> Ran {
    let ran = run.ended(0);
    assert_eq!(digest(&[&ran]), undisturbed(), "{}\n{}", ran.out, ran.err);
    ran
}

#[test]
fn a_rank_that_is_killed_on_another_host_is_started_again_there_and_the_model_is_that_of_one_machine() {
    let hosts = Hosts::at(&[A, B]);
    let run = Run::start(&hosts, &format!("{A}:2,{B}:2"), &["--restart"]);
    run.is_under_way();
    signal(run.process(B, 2), "KILL");
    let ran = same_model(run);
    ran.says("rank 2 died (on 127.0.0.3, status 3); attempt 1 starts after 0 ms");
    ran.says("[2] rejoin: rank 2 ended (SIGKILL)").says("all 4 ranks ended well after 1 restarts");
    let place = |line: &str| ran.out.lines().filter(|out| *out == line).count();
    assert_eq!(place("[2.1] is local rank 0 of 2, cross rank 1 of 2"), 1, "{}", ran.out);
    assert_eq!(place("[1] is local rank 1 of 2, cross rank 0 of 2"), 1, "{}", ran.out);
}

#[test]
fn the_environment_says_the_placement_that_the_calls_say() {
    let hosts = Hosts::at(&[A, B]);
    let script = "echo is local rank $REJOIN_LOCAL_RANK of $REJOIN_LOCAL_SIZE, cross rank $REJOIN_CROSS_RANK of \
                  $REJOIN_CROSS_SIZE; exec \"$0\" \"$@\"";
    let program = ["sh", "-c", script, &example("scenario"), "3"];
    let ran = Run::of(&hosts, &format!("{A}:2,{B}:1"), &[], &program).ended(0);
    for line in ["[0] is local rank 0 of 2, cross rank 0 of 2", "[1] is local rank 1 of 2, cross rank 0 of 1"] {
        assert_eq!(ran.out.matches(line).count(), 2, "{}", ran.out);
    }
    assert_eq!(ran.out.matches("[2] is local rank 0 of 1, cross rank 1 of 2").count(), 2, "{}", ran.out);
}

#[test]
fn a_rank_that_is_frozen_on_another_host_uses_up_a_restart_as_one_that_dies() {
    let hosts = Hosts::at(&[A, B]);
    let options = ["--restart", "--restarts", "1", "--lost-after", "1s"];
    let mut run = Run::of(&hosts, &format!("{A}:1,{B}:1"), &options, &[&example("scenario"), "100000"]);
    run.is_under_way();
    let first = run.process(B, 1);
    signal(first, "STOP");
    until("it is started again", || run.running.text("out").contains("[1.1] starts at version"));
    signal(run.process(B, 1), "STOP");
    let ran = run.running.ended().ended(3);
    ran.says("rank 1 is killed: it gave no sign of life")
        .says("rank 1 died (on 127.0.0.3, status 3); attempt 1 starts");
    ran.says("rank 1 failed (on 127.0.0.3, status 3), and it was started again once already");
}

#[test]
fn the_ranks_of_a_host_that_is_gone_go_on_where_slots_are_free_and_the_model_is_the_same() {
    let mut hosts = Hosts::at(&[A, B, C]);
    let run = Run::start(&hosts, &format!("{A}:2,{B}:2,{C}:2"), &["-n", "4", "--restart"]);
    run.is_under_way();
    hosts.kill(B);
    for rank in [2, 3] {
        run.process(C, rank);
    }
    let ran = same_model(run);
    for rank in [2, 3] {
        ran.says(&format!("rank {rank} is out of reach (the connection to 127.0.0.3 ended, status 255); attempt 1"));
    }
    assert!(!ran.err.contains("rank 0 "), "the other host's ranks go on: {}", ran.err);
}

#[test]
fn the_ranks_of_a_host_that_is_gone_wait_for_it_if_no_slot_is_free() {
    let mut hosts = Hosts::at(&[A, B]);
    let run = Run::start(&hosts, &format!("{A}:2,{B}:2"), &["--restart"]);
    run.is_under_way();
    hosts.kill(B);
    until("it is tried again in vain", || run.running.text("err").contains("Connection refused"));
    hosts.start(B);
    same_model(run).says("ssh: connect to host 127.0.0.3");
}

#[test]
fn a_connection_that_is_cut_while_its_rank_lives_moves_the_rank_and_what_was_cut_off_ends() {
    let hosts = Hosts::at(&[A, B]);
    let run = Run::start(&hosts, &format!("{A}:3,{B}:2"), &["-n", "4", "--restart"]);
    run.is_under_way();
    let rank = run.process(B, 3);
    let of_rank = |pid: &u32| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.contains("--rank 3")
    };
    let ssh = jobs::children(run.running.child.id()).into_iter().find(of_rank).expect("rank 3 has a connection");
    // What the rank runs under isn't told, and goes on.
    signal(ssh, "KILL");
    until("the rank that was cut off ends", || !lives(&rank.to_string()));
    same_model(run).says("rank 3 is out of reach (the connection to 127.0.0.3 ended, SIGKILL); attempt 1");
}

#[test]
fn nothing_is_left_on_other_hosts_when_the_launcher_is_killed() {
    let hosts = Hosts::at(&[A, B]);
    // They would train for minutes.
    let mut run = Run::of(&hosts, &format!("{A}:2,{B}:2"), &["--lost-after", "1s"], &[&example("scenario"), "100000"]);
    run.is_under_way();
    let ranks = run.processes();
    let launchers: Vec<u32> = ranks.iter().filter_map(|rank| parent(*rank)).collect();
    assert_eq!(ranks.len(), 4);
    run.running.kill();
    for pid in ranks.iter().chain(&launchers) {
        until("it has ended", || !lives(&pid.to_string()));
    }
}

#[test]
fn ctrl_c_ends_the_ranks_on_all_hosts() {
    let hosts = Hosts::at(&[A, B]);
    let run = Run::of(&hosts, &format!("{A}:1,{B}:1"), &[], &[&example("scenario"), "100000"]);
    run.is_under_way();
    let ranks = run.processes();
    signal(run.running.child.id(), "INT");
    run.ended(130);
    for pid in ranks {
        until("it has ended", || !lives(&pid.to_string()));
    }
}

#[test]
fn a_rank_that_hangs_after_the_jobs_end_ends_on_its_host_with_the_command_however_that_ends() {
    let hosts = Hosts::at(&[A, B]);
    let script = format!("\"$0\" 3 && echo done; if [ $REJOIN_HOST = {B} ]; then sleep 1000; fi");
    for name in ["INT", "KILL"] {
        let program = ["sh", "-c", &script, &example("scenario")];
        let mut run = Run::of(&hosts, &format!("{A}:1,{B}:1"), &["--lost-after", "1s"], &program);
        run.running.printed("done", 2);
        until("only the rank that hangs is left", || with(&[format!("REJOIN_HOST={A}"), run.mark.clone()]).is_empty());
        let left = run.processes();
        let launchers: Vec<u32> = left.iter().filter_map(|pid| parent(*pid)).collect();
        signal(run.running.child.id(), name);
        run.running.ended();
        assert!(!left.is_empty(), "it hangs");
        for pid in left.iter().chain(&launchers) {
            until("it has ended", || !lives(&pid.to_string()));
        }
    }
}

#[test]
fn the_secret_goes_over_standard_input_and_is_in_no_argument_and_no_variable() {
    let hosts = Hosts::at(&[A]);
    let run = Run::of(&hosts, &format!("{A}:2"), &["--lost-after", "1s"], &[&example("scenario"), "100000"]);
    run.is_under_way();
    let rank = run.process(A, 1);
    let descriptors = std::fs::read_dir(format!("/proc/{rank}/fd")).expect("it lives").flatten();
    let is_secret =
        |path: &Path| std::fs::read_link(path).is_ok_and(|name| name.to_string_lossy().contains("rejoin-secret"));
    let path = descriptors.map(|entry| entry.path()).find(|path| is_secret(path)).expect("a rank has the secret");
    let secret = std::fs::read(path).expect("it can be read");
    let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let has = |text: &[u8], secret: &[u8]| text.windows(secret.len()).any(|part| part == secret);
    let mut looked_at = 0;
    for entry in std::fs::read_dir("/proc").expect("Linux").flatten() {
        for file in ["cmdline", "environ"] {
            let Ok(text) = std::fs::read(entry.path().join(file)) else { continue };
            looked_at += 1;
            assert!(!has(&text, &secret) && !has(&text, hex.as_bytes()), "{:?} has it", entry.path().join(file));
        }
    }
    assert!(looked_at > 4, "the processes of the run are there");
    signal(run.running.child.id(), "INT");
    run.ended(130);
}

#[test]
fn a_program_that_is_not_there_and_a_rank_that_fails_end_the_run_with_their_statuses() {
    let hosts = Hosts::at(&[A, B]);
    let listed = format!("{A}:1,{B}:1");
    let ran = Run::of(&hosts, &listed, &["--restart"], &[NOWHERE]).ended(127);
    ran.says("have to be at the same paths on all hosts").says("No such file or directory");
    let ran = Run::of(&hosts, &listed, &[], &["sh", "-c", "exit 5"]).ended(3);
    ran.says("rejoin: rank").says("ended (status 5)").says("ranks are started again only with --restart");
}

#[test]
fn a_host_that_is_never_reached_ends_the_run_with_who_is_missing() {
    let hosts = Hosts::at(&[A]);
    let run = Run::start(&hosts, &format!("{A}:1,{B}:1"), &["--restart", "--members", "3s"]);
    run.ended(4).says("MEMBERS_MISSING").says("[1] ssh: connect to host 127.0.0.3").says("rank 1");
}

/// A script that prints the lines of a file, and the file.
struct Discovery(tempfile::TempDir);

impl Discovery {
    fn of(lines: &str) -> Discovery {
        let this = Discovery(tempfile::tempdir().expect("a folder"));
        this.name(lines);
        // Another thread's fork may hold a file that was written here open, and it can't be run then.
        let script = "printf '#!/bin/sh\\ncat %s/slots\\n' \"$0\" > \"$0/discover\" && chmod 700 \"$0/discover\"";
        assert!(Command::new("sh").args(["-c", script]).arg(this.0.path()).status().expect("sh").success());
        this
    }

    fn name(&self, lines: &str) {
        let (new, file) = (self.0.path().join("new"), self.0.path().join("slots"));
        std::fs::write(&new, lines).expect("room for some lines");
        std::fs::rename(new, file).expect("a file takes another one's place");
    }

    fn script(&self) -> String {
        self.0.path().join("discover").display().to_string()
    }
}

/// An elastic run, which ends when the world has had these sizes.
fn elastic(hosts: &Hosts, options: &[&str], sizes: &[&str]) -> Run {
    let times = ["--min", "1", "--resize-interval", "100ms", "--lost-after", "5s", "--restart"];
    let program = example("elastic");
    Run::with(hosts, &[&times, options].concat(), &[&[program.as_str()], sizes].concat())
}

#[test]
fn a_world_grows_and_shrinks_as_a_script_names_hosts_and_names_them_no_more() {
    let hosts = Hosts::at(&[A, B]);
    let script = Discovery::of(&format!("{A}:2\n"));
    // A host that is named no more isn't waited for: otherwise the run would end with its limit.
    let options = ["-n", "2", "--max", "4", "--discovery", &script.script(), "--elastic-timeout", "55s"];
    let run = elastic(&hosts, &options, &["2", "4", "2", "3"]);
    run.running.printed("reached 1", 2);
    script.name(&format!("{A}:2\n{B}:2\n"));
    run.running.printed("reached 2", 2);
    // The first host goes, with rank 0.
    script.name(&format!("{B}:2\n"));
    run.running.printed("reached 3", 2);
    script.name(&format!("{B}:3\n"));
    let ran = run.ended(0);
    digest(&[&ran]);
    assert!(worlds(&[&ran]).starts_with(&[2]) && worlds(&[&ran]).contains(&4), "{}", ran.out);
    for rank in [0, 1] {
        ran.says(&format!("the slot of the process that was started as rank {rank} is gone; it is ended"));
    }
    let moved = ["[2] is rank 0 of 2", "[3] is rank 0 of 2"].iter().any(|line| ran.out.contains(line));
    assert!(moved, "survivors move down: {}", ran.out);
}

#[test]
fn a_world_shrinks_when_a_host_is_gone_and_grows_when_it_is_there_again() {
    let mut hosts = Hosts::at(&[A, B]);
    let listed = format!("{A}:2,{B}:2");
    let run = elastic(&hosts, &["-H", &listed, "--elastic-timeout", "300ms"], &["4", "2", "4"]);
    run.running.printed("reached 1", 4);
    hosts.kill(B);
    run.running.printed("reached 2", 2);
    hosts.start(B);
    let ran = run.ended(0);
    digest(&[&ran]);
    assert_eq!(ran.out.matches("digest ").count(), 4, "{}", ran.out);
    ran.says("no replacement of rank").says("so the world of 2 ranks goes on as one of");
}

#[test]
fn a_rank_of_a_host_that_is_gone_is_started_again_on_one_that_comes_and_the_world_stays_as_it_is() {
    let mut hosts = Hosts::at(&[A, B, C]);
    let script = Discovery::of(&format!("{A}:2\n{B}:1\n"));
    let options = ["-n", "3", "--max", "3", "--discovery", &script.script(), "--elastic-timeout", "55s"];
    // Some versions before the host is gone, and hundreds until one has come.
    let run = elastic(&hosts, &options, &["3"; 400]);
    run.running.printed("reached 3", 3);
    hosts.kill(B);
    script.name(&format!("{A}:2\n{B}:1\n{C}:1\n"));
    run.process(C, 2);
    let ran = run.ended(0);
    digest(&[&ran]);
    assert_eq!((worlds(&[&ran]), ran.out.matches("digest ").count()), (vec![3], 3), "{}", ran.err);
    assert!(!ran.out.contains("joins again"), "nobody is sent back: {}", ran.out);
    ran.says("rank 2 is out of reach").says("all 3 ranks ended well");
}

/// A program that fails on this host until there is this file.
fn fails_on(host: &str, unless: &str) -> [String; 4] {
    let script = format!("[ $REJOIN_HOST = {host} ] && [ ! -e {unless} ] && exit 3; exec \"$0\" \"$@\"");
    ["sh".into(), "-c".into(), script, example("elastic")]
}

#[test]
fn a_host_on_which_processes_fail_is_excluded_and_comes_back_and_is_excluded_again() {
    let hosts = Hosts::at(&[A, B]);
    let (folder, listed) = (tempfile::tempdir().expect("a folder"), format!("{A}:2,{B}:1"));
    let is_well = folder.path().join("well");
    let program = fails_on(B, &is_well.display().to_string());
    let limits = ["--failures-per-host", "2", "--exclude-cooldown", "300ms,700ms", "--restarts", "1000"];
    let world = ["-H", &listed, "-n", "2", "--min", "1", "--max", "3", "--resize-interval", "100ms", "--restart"];
    let program = [program.each_ref().map(String::as_str).as_slice(), &["2", "3"]].concat();
    let run = Run::with(&hosts, &[&world[..], &limits].concat(), &program);
    until("it is excluded twice", || run.running.text("err").matches("host 127.0.0.3 is excluded for 0.").count() > 1);
    std::fs::write(is_well, "").expect("room for a file");
    let ran = run.ended(0);
    digest(&[&ran]);
    assert_eq!(ran.out.matches("digest ").count(), 3, "{}", ran.out);
    ran.says("2 processes have failed there (--failures-per-host)").says("host 127.0.0.3 is used again");
    assert!(!ran.err.contains("host 127.0.0.2 is excluded"), "{}", ran.err);
}

#[test]
fn a_rank_goes_to_another_host_when_its_own_is_excluded_and_the_model_is_the_same() {
    let hosts = Hosts::at(&[A, B]);
    let script = format!("[ $REJOIN_HOST = {A} ] && [ $REJOIN_RANK = 1 ] && exit 3; exec \"$0\" \"$@\"");
    let options = ["--restart", "--failures-per-host", "3"];
    let program = ["sh", "-c", &script, &example("scenario"), ITERATIONS];
    let run = Run::of(&hosts, &format!("{A}:2,{B}:3"), &[&["-n", "4"], &options[..]].concat(), &program);
    run.process(B, 1);
    same_model(run).says("host 127.0.0.2 is excluded for good: 3 processes have failed there");
}

#[test]
fn a_run_whose_hosts_are_all_excluded_for_good_ends_and_says_so() {
    let hosts = Hosts::at(&[A, B]);
    let options = ["--restart", "--restarts", "1000", "--failures-per-host", "2"];
    let run = Run::of(&hosts, &format!("{A}:1,{B}:1"), &options, &["sh", "-c", "exit 5"]);
    run.ended(3).says("host 127.0.0.2 is excluded for good").says("no host is left: all are excluded");
}

#[test]
fn a_run_on_hosts_begins_with_its_ranks_and_grows_to_the_slots_that_are_left() {
    let hosts = Hosts::at(&[A, B]);
    let listed = format!("{A}:2,{B}:2");
    let run = elastic(&hosts, &["-H", &listed, "-n", "2", "--max", "3"], &["2", "3"]);
    let ran = run.ended(0);
    digest(&[&ran]);
    assert_eq!(ran.out.matches("digest ").count(), 3, "{}", ran.out);
    ran.says("there is a slot for a process more, which is started as rank 2");
}

#[test]
fn the_status_of_a_run_on_hosts_says_on_which_host_each_rank_is() {
    let hosts = Hosts::at(&[A, B]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("status").display().to_string();
    let run = Run::start(&hosts, &format!("{A}:1,{B}:1"), &["--status", &file]);
    until("both ranks train", || {
        let told = finish(&mut rejoin(&["status", "--join", &file, "--json"]));
        let json: serde_json::Value = serde_json::from_str(&told.out).unwrap_or_default();
        let hosts: Vec<_> =
            json["ranks"].as_array().into_iter().flatten().map(|rank| rank["place"]["host"].as_str()).collect();
        hosts == [Some(A), Some(B)]
    });
    run.ended(0);
    assert!(!Path::new(&file).exists());
}

#[test]
fn ranks_on_all_hosts_start_from_the_newest_durable_checkpoint_when_all_die_and_so_does_a_run_of_the_same_name() {
    let hosts = Hosts::at(&[A, B, C]);
    let folder = tempfile::tempdir().expect("a folder");
    let durable = folder.path().join("shared").display().to_string();
    let options = ["--restart", "--durable", &durable, "--job", "a model", "--resume"];
    let mut run = Run::start(&hosts, &format!("{A}:2,{B}:2"), &options);
    run.is_under_way();
    // The launcher learns of all deaths before a rank is started again.
    let ranks = run.processes();
    signal(run.running.child.id(), "STOP");
    ranks.iter().for_each(|pid| signal(*pid, "KILL"));
    until("all have ended", || ranks.iter().all(|pid| !lives(&pid.to_string())));
    signal(run.running.child.id(), "CONT");
    let goes_back = "all ranks go back to version ";
    until("they go back to a version", || run.running.text("err").contains(goes_back));
    let text = run.running.text("err");
    assert!(!text.contains(&format!("{goes_back}0:")), "{text}");
    until("they have started", || run.running.text("out").matches("starts at version").count() >= 8);
    // Now everything goes, the launcher first: nobody starts a rank again.
    run.running.kill();
    run.processes().iter().for_each(|pid| signal(*pid, "KILL"));
    until("all have ended", || run.processes().is_empty());
    let again = Run::start(&hosts, &format!("{C}:4"), &options);
    let ran = same_model(again);
    ran.says("goes on from version ");
    assert!(!ran.out.contains("starts at version 0 "), "{}", ran.out);
}

#[test]
fn what_can_not_be_is_refused_with_what_is_expected() {
    let refused = |arguments: &[&str], text: &str| {
        finish(rejoin(&["run"]).args(arguments).args(["--", "true"])).ended(2).says(text);
    };
    refused(&["-H", "a:2,b:2", "-n", "5"], "--hosts has 4 slots; expected as many or more");
    refused(&["-H", "a:2,-oProxyCommand=x"], "expected a host, or one with its number of slots");
    refused(&["-H", "a:2", "--join", "f"], "cannot be used with");
    refused(&["-H", "a:2", "--job", "a model"], "--durable <FOLDER>");
    refused(&["-H", "a:2", "--min", "1", "--discovery", "d"], "cannot be used with");
    refused(&["--join", "-", "--rank", "0"], "expected a join file's text and an order");
    let ran = finish(
        Command::new("sh")
            .args(["-c", "echo '{}' | \"$0\" run --join - --rank 0 -- true"])
            .arg(env!("CARGO_BIN_EXE_rejoin")),
    );
    ran.ended(2).says("rejoin run -H");
}
