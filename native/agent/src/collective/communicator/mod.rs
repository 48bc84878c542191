//! One rank's handle. Its calls, by kind: [`reducing`], [`gathering`] (and broadcast, barrier), [`prepared`], [`versions`].

mod gathering;
mod prepared;
mod reducing;
mod versions;

use super::calls::{Calls, Input};
use super::options::{Boot, Limits, Options};
use super::shape::Shape;
use crate::agent::{checkpoint, Agent, MemberId};
use bytes::Bytes;
use rejoin_collectives::Reducer;
use rejoin_protocol::collective::{BootKey, Call, Site};
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
    calls: Calls,
    limits: Limits,
    start: Start,
    model: Option<Bytes>,
    own: Option<Bytes>,
    /// How often each boot key was used in this incarnation.
    boot_used: BTreeMap<String, u32>,
    finished: bool,
}

impl Communicator {
    pub(super) fn start(agent: Arc<Agent>, calls: Calls, start: Start, model: Option<Bytes>, limits: Limits) -> Self {
        let first = start.checkpoint.unwrap_or_else(|| checkpoint(start.lineage, start.version, 0, &[], false));
        agent.entered(calls.seat.member, first, None);
        let own = start.own.map(|own| agent.held(&own).unwrap_or_default());
        Communicator { agent, calls, limits, start, model, own, boot_used: BTreeMap::new(), finished: false }
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.calls.rank()
    }

    /// The number of ranks.
    pub fn world(&self) -> u32 {
        self.calls.world()
    }

    /// Which incarnation of the rank this is.
    pub fn incarnation(&self) -> u32 {
        self.member().incarnation.0
    }

    /// The version that this rank is in: how many checkpoints it has taken.
    pub fn version(&self) -> Version {
        self.calls.version()
    }

    fn member(&self) -> MemberId {
        self.calls.seat.member
    }

    fn usable(&self) -> Result<(), Error> {
        self.calls.usable()
    }

    fn fails(&mut self, error: Error) -> Error {
        self.calls.fails(error)
    }

    /// One collective, from its call to its result.
    fn run(
        &mut self,
        call: &Call,
        options: &Options,
        shape: Shape,
        reducer: &Reducer<'_>,
        input: Input<'_>,
    ) -> Result<Bytes, Error> {
        self.usable()?;
        let key = self.boot_key(call, &options.boot)?;
        self.calls.run(call, key, shape, reducer, input)
    }

    fn boot_key(&mut self, call: &Call, boot: &Boot) -> Result<Option<BootKey>, Error> {
        let (name, named) = match boot {
            Boot::No => return Ok(None),
            Boot::BySite => (call.to_string(), false),
            Boot::Named(name) => (name.clone(), true),
        };
        let used = self.boot_used.entry(name.clone()).or_default();
        if named && *used > 0 {
            return Err(Error::new(
                Code::BadArgument,
                format!("the boot key `{name}` was used before by this incarnation; every collective needs its own"),
            ));
        }
        let occurrence = *used;
        *used += 1;
        Ok(Some(BootKey { name, occurrence }))
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        let failure = self.calls.take_failure().filter(|error| error.code != Code::Fenced);
        self.agent.leave(self.member(), failure.filter(|_| !self.finished));
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

impl std::fmt::Debug for Communicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let MemberId { rank, incarnation } = self.member();
        write!(f, "Communicator(rank {rank} of {}, incarnation {incarnation})", self.world())
    }
}
