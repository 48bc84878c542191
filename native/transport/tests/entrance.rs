//! The way into a process: what waits there, how long, and what it leaves to others.

mod common;

use common::{connect, hello, keys, step, until, Outcome, HOST};
use mio::net::TcpStream;
use mio::{Events, Poll, Token};
use rejoin_protocol::admission::FIRST_MESSAGE;
use rejoin_transport::{Arrival, Entrance, Hello, Link, PortRange};
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

/// Descriptors that this process may have. A quarter of them is not for strangers.
const FILES: u64 = 200;

/// An entrance and the poll of its owner.
struct Owner {
    poll: Poll,
    events: Events,
    entrance: Entrance,
    next: usize,
    proven: Vec<(Link, Hello)>,
    turned_away: Vec<String>,
}

impl Owner {
    fn new() -> Owner {
        let poll = Poll::new().expect("a poll");
        let mut entrance = Entrance::bind(HOST, PortRange::EPHEMERAL, "ports", keys()).expect("a port");
        entrance.register(poll.registry(), Token(0)).expect("it can be watched");
        let (proven, turned_away) = (Vec::new(), Vec::new());
        Owner { poll, events: Events::with_capacity(64), entrance, next: 1, proven, turned_away }
    }

    /// One turn, as long as its owner may wait.
    fn turn(&mut self, at_most: Duration) {
        let next_timeout = self.entrance.next_timeout().map_or(at_most, |next_timeout| next_timeout.min(at_most));
        self.poll.poll(&mut self.events, Some(next_timeout)).expect("the poll works");
        for token in self.events.iter().map(|event| event.token()).collect::<Vec<_>>() {
            self.entrance.serve(token);
        }
        self.entrance.keep_time();
        self.entrance.accept(self.poll.registry(), &mut self.next).expect("there are descriptors");
        while let Some(arrival) = self.entrance.arrived() {
            match arrival {
                Arrival::Proven(_, mut link, hello) => {
                    link.admit();
                    self.proven.push((*link, hello));
                }
                Arrival::Stranger { reason, .. } => self.turned_away.push(reason),
            }
        }
    }
}

/// Whether the other end has hung up.
fn is_over(stranger: &mut TcpStream) -> bool {
    !matches!(stranger.read(&mut [0; 8]), Err(cause) if cause.kind() == ErrorKind::WouldBlock)
}

#[test]
fn who_says_nothing_is_hung_up_on_after_a_second_and_who_has_begun_a_message_as_well() {
    let mut owner = Owner::new();
    let began = Instant::now();
    let mut silent = [connect(owner.entrance.address()), connect(owner.entrance.address())];
    silent[1].write_all(b"RJN").expect("there is room");
    until("both are hung up on", || {
        owner.turn(Duration::from_millis(50));
        silent.iter_mut().all(is_over).then_some(())
    });
    assert!(began.elapsed() >= Duration::from_millis(FIRST_MESSAGE), "after {:?}", began.elapsed());
    // A connection that said nothing wrong makes no event.
    assert!(owner.proven.is_empty() && owner.turned_away.is_empty(), "{:?}", owner.turned_away);
}

#[test]
fn garbage_is_told_of_and_hung_up_on_at_once() {
    let mut owner = Owner::new();
    let mut stranger = connect(owner.entrance.address());
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("there is room");
    until("it is reported", || {
        owner.turn(Duration::from_millis(50));
        (!owner.turned_away.is_empty()).then_some(())
    });
    assert!(owner.turned_away[0].contains("expected a Rejoin process"), "{:?}", owner.turned_away);
    assert!(is_over(&mut stranger));
}

#[test]
fn a_crowd_leaves_descriptors_and_whoever_has_said_the_right_thing_stays() {
    let mut owner = Owner::new();
    let all = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(FILES), ..all }).expect("less is always allowed");
    // Both ends are in this process: a crowd of so many takes all but what has to be left, and then
    // what strangers have.
    let mut early = Link::connect(owner.entrance.address(), &keys(), hello(false)).expect("loopback is reachable");
    until("it has said its first message", || {
        assert!(step(&mut early).is_none());
        owner.turn(Duration::ZERO);
        (early.flush().is_ok() && owner.next > 1).then_some(())
    });
    let mut crowd = Vec::new();
    for _ in 0..FILES * 3 / 4 {
        crowd.push(connect(owner.entrance.address()));
        owner.turn(Duration::ZERO);
    }
    let gone = crowd.iter_mut().filter_map(|stranger| is_over(stranger).then_some(())).count();
    assert!(gone >= crowd.len() / 2, "{gone} of {} are hung up on", crowd.len());
    assert!(is_over(&mut crowd[0]) && !is_over(crowd.last_mut().expect("it is there")), "the oldest go");
    let late = Link::connect(owner.entrance.address(), &keys(), hello(false)).expect("there are descriptors");
    let mut links = vec![early, late];
    until("both are in, the first one as well", || {
        owner.turn(Duration::ZERO);
        links.retain_mut(|link| match step(link) {
            None => true,
            Some(Outcome::Established) => false,
            other => panic!("{other:?}"),
        });
        links.is_empty().then_some(())
    });
    assert_eq!(owner.proven.len(), 2);
    setrlimit(Resource::Nofile, all).expect("what it was");
}
