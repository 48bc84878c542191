//! All that there is of a world, and what everything that happens in it needs.

use super::framework::Framework;
use super::network::Network;
use super::sim_event::SimEvent;
use super::sim_process::{Pace, SimProcess};
use super::tally::Tally;
use super::trackers::Trackers;
use crate::invariants::{
    choices::Choices, no_lost_work::NoLostWork, own_models::OwnModels, samples::Samples, worlds::Worlds, Monotony,
    Violation,
};
use crate::ranks::{Memory, Try};
use crate::scenario::Scenario;
use rejoin_protocol::error::Error;
use rejoin_protocol::ids::{Lineage, Phase, Rank};
use rejoin_protocol::tracker::JobResult;
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct World {
    pub(super) scenario: Scenario,
    pub(super) now: u64,
    pub(super) sequence: u64,
    pub(super) queue: BTreeMap<(u64, u64), SimEvent>,
    pub(super) trackers: Trackers,
    pub(super) processes: BTreeMap<u32, SimProcess>,
    pub(super) network: Network,
    pub(super) memory: Memory,
    pub(super) framework: Framework,
    /// The tracker dies when the job ends, and comes back after so long.
    pub(super) dies_at_end: Option<u64>,
    /// The process of rank 0 dies when it has chosen next.
    pub(super) kills_who_chooses: bool,
    /// How long ranks that are slow pause between two calls.
    pub(super) slow: BTreeMap<Rank, u64>,
    pub(super) fired: BTreeSet<&'static str>,
    /// Since the world changed last, a process with a task has died or was out of reach, a task was replaced, or a life
    /// of the tracker ended that may have begun the job with others: who is left may not know all.
    pub(super) has_lost_one: bool,
    /// A rank hasn't repeated itself, and another could know.
    pub(super) lied: bool,
    /// Lineages that a life of the tracker has begun when a newer one had begun already, which knows nothing of them.
    pub(super) begun_beside: BTreeSet<Lineage>,
    pub(super) outcome: Option<Result<JobResult, Error>>,
    pub(super) over_at: u64,
    pub(super) monotony: Monotony,
    pub(super) no_lost_work: NoLostWork,
    pub(super) worlds: Worlds,
    pub(super) choices: Choices,
    pub(super) own_models: OwnModels,
    pub(super) samples: Samples,
    pub(super) violation: Option<Violation>,
    pub(super) tally: Tally,
    pub(super) verbose: bool,
}

impl World {
    pub(super) fn new(scenario: Scenario, verbose: bool) -> World {
        let world = scenario.job.program.world;
        let no_lost_work = NoLostWork::new(world, scenario.job.locals || scenario.job.has_own);
        let no_lost_work = match scenario.start.origin() {
            Some(origin) => no_lost_work.from(origin.checkpoint.version),
            None => no_lost_work.begun_alone(scenario.job.program.begins_alone()),
        };
        let own_models = OwnModels::new(scenario.elastic.is_some_and(|elastic| elastic.own_may_be_lost));
        let (own_models, worlds) = match scenario.start.origin() {
            Some(origin) => (own_models.from(origin), Worlds::new(world, scenario.elastic).from(origin)),
            None => (own_models, Worlds::new(world, scenario.elastic)),
        };
        World {
            now: 0,
            sequence: 0,
            queue: BTreeMap::new(),
            trackers: Trackers::default(),
            processes: BTreeMap::new(),
            network: Network::default(),
            memory: Memory::default(),
            framework: Framework::new(scenario.first_tasks(), scenario.tasks()),
            dies_at_end: None,
            kills_who_chooses: false,
            slow: BTreeMap::new(),
            fired: BTreeSet::new(),
            has_lost_one: false,
            lied: false,
            begun_beside: BTreeSet::new(),
            outcome: None,
            over_at: 0,
            monotony: Monotony::default(),
            no_lost_work,
            worlds,
            samples: Samples::default(),
            choices: Choices::default(),
            own_models,
            violation: None,
            tally: Tally::default(),
            verbose,
            scenario,
        }
    }

    pub(super) fn at(&mut self, at: u64, sim_event: SimEvent) {
        self.sequence += 1;
        self.queue.insert((at.max(self.now), self.sequence), sim_event);
    }

    pub(super) fn after(&mut self, millis: u64, sim_event: SimEvent) {
        self.at(self.now + millis, sim_event);
    }

    pub(super) fn draw(&mut self, among: impl std::ops::RangeBounds<u64>) -> u64 {
        self.scenario.rng.u64(among)
    }

    pub(super) fn delay(&mut self) -> u64 {
        let most = self.scenario.delay_millis;
        // Mostly quick, sometimes slow.
        let most = if self.draw(0..4) == 0 { most } else { most.min(2) };
        self.draw(0..=most)
    }

    pub(super) fn say(&self, text: impl FnOnce() -> String) {
        if self.verbose {
            println!("{:>8} ms  {}", self.now, text());
        }
    }

    pub(super) fn violate(&mut self, found: Result<(), Violation>) {
        if let (Err(violation), None) = (found, &self.violation) {
            self.violation = Some(violation);
        }
    }

    pub(super) fn describe(&self) -> String {
        let all = self.processes.iter().filter(|(_, there)| there.alive);
        let all = all.map(|(id, there)| format!("[process {id} frozen {} {}]", there.frozen, there.process.describe()));
        format!("at {} ms: {} {}", self.now, all.collect::<Vec<_>>().join(" "), self.framework.describe())
    }

    /// A process, or a task in it, dies or is out of reach.
    pub(super) fn may_lose(&mut self, process: u32) {
        let tasks = self.processes.get(&process).into_iter().flat_map(|there| there.process.tasks());
        self.has_lost_one |= tasks.into_iter().count() > 0;
    }

    /// A survivor could know that a rank says other things in this phase than before.
    pub(super) fn could_know(&self, rank: Rank, phase: Phase) -> bool {
        let living = self.processes.values().filter(|there| there.alive && !there.frozen);
        living.flat_map(|there| there.process.tasks()).any(|task| task.id.rank != rank && task.knows(rank, phase))
    }

    pub(super) fn paces(&mut self, process: u32, id: Try, change: impl FnOnce(&mut Pace)) {
        if let Some(there) = self.processes.get_mut(&process) {
            change(there.pace(id));
        }
    }
}
