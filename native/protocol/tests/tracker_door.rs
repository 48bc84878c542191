//! What an agent may say: nonsense costs the one that says it, and no other.

use crate::support;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rejoin_protocol::collective::{Extent, ObservedInput};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::event::Event;
use rejoin_protocol::former::{FormerWorld, FormerWorlds};
use rejoin_protocol::hook::Hook;
use rejoin_protocol::ids::MemberId;
use rejoin_protocol::ids::*;
use rejoin_protocol::message::*;
use rejoin_protocol::report::Report;
use rejoin_protocol::tracker::{DeathLimit, TrackerConfig, TrackerInput, TrackerOutput};
use rejoin_protocol::view::{AgentAddress, SlotState, View, ViewSlot};
use std::collections::BTreeMap;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::time::Duration;
use support::elastic::{asks, dies, goes_on, growing, leaves, training_as, TIMEOUT};
use support::takeover::{comes_back, former, second_life};
use support::*;

/// Longest wait for what takes milliseconds: reached only when the tracker is lost in a loop.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs this to its end, or fails.
fn ends<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = channel();
    let thread = std::thread::spawn(move || sender.send(what()));
    match receiver.recv_timeout(LIMIT) {
        Ok(done) => done,
        Err(RecvTimeoutError::Timeout) => panic!("no end after {LIMIT:?}"),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(_) => unreachable!("it has sent nothing, so it has panicked"),
        },
    }
}

/// Whether the agent of this link was refused for nonsense, and cut off.
fn is_turned_away(outputs: &[TrackerOutput], link: u64) -> bool {
    let refused = sent(outputs, link).into_iter().any(|message| matches!(message, TrackerMessage::Refused(_)));
    refused && outputs.contains(&TrackerOutput::Close { link })
}

#[test]
fn only_the_agent_of_a_slot_ends_it_breaks_it_or_finishes_in_it() {
    let member = MemberId { rank: Rank(0), incarnation: Incarnation::nth(0) };
    let error = Error::new(Code::Mismatch, "made up");
    let generation = Desk::trained_to(2, 3).generation();
    let (peer, reason) = (Rank(1), String::from("made up"));
    let mut said: Vec<AgentMessage> = [
        Report::Left { failure: Some(error.clone()) },
        Report::Left { failure: None },
        Report::Broken(error),
        Report::Finished { rounds: 3, digest: 1 },
        Report::Interrupted { peer, generation, reason: reason.clone() },
        Report::CannotShare { peer, generation, reason },
        Report::VersionEntered { lineage: Lineage(0), version: Version(4), round: 4 },
    ]
    .map(|report| AgentMessage::Report { member, report })
    .into();
    said.push(AgentMessage::ResultPart { member, offset: 7, total: 9, bytes: vec![1] });
    for message in said {
        let mut desk = Desk::trained_to(2, 3);
        desk.generation();
        assert_eq!(desk.says(2, message.clone()), [], "{message:?}");
        assert!(!desk.says(1, message.clone()).is_empty(), "{message:?}");
    }
}

#[test]
fn another_agents_word_on_how_far_a_rank_is_or_what_it_alone_has_does_not_count() {
    let mut desk = Desk::trained_to(2, 3);
    let position = Position { lineage: Lineage(0), version: Version(4) };
    let member = MemberId { rank: Rank(0), incarnation: Incarnation::nth(0) };
    let report = Report::VersionEntered { lineage: Lineage(0), version: Version(9), round: 9 };
    assert_eq!(desk.says(2, AgentMessage::Report { member, report }), []);
    assert_eq!(desk.says(2, AgentMessage::Local { member, at: position, bytes: vec![1] }), []);
    let outputs = desk.says(1, AgentMessage::Heartbeat { sequence: 1, ranks: Vec::new() }).to_vec();
    let lowest = Some(Position { lineage: Lineage(0), version: Version(3) });
    assert_eq!(sent(&outputs, 1), [&TrackerMessage::HeartbeatAck { sequence: 1, lowest }]);
}

#[test]
fn who_counts_to_the_end_of_numbers_is_turned_away_and_the_job_goes_on_without_it() {
    for version in [u32::MAX, u32::MAX - 1, u32::MAX / 2 + 1] {
        let mut desk = Desk::trained_to(2, 3);
        let outputs = desk.enters(1, 0, version);
        assert!(is_turned_away(&outputs, 2), "{outputs:?}");
        let reason = format!("version {version}; no job counts beyond");
        assert!(lost(&outputs)[0].1.contains(&reason), "{:?}", lost(&outputs));
        assert_eq!(failure(&outputs), None);
        desk.register(12);
        desk.joins(12, 1, attempt(1));
        desk.stands(1, vec![stands(0, 0, at(3))], vec![checkpoint(3)]);
        let outputs = desk.stands(12, vec![stands(1, 1, RankState::Fresh)], Vec::new());
        assert_eq!(plan(&outputs, 12).map(|plan| plan.newcomers[0].version), Some(Version(3)));
    }
}

#[test]
fn a_job_whose_only_rank_has_counted_far_is_planned_at_once() {
    let outputs = ends(|| {
        let mut desk = Desk::trained_to(2, 3);
        desk.enters(0, 0, u32::MAX / 2);
        desk.leaves(2, 1, 0, None);
        desk.joins(2, 1, attempt(1));
        desk.stands(1, vec![RankStatus { oldest: Version(0), ..stands(0, 0, at(u32::MAX / 2)) }], vec![checkpoint(3)]);
        desk.stands(2, vec![stands(1, 1, RankState::Fresh)], vec![checkpoint(3)])
    });
    assert_eq!(plan(&outputs, 2).map(|plan| plan.newcomers[0].version), Some(Version(3)));
}

#[test]
fn many_checkpoints_that_nobody_can_be_started_from_are_looked_through_once() {
    let outputs = ends(|| {
        let mut desk = Desk::trained_to(2, 3);
        desk.enters(0, 0, u32::MAX / 2);
        desk.leaves(2, 1, 0, None);
        desk.joins(2, 1, attempt(1));
        // As many as fit into a frame; of all but one the own model of rank 1 is missing.
        let held = (4..100_000).map(|version| Checkpoint { has_own: true, ..checkpoint(version) });
        let held: Vec<Checkpoint> = held.chain([checkpoint(3)]).collect();
        let far = RankStatus { oldest: Version(0), ..stands(0, 0, at(u32::MAX / 2)) };
        desk.stands(1, vec![far], held);
        desk.stands(2, vec![stands(1, 1, RankState::Fresh)], Vec::new())
    });
    assert_eq!(plan(&outputs, 2).map(|plan| plan.newcomers[0].version), Some(Version(3)));
}

#[test]
fn facts_that_are_the_trackers_own_are_no_agents_to_tell() {
    let error = Error::new(Code::Mismatch, "made up");
    for event in [Event::JobEnded { digest: 1, deaths: 0 }, Event::JobFailed { error }] {
        let mut desk = Desk::trained_to(2, 3);
        let outputs = desk.says(2, AgentMessage::Event(event.clone())).to_vec();
        assert!(is_turned_away(&outputs, 2) && !events(&outputs).contains(&&event), "{outputs:?}");
    }
}

#[test]
fn an_end_that_nobody_was_told_is_refused() {
    let mut desk = Desk::trained_to(1, 3);
    let ended = Some(Box::new(Ok(5)));
    let outputs = desk
        .says(7, AgentMessage::Register(Registration { ended, ..Desk::registration(7, Vec::new(), Vec::new()) }))
        .to_vec();
    assert!(is_turned_away(&outputs, 7) && failure(&outputs).is_none(), "{outputs:?}");
    assert!(!desk.tracker.is_over());
}

#[test]
fn a_text_without_end_is_told_in_part_and_never_within_a_letter() {
    let mut desk = Desk::trained_to(1, 3);
    let error = Error::new(Code::Mismatch, "ä".repeat(1 << 19));
    let outputs = {
        let member = MemberId { rank: Rank(0), incarnation: Incarnation::nth(0) };
        desk.says(1, AgentMessage::Report { member, report: Report::Broken(error) }).to_vec()
    };
    let reported = failure(&outputs).unwrap();
    assert!(reported.message.len() < 70_000 && reported.message.contains("rank 0"), "{} bytes", reported.message.len());

    let mut desk = Desk::trained_to(2, 3);
    desk.leaves(2, 1, 0, None);
    let held = (1..100_000).map(|version| Checkpoint { owner: Some(Rank(1)), ..checkpoint(version) }).collect();
    desk.stands(1, vec![stands(0, 0, at(3))], held);
    desk.leaves(1, 0, 0, None);
    desk.says(1, AgentMessage::Event(Event::JobEnded { digest: 1, deaths: 0 }));
    for rank in [0, 1] {
        desk.register(rank + 11);
        desk.joins(rank + 11, rank as u32, attempt(1));
    }
    desk.stands(2, Vec::new(), Vec::new());
    desk.stands(11, vec![stands(0, 1, RankState::Fresh)], Vec::new());
    let outputs = desk.stands(12, vec![stands(1, 1, RankState::Fresh)], Vec::new());
    let reported = failure(&outputs).unwrap();
    assert!(
        reported.message.len() < 300_000 && reported.message.contains("exec-1"),
        "{} bytes",
        reported.message.len()
    );

    let mut desk = Desk::new(1);
    desk.register(1);
    let join = AgentMessage::Join {
        rank: Rank(0),
        attempt: attempt(0),
        fingerprint: "t".repeat(1 << 20),
        hook: Hook::Unasked,
    };
    let outputs = desk.says(1, join).to_vec();
    assert_eq!(refusal(&outputs, 1), Some(Code::BadArgument));
}

#[test]
fn a_contradiction_names_the_executors_and_ranks_beside_the_agents() {
    let mut desk = Desk::trained_to(3, 3);
    desk.leaves(3, 2, 0, None);
    desk.joins(3, 2, attempt(1));
    desk.stands(1, vec![stands(0, 0, at(3))], vec![checkpoint(3)]);
    desk.stands(2, vec![stands(1, 0, at(3))], vec![Checkpoint { digest: 1, ..checkpoint(3) }]);
    let outputs = desk.stands(3, vec![stands(2, 1, RankState::Fresh)], Vec::new());
    let error = failure(&outputs).unwrap();
    assert_eq!(error.code, Code::Mismatch);
    for who in ["executor exec-1 with rank 0", "executor exec-2 with rank 1"] {
        assert!(error.message.contains(who), "{who}: {error}");
    }
}

/// Small numbers, which are mostly in use, and the ends of all numbers.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0u32..4, 2 => 4u32..40, 1 => prop_oneof![Just(u32::MAX), Just(u32::MAX / 2),
        Just(1 << 31), any::<u32>()]]
}

fn position() -> impl Strategy<Value = Position> {
    (prop_oneof![6 => Just(0u32), 1 => number()], number())
        .prop_map(|(lineage, version)| Position { lineage: Lineage(lineage), version: Version(version) })
}

fn phase() -> impl Strategy<Value = Phase> {
    prop_oneof![Just(Phase::Boot), number().prop_map(|version| Phase::Version(Version(version)))]
}

fn a_checkpoint() -> impl Strategy<Value = Checkpoint> {
    (position(), option::weighted(0.3, number()), any::<bool>(), 0u64..2, any::<bool>()).prop_map(
        |(at, owner, has_own, digest, made)| Checkpoint {
            lineage: at.lineage,
            owner: owner.map(Rank),
            has_own: has_own && digest == 0,
            length: if made { 10 } else { UNMADE },
            digest: u128::from(digest) + u128::from(at.version.0) * 1000,
            ..checkpoint(at.version.0)
        },
    )
}

fn incarnation() -> impl Strategy<Value = Incarnation> {
    (prop_oneof![3 => Just(1u32), 1 => number()], number()).prop_map(|(epoch, number)| in_life(epoch, number))
}

fn rank_status() -> impl Strategy<Value = RankStatus> {
    let state = prop_oneof![
        Just(RankState::Fresh),
        position().prop_map(RankState::At),
        (position(), 76u128..78).prop_map(|(at, digest)| RankState::Finished { at, digest }),
    ];
    let extent =
        (phase(), number(), any::<bool>()).prop_map(|(phase, finished, ended)| Extent { phase, finished, ended });
    let observed = (number(), incarnation(), phase(), number()).prop_map(|(rank, incarnation, phase, seqno)| {
        ObservedInput { rank: Rank(rank), incarnation, phase, seqno, digest: 1 }
    });
    (number(), incarnation(), number(), state, number(), vec(extent, 0..3), vec(observed, 0..3)).prop_map(
        |(rank, incarnation, task, state, oldest, results, observed)| RankStatus {
            attempt: attempt(task),
            oldest: Version(oldest),
            results,
            observed,
            ..stands(rank, incarnation, state)
        },
    )
}

/// A generation, or the newest one.
fn generation() -> impl Strategy<Value = Option<Generation>> {
    option::weighted(0.2, (number(), number()).prop_map(|(epoch, number)| Generation { epoch, number }))
}

fn a_view() -> impl Strategy<Value = View> {
    let slot =
        (option::of(incarnation()), option::of(0u64..5), any::<bool>()).prop_map(|(incarnation, agent, planned)| {
            ViewSlot {
                incarnation,
                state: agent.map_or(SlotState::Vacant, |agent| SlotState::Alive { agent: AgentId(agent) }),
                planned,
            }
        });
    let agents = vec(0u64..5, 0..4);
    let ranks = vec(option::of(0u32..4), 0..5);
    let worlds = vec((number(), ranks), 0..3).prop_map(|worlds| {
        let world = |(until, ranks): (u32, Vec<Option<u32>>)| FormerWorld {
            until: Lineage(until),
            ranks: ranks.into_iter().map(|rank| rank.map(Rank)).collect(),
        };
        worlds.into_iter().map(world).collect::<Vec<FormerWorld>>()
    });
    let former =
        (number(), worlds).prop_map(|(known_from, worlds)| FormerWorlds { known_from: Lineage(known_from), worlds });
    (number(), number(), vec(number(), 0..3), former, any::<bool>(), vec(slot, 2..4), agents).prop_map(
        |(epoch, number, branches, former, has_begun, slots, agents)| View {
            generation: Generation { epoch, number },
            lineage: Lineage(branches.len() as u32),
            branches: branches.into_iter().map(Version).collect(),
            former,
            has_begun,
            highest: has_begun.then_some(Version(1)),
            fingerprint: Some("terms".into()),
            hooked: None,
            slots,
            agents: agents
                .into_iter()
                .map(|agent| AgentAddress {
                    agent: AgentId(agent),
                    address: ([127, 0, 0, 1], 1).into(),
                    host: "h".into(),
                })
                .collect(),
        },
    )
}

fn an_error() -> impl Strategy<Value = Error> {
    (0usize..Code::ALL.len()).prop_map(|code| Error::new(Code::ALL[code], "something"))
}

/// What is said, and the generation it names, if that isn't the newest one.
type Said = (AgentMessage, Option<Generation>);

fn a_message() -> impl Strategy<Value = Said> {
    let who = || (number(), incarnation()).prop_map(|(rank, incarnation)| MemberId { rank: Rank(rank), incarnation });
    let report =
        prop_oneof![
            (position(), number()).prop_map(|(Position { lineage, version }, round)| {
                Report::VersionEntered { lineage, version, round }
            }),
            option::of(an_error()).prop_map(|failure| Report::Left { failure }),
            (who(), prop_oneof![Just(Lane::Channels), Just(Lane::Collectives)])
                .prop_map(|(peer, lane)| Report::LinkDown { peer, lane, reason: "broke".into() }),
            number().prop_map(|peer| {
                let (peer, generation) = (Rank(peer), Generation::default());
                Report::Interrupted { peer, generation, reason: "lost".into() }
            }),
            number().prop_map(|peer| {
                let (peer, generation) = (Rank(peer), Generation::default());
                Report::CannotShare { peer, generation, reason: "closed".into() }
            }),
            an_error().prop_map(Report::Broken),
            (number(), 76u128..78).prop_map(|(rounds, digest)| Report::Finished { rounds, digest }),
        ];
    let event = prop_oneof![
        Just(Event::JobEnded { digest: 77, deaths: 0 }),
        (number(), who()).prop_map(|(id, MemberId { rank, incarnation })| Event::FaultFired { id, rank, incarnation }),
    ];
    let registration = (
        0u64..5,
        vec(rank_status(), 0..3),
        vec(a_checkpoint(), 0..4),
        prop_oneof![6 => Just(0u32), 1 => number()],
        option::weighted(0.3, a_view()),
        option::weighted(0.1, prop_oneof![Just(Ok(77u128)), an_error().prop_map(Err)]),
        vec(a_standing(), 0..3),
    )
        .prop_map(|(agent, ranks, held, epoch, view, ended, standing)| Registration {
            standing,
            epoch,
            view: view.map(Box::new),
            ended: ended.map(Box::new),
            ..Desk::registration(agent, ranks, held)
        });
    let progress = (who(), position(), number()).prop_map(|(member, at, round)| RankProgress { member, at, round });
    let message = prop_oneof![
        2 => registration.prop_map(AgentMessage::Register),
        1 => (any::<u64>(), vec(progress, 0..4))
            .prop_map(|(sequence, ranks)| AgentMessage::Heartbeat { sequence, ranks }),
        3 => (number(), number(), number(), prop_oneof![9 => Just("terms"), 1 => Just("others")]).prop_map(
            |(rank, stage, task, fingerprint)| {
                let attempt = Attempt { stage: stage / 3, task };
                AgentMessage::Join { rank: Rank(rank), attempt, fingerprint: fingerprint.into(), hook: Hook::Unasked }
            }
        ),
        6 => (
            vec(rank_status(), 0..3),
            vec(a_checkpoint(), 0..5),
            prop_oneof![20 => Just(Vec::new()), 1 => vec(a_checkpoint(), 1..3)],
        )
            .prop_map(|(ranks, held, handed_over)| {
                let generation = Generation::default();
                AgentMessage::StatusReport(StatusReport { generation, ranks, held, handed_over })
            }),
        1 => (who(), position(), 0usize..9)
            .prop_map(|(member, at, length)| AgentMessage::Local { member, at, bytes: vec![0; length] }),
        1 => (who(), prop_oneof![Just(0u64), any::<u64>()], any::<u64>(), 0usize..9).prop_map(
            |(member, offset, total, length)| {
                AgentMessage::ResultPart { member, offset, total, bytes: vec![0; length] }
            }
        ),
        7 => (who(), report).prop_map(|(member, report)| AgentMessage::Report { member, report }),
        2 => event.prop_map(AgentMessage::Event),
        3 => (0u32..6, number())
            .prop_map(|(task, its)| AgentMessage::StandBy { task: Task(task), attempt: attempt(its) }),
        1 => (0u32..6, 0u32..3)
            .prop_map(|(task, its)| AgentMessage::StandDown { task: Task(task), attempt: attempt(its) }),
    ];
    (message, generation())
}

fn a_standing() -> impl Strategy<Value = Standing> {
    let given = (0u32..4, number()).prop_map(|(rank, its)| RankGiven { rank: Rank(rank), attempt: attempt(its) });
    (0u32..6, number(), option::of(given)).prop_map(|(task, its, given)| Standing {
        task: Task(task),
        attempt: attempt(its),
        given,
    })
}

#[derive(Clone, Debug)]
enum DoorStep {
    Says(u64, Box<Said>),
    Closes(u64),
    Probed(u64, bool),
    Hears(u64),
    TaskGone(u32, u32),
    TaskEnded(u32),
    TaskLeaves(u32, u32),
    ExecutorGone(u64),
    CheckpointWanted(u32, bool),
    Passes(u64),
}

fn a_step() -> impl Strategy<Value = DoorStep> {
    prop_oneof![
        20 => (1u64..5, a_message()).prop_map(|(link, said)| DoorStep::Says(link, Box::new(said))),
        1 => (1u64..5).prop_map(DoorStep::Closes),
        1 => (1u64..5, any::<bool>()).prop_map(|(agent, gone)| DoorStep::Probed(agent, gone)),
        1 => (1u64..6).prop_map(DoorStep::Hears),
        1 => (0u32..4, 0u32..4).prop_map(|(rank, task)| DoorStep::TaskGone(rank, task)),
        1 => (0u32..4).prop_map(DoorStep::TaskEnded),
        1 => (0u32..6, 0u32..3).prop_map(|(task, its)| DoorStep::TaskLeaves(task, its)),
        1 => (1u64..5).prop_map(DoorStep::ExecutorGone),
        1 => (number(), any::<bool>()).prop_map(|(after, durable)| DoorStep::CheckpointWanted(after, durable)),
        2 => prop_oneof![Just(10u64), Just(200), Just(2000)].prop_map(DoorStep::Passes),
    ]
}

/// An elastic job of three ranks that train, of two at least and four at most.
fn elastic_desk() -> Desk {
    training_as(growing(3, 2, 4))
}

/// A job of three ranks in one of its states.
fn a_desk(state: usize) -> Desk {
    match state {
        0 => Desk::new(3),
        1 => {
            let mut desk = Desk::new(3);
            desk.register(1);
            desk.joins(1, 0, attempt(0));
            desk
        }
        2 => Desk::trained_to(3, 3),
        3 => {
            let mut desk = Desk::trained_to(3, 3);
            desk.leaves(3, 2, 0, None);
            desk.joins(3, 2, attempt(1));
            desk
        }
        4 => {
            let mut desk = Desk::trained_to(3, 3);
            desk.finishes(1, 0, 0, 3, 77);
            desk
        }
        5 => second_life(3),
        6 => {
            let mut desk = second_life(3);
            let view = former(4, &[Some(0), Some(0), None], &[]);
            comes_back(&mut desk, 1, &view, vec![stands(0, 0, at(3))]);
            desk
        }
        7 => {
            let deaths = DeathLimit::new(u32::MAX, "deaths");
            let mut desk = Desk::with(TrackerConfig { deaths, spares: 2, ..config(3) });
            for (link, task) in [(1, 0), (2, 1), (3, 2), (4, 3)] {
                desk.register(link);
                desk.says(link, AgentMessage::StandBy { task: Task(task), attempt: attempt(0) });
                desk.joins(link, task, attempt(0));
            }
            desk
        }
        8 => elastic_desk(),
        9 => {
            let mut desk = elastic_desk();
            desk.input(leaves(2));
            desk
        }
        10 => {
            let mut desk = elastic_desk();
            dies(&mut desk, 1, &[(0, 0), (2, 0)]);
            desk.pass_alive(TIMEOUT + 200, &[1, 3]);
            desk
        }
        11 => {
            let mut desk = elastic_desk();
            dies(&mut desk, 1, &[(0, 0), (2, 0)]);
            desk.pass_alive(TIMEOUT + 200, &[1, 3]);
            goes_on(&mut desk, &[0, 2], &[checkpoint(3)]);
            desk
        }
        12 => {
            let mut desk = elastic_desk();
            desk.register(4);
            asks(&mut desk, 3, 0);
            desk
        }
        13 => Desk::with(TrackerConfig { epoch: 2, ..growing(3, 2, 4) }),
        _ => {
            Desk::with(TrackerConfig { deaths: DeathLimit::new(u32::MAX, "deaths"), wants_result: false, ..config(1) })
        }
    }
}

const STATES: usize = 15;

/// The newest generation that was sent.
fn newest(known: Generation, outputs: &[TrackerOutput]) -> Generation {
    let reported = outputs.iter().filter_map(|output| match output {
        TrackerOutput::Send { message: TrackerMessage::View(view), .. } => Some(view.generation),
        _ => None,
    });
    reported.max().map_or(known, |reported| reported.max(known))
}

fn with_generation(message: &mut AgentMessage, newest: Generation) {
    match message {
        AgentMessage::StatusReport(StatusReport { generation, .. })
        | AgentMessage::Report {
            report: Report::Interrupted { generation, .. } | Report::CannotShare { generation, .. },
            ..
        } => *generation = newest,
        _ => {}
    }
}

/// The error says whose word it was. Two whose checkpoints contradict each
/// other may be found by a third one's status, and what is missing by any one's.
fn names(error: &Error, agent: u64) -> bool {
    match error.code {
        Code::Unrecoverable | Code::MembersMissing => true,
        Code::Mismatch if error.message.contains("not deterministic") => error.message.contains("executor exec-"),
        _ => error.message.contains(&format!("exec-{agent}")),
    }
}

fn keeps_its_head(state: usize, steps: Vec<DoorStep>) -> Result<(), TestCaseError> {
    let mut desk = a_desk(state);
    let mut generation = match state {
        2..=4 | 8..=12 => desk.generation(),
        _ => Generation::default(),
    };
    let mut agents: BTreeMap<u64, u64> = (1..5).map(|link| (link, link)).collect();
    for step in steps {
        let outputs = match step.clone() {
            DoorStep::Says(link, said) => {
                let (mut message, other) = *said;
                with_generation(&mut message, other.unwrap_or(generation));
                let was_over = desk.tracker.is_over();
                let outputs = desk.says(link, message.clone()).to_vec();
                if let AgentMessage::Register(registration) = &message {
                    if !is_turned_away(&outputs, link) {
                        agents.insert(link, registration.agent.0);
                    }
                }
                if let Some(error) = failure(&outputs) {
                    prop_assert!(!was_over, "it ends twice: {error}");
                    prop_assert!(names(error, agents[&link]), "{message:?} ended the job: {error}");
                }
                outputs
            }
            DoorStep::Closes(link) => desk.input(TrackerInput::Closed { link, reason: "closed".into() }).to_vec(),
            DoorStep::Probed(agent, gone) => desk.input(TrackerInput::Probed { agent: AgentId(agent), gone }).to_vec(),
            DoorStep::Hears(link) => desk.input(TrackerInput::BytesCame { link }).to_vec(),
            DoorStep::TaskGone(rank, task) => {
                let (task, attempt) = (Task(rank), attempt(task));
                desk.input(TrackerInput::TaskGone { task, attempt, reason: "gone".into(), counts: true }).to_vec()
            }
            DoorStep::TaskEnded(task) => {
                desk.input(TrackerInput::TaskEnded { task: Task(task), attempt: attempt(0) }).to_vec()
            }
            DoorStep::TaskLeaves(task, its) => {
                desk.input(TrackerInput::TaskLeaves { task: Task(task), attempt: attempt(its) }).to_vec()
            }
            DoorStep::ExecutorGone(agent) => {
                let executor = format!("exec-{agent}");
                desk.input(TrackerInput::ExecutorGone { executor, reason: "it exited".into() }).to_vec()
            }
            DoorStep::CheckpointWanted(after, durable) => {
                let wish = CheckpointWish { after: Version(after), durable };
                desk.input(TrackerInput::CheckpointWanted(wish)).to_vec()
            }
            DoorStep::Passes(millis) => desk.pass(millis),
        };
        generation = newest(generation, &outputs);
        // All are sent something new a few times over, never as often as some number says.
        let reported = if matches!(step, DoorStep::Passes(_)) { 400 } else { 80 };
        prop_assert!(outputs.len() <= reported, "{step:?} made {} things happen: {outputs:#?}", outputs.len());
    }
    Ok(())
}

#[test]
fn whatever_an_agent_says_in_whatever_state_the_tracker_keeps_its_head() {
    ends(|| {
        let times = std::env::var("REJOIN_TIMES").map_or(1, |times| times.parse().expect("REJOIN_TIMES is a number"));
        let mut runner =
            TestRunner::new(Config { cases: 1000 * times, failure_persistence: None, ..Config::default() });
        let strategy = (0..STATES, vec(a_step(), 1..40));
        if let Err(failed) = runner.run(&strategy, |(state, steps)| keeps_its_head(state, steps)) {
            panic!("{failed}");
        }
    });
}
