//! How soon the tracker finds out that a process whose connection ended is gone.

use rejoin_protocol::event::Event;
use rejoin_protocol::ids::{AgentId, Generation, Millis};
use rejoin_protocol::message::{AgentMessage, Registration, StatusReport, Timing};
use rejoin_protocol::start::JobStart;
use rejoin_protocol::tracker::{DeathLimit, Tracker, TrackerConfig, TrackerInput, TrackerOutput};
use std::net::{Ipv4Addr, SocketAddr};

const AGENT: AgentId = AgentId(7);
const LINK: u64 = 1;
const PID: u32 = 4711;

fn tracker() -> Tracker {
    let timing =
        Timing { heartbeat_millis: 200, lost_after_millis: 1500, lease_millis: 60_000, members_millis: 60_000 };
    let config = TrackerConfig {
        world: 2,
        spares: 0,
        elastic: None,
        epoch: 1,
        timing,
        deaths: DeathLimit::new(4, "deaths"),
        start: JobStart::Fresh,
        faults: Vec::new(),
        wants_result: false,
    };
    let mut tracker = Tracker::new(config, Millis(0)).unwrap();
    let registration = Registration {
        agent: AGENT,
        executor: "executor".into(),
        host: "host".into(),
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 1)),
        pid: PID,
        status: StatusReport {
            generation: Generation::default(),
            ranks: Vec::new(),
            held: Vec::new(),
            handed_over: Vec::new(),
        },
        fingerprint: Vec::new(),
        epoch: 0,
        view: None,
        standing: Vec::new(),
        ended: None,
    };
    tracker.handle(TrackerInput::Message { link: LINK, message: AgentMessage::Register(registration) }, Millis(0));
    drain(&mut tracker);
    tracker
}

fn drain(tracker: &mut Tracker) -> Vec<TrackerOutput> {
    std::iter::from_fn(|| tracker.poll()).collect()
}

fn probes(outputs: &[TrackerOutput]) -> usize {
    outputs.iter().filter(|output| matches!(output, TrackerOutput::Probe { agent: AGENT, .. })).count()
}

#[test]
fn a_listener_that_is_still_open_is_probed_again_within_milliseconds_and_then_ever_more_rarely() {
    let mut tracker = tracker();
    tracker.handle(TrackerInput::Closed { link: LINK, reason: "reset".into() }, Millis(100));
    assert_eq!(probes(&drain(&mut tracker)), 1);
    let mut pauses = Vec::new();
    let mut now = Millis(100);
    for _ in 0..8 {
        tracker.handle(TrackerInput::Probed { agent: AGENT, gone: false }, now);
        assert_eq!(probes(&drain(&mut tracker)), 0);
        let wake = tracker.wake_at().unwrap();
        pauses.push(wake.since(now));
        now = wake;
        tracker.handle(TrackerInput::Wake, now);
        assert_eq!(probes(&drain(&mut tracker)), 1, "at {now:?}");
    }
    assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 200, 200]);
    tracker.handle(TrackerInput::Probed { agent: AGENT, gone: true }, now);
    let lost =
        drain(&mut tracker).into_iter().any(|output| matches!(output, TrackerOutput::Event(Event::AgentLost { .. })));
    assert!(lost);
}

#[test]
fn an_agent_that_was_believed_lost_is_there_again_under_its_own_process_number() {
    let mut tracker = tracker();
    let lost = |output: &TrackerOutput| matches!(output, TrackerOutput::Event(Event::AgentLost { agent: AGENT, .. }));
    let silent = (1..50).any(|beat| {
        tracker.handle(TrackerInput::Wake, Millis(200 * beat));
        drain(&mut tracker).iter().any(lost)
    });
    assert!(silent, "it wasn't lost by its silence");
    let message = AgentMessage::Heartbeat { sequence: 1, ranks: Vec::new() };
    tracker.handle(TrackerInput::Message { link: LINK, message }, Millis(10_001));
    let pids: Vec<u32> = drain(&mut tracker)
        .into_iter()
        .filter_map(|output| match output {
            TrackerOutput::Event(Event::AgentJoined { agent: AGENT, pid, .. }) => Some(pid),
            _ => None,
        })
        .collect();
    assert_eq!(pids, [PID]);
}
