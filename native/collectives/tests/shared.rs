//! Collectives on segments against the reference, in any order of their turns.

use proptest::prelude::*;
use rejoin_collectives::shared::{first_step, Segments, Shape, SharedCall, SharedError, SharedMachine, COMMON_BYTES};
use rejoin_collectives::{reference, Element, Order, Reducer, Reduction, WorldRank};

/// One rank's segment: the last step published, and two slots.
#[derive(Clone)]
struct Segment {
    published: u64,
    slots: [Vec<u8>; 2],
}

/// All segments as one rank sees them. What a rank must not write at a moment is found by wrong results.
struct View<'w> {
    rank: usize,
    segments: &'w mut [Segment],
}

impl Segments for View<'_> {
    fn published(&self, rank: usize) -> u64 {
        self.segments[rank].published
    }

    fn slot(&self, rank: usize, step: u64) -> &[u8] {
        assert!(
            (step..step + 2).contains(&self.segments[rank].published),
            "a slot that may be written meanwhile is read"
        );
        &self.segments[rank].slots[(step % 2) as usize]
    }

    fn own_slot(&mut self, step: u64) -> &mut [u8] {
        assert_eq!(step, self.segments[self.rank].published + 1, "a slot is written out of turn");
        // No rank may still want what was here.
        assert!(
            self.segments.iter().all(|segment| segment.published + 1 >= step),
            "a slot that others still read is written"
        );
        &mut self.segments[self.rank].slots[(step % 2) as usize]
    }

    fn publish(&mut self, step: u64) {
        assert_eq!(step, self.segments[self.rank].published + 1);
        self.segments[self.rank].published = step;
    }
}

fn roll(state: &mut u64, below: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize % below
}

fn bytes(state: &mut u64, count: usize) -> Vec<u8> {
    (0..count).map(|_| roll(state, 256) as u8).collect()
}

/// A world in which collectives run one after the other on the same segments.
struct World {
    segments: Vec<Segment>,
    bases: Vec<u64>,
    state: u64,
    /// Results are in parts where they can be.
    in_parts: bool,
}

impl World {
    fn new(world: usize, slot_bytes: usize, seed: u64) -> Self {
        let base = first_step(3);
        let segment = Segment { published: base, slots: [vec![0xAA; slot_bytes], vec![0xBB; slot_bytes]] };
        World { segments: vec![segment; world], bases: vec![base; world], state: seed, in_parts: false }
    }

    /// Each rank does its calls in turn; whose turn it is to go on is up to chance. Gives the
    /// results by call and rank; of a result in parts all have what the ranks had shown when they
    /// were done.
    fn run(&mut self, calls: &[(SharedCall, Vec<Vec<u8>>)], size: usize, reducer: &Reducer<'_>) -> Vec<Vec<Vec<u8>>> {
        let (world, in_parts) = (self.segments.len(), self.in_parts);
        let slot_bytes = self.segments[0].slots[0].len();
        let mut shown: Vec<Vec<Option<Vec<u8>>>> = vec![vec![None; world]; calls.len()];
        let machine = |rank: usize, call: usize, base: u64| {
            let me = WorldRank::new(rank, world);
            let shape = Shape::new(me, calls[call].0.clone(), size, slot_bytes, reducer.is_custom()).unwrap();
            let shape = if in_parts { shape.clone().in_parts().unwrap_or(shape) } else { shape };
            let result = vec![0xCC; shape.result_bytes()];
            (SharedMachine::new(shape, [call as u8; 64], base), result)
        };
        let mut under_way: Vec<_> = (0..world).map(|rank| Some((0, machine(rank, 0, self.bases[rank])))).collect();
        let mut results = vec![vec![Vec::new(); world]; calls.len()];
        let mut idle = 0;
        while under_way.iter().any(Option::is_some) {
            let rank = roll(&mut self.state, world);
            let Some((call, (machine_under_way, result))) = &mut under_way[rank] else { continue };
            let before = self.segments[rank].published;
            let mut view = View { rank, segments: &mut self.segments };
            let input = &calls[*call].1[rank];
            let finished = machine_under_way.advance(&mut view, input, result, reducer).unwrap();
            let shows_part = machine_under_way.shows_part();
            if shows_part {
                shown[*call][rank] = Some(std::mem::take(result));
            }
            idle = if finished || shows_part || self.segments[rank].published > before { 0 } else { idle + 1 };
            assert!(idle < 1000 * world, "no rank goes on");
            if finished {
                results[*call][rank] = match &shown[*call] {
                    parts if parts[rank].is_some() => parts
                        .iter()
                        .flat_map(|part| part.as_ref().expect("who is done finds all parts"))
                        .copied()
                        .collect(),
                    _ => std::mem::take(result),
                };
                self.bases[rank] = machine_under_way.last_step();
                let next = *call + 1;
                under_way[rank] = (next < calls.len()).then(|| (next, machine(rank, next, self.bases[rank])));
            }
        }
        results
    }
}

/// Neither commutative nor associative, on elements of 3 bytes.
fn order_sensitive() -> Reducer<'static> {
    Reducer::custom(3, |accumulator, other| {
        for (left, right) in accumulator.iter_mut().zip(other) {
            *left = left.wrapping_mul(31).wrapping_add(*right).rotate_left(3);
        }
        Ok(())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn collectives_one_after_the_other_give_the_reference(
        world in 1usize..10,
        kinds in prop::collection::vec((0usize..5, 0usize..500, 0usize..9, any::<bool>()), 1..8),
        slot_bytes in 200usize..1200,
        custom: bool,
        in_parts: bool,
        seed: u64,
    ) {
        let (size, reducer) = if custom {
            (3, order_sensitive())
        } else {
            (4, Reducer::new(Reduction::Sum, Element::F32).unwrap())
        };
        let mut state = seed;
        let calls: Vec<(SharedCall, Vec<Vec<u8>>)> = kinds.iter().map(|&(kind, count, root, ring)| {
            let order = if ring { Order::Ring } else { Order::Rank };
            let root = root % world;
            let mut each = |length: &dyn Fn(usize) -> usize| -> Vec<Vec<u8>> {
                (0..world).map(|rank| bytes(&mut state, length(rank))).collect()
            };
            match kind {
                0 => (SharedCall::Allreduce { count, order }, each(&|_| count * size)),
                1 => (SharedCall::ReduceScatter { count, order }, each(&|_| count * size)),
                2 => (SharedCall::Broadcast { root, bytes: count }, each(&|rank| if rank == root { count } else { 0 })),
                3 => {
                    let part_bytes: Vec<usize> = (0..world).map(|rank| count * (rank + root) % 700).collect();
                    (SharedCall::Allgather { part_bytes: part_bytes.clone() }, each(&|rank| part_bytes[rank]))
                }
                _ => (SharedCall::Barrier, each(&|_| 0)),
            }
        }).collect();
        let mut segments = World { in_parts, ..World::new(world, slot_bytes, seed) };
        for (results, (call, inputs)) in segments.run(&calls, size, &reducer).into_iter().zip(&calls) {
            let expected = match call {
                SharedCall::Allreduce { order, .. } => {
                    vec![reference::allreduce(inputs, &reducer, *order).unwrap(); world]
                }
                SharedCall::ReduceScatter { order, .. } => {
                    reference::reduce_scatter(inputs, &reducer, *order).unwrap()
                }
                SharedCall::Broadcast { root, .. } => vec![inputs[*root].clone(); world],
                SharedCall::Allgather { .. } => vec![reference::allgather(inputs); world],
                SharedCall::Barrier => vec![Vec::new(); world],
            };
            prop_assert_eq!(results, expected, "{:?}", call);
        }
    }
}

#[test]
fn everybody_folds_a_few_bytes_in_one_step_but_never_with_a_custom_reducer() {
    let call = SharedCall::Allreduce { count: 8, order: Order::Rank };
    let shape = |once| Shape::new(WorldRank::new(0, 4), call.clone(), 4, 4096, once).unwrap();
    assert_eq!(shape(false).steps(), 1);
    assert_eq!(shape(true).steps(), 2);
}

#[test]
fn a_rank_shows_its_part_of_a_result_before_anybody_can_be_done() {
    let call = SharedCall::Allreduce { count: 1000, order: Order::Ring };
    let shape = |rank| Shape::new(WorldRank::new(rank, 2), call.clone(), 4, 1024, false).unwrap().in_parts().unwrap();
    assert_eq!(shape(0).parts().sum::<usize>(), 4000);
    assert_eq!(shape(0).result_bytes(), 2000);
    let (mut world, reducer) = (World::new(2, 1024, 1), Reducer::new(Reduction::Sum, Element::F32).unwrap());
    let base = world.bases[0];
    let mut machines = [0, 1].map(|rank| SharedMachine::new(shape(rank), [1; 64], base));
    let mut results = [vec![0; 2000], vec![0; 2000]];
    let mut has_shown = [false; 2];
    for turn in 0.. {
        assert!(turn < 1000, "no rank goes on");
        let rank = turn % 2;
        let mut view = View { rank, segments: &mut world.segments };
        let done = machines[rank].advance(&mut view, &[0; 4000], &mut results[rank], &reducer).unwrap();
        if machines[rank].shows_part() {
            assert!(world.segments[rank].published < machines[rank].last_step(), "it isn't published yet");
            (has_shown[rank], results[rank]) = (true, Vec::new());
        }
        if done {
            assert_eq!(has_shown, [true; 2]);
            break;
        }
    }
    for other in [SharedCall::Broadcast { root: 0, bytes: 4000 }, SharedCall::Barrier] {
        let shape = Shape::new(WorldRank::new(0, 2), other, 1, 1024, false).unwrap();
        assert!(shape.in_parts().is_none(), "only what is folded in chunks has parts");
    }
}

#[test]
fn an_element_that_is_longer_than_the_slots_is_left_to_the_links() {
    let call = SharedCall::Allreduce { count: 1, order: Order::Rank };
    assert!(Shape::new(WorldRank::new(0, 4), call, 1000, 4096, true).is_none());
}

#[test]
fn a_rank_that_does_something_else_is_named_and_nothing_of_it_is_used() {
    let mut world = World::new(2, 256, 1);
    let reducer = Reducer::new(Reduction::Sum, Element::F32).unwrap();
    let shape = |rank, count| {
        let call = SharedCall::Allreduce { count, order: Order::Rank };
        Shape::new(WorldRank::new(rank, 2), call, 4, 256, false).unwrap()
    };
    let base = world.bases[0];
    let mut first = SharedMachine::new(shape(0, 2), [1; 64], base);
    let mut second = SharedMachine::new(shape(1, 3), [2; 64], base);
    let mut result = vec![0; 12];
    let mut view = View { rank: 0, segments: &mut world.segments };
    assert_eq!(first.advance(&mut view, &[0; 8], &mut result[..8], &reducer), Ok(false));
    assert_eq!(first.awaited(&view), [1]);
    let mut view = View { rank: 1, segments: &mut world.segments };
    let error = second.advance(&mut view, &[0; 12], &mut result, &reducer).unwrap_err();
    assert_eq!(error, SharedError::Mismatch { rank: 0, theirs: [1; 64] });
    let mut view = View { rank: 0, segments: &mut world.segments };
    let error = first.advance(&mut view, &[0; 8], &mut result[..8], &reducer).unwrap_err();
    assert_eq!(error, SharedError::Mismatch { rank: 1, theirs: [2; 64] });
}

#[test]
fn what_follows_the_common_bytes_is_each_ranks_own_and_can_be_read_when_it_is_done() {
    let base = first_step(1);
    let mut segments = vec![Segment { published: base, slots: [vec![0; 256], vec![0; 256]] }; 3];
    let reducer = Reducer::custom(1, |_, _| Ok(()));
    let identity = |rank: usize| {
        let mut identity = [9; 64];
        identity[COMMON_BYTES..].fill(rank as u8 + 50);
        identity
    };
    for (call, givers) in [
        (SharedCall::Barrier, [vec![1, 2], vec![0, 2], vec![0, 1]]),
        (SharedCall::Broadcast { root: 1, bytes: 3 }, [vec![1], vec![], vec![1]]),
    ] {
        let base = segments[0].published;
        let bytes = if call == SharedCall::Barrier { 0 } else { 3 };
        let mut machines: Vec<SharedMachine> = (0..3)
            .map(|rank| {
                let shape = Shape::new(WorldRank::new(rank, 3), call.clone(), 1, 256, false).unwrap();
                SharedMachine::new(shape, identity(rank), base)
            })
            .collect();
        let mut done = [false; 3];
        while done != [true; 3] {
            for rank in 0..3 {
                let input = if rank == 1 { vec![7; bytes] } else { Vec::new() };
                let mut view = View { rank, segments: &mut segments };
                let machine = &mut machines[rank];
                done[rank] = machine.advance(&mut view, &input, &mut vec![0; bytes], &reducer).unwrap();
                if done[rank] {
                    assert_eq!(machine.givers().collect::<Vec<_>>(), givers[rank]);
                    for giver in machine.givers() {
                        assert_eq!(view.slot(giver, machine.last_step())[..64], identity(giver));
                    }
                }
            }
        }
    }
}

#[test]
fn the_root_of_a_broadcast_goes_on_while_the_others_are_one_step_behind() {
    let mut world = World::new(3, 256, 1);
    let reducer = Reducer::new(Reduction::Sum, Element::U8).unwrap();
    let shape = Shape::new(WorldRank::new(0, 3), SharedCall::Broadcast { root: 0, bytes: 5 }, 1, 256, false).unwrap();
    let mut machine = SharedMachine::new(shape, [1; 64], world.bases[0]);
    let mut view = View { rank: 0, segments: &mut world.segments };
    assert_eq!(machine.advance(&mut view, b"hello", &mut [0; 5], &reducer), Ok(true));
}

/// Two ranks, each with a call of its own at the same step.
fn pair(calls: [SharedCall; 2]) -> (Vec<Segment>, Vec<SharedMachine>) {
    let base = first_step(1);
    let segment = Segment { published: base, slots: [vec![0; 256], vec![0; 256]] };
    let machines = calls.into_iter().enumerate().map(|(rank, call)| {
        let identity = [rank as u8 + 1; 64];
        SharedMachine::new(Shape::new(WorldRank::new(rank, 2), call, 1, 256, false).unwrap(), identity, base)
    });
    (vec![segment; 2], machines.collect())
}

#[test]
fn roots_of_two_broadcasts_find_out_before_anything_of_the_next_collective_is_written() {
    let roots = [0, 1].map(|root| SharedCall::Broadcast { root, bytes: 3 });
    let (mut segments, mut machines) = pair(roots);
    let reducer = Reducer::custom(1, |_, _| Ok(()));
    for (rank, machine) in machines.iter_mut().enumerate() {
        let mut view = View { rank, segments: &mut segments };
        assert_eq!(machine.advance(&mut view, &[9; 3], &mut [0; 3], &reducer), Ok(true), "a root waits for no rank");
    }
    for rank in [0, 1] {
        let before = machines[rank].uncompared().expect("no rank was looked at");
        assert_eq!(before, [rank as u8 + 1; 64]);
        let shape = Shape::new(WorldRank::new(rank, 2), SharedCall::Barrier, 1, 256, false).unwrap();
        let mut next = SharedMachine::new(shape, [7; 64], machines[rank].last_step()).after(Some(before));
        let mut view = View { rank, segments: &mut segments };
        let found = next.advance(&mut view, &[], &mut [], &reducer);
        assert_eq!(found, Err(SharedError::Mismatch { rank: 1 - rank, theirs: [2 - rank as u8; 64] }));
    }
}

#[test]
fn what_is_written_up_to_a_stop_is_published_only_when_it_goes_on() {
    let gathers = [0, 1].map(|_| SharedCall::Allgather { part_bytes: vec![500, 500] });
    let (mut segments, mut machines) = pair(gathers);
    let reducer = Reducer::custom(1, |_, _| Ok(()));
    machines[0].stop_at(Some(100));
    let mut view = View { rank: 0, segments: &mut segments };
    let mut result = vec![0; 1000];
    assert_eq!(machines[0].advance(&mut view, &[3; 500], &mut result, &reducer), Ok(false));
    assert!(machines[0].has_stopped() && !machines[0].has_stopped());
    assert_eq!((machines[0].sent(), segments[0].published), (192, first_step(1)));
    let mut view = View { rank: 0, segments: &mut segments };
    assert_eq!(machines[0].advance(&mut view, &[3; 500], &mut result, &reducer), Ok(false));
    assert_eq!((machines[0].sent(), segments[0].published), (192, first_step(1) + 1), "written once");
    assert_eq!(machines[0].waits_for(&View { rank: 0, segments: &mut segments }), Some((1, first_step(1) + 1)));
}
