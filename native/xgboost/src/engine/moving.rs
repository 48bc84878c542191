//! Bytes move, and what goes wrong with them.

use super::Engine;
use crate::bridged_rank::Halt;
use crate::channel::{Channel, Moved, Trouble};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::fault::{Action, FaultRule};
use rejoin_protocol::ids::{MemberId, Rank};
use rejoin_protocol::report::Report;
use std::time::{Duration, Instant};

/// How long bytes are held back for a process that is about to be stopped. It is stopped within this time; once it is
/// woken the moment has passed, and it goes on as if nothing had been.
const STOP_LIMIT: Duration = Duration::from_millis(500);

/// What usually makes a worker produce other bytes than before.
const USUAL_CAUSES: &str =
    "usual causes: rows in another order, other data, a random seed that isn't fixed, another number of threads";

impl Engine {
    /// Gives every channel that has something to do one turn.
    pub(super) fn move_all(&mut self) {
        for _ in 0..self.busy.len() {
            let Some((rank, peer)) = self.busy.pop_front() else { break };
            if let Some(channel) =
                self.bridged_rank(rank).and_then(|bridged_rank| bridged_rank.training.as_mut()?.channel(peer))
            {
                channel.queued = false;
            }
            self.move_channel(rank, peer);
        }
    }

    /// One turn of a channel: what the worker wrote goes into the log and on to the peer, what the
    /// peer sent goes to the worker.
    pub(super) fn move_channel(&mut self, rank: Rank, peer: Rank) {
        let Engine { bridged_ranks, watch, .. } = self;
        let Some(at) = bridged_ranks.iter().position(|bridged_rank| bridged_rank.rank == rank) else { return };
        let bridged_rank = &mut bridged_ranks[at];
        if !bridged_rank.moves() {
            return;
        }
        let incarnation = bridged_rank.incarnation;
        let Some(training) = bridged_rank.training.as_mut().filter(|training| training.connects(rank, peer)) else {
            return;
        };
        let (Some(phase), left) = (training.phase, training.left) else { return };
        let allowance = watch.allowance(rank, incarnation, phase, left);
        let Some(channel) = training.channel(peer) else { return };
        let mut moved = Moved::default();
        channel.read_worker(allowance, &mut moved);
        let result = channel.exchange(&mut moved);
        training.left += moved.left;
        let is_due = moved.left >= allowance;
        if moved.left > 0 {
            self.spill_excess(rank);
        }
        if let Err(trouble) = result {
            return self.handle_trouble(rank, peer, trouble);
        }
        self.report_catch_up(rank, &moved);
        if is_due {
            self.inject_if_due(rank);
        }
        if moved.more || is_due {
            self.make_busy(rank, peer);
        }
    }

    /// Notices that a restarted worker is being replayed to, and that it has caught up.
    fn report_catch_up(&mut self, rank: Rank, moved: &Moved) {
        if moved.arrived == 0 && moved.sent == 0 {
            return;
        }
        let Some(bridged_rank) = self.bridged_rank(rank) else { return };
        let incarnation = bridged_rank.incarnation;
        let Some(training) = &mut bridged_rank.training else { return };
        let begins = training.catch_up.arrived(moved.arrived);
        let mut event = None;
        if moved.sent > 0 && training.catch_up.is_open() {
            let neighbours = training.neighbours(rank);
            let all: Vec<&Channel> = neighbours.iter().filter_map(|p| training.channels.get(p.0 as usize)).collect();
            if all.iter().all(|channel| channel.is_acquainted() && !channel.outgoing.behind()) {
                let regenerated = all.iter().map(|channel| channel.outgoing.regenerated()).sum();
                event = Some(training.catch_up.caught_up(rank, incarnation, regenerated));
            }
        }
        if let (Some(event), Some(agent)) = (event, self.shared.agent()) {
            agent.report_event(event);
        }
        if begins {
            if let Some(rule) = self.watch.due_replaying(rank, incarnation) {
                self.inject(rank, rule);
            }
        }
    }

    /// Moves the oldest logs to disk when they have outgrown the memory.
    pub(super) fn spill_excess(&mut self, rank: Rank) {
        loop {
            let excess = self.shared.budget.excess();
            if excess == 0 {
                return;
            }
            let channels = self.bridged_ranks.iter_mut().filter_map(|bridged_rank| bridged_rank.training.as_mut());
            let logs = channels.flat_map(|training| &mut training.channels).filter_map(Channel::oldest_in_memory);
            let Some((_, log)) = logs.min_by_key(|(phase, _)| *phase) else { return };
            match log.spill(excess) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) => return self.break_job(rank, error),
            }
        }
    }

    /// Fires the rules that wait for the bytes that have left by now.
    pub(super) fn inject_if_due(&mut self, rank: Rank) {
        loop {
            let Some(bridged_rank) = self.bridged_rank(rank).filter(|bridged_rank| bridged_rank.failure.is_none())
            else {
                return;
            };
            let incarnation = bridged_rank.incarnation;
            let Some(training) = &bridged_rank.training else { return };
            let (Some(phase), left) = (training.phase, training.left) else { return };
            let Some(rule) = self.watch.due_after(rank, incarnation, phase, left) else { return };
            self.inject(rank, rule);
        }
    }

    fn inject(&mut self, rank: Rank, rule: FaultRule) {
        // The agent says so in the log; a rule that has fired before does nothing.
        if self.shared.agent().is_some_and(|agent| !agent.inject(rule.clone())) {
            return;
        }
        let Some(bridged_rank) = self.bridged_rank(rank) else { return };
        let member = bridged_rank.id();
        match rule.action {
            Action::Kill => bridged_rank.halt = Halt::ForGood,
            Action::Stop => bridged_rank.halt = Halt::Until(Instant::now() + STOP_LIMIT),
            Action::Delay { millis } => {
                bridged_rank.halt = Halt::Until(Instant::now() + Duration::from_millis(u64::from(millis)));
            }
            Action::Notify => {}
            Action::CutLink { peer } => self.cut(rank, peer, "it was cut by a fault rule".into()),
            Action::Throw => {
                self.free(member, Error::new(Code::Io, format!("rank {rank}: thrown by fault rule {}", rule.id)))
            }
        }
    }

    /// Resets the link to a peer and has it made anew.
    fn cut(&mut self, rank: Rank, peer: Rank, reason: String) {
        let Some(bridged_rank) = self.bridged_rank(rank) else { return };
        let member = bridged_rank.id();
        let Some(channel) = bridged_rank.training.as_mut().and_then(|training| training.channel(peer)) else { return };
        let Some(link) = channel.unlinked() else {
            return log::warn!("{} there is no link to rank {peer} to be cut", self.shared.prefix(rank));
        };
        let peer = MemberId { rank: peer, incarnation: link.incarnation };
        self.discard(Some(link));
        self.report_link_down(member, peer, reason);
    }

    pub(super) fn handle_trouble(&mut self, rank: Rank, peer: Rank, trouble: Trouble) {
        match trouble {
            Trouble::Link(reason) => {
                log::info!("{} the link to rank {peer} broke: {reason}", self.shared.prefix(rank));
                self.cut(rank, peer, reason);
            }
            other => {
                let error = Self::name(rank, peer, other);
                self.break_job(rank, error);
            }
        }
    }

    /// Puts the ranks' names to what a stream state found wrong.
    pub(super) fn name(rank: Rank, peer: Rank, trouble: Trouble) -> Error {
        let (error, from, to) = match trouble {
            Trouble::Job(error) => return error,
            Trouble::Link(reason) => {
                return Error::new(Code::Io, format!("link from rank {rank} to rank {peer}: {reason}"))
            }
            Trouble::Outgoing(error) => (error, rank, peer),
            Trouble::Incoming(error) => (error, peer, rank),
        };
        if error.code != Code::Mismatch {
            return Error::new(error.code, format!("from rank {from} to rank {to}: {}", error.message));
        }
        let text = format!("rank {from} did not repeat itself towards rank {to}: {}; {USUAL_CAUSES}", error.message);
        Error::new(Code::Mismatch, text)
    }

    /// The job can't go on. The rank ends at once; the tracker ends the others.
    pub(super) fn break_job(&mut self, rank: Rank, error: Error) {
        let Some(member) = self.bridged_rank(rank).map(|bridged_rank| bridged_rank.id()) else { return };
        // The agent says so in the log; a rule that has fired before does nothing.
        if let Some(agent) = self.shared.agent() {
            agent.report(member, Report::Broken(error.clone()));
        }
        self.free(member, error);
    }

    /// Something of this rank alone is broken: its task fails and is tried again.
    pub(super) fn fail_rank(&mut self, rank: Rank, error: Error) {
        let Some(member) = self.bridged_rank(rank).map(|bridged_rank| bridged_rank.id()) else { return };
        log::warn!("{} {error}", self.shared.prefix(rank));
        self.free(member, error);
    }
}
