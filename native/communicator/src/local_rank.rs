//! What one rank's thread and the agent's control thread share.

use super::results::Results;
use bytes::Bytes;
use mio::{Events, Poll, Token, Waker};
use parking_lot::{Mutex, MutexGuard};
use rejoin_agent::logs::{Budget, Logged, Spilled};
use rejoin_protocol::collective::{CollectiveId, Entry, Fetch, Participant, ParticipantOutput, Signature};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Generation, Lineage, MemberId, Phase, Rank, Version};
use rejoin_sync::Parker;
use rejoin_transport::{Link, WaitLimit};
use std::sync::atomic::AtomicU64;
use std::sync::Arc;
use std::time::Duration;

/// The waker's token in the rank's poll; links have their peer's rank plus one.
pub(super) const WAKER: Token = Token(0);

/// One rank in one incarnation.
pub(super) struct LocalRank {
    pub(super) member: MemberId,
    /// Which rank it was in the world that made what it starts from.
    pub(super) was: Option<Rank>,
    pub(super) world: u32,
    /// The number of each rank's host when it started, for as long as it has no plan.
    pub(super) hosts: Vec<usize>,
    pub(super) lineage: Lineage,
    /// The version that it starts at.
    pub(super) starts_at: Version,
    state: Mutex<LocalRankState>,
    /// The rank's thread waits in its poll when it has nothing to do.
    parker: Parker<AtomicU64>,
    waker: Waker,
    poll: Mutex<Option<Poll>>,
}

/// What is guarded by the local rank's lock.
pub(super) struct LocalRankState {
    pub(super) participant: Participant<Logged>,
    /// What its log takes of the process's memory and disk.
    pub(super) results: Results,
    /// All other ranks that live.
    pub(super) peers: Vec<MemberId>,
    /// Links that were made and not yet taken by the rank's thread.
    pub(super) mail: Vec<(MemberId, Link)>,
    /// Why its calls end.
    pub(super) error: Option<Error>,
    /// Its task has ended before the job.
    pub(super) has_left: bool,
    /// What a peer has called, as asked for.
    pub(super) peer_call: Option<(Rank, CollectiveId, Option<Signature>)>,
}

impl LocalRank {
    pub(super) fn new(
        member: MemberId,
        was: Option<Rank>,
        hosts: Vec<usize>,
        lineage: Lineage,
        version: Version,
        budget: Arc<Budget>,
    ) -> Result<LocalRank, Error> {
        let io =
            |cause: std::io::Error| Error::new(Code::Io, format!("rank {} can't make a poll: {cause}", member.rank));
        let poll = Poll::new().map_err(io)?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(io)?;
        let state = LocalRankState {
            participant: Participant::new(member.rank, member.incarnation, lineage, version),
            results: Results::new(budget),
            peers: Vec::new(),
            mail: Vec::new(),
            error: None,
            has_left: false,
            peer_call: None,
        };
        Ok(LocalRank {
            member,
            was,
            world: hosts.len() as u32,
            hosts,
            lineage,
            starts_at: version,
            state: Mutex::new(state),
            parker: Parker::default(),
            waker,
            poll: Mutex::new(Some(poll)),
        })
    }

    /// The poll, for the one thread that makes the calls.
    pub(super) fn take_poll(&self) -> Option<Poll> {
        self.poll.lock().take()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, LocalRankState> {
        self.state.lock()
    }

    /// A number that differs when something has changed that a call has to look at.
    pub(super) fn changes(&self) -> u64 {
        self.parker.changes()
    }

    /// Something has changed: a poll that is going on ends, or the next one does.
    pub(super) fn changed(&self) {
        self.parker.changed(|| {
            // A poll that can't be woken any more belongs to a thread that is gone.
            let _ = self.waker.wake();
        });
    }

    /// The rank's thread sleeps until a link in its poll has something, or [`LocalRank::changed`]
    /// is called, or the time is over; not at all when something `is_due`.
    pub(super) fn sleep(&self, poll: &mut Poll, at_most: Duration, is_due: impl FnOnce() -> bool) {
        self.parker.sleep(is_due, || {
            let mut events = Events::with_capacity(64);
            // An interrupted or failed poll only makes the caller look again, and a limit ends that. Links that broke
            // are reported again after the longest sleep.
            let _ = poll.poll(&mut events, Some(at_most.min(WaitLimit::LOOK)));
        });
    }

    /// Ends its calls. The first reason counts.
    pub(super) fn fail(&self, error: Error) {
        self.lock().error.get_or_insert(error);
        self.changed();
    }
}

impl LocalRankState {
    /// Does what the participant wants done, but for fetches, which are returned.
    pub(super) fn drain(&mut self) -> (Vec<Fetch>, bool) {
        let (mut fetches, mut changed) = (Vec::new(), false);
        while let Some(output) = self.participant.poll() {
            match output {
                ParticipantOutput::Fetch(fetch) => fetches.push(fetch),
                ParticipantOutput::Changed => changed = true,
                ParticipantOutput::Dropped(result) => self.results.dropped(&result),
            }
        }
        (fetches, changed)
    }

    /// A collective that has run is over, unless its generation is.
    pub(super) fn finish(&mut self, generation: Generation, result: Logged) -> bool {
        let cost = self.results.cost(&result);
        let is_over = self.participant.finish(generation, result);
        if is_over {
            self.results.added(cost);
        }
        is_over
    }

    /// Other ranks have shown this of their inputs, in the collective of this id.
    pub(super) fn observe(&mut self, collective_id: &CollectiveId, observed: &[(Rank, u64)]) {
        let LocalRankState { participant, peers, .. } = self;
        for (rank, digest) in observed {
            if let Some(peer) = peers.iter().find(|peer| peer.rank == *rank) {
                participant.observe(*rank, peer.incarnation, collective_id, *digest);
            }
        }
    }

    /// A result that was fetched has come.
    ///
    /// # Errors
    /// As [`Participant::fetched`].
    pub(super) fn fetched(&mut self, fetch: &Fetch, seqno: u32, entry: Entry<Logged>) -> Result<(), Error> {
        let finished = |state: &LocalRankState| state.participant.log().finished(fetch.phase);
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
