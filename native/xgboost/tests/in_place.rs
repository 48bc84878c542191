//! Calls that are served in place.

mod common;

use common::worker::{all_done, join, spawn, Death, End, Shape, Worker};
use common::{config, probe, World};
use rejoin_agent::DataPlane;
use rejoin_protocol::channel::PhaseMark;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Incarnation, Phase, Rank, Version};
use rejoin_xgboost::{BridgeConfig, InPlace, WireVariant};
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};

fn served(world: &World, rank: u32) -> bool {
    world.agent(rank).bridge.is_in_place(Rank(rank), world.incarnation(rank))
}

#[test]
fn a_worker_is_served_in_place_from_its_first_version_on_unless_the_settings_forbid_it() {
    for (in_place, expected) in [(InPlace::IfPossible, true), (InPlace::Never, false)] {
        let world = World::with(&[0, 1, 1], BridgeConfig { in_place, ..config() });
        assert!(!served(&world, 0));
        let shape = Shape::new(WireVariant::From33);
        all_done((0..3).map(|rank| spawn(&world, rank, 0, &shape, None)).collect());
        assert_eq!([0, 1, 2].map(|rank| served(&world, rank)), [expected; 3]);
    }
}

#[test]
fn some_ranks_of_a_job_may_be_served_in_place_and_others_through_sockets() {
    for variant in [WireVariant::From33, WireVariant::Until32] {
        let mut world = World::with(&[0, 1, 2], BridgeConfig { in_place: InPlace::Never, ..config() });
        world.kill(1, config());
        world.seat(1, 1, 1);
        world.start(1, 0);
        let shape = Shape { most: 600_000, ..Shape::new(variant) };
        all_done((0..3).map(|rank| spawn(&world, rank, 0, &shape, None)).collect());
        assert_eq!([0, 1, 2].map(|rank| served(&world, rank)), [false, true, false]);
    }
}

#[test]
fn a_restarted_rank_is_served_in_place_again() {
    let mut world = World::new(&[0, 1]);
    let shape = Shape::new(WireVariant::From33);
    let death = Death { phase: Phase::Version(Version(2)), step: 5 };
    let survivor = spawn(&world, 0, 0, &shape, None);
    assert!(matches!(join(spawn(&world, 1, 0, &shape, Some(death))), End::Died));
    world.hold_all(2);
    world.kill(1, config());
    world.seat(1, 1, 1);
    world.start(1, 2);
    all_done(vec![survivor, spawn(&world, 1, 2, &shape, None)]);
    assert!(served(&world, 0) && served(&world, 1));
}

#[test]
fn calls_on_sockets_of_others_go_to_the_system_as_before() {
    let world = World::new(&[0, 0]);
    let shape = Shape { versions: 30, ..Shape::new(WireVariant::From33) };
    let handles = (0..2).map(|rank| spawn(&world, rank, 0, &shape, None)).collect();
    // Made and closed all the while, so that numbers of descriptors are given again and again.
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
    for round in 0..300u32 {
        let near = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("somebody listens");
        let far = listener.accept().expect("somebody connects").0;
        let (sent, mut got) = (round.to_le_bytes(), [0; 4]);
        probe::send_all(&near, &sent).expect("there is room");
        probe::receive_all(&far, &mut got).expect("it was sent");
        assert_eq!(got, sent);
        probe::close(near);
        let end = probe::receive_all(&far, &mut got).expect_err("the other end is closed");
        assert_eq!(end.kind(), std::io::ErrorKind::UnexpectedEof);
        probe::close(far);
    }
    all_done(handles);
}

#[test]
fn a_call_on_a_freed_channel_that_was_ready_ends_with_a_reset_and_never_with_nothing() {
    let world = World::new(&[0, 0]);
    let bridge = &world.agents[0].bridge;
    let workers: Vec<_> = (0..2)
        .map(|rank| {
            let bridge = bridge.clone();
            std::thread::spawn(move || {
                let arguments = bridge.communicator(Rank(rank), Incarnation(0), WireVariant::From33).expect("a way in");
                let mut worker = Worker::init(arguments, WireVariant::From33).expect("init");
                worker.exchange(Phase::Boot, 0, &Shape::new(WireVariant::From33)).expect("boot goes through sockets");
                let (phase, mark) = (Phase::Version(Version(0)), PhaseMark { round: 0, checkpoint: 0 });
                bridge.enter(Rank(rank), Incarnation(0), phase, mark).expect("the boundary is at rest");
                worker
            })
        })
        .collect();
    let workers: Vec<Worker> = workers.into_iter().map(|worker| worker.join().expect("it is connected")).collect();
    let (near, far) = (&workers[0].channels[&1], &workers[1].channels[&0]);
    far.set_nonblocking(true).expect("a live socket");
    let mut room = [0; 4];
    assert_eq!(probe::receive_once(far, &mut room).unwrap_err().kind(), ErrorKind::WouldBlock);
    probe::send_all(near, b"8 bytes!").expect("it is taken");
    assert_eq!(probe::receive_once(far, &mut room).expect("it is there at once"), 4);
    let lost = Error::new(Code::Fenced, "declared lost");
    bridge.free(Rank(1), Incarnation(0), lost);
    // Commands are obeyed in their order: once this one is refused, the rank is freed.
    let (phase, mark) = (Phase::Version(Version(1)), PhaseMark { round: 1, checkpoint: 1 });
    assert_eq!(bridge.enter(Rank(1), Incarnation(0), phase, mark).unwrap_err().code, Code::Fenced);
    assert_eq!(probe::receive_once(far, &mut room).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(probe::send_once(far, b"more").unwrap_err().kind(), ErrorKind::ConnectionReset);
}
