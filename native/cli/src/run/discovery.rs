//! A program of the user's that lists the slots there are, asked again and again.

use super::child::{describe, dies_with_launcher};
use super::slots::Listing;
use super::LauncherEvent;
use crossbeam::channel::{bounded, Sender};
use rejoin_agent::protocol::error::{Code, Error};
use rustix::process::{kill_process_group, Pid, Signal};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// How often it is asked.
const EVERY: Duration = Duration::from_secs(1);
/// How long it may take.
const LIMIT: Duration = Duration::from_secs(10);
/// The only host that this launcher starts processes on.
const HERE: &str = "localhost";

/// Asks it from now on, until the launcher is over.
///
/// # Errors
/// `BadArgument` when there is no such program.
pub fn watch(script: &Path, tell: Sender<LauncherEvent>) -> Result<(), Error> {
    let path = std::fs::canonicalize(script).map_err(|cause| {
        let text = format!("--discovery {} can't be used: {cause}; name a program that can be run", script.display());
        Error::new(Code::BadArgument, text)
    })?;
    // A script dies with the thread that has started it, which lives as long as the launcher.
    std::thread::spawn(move || loop {
        if tell.send(LauncherEvent::Listed(ask(&path))).is_err() {
            return;
        }
        std::thread::sleep(EVERY);
    });
    Ok(())
}

/// What is said of a host that no process can be started on.
pub fn refusal(host: &str) -> String {
    format!(
        "--discovery names the host {host}, and `rejoin run` starts processes of an elastic job on this machine only; \
         print {HERE} or {HERE}:SLOTS"
    )
}

fn ask(path: &PathBuf) -> Result<Listing, String> {
    let output = output(path)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().lines().last().unwrap_or_default().to_string();
        return Err(format!("it ended with {} ({said})", describe(output.status)));
    }
    parse(&String::from_utf8_lossy(&output.stdout))
}

fn output(path: &PathBuf) -> Result<Output, String> {
    let mut command = Command::new(path);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    dies_with_launcher(&mut command);
    let child = command.spawn().map_err(|cause| format!("it can't be run: {cause}"))?;
    let pid = Pid::from_child(&child);
    let (done, ended) = bounded(1);
    std::thread::spawn(move || {
        // It is waited for no longer.
        let _ = done.send(child.wait_with_output());
    });
    let read = |result: io::Result<Output>| result.map_err(|cause| format!("it can't be read: {cause}"));
    match ended.recv_timeout(LIMIT) {
        Ok(result) => read(result),
        Err(_) => {
            // One that is gone needs no signal.
            let _ = kill_process_group(pid, Signal::KILL);
            Err(format!("it has not ended after {} s", LIMIT.as_secs()))
        }
    }
}

fn parse(text: &str) -> Result<Listing, String> {
    let mut listing = Listing { here: 0, elsewhere: Vec::new() };
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (host, slots) = match line.split_once(':') {
            Some((host, slots)) => (host, slots.parse().ok()),
            None => (line, Some(1)),
        };
        let is_name = !host.is_empty() && !host.contains(char::is_whitespace);
        let Some(slots) = slots.filter(|_| is_name) else {
            return Err(format!("it printed {line:?}; expected a host, or host:slots"));
        };
        match host {
            HERE => listing.here = listing.here.saturating_add(slots),
            other => listing.elsewhere.push(other.into()),
        }
    }
    if listing.here == 0 && listing.elsewhere.is_empty() {
        return Err(format!("it named no slot; expected {HERE} or {HERE}:SLOTS"));
    }
    Ok(listing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(text: &str) -> Result<u32, String> {
        parse(text).map(|listing| listing.here)
    }

    #[test]
    fn each_line_is_a_host_with_one_slot_or_with_so_many() {
        assert_eq!(here("localhost\n"), Ok(1));
        assert_eq!(here("localhost:3\n\n localhost:2 \n"), Ok(5));
        let listing = parse("localhost:2\nnode7:4\nnode8\n").unwrap();
        assert_eq!(listing, Listing { here: 2, elsewhere: vec!["node7".into(), "node8".into()] });
    }

    #[test]
    fn other_lines_and_an_empty_list_are_refused_with_what_is_expected() {
        for text in ["localhost:many", "a host", ":4", "localhost:-1", "", "\n", "localhost:0"] {
            let error = here(text).unwrap_err();
            assert!(error.contains("expected"), "{error}");
        }
    }

    #[test]
    fn a_program_that_fails_is_named_with_its_last_words() {
        assert!(ask(&PathBuf::from("/bin/false")).unwrap_err().contains("it ended with status 1"));
        assert!(ask(&PathBuf::from("/nowhere")).unwrap_err().contains("it can't be run"));
    }
}
