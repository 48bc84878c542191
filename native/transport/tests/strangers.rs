//! Ends that don't belong to the job, and those that change, repeat or turn around what others say.

mod common;

use common::{accept, connect, ends, hello, keys, listener, outcomes, step, until, Direction, Outcome, Relay};
use rejoin_protocol::error::Code;
use rejoin_protocol::wire::WIRE_VERSION;
use rejoin_transport::{JobId, Keys, Link, LinkError, Received, Secret};
use std::io::{ErrorKind, Read, Write};

/// Sends these bytes to an acceptor, and gives what it makes of them (while the connection stays open).
fn acceptor_hearing(bytes: &[u8]) -> (Option<LinkError>, Vec<u8>) {
    let listener = listener();
    let mut stranger = connect(listener.address());
    stranger.write_all(bytes).expect("there is room");
    let mut acceptor = Link::accept(accept(&listener), &keys()).expect("the connection is there");
    // Loopback hands bytes over in the call that sends them, so they are all there by now.
    let error = match acceptor.receive() {
        Ok(Received::Pending) => None,
        Ok(other) => panic!("{other:?}"),
        Err(error) => Some(error),
    };
    drop(acceptor);
    let mut answer = Vec::new();
    until("the end", || match stranger.read_to_end(&mut answer) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        _ => Some(()),
    });
    (error, answer)
}

fn stranger(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Failed(LinkError::Stranger(text)) => text,
        other => panic!("expected a stranger, saw {other:?}"),
    }
}

#[test]
fn a_wrong_secret_is_refused_by_the_acceptor_and_the_initiator_learns_nothing() {
    let wrong = Keys { secret: Secret::new([43; 32]), ..keys() };
    let (initiator, acceptor) = ends(&wrong, &keys(), hello(false));
    let (first, second) = outcomes(initiator, acceptor);
    assert!(stranger(&second).contains("proof of this job's secret"), "{second:?}");
    assert!(matches!(first, Outcome::Failed(LinkError::ClosedInHandshake)), "{first:?}");
}

#[test]
fn a_process_of_another_job_is_refused_even_with_the_same_secret() {
    let other = Keys { job: JobId([8; 16]), ..keys() };
    let (initiator, acceptor) = ends(&other, &keys(), hello(false));
    let (first, second) = outcomes(initiator, acceptor);
    assert!(stranger(&second).contains("another job"), "{second:?}");
    assert!(matches!(first, Outcome::Failed(LinkError::ClosedInHandshake)), "{first:?}");
}

#[test]
fn garbage_is_refused_at_its_first_wrong_byte_and_not_answered() {
    for bytes in [b"GET / HTTP/1.1\r\n\r\n".as_slice(), b"X", b"RX", &[0; 4096], &[0xff; 100]] {
        let (error, answer) = acceptor_hearing(bytes);
        let Some(LinkError::Stranger(text)) = error else { panic!("{error:?} for {bytes:02x?}") };
        assert!(text.contains("expected a Rejoin process"), "{text}");
        assert!(answer.is_empty(), "{answer:02x?}");
    }
}

#[test]
fn a_handshake_message_of_a_wrong_length_is_refused_before_it_has_come() {
    let (error, _) =
        acceptor_hearing(&[b"RJN".as_slice(), &WIRE_VERSION.to_le_bytes(), &[0; 3], &[0x01, 0x02]].concat());
    let Some(LinkError::Stranger(text)) = error else { panic!("{error:?}") };
    assert!(text.contains("513 bytes; at most 512"), "{text}");
    // The longest allowed one is waited for, and refused when it is there.
    let long = [b"RJN".as_slice(), &WIRE_VERSION.to_le_bytes(), &[0; 3], &[0x00, 0x02], &[9; 512]].concat();
    assert!(acceptor_hearing(&long[..long.len() - 1]).0.is_none());
    assert!(matches!(acceptor_hearing(&long).0, Some(LinkError::Stranger(_))));
    let empty = [b"RJN".as_slice(), &WIRE_VERSION.to_le_bytes(), &[0; 3], &[0, 0]].concat();
    assert!(matches!(acceptor_hearing(&empty).0, Some(LinkError::Stranger(_))));
}

#[test]
fn another_wire_version_is_named_at_both_ends() {
    let expected = format!("expected wire version {WIRE_VERSION}, saw {}", WIRE_VERSION + 1);
    let other = [b"RJN".as_slice(), &(WIRE_VERSION + 1).to_le_bytes(), &[0; 3]].concat();

    let (error, answer) = acceptor_hearing(&[other.as_slice(), &[40, 0], &[1; 40]].concat());
    let Some(LinkError::Incompatible(error)) = error else { panic!("{error:?}") };
    assert_eq!(error.code, Code::Incompatible);
    assert!(error.message.contains(&expected) && error.message.contains("jars"), "{error}");
    assert_eq!(answer, [b"RJN".as_slice(), &WIRE_VERSION.to_le_bytes(), &[0; 3]].concat(), "our version is sent");

    let listener = listener();
    let mut initiator = Link::connect(listener.address(), &keys(), hello(false)).expect("loopback is reachable");
    let mut old = accept(&listener);
    old.write_all(&other).expect("there is room");
    let error = until("an error", || match step(&mut initiator) {
        Some(Outcome::Failed(error)) => Some(error),
        None => None,
        other => panic!("{other:?}"),
    });
    assert!(matches!(&error, LinkError::Incompatible(error) if error.message.contains(&expected)), "{error}");
}

#[test]
fn the_recorded_start_of_a_link_never_brings_up_its_hello_again() {
    let (mut initiator, mut relay, mut acceptor) = Relay::between(&keys(), &keys(), hello(false));
    common::establish(&mut initiator, &mut acceptor, || relay.pass(4096));
    let recorded = relay.from_initiator.clone();
    drop((initiator, relay, acceptor));

    let listener = listener();
    let mut replayer = connect(listener.address());
    replayer.write_all(&recorded).expect("there is room");
    let mut acceptor = Link::accept(accept(&listener), &keys()).expect("the connection is there");
    let error = until("an error", || match acceptor.receive() {
        Ok(Received::Pending) => None,
        Ok(other) => panic!("a replay was taken for fresh: {other:?}"),
        Err(error) => Some(error),
    });
    assert!(matches!(&error, LinkError::Stranger(text) if text.contains("recorded")), "{error}");
}

#[test]
fn an_initiator_is_not_fooled_by_its_own_words_nor_by_a_recorded_acceptor() {
    let (mut initiator, mut relay, mut acceptor) = Relay::between(&keys(), &keys(), hello(false));
    common::establish(&mut initiator, &mut acceptor, || relay.pass(4096));
    let recorded = relay.from_acceptor.clone();
    drop((initiator, relay, acceptor));

    let listener = listener();
    for reflect in [true, false] {
        let mut initiator = Link::connect(listener.address(), &keys(), hello(false)).expect("loopback is reachable");
        let mut other = accept(&listener);
        let mut said = false;
        let error = until("an error", || {
            let outcome = step(&mut initiator);
            if !said {
                let mut heard = [0; 4096];
                if let Ok(count) = other.read(&mut heard) {
                    other.write_all(if reflect { &heard[..count] } else { &recorded }).expect("there is room");
                    said = true;
                }
            }
            match outcome {
                Some(Outcome::Failed(error)) => Some(error),
                None => None,
                other => panic!("{other:?}"),
            }
        });
        assert!(matches!(error, LinkError::Stranger(_)), "{error:?}");
    }
}

#[test]
fn no_byte_of_a_handshake_can_be_changed_unnoticed() {
    let (mut initiator, mut relay, mut acceptor) = Relay::between(&keys(), &keys(), hello(false));
    common::establish(&mut initiator, &mut acceptor, || relay.pass(4096));
    let lengths =
        [(Direction::ToAcceptor, relay.from_initiator.len()), (Direction::ToInitiator, relay.from_acceptor.len())];
    drop((initiator, relay, acceptor));

    for (way, length) in lengths {
        for place in 0..length {
            let outcome = outcome_with_change(way, place, length);
            assert!(matches!(outcome, Outcome::Failed(_)), "byte {place} {way:?}: {outcome:?}");
        }
    }
}

/// What the end makes of a handshake that hears a changed byte.
fn outcome_with_change(way: Direction, place: usize, length: usize) -> Outcome {
    let (initiator, mut relay, acceptor) = Relay::between(&keys(), &keys(), hello(false));
    relay.change = Some((way, place));
    let mut relay = Some(relay);
    let (mut hearer, mut other) = match way {
        Direction::ToAcceptor => (acceptor, Some(initiator)),
        Direction::ToInitiator => (initiator, Some(acceptor)),
    };
    until("the end of a changed handshake", || {
        if let Some(Outcome::Failed(_)) = other.as_mut().and_then(step) {
            other = None;
        }
        let passed = relay.as_mut().map_or(0, |relay| {
            relay.pass(4096);
            if way == Direction::ToAcceptor {
                relay.from_initiator.len()
            } else {
                relay.from_acceptor.len()
            }
        });
        // A changed length makes the hearer wait for what never comes; for its driver the deadline would end that, here
        // the connection does, once everything has been said.
        if passed >= length || other.is_none() {
            relay = None;
        }
        step(&mut hearer)
    })
}
