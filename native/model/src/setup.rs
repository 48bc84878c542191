//! What is checked: the job, and how much goes wrong.

use rejoin_protocol::ids::{Lane, Lineage, Rank, Version};
use rejoin_protocol::start::{JobStart, Origin};
use rejoin_sim::ranks::{Defect, Job, Plane, Program};
use std::collections::BTreeSet;

/// A small job, and the faults that it may meet at any point.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Ranks.
    pub world: u32,
    /// Tasks more than ranks, which stand by.
    pub spares: u32,
    /// The fewest ranks that the world may shrink to: processes that die are never started again then.
    pub least: Option<u32>,
    /// Tasks of such a world that stand by when it begins, and by which it may grow.
    pub joiners: u32,
    /// Boot collectives; a root, or none for an allreduce.
    pub boot: Vec<Option<u32>>,
    /// The collectives of each version.
    pub versions: Vec<Vec<Option<u32>>>,
    /// What the job starts from.
    pub start: JobStart,
    /// What carries them. Beside collectives, the first one of each phase goes over channels.
    pub plane: Plane,
    /// Processes that die.
    pub crashes: u8,
    /// Which processes may die, by number: those after the first of all ranks are restarts. `None` for any.
    pub victims: Option<Vec<u32>>,
    /// Processes that are declared lost and live on.
    pub zombies: u8,
    /// Data links that break between the living.
    pub cuts: u8,
    /// Tasks of an elastic world of which the framework says that they go for good, and whose processes end when the
    /// tracker has said that the others go on without them.
    pub leaves: u8,
    /// Deaths of the tracker, which comes back without what it knew.
    pub tracker_deaths: u8,
    /// Processes end when they have the end, which the framework reports; and the tracker may
    /// die after it has said it.
    pub ends: bool,
    /// Faults may fire from the rendezvous on, and not only when all have joined.
    pub from_rendezvous: bool,
    /// A rank whose last call is another one.
    pub differs: Option<Rank>,
    /// A defect of the driver.
    pub defect: Option<Defect>,
    /// Orders are left out of which `docs/testing.md` says that they make no difference.
    pub reduced: bool,
}

impl Setup {
    /// Three ranks, an allreduce and a broadcast from rank 1 in one version, no faults.
    pub fn two_collectives() -> Self {
        Setup {
            world: 3,
            spares: 0,
            least: None,
            joiners: 0,
            boot: Vec::new(),
            versions: vec![vec![None, Some(1)]],
            start: JobStart::Fresh,
            plane: Plane::Collectives,
            crashes: 0,
            victims: None,
            zombies: 0,
            cuts: 0,
            leaves: 0,
            tracker_deaths: 0,
            ends: false,
            from_rendezvous: false,
            differs: None,
            defect: None,
            reduced: false,
        }
    }

    /// Three ranks, an allreduce in one version, no faults.
    pub fn one_collective() -> Self {
        Setup { versions: vec![vec![None]], ..Setup::two_collectives() }
    }

    /// Three ranks, an allreduce, a checkpoint, and another allreduce.
    pub fn two_versions() -> Self {
        Setup { versions: vec![vec![None], vec![None]], ..Setup::two_collectives() }
    }

    /// Three ranks and five allreduces with checkpoints between them: of the last two versions a rank
    /// is in the tracker hears later.
    pub fn five_versions() -> Self {
        Setup { versions: vec![vec![None]; 5], ..Setup::two_collectives() }
    }

    /// Three ranks, a broadcast from rank 0, a checkpoint, and an allreduce: a rank that needs nothing of
    /// the others enters version 1 alone.
    pub fn root_ahead() -> Self {
        Setup { versions: vec![vec![Some(0)], vec![None]], ..Setup::two_collectives() }
    }

    /// Three ranks, a boot allreduce and an allreduce.
    pub fn boot_and_one() -> Self {
        Setup { boot: vec![None], versions: vec![vec![None]], ..Setup::two_collectives() }
    }

    /// Two ranks with channels and collectives: of each of two versions one call goes over channels and one is hooked.
    pub fn both_lanes() -> Self {
        Setup {
            world: 2,
            versions: vec![vec![None, None], vec![None, None]],
            plane: Plane::Both,
            ..Setup::two_collectives()
        }
    }

    /// What data links carry.
    pub(crate) fn lanes(&self) -> &'static [Lane] {
        match self.plane {
            Plane::Channels => &[Lane::Channels],
            Plane::Collectives => &[Lane::Collectives],
            Plane::Both => &[Lane::Channels, Lane::Collectives],
        }
    }

    /// Two ranks and a spare: an allreduce, a checkpoint, and another allreduce.
    pub fn with_a_spare() -> Self {
        Setup { world: 2, spares: 1, ..Setup::two_versions() }
    }

    /// Three ranks, an allreduce and a checkpoint and another one, in a world that may shrink to two.
    pub fn shrinking() -> Self {
        Setup { least: Some(2), ..Setup::two_versions() }
    }

    /// Two ranks, an allreduce and a checkpoint and another one, in a world that may grow to three.
    pub fn growing() -> Self {
        Setup { world: 2, least: Some(2), joiners: 1, ..Setup::two_versions() }
    }

    /// What the job may end with: the world may have become any other one at any version.
    pub(crate) fn models(&self) -> BTreeSet<u128> {
        let (mut all, mut seen) = (BTreeSet::new(), BTreeSet::new());
        self.models_from((self.world, Version(0), 1), &mut seen, &mut all);
        all
    }

    fn models_from(
        &self,
        (world, from, model): (u32, Version, u64),
        seen: &mut BTreeSet<(u32, Version, u64)>,
        all: &mut BTreeSet<u128>,
    ) {
        if !seen.insert((world, from, model)) {
            return;
        }
        let program = self.job().program.in_world(world, from, model);
        all.insert(u128::from(program.model(program.end())));
        for other in self.least.unwrap_or(world)..=self.most() {
            for version in (from.0..program.versions()).map(Version) {
                self.models_from((other, version, program.model(version)), seen, all);
            }
        }
    }

    /// How many ranks there may be.
    pub(crate) fn most(&self) -> u32 {
        self.world + self.joiners
    }

    /// How many tasks the framework runs.
    pub(crate) fn tasks(&self) -> u32 {
        self.most() + self.spares
    }

    /// The same with so many deaths.
    pub fn crashes(self, crashes: u8) -> Self {
        Setup { crashes, ..self }
    }

    /// The same, going on from version 1 of an earlier run: durable, or handed over.
    pub fn goes_on(self, start: fn(Origin) -> JobStart) -> Self {
        let origin = self.job().program.origin(Version(1), Lineage(0), Lineage(1));
        Setup { start: start(origin), ..self }
    }

    /// The same with fewer orders.
    pub fn reduced(self) -> Self {
        Setup { reduced: true, ..self }
    }

    /// The same with this defect.
    pub fn defect(self, defect: Defect) -> Self {
        Setup { defect: Some(defect), ..self }
    }

    pub(crate) fn job(&self) -> Job {
        let mut program = Program::new(self.world, &self.boot, &self.versions);
        program.differs = self.differs;
        if self.plane == Plane::Both {
            program = program.sending_first();
        }
        let is_elastic = self.least.is_some();
        Job { is_elastic, ..Job::new(program, self.plane, self.defect) }
    }
}
