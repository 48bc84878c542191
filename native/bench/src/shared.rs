//! Ranks of one host through shared memory.

use crate::samples::Allreduce;
use rejoin_collectives::shared::{first_step, Segments, Shape, SharedCall, SharedMachine};
use rejoin_collectives::{Element, Order, Reducer, Reduction, WorldRank};
use rejoin_transport::shm::{Group, PeerSegment, Segment};
use rejoin_transport::Backoff;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of each of the two slots of a rank's segment.
pub const SLOT_BYTES: usize = 256 << 10;

/// After so long without any progress a peer must have died.
const WAIT_LIMIT: Duration = Duration::from_secs(20);

/// One rank's end.
pub struct SharedRanks {
    me: WorldRank,
    group: Group,
    base: u64,
    call: u64,
    backoff: Backoff,
    spins: u32,
    /// Where results come into being before they are copied to the caller, as a log of two entries would have them.
    log: [Vec<u8>; 2],
}

impl SharedRanks {
    /// With the segments of all ranks.
    pub fn new(me: WorldRank, own: Arc<Segment>, segments: Vec<PeerSegment>) -> Self {
        let group = Group::enter(me.rank, own, segments, 1);
        let (backoff, spins) = (Backoff::default(), Backoff::spins(me.world));
        SharedRanks { me, group, base: first_step(1), call: 0, backoff, spins, log: Default::default() }
    }

    fn allreduce(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        element: Element,
        reduction: Reduction,
    ) -> Result<(), String> {
        self.call += 1;
        let reducer = Reducer::new(reduction, element).map_err(|error| error.to_string())?;
        let call = SharedCall::Allreduce { count: input.len() / element.size(), order: Order::Rank };
        let shape = Shape::new(self.me, call, element.size(), self.group.slot_bytes(), false)
            .ok_or("an element doesn't fit the slots")?;
        let mut identity = [0; 64];
        identity[..8].copy_from_slice(&self.call.to_le_bytes());
        let mut machine = SharedMachine::new(shape, identity, self.base);
        let result = &mut self.log[(self.call % 2) as usize];
        result.resize(input.len(), 0);
        let mut since: Option<Instant> = None;
        let mut published = self.group.published(self.me.rank);
        while !machine.advance(&mut self.group, input, result, &reducer).map_err(|error| error.to_string())? {
            let now = self.group.published(self.me.rank);
            if now > published {
                published = now;
                since = None;
                self.backoff.over(Instant::now);
            }
            if self.backoff.pause(self.spins) {
                continue;
            }
            if let Some((peer, step)) = machine.waits_for(&self.group) {
                self.group.sleep(peer, step, WAIT_LIMIT);
            }
            if since.get_or_insert_with(Instant::now).elapsed() > WAIT_LIMIT {
                return Err(format!("rank {}: nothing from {:?}", self.me.rank, machine.awaited(&self.group)));
            }
        }
        self.backoff.over(Instant::now);
        self.base = machine.last_step();
        output.copy_from_slice(result);
        Ok(())
    }
}

impl Allreduce for SharedRanks {
    fn sum(&mut self, input: &[f32], output: &mut [f32]) -> Result<(), String> {
        let (input, output) = (bytemuck::cast_slice(input), bytemuck::cast_slice_mut(output));
        self.allreduce(input, output, Element::F32, Reduction::Sum)
    }

    fn max(&mut self, values: &mut [f64]) -> Result<(), String> {
        let input = values.to_vec();
        let output = bytemuck::cast_slice_mut(values);
        self.allreduce(bytemuck::cast_slice(&input), output, Element::F64, Reduction::Max)
    }
}
