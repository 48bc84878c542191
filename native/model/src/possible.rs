//! What can happen next, with another fault or without.

use crate::world::{Action, Ended, JobModel, Link, Slot, State};
use stateright::Model;

impl JobModel {
    /// Whether the framework has to start this rank's task.
    pub(crate) fn is_missing(&self, state: &State, rank: u32) -> bool {
        !state.processes.iter().filter(|slot| slot.rank == rank && !slot.declared).any(|slot| {
            let ended = slot.ended != Ended::No;
            ended
                || slot.state.is_some_and(|name| {
                    let process = self.processes.of(name);
                    process.told().is_some() || process.freed().is_none()
                })
        })
    }

    /// Everybody was told the end.
    pub(crate) fn is_done(&self, state: &State) -> bool {
        let Some(over) = state.over else { return false };
        (0..self.setup.world).all(|rank| {
            let mut slots = state.processes.iter().filter(|slot| slot.rank == rank);
            let was_told = |name| self.processes.of(name).told() == Some(over);
            slots.any(|slot| slot.ended != Ended::No || slot.state.is_some_and(was_told))
        })
    }

    /// What can happen without another fault.
    pub(crate) fn goes_on(&self, state: &State, actions: &mut Vec<Action>) {
        for (number, slot) in (0u32..).zip(&state.processes) {
            if !slot.to_tracker.is_empty() || slot.link == Link::Ending {
                actions.push(Action::TrackerHears(number));
            }
            if slot.ended == Ended::Untold {
                actions.push(Action::EndIsTold(number));
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
            if self.setup.ends && matches!(process.told(), Some(Ok(_))) {
                actions.push(Action::Ends(number));
            }
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
        // The deadline: everybody who lives is there and has been heard, so that only the dead are waited for.
        let heard = |slot: &Slot| {
            slot.to_tracker.is_empty() && slot.link != Link::Ending && (slot.state.is_none() || slot.link == Link::Open)
        };
        if state.waits_for_former && state.processes.iter().all(heard) {
            let tracker = self.trackers.of(state.tracker);
            actions.extend(tracker.waits_for_former().then_some(Action::TrackerWaitedEnough));
        }
    }

    pub(crate) fn faults(&self, state: &State, actions: &mut Vec<Action>) {
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
    pub(crate) fn stands_still(&self, state: &State) -> bool {
        if self.is_done(state) {
            return false;
        }
        let mut actions = Vec::new();
        self.goes_on(state, &mut actions);
        !actions.into_iter().any(|action| self.next_state(state, action).is_some())
    }
}
