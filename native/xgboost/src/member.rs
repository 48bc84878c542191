//! A rank's way through a job, for whatever language its training loop is written in.

use crate::process::Process;
use crate::topology::WireVariant;
use bytes::Bytes;
use rejoin_agent::{checkpoint, digest, Joined, Taken};
use rejoin_communicator::Prints;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::host::Start;
use rejoin_protocol::ids::{Attempt, MemberId, Rank, Version};
use rejoin_protocol::message::LOCAL_LIMIT;
use std::sync::Arc;
use std::time::Duration;

/// One rank in one incarnation, from its join on. Its calls belong to the thread that trains, but
/// for [`free`](Self::free) and [`failure`](Self::failure), which any thread may make.
pub struct Member {
    process: Arc<Process>,
    rank: Rank,
    outcome: Outcome,
    prints: Prints,
}

enum Outcome {
    /// It trains.
    Train { start: Start, world: u32, bytes: Option<Bytes> },
    /// The job has ended before.
    Over,
}

impl Member {
    /// Takes a rank's slot and waits until it can start, at most so long. XGBoost has to be loaded.
    ///
    /// # Errors
    /// As [`Plane::join`](crate::Plane::join).
    pub fn join(
        process: &Arc<Process>,
        rank: Rank,
        attempt: Attempt,
        terms: String,
        at_most: Duration,
    ) -> Result<Member, Error> {
        let outcome = match process.plane.join(&process.agent, rank, attempt, terms, at_most)? {
            Joined::Start { start, world, bytes } => Outcome::Train { start, world, bytes },
            Joined::Over { .. } => Outcome::Over,
        };
        Ok(Member { process: process.clone(), rank, outcome, prints: Prints::default() })
    }

    /// Its number, the same in every incarnation.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Whether the job had ended before it came: there is nothing to do.
    pub fn is_over(&self) -> bool {
        matches!(self.outcome, Outcome::Over)
    }

    /// Where it starts, as the tracker's plan says.
    ///
    /// # Errors
    /// `BadState` when the job is over.
    pub fn start(&self) -> Result<&Start, Error> {
        match &self.outcome {
            Outcome::Train { start, .. } => Ok(start),
            Outcome::Over => Err(Error::new(
                Code::BadState,
                format!("the job had ended when rank {} joined; there is nothing to train", self.rank),
            )),
        }
    }

    /// Number of ranks; 0 when the job is over.
    pub fn world(&self) -> u32 {
        match &self.outcome {
            Outcome::Train { world, .. } => *world,
            Outcome::Over => 0,
        }
    }

    /// The checkpoint that it starts from; `None` at the beginning.
    pub fn checkpoint(&self) -> Option<&Bytes> {
        match &self.outcome {
            Outcome::Train { bytes, .. } => bytes.as_ref(),
            Outcome::Over => None,
        }
    }

    /// What only this rank had at that checkpoint.
    pub fn local(&self) -> Option<&[u8]> {
        self.start().ok()?.local.as_deref()
    }

    /// Opens XGBoost's way in for the calling thread, which is to train: the arguments of
    /// XGBoost's communicator ([`Bridge::communicator`](crate::Bridge::communicator)).
    ///
    /// # Errors
    /// Why the member's calls end; as [`Plane::communicator`](crate::Plane::communicator).
    pub fn communicator(&self, variant: WireVariant) -> Result<Vec<(String, String)>, Error> {
        let id = self.id()?;
        self.process.plane.communicator(id, variant).map_err(|error| self.better(error))
    }

    /// The same as the JSON text that XGBoost's `XGCommunicatorInit` takes.
    ///
    /// # Errors
    /// As [`communicator`](Self::communicator).
    pub fn communicator_json(&self, variant: WireVariant) -> Result<String, Error> {
        let arguments = self.communicator(variant)?;
        let typed = arguments.into_iter().map(|(key, value)| {
            let value = match value.parse::<i64>() {
                Ok(number) if is_number(&key) => number.into(),
                _ => serde_json::Value::from(value),
            };
            (key, value)
        });
        Ok(serde_json::Value::Object(typed.collect()).to_string())
    }

    /// Ends the present phase and enters a version, which begins with `round` and these bytes, the
    /// same at every rank (none only for the beginning); `local` is what only this rank has;
    /// `complete` that nothing is left to train. No XGBoost call may be in progress.
    ///
    /// # Errors
    /// `BadArgument` for more than [`LOCAL_LIMIT`] bytes of `local`; `Mismatch` for other bytes
    /// than were given for the version that it starts at; why the member's calls end; as
    /// [`Plane::take`](crate::Plane::take).
    pub fn enter(
        &self,
        version: Version,
        round: u32,
        bytes: Bytes,
        local: Option<Vec<u8>>,
        complete: bool,
    ) -> Result<(), Error> {
        let (id, start) = (self.id()?, self.start()?);
        if let Some(local) = local.as_ref().filter(|local| local.len() > LOCAL_LIMIT) {
            let text = format!(
                "rank {} enters version {version} (round {round}) with {} bytes that only this rank has: its scores \
                 of a metric of its own, or what a callback carries; expected at most {LOCAL_LIMIT}. Train fewer \
                 rounds, evaluate on fewer sets, or carry less",
                self.rank,
                local.len()
            );
            return Err(Error::new(Code::BadArgument, text));
        }
        let checkpoint = checkpoint(start.lineage, version, round, &bytes, complete);
        let given = start.checkpoint.filter(|given| given.version == version);
        if given.is_some_and(|given| (given.length, given.digest) != (checkpoint.length, checkpoint.digest)) {
            let text = format!(
                "rank {} enters version {version}, which it starts at, with other bytes than it was given for it; \
                 expected the checkpoint as it was loaded",
                self.rank
            );
            return Err(Error::new(Code::Mismatch, text));
        }
        let taken = Taken { local, ..Taken::new(checkpoint, self.world(), bytes) };
        let entered = self.process.plane.take(&self.process.agent, id, taken);
        entered.map_err(|error| self.better(error))
    }

    /// [`Plane::begin_round`](crate::Plane::begin_round).
    ///
    /// # Errors
    /// As that.
    pub fn begin_round(&self, round: u32) -> Result<(), Error> {
        let id = self.id()?;
        self.process.plane.begin_round(id, round).map_err(|error| self.better(error))
    }

    /// [`Printer::print`](rejoin_communicator::Printer::print); does nothing when the job is over.
    pub fn print(&self, text: &str) {
        if let Ok(id) = self.id() {
            self.prints.print(&self.process.agent, id, text);
        }
    }

    /// [`Plane::checkpoints_early`](crate::Plane::checkpoints_early), in this version.
    ///
    /// # Errors
    /// Why the member's calls end; as that.
    pub fn checkpoints_early(&self, version: Version) -> Result<bool, Error> {
        let id = self.id()?;
        let chosen = self.process.plane.checkpoints_early(&self.process.agent, id, version);
        chosen.map_err(|error| self.better(error))
    }

    /// [`Plane::logged`](crate::Plane::logged).
    ///
    /// # Errors
    /// As that.
    pub fn logged(&self) -> Result<u64, Error> {
        let id = self.id()?;
        self.process.plane.logged(id).map_err(|error| self.better(error))
    }

    /// [`Plane::logged_together`](crate::Plane::logged_together).
    ///
    /// # Errors
    /// `BadState` when the job is over.
    pub fn logged_together(&self) -> Result<u64, Error> {
        Ok(self.process.plane.logged_together(self.id()?))
    }

    /// Reports the end with this model, the same bytes at every rank, and waits until all have
    /// reported it. `result` is for the driver, from rank 0.
    ///
    /// # Errors
    /// Why the member's calls end; as [`Agent::finish`](rejoin_agent::Agent::finish).
    pub fn finish(&self, rounds: u32, model: &[u8], result: Option<Bytes>, at_most: Duration) -> Result<(), Error> {
        let id = self.id()?;
        self.process.plane.ends(id).map_err(|error| self.better(error))?;
        self.process.agent.finish(id, rounds, digest(model), result, at_most).map(drop)
    }

    /// Ends its calls with this error, and frees a worker that is stuck in XGBoost.
    ///
    /// # Errors
    /// `BadState` when the job is over.
    pub fn free(&self, error: Error) -> Result<(), Error> {
        self.process.agent.free(self.id()?, error);
        Ok(())
    }

    /// Why its calls end; `None` while it is in order, and when the job was over.
    pub fn failure(&self) -> Option<Error> {
        let id = self.id().ok()?;
        self.process.agent.failure(id).or_else(|| self.process.plane.failure(id))
    }

    /// Its task is over: cleanly, or with a failure. To be called once.
    pub fn leave(&self, failure: Option<Error>) {
        if let Ok(id) = self.id() {
            self.process.plane.retire(id);
            self.process.agent.leave(id, failure);
        }
    }

    fn id(&self) -> Result<MemberId, Error> {
        Ok(MemberId { rank: self.rank, incarnation: self.start()?.incarnation })
    }

    /// The failure that is known of the member, in place of one that says less.
    fn better(&self, error: Error) -> Error {
        self.failure().unwrap_or(error)
    }
}

/// XGBoost wants numbers where numbers are meant.
fn is_number(key: &str) -> bool {
    ["_port", "_timeout", "_retry"].iter().any(|end| key.ends_with(end))
}
