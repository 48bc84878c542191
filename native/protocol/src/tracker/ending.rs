//! The end: reports of finished ranks, rank 0's result, and errors that end the job.

use super::door::cut;
use super::incoming_result::IncomingResult;
use super::slots::RankSlot;
use super::{JobResult, RankSlotState, Tracker, TrackerOutput};
use crate::error::{Code, Error};
use crate::event::Event;
use crate::ids::{Attempt, MemberId, Rank, Task};
use crate::message::{TrackerMessage, RESULT_PART_LIMIT, TEXT_LIMIT};
use alloc::format;
use alloc::vec::Vec;

/// Most bytes of a result.
const RESULT_LIMIT: u64 = 4 << 30;

impl Tracker {
    pub(super) fn result_part(&mut self, rank: Rank, offset: u64, total: u64, bytes: &[u8]) {
        let is_wanted = self.config.wants_result && rank == Rank(0);
        if self.over.is_some() || !is_wanted {
            return;
        }
        if offset == 0 {
            // A connection broke in the middle: all comes again.
            self.forget_result();
            self.result.total = total;
        }
        let fits = offset == self.result.len()
            && total == self.result.total
            && total <= RESULT_LIMIT
            && bytes.len() <= RESULT_PART_LIMIT
            && offset + bytes.len() as u64 <= total;
        if !fits {
            let error = Error::new(
                Code::Internal,
                format!(
                    "{} sent bytes {offset}.. of a result of {total}, but {} of {} were there (at most {RESULT_LIMIT} \
                     bytes, {RESULT_PART_LIMIT} at a time)",
                    self.who(rank),
                    self.result.len(),
                    self.result.total
                ),
            );
            self.fail(error);
            return;
        }
        self.result.bytes.extend_from_slice(bytes);
    }

    pub(super) fn forget_result(&mut self) {
        self.result = IncomingResult::default();
    }

    pub(super) fn finish(&mut self, member: MemberId, rounds: u32, digest: u128) {
        let MemberId { rank, incarnation } = member;
        if rank == Rank(0) && !self.result.is_whole() {
            let error = Error::new(
                Code::Internal,
                format!(
                    "{} finished with {} of {} bytes of its result",
                    self.who(rank),
                    self.result.len(),
                    self.result.total
                ),
            );
            self.fail(error);
            return;
        }
        let now = self.clock.now;
        let Some(slot) = self.slot_mut(rank) else { return };
        let (at, oldest) = match slot.state {
            RankSlotState::Planned { at, oldest, .. } => (at, oldest),
            // Sent again after a connection broke.
            RankSlotState::Finished { at, oldest, .. } => (at, oldest),
            RankSlotState::Vacant | RankSlotState::Fresh => return,
        };
        let again = matches!(slot.state, RankSlotState::Finished { digest: before, .. } if before == digest);
        slot.state = RankSlotState::Finished { at, oldest, rounds, digest };
        slot.cost.is_back(0, now);
        if !again {
            self.event(Event::RankFinished { rank, incarnation, digest });
        }
        if let Some(error) = self.unequal_ends(rank, rounds, digest) {
            self.fail(error);
            return;
        }
        let ahead = self.slots.iter().enumerate().find_map(|(other, slot)| match slot.state {
            RankSlotState::Planned { round, .. } if round > rounds => Some((Rank(other as u32), round)),
            _ => None,
        });
        if let Some((other, round)) = ahead {
            let error = self.trains_on(other, round, rank, rounds);
            self.fail(error);
            return;
        }
        self.end_if_all_finished();
    }

    fn unequal_ends(&self, rank: Rank, rounds: u32, digest: u128) -> Option<Error> {
        self.slots.iter().enumerate().find_map(|(other, slot)| match slot.state {
            RankSlotState::Finished { rounds: r, digest: d, .. } if (r, d) != (rounds, digest) => Some(Error::new(
                Code::Mismatch,
                format!(
                    "all ranks were expected to end with the same model, but {} ended after {rounds} rounds with \
                     digest {digest:032x} and {} after {r} rounds with {d:032x}; training is not deterministic: check \
                     the order of rows, seeds and the program's own functions",
                    self.who(rank),
                    self.who(Rank(other as u32))
                ),
            )),
            _ => None,
        })
    }

    /// A rank that trains on after another has finished can never be served.
    pub(super) fn check_rounds(&mut self, rank: Rank, round: u32) {
        let ended = self.slots.iter().enumerate().find_map(|(other, slot)| match slot.state {
            RankSlotState::Finished { rounds, .. } if rounds < round => Some((Rank(other as u32), rounds)),
            _ => None,
        });
        if let Some((other, rounds)) = ended {
            let error = self.trains_on(rank, round, other, rounds);
            self.fail(error);
        }
    }

    fn trains_on(&self, rank: Rank, round: u32, other: Rank, rounds: u32) -> Error {
        Error::new(
            Code::Mismatch,
            format!(
                "{} is in round {round}, but {} ended after {rounds} rounds; all ranks have to decide alike when to \
                 stop",
                self.who(rank),
                self.who(other)
            ),
        )
    }

    pub(super) fn end_if_all_finished(&mut self) {
        // A result of which a part is here is being sent again, after a broken connection; rank 0's report follows it.
        if self.over.is_some() || !self.result.is_whole() {
            return;
        }
        let mut common = None;
        for slot in &self.slots {
            match slot.state {
                RankSlotState::Finished { digest, .. } => common = Some(digest),
                _ if self.knew_the_end(slot) => {}
                _ => return,
            }
        }
        let Some(digest) = common else { return };
        let deaths: Vec<u32> = self.slots.iter().map(|slot| slot.deaths.len() as u32).collect();
        self.over = Some(Ok(digest));
        self.event(Event::JobEnded { digest, deaths: deaths.iter().sum() });
        let result = core::mem::take(&mut self.result).bytes;
        self.outputs.push_back(TrackerOutput::Over(Ok(JobResult { digest, result, deaths })));
        self.send_all(&TrackerMessage::Ended(Ok(digest)));
    }

    /// A task has ended well. In the first life of the tracker that says nothing: the end is sent by this one alone.
    /// With spares a later life may not know which rank the task had, and needn't: that it was sent the end says
    /// that all ranks had reported it, so none that is gone is waited for.
    /// Of a try that came to this life without the end it says nothing either: its program has ended early.
    pub(super) fn task_ended(&mut self, task: Task, attempt: Attempt) {
        if self.former_life.came.get(&task).is_some_and(|came| *came >= attempt) {
            return;
        }
        let gives_ranks = self.gives_ranks();
        let its = (0..).zip(&mut self.slots).filter(|(rank, _)| gives_ranks || *rank == task.0);
        its.for_each(|(_, slot)| slot.ended_well = true);
    }

    /// Whether its rank was sent the end by a former life, and has gone: only then does a task end
    /// well before this life has sent it. All others have to have reached the end too; those that
    /// are left are believed about the model.
    pub(super) fn knew_the_end(&self, slot: &RankSlot) -> bool {
        self.config.epoch > 1 && slot.ended_well && slot.state == RankSlotState::Vacant
    }

    pub(super) fn broken(&mut self, rank: Rank, error: Error) {
        let who = self.who(rank);
        self.fail(Error::new(error.code, format!("{} (noticed by {who})", error.message)));
    }

    /// The job is over with an error; nothing changes that.
    pub(super) fn fail(&mut self, mut error: Error) {
        if self.over.is_some() {
            return;
        }
        // It has to reach all.
        cut(&mut error.message, 4 * TEXT_LIMIT);
        self.over = Some(Err(error.clone()));
        self.changed = None;
        self.planned.missing_reports.clear();
        self.event(Event::JobFailed { error: error.clone() });
        self.outputs.push_back(TrackerOutput::Over(Err(error.clone())));
        self.send_all(&TrackerMessage::Ended(Err(error)));
    }
}
