//! Every schedule against the reference, however the bytes move.

mod world;

use proptest::prelude::*;
use rejoin_collectives::schedules::{self, Allgather, Allreduce, Barrier, Broadcast};
use rejoin_collectives::{reference, Element, FoldError, Order, Reducer, Reduction, Schedule, WorldRank};
use world::{run, Dice, Links};

const ORDERS: [Order; 2] = [Order::Rank, Order::Ring];
const LINKS: [Links; 2] = [Links::Empty, Links::Unbounded];

fn each(world: usize, schedule: impl Fn(WorldRank) -> Schedule) -> Vec<Schedule> {
    (0..world).map(|rank| schedule(WorldRank::new(rank, world))).collect()
}

fn inputs(world: usize, bytes: usize, dice: &mut Dice) -> Vec<Vec<u8>> {
    (0..world).map(|_| dice.bytes(bytes)).collect()
}

/// Neither commutative nor associative: any other order gives something else.
fn order_sensitive() -> Reducer<'static> {
    Reducer::custom(3, |accumulator, other| {
        for (left, right) in accumulator.chunks_exact_mut(3).zip(other.chunks_exact(3)) {
            for (left, right) in left.iter_mut().zip(right) {
                *left = left.wrapping_mul(31).wrapping_add(*right).rotate_left(3);
            }
        }
        Ok(())
    })
}

fn a_reduction() -> impl Strategy<Value = (Element, Reduction)> {
    let pairs =
        Element::ALL.iter().flat_map(|&element| Reduction::ALL.iter().map(move |&reduction| (element, reduction)));
    prop::sample::select(
        pairs.filter(|(element, reduction)| reduction.check(*element).is_ok()).collect::<Vec<(Element, Reduction)>>(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn an_allreduce_gives_the_reference_by_every_algorithm(
        (element, reduction) in a_reduction(),
        world in 1usize..10,
        count in 0usize..41,
        algorithm in prop::sample::select(Allreduce::ALL),
        order in prop::sample::select(ORDERS.to_vec()),
        links in prop::sample::select(LINKS.to_vec()),
        seed: u64,
    ) {
        let reducer = Reducer::new(reduction, element).unwrap();
        let inputs = inputs(world, count * element.size(), &mut Dice(seed));
        let schedules = each(world, |me| schedules::allreduce(me, count, element.size(), order, algorithm));
        let results = run(&schedules, &inputs, &reducer, links, seed).unwrap();
        let expected = reference::allreduce(&inputs, &reducer, order).unwrap();
        prop_assert_eq!(results, vec![expected; world]);
    }

    #[test]
    fn an_allreduce_by_hosts_gives_the_reference_wherever_the_ranks_are(
        (element, reduction) in a_reduction(),
        hosts in prop::collection::vec(0usize..4, 1..10),
        count in 0usize..41,
        order in prop::sample::select(ORDERS.to_vec()),
        links in prop::sample::select(LINKS.to_vec()),
        seed: u64,
    ) {
        let (reducer, world) = (Reducer::new(reduction, element).unwrap(), hosts.len());
        let inputs = inputs(world, count * element.size(), &mut Dice(seed));
        let schedules = each(world, |me| schedules::allreduce_by_hosts(me, &hosts, count, element.size(), order));
        let results = run(&schedules, &inputs, &reducer, links, seed).unwrap();
        let expected = reference::allreduce(&inputs, &reducer, order).unwrap();
        prop_assert_eq!(results, vec![expected; world]);
    }

    #[test]
    fn a_reduce_scatter_gives_each_rank_its_chunk(
        (element, reduction) in a_reduction(),
        world in 1usize..10,
        count in 0usize..41,
        order in prop::sample::select(ORDERS.to_vec()),
        links in prop::sample::select(LINKS.to_vec()),
        seed: u64,
    ) {
        let reducer = Reducer::new(reduction, element).unwrap();
        let inputs = inputs(world, count * element.size(), &mut Dice(seed));
        let schedules = each(world, |me| schedules::reduce_scatter(me, count, element.size(), order));
        let results = run(&schedules, &inputs, &reducer, links, seed).unwrap();
        prop_assert_eq!(results, reference::reduce_scatter(&inputs, &reducer, order).unwrap());
    }

    #[test]
    fn a_broadcast_gives_everybody_the_bytes_of_the_root(
        world in 1usize..10,
        root in 0usize..9,
        bytes in 0usize..300,
        algorithm in prop::sample::select(Broadcast::ALL),
        links in prop::sample::select(LINKS.to_vec()),
        seed: u64,
    ) {
        let root = root % world;
        let mut inputs = vec![Vec::new(); world];
        inputs[root] = Dice(seed).bytes(bytes);
        let schedules = each(world, |me| schedules::broadcast(me, bytes, root, algorithm));
        let results = run(&schedules, &inputs, &bytes_reducer(), links, seed).unwrap();
        prop_assert_eq!(results, vec![inputs[root].clone(); world]);
    }

    #[test]
    fn an_allgather_gives_everybody_all_parts_in_the_order_of_the_ranks(
        lengths in prop::collection::vec(0usize..60, 1..10),
        algorithm in prop::sample::select(Allgather::ALL),
        links in prop::sample::select(LINKS.to_vec()),
        equal: bool,
        seed: u64,
    ) {
        let world = lengths.len();
        let lengths = if equal { vec![lengths[0]; world] } else { lengths };
        let mut dice = Dice(seed);
        let inputs: Vec<Vec<u8>> = lengths.iter().map(|&length| dice.bytes(length)).collect();
        let schedules = each(world, |me| schedules::allgather_parts(me, &lengths, algorithm));
        if equal {
            prop_assert_eq!(&schedules, &each(world, |me| schedules::allgather(me, lengths[0], algorithm)));
        }
        let results = run(&schedules, &inputs, &bytes_reducer(), links, seed).unwrap();
        prop_assert_eq!(results, vec![reference::allgather(&inputs); world]);
    }

    #[test]
    fn a_custom_reducer_is_called_in_the_stated_order(
        world in 1usize..10,
        count in 0usize..41,
        algorithm in prop::sample::select(Allreduce::ALL),
        order in prop::sample::select(ORDERS.to_vec()),
        seed: u64,
    ) {
        let reducer = order_sensitive();
        let inputs = inputs(world, count * 3, &mut Dice(seed));
        let schedules = each(world, |me| schedules::allreduce(me, count, 3, order, algorithm));
        let results = run(&schedules, &inputs, &reducer, Links::Empty, seed).unwrap();
        let expected = vec![reference::allreduce(&inputs, &reducer, order).unwrap(); world];
        prop_assert_eq!(&results, &expected);
        let hosts: Vec<usize> = (0..world).map(|rank| Dice(seed.wrapping_add(rank as u64)).roll(3)).collect();
        let schedules = each(world, |me| schedules::allreduce_by_hosts(me, &hosts, count, 3, order));
        let results = run(&schedules, &inputs, &reducer, Links::Empty, seed).unwrap();
        prop_assert_eq!(&results, &expected);
        let schedules = each(world, |me| schedules::reduce_scatter(me, count, 3, order));
        let results = run(&schedules, &inputs, &reducer, Links::Empty, seed).unwrap();
        prop_assert_eq!(results, reference::reduce_scatter(&inputs, &reducer, order).unwrap());
    }

    #[test]
    fn nobody_is_past_a_barrier_before_all_have_come(
        world in 1usize..10,
        algorithm in prop::sample::select(Barrier::ALL),
        links in prop::sample::select(LINKS.to_vec()),
        late in 0usize..9,
        seed: u64,
    ) {
        let schedules = each(world, |me| schedules::barrier(me, algorithm));
        run(&schedules, &vec![Vec::new(); world], &bytes_reducer(), links, seed).unwrap();
        if world > 1 {
            let past = world::past_without(&schedules, late % world, seed);
            prop_assert!(past.is_empty(), "past the barrier without rank {}: {past:?}", late % world);
        }
    }
}

fn bytes_reducer() -> Reducer<'static> {
    Reducer::new(Reduction::Sum, Element::U8).unwrap()
}

#[test]
fn no_schedule_can_deadlock_whatever_the_world_and_the_count() {
    // What is possible for a rank stays possible whatever the others do, so one run to the end over links that hold
    // nothing speaks for all the orders in which the same could have happened.
    let reducer = bytes_reducer();
    for world in 1..=17 {
        for count in [0, 1, world - 1, world, world + 1, 40] {
            let inputs = inputs(world, count, &mut Dice(7));
            for order in ORDERS {
                let expected = reference::allreduce(&inputs, &reducer, order).unwrap();
                for &algorithm in Allreduce::ALL {
                    let schedules = each(world, |me| schedules::allreduce(me, count, 1, order, algorithm));
                    let results = run(&schedules, &inputs, &reducer, Links::Empty, 3).unwrap();
                    assert!(results.iter().all(|result| *result == expected), "{algorithm:?} of {count} among {world}");
                }
                for hosts in placements(world) {
                    let schedules = each(world, |me| schedules::allreduce_by_hosts(me, &hosts, count, 1, order));
                    let results = run(&schedules, &inputs, &reducer, Links::Empty, 3).unwrap();
                    assert!(results.iter().all(|result| *result == expected), "{count} among {world} on {hosts:?}");
                }
            }
        }
    }
}

#[test]
fn buffers_longer_than_the_rings_come_through_them_in_order() {
    let reducer = Reducer::custom(7, |accumulator, other| {
        accumulator.iter_mut().zip(other).for_each(|(left, right)| *left = left.wrapping_mul(5).wrapping_add(*right));
        Ok(())
    });
    let count = 200_000;
    for (world, seed) in [(2, 2), (3, 5), (5, 11)] {
        let inputs = inputs(world, count * 7, &mut Dice(seed));
        for order in ORDERS {
            let expected = reference::allreduce(&inputs, &reducer, order).unwrap();
            for &algorithm in Allreduce::ALL {
                let schedules = each(world, |me| schedules::allreduce(me, count, 7, order, algorithm));
                assert!(
                    !algorithm.folds_once() || schedules.iter().all(|schedule| schedule.scratch_bytes() <= 2 << 20),
                    "{algorithm:?} needs {} bytes of scratch",
                    schedules[0].scratch_bytes()
                );
                let results = world::run_in_bulk(&schedules, &inputs, &reducer).unwrap();
                assert!(results.iter().all(|result| *result == expected), "{algorithm:?}, {order:?}, world of {world}");
            }
            for hosts in placements(world) {
                let schedules = each(world, |me| schedules::allreduce_by_hosts(me, &hosts, count, 7, order));
                assert!(schedules.iter().all(|schedule| schedule.scratch_bytes() <= 2 << 20), "on {hosts:?}");
                let results = world::run_in_bulk(&schedules, &inputs, &reducer).unwrap();
                assert!(results.iter().all(|result| *result == expected), "{order:?}, on {hosts:?}");
            }
        }
    }
}

/// Ranks on one host each, two side by side, two or three in turn, and all but one together.
fn placements(world: usize) -> Vec<Vec<usize>> {
    let hosts: [fn(usize) -> usize; 6] = [
        |rank| rank,
        |rank| rank / 2,
        |rank| rank % 2,
        |rank| rank % 3,
        |rank| usize::from(rank == 1),
        |rank| 7 - rank % 5 / 2,
    ];
    hosts.iter().map(|host| (0..world).map(host).collect()).collect()
}

#[test]
fn a_failing_custom_reducer_ends_the_collective_with_its_words() {
    let reducer = Reducer::custom(1, |_, _| Err(FoldError("no such luck".into())));
    let schedules = each(3, |me| schedules::allreduce(me, 5, 1, Order::Rank, Allreduce::Direct));
    let error = run(&schedules, &vec![vec![0; 5]; 3], &reducer, Links::Unbounded, 1).unwrap_err();
    assert!(error.to_string().contains("no such luck"), "{error}");
}
