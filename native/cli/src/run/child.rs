//! One process of one rank: started, watched, signalled, reaped.

use super::hosts::HERE;
use super::output::{prefix, pump, Stream};
use super::ssh::Ssh;
use super::LauncherEvent;
use crossbeam::channel::Sender;
use rejoin_agent::transport::Secret;
use rejoin_communicator::launched;
use rustix::process::{waitid, Pid, Signal, WaitId, WaitIdOptions};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child as Process, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// What every process of a run is given.
pub struct Template {
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// Number of ranks; the most that there may be, where that changes.
    pub world: u32,
    /// Variables that name the job.
    pub environment: Vec<(&'static str, String)>,
    /// The secret's anonymous file. Inherited, since it isn't closed on exec.
    pub secret: OwnedFd,
    /// The launcher that has started this one names the rank before each line.
    pub is_plain: bool,
    /// How processes are started on other hosts; `None` where there are none.
    pub ssh: Option<Ssh>,
}

impl Template {
    /// The command of a start of a rank on this machine.
    fn here(&self, rank: u32, attempt: u32, placement: Option<[u32; 4]>) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        command.envs(self.environment.iter().map(|(name, value)| (*name, value.as_str())));
        command.env(launched::RANK, rank.to_string());
        command.env(launched::WORLD, self.world.to_string());
        command.env(launched::ATTEMPT, attempt.to_string());
        command.env(launched::SECRET_DESCRIPTOR, self.secret.as_raw_fd().to_string());
        let names = [launched::LOCAL_RANK, launched::LOCAL_SIZE, launched::CROSS_RANK, launched::CROSS_SIZE];
        for (index, name) in names.into_iter().enumerate() {
            match placement {
                Some(numbers) => command.env(name, numbers[index].to_string()),
                // Not what the launcher was given itself.
                None => command.env_remove(name),
            };
        }
        command.stdin(Stdio::null());
        command
    }
}

/// The secret in an anonymous file that can't be changed any more.
///
/// # Errors
/// When it can't be made.
pub fn sealed(secret: &Secret) -> io::Result<OwnedFd> {
    use rustix::fs::{fcntl_add_seals, memfd_create, MemfdFlags, SealFlags};
    let mut file = File::from(memfd_create(launched::SECRET_NAME, MemfdFlags::ALLOW_SEALING)?);
    file.write_all(secret.expose())?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file.into())
}

/// A started process that was not reaped yet. Its id, and its group's, can't be another's before that.
pub struct Child {
    /// Which start of the rank.
    pub attempt: u32,
    /// When.
    pub began: Instant,
    /// Where; `None` is this machine.
    pub host: Option<String>,
    /// Open as long as the process on another host is wanted.
    _order: Option<ChildStdin>,
    pid: Pid,
    process: Process,
    readers: Vec<JoinHandle<()>>,
}

impl Child {
    /// Starts a process for a rank, in a process group of its own. It dies with the launcher. Call
    /// it on a thread that lives as long as the launcher: the kernel takes the end of that thread
    /// for the end of the parent.
    ///
    /// # Errors
    /// When the program can't be run.
    pub fn start(
        template: &Template,
        host: &str,
        (rank, attempt): (u32, u32),
        placement: Option<[u32; 4]>,
        tell: &Sender<LauncherEvent>,
    ) -> io::Result<Child> {
        let ssh = template.ssh.as_ref().filter(|_| host != HERE);
        let mut command = match ssh {
            Some(ssh) => ssh.command(host, rank),
            None => template.here(rank, attempt, placement),
        };
        if ssh.is_some() {
            command.stdin(Stdio::piped());
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        dies_with_launcher(&mut command);
        let mut process = command.spawn()?;
        let began = Instant::now();
        let pid = Pid::from_child(&process);
        let mut order = process.stdin.take();
        if let (Some(pipe), Some(ssh)) = (&mut order, ssh) {
            // It fits into the pipe. What has ended already takes nothing, and says so by its end.
            let _ = pipe.write_all(ssh.order(attempt, placement).as_bytes());
        }
        let prefix = if template.is_plain { String::new() } else { prefix(rank, attempt) };
        let (out, err, tell) = (process.stdout.take(), process.stderr.take(), tell.clone());
        let ended = LauncherEvent::Ended { rank, attempt };
        let watched = watch((out, err), prefix, pid, move || drop(tell.send(ended)));
        let readers = match watched {
            Ok(readers) => readers,
            Err(cause) => {
                // What it did nobody would hear of.
                let _ = rustix::process::kill_process_group(pid, Signal::KILL);
                process.wait()?;
                return Err(cause);
            }
        };
        let host = ssh.map(|_| host.to_string());
        Ok(Child { attempt, began, host, _order: order, pid, process, readers })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Where it is found: its number, or its host, where it has another one.
    pub fn place(&self) -> String {
        self.host.as_ref().map_or_else(|| self.pid().to_string(), |host| format!("on {host}"))
    }

    /// Sends a signal to the process and all that it has started in its group.
    pub fn signal(&self, signal: Signal) {
        // A group that is gone needs no signal.
        let _ = rustix::process::kill_process_group(self.pid, signal);
    }

    /// Whether the kernel shows the process as stopped.
    pub fn is_stopped(&self) -> bool {
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())) else { return false };
        // The state stands behind the name, which is in parentheses and may contain any character.
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
    }

    /// Reaps a process that has ended, and ends whatever it has left behind in its group.
    ///
    /// # Errors
    /// When it can't be waited for.
    pub fn reap(mut self) -> io::Result<(ExitStatus, Vec<JoinHandle<()>>)> {
        self.signal(Signal::KILL);
        let status = self.process.wait()?;
        Ok((status, self.readers))
    }
}

/// The threads that pass on what a process prints, and one that says when it has ended.
fn watch(
    (out, err): (Option<ChildStdout>, Option<ChildStderr>),
    prefix: String,
    pid: Pid,
    ended: impl FnOnce() + Send + 'static,
) -> io::Result<Vec<JoinHandle<()>>> {
    let mut readers = Vec::new();
    if let Some(out) = out {
        let prefix = prefix.clone();
        readers.push(thread::Builder::new().spawn(move || pump(out, &prefix, Stream::Out))?);
    }
    if let Some(err) = err {
        readers.push(thread::Builder::new().spawn(move || pump(err, &prefix, Stream::Err))?);
    }
    thread::Builder::new().spawn(move || {
        // Waits without reaping: the process id stays taken until the launcher's own thread reaps it.
        while let Err(cause) = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            if cause != rustix::io::Errno::INTR {
                break;
            }
        }
        // The launcher may be over.
        ended();
    })?;
    Ok(readers)
}

/// Has a process be killed when the thread that starts it ends.
pub fn dies_with_launcher(command: &mut Command) {
    let launcher = rustix::process::getpid();
    // SAFETY: what runs between fork and exec are two system calls, which take no lock and allocate nothing.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // The launcher may have died before that was set.
            if rustix::process::getppid() != Some(launcher) {
                return Err(io::Error::from_raw_os_error(rustix::io::Errno::CHILD.raw_os_error()));
            }
            Ok(())
        });
    }
}

/// How a process ended, in words.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, Some(signal)) => signal_name(signal),
        (None, None) => format!("{status}"),
    }
}

/// Name of a signal, as `SIGKILL`.
pub fn signal_name(signal: i32) -> String {
    match signal_hook::low_level::signal_name(signal) {
        Some(name) => name.to_string(),
        None => format!("signal {signal}"),
    }
}
