//! A program of the user's that lists the slots there are, asked again and again.

use super::child::{describe, dies_with_launcher};
use super::hosts::HERE;
use super::slots::Listing;
use super::LauncherEvent;
use crate::hosts::is_host;
use crossbeam::channel::Sender;
use rejoin_agent::protocol::error::{Code, Error};
use rustix::fs::{memfd_create, MemfdFlags};
use rustix::process::{kill_process_group, waitid, Pid, Signal, WaitId, WaitIdOptions};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often it is asked.
const EVERY: Duration = Duration::from_secs(1);
/// How long it may take.
const LIMIT: Duration = Duration::from_secs(10);
/// How often it is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(5);
/// How much it may print.
const MOST_BYTES: u64 = 64 << 10;

/// Asks it from now on, until the launcher is over.
///
/// # Errors
/// `BadArgument` when there is no such program.
pub fn watch(script: &Path, slots_per_host: u32, tell: Sender<LauncherEvent>) -> Result<(), Error> {
    let path = std::fs::canonicalize(script).map_err(|cause| {
        let text = format!("--discovery {} can't be used: {cause}; name a program that can be run", script.display());
        Error::new(Code::BadArgument, text)
    })?;
    // A script dies with the thread that has started it, which lives as long as the launcher.
    std::thread::spawn(move || loop {
        if tell.send(LauncherEvent::Listed(ask(&path, slots_per_host))).is_err() {
            return;
        }
        std::thread::sleep(EVERY);
    });
    Ok(())
}

/// What is said of a host that no process can be started on.
pub fn refusal(host: &str) -> String {
    format!(
        "--discovery names the host {host}, which doesn't reach the tracker: it named none but {HERE} at first, so the \
         tracker listens for this machine only; begin with --listen ADDRESS, which other hosts reach"
    )
}

fn ask(path: &PathBuf, slots_per_host: u32) -> Result<Listing, String> {
    let (status, [out, err]) = output(path)?;
    if !status.success() {
        let said = err.trim().lines().last().unwrap_or_default();
        return Err(format!("it ended with {} ({said})", describe(status)));
    }
    parse(&out, slots_per_host)
}

/// What it prints goes into memory and not through pipes, which something that it has left running could hold open.
fn output(path: &PathBuf) -> Result<(ExitStatus, [String; 2]), String> {
    let file = |name| memfd_create(name, MemfdFlags::CLOEXEC).map(File::from).map_err(|cause| cause.to_string());
    let files = [file("rejoin-discovery-out")?, file("rejoin-discovery-err")?];
    let copy = |file: &File| file.try_clone().map(Stdio::from).map_err(|cause| cause.to_string());
    let mut command = Command::new(path);
    command.stdin(Stdio::null()).stdout(copy(&files[0])?).stderr(copy(&files[1])?).process_group(0);
    dies_with_launcher(&mut command);
    let mut child = command.spawn().map_err(|cause| format!("it can't be run: {cause}"))?;
    let pid = Pid::from_child(&child);
    let began = Instant::now();
    let has_ended = || waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG);
    let is_flood = || files.iter().any(|file| file.metadata().is_ok_and(|about| about.len() > MOST_BYTES));
    let failure = loop {
        match has_ended() {
            Ok(Some(_)) => break None,
            _ if is_flood() => break Some(format!("it printed more than {MOST_BYTES} bytes")),
            _ if began.elapsed() > LIMIT => break Some(format!("it has not ended after {} s", LIMIT.as_secs())),
            _ => std::thread::sleep(LOOK),
        }
    };
    // With what it has left behind in its group, whose number can't be another's before it is reaped.
    let _ = kill_process_group(pid, Signal::KILL);
    let status = child.wait().map_err(|cause| format!("it can't be waited for: {cause}"))?;
    let texts = files.map(|mut file| {
        let mut bytes = Vec::new();
        let read = file.rewind().and_then(|()| file.take(MOST_BYTES).read_to_end(&mut bytes));
        read.map(|_| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    });
    failure.map_or(Ok((status, texts)), Err)
}

fn parse(text: &str, slots_per_host: u32) -> Result<Listing, String> {
    let mut listing = Listing::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (host, slots) = match line.rsplit_once(':') {
            Some((host, slots)) => (host, slots.parse().ok()),
            None => (line, Some(slots_per_host)),
        };
        let Some(slots) = slots.filter(|_| is_host(host)) else {
            return Err(format!("it printed {line:?}; expected a host, or host:slots"));
        };
        listing.push((host.into(), slots));
    }
    if listing.iter().all(|(_, slots)| *slots == 0) {
        return Err(format!("it named no slot; expected hosts, as {HERE} or {HERE}:SLOTS"));
    }
    Ok(listing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> Result<Vec<(String, u32)>, String> {
        parse(text, 1)
    }

    #[test]
    fn each_line_is_a_host_with_one_slot_or_with_so_many() {
        let hosts = |named: &[(&str, u32)]| Ok(named.iter().map(|(name, slots)| (name.to_string(), *slots)).collect());
        assert_eq!(listed("localhost\n"), hosts(&[("localhost", 1)]));
        assert_eq!(listed("localhost:3\n\n node7:2 \nnode8"), hosts(&[("localhost", 3), ("node7", 2), ("node8", 1)]));
        assert_eq!(parse("node7\nnode8:1", 4), hosts(&[("node7", 4), ("node8", 1)]), "--slots-per-host 4");
    }

    #[test]
    fn other_lines_and_an_empty_list_are_refused_with_what_is_expected() {
        for text in ["localhost:many", "a host", ":4", "localhost:-1", "-oProxyCommand=x:2", "", "\n", "localhost:0"] {
            let error = listed(text).unwrap_err();
            assert!(error.contains("expected"), "{error}");
        }
    }

    #[test]
    fn a_program_that_fails_is_named_with_its_last_words() {
        assert!(ask(&PathBuf::from("/bin/false"), 1).unwrap_err().contains("it ended with status 1"));
        assert!(ask(&PathBuf::from("/nowhere"), 1).unwrap_err().contains("it can't be run"));
    }

    #[test]
    fn a_program_that_prints_without_end_is_ended_and_says_so() {
        assert!(ask(&PathBuf::from("/usr/bin/yes"), 1).unwrap_err().contains("it printed more than"));
    }
}
