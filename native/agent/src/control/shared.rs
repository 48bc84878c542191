//! What tasks' threads and the control thread share: the command queue, the checkpoint store, and the state that errors
//! speak of.

use crate::joined::{Joined, StoodBy};
use crate::plane::AgentReports;
use crate::store::CheckpointStore;
use crate::waiting::Waiting;
use bytes::Bytes;
use crossbeam::channel::{unbounded, Receiver, Sender};
use mio::Waker;
use parking_lot::Mutex;
use rejoin_protocol::collective::{self, Extent, ObservedInput};
use rejoin_protocol::error::Error;
use rejoin_protocol::event::Event;
use rejoin_protocol::fault::FaultRule;
use rejoin_protocol::host::Offer;
use rejoin_protocol::ids::{AgentId, Attempt, Checkpoint, Generation, Lineage, MemberId, Rank, Task, Version};
use rejoin_protocol::message::CheckpointWish;
use rejoin_protocol::report::Report;
use rejoin_transport::JobId;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// What a task's thread or the plane asks of the control thread.
pub(crate) enum Command {
    Join {
        rank: Rank,
        attempt: Attempt,
        fingerprint: String,
        offer: Offer,
        wait: Waiting<Joined>,
    },
    CancelJoin {
        rank: Rank,
        attempt: Attempt,
        error: Error,
    },
    StandBy {
        task: Task,
        attempt: Attempt,
        wait: Waiting<StoodBy>,
    },
    StandDown {
        task: Task,
        attempt: Attempt,
    },
    Entered {
        member: MemberId,
        checkpoint: Checkpoint,
        local: Option<Vec<u8>>,
    },
    Finish {
        member: MemberId,
        rounds: u32,
        digest: u128,
        result: Option<Bytes>,
        wait: Waiting<u128>,
    },
    Free {
        member: MemberId,
        error: Error,
    },
    Report {
        member: MemberId,
        report: Report,
    },
    FetchResults {
        member: MemberId,
        fetch: collective::Fetch,
    },
    AskCall {
        member: MemberId,
        peer: Rank,
        place: collective::CollectiveId,
    },
    Holding {
        member: MemberId,
        oldest: Version,
        results: Vec<Extent>,
        observed: Vec<ObservedInput>,
    },
    /// Said by the host, which may be in the middle of saying more.
    LeaveTracker {
        reason: String,
    },
    Own {
        member: MemberId,
        checkpoint: Checkpoint,
        wait: Waiting<()>,
    },
    CopyFailed {
        checkpoint: Checkpoint,
        agent: AgentId,
    },
    Made {
        asked: Checkpoint,
        made: Result<(Checkpoint, Bytes), Error>,
    },
    Verified {
        member: MemberId,
        began: Instant,
        bytes: Bytes,
        digest: u128,
    },
    Durable(Checkpoint),
    Tidied {
        lineage: Lineage,
        version: Version,
    },
    HandedOver(Checkpoint),
    Event(Event),
    Inject(FaultRule),
    Close,
}

impl Command {
    /// Answers the caller that waits for this command.
    pub(crate) fn refuse(self, error: &Error) {
        match self {
            Command::Join { wait, .. } => wait.answer(Err(error.clone())),
            Command::StandBy { wait, .. } => wait.answer(Err(error.clone())),
            Command::Finish { wait, .. } => wait.answer(Err(error.clone())),
            Command::Own { wait, .. } => wait.answer(Err(error.clone())),
            _ => {}
        }
    }
}

struct Known {
    generation: Generation,
    tracker: String,
    since: Instant,
    vacant: Vec<Rank>,
    wants_result: bool,
    over: Option<Error>,
    failures: BTreeMap<MemberId, Error>,
    /// Fault rules that planes have said to fire.
    fired: BTreeSet<u32>,
    progress: BTreeMap<Rank, (Version, u32)>,
    /// The checkpoint that was asked for last.
    wish: Option<CheckpointWish>,
    /// The control thread wants to be woken for each version that is entered.
    hears_versions: bool,
    /// What checkpoints take that it wasn't woken for: older ones are dropped when it is.
    unheard_bytes: u64,
}

/// Most of what may be held of checkpoints that the control thread wasn't woken for.
const UNHEARD_BYTES: u64 = 1 << 20;
/// What a checkpoint counts for besides its bytes.
const CHECKPOINT_OVERHEAD: u64 = 4 << 10;

pub(crate) struct Shared {
    pub(crate) store: CheckpointStore,
    job: JobId,
    tracker: SocketAddr,
    sender: Sender<Command>,
    waker: Arc<Waker>,
    known: Mutex<Known>,
}

impl Shared {
    pub(crate) fn new(job: JobId, tracker: SocketAddr, waker: Waker) -> (Shared, Receiver<Command>) {
        let (sender, receiver) = unbounded();
        let known = Known {
            generation: Generation::default(),
            tracker: "not reached yet".into(),
            since: Instant::now(),
            vacant: Vec::new(),
            wants_result: false,
            over: None,
            failures: BTreeMap::new(),
            fired: BTreeSet::new(),
            progress: BTreeMap::new(),
            wish: None,
            hears_versions: true,
            unheard_bytes: 0,
        };
        let waker = Arc::new(waker);
        let store = CheckpointStore::default();
        (Shared { store, job, tracker, sender, waker, known: Mutex::new(known) }, receiver)
    }

    /// Queues a command and wakes the control thread. After the agent's end it is answered at once.
    pub(crate) fn command(&self, command: Command) {
        let known = self.known.lock();
        if let Some(error) = &known.over {
            command.refuse(error);
            return;
        }
        // The receiver lives as long as `over` is empty; the lock keeps it so.
        let _ = self.sender.send(command);
        drop(known);
        let _ = self.waker.wake();
    }

    /// A version was entered. The control thread isn't woken for it where it doesn't have to be: it
    /// hears of it when it wakes next, before anything else.
    pub(crate) fn entered(&self, member: MemberId, checkpoint: Checkpoint, local: Option<Vec<u8>>) {
        let mut known = self.known.lock();
        known.progress.insert(member.rank, (checkpoint.version, checkpoint.round));
        if known.over.is_some() {
            return;
        }
        let _ = self.sender.send(Command::Entered { member, checkpoint, local });
        let bytes = checkpoint.length.saturating_add(CHECKPOINT_OVERHEAD);
        known.unheard_bytes = known.unheard_bytes.saturating_add(bytes);
        let wakes = known.hears_versions || known.unheard_bytes > UNHEARD_BYTES;
        drop(known);
        if wakes {
            let _ = self.waker.wake();
        }
    }

    /// The control thread is about to take all that is queued.
    pub(crate) fn commands_are_taken(&self) {
        self.known.lock().unheard_bytes = 0;
    }

    /// Whether the control thread wants to be woken for each version, from now on.
    pub(crate) fn hears_versions(&self, hears: bool) {
        let mut known = self.known.lock();
        let has_unheard = std::mem::replace(&mut known.hears_versions, hears) != hears && known.unheard_bytes > 0;
        drop(known);
        if hears && has_unheard {
            let _ = self.waker.wake();
        }
    }

    pub(crate) fn end(&self, error: Error) {
        self.known.lock().over = Some(error);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.known.lock().over.is_some()
    }

    pub(crate) fn failed(&self, member: MemberId, error: Error) {
        self.known.lock().failures.entry(member).or_insert(error);
    }

    pub(crate) fn failure(&self, member: MemberId) -> Option<Error> {
        let known = self.known.lock();
        known.failures.get(&member).cloned().or_else(|| known.over.clone())
    }

    /// Whether a fault rule fires now: it does once in a process, however often the tracker sends it.
    pub(crate) fn fires(&self, rule: u32) -> bool {
        self.known.lock().fired.insert(rule)
    }

    pub(crate) fn has_fired(&self, rule: u32) -> bool {
        self.known.lock().fired.contains(&rule)
    }

    pub(crate) fn progress(&self, member: MemberId, version: Version, round: u32) {
        self.known.lock().progress.insert(member.rank, (version, round));
    }

    pub(crate) fn tracker_is(&self, state: String) {
        let mut known = self.known.lock();
        if known.tracker != state {
            known.tracker = state;
            known.since = Instant::now();
        }
    }

    pub(crate) fn view_is(&self, generation: Generation, vacant: Vec<Rank>) {
        let mut known = self.known.lock();
        (known.generation, known.vacant) = (generation, vacant);
    }

    pub(crate) fn checkpoint_is_wanted(&self, wish: CheckpointWish) {
        self.known.lock().wish = Some(wish);
    }

    pub(crate) fn wish(&self) -> Option<CheckpointWish> {
        self.known.lock().wish
    }

    pub(crate) fn result_is_wanted(&self, is_wanted: bool) {
        self.known.lock().wants_result = is_wanted;
    }

    pub(crate) fn wants_result(&self) -> bool {
        self.known.lock().wants_result
    }

    /// What is known, for an error that has to say what was waited for.
    pub(crate) fn situation(&self) -> String {
        let known = self.known.lock();
        let missing = if known.vacant.is_empty() {
            "no rank is missing in the last view".to_string()
        } else {
            let ranks: Vec<String> = known.vacant.iter().map(|rank| rank.to_string()).collect();
            format!("missing ranks: {}", ranks.join(", "))
        };
        format!(
            "tracker {}: {} since {} s; generation {}; {missing}",
            self.tracker,
            known.tracker,
            known.since.elapsed().as_secs(),
            known.generation
        )
    }

    /// What stands before each log line.
    pub(crate) fn prefix(&self) -> String {
        let known = self.known.lock();
        let ranks: String = known.progress.keys().map(|rank| format!(" rank {rank}")).collect();
        format!("[job {}{ranks} gen {}]", self.job, known.generation)
    }

    /// The same with a rank.
    pub(crate) fn prefix_of(&self, rank: Rank) -> String {
        let known = self.known.lock();
        let (version, round) = known.progress.get(&rank).copied().unwrap_or_default();
        format!("[job {} rank {rank} gen {} version {version} round {round}]", self.job, known.generation)
    }

    pub(crate) fn reports(self: &Arc<Self>) -> Reports {
        Reports(self.clone())
    }
}

/// The plane's way to the control thread.
pub(crate) struct Reports(Arc<Shared>);

impl AgentReports for Reports {
    fn prefix(&self, rank: Rank) -> String {
        self.0.prefix_of(rank)
    }

    fn situation(&self) -> String {
        self.0.situation()
    }

    fn report(&self, member: MemberId, report: Report) {
        self.0.command(Command::Report { member, report });
    }

    fn fetch(&self, member: MemberId, fetch: collective::Fetch) {
        self.0.command(Command::FetchResults { member, fetch });
    }

    fn ask(&self, member: MemberId, peer: Rank, place: collective::CollectiveId) {
        self.0.command(Command::AskCall { member, peer, place });
    }

    fn report_event(&self, event: Event) {
        self.0.command(Command::Event(event));
    }

    fn inject(&self, rule: FaultRule) -> bool {
        let is_first = self.0.fires(rule.id);
        if is_first {
            self.0.command(Command::Inject(rule));
        }
        is_first
    }
}
