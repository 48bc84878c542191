//! What the bridge refuses, notices and gives up: never a wrong byte, never a silent hang.

mod common;

use common::worker::{all_done, argument, join, spawn, tracker, train, Death, End, Shape, Spoil, Worker};
use common::{config, member, until, within, Told, World};
use rejoin_agent::DataPlane;
use rejoin_protocol::channel::PhaseMark;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::event::Event;
use rejoin_protocol::fault::{Action, FaultRule, Moment};
use rejoin_protocol::ids::{Incarnation, MemberId, Phase, Rank, Version};
use rejoin_xgboost::{BridgeConfig, WireVariant};
use std::io::{Read, Write};
use std::net::TcpStream;

const VARIANT: WireVariant = WireVariant::From33;

fn version(number: u32) -> Phase {
    Phase::Version(Version(number))
}

/// Rank 1 dies in version 3 and comes back differently.
fn changed(homes: &[usize], spoil: Spoil) -> Error {
    let mut world = World::new(homes);
    let shape = Shape { versions: 5, ..Shape::new(VARIANT) };
    let other = spawn(&world, 0, 0, &shape, None);
    let death = Death { phase: version(3), step: 7 };
    assert!(matches!(join(spawn(&world, 1, 0, &shape, Some(death))), End::Died));
    world.hold_all(3);
    world.lose(1);
    world.seat(1, homes[1], 1);
    world.start(1, 3);
    let different = Shape { spoil: Some(spoil), ..shape };
    let end = join(spawn(&world, 1, 3, &different, None));
    assert!(matches!(end, End::Failed(_) | End::Refused(_)), "{end:?}");
    let error = world.agent(1).notes.broken();
    // The agents would be notified by the tracker.
    let incarnation = world.incarnation(0);
    world.agent(0).bridge.free(MemberId { rank: Rank(0), incarnation }, error.clone());
    assert!(matches!(join(other), End::Failed(_) | End::Refused(_)));
    error
}

#[test]
fn one_changed_byte_of_a_restarted_worker_is_found_wherever_it_is() {
    // Rank 1 dies when it has done step 6, so rank 0 has done step 5: all that rank 1 said before
    // is there to be compared. What was still on its way no peer has seen, and none can know when
    // it changes.
    for homes in [[0, 0], [0, 1]] {
        for (phase, step, name) in
            [(Phase::Boot, 1, "boot"), (version(3), 0, "version 3"), (version(3), 5, "version 3")]
        {
            for byte in [0, usize::MAX - 3] {
                let error = changed(&homes, Spoil { rank: 1, phase, step, byte });
                assert_eq!(error.code, Code::Mismatch, "{error}");
                for part in ["rank 1 did not repeat itself towards rank 0", name, "usual causes", "bytes"] {
                    assert!(error.message.contains(part), "{part} in {error}");
                }
            }
        }
    }
}

#[test]
fn a_boundary_with_another_checkpoint_is_a_mismatch() {
    for homes in [[0, 0], [0, 1]] {
        let world = World::new(&homes);
        let shape = Shape::new(VARIANT);
        let other = spawn(&world, 0, 0, &shape, None);
        let (bridge, incarnation) = (&world.agent(1).bridge, world.incarnation(1));
        let arguments = bridge.communicator(MemberId { rank: Rank(1), incarnation }, VARIANT).unwrap();
        let mut worker = Worker::init(arguments, VARIANT).unwrap();
        (0..shape.boot_steps).for_each(|step| worker.exchange(Phase::Boot, step, &shape).unwrap());
        let mark = PhaseMark { round: 0, checkpoint: 99 };
        let entered = bridge.enter(MemberId { rank: Rank(1), incarnation }, version(0), mark);
        let error = if homes == [0, 1] { world.agent(0).notes.broken() } else { world.agents[0].notes.broken() };
        assert_eq!(error.code, Code::Mismatch);
        assert!(error.message.contains("version 0 begins with round 0 and checkpoint"), "{error}");
        assert!(entered.is_ok() || entered == Err(error.clone()));
        for rank in [0, 1] {
            world
                .agent(rank)
                .bridge
                .free(MemberId { rank: Rank(rank), incarnation: world.incarnation(rank) }, error.clone());
        }
        assert!(!matches!(join(other), End::Done));
    }
}

#[test]
fn bytes_that_the_worker_was_given_and_has_not_read_are_a_mismatch() {
    let world = World::new(&[0, 0]);
    let shape = Shape::new(VARIANT);
    let workers = [0, 1].map(|rank| {
        let arguments = world.agent(rank).bridge.communicator(member(rank, 0), VARIANT).unwrap();
        std::thread::spawn(move || Worker::init(arguments, VARIANT).unwrap())
    });
    let [mut first, second] =
        within("the workers' init", move || workers.map(|handle| handle.join().expect("both are connected")));
    first.channels.get_mut(&1).unwrap().write_all(b"too much").unwrap();
    // It is at the other worker's socket once it can be seen there.
    until("the bytes' arrival", || (second.channels[&0].peek(&mut [0; 8]).unwrap() == 8).then_some(()));
    let error = world.agent(1).bridge.enter(member(1, 0), version(0), shape.mark(version(0))).unwrap_err();
    assert_eq!(error.code, Code::Mismatch);
    assert!(error.message.contains("rank 0 sent rank 1 at least 8 bytes more in boot"), "{error}");
    assert_eq!(world.agents[0].notes.broken(), error);
}

#[test]
fn phases_out_of_order_and_unknown_members_are_refused() {
    let world = World::new(&[0]);
    let bridge = &world.agents[0].bridge;
    let mark = PhaseMark { round: 0, checkpoint: 0 };
    let unknown = bridge.communicator(member(0, 5), VARIANT).unwrap_err();
    assert_eq!(unknown.code, Code::BadState, "{unknown}");
    assert_eq!(bridge.enter(member(3, 0), version(0), mark).unwrap_err().code, Code::BadState);
    bridge.communicator(member(0, 0), VARIANT).unwrap();
    assert_eq!(bridge.communicator(member(0, 0), VARIANT).unwrap_err().code, Code::BadState);
    let two = World::new(&[0, 1]);
    two.agents[0].bridge.communicator(member(0, 0), VARIANT).unwrap();
    let unconnected = two.agents[0].bridge.enter(member(0, 0), version(0), mark).unwrap_err();
    assert!(unconnected.message.contains("no connections"), "{unconnected}");
}

fn lost() -> Error {
    Error::new(Code::RolledBack, "all go back")
}

#[test]
fn a_worker_that_waits_for_a_missing_peer_is_freed() {
    for variant in [WireVariant::From33, WireVariant::Until32] {
        let world = World::new(&[0, 1]);
        let shape = Shape::new(variant);
        let handle = spawn(&world, 0, 0, &shape, None);
        // Rank 1 never comes; the worker sits in its first exchange.
        let bridge = &world.agents[0].bridge;
        until("the worker's first bytes", || (bridge.usage().log_bytes > 0).then_some(()));
        bridge.free(member(0, 0), lost());
        let end = join(handle);
        assert!(matches!(end, End::Failed(_)), "{end:?}");
        assert_eq!(bridge.failure(member(0, 0)), Some(lost()));
        assert_eq!(bridge.communicator(member(0, 0), variant), Err(lost()));
    }
}

/// Begins `init` and stops before the ring is through; gives the sockets that it holds.
fn half_init(
    arguments: &[(String, String)],
    before_ring: impl FnOnce(u16),
) -> (TcpStream, TcpStream, std::net::TcpListener) {
    let mut to_tracker = tracker(arguments, &argument(arguments, "dmlc_task_id")).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let start = format!(r#"{{"cmd":1,"port":{},"error_port":1}}"#, listener.local_addr().unwrap().port());
    to_tracker.write_all(&(start.len() as i32).to_le_bytes()).unwrap();
    to_tracker.write_all(start.as_bytes()).unwrap();
    let mut answers = [0; 4];
    to_tracker.read_exact(&mut answers).unwrap();
    let mut world = vec![0; i32::from_le_bytes(answers) as usize];
    to_tracker.read_exact(&mut world).unwrap();
    to_tracker.read_exact(&mut answers).unwrap();
    let mut next = vec![0; i32::from_le_bytes(answers) as usize];
    to_tracker.read_exact(&mut next).unwrap();
    let next = String::from_utf8(next).unwrap();
    let port: String = next.split_once("\"port\":").unwrap().1.chars().take_while(char::is_ascii_digit).collect();
    let port = port.parse().unwrap();
    before_ring(port);
    let ring = TcpStream::connect(("127.0.0.1", port)).unwrap();
    (to_tracker, ring, listener)
}

fn accepted(what: &str, listener: &std::net::TcpListener) -> TcpStream {
    let listener = listener.try_clone().unwrap();
    within(what, move || listener.accept().unwrap().0)
}

/// Whether the other end has closed it, without another byte.
fn has_ended(stream: &mut TcpStream) -> bool {
    stream.read(&mut [0; 4]).map_or(true, |count| count == 0)
}

#[test]
fn a_worker_that_sits_in_accept_during_init_is_freed() {
    let world = World::new(&[0, 1]);
    let bridge = &world.agents[0].bridge;
    let arguments = bridge.communicator(member(0, 0), VARIANT).unwrap();
    let (to_tracker, ring, listener) = within("half of an init", move || half_init(&arguments, |_| ()));
    let previous = accepted("the connection from the previous rank", &listener);
    bridge.free(member(0, 0), lost());
    // It sits in another accept; the agent knocks there, and all its connections end.
    let knock = accepted("the agent's knock", &listener);
    for (what, mut stream) in [("the knock", knock), ("the tracker's connection", to_tracker), ("the ring", ring)] {
        assert!(within(&format!("the end of {what}"), move || has_ended(&mut stream)), "{what} goes on");
    }
    drop(previous);
}

#[test]
fn a_worker_whose_rank_was_freed_before_it_asked_is_turned_away() {
    let world = World::new(&[0, 1]);
    let bridge = &world.agents[0].bridge;
    let arguments = bridge.communicator(member(0, 0), VARIANT).unwrap();
    bridge.free(member(0, 0), lost());
    // Commands are obeyed in their order: once this one is refused, the rank is freed.
    let phase = Phase::Version(Version(0));
    let refused = bridge.enter(member(0, 0), phase, PhaseMark { round: 0, checkpoint: 0 });
    assert_eq!(refused.unwrap_err().code, lost().code);
    assert!(within("the worker's refusal", || Worker::init(arguments, VARIANT).is_err()));
}

#[test]
fn a_call_that_waits_at_a_boundary_ends_when_its_rank_is_freed() {
    let world = World::new(&[0, 0]);
    let bridge = world.agents[0].bridge.clone();
    // A rank that is about to be killed comes to no rest, so its call waits for sure.
    let moment = Moment::Bytes { phase: Phase::Boot, bytes: 0 };
    let rule = FaultRule { id: 1, rank: Rank(1), incarnation: None, moment, action: Action::Kill };
    bridge.faults(&[rule]);
    bridge.communicator(member(1, 0), VARIANT).unwrap();
    let waiting = bridge.clone();
    let mark = PhaseMark { round: 0, checkpoint: 0 };
    let enter = move || waiting.enter(member(1, 0), version(0), mark);
    let mut calls = vec![std::thread::spawn(enter.clone()), std::thread::spawn(enter)];
    // One of them waits, and the other one is notified.
    let refused = until("the other call's end", || calls.iter().position(|call| call.is_finished()));
    assert_eq!(calls.remove(refused).join().unwrap().unwrap_err().code, Code::BadState);
    bridge.free(member(1, 0), lost());
    let waited = calls.remove(0);
    until("the call's end", || waited.is_finished().then_some(()));
    assert_eq!(waited.join().unwrap(), Err(lost()));
}

#[test]
fn closing_the_bridge_frees_workers_and_ends_calls() {
    let world = World::new(&[0, 1]);
    let shape = Shape::new(VARIANT);
    let handle = spawn(&world, 0, 0, &shape, None);
    let bridge = &world.agents[0].bridge;
    until("the worker's first bytes", || (bridge.usage().log_bytes > 0).then_some(()));
    bridge.close();
    assert!(matches!(join(handle), End::Failed(_)));
    let mark = PhaseMark { round: 0, checkpoint: 0 };
    assert_eq!(bridge.enter(member(0, 0), version(0), mark).unwrap_err().code, Code::BadState);
    until("the logs' end", || (bridge.usage().log_bytes == 0).then_some(()));
}

#[test]
fn logs_that_outgrow_the_memory_go_to_disk_and_are_replayed_from_there() {
    let directory = tempfile::tempdir().unwrap();
    let small = BridgeConfig { log_memory_bytes: 100_000, spill_dir: directory.path().to_owned(), ..config() };
    for homes in [[0, 0], [0, 1]] {
        let mut world = World::with(&homes, small.clone());
        let shape = Shape { versions: 4, steps: 30, boot_steps: 30, ..Shape::new(VARIANT) };
        let survivor = spawn(&world, 0, 0, &shape, None);
        let death = Death { phase: version(2), step: 25 };
        assert!(matches!(join(spawn(&world, 1, 0, &shape, Some(death))), End::Died));
        let usage = world.agents[0].bridge.usage();
        assert!(usage.spilled_bytes > 100_000, "{usage:?}");
        world.hold_all(2);
        world.lose(1);
        world.seat(1, homes[1], 1);
        world.start(1, 2);
        all_done(vec![survivor, spawn(&world, 1, 2, &shape, None)]);
        assert!(world.agents[0].bridge.usage().log_bytes < 100_000);
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "the files have no names");
}

#[test]
fn when_memory_and_disk_are_full_the_job_ends_with_words() {
    let full = BridgeConfig { log_memory_bytes: 60_000, log_disk_bytes: 50_000, ..config() };
    let world = World::with(&[0, 0], full);
    let shape = Shape { boot_steps: 200, ..Shape::new(VARIANT) };
    let handles = [0, 1].map(|rank| spawn(&world, rank, 0, &shape, None));
    let error = world.agents[0].notes.broken();
    assert_eq!(error.code, Code::OutOfSpace);
    assert!(error.message.contains("60000") && error.message.contains("50000"), "{error}");
    for rank in [0, 1] {
        world.agents[0].bridge.free(member(rank, 0), error.clone());
    }
    handles.into_iter().for_each(|handle| assert!(!matches!(join(handle), End::Done)));
}

#[test]
fn a_spill_directory_that_does_not_exist_is_named() {
    let missing = BridgeConfig { log_memory_bytes: 1000, spill_dir: "/does/not/exist".into(), ..config() };
    let world = World::with(&[0, 0], missing);
    let handles = [0, 1].map(|rank| spawn(&world, rank, 0, &Shape::new(VARIANT), None));
    let error = world.agents[0].notes.broken();
    assert!(error.code == Code::OutOfSpace && error.message.contains("/does/not/exist"), "{error}");
    for rank in [0, 1] {
        world.agents[0].bridge.free(member(rank, 0), error.clone());
    }
    handles.into_iter().for_each(|handle| assert!(!matches!(join(handle), End::Done)));
}

#[test]
fn a_wrong_task_id_is_refused() {
    let world = World::new(&[0, 1]);
    let arguments = world.agents[0].bridge.communicator(member(0, 0), VARIANT).unwrap();
    let is_refused = within("the stranger's refusal", move || {
        has_ended(&mut tracker(&arguments, "0123456789abcdef0123456789abcdef").unwrap())
    });
    assert!(is_refused, "it was answered");
    refusal(&world, "task id");
}

fn refusal(world: &World, part: &str) {
    world.agents[0].notes.wait("a refusal", |report| match report {
        Told::Event(Event::StrangerRefused { reason, .. }) if reason.contains(part) => Some(()),
        _ => None,
    });
}

#[test]
#[cfg(target_os = "linux")]
fn another_process_on_the_loopback_port_is_refused() {
    let world = World::new(&[0, 1]);
    let arguments = world.agents[0].bridge.communicator(member(0, 0), VARIANT).unwrap();
    let knock = |port: String| {
        // All that another process can read there is the end; the tracker would greet it.
        let script = "exec 3<>/dev/tcp/127.0.0.1/$0 && cat <&3";
        let mut bash = std::process::Command::new("bash");
        bash.args(["-c", script, &port]);
        let output = within("the end of another process's connection", move || bash.output().unwrap());
        assert!(output.stdout.is_empty(), "{output:?}");
    };
    knock(argument(&arguments, "dmlc_tracker_port"));
    refusal(&world, "doesn't come from this process");
    // And at the port of a virtual peer, which the worker itself uses afterwards.
    let half = move || half_init(&arguments, |port| knock(port.to_string()));
    let (_to_tracker, mut ring, _listener) = within("half of an init", half);
    ring.set_nonblocking(true).unwrap();
    assert_eq!(ring.read(&mut [0; 4]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "it is not turned away");
}

/// Another process that connects to a port in a loop, as fast as it can, until it is ended.
#[cfg(target_os = "linux")]
struct Knocking(std::process::Child);

#[cfg(target_os = "linux")]
impl Knocking {
    fn at(port: &str) -> Knocking {
        let script = "while :; do exec 3<>/dev/tcp/127.0.0.1/$0 && exec 3>&-; done";
        let quiet = std::process::Stdio::null;
        let child = std::process::Command::new("bash").args(["-c", script, port]).stderr(quiet()).spawn().unwrap();
        Knocking(child)
    }
}

#[cfg(target_os = "linux")]
impl Drop for Knocking {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn another_process_that_knocks_in_a_loop_is_told_of_once_and_the_training_goes_on() {
    let world = World::new(&[0, 0]);
    let bridge = &world.agents[0].bridge;
    let given = [0, 1].map(|rank| bridge.communicator(member(rank, 0), VARIANT).unwrap());
    let crowd = given.each_ref().map(|arguments| Knocking::at(&argument(arguments, "dmlc_tracker_port")));
    refusal(&world, "doesn't come from this process");
    // Connecting and the end, while they knock.
    within("two workers that connect beside a crowd, and end", move || {
        let workers = given.map(|arguments| std::thread::spawn(move || Worker::init(arguments, VARIANT).unwrap()));
        workers.into_iter().for_each(|worker| worker.join().unwrap().shutdown().unwrap());
    });
    drop(crowd);
    let refusals = world.agents[0].notes.all();
    let is_refusal = |report: &&Told| matches!(report, Told::Event(Event::StrangerRefused { .. }));
    assert_eq!(refusals.iter().filter(is_refusal).count(), 1);
}

#[test]
fn a_hold_keeps_logs_until_it_is_released() {
    let world = World::new(&[0, 0]);
    let bridge = &world.agents[0].bridge;
    assert_eq!(bridge.hold(member(0, 0)), Version(0));
    let shape = Shape { versions: 8, ..Shape::new(VARIANT) };
    let handles = [0, 1].map(|rank| {
        let (bridge, shape) = (bridge.clone(), shape.clone());
        std::thread::spawn(move || train(&bridge, rank, Incarnation::nth(0), 0, &shape, None, |_| {}))
    });
    handles.into_iter().for_each(|handle| assert!(matches!(join(handle), End::Done)));
    assert_eq!(bridge.hold(member(0, 0)), Version(0));
    assert_eq!(bridge.hold(member(1, 0)), Version(7));
    let before = bridge.usage().log_bytes;
    bridge.release(member(0, 0));
    until("the logs' end", || (bridge.usage().log_bytes < before / 2).then_some(()));
    until("the news", || (bridge.hold(member(0, 0)) == Version(7)).then_some(()));
}
