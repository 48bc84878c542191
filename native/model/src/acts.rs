//! What an action makes of a state.

use crate::memory::{both, name};
use crate::steps::only;
use crate::tracker::{self, ToTracker};
use crate::world::{Action, Ended, JobModel, Leaving, Link, State};
use rejoin_protocol::ids::{AgentId, Lane};
use rejoin_sim::ranks::{Defect, Input};

impl JobModel {
    pub(crate) fn act(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::TrackerHears(number) => self.tracker_hears(&mut state, number),
            Action::Hears(number) => {
                self.hears(&mut state, number);
            }
            Action::Go(number) => {
                if let Some(id) = self.process(&state, number).map(|process| only(&process).id) {
                    self.has(&mut state, number, Input::Go(id));
                }
            }
            Action::Reads(way) => {
                if !self.reads(&mut state, way) {
                    return None;
                }
            }
            Action::Fetches(number) => {
                if !self.fetch(&mut state, number) {
                    return None;
                }
            }
            Action::Starts(rank) => self.start(&mut state, rank),
            Action::Ends(number) => {
                self.crash(&mut state, number, false);
                state.processes[number as usize].ended = Ended::Unreported;
            }
            Action::EndIsReported(number) => {
                state.processes[number as usize].ended = Ended::Told;
                let (task, tried) = state.try_of(number);
                let input = ToTracker::TaskEnded { task, tried };
                self.tracker_takes(&mut state, name(&input), || input);
            }
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
            Action::Cut(one, other, lane) => {
                state.left.cuts -= 1;
                self.cut(&mut state, (one, other), lane);
            }
            Action::Leaves(number) => {
                state.left.leaves -= 1;
                state.processes[number as usize].leaving = Leaving::Untold;
            }
            Action::LeavingIsReported(number) => {
                state.processes[number as usize].leaving = Leaving::Told;
                let (task, tried) = state.try_of(number);
                let input = ToTracker::TaskLeaves { task, tried };
                self.tracker_takes(&mut state, name(&input), || input);
            }
            Action::GoesAway(number) => self.crash(&mut state, number, false),
            Action::NoneCame => {
                let input = ToTracker::NoneCame;
                self.tracker_takes(&mut state, name(&input), || input);
            }
            Action::TrackerWaitedEnough => {
                state.waits_for_former = false;
                let input = ToTracker::WaitedEnough;
                self.tracker_takes(&mut state, name(&input), || input);
            }
            Action::TrackerDies => {
                state.left.tracker_deaths -= 1;
                self.tracker_dies(&mut state);
            }
        }
        Some(state)
    }

    /// The tracker takes the next message of a process, or hears that its connection has ended.
    fn tracker_hears(&self, state: &mut State, number: u32) {
        let link = self.link(state, number);
        let model_process = &mut state.processes[number as usize];
        if model_process.to_tracker.is_empty() {
            model_process.link = Link::Over;
            let gone = model_process.state.is_none();
            let agent = AgentId(u64::from(number));
            let input = ToTracker::Closed { link, agent, gone };
            self.tracker_takes(state, name(&input), || input);
        } else {
            let message = model_process.to_tracker.remove(0);
            let thing = || ToTracker::Message { link, message: self.to_tracker.of(message) };
            self.tracker_takes(state, both(message, link), thing);
        }
    }

    /// A data link breaks, with what is on its way.
    fn cut(&self, state: &mut State, (one, other): (u32, u32), lane: Lane) {
        let end = |number: u32| self.process(state, number).and_then(|process| only(&process).end());
        if let (Some(one), Some(other)) = (end(one), end(other)) {
            state.wires.remove(&(one, other, lane));
            state.wires.remove(&(other, one, lane));
            for (own, other) in [(one, other), (other, one)] {
                self.has(state, own.process, Input::LinkBroke(own, other, lane));
            }
        }
    }

    /// The tracker is another one, which the framework tells again what it had told the last one.
    fn tracker_dies(&self, state: &mut State) {
        state.tracker_life += 1;
        state.waits_for_former = true;
        state.tracker = self.trackers.keep(tracker::new(&self.setup, state.tracker_life));
        for model_process in &mut state.processes {
            if model_process.ended == Ended::Told && self.job.defect != Some(Defect::EndsUnreported) {
                model_process.ended = Ended::Unreported;
            }
            if model_process.leaving == Leaving::Told {
                model_process.leaving = Leaving::Untold;
            }
            model_process.to_tracker.clear();
            model_process.to_process.clear();
            model_process.link = if model_process.state.is_some() { Link::Lost } else { Link::Over };
        }
    }
}
