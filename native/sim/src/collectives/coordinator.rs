//! The tracker's part, in short: who is there, the view, the standings, the plan. The tracker itself is driven by
//! [`crate::world`].

use super::World;
use crate::collectives::rank::Life;
use rejoin_protocol::collective::{Extent, Plan};
use rejoin_protocol::ids::{AgentId, Attempt, Generation, Incarnation, Lineage, Phase, Position, Rank, Version};
use rejoin_protocol::message::{Plan as WholePlan, RankStanding, RankState};
use rejoin_protocol::view::{AgentAddress, Seat, SeatState, View};
use std::collections::BTreeMap;

pub(crate) struct Coordinator {
    number: u32,
    fresh: BTreeMap<usize, Incarnation>,
    standings: BTreeMap<usize, (Version, Vec<Extent>)>,
    planned: bool,
    /// Nobody that has died was beyond this version; logs are kept until all are.
    ceiling: Option<Version>,
    world: usize,
}

impl Coordinator {
    pub(crate) fn new(world: usize) -> Self {
        Coordinator {
            number: 0,
            fresh: BTreeMap::new(),
            standings: BTreeMap::new(),
            planned: false,
            ceiling: None,
            world,
        }
    }

    pub(crate) fn lost(&mut self, rank: usize) {
        self.fresh.remove(&rank);
    }

    pub(crate) fn joined(&mut self, rank: usize, incarnation: Incarnation) {
        self.fresh.insert(rank, incarnation);
    }

    pub(crate) fn is_fresh(&self, rank: usize) -> bool {
        self.fresh.contains_key(&rank)
    }

    fn generation(&self) -> Generation {
        Generation { epoch: 1, number: self.number }
    }
}

impl World {
    pub(crate) fn start_all(&mut self) {
        for rank in 0..self.coordinator.world {
            self.coordinator.joined(rank, Incarnation(0));
        }
        self.coordinator.number = 1;
        self.plan();
        self.settle();
    }

    /// The membership has changed, or frames were lost.
    pub(crate) fn new_view(&mut self) {
        self.coordinator.number += 1;
        self.coordinator.standings.clear();
        self.coordinator.planned = false;
        let generation = self.coordinator.generation();
        for (rank, _) in self.lives.iter().enumerate().filter(|(_, life)| life.is_some()) {
            self.views.insert(rank, generation);
        }
    }

    /// A rank's agent hears what was sent to it last.
    pub(crate) fn hear(&mut self, rank: usize) {
        if let Some(generation) = self.views.remove(&rank) {
            let present: Vec<bool> = self.lives.iter().map(Option::is_some).collect();
            let Some(life) = self.lives[rank].as_mut() else { return };
            let held = life.hears_view(generation, &present, self.mutant);
            if generation == self.coordinator.generation() {
                self.coordinator.standings.insert(rank, (life.participant.version(), held));
            }
            self.plan();
        } else if let Some((generation, plan)) = self.plans.remove(&rank) {
            let incarnations = self.incarnations.clone();
            let Some(life) = self.lives[rank].as_mut() else { return };
            let fetches = life.hears_plan(plan, &incarnations);
            let incarnation = Incarnation(self.incarnations[rank]);
            self.fetches.extend(fetches.into_iter().map(|fetch| (rank, incarnation, fetch)));
            debug_assert!(generation <= self.coordinator.generation());
        }
        self.settle();
    }

    /// When all who live have answered: newcomers start at their lowest version, and everybody gets the table.
    fn plan(&mut self) {
        let living = self.lives.iter().flatten().count();
        if self.coordinator.planned || self.coordinator.standings.len() < living {
            return;
        }
        if living == 0 && self.coordinator.fresh.len() < self.coordinator.world {
            return;
        }
        self.coordinator.planned = true;
        let generation = self.coordinator.generation();
        let lowest = self.coordinator.standings.values().map(|(version, _)| *version).min().unwrap_or_default();
        let highest = self.coordinator.standings.values().map(|(version, _)| *version).max().unwrap_or_default();
        if living > 0 && !self.coordinator.fresh.is_empty() {
            self.coordinator.ceiling = self.coordinator.ceiling.max(Some(Version(highest.0 + 2)));
        }
        let address = |rank: usize| AgentAddress {
            agent: AgentId(rank as u64),
            address: ([127, 0, 0, 1], 1).into(),
            host: "host".into(),
        };
        let table = self.coordinator.standings.iter().map(|(rank, (version, results))| RankStanding {
            rank: Rank(*rank as u32),
            incarnation: Incarnation(self.incarnations[*rank]),
            attempt: Attempt::default(),
            state: RankState::At(Position { lineage: Lineage(0), version: *version }),
            oldest: Version(0),
            results: results.clone(),
            board: None,
        });
        let whole = WholePlan {
            generation,
            lineage: Lineage(0),
            newcomers: Vec::new(),
            table: table.collect(),
            holders: Vec::new(),
            reason: String::new(),
        };
        for (rank, incarnation) in std::mem::take(&mut self.coordinator.fresh) {
            self.lives[rank] = Some(Life::new(rank, incarnation, lowest, self.program.models[lowest.0 as usize]));
        }
        let seats = (0..self.lives.len()).map(|rank| Seat {
            incarnation: Some(Incarnation(self.incarnations[rank])),
            state: match self.lives[rank] {
                Some(_) => SeatState::Alive { agent: AgentId(rank as u64) },
                None => SeatState::Vacant,
            },
            planned: true,
        });
        let view = View {
            generation,
            branches: Vec::new(),
            has_begun: true,
            terms: None,
            lineage: Lineage(0),
            seats: seats.collect(),
            agents: (0..self.lives.len()).map(address).collect(),
        };
        for rank in 0..self.lives.len() {
            if self.lives[rank].is_some() {
                let plan = Plan::derive(&whole, &view, AgentId(rank as u64), "host");
                self.plans.insert(rank, (generation, plan));
            }
        }
    }

    /// Everybody is there and beyond where anybody was.
    fn settle(&mut self) {
        let ceiling = self.coordinator.ceiling;
        let beyond = |life: &Life| ceiling.is_none_or(|ceiling| life.participant.version() > ceiling);
        if self.coordinator.planned && self.lives.iter().all(|life| life.as_ref().is_some_and(beyond)) {
            self.coordinator.ceiling = None;
            for life in self.lives.iter_mut().flatten() {
                life.participant.release();
            }
        }
    }

    /// A result comes from the first holder who lives.
    pub(crate) fn fetch(&mut self) -> Result<(), crate::Violation> {
        if self.fetches.is_empty() {
            return Ok(());
        }
        let index = self.rng.usize(..self.fetches.len());
        let (rank, incarnation, mut fetch) = self.fetches.swap_remove(index);
        if self.incarnations[rank] != incarnation.0 || self.lives[rank].is_none() {
            return Ok(());
        }
        let entry = fetch.holders.iter().find_map(|(at, _)| {
            let life = self.lives[at.agent.0 as usize].as_ref()?;
            let is_previous = fetch.phase != Phase::Version(life.participant.version());
            if is_previous && self.mutant == Some(super::Mutant::NothingOfThePrevious) {
                return None;
            }
            life.participant.log().entry(fetch.phase, fetch.from).cloned()
        });
        let late = self.mutant == Some(super::Mutant::LateResults);
        if let (Some(entry), Some(life)) = (&entry, self.lives[rank].as_mut()) {
            let attempt = if late { life.participant.attempt().unwrap_or_default() } else { fetch.generation };
            life.participant
                .fetched(attempt, fetch.phase, fetch.from, entry.clone())
                .map_err(|error| crate::Violation::new("Replay", error.to_string()))?;
            fetch.from += 1;
        }
        // A holder that is gone makes a new plan; until then it is tried again.
        let wanted =
            late || self.lives[rank].as_ref().is_some_and(|l| l.participant.attempt() <= Some(fetch.generation));
        if fetch.from < fetch.to && wanted && (entry.is_some() || !late) {
            self.fetches.push((rank, incarnation, fetch));
        }
        Ok(())
    }
}
