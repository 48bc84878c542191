//! One rank's handle. Its calls, by kind: [`reducing`], [`gathering`] (and broadcast, barrier), [`versions`].
//!
//! Each call over bytes has an [`Input`], which is there or is prepared on demand.

mod first_lazy;
mod gathering;
mod joining;
mod reducing;
mod versions;

use super::calls::{Calls, Input};
use super::options::{Boot, Limits, Options};
use super::placement::Placement;
use super::printer::Printer;
use super::process::Process;
use super::shape::Shape;
use bytes::Bytes;
use first_lazy::FirstLazy;
use rejoin_agent::Agent;
use rejoin_collectives::Reducer;
use rejoin_protocol::collective::{BootKey, Call, Site};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::host::Start;
use rejoin_protocol::ids::{Attempt, MemberId, Rank, Task, Version};
use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::Arc;

/// One rank of a job, in one incarnation: its collectives and checkpoints. One thread at a time makes its calls.
///
/// Every call either gives all ranks the same result or fails. A call that fails leaves the
/// caller's buffers as they were. After a failure other than `BadArgument` the handle refuses
/// further calls with `BadState`: the rank has to be started again, as its next incarnation.
/// Dropping it before [`Communicator::finish`] gives the rank's slot back.
pub struct Communicator {
    agent: Arc<Agent>,
    calls: Calls,
    limits: Limits,
    join_arguments: JoinArguments,
    start: Start,
    model: Option<Bytes>,
    own: Option<Bytes>,
    /// The own models of ranks that are gone, as far as one lives.
    given: BTreeMap<Rank, Bytes>,
    /// Whether the program has asked what it starts from.
    loaded: bool,
    first_lazy: FirstLazy,
    /// How often each boot key was used in this incarnation.
    boot_used: BTreeMap<String, u32>,
    finished: bool,
}

/// How a rank has taken its slot.
#[derive(Clone)]
struct JoinArguments {
    process: Process,
    attempt: Attempt,
    terms: String,
    /// The task that asks which rank it is, and its try, in an elastic job.
    asks: Option<(Task, Attempt)>,
}

impl Communicator {
    /// The number of this member in its world, from 0.
    pub fn rank(&self) -> Rank {
        self.calls.rank()
    }

    /// The number of ranks.
    pub fn world(&self) -> u32 {
        self.calls.world()
    }

    /// Where this rank is among the ranks of its host, and its host among the hosts: by the newest plan, so that it may
    /// change with any call when a rank has come back on another host, or the world was resized. A rank that is missing
    /// counts as on rank 0's host. Ranks are of one host if their processes gave it one name.
    pub fn placement(&self) -> Placement {
        self.calls.placement()
    }

    /// Which incarnation of the rank this is.
    pub fn incarnation(&self) -> u32 {
        self.member().incarnation.number
    }

    /// Tells whoever started the job, from any thread, for this incarnation.
    pub fn printer(&self) -> Printer {
        Printer::new(self.agent.clone(), self.member())
    }

    /// The framework's try that this incarnation belongs to.
    pub fn attempt(&self) -> Attempt {
        self.join_arguments.attempt
    }

    /// The version that this rank is in: how many checkpoints it has taken.
    pub fn version(&self) -> Version {
        self.calls.version()
    }

    /// Its rank, and the incarnation as it is compared and sent.
    pub fn member(&self) -> MemberId {
        self.calls.local_rank.member
    }

    fn usable(&self) -> Result<(), Error> {
        self.calls.usable()
    }

    fn fails(&mut self, error: Error) -> Error {
        self.calls.fails(error)
    }

    /// A version's calls need what it begins with. A program that makes one without it does the
    /// same when it comes back at a later version, where the others took it for the first one of
    /// that version.
    fn has_loaded(&mut self, what: impl FnOnce() -> String) -> Result<(), Error> {
        self.usable()?;
        if self.loaded {
            return Ok(());
        }
        let (rank, language) = (self.rank(), self.join_arguments.process.language);
        let text = format!(
            "rank {rank} called {} before {load}. A rank that comes back at a later version would make that call \
             again, and the others would take it for one of that version. Call {load} first; or, if the call is a \
             collective that belongs before it, make it a boot collective, whose result is kept for the life of the \
             job: {}",
            what(),
            language.boot(),
            load = language.load(),
        );
        Err(self.fails(Error::new(Code::BadState, text)))
    }

    /// The boot cache belongs to what stands before the loop. Within it a rank that comes back
    /// would count its uses anew, from the version that it starts at.
    fn is_before_first_checkpoint(&mut self, call: &Call) -> Result<(), Error> {
        let (version, start) = (self.version(), self.start.version);
        if version == start {
            return Ok(());
        }
        let text = format!(
            "rank {} called {call} as a boot collective in version {version}, after a checkpoint: a rank that comes \
             back there would be given another call's result. Make it before the loop, or without the boot option",
            self.rank()
        );
        Err(self.fails(Error::new(Code::BadState, text)))
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
        match options.boot {
            Boot::No => self.has_loaded(|| call.to_string())?,
            _ => {
                self.usable()?;
                self.is_before_first_checkpoint(call)?;
            }
        }
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
