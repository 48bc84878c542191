//! Connections with other agents: accepted and made, for data links and for fetches.

use super::{Command, Connection, Control, Role, HANDSHAKE, HANDSHAKES_LIMIT};
use crate::agent::MemberId;
use crate::copies::{Copy, Said};
use crate::fetch::{self, Next, Progress};
use crate::links::Misfit;
use mio::{Interest, Token};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::event::Event;
use rejoin_protocol::fault::Moment;
use rejoin_protocol::host::Input;
use rejoin_protocol::ids::{Checkpoint, Incarnation, Rank};
use rejoin_protocol::view::AgentAddress;
use rejoin_protocol::wire::{Header, Kind, HEADER_BYTES};
use rejoin_transport::{Hello, Link, LinkError, Purpose, Received};
use std::net::SocketAddr;
use std::time::Instant;

/// What was there of a stripe.
enum Stripe {
    /// So many of its bytes; there may be more.
    Read(usize),
    /// Nothing more now, or its connection has ended.
    Over,
    /// A message comes next.
    Message,
}

impl Control {
    pub(super) fn accept(&mut self) {
        while self.connections.values().filter(|c| !c.established).count() < HANDSHAKES_LIMIT {
            match self.listener.accept() {
                Ok(Some((stream, _))) => {
                    self.is_starved = false;
                    match Link::accept(stream, &self.keys) {
                        Ok(link) => match self.add(link, Role::Unknown) {
                            Ok(token) => self.serve_connection(token),
                            Err((reason, _)) => log::warn!("{} {reason}", self.shared.prefix()),
                        },
                        Err(cause) => log::warn!("{} a connection can't be served: {cause}", self.shared.prefix()),
                    }
                }
                Ok(None) => {
                    self.is_starved = false;
                    return;
                }
                Err(cause) => {
                    // Whoever is there waits in the listener's queue, and is looked for again a little later.
                    if !self.has_run_out(&cause) {
                        log::warn!("{} the listener failed: {cause}", self.shared.prefix());
                    }
                    return;
                }
            }
        }
    }

    /// Whether this process has no descriptors left. Told once, until there are some again: nobody but its owner can help.
    pub(super) fn has_run_out(&mut self, cause: &std::io::Error) -> bool {
        let has_run_out = matches!(cause.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
        if has_run_out && !std::mem::replace(&mut self.is_starved, true) {
            log::error!(
                "{} no connection can be accepted or made: {cause}. Who needs one with this process waits until it has closed \
                 files, or its limit (ulimit -n) is raised",
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
                self.is_starved = false;
                self.add(link, role)
            }
            Err(cause) => {
                self.has_run_out(&cause);
                Err((cause.to_string(), role))
            }
        }
    }

    pub(super) fn make_due_links(&mut self, now: Instant) {
        for (member, peer, incarnation, address) in self.links.due(now) {
            let generation = self.host.view().map(|view| view.generation).unwrap_or_default();
            let purpose = Purpose::Data {
                rank: member.rank,
                incarnation: member.incarnation,
                peer,
                peer_incarnation: incarnation,
                generation,
            };
            let role = Role::Making { member, peer, peer_incarnation: incarnation };
            match self.connect(address, purpose, role) {
                Ok(token) => {
                    self.links.making(member, peer, token);
                    self.serve_connection(token);
                }
                Err((reason, _)) => {
                    let token = Token(0);
                    self.links.making(member, peer, token);
                    self.link_try_failed(member, peer, incarnation, token, reason);
                }
            }
        }
    }

    fn link_try_failed(&mut self, member: MemberId, peer: Rank, theirs: Incarnation, token: Token, reason: String) {
        log::debug!("{} link to rank {peer}: {reason}", self.shared.prefix_of(member.rank));
        if self.links.try_failed(member, peer, token, Instant::now()) {
            let MemberId { rank, incarnation } = member;
            let reason = format!("many tries failed, the last: {reason}");
            self.handle(Some(Input::LinkDown { rank, incarnation, peer, peer_incarnation: theirs, reason }));
        }
    }

    /// Asks whoever is to be asked next for parts of a member's checkpoint, or gives up.
    pub(super) fn go_on_gathering(&mut self, member: MemberId) {
        while let Some(gathering) = self.gatherings.get_mut(&member) {
            let (number, holder) = match gathering.next(Instant::now()) {
                Next::Ask(number, holder) => (number, holder),
                Next::Wait => return,
                Next::Failed => {
                    let reason = gathering.failure().message;
                    self.gatherings.remove(&member);
                    let MemberId { rank, incarnation } = member;
                    return self.handle(Some(Input::FetchFailed { rank, incarnation, reason }));
                }
            };
            match self.connect(holder.address, Purpose::Fetch, Role::Fetching(member, number)) {
                Ok(token) => self.serve_connection(token),
                Err((reason, _)) => {
                    if let Some(gathering) = self.gatherings.get_mut(&member) {
                        gathering.failed(number, &reason);
                    }
                }
            }
        }
    }

    /// Drops the fetches of a member that is over.
    pub(super) fn drop_fetches(&mut self, member: MemberId) {
        self.gatherings.remove(&member);
        let gone: Vec<Token> = self
            .connections
            .iter()
            .filter(|(_, connection)| match &connection.role {
                Role::Fetching(whose, _) => *whose == member,
                Role::Results(results) => results.member == member,
                _ => false,
            })
            .map(|(token, _)| *token)
            .collect();
        for token in gone {
            self.remove(token);
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
        while moved < self.turn_bytes {
            match self.step(token) {
                Some(bytes) => moved += bytes,
                None => return,
            }
        }
        self.unfinished.insert(token);
    }

    /// Writes a little and reads a little: so many bytes. `None` when nothing more can be done before an event comes, or ever.
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

    /// Reads a frame or a part of one: so many bytes. `None` when there is nothing to be read, or the connection is of no more use.
    fn read(&mut self, token: Token) -> Option<usize> {
        let connection = self.connections.get_mut(&token)?;
        if connection.established {
            match connection.role {
                Role::Results(_) if self.plane.is_full() => {
                    if !self.results_paused.contains(&token) {
                        self.results_paused.push(token);
                    }
                    return None;
                }
                Role::Fetching(member, number) => match self.read_stripe(token, member, number) {
                    Stripe::Read(bytes) => return Some(bytes),
                    Stripe::Over => return None,
                    Stripe::Message => {}
                },
                _ => {}
            }
        }
        let connection = self.connections.get_mut(&token)?;
        match connection.link.receive() {
            Ok(Received::Pending) => return None,
            Ok(Received::Hello(hello)) => self.judge(token, hello),
            Ok(Received::Established) => self.established(token),
            Ok(Received::Refused(error)) => self.end(token, format!("refused: {}", error.message)),
            Ok(Received::Frame(header, payload)) => {
                self.take(token, header, &payload);
                return Some(HEADER_BYTES + payload.len());
            }
            Err(cause) => {
                if let (Role::Unknown, LinkError::Stranger(_) | LinkError::Incompatible(_)) = (&connection.role, &cause)
                {
                    let address = connection.link.peer_address().to_string();
                    self.stranger(address, cause.to_string());
                }
                self.end(token, cause.to_string());
            }
        }
        Some(0)
    }

    /// A frame that has come.
    fn take(&mut self, token: Token, header: Header, payload: &[u8]) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        match &mut connection.role {
            Role::Serving(serve) if header.kind == Kind::Control => {
                match serve.request(payload, &self.shared.store, &*self.plane, &mut connection.link) {
                    Ok(None) => {}
                    Ok(Some(wanted)) => self.make(wanted),
                    Err(error) => return self.end(token, error.message),
                }
                self.asked_to_serve();
            }
            Role::Serving(serve) => match serve.keep(header, payload, &self.shared.store, &mut connection.link) {
                Ok(None) => {}
                Ok(Some(kept)) => self.handle(Some(Input::Kept(kept))),
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
                        let progress = gathering.told(number, header.kind, payload, Instant::now());
                        self.gathered(token, member, progress);
                    }
                    None => drop(self.remove(token)),
                }
            }
            Role::Results(results) => match results.take(header, payload, &*self.plane, Instant::now()) {
                Ok(false) => {}
                Ok(true) => drop(self.remove(token)),
                Err(reason) => self.end(token, reason),
            },
            Role::Asking(question) => {
                question.answered(payload, &*self.plane);
                drop(self.remove(token));
            }
            Role::Unknown | Role::Making { .. } => {
                self.end(token, format!("unexpected frame of kind {:?}", header.kind));
            }
        }
    }

    /// Brings bytes of a checkpoint to where they belong.
    fn read_stripe(&mut self, token: Token, member: MemberId, number: u32) -> Stripe {
        let (Some(connection), Some(gathering)) = (self.connections.get_mut(&token), self.gatherings.get_mut(&member))
        else {
            self.remove(token);
            return Stripe::Over;
        };
        let read = match connection.link.next_header() {
            Ok(None) => return Stripe::Over,
            Ok(Some(header)) if header.kind != Kind::Bulk => return Stripe::Message,
            Ok(Some(header)) => match gathering.room(number, &header) {
                Ok(room) => connection.link.read_payload(room).map_err(|cause| cause.to_string()),
                Err(reason) => Err(reason),
            },
            Err(cause) => Err(cause.to_string()),
        };
        match read {
            Ok(0) => Stripe::Over,
            Ok(count) => {
                let progress = gathering.came(number, count, Instant::now());
                self.gathered(token, member, progress);
                Stripe::Read(count)
            }
            Err(reason) => {
                self.end(token, reason);
                Stripe::Over
            }
        }
    }

    /// What became of a stripe.
    fn gathered(&mut self, token: Token, member: MemberId, progress: Progress) {
        match progress {
            Progress::Wait => {}
            Progress::Failed(reason) => self.end(token, reason),
            Progress::Brought => {
                self.remove(token);
                self.go_on_gathering(member);
            }
            Progress::Done(bytes) => {
                self.remove(token);
                self.fetched(member, bytes);
            }
        }
    }

    /// Has an own model held by another process too.
    pub(super) fn copy(&mut self, checkpoint: Checkpoint, to: &AgentAddress) {
        let agent = to.agent;
        // The answer comes through the queue: the host may be in the middle of telling.
        let empty = (checkpoint.length == 0).then(bytes::Bytes::new);
        let Some(bytes) = self.shared.store.find(&checkpoint).or(empty) else {
            return self.shared.command(Command::CopyFailed { checkpoint, agent });
        };
        let role = Role::Copying(Box::new(Copy::new(checkpoint, agent, bytes)));
        match self.connect(to.address, Purpose::Fetch, role) {
            Ok(token) => self.serve_connection(token),
            Err((reason, _)) => {
                log::warn!("{} a copy of version {}: {reason}", self.shared.prefix(), checkpoint.version);
                self.shared.command(Command::CopyFailed { checkpoint, agent });
            }
        }
    }

    /// The other process has said what became of a copy.
    fn copied(&mut self, token: Token, said: &Said) {
        let Some(Connection { role: Role::Copying(copy), .. }) = self.remove(token) else { return };
        let (checkpoint, agent) = (copy.checkpoint, copy.to);
        match (said, checkpoint.owner) {
            (Said::Differs, Some(rank)) => {
                let text = format!(
                    "rank {rank}'s own model of version {} has other bytes than it had before (digest {:032x} now); training \
                     is not deterministic",
                    checkpoint.version, checkpoint.digest
                );
                let incarnation = self.members.get(&rank).and_then(|member| member.incarnation).unwrap_or_default();
                let error = Error::new(Code::Mismatch, text);
                self.handle(Some(Input::Broken { rank, incarnation, error }));
            }
            _ => self.handle(Some(Input::Copied { checkpoint, agent })),
        }
    }

    /// Has a checkpoint made or read, on a thread of its own: this one has heartbeats to send.
    fn make(&mut self, wanted: Checkpoint) {
        if !self.making.insert(wanted) {
            return;
        }
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new().name("rejoin-supplier".into()).spawn(move || {
            let made = shared.store.make(&wanted);
            shared.command(Command::Made { asked: wanted, made });
        });
        if let Err(cause) = thread {
            let made = Err(Error::new(Code::Io, format!("no thread for a supplier can be started: {cause}")));
            self.shared.command(Command::Made { asked: wanted, made });
        }
    }

    /// It is made, or can't be: whoever asked for it is served, or asks somebody else.
    pub(super) fn made(&mut self, asked: Checkpoint, made: &Result<(Checkpoint, bytes::Bytes), Error>) {
        self.making.remove(&asked);
        if let Err(error) = made {
            log::error!("{} checkpoint {} can't be given: {error}", self.shared.prefix(), asked.version);
        }
        let mut serving = Vec::new();
        for (token, connection) in &mut self.connections {
            if let Role::Serving(serve) = &mut connection.role {
                serve.made(&asked, made);
                serving.push(*token);
            }
        }
        for token in serving {
            self.serve_connection(token);
        }
    }

    /// The moment before the first byte goes out, for each rank that this process hosts.
    fn asked_to_serve(&mut self) {
        let hosted: Vec<_> = self.members.iter().filter_map(|(rank, m)| Some((*rank, m.incarnation?))).collect();
        for (rank, incarnation) in hosted {
            self.moment(rank, incarnation, Moment::Serving);
        }
    }

    /// Told and logged once; further ones are only counted, so that a port scanner can't fill a disk.
    fn stranger(&mut self, address: String, reason: String) {
        self.strangers += 1;
        if self.strangers == 1 {
            log::warn!("{} turned away {address}: {reason} (further ones are only counted)", self.shared.prefix());
            self.handle(Some(Input::Happened(Event::StrangerRefused { address, reason })));
        }
    }

    /// One who knows the secret, but is too late: each is told.
    fn outdated(&mut self, address: String, reason: String) {
        log::warn!("{} turned away {address}: {reason}", self.shared.prefix());
        self.handle(Some(Input::Happened(Event::StrangerRefused { address, reason })));
    }

    /// An authenticated agent says what it wants.
    fn judge(&mut self, token: Token, hello: Hello) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        match hello.purpose {
            Purpose::Fetch => {
                connection.role = Role::Serving(Box::default());
                connection.established = true;
                connection.link.admit();
            }
            // Seen from the other side: its rank is our peer.
            Purpose::Data { rank: peer, incarnation: theirs, peer: rank, peer_incarnation: own, .. } => {
                match self.links.fits(rank, own, peer, theirs) {
                    Ok(()) => {
                        connection.link.admit();
                        self.hand_over(token, MemberId { rank, incarnation: own }, peer, theirs);
                    }
                    Err(Misfit::NotYet(reason)) => {
                        connection.link.refuse(Error::new(Code::TimedOut, format!("not yet: {reason}")));
                    }
                    Err(Misfit::Outdated(reason)) => {
                        connection.link.refuse(Error::new(Code::Fenced, reason.clone()));
                        let address = connection.link.peer_address().to_string();
                        self.outdated(address, reason);
                    }
                }
            }
            Purpose::Tracker => connection.link.refuse(Error::new(
                Code::BadArgument,
                "an agent was connected to as if it were the tracker; the tracker's address is wrong",
            )),
        }
    }

    fn established(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        connection.established = true;
        match &connection.role {
            Role::Making { member, peer, peer_incarnation } => {
                let (member, peer, theirs) = (*member, *peer, *peer_incarnation);
                self.hand_over(token, member, peer, theirs);
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
            Role::Unknown | Role::Serving(_) => {}
        }
    }

    /// Gives a data link that stands to the plane.
    fn hand_over(&mut self, token: Token, member: MemberId, peer: Rank, theirs: Incarnation) {
        let Some(mut connection) = self.remove(token) else { return };
        if let Err(cause) = connection.link.flush() {
            log::debug!("{} link to rank {peer}: {cause}", self.shared.prefix_of(member.rank));
        }
        if self.links.up(member, peer, theirs) {
            self.plane.link(member.rank, member.incarnation, peer, theirs, connection.link);
        }
    }

    fn fetched(&mut self, member: MemberId, bytes: bytes::Bytes) {
        let Some(gathering) = self.gatherings.remove(&member) else { return };
        let MemberId { rank, incarnation } = member;
        let millis = gathering.began.elapsed().as_millis() as u64;
        let source = gathering.source(self.agent);
        match self.shared.store.put(gathering.checkpoint, bytes) {
            Ok(()) => self.handle(Some(Input::Fetched { rank, incarnation, source, millis })),
            Err(error) => self.handle(Some(Input::Broken { rank, incarnation, error })),
        }
    }

    /// A connection is of no more use.
    fn end(&mut self, token: Token, reason: String) {
        let Some(connection) = self.remove(token) else { return };
        match connection.role {
            Role::Unknown | Role::Serving(_) => {}
            Role::Making { member, peer, peer_incarnation } => {
                self.link_try_failed(member, peer, peer_incarnation, token, reason)
            }
            Role::Copying(copy) => {
                log::warn!("{} a copy of version {}: {reason}", self.shared.prefix(), copy.checkpoint.version);
                let (checkpoint, agent) = (copy.checkpoint, copy.to);
                self.handle(Some(Input::CopyFailed { checkpoint, agent }));
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
            Role::Asking(question) => question.unanswered(&*self.plane),
        }
    }

    pub(super) fn connection_deadlines(&mut self, now: Instant) {
        for connection in self.connections.values_mut() {
            if let Role::Serving(serve) = &mut connection.role {
                serve.tell_coming(&mut connection.link, now);
                // A link that has failed is found so when its end is read.
                let _ = connection.link.flush();
            }
        }
        let is_late = |heard: Instant| now > heard + fetch::PATIENCE;
        let late: Vec<(Token, String)> = self
            .connections
            .iter()
            .filter_map(|(token, connection)| match &connection.role {
                Role::Fetching(member, number)
                    if self
                        .gatherings
                        .get(member)
                        .and_then(|gathering| gathering.heard(*number))
                        .is_some_and(is_late) =>
                {
                    Some((*token, format!("silent for {} s", fetch::PATIENCE.as_secs())))
                }
                Role::Copying(copy) if now > copy.heard + fetch::PATIENCE => {
                    Some((*token, format!("silent for {} s", fetch::PATIENCE.as_secs())))
                }
                Role::Results(results) if now > results.heard + fetch::PATIENCE => {
                    Some((*token, format!("silent for {} s", fetch::PATIENCE.as_secs())))
                }
                Role::Asking(_) if now > connection.began + fetch::PATIENCE => {
                    Some((*token, format!("silent for {} s", fetch::PATIENCE.as_secs())))
                }
                _ if !connection.established && now > connection.began + HANDSHAKE => {
                    Some((*token, format!("no handshake within {} s", HANDSHAKE.as_secs())))
                }
                _ => None,
            })
            .collect();
        for (token, reason) in late {
            self.end(token, reason);
        }
        self.accept();
    }
}
