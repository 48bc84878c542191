//! What has to hold for any bytes that come over a link before it stands, and for any memory that
//! is said to be a segment. Run by this crate's tests, and by fuzz targets through the feature
//! `check`.

use crate::cipher::Cipher;
use crate::handshake::{Handshake, HandshakeStep, INPUT_LIMIT};
use crate::shm::{PeerSegment, SegmentAddress, SegmentError, MAGIC, SEALS, SLOTS};
use crate::{Hello, JobId, Keys, LinkError, Purpose, Secret};
use bytes::BytesMut;
use rejoin_protocol::ids::AgentId;
use rejoin_protocol::wire::{decode, WIRE_VERSION};
use rustix::fs::{fcntl_add_seals, ftruncate, memfd_create, MemfdFlags, SealFlags};
use snow::TransportState;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// A check of one decoder.
pub type Check = fn(&[u8]);

/// Each decoder's corpus folder, and its check.
pub const ALL: [(&str, Check); 5] =
    [("stranger", stranger), ("member", member), ("verdict", verdict), ("sealed", sealed), ("segment", segment)];

fn keys() -> Keys {
    Keys { job: JobId([7; 16]), secret: Secret::new([9; 32]), encrypt: false }
}

fn hello() -> Hello {
    Hello { agent: AgentId(1), purpose: Purpose::Fetch, encrypt: false }
}

/// An end without the secret says this to both ends, as it is and behind a right preamble:
/// no end is greeted or admitted, and nothing grows.
///
/// # Panics
/// When that doesn't hold.
pub fn stranger(bytes: &[u8]) {
    let [low, high] = WIRE_VERSION.to_le_bytes();
    let behind = [&[b'R', b'J', b'N', low, high, 0, 0, 0], bytes].concat();
    for bytes in [bytes, &behind] {
        let ends = [Handshake::respond(&keys()), Handshake::initiate(&keys(), &hello(), &mut BytesMut::new())];
        for end in ends {
            let mut end = end.expect("a handshake can be begun with any keys");
            let (mut input, mut out) = (BytesMut::with_capacity(INPUT_LIMIT), BytesMut::new());
            // In two parts, as a stream may bring them.
            for part in [&bytes[..bytes.len() / 2], &bytes[bytes.len() / 2..]] {
                input.extend_from_slice(&part[..part.len().min(INPUT_LIMIT - input.len())]);
                match end.advance(&mut input, &mut out) {
                    Ok(HandshakeStep::More) => {}
                    Ok(_) => panic!("a stranger was let in by {bytes:02x?}"),
                    Err(_) => break,
                }
            }
            assert!(out.len() <= INPUT_LIMIT, "{} bytes were answered", out.len());
        }
    }
}

/// A member of the job says this in the place of a [`Hello`]: it is read as one, or refused.
///
/// # Panics
/// When anything else comes of it.
pub fn member(payload: &[u8]) {
    let payload = &payload[..payload.len().min(300)];
    let mut acceptor = Handshake::respond(&keys()).expect("a handshake can be begun with any keys");
    let mut said = BytesMut::new();
    let mut initiator = Handshake::say(&keys(), payload, &mut said).expect("a payload of 300 bytes fits a message");
    let mut answer = BytesMut::new();
    match acceptor.advance(&mut said, &mut answer) {
        Ok(HandshakeStep::More) => {
            let hello: Hello = decode(payload).expect("it was read as a Hello");
            let mut proof = BytesMut::new();
            let step = initiator.advance(&mut answer, &mut proof);
            assert!(matches!(step, Ok(HandshakeStep::More)), "the acceptor's answer is right");
            match acceptor.advance(&mut proof, &mut answer) {
                Ok(HandshakeStep::Greeted(greeted)) => assert_eq!(greeted, hello),
                // A plain link to the tracker.
                Err(LinkError::Incompatible(_)) => assert!(Hello::must_encrypt(hello.purpose, false) && !hello.encrypt),
                _ => panic!("a member with {payload:02x?} was neither greeted nor refused"),
            }
        }
        Err(LinkError::Incompatible(_)) => {}
        _ => panic!("a member with {payload:02x?} was neither heard nor refused"),
    }
}

/// The acceptor says this in the place of its verdict: the initiator reads one, or refuses it.
///
/// # Panics
/// When anything else comes of it.
pub fn verdict(payload: &[u8]) {
    let (mut acceptor, mut initiator) = met();
    let mut said = BytesMut::new();
    let payload = &payload[..payload.len().min(1000)];
    acceptor.tell(payload, &mut said).expect("a payload of 1000 bytes fits a message");
    match initiator.advance(&mut said, &mut BytesMut::new()) {
        Ok(HandshakeStep::Admitted(_)) => assert_eq!(decode::<u32>(payload), Ok(0), "this admits no end"),
        Ok(HandshakeStep::Refused(error)) => {
            assert!(decode::<(u32, rejoin_protocol::error::Error)>(payload) == Ok((1, error)))
        }
        Err(LinkError::Incompatible(_)) => {}
        _ => panic!("the verdict {payload:02x?} was neither read nor refused"),
    }
}

/// An acceptor that has greeted an initiator, which waits for its verdict.
fn met() -> (Handshake, Handshake) {
    let (mut there, mut back) = (BytesMut::new(), BytesMut::new());
    let mut acceptor = Handshake::respond(&keys()).expect("a handshake can be begun with any keys");
    let mut initiator = Handshake::initiate(&keys(), &hello(), &mut there).expect("the same");
    for _ in 0..2 {
        acceptor.advance(&mut there, &mut back).expect("the initiator's bytes are right");
        initiator.advance(&mut back, &mut there).expect("the acceptor's bytes are right");
    }
    (acceptor, initiator)
}

/// An attacker without the keys puts this into an encrypted stream: nothing of it is opened, and
/// what was opened before stays.
///
/// # Panics
/// When that doesn't hold.
pub fn sealed(bytes: &[u8]) {
    let (mut sender, mut receiver) = ciphers();
    let (mut stream, mut clear) = (BytesMut::new(), BytesMut::new());
    sender.seal(b"before", &mut stream).expect("a few bytes can be sealed");
    stream.extend_from_slice(bytes);
    assert!(receiver.open(&mut stream, &mut clear).expect("what was sealed opens"));
    assert!(!matches!(receiver.open(&mut stream, &mut clear), Ok(true)), "{bytes:02x?} was opened");
    assert_eq!(clear.as_ref(), b"before");
}

fn ciphers() -> (Cipher, Cipher) {
    let (mut acceptor, mut initiator) = met();
    let mut said = BytesMut::new();
    let sender: Option<TransportState> = acceptor.admit(&mut said).expect("an initiator waits");
    match initiator.advance(&mut said, &mut BytesMut::new()) {
        Ok(HandshakeStep::Admitted(keys)) => (Cipher::new(sender.expect("an initiator waits")), Cipher::new(keys)),
        _ => panic!("who was admitted is admitted"),
    }
}

/// Memory that is said to be a segment: 24 bytes of its header, 16 of the segment address (nonce, length
/// of a slot), and how long it is, in units of 512 bytes. It is opened if it is what the
/// segment address says, and refused otherwise.
///
/// # Panics
/// When that doesn't hold.
pub fn segment(bytes: &[u8]) {
    let Some((words, rest)) = bytes.split_first_chunk::<40>() else { return };
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| words[8 * at + byte]));
    // The first number stands on the segment as it is in memory, and is given as its difference to the right one.
    let header = [word(0) ^ MAGIC, word(1), word(2)];
    let (nonce, slot_bytes) = (word(3), word(4));
    let length = 512 * rest.first().map_or(0, |units| u64::from(*units));
    let opened = open(header, length, nonce, slot_bytes);
    let page = SLOTS as u64;
    let fits = slot_bytes > 0 && slot_bytes % page == 0 && slot_bytes < 1 << 30 && length == page + 2 * slot_bytes;
    let is_right = fits && header == [MAGIC, nonce, slot_bytes];
    assert_eq!(opened.is_some(), is_right, "{header:x?}, {length} bytes, segment_address {nonce:x} with {slot_bytes}");
    assert!(opened.is_none_or(|opened| opened.slot_bytes() as u64 == slot_bytes));
}

/// Opens sealed memory of this length that begins with this header.
fn open(header: [u64; 3], length: u64, nonce: u64, slot_bytes: u64) -> Option<PeerSegment> {
    open_sealed(SEALS, header, length, nonce, slot_bytes).ok()
}

fn open_sealed(
    seals: SealFlags,
    header: [u64; 3],
    length: u64,
    nonce: u64,
    slot_bytes: u64,
) -> Result<PeerSegment, SegmentError> {
    let made = memfd_create("checked", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING);
    let file = File::from(made.expect("memory can be made"));
    ftruncate(&file, length).expect("memory of 128 KiB");
    let header = header.map(u64::to_ne_bytes).concat();
    file.write_all_at(&header[..header.len().min(length as usize)], 0).expect("it is that long");
    fcntl_add_seals(&file, seals).expect("it can be sealed");
    let (process, descriptor) = (std::process::id(), file.as_raw_fd());
    PeerSegment::open(&SegmentAddress { process, descriptor, nonce, slot_bytes })
}

#[cfg(test)]
#[path = "../../../fuzz/kept.rs"]
mod kept;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use rejoin_protocol::wire::encode;

    #[test]
    fn the_kept_corpus_of_every_fuzz_target_runs_through() {
        for (name, check) in ALL {
            kept::inputs(name).iter().for_each(|bytes| check(bytes));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn whoever_has_not_the_secret_is_let_in_with_no_bytes(bytes in vec(any::<u8>(), 0..600)) {
            stranger(&bytes);
            sealed(&bytes);
        }

        #[test]
        fn what_has_the_length_of_a_message_and_is_none_is_refused(
            length in 0u16..700, rest in vec(any::<u8>(), 0..700),
        ) {
            let bytes = [&length.to_le_bytes()[..], &rest].concat();
            stranger(&bytes);
            sealed(&bytes);
        }

        #[test]
        fn a_member_that_says_anything_is_greeted_by_what_it_said_or_refused(payload in vec(any::<u8>(), 0..60)) {
            member(&payload);
            verdict(&payload);
        }

        #[test]
        fn a_changed_hello_is_another_one_or_refused(at in 0usize..40, byte: u8, cut in 0usize..40) {
            let mut payload = encode(&hello());
            let length = payload.len();
            payload[at % length] = byte;
            member(&payload);
            member(&payload[..cut % length]);
        }

        #[test]
        fn only_memory_that_is_what_its_segment_address_says_is_opened(
            magic in prop_oneof![Just(0), any::<u64>()], nonce: u64, other in prop_oneof![Just(0), any::<u64>()],
            pages in 0u64..6,
            reported in prop_oneof![(0u64..6).prop_map(|pages| 4096 * pages), 0u64..20_000, any::<u64>()],
            units in prop_oneof![Just(24u8), Just(40), any::<u8>()],
        ) {
            for (there, slot) in [(4096 * pages, 4096 * pages), (reported, reported), (reported, 4096 * pages)] {
                let words = [magic, nonce, there, nonce ^ other, slot];
                segment(&[&words.map(u64::to_ne_bytes).concat()[..], &[units]].concat());
            }
        }

        #[test]
        fn an_segment_address_comes_back_as_it_was(process: u32, descriptor: i32, nonce: u64, slot_bytes: u64) {
            let segment_address = SegmentAddress { process, descriptor, nonce, slot_bytes };
            prop_assert_eq!(decode(&encode(&segment_address)), Ok(segment_address));
        }
    }

    #[test]
    fn a_segment_is_opened_by_its_right_segment_address() {
        assert!(open([MAGIC, 7, 8192], 4096 + 2 * 8192, 7, 8192).is_some());
        segment(&[[0, 7, 4096, 7, 4096].map(u64::to_ne_bytes).concat(), vec![24]].concat());
    }
    #[test]
    fn a_segment_that_its_owner_could_shorten_or_others_could_write_is_not_opened() {
        let open = |seals| open_sealed(seals, [MAGIC, 7, 4096], 3 * 4096, 7, 4096);
        assert!(open(SEALS).is_ok(), "all else is right");
        for missing in SEALS.iter() {
            let error = open(SEALS.difference(missing)).expect_err("a seal is missing").to_string();
            assert!(error.contains("isn't sealed"), "without {missing:?}: {error}");
        }
    }
}
