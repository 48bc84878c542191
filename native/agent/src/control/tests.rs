//! Turns of the control thread, one by one, with real sockets and without its thread.

use super::*;
use crate::agent::checkpoint;
use crate::fetch::{part_digest, Reply, Request};
use crate::plane::NoPlane;
use rejoin_protocol::host::OWN_COPIES;
use rejoin_protocol::ids::{Lane, Lineage, Phase, Version};
use rejoin_protocol::view::AgentAddress;
use rejoin_protocol::wire::{self, Header, Kind};
use rejoin_transport::{Flushed, Hello, JobId, PortRange, Purpose, Received, Secret};
use std::net::{IpAddr, Ipv4Addr};

/// Longest wait: reached only when something is broken.
pub(super) const LIMIT: Duration = Duration::from_secs(20);
pub(super) const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const FRAME_BYTES: usize = 4 << 10;

pub(super) fn keys() -> Keys {
    Keys { job: JobId([7; 16]), secret: Secret::new([9; 32]), encrypt: false }
}

fn control() -> Control {
    let config = AgentConfig {
        job: keys().job,
        secret: keys().secret,
        encrypt: false,
        executor: "executor".into(),
        listen: LOCALHOST,
        ports: PortRange::EPHEMERAL,
        host: "localhost".into(),
        tracker: SocketAddr::new(LOCALHOST, 1),
        tracker_millis: 60_000,
    };
    Control::new(&config, keys(), Arc::new(NoPlane(&[Lane::Channels])), Vec::new(), OWN_COPIES).unwrap().0
}

pub(super) fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        if let Some(found) = found() {
            return found;
        }
    }
    panic!("never happened: {what}");
}

/// A newcomer's control thread that has asked a holder for this model, and the holder's link.
fn asked(control: &mut Control, events: &mut Events, model: &[u8]) -> (Checkpoint, Link) {
    let listener = Listener::bind(LOCALHOST, PortRange::EPHEMERAL, "test").unwrap();
    let checkpoint = checkpoint(Lineage(0), Version(3), 3, model, false);
    let holder = AgentAddress { agent: AgentId(8), host: "localhost".into(), address: listener.address() };
    let member = MemberId { rank: Rank(0), incarnation: Incarnation(1) };
    let gathering = Gathering::new(member, checkpoint, vec![holder], "localhost", Instant::now());
    control.gatherings.insert(member, gathering);
    control.go_on_gathering(member);
    let stream = until("the newcomer connects", || listener.accept().unwrap()).0;
    let mut link = Link::accept(stream, &keys()).unwrap();
    until("the newcomer asks", || {
        // Both ends stand in this one thread: neither may wait for the other.
        control.unfinished.insert(WAKER);
        control.turn(events);
        link.flush().unwrap();
        match link.receive().unwrap() {
            Received::Hello(hello) => {
                assert_eq!(hello.purpose, Purpose::Fetch);
                link.admit();
                None
            }
            Received::Frame(_, payload) => wire::decode::<Request>(&payload).ok(),
            _ => None,
        }
    });
    (checkpoint, link)
}

#[test]
fn a_fast_senders_stripe_is_read_over_many_turns_so_that_heartbeats_are_answered_between_them() {
    const TURNS: usize = 16;
    let model: Vec<u8> = (0..2 * TURNS * FRAME_BYTES).map(|place| (place * 7 + place / 256) as u8).collect();
    let (mut control, mut events) = (control(), Events::with_capacity(16));
    control.turn_bytes = model.len() / TURNS;
    let (checkpoint, mut holder) = asked(&mut control, &mut events, &model);
    // All of it lies in the kernel before the newcomer reads: no sender can be faster.
    for (index, bytes) in model.chunks(FRAME_BYTES).enumerate() {
        let phase = Phase::Version(checkpoint.version);
        let offset = (index * FRAME_BYTES) as u64;
        let header = Header { kind: Kind::Bulk, phase, offset, digest: part_digest(bytes), ..Header::control(0) };
        holder.send(header, Bytes::copy_from_slice(bytes));
    }
    until("the kernel takes it", || (holder.flush().unwrap() == Flushed::Done).then_some(()));
    let mut turns = 0;
    let brought = until("the model is here", || {
        control.turn(&mut events);
        turns += 1;
        control.shared.store.find(&checkpoint)
    });
    assert_eq!(brought, model);
    assert!(turns >= TURNS, "all was read in {turns} turns");
}

/// Another process gives this one an own model of a rank there: what is answered after its bytes, if its link stays.
fn given(control: &mut Control, checkpoint: Checkpoint, model: &[u8]) -> Option<Reply> {
    let mut events = Events::with_capacity(16);
    let hello = Hello { agent: AgentId(8), purpose: Purpose::Fetch, encrypt: false };
    let mut link = Link::connect(control.address(), &keys(), hello).unwrap();
    until("an answer comes, or the link ends", || {
        control.unfinished.insert(WAKER);
        control.turn(&mut events);
        let received = match link.flush().map(drop).and_then(|()| link.receive()) {
            Ok(received) => received,
            Err(_) => return Some(None),
        };
        match received {
            Received::Established => link.send_message(&Request::Keep(checkpoint)),
            Received::Frame(_, payload) => match wire::decode::<Reply>(&payload).unwrap() {
                Reply::Send => {
                    let header = Header { kind: Kind::Bulk, digest: part_digest(model), ..Header::control(0) };
                    link.send(header, Bytes::copy_from_slice(model));
                }
                other => return Some(Some(other)),
            },
            _ => {}
        }
        None
    })
}

#[test]
fn an_own_model_that_comes_with_other_bytes_than_its_digest_says_is_not_kept() {
    let mut control = control();
    let model = b"what rank 1 has".to_vec();
    let own = Checkpoint { owner: Some(Rank(1)), ..checkpoint(Lineage(0), Version(3), 3, &model, false) };
    assert_eq!(given(&mut control, own, b"what rank 1 had"), None, "its link ends");
    assert!(control.shared.store.find(&own).is_none());
    assert_eq!(given(&mut control, own, &model), Some(Reply::Kept));
    assert_eq!(control.shared.store.find(&own).unwrap(), model);
}
