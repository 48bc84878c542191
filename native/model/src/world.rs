//! The world of a small job: who is there, what is under way, and everything that can happen next.

use crate::memory::{both, name, Name, Steps, Things};
use crate::steps::{self, FromProcess, ToProcess};
use crate::tracker::{self, FromTracker, ToTracker, NOW};
use crate::Setup;
use rejoin_protocol::error::Code;
use rejoin_protocol::ids::{AgentId, Attempt, Rank, Version};
use rejoin_protocol::message::{AgentMessage, TrackerMessage};
use rejoin_protocol::tracker::Tracker;
use rejoin_sim::ranks::{Frame, Input, Job, Process, Who};
use stateright::{Model, Property};
use std::collections::BTreeMap;

/// The connection of a process to the tracker, as the tracker has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Link {
    Open,
    /// The tracker died: the process will connect again.
    Lost,
    /// The process is dead, which the tracker finds out when it has taken all that was sent.
    Ending,
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Slot {
    /// Its state; `None` when it is dead.
    state: Option<Name>,
    rank: u32,
    link: Link,
    /// The framework believes that it is gone.
    declared: bool,
    to_tracker: Vec<Name>,
    to_process: Vec<Name>,
}

/// How much may still go wrong.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Left {
    crashes: u8,
    zombies: u8,
    cuts: u8,
    tracker_deaths: u8,
}

/// A state of the world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    tracker: Name,
    tracker_life: u32,
    /// By number.
    processes: Vec<Slot>,
    /// Frames on the links, by sender and receiver.
    wires: BTreeMap<(u32, u32), Vec<Name>>,
    left: Left,
    over: Option<Result<u128, Code>>,
    /// The promise that was broken.
    pub violated: Option<&'static str>,
}

/// What can happen next. Processes are told by number: those after the first of all ranks are restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The tracker takes the next message of a process, or the end of its connection.
    TrackerHears(u32),
    /// A process takes the tracker's next message.
    Hears(u32),
    /// A rank's thread takes its next step.
    Go(u32),
    /// The second reads the first frame that the first has sent.
    Reads(u32, u32),
    /// A process gets what it has asked others for.
    Fetches(u32),
    /// The framework starts a rank's task again.
    Starts(u32),
    /// A process connects to the tracker that came back.
    Reconnects(u32),
    /// A process dies; what it has told the tracker and the tracker hasn't taken is lost or not.
    Crash {
        /** The process. */
        process: u32,
        /** Whether it is lost. */
        lost: bool,
    },
    /// The framework tells the tracker that a process is gone, which lives.
    DeclaredLost(u32),
    /// The link between two breaks, with all that is on it.
    Cut(u32, u32),
    /// The tracker dies and comes back.
    TrackerDies,
}

/// The model.
pub struct JobModel {
    setup: Setup,
    job: Job,
    trackers: Things<Tracker>,
    processes: Things<Process>,
    to_tracker: Things<AgentMessage>,
    to_process: Things<TrackerMessage>,
    frames: Things<Frame>,
    tracker_steps: Steps<FromTracker>,
    process_steps: Steps<FromProcess>,
}

impl JobModel {
    /// For this setup.
    pub fn new(setup: Setup) -> Self {
        JobModel {
            job: setup.job(),
            setup,
            trackers: Things::default(),
            processes: Things::default(),
            to_tracker: Things::default(),
            to_process: Things::default(),
            frames: Things::default(),
            tracker_steps: Steps::default(),
            process_steps: Steps::default(),
        }
    }

    fn first(&self) -> State {
        let Setup { world, crashes, zombies, cuts, tracker_deaths, .. } = self.setup;
        let mut state = State {
            tracker: self.trackers.keep(tracker::new(world, 1)),
            tracker_life: 1,
            processes: Vec::new(),
            wires: BTreeMap::new(),
            left: Left { crashes, zombies, cuts, tracker_deaths },
            over: None,
            violated: None,
        };
        for rank in 0..world {
            self.start(&mut state, rank);
        }
        if !self.setup.from_rendezvous {
            // One order of the rendezvous: everybody is there and has the plan, nobody has begun.
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

    /// A state in words.
    pub fn describe(&self, state: &State) -> Vec<String> {
        let mut lines = vec![format!("violated {:?}, over {:?}", state.violated, state.over)];
        for (number, slot) in state.processes.iter().enumerate() {
            let process = slot.state.map_or("dead".into(), |name| self.processes.of(name).describe());
            let (told, heard) = (slot.to_tracker.len(), slot.to_process.len());
            lines.push(format!("process {number}: {process}; {:?}, {told} to tracker, {heard} to it", slot.link));
        }
        let wires = state.wires.iter().map(|(wire, frames)| {
            let frames: Vec<String> = frames.iter().map(|frame| format!("{:?}", self.frames.of(*frame))).collect();
            format!("link {wire:?}: {}", frames.join(", "))
        });
        lines.extend(wires);
        lines.push(format!("{:?}", self.trackers.of(state.tracker)));
        lines
    }

    fn process(&self, state: &State, process: u32) -> Option<std::sync::Arc<Process>> {
        Some(self.processes.of(state.processes.get(process as usize)?.state?))
    }

    /// The framework starts a task of this rank, in a new process, which connects and joins.
    fn start(&self, state: &mut State, rank: u32) {
        let number = state.processes.len() as u32;
        let tries = state.processes.iter().filter(|slot| slot.rank == rank).count() as u32;
        let who = Who { process: number, rank: Rank(rank), attempt: Attempt { stage: 0, task: tries } };
        let process = Process::new(who, "host", 30_000, NOW);
        let slot = Slot {
            state: Some(self.processes.keep(process)),
            rank,
            link: Link::Open,
            declared: false,
            to_tracker: Vec::new(),
            to_process: Vec::new(),
        };
        state.processes.push(slot);
        self.has(state, number, Input::TrackerUp);
        self.has(state, number, Input::Join);
    }

    fn has(&self, state: &mut State, number: u32, input: Input) -> bool {
        self.process_takes(state, number, name(&input), || ToProcess::Input(input))
    }

    /// The tracker's next message.
    fn hears(&self, state: &mut State, number: u32) {
        let message = state.processes[number as usize].to_process.remove(0);
        let thing = || ToProcess::Input(Input::Tracker((*self.to_process.of(message)).clone()));
        self.process_takes(state, number, message, thing);
    }

    /// False: nothing happened. The name stands for the input.
    fn process_takes(&self, state: &mut State, number: u32, input: Name, thing: impl FnOnce() -> ToProcess) -> bool {
        let Some(before) = state.processes[number as usize].state else { return false };
        let step = self.process_steps.take(before, input, || {
            let process = (*self.processes.of(before)).clone();
            let (next, effects) = steps::step(process, thing(), &self.job, &self.to_tracker, &self.frames)?;
            Some((self.processes.keep(next), effects))
        });
        let Some((next, effects)) = step else { return false };
        state.processes[number as usize].state = Some(next);
        for effect in effects.iter() {
            match effect {
                FromProcess::ToTracker(message) => {
                    let slot = &mut state.processes[number as usize];
                    if slot.link == Link::Open {
                        slot.to_tracker.push(*message);
                    }
                }
                FromProcess::Frame { to, frame } => {
                    if state.processes.get(*to as usize).is_some_and(|slot| slot.state.is_some()) {
                        state.wires.entry((number, *to)).or_default().push(*frame);
                    }
                }
                FromProcess::Unlink(other) => {
                    state.wires.remove(&(number, *other));
                    state.wires.remove(&(*other, number));
                }
                FromProcess::Freed { rolled_back: true } => {
                    // Somebody who holds all that is needed lives in every run of so few deaths.
                    state.violated.get_or_insert("NoLostWork");
                }
                FromProcess::Freed { .. } => {}
                FromProcess::Started(lineage, version) => {
                    let positions = state.processes.iter().enumerate().filter(|(other, _)| *other as u32 != number);
                    let positions = positions.filter_map(|(_, slot)| {
                        let process = self.processes.of(slot.state.filter(|_| !slot.declared)?);
                        process.position().filter(|_| process.freed().is_none())
                    });
                    let most = positions.map(|(_, version)| version).max().unwrap_or_default();
                    if lineage.0 > 0 || version.0 + 1 < most.0 {
                        state.violated.get_or_insert("NoLostWork");
                    }
                }
                FromProcess::Violated(promise) => {
                    state.violated.get_or_insert(promise);
                }
            }
        }
        true
    }

    fn tracker_takes(&self, state: &mut State, input: Name, thing: impl FnOnce() -> ToTracker) {
        let before = state.tracker;
        let step = self.tracker_steps.take(before, input, || {
            let tracker = (*self.trackers.of(before)).clone();
            let (next, effects) = tracker::step(tracker, thing(), &self.to_process);
            Some((self.trackers.keep(next), effects))
        });
        let Some((next, effects)) = step else { return };
        state.tracker = next;
        for effect in effects.iter() {
            match effect {
                FromTracker::Send { link, message } => {
                    if let Some(process) = self.process_of(state, *link) {
                        state.processes[process].to_process.push(*message);
                    }
                }
                FromTracker::Close { link } => {
                    assert!(self.process_of(state, *link).is_none(), "the tracker ended a connection of one who lives");
                }
                FromTracker::Kill { process } => self.crash(state, *process, false),
                FromTracker::Over(outcome) => self.over(state, *outcome),
            }
        }
    }

    fn over(&self, state: &mut State, outcome: Result<u128, Code>) {
        let program = &self.job.program;
        let right = Ok(u128::from(program.model(Version(program.versions()))));
        let allowed = match outcome {
            Err(Code::Mismatch) => self.setup.differs.is_some(),
            Err(Code::Unrecoverable) => state.tracker_life > 1,
            outcome => outcome == right && self.setup.differs.is_none(),
        };
        if state.over.is_some() || !allowed {
            state.violated.get_or_insert(match outcome {
                Err(Code::Mismatch) => "Identity",
                Err(_) => "Progress",
                Ok(_) if self.setup.differs.is_some() => "Identity",
                Ok(_) => "Agreement",
            });
        }
        state.over = Some(outcome);
    }

    fn link(&self, state: &State, process: u32) -> u64 {
        u64::from(process) + 100 * u64::from(state.tracker_life)
    }

    fn process_of(&self, state: &State, link: u64) -> Option<usize> {
        let process = (link % 100) as usize;
        let slot = state.processes.get(process)?;
        let stands = slot.state.is_some() && slot.link == Link::Open && self.link(state, process as u32) == link;
        stands.then_some(process)
    }

    fn crash(&self, state: &mut State, process: u32, lost: bool) {
        let slot = &mut state.processes[process as usize];
        slot.state = None;
        slot.to_process.clear();
        if lost {
            slot.to_tracker.clear();
        }
        slot.link = if slot.link == Link::Open { Link::Ending } else { Link::Over };
        // What it has sent can still be read until its peers are told; what was sent to it is gone.
        state.wires.retain(|(_, to), _| *to != process);
    }

    /// Whether the framework has to start this rank's task.
    fn is_missing(&self, state: &State, rank: u32) -> bool {
        !state.processes.iter().filter(|slot| slot.rank == rank && !slot.declared).any(|slot| {
            slot.state.is_some_and(|name| {
                let process = self.processes.of(name);
                process.told().is_some() || process.freed().is_none()
            })
        })
    }

    /// Everybody was told the end.
    fn is_done(&self, state: &State) -> bool {
        let Some(over) = state.over else { return false };
        (0..self.setup.world).all(|rank| {
            let mut told = state.processes.iter().filter(|slot| slot.rank == rank).filter_map(|slot| slot.state);
            told.any(|name| self.processes.of(name).told() == Some(over))
        })
    }

    fn fetch(&self, state: &mut State, number: u32) -> bool {
        let Some(process) = self.process(state, number) else { return false };
        if let Some((checkpoint, holders)) = process.wanted() {
            let has = |holder: &u32| self.process(state, *holder).is_some_and(|there| there.host().holds(checkpoint));
            if holders.iter().any(has) {
                return self.has(state, number, Input::FetchedCheckpoint);
            }
        }
        for (index, wish) in process.wishes().iter().enumerate() {
            let entry = wish.holders.iter().find_map(|(at, _)| {
                let holder = self.process(state, at.agent.0 as u32)?;
                holder.entry(wish.lineage, wish.phase, wish.from, &self.job)
            });
            if let Some(entry) = entry {
                return self.has(state, number, Input::FetchedResult(index, entry));
            }
        }
        false
    }

    /// What can happen without another fault.
    fn goes_on(&self, state: &State, actions: &mut Vec<Action>) {
        for (number, slot) in (0u32..).zip(&state.processes) {
            if !slot.to_tracker.is_empty() || slot.link == Link::Ending {
                actions.push(Action::TrackerHears(number));
            }
            if slot.state.is_none() {
                continue;
            }
            if !slot.to_process.is_empty() {
                actions.push(Action::Hears(number));
            }
            if slot.link == Link::Lost {
                actions.push(Action::Reconnects(number));
            }
            let Some(process) = self.process(state, number) else { continue };
            if process.is_idle() {
                actions.push(Action::Go(number));
            }
            if process.wanted().is_some() || !process.wishes().is_empty() {
                actions.push(Action::Fetches(number));
            }
        }
        actions
            .extend(state.wires.iter().filter(|(_, w)| !w.is_empty()).map(|((from, to), _)| Action::Reads(*from, *to)));
        actions.extend((0..self.setup.world).filter(|rank| self.is_missing(state, *rank)).map(Action::Starts));
    }

    fn faults(&self, state: &State, actions: &mut Vec<Action>) {
        let living = || (0u32..).zip(&state.processes).filter(|(_, slot)| slot.state.is_some() && !slot.declared);
        if state.left.crashes > 0 {
            let may = |process: u32| self.setup.victims.as_ref().is_none_or(|victims| victims.contains(&process));
            for (process, slot) in living().filter(|(process, _)| may(*process)) {
                actions.push(Action::Crash { process, lost: false });
                if !slot.to_tracker.is_empty() {
                    actions.push(Action::Crash { process, lost: true });
                }
            }
        }
        if state.left.zombies > 0 {
            actions.extend(living().map(|(process, _)| Action::DeclaredLost(process)));
        }
        if state.left.cuts > 0 {
            let pairs = living().flat_map(|(one, _)| living().map(move |(other, _)| (one, other)));
            actions.extend(pairs.filter(|(one, other)| one < other).map(|(one, other)| Action::Cut(one, other)));
        }
        if state.left.tracker_deaths > 0 {
            actions.push(Action::TrackerDies);
        }
    }

    /// Nothing can happen any more without another fault, and not everybody was told the end.
    fn stands_still(&self, state: &State) -> bool {
        if self.is_done(state) {
            return false;
        }
        let mut actions = Vec::new();
        self.goes_on(state, &mut actions);
        !actions.into_iter().any(|action| self.next_state(state, action).is_some())
    }

    /// What commutes with everything else is done at once, which leaves fewer states and no run out: a message that changes
    /// nothing but its receiver's own books, and a frame of an attempt that is over at its reader, which will never be taken.
    fn settle(&self, state: &mut State) {
        for number in 0..state.processes.len() as u32 {
            while let Some(first) = state.processes[number as usize].to_process.first() {
                let message = self.to_process.of(*first);
                if !matches!(*message, TrackerMessage::Registered { .. } | TrackerMessage::Seated { .. }) {
                    break;
                }
                self.hears(state, number);
            }
        }
        if self.job.defect.is_some() {
            return;
        }
        let attempts: Vec<_> = (0..state.processes.len() as u32).map(|n| self.process(state, n)?.attempt()).collect();
        for ((_, to), wire) in &mut state.wires {
            let now = attempts[*to as usize];
            let outdated = wire.iter().take_while(|frame| Some(self.frames.of(**frame).attempt) < now).count();
            wire.drain(..outdated);
        }
        state.wires.retain(|_, wire| !wire.is_empty());
    }

    fn act(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::TrackerHears(number) => {
                let link = self.link(&state, number);
                let slot = &mut state.processes[number as usize];
                if slot.to_tracker.is_empty() {
                    slot.link = Link::Over;
                    let gone = slot.state.is_none();
                    let agent = AgentId(u64::from(number));
                    let input = ToTracker::Closed { link, agent, gone };
                    self.tracker_takes(&mut state, name(&input), || input);
                } else {
                    let message = slot.to_tracker.remove(0);
                    let thing = || ToTracker::Message { link, message: (*self.to_tracker.of(message)).clone() };
                    self.tracker_takes(&mut state, both(message, link), thing);
                }
            }
            Action::Hears(number) => {
                self.hears(&mut state, number);
            }
            Action::Go(number) => {
                self.has(&mut state, number, Input::Go);
            }
            Action::Reads(from, to) => {
                let frame = *state.wires.get(&(from, to))?.first()?;
                let rank = Rank(state.processes[from as usize].rank);
                let thing = || ToProcess::Frame { from, rank, frame: (*self.frames.of(frame)).clone() };
                if !self.process_takes(&mut state, to, both(frame, u64::from(from)), thing) {
                    return None;
                }
                if let Some(wire) = state.wires.get_mut(&(from, to)) {
                    wire.remove(0);
                    if wire.is_empty() {
                        state.wires.remove(&(from, to));
                    }
                }
            }
            Action::Fetches(number) => {
                if !self.fetch(&mut state, number) {
                    return None;
                }
            }
            Action::Starts(rank) => self.start(&mut state, rank),
            Action::Reconnects(number) => {
                self.has(&mut state, number, Input::TrackerDown);
                state.processes[number as usize].link = Link::Open;
                self.has(&mut state, number, Input::TrackerUp);
            }
            Action::Crash { process, lost } => {
                state.left.crashes -= 1;
                self.crash(&mut state, process, lost);
            }
            Action::DeclaredLost(process) => {
                state.left.zombies -= 1;
                state.processes[process as usize].declared = true;
                let input = ToTracker::DeclaredLost { process };
                self.tracker_takes(&mut state, name(&input), || input);
            }
            Action::Cut(one, other) => {
                state.left.cuts -= 1;
                state.wires.remove(&(one, other));
                state.wires.remove(&(other, one));
                for (process, peer) in [(one, other), (other, one)] {
                    let peer = Rank(state.processes[peer as usize].rank);
                    self.has(&mut state, process, Input::LinkBroke(peer));
                }
            }
            Action::TrackerDies => {
                state.left.tracker_deaths -= 1;
                state.tracker_life += 1;
                state.tracker = self.trackers.keep(tracker::new(self.setup.world, state.tracker_life));
                for slot in &mut state.processes {
                    slot.to_tracker.clear();
                    slot.to_process.clear();
                    slot.link = if slot.state.is_some() { Link::Lost } else { Link::Over };
                }
            }
        }
        Some(state)
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
        } else if let Some(first) = actions.iter().position(|action| self.act(state, *action).is_some()) {
            // The end is decided and only has to be told: one order stands for all.
            *actions = vec![actions[first]];
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
