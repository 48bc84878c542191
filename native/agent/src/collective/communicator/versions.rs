//! From one version to the next: what a rank starts from, its checkpoints, its end.

use super::Communicator;
use crate::agent::{digested_checkpoint, lazy_checkpoint};
use crate::collective::options::Options;
use crate::store::digest;
use bytes::Bytes;
use rejoin_protocol::collective::Site;
use rejoin_protocol::error::Error;
use rejoin_protocol::fault::Moment;
use rejoin_protocol::ids::{Checkpoint, Rank, Version};
use std::panic::Location;
use std::sync::Arc;

impl Communicator {
    /// What this incarnation starts from: the version, and the model of that version's checkpoint; `None` at version 0.
    pub fn load(&mut self) -> Result<(Version, Option<Bytes>), Error> {
        self.usable()?;
        self.calls.moment(|moment| *moment == Moment::Loading)?;
        Ok((self.start.version, self.model.clone()))
    }

    /// Takes a checkpoint: ends the version, and begins the next one with this model, which has to be the same at all ranks.
    /// It is kept in this process, for whoever comes back. Sends nothing, unless no collective of the version has shown that
    /// all ranks have entered it: then a barrier is made first.
    ///
    /// # Errors
    /// As [`Communicator::allreduce`]; `Mismatch` when this incarnation has made fewer collectives of the version than were
    /// made before, or another rank of this process has another model.
    #[track_caller]
    pub fn checkpoint(&mut self, model: &[u8]) -> Result<Version, Error> {
        self.checkpoint_at(model, Location::caller().into())
    }

    /// The same with the call's own site, for callers from other languages.
    ///
    /// # Errors
    /// As [`Communicator::checkpoint`].
    pub fn checkpoint_at(&mut self, model: &[u8], site: Site) -> Result<Version, Error> {
        self.meet(site)?;
        let length = model.len();
        self.calls.log.step(self.member(), self.version(), format_args!("checkpoint({length} bytes)"));
        let taken = self.take_checkpoint(model);
        taken.map_err(|error| self.fails(error))
    }

    /// The same without its bytes: `supplier` makes them when somebody needs them, which is a rank that comes back, or the
    /// durable store. It is an immutable snapshot of the model: whenever it is asked, as long as it isn't dropped (two
    /// versions, or longer while ranks are missing), it gives the same bytes, the same at all ranks. It is asked on a thread
    /// of its own. When it fails, another rank is asked.
    ///
    /// # Errors
    /// As [`Communicator::checkpoint`].
    #[track_caller]
    pub fn checkpoint_lazy(
        &mut self,
        supplier: impl Fn() -> Result<Vec<u8>, Error> + Send + Sync + 'static,
    ) -> Result<Version, Error> {
        self.checkpoint_lazy_at(supplier, Location::caller().into())
    }

    /// The same with the call's own site, for callers from other languages.
    ///
    /// # Errors
    /// As [`Communicator::checkpoint`].
    pub fn checkpoint_lazy_at(
        &mut self,
        supplier: impl Fn() -> Result<Vec<u8>, Error> + Send + Sync + 'static,
        site: Site,
    ) -> Result<Version, Error> {
        self.meet(site)?;
        self.calls.log.step(self.member(), self.version(), "checkpoint(lazy)");
        let next = self.next_version();
        let taken = lazy_checkpoint(self.start.lineage, next, next.0);
        let stored = self.agent.store_lazy(self.member(), taken, Arc::new(supplier));
        stored.and_then(|()| self.enter(taken)).map_err(|error| self.fails(error))
    }

    /// The same with a model that only this rank has, beside the one that all have. It is held by two other processes (as many as
    /// [`Settings::own_copies`](crate::collective::Settings::own_copies) says), on other hosts where there are any, before this
    /// returns: so it survives this process. All ranks have to call this, or none.
    ///
    /// # Errors
    /// As [`Communicator::checkpoint`]; `Mismatch` when the own model has other bytes than an older incarnation gave it at
    /// this version.
    #[track_caller]
    pub fn checkpoint_with_own(&mut self, model: &[u8], own: &[u8]) -> Result<Version, Error> {
        self.checkpoint_with_own_at(model, own, Location::caller().into())
    }

    /// The same with the call's own site, for callers from other languages.
    ///
    /// # Errors
    /// As [`Communicator::checkpoint_with_own`].
    pub fn checkpoint_with_own_at(&mut self, model: &[u8], own: &[u8], site: Site) -> Result<Version, Error> {
        self.meet(site)?;
        let what = format_args!("checkpoint({} bytes, {} own)", model.len(), own.len()).to_string();
        self.calls.log.step(self.member(), self.version(), what);
        let taken = self.take_with_own(model, own);
        taken.map_err(|error| self.fails(error))
    }

    fn take_with_own(&mut self, model: &[u8], own: &[u8]) -> Result<Version, Error> {
        let member = self.member();
        let ((taken, model), (mine, own)) = (self.copied(model)?, self.copied(own)?);
        let taken = Checkpoint { has_own: true, ..taken };
        let mine = Checkpoint { owner: Some(member.rank), ..mine };
        self.agent.store(member, taken, model)?;
        self.agent.store(member, mine, own)?;
        // Nobody may be able to go on to a version that this rank could not come back to.
        self.agent.spread(member, mine, self.limits.call)?;
        let version = self.enter(taken)?;
        self.agent.keep(member, mine, self.world());
        Ok(version)
    }

    /// The own model of the version that this incarnation starts from; `None` where none was taken.
    ///
    /// # Errors
    /// `BadState` after a failed call.
    pub fn load_own(&self) -> Result<Option<Bytes>, Error> {
        self.usable()?;
        Ok(self.own.clone())
    }

    /// A version ends only when it is certain that all ranks have entered it.
    fn meet(&mut self, site: Site) -> Result<(), Error> {
        self.usable()?;
        if self.calls.needs_barrier() {
            self.barrier_with(&Options { site: Some(site), ..Options::default() })?;
        }
        Ok(())
    }

    fn next_version(&self) -> Version {
        Version(self.version().0 + 1)
    }

    /// A copy of a model that begins the next version, and what it is.
    fn copied(&self, model: &[u8]) -> Result<(Checkpoint, Bytes), Error> {
        let next = self.next_version();
        let (copy, digest) = self.agent.copy(model)?;
        Ok((digested_checkpoint(self.start.lineage, next, next.0, (copy.len() as u64, digest), false), copy))
    }

    fn take_checkpoint(&mut self, model: &[u8]) -> Result<Version, Error> {
        let (taken, model) = self.copied(model)?;
        self.agent.store(self.member(), taken, model)?;
        self.enter(taken)
    }

    /// The version that a stored checkpoint begins.
    fn enter(&mut self, taken: Checkpoint) -> Result<Version, Error> {
        let member = self.member();
        let agent = &self.agent;
        self.calls.enter(taken.version, || agent.entered(member, taken, None))?;
        if member.rank == Rank(0) {
            self.agent.keep(member, taken, self.world());
        }
        Ok(taken.version)
    }

    /// The end: reports this model, which has to be the same at all ranks, and waits until all have. Rank 0's bytes become the
    /// job's result.
    ///
    /// # Errors
    /// `Mismatch` when the models differ, `TimedOut` after the limit, `Fenced`, or the job's own error.
    pub fn finish(mut self, model: &[u8]) -> Result<(), Error> {
        self.usable()?;
        self.calls.log.step(self.member(), self.version(), "finish");
        let ended = self.calls.end();
        ended.map_err(|error| self.fails(error))?;
        let result = (self.rank() == Rank(0)).then(|| Bytes::copy_from_slice(model));
        let rounds = self.version().0;
        if !self.agent.is_kept_within(self.limits.finish) {
            log::warn!("rank {} ends while a durable checkpoint is still being written", self.rank());
        }
        self.calls.notes.end();
        self.calls.tell_notes();
        let ended = self.agent.finish(self.member(), rounds, digest(model), result, self.limits.finish);
        self.finished = ended.is_ok();
        ended.map(drop).map_err(|error| self.fails(error))
    }

    /// This rank's task has failed for this reason, and gives its seat back. Where the code says that trying again would fail
    /// the same way, the job ends with it; otherwise the rank may be started again.
    pub fn abandon(mut self, error: Error) {
        let error = self.calls.take_failure().unwrap_or(error);
        if error.code.will_repeat() {
            self.agent.broken(self.member(), error.clone());
        }
        self.calls.failed_with(error);
    }
}
