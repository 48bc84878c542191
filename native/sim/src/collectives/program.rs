//! What every rank calls, and what must come of it: computed without any network.

use fastrand::Rng;
use rejoin_protocol::collective::{Call, Operation, Site};
use rejoin_protocol::ids::Rank;

pub(crate) const VERSIONS: u32 = 7;

pub(crate) struct Program {
    pub(crate) world: usize,
    /// By version.
    calls: Vec<Vec<Call>>,
    results: Vec<Vec<u64>>,
    /// By version, what its checkpoint is.
    pub(crate) models: Vec<u64>,
}

impl Program {
    pub(crate) fn new(rng: &mut Rng, world: usize) -> Self {
        let mut this = Program { world, calls: Vec::new(), results: Vec::new(), models: vec![1] };
        for version in 0..VERSIONS {
            let model = this.models[version as usize];
            let calls: Vec<Call> = (0..rng.u32(0..5)).map(|index| call(rng, world, index)).collect();
            let results: Vec<u64> =
                calls.iter().enumerate().map(|(index, call)| this.result(call, model, version, index as u32)).collect();
            let next = results.iter().fold(mix(model, u64::from(version)), |model, result| mix(model, *result));
            this.calls.push(calls);
            this.results.push(results);
            this.models.push(next);
        }
        this
    }

    /// The calls of a version, without a barrier at its end.
    pub(crate) fn call(&self, version: u32, index: u32) -> Option<&Call> {
        self.calls[version as usize].get(index as usize)
    }

    /// What a call must come to; a barrier's is 0.
    pub(crate) fn expected(&self, version: u32, index: u32) -> u64 {
        self.results[version as usize].get(index as usize).copied().unwrap_or_default()
    }

    fn result(&self, call: &Call, model: u64, version: u32, index: u32) -> u64 {
        let given: Vec<u64> = (0..self.world).map(|rank| contribution(rank, model, version, index)).collect();
        combine(call, &given)
    }
}

/// What a rank gives to a call.
pub(crate) fn contribution(rank: usize, model: u64, version: u32, index: u32) -> u64 {
    mix(mix(model, rank as u64), u64::from(version) << 32 | u64::from(index))
}

/// What all have given becomes.
pub(crate) fn combine(call: &Call, given: &[u64]) -> u64 {
    match (call.operation, call.root) {
        (Operation::Barrier, _) => 0,
        (_, Some(root)) => given[root.0 as usize],
        _ => given.iter().fold(7, |sum, value| mix(sum, *value)),
    }
}

/// The call that ends a version which has nothing that depends on all.
pub(crate) fn barrier() -> Call {
    let site = Site::Code { file: "barrier", line: 0 };
    Call { operation: Operation::Barrier, element: "".into(), count: 0, reduction: "".into(), root: None, site }
}

fn call(rng: &mut Rng, world: usize, line: u32) -> Call {
    let site = Site::Code { file: "program", line };
    let root = rng.bool().then(|| Rank(rng.u32(..world as u32)));
    let (operation, reduction) =
        if root.is_some() { (Operation::Broadcast, "") } else { (Operation::Allreduce, "mix") };
    Call { operation, element: "u64".into(), count: 1, reduction: reduction.into(), root, site }
}

pub(crate) fn mix(one: u64, other: u64) -> u64 {
    (one ^ other.wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(23).wrapping_mul(0xd6e8_feb8_6659_fd93)
}
