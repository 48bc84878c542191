//! Deaths, alone and many at once, at every kind of call.

use crate::{at, survive, survive_with};

#[test]
fn undisturbed_ranks_end_with_one_model() {
    survive(&[]);
}

#[test]
fn two_ranks_die_at_one_call() {
    survive(&[at(3, 1, 9), at(7, 1, 9)]);
}

#[test]
fn five_ranks_die_at_one_call() {
    survive(&[0, 2, 4, 6, 8].map(|rank| at(rank, 1, 9)));
}

#[test]
fn nine_of_ten_die_at_once() {
    let rules: Vec<String> = (1..10).map(|rank| at(rank, 2, 0)).collect();
    survive(&rules);
}

#[test]
fn a_rank_dies_again_while_it_is_handed_what_it_missed_and_then_a_third_time() {
    survive(&[
        at(4, 1, 10),
        "rank=4,incarnation=1,version=1,seqno=5,at=replayed".into(),
        "rank=4,incarnation=2,version=1,seqno=9,at=replayed".into(),
    ]);
}

#[test]
fn another_rank_dies_while_one_catches_up() {
    survive(&[at(4, 1, 9), "rank=4,incarnation=1,at=recovery".into(), "rank=5,version=1,seqno=9,at=again".into()]);
}

#[test]
fn a_rank_dies_on_entry_to_each_call_of_an_iteration_one_by_one() {
    for seqno in 0..=10 {
        survive(&[at(seqno % 10, 1, seqno)]);
    }
}

#[test]
fn a_different_rank_dies_in_every_iteration() {
    survive(&[at(1, 0, 0), at(2, 1, 4), at(3, 2, 10)]);
}

#[test]
fn one_rank_dies_in_every_iteration() {
    survive(&[
        at(6, 0, 3),
        "rank=6,incarnation=1,version=1,seqno=6".into(),
        "rank=6,incarnation=2,version=2,seqno=9".into(),
    ]);
}

#[test]
fn a_rank_dies_with_a_result_that_others_may_lack() {
    survive(&[format!("{},at=completed", at(0, 1, 9)), format!("{},at=completed", at(1, 2, 1))]);
}

#[test]
fn ranks_die_in_checkpoint_load_boot_and_finalize() {
    survive(&["rank=2,version=2,at=checkpoint".into()]);
    survive(&["rank=5,at=load".into()]);
    survive(&["rank=5,version=boot,seqno=0".into()]);
    survive(&["rank=5,version=boot,seqno=0,at=completed".into()]);
    survive(&["rank=0,at=finalize".into()]);
    survive(&["rank=9,at=join".into()]);
}

/// How many times more random kills than usual: `make test-long` says REJOIN_TIMES=10.
fn times() -> u64 {
    std::env::var("REJOIN_TIMES").map_or(1, |times| times.parse().expect("REJOIN_TIMES is a number"))
}

#[test]
fn ranks_die_in_the_middle_of_sixteen_megabytes_at_random_moments() {
    let random = std::process::id() as u64 ^ std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64);
    let mut state = random | 1;
    for round in 0..times() {
        let rules: Vec<String> = (0..5)
            .map(|version| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                // A rank sends its part of the input to each peer and its part of the result: 28 MB of 16.
                let (rank, bytes) = ((version + random + round) % 8, (state >> 16) % 24_000_000);
                format!("rank={rank},version={version},seqno=0,at=sent:{bytes}")
            })
            .collect();
        println!("{rules:?}");
        survive_with(8, &["5", "4000000", "big"], &rules);
    }
}
