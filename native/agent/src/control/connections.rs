//! Connections with other agents: accepted and made, and what comes over them handed on to its receiver.

use super::gatherings::StripeRead;
use super::{Connection, Control, Role, HANDSHAKE};
use crate::copies::Said;
use crate::fetch;
use crate::links::Misfit;
use mio::{Interest, Token};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::event::Event;
use rejoin_protocol::host::HostInput;
use rejoin_protocol::ids::MemberId;
use rejoin_protocol::wire::{Header, Kind, HEADER_BYTES};
use rejoin_transport::{Arrival, Hello, Link, Purpose, Received};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

impl Control {
    pub(super) fn accept(&mut self) {
        match self.incoming.entrance.accept(self.poll.registry(), &mut self.next_token) {
            Ok(()) => self.incoming.is_starved = false,
            // A connection that is there waits in the listener's queue, and is looked for again a little later.
            Err(cause) => {
                if !self.has_run_out(&cause) {
                    log::warn!("{} the listener failed: {cause}", self.shared.prefix());
                }
            }
        }
        self.take_arrivals();
    }

    /// A connection that has not proven itself yet has said something.
    pub(super) fn serve_entrance(&mut self, token: Token) {
        self.incoming.entrance.serve(token);
        self.take_arrivals();
    }

    fn take_arrivals(&mut self) {
        while let Some(arrival) = self.incoming.entrance.arrived() {
            match arrival {
                Arrival::Proven(token, link, hello) => self.judge(token, *link, hello),
                Arrival::Stranger { address, reason } => self.stranger(address.to_string(), reason),
            }
        }
    }

    /// Whether this process has no descriptors left. Said once, until there are some again: only
    /// its owner can help.
    pub(super) fn has_run_out(&mut self, cause: &std::io::Error) -> bool {
        let has_run_out = matches!(cause.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
        if has_run_out && !std::mem::replace(&mut self.incoming.is_starved, true) {
            log::error!(
                "{} no connection can be accepted or made: {cause}. What needs one with this process waits until it \
                 has closed files, or its limit (ulimit -n) is raised",
                self.shared.prefix()
            );
        }
        has_run_out
    }

    #[allow(clippy::result_large_err)] // the role goes back to its owner, once, on a rare path
    fn add(&mut self, mut link: Link, role: Role) -> Result<Token, (String, Role)> {
        let token = Token(self.next_token);
        self.next_token += 1;
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(cause) = self.poll.registry().register(link.socket(), token, interest) {
            return Err((format!("a connection can't be watched: {cause}"), role));
        }
        self.connections.insert(token, Connection { link, role, began: Instant::now(), established: false });
        Ok(token)
    }

    #[allow(clippy::result_large_err)] // as above
    pub(super) fn connect(
        &mut self,
        address: SocketAddr,
        purpose: Purpose,
        role: Role,
    ) -> Result<Token, (String, Role)> {
        let hello = Hello { agent: self.agent, purpose, encrypt: self.keys.encrypt };
        match Link::connect(address, &self.keys, hello) {
            Ok(link) => {
                self.incoming.is_starved = false;
                self.add(link, role)
            }
            Err(cause) => {
                self.has_run_out(&cause);
                Err((cause.to_string(), role))
            }
        }
    }

    pub(super) fn remove(&mut self, token: Token) -> Option<Connection> {
        let mut connection = self.connections.remove(&token)?;
        let _ = self.poll.registry().deregister(connection.link.socket());
        Some(connection)
    }

    /// Reads and writes what is there, at most as much as may be moved in one turn.
    pub(super) fn serve_connection(&mut self, token: Token) {
        let mut moved = 0;
        while moved < self.turn.bytes {
            match self.step(token) {
                Some(bytes) => moved += bytes,
                None => return,
            }
        }
        self.turn.unfinished.insert(token);
    }

    /// Writes a little and reads a little: so many bytes. `None` when nothing more can be done
    /// before an event comes, or ever.
    fn step(&mut self, token: Token) -> Option<usize> {
        let connection = self.connections.get_mut(&token)?;
        let written = match &mut connection.role {
            Role::Serving(serve) => serve.pump(&mut connection.link),
            Role::Copying(copy) => copy.pump(&mut connection.link, Instant::now()),
            _ => connection.link.flush().map(|_| false),
        };
        match written {
            Ok(true) => Some(fetch::WINDOW + self.read(token).unwrap_or(0)),
            Ok(false) => self.read(token),
            Err(cause) => {
                self.end(token, cause.to_string());
                None
            }
        }
    }

    /// Reads a frame or a part of one: so many bytes. `None` when there is nothing to be read, or
    /// the connection is of no more use.
    fn read(&mut self, token: Token) -> Option<usize> {
        let connection = self.connections.get_mut(&token)?;
        if connection.established {
            match connection.role {
                Role::Results(_) if self.planes.is_full() => {
                    if !self.results.paused.contains(&token) {
                        self.results.paused.push(token);
                    }
                    return None;
                }
                Role::Fetching(member, number) => match self.read_stripe(token, member, number) {
                    StripeRead::Read(bytes) => return Some(bytes),
                    StripeRead::Over => return None,
                    StripeRead::Message => {}
                },
                _ => {}
            }
        }
        let connection = self.connections.get_mut(&token)?;
        match connection.link.receive() {
            Ok(Received::Pending) => return None,
            // Nothing that was made here gets one.
            Ok(Received::Hello(_)) => self.end(token, "spoke as if it had connected to us".into()),
            Ok(Received::Established) => self.established(token),
            Ok(Received::Refused(error)) => match connection.role {
                Role::Making { .. } if error.code == Code::TimedOut => self.link_not_yet(token, &error.message),
                _ => self.end(token, format!("refused: {}", error.message)),
            },
            Ok(Received::Frame(header, payload)) => {
                self.take(token, header, &payload);
                return Some(HEADER_BYTES + payload.len());
            }
            Err(cause) => self.end(token, cause.to_string()),
        }
        Some(0)
    }

    /// A frame that has come.
    fn take(&mut self, token: Token, header: Header, payload: &[u8]) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        match &mut connection.role {
            Role::Serving(serve) if header.kind == Kind::Control => {
                match serve.request(payload, &self.shared.store, &self.planes, &mut connection.link) {
                    Ok(None) => {}
                    Ok(Some(wanted)) => self.make(wanted),
                    Err(error) => return self.end(token, error.message),
                }
                self.asked_to_serve();
            }
            Role::Serving(serve) => match serve.keep(header, payload, &self.shared.store, &mut connection.link) {
                Ok(None) => {}
                Ok(Some(kept)) => self.handle(Some(HostInput::Kept(kept))),
                Err(reason) => self.end(token, reason),
            },
            Role::Copying(copy) => match copy.take(header, payload, Instant::now()) {
                Ok(Said::Send) => {}
                Ok(said) => self.copied(token, &said),
                Err(reason) => self.end(token, reason),
            },
            Role::Fetching(member, number) => {
                let (member, number) = (*member, *number);
                match self.gatherings.get_mut(&member) {
                    Some(gathering) => {
                        let progress = gathering.message(number, header.kind, payload, Instant::now());
                        self.gathered(token, member, progress);
                    }
                    None => drop(self.remove(token)),
                }
            }
            Role::Results(results) => match results.take(header, payload, &self.planes, Instant::now()) {
                Ok(false) => {}
                Ok(true) => drop(self.remove(token)),
                Err(reason) => self.end(token, reason),
            },
            Role::Asking(question) => {
                question.answered(payload, &self.planes);
                drop(self.remove(token));
            }
            Role::Making { .. } => {
                self.end(token, format!("unexpected frame of kind {:?}", header.kind));
            }
        }
    }

    /// Reported and logged once; further ones are only counted, so that a port scanner can't fill a disk.
    fn stranger(&mut self, address: String, reason: String) {
        self.incoming.strangers += 1;
        if self.incoming.strangers == 1 {
            log::warn!("{} turned away {address}: {reason} (further ones are only counted)", self.shared.prefix());
            self.handle(Some(HostInput::Event(Event::StrangerRefused { address, reason })));
        }
    }

    /// One that knows the secret, but is too late: each is reported.
    fn outdated(&mut self, address: String, reason: String) {
        log::warn!("{} turned away {address}: {reason}", self.shared.prefix());
        self.handle(Some(HostInput::Event(Event::StrangerRefused { address, reason })));
    }

    /// An authenticated agent says what it wants.
    fn judge(&mut self, token: Token, mut link: Link, hello: Hello) {
        match hello.purpose {
            Purpose::Fetch => {
                link.admit();
                let role = Role::Serving(Box::default());
                self.connections.insert(token, Connection { link, role, began: Instant::now(), established: true });
                self.serve_connection(token);
            }
            // Seen from the other side: its rank is our peer.
            Purpose::Data { rank, incarnation, peer, peer_incarnation, lane, .. } => {
                let own = MemberId { rank: peer, incarnation: peer_incarnation };
                let peer = MemberId { rank, incarnation };
                match self.links.fits(own, peer, lane) {
                    Ok(()) => {
                        link.admit();
                        let _ = self.poll.registry().deregister(link.socket());
                        self.hand_over(link, own, peer, lane);
                    }
                    Err(Misfit::NotYet(reason)) => {
                        link.refuse(Error::new(Code::TimedOut, format!("not yet: {reason}")));
                    }
                    Err(Misfit::Outdated(reason)) => {
                        link.refuse(Error::new(Code::Fenced, reason.clone()));
                        self.outdated(link.peer_address().to_string(), reason);
                    }
                }
            }
            Purpose::Tracker | Purpose::Launcher => link.refuse(Error::new(
                Code::BadArgument,
                "an agent was connected to as if it were the tracker; the tracker's address is wrong",
            )),
        }
    }

    fn established(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        connection.established = true;
        match &connection.role {
            Role::Making { member, peer, lane } => {
                let (member, peer, lane) = (*member, *peer, *lane);
                if let Some(connection) = self.remove(token) {
                    self.hand_over(connection.link, member, peer, lane);
                }
            }
            Role::Fetching(member, number) => {
                let request = self.gatherings.get(member).and_then(|gathering| gathering.request(*number));
                if let Some(request) = request {
                    connection.link.send_message(&request);
                }
            }
            Role::Copying(copy) => copy.ask(&mut connection.link),
            Role::Results(results) => results.ask(&mut connection.link),
            Role::Asking(question) => question.ask(&mut connection.link),
            Role::Serving(_) => {}
        }
    }

    /// A connection is of no more use.
    pub(super) fn end(&mut self, token: Token, reason: String) {
        let Some(connection) = self.remove(token) else { return };
        match connection.role {
            Role::Serving(_) => {}
            Role::Making { member, peer, lane } => self.link_try_failed(member, peer, lane, token, reason),
            Role::Copying(copy) => {
                log::warn!("{} a copy of version {}: {reason}", self.shared.prefix(), copy.checkpoint.version);
                let (checkpoint, agent) = (copy.checkpoint, copy.to);
                self.handle(Some(HostInput::CopyFailed { checkpoint, agent }));
            }
            Role::Fetching(member, number) => {
                log::warn!("{} fetch: {reason}", self.shared.prefix_of(member.rank));
                if let Some(gathering) = self.gatherings.get_mut(&member) {
                    gathering.failed(number, &reason);
                }
                self.go_on_gathering(member);
            }
            Role::Results(mut results) => {
                log::debug!("{} fetch of results: {reason}", self.shared.prefix_of(results.member.rank));
                results.failed(&reason);
                self.go_on_fetching(results);
            }
            Role::Asking(question) => question.unanswered(&self.planes),
        }
    }

    pub(super) fn connection_deadlines(&mut self, now: Instant) {
        for connection in self.connections.values_mut() {
            if let Role::Serving(serve) = &mut connection.role {
                serve.announce(&mut connection.link, now);
                // A link that has failed is found so when its end is read.
                let _ = connection.link.flush();
            }
        }
        let silent = |last_heard: Instant, limit: Duration| {
            (now > last_heard + limit).then(|| format!("silent for {} s", limit.as_secs()))
        };
        let late = |connection: &Connection| match &connection.role {
            Role::Fetching(member, number) => {
                let heard = self.gatherings.get(member)?.heard(*number)?;
                let limit = fetch::PART_LIMIT;
                (now > heard + limit).then(|| format!("brought no whole part within {} s", limit.as_secs()))
            }
            Role::Copying(copy) => silent(copy.last_heard, fetch::WAIT_LIMIT),
            Role::Results(results) => silent(results.last_heard, fetch::WAIT_LIMIT),
            Role::Asking(_) => silent(connection.began, fetch::WAIT_LIMIT),
            _ => None,
        };
        let unproven = |connection: &Connection| {
            let is_late = !connection.established && now > connection.began + HANDSHAKE;
            is_late.then(|| format!("no handshake within {} s", HANDSHAKE.as_secs()))
        };
        let late: Vec<(Token, String)> = self
            .connections
            .iter()
            .filter_map(|(token, connection)| Some((*token, unproven(connection).or_else(|| late(connection))?)))
            .collect();
        for (token, reason) in late {
            self.end(token, reason);
        }
        self.incoming.entrance.keep_time();
        self.accept();
    }
}
