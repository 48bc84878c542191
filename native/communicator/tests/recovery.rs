//! Deaths at chosen moments: a rank that comes back goes on with the others, and every result at every
//! rank is what it would have been.

use crate::ranks;

use ranks::program::{moment, undisturbed, Died, Survival};
use ranks::{attempt, join, limits, Ranks};
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::fault::{Action, FaultRule, Moment};
use rejoin_agent::protocol::ids::{Phase, Rank, Version};
use rejoin_communicator::collectives::choice::NETWORK;
use rejoin_communicator::collectives::Reduction;
use rejoin_communicator::Process;

fn version(version: u32) -> Phase {
    Phase::Version(Version(version))
}

fn entering(v: u32, seqno: u32) -> Moment {
    Moment::Entering { phase: version(v), seqno }
}

fn sent(v: u32, seqno: u32, bytes: u64) -> Moment {
    Moment::Sent { phase: version(v), seqno, bytes }
}

fn completed(v: u32, seqno: u32) -> Moment {
    Moment::Completed { phase: version(v), seqno }
}

/// A job of five ranks in which these die, in each placement; it ends as if none had.
fn survives(rules: &[Died]) {
    for together in [1, 2, 5] {
        survives_placed(5, together, rules);
    }
}

fn survives_placed(world: u32, together: usize, rules: &[Died]) {
    // Over several hosts other algorithms are chosen, and the bytes are the same.
    for (shares_memory, hosts) in [(true, 1), (false, 1), (true, 2)] {
        let outcome = Survival::of(world, together, rules).sharing_memory(shares_memory).on_hosts(hosts).run();
        let what = format!("{together} ranks in a process, {hosts} hosts, shared memory: {shares_memory}");
        assert_eq!(outcome.models, vec![undisturbed(world); world as usize], "{what}");
        assert_eq!(outcome.fired, rules.len(), "{what}: every rule has fired");
        assert_eq!(outcome.deaths as usize, rules.len(), "{what}");
    }
}

#[test]
fn without_deaths_it_ends_as_computed_by_hand() {
    survives(&[]);
}

#[test]
fn a_rank_dies_on_entry_to_each_call_of_an_iteration() {
    for seqno in 0..11 {
        survives_placed(4, 1, &[moment(seqno % 4, 0, entering(1, seqno))]);
    }
}

#[test]
fn a_task_that_is_cancelled_between_two_calls_is_tried_again_and_the_job_goes_on() {
    let ranks = Ranks::new(2, 1);
    let sums = std::thread::scope(|scope| {
        let ranks = &ranks;
        let trains = |process: &Process, own: u32, task: u32| {
            let mut rank = join(process, own, task, limits());
            rank.load().unwrap();
            let mut sum = [own as f64 + 1.0];
            rank.allreduce(&mut sum, Reduction::Sum).unwrap();
            (rank, sum[0])
        };
        let one = scope.spawn(move || {
            let (mut rank, sum) = trains(&ranks.process("one"), 0, 0);
            let mut more = [sum];
            rank.allreduce(&mut more, Reduction::Sum).unwrap();
            rank.finish(b"").unwrap();
            more[0]
        });
        let other = scope.spawn(move || {
            let process = ranks.process("other");
            let (rank, _) = trains(&process, 1, 0);
            rank.abandon(Error::new(Code::Cancelled, "its task was killed"));
            let (mut rank, sum) = trains(&process, 1, 1);
            let mut more = [sum];
            rank.allreduce(&mut more, Reduction::Sum).unwrap();
            rank.finish(b"").unwrap();
            more[0]
        });
        [one.join().unwrap(), other.join().unwrap()]
    });
    assert_eq!(sums, [6.0, 6.0]);
}

#[test]
fn a_rank_that_has_caught_up_tells_so_once_with_what_was_replayed_to_it() {
    // Others may have gone on to the end of the version before, where they need its inputs, and no further.
    let outcome = Survival::of(4, 1, &[moment(3, 0, entering(1, 9))]).run();
    let [(3, replayed, 1)] = outcome.caught_up[..] else { panic!("{:?}", outcome.caught_up) };
    assert!(replayed > 0);
    let at_the_beginning = Survival::of(4, 1, &[moment(3, 0, entering(1, 0))]).run();
    let [(3, _, again)] = at_the_beginning.caught_up[..] else { panic!("{:?}", at_the_beginning.caught_up) };
    // All of version 1 is new, unless another rank's checkpoint wasn't there yet.
    assert!(again <= 1, "{again}");
    assert_eq!(Survival::of(4, 1, &[]).run().caught_up, []);
}

#[test]
fn a_rank_dies_with_its_result_and_before_anybody_else_may_have_it() {
    survives(&[moment(0, 0, completed(1, 0))]);
    survives(&[moment(3, 0, completed(1, 9))]);
}

#[test]
fn a_root_dies_in_the_middle_of_its_broadcast_and_after_it() {
    survives(&[moment(2, 0, sent(1, 3, 2_000))]);
    survives(&[moment(2, 0, completed(1, 3))]);
}

#[test]
fn a_root_that_comes_back_with_other_bytes_takes_those_that_the_others_have() {
    let rule = FaultRule {
        id: 0,
        rank: Rank(0),
        incarnation: Some(0),
        moment: Moment::Entering { phase: version(0), seqno: 2 },
        action: Action::Throw,
    };
    let ranks = Ranks::with_rules(2, 2, vec![rule]);
    let process = ranks.process("0");
    let live = &|own: u32| {
        for task in 0.. {
            let joined = process.join(Rank(own), attempt(task), "", limits());
            let mut rank = joined.expect("it can join").expect("the job isn't over");
            rank.load().expect("the beginning");
            let mut bytes = [own as u8 + 7 * (1 + rank.incarnation() as u8); 5];
            rank.broadcast(&mut bytes, Rank(0)).expect("a broadcast");
            assert_eq!(bytes, [7; 5], "rank {own}, incarnation {}", rank.incarnation());
            rank.barrier().expect("both have it");
            match rank.barrier() {
                Ok(()) => return rank.finish(&bytes).expect("all finish alike"),
                Err(error) => assert!(error.message.contains("fault rule"), "{error}"),
            }
        }
    };
    std::thread::scope(|scope| {
        [0, 1].map(|own| scope.spawn(move || live(own))).map(|thread| thread.join().expect("a rank's thread panicked"))
    });
    ranks.event("the death", |event| matches!(event, Event::FaultFired { .. }));
}

#[test]
fn a_rank_dies_in_the_middle_of_a_sum() {
    // Whatever the algorithm is, it sends most of its 8,000 bytes.
    for bytes in [0, 1, 2_000, 5_000] {
        survives_placed(5, 1, &[moment(3, 0, sent(1, 9, bytes))]);
    }
}

#[test]
fn two_die_at_one_call() {
    survives(&[moment(1, 0, entering(1, 9)), moment(4, 0, entering(1, 9))]);
}

#[test]
fn all_but_one_die_at_one_call() {
    let rules: Vec<Died> = (1..5).map(|rank| moment(rank, 0, entering(1, 5))).collect();
    survives_placed(5, 1, &rules);
}

// A rank that enters the allgather has finished the sum, which all had to begin: so all have finished
// what comes before the sum, and that is replayed for certain.

#[test]
fn the_same_rank_dies_again_while_it_replays_and_a_third_time() {
    let replayed = |seqno| Moment::Replayed { phase: version(1), seqno };
    survives(&[moment(2, 0, entering(1, 10)), moment(2, 1, replayed(4)), moment(2, 2, replayed(8))]);
}

#[test]
fn another_rank_dies_while_the_first_one_replays() {
    let replayed = Moment::Replayed { phase: version(1), seqno: 4 };
    survives(&[moment(2, 0, entering(1, 10)), moment(2, 1, replayed), moment(3, 0, completed(1, 10))]);
}

#[test]
fn a_rank_dies_in_every_iteration() {
    survives(&[moment(1, 0, entering(0, 2)), moment(3, 0, entering(1, 9)), moment(1, 1, entering(2, 10))]);
}

#[test]
fn a_rank_dies_in_load_in_a_checkpoint_and_at_the_end() {
    survives(&[moment(1, 0, Moment::Loading)]);
    survives(&[moment(1, 0, entering(1, 4)), moment(1, 1, Moment::Loading)]);
    survives(&[moment(2, 0, completed(2, 10))]);
}

#[test]
fn a_rank_dies_in_a_boot_collective_and_finds_the_results_of_the_others_later() {
    let boot = |seqno| Moment::Entering { phase: Phase::Boot, seqno };
    survives(&[moment(1, 0, boot(0))]);
    survives(&[moment(1, 0, boot(1))]);
    survives(&[moment(1, 0, boot(1)), moment(1, 1, entering(2, 3))]);
}

#[test]
fn a_link_that_breaks_between_the_living_costs_an_attempt_and_nobody() {
    for together in [1, 4] {
        for shares_memory in [true, false] {
            let survival = Survival::of(4, together, &[]).cutting(1, 2, sent(1, 9, 4_000));
            let outcome = survival.sharing_memory(shares_memory).run();
            assert_eq!(outcome.models, vec![undisturbed(4); 4], "{together} in a process, memory: {shares_memory}");
            assert_eq!((outcome.fired, outcome.deaths), (1, 0));
        }
    }
}

/// Elements of sums that go by hosts, and their bytes.
const MANY: usize = 60_000;
const MANY_BYTES: u64 = MANY as u64 * 8;

/// Four ranks on two hosts by turns, and six on three hosts in pairs, each pair in a process.
fn survives_by_hosts(rules: &[Died]) {
    let placements: [(u32, usize, u32, &[usize]); 2] = [(4, 1, 2, &[0, 1, 0, 1]), (6, 2, 3, &[0, 0, 1, 1, 2, 2])];
    for (world, together, hosts, places) in placements {
        assert_eq!(NETWORK.allreduce(places, MANY * 8, false), None, "these sums don't go by hosts any more");
        let outcome = Survival::of(world, together, rules).of_count(MANY).on_hosts(hosts).run();
        assert_eq!(outcome.models, vec![undisturbed(world); world as usize], "{places:?} {rules:?}");
        assert_eq!((outcome.fired, outcome.deaths as usize), (rules.len(), rules.len()), "{places:?} {rules:?}");
    }
}

#[test]
fn a_rank_dies_in_a_sum_that_goes_by_hosts() {
    survives_by_hosts(&[]);
    for rank in 0..4 {
        let bytes = MANY_BYTES / 2 / 4 * u64::from(rank);
        survives_by_hosts(&[moment(rank, 0, sent(1, 9, bytes))]);
    }
    survives_by_hosts(&[moment(1, 0, completed(1, 9))]);
}

#[test]
fn a_host_dies_in_a_sum_that_goes_by_hosts_and_a_rank_of_another_one_while_it_comes_back() {
    survives_by_hosts(&[moment(0, 0, sent(1, 9, 50_000)), moment(2, 0, entering(1, 9))]);
    survives_by_hosts(&[
        moment(0, 0, sent(1, 9, 50_000)),
        moment(1, 0, sent(1, 9, 50_000)),
        moment(3, 0, completed(1, 9)),
    ]);
}

#[test]
fn a_link_between_hosts_breaks_in_a_sum_that_goes_by_hosts() {
    let outcome = Survival::of(4, 1, &[]).cutting(1, 2, sent(1, 9, 40_000)).of_count(MANY).on_hosts(2).run();
    assert_eq!(outcome.models, vec![undisturbed(4); 4]);
    assert_eq!((outcome.fired, outcome.deaths), (1, 0));
}
