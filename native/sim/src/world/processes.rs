//! Processes: what happens to them, what they want done, and when they are to be woken.

use super::network::LinkDirection;
use super::sim_event::SimEvent;
use super::state::World;
use crate::invariants::{bounded, deadlines, own_models};
use crate::ranks::{Defect, End, Input, Output, Process, Try};
use crate::scenario::FAULTS_END_MILLIS;
use rejoin_protocol::ids::{AgentId, Checkpoint, Millis, Phase, Rank};

/// How long after a segment couldn't be opened it is tried again.
const OPEN_AGAIN_MILLIS: u64 = 100;

impl World {
    pub(super) fn input(&mut self, process: u32, input: Input) {
        let Some(there) = self.processes.get_mut(&process).filter(|there| there.alive) else { return };
        let outputs = there.process.handle(input, Millis(self.now), &self.scenario.job);
        self.carry_out(process, outputs);
        self.read(process);
    }

    /// Takes what lies on the links of a process, as far as it wants it.
    pub(super) fn read(&mut self, process: u32) {
        let all = self.network.waiting(process);
        self.read_these(process, all, false);
    }

    /// The same when a frame has come over one of the links and nothing else has happened: what lies on the others
    /// wasn't wanted before, so it is looked at only if this one is. There may be thousands.
    pub(super) fn read_what_came(&mut self, process: u32, way: LinkDirection) {
        match self.takes(process, &way) {
            Some(true) => {
                let all = self.network.waiting(process).into_iter();
                self.read_these(process, all.filter(|other| *other > way).collect(), true);
            }
            Some(false) => self.follow_up(process),
            None => {}
        }
    }

    /// These, and all again after any was taken.
    fn read_these(&mut self, process: u32, mut ways: Vec<LinkDirection>, mut took: bool) {
        loop {
            for way in ways {
                match self.takes(process, &way) {
                    Some(taken) => took |= taken,
                    None => return,
                }
            }
            if !took {
                return self.follow_up(process);
            }
            ways = self.network.waiting(process);
            took = false;
        }
    }

    /// Whether the process takes the first frame of a link; `None` if it takes none of any.
    fn takes(&mut self, process: u32, way: &LinkDirection) -> Option<bool> {
        let Some(frame) = self.network.first(way) else { return Some(false) };
        let there = self.processes.get_mut(&process).filter(|there| there.alive && !there.frozen)?;
        let read = there.process.reads(way.0, way.1, frame, Millis(self.now), &self.scenario.job);
        let Some(outputs) = read else { return Some(false) };
        self.network.took(way);
        self.carry_out(process, outputs);
        Some(true)
    }

    /// What a process wants to be woken for.
    fn follow_up(&mut self, process: u32) {
        let Some(there) = self.processes.get_mut(&process).filter(|there| there.alive) else { return };
        if let Some(at) = there.process.host().wake_at().map(|at| at.0.max(self.now)) {
            if there.wakes.is_none_or(|known| at < known) {
                there.wakes = Some(at);
                self.at(at, SimEvent::Wakes { process });
            }
        }
        let tasks = self.processes[&process]
            .process
            .tasks()
            .iter()
            .filter(|task| task.end().is_some() || task.wanted().is_some());
        let ids: Vec<Try> = tasks.map(|task| task.id).collect();
        ids.into_iter().for_each(|id| self.task_follows_up(process, id));
    }

    fn task_follows_up(&mut self, process: u32, id: Try) {
        let most = self.scenario.compute_millis;
        let pause = self.draw(0..=most);
        let slow = self.slow.get(&id.rank).copied().map_or(0, |most| self.draw(0..most));
        let now = self.now;
        let Some(there) = self.processes.get_mut(&process) else { return };
        let Some(task) = there.process.task(id) else { return };
        let pace = there.paces.entry(id).or_default();
        let goes = task.is_idle() && !std::mem::replace(&mut pace.goes, true);
        let moves = task.has_written() && !std::mem::replace(&mut pace.moves, true);
        let wants = task.wanted().is_some() || !task.wishes().is_empty();
        let fetches = wants && !std::mem::replace(&mut pace.fetches, true);
        let looks = task.has_to_look() && !std::mem::replace(&mut pace.looks, true);
        pace.waits_since = pace.waits_since.or(Some(now)).filter(|_| task.is_in_call());
        let found = deadlines::call(pace.waits_since, now, FAULTS_END_MILLIS, || there.process.describe());
        if goes {
            self.after(pause + slow, SimEvent::Goes { process, id });
        }
        if moves {
            self.after(pause % 4, SimEvent::Moves { process, id });
        }
        if fetches {
            self.after(pause % 7, SimEvent::Fetches { process, id });
        }
        if looks {
            self.looks_soon(process, id);
        }
        self.violate(found);
    }

    fn looks_soon(&mut self, process: u32, id: Try) {
        let pause = self.draw(0..3);
        self.after(pause, SimEvent::Looks { process, id });
    }

    /// A rank looks at the shared memory.
    pub(super) fn look(&mut self, process: u32, id: Try) {
        let Some(there) = self.processes.get_mut(&process) else { return };
        there.pace(id).looks = false;
        let publishes = self.memory.publishes();
        let outputs = there.process.looks(id, &mut self.memory, Millis(self.now), &self.scenario.job);
        if there.process.task(id).is_some_and(|task| task.is_shut_out()) {
            there.pace(id).looks = true;
            self.after(OPEN_AGAIN_MILLIS, SimEvent::Looks { process, id });
        }
        self.tally.shared += outputs.iter().filter(|output| **output == Output::Computed).count() as u32;
        if self.memory.publishes() > publishes {
            self.others_look(process, id);
        }
        self.carry_out(process, outputs);
        self.read(process);
    }

    /// Something has changed in the memory that others may wait for.
    fn others_look(&mut self, process: u32, id: Try) {
        let mut others = Vec::new();
        for (other, there) in self.processes.iter_mut().filter(|(_, there)| there.alive) {
            for task in
                there.process.tasks().iter().filter(|task| task.is_in_call() && (*other, task.id) != (process, id))
            {
                if !std::mem::replace(&mut there.paces.entry(task.id).or_default().looks, true) {
                    others.push((*other, task.id));
                }
            }
        }
        others.into_iter().for_each(|(other, id)| self.looks_soon(other, id));
    }

    fn carry_out(&mut self, process: u32, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Connect => {
                    let pause = self.draw(1..100);
                    self.after(pause, SimEvent::Connects { process });
                }
                Output::ToTracker(message) => self.send_to_tracker(process, message),
                Output::Frame { from, to, frame } => self.send_frame(from, to, frame),
                Output::Unlink(own, other) => self.unlink(own, other),
                Output::LastWords { segment, words } => {
                    self.memory.ends(segment, words);
                    // No rank that has said them is in a call.
                    let nobody = Try { rank: Rank(u32::MAX), attempt: Default::default() };
                    self.others_look(process, nobody);
                }
                Output::Freed(id, incarnation, error) => self.freed(process, id, incarnation, &error),
                Output::Over(id, outcome) => {
                    if outcome.is_ok() {
                        let pause = self.draw(0..300);
                        self.after(pause, SimEvent::EndsWell { process, id });
                    }
                }
                Output::LeaveTracker => self.leave_tracker(process),
                Output::Closed => self.say(|| format!("the agent of process {process} is over")),
                Output::Replayed => self.tally.replayed += 1,
                Output::Computed => self.tally.computed += 1,
                Output::Chose { by, chosen, is_confirmed } => self.chose(by, chosen, is_confirmed),
                Output::Given(id) => {
                    let pause = self.draw(0..100);
                    self.after(pause, SimEvent::Joins { process, id });
                }
                Output::Started(id, start) => {
                    self.paces(process, id, |pace| pace.started = Some(start.incarnation));
                    let lies = self.scenario.job.lies && start.incarnation.number > 0;
                    self.lied |= lies && self.could_know(id.rank, Phase::Version(start.version));
                    let found = self.no_lost_work.started(id.rank, &start);
                    self.violate(found);
                }
                Output::Entered(id, lineage, version) => {
                    let Some(there) = self.processes.get_mut(&process) else { continue };
                    let Some(task) = there.process.task(id) else { continue };
                    // What comes between two boundaries lets go at the next one.
                    let was_settled = std::mem::replace(&mut there.paces.entry(id).or_default().settled, there.settled);
                    let is_settled = there.settled.is_some() && was_settled == there.settled;
                    let found = bounded::versions(task.versions_kept(), is_settled, || there.process.describe());
                    let who = (id.rank, task.incarnation());
                    self.violate(found);
                    let found = self.monotony.entered(who, lineage, version);
                    self.violate(found);
                }
                Output::Began(id, start, world) => {
                    let found = self.worlds.began(id.rank, &start, world);
                    self.violate(found);
                    let found = self.own_models.began(id.rank, &start, world);
                    self.violate(found);
                }
                Output::Own(own, world) => {
                    let found = self.own_models.took(&own, world);
                    self.violate(found);
                }
                Output::Safe(own, others) => {
                    let has = |other: &u32| self.processes.get(other).is_some_and(|there| there.process.holds(&own));
                    let found = own_models::safe(&own, others.is_empty() || others.iter().any(has));
                    self.violate(found);
                }
                Output::Copy(own, to) => {
                    let pause = self.delay();
                    self.after(pause, SimEvent::Copies { process, to, own });
                }
                Output::Model(lineage, version, model) => {
                    let found = self.worlds.has(lineage, version, model);
                    self.violate(found);
                }
                Output::Deals(lineage, model, rank, number) => {
                    let found = self.samples.deals(lineage, model, rank, number);
                    self.violate(found);
                }
                Output::Made { lineage, before, model, dealers } => {
                    let found = self.samples.makes(lineage, before, model, dealers);
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

    fn chose(&mut self, by: End, chosen: bool, is_confirmed: bool) {
        self.tally.chosen += u32::from(is_confirmed);
        let task = |end: End| {
            let there = self.processes.get(&end.process).filter(|there| there.alive)?;
            there.process.tasks().iter().find(|task| task.end() == Some(end))
        };
        let Some((its, (lineage, version, _))) = task(by).and_then(|its| Some((its, its.choice()?))) else { return };
        // One that was frozen may choose for itself alone before it hears that others know it no more.
        let knows_it = |end: &End| task(*end).is_some_and(|other| other.peers().any(|peer| peer == by));
        let others: Vec<(Rank, bool)> = its
            .peers()
            .filter(knows_it)
            .filter_map(|end| Some((end.rank, task(end)?.choice()?)))
            .filter(|(_, (its_lineage, its_version, _))| (*its_lineage, *its_version) == (lineage, version))
            .map(|(rank, (.., theirs))| (rank, theirs))
            .collect();
        if by.rank == Rank(0) && chosen && std::mem::take(&mut self.kills_who_chooses) {
            let pause = self.draw(0..3);
            self.after(pause, SimEvent::Killed { process: by.process });
        }
        let found = self.choices.chose(by.rank, (lineage, version, chosen), is_confirmed, others.into_iter());
        self.violate(found);
    }

    /// What a task wants is brought from the first that lives, can be reached and has it.
    pub(super) fn fetch(&mut self, process: u32, id: Try) {
        self.paces(process, id, |pace| pace.fetches = false);
        let Some(task) = self.processes.get(&process).and_then(|there| there.process.task(id)) else { return };
        if let Some((checkpoint, holders)) = task.wanted() {
            let has = |holder: &u32| self.reachable(process, *holder).is_some_and(|there| there.holds(checkpoint));
            let found = holders.iter().any(has);
            return self.input(process, if found { Input::FetchedCheckpoint(id) } else { Input::NoCheckpoint(id) });
        }
        let count = task.wishes().len();
        if count == 0 {
            return;
        }
        let index = self.scenario.rng.usize(..count);
        let Some(task) = self.processes[&process].process.task(id) else { return };
        let wish = &task.wishes()[index];
        let entry = wish.holders.iter().find_map(|(at, _)| {
            let holder = self.reachable(process, at.agent.0 as u32)?;
            holder.entry(wish.lineage, wish.phase, wish.from, &self.scenario.job)
        });
        match entry {
            Some(entry) => self.input(process, Input::FetchedResult(id, index, entry)),
            None if task.generation() > Some(wish.generation) => self.input(process, Input::WishIsOver(id, index)),
            // A holder that is gone makes a new plan; until then it is tried again.
            None => {
                self.paces(process, id, |pace| pace.fetches = true);
                self.after(50, SimEvent::Fetches { process, id });
            }
        }
    }

    /// A process brings a copy of an own model to another one, if both are still there and it has it.
    pub(super) fn copy(&mut self, process: u32, to: u32, own: Checkpoint) {
        let has = self.processes.get(&process).is_some_and(|there| there.alive && there.process.holds(&own));
        let reaches = has && self.reachable(process, to).is_some_and(|there| !there.is_closed());
        let is_in_vain = self.scenario.job.defect == Some(Defect::CopiesInVain);
        if reaches && !is_in_vain {
            self.input(to, Input::Kept(own));
        }
        let said = if reaches { Input::Copied(own, to) } else { Input::CopyFailed(own, to) };
        self.input(process, said);
    }

    fn reachable(&self, from: u32, holder: u32) -> Option<&Process> {
        let there = self.processes.get(&holder).filter(|there| there.alive && !there.frozen)?;
        (!self.network.is_parted(from, holder, self.now)).then_some(&there.process)
    }
}
