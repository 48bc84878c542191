//! What the world does with the tracker's lives.

use super::sim_event::SimEvent;
use super::sim_process::SimProcess;
use super::state::World;
use super::trackers::{TrackerLife, TrackerLink, TIMING};
use crate::invariants::Spares;
use crate::ranks::Defect;
use rejoin_protocol::event::Event;
use rejoin_protocol::ids::{Attempt, Checkpoint, Lineage, Millis, Rank, Task, Version};
use rejoin_protocol::message::{AgentMessage, RankState};
use rejoin_protocol::resize::Elastic;
use rejoin_protocol::start::JobStart;
use rejoin_protocol::tracker::{DeathLimit, Tracker, TrackerConfig, TrackerInput, TrackerOutput};
use std::collections::BTreeSet;

impl World {
    /// The next life begins. It knows nothing.
    pub(super) fn tracker_begins(&mut self) {
        let trackers = &mut self.trackers;
        trackers.epochs += 1;
        self.tally.lives += 1;
        let epoch = trackers.epochs;
        let config = TrackerConfig {
            world: self.scenario.job.program.world,
            spares: self.scenario.spares,
            elastic: match self.scenario.job.defect {
                Some(Defect::BoundsUnreported) if epoch > 1 => {
                    self.scenario.elastic.map(|elastic| Elastic { max: self.scenario.first_tasks(), ..elastic })
                }
                Some(Defect::LimitUnreported) => {
                    self.scenario.elastic.map(|elastic| Elastic { most_resizes: None, ..elastic })
                }
                _ => self.scenario.elastic,
            },
            epoch,
            timing: TIMING,
            deaths: DeathLimit {
                framework_counts: self.scenario.framework_counts.is_some(),
                ..DeathLimit::new(self.scenario.deaths_limit, "the limit")
            },
            start: match self.scenario.job.defect {
                Some(Defect::StartUnreported) if epoch > 1 => JobStart::Fresh,
                _ => self.scenario.start,
            },
            faults: Vec::new(),
            wants_result: true,
        };
        let tracker = Tracker::new(config, Millis(self.now)).expect("this configuration is right");
        let reported = trackers.lives.values().next_back().map_or(&trackers.reported, |life| &life.monotony);
        let life = TrackerLife {
            tracker,
            wake: 0,
            stalled_until: 0,
            deferred: Vec::new(),
            // The first one may go on from an earlier run's lineage.
            monotony: reported.next_life(),
            spares: Spares::default(),
            is_older: false,
            took_over: None,
            is_over: false,
            has_planned: false,
        };
        trackers.lives.insert(epoch, life);
        let there = self.processes.values().filter(|there| there.alive);
        let trains = there.flat_map(|there| there.process.tasks()).filter_map(|task| task.position());
        let furthest = trains.map(|(_, version)| version).max();
        self.no_lost_work.life_begins(epoch, furthest);
        self.say(|| format!("life {epoch} of the tracker begins"));
        self.wake_tracker(epoch);
        self.report_former_life(epoch);
    }

    /// Its process dies: all connections to it end, and what comes for it meanwhile is dropped.
    pub(super) fn kill_tracker(&mut self, back_after: u64) {
        let Some(epoch) = self.trackers.newest() else { return };
        self.fired.insert("tracker");
        self.end_life(epoch);
        self.after(back_after, SimEvent::TrackerBegins);
    }

    /// The next life after one that has died. If another one lives meanwhile, it is found for a while only.
    pub(super) fn tracker_comes_back(&mut self) {
        let older = self.trackers.epochs();
        self.tracker_begins();
        for epoch in older {
            if let Some(life) = self.trackers.lives.get_mut(&epoch) {
                life.is_older = true;
            }
            let pause = self.draw(100..3000);
            self.after(pause, SimEvent::CutOff { epoch });
        }
    }

    /// The next life begins while the present one lives on. Their processes find the one or the
    /// other; after a while none finds the older one any more.
    pub(super) fn second_tracker(&mut self, millis: u64) {
        let Some(older) = self.trackers.newest() else { return };
        self.fired.insert("tracker");
        if let Some(life) = self.trackers.lives.get_mut(&older) {
            life.is_older = true;
        }
        self.tracker_begins();
        let connected = self.trackers.links.iter().filter(|(_, link)| link.epoch == older && link.stands);
        let connected: Vec<u32> = connected.map(|(_, link)| link.process).collect();
        for process in connected {
            let at = self.draw(0..=millis);
            if self.scenario.rng.bool() {
                self.after(at, SimEvent::LosesTracker { process, epoch: older });
            }
        }
        self.after(millis, SimEvent::CutOff { epoch: older });
    }

    pub(super) fn cut_off(&mut self, epoch: u32) {
        if self.trackers.lives.get(&epoch).is_some_and(|life| life.is_older) {
            self.end_life(epoch);
        }
    }

    pub(super) fn end_life(&mut self, epoch: u32) {
        self.has_lost_one |= self.trackers.lives.get(&epoch).is_some_and(|life| !life.has_planned);
        if !self.trackers.remove(epoch) {
            return;
        }
        self.say(|| format!("life {epoch} of the tracker is over"));
        let links = self.trackers.links.iter().filter(|(_, link)| link.epoch == epoch);
        let processes: Vec<u32> = links.map(|(_, link)| link.process).collect();
        for process in processes {
            self.loses_tracker(process, epoch);
        }
    }

    /// The connection of a process to this life breaks, if it has one.
    pub(super) fn loses_tracker(&mut self, process: u32, epoch: u32) {
        let link = self.processes.get(&process).and_then(|there| there.tracker_link);
        if link.and_then(|link| self.trackers.links.get(&link)).is_some_and(|link| link.epoch == epoch) {
            self.break_tracker_link(process);
        }
    }

    pub(super) fn stall_tracker(&mut self, millis: u64) {
        let until = self.now + millis;
        let Some(epoch) = self.trackers.newest() else { return };
        if let Some(life) = self.trackers.lives.get_mut(&epoch) {
            life.stalled_until = until;
        }
        self.at(until, SimEvent::TrackerWakes { epoch });
    }

    /// What the framework reports to its listeners: whichever life is there hears it.
    pub(super) fn framework_reports(&mut self, input: &TrackerInput) {
        for epoch in self.trackers.epochs() {
            self.tracker_event(epoch, SimEvent::TrackerHears { epoch, input: input.clone() });
        }
    }

    pub(super) fn tracker_event(&mut self, epoch: u32, sim_event: SimEvent) {
        let now = self.now;
        let Some(life) = self.trackers.lives.get_mut(&epoch) else { return };
        if now < life.stalled_until {
            if !matches!(sim_event, SimEvent::TrackerWakes { .. }) {
                life.deferred.push(sim_event);
            }
            return;
        }
        // What came in during a stall is read before silence is judged.
        for earlier in std::mem::take(&mut life.deferred) {
            self.tracker_takes(epoch, earlier);
        }
        self.tracker_takes(epoch, sim_event);
    }

    fn tracker_takes(&mut self, epoch: u32, sim_event: SimEvent) {
        let input = match sim_event {
            SimEvent::ToTracker { link, message } => {
                let Some(there) = self.trackers.links.get_mut(&link).filter(|link| link.stands) else { return };
                there.heard = true;
                let furthest = furthest(&message)
                    .filter(|_| self.trackers.lives.get(&epoch).is_some_and(|life| !life.has_planned));
                if let Some(version) = furthest {
                    self.no_lost_work.hears(epoch, version);
                }
                TrackerInput::Message { link, message }
            }
            SimEvent::TrackerHears { input: TrackerInput::Closed { link, reason }, .. } => {
                let Some(there) = self.trackers.links.get_mut(&link).filter(|link| link.stands) else { return };
                there.stands = false;
                TrackerInput::Closed { link, reason }
            }
            SimEvent::TrackerHears { input, .. } => input,
            _ => TrackerInput::Wake,
        };
        let Some(life) = self.trackers.lives.get_mut(&epoch) else { return };
        life.tracker.handle(input, Millis(self.now));
        if life.took_over.is_none() && !life.tracker.waits_for_former() {
            let heard = self.trackers.links.values().filter(|link| link.epoch == epoch && link.stands && link.heard);
            life.took_over = Some(heard.map(|link| link.process).collect());
        }
        let outputs: Vec<TrackerOutput> = std::iter::from_fn(|| life.tracker.poll()).collect();
        for output in outputs {
            self.tracker_wants(epoch, output);
        }
        self.wake_tracker(epoch);
    }

    fn wake_tracker(&mut self, epoch: u32) {
        let Some(life) = self.trackers.lives.get_mut(&epoch) else { return };
        let Some(at) = life.tracker.wake_at() else { return };
        if life.wake <= self.now || at.0 < life.wake {
            life.wake = at.0;
            self.at(at.0, SimEvent::TrackerWakes { epoch });
        }
    }

    fn tracker_wants(&mut self, epoch: u32, output: TrackerOutput) {
        match output {
            TrackerOutput::Send { link, message } => {
                let life = self.trackers.lives.get_mut(&epoch);
                let found = life.map_or(Ok(()), |life| life.spares.sends(&message));
                self.violate(found);
                self.send_to_process(link, message);
            }
            TrackerOutput::Close { link } => {
                if let Some(there) = self.trackers.links.get_mut(&link) {
                    there.stands = false;
                    let process = there.process;
                    self.after(1, SimEvent::LinkDies { process, link });
                }
            }
            TrackerOutput::Probe { agent, .. } => {
                let gone = !self.processes.get(&(agent.0 as u32)).is_some_and(|there| there.alive);
                let delay = self.delay();
                self.after(delay, SimEvent::TrackerHears { epoch, input: TrackerInput::Probed { agent, gone } });
            }
            TrackerOutput::Kill { executor, .. } => {
                if let Ok(process) = executor.parse() {
                    let delay = self.draw(0..2000);
                    self.after(delay, SimEvent::Killed { process });
                }
            }
            TrackerOutput::Event(event) => self.tells(epoch, &event),
            TrackerOutput::Over(outcome) => self.over(epoch, outcome),
        }
    }

    /// What is not to be lost by a resize.
    fn note_survivors(&mut self, ranks: &[Option<Rank>]) {
        let living = self.processes.iter().filter(|(_, there)| there.alive && !there.frozen);
        let all = living.flat_map(|(id, there)| there.process.tasks().iter().map(move |task| (*id, task)));
        let trains = all.filter_map(|(id, task)| Some((id, task.position_known()?)));
        let newest = trains.clone().map(|(_, (lineage, _))| lineage).max();
        let survivors: Vec<(u32, Version)> = trains
            .filter(|(_, (lineage, _))| Some(*lineage) == newest)
            .map(|(id, (_, version))| (id, version))
            .collect();
        let lowest = survivors.iter().map(|(_, version)| *version).min();
        self.no_lost_work.shrunk(survivors.iter().map(|(_, version)| *version).max(), ranks);
        self.worlds.shrunk(lowest, survivors.into_iter().map(|(id, _)| id).collect());
    }

    /// All begin again at this version, which is the newest that could be.
    fn begins_again(&mut self, epoch: u32, at: (Lineage, Version)) {
        let is_alone = !self.trackers.has_followed(epoch) && self.begun_beside.is_empty();
        let has_parts = self.scenario.job.has_own || self.scenario.job.locals;
        let there: Vec<&SimProcess> = self.reached_by(epoch).collect();
        let held = there.iter().flat_map(|there| there.process.held().filter(|held| there.process.host().holds(held)));
        let held: Vec<Checkpoint> = held.filter(|_| is_alone && !has_parts).copied().collect();
        let found = self.no_lost_work.begun_again(at, held.iter());
        self.violate(found);
    }

    /// Whether the framework has said that the rank's task goes.
    fn leaves(&self, rank: Rank) -> bool {
        let mut all = self.processes.values().flat_map(|there| there.process.tasks());
        all.any(|task| task.id.rank == rank && self.framework.told.contains(&task.of.rank.0))
    }

    fn tells(&mut self, epoch: u32, event: &Event) {
        self.say(|| format!("tracker {epoch}: {event:?}"));
        match event {
            Event::RankLost { .. } => self.tally.losses += 1,
            Event::ViewMade { .. } => self.tally.views += 1,
            Event::AgentLost { agent, .. } => {
                // What it holds counts again when it has spoken.
                let its = |link: &&mut TrackerLink| link.epoch == epoch && u64::from(link.process) == agent.0;
                self.trackers.links.values_mut().filter(its).for_each(|link| link.heard = false);
            }
            Event::Resized { ranks, world, .. } => {
                self.tally.resized += 1;
                // A life that has planned nothing yet may know as little of the new world as of the old one.
                self.has_lost_one &= !self.trackers.lives.get(&epoch).is_some_and(|life| life.has_planned);
                self.tally.grown += u32::from(*world as usize > ranks.len());
                let leave = (0..).map(Rank).zip(ranks).filter(|(_, next)| next.is_none()).map(|(rank, _)| rank);
                let leave: Vec<Rank> = leave.filter(|rank| self.leaves(*rank)).collect();
                let found = self.worlds.resized(epoch, ranks, *world, leave.len(), self.now);
                self.violate(found);
                self.note_survivors(ranks);
                if self.scenario.job.defect == Some(Defect::EndsUnreleased) {
                    for task in self.framework.leaving.clone() {
                        self.released(epoch, Task(task), Attempt { stage: u32::MAX, task: u32::MAX });
                    }
                }
            }
            Event::RolledBack { lineage, version, .. } => {
                if self.trackers.has_followed(epoch) {
                    self.begun_beside.insert(*lineage);
                }
                let there: Vec<u32> = self.reached_by(epoch).map(|there| there.process.number()).collect();
                // Where ranks have own models, a version of which one is lost is none that could be begun from.
                let held = self.own_models_held(epoch, &BTreeSet::new());
                let could_be = |entered| !self.scenario.job.has_own || self.own_models.is_whole_at(&held, entered);
                let found = self.worlds.begun_again(*version, |process| there.contains(&process), could_be);
                self.violate(found);
                self.begins_again(epoch, (*lineage, *version));
            }
            Event::TaskReleased { index, attempt, .. } => self.released(epoch, *index, *attempt),
            Event::SpareTook { .. } => self.tally.spares += 1,
            Event::HookAgreed { hooked, .. } => self.tally.hooked = *hooked,
            _ => {}
        }
        let Some(life) = self.trackers.lives.get_mut(&epoch) else { return };
        life.has_planned |= matches!(event, Event::PlanMade { .. });
        let found = life.spares.event(event, epoch == 1);
        let found =
            found.and_then(|()| life.monotony.event(event)).and_then(|()| self.no_lost_work.event(epoch, event));
        self.violate(found);
    }
}

/// The highest version that an agent has heard of when it registers.
fn furthest(message: &AgentMessage) -> Option<Version> {
    let AgentMessage::Register(registration) = message else { return None };
    let versions = registration.status.ranks.iter().filter_map(|reported| match reported.state {
        RankState::At(at) | RankState::Finished { at, .. } => Some(at.version),
        RankState::Fresh => None,
    });
    versions.max()
}
