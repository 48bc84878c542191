//! What an action makes of a state.

use crate::memory::{both, name};
use crate::steps::ToProcess;
use crate::tracker::{self, ToTracker};
use crate::world::{Action, Ended, JobModel, Link, State};
use rejoin_protocol::ids::{AgentId, Rank};
use rejoin_protocol::message::TrackerMessage;
use rejoin_sim::ranks::{Defect, Input};

impl JobModel {
    /// What commutes with everything else is done at once, which leaves fewer states and no run out: a message that changes
    /// nothing but its receiver's own books, and a frame of an attempt that is over at its reader, which will never be taken.
    pub(crate) fn settle(&self, state: &mut State) {
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

    pub(crate) fn act(&self, before: &State, action: Action) -> Option<State> {
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
            Action::Ends(number) => {
                self.crash(&mut state, number, false);
                state.processes[number as usize].ended = Ended::Untold;
            }
            Action::EndIsTold(number) => {
                let slot = &mut state.processes[number as usize];
                slot.ended = Ended::Told;
                let input = ToTracker::RankEnded { rank: slot.rank };
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
            Action::Cut(one, other) => {
                state.left.cuts -= 1;
                state.wires.remove(&(one, other));
                state.wires.remove(&(other, one));
                for (process, peer) in [(one, other), (other, one)] {
                    let peer = Rank(state.processes[peer as usize].rank);
                    self.has(&mut state, process, Input::LinkBroke(peer));
                }
            }
            Action::TrackerWaitedEnough => {
                state.waits_for_former = false;
                let input = ToTracker::WaitedEnough;
                self.tracker_takes(&mut state, name(&input), || input);
            }
            Action::TrackerDies => {
                state.left.tracker_deaths -= 1;
                state.tracker_life += 1;
                state.waits_for_former = true;
                state.tracker = self.trackers.keep(tracker::new(self.setup.world, state.tracker_life));
                for slot in &mut state.processes {
                    if slot.ended == Ended::Told && self.job.defect != Some(Defect::EndsUntold) {
                        slot.ended = Ended::Untold;
                    }
                    slot.to_tracker.clear();
                    slot.to_process.clear();
                    slot.link = if slot.state.is_some() { Link::Lost } else { Link::Over };
                }
            }
        }
        Some(state)
    }
}
