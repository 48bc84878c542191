//! Two ends of a link in one thread, and a relay between them.
#![allow(dead_code)]

use mio::net::TcpStream;
use rejoin_protocol::ids::{AgentId, Generation, Incarnation, Lane, Lineage, Phase, Rank, Version};
use rejoin_protocol::wire::{Header, Kind};
use rejoin_transport::{Flushed, Hello, JobId, Keys, Link, LinkError, Listener, PortRange, Purpose, Received, Secret};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

pub const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub fn keys() -> Keys {
    Keys { job: JobId([7; 16]), secret: Secret::new([42; 32]), encrypt: false }
}

pub fn hello(encrypt: bool) -> Hello {
    let purpose = Purpose::Data {
        lane: Lane::Channels,
        rank: Rank(2),
        incarnation: Incarnation { epoch: 2, number: 1 },
        peer: Rank(0),
        peer_incarnation: Incarnation::nth(3),
        generation: Generation { epoch: 1, number: 9 },
    };
    Hello { agent: AgentId(77), purpose, encrypt }
}

/// A data frame's header; the length is set by the link.
pub fn header(offset: u64) -> Header {
    Header {
        length: 0,
        kind: Kind::Data,
        phase: Phase::Version(Version(5)),
        lineage: Lineage(1),
        offset,
        digest: 0x1234_5678_9abc_def0,
        generation: Default::default(),
        inputs: 0,
    }
}

/// Bytes that differ from place to place and from one seed to another.
pub fn bytes(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|index| (index.wrapping_mul(31).wrapping_add(index >> 8).wrapping_add(seed * 17)) as u8).collect()
}

pub fn listener() -> Listener {
    Listener::bind(HOST, PortRange::EPHEMERAL, "ports").expect("loopback has a free port")
}

/// Tries until something comes of it. The deadline is only there so that a hanging test ends with words.
pub fn until<T>(what: &str, mut generation: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(result) = generation() {
            return result;
        }
        assert!(Instant::now() < deadline, "{what} didn't happen");
        std::thread::yield_now();
    }
}

pub fn accept(listener: &Listener) -> TcpStream {
    until("a connection", || listener.accept().expect("accepting works")).0
}

/// Two ends whose handshake has yet to be driven, over a direct connection.
pub fn ends(initiator: &Keys, acceptor: &Keys, hello: Hello) -> (Link, Link) {
    let listener = listener();
    let initiator = Link::connect(listener.address(), initiator, hello).expect("loopback is reachable");
    let acceptor = Link::accept(accept(&listener), acceptor).expect("the connection is there");
    (initiator, acceptor)
}

/// What one end's handshake came to.
#[derive(Debug)]
pub enum Outcome {
    Established,
    Refused(rejoin_protocol::error::Error),
    Failed(LinkError),
}

/// Receives once during a handshake; a hello is admitted.
pub fn step(link: &mut Link) -> Option<Outcome> {
    match link.receive() {
        Ok(Received::Pending) => None,
        Ok(Received::Established) => Some(Outcome::Established),
        Ok(Received::Refused(error)) => Some(Outcome::Refused(error)),
        Ok(Received::Hello(_)) => {
            link.admit();
            Some(Outcome::Established)
        }
        Ok(Received::Frame(header, _)) => panic!("a frame in the handshake: {header:?}"),
        Err(error) => Some(Outcome::Failed(error)),
    }
}

/// Drives both ends until both have an outcome. An end that failed is dropped at once, as drivers do.
pub fn outcomes(initiator: Link, acceptor: Link) -> (Outcome, Outcome) {
    let (mut initiator, mut acceptor) = (Some(initiator), Some(acceptor));
    let (mut first, mut second) = (None, None);
    until("the end of the handshake", || {
        for (link, outcome) in [(&mut initiator, &mut first), (&mut acceptor, &mut second)] {
            if outcome.is_none() {
                *outcome = link.as_mut().and_then(step);
                if matches!(outcome, Some(Outcome::Failed(_) | Outcome::Refused(_))) {
                    *link = None;
                }
            }
        }
        (first.is_some() && second.is_some()).then_some(())
    });
    (first.expect("it is there"), second.expect("it is there"))
}

/// Two ends of an established link.
pub fn established(encrypt: bool) -> (Link, Link) {
    let keys = Keys { encrypt, ..keys() };
    let (mut initiator, mut acceptor) = ends(&keys, &keys, hello(encrypt));
    establish(&mut initiator, &mut acceptor, || ());
    (initiator, acceptor)
}

/// Drives both ends, with something between them, until the link stands.
pub fn establish(initiator: &mut Link, acceptor: &mut Link, mut between: impl FnMut()) {
    let mut stand = [false; 2];
    until("an established link", || {
        for (link, stands) in [&mut *initiator, &mut *acceptor].into_iter().zip(&mut stand) {
            if !*stands {
                match step(link) {
                    None => {}
                    Some(Outcome::Established) => *stands = true,
                    other => panic!("{other:?}"),
                }
            }
        }
        between();
        (stand == [true; 2]).then_some(())
    });
}

/// Flushes until all has gone.
pub fn flush(link: &mut Link) -> Flushed {
    link.flush().expect("the link works")
}

/// Which way bytes go through a [`Relay`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    ToAcceptor,
    ToInitiator,
}

/// A relay between two ends: passes bytes on in pieces of any length, remembers them, and may change them.
pub struct Relay {
    initiator: TcpStream,
    acceptor: TcpStream,
    /// Everything that came from the initiator, unchanged.
    pub from_initiator: Vec<u8>,
    /// Everything that came from the acceptor, unchanged.
    pub from_acceptor: Vec<u8>,
    /// The byte at this place is changed on its way.
    pub change: Option<(Direction, usize)>,
}

impl Relay {
    /// Two ends with a relay between them.
    pub fn between(initiator: &Keys, acceptor: &Keys, hello: Hello) -> (Link, Relay, Link) {
        let (front, back) = (listener(), listener());
        let initiator = Link::connect(front.address(), initiator, hello).expect("loopback is reachable");
        let to_initiator = accept(&front);
        let to_acceptor = connect(back.address());
        let acceptor = Link::accept(accept(&back), acceptor).expect("the connection is there");
        let relay = Relay {
            initiator: to_initiator,
            acceptor: to_acceptor,
            from_initiator: Vec::new(),
            from_acceptor: Vec::new(),
            change: None,
        };
        (initiator, relay, acceptor)
    }

    /// Passes at most `piece` bytes on each way.
    pub fn pass(&mut self, piece: usize) {
        let ways = [
            (Direction::ToAcceptor, &self.initiator, &self.acceptor, &mut self.from_initiator),
            (Direction::ToInitiator, &self.acceptor, &self.initiator, &mut self.from_acceptor),
        ];
        for (way, mut from, mut to, seen) in ways {
            let mut buffer = vec![0; piece];
            let count = match from.read(&mut buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                // An end that failed resets its connection; the other one hears it from the relay's own end.
                Err(_) => continue,
            };
            let start = seen.len();
            seen.extend_from_slice(&buffer[..count]);
            if let Some((changed, place)) = self.change {
                if changed == way && (start..start + count).contains(&place) {
                    buffer[place - start] ^= 0x10;
                }
            }
            let mut rest = &buffer[..count];
            until("room for a piece", || {
                match to.write(rest) {
                    Ok(written) => rest = &rest[written..],
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(_) => rest = &[],
                }
                rest.is_empty().then_some(())
            });
        }
    }
}

/// A plain connection that may be anyone's; nonblocking.
pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = std::net::TcpStream::connect(address).expect("loopback is reachable");
    stream.set_nonblocking(true).expect("a socket can be nonblocking");
    stream.set_nodelay(true).expect("a TCP socket has this option");
    TcpStream::from_std(stream)
}
