//! Frames on established links.

mod common;

use bytes::Bytes;
use common::{bytes, ends, establish, established, flush, header, hello, keys, step, until, Direction, Relay};
use mio::{Events, Interest, Poll, Token};
use proptest::prelude::*;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::message::TrackerMessage;
use rejoin_protocol::wire::{self, Header, Kind, HEADER_BYTES, PAYLOAD_LIMIT};
use rejoin_transport::{Flushed, Keys, Link, LinkError, Received};
use socket2::SockRef;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::time::Duration;

const INITIATOR: Token = Token(0);
const ACCEPTOR: Token = Token(1);

/// All that comes until nothing more is there.
fn received(link: &mut Link) -> Vec<(Header, Bytes)> {
    let mut frames = Vec::new();
    loop {
        match link.receive().expect("the link works") {
            Received::Frame(header, payload) => frames.push((header, payload)),
            Received::Pending => return frames,
            other => panic!("{other:?}"),
        }
    }
}

fn register(poll: &Poll, link: &mut Link, token: Token) {
    let both = Interest::READABLE | Interest::WRITABLE;
    poll.registry().register(link.socket(), token, both).expect("a socket can be registered");
}

/// Waits for events; the deadline is only there so that a hanging test ends with words.
fn wait(poll: &mut Poll, events: &mut Events) {
    poll.poll(events, Some(Duration::from_secs(60))).expect("polling works");
    assert!(!events.is_empty(), "no event in a minute: an end waits for ever");
}

fn shrink_buffers(link: &mut Link, bytes: usize) {
    let socket = SockRef::from(&*link.socket());
    socket.set_send_buffer_size(bytes).expect("a socket has this option");
    socket.set_recv_buffer_size(bytes).expect("a socket has this option");
}

/// Both ends send these frames to each other and are driven by events alone, handshake included.
fn exchange(encrypt: bool, sizes: &[usize], small_buffers: bool) {
    let keys = Keys { encrypt, ..keys() };
    let (mut initiator, mut acceptor) = ends(&keys, &keys, hello(encrypt));
    let mut poll = Poll::new().expect("the system has events");
    for (token, link) in [(INITIATOR, &mut initiator), (ACCEPTOR, &mut acceptor)] {
        if small_buffers {
            shrink_buffers(link, 16 << 10);
        }
        register(&poll, link, token);
        for (index, size) in sizes.iter().enumerate() {
            link.send(header(index as u64), Bytes::from(bytes(*size, index + token.0)));
        }
    }
    let mut seen = [Vec::new(), Vec::new()];
    let mut events = Events::with_capacity(16);
    while seen[0].len() < sizes.len() || seen[1].len() < sizes.len() {
        wait(&mut poll, &mut events);
        for event in &events {
            let link = if event.token() == INITIATOR { &mut initiator } else { &mut acceptor };
            loop {
                match link.receive().expect("the link works") {
                    Received::Frame(header, payload) => seen[event.token().0].push((header, payload)),
                    Received::Hello(_) => link.admit(),
                    Received::Established => {}
                    Received::Pending => break,
                    other => panic!("{other:?}"),
                }
            }
            flush(link);
        }
    }
    for (token, seen) in seen.iter().enumerate() {
        assert_eq!(seen.len(), sizes.len());
        for (index, (seen_header, payload)) in seen.iter().enumerate() {
            assert_eq!(*seen_header, Header { length: sizes[index] as u32, ..header(index as u64) });
            assert!(*payload == bytes(sizes[index], index + 1 - token), "payload {index} differs");
        }
    }
    assert_eq!((initiator.queued_bytes(), acceptor.queued_bytes()), (0, 0));
}

#[test]
fn frames_of_all_sizes_cross_a_plain_link_both_ways() {
    let mut sizes = vec![0, 1, 31, 4096, 64 << 10, 0, PAYLOAD_LIMIT as usize, 1, (1 << 20) - 1, 0];
    sizes.extend((0..300).map(|index| index * 7));
    exchange(false, &sizes, false);
}

#[test]
fn frames_of_all_sizes_cross_an_encrypted_link_both_ways() {
    let mut sizes = vec![0, 1, 31, 4096, 64 << 10, 65_487, 65_488, 0, PAYLOAD_LIMIT as usize, 1, 0];
    sizes.extend((0..300).map(|index| index * 7));
    exchange(true, &sizes, false);
}

#[test]
fn small_socket_buffers_only_make_it_slower() {
    let sizes = [0, 100_000, 1, 300_000, 0, 17];
    exchange(false, &sizes, true);
    exchange(true, &sizes, true);
}

#[test]
fn messages_are_control_frames() {
    let (mut initiator, mut acceptor) = established(true);
    let message = TrackerMessage::Refused(Error::new(Code::Fenced, "declared lost"));
    initiator.send_message(&message);
    flush(&mut initiator);
    let (header, payload) = until("the message", || acceptor.take().expect("the link works"));
    assert_eq!(header, Header::control(payload.len() as u32));
    assert_eq!(wire::decode::<TrackerMessage>(&payload), Ok(message));
}

#[test]
fn a_header_can_be_seen_before_its_payload_and_is_left_where_it_is() {
    let (mut initiator, mut acceptor) = established(false);
    let start = Header { length: 10, ..header(4) };
    let socket = initiator.socket();
    socket.write_all(&start.encode()).expect("there is room");
    socket.write_all(b"01234").expect("there is room");
    assert_eq!(until("the header", || acceptor.next_header().expect("the link works")), start);
    assert!(acceptor.take().expect("the link works").is_none(), "the payload isn't whole");
    assert_eq!(acceptor.next_header().expect("the link works"), Some(start));
    socket_write(&mut initiator, b"56789");
    let (taken, payload) = until("the frame", || acceptor.take().expect("the link works"));
    assert_eq!((taken, payload.as_ref()), (start, b"0123456789".as_slice()));
    assert!(acceptor.next_header().expect("the link works").is_none());
}

#[test]
fn a_data_frame_can_be_taken_in_parts_that_say_where_they_belong() {
    for encrypt in [false, true] {
        let (mut initiator, mut acceptor) = established(encrypt);
        shrink_buffers(&mut initiator, 64 << 10);
        shrink_buffers(&mut acceptor, 64 << 10);
        let payload = bytes(900_000, 3);
        initiator.send(Header { kind: Kind::Data, ..header(1000) }, payload.clone().into());
        initiator.send(Header { kind: Kind::PhaseEnd, ..header(7) }, Bytes::new());
        let (mut seen, mut parts, mut early) = (Vec::new(), 0, false);
        let last = until("the frame after it", || {
            let blocked = flush(&mut initiator) == Flushed::Blocked;
            while let Some((header, part)) = acceptor.take_part().expect("the link works") {
                if header.kind == Kind::PhaseEnd {
                    return Some(header);
                }
                assert_eq!((header.kind, header.offset), (Kind::Data, 1000 + seen.len() as u64));
                assert_eq!(header.length as usize, part.len());
                seen.extend_from_slice(&part);
                parts += 1;
                early |= blocked;
            }
            None
        });
        assert_eq!((last.offset, last.length), (7, 0));
        assert!(seen == payload, "the parts are not the frame");
        assert!(parts > 1 && early, "{parts} parts, before the whole was sent: {early}");
    }
}

#[test]
fn an_emptied_link_knows_that_it_is_until_the_poll_says_otherwise() {
    for encrypt in [false, true] {
        let (mut initiator, mut acceptor) = established(encrypt);
        for index in 0..2 {
            initiator.send(header(index), Bytes::from_static(b"bytes"));
        }
        flush(&mut initiator);
        until("the first frame", || acceptor.take().expect("the link works"));
        until("the second frame", || acceptor.take().expect("the link works"));
        assert!(acceptor.take().expect("the link works").is_none());
        assert!(acceptor.is_empty(), "all is taken, and the socket was seen empty");
        acceptor.refilled();
        assert!(!acceptor.is_empty(), "an event may mean anything");
        assert!(acceptor.take().expect("the link works").is_none());
        initiator.send(header(2), Bytes::from_static(b"bytes"));
        flush(&mut initiator);
        acceptor.refilled();
        until("the header", || acceptor.next_header().expect("the link works"));
        assert!(!acceptor.is_empty(), "a frame lies here");
    }
}

fn socket_write(link: &mut Link, bytes: &[u8]) {
    link.socket().write_all(bytes).expect("there is room");
}

#[test]
fn a_reader_that_takes_nothing_holds_the_sender_back_and_its_memory_is_bounded() {
    for encrypt in [false, true] {
        let (mut initiator, mut acceptor) = established(encrypt);
        // So that the kernel holds little, whatever this machine's defaults are.
        shrink_buffers(&mut initiator, 64 << 10);
        shrink_buffers(&mut acceptor, 64 << 10);
        let payload = Bytes::from(bytes(500_000, 1));
        let all = 8 * (HEADER_BYTES + payload.len());
        for index in 0..8 {
            initiator.send(header(index), payload.clone());
        }
        until("a header", || {
            flush(&mut initiator);
            acceptor.next_header().expect("the link works")
        });
        let mut stuck = 0;
        for _ in 0..1000 {
            assert_eq!(flush(&mut initiator), Flushed::Blocked);
            assert_eq!(acceptor.next_header().expect("the link works").map(|header| header.offset), Some(0));
            stuck = initiator.queued_bytes();
        }
        // The kernel's buffers of both ends (it doubles what is set) and at most one buffer of the acceptor.
        assert!(stuck > all - (1 << 20), "{stuck} of {all} bytes are still with the sender");

        let mut seen = 0;
        until("all frames", || {
            flush(&mut initiator);
            for (header, frame) in received(&mut acceptor) {
                assert_eq!(header.offset, seen);
                assert!(frame == payload, "frame {seen} differs");
                seen += 1;
            }
            (seen == 8).then_some(())
        });
        assert_eq!(initiator.queued_bytes(), 0);
    }
}

#[test]
fn payloads_are_sent_and_received_without_copies_of_them() {
    let (mut initiator, mut acceptor) = established(false);
    let sent = Bytes::from(bytes(1000, 3));
    initiator.send(header(0), sent.clone());
    assert!(!sent.is_unique(), "the queue shares the sender's bytes");
    initiator.send(header(1), sent.clone());
    flush(&mut initiator);
    assert!(sent.is_unique(), "what has gone is let go");
    let (_, first) = until("the first", || acceptor.take().expect("the link works"));
    let (_, second) = until("the second", || acceptor.take().expect("the link works"));
    assert_eq!(second.as_ptr() as usize - first.as_ptr() as usize, 1000 + HEADER_BYTES, "both lie in one buffer");
}

#[test]
fn a_frame_of_many_parts_arrives_whole_wherever_the_kernel_stops_taking_it() {
    for encrypt in [false, true] {
        let (mut initiator, mut acceptor) = established(encrypt);
        shrink_buffers(&mut initiator, 16 << 10);
        let mut seen = 0;
        for index in 0..200u64 {
            let lengths = [0, index as usize * 7, 1, 0, 30_000, index as usize];
            let parts: Vec<Vec<u8>> = lengths.iter().map(|&length| bytes(length, index as usize)).collect();
            // More parts than one system call takes.
            let mut slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            slices.extend(parts[4].chunks(300));
            let whole = slices.concat();
            let mut gone = initiator.send_parts(header(index), &slices).expect("the link works");
            if index % 3 == 0 {
                while gone < whole.len() {
                    // An end that waits before anything else of this end is read needs a frame that is whole.
                    gone += initiator.send_rest(&[&whole[gone..]]).expect("the link works");
                    seen += received(&mut acceptor).len() as u64;
                }
                continue; // the next one waits behind this one
            }
            until("all frames", || {
                if initiator.owed() > 0 {
                    gone += initiator.send_rest(&[&whole[gone..]]).expect("the link works");
                }
                flush(&mut initiator);
                for (header, frame) in received(&mut acceptor) {
                    assert_eq!(header.offset, seen);
                    assert!(seen < index || frame == whole, "frame {seen} differs");
                    seen += 1;
                }
                (seen == index + 1).then_some(())
            });
            assert_eq!(initiator.queued_bytes(), 0);
        }
    }
}

#[test]
fn a_length_over_the_limit_ends_the_link() {
    let (mut initiator, mut acceptor) = established(false);
    let mut start = header(0).encode();
    start[..4].copy_from_slice(&(PAYLOAD_LIMIT + 1).to_le_bytes());
    socket_write(&mut initiator, &start);
    let error = until("an error", || acceptor.next_header().err());
    let LinkError::Incompatible(reported) = &error else { panic!("{error:?}") };
    assert!(reported.message.contains("1048577 bytes; at most 1048576"), "{reported}");
    assert!(matches!(acceptor.take(), Err(LinkError::Closed)));
}

#[test]
fn a_payload_over_the_limit_never_gets_on_the_wire() {
    let (mut initiator, mut acceptor) = established(false);
    initiator.send(header(0), Bytes::from(vec![0; PAYLOAD_LIMIT as usize + 1]));
    let error = initiator.flush().expect_err("it is too long");
    assert!(error.to_string().contains("1048577 bytes"), "{error}");
    drop(initiator);
    let error = until("the end", || acceptor.receive().err());
    assert!(matches!(error, LinkError::Closed), "{error:?}");
}

#[test]
fn an_end_between_frames_differs_from_one_within_a_frame() {
    for (written, whole) in [(HEADER_BYTES + 10, true), (HEADER_BYTES + 9, false), (HEADER_BYTES, false), (3, false)] {
        let (mut initiator, mut acceptor) = established(false);
        let frame = [Header { length: 10, ..header(0) }.encode().as_slice(), b"0123456789"].concat();
        socket_write(&mut initiator, &frame[..written]);
        drop(initiator);
        let error = until("the end", || match acceptor.receive() {
            Ok(Received::Frame(..)) if whole => None,
            Ok(Received::Pending) => None,
            Ok(other) => panic!("{other:?}"),
            Err(error) => Some(error),
        });
        match error {
            LinkError::Closed => assert!(whole),
            LinkError::Io(cause) => assert!(!whole && cause.kind() == ErrorKind::UnexpectedEof, "{cause}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_reset_is_seen_as_one() {
    let (initiator, mut acceptor) = established(false);
    initiator.reset();
    let error = until("the reset", || acceptor.receive().err());
    assert!(matches!(&error, LinkError::Io(cause) if cause.kind() == ErrorKind::ConnectionReset), "{error:?}");
}

#[test]
fn a_reset_is_seen_though_a_forked_process_holds_the_connection_too() {
    let (mut initiator, mut acceptor) = established(false);
    let held = initiator.socket().as_fd().try_clone_to_owned().unwrap();
    initiator.reset();
    let error = until("the reset", || acceptor.receive().err());
    assert!(matches!(&error, LinkError::Io(cause) if cause.kind() == ErrorKind::ConnectionReset), "{error:?}");
    drop(held);
}

#[test]
fn a_sender_whose_peer_is_gone_gets_an_error_and_no_signal() {
    let (mut initiator, acceptor) = established(false);
    acceptor.reset();
    let error = until("an error", || {
        initiator.send(header(0), Bytes::from_static(&[1; 1000]));
        initiator.flush().err()
    });
    let LinkError::Io(cause) = &error else { panic!("{error:?}") };
    assert!(matches!(cause.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{cause}");
    assert_eq!(initiator.queued_bytes(), 0, "what can't be sent isn't kept");
}

#[test]
fn last_words_can_be_read_after_sending_has_failed() {
    for encrypt in [false, true] {
        let (mut initiator, mut acceptor) = established(encrypt);
        acceptor.send(header(1), Bytes::from_static(b"the job is over"));
        acceptor.send(header(2), Bytes::from(bytes(20_000, 2)));
        assert_eq!(flush(&mut acceptor), Flushed::Done);
        // It ends with something unread, so that its kernel answers with a reset.
        initiator.send(header(3), Bytes::from_static(b"a heartbeat"));
        flush(&mut initiator);
        drop(acceptor);
        until("an error", || {
            initiator.send(header(4), Bytes::from_static(b"another one"));
            initiator.flush().err()
        });
        let mut seen = Vec::new();
        until("the end", || match initiator.receive() {
            Ok(Received::Frame(header, payload)) => {
                seen.push((header.offset, payload.len()));
                None
            }
            Ok(Received::Pending) => None,
            Ok(other) => panic!("{other:?}"),
            Err(error) => Some(error),
        });
        assert_eq!(seen, [(1, 15), (2, 20_000)]);
    }
}

#[test]
fn an_encrypted_link_shows_nothing_of_its_frames_and_a_plain_one_does() {
    for encrypt in [false, true] {
        let keys = Keys { encrypt, ..keys() };
        let (mut initiator, mut relay, mut acceptor) = Relay::between(&keys, &keys, hello(encrypt));
        establish(&mut initiator, &mut acceptor, || relay.pass(4096));
        let text = b"the gradient of a row that is private";
        initiator.send(header(0), Bytes::from_static(text));
        flush(&mut initiator);
        until("the frame", || {
            relay.pass(4096);
            acceptor.take().expect("the link works")
        });
        let shown = relay.from_initiator.windows(text.len()).any(|window| window == text);
        assert_eq!(shown, !encrypt);
    }
}

#[test]
fn no_byte_of_an_encrypted_frame_can_be_changed_unnoticed() {
    let strict = Keys { encrypt: true, ..keys() };
    // One frame of 10 bytes is one message: length, header, payload, tag.
    for place in 0..2 + HEADER_BYTES + 10 + 16 {
        let (mut initiator, mut relay, mut acceptor) = Relay::between(&strict, &strict, hello(true));
        establish(&mut initiator, &mut acceptor, || relay.pass(4096));
        relay.change = Some((Direction::ToAcceptor, relay.from_initiator.len() + place));
        let end = relay.from_initiator.len() + 2 + HEADER_BYTES + 10 + 16;
        initiator.send(header(0), Bytes::from_static(b"0123456789"));
        flush(&mut initiator);
        until("the message", || {
            relay.pass(4096);
            (relay.from_initiator.len() == end).then_some(())
        });
        drop(relay);
        let error = until("an error", || match acceptor.receive() {
            Ok(Received::Pending) => None,
            Ok(other) => panic!("byte {place}: {other:?}"),
            Err(error) => Some(error),
        });
        match error {
            LinkError::Stranger(text) => {
                assert!(text.contains("on their way") || text.contains("on its way"), "{text}")
            }
            // A longer length makes it wait for what never comes.
            LinkError::Io(cause) => assert!(place < 2 && cause.kind() == ErrorKind::UnexpectedEof, "{place}: {cause}"),
            other => panic!("byte {place}: {other:?}"),
        }
    }
}

#[test]
fn an_established_link_moves_from_one_poll_to_another() {
    let (mut initiator, mut acceptor) = established(false);
    let mut first = Poll::new().expect("the system has events");
    let mut second = Poll::new().expect("the system has events");
    register(&first, &mut acceptor, ACCEPTOR);
    initiator.send(header(0), Bytes::from_static(b"before"));
    flush(&mut initiator);
    let mut events = Events::with_capacity(4);
    wait(&mut first, &mut events);
    first.registry().deregister(acceptor.socket()).expect("it was registered");
    register(&second, &mut acceptor, ACCEPTOR);
    let mut seen = Vec::new();
    while seen.is_empty() {
        wait(&mut second, &mut events);
        seen.extend(received(&mut acceptor));
    }
    assert_eq!(seen[0].1.as_ref(), b"before");
}

#[test]
fn frames_that_come_with_the_verdict_are_not_lost() {
    for encrypt in [false, true] {
        let keys = Keys { encrypt, ..keys() };
        let (mut initiator, mut relay, mut acceptor) = Relay::between(&keys, &keys, hello(encrypt));
        for index in 0..20 {
            acceptor.send(header(index), Bytes::from(bytes(500, index as usize)));
        }
        until("the verdict", || {
            assert!(step(&mut initiator).is_none(), "the verdict is held back");
            relay.pass(1);
            matches!(acceptor.receive(), Ok(Received::Hello(_))).then_some(())
        });
        acceptor.admit();
        assert_eq!(flush(&mut acceptor), Flushed::Done);
        let mut seen = Vec::new();
        until("all frames", || {
            relay.pass(1 << 20);
            match initiator.receive().expect("the link works") {
                Received::Frame(header, payload) => seen.push((header, payload)),
                Received::Established | Received::Pending => {}
                other => panic!("{other:?}"),
            }
            (seen.len() == 20).then_some(())
        });
        for (index, (header, payload)) in seen.iter().enumerate() {
            assert_eq!((header.offset, header.kind), (index as u64, Kind::Data));
            assert!(*payload == bytes(500, index), "frame {index} differs");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn frames_come_out_as_they_went_in_however_the_network_cuts_them(
        encrypt in any::<bool>(),
        sizes in prop::collection::vec(prop_oneof![0usize..100, 0usize..5000, 60_000usize..200_000], 1..12),
        pieces in prop::collection::vec(prop_oneof![1usize..40, 1usize..3000, 1usize..100_000], 1..20),
    ) {
        let keys = Keys { encrypt, ..keys() };
        let (mut initiator, mut relay, mut acceptor) = Relay::between(&keys, &keys, hello(encrypt));
        let mut pieces = pieces.iter().cycle();
        let mut next = || *pieces.next().expect("a cycle of one or more has no end");
        establish(&mut initiator, &mut acceptor, || relay.pass(next()));
        for (index, size) in sizes.iter().enumerate() {
            initiator.send(header(index as u64), Bytes::from(bytes(*size, index)));
        }
        let mut seen = Vec::new();
        until("all frames", || {
            flush(&mut initiator);
            relay.pass(next());
            seen.extend(received(&mut acceptor));
            (seen.len() == sizes.len()).then_some(())
        });
        for (index, (seen_header, payload)) in seen.iter().enumerate() {
            prop_assert_eq!(*seen_header, Header { length: sizes[index] as u32, ..header(index as u64) });
            prop_assert!(*payload == bytes(sizes[index], index), "payload {} differs", index);
        }
    }
}

#[test]
fn payloads_that_are_read_to_where_they_belong_come_as_they_were_sent_also_when_the_sender_goes_on_part_by_part() {
    for encrypted in [false, true] {
        let (mut initiator, mut acceptor) = established(encrypted);
        // Longer than the kernel takes at once, and one that comes together with its header.
        let payloads: Vec<Vec<u8>> = [900_000, 3, 1_000_000].map(|length| bytes(length, 1)).to_vec();
        let mut arrived: Vec<Vec<u8>> = Vec::new();
        let mut sending = payloads.iter().enumerate();
        let mut now: Option<(usize, &[u8])> = None;
        until("everything to arrive", || {
            if now.is_none() && initiator.flush().expect("the link works") == Flushed::Done {
                if let Some((number, payload)) = sending.next() {
                    let (first, second) = payload.split_at(payload.len() / 3);
                    let gone = initiator.send_parts(header(number as u64), &[first, second]).expect("the link works");
                    assert_eq!(initiator.owed(), payload.len() - gone);
                    now = Some((number, &payload[gone..]));
                }
            }
            if let Some((_, rest)) = &mut now {
                let gone = initiator.send_rest(&[rest]).expect("the link works");
                *rest = &rest[gone..];
            }
            now = now.filter(|(_, rest)| !rest.is_empty());
            if let Some(header) = acceptor.next_header().expect("the link works") {
                let number = header.offset as usize;
                arrived.resize_with(arrived.len().max(number + 1), Vec::new);
                let mut room = vec![0; 70_000];
                let count = acceptor.read_payload(&mut room).expect("the link works");
                arrived[number].extend_from_slice(&room[..count]);
            }
            (arrived.last() == payloads.last() && arrived.len() == payloads.len()).then_some(())
        });
        assert!(arrived == payloads, "encrypted: {encrypted}");
    }
}

#[test]
fn what_follows_a_frame_that_was_given_up_or_skipped_arrives() {
    for encrypted in [false, true] {
        let (mut initiator, mut acceptor) = established(encrypted);
        let payload = bytes(1_000_000, 1);
        // Until the kernel takes no more.
        let mut frames = 0;
        while initiator.owed() == 0 && frames < 50 {
            initiator.send_parts(header(frames), &[&payload]).expect("the link works");
            frames += 1;
        }
        initiator.give_up_frame();
        initiator.send(header(99), Bytes::from_static(b"the end"));
        let mut skipped = 0;
        let last = until("the last frame", || {
            initiator.flush().expect("the link works");
            let header = acceptor.next_header().expect("the link works")?;
            if header.offset == 99 {
                return acceptor.take().expect("the link works");
            }
            skipped += u64::from(acceptor.skip_payload().expect("the link works"));
            None
        });
        assert_eq!((&last.1[..], skipped), (&b"the end"[..], frames), "encrypted: {encrypted}");
    }
}
