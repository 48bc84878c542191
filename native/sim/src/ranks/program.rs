//! What every rank calls, and what must come of it: computed without any network.

use fastrand::Rng;
use rejoin_protocol::collective::{BootKey, Call, Operation, Site};
use rejoin_protocol::ids::{Checkpoint, Lineage, Phase, Rank, Version};
use rejoin_protocol::start::Origin;

/// The checkpoint of this model.
pub(crate) fn checkpoint(lineage: Lineage, version: Version, model: u64, complete: bool) -> Checkpoint {
    let (round, digest) = (version.0, u128::from(model));
    Checkpoint { lineage, version, owner: None, has_own: false, round, length: 8, digest, complete }
}

/// What a rank does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramStep {
    /// A collective; a boot collective has a key.
    Call(Call, Option<BootKey>),
    /// What the trainer sends without its collectives' functions: it goes over channels in any case.
    Sent(Call),
    /// All get rank 0's choice whether a checkpoint is wanted. Ranks without collectives leave it out.
    Choice(Call),
    /// The version is done: the next one begins.
    Checkpoint,
    /// All is done.
    Finish,
}

/// Which ranks talk to which over channels, as XGBoost does up to 3.2 and from 3.3 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Each with each.
    AllToAll,
    /// Binary tree.
    Tree,
}

/// A call of the program, whether it goes over channels in any case, and whether it is a choice.
#[derive(Clone, Debug)]
struct Made {
    call: Call,
    is_sent: bool,
    is_choice: bool,
}

/// The calls of a job, the same at all ranks.
#[derive(Clone, Debug)]
pub struct Program {
    /// Ranks.
    pub world: u32,
    boot: Vec<Made>,
    versions: Vec<Vec<Made>>,
    boot_results: Vec<u64>,
    results: Vec<Vec<u64>>,
    models: Vec<u64>,
    /// This rank makes another last call than the others.
    pub differs: Option<Rank>,
    /// Ranks promise to repeat themselves.
    pub promises: bool,
    /// Sums go by hosts where ranks share one, and do not share memory.
    pub by_hosts: bool,
    /// Which ranks have channels with which.
    pub topology: Topology,
    /// Least bytes of a message on a channel.
    pub block: usize,
    /// Most bytes of a frame of a channel.
    pub frame_bytes: u64,
    /// A checkpoint is complete with which nothing is left to be trained: that of the last version, which has no calls.
    pub completes: bool,
}

impl Program {
    /// A job of these collectives: those of boot, and those of each version. A root of `None` is an allreduce.
    pub fn new(world: u32, boot: &[Option<u32>], versions: &[Vec<Option<u32>>]) -> Self {
        let calls = |roots: &[Option<u32>]| -> Vec<Made> {
            let made = |(line, root): (usize, &Option<u32>)| Made {
                call: call(root.map(Rank), line as u32),
                is_sent: false,
                is_choice: false,
            };
            roots.iter().enumerate().map(made).collect()
        };
        let mut this = Program {
            world,
            boot: calls(boot),
            versions: versions.iter().map(|roots| calls(roots)).collect(),
            boot_results: Vec::new(),
            results: Vec::new(),
            models: vec![1],
            differs: None,
            promises: false,
            by_hosts: false,
            topology: Topology::AllToAll,
            block: 8,
            frame_bytes: u64::MAX,
            completes: false,
        };
        this.boot_results = this.all(&this.boot, 0, BOOT);
        this.models[0] = this.boot_results.iter().fold(1, |model, result| mix(model, *result));
        for version in 0..this.versions.len() {
            this.results.push(Vec::new());
            this.models.push(0);
            this.computes(version);
        }
        this
    }

    /// What comes of a version's calls.
    fn computes(&mut self, version: usize) {
        let model = self.models[version];
        let results = self.all(&self.versions[version], model, version as u32);
        let counted = results.iter().zip(&self.versions[version]).filter(|(_, made)| !made.is_choice);
        self.models[version + 1] = counted.fold(mix(model, version as u64), |model, (result, _)| mix(model, *result));
        self.results[version] = results;
    }

    /// A job drawn at random, with at least so many calls in each version.
    pub fn draw(rng: &mut Rng, world: u32, most_versions: u32, least: u32) -> Self {
        let roots = |rng: &mut Rng, least: u32, most: u32| -> Vec<Option<u32>> {
            let count = rng.u32(least..=most);
            (0..count).map(|_| rng.bool().then(|| rng.u32(..world))).collect()
        };
        let boot = roots(rng, 0, 2);
        let versions: Vec<Vec<Option<u32>>> = (0..rng.u32(1..=most_versions)).map(|_| roots(rng, least, 4)).collect();
        Program::new(world, &boot, &versions)
    }

    fn all(&self, calls: &[Made], model: u64, version: u32) -> Vec<u64> {
        let results = calls.iter().enumerate().map(|(index, made)| {
            let nth = nth(calls, index as u32);
            let given: Vec<u64> = (0..self.world).map(|rank| contribution(Rank(rank), model, version, nth)).collect();
            combine(&made.call, &given)
        });
        results.collect()
    }

    /// What is left of it from this version on, for a world of so many ranks: it follows from the model that begins it.
    pub fn in_world(&self, world: u32, version: Version, model: u64) -> Program {
        let mut this = Program { world, ..self.clone() };
        for made in this.boot.iter_mut().chain(this.versions.iter_mut().flatten()) {
            made.call.root = made.call.root.map(|root| Rank(root.0 % world));
        }
        this.boot_results = this.all(&this.boot, 0, BOOT);
        let from = version.0 as usize;
        this.models[from] = match from {
            0 => this.boot_results.iter().fold(1, |model, result| mix(model, *result)),
            _ => model,
        };
        (from..this.versions.len()).for_each(|version| this.computes(version));
        this
    }

    /// The same, in which the calls that are drawn go over channels in any case.
    pub fn sending(mut self, mut is_sent: impl FnMut() -> bool) -> Self {
        self.boot.iter_mut().chain(self.versions.iter_mut().flatten()).for_each(|made| made.is_sent = is_sent());
        self
    }

    /// The same, in which the versions that are drawn begin with a choice.
    pub fn choosing(mut self, mut chooses: impl FnMut() -> bool) -> Self {
        let trained = self.versions.len() - usize::from(self.completes);
        for version in (0..trained).filter(|_| chooses()) {
            self.versions[version].insert(0, Made { call: choice(), is_sent: false, is_choice: true });
            self.results[version].insert(0, 0);
        }
        self
    }

    /// The same, in which the first call of each phase goes over channels in any case.
    pub fn sending_first(mut self) -> Self {
        let phases = std::iter::once(&mut self.boot).chain(&mut self.versions);
        phases.filter_map(|calls| calls.first_mut()).for_each(|made| made.is_sent = true);
        self
    }

    /// The same with a last version that has no calls: its checkpoint is complete.
    pub fn completing(mut self) -> Self {
        let model = self.models[self.versions.len()];
        self.models.push(mix(model, u64::from(self.versions())));
        self.versions.push(Vec::new());
        self.results.push(Vec::new());
        self.completes = true;
        self
    }

    /// What comes after `boot` boot calls in this incarnation, in this version after `index` of its calls.
    pub fn step(&self, rank: Rank, boot: u32, version: Version, index: u32) -> ProgramStep {
        if let Some(made) = self.boot.get(boot as usize) {
            // All boot calls stand at one place of the program, in a loop.
            let key = BootKey { name: "boot".into(), occurrence: boot };
            return made.step(Some(key));
        }
        let Some(calls) = self.versions.get(version.0 as usize) else { return ProgramStep::Finish };
        match calls.get(index as usize) {
            Some(made) => {
                let last =
                    version.0 + 1 == self.versions() - u32::from(self.completes) && index as usize + 1 == calls.len();
                let mut made = made.clone();
                if last && self.differs == Some(rank) {
                    made.call.count += 1;
                }
                made.step(None)
            }
            None if version.0 as usize + 1 == self.versions.len() => ProgramStep::Finish,
            None => ProgramStep::Checkpoint,
        }
    }

    /// What a rank gives to a call.
    pub fn given(&self, rank: Rank, boot: bool, version: Version, index: u32) -> u64 {
        if boot {
            contribution(rank, 0, BOOT, index)
        } else {
            let nth = nth(&self.versions[version.0 as usize], index);
            contribution(rank, self.models[version.0 as usize], version.0, nth)
        }
    }

    /// What a call comes to; the barrier at a version's end comes to 0.
    pub fn expected(&self, boot: bool, version: Version, index: u32) -> u64 {
        let results = if boot { &self.boot_results } else { &self.results[version.0 as usize] };
        results.get(index as usize).copied().unwrap_or_default()
    }

    /// Whether a call of this number is one of the version's own, and not the barrier at its end.
    pub fn counts(&self, version: Version, index: u32) -> bool {
        (index as usize) < self.results[version.0 as usize].len()
    }

    /// Whether a call of this number is a choice.
    pub fn chooses(&self, version: Version, index: u32) -> bool {
        self.versions
            .get(version.0 as usize)
            .and_then(|calls| calls.get(index as usize))
            .is_some_and(|made| made.is_choice)
    }

    /// The model that begins a version; the last one is the job's.
    pub fn model(&self, version: Version) -> u64 {
        self.models[version.0 as usize]
    }

    /// What an earlier run of it has left behind: this version, which it took in one lineage, when
    /// all its lineages are before another.
    pub fn origin(&self, version: Version, taken: Lineage, lineage: Lineage) -> Origin {
        Origin { checkpoint: checkpoint(taken, version, self.model(version), false), lineage, world: 0 }
    }

    /// The version whose model is the job's.
    pub fn end(&self) -> Version {
        Version(self.versions() - u32::from(self.completes))
    }

    /// Whether all ranks have to give something to this version: then each takes samples for it.
    pub fn deals(&self, version: Version) -> bool {
        let calls = self.versions.get(version.0 as usize).into_iter().flatten();
        calls.filter(|made| !made.is_choice).any(|made| made.call.depends_on_all())
    }

    /// Whether a rank can enter version 1 without all others.
    pub fn begins_alone(&self) -> bool {
        let first = self.versions.first().into_iter().flatten();
        !self.boot.iter().chain(first).any(|made| made.call.depends_on_all())
    }

    /// Whether all boot calls were made.
    pub fn has_booted(&self, boot: u32) -> bool {
        boot as usize >= self.boot.len()
    }

    /// The ranks that this one has channels with.
    pub fn neighbours(&self, rank: Rank) -> Vec<Rank> {
        let others = (0..self.world).map(Rank).filter(|other| *other != rank);
        let linked = |other: &Rank| match self.topology {
            Topology::AllToAll => true,
            Topology::Tree => parent(rank) == Some(*other) || parent(*other) == Some(rank),
        };
        others.filter(linked).collect()
    }

    /// What a rank that knows these contributions sends to another one, with bytes behind them that depend on them.
    pub fn message(&self, known: &[Option<u64>]) -> Vec<u8> {
        let mut message: Vec<u8> = known.iter().flat_map(|value| value.unwrap_or_default().to_le_bytes()).collect();
        let mut filler = known.iter().fold(3, |sum, value| mix(sum, value.unwrap_or_default()));
        while message.len() < self.block {
            filler = mix(filler, 1);
            message.push((filler >> 56) as u8);
        }
        message
    }

    /// Bytes of each message.
    pub fn message_bytes(&self) -> usize {
        self.block.max(8 * self.world as usize)
    }

    /// Whose contributions one rank knows when it sends to another one.
    pub fn tells(&self, from: Rank, to: Rank, whose: Rank) -> bool {
        match self.topology {
            Topology::AllToAll => whose == from,
            // From the children up, and down again what all have given.
            Topology::Tree if parent(from) == Some(to) => {
                std::iter::successors(Some(whose), |rank| parent(*rank)).any(|rank| rank == from)
            }
            Topology::Tree => true,
        }
    }

    /// The bytes that one rank says to another in a phase, from this place on; a channel carries
    /// all calls, or those that go over channels in any case. `None` if it says fewer.
    pub fn says(
        &self,
        (from, to): (Rank, Rank),
        phase: Phase,
        offset: u64,
        bytes: usize,
        all: bool,
    ) -> Option<Vec<u8>> {
        let (first, skipped) = (offset as usize / self.message_bytes(), offset as usize % self.message_bytes());
        let mut said = Vec::new();
        let mut nth = first;
        while said.len() < skipped + bytes {
            said.extend(self.said(from, to, phase, nth, all)?);
            nth += 1;
        }
        Some(said[skipped..skipped + bytes].to_vec())
    }

    fn said(&self, from: Rank, to: Rank, phase: Phase, nth: usize, all: bool) -> Option<Vec<u8>> {
        let (calls, boot, version) = match phase {
            Phase::Boot => (&self.boot, true, Version(0)),
            Phase::Version(version) => (self.versions.get(version.0 as usize)?, false, version),
        };
        let carried = (0u32..).zip(calls).filter(|(_, made)| (all || made.is_sent) && !made.is_choice);
        let (index, _) = carried.clone().nth(nth)?;
        let given = |whose: Rank| self.tells(from, to, whose).then(|| self.given(whose, boot, version, index));
        Some(self.message(&(0..self.world).map(Rank).map(given).collect::<Vec<_>>()))
    }

    /// Whether two ranks make different calls.
    pub fn differs_somewhere(&self) -> bool {
        self.differs.is_some() && self.world > 1 && self.last_calls().is_some_and(|calls| !calls.is_empty())
    }

    /// Whether no rank goes on after the last call without all others: it goes through collectives
    /// if there are some, and depends on all. (A rank that dies before another one isn't missed: its next
    /// incarnation may start behind it.)
    pub fn ends_together(&self) -> bool {
        let last = self.last_calls().and_then(|calls| calls.last());
        last.is_some_and(|made| !made.is_sent && made.call.depends_on_all())
    }

    fn last_calls(&self) -> Option<&Vec<Made>> {
        self.versions.get(self.versions.len().checked_sub(1 + usize::from(self.completes))?)
    }

    /// The number of versions.
    pub fn versions(&self) -> u32 {
        self.versions.len() as u32
    }
}

impl Made {
    fn step(&self, key: Option<BootKey>) -> ProgramStep {
        match (self.is_choice, self.is_sent) {
            (true, _) => ProgramStep::Choice(self.call.clone()),
            (_, true) => ProgramStep::Sent(self.call.clone()),
            (_, false) => ProgramStep::Call(self.call.clone(), key),
        }
    }
}

/// The rank above this one in the tree of channels.
pub(super) fn parent(rank: Rank) -> Option<Rank> {
    Some(Rank(rank.0.checked_sub(1)? / 2))
}

/// Stands for boot where a version's number is mixed in.
const BOOT: u32 = u32::MAX;

/// Which of the calls it is whose results make the model: those are the same with choices among them and without.
fn nth(calls: &[Made], index: u32) -> u32 {
    calls.iter().take(index as usize).filter(|made| !made.is_choice).count() as u32
}

/// The model from which version 0 is trained, before boot's results are mixed in.
fn contribution(rank: Rank, model: u64, version: u32, index: u32) -> u64 {
    mix(mix(model, u64::from(rank.0)), u64::from(version) << 32 | u64::from(index))
}

/// The own model that a rank has beside this one.
pub fn own_model(common: &Checkpoint, owner: Rank) -> Checkpoint {
    let digest = u128::from(mix(common.digest as u64, u64::from(owner.0) + 1));
    Checkpoint { owner: Some(owner), has_own: false, length: 8, digest, ..*common }
}

/// What all have given becomes.
pub(super) fn combine(call: &Call, given: &[u64]) -> u64 {
    match (call.operation, call.root) {
        (Operation::Barrier, _) => 0,
        (_, Some(root)) => given[root.0 as usize],
        _ => given.iter().fold(7, |sum, value| mix(sum, *value)),
    }
}

/// The call that ends a version which has nothing that depends on all.
pub(super) fn barrier() -> Call {
    let site = Site::Code { file: "barrier", line: 0 };
    Call { operation: Operation::Barrier, element: "".into(), count: 0, reduction: "".into(), root: None, site }
}

/// Rank 0's, which no incarnation of it promises to repeat.
fn choice() -> Call {
    let (operation, site) = (Operation::Broadcast, Site::Named("choice".into()));
    Call { operation, element: "u64".into(), count: 1, reduction: "".into(), root: Some(Rank(0)), site }
}

/// What follows a choice for a checkpoint: behind it all ranks have that choice.
pub(super) fn confirmation() -> Call {
    Call { site: Site::Named("choice".into()), ..barrier() }
}

fn call(root: Option<Rank>, line: u32) -> Call {
    let site = Site::Code { file: "program", line };
    let (operation, reduction) =
        if root.is_some() { (Operation::Broadcast, "") } else { (Operation::Allreduce, "mix") };
    Call { operation, element: "u64".into(), count: 1, reduction: reduction.into(), root, site }
}

/// A number that depends on both.
pub(super) fn mix(one: u64, other: u64) -> u64 {
    (one ^ other.wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(23).wrapping_mul(0xd6e8_feb8_6659_fd93)
}
