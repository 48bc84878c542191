//! The hook in real XGBoost libraries: what it gives is what XGBoost's own collective gives, byte
//! by byte, and a program that isn't a rank of ours doesn't notice it.

mod common;
#[allow(clippy::duplicate_mod)]
mod hooked;
#[path = "../../communicator/tests/ranks/mod.rs"]
#[allow(clippy::duplicate_mod)]
mod ranks;

use hooked::in_own_process;
use hooked::job::{hooked, stock, Member, Transport};
use hooked::library::{has_context, Collective, Ended, RELEASES};
use rejoin_xgboost::WireVariant;

fn variant(release: &str) -> WireVariant {
    if has_context(release) {
        WireVariant::From33
    } else {
        WireVariant::Until32
    }
}

/// XGBoost's codes of element types, with their sizes.
const ELEMENTS: [(i32, usize); 10] = [(1, 4), (2, 8), (4, 1), (5, 2), (6, 4), (7, 8), (8, 1), (9, 2), (10, 4), (11, 8)];
/// Its codes of operators, of which the last three are none of floats.
const OPERATORS: [i32; 6] = [0, 1, 2, 3, 4, 5];

/// Bytes that differ from rank to rank. With `strange`, floats are everything there is: numbers too
/// small, zeros of both signs, infinities, NaNs with payloads. But nowhere do two ranks have a NaN:
/// where they meet, it is the processor's business which one remains.
fn data(rank: u32, seed: u32, count: usize, (kind, size): (i32, usize), strange: bool) -> Vec<u8> {
    let mut state = (u64::from(rank) << 32 | u64::from(seed)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut bytes = Vec::with_capacity(count * size);
    for at in 0..count {
        let number = random();
        let float = match number % 16 {
            0 if strange => [0.0, -0.0, f64::MAX, f64::MIN_POSITIVE / 3.0][(number >> 8) as usize % 4],
            _ if strange && at % 23 == 5 => [f64::INFINITY, f64::NEG_INFINITY][rank as usize % 2],
            _ if strange && at % 11 == rank as usize => f64::from_bits(0xfff8_0001_2000_0000 ^ number << 63),
            _ => (number >> 11) as f64 / (1u64 << 53) as f64 * [1.0, -1e-3, 1e7, -30.0][(number as usize >> 4) % 4],
        };
        match kind {
            1 => bytes.extend_from_slice(&(float as f32).to_ne_bytes()),
            2 => bytes.extend_from_slice(&float.to_ne_bytes()),
            _ => bytes.extend_from_slice(&number.to_ne_bytes()[..size]),
        }
    }
    bytes
}

/// What one rank has been given by all the calls of a job, and how often.
#[derive(Debug, Default, PartialEq)]
struct Given {
    results: Vec<(String, Ended, Vec<u8>)>,
}

/// Every kind of call that there is, of many lengths.
fn all_calls(collective: &Collective, rank: u32, world: u32) -> Given {
    let mut given = Given::default();
    let (own, n) = (rank as usize, world as usize);
    let mut seed = 0;
    for element in ELEMENTS {
        for operator in OPERATORS {
            for count in [1, n - 1, n, n + 1, 3 * n + 2, 1000, 20_003] {
                seed += 1;
                let mut bytes = data(rank, seed, count, element, true);
                let ended = collective.allreduce(&mut bytes, element.0, operator);
                let is_float = element.0 <= 2;
                assert_eq!(
                    ended == Ended::Success,
                    !is_float || operator < 3,
                    "type {} operator {operator}",
                    element.0
                );
                given.results.push((format!("allreduce type {} operator {operator} {count}", element.0), ended, bytes));
            }
        }
    }
    for root in 0..world {
        for length in [1, 3, 64, 100_001] {
            let mut bytes = data(rank, 5000 + root, length, (8, 1), false);
            let ended = collective.broadcast(&mut bytes, root as i32);
            given.results.push((format!("broadcast from {root} of {length}"), ended, bytes));
        }
    }
    for length in [n, 8 * n, 8 * n + 1, 1000 * n + n - 1, 40_000 * n] {
        let part = length / n;
        let end = if own + 1 == n { length } else { (own + 1) * part };
        let mut bytes = vec![0; length];
        bytes[own * part..end].copy_from_slice(&data(rank, 6000, end - own * part, (8, 1), false));
        let ended = collective.allgather(&mut bytes);
        given.results.push((format!("allgather of {length}"), ended, bytes));
    }
    for (number, sizes) in [[7, 7, 7, 7], [2, 5, 3, 1], [1, 80_000, 3, 40_000]].iter().enumerate() {
        for algorithm in [0, 1] {
            let sizes = &sizes[..n];
            let all = sizes.iter().sum::<i64>() as usize;
            let part = data(rank, 7000 + number as u32, sizes[own] as usize, (8, 1), false);
            let (mut offsets, mut received) = (vec![-1; n + 1], vec![0; all]);
            let ended = collective.allgather_v(&part, sizes, &mut offsets, &mut received, algorithm);
            let text: Vec<u8> = offsets.iter().flat_map(|offset: &i64| offset.to_ne_bytes()).collect();
            given.results.push((format!("allgather_v of {sizes:?}"), ended, [&received[..], &text].concat()));
            let first: i64 = sizes[..own].iter().sum();
            let mut received = vec![0; all];
            received[first as usize..][..part.len()].copy_from_slice(&part);
            let ended = collective.allgather_v_in_place(own, sizes, &mut offsets, &mut received, algorithm);
            given.results.push((format!("allgather_v in place of {sizes:?}"), ended, received));
        }
    }
    given
}

/// Calls that XGBoost answers itself, without asking another rank.
fn refused(collective: &Collective) -> Vec<Ended> {
    let mut some = vec![0u8; 40];
    vec![
        collective.allreduce(&mut [], 1, 2),
        // Half precision, which is for GPUs only.
        collective.allreduce(&mut some, 0, 2),
        // Not a whole number of elements.
        collective.allreduce(&mut some[..39], 2, 2),
        collective.broadcast(&mut [], 0),
    ]
}

fn same(ours: &[Given], theirs: &[Given], what: &str) {
    assert_eq!(ours.len(), theirs.len());
    for (rank, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        assert_eq!(ours.results.len(), theirs.results.len());
        for ((name, ended, bytes), (other, other_ended, other_bytes)) in ours.results.iter().zip(&theirs.results) {
            assert_eq!((name, ended), (other, other_ended), "{what}, rank {rank}");
            if bytes != other_bytes {
                let at = bytes.iter().zip(other_bytes).position(|(a, b)| a != b).unwrap_or(0);
                let around = |bytes: &[u8]| bytes[at / 8 * 8..].iter().take(8).copied().collect::<Vec<_>>();
                panic!(
                    "{what}, rank {rank}: {name} differs at byte {at}: {:x?} and {:x?}",
                    around(bytes),
                    around(other_bytes)
                );
            }
        }
    }
}

/// Each of them runs with each release; a process has one release only.
macro_rules! with_each_release {
    ($($(#[$doc:meta])* fn $name:ident($release:ident: &str) $body:block)*) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            for release in RELEASES {
                in_own_process(stringify!($name), release, || {
                    let $release = release;
                    $body
                });
            }
        }
    )*};
}

with_each_release! {
    fn every_call_gives_what_xgboosts_own_collective_gives_byte_by_byte(release: &str) {
        let collective = Collective::load(release);
        for world in [2, 3, 4] {
            let before = if world == 2 { "untouched" } else { "hooked, but not ours" };
            let theirs = stock(&collective, world, |rank| (all_calls(&collective, rank, world), refused(&collective)));
            let (theirs, their_refusals): (Vec<Given>, Vec<_>) = theirs.into_iter().unzip();
            for (together, transport) in [(world, Transport::Memory), (1, Transport::Memory), (1, Transport::Links)] {
                let ours = hooked(&collective, variant(release), world, together, transport, |member| {
                    let given = all_calls(&collective, member.rank, world);
                    let wanted = given.results.iter().filter(|(_, ended, _)| *ended == Ended::Success).count();
                    assert_eq!(member.served().calls, wanted as u64, "rank {}", member.rank);
                    (given, refused(&collective))
                });
                let (ours, refusals): (Vec<Given>, Vec<_>) = ours.into_iter().unzip();
                same(&ours, &theirs, &format!("{release} with {world} ranks, {together} together, through \
                                               {transport:?}, against {before}"));
                assert_eq!(refusals, their_refusals);
            }
        }
    }
}

#[test]
fn a_stock_communicator_beside_ours_is_untouched() {
    in_own_process("a_stock_communicator_beside_ours_is_untouched", "3.4.0", || {
        let collective = Collective::load("3.4.0");
        let expected = stock(&collective, 3, |rank| all_calls(&collective, rank, 3));
        std::thread::scope(|scope| {
            let beside = scope.spawn(|| stock(&collective, 3, |rank| all_calls(&collective, rank, 3)));
            let ours = hooked(&collective, WireVariant::From33, 2, 2, Transport::Memory, |member: &Member<'_>| {
                let given = all_calls(&collective, member.rank, 2);
                let wanted = given.results.iter().filter(|(_, ended, _)| *ended == Ended::Success).count();
                assert_eq!(member.served().calls, wanted as u64);
                given
            });
            let beside = beside.join().expect("the stock job is undisturbed");
            same(&beside, &expected, "a stock job beside ours");
            assert_eq!(ours[0].results.len(), ours[1].results.len());
        });
    });
}
