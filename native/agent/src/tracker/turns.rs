//! Turns of the tracker's thread, one by one, with real sockets and without its thread.

use super::*;
use crossbeam::channel::unbounded;
use rejoin_protocol::message::{Registration, StatusReport, Timing, TrackerMessage};
use rejoin_protocol::start::JobStart;
use rejoin_protocol::tracker::{DeathLimit, TrackerConfig};
use rejoin_transport::{Hello, JobId, PortRange, Secret};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};

/// Longest wait: reached only when something is broken.
const LIMIT: Duration = Duration::from_secs(20);
const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const TIMING: Timing =
    Timing { heartbeat_millis: 20, lost_after_millis: 60, lease_millis: 60_000, members_millis: 60_000 };

fn keys() -> Keys {
    Keys { job: JobId([7; 16]), secret: Secret::new([9; 32]), encrypt: false }
}

struct Desk {
    server: Server,
    events: Events,
    notices: Receiver<TrackerNotice>,
    began: Instant,
}

impl Desk {
    fn new(timing: Timing) -> Desk {
        let rules = TrackerConfig {
            world: 3,
            spares: 0,
            elastic: None,
            epoch: 1,
            timing,
            deaths: DeathLimit::new(4, "test.maxFailures"),
            start: JobStart::Fresh,
            faults: Vec::new(),
            wants_result: false,
        };
        let Keys { job, secret, encrypt } = keys();
        let (listen, ports) = (LOCALHOST, PortRange::EPHEMERAL);
        let config = TrackerServerConfig { job, secret, encrypt, listen, ports, rules };
        let ((notices_sender, notices), (_, facts)) = (unbounded(), unbounded());
        let (outcome, closing) = (Arc::default(), Arc::default());
        let (server, _) = Server::new(config, facts, notices_sender, outcome, closing).unwrap();
        Desk { server, events: Events::with_capacity(256), notices, began: Instant::now() }
    }

    fn turn(&mut self) {
        assert!(self.began.elapsed() < LIMIT, "it takes too long");
        self.server.poll.poll(&mut self.events, Some(Duration::ZERO)).unwrap();
        self.server.turn(&mut self.events);
    }

    /// An agent that is registered.
    fn agent(&mut self, number: u64) -> Link {
        let agent = AgentId(number);
        let hello = Hello { agent, purpose: Purpose::Tracker, encrypt: true };
        let mut link = Link::connect(self.server.address(), &keys(), hello).unwrap();
        let status = StatusReport {
            generation: Default::default(),
            ranks: Vec::new(),
            held: Vec::new(),
            handed_over: Vec::new(),
        };
        let registration = Registration {
            agent,
            executor: format!("executor {number}"),
            host: "localhost".into(),
            address: SocketAddr::new(LOCALHOST, 1),
            pid: 1,
            status,
            fingerprint: Vec::new(),
            epoch: 0,
            view: None,
            ended: None,
            standing: Vec::new(),
        };
        link.send_message(&AgentMessage::Register(registration));
        while !heard(&mut link).iter().any(|message| matches!(message, TrackerMessage::Registered { .. })) {
            link.flush().unwrap();
            self.turn();
        }
        link
    }

    fn is_lost(&self, seen: &mut Vec<AgentId>, number: u64) -> bool {
        seen.extend(self.notices.try_iter().filter_map(|notice| match notice {
            TrackerNotice::Event(Event::AgentLost { agent, .. }) => Some(agent),
            _ => None,
        }));
        seen.contains(&AgentId(number))
    }
}

fn heard(link: &mut Link) -> Vec<TrackerMessage> {
    let mut all = Vec::new();
    loop {
        match link.receive().unwrap() {
            Received::Frame(_, payload) => all.push(wire::decode(&payload).unwrap()),
            Received::Established => {}
            _ => return all,
        }
    }
}

fn steps(link: &mut Link, count: u64) {
    for sequence in 0..count {
        link.send_message(&AgentMessage::Heartbeat { sequence, ranks: Vec::new() });
    }
    assert_eq!(link.flush().unwrap(), Flushed::Done, "the kernel takes it");
}

#[test]
fn of_each_link_so_much_is_read_in_a_turn_and_a_backlog_makes_nobody_else_wait() {
    let mut desk = Desk::new(Timing { lost_after_millis: 60_000, ..TIMING });
    let (mut one, mut other) = (desk.agent(1), desk.agent(2));
    let in_a_turn = (TURN_BYTES / MESSAGE_BYTES) as u64;
    steps(&mut one, 3 * in_a_turn + 1);
    steps(&mut other, 1);
    let (mut of_one, mut of_other, mut turns) = (0, 0, 0);
    while of_one < 3 * in_a_turn + 1 {
        desk.turn();
        let came = heard(&mut one).len() as u64;
        assert!(came <= in_a_turn, "{came} messages of one link were read in a turn");
        of_one += came;
        of_other += heard(&mut other).len();
        // What has come is read at once, or is known to be there.
        assert!(came == 0 || of_other == 1, "one was read, and the other one waits");
        turns += usize::from(came > 0);
    }
    assert!(turns >= 4, "{turns}");
}

#[test]
fn who_has_sent_a_part_of_a_message_is_not_silent_and_who_has_sent_nothing_is() {
    let mut desk = Desk::new(TIMING);
    let (_silent, mut slow) = (desk.agent(1), desk.agent(2));
    // A sealed message of so many bytes, of which one comes at a time.
    slow.socket().write_all(&u16::MAX.to_le_bytes()).unwrap();
    let (mut lost, mut until) = (Vec::new(), None);
    while until.is_none_or(|until| desk.server.now() < until) {
        slow.socket().write_all(&[1]).unwrap();
        desk.turn();
        assert!(!desk.is_lost(&mut lost, 2), "it is taken for silent");
        if until.is_none() && desk.is_lost(&mut lost, 1) {
            until = Some(desk.server.now().plus(3 * TIMING.lost_after_millis));
        }
    }
}
