//! The launcher's own thread: what a run has, how it begins, and its loop.

use super::child::{sealed, Child, Template};
use super::durable::{made, unusable, Store};
use super::ending::{Ending, NotBegun};
use super::growth::Growth;
use super::injections::InjectionReports;
use super::ready::Ready;
use super::restarts::Restarts;
use super::signals::{self, Caught};
use super::tracker::JobTracker;
use super::wait::Wait;
use super::{say, LauncherEvent, Options};
use crossbeam::channel::{unbounded, Receiver, RecvTimeoutError, Sender};
use rejoin_agent::event_log::Recorder;
use rejoin_agent::join_file::DurablePlace;
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::host::OWN_COPIES;
use rejoin_agent::protocol::ids::Rank;
use rejoin_agent::TrackerNotice;
use rejoin_communicator::launched;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(super) enum State {
    Running(Child),
    /// Ended; a timer starts it again.
    Waiting,
    /// Ended, and started again as soon as there is a slot for it.
    WithoutSlot {
        attempt: u32,
    },
    /// Ended, and is not started again.
    Done {
        attempt: u32,
    },
    /// Died, and is not started again: the others go on without it.
    GivenUp,
}

pub(super) enum Due {
    Restart {
        rank: u32,
        attempt: u32,
    },
    /// It was not released.
    Dismiss {
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
    AskForNumbers,
    /// A host is used again.
    Readmit,
    TrackerBack,
    /// For so long the job has ended, or the connection to the launcher that has started this one.
    NameLate,
    Orphaned,
    Terminate,
    Kill,
    Forsake,
    TimedOut,
}

pub(super) struct Run<'a> {
    pub(super) options: &'a Options,
    pub(super) template: Template,
    /// When the run began.
    pub(super) began: Instant,
    pub(super) tracker: Box<dyn JobTracker>,
    pub(super) store: Option<Store>,
    /// There is one if there are rules.
    injections: Option<InjectionReports>,
    pub(super) sender: Sender<LauncherEvent>,
    pub(super) recorder: Recorder,
    pub(super) restarts: Restarts,
    pub(super) growth: Growth,
    /// The signal by which the slots of a launcher that has joined an elastic job go, all of them.
    pub(super) parting: Option<i32>,
    /// The world may change.
    pub(super) is_elastic: bool,
    /// The attempt that each rank begins with here.
    pub(super) attempts: BTreeMap<u32, u32>,
    /// Those that are started here.
    pub(super) ranks: BTreeMap<u32, State>,
    pub(super) readers: Vec<JoinHandle<()>>,
    pub(super) timers: Vec<(Instant, Due)>,
    pub(super) fired: BTreeSet<u32>,
    /// Since when no process can be started for lack of descriptors.
    pub(super) starved: Option<Instant>,
    /// These ranks have joined: the program takes part in the job, and has to see it to its end.
    pub(super) joined: BTreeSet<Rank>,
    /// The processes that have joined, by the names that the tracker knows them by.
    pub(super) members: BTreeSet<String>,
    /// The end was reached by all.
    pub(super) ended: bool,
    /// A rank that has failed after that, in words.
    pub(super) failed_late: Option<String>,
    /// Another launcher has started this one, and is gone.
    pub(super) is_orphaned: bool,
    pub(super) signals: Arc<Caught>,
    /// A rule has ended the tracker.
    pub(super) tracker_died: bool,
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
    let began = Instant::now();
    rejoin_agent::logging::level(&options.log)?;
    let (sender, receiver) = unbounded();
    let tell = sender.clone();
    let signals = signals::watch(move |signal| tell.send(LauncherEvent::Signal(signal)).is_ok());
    let signals = signals.map_err(io("watch for signals"))?;
    let wait = Wait::new(options, began, signals.clone());
    let events = options.events.as_deref();
    let mut recorder = Recorder::new(events).map_err(unusable("--events", events))?;
    made("--durable", options.durable.as_ref().map(|wanted| wanted.folder.as_path()))?;
    let spill = made("--spill", options.logs.spill.as_deref())?;
    let has_rules = !options.rules.is_empty();
    let injections =
        has_rules.then(|| InjectionReports::open(sender.clone())).transpose().map_err(io("listen for fault rules"))?;
    let reported_where =
        injections.as_ref().map(InjectionReports::variable).transpose().map_err(io("listen for fault rules"))?;
    if let Some(discovery) = &options.discovery {
        super::discovery::watch(discovery, options.slots_per_host, sender.clone())?;
    }
    let begun = Growth::wait(options, &wait, &receiver).and_then(|growth| match &options.joining {
        Some(joining) => {
            let ready = Ready::joined(joining, &wait, &sender)?;
            Ok((growth.joined(ready.world), ready))
        }
        None => {
            one_machine(options, growth.goes_elsewhere)?;
            let ready = Ready::own(options, growth.goes_elsewhere, &sender)?;
            Ok((growth, ready))
        }
    });
    let (growth, Ready { world, is_elastic, tracker, store, durable, secret, attempts, place, ssh }) = match begun {
        Ok(begun) => begun,
        Err(NotBegun::Failed(error)) => return Err(error),
        Err(NotBegun::Over(ending)) => {
            say(&ending.reason());
            return Ok(ending.status());
        }
    };
    let descriptor = sealed(&secret).map_err(io("hand on the job's secret"))?;
    let (copies, others) = (options.own_copies, world - 1);
    if copies > others && copies != OWN_COPIES {
        say(&format!(
            "--own-copies {copies} is more than the {others} others that each rank has: each of them holds one"
        ));
    }
    let mut environment = settings(options, is_elastic, durable, place);
    environment.extend([(launched::SPILL, spill), (launched::INJECTED, reported_where.unwrap_or_default())]);
    let is_plain = options.order().is_some();
    let command = options.command.clone();
    let template = Template { command, world, environment, secret: descriptor, is_plain, ssh };
    recorder.begins(
        world,
        options.command.iter().map(|part| part.to_string_lossy().into_owned()).collect(),
        options.rules.iter().map(|rule| rule.text.clone()).collect(),
    );
    let run = Run {
        options,
        template,
        began,
        tracker,
        store,
        injections,
        sender,
        recorder,
        restarts: Restarts::new(options.restarts),
        growth,
        parting: None,
        is_elastic,
        ranks: attempts.keys().map(|rank| (*rank, State::Waiting)).collect(),
        attempts,
        readers: Vec::new(),
        timers: wait.over.map(|over| (over, Due::TimedOut)).into_iter().collect(),
        fired: BTreeSet::new(),
        starved: None,
        joined: BTreeSet::new(),
        members: BTreeSet::new(),
        ended: false,
        failed_late: None,
        is_orphaned: false,
        signals,
        tracker_died: false,
        ending: None,
    };
    Ok(run.drive(&receiver))
}

/// Fails where there are rules and processes may be started on other hosts, whose rules nobody would hear of.
fn one_machine(options: &Options, goes_elsewhere: bool) -> Result<(), Error> {
    match options.rules.first().filter(|_| goes_elsewhere) {
        None => Ok(()),
        Some(rule) => Err(Error::new(
            Code::BadArgument,
            format!(
                "--kill `{}`: --kill is for one machine, and --discovery names other hosts, or may (--listen); leave \
                 out one of these",
                rule.text
            ),
        )),
    }
}

/// What the launcher sets in its ranks' environment for all of them alike, beside the place where the tracker is.
fn settings(
    options: &Options,
    is_elastic: bool,
    durable: Option<DurablePlace>,
    place: Vec<(&'static str, String)>,
) -> Vec<(&'static str, String)> {
    let mut environment = place;
    if let Some(DurablePlace { folder, every, identity }) = durable {
        environment.push((launched::DURABLE, folder.to_string_lossy().into_owned()));
        environment.push((launched::DURABLE_EVERY, every.to_string()));
        environment.push((launched::DURABLE_IDENTITY, identity.to_string()));
    } else {
        // Not what the launcher was given itself.
        environment.push((launched::DURABLE, String::new()));
    }
    environment.extend([
        (launched::ELASTIC, u8::from(is_elastic).to_string()),
        (launched::DETAILS, u8::from(options.wants_details()).to_string()),
        (launched::SHARED_MEMORY, u8::from(options.shares_memory).to_string()),
        (launched::LOG_MEMORY, options.logs.memory.to_string()),
        (launched::LOG_DISK, options.logs.disk.to_string()),
        (launched::OWN_COPIES, options.own_copies.to_string()),
        (launched::CALLS, u8::from(options.calls).to_string()),
        (launched::LOG, options.log.clone()),
    ]);
    environment
}

impl Run<'_> {
    fn drive(mut self, receiver: &Receiver<LauncherEvent>) -> u8 {
        // All have a place before the first is told its own.
        for rank in self.attempts.keys() {
            self.growth.hosts.place(*rank);
        }
        for (rank, attempt) in self.attempts.clone() {
            if self.ending.is_none() {
                self.start(rank, attempt);
            }
        }
        self.ask_for_numbers();
        while !self.is_over() {
            let next = self.timers.iter().map(|(at, _)| *at).min();
            let wait = next.map_or(Duration::from_secs(60), |at| at.saturating_duration_since(Instant::now()));
            match receiver.recv_timeout(wait) {
                Ok(launcher_event) => self.happen(launcher_event),
                // The run itself holds a sender, so the channel can't be disconnected.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            self.fire_timers();
            self.judge_orphan();
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
        self.wait_for_last_lines(receiver);
        self.conclude()
    }
}
