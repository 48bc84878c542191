//! What is kept, and until when.

use crate::collective_support;

use collective_support::*;
use rejoin_protocol::collective::Next;
use rejoin_protocol::ids::{Phase, Version};

/// Healthy, with one result in version 0, now in version 1.
fn in_version_one() -> Desk {
    let mut desk = running();
    desk.release();
    makes(&mut desk, &sum(1), "zero");
    desk.enter(Version(1)).unwrap();
    desk
}

#[test]
fn a_version_is_kept_until_a_collective_of_the_next_one_that_depends_on_all_is_finished() {
    let mut desk = in_version_one();
    makes(&mut desk, &broadcast(0), "root's");
    makes(&mut desk, &sum(0), "empty");
    assert_eq!(dropped(&drain(&mut desk)), [""; 0], "neither proves that all have entered version 1");
    assert_eq!(desk.log().oldest(), Some(Version(0)));
    makes(&mut desk, &sum(1), "one");
    assert_eq!(dropped(&drain(&mut desk)), ["zero"]);
    assert_eq!(desk.log().oldest(), Some(Version(1)));
}

#[test]
fn nothing_is_dropped_from_a_view_until_everybody_has_caught_up() {
    let mut desk = in_version_one();
    desk.pause(generation(2));
    desk.plan(plan(2, &[(version(0), 1, true), (version(1), 0, false)]));
    makes(&mut desk, &sum(1), "one");
    assert_eq!(dropped(&drain(&mut desk)), [""; 0]);
    desk.release();
    assert_eq!(dropped(&drain(&mut desk)), ["zero"]);
}

#[test]
fn boot_results_are_kept_for_the_life_of_the_job() {
    let mut desk = running();
    desk.release();
    desk.begin(&sum(1), Some(key("a"))).unwrap();
    let Next::Run(generation) = desk.proceed().unwrap() else { panic!("a boot call runs") };
    desk.finish(generation, "boot");
    for version in 1..4 {
        makes(&mut desk, &sum(1), "one");
        desk.enter(Version(version)).unwrap();
    }
    assert_eq!(desk.log().finished(Phase::Boot), 1);
}

#[test]
fn a_version_without_proof_that_all_have_entered_it_needs_a_barrier_before_it_ends() {
    let mut desk = running();
    assert!(!desk.needs_barrier(), "nothing comes before version 0");
    desk.enter(Version(1)).unwrap();
    makes(&mut desk, &broadcast(0), "root's");
    assert!(desk.needs_barrier());
    makes(&mut desk, &barrier(), "");
    assert!(!desk.needs_barrier());
}

#[test]
fn whether_a_barrier_is_needed_is_the_same_for_whoever_replays_the_version() {
    let mut desk = started(1);
    desk.plan(plan(2, &[(version(1), 2, false)]));
    assert!(desk.needs_barrier());
    for (seqno, call) in [broadcast(0), sum(1)].iter().enumerate() {
        desk.fetched(generation(2), version(1), seqno as u32, entry(call, "kept")).unwrap();
        assert!(desk.needs_barrier());
        desk.begin(call, None).unwrap();
        assert_eq!(desk.proceed(), Ok(Next::Replayed("kept")));
    }
    assert!(!desk.needs_barrier());
}
