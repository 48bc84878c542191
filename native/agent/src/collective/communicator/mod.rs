//! One rank's handle. Its calls, by kind: [`reducing`], [`gathering`] (and broadcast, barrier), [`prepared`], [`versions`];
//! [`running`] is what happens in each of them.

mod gathering;
mod moments;
mod prepared;
mod reducing;
mod running;
mod versions;

pub use running::Prepare;

use super::call_log::CallLog;
use super::lines::Lines;
use super::memory::Memory;
use super::notes::Notes;
use super::options::{Limits, Options};
use super::plane::CollectivePlane;
use super::seat::Seat;
use super::shape::Shapes;
use crate::agent::{checkpoint, Agent, MemberId};
use bytes::Bytes;
use mio::Poll;
use rejoin_collectives::{Element, Reducer};
use rejoin_protocol::collective::Site;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::host::Start;
use rejoin_protocol::ids::{Rank, Version};
use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::Arc;

/// One rank of a job, in one incarnation: its collectives and checkpoints. One thread at a time makes its calls.
///
/// Every call either gives all ranks the same result or fails. A call that fails leaves the caller's buffers as they were.
/// After a failure other than `BadArgument` the handle refuses further calls with `BadState`: the rank has to be started
/// again, as its next incarnation. Dropping it before [`Communicator::finish`] gives the rank's seat back.
pub struct Communicator {
    agent: Arc<Agent>,
    plane: Arc<CollectivePlane>,
    seat: Arc<Seat>,
    poll: Poll,
    lines: Lines,
    memory: Memory,
    limits: Limits,
    start: Start,
    model: Option<Bytes>,
    own: Option<Bytes>,
    shapes: Shapes,
    scratch: Vec<u8>,
    /// How often each boot key was used in this incarnation.
    boot_used: BTreeMap<String, u32>,
    failed: Option<Error>,
    finished: bool,
    notes: Notes,
    calls: CallLog,
}

impl Communicator {
    #[allow(clippy::too_many_arguments)] // put together at one place
    pub(super) fn start(
        agent: Arc<Agent>,
        plane: Arc<CollectivePlane>,
        seat: Arc<Seat>,
        memory: Memory,
        start: Start,
        model: Option<Bytes>,
        limits: Limits,
        notes: Notes,
        calls: CallLog,
    ) -> Result<Communicator, Error> {
        let member = seat.member;
        let Some(poll) = seat.take_poll() else {
            return Err(Error::new(Code::BadState, format!("rank {} has a communicator already", member.rank)));
        };
        let first = start.checkpoint.unwrap_or_else(|| checkpoint(start.lineage, start.version, 0, &[], false));
        agent.entered(member, first, None);
        let own = start.own.map(|own| agent.held(&own).unwrap_or_default());
        Ok(Communicator {
            lines: Lines::new(member, seat.world),
            shapes: Shapes::new(member.rank.0 as usize, seat.world as usize),
            agent,
            plane,
            seat,
            poll,
            memory,
            limits,
            start,
            model,
            own,
            scratch: Vec::new(),
            boot_used: BTreeMap::new(),
            failed: None,
            finished: false,
            notes,
            calls,
        })
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.seat.member.rank
    }

    /// The number of ranks.
    pub fn world(&self) -> u32 {
        self.seat.world
    }

    /// Which incarnation of the rank this is.
    pub fn incarnation(&self) -> u32 {
        self.seat.member.incarnation.0
    }

    /// The version that this rank is in: how many checkpoints it has taken.
    pub fn version(&self) -> Version {
        self.seat.lock().participant.version()
    }

    fn usable(&self) -> Result<(), Error> {
        match &self.failed {
            Some(error) => Err(Error::new(
                Code::BadState,
                format!("rank {}'s communicator is of no more use since a call failed: {error}", self.rank()),
            )),
            None => Ok(()),
        }
    }

    /// Notes that a call has failed, and ends the job where trying again would fail again.
    fn fails(&mut self, error: Error) -> Error {
        let mut state = self.seat.lock();
        if error.code != Code::Mismatch {
            // After a mismatch the other rank asks what was called.
            state.participant.give_up();
        }
        let told = state.error.is_some();
        drop(state);
        if !told && matches!(error.code, Code::Mismatch | Code::OutOfSpace | Code::Internal | Code::TrainingFailed) {
            self.agent.broken(self.seat.member, error.clone());
        }
        self.failed = Some(error.clone());
        error
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        let failure = self.failed.take().filter(|error| error.code != Code::Fenced);
        self.agent.leave(self.seat.member, failure.filter(|_| !self.finished));
    }
}

#[track_caller]
fn site(options: &Options) -> Site {
    // Not in a closure, which would be its own caller.
    match &options.site {
        Some(site) => site.clone(),
        None => Location::caller().into(),
    }
}

/// Nothing is folded: bytes only.
fn plain() -> Reducer<'static> {
    Reducer::custom(1, |_, _| Ok(()))
}

fn count(length: usize, element: Element) -> Result<u64, Error> {
    if length.is_multiple_of(element.size()) {
        return Ok((length / element.size()) as u64);
    }
    Err(Error::new(
        Code::BadArgument,
        format!("a buffer of {length} bytes isn't a whole number of {element} of {} bytes each", element.size()),
    ))
}

impl std::fmt::Debug for Communicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let MemberId { rank, incarnation } = self.seat.member;
        write!(f, "Communicator(rank {rank} of {}, incarnation {incarnation})", self.seat.world)
    }
}
