//! The mutual proof at the start of a link, as a state machine over bytes (see the crate's text).

use crate::cipher::{message_length, LENGTH_BYTES, TAG_BYTES};
use crate::{Hello, JobId, Keys, LinkError};
use bytes::{Buf, BytesMut};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::wire::{self, WIRE_VERSION};
use serde::{Deserialize, Serialize};
use snow::{Builder, HandshakeState, TransportState};

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
const MAGIC: &[u8] = b"RJN";
const PREAMBLE_BYTES: usize = 8;

/// Most bytes of a handshake message, but for the verdict.
const MESSAGE_LIMIT: usize = 512;

/// Most bytes of the verdict.
const VERDICT_LIMIT: usize = 4096;

/// Most bytes of an error's text in a verdict: room is left for what is around it.
const TEXT_LIMIT: usize = VERDICT_LIMIT - 64;

/// Bytes of everything that the other end may send before the link is established. A buffer of this size never has
/// to grow: when it is full, all that the handshake needs is in it.
pub(crate) const INPUT_LIMIT: usize = PREAMBLE_BYTES + LENGTH_BYTES + MESSAGE_LIMIT + LENGTH_BYTES + VERDICT_LIMIT;

/// The acceptor's answer.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Verdict {
    Admitted,
    Refused(Error),
}

/// Where a handshake has come to.
pub(crate) enum HandshakeStep {
    /// More bytes are needed.
    More,
    /// Acceptor: the initiator has proven itself and waits for [`Handshake::admit`] or [`Handshake::refuse`].
    Greeted(Hello),
    /// Initiator: the link stands; these are its keys.
    Admitted(TransportState),
    /// Initiator: the acceptor doesn't want the link.
    Refused(Error),
}

enum State {
    /// Initiator: message 2 is awaited.
    Reply(HandshakeState),
    /// Initiator: the verdict is awaited.
    Verdict(TransportState),
    /// Acceptor: message 1 is awaited.
    Hello(HandshakeState),
    /// Acceptor: the proof of freshness is awaited.
    Confirm(TransportState, Hello),
    /// Acceptor: its driver decides.
    Deciding(TransportState),
    Over,
}

/// One end's handshake. Takes bytes from one buffer and puts bytes into another.
pub(crate) struct Handshake {
    state: State,
    greeted: bool,
    /// Whether this end lets no plain links in.
    encrypt: bool,
}

impl Handshake {
    /// The initiator's; its first bytes go into `out`.
    pub(crate) fn initiate(keys: &Keys, hello: &Hello, out: &mut BytesMut) -> Result<Self, LinkError> {
        Handshake::say(keys, &wire::encode(hello), out)
    }

    /// The initiator's with these bytes in the place of its hello.
    pub(crate) fn say(keys: &Keys, hello: &[u8], out: &mut BytesMut) -> Result<Self, LinkError> {
        let mut noise = noise(keys, true)?;
        out.extend_from_slice(&preamble());
        write(out, hello, |payload, message| noise.write_message(payload, message))?;
        Ok(Handshake { state: State::Reply(noise), greeted: false, encrypt: keys.encrypt })
    }

    /// The acceptor's. It says nothing before the other end has proven to be of the job.
    pub(crate) fn respond(keys: &Keys) -> Result<Self, LinkError> {
        Ok(Handshake { state: State::Hello(noise(keys, false)?), greeted: false, encrypt: keys.encrypt })
    }

    /// Acceptor: whether the first message has come and was right.
    pub(crate) fn has_spoken(&self) -> bool {
        matches!(self.state, State::Confirm(..) | State::Deciding(_))
    }

    /// Goes on as far as `input` allows.
    ///
    /// After an error `out` may hold something that the other end should still be sent.
    pub(crate) fn advance(&mut self, input: &mut BytesMut, out: &mut BytesMut) -> Result<HandshakeStep, LinkError> {
        if !self.greeted {
            if !self.check_preamble(input, out)? {
                return Ok(HandshakeStep::More);
            }
            self.greeted = true;
        }
        loop {
            if matches!(self.state, State::Deciding(_) | State::Over) {
                return Ok(HandshakeStep::More);
            }
            let limit = if matches!(self.state, State::Verdict(_)) { VERDICT_LIMIT } else { MESSAGE_LIMIT };
            let Some(message) = whole_message(input, limit)? else { return Ok(HandshakeStep::More) };
            let mut clear = [0; VERDICT_LIMIT];
            match std::mem::replace(&mut self.state, State::Over) {
                State::Reply(mut noise) => {
                    noise.read_message(&message, &mut clear).map_err(|cause| reply_not_ours(&cause))?;
                    let mut keys = noise.into_transport_mode().map_err(broken)?;
                    write(out, &[], |payload, message| keys.write_message(payload, message))?;
                    self.state = State::Verdict(keys);
                }
                State::Hello(mut noise) => {
                    let length = noise.read_message(&message, &mut clear).map_err(|cause| hello_not_ours(&cause))?;
                    let hello: Hello = wire::decode(&clear[..length]).map_err(LinkError::Incompatible)?;
                    out.extend_from_slice(&preamble());
                    write(out, &[], |payload, message| noise.write_message(payload, message))?;
                    self.state = State::Confirm(noise.into_transport_mode().map_err(broken)?, hello);
                }
                State::Confirm(mut keys, hello) => {
                    keys.read_message(&message, &mut clear).map_err(|cause| not_fresh(&cause))?;
                    self.state = State::Deciding(keys);
                    if Hello::must_encrypt(hello.purpose, self.encrypt) && !hello.encrypt {
                        let error = plain_not_wanted(&hello);
                        self.refuse(error.clone(), out)?;
                        return Err(LinkError::Incompatible(error));
                    }
                    return Ok(HandshakeStep::Greeted(hello));
                }
                State::Verdict(mut keys) => {
                    let length = keys.read_message(&message, &mut clear).map_err(|cause| reply_not_ours(&cause))?;
                    return match wire::decode(&clear[..length]).map_err(LinkError::Incompatible)? {
                        Verdict::Admitted => Ok(HandshakeStep::Admitted(keys)),
                        Verdict::Refused(error) => Ok(HandshakeStep::Refused(error)),
                    };
                }
                State::Deciding(_) | State::Over => return Ok(HandshakeStep::More),
            }
        }
    }

    /// The acceptor lets the link stand; these are its keys. `None` when no end waits for a verdict.
    pub(crate) fn admit(&mut self, out: &mut BytesMut) -> Result<Option<TransportState>, LinkError> {
        self.tell(&wire::encode(&Verdict::Admitted), out)
    }

    /// The acceptor doesn't want the link. A text too long for a verdict is cut.
    pub(crate) fn refuse(&mut self, mut error: Error, out: &mut BytesMut) -> Result<(), LinkError> {
        if error.message.len() > TEXT_LIMIT {
            error.message.truncate(error.message.floor_char_boundary(TEXT_LIMIT));
        }
        self.tell(&wire::encode(&Verdict::Refused(error)), out).map(|_| ())
    }

    /// Says these bytes as the verdict.
    pub(crate) fn tell(&mut self, verdict: &[u8], out: &mut BytesMut) -> Result<Option<TransportState>, LinkError> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Deciding(mut keys) => {
                write(out, verdict, |payload, message| keys.write_message(payload, message))?;
                Ok(Some(keys))
            }
            other => {
                self.state = other;
                Ok(None)
            }
        }
    }

    /// Whether the preamble is there and right. A byte that can't be one is refused as soon as it is there.
    fn check_preamble(&mut self, input: &mut BytesMut, out: &mut BytesMut) -> Result<bool, LinkError> {
        let seen = &input[..input.len().min(MAGIC.len())];
        if seen != &MAGIC[..seen.len()] {
            return Err(LinkError::Stranger(format!(
                "expected a Rejoin process (first bytes {MAGIC:02x?}), saw {:02x?}: something else uses this port",
                &input[..input.len().min(PREAMBLE_BYTES)]
            )));
        }
        let Some(&[_, _, _, low, high, rest @ ..]) = input.first_chunk::<PREAMBLE_BYTES>() else { return Ok(false) };
        let version = u16::from_le_bytes([low, high]);
        if version != WIRE_VERSION {
            if matches!(self.state, State::Hello(_)) {
                // The acceptor is silent until here, so that the initiator can't know why it is refused.
                out.extend_from_slice(&preamble());
            }
            return Err(LinkError::Incompatible(Error::new(
                Code::Incompatible,
                format!(
                    "expected wire version {WIRE_VERSION}, saw {version}: the two sides have other versions of Rejoin \
                     (jars on driver and executors; launcher and library); use one everywhere"
                ),
            )));
        }
        if rest != [0; 3] {
            return Err(LinkError::Stranger(format!("expected three zeros after the wire version, saw {rest:02x?}")));
        }
        input.advance(PREAMBLE_BYTES);
        Ok(true)
    }
}

fn preamble() -> [u8; PREAMBLE_BYTES] {
    let [low, high] = WIRE_VERSION.to_le_bytes();
    [MAGIC[0], MAGIC[1], MAGIC[2], low, high, 0, 0, 0]
}

fn prologue(job: &JobId) -> Vec<u8> {
    [b"rejoin".as_slice(), &WIRE_VERSION.to_le_bytes(), &job.0].concat()
}

fn noise(keys: &Keys, initiator: bool) -> Result<HandshakeState, LinkError> {
    let prologue = prologue(&keys.job);
    let builder = Builder::new(PATTERN.parse().map_err(broken)?)
        .psk(0, keys.secret.expose())
        .and_then(|builder| builder.prologue(&prologue))
        .map_err(broken)?;
    if initiator { builder.build_initiator() } else { builder.build_responder() }.map_err(broken)
}

/// Takes the first message off `input` if it is there as a whole.
fn whole_message(input: &mut BytesMut, limit: usize) -> Result<Option<BytesMut>, LinkError> {
    let Some(length) = message_length(input) else { return Ok(None) };
    if length > limit {
        return Err(LinkError::Stranger(format!(
            "a handshake message of {length} bytes; at most {limit} are allowed: the other end isn't of this job"
        )));
    }
    if input.len() < LENGTH_BYTES + length {
        return Ok(None);
    }
    input.advance(LENGTH_BYTES);
    Ok(Some(input.split_to(length)))
}

/// Appends the message that `seal` makes of `payload`, with its length.
fn write(
    out: &mut BytesMut,
    payload: &[u8],
    seal: impl FnOnce(&[u8], &mut [u8]) -> Result<usize, snow::Error>,
) -> Result<(), LinkError> {
    let mut message = [0; VERDICT_LIMIT + TAG_BYTES];
    let length = seal(payload, &mut message).map_err(broken)?;
    // The buffer is far shorter than 64 KiB, so its length fits.
    out.extend_from_slice(&(length as u16).to_le_bytes());
    out.extend_from_slice(&message[..length]);
    Ok(())
}

fn hello_not_ours(cause: &snow::Error) -> LinkError {
    LinkError::Stranger(format!(
        "expected a proof of this job's secret, saw one that doesn't fit ({cause}): a stranger, or a process of \
         another job"
    ))
}

fn not_fresh(cause: &snow::Error) -> LinkError {
    LinkError::Stranger(format!(
        "expected an answer to this handshake, saw one that doesn't fit ({cause}): a sender repeats the recorded start \
         of another link"
    ))
}

fn reply_not_ours(cause: &snow::Error) -> LinkError {
    LinkError::Stranger(format!(
        "expected the acceptor's proof of this job's secret, saw one that doesn't fit ({cause}): something else \
         answers at this address"
    ))
}

fn broken(cause: snow::Error) -> LinkError {
    LinkError::Io(std::io::Error::other(format!("the handshake can't be done: {cause}")))
}

fn plain_not_wanted(hello: &Hello) -> Error {
    Error::new(
        Code::Incompatible,
        format!(
            "agent {} asked for a link without encryption, but this end demands encryption: encryption must be set \
             alike everywhere",
            hello.agent
        ),
    )
}
