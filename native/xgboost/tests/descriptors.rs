//! A process that may open no more files. Alone in its process, whose limit it changes.

mod common;

use common::worker::argument;
use common::{member, until, within, World};
use rejoin_protocol::error::Code;
use rejoin_xgboost::WireVariant;
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use std::io::Read;
use std::net::SocketAddr;

#[test]
fn a_worker_that_no_descriptor_is_left_for_is_freed_and_its_rank_alone_fails() {
    let world = World::new(&[0, 1]);
    let bridge = &world.agents[0].bridge;
    let arguments = bridge.communicator(member(0, 0), WireVariant::From33).unwrap();
    let port: u16 = argument(&arguments, "dmlc_tracker_port").parse().unwrap();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let limits = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limits }).unwrap();
    socket.connect(&SocketAddr::from(([127, 0, 0, 1], port)).into()).unwrap();
    let failure = until("the rank's failure", || bridge.failure(member(0, 0)));
    assert_eq!(failure.code, Code::Io, "{failure}");
    assert!(failure.message.contains("ulimit -n"), "{failure}");
    let mut worker = std::net::TcpStream::from(socket);
    assert!(within("the end of the worker's connection", move || worker.read(&mut [0; 4]).is_err()));
    setrlimit(Resource::Nofile, limits).unwrap();
    assert_eq!(world.agents[1].bridge.failure(member(1, 0)), None);
}
