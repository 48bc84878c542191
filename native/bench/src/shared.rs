//! Ranks of one host through shared memory.

use crate::samples::Allreduce;
use rejoin_collectives::shared::{first_beat, Boards, Shape, SharedCall, SharedMachine};
use rejoin_collectives::{Element, Order, Reducer, Reduction, Seat};
use rejoin_transport::shm::{Group, Patience, PeerSegment, Segment};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of each of the two areas of a rank's board.
pub const AREA_BYTES: usize = 256 << 10;

/// After so long without any progress a peer must have died.
const PATIENCE: Duration = Duration::from_secs(20);

/// One rank's end.
pub struct SharedRanks {
    seat: Seat,
    group: Group,
    base: u64,
    call: u64,
    patience: Patience,
    /// Where results come into being before they are copied to the caller, as a log of two entries would have them.
    log: [Vec<u8>; 2],
}

impl SharedRanks {
    /// With the segments of all ranks.
    pub fn new(seat: Seat, own: Arc<Segment>, segments: Vec<PeerSegment>) -> Self {
        let group = Group::enter(seat.rank, own, segments, 1);
        let patience = Patience::new(seat.world);
        SharedRanks { seat, group, base: first_beat(1), call: 0, patience, log: Default::default() }
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
        let shape = Shape::new(self.seat, call, element.size(), self.group.area_bytes(), false)
            .ok_or("an element doesn't fit the areas")?;
        let mut identity = [0; 64];
        identity[..8].copy_from_slice(&self.call.to_le_bytes());
        let mut machine = SharedMachine::new(shape, identity, self.base);
        let result = &mut self.log[(self.call % 2) as usize];
        result.resize(input.len(), 0);
        self.patience.reset();
        let mut since: Option<Instant> = None;
        let mut posted = self.group.posted(self.seat.rank);
        while !machine.advance(&mut self.group, input, result, &reducer).map_err(|error| error.to_string())? {
            let now = self.group.posted(self.seat.rank);
            if now > posted {
                posted = now;
                since = None;
                self.patience.reset();
            }
            self.patience.pause();
            if self.patience.is_long() && since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                return Err(format!("rank {}: nothing from {:?}", self.seat.rank, machine.awaited(&self.group)));
            }
        }
        self.base = machine.last_beat();
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
