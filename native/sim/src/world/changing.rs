//! A job of many ranks whose world grows and shrinks, step by step: for a benchmark, which takes the time of steps.

use super::{World, HEAL_MILLIS};
use crate::invariants::{progress, Violation};
use crate::ranks::{Job, Plane, Program};
use crate::scenario::Scenario;
use fastrand::Rng;
use rejoin_protocol::ids::Incarnation;
use rejoin_protocol::resize::Elastic;

/// More than it makes.
const VERSIONS: usize = 1000;

/// Such a job.
pub struct Changing {
    world: World,
    /// The highest incarnation of the world before.
    former: Option<Incarnation>,
}

impl Changing {
    /// A job of so many processes. The world begins without some of them, which stand by, and takes them in.
    pub fn begin(processes: u32, stand_by: u32) -> Changing {
        // Versions are without collectives: those aren't what is measured.
        let mut job =
            Job::new(Program::new(processes - stand_by, &[], &vec![vec![]; VERSIONS]), Plane::Collectives, None);
        job.is_elastic = true;
        let mut scenario = Scenario::calm(job, 2, Rng::with_seed(u64::from(processes)));
        // Few versions until the world changes.
        scenario.compute_millis = 400;
        scenario.elastic = Some(Elastic {
            min: 1,
            max: processes,
            timeout_millis: 1_000,
            // All that come are there when one has stood by for some time.
            interval_millis: 1_000,
            most_resizes: None,
            own_may_be_lost: false,
        });
        let mut world = World::new(scenario, false);
        world.begin(100);
        (0..stand_by).for_each(|_| world.slot_comes());
        Changing { world, former: None }
    }

    /// So many processes die at once, and nobody starts them again.
    pub fn kill(&mut self, processes: u32) {
        let alive = self.world.processes.iter().rev().filter(|(_, there)| there.alive).map(|(id, _)| *id);
        let doomed: Vec<u32> = alive.take(processes as usize).collect();
        doomed.into_iter().for_each(|process| self.world.kill_for_good(process));
    }

    /// Goes on until the tracker has decided that the world becomes another one.
    ///
    /// # Errors
    /// The first promise that was broken.
    pub fn decides(&mut self) -> Result<(), Violation> {
        let before = self.world.tally.resized;
        while self.world.tally.resized == before {
            self.step()?;
        }
        let ends = self.world.processes.values().flat_map(|there| there.ends().map(|end| end.incarnation));
        self.former = ends.max();
        Ok(())
    }

    /// Goes on until so many ranks of the new world have what they start from.
    ///
    /// # Errors
    /// As [`Changing::decides`].
    pub fn starts(&mut self, ranks: u32) -> Result<(), Violation> {
        let mut started = 0;
        while started < ranks {
            started += self.step()?;
        }
        Ok(())
    }

    /// One event; how many ranks of the new world have started with it.
    fn step(&mut self) -> Result<u32, Violation> {
        let (this, former) = (&mut self.world, self.former);
        let Some(((at, _), sim_event)) = this.queue.pop_first() else {
            return Err(progress::ran_dry(&this.describe()));
        };
        this.now = at;
        let whose = sim_event.process();
        let new = |this: &World| {
            let there = whose.and_then(|process| this.processes.get(&process));
            there.map_or(0, |there| there.ends().filter(|end| Some(end.incarnation) > former).count()) as u32
        };
        let before = new(this);
        this.happen(sim_event);
        if let Some(violation) = this.violation.take() {
            return Err(violation);
        }
        progress::check(at, HEAL_MILLIS, || this.describe())?;
        Ok(new(this).saturating_sub(before))
    }
}
