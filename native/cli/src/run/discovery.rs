//! Who lists the slots there are: a program of the user's that is asked again and again, or whoever writes to the
//! launcher's standard input.

use super::child::{describe, dies_with_launcher};
use super::hosts::HERE;
use super::slots::{Discovery, Listing};
use super::LauncherEvent;
use crate::hosts::named;
use crossbeam::channel::Sender;
use rejoin_agent::protocol::error::{Code, Error};
use rustix::fs::{memfd_create, MemfdFlags};
use rustix::process::{kill_process_group, waitid, Pid, Signal, WaitId, WaitIdOptions};
use std::fs::File;
use std::io::{BufRead, Read, Seek};
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

/// Tells of each listing from now on, until the launcher is over.
///
/// # Errors
/// `BadArgument` when there is no such program.
pub fn watch(discovery: &Discovery, slots_per_host: u32, tell: Sender<LauncherEvent>) -> Result<(), Error> {
    match discovery {
        Discovery::Program(script) => watch_program(script, slots_per_host, tell),
        Discovery::StandardInput => {
            let tell = move |listing| tell.send(LauncherEvent::Listed(listing)).is_ok();
            std::thread::spawn(move || read(std::io::stdin().lock(), slots_per_host, tell));
            Ok(())
        }
    }
}

fn watch_program(script: &Path, slots_per_host: u32, tell: Sender<LauncherEvent>) -> Result<(), Error> {
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

/// Tells of the listings in a text, as they come, while that is asked for; and of the text's end.
fn read(mut text: impl BufRead, slots_per_host: u32, tell: impl Fn(Result<Listing, String>) -> bool) {
    let (mut listing, mut is_too_long, mut begins_line) = (Vec::new(), false, true);
    let end = loop {
        let begin = listing.len();
        match text.by_ref().take(MOST_BYTES - begin as u64).read_until(b'\n', &mut listing) {
            Err(cause) => break format!("its standard input can't be read: {cause}"),
            Ok(0) => break "its standard input has ended".into(),
            Ok(_) => {}
        }
        let is_over = begins_line && listing[begin..].trim_ascii().is_empty();
        begins_line = listing.ends_with(b"\n");
        let goes_on = match (is_over, is_too_long) {
            (true, true) => true,
            (true, false) => tell(parse(&String::from_utf8_lossy(&listing), slots_per_host)),
            (false, false) if listing.len() as u64 == MOST_BYTES => {
                tell(Err(format!("a listing has {MOST_BYTES} bytes or more")))
            }
            (false, _) => true,
        };
        if !goes_on {
            return;
        }
        if is_over || listing.len() as u64 == MOST_BYTES {
            is_too_long = !is_over;
            listing.clear();
        }
    };
    tell(Err(end));
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
        if let Some(why) = line.strip_prefix('!') {
            return Err(why.trim().into());
        }
        let host = named(line, slots_per_host);
        listing.push(host.ok_or_else(|| format!("it printed {line:?}; expected a host, or host:slots"))?);
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
    fn a_line_that_begins_with_an_exclamation_mark_says_why_there_is_no_listing() {
        assert_eq!(listed("! no scheduler\nlocalhost"), Err("no scheduler".to_string()));
    }

    /// What is told of this text.
    fn read_from(text: impl BufRead) -> Vec<Result<Listing, String>> {
        let told = parking_lot::Mutex::new(Vec::new());
        read(text, 1, |listing| {
            told.lock().push(listing);
            true
        });
        told.into_inner()
    }

    #[test]
    fn an_empty_line_ends_a_listing_and_the_end_of_the_text_is_told() {
        let hosts = |slots| Ok(vec![("localhost".to_string(), slots)]);
        let end = Err("its standard input has ended".to_string());
        assert_eq!(read_from(&b"localhost:2\n\nlocalhost:3\n \n"[..]), [hosts(2), hosts(3), end.clone()]);
        assert_eq!(read_from(&b"localhost:2\n\nlocalhost:4"[..]), [hosts(2), end.clone()], "it may go on");
        let told = read_from(&b"\nlocalhost\n\n"[..]);
        assert!(told[0].as_ref().is_err_and(|text| text.contains("it named no slot")), "{told:?}");
        assert_eq!(told[1..], [hosts(1), end]);
    }

    #[test]
    fn a_listing_that_is_too_long_is_refused_once_and_the_next_one_is_read() {
        let end = Err("its standard input has ended".to_string());
        for length in [64 << 10, (64 << 10) - 1, 200_000] {
            // Also where the line is cut just before its end.
            let told = read_from(format!("{}\nlocalhost\n\nlocalhost:2\n\n", "a".repeat(length)).as_bytes());
            assert_eq!(told.len(), 3, "{told:?}");
            assert!(told[0].as_ref().is_err_and(|text| text.contains("65536 bytes or more")), "{told:?}");
            assert_eq!(told[1..], [Ok(vec![("localhost".to_string(), 2)]), end.clone()]);
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
