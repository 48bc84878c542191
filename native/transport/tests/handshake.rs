//! Links between processes of one job: how they come about.

mod common;

use common::{accept, connect, ends, establish, flush, header, hello, keys, listener, outcomes, step, until, Outcome};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::wire::HEADER_BYTES;
use rejoin_transport::{Hello, Keys, Link, LinkError, Listener, PortRange, Purpose, Received};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr};

/// Drives both ends until the acceptor is asked for its verdict.
fn until_hello(initiator: &mut Link, acceptor: &mut Link) -> Hello {
    until("a hello", || {
        assert!(matches!(initiator.receive(), Ok(Received::Pending)), "nothing is decided yet");
        match acceptor.receive().expect("the initiator is of the job") {
            Received::Hello(hello) => Some(hello),
            Received::Pending => None,
            other => panic!("{other:?}"),
        }
    })
}

#[test]
fn both_ends_prove_themselves_and_the_acceptor_decides() {
    let (mut initiator, mut acceptor) = ends(&keys(), &keys(), hello(false));
    let seen = until_hello(&mut initiator, &mut acceptor);
    assert_eq!(seen, hello(false));

    acceptor.admit();
    until("the verdict", || match initiator.receive().expect("it was admitted") {
        Received::Established => Some(()),
        Received::Pending => None,
        other => panic!("{other:?}"),
    });
    assert!(!initiator.is_encrypted() && !acceptor.is_encrypted());
}

#[test]
fn a_refusal_reaches_the_initiator_with_its_text() {
    let (mut initiator, mut acceptor) = ends(&keys(), &keys(), hello(false));
    until_hello(&mut initiator, &mut acceptor);
    let error = Error::new(Code::Fenced, "incarnation 1 of rank 2 was declared lost; 2 is at work");
    acceptor.refuse(error.clone());
    drop(acceptor);
    let seen = until("the verdict", || match initiator.receive().expect("a verdict isn't a failure") {
        Received::Refused(error) => Some(error),
        Received::Pending => None,
        other => panic!("{other:?}"),
    });
    assert_eq!(seen, error);
    assert!(matches!(initiator.receive(), Err(LinkError::Closed)));
    assert!(matches!(initiator.flush(), Err(LinkError::Closed)));
}

#[test]
fn a_text_too_long_for_a_verdict_is_cut_between_characters() {
    let (mut initiator, mut acceptor) = ends(&keys(), &keys(), hello(false));
    until_hello(&mut initiator, &mut acceptor);
    acceptor.refuse(Error::new(Code::Mismatch, format!("x{}", "é".repeat(5000))));
    let seen = until("the verdict", || match initiator.receive().expect("a verdict isn't a failure") {
        Received::Refused(error) => Some(error),
        _ => None,
    });
    assert_eq!(seen.code, Code::Mismatch);
    assert_eq!(seen.message, format!("x{}", "é".repeat(2015)));
}

#[test]
fn frames_sent_before_the_verdict_arrive_after_it() {
    let (mut initiator, mut acceptor) = ends(&keys(), &keys(), hello(false));
    initiator.send(header(1), b"early".as_slice().into());
    flush(&mut initiator);
    let queued = initiator.queued_bytes();
    until_hello(&mut initiator, &mut acceptor);
    flush(&mut initiator);
    assert_eq!(initiator.queued_bytes(), HEADER_BYTES + 5, "{queued} bytes were queued before");
    acceptor.send(header(2), b"hi".as_slice().into());
    acceptor.admit();
    flush(&mut acceptor);
    let outcome = until("the verdict", || step(&mut initiator));
    assert!(matches!(outcome, Outcome::Established), "{outcome:?}");
    flush(&mut initiator);
    for (link, offset, text) in [(&mut acceptor, 1, b"early".as_slice()), (&mut initiator, 2, b"hi".as_slice())] {
        let (header, payload) = until("the frame", || link.take().expect("the link works"));
        assert_eq!((header.offset, header.length as usize, payload.as_ref()), (offset, text.len(), text));
    }
}

#[test]
fn links_to_the_tracker_are_always_encrypted() {
    for purpose in [Purpose::Tracker, Purpose::Launcher] {
        let (mut initiator, mut acceptor) = ends(&keys(), &keys(), Hello { purpose, ..hello(false) });
        establish(&mut initiator, &mut acceptor, || ());
        assert!(initiator.is_encrypted() && acceptor.is_encrypted());
    }
}

#[test]
fn keys_that_demand_encryption_make_an_initiator_ask_for_it() {
    let strict = Keys { encrypt: true, ..keys() };
    let (mut initiator, mut acceptor) = ends(&strict, &keys(), hello(false));
    establish(&mut initiator, &mut acceptor, || ());
    assert!(initiator.is_encrypted() && acceptor.is_encrypted());
}

#[test]
fn an_acceptor_that_demands_encryption_refuses_a_plain_link_with_the_reason() {
    let strict = Keys { encrypt: true, ..keys() };
    let (initiator, acceptor) = ends(&keys(), &strict, hello(false));
    match outcomes(initiator, acceptor) {
        (Outcome::Refused(reported), Outcome::Failed(LinkError::Incompatible(seen))) => {
            assert_eq!(reported, seen);
            assert_eq!(reported.code, Code::Incompatible);
            assert!(reported.message.contains("agent 77") && reported.message.contains("encryption"), "{reported}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn connecting_to_a_port_without_a_listener_fails_with_the_address() {
    let address = listener().address();
    let mut link = Link::connect(address, &keys(), hello(false)).expect("the generation starts");
    let error = until("an error", || match link.receive() {
        Ok(Received::Pending) => None,
        Ok(other) => panic!("{other:?}"),
        Err(error) => Some(error),
    });
    let LinkError::Io(cause) = &error else { panic!("{error:?}") };
    assert_eq!(cause.kind(), ErrorKind::ConnectionRefused);
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    assert_eq!(error.to_error().code, Code::Io);
}

#[test]
fn a_verdict_nobody_waits_for_is_a_defect_that_ends_the_link() {
    let (_initiator, mut acceptor) = ends(&keys(), &keys(), hello(false));
    acceptor.admit();
    let error = acceptor.receive().expect_err("it was misused");
    assert!(error.to_string().contains("admit without a hello"), "{error}");
}

#[test]
fn an_acceptor_says_nothing_before_the_initiator_has_proven_itself() {
    let listener = listener();
    let mut silent = connect(listener.address());
    let mut acceptor = Link::accept(accept(&listener), &keys()).expect("the connection is there");
    assert!(matches!(acceptor.receive(), Ok(Received::Pending)));
    flush(&mut acceptor);
    drop(acceptor);
    let mut seen = Vec::new();
    until("the end", || match std::io::Read::read_to_end(&mut silent, &mut seen) {
        Ok(_) => Some(()),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => panic!("{error}"),
    });
    assert!(seen.is_empty(), "{seen:02x?}");
}

#[test]
fn links_work_over_ipv6_where_there_is_ipv6() {
    let host = IpAddr::V6(Ipv6Addr::LOCALHOST);
    if std::net::TcpListener::bind((host, 0)).is_err() {
        return; // This machine has no IPv6 loopback, which no link could change.
    }
    let listener = Listener::bind(host, PortRange::EPHEMERAL, "ports").expect("the address was free a moment ago");
    let mut initiator = Link::connect(listener.address(), &keys(), hello(true)).expect("loopback is reachable");
    let mut acceptor = Link::accept(accept(&listener), &keys()).expect("the connection is there");
    establish(&mut initiator, &mut acceptor, || ());
    assert!(acceptor.peer_address().is_ipv6() && acceptor.is_encrypted());
}
