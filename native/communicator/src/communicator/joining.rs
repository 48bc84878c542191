//! How a rank of this process gets its handle.

use super::first_lazy::FirstLazy;
use super::{Communicator, JoinArguments};
use crate::calls::{Calls, Choices};
use crate::memory::Memory;
use crate::options::Limits;
use crate::process::Process;
use crate::rank_profile::RankProfile;
use bytes::Bytes;
use rejoin_agent::Agent;
use rejoin_agent::{Joined, StoodBy};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::host::{Offer, Start, OWN_COPIES};
use rejoin_protocol::ids::{Attempt, Checkpoint, MemberId, Rank, Task};
use rejoin_protocol::message::RankGiven;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Process {
    /// Takes a rank's slot, and waits until it can start: at the first rendezvous until all ranks
    /// are there, later until the checkpoint that it starts from is here. `given` says what this
    /// incarnation assumes and has to be equal everywhere.
    ///
    /// `Ok(None)`: the job has reached its end already.
    ///
    /// # Errors
    /// As [`Agent::join`]. The rank has no slot then.
    pub fn join(
        &self,
        rank: Rank,
        attempt: Attempt,
        given: &str,
        limits: Limits,
    ) -> Result<Option<Communicator>, Error> {
        self.join_as((rank, attempt), given, limits, None)
    }

    /// The same in an elastic job, or one with spares, where the tracker says which rank a task is: asks, and joins as
    /// that. A task that none is left for stands by until one is, or the job is over.
    ///
    /// # Errors
    /// As [`Process::join`]; `Fenced` when a newer try of the task is there.
    pub fn join_as_task(
        &self,
        task: Task,
        attempt: Attempt,
        given: &str,
        limits: Limits,
    ) -> Result<Option<Communicator>, Error> {
        loop {
            let RankGiven { rank, attempt: joins_as } = match self.agent.stand_by(task, attempt, limits.join)? {
                Some(StoodBy::Rank(given)) => given,
                Some(StoodBy::Over { .. }) => return Ok(None),
                None => {
                    log::warn!("task {task}: no rank is left for it in this world; it stands by");
                    continue;
                }
            };
            match self.join_as((rank, joins_as), given, limits, Some((task, attempt))) {
                // The world changed before it was started: it asks again.
                Err(error) if error.code == Code::Resized => {}
                joined => return joined,
            }
        }
    }

    pub(super) fn join_as(
        &self,
        (rank, attempt): (Rank, Attempt),
        given: &str,
        limits: Limits,
        asks: Option<(Task, Attempt)>,
    ) -> Result<Option<Communicator>, Error> {
        let segment = if self.shares_memory { self.plane.offer(rank) } else { None };
        let segment_address = segment.as_ref().map(|segment| segment.segment_address());
        let offer = Offer { segment: segment_address, ..Offer::default() };
        // A rank that wanted another number of copies would be given less than it relies on.
        let fingerprint = format!("collectives 1; own_copies {}; {given}", self.own_copies);
        let joined = self.agent.join_offering(rank, attempt, fingerprint, offer, limits.join)?;
        let (start, bytes) = match joined {
            Joined::Over { .. } => return Ok(None),
            Joined::Start { start, bytes, world } => {
                self.warn_of_fewer_copies(rank, world);
                (start, bytes)
            }
        };
        // A model may have no bytes.
        let bytes = bytes.or_else(|| start.checkpoint.map(|_| Bytes::new()));
        let member = MemberId { rank, incarnation: start.incarnation };
        let Some(local_rank) = self.plane.local_rank(member) else {
            let error = self.agent.failure(member).unwrap_or_else(|| {
                Error::new(
                    Code::Io,
                    format!(
                        "rank {rank} was started, but nothing of it was made ready for collectives in this process"
                    ),
                )
            });
            self.agent.leave(member, Some(error.clone()));
            return Err(error);
        };
        let choices = Choices {
            at_most: limits.call,
            rank_profile: RankProfile::new(self.details),
            log: self.calls.clone(),
            repeats: false,
        };
        let calls = Calls::new(self.plane.clone(), local_rank, Memory::new(member, segment), choices)?;
        let join_arguments = JoinArguments { process: self.clone(), attempt, terms: given.to_string(), asks };
        Ok(Some(Communicator::start(self.agent.clone(), calls, start, bytes, (limits, join_arguments))))
    }

    /// More copies than there can ever be: the caller that chose that relies on something else than there is.
    fn warn_of_fewer_copies(&self, rank: Rank, world: u32) {
        let (asked, others) = (self.own_copies, world.saturating_sub(1));
        if asked > others && asked != OWN_COPIES {
            log::warn!(
                "rank {rank}: {asked} copies of each rank's own model were asked for (own_copies), but there are \
                 {others} other ranks: each of them holds one"
            );
        }
    }
}

impl Communicator {
    fn start(
        agent: Arc<Agent>,
        calls: Calls,
        start: Start,
        model: Option<Bytes>,
        (limits, join_arguments): (Limits, JoinArguments),
    ) -> Self {
        agent.begun(calls.local_rank.member, &start);
        // A model may have no bytes.
        let bytes = |own: &Checkpoint| agent.held(own).unwrap_or_default();
        let own = start.own.as_ref().map(bytes);
        let given = start.former.iter().flat_map(|former| &former.given);
        let given = given.filter_map(|given| Some((given.rank, bytes(given.own.as_ref()?)))).collect();
        let (loaded, first_lazy, boot_used, finished) = (false, FirstLazy::NotTaken, BTreeMap::new(), false);
        Communicator {
            agent,
            calls,
            limits,
            join_arguments,
            start,
            model,
            own,
            given,
            loaded,
            first_lazy,
            boot_used,
            finished,
        }
    }
}
