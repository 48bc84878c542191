//! When ranks share memory, and how a segment that can't be opened ends that: what tracker, agents and ranks derive.

use crate::collective_support;
use crate::host_support;
use crate::support;

use collective_support::{extent, generation, version, whole_plan};
use rejoin_protocol::collective::frame::{Expected, Verdict};
use rejoin_protocol::collective::sharing::{collective_id, generation_number, identity, inputs, judge, COMMON_BYTES};
use rejoin_protocol::collective::{CollectiveId, RankPlan, SegmentAddress};
use rejoin_protocol::event::Event;
use rejoin_protocol::former::FormerWorlds;
use rejoin_protocol::ids::{AgentId, Generation, Incarnation, Lineage, MemberId, Phase, Rank};
use rejoin_protocol::message::{AgentMessage, RankState, RankStatus};
use rejoin_protocol::report::Report;
use rejoin_protocol::view::{AgentAddress, SlotState, View, ViewSlot};
use support::{at, stands, Desk};

fn segment(number: u32) -> Option<SegmentAddress> {
    Some(SegmentAddress { process: 100 + number, descriptor: 9, nonce: u64::from(number), slot_bytes: 4096 })
}

fn stands_with(rank: u32, incarnation: u32, state: RankState, segment: Option<SegmentAddress>) -> RankStatus {
    let results = match state {
        RankState::Fresh => Vec::new(),
        _ => vec![extent(version(0), 2, false)],
    };
    RankStatus { segment, results, ..stands(rank, incarnation, state) }
}

fn derived(hosts: [&str; 3], table: Vec<RankStatus>, number: u32) -> Option<Vec<SegmentAddress>> {
    plan_of(hosts, table, number).segments
}

fn plan_of(hosts: [&str; 3], table: Vec<RankStatus>, number: u32) -> RankPlan {
    let agents = hosts.iter().enumerate().map(|(rank, host)| AgentAddress {
        agent: AgentId(rank as u64),
        address: ([127, 0, 0, 1], 1).into(),
        host: host.to_string(),
    });
    let slots = (0..3).map(|rank| ViewSlot {
        incarnation: Some(Incarnation::nth(0)),
        state: SlotState::Alive { agent: AgentId(rank) },
        planned: true,
    });
    let view = View {
        generation: generation(number),
        lineage: Lineage(0),
        branches: Vec::new(),
        former: FormerWorlds::default(),
        has_begun: true,
        highest: None,
        fingerprint: None,
        hooked: None,
        slots: slots.collect(),
        agents: agents.collect(),
    };
    let plan = whole_plan(number, table);
    RankPlan::derive(&plan, &view, AgentId(0), "here")
}

fn table(segments: [Option<SegmentAddress>; 3]) -> Vec<RankStatus> {
    // In another order than that of the ranks.
    let mut table: Vec<RankStatus> =
        segments.into_iter().enumerate().map(|(rank, segment)| stands_with(rank as u32, 0, at(0), segment)).collect();
    table.rotate_left(1);
    table
}

#[test]
fn memory_is_shared_when_every_rank_has_a_segment_and_all_are_on_one_host() {
    let all = table([segment(0), segment(1), segment(2)]);
    let shared = derived(["a", "a", "a"], all.clone(), 3).expect("all can");
    assert_eq!(shared.iter().map(|segment| segment.nonce).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(derived(["a", "a", "b"], all.clone(), 3), None, "another host");
    assert_eq!(derived(["a", "a", "a"], table([segment(0), None, segment(2)]), 3), None, "a rank that shares nothing");
    assert_eq!(derived(["a", "a", "a"], all[..2].to_vec(), 3), None, "a rank that isn't there");
    let other =
        all.iter().map(|reported| RankStatus { incarnation: Incarnation::nth(1), ..reported.clone() }).collect();
    assert_eq!(derived(["a", "a", "a"], other, 3), None, "segments of other incarnations than the view's");
    assert_eq!(derived(["a", "a", "a"], all, 1 << 16), None, "a generation that has no number on segments");
}

#[test]
fn a_plan_numbers_the_hosts_of_its_ranks() {
    let all = table([segment(0), segment(1), segment(2)]);
    let cases = [(["a", "a", "a"], [0, 0, 0]), (["a", "a", "b"], [0, 0, 1]), (["b", "a", "b"], [0, 1, 0])];
    for (names, numbers) in cases {
        let plan = plan_of(names, all.clone(), 3);
        assert_eq!(plan.hosts, numbers, "{names:?}");
    }
}

#[test]
fn attempts_are_numbered_as_generations_grow() {
    let number = |epoch, number| generation_number(Generation { epoch, number });
    let all = [number(1, 1), number(1, 2), number(1, 65_535), number(2, 0), number(2, 1), number(255, 65_535)];
    assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "{all:?}");
    assert!(all[0] >= Some(1));
    assert_eq!((number(256, 1), number(1, 65_536), number(0, 0)), (None, None, None));
}

#[test]
fn what_stands_on_a_segment_is_judged_as_a_frame_is() {
    let here = CollectiveId { lineage: Lineage(0), phase: version(3), seqno: 7 };
    let expected = Expected { generation: generation(4), collective_id: here, digest: 99, inputs: 13 };
    let seen = |other: Expected| judge(&identity(&other), &expected).unwrap();
    assert_eq!(seen(expected), Verdict::Mine);
    assert_eq!(seen(Expected { digest: 98, ..expected }), Verdict::Mismatch(here));
    for (phase, seqno) in [(version(3), 6), (version(4), 0), (Phase::Boot, 7)] {
        let there = CollectiveId { phase, seqno, ..here };
        assert_eq!(seen(Expected { collective_id: there, ..expected }), Verdict::Mismatch(there));
        assert_eq!(collective_id(&identity(&Expected { collective_id: there, ..expected })).unwrap(), there);
    }
    assert_eq!(seen(Expected { generation: generation(5), ..expected }), Verdict::Early);
    assert_eq!(seen(Expected { generation: generation(3), ..expected }), Verdict::Outdated);
    // What a rank has given is its own, and stands behind what all have in common.
    let other = Expected { inputs: 14, ..expected };
    assert_eq!(seen(other), Verdict::Mine);
    let (one, other) = (identity(&expected), identity(&other));
    assert_eq!(one[..COMMON_BYTES], other[..COMMON_BYTES]);
    assert_eq!((inputs(&one).unwrap(), inputs(&other).unwrap()), (13, 14));
    assert!(judge(&[0; 64], &expected).is_err(), "no identity");
}

/// Three ranks that share memory and have finished two collectives; rank 2 comes back with another segment.
fn returned() -> (Desk, Vec<rejoin_protocol::tracker::TrackerOutput>) {
    let mut desk = Desk::trained_to(3, 0);
    desk.leaves(3, 2, 0, None);
    desk.joins(3, 2, support::attempt(1));
    desk.stands(1, vec![stands_with(0, 0, at(0), segment(0))], Vec::new());
    desk.stands(2, vec![stands_with(1, 0, at(0), segment(1))], Vec::new());
    let outputs = desk.stands(3, vec![stands_with(2, 1, RankState::Fresh, segment(12))], Vec::new());
    (desk, outputs)
}

fn segments(outputs: &[rejoin_protocol::tracker::TrackerOutput]) -> Vec<Option<u64>> {
    let plan = support::plan(outputs, 1).expect("a plan");
    plan.table.iter().map(|reported| reported.segment.map(|segment| segment.nonce)).collect()
}

#[test]
fn the_plan_carries_the_segments_of_the_living_and_those_that_newcomers_bring() {
    let (_, outputs) = returned();
    assert_eq!(segments(&outputs), [Some(0), Some(1), Some(12)]);
}

#[test]
fn a_segment_that_can_not_be_opened_ends_sharing_for_good_and_is_told_with_who_and_why() {
    let (mut desk, outputs) = returned();
    let generation = support::plan(&outputs, 1).unwrap().generation;
    let report = |rank: u32, incarnation: u32, generation: Generation| AgentMessage::Report {
        member: MemberId { rank: Rank(rank), incarnation: Incarnation::nth(incarnation) },
        report: Report::CannotShare { peer: Rank(0), generation, reason: "no such process".into() },
    };
    let older = Generation { number: generation.number - 1, ..generation };
    for (incarnation, about) in [(1, older), (0, generation)] {
        let outputs = desk.says(3, report(2, incarnation, about)).to_vec();
        assert!(support::views(&outputs, 1).is_empty(), "an older generation, or an older incarnation");
    }
    let outputs = desk.says(3, report(2, 1, generation)).to_vec();
    let reported = support::events(&outputs).into_iter().find_map(|event| match event {
        Event::SharingEnded { rank, peer, reason } => Some((rank.0, peer.0, reason.clone())),
        _ => None,
    });
    assert_eq!(reported, Some((2, 0, "no such process".into())));
    assert_eq!(support::views(&outputs, 1).len(), 1, "a new generation");
    let outputs = desk.says(2, report(1, 0, generation)).to_vec();
    assert!(support::views(&outputs, 1).is_empty() && support::events(&outputs).is_empty(), "reported once");
    desk.stands(1, vec![stands_with(0, 0, at(0), segment(0))], Vec::new());
    desk.stands(2, vec![stands_with(1, 0, at(0), segment(1))], Vec::new());
    let outputs = desk.stands(3, vec![stands_with(2, 1, at(0), segment(12))], Vec::new());
    assert_eq!(segments(&outputs), [None; 3]);
}

#[test]
fn an_agent_tells_the_segment_of_each_rank_from_its_first_standing_on() {
    use rejoin_protocol::host::{HostInput, Offer};
    use rejoin_protocol::message::TrackerMessage;
    let mut desk = host_support::Desk::connected();
    let attempt = host_support::attempt(0);
    let offer = Offer { segment: segment(5), ..Offer::default() };
    desk.input(HostInput::Join { rank: Rank(1), attempt, fingerprint: "terms".into(), offer });
    desk.received(TrackerMessage::JoinAccepted { rank: Rank(1), attempt, incarnation: Incarnation::nth(0) });
    let outputs = desk.received(TrackerMessage::View(host_support::view(1, &[Some(0), Some(0)], false)));
    let status = host_support::status(&outputs).expect("a status report");
    assert_eq!(status.ranks[0].segment, segment(5));
}
