//! Calls of one rank: what is run, what is replayed, what can't be paired.

use crate::collective_support;

use collective_support::*;
use rejoin_protocol::collective::{frame, Call, CollectiveId, Next};
use rejoin_protocol::error::Code;
use rejoin_protocol::ids::{Lineage, Phase, Rank, Version};
use rejoin_protocol::wire::{Header, Kind};

#[test]
fn a_call_runs_under_the_newest_plan_and_ends_with_its_result_in_the_log() {
    let mut desk = running();
    let collective_id = desk.begin(&sum(4), None).unwrap();
    assert_eq!((collective_id.phase, collective_id.seqno), (version(0), 0));
    assert_eq!(desk.proceed(), Ok(Next::Run(generation(1))));
    assert!(desk.finish(generation(1), "ten"));
    assert_eq!((desk.seqno(), desk.log().entry(version(0), 0).unwrap().result), (1, "ten"));
}

#[test]
fn nothing_runs_before_the_first_plan() {
    let mut desk = started(0);
    desk.begin(&sum(4), None).unwrap();
    assert!(waits(&mut desk).contains("plan"));
}

#[test]
fn a_finished_call_is_replayed_to_whoever_makes_it_again() {
    let mut desk = started(0);
    desk.plan(plan(2, &[(version(0), 2, false)]));
    desk.fetched(generation(2), version(0), 0, entry(&sum(4), "ten")).unwrap();
    desk.begin(&sum(4), None).unwrap();
    assert_eq!(desk.proceed(), Ok(Next::Replayed("ten")));
    assert_eq!(desk.proceed().unwrap_err().code, Code::BadState, "the call is over");
    desk.begin(&sum(4), None).unwrap();
    assert!(waits(&mut desk).contains("fetched"), "the second result isn't here yet");
    desk.fetched(generation(2), version(0), 1, entry(&sum(4), "twelve")).unwrap();
    assert_eq!(desk.proceed(), Ok(Next::Replayed("twelve")));
    desk.begin(&sum(4), None).unwrap();
    assert_eq!(desk.proceed(), Ok(Next::Run(generation(2))), "none has finished the third");
}

#[test]
fn another_call_than_was_made_before_is_a_mismatch_that_names_both_and_hands_out_nothing() {
    let mut desk = started(0);
    desk.plan(plan(2, &[(version(0), 1, false)]));
    desk.fetched(generation(2), version(0), 0, entry(&sum(4), "ten")).unwrap();
    let error = desk.begin(&broadcast(0), None).unwrap_err();
    assert_eq!(error.code, Code::Mismatch);
    for part in ["broadcast(3 u8, root 0) at train.rs:9", "allreduce(4 f32, sum) at train.rs:7"] {
        assert!(error.message.contains(part), "{error}");
    }
}

#[test]
fn a_mismatch_that_shows_only_when_results_come_is_found_too() {
    let mut desk = started(0);
    desk.plan(plan(2, &[(version(0), 1, false)]));
    desk.begin(&sum(5), None).unwrap();
    waits(&mut desk);
    desk.fetched(generation(2), version(0), 0, entry(&sum(4), "ten")).unwrap();
    assert_eq!(desk.proceed().unwrap_err().code, Code::Mismatch);
}

#[test]
fn a_call_beyond_the_length_of_a_version_that_others_have_ended_is_a_mismatch_at_once() {
    let mut desk = running();
    makes(&mut desk, &sum(1), "one");
    desk.plan(plan(2, &[(version(0), 1, true), (version(1), 0, false)]));
    let error = desk.begin(&sum(1), None).unwrap_err();
    assert_eq!(error.code, Code::Mismatch);
    assert!(error.message.contains("ended version 0 after 1"), "{error}");
}

#[test]
fn ending_a_version_with_fewer_calls_than_were_made_of_it_before_is_a_mismatch() {
    let mut desk = started(0);
    desk.plan(plan(2, &[(version(0), 1, false)]));
    desk.fetched(generation(2), version(0), 0, entry(&sum(4), "ten")).unwrap();
    let error = desk.enter(Version(1)).unwrap_err();
    assert_eq!(error.code, Code::Mismatch);
    assert!(error.message.contains("allreduce(4 f32, sum)"), "{error}");
    assert_eq!(desk.version(), Version(0));
}

#[test]
fn the_digest_of_a_call_tells_everything_but_the_site_apart() {
    let different: Vec<Call> = vec![
        sum(4),
        sum(5),
        broadcast(0),
        broadcast(1),
        barrier(),
        Call { element: "f64".into(), ..sum(4) },
        Call { reduction: "max".into(), ..sum(4) },
        Call { root: Some(Rank(0)), ..sum(4) },
        Call { operation: rejoin_protocol::collective::Operation::ReduceScatter, ..sum(4) },
    ];
    for (index, one) in different.iter().enumerate() {
        for (other_index, other) in different.iter().enumerate() {
            assert_eq!(one.digest(None) == other.digest(None), index == other_index, "{one} and {other}");
        }
    }
    let elsewhere = Call { site: barrier().site, ..sum(4) };
    assert_eq!(elsewhere.digest(None), sum(4).digest(None));
    assert_ne!(sum(4).digest(Some(&key("a"))), sum(4).digest(Some(&key("b"))));
}

#[test]
fn boot_results_are_found_by_key_in_any_order_and_what_is_not_there_runs_as_the_next_one() {
    let mut desk = started(3);
    desk.plan(plan(2, &[(Phase::Boot, 2, false), (version(3), 0, false)]));
    for (seqno, name) in ["a", "b"].into_iter().enumerate() {
        let mut entry = entry(&sum(1), name);
        entry.key = Some(key(name));
        entry.signature = sum(1).signature(Some(&key(name)));
        desk.fetched(generation(2), Phase::Boot, seqno as u32, entry).unwrap();
    }
    for name in ["b", "a"] {
        desk.begin(&sum(1), Some(key(name))).unwrap();
        assert_eq!(desk.proceed(), Ok(Next::Replayed(name)));
    }
    let collective_id = desk.begin(&sum(1), Some(key("c"))).unwrap();
    assert_eq!((collective_id.phase, collective_id.seqno), (Phase::Boot, 2));
    assert_eq!(desk.proceed(), Ok(Next::Run(generation(2))));
    assert_eq!(desk.seqno(), 0, "boot has a counter of its own");
}

fn header(number: u32, seqno: u32, digest: u64) -> Header {
    Header {
        length: 0,
        kind: Kind::Collective,
        phase: version(1),
        lineage: Lineage(0),
        offset: frame::offset(seqno, 5),
        digest,
        generation: generation(number),
        inputs: 12,
    }
}

#[test]
fn a_frame_is_mine_outdated_early_or_of_another_call() {
    let collective_id = CollectiveId { lineage: Lineage(0), phase: version(1), seqno: 3 };
    let expected = frame::Expected { generation: generation(4), collective_id, digest: 77, inputs: 13 };
    let judge = |header: Header| frame::judge(&header, &expected);
    assert_eq!(judge(header(4, 3, 77)), frame::Verdict::Mine);
    assert_eq!(judge(header(3, 3, 77)), frame::Verdict::Outdated);
    assert_eq!(judge(header(5, 3, 77)), frame::Verdict::Early);
    assert_eq!(judge(header(4, 3, 78)), frame::Verdict::Mismatch(collective_id));
    assert_eq!(judge(header(4, 2, 77)), frame::Verdict::Mismatch(CollectiveId { seqno: 2, ..collective_id }));
    let boot = Header { phase: Phase::Boot, ..header(4, 3, 77) };
    assert_eq!(judge(boot), frame::Verdict::Mismatch(CollectiveId { phase: Phase::Boot, ..collective_id }));
    let branch = Header { lineage: Lineage(1), ..header(4, 3, 77) };
    assert_eq!(judge(branch), frame::Verdict::Mismatch(CollectiveId { lineage: Lineage(1), ..collective_id }));
    assert_eq!(frame::frame_number(&header(4, 3, 77)), 5);
}
