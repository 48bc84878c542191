//! What a process or the tracker takes, and what follows from it for the world.

use crate::memory::{both, name, Name, Step};
use crate::steps::{self, only, FromProcess, ToProcess};
use crate::tracker::{self, FromTracker, ToTracker};
use crate::world::{JobModel, Leaving, Link, LinkDirection, State};
use rejoin_protocol::error::Code;
use rejoin_protocol::ids::Version;
use rejoin_protocol::start::JobStart;
use rejoin_sim::ranks::Input;

impl JobModel {
    pub(crate) fn has(&self, state: &mut State, number: u32, input: Input) -> bool {
        self.process_takes(state, number, name(&input), || ToProcess::Input(input))
    }

    /// The tracker's next message.
    pub(crate) fn hears(&self, state: &mut State, number: u32) {
        let message = state.processes[number as usize].to_process.remove(0);
        let thing = || ToProcess::Input(Input::Tracker((*self.to_process.of(message)).clone()));
        self.process_takes(state, number, message, thing);
    }

    /// What a process makes of an input: its next state, and what follows for others.
    pub(crate) fn process_would(
        &self,
        state: &State,
        number: u32,
        input: Name,
        thing: impl FnOnce() -> ToProcess,
    ) -> Option<Step<FromProcess>> {
        let before = state.processes[number as usize].state?;
        self.process_steps.take(before, input, || {
            let process = (*self.processes.of(before)).clone();
            let (next, effects) = steps::step(process, thing(), &self.job, &self.to_tracker, &self.frames)?;
            Some((self.processes.keep(next), effects))
        })
    }

    /// False: nothing happened. The name stands for the input.
    pub(crate) fn process_takes(
        &self,
        state: &mut State,
        number: u32,
        input: Name,
        thing: impl FnOnce() -> ToProcess,
    ) -> bool {
        let Some((next, effects)) = self.process_would(state, number, input, thing) else { return false };
        state.processes[number as usize].state = Some(next);
        for effect in effects.iter() {
            match effect {
                FromProcess::ToTracker(message) => {
                    let model_process = &mut state.processes[number as usize];
                    if model_process.link == Link::Open {
                        model_process.to_tracker.push(*message);
                    }
                }
                FromProcess::Frame { from, to, lane, frame } => {
                    if state
                        .processes
                        .get(to.process as usize)
                        .is_some_and(|model_process| model_process.state.is_some())
                    {
                        state.wires.entry((*from, *to, *lane)).or_default().push(*frame);
                    }
                }
                FromProcess::Unlink(own, other) => {
                    state
                        .wires
                        .retain(|(from, to, _), _| (*from, *to) != (*own, *other) && (*to, *from) != (*own, *other));
                }
                FromProcess::Freed { rolled_back: true } => {
                    // A holder of all that is needed lives in every run of so few deaths.
                    state.violated.get_or_insert("NoLostWork");
                }
                FromProcess::Given(id) => drop(self.has(state, number, Input::Join(*id))),
                FromProcess::Freed { .. } | FromProcess::Ended => {}
                FromProcess::Started(lineage, version) => {
                    let positions = state.processes.iter().enumerate().filter(|(other, _)| *other as u32 != number);
                    let positions = positions.filter_map(|(_, model_process)| {
                        let process = self.processes.of(model_process.state.filter(|_| !model_process.declared)?);
                        only(&process).position().filter(|_| only(&process).freed().is_none())
                    });
                    let most = positions.map(|(_, version)| version).max().unwrap_or_default();
                    // A job that goes on from an earlier one begins a lineage with its first plan.
                    let start = self.setup.start;
                    let is_fixed = self.setup.least.is_none();
                    let is_back = start == JobStart::Fresh && is_fixed && lineage.0 > 0 || *version < start.version();
                    if is_back || version.0 + 1 < most.0 {
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

    /// What the tracker makes of an input.
    pub(crate) fn tracker_would(
        &self,
        state: &State,
        input: Name,
        thing: impl FnOnce() -> ToTracker,
    ) -> Option<Step<FromTracker>> {
        let before = state.tracker;
        self.tracker_steps.take(before, input, || {
            let tracker = (*self.trackers.of(before)).clone();
            let (next, effects) = tracker::step(tracker, thing(), &self.to_process);
            Some((self.trackers.keep(next), effects))
        })
    }

    pub(crate) fn tracker_takes(&self, state: &mut State, input: Name, thing: impl FnOnce() -> ToTracker) {
        let Some((next, effects)) = self.tracker_would(state, input, thing) else { return };
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
                FromTracker::Released { task, tried } => {
                    let its = state.processes.iter_mut().filter(|one| one.rank == *task);
                    for model_process in its.take(*tried as usize + 1) {
                        model_process.leaving = Leaving::Released;
                    }
                }
                FromTracker::Over(outcome) => self.over(state, *outcome),
            }
        }
    }

    pub(crate) fn over(&self, state: &mut State, outcome: Result<u128, Code>) {
        self.ends.insert(state.tracker);
        let allowed = match outcome {
            Err(Code::Mismatch) => self.setup.differs.is_some(),
            // Each survivor knows how far the job was.
            Ok(model) => self.models.contains(&model) && self.setup.differs.is_none(),
            // The world shrank to those that had entered nothing, and the tracker died before they had the view that
            // says so: of the one before is known that a rank which died had entered a version.
            Err(Code::Unrecoverable) => self.setup.least.is_some() && state.tracker_life > 1 && !self.is_held(state),
            Err(_) => false,
        };
        // A life that comes back after the end finds it again.
        let is_again = state.over == Some(outcome) && state.over_life < state.tracker_life;
        if state.over.is_some() && !is_again || !allowed {
            state.violated.get_or_insert(match outcome {
                Err(Code::Mismatch) => "Identity",
                Err(_) => "Progress",
                Ok(_) if self.setup.differs.is_some() => "Identity",
                Ok(_) => "Agreement",
            });
        }
        (state.over, state.over_life) = (Some(outcome), state.tracker_life);
    }

    /// Whether a process that lives holds a checkpoint.
    fn is_held(&self, state: &State) -> bool {
        let mut living = state.processes.iter().filter_map(|there| there.state);
        living.any(|there| self.processes.of(there).held().any(|held| held.version > Version(0)))
    }

    /// The first frame from one process to another, for the one that takes it.
    pub(crate) fn first_frame(
        &self,
        state: &State,
        way: LinkDirection,
    ) -> Option<(Name, impl FnOnce() -> ToProcess + '_)> {
        let frame = *state.wires.get(&way)?.first()?;
        let (from, to, _) = way;
        let thing = move || ToProcess::Frame { from, to, frame: (*self.frames.of(frame)).clone() };
        Some((both(frame, u64::from(from.process)), thing))
    }

    /// A process takes the first frame from another one. False: nothing happened.
    pub(crate) fn reads(&self, state: &mut State, way: LinkDirection) -> bool {
        let Some((input, thing)) = self.first_frame(state, way) else { return false };
        if !self.process_takes(state, way.1.process, input, thing) {
            return false;
        }
        // What followed may have cut the link.
        if let Some(wire) = state.wires.get_mut(&way) {
            wire.remove(0);
            if wire.is_empty() {
                state.wires.remove(&way);
            }
        }
        true
    }

    pub(crate) fn link(&self, state: &State, process: u32) -> u64 {
        u64::from(process) + 100 * u64::from(state.tracker_life)
    }

    pub(crate) fn process_of(&self, state: &State, link: u64) -> Option<usize> {
        let process = (link % 100) as usize;
        let model_process = state.processes.get(process)?;
        let stands = model_process.state.is_some()
            && model_process.link == Link::Open
            && self.link(state, process as u32) == link;
        stands.then_some(process)
    }

    pub(crate) fn crash(&self, state: &mut State, process: u32, lost: bool) {
        let model_process = &mut state.processes[process as usize];
        model_process.state = None;
        model_process.to_process.clear();
        if lost {
            model_process.to_tracker.clear();
        }
        model_process.link = if model_process.link == Link::Open { Link::Ending } else { Link::Over };
        // What it has sent can still be read until its peers are notified; what was sent to it is gone.
        state.wires.retain(|(_, to, _), _| to.process != process);
    }

    pub(crate) fn fetch(&self, state: &mut State, number: u32) -> bool {
        let Some(process) = self.process(state, number) else { return false };
        let task = only(&process);
        if let Some((checkpoint, holders)) = task.wanted() {
            let has = |holder: &u32| self.process(state, *holder).is_some_and(|there| there.holds(checkpoint));
            if holders.iter().any(has) {
                return self.has(state, number, Input::FetchedCheckpoint(task.id));
            }
        }
        for (index, wish) in task.wishes().iter().enumerate() {
            let entry = wish.holders.iter().find_map(|(at, _)| {
                let holder = self.process(state, at.agent.0 as u32)?;
                holder.entry(wish.lineage, wish.phase, wish.from, &self.job)
            });
            if let Some(entry) = entry {
                return self.has(state, number, Input::FetchedResult(task.id, index, entry));
            }
        }
        false
    }
}
