//! A newcomer whose checkpoint comes slowly isn't lost for it, and goes on where it was when its
//! holder dies. A real tracker and real sockets; the turns of each process are taken here, so that
//! what has to come first does.

use super::tests::{idle, keys, until, LIMIT, LOCALHOST};
use super::*;
use crate::agent::{checkpoint, lazy_checkpoint};
use crate::store::Model;
use crate::{TrackerNotice, TrackerServer, TrackerServerConfig};
use parking_lot::Mutex;
use rejoin_protocol::host::{Offer, OWN_COPIES};
use rejoin_protocol::ids::{Lineage, MemberId, Version};
use rejoin_protocol::message::Timing;
use rejoin_protocol::start::JobStart;
use rejoin_protocol::tracker::{DeathLimit, TrackerConfig};
use rejoin_transport::PortRange;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// One stripe, of which the kernel takes only a part ahead of its reader.
const MODEL_BYTES: usize = 12 << 20;
/// Tries of one link after which its peer was given up, when an answer that it isn't ready counted
/// as a failure: eight reports, each of twelve.
const ONCE_FATAL: u32 = 96;
/// Tries of the other survivor for each part that the sender gives.
const TRIES_A_PART: u32 = 20;

/// What a process shows, and what to show.
#[derive(Default)]
struct Watched {
    tries: AtomicU32,
    is_serving: AtomicBool,
    /// Bytes of the checkpoint that are here.
    have: AtomicU64,
    /// There were more before.
    has_lost: AtomicBool,
    is_killed: AtomicBool,
}

struct PacedProcess {
    shared: Arc<Shared>,
    watched: Arc<Watched>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl PacedProcess {
    fn start(tracker: &TrackerServer, number: u32, watched: &Arc<Watched>, pace: Option<Pace>) -> PacedProcess {
        let config = AgentConfig {
            job: keys().job,
            secret: keys().secret,
            encrypt: false,
            executor: number.to_string(),
            listen: LOCALHOST,
            ports: PortRange::EPHEMERAL,
            host: "localhost".into(),
            tracker: tracker.address(),
            join_file: None,
            tracker_millis: 5_000,
        };
        let (mut control, shared) = Control::new(&config, keys(), idle(), Vec::new(), OWN_COPIES).unwrap();
        control.links.pause_limit = Duration::from_millis(1);
        let (watched, own) = (watched.clone(), watched.clone());
        let thread = std::thread::spawn(move || run(control, &own, pace));
        PacedProcess { shared, watched, thread: Mutex::new(Some(thread)) }
    }

    fn join(&self, rank: u32, task: u32) -> Waiting<Joined> {
        let (wait, attempt) = (Waiting::new(), Attempt { stage: 0, task });
        let (fingerprint, offer) = ("terms".to_string(), Offer::default());
        self.shared.command(Command::Join { rank: Rank(rank), attempt, fingerprint, offer, wait: wait.clone() });
        wait
    }

    /// As if the process were killed: nothing more is said, and its sockets are closed.
    fn kill(&self) {
        self.watched.is_killed.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.lock().take() {
            thread.join().expect("the control thread panicked");
        }
    }
}

impl Drop for PacedProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What is waited for before more of the checkpoint is sent.
struct Pace {
    /// Tries of this process to make its link to the newcomer.
    other: Arc<Watched>,
    /// The last bytes have come there.
    newcomer: Arc<Watched>,
    parts: u32,
    tries: u32,
    have: u64,
}

impl Pace {
    fn of(other: &Arc<Watched>, newcomer: &Arc<Watched>) -> Option<Pace> {
        Some(Pace { other: other.clone(), newcomer: newcomer.clone(), parts: 0, tries: 0, have: 0 })
    }

    fn may_send(&mut self) -> bool {
        let (tries, have) = (self.other.tries.load(Ordering::SeqCst), self.newcomer.have.load(Ordering::SeqCst));
        let is_time = tries >= self.tries + TRIES_A_PART && (have > self.have || self.parts < 4);
        let may_send = is_time || self.other.is_killed.load(Ordering::SeqCst);
        if may_send {
            (self.parts, self.tries, self.have) = (self.parts + 1, tries, have);
        }
        may_send
    }
}

fn run(mut control: Control, watched: &Watched, mut pace: Option<Pace>) {
    let mut events = Events::with_capacity(64);
    control.handle(None);
    control.connect_tracker();
    while control.over.is_none() && !watched.is_killed.load(Ordering::SeqCst) {
        let is_serving = control.connections.values().any(|connection| matches!(connection.role, Role::Serving(_)));
        watched.is_serving.store(is_serving, Ordering::SeqCst);
        // In a turn of no bytes heartbeats go out all the same.
        let may_send = !is_serving || pace.as_mut().is_none_or(Pace::may_send);
        control.turn.bytes = usize::from(may_send);
        control.turn(&mut events);
        watched.tries.fetch_max(control.links.tries(), Ordering::SeqCst);
        if let Some(gathering) = control.gatherings.values().next() {
            let before = watched.have.swap(gathering.have(), Ordering::SeqCst);
            watched.has_lost.fetch_or(gathering.have() < before, Ordering::SeqCst);
        }
    }
}

fn joined(wait: &Waiting<Joined>) -> (Incarnation, Option<Bytes>) {
    match wait.wait(LIMIT, || Error::new(Code::TimedOut, "the join took too long")) {
        Ok(Joined::Start { start, bytes, .. }) => (start.incarnation, bytes),
        other => panic!("it could not start: {other:?}"),
    }
}

fn tracker() -> TrackerServer {
    let timing =
        Timing { heartbeat_millis: 50, lost_after_millis: 5_000, lease_millis: 20_000, members_millis: 20_000 };
    let (faults, deaths) = (Vec::new(), DeathLimit::new(3, "test.maxFailures"));
    let rules = TrackerConfig {
        world: 3,
        spares: 0,
        elastic: None,
        epoch: 1,
        timing,
        deaths,
        start: JobStart::Fresh,
        faults,
        wants_result: false,
    };
    let (job, secret, ports) = (keys().job, keys().secret, PortRange::EPHEMERAL);
    let config = TrackerServerConfig { job, secret, encrypt: false, listen: LOCALHOST, ports, rules };
    TrackerServer::start(config).unwrap()
}

fn a_slow_fetch_goes_on(is_lazy: bool) {
    let tracker = tracker();
    let [one, other, newcomer]: [Arc<Watched>; 3] = Default::default();
    let first = PacedProcess::start(&tracker, 0, &one, Pace::of(&other, &newcomer));
    let second = PacedProcess::start(&tracker, 1, &other, Pace::of(&one, &newcomer));
    let third = PacedProcess::start(&tracker, 2, &Arc::default(), None);
    let processes = [&first, &second, &third];
    let waits: Vec<_> = (0..3).map(|rank| processes[rank as usize].join(rank, 0)).collect();
    let model: Vec<u8> = (0..MODEL_BYTES).map(|place| (place * 7 + place / 256) as u8).collect();
    let whole = checkpoint(Lineage(0), Version(1), 1, &model, false);
    let taken = if is_lazy { lazy_checkpoint(Lineage(0), Version(1), 1) } else { whole };
    for (rank, wait) in waits.iter().enumerate() {
        let member = MemberId { rank: Rank(rank as u32), incarnation: joined(wait).0 };
        let shared = &processes[rank].shared;
        let begin = checkpoint(Lineage(0), Version(0), 0, &[], false);
        shared.command(Command::Entered { member, checkpoint: begin, local: None });
        let bytes = model.clone();
        match is_lazy {
            true => shared.store.put(taken, Model::Lazy(Arc::new(move || Ok(bytes.clone())))).unwrap(),
            false => shared.store.put(taken, Bytes::from(bytes)).unwrap(),
        }
        shared.command(Command::Entered { member, checkpoint: taken, local: None });
    }
    let mut seen = Vec::new();
    let mut is_told = |what: &str, wanted: &dyn Fn(&Event) -> bool| {
        until(what, || {
            if let Some(TrackerNotice::Event(event)) = tracker.poll(Duration::from_millis(10)).unwrap() {
                seen.push(event);
            }
            seen.iter().any(wanted).then_some(())
        });
    };
    for rank in (0..3).map(Rank) {
        is_told(
            "all are in version 1",
            &|event| matches!(event, Event::VersionEntered { rank: who, version: Version(1), .. } if *who == rank),
        );
    }
    third.kill();
    is_told("rank 2 is lost", &|event| matches!(event, Event::RankLost { rank: Rank(2), .. }));

    let fourth = PacedProcess::start(&tracker, 3, &newcomer, None);
    let wait = fourth.join(2, 1);
    let dying = until("a holder gives its checkpoint", || {
        let serves = |process: &&PacedProcess| process.watched.is_serving.load(Ordering::SeqCst);
        [&first, &second].into_iter().find(serves)
    });
    until("a third of it is there, and its links were asked for again and again", || {
        let tries = one.tries.load(Ordering::SeqCst).max(other.tries.load(Ordering::SeqCst));
        (newcomer.have.load(Ordering::SeqCst) >= MODEL_BYTES as u64 / 3 && tries > ONCE_FATAL).then_some(())
    });
    dying.kill();
    let (incarnation, bytes) = joined(&wait);
    assert!(bytes.is_some_and(|bytes| bytes[..] == model), "it has the model");
    assert!(!newcomer.has_lost.load(Ordering::SeqCst), "what was here stayed here");
    is_told("rank 2 has its checkpoint", &|event| matches!(event, Event::Restored { .. }));
    let lost = seen.iter().filter(|event| matches!(event, Event::RankLost { rank, .. } if *rank == Rank(2))).count();
    assert_eq!((lost, incarnation.number), (1, 1), "it was never lost for it: {seen:#?}");
    let restored = seen.iter().find_map(|event| match event {
        Event::Restored { bytes, source, .. } => Some((*bytes, source.clone())),
        _ => None,
    });
    let (bytes, source) = restored.expect("it was waited for");
    assert_eq!((bytes, source.split(", ").count()), (MODEL_BYTES as u64, 2), "{source}");
}

#[test]
fn a_newcomer_whose_checkpoint_comes_slowly_is_not_lost_and_goes_on_where_it_was_when_its_holder_dies() {
    a_slow_fetch_goes_on(false);
}

#[test]
fn the_same_holds_for_a_lazy_checkpoint_of_which_another_holder_makes_the_same_bytes() {
    a_slow_fetch_goes_on(true);
}
