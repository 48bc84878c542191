//! The bridge as its callers see it: the agent's data plane, and the calls of the trainer's thread.

use crate::bridge_config::BridgeConfig;
use crate::bridged_rank::Goal;
use crate::engine::{self, run, Engine};
use crate::phase_log::Budget;
use crate::shared::{Command, Shared};
use crate::sources::WAKER;
use crate::topology::WireVariant;
use crossbeam::channel::{bounded, unbounded, Sender};
use mio::{Poll, Waker};
use parking_lot::Mutex;
use rejoin_agent::{AgentReports, DataPlane, PlaneUsage};
use rejoin_protocol::channel::PhaseMark;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::fault::FaultRule;
use rejoin_protocol::host::Start;
use rejoin_protocol::ids::{MemberId, Phase, Version};
use rejoin_protocol::report::Report;
use rejoin_transport::Link;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Weak};

/// Plays XGBoost's tracker and peers for all workers of one agent.
///
/// The agent drives it as its [`DataPlane`]. A trainer's thread calls [`communicator`](Self::communicator) before
/// XGBoost's `Communicator.init`, [`enter`](Self::enter) at each boundary of versions, and [`retire`](Self::retire)
/// after `Communicator.shutdown` or when its task ends in whatever way.
pub struct Bridge {
    pub(crate) shared: Arc<Shared>,
    pub(crate) commands: Sender<Command>,
    pub(crate) waker: Arc<Waker>,
    /// Its thread's: for what is done on callers' own threads.
    engine: Weak<Mutex<Engine>>,
}

impl Bridge {
    /// Starts the bridge and its thread.
    ///
    /// # Errors
    /// `Io` when the thread or its poll can't be made.
    pub fn start(config: BridgeConfig) -> Result<Arc<Bridge>, Error> {
        let failed = |cause| Error::new(Code::Io, format!("the bridge to XGBoost can't be started: {cause}"));
        let poll = Poll::new().map_err(failed)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER).map_err(failed)?);
        let budget = Budget::new(config.spill_dir.clone(), config.log_memory_bytes, config.log_disk_bytes);
        let shared = Arc::new(Shared::new(Arc::new(budget)));
        let (commands, receiver) = unbounded();
        let engine = Engine::new(config, &poll, receiver, shared.clone()).map_err(failed)?;
        let (for_thread, for_callers) = (shared.clone(), Arc::downgrade(&engine));
        let run = move || {
            // The engine goes down with a panic: its sockets close, which frees the workers, and its callers are
            // notified by their closed replies.
            if catch_unwind(AssertUnwindSafe(move || run(&engine, poll))).is_err() {
                died(&for_thread);
            }
        };
        std::thread::Builder::new().name("rejoin-bridge".into()).spawn(run).map_err(failed)?;
        Ok(Arc::new(Bridge { shared, commands, waker, engine: for_callers }))
    }

    /// Opens XGBoost's way in for a worker and enters boot. Returns the arguments of its
    /// communicator: address and port of "its tracker", its task id (a secret), time-out in seconds
    /// and number of tries. XGBoost wants port, time-out and tries as integers.
    ///
    /// # Errors
    /// `BadState` when the incarnation wasn't started, or has its way in already; the reason for which it was freed.
    pub fn communicator(&self, member: MemberId, variant: WireVariant) -> Result<Vec<(String, String)>, Error> {
        let (reply, answer) = bounded(1);
        self.command(Command::Communicator { member, variant, reply });
        answer.recv().unwrap_or_else(|_| Err(self.gone(member)))
    }

    /// Ends the worker's phase and enters the next one. Waits until every byte that the worker wrote is logged. The
    /// worker must make no XGBoost calls meanwhile.
    ///
    /// # Errors
    /// `Mismatch` when the boundary isn't where the peers have it or the worker was given bytes that it did not read;
    /// `TimedOut` when bytes are on their way for too long; `BadState` for a phase that doesn't follow; the reason for
    /// which the incarnation was freed. After an error the incarnation is of no more use.
    pub fn enter(&self, member: MemberId, phase: Phase, mark: PhaseMark) -> Result<(), Error> {
        self.wait(member, Goal::Enter(phase, mark)).map(drop)
    }

    /// How many bytes the worker has sent in its phase, to all its peers together. Waits until
    /// every byte that it wrote is counted, so an incarnation that repeats the phase counts the
    /// same. The worker must make no XGBoost calls meanwhile.
    ///
    /// # Errors
    /// As [`enter`](Self::enter), but for `Mismatch`: peers may be ahead.
    pub fn sent(&self, member: MemberId) -> Result<u64, Error> {
        self.wait(member, Goal::Count)
    }

    /// The worker begins this round, within a version. As [`sent`](Self::sent), whose answer it gives.
    ///
    /// # Errors
    /// As [`sent`](Self::sent).
    pub fn begin_round(&self, member: MemberId, round: u32) -> Result<u64, Error> {
        self.wait(member, Goal::Round(round))
    }

    fn wait(&self, member: MemberId, goal: Goal) -> Result<u64, Error> {
        let (reply, answer) = bounded(1);
        let command = Command::Wait { member, goal, reply };
        // Usually all is at rest, and the answer is there at once; to wake the bridge's thread for
        // it costs milliseconds where all cores train (docs/performance-log.md).
        match self.engine.upgrade() {
            Some(engine) => {
                let waits = engine::with(&engine, &self.waker, |engine| engine.obey_here(command));
                drop(engine);
                match waits {
                    Some(true) => wake(&self.waker),
                    Some(false) => {}
                    None => return Err(self.failure(member).unwrap_or_else(panicked)),
                }
            }
            None => self.command(command),
        }
        answer.recv().unwrap_or_else(|_| Err(self.gone(member)))
    }

    /// The worker is done, or its task has ended: its sockets are closed. What it wrote stays for
    /// its peers, until a newer incarnation has its slot or the agent is over.
    pub fn retire(&self, member: MemberId) {
        if let Some(served_ranks) = self.shared.served_ranks.lock().get(&member) {
            served_ranks.retire();
        }
        self.command(Command::Retire(member));
    }

    /// Why this incarnation's calls end; `None` while it is in order.
    pub fn failure(&self, member: MemberId) -> Option<Error> {
        self.shared.failures.lock().get(&member).cloned()
    }

    /// What its logs use, and may use; others may share it.
    pub(crate) fn log_budget(&self) -> Arc<rejoin_agent::logs::Budget> {
        self.shared.budget.limits.clone()
    }

    /// Moves logs to disk, as far as there are more than there may be in memory.
    pub(crate) fn make_room(&self) {
        self.command(Command::MakeRoom);
    }

    fn command(&self, command: Command) {
        send_command(&self.commands, &self.waker, command);
    }

    fn gone(&self, member: MemberId) -> Error {
        self.failure(member).unwrap_or_else(|| {
            Error::new(Code::BadState, format!("rank {}: the bridge to XGBoost is closed", member.rank))
        })
    }
}

/// Asks the thread for something.
pub(crate) fn send_command(commands: &Sender<Command>, waker: &Waker, command: Command) {
    // A closed channel means that the thread is over; waiting callers learn it from their closed reply.
    if commands.send(command).is_ok() {
        wake(waker);
    }
}

fn wake(waker: &Waker) {
    if let Err(cause) = waker.wake() {
        log::error!("the bridge's thread can't be woken: {cause}");
    }
}

fn panicked() -> Error {
    Error::new(Code::Internal, "the bridge's thread has panicked; its message stands in the log")
}

/// The thread has panicked. No caller may wait for it.
fn died(shared: &Shared) {
    let error = panicked();
    let agent = shared.agent();
    for member in std::mem::take(&mut *shared.members.lock()) {
        shared.fail(member, &error);
        if let Some(agent) = &agent {
            agent.report(member, Report::Broken(error.clone()));
        }
    }
}

impl DataPlane for Bridge {
    fn attach(&self, agent: Arc<dyn AgentReports>) {
        *self.shared.reports.lock() = Some(agent);
    }

    fn join_accepted(&self, member: MemberId) {
        self.command(Command::JoinAccepted(member));
    }

    fn start(&self, member: MemberId, hosts: &[usize], start: &Start) {
        let world = hosts.len() as u32;
        let Start { lineage, version, hooked, .. } = *start;
        self.shared.holds.lock().entry(member).or_default().oldest = version;
        self.command(Command::Start { member, world, lineage, version, hooked });
    }

    fn peers(&self, member: MemberId, peers: &[MemberId]) {
        self.command(Command::Peers { member, peers: peers.to_vec() });
    }

    fn link(&self, member: MemberId, peer: MemberId, link: Link) {
        self.command(Command::Link { member, peer, link: Box::new(link) });
    }

    fn free(&self, member: MemberId, error: Error) {
        self.shared.fail(member, &error);
        self.command(Command::Free { member, error });
    }

    fn hold(&self, member: MemberId) -> Version {
        let mut holds = self.shared.holds.lock();
        let hold = holds.entry(member).or_default();
        hold.holding = true;
        hold.oldest
    }

    fn release(&self, member: MemberId) {
        if let Some(hold) = self.shared.holds.lock().get_mut(&member) {
            hold.holding = false;
        }
        self.command(Command::Unhold(member));
    }

    fn faults(&self, rules: &[FaultRule]) {
        self.command(Command::Faults(rules.to_vec()));
    }

    fn usage(&self) -> PlaneUsage {
        let (log_bytes, log_bytes_peak, spilled_bytes) = self.shared.budget.used();
        // Logs here are pieces of what came, and no memory of theirs is kept; collectives with the
        // same budget keep theirs.
        PlaneUsage { log_bytes, idle_bytes: self.shared.budget.limits.idle(), log_bytes_peak, spilled_bytes }
    }

    fn close(&self) {
        self.command(Command::Close);
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.command(Command::Close);
    }
}
