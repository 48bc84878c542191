//! A launcher's link to a tracker in another process: made, kept, and made again where the join file says.

use crate::join_file::{JoinFile, JoinSource};
use crossbeam::channel::{unbounded, Receiver, Sender};
use mio::{Events, Interest, Poll, Token, Waker};
use parking_lot::Mutex;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::AgentId;
use rejoin_protocol::ids::Rank;
use rejoin_protocol::launcher::{LauncherMessage, LauncherNews};
use rejoin_protocol::wire;
use rejoin_transport::{Hello, JobId, Keys, Link, Purpose, Received};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const WAKER: Token = Token(0);
const LINK: Token = Token(1);
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(200);
/// Between two looks whether another tracker has followed.
const LOOK: Duration = Duration::from_secs(2);
/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long either end may be out of reach before the other one gives their link up, and the launcher makes another.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);

/// What a launcher hears.
#[derive(Clone, Debug)]
pub enum LauncherNotice {
    /// The tracker said something.
    News(LauncherNews),
    /// The tracker is out of reach.
    Unreachable {
        /** Since when. */
        since: Instant,
        /** What was seen. */
        reason: String,
    },
}

/// Which ranks a launcher starts, those that have ended, and those that go for good.
struct Starts {
    launcher: u64,
    host: String,
    /// How many it starts in all, in an elastic job.
    slots: u32,
    /// How often each is started again after a death.
    restarts: u32,
    /// With the attempt that each begins with, as the tracker has said last.
    ranks: Mutex<BTreeMap<Rank, Option<u32>>>,
    ended: Mutex<BTreeMap<Rank, u32>>,
    leaving: Mutex<BTreeMap<Rank, u32>>,
}

impl Starts {
    fn message(&self) -> LauncherMessage {
        LauncherMessage::Starts {
            launcher: self.launcher,
            host: self.host.clone(),
            ranks: self.ranks.lock().clone(),
            ended: self.ended.lock().clone(),
            slots: self.slots,
            restarts: self.restarts,
        }
    }
}

/// The link. Dropping it closes it.
pub struct LauncherLink {
    messages: Sender<LauncherMessage>,
    waker: Waker,
    starts: Arc<Starts>,
    closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LauncherLink {
    /// Starts the thread that makes and keeps the link. What is heard goes to `hear`, which says
    /// whether it still listens.
    ///
    /// # Errors
    /// `Io` when no thread or poll can be made.
    pub fn start(
        join: JoinSource,
        host: String,
        ranks: BTreeSet<Rank>,
        slots: u32,
        restarts: u32,
        hear: impl Fn(LauncherNotice) -> bool + Send + 'static,
    ) -> Result<LauncherLink, Error> {
        let io = |what: &'static str| {
            move |cause: std::io::Error| Error::new(Code::Io, format!("the launcher can't {what}: {cause}"))
        };
        crate::logging::start();
        let poll = Poll::new().map_err(io("make a poll"))?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(io("make a waker"))?;
        let (messages, queue) = unbounded();
        let launcher = rejoin_transport::random_u64();
        let starts = Arc::new(Starts {
            launcher,
            host,
            slots,
            restarts,
            ranks: Mutex::new(ranks.into_iter().map(|rank| (rank, None)).collect()),
            ended: Mutex::default(),
            leaving: Mutex::default(),
        });
        let closing = Arc::new(AtomicBool::new(false));
        let keeper = Keeper {
            poll,
            join,
            queue,
            starts: starts.clone(),
            closing: closing.clone(),
            hear: Box::new(hear),
            job: None,
            link: None,
            down_since: Instant::now(),
        };
        let thread = std::thread::Builder::new()
            .name("rejoin-launcher-link".into())
            .spawn(move || keeper.run())
            .map_err(io("start a thread"))?;
        Ok(LauncherLink { messages, waker, starts, closing, thread: Some(thread) })
    }

    /// Says something to the tracker, now or when it is within reach again. Each new link begins with
    /// the ranks that have ended or go, since a tracker that comes back doesn't know of them.
    pub fn say(&self, message: LauncherMessage) {
        if let LauncherMessage::RankEnded { rank, attempt } = &message {
            self.starts.ended.lock().insert(*rank, *attempt);
        }
        if let LauncherMessage::RankLeaves { rank, attempt } = &message {
            self.starts.leaving.lock().insert(*rank, *attempt);
        }
        let _ = self.messages.send(message);
        let _ = self.waker.wake();
    }

    /// Asks for numbers for the slots that have none yet.
    pub fn ask_for_numbers(&self) {
        self.say(self.starts.message());
    }

    /// Closes the link; what was said before is sent if the tracker takes it.
    pub fn close(&mut self) {
        self.closing.store(true, Ordering::Release);
        let _ = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing left to say.
            let _ = thread.join();
        }
    }
}

impl Drop for LauncherLink {
    fn drop(&mut self) {
        self.close();
    }
}

/// The thread's own.
struct Keeper {
    poll: Poll,
    join: JoinSource,
    queue: Receiver<LauncherMessage>,
    starts: Arc<Starts>,
    closing: Arc<AtomicBool>,
    hear: Box<dyn Fn(LauncherNotice) -> bool + Send>,
    /// The job that its processes belong to: known from the first look on.
    job: Option<JobId>,
    link: Option<Link>,
    down_since: Instant,
}

impl Keeper {
    fn run(mut self) {
        let mut events = Events::with_capacity(16);
        while !self.closing.load(Ordering::Acquire) {
            if let Err(reason) = self.keep(&mut events) {
                self.drop_link();
                let since = self.down_since;
                if !(self.hear)(LauncherNotice::Unreachable { since, reason }) {
                    return;
                }
                let _ = self.poll.poll(&mut events, Some(PAUSE));
            }
        }
        self.say_queued();
        if let Some(link) = self.link.as_mut() {
            let _ = link.flush();
        }
        self.drop_link();
    }

    fn drop_link(&mut self) {
        if let Some(mut link) = self.link.take() {
            let _ = self.poll.registry().deregister(link.socket());
        }
    }

    /// Makes a link and serves it until it ends, or the launcher wants no more of it.
    fn keep(&mut self, events: &mut Events) -> Result<(), String> {
        let join = self.look()?;
        let secret = join.secret.read().map_err(|error| error.message)?;
        let keys = Keys { job: join.job, secret, encrypt: false };
        let hello = Hello { agent: AgentId(self.starts.launcher), purpose: Purpose::Launcher, encrypt: true };
        let tracker = join.tracker;
        let at = |cause: String| format!("the tracker at {tracker}: {cause}");
        let mut link = Link::connect(tracker, &keys, hello).map_err(|cause| at(cause.to_string()))?;
        link.set_silence_limit(SILENCE).map_err(|cause| at(cause.to_string()))?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(link.socket(), LINK, interest).map_err(|cause| at(cause.to_string()))?;
        self.link = Some(link);
        let (began, mut established) = (Instant::now(), false);
        let mut looked = began;
        while !self.closing.load(Ordering::Acquire) {
            while let Some(link) = self.link.as_mut() {
                match link.receive().map_err(|cause| at(cause.to_string()))? {
                    Received::Pending => break,
                    Received::Established => {
                        established = true;
                        link.send_message(&self.starts.message());
                        for (rank, attempt) in self.starts.leaving.lock().iter() {
                            link.send_message(&LauncherMessage::RankLeaves { rank: *rank, attempt: *attempt });
                        }
                    }
                    Received::Frame(_, payload) => {
                        let news = wire::decode::<LauncherNews>(&payload).map_err(|error| at(error.message))?;
                        if let LauncherNews::Accepted { ranks, attempts } = &news {
                            let mut known = self.starts.ranks.lock();
                            for (rank, attempt) in ranks.iter().zip(attempts) {
                                let told = known.entry(*rank).or_default();
                                // A tracker that has come back may know of less.
                                *told = (*told).max(Some(*attempt));
                            }
                        }
                        if !(self.hear)(LauncherNotice::News(news)) {
                            return Ok(());
                        }
                    }
                    Received::Refused(error) => return Err(at(format!("refused: {error}"))),
                    Received::Hello(_) => return Err(at("it spoke as if it had connected to us".into())),
                }
            }
            if looked.elapsed() > LOOK {
                looked = Instant::now();
                if self.is_followed(join.life) {
                    return Err(at("another life of it has followed".into()));
                }
            }
            if established {
                self.down_since = Instant::now();
                self.say_queued();
            } else if began.elapsed() > HANDSHAKE {
                return Err(at(format!("no handshake within {} s", HANDSHAKE.as_secs())));
            }
            if let Some(Err(cause)) = self.link.as_mut().map(Link::flush) {
                self.last_words();
                return Err(at(cause.to_string()));
            }
            if let Err(cause) = self.poll.poll(events, Some(Duration::from_millis(500))) {
                if cause.kind() != std::io::ErrorKind::Interrupted {
                    return Err(at(cause.to_string()));
                }
            }
        }
        Ok(())
    }

    /// Where the tracker is now.
    fn look(&mut self) -> Result<JoinFile, String> {
        let said = self.join.read().map_err(|error| error.message)?;
        let join = said.ok_or_else(|| format!("there is no join file {}", self.join))?;
        match *self.job.get_or_insert(join.job) {
            job if job == join.job => Ok(join),
            job => {
                Err(format!("the join file {} is of another job, {}; this launcher's is {job}", self.join, join.job))
            }
        }
    }

    /// Whether another life has followed the one that the link goes to. A tracker that is stopped keeps its links.
    fn is_followed(&mut self, life: u32) -> bool {
        self.look().is_ok_and(|join| join.life > life)
    }

    /// Reads what the tracker said before its link broke: it may have been the job's end.
    fn last_words(&mut self) {
        while let Some(Ok(Received::Frame(_, payload))) = self.link.as_mut().map(Link::receive) {
            if let Ok(news) = wire::decode::<LauncherNews>(&payload) {
                (self.hear)(LauncherNotice::News(news));
            }
        }
    }

    fn say_queued(&mut self) {
        let Some(link) = self.link.as_mut() else { return };
        while let Ok(message) = self.queue.try_recv() {
            link.send_message(&message);
        }
    }
}
