//! Every decoder of the wire: what was written is read as it was, and any other bytes are refused
//! without a panic and without more memory than a stated limit. The kept corpus of the fuzz targets
//! runs here too.

#[path = "../../../fuzz/checks.rs"]
mod checks;
#[path = "../../../fuzz/kept.rs"]
mod kept;

use proptest::collection::vec;
use proptest::prelude::*;
use rejoin_protocol::collective::{Extent, ObservedInput, SegmentAddress};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::former::{FormerWorld, FormerWorlds};
use rejoin_protocol::hook::Hook;
use rejoin_protocol::ids::MemberId;
use rejoin_protocol::ids::*;
use rejoin_protocol::message::*;
use rejoin_protocol::report::Report;
use rejoin_protocol::view::{AgentAddress, SlotState, View, ViewSlot};
use rejoin_protocol::wire::{encode, Header, Kind, PAYLOAD_LIMIT};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Most bytes that one decoding may hold at once, beside 64 for each byte that it was given.
const LIMIT: usize = 4 << 20;

thread_local! {
    static NOW: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

/// Counts what each thread holds.
struct Counting;

// SAFETY: every call goes to the system's allocator as it came; counting touches nothing that is allocated.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.get() + layout.size();
        NOW.set(now);
        PEAK.set(PEAK.get().max(now));
        // SAFETY: the caller's promise about the layout is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.set(NOW.get().saturating_sub(layout.size()));
        // SAFETY: the caller's promise about pointer and layout is handed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Runs a check and says how many bytes it held at most.
fn held(check: checks::Check, bytes: &[u8]) -> usize {
    let before = NOW.get();
    PEAK.set(before);
    check(bytes);
    PEAK.get() - before
}

fn runs_within_the_limit(bytes: &[u8]) {
    for (name, check) in checks::ALL {
        let held = held(check, bytes);
        assert!(
            held <= LIMIT + 64 * bytes.len(),
            "{name} held {held} bytes for {} of input: {bytes:02x?}",
            bytes.len()
        );
    }
}

#[test]
fn the_kept_corpus_of_every_fuzz_target_runs_through() {
    for (name, check) in checks::ALL {
        for bytes in kept::inputs(name) {
            let held = held(check, &bytes);
            assert!(held <= LIMIT + 64 * bytes.len(), "{name} held {held} bytes");
        }
    }
}

/// Lengths that promise more than there is, at every place of a message.
#[test]
fn lengths_that_promise_gigabytes_are_refused_without_allocating_them() {
    let status = StatusReport {
        generation: Generation::default(),
        ranks: Vec::new(),
        held: Vec::new(),
        handed_over: Vec::new(),
    };
    let registration = Registration {
        agent: AgentId(1),
        executor: "e".into(),
        host: "h".into(),
        address: ([127, 0, 0, 1], 1).into(),
        pid: 1,
        status,
        fingerprint: Vec::new(),
        epoch: 0,
        view: None,
        ended: None,
        standing: Vec::new(),
    };
    let good = encode(&AgentMessage::Register(registration));
    for at in 0..good.len() {
        let mut bytes = good[..at].to_vec();
        bytes.extend([0xff, 0xff, 0xff, 0xff, 0x0f]);
        bytes.extend(&good[at..]);
        runs_within_the_limit(&bytes);
    }
}

fn text() -> impl Strategy<Value = String> {
    "\\PC{0,20}"
}

fn generation() -> impl Strategy<Value = Generation> {
    (any::<u32>(), any::<u32>()).prop_map(|(epoch, number)| Generation { epoch, number })
}

fn phase() -> impl Strategy<Value = Phase> {
    prop_oneof![Just(Phase::Boot), any::<u32>().prop_map(|v| Phase::Version(Version(v)))]
}

fn checkpoint() -> impl Strategy<Value = Checkpoint> {
    let owner = proptest::option::of(any::<u32>().prop_map(Rank));
    (any::<[u32; 3]>(), owner, any::<bool>(), any::<u64>(), any::<u128>(), any::<bool>()).prop_map(
        |([lineage, version, round], owner, has_own, length, digest, complete)| Checkpoint {
            lineage: Lineage(lineage),
            version: Version(version),
            owner,
            has_own,
            round,
            length,
            digest,
            complete,
        },
    )
}

fn status() -> impl Strategy<Value = StatusReport> {
    let extent = (phase(), any::<u32>(), any::<bool>());
    let extents = vec(extent.prop_map(|(phase, finished, ended)| Extent { phase, finished, ended }), 0..4);
    let state = prop_oneof![
        Just(RankState::Fresh),
        any::<[u32; 2]>().prop_map(|[l, v]| RankState::At(Position { lineage: Lineage(l), version: Version(v) })),
        (any::<[u32; 2]>(), any::<u128>()).prop_map(|([l, v], digest)| RankState::Finished {
            at: Position { lineage: Lineage(l), version: Version(v) },
            digest
        }),
    ];
    let segment = proptest::option::of((any::<u32>(), any::<i32>(), any::<[u64; 2]>()).prop_map(
        |(process, descriptor, [nonce, slot_bytes])| SegmentAddress { process, descriptor, nonce, slot_bytes },
    ));
    let observed = (any::<[u32; 3]>(), phase(), any::<u64>()).prop_map(|([rank, inc, seqno], phase, digest)| {
        let (rank, incarnation) = (Rank(rank), Incarnation { epoch: seqno, number: inc });
        ObservedInput { rank, incarnation, phase, seqno, digest }
    });
    let rank = (any::<[u32; 5]>(), state, extents, vec(observed, 0..3), segment).prop_map(
        |([rank, inc, stage, task, oldest], state, results, observed, segment)| RankStatus {
            rank: Rank(rank),
            incarnation: Incarnation { epoch: stage, number: inc },
            attempt: Attempt { stage, task },
            state,
            oldest: Version(oldest),
            results,
            observed,
            segment,
            hook: if oldest % 2 == 0 { Hook::Possible } else { Hook::Impossible("no symbol".into()) },
        },
    );
    (generation(), vec(rank, 0..4), vec(checkpoint(), 0..4), vec(checkpoint(), 0..2))
        .prop_map(|(generation, ranks, held, handed_over)| StatusReport { generation, ranks, held, handed_over })
}

fn agent_message() -> impl Strategy<Value = AgentMessage> {
    prop_oneof![
        status().prop_map(AgentMessage::StatusReport),
        (any::<u64>(), text(), text(), any::<[u8; 4]>(), any::<u16>(), any::<u32>(), status()).prop_map(
            |(agent, executor, host, ip, port, pid, status)| AgentMessage::Register(Registration {
                agent: AgentId(agent),
                executor,
                host,
                address: (ip, port).into(),
                pid,
                status,
                fingerprint: Vec::new(),
                epoch: 0,
                view: None,
                ended: None,
                standing: vec![Standing {
                    task: Task(pid),
                    attempt: Attempt { stage: 1, task: pid },
                    given: (pid % 2 == 0).then_some(given(pid, agent as u32)),
                }],
            })
        ),
        any::<[u32; 3]>().prop_map(|[task, stage, attempt]| {
            AgentMessage::StandBy { task: Task(task), attempt: Attempt { stage, task: attempt } }
        }),
        any::<[u32; 3]>().prop_map(|[task, stage, attempt]| {
            AgentMessage::StandDown { task: Task(task), attempt: Attempt { stage, task: attempt } }
        }),
        (member(), text()).prop_map(|(member, message)| {
            AgentMessage::Report { member, report: Report::Broken(Error::new(Code::Mismatch, message)) }
        }),
        (member(), any::<u32>(), generation(), text()).prop_map(|(member, peer, generation, reason)| {
            AgentMessage::Report { member, report: Report::CannotShare { peer: Rank(peer), generation, reason } }
        }),
        (member(), any::<[u64; 2]>(), vec(any::<u8>(), 0..200))
            .prop_map(|(member, [offset, total], bytes)| { AgentMessage::ResultPart { member, offset, total, bytes } }),
    ]
}

fn given(rank: u32, task: u32) -> RankGiven {
    RankGiven { rank: Rank(rank), attempt: Attempt { stage: 0, task } }
}

fn member() -> impl Strategy<Value = MemberId> {
    any::<[u32; 2]>().prop_map(|[rank, number]| MemberId { rank: Rank(rank), incarnation: Incarnation::nth(number) })
}

fn tracker_message() -> impl Strategy<Value = TrackerMessage> {
    let address = (any::<u64>(), any::<[u8; 16]>(), any::<u16>(), text())
        .prop_map(|(agent, ip, port, host)| AgentAddress { agent: AgentId(agent), address: (ip, port).into(), host });
    let slot = (proptest::option::of(any::<u32>()), proptest::option::of(any::<u64>()), any::<bool>()).prop_map(
        |(incarnation, agent, planned)| ViewSlot {
            incarnation: incarnation.map(Incarnation::nth),
            state: agent.map_or(SlotState::Vacant, |agent| SlotState::Alive { agent: AgentId(agent) }),
            planned,
        },
    );
    let world = (any::<u32>(), vec(proptest::option::of(any::<u32>()), 0..4)).prop_map(|(until, ranks)| FormerWorld {
        until: Lineage(until),
        ranks: ranks.into_iter().map(|rank| rank.map(Rank)).collect(),
    });
    let former = (any::<u32>(), vec(world, 0..3))
        .prop_map(|(known_from, worlds)| FormerWorlds { known_from: Lineage(known_from), worlds });
    let view = (
        generation(),
        vec(any::<u32>(), 0..4),
        proptest::option::of(text()),
        vec(slot, 0..5),
        vec(address, 0..5),
        former,
    )
        .prop_map(|(generation, branches, fingerprint, slots, agents, former)| View {
            generation,
            lineage: Lineage(branches.len() as u32),
            branches: branches.into_iter().map(Version).collect(),
            former,
            has_begun: fingerprint.is_some(),
            highest: fingerprint.as_ref().map(|_| Version(3)),
            hooked: fingerprint.as_ref().map(|fingerprint| fingerprint.len() > 3),
            fingerprint,
            slots,
            agents,
        });
    let plan = (generation(), any::<u32>(), status(), vec(any::<u64>(), 0..4), text()).prop_map(
        |(generation, lineage, status, holders, reason)| Plan {
            generation,
            lineage: Lineage(lineage),
            newcomers: Vec::new(),
            table: status.ranks,
            holders: holders.into_iter().map(AgentId).collect(),
            hooked: (reason.len() > 2).then_some(true),
            reason,
        },
    );
    prop_oneof![
        view.prop_map(TrackerMessage::View),
        plan.prop_map(TrackerMessage::Plan),
        any::<u128>().prop_map(|digest| TrackerMessage::Ended(Ok(digest))),
        any::<[u32; 4]>().prop_map(|[task, stage, attempt, rank]| TrackerMessage::RankGiven {
            task: Task(task),
            attempt: Attempt { stage, task: attempt },
            given: given(rank, attempt)
        }),
        (any::<[u32; 3]>(), text()).prop_map(|([task, stage, attempt], message)| TrackerMessage::StandByEnded {
            task: Task(task),
            attempt: Attempt { stage, task: attempt },
            error: Error::new(Code::Fenced, message)
        }),
        (any::<u32>(), any::<bool>()).prop_map(|(after, durable)| TrackerMessage::CheckpointWanted(CheckpointWish {
            after: Version(after),
            durable
        })),
        (any::<[u32; 2]>(), vec(any::<u8>(), 0..9)).prop_map(|([rank, number], bytes)| TrackerMessage::NewcomerLocal {
            member: MemberId { rank: Rank(rank), incarnation: Incarnation::nth(number) },
            bytes
        }),
        text().prop_map(|message| TrackerMessage::Refused(Error::new(Code::Incompatible, message))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_are_read_or_refused_within_the_limit(bytes in vec(any::<u8>(), 0..300)) {
        runs_within_the_limit(&bytes);
    }

    #[test]
    fn a_header_comes_back_as_it_was(
        length in 0..=PAYLOAD_LIMIT,
        kind in prop_oneof![
            Just(Kind::Control), Just(Kind::Bulk), Just(Kind::Data), Just(Kind::PhaseStart), Just(Kind::PhaseEnd),
            Just(Kind::Receipt), Just(Kind::Collective)
        ],
        phase in phase(),
        lineage: u32,
        offset: u64,
        digest: u64,
        current in generation(),
        inputs: u64,
    ) {
        let inputs = if kind == Kind::Collective { inputs } else { 0 };
        let header = Header { length, kind, phase, lineage: Lineage(lineage), offset, digest,
            generation: current, inputs };
        prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
    }

    #[test]
    fn an_agents_message_comes_back_as_it_was_and_a_changed_one_is_harmless(
        message in agent_message(), at: usize, byte: u8, cut: usize,
    ) {
        let mut bytes = encode(&message);
        prop_assert_eq!(rejoin_protocol::wire::decode(&bytes), Ok(message));
        let length = bytes.len();
        bytes[at % length] = byte;
        runs_within_the_limit(&bytes);
        runs_within_the_limit(&bytes[..cut % length]);
    }

    #[test]
    fn a_trackers_message_comes_back_as_it_was_and_a_changed_one_is_harmless(
        message in tracker_message(), at: usize, byte: u8, cut: usize,
    ) {
        let mut bytes = encode(&message);
        prop_assert_eq!(rejoin_protocol::wire::decode(&bytes), Ok(message));
        let length = bytes.len();
        bytes[at % length] = byte;
        runs_within_the_limit(&bytes);
        runs_within_the_limit(&bytes[..cut % length]);
    }
}
