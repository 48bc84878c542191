//! Schedules of the calls that were made before: a loop makes the same ones again and again.

use rejoin_collectives::choice::{Choice, LOOPBACK, NETWORK};
use rejoin_collectives::shared::{self, SharedCall};
use rejoin_collectives::{schedules, Order, Schedule, WorldRank};
use std::collections::VecDeque;
use std::sync::Arc;

/// Schedules that are kept.
const KEPT: usize = 32;

/// All that a schedule depends on, but for rank and world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// `once`: each element is folded at one rank only.
    Allreduce {
        count: usize,
        element_bytes: usize,
        order: Order,
        once: bool,
    },
    Broadcast {
        bytes: usize,
        root: usize,
    },
    Allgather {
        part_bytes: usize,
    },
    Parts {
        part_bytes: Vec<usize>,
    },
    Barrier,
}

impl Shape {
    /// How long a buffer for the result has to be, in a world of this size.
    pub(super) fn result_bytes(&self, world: usize) -> usize {
        match self {
            Shape::Allreduce { count, element_bytes, .. } => count.saturating_mul(*element_bytes),
            Shape::Broadcast { bytes, .. } => *bytes,
            Shape::Allgather { part_bytes } => part_bytes.saturating_mul(world),
            Shape::Parts { part_bytes } => part_bytes.iter().fold(0, |sum, part| sum.saturating_add(*part)),
            Shape::Barrier => 0,
        }
    }

    /// What it is on segments with slots of this length; `None` when they are too small for one element.
    pub(super) fn shared(&self, me: WorldRank, slot_bytes: usize) -> Option<shared::Shape> {
        let (call, element_bytes, once) = match self {
            Shape::Allreduce { count, element_bytes, order, once } => {
                (SharedCall::Allreduce { count: *count, order: *order }, *element_bytes, *once)
            }
            Shape::Broadcast { bytes, root } => (SharedCall::Broadcast { root: *root, bytes: *bytes }, 1, false),
            Shape::Allgather { part_bytes } => {
                (SharedCall::Allgather { part_bytes: vec![*part_bytes; me.world] }, 1, false)
            }
            Shape::Parts { part_bytes } => (SharedCall::Allgather { part_bytes: part_bytes.clone() }, 1, false),
            Shape::Barrier => (SharedCall::Barrier, 1, false),
        };
        shared::Shape::new(me, call, element_bytes, slot_bytes, once)
    }
}

/// The newest schedules of one rank.
pub(super) struct Shapes {
    me: WorldRank,
    choice: &'static Choice,
    /// The host of each rank, as the plan numbers them.
    hosts: Vec<usize>,
    kept: VecDeque<(Shape, Arc<Schedule>)>,
}

impl Shapes {
    pub(super) fn new(rank: usize, world: usize) -> Self {
        Shapes { me: WorldRank::new(rank, world), choice: &LOOPBACK, hosts: vec![0; world], kept: VecDeque::new() }
    }

    /// From now on algorithms are chosen for ranks on these hosts, which have numbers. All ranks
    /// must say the same in a generation.
    pub(super) fn on_hosts(&mut self, hosts: &[usize]) {
        if self.hosts != hosts {
            self.hosts = hosts.to_vec();
            self.choice = if hosts.iter().any(|host| *host != hosts[0]) { &NETWORK } else { &LOOPBACK };
            self.kept.clear();
        }
    }

    /// Whose they are.
    pub(super) fn world_rank(&self) -> WorldRank {
        self.me
    }

    /// Made at the first call of this shape, and kept for the next ones.
    pub(super) fn schedule(&mut self, shape: &Shape) -> Arc<Schedule> {
        if let Some((_, schedule)) = self.kept.iter().find(|(kept, _)| kept == shape) {
            return schedule.clone();
        }
        let schedule = Arc::new(self.make(shape));
        if self.kept.len() == KEPT {
            self.kept.pop_back();
        }
        self.kept.push_front((shape.clone(), schedule.clone()));
        schedule
    }

    fn make(&self, shape: &Shape) -> Schedule {
        let (me, world, choice) = (self.me, self.me.world, self.choice);
        match shape {
            Shape::Allreduce { count, element_bytes, order, once } => {
                let (count, size, order) = (*count, *element_bytes, *order);
                match choice.allreduce(&self.hosts, count * size, *once) {
                    Some(algorithm) => schedules::allreduce(me, count, size, order, algorithm),
                    None => schedules::allreduce_by_hosts(me, &self.hosts, count, size, order),
                }
            }
            Shape::Broadcast { bytes, root } => {
                schedules::broadcast(me, *bytes, *root, choice.broadcast.algorithm(world, *bytes))
            }
            Shape::Allgather { part_bytes } => {
                schedules::allgather(me, *part_bytes, choice.allgather.algorithm(world, part_bytes * world))
            }
            Shape::Parts { part_bytes } => {
                let algorithm = choice.allgather.algorithm(world, part_bytes.iter().sum());
                schedules::allgather_parts(me, part_bytes, algorithm)
            }
            Shape::Barrier => schedules::barrier(me, choice.barrier.algorithm(world, 0)),
        }
    }
}
