//! Stripes from several holders, and what becomes of them when holders fail.

use super::*;
use rejoin_protocol::ids::{Incarnation, Lineage, Phase, Rank, Version, UNMADE};

fn model(length: u64) -> Vec<u8> {
    (0..length).map(|place| (place % 251) as u8).collect()
}

fn checkpoint(bytes: &[u8]) -> Checkpoint {
    crate::checkpoint(Lineage(0), Version(3), 3, bytes, false)
}

fn at(agent: u64, host: &str) -> AgentAddress {
    AgentAddress { agent: AgentId(agent), address: ([127, 0, 0, 1], agent as u16).into(), host: host.into() }
}

fn gathering(bytes: &[u8], holders: &[AgentAddress]) -> Gathering {
    let member = MemberId { rank: Rank(1), incarnation: Incarnation::nth(1) };
    Gathering::new(member, checkpoint(bytes), holders.to_vec(), "here", Instant::now())
}

fn asked(gathering: &mut Gathering) -> Vec<(u32, u64)> {
    let mut asked = Vec::new();
    while let NextStripe::Ask(number, holder) = gathering.next(Instant::now()) {
        asked.push((number, holder.agent.0));
    }
    asked
}

#[test]
fn a_model_that_does_not_fit_into_memory_is_an_error_of_who_asks_for_it() {
    let holder = at(8, "there");
    let member = MemberId { rank: Rank(1), incarnation: Incarnation::nth(1) };
    let huge = Checkpoint { length: 1 << 62, ..checkpoint(b"model") };
    let mut gathering = Gathering::new(member, huge, vec![holder.clone()], "here", Instant::now());
    assert_eq!(gathering.next(Instant::now()), NextStripe::Failed);
    assert!(gathering.failure().message.contains("bytes of memory at once"), "{}", gathering.failure());
    // One whose length its holder says.
    let lazy = Checkpoint { length: UNMADE, digest: 0, ..huge };
    let mut gathering = Gathering::new(member, lazy, vec![holder], "here", Instant::now());
    let [(number, _)] = asked(&mut gathering)[..] else { panic!("it is asked once") };
    let answer = wire::encode(&Reply::Is(huge));
    let progress = gathering.message(number, Kind::Control, &answer, Instant::now());
    assert!(matches!(&progress, Progress::Failed(reason) if reason.contains("bytes of memory")));
}

/// A holder with these bytes answers until its stripe is here, or so many bytes have gone.
fn answer(gathering: &mut Gathering, number: u32, bytes: &[u8], at_most: u64) -> Progress {
    let Some(Request::Checkpoint { from, to, .. }) = gathering.request(number) else { panic!("no such stripe") };
    let mut from = from;
    let end = to.min(bytes.len() as u64).min(from.saturating_add(at_most));
    while from < end {
        let next = end.min(from + (1 << 20));
        let header = Header {
            kind: Kind::Bulk,
            phase: Phase::Version(Version(3)),
            offset: from,
            digest: part_digest(&bytes[from as usize..next as usize]),
            ..Header::control((next - from) as u32)
        };
        // In two pieces, as they may come.
        while from < next {
            let room = gathering.room(number, &header).expect("these bytes come next");
            let count = room.len().div_ceil(2);
            room[..count].copy_from_slice(&bytes[from as usize..from as usize + count]);
            from += count as u64;
            match gathering.came(number, count, Instant::now()) {
                Progress::Wait => {}
                Progress::Whole(bytes) => {
                    assert_eq!(gathering.next(Instant::now()), NextStripe::Wait, "nothing is asked for meanwhile");
                    let digest = crate::digest::digest(&bytes);
                    return gathering.verified(bytes, digest);
                }
                other => return other,
            }
        }
    }
    Progress::Wait
}

#[test]
fn a_large_model_comes_in_stripes_from_the_nearest_holders_at_once() {
    let bytes = model(3 * STRIPE_BYTES + 5);
    let mut gathering = gathering(&bytes, &[at(1, "there"), at(2, "there"), at(3, "there"), at(4, "there")]);
    assert_eq!(asked(&mut gathering), [(0, 1), (1, 2), (2, 3)]);
    for number in [2, 0] {
        assert!(matches!(answer(&mut gathering, number, &bytes, u64::MAX), Progress::Brought));
    }
    let Progress::Done(whole) = answer(&mut gathering, 1, &bytes, u64::MAX) else { panic!("it is whole") };
    assert!(whole == bytes);
    let source = gathering.source(AgentId(9));
    assert!(["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"].iter().all(|at| source.contains(at)), "{source}");
}

#[test]
fn holders_that_are_farther_away_are_asked_only_when_a_nearer_one_fails() {
    let bytes = model(2 * STRIPE_BYTES);
    let mut gathering = gathering(&bytes, &[at(1, "here"), at(2, "there"), at(3, "there")]);
    assert_eq!(asked(&mut gathering), [(0, 1)]);
    gathering.failed(0, "gone");
    assert_eq!(asked(&mut gathering), [(1, 2)]);
}

#[test]
fn a_small_model_comes_from_one() {
    let bytes = model(1000);
    let mut gathering = gathering(&bytes, &[at(1, "there"), at(2, "there")]);
    assert_eq!(asked(&mut gathering), [(0, 1)]);
    assert!(matches!(answer(&mut gathering, 0, &bytes, u64::MAX), Progress::Done(whole) if whole == bytes));
}

#[test]
fn the_rest_of_a_stripe_moves_to_another_holder_when_its_holder_dies() {
    let bytes = model(2 * STRIPE_BYTES);
    let mut gathering = gathering(&bytes, &[at(1, "there"), at(2, "there")]);
    assert_eq!(asked(&mut gathering), [(0, 1), (1, 2)]);
    answer(&mut gathering, 0, &bytes, 3 << 20);
    gathering.failed(0, "gone");
    assert_eq!(gathering.next(Instant::now()), NextStripe::Wait, "the other one is still busy");
    assert!(matches!(answer(&mut gathering, 1, &bytes, u64::MAX), Progress::Brought));
    assert_eq!(asked(&mut gathering), [(2, 2)]);
    let rest = gathering.request(2);
    assert!(matches!(rest, Some(Request::Checkpoint { from, to, .. }) if (from, to) == (3 << 20, STRIPE_BYTES)));
    assert!(matches!(answer(&mut gathering, 2, &bytes, u64::MAX), Progress::Done(whole) if whole == bytes));
}

#[test]
fn a_part_counts_and_stays_only_when_it_has_the_digest_that_was_told() {
    let bytes = model(1000);
    let mut gathering = gathering(&bytes, &[at(1, "there"), at(2, "there")]);
    let (began, later) = (Instant::now(), Instant::now() + std::time::Duration::from_secs(8));
    assert_eq!(gathering.next(began), NextStripe::Ask(0, at(1, "there")));
    let part = |from: usize, to: usize| Header {
        kind: Kind::Bulk,
        offset: from as u64,
        digest: part_digest(&bytes[from..to]),
        ..Header::control((to - from) as u32)
    };
    gathering.room(0, &part(0, 400)).unwrap().copy_from_slice(&bytes[..400]);
    assert!(matches!(gathering.came(0, 399, later), Progress::Wait));
    assert_eq!((gathering.heard(0), gathering.have()), (Some(began), 0), "bytes alone are no progress");
    assert!(matches!(gathering.came(0, 1, later), Progress::Wait));
    assert_eq!((gathering.heard(0), gathering.have()), (Some(later), 400));
    let room = gathering.room(0, &part(400, 900)).unwrap();
    room.copy_from_slice(&bytes[400..900]);
    room[7] ^= 1;
    let Progress::Failed(reason) = gathering.came(0, 500, later) else { panic!("a wrong byte passed") };
    assert!(reason.contains("bytes 400 to 900"), "{reason}");
    gathering.failed(0, &reason);
    assert_eq!(asked(&mut gathering), [(1, 2)]);
    assert!(matches!(gathering.request(1), Some(Request::Checkpoint { from: 400, .. })));
}

#[test]
fn asked_for_again_what_is_here_stays_and_who_is_bringing_more_goes_on_unless_he_is_gone() {
    let bytes = model(2 * STRIPE_BYTES);
    let mut gathering = gathering(&bytes, &[at(1, "there"), at(2, "there")]);
    assert_eq!(asked(&mut gathering), [(0, 1), (1, 2)]);
    answer(&mut gathering, 0, &bytes, 2 << 20);
    answer(&mut gathering, 1, &bytes, 1 << 20);
    let again = checkpoint(&bytes);
    assert_eq!(gathering.go_on(&again, vec![at(2, "there"), at(3, "there")]), Some(vec![0]), "the first is gone");
    assert_eq!(asked(&mut gathering), [(2, 3)]);
    assert!(matches!(gathering.request(2), Some(Request::Checkpoint { from, .. }) if from == 2 << 20));
    // All fail, each after some more: it comes on, until nothing more comes.
    assert!(matches!(answer(&mut gathering, 2, &bytes, 1 << 20), Progress::Wait));
    for number in [1, 2] {
        gathering.failed(number, "gone");
    }
    assert_eq!(gathering.next(Instant::now()), NextStripe::Failed);
    assert!(gathering.has_come_further() && !gathering.has_come_further());
    assert_eq!(gathering.go_on(&again, vec![at(4, "there")]), Some(vec![]));
    assert_eq!(asked(&mut gathering), [(3, 4)]);
    assert!(matches!(answer(&mut gathering, 3, &bytes, u64::MAX), Progress::Brought));
    assert_eq!(asked(&mut gathering), [(4, 4)]);
    assert!(matches!(answer(&mut gathering, 4, &bytes, u64::MAX), Progress::Done(whole) if whole == bytes));
    let other = Checkpoint { version: Version(4), ..again };
    assert_eq!(gathering.go_on(&other, vec![at(4, "there")]), None, "another checkpoint begins anew");
}

#[test]
fn of_a_lazy_checkpoint_of_which_the_next_holder_makes_other_bytes_all_is_asked_of_that_one() {
    let (bytes, others) = (model(1000), model(999));
    let mut gathering = gathering(&bytes, &[at(1, "there"), at(2, "there")]);
    let lazy = crate::agent::lazy_checkpoint(Lineage(0), Version(3), 3);
    (gathering.checkpoint, gathering.asked) = (lazy, lazy);
    gathering.begin_anew();
    let is = |made: &[u8]| wire::encode(&Reply::Is(checkpoint(made)));
    assert_eq!(asked(&mut gathering), [(0, 1)]);
    assert!(matches!(gathering.message(0, Kind::Control, &is(&bytes), Instant::now()), Progress::Wait));
    answer(&mut gathering, 0, &bytes, 600);
    gathering.failed(0, "gone");
    assert_eq!(asked(&mut gathering), [(1, 2)]);
    assert!(matches!(gathering.request(1), Some(Request::Checkpoint { from: 600, .. })));
    assert!(matches!(gathering.message(1, Kind::Control, &is(&others), Instant::now()), Progress::Brought));
    assert_eq!(asked(&mut gathering), [(2, 2)]);
    assert!(matches!(gathering.request(2), Some(Request::Checkpoint { from: 0, .. })));
    assert!(matches!(gathering.message(2, Kind::Control, &is(&others), Instant::now()), Progress::Wait));
    assert!(matches!(answer(&mut gathering, 2, &others, u64::MAX), Progress::Done(whole) if whole == others));
    assert_eq!(gathering.source(AgentId(9)), "there (127.0.0.1:2)");
}

#[test]
fn when_stripes_do_not_fit_together_each_holder_is_asked_for_all_of_it() {
    let bytes = model(2 * STRIPE_BYTES);
    let mut wrong = bytes.clone();
    wrong[(STRIPE_BYTES + 7) as usize] ^= 1;
    let mut gathering = gathering(&bytes, &[at(1, "there"), at(2, "there")]);
    assert_eq!(asked(&mut gathering), [(0, 1), (1, 2)]);
    assert!(matches!(answer(&mut gathering, 0, &bytes, u64::MAX), Progress::Brought));
    assert!(matches!(answer(&mut gathering, 1, &wrong, u64::MAX), Progress::Brought));
    assert_eq!(asked(&mut gathering), [(2, 1)]);
    assert!(matches!(answer(&mut gathering, 2, &bytes, u64::MAX), Progress::Done(whole) if whole == bytes));
}

#[test]
fn bytes_in_a_wrong_place_have_no_room() {
    let bytes = model(1000);
    let mut gathering = gathering(&bytes, &[at(1, "there")]);
    assert_eq!(asked(&mut gathering), [(0, 1)]);
    for (offset, length) in [(1, 10), (0, 1001), (u64::MAX, 10), (0, 0)] {
        let header = Header { kind: Kind::Bulk, offset, ..Header::control(length) };
        let error = gathering.room(0, &header).expect_err("not the bytes that come next");
        assert!(error.contains("where 0 of 1000 were expected"), "{error}");
    }
}

#[test]
fn when_nobody_is_left_the_error_says_who_was_asked_and_what_was_seen() {
    let bytes = model(2 * STRIPE_BYTES);
    let mut wrong = bytes.clone();
    wrong[0] ^= 1;
    let mut gathering = gathering(&bytes, &[at(1, "there"), at(2, "there")]);
    assert_eq!(asked(&mut gathering), [(0, 1), (1, 2)]);
    gathering.failed(1, "silent for 5 s");
    assert_eq!(gathering.next(Instant::now()), NextStripe::Wait);
    assert!(matches!(answer(&mut gathering, 0, &wrong, u64::MAX), Progress::Brought));
    assert_eq!(asked(&mut gathering), [(2, 1)]);
    assert!(matches!(answer(&mut gathering, 2, &wrong, u64::MAX), Progress::Brought));
    assert_eq!(gathering.next(Instant::now()), NextStripe::Failed, "all of it was the first one's");
    let error = gathering.failure().message;
    assert!(error.contains("127.0.0.1:2: silent for 5 s") && error.contains("another digest"), "{error}");
}
