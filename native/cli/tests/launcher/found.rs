//! Processes of this machine, found and killed as somebody would who knows only what they run.

use crate::harness::{signal, until};
use crate::jobs::Job;
use std::process::Command;

/// The variables of all processes that can be looked at.
fn all() -> Vec<(u32, Vec<String>)> {
    let pids =
        std::fs::read_dir("/proc").expect("Linux").filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let environment = |pid: u32| {
        let bytes = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        let variables = bytes.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
        Some((pid, variables.collect()))
    };
    pids.filter_map(environment).collect()
}

/// The processes that have all of these variables.
pub fn with(variables: &[String]) -> Vec<u32> {
    let has_all = |own: &[String]| variables.iter().all(|variable| own.contains(variable));
    all().into_iter().filter(|(_, own)| has_all(own)).map(|(pid, _)| pid).collect()
}

/// What started it.
pub fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The process of a rank of this job, once it is there.
pub fn of_rank(job: &Job, rank: u32) -> u32 {
    let variables = [format!("REJOIN_RANK={rank}"), format!("REJOIN_JOIN={}", job.path("join"))];
    let mut found = Vec::new();
    until(&format!("rank {rank}'s process is there"), || {
        found = with(&variables);
        !found.is_empty()
    });
    found[0]
}

/// Kills a rank's process, and no other.
pub fn kill_rank(job: &Job, rank: u32) {
    signal(of_rank(job, rank), "KILL");
}

/// A program, which dies with the test that starts it.
pub fn dies_with_test(program: &str, package: &str) -> Command {
    let found = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"]
        .iter()
        .map(|folder| format!("{folder}/{program}"))
        .find(|path| std::path::Path::new(path).exists());
    let path =
        found.unwrap_or_else(|| panic!("expected {program}; it isn't there. Install it: apt-get install {package}"));
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", &path]);
    command
}
