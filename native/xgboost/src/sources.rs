//! What the bridge's thread listens to.

use mio::event::Source as Pollable;
use mio::{Interest, Registry, Token};
use rejoin_protocol::ids::Rank;
use std::collections::HashMap;
use std::io;

/// The waker's token.
pub(crate) const WAKER: Token = Token(0);

/// What a token stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The listener that plays the tracker for a rank's worker.
    Tracker(Rank),
    /// A connection to it.
    Dialogue(Rank),
    /// Any socket of a rank's bootstrap.
    Bootstrap(Rank),
    /// A channel's socket between a rank's worker and the peer that it sees there.
    Worker(Rank, Rank),
    /// The link between a rank and its peer.
    Link(Rank, Rank),
}

/// All registered sockets. A token is never given twice, so an event that comes late can't be taken for another's.
#[derive(Debug)]
pub(crate) struct Sources {
    registry: Registry,
    by_token: HashMap<Token, Source>,
    next: usize,
}

impl Sources {
    /// None yet.
    pub(crate) fn new(registry: Registry) -> Self {
        Sources { registry, by_token: HashMap::new(), next: WAKER.0 + 1 }
    }

    /// Registers a socket.
    ///
    /// # Errors
    /// When the kernel doesn't take it.
    pub(crate) fn add(&mut self, socket: &mut impl Pollable, source: Source, interest: Interest) -> io::Result<Token> {
        let token = Token(self.next);
        self.registry.register(socket, token, interest)?;
        self.next += 1;
        self.by_token.insert(token, source);
        Ok(token)
    }

    /// From now on the token stands for something else.
    pub(crate) fn rename(&mut self, token: Token, source: Source) {
        self.by_token.insert(token, source);
    }

    /// Forgets a socket.
    pub(crate) fn remove(&mut self, socket: &mut impl Pollable, token: Token) {
        self.by_token.remove(&token);
        // Fails only for a socket that the kernel has dropped already.
        let _ = self.registry.deregister(socket);
    }

    /// What an event is about; `None` for one that came late.
    pub(crate) fn find(&self, token: Token) -> Option<Source> {
        self.by_token.get(&token).copied()
    }
}
