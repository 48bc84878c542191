//! What one rank's thread and the agent's control thread share.

use super::inbox::Inbox;
use super::results::Results;
use crate::agent::MemberId;
use crate::logs::{Budget, Logged, Spilled};
use crate::plane::PlanePeer;
use bytes::Bytes;
use mio::{Poll, Token, Waker};
use parking_lot::{Mutex, MutexGuard};
use rejoin_meet::Doze;
use rejoin_protocol::collective::{Entry, Fetch, Output, Participant, Place, Signature};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Generation, Incarnation, Lineage, Phase, Rank, Version};
use rejoin_transport::Link;
use std::sync::atomic::AtomicU64;
use std::sync::Arc;

/// The waker's token in the rank's poll; links have their peer's rank plus one.
pub(super) const WAKER: Token = Token(0);

/// One rank in one incarnation.
pub(super) struct Seat {
    pub(super) member: MemberId,
    pub(super) world: u32,
    pub(super) lineage: Lineage,
    pub(super) inbox: Inbox,
    state: Mutex<State>,
    /// The rank's thread waits in its poll when it has nothing to do. The frames that arrive are those of the inbox.
    doze: Doze<AtomicU64>,
    waker: Waker,
    poll: Mutex<Option<Poll>>,
}

/// What is guarded by the seat's lock.
pub(super) struct State {
    pub(super) participant: Participant<Logged>,
    /// What its log takes of the process's memory and disk.
    pub(super) results: Results,
    /// All other ranks that live.
    pub(super) peers: Vec<PlanePeer>,
    /// Links that were made and not yet taken by the rank's thread.
    pub(super) mail: Vec<(Rank, Incarnation, Link)>,
    /// Why its calls end.
    pub(super) error: Option<Error>,
    /// What a peer has called, as asked for.
    pub(super) told: Option<(Rank, Place, Option<Signature>)>,
}

impl Seat {
    pub(super) fn new(
        member: MemberId,
        world: u32,
        lineage: Lineage,
        version: Version,
        budget: Arc<Budget>,
    ) -> Result<Seat, Error> {
        let io =
            |cause: std::io::Error| Error::new(Code::Io, format!("rank {} can't make a poll: {cause}", member.rank));
        let poll = Poll::new().map_err(io)?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(io)?;
        let state = State {
            participant: Participant::new(member.rank, member.incarnation, lineage, version),
            results: Results::new(budget),
            peers: Vec::new(),
            mail: Vec::new(),
            error: None,
            told: None,
        };
        Ok(Seat {
            member,
            world,
            lineage,
            inbox: Inbox::default(),
            state: Mutex::new(state),
            doze: Doze::default(),
            waker,
            poll: Mutex::new(Some(poll)),
        })
    }

    /// The poll, for the one thread that makes the calls.
    pub(super) fn take_poll(&self) -> Option<Poll> {
        self.poll.lock().take()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// A number that differs when something has changed that a call has to look at.
    pub(super) fn changes(&self) -> u64 {
        self.doze.changes()
    }

    /// The same for the inbox.
    pub(super) fn arrivals(&self) -> u64 {
        self.doze.arrivals()
    }

    pub(super) fn changed(&self) {
        self.doze.changed(|| self.wake());
    }

    pub(super) fn arrived(&self) {
        self.doze.arrived(|| self.wake());
    }

    /// Ends the poll that is going on, or the next one.
    fn wake(&self) {
        // A poll that can't be woken any more belongs to a thread that is gone.
        let _ = self.waker.wake();
    }

    /// The rank's thread naps, unless something `is_due`.
    pub(super) fn sleep(&self, is_due: impl FnOnce() -> bool, nap: impl FnOnce()) {
        self.doze.sleep(is_due, nap);
    }

    /// Ends its calls. The first reason counts.
    pub(super) fn fail(&self, error: Error) {
        self.lock().error.get_or_insert(error);
        self.changed();
    }
}

impl State {
    /// Does what the participant wants done, but for fetches, which are returned.
    pub(super) fn drain(&mut self) -> (Vec<Fetch>, bool) {
        let (mut fetches, mut changed) = (Vec::new(), false);
        while let Some(output) = self.participant.poll() {
            match output {
                Output::Fetch(fetch) => fetches.push(fetch),
                Output::Changed => changed = true,
                Output::Dropped(result) => self.results.dropped(&result),
            }
        }
        (fetches, changed)
    }

    /// A collective that has run is over, unless its attempt is.
    pub(super) fn finish(&mut self, attempt: Generation, result: Logged) -> bool {
        let cost = self.results.cost(&result);
        let is_over = self.participant.finish(attempt, result);
        if is_over {
            self.results.added(cost);
        }
        is_over
    }

    /// Other ranks have shown this of their inputs, in the collective at this place.
    pub(super) fn hears(&mut self, place: &Place, heard: &[(Rank, u64)]) {
        let State { participant, peers, .. } = self;
        for (rank, digest) in heard {
            if let Some(peer) = peers.iter().find(|peer| peer.rank == *rank) {
                participant.hears(*rank, peer.incarnation, place, *digest);
            }
        }
    }

    /// A result that was fetched has come.
    ///
    /// # Errors
    /// As [`Participant::fetched`].
    pub(super) fn fetched(&mut self, fetch: &Fetch, seqno: u32, entry: Entry<Logged>) -> Result<(), Error> {
        let finished = |state: &State| state.participant.log().finished(fetch.phase);
        let (before, cost) = (finished(self), self.results.cost(&entry.result));
        self.participant.fetched(fetch.generation, fetch.phase, seqno, entry)?;
        if finished(self) > before {
            self.results.added(cost);
        }
        Ok(())
    }

    /// The oldest results in memory, so many bytes of them if there are so many, to be written to disk.
    pub(super) fn oldest(&self, wanted: u64) -> Vec<(Phase, u32, Bytes)> {
        let mut oldest = Vec::new();
        let mut bytes = 0;
        for (phase, seqno, result) in self.participant.log().results() {
            if let Some(result) = result.in_memory() {
                if bytes >= wanted {
                    break;
                }
                if self.results.is_worth_it(result) {
                    bytes += result.len() as u64;
                    oldest.push((phase, seqno, result.clone()));
                }
            }
        }
        oldest
    }

    /// These bytes have been written there, from this log or from another one that has the same ones.
    pub(super) fn spilled(&mut self, phase: Phase, seqno: u32, bytes: &Bytes, there: &Arc<Spilled>) {
        let Some(result) = self.participant.result_mut(phase, seqno) else { return };
        // It may have been dropped meanwhile, and another one stand in its place.
        if result.in_memory().is_some_and(|now| now.as_ptr() == bytes.as_ptr()) {
            let before = std::mem::replace(result, Logged::Spilled(there.clone()));
            let cost = self.results.cost(&before) - self.results.cost(result);
            self.results.left_memory(cost);
        }
    }
}
