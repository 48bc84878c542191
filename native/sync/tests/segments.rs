//! Collectives on segments, by the machine that production runs, on loom's counters: no rank reads what
//! is being written, in every order that the memory model allows.

mod support;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use rejoin_collectives::shared::{first_step, Segments, Shape, SharedCall, SharedMachine};
use rejoin_collectives::{Element, Order, Reducer, Reduction, WorldRank};
use rejoin_sync::{nobody_has_reached, Atomic, Counters};
use std::sync::atomic::Ordering;
use support::{in_every_order, Futex, Long, Short};

/// Bytes of a slot: an identity, and room for slices of one byte in a world of three.
const SLOT_BYTES: usize = 64 + 4;

/// One rank's segment. Loom watches a cell beside each slot's bytes: it is written and read when they are.
struct Segment {
    published: Long,
    sleeps_for: Short,
    bell: Short,
    sleepers: Futex,
    watched: [UnsafeCell<()>; 2],
    slots: [std::cell::UnsafeCell<[u8; SLOT_BYTES]>; 2],
}

// SAFETY: loom runs one thread at a time, and reports when the cells beside the slots are used by
// two without an order between them.
unsafe impl Sync for Segment {}
// SAFETY: as above.
unsafe impl Send for Segment {}

impl Segment {
    fn new(base: u64) -> Self {
        let watched = [UnsafeCell::new(()), UnsafeCell::new(())];
        let slots = [[0xAA; SLOT_BYTES], [0xBB; SLOT_BYTES]].map(std::cell::UnsafeCell::new);
        let (published, sleeps_for, bell) = (Long::new(base), Short::new(0), Short::new(0));
        Segment { published, sleeps_for, bell, sleepers: Futex::new(), watched, slots }
    }

    fn counters(&self) -> Counters<'_, Long, Short> {
        Counters::new(&self.published, &self.sleeps_for, &self.bell)
    }
}

/// All segments as one rank sees them.
struct View {
    rank: usize,
    segments: Arc<Vec<Segment>>,
    /// A defect: publishes don't make visible what was written before.
    is_careless: bool,
}

impl Segments for View {
    fn published(&self, rank: usize) -> u64 {
        self.segments[rank].counters().published()
    }

    fn slot(&self, rank: usize, step: u64) -> &[u8] {
        let slot = (step % 2) as usize;
        self.segments[rank].watched[slot].with(|_| ());
        // SAFETY: loom has just seen that its writer did so before, and will see it when
        // another writes it without having waited for this reader's next publish.
        unsafe { &*self.segments[rank].slots[slot].get() }
    }

    fn own_slot(&mut self, step: u64) -> &mut [u8] {
        let slot = (step % 2) as usize;
        self.segments[self.rank].watched[slot].with_mut(|_| ());
        // SAFETY: as above.
        unsafe { &mut *self.segments[self.rank].slots[slot].get() }
    }

    fn publish(&mut self, step: u64) {
        if self.is_careless {
            return self.segments[self.rank].published.store(step, Ordering::Relaxed);
        }
        let others = self.segments.iter().map(Segment::counters);
        let own = &self.segments[self.rank];
        own.counters().publish(self.rank as u32, step, others, |_| own.sleepers.wake());
    }
}

impl View {
    /// Sleeps until a rank has published a step.
    fn wait(&self, rank: usize, step: u64) {
        if self.is_careless {
            return thread::yield_now();
        }
        let (own, other) = (&self.segments[self.rank], &self.segments[rank]);
        own.counters().sleep(&other.counters(), rank as u32, step, |bell, seen| other.sleepers.wait(bell, seen));
    }
}

/// A call, the input of each rank, and the result of all.
type Called = (SharedCall, Vec<Vec<u8>>, Vec<u8>);

fn allreduce(world: usize, count: usize) -> Called {
    let inputs = (0..world).map(|rank| vec![1 << rank; count]).collect();
    (SharedCall::Allreduce { count, order: Order::Rank }, inputs, vec![(1 << world) - 1; count])
}

fn broadcast(world: usize, root: usize, bytes: usize) -> Called {
    let inputs = (0..world).map(|rank| if rank == root { vec![7; bytes] } else { Vec::new() }).collect();
    (SharedCall::Broadcast { root, bytes }, inputs, vec![7; bytes])
}

fn barrier(world: usize) -> Called {
    (SharedCall::Barrier, vec![Vec::new(); world], Vec::new())
}

/// One rank's calls, one after the other.
fn run(mut view: View, calls: &[Called]) {
    let (rank, world) = (view.rank, view.segments.len());
    let reducer = Reducer::new(Reduction::Sum, Element::U8).unwrap();
    let (mut base, mut before) = (first_step(1), None);
    for (number, (call, inputs, expected)) in calls.iter().enumerate() {
        let shape = Shape::new(WorldRank::new(rank, world), call.clone(), 1, SLOT_BYTES, false).unwrap();
        let mut result = vec![0xCC; shape.result_bytes()];
        let mut machine = SharedMachine::new(shape, [number as u8; 64], base).after(before);
        while !machine.advance(&mut view, &inputs[rank], &mut result, &reducer).unwrap() {
            if let Some((rank, step)) = machine.waits_for(&view) {
                view.wait(rank, step);
            }
        }
        assert_eq!(&result, expected, "call {number} at rank {rank}");
        (base, before) = (machine.last_step(), machine.uncompared());
    }
}

/// Each rank's calls in a thread of its own.
fn run_all(calls: &std::sync::Arc<Vec<Called>>, is_careless: bool) {
    let world = calls[0].1.len();
    let segments = Arc::new((0..world).map(|_| Segment::new(first_step(1))).collect::<Vec<_>>());
    let other = |rank| {
        let (view, calls) = (View { rank, segments: segments.clone(), is_careless }, calls.clone());
        thread::spawn(move || run(view, &calls))
    };
    let others: Vec<_> = (1..world).map(other).collect();
    run(View { rank: 0, segments, is_careless }, calls);
    others.into_iter().for_each(|other| other.join().unwrap());
}

fn in_orders(changes: usize, calls: Vec<Called>, is_careless: bool) {
    let calls = std::sync::Arc::new(calls);
    in_every_order(changes, move || run_all(&calls, is_careless));
}

#[test]
fn two_ranks_that_fold_everything_themselves_use_each_slot_again_only_when_it_was_read() {
    in_orders(2, vec![allreduce(2, 2), allreduce(2, 1), barrier(2), allreduce(2, 2)], false);
}

#[test]
fn two_ranks_read_what_a_root_that_runs_ahead_has_written_before_it_writes_there_again() {
    in_orders(2, vec![broadcast(2, 0, 9), broadcast(2, 1, 1), barrier(2)], false);
}

#[test]
fn three_ranks_never_read_what_is_being_written() {
    in_orders(1, vec![broadcast(3, 1, 5), allreduce(3, 1)], false);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_publish_that_does_not_make_visible_what_was_written_before_would_be_found() {
    in_orders(1, vec![allreduce(2, 2)], true);
}

#[test]
fn who_reads_what_a_later_attempt_has_written_sees_that_it_has_begun() {
    in_every_order(3, || {
        let (segment, sleeper) = (Segment::new(first_step(1)), Segment::new(first_step(1)));
        // What a slot holds, as a rank that was frozen meanwhile may see it.
        let shared = Arc::new((segment, sleeper, Long::new(1)));
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (own, frozen, slot) = &*shared;
                own.counters().publish(0, first_step(2), [frozen.counters()], |_| unreachable!("no rank sleeps here"));
                slot.store(2, Ordering::Relaxed);
            })
        };
        let (writer, _, slot) = &*shared;
        let read = slot.load(Ordering::Relaxed);
        let counts = nobody_has_reached(first_step(2), [writer.counters()]);
        assert!(read == 1 || !counts, "what the later generation wrote would count in the earlier one");
        other.join().unwrap();
    });
}
