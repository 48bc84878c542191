//! The driver's side: the tracker's state machine on real links.

mod launcher_messages;
mod launchers;
mod owner;
mod serve;

pub use owner::{TrackerNotice, TrackerServerConfig};

use bytes::Bytes;
use crossbeam::channel::{unbounded, Receiver, RecvTimeoutError, Sender};
use mio::Waker;
use owner::Outcome;
use parking_lot::Mutex;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::Rank;
use rejoin_protocol::tracker::TrackerInput;
use serve::Server;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A running tracker. Dropping it ends the job.
pub struct TrackerServer {
    address: SocketAddr,
    facts: Sender<TrackerInput>,
    waker: Arc<Waker>,
    notices: Receiver<TrackerNotice>,
    outcome: Arc<Mutex<Outcome>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    closing: Arc<std::sync::atomic::AtomicBool>,
    abandoned: Arc<std::sync::atomic::AtomicBool>,
    linked: Arc<std::sync::atomic::AtomicUsize>,
}

impl TrackerServer {
    /// Starts listening.
    ///
    /// # Errors
    /// `BadArgument` for rules that can't work, `Io` when no port is free. Nothing is left behind.
    pub fn start(config: TrackerServerConfig) -> Result<TrackerServer, Error> {
        crate::logging::start();
        let (facts, fact_queue) = unbounded();
        let (notices_sender, notices) = unbounded();
        let outcome = Arc::new(Mutex::new(Outcome::default()));
        let closing = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let abandoned = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (mut server, waker) = Server::new(config, fact_queue, notices_sender, outcome.clone(), closing.clone())?;
        server.abandoned = abandoned.clone();
        let (address, linked) = (server.address(), server.linked.clone());
        let thread = std::thread::Builder::new()
            .name("rejoin-tracker".into())
            .spawn(move || server.run())
            .map_err(|cause| Error::new(Code::Io, format!("the tracker's thread can't be started: {cause}")))?;
        let thread = Mutex::new(Some(thread));
        Ok(TrackerServer {
            address,
            facts,
            waker: Arc::new(waker),
            notices,
            outcome,
            thread,
            closing,
            abandoned,
            linked,
        })
    }

    /// Where agents reach it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes in what the framework knows. After the end it does nothing.
    pub fn notify(&self, fact: TrackerInput) {
        let _ = self.facts.send(fact);
        let _ = self.waker.wake();
    }

    /// The next notice, waiting at most so long.
    ///
    /// # Errors
    /// `BadState` after [`TrackerServer::close`], when all notices were taken.
    pub fn poll(&self, at_most: Duration) -> Result<Option<TrackerNotice>, Error> {
        match self.notices.recv_timeout(at_most) {
            Ok(notice) => Ok(Some(notice)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Error::new(Code::BadState, "the tracker is closed")),
        }
    }

    /// Rank 0's result, once the end was reached; `None` before.
    ///
    /// # Errors
    /// The job's error.
    pub fn result(&self) -> Result<Option<Bytes>, Error> {
        self.outcome.lock().result.clone().transpose()
    }

    /// Whether this rank was sent back to an older version and has not joined again: if its task
    /// ends then, that is no death.
    pub fn was_sent_back(&self, rank: Rank) -> bool {
        self.outcome.lock().sent_back.contains(&rank)
    }

    /// How many agents and launchers are linked with it.
    pub fn links(&self) -> usize {
        self.linked.load(std::sync::atomic::Ordering::Acquire)
    }

    /// Ends the tracker without a word, as if its process had been killed: the job isn't
    /// over. For tests of a tracker's death; another one may listen at the same address when this
    /// returns.
    pub fn abandon(&self) {
        self.abandoned.store(true, std::sync::atomic::Ordering::Release);
        self.close();
    }

    /// Ends the job if it is still going on, notifies the agents, and stops listening.
    pub fn close(&self) {
        self.closing.store(true, std::sync::atomic::Ordering::Release);
        let _ = self.waker.wake();
        if let Some(thread) = self.thread.lock().take() {
            // A thread that panicked has nothing left to say.
            let _ = thread.join();
        }
    }
}

impl Drop for TrackerServer {
    fn drop(&mut self) {
        self.close();
    }
}
