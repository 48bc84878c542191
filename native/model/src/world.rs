//! The world of a small job: which members there are, what is under way, and everything that can happen next.

use crate::memory::{Name, Steps, Things};
use crate::steps::FromProcess;
use crate::tracker::{self, FromTracker, NOW};
use crate::Setup;
use dashmap::DashSet;
use rejoin_protocol::error::Code;
use rejoin_protocol::ids::{Attempt, Lane, Rank};
use rejoin_protocol::message::{AgentMessage, TrackerMessage};
use rejoin_protocol::start::JobStart;
use rejoin_protocol::tracker::Tracker;
use rejoin_sim::ranks::{End, Frame, Input, Job, Process, Try};
use stateright::{Model, Property};
use std::collections::{BTreeMap, BTreeSet};

/// The connection of a process to the tracker, as the tracker has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Link {
    Open,
    /// The tracker died: the process will connect again.
    Lost,
    /// The process is dead, which the tracker finds out when it has taken all that was sent.
    Ending,
    Over,
}

/// Whether a task has ended well, and the present life of the tracker was notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ended {
    No,
    Unreported,
    Told,
}

/// Whether a task goes for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Leaving {
    No,
    /// The framework knows; the present life of the tracker has to be told.
    Untold,
    Told,
    /// The others go on without it: its process ends.
    Released,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ModelProcess {
    /// Its state; `None` when it is dead.
    pub(crate) state: Option<Name>,
    pub(crate) rank: u32,
    pub(crate) link: Link,
    /// The framework believes that it is gone.
    pub(crate) declared: bool,
    /// Its task has ended well, and it is gone.
    pub(crate) ended: Ended,
    pub(crate) leaving: Leaving,
    pub(crate) to_tracker: Vec<Name>,
    pub(crate) to_process: Vec<Name>,
}

/// How much may still go wrong.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    pub(crate) crashes: u8,
    pub(crate) zombies: u8,
    pub(crate) cuts: u8,
    pub(crate) leaves: u8,
    pub(crate) tracker_deaths: u8,
}

/// One direction of a data link: its sender, its receiver, and what it carries.
pub type LinkDirection = (End, End, Lane);

/// A state of the world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(crate) tracker: Name,
    pub(crate) tracker_life: u32,
    /// The tracker has come back, and waits for agents that knew what the life before knew.
    pub(crate) waits_for_former: bool,
    /// By number.
    pub(crate) processes: Vec<ModelProcess>,
    /// Frames on the links.
    pub(crate) wires: BTreeMap<LinkDirection, Vec<Name>>,
    pub(crate) left: Left,
    pub(crate) over: Option<Result<u128, Code>>,
    /// The life of the tracker that has said so last.
    pub(crate) over_life: u32,
    /// The promise that was broken.
    pub violated: Option<&'static str>,
}

impl State {
    /// The framework's task that a process runs, and which try of it that is.
    pub(crate) fn try_of(&self, number: u32) -> (u32, u32) {
        let task = self.processes[number as usize].rank;
        let before = self.processes.iter().take(number as usize).filter(|other| other.rank == task);
        (task, before.count() as u32)
    }
}

/// What can happen next. Processes are known by number: those after the first of all ranks are restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The tracker takes the next message of a process, or the end of its connection.
    TrackerHears(u32),
    /// A process takes the tracker's next message.
    Hears(u32),
    /// A rank's thread takes its next step.
    Go(u32),
    /// The second reads the first frame that the first has sent.
    Reads(LinkDirection),
    /// A process gets what it has asked others for.
    Fetches(u32),
    /// The framework starts a rank's task again.
    Starts(u32),
    /// A task that has the end ends well, and its process with it.
    Ends(u32),
    /// The framework reports to the tracker that a process' task has ended well.
    EndIsReported(u32),
    /// A process connects to the tracker that came back.
    Reconnects(u32),
    /// A process dies; what it has sent to the tracker and the tracker hasn't taken is lost or not.
    Crash {
        /** The process that dies. */
        process: u32,
        /** Whether it is lost. */
        lost: bool,
    },
    /// The framework reports to the tracker that a process is gone, which lives.
    DeclaredLost(u32),
    /// The link between two breaks, with all that is on it.
    Cut(u32, u32, Lane),
    /// A process' task is to go for good.
    Leaves(u32),
    /// The framework says so to the tracker.
    LeavingIsReported(u32),
    /// The process of a task that the others go on without ends.
    GoesAway(u32),
    /// The tracker dies and comes back.
    TrackerDies,
    /// No replacement has come for so long that the world shrinks.
    NoneCame,
    /// A tracker that came back has waited long enough for agents that aren't there any more.
    TrackerWaitedEnough,
}

/// What the checker explores: the states of one set-up.
pub struct JobModel {
    pub(crate) setup: Setup,
    pub(crate) job: Job,
    /// What the job may end with.
    pub(crate) models: BTreeSet<u128>,
    pub(crate) trackers: Things<Tracker>,
    pub(crate) processes: Things<Process>,
    pub(crate) to_tracker: Things<AgentMessage>,
    pub(crate) to_process: Things<TrackerMessage>,
    pub(crate) frames: Things<Frame>,
    pub(crate) tracker_steps: Steps<FromTracker>,
    pub(crate) process_steps: Steps<FromProcess>,
    pub(crate) ends: DashSet<Name>,
}

impl JobModel {
    /// For this setup.
    pub fn new(setup: Setup) -> Self {
        JobModel {
            job: setup.job(),
            models: setup.models(),
            setup,
            trackers: Things::default(),
            processes: Things::default(),
            to_tracker: Things::default(),
            to_process: Things::default(),
            frames: Things::default(),
            tracker_steps: Steps::default(),
            process_steps: Steps::default(),
            ends: DashSet::new(),
        }
    }

    pub(crate) fn first(&self) -> State {
        let Setup { crashes, zombies, cuts, leaves, tracker_deaths, .. } = self.setup;
        let mut state = State {
            tracker: self.trackers.keep(tracker::new(&self.setup, 1)),
            tracker_life: 1,
            waits_for_former: false,
            processes: Vec::new(),
            wires: BTreeMap::new(),
            left: Left { crashes, zombies, cuts, leaves, tracker_deaths },
            over: None,
            over_life: 0,
            violated: None,
        };
        for rank in 0..self.setup.tasks() {
            self.start(&mut state, rank);
        }
        if !self.setup.from_rendezvous {
            // One order of the rendezvous: all are there and have the plan, none has begun.
            let quiet = |action: &Action| matches!(action, Action::TrackerHears(_) | Action::Hears(_));
            loop {
                let mut actions = Vec::new();
                self.actions(&state, &mut actions);
                let Some(action) = actions.into_iter().find(quiet) else { break };
                let Some(next) = self.next_state(&state, action) else { break };
                state = next;
            }
        }
        state
    }

    /// A step in words, with the message that is taken by it.
    pub fn told(&self, state: &State, action: Action) -> String {
        let first = |queue: &[Name]| queue.first().copied();
        let taken =
            match action {
                Action::Hears(number) => first(&state.processes[number as usize].to_process)
                    .map(|one| format!("{:?}", self.to_process.of(one))),
                Action::TrackerHears(number) => first(&state.processes[number as usize].to_tracker)
                    .map(|one| format!("{:?}", self.to_tracker.of(one))),
                _ => None,
            };
        // A view names every rank: its beginning says which it is.
        let taken: String = taken.map_or(String::new(), |text| format!(" {text}")).chars().take(300).collect();
        format!("{action:?}{taken}")
    }

    /// A state in words.
    pub fn describe(&self, state: &State) -> Vec<String> {
        let mut lines = vec![format!("violated {:?}, over {:?}", state.violated, state.over)];
        for (number, model_process) in state.processes.iter().enumerate() {
            let process = model_process.state.map_or("dead".into(), |name| self.processes.of(name).describe());
            let (sent, received) = (model_process.to_tracker.len(), model_process.to_process.len());
            lines.push(format!(
                "process {number}: {process}; {:?}, {sent} to tracker, {received} to it",
                model_process.link
            ));
        }
        let wires = state.wires.iter().map(|(wire, frames)| {
            let frames: Vec<String> = frames.iter().map(|frame| format!("{:?}", self.frames.of(*frame))).collect();
            format!("link {wire:?}: {}", frames.join(", "))
        });
        lines.extend(wires);
        lines.push(format!("{:?}", self.trackers.of(state.tracker)));
        lines
    }

    pub(crate) fn process(&self, state: &State, process: u32) -> Option<std::sync::Arc<Process>> {
        Some(self.processes.of(state.processes.get(process as usize)?.state?))
    }

    /// The framework starts this task, which is a rank or asks for one, in a new process, which connects and joins.
    pub(crate) fn start(&self, state: &mut State, rank: u32) {
        let number = state.processes.len() as u32;
        let tries = state.processes.iter().filter(|model_process| model_process.rank == rank).count() as u32;
        let id = Try { rank: Rank(rank), attempt: Attempt { stage: 0, task: tries } };
        let mut process = Process::new(number, "host", 30_000, self.job.one_by_one, NOW);
        let id = match self.setup.spares {
            0 if self.setup.least.is_none() => {
                process.starts(id);
                id
            }
            _ => process.stands_by(id),
        };
        let model_process = ModelProcess {
            state: Some(self.processes.keep(process)),
            rank,
            link: Link::Open,
            declared: false,
            ended: Ended::No,
            leaving: Leaving::No,
            to_tracker: Vec::new(),
            to_process: Vec::new(),
        };
        state.processes.push(model_process);
        match self.setup.start {
            JobStart::Fresh => {}
            // Before the job begins.
            JobStart::HandedOver(_) if number >= self.setup.world => {}
            start => drop(self.has(state, number, Input::Given(start))),
        }
        self.has(state, number, Input::TrackerUp);
        self.has(state, number, Input::Join(id));
    }
}

impl Model for JobModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.first()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.violated.is_some() || self.is_done(state) {
            return;
        }
        self.goes_on(state, actions);
        if state.over.is_none() {
            self.faults(state, actions);
        } else if self.setup.ends {
            actions.extend((state.left.tracker_deaths > 0).then_some(Action::TrackerDies));
        }
        // The end is decided and only has to be sent; or nothing can change the plan any more.
        let only_goes_on = if state.over.is_some() { !self.setup.ends } else { self.is_calm(state) };
        if only_goes_on {
            if let Some(first) = actions.iter().position(|action| self.act(state, *action).is_some()) {
                // One order stands for all.
                *actions = vec![actions[first]];
            }
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = self.act(before, action)?;
        self.settle(&mut state);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![Property::always("Progress", |model: &JobModel, state: &State| {
            state.violated != Some("Progress") && (state.violated.is_some() || !model.stands_still(state))
        })];
        macro_rules! promise {
            ($($name:literal),*) => {
                $(properties.push(Property::always($name, |_, state: &State| state.violated != Some($name)));)*
            };
        }
        promise!("Agreement", "Identity", "Replay", "NoLostWork", "Fencing", "Monotony", "Bounded");
        properties
    }
}
