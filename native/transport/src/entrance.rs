//! A listener, and connections that have come to it and not proven yet that they are of the job.

use crate::{Hello, Keys, Link, LinkError, Listener, PortRange, Received};
use mio::{Interest, Registry, Token};
use rejoin_protocol::admission::{Admission, MOST};
use rejoin_protocol::error::Error;
use rejoin_protocol::ids::Millis;
use rustix::process::{getrlimit, Resource};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// So many are let in before all others have had a turn.
const TURN: usize = 64;

/// So many may wait though descriptors are scarce: those of the job don't come one by one.
const SOME: usize = 16;

/// What became of a connection that came.
#[derive(Debug)]
pub enum Arrival {
    /// Proven, and waits for [`Link::admit`] or [`Link::refuse`]. The link stays registered under this token.
    Proven(Token, Box<Link>, Hello),
    /// Turned away for what it said; not reported of those that said nothing.
    Stranger {
        /** Where it came from. */
        address: SocketAddr,
        /** What was seen, in words. */
        reason: String,
    },
}

/// The one way into a process: each connection waits here until it has proven the job's secret, under
/// the rules of [`Admission`]. But for a few, those that wait don't take the last quarter of the
/// descriptors that the process may have.
pub struct Entrance {
    listener: Listener,
    keys: Keys,
    rules: Admission,
    waiting: HashMap<Token, Link>,
    arrivals: VecDeque<Arrival>,
    began: Instant,
    has_more: bool,
}

impl Entrance {
    /// As [`Listener::bind`].
    ///
    /// # Errors
    /// Those of [`Listener::bind`].
    pub fn bind(host: IpAddr, ports: PortRange, setting: &str, keys: Keys) -> Result<Entrance, Error> {
        Ok(Entrance {
            listener: Listener::bind(host, ports, setting)?,
            keys,
            rules: Admission::default(),
            waiting: HashMap::new(),
            arrivals: VecDeque::new(),
            began: Instant::now(),
            has_more: false,
        })
    }

    /// Watches the listener.
    ///
    /// # Errors
    /// When the kernel doesn't take it.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(self.listener.socket(), token, Interest::READABLE)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Whether this is the token of a connection that waits here.
    pub fn is_of(&self, token: Token) -> bool {
        self.waiting.contains_key(&token)
    }

    /// What became of those that came, one after the other.
    pub fn arrived(&mut self) -> Option<Arrival> {
        self.arrivals.pop_front()
    }

    /// Lets in what is there, not all at once if that is much ([`Entrance::next_timeout`]). Their
    /// tokens are taken from `next`.
    ///
    /// # Errors
    /// None can be let in now, for lack of descriptors for instance. No event comes for those that
    /// are there: call it again a little later, not at once.
    pub fn accept(&mut self, registry: &Registry, next: &mut usize) -> io::Result<()> {
        let plenty = plenty();
        for _ in 0..TURN {
            let (stream, from) = match self.listener.accept() {
                Ok(Some(accepted)) => accepted,
                Ok(None) => {
                    self.has_more = false;
                    return Ok(());
                }
                Err(cause) => {
                    self.has_more = false;
                    self.make_room(self.rules.count() / 2);
                    return Err(cause);
                }
            };
            // The kernel gives the lowest number that is free: as many are taken, at least.
            let excess = (stream.as_raw_fd() as u64 + 1).saturating_sub(plenty) as usize;
            let token = Token(*next);
            *next += 1;
            let accepted = Link::accept(stream, &self.keys).and_then(|mut link| {
                registry.register(link.socket(), token, Interest::READABLE | Interest::WRITABLE)?;
                Ok(link)
            });
            // Gone again, as a rule: it will come again if it was one of the job.
            let Ok(link) = accepted.inspect_err(|cause| log::debug!("{from} came and can't be heard: {cause}")) else {
                continue;
            };
            self.waiting.insert(token, link);
            self.rules.came(token.0 as u64, from.ip(), self.now());
            self.serve(token);
            self.make_room(if excess > 0 { self.rules.count().saturating_sub(excess).max(SOME) } else { MOST });
        }
        self.has_more = true;
        Ok(())
    }

    /// Goes on with one that waits here.
    pub fn serve(&mut self, token: Token) {
        let Some(link) = self.waiting.get_mut(&token) else { return };
        let received = link.receive();
        let failed = match received {
            Ok(Received::Pending) => {
                if link.has_spoken() {
                    self.rules.spoke(token.0 as u64);
                }
                match link.flush() {
                    Ok(_) => return,
                    Err(cause) => cause,
                }
            }
            Ok(Received::Hello(hello)) => {
                if let Some(link) = self.take(token) {
                    self.arrivals.push_back(Arrival::Proven(token, Box::new(link), hello));
                }
                return;
            }
            // An acceptor gets nothing else before its verdict.
            Ok(_) => LinkError::Closed,
            Err(cause) => cause,
        };
        let Some(link) = self.take(token) else { return };
        if let LinkError::Stranger(_) | LinkError::Incompatible(_) = failed {
            let address = link.peer_address();
            self.arrivals.push_back(Arrival::Stranger { address, reason: failed.to_string() });
        }
    }

    /// Sends those away whose time is up.
    pub fn keep_time(&mut self) {
        for (number, what) in self.rules.late(self.now()) {
            self.send_away(number, what);
        }
    }

    /// How long nothing has to be done here unless an event comes.
    pub fn next_timeout(&self) -> Option<Duration> {
        if self.has_more {
            return Some(Duration::ZERO);
        }
        self.rules.wake_at().map(|at| Duration::from_millis(at.since(self.now())))
    }

    fn now(&self) -> Millis {
        Millis(self.began.elapsed().as_millis() as u64)
    }

    fn make_room(&mut self, most: usize) {
        while let Some(number) = self.rules.surplus(most) {
            self.send_away(number, "others need the room");
        }
    }

    /// Unless it has said meanwhile what it had to say, with a reset: nothing is kept for it, here or in the kernel.
    fn send_away(&mut self, number: u64, why: &str) {
        let token = Token(number as usize);
        let had_spoken = self.waiting.get(&token).is_some_and(Link::has_spoken);
        self.serve(token);
        if self.waiting.get(&token).is_none_or(|link| link.has_spoken() != had_spoken) {
            return;
        }
        if let Some(link) = self.take(token) {
            log::debug!("{} is sent away: {why}", link.peer_address());
            link.reset();
        }
    }

    fn take(&mut self, token: Token) -> Option<Link> {
        self.rules.left(token.0 as u64);
        self.waiting.remove(&token)
    }
}

/// Descriptors below this number may be taken by those that have proven nothing.
fn plenty() -> u64 {
    getrlimit(Resource::Nofile).current.map_or(u64::MAX, |limit| limit - limit / 4)
}
