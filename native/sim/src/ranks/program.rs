//! What every rank calls, and what must come of it: computed without any network.

use fastrand::Rng;
use rejoin_protocol::collective::{BootKey, Call, Operation, Site};
use rejoin_protocol::ids::{Rank, Version};

/// What a rank does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A collective; a boot collective has a key.
    Call(Call, Option<BootKey>),
    /// The version is done: the next one begins.
    Checkpoint,
    /// All is done.
    Finish,
}

/// The calls of a job, the same at all ranks.
#[derive(Clone, Debug)]
pub struct Program {
    /// Ranks.
    pub world: u32,
    boot: Vec<Call>,
    versions: Vec<Vec<Call>>,
    boot_results: Vec<u64>,
    results: Vec<Vec<u64>>,
    models: Vec<u64>,
    /// This rank makes another last call than the others.
    pub differs: Option<Rank>,
    /// Ranks promise to repeat themselves.
    pub promises: bool,
    /// Sums go by hosts where ranks share one, and do not share memory.
    pub by_hosts: bool,
}

impl Program {
    /// A job of these collectives: those of boot, and those of each version. A root of `None` is an allreduce.
    pub fn new(world: u32, boot: &[Option<u32>], versions: &[Vec<Option<u32>>]) -> Self {
        let calls = |roots: &[Option<u32>]| -> Vec<Call> {
            roots.iter().enumerate().map(|(line, root)| call(root.map(Rank), line as u32)).collect()
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
        };
        this.boot_results = this.all(&this.boot, 0, BOOT);
        this.models[0] = this.boot_results.iter().fold(1, |model, result| mix(model, *result));
        for version in 0..this.versions.len() as u32 {
            let model = this.models[version as usize];
            let results = this.all(&this.versions[version as usize], model, version);
            let next = results.iter().fold(mix(model, u64::from(version)), |model, result| mix(model, *result));
            this.results.push(results);
            this.models.push(next);
        }
        this
    }

    /// A job drawn at random.
    pub fn draw(rng: &mut Rng, world: u32, most_versions: u32) -> Self {
        let roots = |rng: &mut Rng, most: u32| -> Vec<Option<u32>> {
            let count = rng.u32(0..=most);
            (0..count).map(|_| rng.bool().then(|| rng.u32(..world))).collect()
        };
        let boot = roots(rng, 2);
        let versions: Vec<Vec<Option<u32>>> = (0..rng.u32(1..=most_versions)).map(|_| roots(rng, 4)).collect();
        Program::new(world, &boot, &versions)
    }

    fn all(&self, calls: &[Call], model: u64, version: u32) -> Vec<u64> {
        let results = calls.iter().enumerate().map(|(index, call)| {
            let given: Vec<u64> =
                (0..self.world).map(|rank| contribution(Rank(rank), model, version, index as u32)).collect();
            combine(call, &given)
        });
        results.collect()
    }

    /// What comes after `boot` boot calls in this incarnation, in this version after `index` of its calls.
    pub fn step(&self, rank: Rank, boot: u32, version: Version, index: u32) -> Step {
        if let Some(call) = self.boot.get(boot as usize) {
            // All boot calls stand at one place of the program, in a loop.
            return Step::Call(call.clone(), Some(BootKey { name: "boot".into(), occurrence: boot }));
        }
        let Some(calls) = self.versions.get(version.0 as usize) else { return Step::Finish };
        match calls.get(index as usize) {
            Some(call) => {
                let last = version.0 as usize + 1 == self.versions.len() && index as usize + 1 == calls.len();
                let mut call = call.clone();
                if last && self.differs == Some(rank) {
                    call.count += 1;
                }
                Step::Call(call, None)
            }
            None if version.0 as usize + 1 == self.versions.len() => Step::Finish,
            None => Step::Checkpoint,
        }
    }

    /// What a rank gives to a call.
    pub fn given(&self, rank: Rank, boot: bool, version: Version, index: u32) -> u64 {
        if boot {
            contribution(rank, 0, BOOT, index)
        } else {
            contribution(rank, self.models[version.0 as usize], version.0, index)
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

    /// The model that begins a version; the last one is the job's.
    pub fn model(&self, version: Version) -> u64 {
        self.models[version.0 as usize]
    }

    /// Whether a rank can enter version 1 without all others.
    pub fn begins_alone(&self) -> bool {
        let first = self.versions.first().into_iter().flatten();
        !self.boot.iter().chain(first).any(Call::depends_on_all)
    }

    /// Whether two ranks make different calls.
    pub fn differs_somewhere(&self) -> bool {
        self.differs.is_some() && self.world > 1 && self.versions.last().is_some_and(|calls| !calls.is_empty())
    }

    /// The number of versions.
    pub fn versions(&self) -> u32 {
        self.versions.len() as u32
    }
}

/// Stands for boot where a version's number is mixed in.
const BOOT: u32 = u32::MAX;

/// The model from which version 0 is trained, before boot's results are mixed in.
fn contribution(rank: Rank, model: u64, version: u32, index: u32) -> u64 {
    mix(mix(model, u64::from(rank.0)), u64::from(version) << 32 | u64::from(index))
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
