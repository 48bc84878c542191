//! Collectives in a seeded world: ranks that die, come back and lose links while frames, views, plans and results are under
//! way in any order. Each rank is a [`Participant`] of production, frames are judged by production's
//! [`frame::judge`](rejoin_protocol::collective::frame::judge), plans are derived by production's [`Plan::derive`]; what
//! stands in for the tracker is [`coordinator`].
//!
//! Checked are Agreement and Replay (every result is the one computed without any network), Identity (ranks that make the same
//! calls never see a mismatch), Progress (after the last fault all finish) and Bounded (without faults nobody keeps more than
//! two versions).

mod coordinator;
mod program;
mod rank;

use crate::Violation;
use coordinator::Coordinator;
use fastrand::Rng;
use program::Program;
use rank::Life;
use rejoin_protocol::collective::{Fetch, Plan};
use rejoin_protocol::ids::{Generation, Incarnation};
use rejoin_protocol::wire::Header;
use std::collections::{BTreeMap, VecDeque};

#[cfg(doc)]
use rejoin_protocol::collective::Participant;

/// Steps with faults, and steps in which everything has to heal.
const FAULT_STEPS: u32 = 4_000;
const HEAL_STEPS: u32 = 400_000;

/// A defect built into the driver on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Frames of older attempts are taken.
    OldAttempts,
    /// A view is answered without freezing.
    NoFreeze,
    /// Results that were asked for under an older plan count under the newest one.
    LateResults,
    /// Nothing is kept of the version before the present one.
    NothingOfThePrevious,
}

/// What a run came to.
#[derive(Debug, Default)]
pub struct Tally {
    /// Random steps.
    pub steps: u32,
    /// Deaths.
    pub deaths: u32,
    /// Links cut.
    pub cuts: u32,
    /// Results handed out from a log.
    pub replayed: u32,
    /// Collectives run to their end, at all ranks.
    pub run: u32,
}

/// One way of the network, in order.
type Wire = VecDeque<(Header, u64)>;

pub(crate) struct World {
    rng: Rng,
    mutant: Option<Mutant>,
    program: Program,
    lives: Vec<Option<Life>>,
    incarnations: Vec<u32>,
    /// On their way, and arrived, by sender and receiver.
    wires: BTreeMap<(usize, usize), Wire>,
    inboxes: BTreeMap<(usize, usize), Wire>,
    views: BTreeMap<usize, Generation>,
    plans: BTreeMap<usize, (Generation, Plan)>,
    fetches: Vec<(usize, Incarnation, Fetch)>,
    coordinator: Coordinator,
    tally: Tally,
    faults: bool,
}

/// Runs a seed.
///
/// # Errors
/// The first promise that was broken.
pub fn run(seed: u64, mutant: Option<Mutant>, faults: bool) -> Result<Tally, Violation> {
    let mut rng = Rng::with_seed(seed);
    let world = rng.usize(1..6);
    let program = Program::new(&mut rng, world);
    let mut this = World {
        rng,
        mutant,
        program,
        lives: (0..world).map(|_| None).collect(),
        incarnations: vec![0; world],
        wires: BTreeMap::new(),
        inboxes: BTreeMap::new(),
        views: BTreeMap::new(),
        plans: BTreeMap::new(),
        fetches: Vec::new(),
        coordinator: Coordinator::new(world),
        tally: Tally::default(),
        faults,
    };
    this.start_all();
    while !this.is_over() {
        this.tally.steps += 1;
        if this.tally.steps > FAULT_STEPS + HEAL_STEPS {
            return Err(Violation::new("Progress", format!("stuck: {}", this.describe())));
        }
        this.step()?;
    }
    Ok(this.tally)
}

impl World {
    fn step(&mut self) -> Result<(), Violation> {
        let rank = self.rng.usize(..self.lives.len());
        if self.faults && self.tally.steps < FAULT_STEPS {
            match self.rng.u32(..400) {
                0 | 1 => self.die(rank),
                2 => self.cut(rank),
                _ => {}
            }
        }
        match self.rng.u32(..10) {
            0..=3 => self.go(rank),
            4..=6 => {
                self.deliver();
                Ok(())
            }
            7 => {
                self.hear(rank);
                Ok(())
            }
            8 => self.fetch(),
            _ => {
                if self.rng.u32(..8) == 0 {
                    self.come_back(rank);
                }
                Ok(())
            }
        }
    }

    fn deliver(&mut self) {
        let full: Vec<(usize, usize)> = self.wires.iter().filter(|(_, w)| !w.is_empty()).map(|(at, _)| *at).collect();
        if full.is_empty() {
            return;
        }
        let at = full[self.rng.usize(..full.len())];
        if let Some(frame) = self.wires.get_mut(&at).and_then(|wire| wire.pop_front()) {
            self.inboxes.entry(at).or_default().push_back(frame);
        }
    }

    /// Both ends lose what is in flight, and are told at different times.
    fn cut(&mut self, rank: usize) {
        let peer = self.rng.usize(..self.lives.len());
        if peer == rank || self.lives[rank].is_none() || self.lives[peer].is_none() {
            return;
        }
        self.tally.cuts += 1;
        for (from, to) in [(rank, peer), (peer, rank)] {
            self.wires.remove(&(from, to));
            if let Some(life) = self.lives[from].as_mut() {
                life.cut_line(to);
            }
        }
        self.new_view();
    }

    fn die(&mut self, rank: usize) {
        let planned = self.lives.iter().flatten().count();
        if planned < 2 || self.lives[rank].is_none() {
            return; // somebody has to hold what is needed
        }
        self.tally.deaths += 1;
        self.lives[rank] = None;
        self.views.remove(&rank);
        self.plans.remove(&rank);
        for peer in 0..self.lives.len() {
            // What it has sent may arrive still, from the first byte on.
            if let Some(wire) = self.wires.get_mut(&(rank, peer)) {
                let length = wire.len();
                wire.truncate(self.rng.usize(..=length));
            }
            self.wires.remove(&(peer, rank));
            self.inboxes.remove(&(peer, rank));
        }
        self.coordinator.lost(rank);
        self.new_view();
    }

    fn come_back(&mut self, rank: usize) {
        if self.lives[rank].is_none() && !self.coordinator.is_fresh(rank) {
            self.incarnations[rank] += 1;
            self.coordinator.joined(rank, Incarnation(self.incarnations[rank]));
            for peer in 0..self.lives.len() {
                for at in [(rank, peer), (peer, rank)] {
                    self.wires.remove(&at);
                    self.inboxes.remove(&at);
                }
            }
            self.new_view();
        }
    }

    fn is_over(&self) -> bool {
        self.lives.iter().all(|life| life.as_ref().is_some_and(|life| life.finished))
    }

    fn describe(&self) -> String {
        let lives = self.lives.iter().enumerate().map(|(rank, life)| match life {
            Some(life) => format!("[{rank}: {}]", life.describe()),
            None => format!("[{rank}: gone]"),
        });
        lives.collect::<Vec<_>>().join(" ") + &format!(" tally {:?}", self.tally)
    }
}
