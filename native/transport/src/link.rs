//! One connection between two processes of a job.

use crate::cipher::Cipher;
use crate::handshake::{Handshake, HandshakeStep, INPUT_LIMIT};
use crate::input::{self, Filled, Input};
use crate::output::{self, Output};
use crate::silence::Silence;
use crate::{Hello, Keys, LinkError, Purpose};
use bytes::{Bytes, BytesMut};
use mio::net::TcpStream;
use rejoin_protocol::error::Error;
use rejoin_protocol::wire::{self, Header, PAYLOAD_LIMIT};
use serde::Serialize;
use snow::TransportState;
use socket2::{SockRef, TcpKeepalive};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// What the kernel takes for the tracker beyond what is on its way.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNSENT_BYTES: u32 = 1 << 20;

/// What [`Link::receive`] came to.
#[derive(Debug)]
pub enum Received {
    /// Nothing more until the socket is readable again (or writable, during the handshake).
    Pending,
    /// Acceptor, once: a process of the job, proven and fresh, waits for [`Link::admit`] or [`Link::refuse`].
    Hello(Hello),
    /// Initiator, once: the acceptor has admitted the link.
    Established,
    /// Initiator, once: the acceptor doesn't want the link, and says why. The link is over.
    Refused(Error),
    /// One whole frame: header and payload.
    Frame(Header, Bytes),
}

/// What [`Link::flush`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// Everything was given to the kernel (or the link isn't established, and frames wait for that).
    Done,
    /// The kernel's buffer is full: go on when the socket is writable.
    Blocked,
}

enum Stage {
    /// The initiator's TCP connection isn't made.
    Connecting(Box<Shaking>),
    Shaking(Box<Shaking>),
    /// Acceptor: [`Received::Hello`] was given, the verdict is not.
    Deciding(Box<Shaking>),
    Open(Box<Input>, Option<Box<Cipher>>),
    /// Refused, failed, or ended.
    Over,
}

/// What is needed only during the handshake.
struct Shaking {
    handshake: Handshake,
    input: BytesMut,
}

/// A framed connection that began with a mutual proof of the job's secret.
///
/// Never blocks. Read with [`Link::receive`], or with [`Link::next_header`] and [`Link::take`]; write with
/// [`Link::send`] and [`Link::flush`]. Its socket is nonblocking; events of a [`mio::Poll`] are edges, so read until
/// [`Received::Pending`] (or `None`) and flush until [`Flushed::Done`], or remember that there is more.
///
/// A reader that stops reading holds the sender back: nothing is read from the socket while a whole frame lies here
/// unread. Memory: a link holds at most one long frame and one buffer of 256 KiB that isn't read, and what was sent and
/// not flushed ([`Link::queued_bytes`]).
///
/// Every error is final, but for one: when [`Link::flush`] fails with [`LinkError::Io`], the other
/// end's last words may have arrived, and [`Link::receive`] still gives them before it fails too.
/// How long a handshake may take is for the driver to watch ([`Received::Established`]).
pub struct Link {
    socket: TcpStream,
    silence: Silence,
    peer: SocketAddr,
    hello: Option<Hello>,
    stage: Stage,
    output: Output,
    /// Found by a call that can't say so: returned by the next one that can.
    failed: Option<LinkError>,
    /// Sending has failed. What came before that can still be read.
    unwritable: bool,
}

impl Link {
    /// Starts making a link. Go on with [`Link::receive`] when the socket is writable.
    ///
    /// Encryption is set in `hello` when the keys or the purpose demand it.
    ///
    /// # Errors
    /// When the socket can't be made, or the address can't be reached at all. That nothing listens there comes later,
    /// from [`Link::receive`].
    pub fn connect(address: SocketAddr, keys: &Keys, mut hello: Hello) -> io::Result<Link> {
        hello.encrypt |= Hello::must_encrypt(hello.purpose, keys.encrypt);
        let mut output = Output::default();
        let handshake = Handshake::initiate(keys, &hello, &mut output.wire).map_err(io::Error::other)?;
        let socket = TcpStream::connect(address)?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if hello.purpose == Purpose::Tracker {
            // A heartbeat can't overtake what the kernel has: so it takes no more of a long result
            // than the network is short of.
            SockRef::from(&socket).set_tcp_notsent_lowat(UNSENT_BYTES)?;
        }
        Link::new(socket, address, Some(hello), output, handshake, Stage::Connecting)
    }

    /// Starts the acceptor's side on a connection that a [`crate::Listener`] gave.
    ///
    /// # Errors
    /// When the connection is gone already.
    pub fn accept(stream: TcpStream, keys: &Keys) -> io::Result<Link> {
        let peer = stream.peer_addr()?;
        let handshake = Handshake::respond(keys).map_err(io::Error::other)?;
        Link::new(stream, peer, None, Output::default(), handshake, Stage::Shaking)
    }

    fn new(
        socket: TcpStream,
        peer: SocketAddr,
        hello: Option<Hello>,
        output: Output,
        handshake: Handshake,
        stage: fn(Box<Shaking>) -> Stage,
    ) -> io::Result<Link> {
        let options = SockRef::from(&socket);
        options.set_tcp_nodelay(true)?;
        // Silent ends are found by heartbeats. This is for links without any: it finds them in half a minute, but only
        // while nothing is on its way to them. For the rest see [`Link::is_out_of_reach`].
        options.set_tcp_keepalive(
            &TcpKeepalive::new()
                .with_time(Duration::from_secs(15))
                .with_interval(Duration::from_secs(5))
                .with_retries(3),
        )?;
        let stage = stage(Box::new(Shaking { handshake, input: BytesMut::with_capacity(INPUT_LIMIT) }));
        let silence = Silence::default();
        Ok(Link { socket, silence, peer, hello, stage, output, failed: None, unwritable: false })
    }

    /// From now on a silent end is found in about this time, at least a second: for a link without heartbeats of its
    /// own. What was sent and isn't taken counts, too, which keepalive alone doesn't find.
    ///
    /// # Errors
    /// When the connection is gone already.
    pub fn set_silence_limit(&self, limit: Duration) -> io::Result<()> {
        let options = SockRef::from(&self.socket);
        let keepalive = TcpKeepalive::new().with_time(limit / 2).with_interval(limit / 4).with_retries(2);
        options.set_tcp_keepalive(&keepalive)?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        options.set_tcp_user_timeout(Some(limit))?;
        Ok(())
    }

    /// Why a link is given up that [`Link::is_out_of_reach`].
    pub const OUT_OF_REACH: &'static str = "the other host has answered nothing for 30 s: packets between the two \
                                            hosts are dropped (a firewall, a route), or that host is frozen";

    /// Whether nothing at all has come from the other end's kernel for 30 s, though it was asked. For
    /// who waits for the other end, and looks each second at least; of a longer pause no more than
    /// that counts. A process that is frozen, or has no room for what it is sent, is within reach.
    pub fn is_out_of_reach(&mut self, now: Instant) -> bool {
        self.silence.look(&self.socket, now)
    }

    /// The socket, to register it. Deregister it from one [`mio::Poll`] before registering it with another.
    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Address of the other end.
    pub fn peer_address(&self) -> SocketAddr {
        self.peer
    }

    /// Acceptor: whether the initiator has said a first message that only a process of the job
    /// could have made. It may be a recording of one until [`Received::Hello`].
    pub fn has_spoken(&self) -> bool {
        match &self.stage {
            Stage::Shaking(shaking) | Stage::Deciding(shaking) => shaking.handshake.has_spoken(),
            _ => false,
        }
    }

    /// Whether frames are encrypted (or, before the link is established, will be).
    pub fn is_encrypted(&self) -> bool {
        self.hello.is_some_and(|hello| hello.encrypt)
    }

    /// Goes on with the handshake, and then gives one frame after the other. Call it when the socket is readable or
    /// writable, until it says [`Received::Pending`].
    ///
    /// # Errors
    /// The link is over; see [`LinkError`].
    pub fn receive(&mut self) -> Result<Received, LinkError> {
        self.check()?;
        let result = match self.stage {
            Stage::Connecting(_) | Stage::Shaking(_) => self.shake(),
            Stage::Deciding(_) => Ok(Received::Pending),
            Stage::Open(..) => {
                return Ok(match self.take()? {
                    Some((header, payload)) => Received::Frame(header, payload),
                    None => Received::Pending,
                })
            }
            Stage::Over => Err(LinkError::Closed),
        };
        if result.is_err() {
            self.end();
        }
        result
    }

    /// The next frame's header, left where it is; `None` when it hasn't come yet. It is there before its payload is.
    /// As long as it isn't taken, no more is read, and the sender is held back.
    ///
    /// # Errors
    /// The link is over; see [`LinkError`]. Nothing is given, and nothing fails, before the link is established.
    pub fn next_header(&mut self) -> Result<Option<Header>, LinkError> {
        self.read_until(Input::header)
    }

    /// The next frame when it is there as a whole. Its payload is a part of the buffer it was read into: holding a
    /// small one for long holds 256 KiB or more.
    ///
    /// # Errors
    /// The link is over; see [`LinkError`]. Nothing is given, and nothing fails, before the link is established.
    pub fn take(&mut self) -> Result<Option<(Header, Bytes)>, LinkError> {
        self.read_until(Input::frame)
    }

    /// Like [`Link::take`], but a `Data` frame that isn't there as a whole is given in parts, each with a header of its
    /// own, as they come.
    ///
    /// # Errors
    /// The link is over; see [`LinkError`]. Nothing is given, and nothing fails, before the link is established.
    pub fn take_part(&mut self) -> Result<Option<(Header, Bytes)>, LinkError> {
        self.read_until(Input::part)
    }

    /// Brings bytes of the payload of the header that [`Link::next_header`] gave into `room`; how
    /// many, or 0 when none are there now. Without encryption they aren't copied on the way. When
    /// the payload has come whole, the next header may come; a payload without bytes has to be
    /// skipped ([`Link::skip_payload`]).
    ///
    /// # Errors
    /// The link is over; see [`LinkError`].
    pub fn read_payload(&mut self, room: &mut [u8]) -> Result<usize, LinkError> {
        self.check()?;
        let (input, cipher) = match &mut self.stage {
            Stage::Open(input, cipher) => (input, cipher),
            Stage::Over => return Err(LinkError::Closed),
            _ => return Ok(0),
        };
        let result = match input.payload(room, &SockRef::from(&self.socket), cipher.as_deref_mut()) {
            Ok((0, Filled::End)) => Err(ended(input)),
            Ok((count, _)) => return Ok(count),
            Err(error) => Err(error),
        };
        self.end();
        result
    }

    /// Drops the rest of the payload of the header that [`Link::next_header`] gave, as far as it
    /// has come. Whether that was all.
    ///
    /// # Errors
    /// The link is over; see [`LinkError`].
    pub fn skip_payload(&mut self) -> Result<bool, LinkError> {
        Ok(self.read_until(Input::skip)?.is_some())
    }

    /// Whether all that was read is taken, the last read has emptied the socket, and no event has come since
    /// ([`Link::refilled`]): a read would give nothing. Not to be trusted once an event said that the other end closes,
    /// since that makes no further event.
    pub fn is_empty(&self) -> bool {
        matches!(&self.stage, Stage::Open(input, _) if input.is_empty())
    }

    /// The poll says that there is something to be read.
    pub fn refilled(&mut self) {
        if let Stage::Open(input, _) = &mut self.stage {
            input.refilled();
        }
    }

    /// The acceptor's verdict after [`Received::Hello`]: the link stands, frames may follow at once.
    pub fn admit(&mut self) {
        let Stage::Deciding(mut shaking) = std::mem::replace(&mut self.stage, Stage::Over) else {
            return self.misused("admit without a hello that waits");
        };
        match shaking.handshake.admit(&mut self.output.wire) {
            Ok(Some(keys)) => self.open(shaking.input, keys),
            Ok(None) => self.misused("admit without a hello that waits"),
            Err(error) => self.failed = Some(error),
        }
        self.flush_wire();
    }

    /// The acceptor's verdict after [`Received::Hello`]: the link isn't wanted. The initiator gets the error (its text
    /// cut to 4032 bytes). After this only drop the link: the verdict has been given to the kernel.
    pub fn refuse(&mut self, error: Error) {
        let Stage::Deciding(mut shaking) = std::mem::replace(&mut self.stage, Stage::Over) else {
            return self.misused("refuse without a hello that waits");
        };
        if let Err(error) = shaking.handshake.refuse(error, &mut self.output.wire) {
            self.failed = Some(error);
        }
        self.flush_wire();
    }

    /// Queues a frame; [`Link::flush`] sends it, not before the link is established. `header.length` is set here. The
    /// payload isn't copied (but for encryption). More than [`PAYLOAD_LIMIT`] bytes are a defect of the caller, and end
    /// the link.
    pub fn send(&mut self, mut header: Header, payload: Bytes) {
        if self.unwritable || matches!(self.stage, Stage::Over) {
            return;
        }
        match u32::try_from(payload.len()) {
            Ok(_) if self.output.owed() > 0 => self.misused("a frame within another one"),
            Ok(length) if length <= PAYLOAD_LIMIT => {
                header.length = length;
                self.output.push(&header, payload);
            }
            _ => self.misused(&format!("a payload of {} bytes; at most {PAYLOAD_LIMIT} are allowed", payload.len())),
        }
    }

    /// Begins a frame whose payload is these parts, one after the other, behind all that is queued.
    /// Returns how many bytes of the payload are gone: those that the kernel took at once, and
    /// nothing was copied, or all of them, when they had to be encrypted or queued. The others are
    /// owed ([`Link::owed`]): they have to follow by [`Link::send_rest`], before anything else is
    /// sent. `header.length` is set here.
    ///
    /// # Errors
    /// As [`Link::flush`].
    pub fn send_parts(&mut self, mut header: Header, parts: &[&[u8]]) -> Result<usize, LinkError> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let is_direct = matches!(self.stage, Stage::Open(_, None)) && self.output.is_empty() && !self.unwritable;
        if !is_direct || length > PAYLOAD_LIMIT as usize || self.failed.is_some() {
            self.send(header, output::joined(parts));
            return self.flush().map(|_| length);
        }
        header.length = length as u32;
        let sent = self.output.send_parts(&SockRef::from(&self.socket), &header, parts);
        self.took(sent)
    }

    /// Goes on with the frame of which bytes are owed; `parts` are the next ones, not more than are
    /// owed. Returns how many the kernel took.
    ///
    /// # Errors
    /// As [`Link::flush`].
    pub fn send_rest(&mut self, parts: &[&[u8]]) -> Result<usize, LinkError> {
        self.check()?;
        if self.unwritable {
            return Err(LinkError::Closed);
        }
        let sent = self.output.send_rest(&SockRef::from(&self.socket), parts);
        self.took(sent)
    }

    /// Bytes of a begun frame that have to follow.
    pub fn owed(&self) -> usize {
        self.output.owed()
    }

    /// What is owed isn't wanted any more: zeros go in its place.
    pub fn give_up_frame(&mut self) {
        self.output.pad();
    }

    fn took(&mut self, sent: io::Result<usize>) -> Result<usize, LinkError> {
        sent.map_err(|cause| {
            self.unwritable = true;
            self.output = Output::default();
            LinkError::Io(cause)
        })
    }

    /// Queues a control frame with this message.
    pub fn send_message<T: Serialize>(&mut self, message: &T) {
        self.send(Header::control(0), Bytes::from(wire::encode(message)));
    }

    /// Sends what is queued. Call it after [`Link::send`], and when the socket is writable after [`Flushed::Blocked`].
    ///
    /// # Errors
    /// The link is over; see [`LinkError`]. What is queued is dropped. What the other end said before it went may still
    /// be received: it matters where that says how a job ended, for instance.
    pub fn flush(&mut self) -> Result<Flushed, LinkError> {
        self.check()?;
        if self.unwritable {
            return Err(LinkError::Closed);
        }
        let socket = SockRef::from(&self.socket);
        let result = match &mut self.stage {
            Stage::Open(_, cipher) => self.output.flush(&socket, cipher.as_deref_mut()),
            Stage::Connecting(_) => Ok(true),
            Stage::Shaking(_) | Stage::Deciding(_) => self.output.flush_wire(&socket).map_err(LinkError::Io),
            Stage::Over => Err(LinkError::Closed),
        };
        match result {
            Ok(true) => Ok(Flushed::Done),
            Ok(false) => Ok(Flushed::Blocked),
            Err(error) => {
                if matches!((&self.stage, &error), (Stage::Open(..), LinkError::Io(_))) {
                    self.unwritable = true;
                    self.output = Output::default();
                } else {
                    self.end();
                }
                Err(error)
            }
        }
    }

    /// Bytes, with headers, that were sent and not yet given to the kernel.
    pub fn queued_bytes(&self) -> usize {
        self.output.queued_bytes()
    }

    /// Ends the link at once, with a reset: what the kernel still holds is dropped, and the other end gets an error
    /// rather than an end. Dropping a link is the gentle way.
    pub fn reset(self) {
        crate::reset(&self.socket);
    }

    fn shake(&mut self) -> Result<Received, LinkError> {
        if matches!(self.stage, Stage::Connecting(_)) && !self.is_connected()? {
            return Ok(Received::Pending);
        }
        let shaking = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Connecting(shaking) | Stage::Shaking(shaking) => shaking,
            other => {
                self.stage = other;
                return Ok(Received::Pending);
            }
        };
        self.stage = Stage::Shaking(shaking);
        loop {
            let Stage::Shaking(shaking) = &mut self.stage else { return Ok(Received::Pending) };
            let step = shaking.handshake.advance(&mut shaking.input, &mut self.output.wire);
            let socket = SockRef::from(&self.socket);
            // After a failed step too: the other end is sent our version. A failure to send shows in the reading.
            let sent = self.output.flush_wire(&socket);
            match step? {
                HandshakeStep::More => {
                    if let Err(error) = sent {
                        return Err(in_handshake(error));
                    }
                }
                HandshakeStep::Greeted(hello) => {
                    self.hello = Some(hello);
                    if let Stage::Shaking(shaking) = std::mem::replace(&mut self.stage, Stage::Over) {
                        self.stage = Stage::Deciding(shaking);
                    }
                    return Ok(Received::Hello(hello));
                }
                HandshakeStep::Admitted(keys) => {
                    if let Stage::Shaking(shaking) = std::mem::replace(&mut self.stage, Stage::Over) {
                        self.open(shaking.input, keys);
                    }
                    return Ok(Received::Established);
                }
                HandshakeStep::Refused(error) => {
                    self.stage = Stage::Over;
                    return Ok(Received::Refused(error));
                }
            }
            let room = shaking.input.capacity() - shaking.input.len();
            match input::read(&socket, &mut shaking.input, room) {
                Ok(Filled::More) => {}
                Ok(Filled::Blocked) => return Ok(Received::Pending),
                Ok(Filled::End) => return Err(LinkError::ClosedInHandshake),
                Err(error) => return Err(in_handshake(error)),
            }
        }
    }

    /// Whether the initiator's TCP connection stands now.
    fn is_connected(&self) -> Result<bool, LinkError> {
        if let Some(error) = self.socket.take_error()? {
            return Err(LinkError::Io(io::Error::new(error.kind(), format!("connecting to {}: {error}", self.peer))));
        }
        match self.socket.peer_addr() {
            // A connection to a port where nothing listens can, by chance of the local port, meet itself.
            Ok(peer) if self.socket.local_addr().is_ok_and(|local| local == peer) => {
                Err(LinkError::Io(io::Error::new(
                    io::ErrorKind::ConnectionRefused,
                    format!("connecting to {}: nothing listens there", self.peer),
                )))
            }
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(false),
            Err(error) => Err(LinkError::Io(error)),
        }
    }

    fn open(&mut self, start: BytesMut, keys: TransportState) {
        let cipher = self.is_encrypted().then(|| Box::new(Cipher::new(keys)));
        self.stage = Stage::Open(Box::new(Input::new(start, cipher.is_some())), cipher);
    }

    /// Reads until `wanted` gives something or nothing more is there.
    fn read_until<T>(
        &mut self,
        wanted: impl Fn(&mut Input) -> Result<Option<T>, LinkError>,
    ) -> Result<Option<T>, LinkError> {
        self.check()?;
        let (input, cipher) = match &mut self.stage {
            Stage::Open(input, cipher) => (input, cipher),
            Stage::Over => return Err(LinkError::Closed),
            _ => return Ok(None),
        };
        let socket = SockRef::from(&self.socket);
        let result = loop {
            match wanted(input) {
                Ok(None) => {}
                given => break given,
            }
            match input.fill(&socket, cipher.as_deref_mut()) {
                Ok(Filled::More) => {}
                Ok(Filled::Blocked) => break Ok(None),
                Ok(Filled::End) => break Err(ended(input)),
                Err(error) => break Err(error),
            }
        };
        if result.is_err() {
            self.end();
        }
        result
    }

    /// Sends what is ready, for calls that can't fail; a failure is returned by the next call that can.
    fn flush_wire(&mut self) {
        if let Err(error) = self.output.flush_wire(&SockRef::from(&self.socket)) {
            self.failed.get_or_insert(LinkError::Io(error));
        }
    }

    /// A defect of the caller, which must not become a wrong byte on the wire.
    fn misused(&mut self, how: &str) {
        let error = io::Error::new(io::ErrorKind::InvalidInput, format!("{how} (a defect in Rejoin)"));
        self.failed.get_or_insert(LinkError::Io(error));
    }

    fn check(&mut self) -> Result<(), LinkError> {
        match self.failed.take() {
            Some(error) => {
                self.end();
                Err(error)
            }
            None => Ok(()),
        }
    }

    /// After an error: nothing more goes out or comes in, and what it held is given back.
    fn end(&mut self) {
        self.stage = Stage::Over;
        self.output = Output::default();
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Connecting(_) => "connecting",
            Stage::Shaking(_) => "in handshake",
            Stage::Deciding(_) => "awaiting the verdict",
            Stage::Open(_, None) => "established",
            Stage::Open(_, Some(_)) => "established, encrypted",
            Stage::Over => "over",
        };
        f.debug_struct("Link")
            .field("peer", &self.peer)
            .field("hello", &self.hello)
            .field("stage", &stage)
            .field("queued_bytes", &self.queued_bytes())
            .finish()
    }
}

/// The stream has come to its end.
fn ended(input: &Input) -> LinkError {
    if input.is_within_frame() {
        let text = "the other end closed it in the middle of a frame";
        return LinkError::Io(io::Error::new(io::ErrorKind::UnexpectedEof, text));
    }
    LinkError::Closed
}

/// The other end went away: strangers are given no reason.
fn in_handshake(error: io::Error) -> LinkError {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => LinkError::ClosedInHandshake,
        _ => LinkError::Io(error),
    }
}
