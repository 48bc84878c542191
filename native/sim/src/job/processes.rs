//! Processes: what happens to them, what they want done, and when they are to be woken.

use super::{Happening, World};
use crate::invariants::{bounded, deadlines};
use crate::ranks::{Input, Output, Process};
use rejoin_protocol::ids::{AgentId, Millis};

/// How long after a board couldn't be opened it is tried again.
const OPEN_AGAIN_MILLIS: u64 = 100;

impl World {
    pub(super) fn input(&mut self, process: u32, input: Input) {
        let Some(there) = self.processes.get_mut(&process).filter(|there| there.alive) else { return };
        let outputs = there.process.handle(input, Millis(self.now), &self.job);
        self.carry_out(process, outputs);
        self.read(process);
    }

    /// Takes what lies on the links of a process, as far as it wants it.
    pub(super) fn read(&mut self, process: u32) {
        loop {
            let mut took = false;
            for from in self.network.senders(process) {
                let Some(rank) = self.processes.get(&from).map(|there| there.process.who().rank) else { continue };
                let Some(frame) = self.network.first(from, process).cloned() else { continue };
                let Some(there) = self.processes.get_mut(&process).filter(|there| there.alive && !there.frozen) else {
                    return;
                };
                let read = there.process.reads((from, rank), &frame, Millis(self.now), &self.job);
                if let Some(outputs) = read {
                    self.network.took(from, process);
                    self.carry_out(process, outputs);
                    took = true;
                }
            }
            if !took {
                return self.follow_up(process);
            }
        }
    }

    /// What a process wants to be woken for.
    fn follow_up(&mut self, process: u32) {
        let pause = self.rng.u64(0..30);
        let slow = self.processes.get(&process).and_then(|there| self.slow.get(&there.process.who().rank)).copied();
        let slow = slow.map_or(0, |most| self.rng.u64(0..most));
        let Some(there) = self.processes.get_mut(&process).filter(|there| there.alive) else { return };
        let mut wanted = Vec::new();
        if let Some(at) = there.process.host().wake_at().map(|at| at.0.max(self.now)) {
            if there.wakes.is_none_or(|known| at < known) {
                there.wakes = Some(at);
                wanted.push((at, Happening::Wakes { process }));
            }
        }
        if there.process.is_idle() && !there.goes {
            there.goes = true;
            wanted.push((self.now + pause + slow, Happening::Goes { process }));
        }
        if (there.process.wanted().is_some() || !there.process.wishes().is_empty()) && !there.fetches {
            there.fetches = true;
            wanted.push((self.now + pause % 7, Happening::Fetches { process }));
        }
        let looks = there.process.has_to_look() && !std::mem::replace(&mut there.looks, true);
        there.waits_since = match there.process.is_in_call() {
            true => there.waits_since.or(Some(self.now)),
            false => None,
        };
        let found = deadlines::call(there.waits_since, self.now, super::FAULTS_END_MILLIS, || there.process.describe());
        for (at, happening) in wanted {
            self.at(at, happening);
        }
        if looks {
            self.looks_soon(process);
        }
        self.violate(found);
    }

    fn looks_soon(&mut self, process: u32) {
        let pause = self.rng.u64(0..3);
        self.after(pause, Happening::Looks { process });
    }

    /// Its rank looks at the shared memory.
    pub(super) fn look(&mut self, process: u32) {
        let Some(there) = self.processes.get_mut(&process) else { return };
        there.looks = false;
        let posts = self.memory.posts();
        let outputs = there.process.looks(&mut self.memory, Millis(self.now), &self.job);
        if there.process.is_shut_out() {
            there.looks = true;
            self.after(OPEN_AGAIN_MILLIS, Happening::Looks { process });
        }
        self.tally.shared += outputs.iter().filter(|output| **output == Output::Computed).count() as u32;
        if self.memory.posts() > posts {
            self.others_look(process);
        }
        self.carry_out(process, outputs);
        self.read(process);
    }

    /// Something has changed in the memory that others may wait for.
    fn others_look(&mut self, process: u32) {
        let mut others = Vec::new();
        for (other, there) in &mut self.processes {
            if *other != process && there.alive && there.process.is_in_call() && !there.looks {
                there.looks = true;
                others.push(*other);
            }
        }
        others.into_iter().for_each(|other| self.looks_soon(other));
    }

    fn carry_out(&mut self, process: u32, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Connect => {
                    let pause = self.rng.u64(1..100);
                    self.after(pause, Happening::Connects { process });
                }
                Output::ToTracker(message) => self.send_to_tracker(process, message),
                Output::Frame { to, frame } => self.send_frame(process, to, frame),
                Output::Unlink(other) => self.unlink(process, other),
                Output::LastWords { board, words } => {
                    self.memory.ends(board, words);
                    self.others_look(process);
                }
                Output::Freed(incarnation, error) => self.freed(process, incarnation, &error),
                Output::Over(outcome) => {
                    if outcome.is_ok() {
                        let pause = self.rng.u64(0..300);
                        self.after(pause, Happening::EndsWell { process });
                    }
                }
                Output::LeaveTracker => self.leave_tracker(process),
                Output::Closed => self.say(|| format!("the agent of process {process} is over")),
                Output::Replayed => self.tally.replayed += 1,
                Output::Computed => self.tally.computed += 1,
                Output::Started(start) => {
                    let Some(there) = self.processes.get_mut(&process) else { continue };
                    let rank = there.process.who().rank;
                    there.started = Some(start.incarnation);
                    if let Some(checkpoint) = start.checkpoint {
                        there.stored.insert((checkpoint.lineage, checkpoint.version));
                    }
                    let found = self.no_lost_work.started(rank, &start);
                    self.violate(found);
                }
                Output::Entered(lineage, version) => {
                    let Some(there) = self.processes.get_mut(&process) else { continue };
                    there.stored.insert((lineage, version));
                    let kept = there.process.versions_kept();
                    let found = bounded::versions(kept, there.settled, || there.process.describe());
                    let who = (there.process.who().rank, there.process.incarnation());
                    self.violate(found);
                    let found = self.monotony.entered(who, lineage, version);
                    self.violate(found);
                }
                Output::View(generation) => {
                    let agent = AgentId(u64::from(process));
                    let found = self.monotony.view(agent, generation);
                    self.violate(found);
                }
                Output::Violated(violation) => self.violate(Err(violation)),
            }
        }
    }

    /// What it wants is brought from the first who lives, can be reached and has it.
    pub(super) fn fetch(&mut self, process: u32) {
        let Some(there) = self.processes.get_mut(&process) else { return };
        there.fetches = false;
        let there = &self.processes[&process];
        if let Some((checkpoint, holders)) = there.process.wanted().cloned() {
            let has =
                |holder: &u32| self.reachable(process, *holder).is_some_and(|there| there.host().holds(&checkpoint));
            let is_durable = self.resumed.as_ref().is_some_and(|resumed| resumed.checkpoint == checkpoint);
            let found = is_durable || holders.iter().any(has);
            return self.input(process, if found { Input::FetchedCheckpoint } else { Input::NoCheckpoint });
        }
        let count = there.process.wishes().len();
        if count == 0 {
            return;
        }
        let index = self.rng.usize(..count);
        let wish = self.processes[&process].process.wishes()[index].clone();
        let entry = wish.holders.iter().find_map(|(at, _)| {
            self.reachable(process, at.agent.0 as u32)?.entry(wish.lineage, wish.phase, wish.from, &self.job)
        });
        let newest = self.processes[&process].process.attempt();
        match entry {
            Some(entry) => self.input(process, Input::FetchedResult(index, entry)),
            None if newest > Some(wish.generation) => self.input(process, Input::WishIsOver(index)),
            // A holder that is gone makes a new plan; until then it is tried again.
            None => {
                if let Some(there) = self.processes.get_mut(&process) {
                    there.fetches = true;
                }
                self.after(50, Happening::Fetches { process });
            }
        }
    }

    fn reachable(&self, from: u32, holder: u32) -> Option<&Process> {
        let there = self.processes.get(&holder).filter(|there| there.alive && !there.frozen)?;
        (!self.network.is_parted(from, holder, self.now)).then_some(&there.process)
    }
}
