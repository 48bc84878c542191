//! Collectives under a trainer that counts its versions itself: values in XGBoost's ring order,
//! deaths at chosen moments, calls that differ.

use crate::ranks;

use bytes::Bytes;
use ranks::{attempt, Ranks, LIMIT};
use rejoin_agent::durable::Durable;
use rejoin_agent::logs::{Budget, LogLimits};
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::fault::{Action, FaultRule, Moment};
use rejoin_agent::protocol::host::OWN_COPIES;
use rejoin_agent::protocol::host::{Offer, Start};
use rejoin_agent::protocol::ids::{MemberId, Phase, Rank, Version};
use rejoin_agent::{checkpoint, digest, Agent, Joined, Taken, TrackerNotice};
use rejoin_communicator::collectives::{Element, Order, Reduction};
use rejoin_communicator::{CollectivePlane, LogBytes, Operations};
use std::sync::Arc;
use std::time::Duration;

const VERSIONS: u32 = 4;
const COUNT: usize = 1000;

/// One process.
#[derive(Clone)]
struct Process {
    agent: Arc<Agent>,
    plane: Arc<CollectivePlane>,
    shares_memory: bool,
}

/// One rank in it.
struct Trainer {
    process: Process,
    member: MemberId,
    start: Start,
    model: Vec<u8>,
    world: u32,
    operations: Operations,
}

impl Process {
    fn new(ranks: &Ranks, executor: &str, shares_memory: bool) -> Self {
        let plane = Arc::new(CollectivePlane::new(Budget::new(LogLimits::default(), "the test's")));
        let agent = Arc::new(Agent::start(ranks.config(executor), plane.clone()).unwrap());
        Process { agent, plane, shares_memory }
    }

    fn join(&self, rank: u32, task: u32) -> Trainer {
        let segment = if self.shares_memory { self.plane.offer(Rank(rank)) } else { None };
        let segment_address = segment.as_ref().map(|segment| segment.segment_address());
        let offer = Offer { segment: segment_address, ..Offer::default() };
        let joined = self.agent.join_offering(Rank(rank), attempt(task), "terms".into(), offer, LIMIT).unwrap();
        let Joined::Start { start, world, bytes } = joined else { panic!("the job isn't over") };
        let member = MemberId { rank: Rank(rank), incarnation: start.incarnation };
        let operations = Operations::open(&self.plane, member, segment, "the trainer", LIMIT).unwrap();
        let model = bytes.unwrap_or_default().to_vec();
        Trainer { process: self.clone(), member, start, model, world, operations }
    }
}

/// Sums of these depend on the order.
fn value(rank: u32, at: usize, salt: u32) -> f32 {
    [1e7, 1.0, 1e-3, 3e4, 0.5][(rank as usize + at) % 5] * (1.0 + rank as f32 * 0.37 + at as f32 * 1e-4 + salt as f32)
}

fn values(rank: u32, salt: u32) -> Vec<f32> {
    (0..COUNT).map(|at| value(rank, at, salt)).collect()
}

/// The sum in ring order.
fn by_hand(world: u32, count: usize, salt: u32) -> Vec<f32> {
    let mut sum = vec![0.0; count];
    for first in 0..world {
        let segment = Order::Ring.chunk(first as usize, count, world as usize);
        for at in segment {
            let begin = if count < world as usize { 0 } else { first };
            let ranks = (0..world).map(|step| (begin + step) % world);
            sum[at] = ranks.map(|rank| value(rank, at, salt)).reduce(|sum, value| value + sum).unwrap();
        }
    }
    sum
}

impl Trainer {
    fn allreduce(&self, salt: u32, count: usize) -> Result<Vec<f32>, Error> {
        let mut sum = values(self.member.rank.0, salt);
        sum.truncate(count);
        self.operations.allreduce(Element::F32, Reduction::Sum, bytemuck::cast_slice_mut(&mut sum))?;
        assert_eq!(sum, by_hand(self.world, count, salt), "sum of {count} in rank {}", self.member.rank);
        Ok(sum)
    }

    /// Enters a version as the bridge's callers do: the model first, and what is reported of it last.
    fn enter(&mut self, version: u32) -> Result<(), Error> {
        let model = Bytes::copy_from_slice(&self.model);
        let round = 2 * version;
        let taken = checkpoint(self.start.lineage, Version(version), round, &model, false);
        self.process.agent.take(self.member, Taken::new(taken, 0, model), |entered| {
            self.operations.enter(Version(version), round)?;
            entered();
            Ok(())
        })
    }

    /// Boot with four calls; in each version a sum, a short sum, a maximum, and another round: a
    /// broadcast, two gathers. Version 2 has broadcasts alone.
    fn train(&mut self) -> Result<(), Error> {
        let (own, world) = (self.member.rank.0, self.world);
        let boot = self.allreduce(77, COUNT)?;
        self.allreduce(78, 1)?;
        self.broadcast(3, 40)?;
        self.gather(5)?;
        let short = 4 * COUNT as u64 + 4 + 40 + 4 * 5 * u64::from(world);
        assert_eq!(self.operations.log_bytes(), LogBytes { each: 4 * 256 + short, together: 0 });
        self.enter(self.start.version.0)?;
        for version in self.start.version.0..VERSIONS {
            if version == 2 {
                (0..world).try_for_each(|root| self.broadcast(root, 300))?;
            } else {
                let sum = self.allreduce(version, COUNT)?;
                self.allreduce(version, 2)?;
                let mut most = values(own, version);
                self.operations.allreduce(Element::F32, Reduction::Max, bytemuck::cast_slice_mut(&mut most))?;
                self.operations.begin_round(2 * version + 1);
                self.broadcast(version % world, 2000)?;
                self.gather(64)?;
                self.gather_v()?;
                self.model.extend_from_slice(&sum[17].to_le_bytes());
                self.model.extend_from_slice(&most[23].to_le_bytes());
            }
            self.model.extend_from_slice(&boot[version as usize].to_le_bytes());
            self.enter(version + 1)?;
        }
        self.operations.end()
    }

    fn broadcast(&self, root: u32, bytes: usize) -> Result<(), Error> {
        let root = root % self.world;
        let own = self.member.rank.0;
        let mut data = vec![if own == root { root as u8 + 7 } else { 0 }; bytes];
        self.operations.broadcast(&mut data, Rank(root))?;
        assert_eq!(data, vec![root as u8 + 7; bytes]);
        Ok(())
    }

    fn gather(&self, part: usize) -> Result<(), Error> {
        let (own, world) = (self.member.rank.0 as usize, self.world);
        let mut all = vec![0u32; part * world as usize];
        all[own * part..(own + 1) * part].fill(own as u32 + 100);
        self.operations.allgather(bytemuck::cast_slice_mut(&mut all))?;
        let expected: Vec<u32> = (0..world).flat_map(|rank| vec![rank + 100; part]).collect();
        assert_eq!(all, expected);
        Ok(())
    }

    fn gather_v(&self) -> Result<(), Error> {
        let part = |rank: u32| vec![rank as u8 + 1; rank as usize * 13];
        let sizes: Vec<u64> = (0..self.world).map(|rank| part(rank).len() as u64).collect();
        let mut all = vec![0; sizes.iter().sum::<u64>() as usize];
        self.operations.allgather_v(&part(self.member.rank.0), &sizes, &mut all)?;
        assert_eq!(all, (0..self.world).flat_map(part).collect::<Vec<u8>>());
        Ok(())
    }

    fn finish(self) -> Vec<u8> {
        let result = (self.member.rank == Rank(0)).then(|| Bytes::copy_from_slice(&self.model));
        self.process.agent.finish(self.member, 2 * VERSIONS, digest(&self.model), result, LIMIT).unwrap();
        self.model
    }
}

fn model(world: u32) -> Vec<u8> {
    let boot = by_hand(world, COUNT, 77);
    let mut model = Vec::new();
    for version in 0..VERSIONS {
        if version != 2 {
            let sum = by_hand(world, COUNT, version);
            let most = (0..world).map(|rank| value(rank, 23, version)).fold(f32::MIN, f32::max);
            model.extend_from_slice(&sum[17].to_le_bytes());
            model.extend_from_slice(&most.to_le_bytes());
        }
        model.extend_from_slice(&boot[version as usize].to_le_bytes());
    }
    model
}

/// A death: rank, incarnation, moment.
type Died = (u32, u32, Moment);

/// Runs a job to its end, in which these die and come back: in the same process where several live
/// together, else in a new one.
fn run(world: u32, together: usize, shares_memory: bool, deaths: &[Died]) -> Ranks {
    let rules = deaths.iter().enumerate().map(|(id, (rank, incarnation, moment))| FaultRule {
        id: id as u32,
        rank: Rank(*rank),
        incarnation: Some(*incarnation),
        moment: *moment,
        action: Action::Throw,
    });
    let what = format!("{world} ranks, {together} in a process, shared memory: {shares_memory}, {deaths:?}");
    let all = Ranks::with_rules(world, together, rules.collect());
    let ranks = &all;
    let executor = |rank: u32| rank as usize / together;
    let first = |process: usize| Process::new(ranks, &(process * together).to_string(), shares_memory);
    let processes: Vec<Process> = (0..=executor(world - 1)).map(first).collect();
    let live = |rank: u32| {
        let mut process = processes[executor(rank)].clone();
        for task in 0.. {
            let mut trainer = process.join(rank, task);
            match trainer.train() {
                Ok(()) => return trainer.finish(),
                Err(error) => {
                    assert!(error.code == Code::Io && error.message.contains("fault rule"), "{rank}: {error}");
                    if together == 1 {
                        process.agent.end();
                        process = Process::new(ranks, &format!("{rank}-{}", task + 1), shares_memory);
                    } else {
                        process.agent.leave(trainer.member, Some(error));
                    }
                }
            }
        }
        unreachable!("tries don't end");
    };
    let models: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let live = &live;
        let threads: Vec<_> = (0..world).map(|rank| scope.spawn(move || live(rank))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank's thread panicked")).collect()
    });
    assert_eq!(models, vec![model(world); world as usize], "{what}");
    ranks.event("the end", |event| matches!(event, Event::JobEnded { .. }));
    while let Ok(Some(reported)) = ranks.tracker.poll(Duration::ZERO) {
        if let TrackerNotice::Event(event) = reported {
            ranks.seen.lock().push(event);
        }
    }
    let seen = ranks.seen.lock();
    let fired = seen.iter().filter(|event| matches!(event, Event::FaultFired { .. })).count();
    assert_eq!(fired, deaths.len(), "{what}: every rule has fired");
    drop(seen);
    all
}

fn survives(deaths: &[Died]) {
    for together in [1, 2, 4] {
        for shares_memory in [true, false] {
            run(4, together, shares_memory, deaths);
        }
    }
}

fn version(version: u32) -> Phase {
    Phase::Version(Version(version))
}

#[test]
fn every_call_gives_every_rank_its_value_in_ring_order() {
    for world in [1, 2, 3, 5] {
        for (together, shares_memory) in [(1, true), (1, false), (2, true), (5, false), (5, true)] {
            run(world, together, shares_memory, &[]);
        }
    }
}

#[test]
fn a_rank_dies_at_each_call_of_a_version_and_finds_its_way_back() {
    for seqno in 0..6 {
        run(4, 1, seqno % 2 == 0, &[(seqno % 4, 0, Moment::Entering { phase: version(1), seqno })]);
        run(4, 2, seqno % 2 == 1, &[(seqno % 4, 0, Moment::Completed { phase: version(1), seqno })]);
    }
}

#[test]
fn a_rank_dies_in_boot_and_the_others_stay_as_they_are() {
    survives(&[(1, 0, Moment::Entering { phase: Phase::Boot, seqno: 0 })]);
    survives(&[(2, 0, Moment::Completed { phase: Phase::Boot, seqno: 2 })]);
    survives(&[
        (2, 0, Moment::Entering { phase: Phase::Boot, seqno: 3 }),
        (2, 1, Moment::Entering { phase: version(3), seqno: 1 }),
    ]);
}

#[test]
fn a_rank_dies_after_so_many_bytes_of_a_phase_over_all_its_calls() {
    // The sum alone sends 3 quarters of 4,000 bytes to the others, and 3 quarters of that back, whatever the way.
    for bytes in [0, 100, 4_500, 9_000] {
        survives(&[(3, 0, Moment::Bytes { phase: version(1), bytes })]);
    }
    survives(&[(0, 0, Moment::Bytes { phase: Phase::Boot, bytes: 1_000 })]);
}

#[test]
fn a_rank_dies_in_the_barrier_that_ends_a_version_of_broadcasts() {
    survives(&[(1, 0, Moment::Entering { phase: version(2), seqno: 4 })]);
    survives(&[(1, 0, Moment::Completed { phase: version(2), seqno: 4 })]);
}

#[test]
fn a_rank_dies_again_while_it_is_given_what_it_had() {
    let replayed = |seqno| Moment::Replayed { phase: version(1), seqno };
    survives(&[(2, 0, Moment::Entering { phase: version(1), seqno: 5 }), (2, 1, replayed(1)), (2, 2, replayed(3))]);
}

#[test]
fn a_rank_that_has_caught_up_tells_so_once_with_what_was_replayed_to_it() {
    let ranks = run(3, 1, true, &[(1, 0, Moment::Entering { phase: version(1), seqno: 5 })]);
    let seen = ranks.seen.lock();
    let reported: Vec<&Event> = seen.iter().filter(|event| matches!(event, Event::CaughtUp { .. })).collect();
    let [Event::CaughtUp { rank: Rank(1), replayed_in, rounds_again, .. }] = reported[..] else {
        panic!("{reported:?}")
    };
    // Boot, and at least the calls of version 1 that all had to begin before the fifth.
    assert!(*replayed_in > 3 * 4 * COUNT as u64, "{reported:?}");
    // The version's first round, and of the second one the broadcast, which all had finished.
    assert_eq!(*rounds_again, 2, "{reported:?}");
}

#[test]
fn rounds_that_are_computed_twice_are_counted_within_a_version_too() {
    let again = |seqno| {
        let ranks = run(3, 1, true, &[(1, 0, Moment::Entering { phase: version(1), seqno })]);
        let seen = ranks.seen.lock();
        let caught_up = |event: &Event| match event {
            Event::CaughtUp { rounds_again, .. } => Some(*rounds_again),
            _ => None,
        };
        seen.iter().filter_map(caught_up).collect::<Vec<u32>>()
    };
    // Nothing of the version was computed. A rank that was still on its way out of version 0 may keep
    // the newcomer there, with both of its rounds.
    let from_its_beginning = again(0);
    assert!(matches!(from_its_beginning[..], [0] | [2]), "{from_its_beginning:?}");
    // All had finished the second call. Whether the third one, the last of its round, was finished
    // by a survivor isn't known.
    assert_eq!(again(3), [1], "one round");
}

/// Runs a job in which a rank dies before the fifth call of version 0, and its next life gives
/// something else to a call: to this one of version 0, or to that of boot. How each rank's last
/// life ended.
fn forgetting(dying: u32, forgotten: Option<u32>, together: usize, shares_memory: bool) -> Vec<Result<(), Error>> {
    let entering = Moment::Entering { phase: version(0), seqno: 4 };
    let (rank, incarnation, action) = (Rank(dying), Some(0), Action::Throw);
    let all = Ranks::with_rules(3, together, vec![FaultRule { id: 0, rank, incarnation, moment: entering, action }]);
    let ranks = &all;
    let give = |trainer: &Trainer, phase: Option<u32>, salt: u32| {
        let forgets = trainer.member.incarnation.number > 0 && phase == forgotten;
        let given = values(trainer.member.rank.0, if forgets { salt + 1000 } else { salt });
        let mut sum = given.clone();
        let ended = trainer.operations.allreduce(Element::F32, Reduction::Sum, bytemuck::cast_slice_mut(&mut sum));
        let expected = if ended.is_ok() { by_hand(3, COUNT, salt) } else { given };
        assert_eq!(sum, expected, "{ended:?}");
        ended
    };
    let train = |trainer: &mut Trainer| {
        give(trainer, None, 77)?;
        trainer.enter(0)?;
        (0..6).try_for_each(|seqno| give(trainer, Some(seqno), seqno))
    };
    let processes: Vec<Process> = (0..3 / together)
        .map(|process| Process::new(ranks, &(process * together).to_string(), shares_memory))
        .collect();
    let live = |rank: u32| {
        let mut process = processes[rank as usize / together].clone();
        for task in 0.. {
            let mut trainer = process.join(rank, task);
            match train(&mut trainer) {
                Err(error) if error.message.contains("fault rule") => {
                    if together == 1 {
                        process.agent.end();
                        process = Process::new(ranks, &format!("{rank}-{}", task + 1), shares_memory);
                    } else {
                        process.agent.leave(trainer.member, Some(error));
                    }
                }
                ended => return ended,
            }
        }
        unreachable!("tries don't end");
    };
    std::thread::scope(|scope| {
        let live = &live;
        let threads: Vec<_> = (0..3).map(|rank| scope.spawn(move || live(rank))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank's thread panicked")).collect()
    })
}

#[test]
fn a_rank_that_does_not_repeat_itself_ends_the_job_before_anybody_gets_what_it_gives_now() {
    for shares_memory in [true, false] {
        for together in [1, 3] {
            for (dying, forgotten) in [(1, Some(2)), (0, Some(0)), (2, None)] {
                let ended = forgetting(dying, forgotten, together, shares_memory);
                let what =
                    format!("rank {dying}, call {forgotten:?}, {together} in a process, memory: {shares_memory}");
                for (rank, ended) in ended.iter().enumerate() {
                    let error = ended.as_ref().expect_err("the job ends with an error");
                    assert_eq!(error.code, Code::Mismatch, "{what}, at rank {rank}: {error}");
                    let who = format!("rank {dying} did not repeat itself: as incarnation 1 it called");
                    assert!(error.message.contains(&who), "`{who}` isn't in: {what}, at rank {rank}: {error}");
                    // That it entered call 4 says that the others have finished call 2; they may
                    // not have finished call 3.
                    let places: Vec<String> = match forgotten {
                        Some(_) => (2..4).map(in_version).collect(),
                        None => {
                            vec!["as collective 0 of boot, and has given 4000 bytes to 1 collectives of boot".into()]
                        }
                    };
                    let is_said = places.iter().any(|place| error.message.contains(place));
                    assert!(is_said, "none of {places:?} is in: {what}, at rank {rank}: {error}");
                }
            }
        }
    }
}

fn in_version(seqno: u32) -> String {
    let (bytes, calls) = (4000 * (seqno + 1), seqno + 1);
    format!("as collective {seqno} of version 0 (from round 0 on), and has given {bytes} bytes to {calls} collectives")
}

#[test]
fn ranks_that_repeat_themselves_are_never_accused_whenever_they_die() {
    let mut state = 20_261_122u64;
    let mut roll = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for turn in 0..12 {
        let mut deaths: Vec<Died> = Vec::new();
        for incarnation in 0..1 + roll(2) as u32 {
            let rank = if incarnation == 0 { roll(4) as u32 } else { deaths[0].0 };
            let phase = if incarnation == 0 { 1 } else { 3 };
            let (phase, seqno) = (version(phase), roll(6) as u32);
            let moment = match roll(3) {
                0 => Moment::Entering { phase, seqno },
                1 => Moment::Completed { phase, seqno },
                _ => Moment::Bytes { phase, bytes: roll(6_000) },
            };
            deaths.push((rank, incarnation, moment));
        }
        run(4, [1, 2, 4][turn % 3], turn % 2 == 0, &deaths);
    }
}

/// What a rank calls that isn't what the other one calls, with its buffer.
type Call = fn(&Operations, &mut [u8]) -> Result<(), Error>;

/// Pairs of calls, of rank 0 and of rank 1, and how each is named.
const DIFFERING: [[(Call, &str); 2]; 6] = [
    [
        (|o, data| sum(o, Element::F32, &mut data[..40]), "allreduce(10 f32, sum in ring order)"),
        (|o, data| sum(o, Element::F32, &mut data[..44]), "allreduce(11 f32, sum in ring order)"),
    ],
    [
        (|o, data| sum(o, Element::F32, &mut data[..40]), "allreduce(10 f32, sum in ring order)"),
        (|o, data| sum(o, Element::I32, &mut data[..40]), "allreduce(10 i32, sum in ring order)"),
    ],
    [
        (|o, data| sum(o, Element::F64, data), "allreduce(6 f64, sum in ring order)"),
        (|o, data| o.allreduce(Element::F64, Reduction::Max, data), "allreduce(6 f64, max in ring order)"),
    ],
    [
        (|o, data| sum(o, Element::U8, data), "allreduce(48 u8, sum in ring order)"),
        (|o, data| o.broadcast(data, Rank(0)), "broadcast(48 u8, root 0)"),
    ],
    [(|o, data| o.allgather(data), "allgather(24 u8)"), (|o, data| o.allgather(&mut data[..46]), "allgather(23 u8)")],
    // The sums are the same.
    [
        (|o, data| o.allgather_v(&[1; 20], &[20, 28], data), "allgather_v(48 u8, 20 + 28)"),
        (|o, data| o.allgather_v(&[1; 8], &[40, 8], data), "allgather_v(48 u8, 40 + 8)"),
    ],
];

/// A rank in a process of its own that has entered version 0.
fn in_version_0(ranks: &Ranks, rank: u32, shares_memory: bool) -> Trainer {
    let mut trainer = Process::new(ranks, &rank.to_string(), shares_memory).join(rank, 0);
    trainer.enter(0).unwrap();
    trainer
}

fn sum(operations: &Operations, element: Element, data: &mut [u8]) -> Result<(), Error> {
    operations.allreduce(element, Reduction::Sum, data)
}

#[test]
fn calls_that_differ_are_both_named_and_nothing_is_handed_out() {
    for calls in &DIFFERING {
        for shares_memory in [true, false] {
            let ranks = &Ranks::new(2, 1);
            std::thread::scope(|scope| {
                for rank in 0..2 {
                    scope.spawn(move || {
                        let trainer = in_version_0(ranks, rank, shares_memory);
                        let mut data = [1u8; 48];
                        let error = (calls[rank as usize].0)(&trainer.operations, &mut data).unwrap_err();
                        assert_eq!(error.code, Code::Mismatch, "{error}");
                        for call in [calls[0].1, calls[1].1, "the trainer"] {
                            assert!(error.message.contains(call), "{call} isn't in: {error}");
                        }
                        assert_eq!(data, [1; 48]);
                        assert_eq!(trainer.operations.broadcast(&mut data, Rank(0)).unwrap_err().code, Code::BadState);
                    });
                }
            });
        }
    }
}

#[test]
fn two_roots_of_one_broadcast_need_nobody_and_are_found_in_the_next_call() {
    for shares_memory in [true, false] {
        let ranks = &Ranks::new(2, 1);
        std::thread::scope(|scope| {
            for rank in 0..2 {
                scope.spawn(move || {
                    let trainer = in_version_0(ranks, rank, shares_memory);
                    let mut data = [rank as u8; 48];
                    let first = trainer.operations.broadcast(&mut data, Rank(rank));
                    let error = first.and_then(|()| sum(&trainer.operations, Element::U8, &mut data)).unwrap_err();
                    assert_eq!(error.code, Code::Mismatch, "{error}");
                    assert!(error.message.contains("broadcast(48 u8, root "), "{error}");
                    assert_eq!(data, [rank as u8; 48]);
                });
            }
        });
    }
}

#[test]
fn what_can_not_be_right_is_refused_before_anything_is_sent() {
    let ranks = &Ranks::new(1, 1);
    let mut trainer = Process::new(ranks, "0", false).join(0, 0);
    let operations = &trainer.operations;
    let codes = [
        operations.allreduce(Element::F32, Reduction::Sum, &mut [0; 7]),
        operations.allreduce(Element::F32, Reduction::And, &mut [0; 8]),
        operations.broadcast(&mut [0], Rank(1)),
        operations.allgather_v(&[0; 3], &[2], &mut [0; 2]),
        operations.allgather_v(&[0; 2], &[2], &mut [0; 3]),
        operations.allgather_v(&[0; 2], &[2, 0], &mut [0; 2]),
    ];
    assert_eq!(codes.map(|result| result.unwrap_err().code), [Code::BadArgument; 6]);
    assert_eq!(operations.enter(Version(1), 1).unwrap_err().code, Code::BadState);
    let again = Operations::open(&trainer.process.plane, trainer.member, None, "another", LIMIT).unwrap_err();
    assert_eq!(again.code, Code::BadState);
    trainer.enter(0).unwrap();
    assert_eq!(trainer.operations.enter(Version(2), 2).unwrap_err().code, Code::BadState);
    let nobody = MemberId { rank: Rank(3), ..trainer.member };
    assert_eq!(Operations::open(&trainer.process.plane, nobody, None, "x", LIMIT).unwrap_err().code, Code::Fenced);
}

/// What rank 0's first incarnation chooses, call by call; its next one would choose otherwise.
const CHOICES: [bool; 3] = [false, true, false];

/// Three sums with a choice behind each, and two more sums.
fn choose(mut trainer: Trainer) -> Result<Trainer, Error> {
    trainer.allreduce(77, COUNT)?;
    trainer.enter(0)?;
    for (salt, first) in CHOICES.into_iter().enumerate() {
        trainer.allreduce(salt as u32, COUNT)?;
        let own = first == (trainer.start.incarnation.number == 0);
        assert_eq!(trainer.operations.choose(own)?, first, "choice {salt} of rank {}", trainer.member.rank);
    }
    trainer.allreduce(3, COUNT)?;
    trainer.allreduce(4, COUNT)?;
    trainer.enter(1)?;
    trainer.operations.end()?;
    Ok(trainer)
}

/// The third choice is call 6 of its version: the second one brings a barrier along.
#[test]
fn a_rank_that_dies_is_bound_by_what_it_has_chosen_before_and_need_not_choose_the_same() {
    for (died, seqno) in [(0, 8), (1, 8), (1, 3)] {
        let moment = Moment::Entering { phase: version(0), seqno };
        let rule = FaultRule { id: 0, rank: Rank(died), incarnation: Some(0), moment, action: Action::Throw };
        let ranks = &Ranks::with_rules(2, 1, vec![rule]);
        let live = |rank: u32| {
            for task in 0.. {
                let process = Process::new(ranks, &format!("{rank}-{task}"), true);
                match choose(process.join(rank, task)) {
                    Ok(trainer) => return trainer.finish(),
                    Err(error) if error.message.contains("fault rule") => process.agent.end(),
                    Err(error) => panic!("rank {rank}, try {task}: {error}"),
                }
            }
            unreachable!("tries don't end");
        };
        std::thread::scope(|scope| {
            let live = &live;
            let threads: Vec<_> = (0..2).map(|rank| scope.spawn(move || live(rank))).collect();
            threads.into_iter().for_each(|thread| drop(thread.join().expect("a rank's thread panicked")));
        });
        ranks.event("the death", |event| matches!(event, Event::RankLost { .. }));
    }
}

/// One rank enters versions 0 and 1 in a process that writes each durable checkpoint: what is in the folder then.
#[test]
fn the_beginning_is_no_durable_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let ranks = &Ranks::with_rules(1, 1, Vec::new());
    let plane = Arc::new(CollectivePlane::new(Budget::new(LogLimits::default(), "the test's")));
    let durable = Some(Durable::at(folder.path(), 1));
    let agent = Arc::new(Agent::start_keeping(ranks.config("0"), plane.clone(), durable, OWN_COPIES).unwrap());
    let mut trainer = Process { agent, plane, shares_memory: false }.join(0, 0);
    for version in 0..2 {
        trainer.model = vec![version as u8; version as usize];
        trainer.enter(version).unwrap();
    }
    ranks.event("the last write", |event| matches!(event, Event::DurableWritten { version: Version(1), .. }));
    let names = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let versions: Vec<String> = names.map(|name| name.rsplit('-').next().unwrap_or_default().into()).collect();
    assert_eq!(versions, ["0000000001.checkpoint"]);
}

#[test]
fn a_root_that_comes_back_with_other_bytes_takes_those_that_a_rank_further_on_has() {
    // By a tree: rank 3 has it from rank 2, and has seen nothing of rank 0's.
    let ranks = &Ranks::new(4, 1).on_hosts(4);
    let spread = |trainer: &Trainer, own: u8| {
        let mut data = [own; 48];
        trainer.operations.broadcast(&mut data, Rank(0)).unwrap();
        data
    };
    let joined = |rank: u32, task: u32| {
        let executor = if task == 0 { rank.to_string() } else { format!("{rank}-{task}") };
        let mut trainer = Process::new(ranks, &executor, false).join(rank, task);
        trainer.enter(0).unwrap();
        trainer
    };
    std::thread::scope(|scope| {
        let first = |rank: u32| {
            let trainer = joined(rank, 0);
            assert_eq!(spread(&trainer, 7 + rank as u8), [7; 48]);
            trainer
        };
        let all: Vec<_> = (0..4).map(|rank| scope.spawn(move || first(rank))).collect();
        let mut all: Vec<Trainer> = all.into_iter().map(|rank| rank.join().unwrap()).collect();
        let _last = all.pop();
        all.iter().for_each(|trainer| trainer.process.agent.end());
        for rank in 0..3 {
            ranks.event(
                "it is lost",
                |event| matches!(event, Event::RankLost { rank: Rank(lost), .. } if *lost == rank),
            );
        }
        let again: Vec<_> = (0..3)
            .map(|rank| scope.spawn(move || assert_eq!(spread(&joined(rank, 1), 50), [7; 48], "rank {rank}")))
            .collect();
        again.into_iter().for_each(|rank| rank.join().unwrap());
    });
}
