//! What the launcher does at a time that it has set itself.

use super::ending::Ending;
use super::launcher::{Due, Run, State};
use rejoin_agent::event_log::Fact;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// A stopped process is looked for again after this time, until the kernel shows it as stopped.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

impl Run<'_> {
    pub(super) fn after(&mut self, time: Duration, due: Due) {
        self.timers.push((Instant::now() + time, due));
    }

    pub(super) fn fire_timers(&mut self) {
        let now = Instant::now();
        while let Some(index) = self.timers.iter().position(|(at, _)| *at <= now) {
            let (_, due) = self.timers.swap_remove(index);
            match due {
                Due::Restart { rank, attempt } if self.ending.is_none() => self.start(rank, attempt),
                Due::Restart { .. } => {}
                Due::Dismiss { rank, attempt } => self.dismiss(rank, attempt),
                Due::Evict { rank, attempt } => {
                    if let Some(child) = self.running(rank).filter(|child| child.attempt == attempt) {
                        child.signal(Signal::KILL);
                    }
                }
                Due::Wake { rank, attempt } => self.wake(rank, attempt),
                Due::Readmit => self.readmit(),
                Due::AskForNumbers => self.ask_for_numbers(),
                Due::TrackerBack if self.ending.is_none() => self.revive_tracker(),
                Due::TrackerBack => {}
                Due::Terminate => {
                    // A stopped process takes its signal only when it goes on.
                    self.signal_all(Signal::TERM);
                    self.signal_all(Signal::CONT);
                }
                Due::Kill => self.kill_all(),
                Due::Forsake => self.forsake(),
                Due::NameLate => self.name_late(),
                Due::Orphaned => self.is_orphaned = true,
                Due::TimedOut => {
                    let limit = self.options.limits.timeout.unwrap_or_default().as_secs_f64();
                    let running: Vec<String> = self
                        .ranks
                        .iter()
                        .filter(|(_, state)| !matches!(state, State::Done { .. } | State::GivenUp))
                        .map(|(rank, _)| rank.to_string())
                        .collect();
                    let reason =
                        format!("the run took longer than --timeout {limit} s; not done: rank {}", running.join(", "));
                    self.end(Ending::TimedOut(reason));
                }
            }
        }
    }

    pub(super) fn wake(&mut self, rank: u32, attempt: u32) {
        let Some(child) = self.running(rank).filter(|child| child.attempt == attempt) else { return };
        if child.is_stopped() {
            child.signal(Signal::CONT);
            self.recorder.fact(Some(rank), Fact::Woken);
        } else {
            // It has reported the rule, and stops in a moment.
            self.after(LOOK_AGAIN, Due::Wake { rank, attempt });
        }
    }
}
