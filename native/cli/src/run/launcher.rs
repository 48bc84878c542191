//! The launcher's own thread: it starts processes, hears how they and the job end, and decides what comes next.

use super::child::{describe, sealed, Child, Template};
use super::durable::{made, unusable, Store};
use super::growth::{First, Growth};
use super::injections::InjectionReports;
use super::output::Sink;
use super::ready::{watch_signals, Ready};
use super::restarts::{Decision, Restarts};
use super::status::{Ending, OUTPUT_FAILED, RULE_NEVER_FIRED};
use super::tracker::{JobTracker, LEASE};
use super::{LauncherEvent, Options};
use crossbeam::channel::{unbounded, Receiver, RecvTimeoutError, Sender};
use rejoin_agent::event_log::{Fact, Recorder};
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::fault::text::Aftermath;
use rejoin_agent::protocol::host::OWN_COPIES;
use rejoin_agent::protocol::ids::Task;
use rejoin_agent::protocol::start::JobStart;
use rejoin_agent::protocol::tracker::TrackerInput;
use rejoin_agent::TrackerNotice;
use rejoin_communicator::launched;
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::ExitStatus;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Processes that don't end by themselves when the job is over get SIGTERM after this time.
const TERM_AFTER: Duration = Duration::from_secs(1);
/// A stopped process is looked for again after this time, until the kernel shows it as stopped.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Processes that left their group may hold an output open; they are waited for no longer than this.
const LAST_LINES: Duration = Duration::from_secs(2);

/// How often a process is tried again that can't be started for lack of descriptors.
const SPAWN_AGAIN: Duration = Duration::from_millis(50);
/// After this time without one start the run is given up.
const SPAWN_LIMIT: Duration = Duration::from_secs(10);

pub(super) enum State {
    Running(Child),
    /// Ended; a timer starts it again.
    Waiting,
    /// Ended, and is not started again.
    Done,
    /// Died, and is not started again: the others go on without it.
    GivenUp,
}

pub(super) enum Due {
    Restart {
        rank: u32,
        attempt: u32,
    },
    /// It was asked to end.
    Evict {
        rank: u32,
        attempt: u32,
    },
    Wake {
        rank: u32,
        attempt: u32,
    },
    TrackerBack,
    Terminate,
    Kill,
    TimedOut,
}

pub(super) struct Run<'a> {
    pub(super) options: &'a Options,
    pub(super) template: Template,
    pub(super) tracker: Box<dyn JobTracker>,
    store: Option<Store>,
    /// There is one if there are rules.
    injections: Option<InjectionReports>,
    sender: Sender<LauncherEvent>,
    recorder: Recorder,
    pub(super) restarts: Restarts,
    pub(super) growth: Growth,
    /// The attempt that each rank begins with here.
    pub(super) attempts: BTreeMap<u32, u32>,
    /// Those that are started here.
    pub(super) ranks: BTreeMap<u32, State>,
    readers: Vec<JoinHandle<()>>,
    pub(super) timers: Vec<(Instant, Due)>,
    fired: BTreeSet<u32>,
    /// Since when no process can be started for lack of descriptors.
    starved: Option<Instant>,
    /// A rank has joined: the program takes part in the job, and has to see it to its end.
    joined: bool,
    /// The end was reached by all.
    ended: bool,
    /// A rule has ended the tracker.
    tracker_died: bool,
    pub(super) ending: Option<Ending>,
}

/// Runs a program to its end and says the exit status.
///
/// # Errors
/// What kept it from being started at all; nothing is left behind.
pub fn run(options: &Options) -> Result<u8, Error> {
    let io = |what: &'static str| {
        move |cause: io::Error| Error::new(Code::Io, format!("the launcher can't {what}: {cause}"))
    };
    rejoin_agent::logging::level(&options.log)?;
    let (sender, receiver) = unbounded();
    watch_signals(sender.clone()).map_err(io("watch for signals"))?;
    let events = options.events.as_deref();
    let mut recorder = Recorder::new(events).map_err(unusable("--events", events))?;
    let durable = made("--durable", options.durable.as_deref())?;
    let spill = made("--spill", options.spill.as_deref())?;
    let has_rules = !options.rules.is_empty();
    let injections =
        has_rules.then(|| InjectionReports::open(sender.clone())).transpose().map_err(io("listen for fault rules"))?;
    let reported_where =
        injections.as_ref().map(InjectionReports::variable).transpose().map_err(io("listen for fault rules"))?;
    let sink = Sink::default();
    if let Some(script) = &options.discovery {
        super::discovery::watch(script, sender.clone())?;
    }
    let growth = match First::wait(options, &sink, &receiver)? {
        First::There(growth) => growth,
        First::Signalled(signal) => return Ok(Ending::Signalled(signal).status()),
    };
    let Ready { world, tracker, store, secret, attempts, place } = match &options.joining {
        Some(joining) => Ready::joined(options, joining, &sink, &sender)?,
        None => Ready::own(options, &sink, &sender)?,
    };
    let descriptor = sealed(&secret).map_err(io("hand on the job's secret"))?;
    let (copies, others) = (options.own_copies, world - 1);
    if copies > others && copies != OWN_COPIES {
        sink.say(&format!(
            "--own-copies {copies} is more than the {others} others that each rank has: each of them holds one"
        ));
    }
    let mut environment = place;
    environment.extend([
        (launched::ELASTIC, u8::from(options.min.is_some()).to_string()),
        (launched::DETAILS, u8::from(options.events.is_some()).to_string()),
        (launched::SHARED_MEMORY, u8::from(options.shares_memory).to_string()),
        (launched::DURABLE, durable),
        (launched::DURABLE_EVERY, options.durable_every.to_string()),
        (launched::DURABLE_IDENTITY, store.as_ref().map(|s| s.identity().to_string()).unwrap_or_default()),
        (launched::LOG_MEMORY, options.log_memory.to_string()),
        (launched::LOG_DISK, options.log_disk.to_string()),
        (launched::SPILL, spill),
        (launched::OWN_COPIES, options.own_copies.to_string()),
        (launched::CALLS, u8::from(options.calls).to_string()),
        (launched::LOG, options.log.clone()),
        (launched::INJECTED, reported_where.unwrap_or_default()),
    ]);
    let template = Template { command: options.command.clone(), world, environment, secret: descriptor, sink };
    recorder.fact(
        None,
        Fact::Began {
            world,
            command: options.command.iter().map(|part| part.to_string_lossy().into_owned()).collect(),
            rules: options.rules.iter().map(|rule| rule.text.clone()).collect(),
            unix_seconds: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        },
    );
    let run = Run {
        options,
        template,
        tracker,
        store,
        injections,
        sender,
        recorder,
        restarts: Restarts::new(options.restarts),
        growth,
        ranks: attempts.keys().map(|rank| (*rank, State::Waiting)).collect(),
        attempts,
        readers: Vec::new(),
        timers: Vec::new(),
        fired: BTreeSet::new(),
        starved: None,
        joined: false,
        ended: false,
        tracker_died: false,
        ending: None,
    };
    Ok(run.drive(&receiver))
}

/// Whether the process, or the machine, has no descriptors left.
fn has_run_out(cause: &io::Error) -> bool {
    let none_left = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(|code| code.raw_os_error());
    cause.raw_os_error().is_some_and(|code| none_left.contains(&code))
}

impl Run<'_> {
    fn drive(mut self, receiver: &Receiver<LauncherEvent>) -> u8 {
        if let Some(limit) = self.options.timeout {
            self.after(limit, Due::TimedOut);
        }
        for (rank, attempt) in self.attempts.clone() {
            if self.ending.is_none() {
                self.start(rank, attempt);
            }
        }
        while !self.is_over() {
            let next = self.timers.iter().map(|(at, _)| *at).min();
            let wait = next.map_or(Duration::from_secs(60), |at| at.saturating_duration_since(Instant::now()));
            match receiver.recv_timeout(wait) {
                Ok(launcher_event) => self.happen(launcher_event),
                // The run itself holds a sender, so the channel can't be disconnected.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            self.fire_timers();
        }
        self.tracker.close();
        if let Some(injections) = self.injections.take() {
            injections.close();
        }
        while let Ok(launcher_event) = receiver.try_recv() {
            if let LauncherEvent::Notice(TrackerNotice::Event(event)) = launcher_event {
                self.report(event);
            }
        }
        self.wait_for_last_lines();
        self.conclude()
    }

    fn is_over(&self) -> bool {
        let running = self.ranks.values().any(|state| matches!(state, State::Running(_)));
        let waiting = self.ranks.values().any(|state| matches!(state, State::Waiting));
        !running && (self.ending.is_some() || !waiting)
    }

    pub(super) fn after(&mut self, time: Duration, due: Due) {
        self.timers.push((Instant::now() + time, due));
    }

    pub(super) fn say(&self, text: &str) {
        self.template.sink.say(text);
    }

    pub(super) fn start(&mut self, rank: u32, attempt: u32) {
        match Child::start(&self.template, rank, attempt, &self.sender) {
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
                self.ranks.insert(rank, State::Done);
                let program = self.template.command[0].to_string_lossy().into_owned();
                let mut reason = format!("rank {rank}: {program} can't be run: {cause}");
                if has_run_out(&cause) {
                    let waited = SPAWN_LIMIT.as_secs();
                    reason += &format!(
                        ", for {waited} s; the launcher needs some for each rank: raise its limit (ulimit -n)"
                    );
                }
                self.end(Ending::NotRun { found: cause.kind() != io::ErrorKind::NotFound, reason });
            }
        }
    }

    /// Whether a process that lacked descriptors is tried again. Said once, until one could be started.
    fn may_start_later(&mut self, rank: u32, cause: &io::Error) -> bool {
        let since = *self.starved.get_or_insert_with(|| {
            self.template.sink.say(&format!("rank {rank} can't be started now: {cause}; it is tried again"));
            Instant::now()
        });
        since.elapsed() < SPAWN_LIMIT
    }

    fn happen(&mut self, launcher_event: LauncherEvent) {
        match launcher_event {
            LauncherEvent::Ended { rank, attempt } => self.reap(rank, attempt),
            LauncherEvent::Signal(signal) => self.signalled(signal),
            LauncherEvent::Listed(listing) => self.listed(listing),
            LauncherEvent::TrackerGone { reason } => {
                let limit = LEASE.as_secs();
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
                if let Some(child) = self.running(task.0).filter(|child| child.attempt == attempt.task) {
                    child.signal(Signal::KILL);
                    self.say(&format!("rank {task} is killed: {reason}"));
                }
            }
        }
    }

    /// Notes, says and records an event; the last ones come when all processes have ended.
    fn report(&mut self, event: Event) {
        self.take_note(&event);
        if let Event::RolledBack { version, reason, .. } = &event {
            self.say(&format!("all ranks go back to version {version}: {reason}"));
        }
        if let Event::Resized { ranks, world, reason } = &event {
            let how = if *world as usize > ranks.len() { "grows" } else { "shrinks" };
            self.say(&format!("the world {how}: {reason}"));
        }
        if let Event::DurableFailed { rank, version, reason, .. } = &event {
            self.say(&format!("rank {rank}: durable checkpoint {version} failed: {reason}"));
        }
        if let Event::Printed { rank, text, .. } = &event {
            self.say(&format!("rank {rank}: {text}"));
        }
        self.recorder.event(event);
    }

    pub(super) fn running(&self, rank: u32) -> Option<&Child> {
        match self.ranks.get(&rank) {
            Some(State::Running(child)) => Some(child),
            _ => None,
        }
    }

    /// What an event means for the launcher.
    fn take_note(&mut self, event: &Event) {
        match event {
            Event::RankJoined { .. } => self.joined = true,
            Event::JobEnded { .. } => self.ended = true,
            Event::FaultFired { id, rank, .. } => self.rule_fired(*id, rank.0),
            _ => {}
        }
    }

    fn rule_fired(&mut self, id: u32, rank: u32) {
        self.fired.insert(id);
        let Some(rule) = self.options.rules.get(id as usize) else { return };
        self.say(&format!("rule `{}` fired at rank {rank}", rule.text));
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

    fn reap(&mut self, rank: u32, attempt: u32) {
        let child = match self.ranks.insert(rank, State::Done) {
            Some(State::Running(child)) if child.attempt == attempt => child,
            Some(other) => return drop(self.ranks.insert(rank, other)),
            // No such rank was started here.
            None => return drop(self.ranks.remove(&rank)),
        };
        let lived = child.began.elapsed();
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
        let how = describe(status);
        self.recorder.fact(Some(rank), Fact::Ended { attempt, how: how.clone() });
        let has_left = self.growth.has_left(rank) && !self.is_ended();
        if has_left || !status.success() {
            // The tracker learns it here first: no rank waits for a time-out.
            let executor = launched::executor(rank, attempt);
            self.tracker.notify(TrackerInput::ExecutorGone { executor, reason: format!("its process ended ({how})") });
        } else {
            self.tracker.notify(TrackerInput::TaskEnded { task: Task(rank) });
        }
        if has_left {
            self.ranks.insert(rank, State::GivenUp);
            self.judge_left();
            // Its slot may have come back meanwhile.
            self.fill();
        } else if self.ending.is_none() {
            self.judge_end(rank, status, &how, lived);
        }
    }

    pub(super) fn is_ended(&self) -> bool {
        self.ended || matches!(self.tracker.outcome(), Some(Ok(())))
    }

    /// A process has ended while the run goes on.
    fn judge_end(&mut self, rank: u32, status: ExitStatus, how: &str, lived: Duration) {
        self.tracker.settle();
        if let Some(Err(error)) = self.tracker.outcome() {
            return self.end(Ending::JobFailed(error.to_string()));
        }
        if status.success() {
            return self.judge_early_ends();
        }
        let was_sent_back = self.tracker.was_sent_back(rank);
        let decision = match was_sent_back {
            true => self.restarts.sent_back(rank),
            false => self.restarts.died(rank, lived),
        };
        match decision {
            Decision::Again { attempt: restart, after } => {
                let attempt = self.attempts.get(&rank).map_or(restart, |first| first + restart);
                let after_millis = after.as_millis() as u64;
                let what = if was_sent_back { "was sent back and has ended" } else { "died" };
                self.say(&format!("rank {rank} {what} ({how}); attempt {attempt} starts after {after_millis} ms"));
                self.recorder.fact(Some(rank), Fact::Restarting { attempt, after_millis });
                self.ranks.insert(rank, State::Waiting);
                if after.is_zero() {
                    self.start(rank, attempt);
                } else {
                    self.after(after, Due::Restart { rank, attempt });
                }
            }
            Decision::GiveUp { reason } if self.options.min.is_some() => {
                self.say(&format!(
                    "the process that was started as rank {rank} failed ({how}), and {reason}; the others go on \
                     without it"
                ));
                self.ranks.insert(rank, State::GivenUp);
                self.growth.fail();
                self.judge_left();
            }
            Decision::GiveUp { reason } => {
                self.end(Ending::RankFailed(format!("rank {rank} failed ({how}), and {reason}")));
            }
        }
    }

    /// A rank that ends well before the job has left the others without it, and would do so again.
    /// After the death of a tracker none can say so: it may have sent the end to all, and was the
    /// only one that knew. If it had not, the next one names the ranks that are missing when its time is up.
    fn judge_early_ends(&mut self) {
        if !self.joined || self.is_ended() || self.tracker_died {
            return;
        }
        let left = self.ranks.iter().find(|(_, state)| matches!(state, State::Done)).map(|(rank, _)| *rank);
        if let Some(rank) = left {
            self.end(Ending::RankFailed(format!(
                "rank {rank} ended with status 0 before the job's end, which the other ranks wait for; every rank has \
                 to report its end (finish) before its process ends"
            )));
        }
    }

    fn signalled(&mut self, signal: i32) {
        let again = matches!(self.ending, Some(Ending::Signalled(_)));
        self.end(Ending::Signalled(signal));
        self.signal_all(if again { Signal::KILL } else { Signal::TERM });
    }

    fn signal_all(&self, signal: Signal) {
        for state in self.ranks.values() {
            if let State::Running(child) = state {
                child.signal(signal);
            }
        }
    }

    /// The run is over, and this is why; the first reason counts. Ranks that still run are notified, then
    /// asked, then made to end.
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
        self.ending = Some(ending);
        self.after(TERM_AFTER.min(self.options.grace), Due::Terminate);
        self.after(self.options.grace, Due::Kill);
    }

    fn fire_timers(&mut self) {
        let now = Instant::now();
        while let Some(index) = self.timers.iter().position(|(at, _)| *at <= now) {
            let (_, due) = self.timers.swap_remove(index);
            match due {
                Due::Restart { rank, attempt } if self.ending.is_none() => self.start(rank, attempt),
                Due::Restart { .. } => {}
                Due::Evict { rank, attempt } => {
                    if let Some(child) = self.running(rank).filter(|child| child.attempt == attempt) {
                        child.signal(Signal::KILL);
                    }
                }
                Due::Wake { rank, attempt } => self.wake(rank, attempt),
                Due::TrackerBack if self.ending.is_none() => self.revive_tracker(),
                Due::TrackerBack => {}
                Due::Terminate => {
                    // A stopped process takes its signal only when it goes on.
                    self.signal_all(Signal::TERM);
                    self.signal_all(Signal::CONT);
                }
                Due::Kill => self.signal_all(Signal::KILL),
                Due::TimedOut => {
                    let limit = self.options.timeout.unwrap_or_default().as_secs_f64();
                    let running: Vec<String> = self
                        .ranks
                        .iter()
                        .filter(|(_, state)| !matches!(state, State::Done | State::GivenUp))
                        .map(|(rank, _)| rank.to_string())
                        .collect();
                    let reason =
                        format!("the run took longer than --timeout {limit} s; not done: rank {}", running.join(", "));
                    self.end(Ending::TimedOut(reason));
                }
            }
        }
    }

    /// A tracker that comes back is given how far the job is by its durable checkpoints, should
    /// no rank be left; and which ranks have ended well: the life before it may have sent them the end, and
    /// they are not there any more to say so.
    fn revive_tracker(&mut self) {
        let start = self.store.as_ref().map_or(Ok(JobStart::Fresh), Store::start).unwrap_or_else(|error| {
            self.say(&format!("durable checkpoints: {error}"));
            JobStart::Fresh
        });
        if let Err(error) = self.tracker.revive(start) {
            return self.end(Ending::JobFailed(format!("the tracker can't come back: {error}")));
        }
        self.recorder.fact(None, Fact::TrackerBack);
        for (rank, _) in self.ranks.iter().filter(|(_, state)| matches!(state, State::Done)) {
            self.tracker.notify(TrackerInput::TaskEnded { task: Task(*rank) });
        }
    }

    fn wake(&mut self, rank: u32, attempt: u32) {
        let Some(child) = self.running(rank).filter(|child| child.attempt == attempt) else { return };
        if child.is_stopped() {
            child.signal(Signal::CONT);
            self.recorder.fact(Some(rank), Fact::Woken);
        } else {
            // It has reported the rule, and stops in a moment.
            self.after(LOOK_AGAIN, Due::Wake { rank, attempt });
        }
    }

    fn wait_for_last_lines(&mut self) {
        let until = Instant::now() + LAST_LINES;
        while self.readers.iter().any(|reader| !reader.is_finished()) {
            if Instant::now() > until {
                self.say(
                    "a process that a rank has left behind holds its output open; its last lines are not waited for",
                );
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn conclude(mut self) -> u8 {
        let ending = self.ending.take().unwrap_or(Ending::Well);
        let mut status = ending.status();
        if status != 0 {
            self.say(&ending.reason());
        }
        let mut reason = ending.reason();
        for rule in self.options.rules.iter().filter(|rule| !self.fired.contains(&rule.fault.id)) {
            reason = format!("rule `{}` never fired", rule.text);
            self.say(&reason);
            status = if status == 0 { RULE_NEVER_FIRED } else { status };
        }
        let well = self.ranks.values().filter(|state| !matches!(state, State::GivenUp)).count();
        if status == 0 && (self.restarts.count() > 0 || well < self.ranks.len()) {
            let which =
                if well < self.ranks.len() { format!("{well} of {}", self.ranks.len()) } else { format!("all {well}") };
            self.say(&format!("{which} ranks ended well after {} restarts", self.restarts.count()));
        }
        self.recorder.fact(None, Fact::Over { status, reason });
        if let Some(cause) = self.recorder.failure() {
            self.say(&format!("the event log could not be written to its end: {cause}"));
        }
        let is_lost = self.recorder.failure().is_some() || self.template.sink.has_lost_lines();
        match status {
            0 if is_lost => OUTPUT_FAILED,
            status => status,
        }
    }
}
