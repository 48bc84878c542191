//! A rank is gone for a while: a rank that needs nothing of it goes on.

use crate::ranks;

use ranks::{limits, value, values, Ranks, LIMIT};
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::ids::Rank;
use rejoin_communicator::collectives::Reduction;
use rejoin_communicator::{Communicator, Process};
use std::sync::mpsc;

fn join(process: &Process, rank: u32, task: u32) -> Communicator {
    ranks::join(process, rank, task, limits())
}

/// All ranks are needed.
fn sum(rank: &mut Communicator) {
    let mut sum = values(rank.rank().0, 100);
    rank.allreduce(&mut sum, Reduction::Sum).expect("a sum");
    assert!((0..100).all(|at| sum[at] == (0..3).map(|rank| value(rank, at)).sum::<f64>()));
}

/// No rank needs anything of rank 2.
fn broadcasts(rank: &mut Communicator) {
    for (turn, root) in [0, 1, 0, 0, 1].into_iter().enumerate() {
        let result = values(7 + turn as u32, 1000);
        let mut spread = if rank.rank() == Rank(root) { result.clone() } else { vec![0.0; 1000] };
        rank.broadcast(&mut spread, Rank(root)).expect("a broadcast");
        assert_eq!(spread, result, "broadcast {turn}");
    }
}

#[test]
fn who_needs_nothing_of_a_rank_that_is_gone_goes_on_and_it_finds_the_results_when_it_comes_back() {
    for shares_memory in [true, false] {
        let ranks = &Ranks::new(3, 1).sharing_memory(shares_memory);
        let (came_by, went_on) = mpsc::channel();
        let both_come_by = |what: &str| (0..2).for_each(|_| went_on.recv_timeout(LIMIT).expect(what));
        std::thread::scope(|scope| {
            let others: Vec<mpsc::Sender<()>> = (0..2)
                .map(|own| {
                    let (go, gone) = mpsc::channel();
                    let came_by = came_by.clone();
                    scope.spawn(move || {
                        let mut rank = join(&ranks.process(&own.to_string()), own, 0);
                        sum(&mut rank);
                        came_by.send(()).expect("the test waits for it");
                        // It ends when the other end is dropped.
                        let _ = gone.recv();
                        broadcasts(&mut rank);
                        came_by.send(()).expect("the test waits for it");
                        sum(&mut rank);
                        rank.finish(b"").expect("all end alike");
                    });
                    go
                })
                .collect();
            let process = ranks.process("2");
            let mut rank = join(&process, 2, 0);
            sum(&mut rank);
            // A rank that hasn't its sum yet does need something of rank 2.
            both_come_by("all have the first sum");
            process.agent().end();
            drop(rank);
            ranks.event("rank 2 is lost", |event| matches!(event, Event::RankLost { rank: Rank(2), .. }));
            drop(others);
            both_come_by("none waits for rank 2 in a broadcast");
            let mut rank = join(&ranks.process("2-1"), 2, 1);
            sum(&mut rank);
            broadcasts(&mut rank);
            sum(&mut rank);
            rank.finish(b"").expect("all end alike");
        });
    }
}

#[test]
fn results_of_an_incarnation_that_has_left_are_given_to_nobody() {
    // In shared memory a root waits in its first call until all have looked at its segment.
    let ranks = &Ranks::new(3, 2).sharing_memory(false);
    let (first, second) = (ranks.process("0"), ranks.process("2"));
    let spread = |rank: &mut Communicator, own: u8| {
        let mut bytes = [own; 5];
        rank.broadcast(&mut bytes, Rank(0)).expect("a broadcast");
        bytes
    };
    let end = |mut rank: Communicator| {
        rank.barrier().expect("all have it");
        rank.finish(b"").expect("all end alike");
    };
    let (go, gone) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let neighbour = &first;
        let other = scope.spawn(move || {
            let mut rank = join(neighbour, 1, 0);
            // It ends when the other end is dropped.
            let _ = gone.recv();
            assert_eq!(spread(&mut rank, 1), [9; 5], "rank 1, in the process of the one that has left");
            end(rank);
        });
        let third = scope.spawn(|| join(&second, 2, 0));
        let mut rank = join(&first, 0, 0);
        let mut third = third.join().expect("rank 2 joins");
        // The root needs nobody.
        assert_eq!(spread(&mut rank, 7), [7; 5]);
        drop(rank);
        ranks.event("rank 0 is lost", |event| matches!(event, Event::RankLost { rank: Rank(0), .. }));
        // Nobody has seen what it gave.
        let mut rank = join(&ranks.process("0-1"), 0, 1);
        assert_eq!(spread(&mut rank, 9), [9; 5]);
        assert_eq!(spread(&mut third, 2), [9; 5]);
        second.agent().end();
        drop(third);
        ranks.event("rank 2 is lost", |event| matches!(event, Event::RankLost { rank: Rank(2), .. }));
        let mut third = join(&ranks.process("2-1"), 2, 1);
        assert_eq!(spread(&mut third, 2), [9; 5]);
        drop(go);
        let ends = [scope.spawn(|| end(rank)), scope.spawn(|| end(third)), other];
        ends.into_iter().for_each(|rank| rank.join().expect("it ends well"));
    });
}
