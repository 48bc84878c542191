//! A tracker in another process, maybe on another host, as the launcher has it: the job is joined by its join file.

use super::ending::NotBegun;
use super::order::{has_no_starter, Order};
use super::tracker::{JobTracker, LEASE};
use super::wait::{Wait, LOOK};
use super::{Joining, LauncherEvent};
use crossbeam::channel::Sender;
use parking_lot::{Condvar, Mutex};
use rejoin_agent::join_file::{JoinFile, JoinSource};
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::ids::{Rank, Task};
use rejoin_agent::protocol::launcher::{LauncherMessage, LauncherNews};
use rejoin_agent::protocol::start::JobStart;
use rejoin_agent::protocol::tracker::TrackerInput;
use rejoin_agent::{LauncherLink, LauncherNotice, TrackerNotice};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the launcher waits for the tracker's answer when it has to know what became of a rank.
const SETTLE: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Heard {
    attempts: Option<BTreeMap<u32, u32>>,
    /// What is between the launcher and the tracker, if anything is.
    trouble: Option<String>,
    outcome: Option<Result<(), Error>>,
    sent_back: BTreeSet<u32>,
    synced: u64,
    /// Whether the launcher knows that the tracker is gone.
    is_given_up: bool,
}

/// The tracker of a job that the launcher has joined.
pub struct JoinedTracker {
    link: LauncherLink,
    heard: Arc<(Mutex<Heard>, Condvar)>,
    asked: AtomicU64,
    /// What the join file says.
    pub join: JoinFile,
    /// The attempt that each of the ranks here begins with.
    pub attempts: BTreeMap<u32, u32>,
    /// Where the ranks of this launcher are reached.
    pub address: IpAddr,
    /// Another launcher has started this one, and decides what becomes of the job.
    is_ordered: bool,
}

/// How long the launcher goes on without its tracker.
#[derive(Default)]
struct Limit {
    order: Order,
    is_alone: Arc<AtomicBool>,
}

impl Limit {
    fn now(&self) -> Duration {
        match self.is_alone.load(Ordering::Acquire) {
            true => LEASE.min(Duration::from_millis(self.order.lost_after_millis)),
            false => LEASE,
        }
    }
}

impl JoinedTracker {
    /// Waits for the join file and for the tracker.
    ///
    /// # Errors
    /// The run is over when its time is up or a signal comes; `TrackerUnreachable` when they didn't
    /// come in time; `BadArgument` for ranks that the job doesn't have, and for a file that can't be
    /// used; the job's own error when it is over.
    pub fn open(
        joining: &Joining,
        wait: &Wait,
        say: impl Fn(&str),
        tell: Sender<LauncherEvent>,
    ) -> Result<JoinedTracker, NotBegun> {
        let path = &joining.source;
        let goes_on = |seen: &str| {
            wait.goes_on(Code::TrackerUnreachable, || match path {
                JoinSource::Told(join) => format!(
                    "the tracker at {} was waited for; {seen}. See that this host reaches it (`--listen` of the \
                     launcher that has the tracker)",
                    join.tracker
                ),
                JoinSource::File(_) => format!(
                    "the tracker of the join file {path} was waited for; {seen}. Start it with `rejoin tracker --join \
                     {path}`, and see that this host reaches it"
                ),
            })
        };
        let mut is_said = false;
        let join = loop {
            match joining.source.read()? {
                Some(join) => break join,
                None if !std::mem::replace(&mut is_said, true) => say(&format!("waits for the join file {path}")),
                None => std::thread::sleep(LOOK),
            }
            goes_on("there is no such file")?;
        };
        // Said at once on a host that lacks it; the link would try again and again.
        join.secret.read()?;
        if join.is_for_status {
            let text = format!(
                "the join file {path} is of a `rejoin run`, which starts all ranks itself, and is for `rejoin status`; \
                 ranks of several launchers have a tracker of their own (`rejoin tracker`)"
            );
            return Err(Error::new(Code::BadArgument, text).into());
        }
        if joining.slots > 0 && join.max.is_none() {
            let text = format!(
                "--slots {}: job {} has {} ranks, which are fixed; name those that are started here, as --ranks 0-3, \
                 or start the tracker with --min",
                joining.slots, join.name, join.world
            );
            return Err(Error::new(Code::BadArgument, text).into());
        }
        let last = join.most_ranks() - 1;
        if let Some(rank) = joining.ranks.iter().find(|rank| **rank > last) {
            let text = format!("job {} has ranks 0 to {last}; --ranks names {rank}", join.name);
            return Err(Error::new(Code::BadArgument, text).into());
        }
        let heard: Arc<(Mutex<Heard>, Condvar)> = Arc::default();
        let (shared, ranks) = (heard.clone(), joining.ranks.iter().map(|rank| Rank(*rank)).collect());
        let gone = tell.clone();
        // The run may be over.
        let told = move || drop(gone.send(LauncherEvent::StarterGone));
        let limit = |order| Limit { order, is_alone: has_no_starter(told) };
        let limit = joining.order.clone().map(limit).unwrap_or_default();
        let host = joining.host.clone();
        let link =
            LauncherLink::start(joining.source.clone(), host, ranks, joining.slots, joining.restarts, move |notice| {
                let (heard, changed) = &*shared;
                let is_heard = hear(&mut heard.lock(), notice, &limit, &tell);
                changed.notify_all();
                is_heard
            })?;
        let address = joining.address.map_or_else(|| local_address(join.tracker), Ok)?;
        let (asked, attempts) = (AtomicU64::new(0), BTreeMap::new());
        let is_ordered = joining.order.is_some();
        let mut tracker = JoinedTracker { link, heard, asked, join, attempts, address, is_ordered };
        let first = {
            let (heard, changed) = &*tracker.heard;
            let mut heard = heard.lock();
            loop {
                match (&heard.outcome, &heard.attempts) {
                    (Some(outcome), _) => {
                        let how = outcome.clone().map_or_else(|error| format!("with {error}"), |()| "well".into());
                        let text = format!("job {} has ended already, {how}", tracker.join.name);
                        return Err(Error::new(Code::BadState, text).into());
                    }
                    (None, Some(attempts)) => break attempts.clone(),
                    (None, None) => {}
                }
                changed.wait_for(&mut heard, LOOK);
                goes_on(heard.trouble.as_deref().unwrap_or("it hasn't answered"))?;
            }
        };
        tracker.attempts = first;
        if let Some(order) = &joining.order {
            // Who has started this launcher counts them.
            tracker.attempts.values_mut().for_each(|attempt| *attempt = order.attempt);
        }
        Ok(tracker)
    }
}

/// Takes note of what the link has heard, and hands on what the launcher's own thread has to act on.
fn hear(heard: &mut Heard, notice: LauncherNotice, limit: &Limit, tell: &Sender<LauncherEvent>) -> bool {
    let event = match notice {
        LauncherNotice::Unreachable { since, reason } => {
            let limit = limit.now();
            // Before its first answer it is waited for with a limit of its own; after the job's end nobody misses it.
            let is_missed = heard.attempts.is_some() && heard.outcome.is_none();
            let is_over = is_missed && since.elapsed() > limit;
            let is_new = is_over && !std::mem::replace(&mut heard.is_given_up, is_over);
            let event = is_new.then(|| LauncherEvent::TrackerGone { limit, reason: reason.clone() });
            heard.trouble = Some(reason);
            event
        }
        LauncherNotice::News(news) => {
            (heard.trouble, heard.is_given_up) = (None, false);
            match news {
                LauncherNews::Accepted { ranks, attempts } => {
                    let numbers: BTreeMap<u32, u32> = ranks.into_iter().map(|rank| rank.0).zip(attempts).collect();
                    match &heard.attempts {
                        Some(_) => Some(LauncherEvent::Numbered(numbers)),
                        None => {
                            heard.attempts = Some(numbers);
                            None
                        }
                    }
                }
                LauncherNews::Event(event) => {
                    if let Event::RankJoined { index, .. } = &event {
                        // It has joined again in its process: how that one ends is another matter.
                        heard.sent_back.remove(&index.0);
                    }
                    Some(LauncherEvent::Notice(TrackerNotice::Event(event)))
                }
                LauncherNews::Kill { rank, attempt, reason } => {
                    let executor = String::new();
                    Some(LauncherEvent::Notice(TrackerNotice::Kill { task: Task(rank.0), attempt, executor, reason }))
                }
                LauncherNews::SentBack { rank } => {
                    heard.sent_back.insert(rank.0);
                    None
                }
                LauncherNews::Over(outcome) => {
                    heard.outcome = Some(outcome);
                    None
                }
                LauncherNews::TakenOver { host, ranks } => {
                    Some(LauncherEvent::TakenOver { host, ranks: ranks.into_iter().map(|rank| rank.0).collect() })
                }
                LauncherNews::Synced { number } => {
                    heard.synced = number;
                    None
                }
                // Nobody asks here.
                LauncherNews::Status(_) => None,
            }
        }
    };
    event.is_none_or(|event| tell.send(event).is_ok())
}

/// The address of this host on the way to the tracker. No packet is sent for it.
fn local_address(tracker: SocketAddr) -> Result<IpAddr, Error> {
    let any = if tracker.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    let found = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(tracker)?;
        socket.local_addr()
    });
    found.map(|address| address.ip()).map_err(|cause| {
        let text = format!("this host has no way to the tracker at {tracker}: {cause}; name its address by --address");
        Error::new(Code::Io, text)
    })
}

impl JobTracker for JoinedTracker {
    fn notify(&self, fact: TrackerInput) {
        match fact {
            TrackerInput::ExecutorGone { executor, reason } => {
                self.link.say(LauncherMessage::ProcessDied { executor, reason });
            }
            TrackerInput::TaskLeaves { task, attempt } => {
                self.link.say(LauncherMessage::RankLeaves { rank: Rank(task.0), attempt: attempt.task });
            }
            TrackerInput::TaskEnded { task, attempt } => {
                self.link.say(LauncherMessage::RankEnded { rank: Rank(task.0), attempt: attempt.task });
            }
            // Who ends this launcher doesn't end the job: its ranks can be started elsewhere.
            // In an elastic job others go on, and one that is ordered says it to its starter.
            TrackerInput::Cancel { error }
                if self.is_ordered || self.join.max.is_some() || error.code == Code::Cancelled => {}
            TrackerInput::Cancel { error } => self.link.say(LauncherMessage::Cancel { error }),
            _ => {}
        }
    }

    fn settle(&self) {
        let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        self.link.say(LauncherMessage::Sync { number });
        let (heard, changed) = &*self.heard;
        let mut heard = heard.lock();
        let until = Instant::now() + SETTLE;
        while heard.synced < number && heard.trouble.is_none() {
            if changed.wait_until(&mut heard, until).timed_out() {
                return;
            }
        }
    }

    fn ask_for_numbers(&self) {
        self.link.ask_for_numbers();
    }

    fn outcome(&self) -> Option<Result<(), Error>> {
        self.heard.0.lock().outcome.clone()
    }

    fn was_sent_back(&self, rank: u32) -> bool {
        self.heard.0.lock().sent_back.remove(&rank)
    }

    /// Rules that end the tracker are refused with `--join`.
    fn kill(&mut self) {}

    fn revive(&mut self, _: JobStart) -> Result<(), Error> {
        Ok(())
    }

    fn close(&mut self) {
        self.link.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam::channel::unbounded;
    use rejoin_agent::protocol::ids::{Attempt, Incarnation};

    /// The tracker can't be reached, since before the limit.
    fn unreachable() -> LauncherNotice {
        let since = Instant::now().checked_sub(2 * LEASE).expect("a machine that has run for minutes");
        LauncherNotice::Unreachable { since, reason: "refused".into() }
    }

    fn accepted() -> LauncherNotice {
        LauncherNotice::News(LauncherNews::Accepted { ranks: vec![Rank(0)], attempts: vec![0] })
    }

    /// How often the launcher is told that its tracker is gone.
    fn losses(notices: impl IntoIterator<Item = LauncherNotice>) -> usize {
        let (tell, told) = unbounded();
        let mut heard = Heard::default();
        for notice in notices {
            assert!(hear(&mut heard, notice, &Limit::default(), &tell));
        }
        told.try_iter().filter(|event| matches!(event, LauncherEvent::TrackerGone { .. })).count()
    }

    #[test]
    fn a_tracker_that_is_out_of_reach_for_too_long_is_told_once_each_time() {
        assert_eq!(losses([accepted(), unreachable(), unreachable()]), 1);
        assert_eq!(losses([accepted(), unreachable(), accepted(), unreachable()]), 2);
    }

    #[test]
    fn a_tracker_that_has_not_answered_yet_is_waited_for_and_not_gone() {
        assert_eq!(losses([unreachable(), unreachable(), accepted()]), 0);
    }

    #[test]
    fn a_rank_that_was_sent_back_and_has_joined_again_in_its_process_dies_as_any_other() {
        let (tell, _told) = unbounded();
        let mut heard = Heard::default();
        let mut hear = |news| {
            assert!(super::hear(&mut heard, LauncherNotice::News(news), &Limit::default(), &tell));
            heard.sent_back.contains(&3)
        };
        assert!(hear(LauncherNews::SentBack { rank: Rank(3) }));
        let joined = Event::RankJoined {
            rank: Rank(1),
            incarnation: Incarnation { epoch: 1, number: 2 },
            index: Task(3),
            attempt: Attempt { stage: 0, task: 0 },
            executor: "rank 3".into(),
            vacant_millis: 0,
        };
        assert!(!hear(LauncherNews::Event(joined)));
    }

    #[test]
    fn a_tracker_that_has_told_the_end_is_missed_by_nobody() {
        let over = LauncherNotice::News(LauncherNews::Over(Ok(())));
        assert_eq!(losses([accepted(), over, unreachable()]), 0);
    }
}
