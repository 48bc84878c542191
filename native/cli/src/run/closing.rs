//! How a run ends: why, who is made to end, and with which status.

use super::ending::{Ending, OUTPUT_FAILED, RULE_NEVER_FIRED};
use super::hearing::LATE_GRACES;
use super::launcher::{Due, Run, State};
use super::output::{self, LAST_LINES};
use super::{say, LauncherEvent};
use crossbeam::channel::Receiver;
use rejoin_agent::event_log::Fact;
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::tracker::TrackerInput;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// Processes that don't end by themselves when the job is over get SIGTERM after this time.
const TERM_AFTER: Duration = Duration::from_secs(1);
/// A process that is there so long after SIGKILL isn't waited for any more: it may wait for a disk for ever.
const FORSAKE_AFTER: Duration = Duration::from_secs(5);

impl Run<'_> {
    pub(super) fn is_over(&self) -> bool {
        let running = self.ranks.values().any(|state| matches!(state, State::Running(_)));
        let waits = |state: &State| matches!(state, State::Waiting | State::WithoutSlot { .. });
        let waiting = self.ranks.values().any(waits) || self.unnumbered() > 0 && !self.is_ended();
        !running && (self.ending.is_some() || !waiting)
    }

    pub(super) fn is_ended(&self) -> bool {
        self.ended || matches!(self.tracker.outcome(), Some(Ok(())))
    }

    pub(super) fn signalled(&mut self, signal: i32) {
        let again = self.signals.count() > 1;
        if self.ending.is_none() && !again && self.options.joining.as_ref().is_some_and(|joining| joining.slots > 0) {
            return self.give_up_slots(signal);
        }
        self.end(Ending::Signalled(signal));
        // Whatever the run ends for: who asks a second time doesn't want to wait.
        match again {
            true => self.kill_all(),
            false => self.signal_all(Signal::TERM),
        }
    }

    pub(super) fn kill_all(&mut self) {
        self.signal_all(Signal::KILL);
        self.after(FORSAKE_AFTER, Due::Forsake);
    }

    /// Waits no more for what doesn't end after SIGKILL.
    pub(super) fn forsake(&mut self) {
        for (rank, state) in &mut self.ranks {
            if let State::Running(child) = state {
                say(&format!(
                    "rank {rank}'s process ({}) doesn't end, {} s after SIGKILL, and is not waited for: see what it \
                     waits for (a disk, a debugger)",
                    child.place(),
                    FORSAKE_AFTER.as_secs()
                ));
                *state = State::Done { attempt: child.attempt };
            }
        }
    }

    /// Says which processes go on though the job has ended.
    pub(super) fn name_late(&mut self) {
        let late: Vec<String> = self
            .ranks
            .iter()
            .filter_map(|(rank, state)| match state {
                State::Running(child) => Some(format!("rank {rank}'s process ({})", child.place())),
                _ => None,
            })
            .collect();
        if self.ending.is_none() && !late.is_empty() {
            say(&format!(
                "the job has ended, and {} goes on since {} s: it is waited for. If it hangs, end it, or begin with \
                 --timeout",
                late.join(", "),
                (LATE_GRACES * self.options.limits.grace).as_secs_f64()
            ));
        }
    }

    /// After the job's end nobody misses the tracker; but who is to hear how this one ends is gone, and nobody else
    /// would end a rank that hangs.
    pub(super) fn judge_orphan(&mut self) {
        if self.is_orphaned && self.is_ended() {
            self.end(Ending::JobFailed(
                "the job has ended, and the connection to the launcher that has started this one is gone; the ranks \
                 here end"
                    .into(),
            ));
        }
    }

    pub(super) fn signal_all(&self, signal: Signal) {
        for state in self.ranks.values() {
            if let State::Running(child) = state {
                child.signal(signal);
            }
        }
    }

    /// The run is over, and this is why, which is said; the first reason counts. Ranks that still run are notified,
    /// then asked, then made to end.
    pub(super) fn end(&mut self, ending: Ending) {
        if self.ending.is_some() {
            return;
        }
        let code = match ending {
            Ending::Signalled(_) | Ending::TimedOut(_) | Ending::TakenOver(_) => Code::Cancelled,
            _ => Code::Unrecoverable,
        };
        if !matches!(ending, Ending::JobFailed(_)) {
            self.tracker.notify(TrackerInput::Cancel { error: Error::new(code, ending.reason()) });
        }
        if ending.status() != 0 {
            say(&ending.reason());
        }
        self.ending = Some(ending);
        self.after(TERM_AFTER.min(self.options.limits.grace), Due::Terminate);
        self.after(self.options.limits.grace, Due::Kill);
    }

    /// All that the ranks have printed is passed on, as slowly as it is read, unless the run ends for another reason
    /// than that all is done.
    pub(super) fn wait_for_last_lines(&mut self, receiver: &Receiver<LauncherEvent>) {
        // Time in which something waits for its reader doesn't count: what is printed by processes that a rank has
        // left behind, which may hold its output open for ever, mostly doesn't wait.
        let (mut waited, mut looked) = (Duration::ZERO, Instant::now());
        while self.readers.iter().any(|reader| !reader.is_finished()) {
            let (is_read, is_done) = (!output::is_writing(), self.ending.is_none() && self.parting.is_none());
            let since = looked.elapsed();
            looked += since;
            if is_read || !is_done {
                waited += since;
            }
            if waited > LAST_LINES {
                let why = match is_read {
                    true => "a process that a rank has left behind holds its output open",
                    false => "nobody reads what the ranks have printed",
                };
                return say(&format!("{why}; its last lines are not waited for"));
            }
            if let Ok(LauncherEvent::Signal(signal)) = receiver.try_recv() {
                self.signalled(signal);
            }
            self.fire_timers();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(super) fn conclude(mut self) -> u8 {
        // That of any other ending is said where it begins.
        let parting = self.parting.map(Ending::Signalled);
        let parting = || parting.inspect(|parting| say(&parting.reason()));
        let late = self.failed_late.take().map(Ending::RankFailed);
        let ending = self.ending.take().or(late).or_else(parting).unwrap_or(Ending::Well);
        let mut status = ending.status();
        let mut reason = ending.reason();
        for rule in self.options.rules.iter().filter(|rule| !self.fired.contains(&rule.fault.id)) {
            reason = format!("rule `{}` never fired", rule.text);
            say(&reason);
            status = if status == 0 { RULE_NEVER_FIRED } else { status };
        }
        let well = self.ranks.values().filter(|state| !matches!(state, State::GivenUp)).count();
        if ending == Ending::Well && (self.restarts.count() > 0 || well < self.ranks.len()) {
            let which =
                if well < self.ranks.len() { format!("{well} of {}", self.ranks.len()) } else { format!("all {well}") };
            say(&format!("{which} ranks ended well after {} restarts", self.restarts.count()));
        }
        self.recorder.fact(None, Fact::Over { status, reason });
        if let Some(cause) = self.recorder.failure() {
            say(&format!("the event log could not be written to its end: {cause}"));
        }
        output::drain();
        let is_lost = self.recorder.failure().is_some() || output::has_lost_lines();
        match status {
            0 if is_lost => OUTPUT_FAILED,
            status => status,
        }
    }
}
