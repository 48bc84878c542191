//! What a seed stands for: the job, the cluster, and what goes wrong. Each family draws another
//! kind of job, or of trouble.

use crate::ranks::{Job, Plane, Program, Topology, FEWEST_ONE_BY_ONE};
use fastrand::Rng;
use rejoin_protocol::host::ONE_BY_ONE;
use rejoin_protocol::ids::{Lineage, Rank, Version};
use rejoin_protocol::resize::Elastic;
use rejoin_protocol::start::JobStart;

/// One thing that goes wrong. The rank that it fires at is drawn then, among those that can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL of so many processes.
    Kill(u32),
    /// SIGKILL of one, and there is no slot for its tasks any more.
    KillForGood,
    /// The framework says that a process's slot is gone, and ends it a moment later.
    SlotGoes,
    /// The framework says of so many at once that their slots go, and ends each when its tasks are released, or after
    /// a time.
    SlotsLeave(u32),
    /// There is a slot for a task that had none: one that was killed for good, or one that is new.
    SlotComes,
    /// SIGKILL of all.
    KillAll,
    /// A task throws; its process stays.
    Throw,
    /// SIGSTOP, and SIGCONT after so many milliseconds: before or after it is declared lost.
    Freeze(u64),
    /// A data link is reset.
    CutLink,
    /// A connection to the tracker is reset.
    CutTracker,
    /// Two processes can't reach each other for so long.
    PartData(u64),
    /// A process and the tracker can't reach each other for so long.
    PartTracker(u64),
    /// The tracker does nothing for so long.
    StallTracker(u64),
    /// The tracker dies, and its next life begins after so long.
    KillTracker(u64),
    /// The same, a moment after it has said that the job is over: some may have been notified, and others not.
    KillTrackerAtEnd(u64),
    /// The tracker's next life begins while the present one is still there, and is found by some for so long.
    SecondTracker(u64),
    /// A rank pauses up to so long between two calls from now on.
    Slow(u64),
    /// The framework starts a second task of a rank that lives.
    Duplicate,
    /// The framework says that a process is gone, which lives.
    DeclareLost,
    /// A process is killed, and the framework starts every task again; what runs goes on running.
    StageRestart,
    /// The framework is about to take hosts away, and wants a checkpoint before its turn.
    WantCheckpoint,
    /// SIGKILL of the process of rank 0 when it has chosen next: others may have heard of it, and others not.
    KillWhoChooses,
    /// The user cancels.
    Cancel,
}

impl Fault {
    fn is_a_trackers_death(self) -> bool {
        matches!(self, Fault::KillTracker(_) | Fault::KillTrackerAtEnd(_) | Fault::SecondTracker(_))
    }
}

/// What kind of job a seed draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// XGBoost's channels: deaths, throws, freezes, broken links, stalls, restarts of the stage,
    /// own state, limits, cancels.
    Mixed,
    /// Channels, and a rank that doesn't repeat itself after its restart.
    Liar,
    /// Channels, and tasks that throw in quick succession while messages are slow.
    Cascade,
    /// Channels, and a tracker that dies and comes back.
    Tracker,
    /// Rejoin's own collectives.
    Job,
    /// Channels, and beside them collectives where all ranks agree on the hook; everything that
    /// goes wrong in the others.
    Hook,
    /// The jobs of mixed, hook and job, with tasks that stand by.
    Spares,
    /// Collectives, in every other job with channels beside them, in a world that shrinks when a rank is gone for good,
    /// and grows when slots come.
    Elastic,
}

impl Family {
    /// All of them, with their names on the command line.
    pub const ALL: [(&'static str, Family); 8] = [
        ("mixed", Family::Mixed),
        ("liar", Family::Liar),
        ("cascade", Family::Cascade),
        ("tracker", Family::Tracker),
        ("job", Family::Job),
        ("hook", Family::Hook),
        ("spares", Family::Spares),
        ("elastic", Family::Elastic),
    ];
}

/// Executors that are there before any task, and are replaced when they die.
#[derive(Clone, Copy, Debug)]
pub struct Executors {
    /** How many. */
    pub count: u32,
    /** Tasks at once in each. */
    pub slots: u32,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What the ranks do.
    pub job: Job,
    /// So many tasks more than ranks, which stand by.
    pub spares: u32,
    /// Within which bounds the world may shrink and grow.
    pub elastic: Option<Elastic>,
    /// Where tasks run; `None`: each in a process of its own.
    pub executors: Option<Executors>,
    /// Processes end with their tasks, as under `rejoin run`; otherwise they stay, as executors do.
    pub exits: bool,
    /// Processes share memory with those of their host: draws where each of them is, and whether it
    /// can open what others share.
    pub places: Option<Rng>,
    /// Of so many processes one can't be hooked; 0: none.
    pub hookless: u32,
    /// What it starts from. What is handed over, the processes have that are there first.
    pub start: JobStart,
    /// Computing between two calls takes up to this.
    pub compute_millis: u64,
    /// A message takes up to this.
    pub delay_millis: u64,
    /// Deaths of one rank that end the job.
    pub deaths_limit: u32,
    /// What the framework says of each death: whether it counts; `None`: nothing, and each does.
    pub framework_counts: Option<bool>,
    /// When and what.
    pub faults: Vec<(u64, Fault)>,
    /// For all draws in the run.
    pub rng: Rng,
}

/// Faults stop at this time; then everything has to heal.
pub const FAULTS_END_MILLIS: u64 = 6_000;

/// As good as no limit.
pub const NO_LIMIT: u32 = 1000;

impl Scenario {
    /// What this seed stands for.
    pub fn of(family: Family, seed: u64) -> Self {
        let mut this = match family {
            Family::Mixed => Scenario::mixed(seed),
            Family::Liar => Scenario::mixed(seed).lying(&mut Rng::with_seed(seed ^ 0x11a9)),
            Family::Cascade => Scenario::cascade(seed),
            Family::Tracker => Scenario::tracker(seed),
            Family::Job => Scenario::collectives(seed),
            Family::Hook => Scenario::hook(seed),
            Family::Spares => Scenario::spares(seed),
            Family::Elastic => Scenario::elastic(seed),
        };
        if matches!(family, Family::Job | Family::Hook | Family::Elastic) {
            this.chooses(seed);
        }
        // In every other run all versions are reported one by one, for there are few.
        this.job.one_by_one = if seed.is_multiple_of(2) { ONE_BY_ONE } else { FEWEST_ONE_BY_ONE };
        this
    }

    /// A job in which nothing goes wrong unless it is added, in processes of their own.
    pub fn calm(job: Job, delay_millis: u64, rng: Rng) -> Self {
        Scenario {
            job,
            spares: 0,
            elastic: None,
            executors: None,
            exits: false,
            places: None,
            hookless: 0,
            start: JobStart::Fresh,
            compute_millis: 29,
            delay_millis,
            deaths_limit: NO_LIMIT,
            framework_counts: None,
            faults: Vec::new(),
            rng,
        }
    }

    fn mixed(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let world = rng.u32(1..=5);
        let (versions, calls) = (rng.usize(1..=10), rng.usize(1..=4));
        let program =
            on_channels(&mut rng, Program::new(world, &vec![None; calls], &vec![vec![None; calls]; versions]));
        let mut faults: Vec<(u64, Fault)> = Vec::new();
        for _ in 0..rng.u32(0..=5) {
            let at = if rng.bool() { rng.u64(0..1250) } else { rng.u64(0..5000) };
            faults.push((at, of_executors(&mut rng)));
        }
        if rng.u32(0..10) == 0 {
            // The same again and again.
            let fault = of_executors(&mut rng);
            faults.extend((0..4).map(|nth| (1000 + nth * rng.u64(100..1500), fault)));
        }
        let mut job = Job::new(program, Plane::Channels, None);
        (job.locals, job.in_place) = (rng.u32(0..4) == 0, rng.bool());
        let delay_millis = delay(&mut rng);
        Scenario {
            executors: Some(executors(&mut rng, world)),
            compute_millis: rng.u64(2..120),
            deaths_limit: if rng.u32(0..12) == 0 { rng.u32(1..=3) } else { NO_LIMIT },
            framework_counts: framework_counts(seed),
            faults,
            ..Scenario::calm(job, delay_millis, rng)
        }
    }

    /// The same with ranks that don't repeat themselves when they are started again, and one death.
    fn lying(mut self, rng: &mut Rng) -> Self {
        let at = rng.u64(50..2500);
        self.faults = vec![(at, Fault::Kill(1))];
        (self.job.lies, self.job.locals, self.deaths_limit) = (true, false, NO_LIMIT);
        self
    }

    /// Tasks that throw in quick succession while messages are slow: restarted ranks are behind, and behind each other.
    fn cascade(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0xca5c);
        let world = rng.u32(3..=6);
        let program = on_channels(&mut rng, Program::new(world, &[None], &vec![vec![None]; 12]));
        let mut this = Scenario::calm(Job::new(program, Plane::Channels, None), 0, rng);
        this.executors = Some(Executors { count: world + this.rng.u32(0..=3), slots: 1 });
        this.cascading();
        this
    }

    fn cascading(&mut self) {
        let rng = &mut self.rng;
        (self.delay_millis, self.compute_millis) = (rng.u64(50..300), rng.u64(1..20));
        self.job.program.topology = if rng.u32(0..4) > 0 { Topology::Tree } else { Topology::AllToAll };
        let mut at = rng.u64(400..1200);
        self.faults = Vec::new();
        if rng.bool() {
            self.faults.push((0, Fault::Slow(200)));
        }
        for _ in 0..rng.u32(2..=6) {
            let fault = if rng.u32(0..5) == 0 { Fault::Kill(1) } else { Fault::Throw };
            self.faults.push((at, fault));
            at += rng.u64(0..400);
        }
    }

    /// The tracker dies once or more, with and without other faults around it. Ranks have no state
    /// of their own that only the tracker keeps: that dies with it.
    fn tracker(seed: u64) -> Self {
        let mut this = Scenario::mixed(seed);
        (this.job.locals, this.deaths_limit) = (false, NO_LIMIT);
        this.faults.retain(|(_, fault)| !matches!(fault, Fault::Cancel | Fault::StageRestart));
        if this.rng.u32(0..3) == 0 {
            this.faults.clear();
        }
        for _ in 0..this.rng.u32(1..=3) {
            let millis = back_after(&mut this.rng);
            this.faults.push((this.rng.u64(50..4000), Fault::KillTracker(millis)));
        }
        this
    }

    fn collectives(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x0b5e_55ed);
        let world = rng.u32(1..=6);
        let mut program = Program::draw(&mut rng, world, 6, 0);
        program.promises = true;
        if world > 1 && rng.u32(0..20) == 0 {
            program.differs = Some(Rank(rng.u32(0..world)));
        }
        let delay_millis = delay(&mut rng);
        let (start, exits) = (start(&mut rng, &program), rng.bool());
        let faults = (0..rng.u32(0..=6)).map(|_| (moment(&mut rng), of_processes(&mut rng))).collect();
        program.by_hosts = rng.bool();
        let places = places(seed);
        let job = Job::new(program, Plane::Collectives, None);
        Scenario { start, exits, places, faults, ..Scenario::calm(job, delay_millis, rng) }
    }

    fn hook(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x0400_c4ed);
        let kind = rng.u32(0..24);
        let (lies, cascades) = (kind < 2, (2..6).contains(&kind));
        let world = if cascades { rng.u32(3..=6) } else { rng.u32(1..=6) };
        let hookless = if rng.u32(0..6) == 0 { rng.u32(1..=3) } else { 0 };
        // Channels have no barrier: they prove that all have entered a version by what each version sends.
        let least = u32::from(hookless > 0);
        let program = match cascades {
            true => Program::new(world, &[None], &vec![vec![None]; 12]),
            false => Program::draw(&mut rng, world, 6, least),
        };
        let sent = rng.u32(0..4);
        let program = program.sending(|| rng.u32(0..4) < sent);
        let mut program = on_channels(&mut rng, program);
        (program.promises, program.by_hosts) = (true, rng.bool());
        let executors = (rng.u32(0..3) == 0).then(|| executors(&mut rng, world));
        let start = Some(start(&mut rng, &program)).filter(|_| !lies).unwrap_or_default();
        if world > 1 && hookless == 0 && !lies && rng.u32(0..20) == 0 {
            program.differs = Some(Rank(rng.u32(0..world))).filter(|_| program.ends_together());
        }
        let all = |rng: &mut Rng| if rng.u32(0..4) == 0 { of_executors(rng) } else { of_processes(rng) };
        let mut faults: Vec<_> = (0..rng.u32(0..=6)).map(|_| (moment(&mut rng), all(&mut rng))).collect();
        if rng.u32(0..3) == 0 {
            // All at about one time: plans follow each other while what they want is being brought.
            let from = rng.u64(500..2000);
            faults.iter_mut().for_each(|(at, _)| *at = from + rng.u64(0..800));
        }
        let mut job = Job::new(program, Plane::Both, None);
        (job.in_place, job.locals) = (rng.bool(), start == JobStart::Fresh && rng.u32(0..8) == 0);
        if job.locals {
            // What only the tracker keeps dies with it.
            faults.retain(|(_, fault)| !fault.is_a_trackers_death());
        }
        let delay_millis = delay(&mut rng);
        let mut this = Scenario {
            executors,
            exits: executors.is_none() && rng.bool(),
            places: places(seed),
            hookless,
            start,
            compute_millis: rng.u64(2..60),
            deaths_limit: if rng.u32(0..20) == 0 { rng.u32(1..=3) } else { NO_LIMIT },
            framework_counts: framework_counts(seed),
            faults,
            ..Scenario::calm(job, delay_millis, rng)
        };
        if lies {
            let mut rng = this.rng.fork();
            this = this.lying(&mut rng);
        } else if cascades {
            this.cascading();
            this.deaths_limit = NO_LIMIT;
        }
        this
    }

    /// How many tasks the framework runs at the beginning.
    pub fn first_tasks(&self) -> u32 {
        self.job.program.world + self.spares
    }

    /// How many tasks there may be.
    pub fn tasks(&self) -> u32 {
        self.elastic.map_or(self.job.program.world, |elastic| elastic.max) + self.spares
    }

    /// Any job of the others, with tasks that stand by; and whatever goes wrong in those.
    fn spares(seed: u64) -> Self {
        let of = seed / 3;
        let mut this = match seed % 3 {
            0 => Scenario::mixed(of),
            1 => Scenario::hook(of),
            _ => Scenario::collectives(of),
        };
        let mut rng = Rng::with_seed(seed ^ 0x5ba2e);
        this.spares = rng.u32(1..=3);
        if let Some(executors) = &mut this.executors {
            executors.count += this.spares.div_ceil(executors.slots);
        }
        if rng.bool() {
            // Deaths in quick succession, of those that have just been given a rank too.
            let at = rng.u64(200..2500);
            this.faults.extend((0..rng.u32(1..=4)).map(|_| (at + rng.u64(0..400), Fault::Kill(1))));
        }
        this
    }

    /// A job of collectives whose world may shrink and grow, with deaths for good beside whatever goes wrong in those:
    /// alone, in quick succession, and about the time at which the world shrinks; then the tracker may die too.
    fn elastic(seed: u64) -> Self {
        let mut this = Scenario::collectives(seed);
        let mut rng = Rng::with_seed(seed ^ 0xe1a5_71c0);
        let world = rng.u32(2..=6);
        let by_hosts = this.job.program.by_hosts;
        this.job.program = Program::draw(&mut rng, world, 8, 0);
        this.on_two_lanes(seed);
        (this.job.program.by_hosts, this.job.program.promises) = (by_hosts, true);
        (this.job.is_elastic, this.start) = (true, JobStart::Fresh);
        let timeout_millis = rng.u64(300..2500);
        let least = if rng.u32(0..4) == 0 { world } else { world.div_ceil(2) };
        let min = rng.u32(1..=least);
        this.elastic = Some(Elastic {
            min,
            max: world,
            timeout_millis,
            interval_millis: 0,
            most_resizes: None,
            own_may_be_lost: false,
        });
        this.compute_millis = rng.u64(20..400);
        // Of two lives at once each may have a world of its own, and a job that has too few ranks may end twice.
        this.faults.retain(|(_, fault)| !matches!(fault, Fault::SecondTracker(_) | Fault::KillTrackerAtEnd(_)));
        this.faults.truncate(rng.usize(0..=4));
        let at = if rng.u32(0..10) == 0 { rng.u64(0..500) } else { rng.u64(700..2500) };
        this.faults.push((at, Fault::KillForGood));
        for _ in 0..rng.u32(0..=2) {
            let near = at + rng.u64(0..400) + if rng.bool() { timeout_millis } else { 0 };
            this.faults.push((near, if rng.bool() { Fault::KillForGood } else { Fault::Kill(1) }));
        }
        if rng.u32(0..3) == 0 {
            let near = at + rng.u64(0..timeout_millis + 400);
            this.faults.push((near, Fault::KillTracker(back_after(&mut rng))));
        }
        let mut this = this.growing(seed);
        if let Some(elastic) = this.elastic.as_mut().filter(|_| rng.u32(0..4) == 0) {
            elastic.most_resizes = Some(rng.u32(0..=1));
        }
        // By the seed alone, so that all else stays as it is drawn.
        let mut rng = Rng::with_seed(seed ^ 0x0177_0de1);
        this.job.has_own = rng.bool();
        if let Some(elastic) = this.elastic.as_mut() {
            elastic.own_may_be_lost = rng.u32(0..4) == 0;
        }
        this.goes_on(seed)
    }

    /// Half of those jobs have XGBoost's channels beside their collectives, as a training in Spark has.
    fn on_two_lanes(&mut self, seed: u64) {
        let mut rng = Rng::with_seed(seed ^ 0x0021_a4e5);
        if rng.bool() {
            let sent = rng.u32(0..4);
            let program = self.job.program.clone().sending(|| rng.u32(0..4) < sent);
            self.job.program = on_channels(&mut rng, program);
            (self.job.plane, self.job.in_place) = (Plane::Both, rng.bool());
        }
    }

    /// Every fifth of those jobs goes on from a durable version, which another number of ranks may have taken.
    fn goes_on(mut self, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x0d07_4b1e);
        let program = &self.job.program;
        let most = program.end().0.max(program.versions() - 1);
        if most < 2 || rng.u32(0..5) > 0 {
            return self;
        }
        let (before, after) = (rng.u32(0..2), rng.u32(1..3));
        let mut origin = program.origin(Version(rng.u32(1..most)), Lineage(before), Lineage(before + after));
        (origin.checkpoint.has_own, origin.world) = (self.job.has_own, rng.u32(1..=7));
        self.start = JobStart::Durable(origin);
        // A later life of the tracker would look into the folder again, where this one's versions are not.
        self.faults.retain(|(_, fault)| !matches!(fault, Fault::KillTracker(_)));
        self
    }

    /// Two of three of those worlds grow: slots come, alone and together, whatever else goes wrong then. In one of four
    /// that is all: no task is killed for good. What comes may die at once, and the tracker about that time.
    fn growing(mut self, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x6207_1796);
        let Some(elastic) = self.elastic.as_mut().filter(|_| rng.u32(0..3) > 0) else { return self };
        elastic.max += rng.u32(0..=3);
        elastic.interval_millis = if rng.bool() { 0 } else { rng.u64(100..2500) };
        if rng.u32(0..4) == 0 {
            self.faults.retain(|(_, fault)| *fault != Fault::KillForGood);
        }
        for _ in 0..rng.u32(1..=3) {
            let at = if rng.bool() { rng.u64(100..1500) } else { rng.u64(500..FAULTS_END_MILLIS) };
            let together = rng.u64(1..=3);
            self.faults.extend((0..together).map(|nth| (at + nth * rng.u64(0..150), Fault::SlotComes)));
            // A process starts within 0.7 s, and the world grows some hundred milliseconds after that.
            let near = at + rng.u64(0..1500);
            match rng.u32(0..5) {
                4 => self.faults.push((near, Fault::SlotGoes)),
                3 => self.faults.push((near, Fault::SlotsLeave(rng.u32(1..=3)))),
                0 => self.faults.push((near, Fault::Kill(rng.u32(1..=2)))),
                1 => self.faults.push((near, Fault::KillForGood)),
                2 => self.faults.push((near, Fault::KillTracker(back_after(&mut rng)))),
                _ => {}
            }
        }
        self
    }

    /// In every fourth job ranks ask in some versions whether a checkpoint is wanted, as it is now
    /// and then. By the seed alone, so that the others stay as they are drawn.
    fn chooses(&mut self, seed: u64) {
        let mut rng = Rng::with_seed(seed ^ 0xc401_ce5e);
        if rng.u32(0..4) > 0 {
            return;
        }
        let program = self.job.program.clone();
        self.job.program = program.choosing(|| rng.u32(0..3) > 0);
        for _ in 0..rng.u32(1..=3) {
            let at = rng.u64(0..FAULTS_END_MILLIS / 4);
            self.faults.push((at, Fault::WantCheckpoint));
            if rng.bool() {
                self.faults.push((at, Fault::KillWhoChooses));
            }
        }
    }

    /// The same in which nothing goes wrong.
    pub fn without_faults(mut self) -> Self {
        (self.faults, self.job.program.differs, self.job.lies) = (Vec::new(), None, false);
        self
    }
}

/// Every sixth job goes on from a version of an earlier one, if it has one to go on from.
fn start(rng: &mut Rng, program: &Program) -> JobStart {
    let most = program.end().0.max(program.versions() - 1);
    if most < 2 || rng.u32(0..6) > 0 {
        return JobStart::Fresh;
    }
    let version = Version(rng.u32(1..most));
    // The earlier run may have gone back before it took the checkpoint, and after it.
    let (before, after) = (rng.u32(0..2), rng.u32(1..3));
    let origin = program.origin(version, Lineage(before), Lineage(before + after));
    match rng.u32(0..3) {
        0 => JobStart::HandedOver(origin),
        _ => JobStart::Durable(origin),
    }
}

/// A job that also has channels.
fn on_channels(rng: &mut Rng, program: Program) -> Program {
    let mut program = program.completing();
    program.topology = if rng.bool() { Topology::Tree } else { Topology::AllToAll };
    // Mostly small messages; now and then some that cross the places at which digests are kept.
    program.block = if rng.u32(0..40) == 0 { rng.usize(20_000..50_000) } else { rng.usize(8..200) };
    program.frame_bytes = if rng.bool() { rng.u64(10..200) } else { rng.u64(1..30_000) }.max(program.block as u64 / 20);
    program
}

fn executors(rng: &mut Rng, world: u32) -> Executors {
    let slots = rng.u32(1..=2);
    Executors { count: world.div_ceil(slots) + rng.u32(0..=2), slots }
}

fn delay(rng: &mut Rng) -> u64 {
    match rng.u32(0..4) {
        0 => rng.u64(20..150),
        _ => rng.u64(1..10),
    }
}

/// Whether a seed's processes share memory with those of their host, and what draws where they are.
pub(crate) fn places(seed: u64) -> Option<Rng> {
    let mut places = Rng::with_seed(seed ^ 0x00b0_a4d5);
    (places.u32(0..3) == 0).then_some(places)
}

fn moment(rng: &mut Rng) -> u64 {
    let early = rng.bool();
    rng.u64(0..if early { FAULTS_END_MILLIS / 4 } else { FAULTS_END_MILLIS })
}

fn back_after(rng: &mut Rng) -> u64 {
    match rng.bool() {
        true => rng.u64(0..200),
        false => rng.u64(200..3000),
    }
}

/// What goes wrong among processes.
fn of_processes(rng: &mut Rng) -> Fault {
    match rng.u32(0..100) {
        0..=21 => Fault::Kill(1),
        22..=28 => Fault::Kill(rng.u32(2..=4)),
        29..=31 => Fault::KillAll,
        32..=41 => Fault::Throw,
        42..=51 => Fault::Freeze(rng.u64(100..4000)),
        52..=60 => Fault::CutLink,
        61..=65 => Fault::CutTracker,
        66..=70 => Fault::PartData(rng.u64(100..3000)),
        71..=75 => Fault::PartTracker(rng.u64(100..3000)),
        76..=79 => Fault::StallTracker(rng.u64(100..3000)),
        80..=84 => Fault::KillTracker(back_after(rng)),
        85..=87 => Fault::KillTrackerAtEnd(rng.u64(0..3000)),
        88..=90 => Fault::SecondTracker(rng.u64(100..3000)),
        91..=93 => Fault::Slow(rng.u64(100..1000)),
        94..=96 => Fault::Duplicate,
        _ => Fault::DeclareLost,
    }
}

/// What goes wrong among executors of a framework that restarts stages.
fn of_executors(rng: &mut Rng) -> Fault {
    match rng.u32(0..100) {
        0..=29 => Fault::Kill(1),
        30..=37 => Fault::Kill(rng.u32(2..=3)),
        38..=40 => Fault::KillAll,
        41..=55 => Fault::Throw,
        56..=70 => Fault::Freeze(rng.u64(100..4000)),
        71..=80 => Fault::CutLink,
        81..=87 => Fault::CutTracker,
        88..=91 => Fault::StallTracker(rng.u64(100..4000)),
        92..=95 => Fault::StageRestart,
        96..=98 => Fault::Slow(rng.u64(100..1200)),
        _ => Fault::Cancel,
    }
}

/// By the seed alone, so that all else stays as it is drawn.
fn framework_counts(seed: u64) -> Option<bool> {
    [None, Some(true), Some(false)][(seed % 3) as usize]
}
