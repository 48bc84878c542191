//! Turns of the control thread, one by one, with real sockets and without its thread.

use super::*;
use crate::agent::checkpoint;
use crate::digest::part_digest;
use crate::fetch::{Reply, Request};
use crate::plane::{AgentReports, DataPlane, PlaneUsage};
use parking_lot::Mutex;
use rejoin_protocol::fault::{Action, FaultRule, Moment};
use rejoin_protocol::former::FormerWorlds;
use rejoin_protocol::hook::Hook;
use rejoin_protocol::host::{HostOutput, Offer, Start, OWN_COPIES};
use rejoin_protocol::ids::{Generation, Lineage, MemberId, Phase, Version};
use rejoin_protocol::message::{
    AgentMessage, Newcomer, Plan, RankState, RankStatus, Timing, TrackerMessage, RESULT_PART_LIMIT,
};
use rejoin_protocol::report::Report;
use rejoin_protocol::view::{AgentAddress, SlotState, View, ViewSlot};
use rejoin_protocol::wire::{self, Header, Kind};
use rejoin_transport::{Flushed, Hello, JobId, Listener, PortRange, Purpose, Received, Secret};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;

/// Longest wait: reached only when something is broken.
pub(super) const LIMIT: Duration = Duration::from_secs(20);
pub(super) const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const FRAME_BYTES: usize = 4 << 10;

pub(super) fn keys() -> Keys {
    Keys { job: JobId([7; 16]), secret: Secret::new([9; 32]), encrypt: false }
}

/// Moves nothing over the links that are made for it.
#[derive(Default)]
struct Idle {
    /// What happens as an incarnation is freed.
    freeing: OnceLock<Box<dyn Fn(MemberId) + Send + Sync>>,
}

impl DataPlane for Idle {
    fn attach(&self, _: Arc<dyn AgentReports>) {}
    fn join_accepted(&self, _: MemberId) {}
    fn start(&self, _: MemberId, _: &[usize], _: &Start) {}
    fn peers(&self, _: MemberId, _: &[MemberId]) {}
    fn link(&self, _: MemberId, _: MemberId, _: Link) {}
    fn free(&self, member: MemberId, _: Error) {
        if let Some(freeing) = self.freeing.get() {
            freeing(member);
        }
    }
    fn hold(&self, _: MemberId) -> Version {
        Version(0)
    }
    fn release(&self, _: MemberId) {}
    fn faults(&self, _: &[FaultRule]) {}
    fn usage(&self) -> PlaneUsage {
        PlaneUsage::default()
    }
    fn close(&self) {}
}

pub(super) fn idle() -> Planes {
    Planes { collectives: None, channels: Some(Arc::new(Idle::default())) }
}

fn control() -> Control {
    control_of(SocketAddr::new(LOCALHOST, 1))
}

fn control_of(tracker: SocketAddr) -> Control {
    let config = AgentConfig {
        job: keys().job,
        secret: keys().secret,
        encrypt: false,
        executor: "executor".into(),
        listen: LOCALHOST,
        ports: PortRange::EPHEMERAL,
        host: "localhost".into(),
        tracker,
        join_file: None,
        tracker_millis: 60_000,
    };
    Control::new(&config, keys(), idle(), Vec::new(), OWN_COPIES).unwrap().0
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
    let member = MemberId { rank: Rank(0), incarnation: Incarnation::nth(1) };
    let gathering = Gathering::new(member, checkpoint, vec![holder], "localhost", Instant::now());
    control.gatherings.insert(member, gathering);
    control.go_on_gathering(member);
    let stream = until("the newcomer connects", || listener.accept().unwrap()).0;
    let mut link = Link::accept(stream, &keys()).unwrap();
    until("the newcomer asks", || {
        // Both ends stand in this one thread: neither may wait for the other.
        control.turn.unfinished.insert(WAKER);
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

/// A control thread's state, a rank of it that was started, and the codes with which its planes free it.
fn started() -> (Control, MemberId, Arc<Mutex<Vec<Option<Code>>>>) {
    let mut control = control();
    let (plane, seen) = (Arc::new(Idle::default()), Arc::new(Mutex::new(Vec::new())));
    let (shared, at) = (control.shared.clone(), seen.clone());
    let look = move |member| at.lock().push(shared.failure(member).map(|error| error.code));
    assert!(plane.freeing.set(Box::new(look)).is_ok());
    control.planes = Planes { collectives: None, channels: Some(plane) };
    let member = MemberId { rank: Rank(0), incarnation: Incarnation::nth(0) };
    control
        .members
        .insert(member.rank, MemberState { incarnation: Some(member.incarnation), ..MemberState::default() });
    (control, member, seen)
}

#[test]
fn what_ends_an_incarnation_is_known_before_its_worker_is_freed() {
    let (mut control, member, seen) = started();
    let error = Error::new(Code::BadState, "ended by the test");
    control.obey(Command::Free { member, error: error.clone() });
    let (mut other, member, seen_by_other) = started();
    other.carry_out(HostOutput::Over { rank: member.rank, attempt: Attempt::default(), outcome: Err(error) });
    assert_eq!([seen, seen_by_other].map(|seen| seen.lock().clone()), [[Some(Code::BadState)]; 2]);
}

#[test]
fn a_control_thread_that_panics_leaves_no_caller_waiting() {
    let mut control = control();
    let plane = Arc::new(Idle::default());
    assert!(plane.freeing.set(Box::new(|_| panic!("planted by the test"))).is_ok());
    control.planes = Planes { collectives: None, channels: Some(plane) };
    let member = MemberId { rank: Rank(0), incarnation: Incarnation::nth(0) };
    let there = MemberState { incarnation: Some(member.incarnation), ..MemberState::default() };
    let waiting = Waiting::new();
    let waits = MemberState { joining: Some(waiting.clone()), ..MemberState::default() };
    control.members.extend([(member.rank, there), (Rank(1), waits)]);
    let shared = control.shared.clone();
    shared.command(Command::Free { member, error: Error::new(Code::BadState, "ended by the test") });
    std::thread::spawn(move || control.live()).join().expect("the panic goes no further");
    let error = waiting.answered_within(LIMIT).expect("an answer").expect_err("an error");
    assert!(error.message.contains("planted by the test"), "{error}");
    assert!(shared.is_over());
}

#[test]
fn what_a_rank_has_called_stays_for_its_peers_when_its_task_has_ended() {
    let (mut control, member, freed) = started();
    control.obey(Command::Report { member, report: Report::Left { failure: None } });
    assert_eq!(*freed.lock(), []);
    assert_eq!(control.shared.failure(member).map(|error| error.code), Some(Code::BadState));
}

#[test]
fn a_fault_rule_that_has_fired_does_not_strike_again_when_the_tracker_sends_it_again() {
    let (mut control, member, freed) = started();
    let rule =
        |id| FaultRule { id, rank: member.rank, incarnation: None, moment: Moment::Joined, action: Action::Throw };
    for rules in [vec![rule(0)], vec![rule(0), rule(1)], vec![rule(0), rule(1)]] {
        control.carry_out(HostOutput::Faults(rules));
        control.moment(member, Moment::Joined);
    }
    assert_eq!(freed.lock().len(), 2, "each of the two rules has fired once");
}

#[test]
fn a_fast_senders_stripe_is_read_over_many_turns_so_that_heartbeats_are_answered_between_them() {
    const TURNS: usize = 16;
    let model: Vec<u8> = (0..2 * TURNS * FRAME_BYTES).map(|place| (place * 7 + place / 256) as u8).collect();
    let (mut control, mut events) = (control(), Events::with_capacity(16));
    control.turn.bytes = model.len() / TURNS;
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
        control.turn.unfinished.insert(WAKER);
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

/// A rank's control thread and the tracker's end of its link; both stand in this one thread.
struct Ending {
    control: Control,
    events: Events,
    tracker: Link,
}

const MEMBER: MemberId = MemberId { rank: Rank(0), incarnation: Incarnation::nth(0) };

impl Ending {
    /// The one rank of a job has been started, under a tracker that asks for its result or doesn't.
    fn of_one(wants_result: bool) -> Ending {
        let listener = Listener::bind(LOCALHOST, PortRange::EPHEMERAL, "test").unwrap();
        let mut control = control_of(listener.address());
        control.handle(None);
        control.connect_tracker();
        let stream = until("the agent connects", || listener.accept().unwrap()).0;
        let tracker = Link::accept(stream, &keys()).unwrap();
        let mut ending = Ending { control, events: Events::with_capacity(16), tracker };
        ending.hears(|message| matches!(message, AgentMessage::Register(_)));
        let timing =
            Timing { heartbeat_millis: 1, lost_after_millis: 60_000, lease_millis: 60_000, members_millis: 60_000 };
        ending.says(TrackerMessage::Registered { epoch: 1, timing, wants_result });
        let (attempt, rank) = (Attempt::default(), Rank(0));
        let join =
            Command::Join { rank, attempt, fingerprint: "t".into(), offer: Offer::default(), wait: Waiting::new() };
        ending.control.obey(join);
        ending.hears(|message| matches!(message, AgentMessage::Join { .. }));
        ending.starts(rank, attempt);
        ending
    }

    fn starts(&mut self, rank: Rank, attempt: Attempt) {
        let (incarnation, generation) = (Incarnation::nth(0), Generation { epoch: 1, number: 1 });
        let agent = self.control.agent;
        let address = AgentAddress { agent, host: "localhost".into(), address: self.control.address() };
        self.says(TrackerMessage::JoinAccepted { rank, attempt, incarnation });
        self.says(TrackerMessage::View(View {
            generation,
            lineage: Lineage(0),
            branches: Vec::new(),
            former: FormerWorlds::default(),
            has_begun: false,
            highest: None,
            fingerprint: Some("t".into()),
            hooked: None,
            slots: vec![ViewSlot { incarnation: Some(incarnation), state: SlotState::Alive { agent }, planned: false }],
            agents: vec![address],
        }));
        let (version, state) = (Version(0), RankState::Fresh);
        let (results, observed, segment, hook) = (Vec::new(), Vec::new(), None, Hook::Unasked);
        let stands =
            RankStatus { rank, incarnation, attempt, state, oldest: version, results, observed, segment, hook };
        let (checkpoint, own, own_holders, has_local) = (None, None, Vec::new(), false);
        self.says(TrackerMessage::Plan(Plan {
            generation,
            lineage: Lineage(0),
            newcomers: vec![Newcomer {
                rank,
                incarnation,
                version,
                checkpoint,
                own,
                own_holders,
                former: None,
                has_local,
            }],
            table: vec![stands],
            holders: Vec::new(),
            reason: "all are there".into(),
            hooked: None,
        }));
        self.hears(|message| matches!(message, AgentMessage::StatusReport(_)));
        until("the rank is started", || {
            self.turn();
            self.control.host.members().iter().any(|member| member.running().is_some()).then_some(())
        });
    }

    fn turn(&mut self) {
        self.control.turn.unfinished.insert(WAKER);
        self.control.turn(&mut self.events);
        self.tracker.flush().unwrap();
    }

    fn says(&mut self, message: TrackerMessage) {
        self.tracker.send_message(&message);
    }

    /// The next thing that the tracker hears.
    fn observed(&mut self) -> AgentMessage {
        until("the tracker hears something", || {
            self.turn();
            match self.tracker.receive().unwrap() {
                Received::Hello(_) => {
                    self.tracker.admit();
                    None
                }
                Received::Frame(_, payload) => Some(wire::decode(&payload).unwrap()),
                _ => None,
            }
        })
    }

    fn hears(&mut self, wanted: impl Fn(&AgentMessage) -> bool) {
        while !wanted(&self.observed()) {}
    }

    fn finishes(&mut self, result: Bytes) {
        let wait = Waiting::new();
        self.control.obey(Command::Finish { member: MEMBER, rounds: 1, digest: 7, result: Some(result), wait });
    }
}

#[test]
fn heartbeats_go_ahead_of_a_result_that_is_on_its_way() {
    let mut ending = Ending::of_one(true);
    let result: Bytes = (0..48 * RESULT_PART_LIMIT).map(|place| (place * 7 + place / 256) as u8).collect();
    ending.finishes(result.clone());
    let (mut brought, mut between) = (Vec::new(), 0);
    loop {
        // Never more than a part waits in front of what there is to say.
        let queued = ending.control.tracker.link.as_ref().map_or(0, Link::queued_bytes);
        assert!(queued < 2 * RESULT_PART_LIMIT, "{queued} bytes are queued");
        match ending.observed() {
            AgentMessage::ResultPart { offset, bytes, .. } => {
                assert_eq!(offset, brought.len() as u64);
                brought.extend(bytes);
            }
            AgentMessage::Heartbeat { .. } if !brought.is_empty() => between += 1,
            AgentMessage::Report { report: Report::Finished { digest, .. }, .. } => break assert_eq!(digest, 7),
            _ => {}
        }
    }
    assert!(brought == result, "{} bytes of {}", brought.len(), result.len());
    assert!(between > 0, "no heartbeat came between the parts");
}

#[test]
fn a_result_that_nobody_asks_for_is_not_sent_and_the_end_is_told() {
    let mut ending = Ending::of_one(false);
    ending.finishes(Bytes::from(vec![1; 4 * RESULT_PART_LIMIT]));
    loop {
        match ending.observed() {
            AgentMessage::Report { report: Report::Finished { digest, .. }, .. } => break assert_eq!(digest, 7),
            AgentMessage::ResultPart { offset, .. } => panic!("the part at {offset} was sent"),
            _ => {}
        }
    }
}

#[test]
fn a_result_whose_rank_is_gone_is_sent_no_further() {
    let mut ending = Ending::of_one(true);
    ending.finishes(Bytes::from(vec![1; 400 * RESULT_PART_LIMIT]));
    ending.hears(|message| matches!(message, AgentMessage::ResultPart { .. }));
    ending.control.obey(Command::Report { member: MEMBER, report: Report::Left { failure: None } });
    ending.hears(|message| match message {
        AgentMessage::Report { report: Report::Left { .. }, .. } => true,
        AgentMessage::Report { report: Report::Finished { .. }, .. } => {
            panic!("the end was reported by a rank that is gone")
        }
        _ => false,
    });
    // Nothing more comes behind it: three heartbeats show that.
    for _ in 0..3 {
        ending.hears(|message| {
            let is_too_late = matches!(message, AgentMessage::ResultPart { .. } | AgentMessage::Report { .. });
            assert!(!is_too_late, "{message:?}");
            matches!(message, AgentMessage::Heartbeat { .. })
        });
    }
}

#[test]
fn the_end_of_an_incarnation_is_no_answer_to_a_newer_join_of_its_rank() {
    let mut control = control();
    let attempt = |task| Attempt { stage: 0, task };
    let join = |control: &mut Control, task| {
        let wait = Waiting::new();
        control.join(Rank(0), attempt(task), String::new(), Offer::default(), wait.clone());
        let member = MemberId { rank: Rank(0), incarnation: Incarnation::nth(task) };
        (member, wait)
    };
    let (first, _) = join(&mut control, 0);
    control.join_accepted(first, attempt(0));
    let (second, wait) = join(&mut control, 1);
    control.report(first, Report::Left { failure: None });
    assert!(wait.answered_within(Duration::ZERO).is_none(), "the newer one has just begun to wait");
    control.join_accepted(second, attempt(1));
    control.free_member(second, Error::new(Code::RolledBack, "all go back"));
    let answer = wait.answered_within(Duration::ZERO).expect("it was freed itself");
    assert_eq!(answer.map(drop).unwrap_err().code, Code::RolledBack);
}

#[test]
fn why_an_incarnation_ended_is_known_after_another_one_has_its_number() {
    let [former, next] = [0, 1].map(|nth| MemberId { rank: Rank(2), incarnation: Incarnation::nth(nth) });
    for code in [Code::Resized, Code::Fenced] {
        let mut control = control();
        control.shared.failed(former, Error::new(code, "of its own"));
        control.join_accepted(next, Attempt { stage: 0, task: 1 });
        assert_eq!(control.shared.failure(former).map(|error| error.code), Some(code));
    }
}
