//! A sum over links that goes by hosts: production's schedule and step machine, with frames for the
//! bytes that they send.

use rejoin_collectives::choice::share_hosts;
use rejoin_collectives::schedules::allreduce_by_hosts;
use rejoin_collectives::{Buffers, Element, LinkMachine, Order, Reducer, Reduction, Schedule, WorldRank};

/// Bytes of what a rank gives.
const VALUE_BYTES: usize = 8;

/// One rank's part in one generation of a call. What is summed has a place for each rank's value, in
/// which all others give zeros: so all have in the end what each has given.
#[derive(Clone, Debug)]
pub(super) struct ByHosts {
    schedule: Schedule,
    machine: LinkMachine,
    input: Vec<u8>,
    result: Vec<u8>,
    scratch: Vec<u8>,
}

impl ByHosts {
    /// At the beginning, with what this rank gives. `None` where no two of several hosts' ranks share one.
    pub(super) fn new(rank: usize, hosts: &[usize], own: u64) -> Option<Self> {
        let world = hosts.len();
        if !share_hosts(hosts) {
            return None;
        }
        let mut input = vec![0; world * VALUE_BYTES];
        input[rank * VALUE_BYTES..][..VALUE_BYTES].copy_from_slice(&own.to_le_bytes());
        // One byte more, so that segments don't end where values do.
        input.push(0);
        let schedule = allreduce_by_hosts(WorldRank::new(rank, world), hosts, input.len(), 1, Order::Ring);
        let (result, scratch) = (vec![0; schedule.result_bytes()], vec![0; schedule.scratch_bytes()]);
        let mut this = ByHosts { machine: LinkMachine::new(&schedule), schedule, input, result, scratch };
        this.work();
        Some(this)
    }

    /// What can go to a peer now, which has gone with that.
    pub(super) fn gives(&mut self, peer: usize) -> Option<Vec<u8>> {
        let extents: Vec<_> = self.machine.sendable(&self.schedule, peer).collect();
        let buffers = Buffers { input: &self.input, result: &mut self.result, scratch: &mut self.scratch };
        let bytes: Vec<u8> = extents.into_iter().flat_map(|extent| buffers.bytes(extent).to_vec()).collect();
        self.machine.sent(&self.schedule, peer, bytes.len());
        (!bytes.is_empty()).then_some(bytes)
    }

    /// Whether anything is still to come from a peer.
    pub(super) fn wants(&self, peer: usize) -> bool {
        !self.machine.is_received(&self.schedule, peer)
    }

    /// What has come from a peer. Of more than is expected the rest is left out: a planted defect sends that.
    pub(super) fn takes(&mut self, peer: usize, mut bytes: &[u8]) {
        while let Some(wanted) = self.machine.wanted(&self.schedule, peer) {
            let (now, later) = bytes.split_at(bytes.len().min(wanted.length));
            if now.is_empty() {
                break;
            }
            let mut buffers = Buffers { input: &self.input, result: &mut self.result, scratch: &mut self.scratch };
            buffers.bytes_mut(wanted)[..now.len()].copy_from_slice(now);
            self.machine.received(&self.schedule, peer, now.len());
            bytes = later;
        }
        self.work();
    }

    /// What each has given, when all is here and all has gone.
    pub(super) fn given(&self) -> Option<Vec<u64>> {
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        self.machine.is_finished().then(|| self.result.chunks_exact(VALUE_BYTES).map(word).collect())
    }

    fn work(&mut self) {
        let reducer = Reducer::new(Reduction::Sum, Element::U8).expect("bytes can be added");
        let mut buffers = Buffers { input: &self.input, result: &mut self.result, scratch: &mut self.scratch };
        let worked = self.machine.work(&self.schedule, &mut buffers, &reducer);
        debug_assert!(worked.is_ok(), "adding bytes doesn't fail");
    }
}
