//! How the launcher starts processes, and what it does when one has ended.

use super::child::{describe, Child};
use super::ending::Ending;
use super::hosts::HERE;
use super::launcher::{Due, Run, State};
use super::restarts::Decision;
use super::say;
use super::ssh::NO_CONNECTION;
use rejoin_agent::event_log::Fact;
use rejoin_agent::protocol::ids::{Attempt, Task};
use rejoin_agent::protocol::tracker::TrackerInput;
use rejoin_communicator::{launched, Placement};
use std::io;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// How often a process is tried again that can't be started for lack of descriptors, processes or memory.
const SPAWN_AGAIN: Duration = Duration::from_millis(50);
/// After this time without one start the run is given up.
const SPAWN_LIMIT: Duration = Duration::from_secs(10);

/// With this status a launcher on another host has ended whose rank has failed after the job's end: that of
/// `JobFailed`.
const LATE_THERE: i32 = 4;

/// Whether this process, its container or the machine has no descriptors, processes or memory left:
/// for a moment, maybe, as those that a rank has left behind are still being taken down.
fn has_run_out(cause: &io::Error) -> bool {
    use rustix::io::Errno;
    let none_left = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM].map(Errno::raw_os_error);
    cause.raw_os_error().is_some_and(|code| none_left.contains(&code))
}

/// The end of a process that wasn't a good one.
pub(super) struct Death {
    pub(super) status: ExitStatus,
    /// In words.
    pub(super) how: String,
    /// The other host that it was on.
    pub(super) host: Option<String>,
    pub(super) lived: Duration,
}

impl Death {
    /// Whether it is the connection to another host that has ended, and nothing is known of the process.
    fn is_cut_off(&self) -> bool {
        self.host.is_some() && self.status.code().is_none_or(|code| code == NO_CONNECTION)
    }
}

/// How a process ended, in words; on another host it is `rejoin run` that has ended, or ssh.
fn described(status: ExitStatus, host: Option<&str>) -> String {
    match (host, status.code()) {
        (None, _) => describe(status),
        (Some(host), Some(NO_CONNECTION) | None) => format!("the connection to {host} ended, {}", describe(status)),
        (Some(host), Some(code)) => format!("on {host}, status {code}"),
    }
}

impl Run<'_> {
    pub(super) fn start(&mut self, rank: u32, attempt: u32) {
        let Some(host) = self.growth.hosts.place(rank).map(String::from) else {
            say(&format!("rank {rank} waits for a slot: no host has a free one"));
            self.ranks.insert(rank, State::WithoutSlot { attempt });
            self.growth.relist();
            return self.judge_left();
        };
        let placement = self.placement(rank);
        match Child::start(&self.template, &host, (rank, attempt), placement, &self.sender) {
            Ok(child) => {
                self.starved = None;
                self.recorder.fact(Some(rank), Fact::Started { attempt, pid: child.pid() });
                self.ranks.insert(rank, State::Running(child));
            }
            Err(cause) if has_run_out(&cause) && self.may_start_later(rank, &cause) => {
                self.ranks.insert(rank, State::Waiting);
                self.after(SPAWN_AGAIN, Due::Restart { rank, attempt });
            }
            Err(cause) => {
                self.ranks.insert(rank, State::Done { attempt });
                let program = match &self.template.ssh {
                    Some(ssh) if host != HERE => ssh.program().to_string(),
                    _ => self.template.command[0].to_string_lossy().into_owned(),
                };
                let mut reason = format!("rank {rank}: {program} can't be run: {cause}");
                if has_run_out(&cause) {
                    let waited = SPAWN_LIMIT.as_secs();
                    let needs = match cause.kind() {
                        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => {
                            "a process and three threads for each rank: raise its limits (ulimit -u, pids and memory \
                             of its container)"
                        }
                        _ => "some for each rank: raise its limit (ulimit -n)",
                    };
                    reason += &format!(", for {waited} s; the launcher needs {needs}");
                }
                self.end(Ending::NotRun { found: cause.kind() != io::ErrorKind::NotFound, reason });
            }
        }
    }

    /// Local rank and size, cross rank and size of a rank, where that is known: not where the job says which rank a
    /// process is, nor where other launchers start ranks, too.
    fn placement(&self, rank: u32) -> Option<[u32; 4]> {
        match (self.options.order(), &self.options.joining) {
            (Some(order), _) => order.placement,
            (None, Some(_)) => None,
            (None, None) if self.is_elastic => None,
            (None, None) => {
                let hosts = self.growth.hosts.of_all(self.options.world)?;
                let Placement { local_rank, local_size, cross_rank, cross_size } = Placement::of(rank as usize, &hosts);
                Some([local_rank, local_size, cross_rank, cross_size])
            }
        }
    }

    /// Whether a process that lacked descriptors is tried again. Said once, until one could be started.
    pub(super) fn may_start_later(&mut self, rank: u32, cause: &io::Error) -> bool {
        let since = *self.starved.get_or_insert_with(|| {
            say(&format!("rank {rank} can't be started now: {cause}; it is tried again"));
            Instant::now()
        });
        since.elapsed() < SPAWN_LIMIT
    }

    pub(super) fn running(&self, rank: u32) -> Option<&Child> {
        match self.ranks.get(&rank) {
            Some(State::Running(child)) => Some(child),
            _ => None,
        }
    }

    pub(super) fn reap(&mut self, rank: u32, attempt: u32) {
        let child = match self.ranks.insert(rank, State::Done { attempt }) {
            Some(State::Running(child)) if child.attempt == attempt => child,
            Some(other) => return drop(self.ranks.insert(rank, other)),
            // No such rank was started here.
            None => return drop(self.ranks.remove(&rank)),
        };
        let (lived, host) = (child.began.elapsed(), child.host.clone());
        let status = match child.reap() {
            Ok((status, readers)) => {
                self.readers.retain(|reader| !reader.is_finished());
                self.readers.extend(readers);
                status
            }
            Err(cause) => {
                let reason = format!("rank {rank}'s process can't be waited for: {cause}");
                return self.end(Ending::RankFailed(reason));
            }
        };
        let how = described(status, host.as_deref());
        self.recorder.fact(Some(rank), Fact::Ended { attempt, how: how.clone() });
        // One that was asked to end and reaches the job's end first has ended like the others.
        let has_left = self.growth.has_left(rank) && !(self.is_ended() && status.success());
        if has_left || !status.success() {
            // The tracker learns it here first: no rank waits for a time-out.
            let executor = launched::executor(rank, attempt);
            self.tracker.notify(TrackerInput::ExecutorGone { executor, reason: format!("its process ended ({how})") });
        } else {
            let attempt = Attempt { stage: 0, task: attempt };
            self.tracker.notify(TrackerInput::TaskEnded { task: Task(rank), attempt });
        }
        if has_left {
            self.ranks.insert(rank, State::GivenUp);
            self.growth.hosts.leave(rank);
            self.judge_left();
            // Its slot may have come back meanwhile.
            self.fill();
        } else if self.ending.is_none() {
            self.judge_end(rank, &Death { status, how, host, lived });
        }
    }

    /// A process has ended while the run goes on.
    pub(super) fn judge_end(&mut self, rank: u32, death: &Death) {
        let Death { status, how, host, lived } = death;
        self.tracker.settle();
        if let Some(Err(error)) = self.tracker.outcome() {
            return self.end(Ending::JobFailed(error.to_string()));
        }
        if status.success() {
            return self.judge_early_ends();
        }
        if self.is_late_failure(rank, death) {
            return self.fail_late(rank, how);
        }
        if let (Some(code @ (126 | 127)), Some(host)) = (status.code(), host) {
            let reason = format!(
                "rank {rank}: {how}: `rejoin` or the program can't be run there; both have to be at the same paths on \
                 all hosts, and what the host has said stands beside this line ({host})"
            );
            return self.end(Ending::NotRun { found: code == 126, reason });
        }
        let was_sent_back = self.tracker.was_sent_back(rank);
        let is_cut_off = death.is_cut_off();
        if is_cut_off {
            self.growth.hosts.connection_ended(rank);
        }
        if !was_sent_back {
            self.count_failure(rank);
        }
        let decision = match was_sent_back {
            true => self.restarts.sent_back(rank),
            false if is_cut_off => self.restarts.connection_ended(rank, *lived),
            false => self.restarts.died(rank, *lived),
        };
        match decision {
            Decision::Again { attempt: restart, after } => {
                let attempt = self.first_attempt(rank) + restart;
                let after_millis = after.as_millis() as u64;
                let what = match was_sent_back {
                    true => "was sent back and has ended",
                    false if is_cut_off => "is out of reach",
                    false => "died",
                };
                say(&format!("rank {rank} {what} ({how}); attempt {attempt} starts after {after_millis} ms"));
                self.recorder.fact(Some(rank), Fact::Restarting { attempt, after_millis });
                self.ranks.insert(rank, State::Waiting);
                if after.is_zero() {
                    self.start(rank, attempt);
                } else {
                    self.after(after, Due::Restart { rank, attempt });
                }
            }
            // Who has started this launcher decides.
            Decision::GiveUp { .. } if self.options.order().is_some() => {
                self.end(Ending::RankFailed(format!("rank {rank} ended ({how})")));
            }
            Decision::GiveUp { reason } if self.is_elastic => {
                say(&format!(
                    "the process that was started as rank {rank} failed ({how}), and {reason}; the others go on \
                     without it"
                ));
                self.ranks.insert(rank, State::GivenUp);
                self.growth.fail(rank);
                self.judge_left();
            }
            Decision::GiveUp { reason } => {
                self.end(Ending::RankFailed(format!("rank {rank} failed ({how}), and {reason}")));
            }
        }
    }

    /// Whether a process has failed, by itself, when the job was over: it would do the same if it were started again. A
    /// signal isn't the program's doing.
    fn is_late_failure(&self, rank: u32, death: &Death) -> bool {
        let has_failed = match (&death.host, death.status.code()) {
            (None, code) => code.is_some(),
            // The launcher there knows which of the two it was.
            (Some(_), code) => code == Some(LATE_THERE),
        };
        // One that comes to an elastic job that is over has had no part in it.
        let took_part = || {
            let attempt = self.first_attempt(rank) + self.restarts.of(rank);
            !self.is_elastic || self.members.contains(&launched::executor(rank, attempt))
        };
        has_failed && self.is_ended() && took_part()
    }

    /// The others may still save what the job has made: they are waited for.
    fn fail_late(&mut self, rank: u32, how: &str) {
        let reason = format!(
            "rank {rank} failed ({how}) after the job's end, and is not started again: there is nothing left to go on \
             from. What has to be done while a failure can be made good belongs before the end (finish)"
        );
        if self.options.order().is_some() {
            return self.end(Ending::JobFailed(reason));
        }
        say(&reason);
        self.failed_late.get_or_insert(reason);
    }

    /// A rank that ends well before the job has left the others without it, and would do so again.
    /// After the death of a tracker none can say so: it may have sent the end to all, and was the
    /// only one that knew. If it had not, the next one names the ranks that are missing when its time is up.
    pub(super) fn judge_early_ends(&mut self) {
        if self.joined.is_empty() || self.is_ended() || self.tracker_died {
            return;
        }
        let left = self.ranks.iter().find(|(_, state)| matches!(state, State::Done { .. })).map(|(rank, _)| *rank);
        if let Some(rank) = left {
            self.end(Ending::RankFailed(format!(
                "rank {rank} ended with status 0 before the job's end, which the other ranks wait for; every rank has \
                 to report its end (finish) before its process ends"
            )));
        }
    }
}
