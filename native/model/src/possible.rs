//! What can happen next, with another fault or without.

use crate::steps::only;
use crate::world::{Action, Ended, JobModel, Leaving, Left, Link, ModelProcess, State};
use rejoin_protocol::message::{AgentMessage, TrackerMessage};
use rejoin_protocol::report::Report;
use stateright::Model;

impl JobModel {
    /// Whether the framework has to start this rank's task.
    pub(crate) fn is_missing(&self, state: &State, rank: u32) -> bool {
        if self.setup.least.is_some() {
            return false;
        }
        !state.processes.iter().filter(|model_process| model_process.rank == rank && !model_process.declared).any(
            |model_process| {
                let ended = model_process.ended != Ended::No;
                ended
                    || model_process.state.is_some_and(|name| {
                        let process = self.processes.of(name);
                        only(&process).outcome().is_some() || only(&process).freed().is_none()
                    })
            },
        )
    }

    /// All were sent the end.
    pub(crate) fn is_done(&self, state: &State) -> bool {
        let Some(over) = state.over else { return false };
        (0..self.setup.tasks()).all(|rank| {
            let mut slots = state.processes.iter().filter(|model_process| model_process.rank == rank);
            let was_told = |name| only(&self.processes.of(name)).outcome() == Some(over);
            let is_gone =
                self.setup.least.is_some() && slots.clone().all(|model_process| model_process.state.is_none());
            is_gone
                || slots
                    .any(|model_process| model_process.ended != Ended::No || model_process.state.is_some_and(was_told))
        })
    }

    /// What can happen without another fault.
    pub(crate) fn goes_on(&self, state: &State, actions: &mut Vec<Action>) {
        for (number, model_process) in (0u32..).zip(&state.processes) {
            if !model_process.to_tracker.is_empty() || model_process.link == Link::Ending {
                actions.push(Action::TrackerHears(number));
            }
            if model_process.ended == Ended::Unreported {
                actions.push(Action::EndIsReported(number));
            }
            if model_process.state.is_none() {
                continue;
            }
            match model_process.leaving {
                Leaving::Untold => actions.push(Action::LeavingIsReported(number)),
                Leaving::Released => actions.push(Action::GoesAway(number)),
                Leaving::No | Leaving::Told => {}
            }
            if !model_process.to_process.is_empty() {
                actions.push(Action::Hears(number));
            }
            if model_process.link == Link::Lost {
                actions.push(Action::Reconnects(number));
            }
            let Some(process) = self.process(state, number) else { continue };
            let process = only(&process);
            if self.setup.ends && matches!(process.outcome(), Some(Ok(_))) {
                actions.push(Action::Ends(number));
            }
            if process.is_idle() {
                actions.push(Action::Go(number));
            }
            if process.wanted().is_some() || !process.wishes().is_empty() {
                actions.push(Action::Fetches(number));
            }
        }
        actions.extend(state.wires.iter().filter(|(_, w)| !w.is_empty()).map(|(way, _)| Action::Reads(*way)));
        actions.extend((0..self.setup.tasks()).filter(|rank| self.is_missing(state, *rank)).map(Action::Starts));
        let will_shrink = self.setup.least.is_some() && self.trackers.of(state.tracker).will_shrink();
        actions.extend(will_shrink.then_some(Action::NoneCame));
        // The deadline: all that live are there and were heard, so that only the dead are waited for.
        let heard = |model_process: &ModelProcess| {
            model_process.to_tracker.is_empty()
                && model_process.link != Link::Ending
                && (model_process.state.is_none() || model_process.link == Link::Open)
        };
        if state.waits_for_former && state.processes.iter().all(heard) {
            let tracker = self.trackers.of(state.tracker);
            actions.extend(tracker.waits_for_former().then_some(Action::TrackerWaitedEnough));
        }
    }

    pub(crate) fn faults(&self, state: &State, actions: &mut Vec<Action>) {
        let living = || {
            (0u32..)
                .zip(&state.processes)
                .filter(|(_, model_process)| model_process.state.is_some() && !model_process.declared)
        };
        if state.left.crashes > 0 {
            let may = |process: u32| self.setup.victims.as_ref().is_none_or(|victims| victims.contains(&process));
            for (process, model_process) in living().filter(|(process, _)| may(*process)) {
                actions.push(Action::Crash { process, lost: false });
                if !model_process.to_tracker.is_empty() {
                    actions.push(Action::Crash { process, lost: true });
                }
            }
        }
        if state.left.zombies > 0 {
            actions.extend(living().map(|(process, _)| Action::DeclaredLost(process)));
        }
        if state.left.leaves > 0 {
            let stay = living().filter(|(_, model_process)| model_process.leaving == Leaving::No);
            actions.extend(stay.map(|(process, _)| Action::Leaves(process)));
        }
        if state.left.cuts > 0 {
            let pairs = living().flat_map(|(one, _)| living().map(move |(other, _)| (one, other)));
            let pairs: Vec<(u32, u32)> = pairs.filter(|(one, other)| one < other).collect();
            for (one, other) in pairs {
                actions.extend(self.setup.lanes().iter().map(|lane| Action::Cut(one, other, *lane)));
            }
        }
        if state.left.tracker_deaths > 0 {
            actions.push(Action::TrackerDies);
        }
    }

    /// Whether nothing can go wrong any more and all have the plan of the newest view, or is
    /// about to hear it. From here on no view comes: which rank does what first makes no difference, and
    /// one order stands for all.
    pub(crate) fn is_calm(&self, state: &State) -> bool {
        let Left { crashes, zombies, cuts, leaves, tracker_deaths } = state.left;
        let leaves = leaves > 0 || state.processes.iter().any(|there| there.leaving != Leaving::No);
        let may_differ = !self.setup.reduced || self.job.defect.is_some() || self.setup.differs.is_some();
        if may_differ || leaves || crashes + zombies + cuts + tracker_deaths > 0 || state.waits_for_former {
            return false;
        }
        let mut plan = None;
        let mut has_plan = |number: u32, model_process: &ModelProcess| {
            let Some(process) = self.process(state, number) else { return model_process.link == Link::Over };
            let task = only(&process);
            let told_nothing_new = model_process.to_tracker.iter().all(|message| {
                let message = self.to_tracker.of(*message);
                matches!(
                    *message,
                    AgentMessage::ResultPart { .. }
                        | AgentMessage::Report { report: Report::VersionEntered { .. } | Report::Finished { .. }, .. }
                )
            });
            if !told_nothing_new || model_process.link != Link::Open || model_process.declared || task.freed().is_some()
            {
                return false;
            }
            let mut comes = None;
            for message in &model_process.to_process {
                match &*self.to_process.of(*message) {
                    TrackerMessage::View(_) => return false,
                    TrackerMessage::Plan(plan) => comes = Some(plan.generation),
                    _ => {}
                }
            }
            let view = process.host().view().map(|view| view.generation);
            let here = if task.wanted().is_some() { view } else { task.generation().filter(|_| !task.is_paused()) };
            let its = comes.or(here);
            its.is_some() && *plan.get_or_insert(its) == its && view == its
        };
        (0u32..).zip(&state.processes).all(|(number, model_process)| has_plan(number, model_process))
    }

    /// Nothing can happen any more without another fault, and not all were sent the end.
    pub(crate) fn stands_still(&self, state: &State) -> bool {
        if self.is_done(state) {
            return false;
        }
        let mut actions = Vec::new();
        self.goes_on(state, &mut actions);
        !actions.into_iter().any(|action| self.next_state(state, action).is_some())
    }
}
