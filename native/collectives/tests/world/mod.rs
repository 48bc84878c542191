//! A world of machines with links between them, driven in whatever order a seed says.

use rejoin_collectives::{Buffers, FoldError, LinkMachine, Reducer, Schedule};
use std::collections::VecDeque;

/// What the links between the ranks can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Nothing: bytes move only when the one end can send and the other wants them.
    Empty,
    /// Any number of bytes: senders run ahead as far as they can.
    Unbounded,
}

/// A small generator (splitmix64), so that a seed is the whole trace.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % below.max(1) as u64) as usize
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.roll(256) as u8).collect()
    }
}

struct Seated<'w> {
    schedule: &'w Schedule,
    machine: LinkMachine,
    input: &'w [u8],
    result: Vec<u8>,
    scratch: Vec<u8>,
    /// For each peer, what was announced as sendable and hasn't been sent.
    announced: Vec<Vec<u8>>,
}

impl Seated<'_> {
    fn buffers(&mut self) -> (&mut LinkMachine, Buffers<'_>) {
        let buffers = Buffers { input: self.input, result: &mut self.result, scratch: &mut self.scratch };
        (&mut self.machine, buffers)
    }

    /// The bytes that can be sent to a peer. Those announced before must still be the same.
    fn sendable(&mut self, peer: usize) -> Vec<u8> {
        let extents: Vec<_> = self.machine.sendable(self.schedule, peer).collect();
        let (_, buffers) = self.buffers();
        let bytes: Vec<u8> = extents.iter().flat_map(|&extent| buffers.bytes(extent).to_vec()).collect();
        assert!(extents.iter().all(|extent| extent.length > 0), "an empty run");
        assert!(bytes.starts_with(&self.announced[peer]), "bytes that could be sent have changed or gone");
        self.announced[peer].clone_from(&bytes);
        bytes
    }

    fn sent(&mut self, peer: usize, count: usize) {
        self.machine.sent(self.schedule, peer, count);
        self.announced[peer].drain(..count);
    }

    /// Takes as many of these bytes as are wanted now, at most `limit`.
    fn receive(&mut self, peer: usize, bytes: &[u8], limit: usize) -> usize {
        let Some(wanted) = self.machine.wanted(self.schedule, peer) else { return 0 };
        let count = bytes.len().min(limit).min(wanted.length);
        let (_, mut buffers) = self.buffers();
        buffers.bytes_mut(wanted)[..count].copy_from_slice(&bytes[..count]);
        self.machine.received(self.schedule, peer, count);
        count
    }
}

/// Runs the schedules with these inputs (one of each per rank) and gives the results by rank.
///
/// # Panics
/// When the ranks come to a halt before all have finished, or the ends disagree about what goes over a link.
pub fn run(
    schedules: &[Schedule],
    inputs: &[Vec<u8>],
    reducer: &Reducer<'_>,
    links: Links,
    seed: u64,
) -> Result<Vec<Vec<u8>>, FoldError> {
    let world = schedules.len();
    let mut dice = Dice(seed);
    for (rank, schedule) in schedules.iter().enumerate() {
        assert_eq!(schedule.world_rank().rank, rank);
        assert_eq!(schedule.input_bytes(), inputs[rank].len(), "input of rank {rank}");
        for (peer, other) in schedules.iter().enumerate() {
            assert_eq!(schedule.bytes_to(peer), other.bytes_from(rank), "from {rank} to {peer}");
        }
    }
    let mut seats: Vec<Seated<'_>> = schedules
        .iter()
        .zip(inputs)
        .map(|(schedule, input)| Seated {
            schedule,
            machine: LinkMachine::new(schedule),
            input,
            result: vec![0xAA; schedule.result_bytes()],
            scratch: vec![0xBB; schedule.scratch_bytes()],
            announced: vec![Vec::new(); world],
        })
        .collect();
    let mut wires = vec![VecDeque::<u8>::new(); world * world];
    // A limit of bytes per step: with 1 every boundary is met, with many, whole runs go at once.
    let most = [1, 3, 64, 1 << 20][dice.roll(4)];
    loop {
        let mut moved = false;
        let first = dice.roll(world * world);
        for lane in (0..world * world).map(|lane| (first + lane) % (world * world)) {
            let (from, to) = (lane / world, lane % world);
            if from == to || dice.roll(4) == 0 {
                continue;
            }
            let limit = 1 + dice.roll(most);
            match links {
                Links::Empty => {
                    let bytes = seats[from].sendable(to);
                    let count = seats[to].receive(from, &bytes, limit);
                    seats[from].sent(to, count);
                    moved |= count > 0;
                }
                Links::Unbounded => {
                    let bytes = seats[from].sendable(to);
                    let count = bytes.len().min(limit);
                    seats[from].sent(to, count);
                    wires[lane].extend(&bytes[..count]);
                    let there: Vec<u8> = wires[lane].iter().copied().collect();
                    let taken = seats[to].receive(from, &there, limit);
                    wires[lane].drain(..taken);
                    moved |= count > 0 || taken > 0;
                }
            }
        }
        for me in &mut seats {
            if dice.roll(3) > 0 {
                let schedule = me.schedule;
                let (machine, mut buffers) = me.buffers();
                moved |= machine.work(schedule, &mut buffers, reducer)?;
            }
        }
        if seats.iter().all(|me| me.machine.is_finished()) {
            break;
        }
        if !moved && !anything_possible(&mut seats, &wires, links, reducer)? {
            let waiting: Vec<_> = seats.iter().map(|me| me.machine.awaited(me.schedule).collect::<Vec<_>>()).collect();
            panic!("a deadlock; each rank's awaited (peer, bytes): {waiting:?}");
        }
    }
    assert!(wires.iter().all(VecDeque::is_empty), "bytes that no rank wanted");
    for me in &seats {
        assert!(me.machine.has_result());
        for peer in 0..world {
            assert!(me.machine.is_received(me.schedule, peer) && me.machine.wanted(me.schedule, peer).is_none());
            assert!(me.machine.sendable(me.schedule, peer).next().is_none());
        }
    }
    Ok(seats.into_iter().map(|me| me.result).collect())
}

/// Whether the dice merely left out everything that was possible.
fn anything_possible(
    seats: &mut [Seated<'_>],
    wires: &[VecDeque<u8>],
    links: Links,
    reducer: &Reducer<'_>,
) -> Result<bool, FoldError> {
    for me in seats.iter_mut() {
        let schedule = me.schedule;
        let (machine, mut buffers) = me.buffers();
        if machine.work(schedule, &mut buffers, reducer)? {
            return Ok(true);
        }
    }
    for from in 0..seats.len() {
        for to in 0..seats.len() {
            let sendable = from != to && !seats[from].sendable(to).is_empty();
            let wanted = from != to && seats[to].machine.wanted(seats[to].schedule, from).is_some();
            let on_wire = !wires[from * seats.len() + to].is_empty();
            if match links {
                Links::Empty => sendable && wanted,
                Links::Unbounded => sendable || (on_wire && wanted),
            } {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Runs the schedules in large steps, for large buffers. As [`run`] otherwise.
pub fn run_in_bulk(
    schedules: &[Schedule],
    inputs: &[Vec<u8>],
    reducer: &Reducer<'_>,
) -> Result<Vec<Vec<u8>>, FoldError> {
    let world = schedules.len();
    let mut machines: Vec<LinkMachine> = schedules.iter().map(LinkMachine::new).collect();
    let mut results: Vec<Vec<u8>> = schedules.iter().map(|schedule| vec![0; schedule.result_bytes()]).collect();
    let mut scratches: Vec<Vec<u8>> = schedules.iter().map(|schedule| vec![0; schedule.scratch_bytes()]).collect();
    while !machines.iter().all(LinkMachine::is_finished) {
        let mut moved = false;
        for (from, to) in (0..world * world).map(|lane| (lane / world, lane % world)) {
            loop {
                let there = machines[from].sendable(&schedules[from], to).next();
                let (Some(there), Some(wanted)) = (there, machines[to].wanted(&schedules[to], from)) else { break };
                // An odd number of bytes now and then, so that elements are split.
                let count = there.length.min(wanted.length).min(99_991);
                let buffers =
                    Buffers { input: &inputs[from], result: &mut results[from], scratch: &mut scratches[from] };
                let bytes = buffers.bytes(there)[..count].to_vec();
                let mut buffers = Buffers { input: &inputs[to], result: &mut results[to], scratch: &mut scratches[to] };
                buffers.bytes_mut(wanted)[..count].copy_from_slice(&bytes);
                machines[from].sent(&schedules[from], to, count);
                machines[to].received(&schedules[to], from, count);
                moved = true;
            }
        }
        for rank in 0..world {
            let mut buffers =
                Buffers { input: &inputs[rank], result: &mut results[rank], scratch: &mut scratches[rank] };
            moved |= machines[rank].work(&schedules[rank], &mut buffers, reducer)?;
        }
        assert!(moved, "a deadlock");
    }
    Ok(results)
}

/// The ranks that come to the end although rank `late` never begins: bytes to it are taken, none come from it.
pub fn past_without(schedules: &[Schedule], late: usize, seed: u64) -> Vec<usize> {
    let world = schedules.len();
    let mut dice = Dice(seed);
    let mut machines: Vec<LinkMachine> = schedules.iter().map(LinkMachine::new).collect();
    let reducer = Reducer::new(rejoin_collectives::Reduction::Or, rejoin_collectives::Element::U8).unwrap();
    for _ in 0..20 * world * world {
        let (from, to) = (dice.roll(world), dice.roll(world));
        if from == to || from == late {
            continue;
        }
        let there: usize = machines[from].sendable(&schedules[from], to).map(|extent| extent.length).sum();
        let wanted = machines[to].wanted(&schedules[to], from).map_or(0, |extent| extent.length);
        let count = if to == late { there } else { there.min(wanted) };
        machines[from].sent(&schedules[from], to, count);
        if to != late {
            machines[to].received(&schedules[to], from, count);
            let mut scratch = vec![0; schedules[to].scratch_bytes()];
            let mut buffers = Buffers { input: &[], result: &mut [], scratch: &mut scratch };
            machines[to].work(&schedules[to], &mut buffers, &reducer).unwrap();
        }
    }
    (0..world).filter(|&rank| rank != late && machines[rank].has_result()).collect()
}
