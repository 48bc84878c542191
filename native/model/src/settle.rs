//! What is done at once because doing it later makes no difference: fewer states, and no run out.
//! `docs/testing.md` says of each why. What is done in reduced set-ups only is compared with whole
//! ones by a test: jobs come to the same ends.

use crate::memory::{both, name};
use crate::steps::{only, FromProcess, ToProcess};
use crate::tracker::ToTracker;
use crate::world::{JobModel, Leaving, Left, Link, LinkDirection, State};
use rejoin_protocol::ids::Lane;
use rejoin_protocol::message::{AgentMessage, TrackerMessage};
use rejoin_sim::ranks::{Input, Process};

impl JobModel {
    /// Does at once what commutes with everything else that can happen.
    pub(crate) fn settle(&self, state: &mut State) {
        self.take_what_is_only_noted(state);
        if self.job.defect.is_some() {
            return;
        }
        self.drop_outdated(state);
        if !self.setup.reduced {
            return;
        }
        loop {
            self.drop_what_the_paused_lack(state);
            let started = self.start_missing(state);
            let read = self.read_what_finishes_nothing(state);
            let late = self.hear_late_answers(state);
            let heard = self.hear_what_nothing_races_with(state);
            let begun = self.begin_calls(state);
            if !(started || read || late || heard || begun) {
                return;
            }
            self.take_what_is_only_noted(state);
            self.drop_outdated(state);
        }
    }

    /// A message that changes nothing but its receiver's own records.
    fn take_what_is_only_noted(&self, state: &mut State) {
        for number in 0..state.processes.len() as u32 {
            while let Some(first) = state.processes[number as usize].to_process.first() {
                let message = self.to_process.of(*first);
                if !matches!(*message, TrackerMessage::Registered { .. } | TrackerMessage::JoinAccepted { .. }) {
                    break;
                }
                self.hears(state, number);
            }
        }
    }

    /// A frame of a generation that is over at its reader will never be taken.
    fn drop_outdated(&self, state: &mut State) {
        let attempts: Vec<_> =
            (0..state.processes.len() as u32).map(|n| only(&*self.process(state, n)?).generation()).collect();
        for ((_, to, _), wire) in state.wires.iter_mut().filter(|((.., lane), _)| *lane == Lane::Collectives) {
            let now = attempts[to.process as usize];
            let outdated = wire.iter().take_while(|frame| self.frames.of(**frame).generation() < now).count();
            wire.drain(..outdated);
        }
        state.wires.retain(|_, wire| !wire.is_empty());
    }

    /// What comes to a rank that has answered a view, of the generation before it: nothing is
    /// finished in that any more.
    fn drop_what_the_paused_lack(&self, state: &mut State) {
        let attempts: Vec<_> = (0..state.processes.len() as u32)
            .map(|number| {
                let process = self.process(state, number)?;
                only(&process).generation().filter(|_| only(&process).is_paused())
            })
            .collect();
        for ((_, to, _), wire) in state.wires.iter_mut().filter(|((.., lane), _)| *lane == Lane::Collectives) {
            let Some(over) = attempts[to.process as usize] else { continue };
            let outdated = wire.iter().take_while(|frame| self.frames.of(**frame).generation() <= Some(over)).count();
            wire.drain(..outdated);
        }
        state.wires.retain(|_, wire| !wire.is_empty());
    }

    /// A task that has to be started again. Only the tracker can see it, and what it says to
    /// the tracker may still be taken at any time. (A tracker that dies meanwhile would lose that,
    /// which it can't before the start; and one that has come back stops waiting only
    /// when all that are there were heard.)
    fn start_missing(&self, state: &mut State) -> bool {
        if state.left.tracker_deaths > 0 || state.waits_for_former {
            return false;
        }
        let missing: Vec<u32> = (0..self.setup.tasks()).filter(|rank| self.is_missing(state, *rank)).collect();
        missing.iter().for_each(|rank| self.start(state, *rank));
        !missing.is_empty()
    }

    /// A frame with which its reader finishes nothing. It counts only if the collective is finished
    /// in this generation, and that needs the last frame. (A link that breaks takes unread frames with
    /// it.)
    fn read_what_finishes_nothing(&self, state: &mut State) -> bool {
        if state.left.cuts > 0 {
            return false;
        }
        let mut changed = false;
        let wires: Vec<LinkDirection> =
            state.wires.keys().filter(|(.., lane)| *lane == Lane::Collectives).copied().collect();
        for way in wires {
            while let Some((input, thing)) = self.first_frame(state, way) {
                let Some((next, effects)) = self.process_would(state, way.1.process, input, thing) else { break };
                if !effects.is_empty() || !only(&self.processes.of(next)).is_in_call() {
                    break;
                }
                changed |= self.reads(state, way);
            }
        }
        changed
    }

    /// What the tracker says to a process that can do nothing meanwhile but what it could do
    /// before: any message while its rank isn't started, a view while it is paused, a plan, and
    /// that all is settled. A view that comes to a rank that runs is another matter.
    fn hear_what_nothing_races_with(&self, state: &mut State) -> bool {
        if !self.only_crashes_are_left(state) {
            return false;
        }
        let mut changed = false;
        for number in 0..state.processes.len() as u32 {
            while let Some(first) = state.processes[number as usize].to_process.first() {
                let message = self.to_process.of(*first);
                let Some(process) = self.process(state, number) else { break };
                let process = only(&process);
                let is_at_once = match &*message {
                    TrackerMessage::View(_) if process.position().is_some() => process.is_paused(),
                    TrackerMessage::View(_) => process.wanted().is_none(),
                    TrackerMessage::NewcomerLocal { .. } | TrackerMessage::Plan(_) | TrackerMessage::Settled { .. } => {
                        true
                    }
                    _ => false,
                };
                if !is_at_once {
                    break;
                }
                self.hears(state, number);
                changed = true;
            }
        }
        changed
    }

    /// A call that its rank doesn't finish at once: frames without a reader are as good as none.
    fn begin_calls(&self, state: &mut State) -> bool {
        if !self.only_crashes_are_left(state) || self.setup.differs.is_some() {
            return false;
        }
        let mut changed = false;
        for number in 0..state.processes.len() as u32 {
            let idle = |process: &Process| only(process).is_idle().then(|| only(process).id);
            let Some(id) = self.process(state, number).and_then(|process| idle(&process)) else { continue };
            let go = || ToProcess::Input(Input::Go(id));
            let Some((next, effects)) = self.process_would(state, number, name(&Input::Go(id)), go) else { continue };
            let are_frames = effects.iter().all(|effect| matches!(effect, FromProcess::Frame { .. }));
            if are_frames && only(&self.processes.of(next)).is_in_call() {
                changed |= self.has(state, number, Input::Go(id));
            }
        }
        changed
    }

    fn only_crashes_are_left(&self, state: &State) -> bool {
        let Left { zombies, cuts, leaves, tracker_deaths, .. } = state.left;
        let all_stand = state.processes.iter().all(|model_process| {
            model_process.state.is_none() || model_process.link == Link::Open && !model_process.declared
        });
        let is_told = state.processes.iter().any(|model_process| model_process.leaving != Leaving::No);
        zombies + cuts + leaves + tracker_deaths == 0 && all_stand && !is_told
    }

    /// A status report that answers a view which isn't the newest any more: the tracker drops it, now or
    /// later. (An agent that is declared lost before it is heard counts again by it.)
    fn hear_late_answers(&self, state: &mut State) -> bool {
        if state.left.zombies > 0 {
            return false;
        }
        let mut changed = false;
        for number in 0..state.processes.len() as u32 {
            while let Some(first) = state.processes[number as usize].to_tracker.first().copied() {
                let message = self.to_tracker.of(first);
                if !matches!(*message, AgentMessage::StatusReport(_)) {
                    break;
                }
                let link = self.link(state, number);
                let thing = || ToTracker::Message { link, message: message.clone() };
                let step = self.tracker_would(state, both(first, link), thing);
                if !step.is_some_and(|(next, effects)| next == state.tracker && effects.is_empty()) {
                    break;
                }
                state.processes[number as usize].to_tracker.remove(0);
                changed = true;
            }
        }
        changed
    }
}
