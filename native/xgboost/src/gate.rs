//! A listener on loopback for this process's own worker, at which every process of the host can knock.

use crate::kernel::OwnConnections;
use crate::sources::{Source, Sources};
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Token};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

/// Most connections that are looked at in one turn.
const TURN: usize = 16;

/// After strangers no connection is looked at for so long: connecting in a loop costs a few turns in a
/// hundred, not the training.
const PAUSE: Duration = Duration::from_millis(10);

/// An address of this host that only this host reaches.
pub(crate) fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// The connections that came.
#[derive(Debug, Default)]
pub(crate) struct Knocks {
    /// Connections whose other end is in this process.
    pub(crate) own: Vec<TcpStream>,
    /// The others, which were turned away.
    pub(crate) strangers: Vec<SocketAddr>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Gate {
    listener: TcpListener,
    token: Token,
    again: Option<Instant>,
}

impl Gate {
    /// One more listener.
    ///
    /// # Errors
    /// When there is no port, or no descriptor.
    pub(crate) fn open(source: Source, sources: &mut Sources) -> io::Result<Gate> {
        let mut listener = TcpListener::bind(loopback(0))?;
        let token = sources.add(&mut listener, source, Interest::READABLE)?;
        Ok(Gate { listener, token, again: None })
    }

    /// Where it is.
    ///
    /// # Errors
    /// Those of the socket.
    pub(crate) fn port(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// The connections that came, as far as this turn allows; none before [`Gate::again`].
    ///
    /// # Errors
    /// When none can be accepted, or this process's open files can't be listed.
    pub(crate) fn knocks(&mut self, now: Instant) -> io::Result<Knocks> {
        let mut knocks = Knocks::default();
        if self.again.is_some_and(|at| at > now) {
            return Ok(knocks);
        }
        self.again = None;
        let mut came = Vec::new();
        while came.len() < TURN {
            match self.listener.accept() {
                Ok(accepted) => came.push(accepted),
                Err(cause) if matches!(cause.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                Err(cause) if cause.kind() == ErrorKind::WouldBlock => break,
                Err(cause) => {
                    self.again = Some(now + PAUSE);
                    if came.is_empty() {
                        return Err(cause);
                    }
                    break;
                }
            }
        }
        if came.is_empty() {
            return Ok(knocks);
        }
        let is_full = came.len() == TURN;
        // Looked at once for all: each of them had its other end before it was accepted.
        let files = OwnConnections::scan();
        for (stream, from) in came {
            let is_own = match &files {
                Ok(files) if OwnConnections::known() => {
                    stream.local_addr().is_ok_and(|here| files.find(from, here).is_some())
                }
                Ok(_) => from.ip().is_loopback(),
                Err(_) => false,
            };
            if is_own {
                knocks.own.push(stream);
            } else {
                rejoin_transport::reset(stream);
                knocks.strangers.push(from);
            }
        }
        if is_full || !knocks.strangers.is_empty() {
            self.again = Some(now + PAUSE);
        }
        files.map(|_| knocks)
    }

    /// When it has to be looked at again though no event comes.
    pub(crate) fn again(&self) -> Option<Instant> {
        self.again
    }

    /// Accepts no connection any more, also where a process that was forked off this one holds the listener.
    pub(crate) fn close(mut self, sources: &mut Sources) {
        sources.remove(&mut self.listener, self.token);
        rejoin_transport::reset(&self.listener);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use mio::Poll;
    use rejoin_protocol::ids::Rank;
    use std::net::TcpStream as Plain;

    fn gate() -> (Gate, Sources, u16) {
        let poll = Poll::new().unwrap();
        let mut sources = Sources::new(poll.registry().try_clone().unwrap());
        let gate = Gate::open(Source::Tracker(Rank(0)), &mut sources).unwrap();
        let port = gate.port().unwrap();
        (gate, sources, port)
    }

    #[test]
    fn a_closed_gate_lets_nobody_wait_though_a_forked_process_holds_its_listener() {
        let (gate, mut sources, port) = gate();
        let held = std::os::fd::AsFd::as_fd(&gate.listener).try_clone_to_owned().unwrap();
        let mut waits = Plain::connect(("127.0.0.1", port)).unwrap();
        gate.close(&mut sources);
        assert!(std::io::Read::read(&mut waits, &mut [0; 4]).is_err());
        assert!(Plain::connect(("127.0.0.1", port)).is_err());
        drop(held);
    }

    #[test]
    fn no_more_than_a_turns_worth_are_looked_at_and_the_rest_after_a_pause() {
        let (mut gate, _sources, port) = gate();
        let _knocking: Vec<Plain> = (0..40).map(|_| Plain::connect(("127.0.0.1", port)).unwrap()).collect();
        let now = Instant::now();
        assert_eq!(gate.knocks(now).unwrap().own.len(), 16);
        assert_eq!(gate.again(), Some(now + Duration::from_millis(10)));
        assert_eq!(gate.knocks(now + Duration::from_millis(9)).unwrap().own.len(), 0);
        let later = now + Duration::from_millis(10);
        assert_eq!(gate.knocks(later).unwrap().own.len(), 16);
        // The last ones; nothing has to be looked at without an event then.
        let last = later + Duration::from_millis(10);
        assert_eq!((gate.knocks(last).unwrap().own.len(), gate.again()), (8, None));
    }
}
