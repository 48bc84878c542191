//! The boundary between two phases of a worker.

use super::Engine;
use crate::bridged_rank::{Goal, Waiting};
use crate::worker_socket::Rest;
use crossbeam::channel::Sender;
use rejoin_protocol::channel::PhaseMark;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{MemberId, Phase, Rank};
use std::fmt;
use std::time::Instant;

impl Engine {
    pub(super) fn ask_to_wait(&mut self, member: MemberId, goal: Goal, reply: Sender<Result<u64, Error>>) {
        let MemberId { rank, incarnation } = member;
        let Some(bridged_rank) = self.member(member) else {
            let text = format!("rank {rank} incarnation {incarnation} has no slot in this process");
            // No receiver means that the trainer's thread is gone.
            let _ = reply.send(Err(Error::new(Code::BadState, text)));
            return;
        };
        let refusal = match (&bridged_rank.failure, &bridged_rank.waiting) {
            (Some(failure), _) => Some(failure.clone()),
            (None, Some(_)) => {
                Some(Error::new(Code::BadState, format!("rank {rank} is at a boundary in another thread already")))
            }
            (None, None) => None,
        };
        if let Some(error) = refusal {
            let _ = reply.send(Err(error));
            return;
        }
        bridged_rank.waiting = Some(Waiting { goal, since: Instant::now(), reply });
        // Usually everything is at rest already.
        self.look_at_boundary(rank);
    }

    /// Looks whether those that wait can go on.
    pub(super) fn look_at_boundaries(&mut self) {
        let waiting = self
            .bridged_ranks
            .iter()
            .filter(|bridged_rank| bridged_rank.waiting.is_some())
            .map(|bridged_rank| bridged_rank.rank);
        for rank in waiting.collect::<Vec<Rank>>() {
            self.look_at_boundary(rank);
        }
    }

    fn look_at_boundary(&mut self, rank: Rank) {
        let peers = self
            .bridged_rank(rank)
            .and_then(|bridged_rank| Some(bridged_rank.training.as_ref()?.neighbours(rank)))
            .unwrap_or_default();
        for peer in peers {
            self.move_channel(rank, peer);
        }
        let drain_timeout = self.config.drain_timeout;
        // Moving may have found that the rank is over; then its call has been answered.
        let Some(bridged_rank) = self.bridged_rank(rank).filter(|bridged_rank| bridged_rank.moves()) else { return };
        let Some(Waiting { goal, since, .. }) = bridged_rank.waiting else { return };
        let member = bridged_rank.id();
        let sent = bridged_rank.training.as_ref().map_or(0, |training| training.left);
        let result = match (bridged_rank.rest(goal), goal) {
            (Ok(Some(true)), Goal::Enter(phase, mark)) => self.enter_now(member, phase, mark).map(|()| sent),
            (Ok(Some(true)), Goal::Count) => Ok(sent),
            (Ok(Some(true)), Goal::Round(round)) => {
                if let Some(training) = bridged_rank.training.as_mut() {
                    let regenerated = training.regenerated(rank);
                    training.catch_up.begins(round, regenerated);
                }
                Ok(sent)
            }
            (Ok(Some(false)), _) if since.elapsed() > drain_timeout => Err(Error::new(
                Code::TimedOut,
                format!(
                    "rank {rank}: bytes of its worker are on their way for {} s at {goal}; no XGBoost call may be in \
                     progress meanwhile",
                    since.elapsed().as_secs()
                ),
            )),
            (Ok(Some(false)), _) => return,
            (Ok(None), _) => Err(Error::new(
                Code::BadState,
                format!("rank {rank}: its worker has no connections at {goal}; was its communicator shut down?"),
            )),
            (Err(error), _) => Err(error),
        };
        let Some(bridged_rank) = self.member(member) else { return };
        match result {
            Ok(sent) => bridged_rank.answer(Ok(sent)),
            Err(error) => {
                bridged_rank.answer(Err(error.clone()));
                if error.code == Code::Mismatch {
                    self.break_job(rank, error);
                }
            }
        }
    }

    /// Enters a phase: everything before it is at rest.
    pub(super) fn enter_now(&mut self, member: MemberId, phase: Phase, mark: PhaseMark) -> Result<(), Error> {
        let MemberId { rank, incarnation } = member;
        let shared = self.shared.clone();
        let mut holds = shared.holds.lock();
        let hold = holds.entry(member).or_default();
        let Some(training) = self.member(member).and_then(|bridged_rank| bridged_rank.training.as_mut()) else {
            return Err(Error::new(Code::BadState, format!("rank {rank} incarnation {incarnation} was not started")));
        };
        let mut oldest = training.place.start;
        let mut regenerated = 0;
        let mut trouble = None;
        for peer in training.neighbours(rank) {
            let Some(channel) = training.channel(peer) else { continue };
            if hold.holding {
                channel.outgoing.hold();
                channel.incoming.hold();
            }
            if let Err(found) = channel.enter(phase, mark) {
                trouble = Some((peer, found));
                break;
            }
            oldest = oldest.max(channel.outgoing.oldest());
            regenerated += channel.outgoing.regenerated();
        }
        if let Some((peer, trouble)) = trouble {
            drop(holds);
            return Err(Engine::name(rank, peer, trouble));
        }
        hold.oldest = oldest;
        drop(holds);
        training.phase = Some(phase);
        training.left = 0;
        training.catch_up.entered(phase, mark, regenerated);
        self.make_all_busy(rank);
        self.inject_if_due(rank);
        Ok(())
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Goal::Enter(phase, _) => write!(to, "the boundary before {phase}"),
            Goal::Count | Goal::Round(_) => write!(to, "the end of a round"),
        }
    }
}

impl crate::bridged_rank::BridgedRank {
    /// Whether nothing is on its way between the worker and its channels, or, to count, nothing
    /// from the worker; `None` if a channel has no connection.
    fn rest(&mut self, goal: Goal) -> Result<Option<bool>, Error> {
        let rank = self.rank;
        // XGBoost's init may return before this engine has seen its last byte; with the hook
        // nothing else follows in boot.
        let absent = self.door.as_ref().and_then(|door| door.bootstrap.as_ref()).map(|_| false);
        let Some(training) = &mut self.training else { return Ok(None) };
        let mut own = None;
        for peer in training.neighbours(rank) {
            let Some(channel) = training.channel(peer) else { return Ok(None) };
            let Some(worker) = &mut channel.worker else { return Ok(absent) };
            let unknown = |cause| {
                Error::new(
                    Code::Io,
                    format!("rank {rank}: its worker's channel to rank {peer} can't be examined: {cause}"),
                )
            };
            let rest = match goal {
                Goal::Enter(..) => worker.rest(&mut own),
                Goal::Count | Goal::Round(_) => worker.rest_of_sent(&mut own),
            };
            match rest.map_err(unknown)? {
                Rest::Complete => {}
                Rest::Moving => return Ok(Some(false)),
                Rest::Gone => return Ok(None),
                Rest::Unread(bytes) => {
                    return Err(Error::new(
                        Code::Mismatch,
                        format!(
                            "rank {peer} sent rank {rank} at least {bytes} bytes more in {} than rank {rank} has \
                             read: the two did not run the same collectives; usual causes: other parameters, rows in \
                             another order, a random seed that isn't fixed",
                            channel.outgoing.phase()
                        ),
                    ))
                }
            }
        }
        Ok(Some(true))
    }
}
