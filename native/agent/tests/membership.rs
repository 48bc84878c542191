//! Agents and a tracker on real sockets: meeting, dying, coming back, ending.

mod world;

use bytes::Bytes;
use rejoin_agent::durable::{self, LocalFolder};
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::ids::{Attempt, Checkpoint, Lineage, MemberId, Rank, Version};
use rejoin_agent::protocol::start::{JobStart, Origin};
use rejoin_agent::protocol::wire::WIRE_VERSION;
use rejoin_agent::transport::Secret;
use rejoin_agent::{checkpoint, Joined, Taken};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use world::{together, Process, World, LIMIT, LOCALHOST};

#[test]
fn ranks_of_three_processes_meet_start_at_the_beginning_and_are_linked_pairwise() {
    let world = World::new(3);
    let processes: Vec<_> = (0..3).map(|i| world.process(&i.to_string())).collect();
    for (_, lineage, version, bytes) in together(3, |rank| processes[rank as usize].join(rank, 0)) {
        assert_eq!((lineage.0, version, bytes), (0, Version(0), None));
    }
    for (rank, peer) in [(0, 1), (0, 2), (1, 2), (1, 0), (2, 0), (2, 1)] {
        processes[rank as usize].plane.linked(rank, 0, peer, 0);
    }
}

#[test]
fn a_process_that_vanishes_is_lost_and_its_rank_comes_back_elsewhere_with_the_survivors_checkpoint() {
    let world = World::new(3);
    let mut processes: Vec<_> = (0..3).map(|i| world.process(&i.to_string())).collect();
    let started = together(3, |rank| processes[rank as usize].join(rank, 0));
    let model = vec![7u8; 3_000_000];
    for rank in [0, 1, 2] {
        let (member, lineage, _, _) = &started[rank];
        processes[rank].enter(*member, *lineage, 0, b"");
        processes[rank].enter(*member, *lineage, 1, &model);
    }
    for rank in 0..3 {
        world.event(
            "all are at version 1",
            |event| matches!(event, Event::VersionEntered { rank: r, version: Version(1), .. } if r.0 == rank),
        );
    }
    drop(processes.pop());
    world.event("rank 2 is lost", |event| matches!(event, Event::RankLost { rank: Rank(2), .. }));

    let replacement = world.process("3");
    let (member, _, version, bytes) = replacement.join(2, 1);
    assert_eq!(member.incarnation.number, 1);
    assert_eq!(version, Version(1));
    assert_eq!(bytes.as_deref(), Some(&model[..]));
    processes[0].plane.linked(0, 0, 2, 1);
    processes[1].plane.linked(1, 0, 2, 1);
    replacement.plane.linked(2, 1, 0, 0);
    world.event("the restore is reported", |event| {
        matches!(event, Event::Restored { rank: Rank(2), bytes: 3_000_000, .. })
    });
}

#[test]
fn a_job_begins_from_a_model_that_was_handed_to_some_of_its_processes_and_its_ranks_survive_as_ever() {
    let handed = checkpoint(Lineage(0), Version(4), 4, b"an earlier model", false);
    let start = JobStart::HandedOver(Origin { checkpoint: handed, lineage: Lineage(1), world: 0 });
    let world = World::with(2, |rules| rules.start = start);
    let mut processes: Vec<_> = (0..2).map(|i| world.process(&i.to_string())).collect();
    processes[0].agent.hand_over(handed, Bytes::from_static(b"an earlier model")).unwrap();
    for (_, lineage, version, bytes) in together(2, |rank| processes[rank as usize].join(rank, 0)) {
        assert_eq!((lineage, version, bytes.as_deref()), (Lineage(2), Version(4), Some(&b"an earlier model"[..])));
    }
    drop(processes.remove(0));
    let (member, _, version, bytes) = world.process("2").join(0, 1);
    assert_eq!((member.incarnation.number, version, bytes.as_deref()), (1, Version(4), Some(&b"an earlier model"[..])));
}

#[test]
fn a_task_that_fails_in_a_living_process_comes_back_from_that_process_own_memory() {
    let world = World::new(2);
    let process = world.process("0");
    let started = together(2, |rank| process.join(rank, 0));
    for (member, lineage, _, _) in &started {
        process.enter(*member, *lineage, 0, b"");
        process.enter(*member, *lineage, 1, b"model one");
    }
    process.agent.leave(started[1].0, Some(Error::new(Code::Io, "thrown by the test")));
    let (member, _, version, bytes) = process.join(1, 1);
    assert_eq!((member.incarnation.number, version), (1, Version(1)));
    assert_eq!(bytes.as_deref(), Some(&b"model one"[..]));
    let restored = world.event("the restore is reported", |event| matches!(event, Event::Restored { .. }));
    assert!(matches!(restored, Event::Restored { source, .. } if source.contains("this process")));
}

#[test]
fn what_a_rank_takes_can_be_fetched_before_another_rank_can_learn_that_it_has_entered_its_version() {
    let world = World::new(2);
    let processes: Vec<_> = (0..2).map(|i| world.process(&i.to_string())).collect();
    let started = together(2, |rank| processes[rank as usize].join(rank, 0));
    let (member, lineage, ..) = started[0];
    let common = Checkpoint { has_own: true, ..checkpoint(lineage, Version(1), 1, b"the model", false) };
    let own = Checkpoint { owner: Some(member.rank), ..checkpoint(lineage, Version(1), 1, b"its own", false) };
    let taken = || Taken {
        own: Some((own, Bytes::from_static(b"its own"), LIMIT)),
        ..Taken::new(common, 2, Bytes::from_static(b"the model"))
    };
    let is_refused = processes[0].agent.take(member, taken(), |_| {
        assert_eq!(processes[0].agent.held(&common).as_deref(), Some(&b"the model"[..]));
        assert_eq!(processes[1].agent.held(&own).as_deref(), Some(&b"its own"[..]), "it outlives the rank's process");
        Err(Error::new(Code::Io, "what carries its bytes is gone"))
    });
    assert_eq!(is_refused.unwrap_err().code, Code::Io);
    // The first of these to be reported is of the rank that has entered it.
    processes[1].enter(started[1].0, lineage, 0, b"");
    let reported = world.event("a version is entered", |event| matches!(event, Event::VersionEntered { .. }));
    assert!(matches!(reported, Event::VersionEntered { rank: Rank(1), .. }), "{reported:?}");
}

/// Takes a version that so many ranks are said to have, and waits until it is durable.
fn make_durable(world: &World, process: &Process, member: MemberId, lineage: Lineage, version: u32, ranks: u32) {
    let model = format!("the model of version {version}");
    let common = checkpoint(lineage, Version(version), version, model.as_bytes(), false);
    let taken = Taken::new(common, ranks, Bytes::from(model));
    process
        .agent
        .take(member, taken, |entered| {
            entered();
            Ok(())
        })
        .unwrap();
    let is_written = |event: &Event| matches!(event, Event::DurableWritten { version: of, .. } if of.0 == version);
    world.event("it is written", is_written);
}

#[test]
fn a_durable_version_says_how_many_ranks_took_it_though_the_job_has_another_world_when_it_is_written() {
    let (world, folder) = (World::new(1), tempfile::tempdir().unwrap());
    let process = world.durable_process("0", folder.path());
    let (member, lineage, ..) = process.join(0, 0);
    make_durable(&world, &process, member, lineage, 1, 2);
    let found = durable::file::list(&LocalFolder(folder.path().into()), world.job).unwrap();
    assert_eq!(found.iter().map(|found| found.world).collect::<Vec<_>>(), [2]);
}

/// As a spare is, and an executor that has had no rank yet: what it found at its own start is out of date.
#[test]
fn a_process_that_is_older_than_a_durable_checkpoint_goes_on_from_it_when_nobody_else_is_left() {
    let (world, folder) = (World::new(1), tempfile::tempdir().unwrap());
    let process = world.durable_process("0", folder.path());
    let other = world.durable_process("1", folder.path());
    let (member, lineage, ..) = process.join(0, 0);
    process.enter(member, lineage, 0, b"");
    (1..=3).for_each(|version| make_durable(&world, &process, member, lineage, version, 1));
    drop(process);
    world.event("rank 0 is lost", |event| matches!(event, Event::RankLost { .. }));
    let (.., start, _) = other.join(0, 1);
    assert_eq!(start, Version(3));
}

#[test]
fn everybody_returns_from_the_end_with_one_digest_and_the_driver_has_rank_0s_result() {
    let world = World::new(3);
    let processes: Vec<_> = (0..3).map(|i| world.process(&i.to_string())).collect();
    let digests = together(3, |rank| {
        let process = &processes[rank as usize];
        let (member, lineage, _, _) = process.join(rank, 0);
        process.enter(member, lineage, 0, b"");
        process.finish(member, b"the model", (rank == 0).then_some(b"model and metrics")).unwrap()
    });
    assert!(digests.iter().all(|digest| *digest == digests[0]));
    world.event("the end is reported", |event| matches!(event, Event::JobEnded { .. }));
    assert_eq!(world.tracker.result().unwrap().as_deref(), Some(&b"model and metrics"[..]));
}

#[test]
fn a_rank_that_comes_after_the_end_is_told_so_at_once_without_its_peers() {
    let world = World::new(1);
    let process = world.process("0");
    let (member, lineage, _, _) = process.join(0, 0);
    process.enter(member, lineage, 0, b"");
    process.finish(member, b"the model", Some(b"result")).unwrap();
    let late = world.process("1");
    assert!(matches!(late.try_join(0, 1), Ok(Joined::Over { .. })));
}

#[test]
fn different_models_at_the_end_are_a_mismatch_for_everybody_and_no_result() {
    let world = World::new(2);
    let processes: Vec<_> = (0..2).map(|i| world.process(&i.to_string())).collect();
    let ends = together(2, |rank| {
        let process = &processes[rank as usize];
        let (member, lineage, _, _) = process.join(rank, 0);
        process.enter(member, lineage, 0, b"");
        process.finish(member, format!("model of rank {rank}").as_bytes(), (rank == 0).then_some(b"result"))
    });
    for end in ends {
        assert_eq!(end.unwrap_err().code, Code::Mismatch);
    }
    world.event("the failure is reported", |event| matches!(event, Event::JobFailed { .. }));
    assert_eq!(world.tracker.result().unwrap_err().code, Code::Mismatch);
}

#[test]
fn a_link_that_breaks_between_living_ranks_is_made_anew() {
    let world = World::new(2);
    let processes: Vec<_> = (0..2).map(|i| world.process(&i.to_string())).collect();
    together(2, |rank| processes[rank as usize].join(rank, 0));
    processes[0].plane.linked(0, 0, 1, 0);
    processes[1].plane.linked(1, 0, 0, 0);
    processes[0].plane.break_link(0, 0, 1, 0);
    processes[1].plane.break_link(1, 0, 0, 0);
    processes[0].plane.linked(0, 0, 1, 0);
    processes[1].plane.linked(1, 0, 0, 0);
    world.event("the break is reported", |event| matches!(event, Event::LinkBroken { .. }));
}

#[test]
fn an_older_attempt_is_fenced_when_the_framework_has_started_a_newer_one() {
    let world = World::new(2);
    let processes: Vec<_> = (0..3).map(|i| world.process(&i.to_string())).collect();
    together(2, |rank| processes[rank as usize].join(rank, 0));
    let (member, _, _, _) = processes[2].join(1, 1);
    assert_eq!(member.incarnation.number, 1);
    assert_eq!(processes[1].plane.freed(1, 0).code, Code::Fenced);
    assert_eq!(processes[1].try_join(1, 0).unwrap_err().code, Code::Fenced);
}

#[test]
fn the_wrong_secret_is_turned_away_and_the_job_goes_on() {
    let world = World::new(1);
    let stranger = world.process_with("x", Secret::random().unwrap(), world.tracker.address(), 300);
    let refused = stranger.try_join(0, 0).unwrap_err();
    assert_eq!(refused.code, Code::TrackerUnreachable);
    world.event("the stranger is reported", |event| matches!(event, Event::StrangerRefused { .. }));
    world.process("0").join(0, 0);
}

#[test]
fn a_tracker_that_cannot_be_reached_ends_the_join_with_its_address_and_how_long_it_was_tried() {
    let nobody = TcpListener::bind((LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let world = World::new(1);
    let process = world.process_with("0", world.secret.clone(), nobody, 300);
    let error = process.try_join(0, 0).unwrap_err();
    assert_eq!(error.code, Code::TrackerUnreachable);
    assert!(error.message.contains(&nobody.to_string()), "{}", error.message);
}

#[test]
fn another_version_at_the_trackers_address_ends_the_join_at_once_and_both_are_named() {
    let listener = TcpListener::bind((LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let world = World::new(1);
    // An hour: it isn't waited for.
    let process = world.process_with("0", world.secret.clone(), listener.local_addr().unwrap(), 3_600_000);
    let error = std::thread::scope(|scope| {
        let join = scope.spawn(|| process.try_join(0, 0).unwrap_err());
        // The first try may have been made before any caller waited.
        while !join.is_finished() {
            if let Ok((mut newer, _)) = listener.accept() {
                // It is hung up on when it is understood.
                let _ = newer.write_all(&[b"RJN".as_slice(), &(WIRE_VERSION + 1).to_le_bytes(), &[0; 3]].concat());
                let _ = newer.read(&mut [0; 64]);
            }
            std::thread::yield_now();
        }
        join.join().unwrap()
    });
    assert_eq!(error.code, Code::Incompatible);
    let expected = format!("expected wire version {WIRE_VERSION}, saw {}", WIRE_VERSION + 1);
    assert!(error.message.contains(&expected), "{}", error.message);
}

#[test]
fn an_agent_that_is_closed_answers_those_who_wait_and_those_who_come_later() {
    let world = World::new(2);
    let process = world.process("0");
    let waiting = std::thread::scope(|scope| {
        let join = scope.spawn(|| process.try_join(0, 0));
        world.event("rank 0 has its slot", |event| matches!(event, Event::RankJoined { rank: Rank(0), .. }));
        process.agent.end();
        join.join().unwrap()
    });
    assert_eq!(waiting.unwrap_err().code, Code::BadState);
    assert_eq!(process.try_join(0, 1).unwrap_err().code, Code::BadState);
    process.plane.has_closed();
}

#[test]
fn a_rank_that_never_comes_ends_the_job_with_its_name() {
    let world = World::with(2, |rules| rules.timing.members_millis = 1_000);
    let process = world.process("0");
    let error = process.try_join(0, 0).unwrap_err();
    assert_eq!(error.code, Code::MembersMissing);
    assert!(error.message.contains('1'), "{}", error.message);
}

#[test]
fn closing_the_tracker_ends_the_job_for_everybody() {
    let world = World::new(2);
    let process = world.process("0");
    std::thread::scope(|scope| {
        let join = scope.spawn(|| process.try_join(0, 0));
        world.event("rank 0 has its slot", |event| matches!(event, Event::RankJoined { .. }));
        world.tracker.close();
        assert_eq!(join.join().unwrap().unwrap_err().code, Code::Cancelled);
    });
}

fn cancelled() -> Error {
    Error::new(Code::Cancelled, "cancelled by the test")
}

#[test]
fn a_join_that_is_cancelled_while_it_waits_for_others_returns_and_its_seat_is_free_for_the_next_attempt() {
    let world = World::new(2);
    let processes: Vec<_> = (0..2).map(|i| world.process(&i.to_string())).collect();
    let refused = std::thread::scope(|scope| {
        let join = scope.spawn(|| processes[0].try_join(0, 0));
        world.event("rank 0 has its slot", |event| matches!(event, Event::RankJoined { rank: Rank(0), .. }));
        processes[0].agent.cancel_join(Rank(0), Attempt { stage: 0, task: 0 }, cancelled());
        join.join().unwrap().unwrap_err()
    });
    assert_eq!(refused, cancelled());
    world.event("rank 0 has left", |event| matches!(event, Event::RankLost { rank: Rank(0), deaths: 0, .. }));
    let started = together(2, |rank| processes[rank as usize].join(rank, 1 - rank));
    assert_eq!(started[0].0.incarnation.number, 1);
}

#[test]
fn a_join_that_is_cancelled_before_it_has_a_seat_returns_too() {
    let nobody = TcpListener::bind((LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let world = World::new(1);
    let process = world.process_with("0", world.secret.clone(), nobody, 15_000);
    let refused = std::thread::scope(|scope| {
        let join = scope.spawn(|| process.try_join(0, 0));
        // The first word may come before the join waits: then it does nothing.
        while !join.is_finished() {
            process.agent.cancel_join(Rank(0), Attempt { stage: 0, task: 0 }, cancelled());
            std::thread::yield_now();
        }
        join.join().unwrap().unwrap_err()
    });
    assert_eq!(refused, cancelled());
}

#[test]
fn strangers_at_an_agents_port_are_told_of_once_and_the_job_goes_on() {
    let world = World::new(2);
    let processes: Vec<_> = (0..2).map(|i| world.process(&i.to_string())).collect();
    together(2, |rank| processes[rank as usize].join(rank, 0));
    let address = processes[0].agent.address();
    for _ in 0..20 {
        let mut stranger = TcpStream::connect(address).unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\nHost: somebody\r\n\r\n").unwrap();
        // It is hung up on: nothing, or a reset.
        let _ = stranger.read(&mut [0; 16]);
    }
    processes[0].plane.linked(0, 0, 1, 0);
    processes[0].plane.break_link(0, 0, 1, 0);
    processes[1].plane.break_link(1, 0, 0, 0);
    world.event("the break is reported", |event| matches!(event, Event::LinkBroken { .. }));
    let reported = world.seen.lock().iter().filter(|event| matches!(event, Event::StrangerRefused { .. })).count();
    assert_eq!(reported, 1);
}

#[test]
fn of_thousands_of_versions_few_are_reported_and_a_rank_comes_back_in_the_newest_one() {
    let world = World::new(2);
    let mut processes: Vec<_> = (0..2).map(|i| world.process(&i.to_string())).collect();
    let model = |version: u32| version.to_le_bytes();
    // So long that there are some heartbeats, and both know that no rank is missing.
    let newest = together(2, |rank| {
        let process = &processes[rank as usize];
        let (member, lineage, ..) = process.join(rank, 0);
        process.enter(member, lineage, 0, b"");
        let (began, mut version) = (Instant::now(), 0);
        while version < 5_000 || began.elapsed() < Duration::from_millis(500) {
            version += 1;
            process.enter(member, lineage, version, &model(version));
        }
        (member, lineage, version)
    });
    drop(processes.pop());
    world.event("rank 1 is lost", |event| matches!(event, Event::RankLost { rank: Rank(1), .. }));

    let (zero, lineage, last) = newest[0];
    let replacement = world.process("2");
    let (one, _, version, bytes) = replacement.join(1, 1);
    assert_eq!((version, bytes.as_deref()), (Version(last), Some(&model(last)[..])));
    replacement.enter(one, lineage, last, &model(last));
    let ends = [(&processes[0], zero, Some(Bytes::from_static(b"result"))), (&replacement, one, None)];
    together(2, |rank| {
        let (process, member, result) = &ends[rank as usize];
        process.enter(*member, lineage, last + 1, &model(last + 1));
        process.agent.finish(*member, last + 1, 7, result.clone(), LIMIT).unwrap();
    });

    world.event("the job has ended", |event| matches!(event, Event::JobEnded { .. }));
    let seen = world.seen.lock();
    let of_zero = seen.iter().filter_map(|event| match event {
        Event::VersionEntered { rank: Rank(0), version, .. } => Some(version.0),
        Event::RankFinished { rank: Rank(0), .. } => Some(u32::MAX),
        _ => None,
    });
    let of_zero: Vec<u32> = of_zero.collect();
    assert_eq!(of_zero[..100], (0..100).collect::<Vec<u32>>(), "the first ones are all reported");
    assert_eq!(of_zero[of_zero.len() - 3..], [last, last + 1, u32::MAX], "and those at a death and at the end");
    assert!(of_zero.is_sorted_by(|one, next| one < next), "{of_zero:?}");
    assert!(of_zero.len() < last as usize / 2, "{} of {last} versions were reported", of_zero.len());
}
