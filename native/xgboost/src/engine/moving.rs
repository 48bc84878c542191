//! Bytes move, and what goes wrong with them.

use super::Engine;
use crate::channel::{Channel, Moved, Road, Trouble};
use crate::seat::Halt;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::fault::{Action, FaultRule};
use rejoin_protocol::ids::Rank;
use std::time::{Duration, Instant};

/// How long bytes are held back for a process that is about to be stopped. It is stopped within this time; once it is
/// woken the moment has passed, and it goes on as if nothing had been.
const STOP_PATIENCE: Duration = Duration::from_millis(500);

/// What usually makes a worker produce other bytes than before.
const USUAL_CAUSES: &str =
    "usual causes: rows in another order, other data, a random seed that isn't fixed, another number of threads";

impl Engine {
    /// Gives every channel that has something to do one turn.
    pub(super) fn move_all(&mut self) {
        for _ in 0..self.busy.len() {
            let Some((rank, peer)) = self.busy.pop_front() else { break };
            if let Some(channel) = self.seat(rank).and_then(|seat| seat.training.as_mut()?.channel(peer)) {
                channel.queued = false;
            }
            self.move_channel(rank, peer);
        }
    }

    /// One turn of a channel: what the worker wrote goes into the log and on to the peer, what the peer sent goes to the
    /// worker.
    pub(super) fn move_channel(&mut self, rank: Rank, peer: Rank) {
        let Engine { seats, watch, .. } = self;
        let Some(at) = seats.iter().position(|seat| seat.rank == rank) else { return };
        let seat = &mut seats[at];
        if !seat.moves() {
            return;
        }
        let incarnation = seat.incarnation;
        let Some(training) = seat.training.as_mut().filter(|training| training.connects(rank, peer)) else { return };
        let (Some(phase), left) = (training.phase, training.left) else { return };
        let allowance = watch.allowance(rank, incarnation, phase, left);
        let Some(channel) = training.channel(peer) else { return };
        let mut moved = Moved::default();
        channel.read_worker(allowance, &mut moved);
        let local = matches!(channel.road, Road::Local(_));
        training.left += moved.left;
        let is_due = moved.left >= allowance;
        let result = if local { self.hand_over(rank, peer, &mut moved) } else { self.exchange(rank, peer, &mut moved) };
        if moved.left > 0 {
            self.spill_excess(rank);
        }
        if let Err(trouble) = result {
            return self.handle_trouble(rank, peer, trouble);
        }
        self.tell_story(rank, &moved);
        if is_due {
            self.strike_if_due(rank);
        }
        if moved.more || is_due {
            self.make_busy(rank, peer);
        }
    }

    fn exchange(&mut self, rank: Rank, peer: Rank, moved: &mut Moved) -> Result<(), Trouble> {
        match self.seat(rank).and_then(|seat| seat.training.as_mut()?.channel(peer)) {
            Some(channel) => channel.exchange(moved),
            None => Ok(()),
        }
    }

    fn hand_over(&mut self, rank: Rank, peer: Rank, moved: &mut Moved) -> Result<(), Trouble> {
        let place = |wanted| self.seats.iter().position(|seat| seat.rank == wanted);
        let (Some(from), Some(to)) = (place(rank), place(peer)) else { return Ok(()) };
        // The positions of two different ranks differ, and both were just found.
        let Ok([seat, other]) = self.seats.get_disjoint_mut([from, to]) else { return Ok(()) };
        if !other.moves() {
            return Ok(());
        }
        let channels = (
            seat.training.as_mut().and_then(|training| training.channel(peer)),
            other.training.as_mut().and_then(|training| training.channel(rank)),
        );
        let (Some(ours), Some(theirs)) = channels else { return Ok(()) };
        ours.hand_over(theirs, moved)?;
        let arrived = Moved { arrived: moved.sent, ..Moved::default() };
        self.tell_story(peer, &arrived);
        Ok(())
    }

    /// Notices that a restarted worker is being replayed to, and that it has caught up.
    fn tell_story(&mut self, rank: Rank, moved: &Moved) {
        if moved.arrived == 0 && moved.sent == 0 {
            return;
        }
        let Some(seat) = self.seat(rank) else { return };
        let incarnation = seat.incarnation;
        let Some(training) = &mut seat.training else { return };
        let begins = training.story.arrived(moved.arrived);
        let mut event = None;
        if moved.sent > 0 && training.story.is_open() {
            let neighbours = training.neighbours(rank);
            let all: Vec<&Channel> = neighbours.iter().filter_map(|p| training.channels.get(p.0 as usize)).collect();
            if all.iter().all(|channel| channel.is_acquainted() && !channel.outgoing.behind()) {
                let regenerated = all.iter().map(|channel| channel.outgoing.regenerated()).sum();
                event = Some(training.story.caught_up(rank, incarnation, regenerated));
            }
        }
        if let (Some(event), Some(agent)) = (event, self.shared.agent()) {
            agent.happened(event);
        }
        if begins {
            if let Some(rule) = self.watch.due_replaying(rank, incarnation) {
                self.strike(rank, rule);
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
            let channels = self.seats.iter_mut().filter_map(|seat| seat.training.as_mut());
            let logs = channels.flat_map(|training| &mut training.channels).filter_map(Channel::oldest_in_memory);
            let Some((_, log)) = logs.min_by_key(|(phase, _)| *phase) else { return };
            match log.spill(excess) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) => return self.break_job(rank, error),
            }
        }
    }

    /// Strikes the rules that wait for the bytes that have left by now.
    pub(super) fn strike_if_due(&mut self, rank: Rank) {
        loop {
            let Some(seat) = self.seat(rank).filter(|seat| seat.failure.is_none()) else { return };
            let incarnation = seat.incarnation;
            let Some(training) = &seat.training else { return };
            let (Some(phase), left) = (training.phase, training.left) else { return };
            let Some(rule) = self.watch.due_after(rank, incarnation, phase, left) else { return };
            self.strike(rank, rule);
        }
    }

    fn strike(&mut self, rank: Rank, rule: FaultRule) {
        // The agent says so in the log.
        if let Some(agent) = self.shared.agent() {
            agent.strike(rule.clone());
        }
        let Some(seat) = self.seat(rank) else { return };
        let member = (rank, seat.incarnation);
        match rule.action {
            Action::Kill => seat.halt = Halt::ForGood,
            Action::Stop => seat.halt = Halt::Until(Instant::now() + STOP_PATIENCE),
            Action::Delay { millis } => {
                seat.halt = Halt::Until(Instant::now() + Duration::from_millis(u64::from(millis)));
            }
            Action::Tell => {}
            Action::CutLink { peer } => self.cut(rank, peer, "it was cut by a fault rule".into()),
            Action::Throw => {
                self.free(member, Error::new(Code::Io, format!("rank {rank}: thrown by fault rule {}", rule.id)))
            }
        }
    }

    /// Resets the link to a peer and has it made anew.
    fn cut(&mut self, rank: Rank, peer: Rank, reason: String) {
        let Some(seat) = self.seat(rank) else { return };
        let member = (rank, seat.incarnation);
        let Some(channel) = seat.training.as_mut().and_then(|training| training.channel(peer)) else { return };
        if !matches!(channel.road, Road::Link(_)) {
            return log::warn!("{} there is no link to rank {peer} to be cut", self.shared.prefix(rank));
        }
        let road = channel.unlinked();
        let Road::Link(link) = &road else { return };
        let incarnation = link.incarnation;
        self.discard(road);
        self.report_link_down(member, peer, incarnation, reason);
    }

    pub(super) fn handle_trouble(&mut self, rank: Rank, peer: Rank, trouble: Trouble) {
        match trouble {
            Trouble::Link(reason) => {
                log::info!("{} the link to rank {peer} broke: {reason}", self.shared.prefix(rank));
                self.cut(rank, peer, reason);
            }
            other => {
                let error = self.name(rank, peer, other);
                self.break_job(rank, error);
            }
        }
    }

    /// Puts the ranks' names to what a book found wrong.
    pub(super) fn name(&mut self, rank: Rank, peer: Rank, trouble: Trouble) -> Error {
        let local = self.seat(rank).and_then(|seat| {
            let channel = seat.training.as_mut()?.channel(peer)?;
            Some(matches!(channel.road, Road::Local(_)))
        });
        let (error, from, to) = match trouble {
            Trouble::Job(error) => return error,
            Trouble::Link(reason) => {
                return Error::new(Code::Io, format!("link from rank {rank} to rank {peer}: {reason}"))
            }
            Trouble::Outgoing(error) => (error, rank, peer),
            // Handing over within this process, the receiver's book is that of the peer.
            Trouble::Incoming(error) if local == Some(true) => (error, rank, peer),
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
        let Some(incarnation) = self.seat(rank).map(|seat| seat.incarnation) else { return };
        // The agent says so in the log.
        if let Some(agent) = self.shared.agent() {
            agent.broken(rank, incarnation, error.clone());
        }
        self.free((rank, incarnation), error);
    }

    /// Something of this rank alone is broken: its task fails and is tried again.
    pub(super) fn fail_rank(&mut self, rank: Rank, error: Error) {
        let Some(incarnation) = self.seat(rank).map(|seat| seat.incarnation) else { return };
        log::warn!("{} {error}", self.shared.prefix(rank));
        self.free((rank, incarnation), error);
    }
}
