//! How soon the tracker finds out that a process whose connection ended is gone.

use rejoin_protocol::event::Event;
use rejoin_protocol::ids::{AgentId, Generation, Millis};
use rejoin_protocol::message::{AgentMessage, Registration, StatusReport, Timing};
use rejoin_protocol::start::JobStart;
use rejoin_protocol::tracker::{DeathLimit, Tracker, TrackerConfig, TrackerInput, TrackerOutput};
use std::net::{Ipv4Addr, SocketAddr};

const AGENT: AgentId = AgentId(7);
const LINK: u64 = 1;

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
        pid: 1,
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
