//! What the launcher hears, and what that means for it.

use super::ending::Ending;
use super::launcher::{Due, Run, State};
use super::{say, LauncherEvent};
use rejoin_agent::event_log::Fact;
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::fault::text::Aftermath;
use rejoin_agent::protocol::ids::{Attempt, Task};
use rejoin_agent::protocol::start::JobStart;
use rejoin_agent::protocol::tracker::TrackerInput;
use rejoin_agent::TrackerNotice;
use rustix::process::Signal;
use std::cmp::Ordering;
use std::time::Duration;

/// Processes that go on when the job has ended are named after so many times the grace.
pub(super) const LATE_GRACES: u32 = 6;

impl Run<'_> {
    pub(super) fn happen(&mut self, launcher_event: LauncherEvent) {
        match launcher_event {
            LauncherEvent::Ended { rank, attempt } => self.reap(rank, attempt),
            LauncherEvent::Signal(signal) => self.signalled(signal),
            LauncherEvent::Listed(listing) => self.listed(listing),
            LauncherEvent::Numbered(numbers) => self.numbered(numbers),
            LauncherEvent::StarterGone => {
                let millis = self.options.order().map_or(0, |order| order.lost_after_millis);
                self.after(Duration::from_millis(millis), Due::Orphaned);
            }
            LauncherEvent::TrackerGone { limit, reason } => {
                let limit = limit.as_secs_f64();
                self.end(Ending::JobFailed(format!("the tracker has been out of reach for {limit} s: {reason}")));
            }
            LauncherEvent::TakenOver { host, ranks } => {
                let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
                self.end(Ending::TakenOver(format!(
                    "a launcher on {host} that came later starts rank {} now; the ranks here end",
                    ranks.join(", ")
                )));
            }
            LauncherEvent::Notice(TrackerNotice::Event(event)) => {
                let failed = match &event {
                    Event::JobFailed { error } => Some(error.clone()),
                    _ => None,
                };
                self.report(event);
                match failed {
                    Some(error) => self.end(Ending::JobFailed(error.to_string())),
                    // A rank may have ended before the first rank joined.
                    None if self.ending.is_none() => self.judge_early_ends(),
                    None => {}
                }
            }
            LauncherEvent::Notice(TrackerNotice::Kill { task, attempt, reason, .. }) => {
                let (rank, attempt) = (task.0, attempt.task);
                if let Some(child) = self.running(rank).filter(|child| child.attempt == attempt) {
                    match child.host {
                        None => child.signal(Signal::KILL),
                        // The launcher there was told, too, and says how the rank ends, which counts as a death. Only
                        // if it doesn't the connection is ended, of whose end nothing follows for the rank.
                        Some(_) => self.after(self.options.limits.lost_after, Due::Evict { rank, attempt }),
                    }
                    say(&format!("rank {task} is killed: {reason}"));
                }
            }
        }
    }

    /// Notes, says and records an event; the last ones come when all processes have ended.
    pub(super) fn report(&mut self, event: Event) {
        self.take_note(&event);
        if let Event::RolledBack { version, reason, .. } = &event {
            say(&format!("all ranks go back to version {version}: {reason}"));
        }
        if let Event::Resized { ranks, world, reason } = &event {
            let how = match (*world as usize).cmp(&ranks.len()) {
                Ordering::Greater => "grows",
                Ordering::Less => "shrinks",
                Ordering::Equal => "changes",
            };
            say(&format!("the world {how}: {reason}"));
        }
        if let Event::DurableFailed { rank, version, reason, .. } = &event {
            say(&format!("rank {rank}: durable checkpoint {version} failed: {reason}"));
        }
        if let Event::Printed { rank, text, .. } = &event {
            say(&format!("rank {rank}: {text}"));
        }
        self.recorder.event(event);
    }

    /// What an event means for the launcher.
    pub(super) fn take_note(&mut self, event: &Event) {
        match event {
            Event::RankJoined { rank, executor, .. } => {
                self.joined.insert(*rank);
                self.members.insert(executor.clone());
                // The world begins with those that it was started with; there may be slots for more.
                if self.joined.len() == self.options.world as usize {
                    self.fill();
                }
            }
            Event::JobEnded { .. } => {
                // Who has started this launcher says it.
                if !self.ended && self.options.order().is_none() {
                    self.after(LATE_GRACES * self.options.limits.grace, Due::NameLate);
                }
                self.ended = true;
            }
            Event::TaskReleased { index, attempt, .. } => self.released(index.0, attempt.task),
            Event::FaultFired { id, rank, .. } => self.rule_fired(*id, rank.0),
            Event::DurableWritten { version, .. } if Some(*version) == self.options.until => {
                self.end(Ending::Reached);
                // Nobody is to see what this world would make of the next version.
                self.kill_all();
            }
            _ => {}
        }
    }

    pub(super) fn rule_fired(&mut self, id: u32, rank: u32) {
        self.fired.insert(id);
        let Some(rule) = self.options.rules.get(id as usize) else { return };
        say(&format!("rule `{}` fired at rank {rank}", rule.text));
        match rule.aftermath {
            Aftermath::Nothing => {}
            Aftermath::Wake(time) => {
                if let Some(attempt) = self.running(rank).map(|child| child.attempt) {
                    self.after(time, Due::Wake { rank, attempt });
                }
            }
            Aftermath::Tracker(time) if self.ending.is_none() => {
                self.tracker.kill();
                self.tracker_died = true;
                self.recorder.fact(None, Fact::TrackerKilled);
                self.after(time, Due::TrackerBack);
            }
            Aftermath::Tracker(_) => {}
        }
    }

    /// A tracker that comes back is given how far the job is by its durable checkpoints, should
    /// no rank be left; and which ranks have ended well: the life before it may have sent them the end, and
    /// they are not there any more to say so.
    pub(super) fn revive_tracker(&mut self) {
        let start = self.store.as_mut().map_or(JobStart::Fresh, |store| store.start_again(say));
        if let Err(error) = self.tracker.revive(start) {
            return self.end(Ending::JobFailed(format!("the tracker can't come back: {error}")));
        }
        self.recorder.fact(None, Fact::TrackerBack);
        for (rank, state) in &self.ranks {
            if let State::Done { attempt } = state {
                let attempt = Attempt { stage: 0, task: *attempt };
                self.tracker.notify(TrackerInput::TaskEnded { task: Task(*rank), attempt });
            }
        }
    }
}
