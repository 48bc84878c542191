//! From one version to the next: what a rank starts from, its checkpoints, its end.

use super::first_lazy::FirstLazy;
use super::{Communicator, JoinArguments};
use crate::former::Former;
use crate::options::Options;
use bytes::Bytes;
use rejoin_agent::digest;
use rejoin_agent::Model;
use rejoin_agent::{digested_checkpoint, lazy_checkpoint, Taken};
use rejoin_protocol::collective::Site;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::fault::Moment;
use rejoin_protocol::ids::{Checkpoint, Rank, Version};
use rejoin_protocol::words::list;
use std::panic::Location;
use std::sync::Arc;

impl Communicator {
    /// What this incarnation starts from: the version, and the model of that version's checkpoint;
    /// `None` at version 0. Every program calls it, before its first checkpoint and the first
    /// collective that isn't a boot one.
    ///
    /// # Errors
    /// `BadState` after a checkpoint of this incarnation, and after a failed call.
    pub fn load(&mut self) -> Result<(Version, Option<Bytes>), Error> {
        self.usable()?;
        let (version, start) = (self.version(), self.start.version);
        if version != start {
            let text = format!(
                "rank {} asked for what it starts from, which is version {start}, after a checkpoint: it is in version \
                 {version}. Call {} once, before the first checkpoint",
                self.rank(),
                self.join_arguments.process.language.load()
            );
            return Err(self.fails(Error::new(Code::BadState, text)));
        }
        self.calls.moment(|moment| *moment == Moment::Loading)?;
        self.loaded = true;
        self.calls.begins(start.0, 0);
        Ok((self.start.version, self.model.clone()))
    }

    /// Takes a checkpoint: ends the version, and begins the next one with this model, which has to
    /// be the same at all ranks. It is kept in this process, for ranks that come back. Sends nothing,
    /// unless no collective of the version has shown that all ranks have entered it: then a barrier
    /// is made first.
    ///
    /// # Errors
    /// As [`Communicator::allreduce`]; `Mismatch` when this incarnation has made fewer collectives
    /// of the version than were made before, or another rank of this process has another model.
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
        let (taken, model) = self.copied(model)?;
        self.take(Taken::new(taken, self.world(), model))
    }

    /// The same without its bytes: `supplier` makes them when they are needed: by a rank
    /// that comes back, or the durable store. It is an immutable snapshot of the model: whenever it
    /// is asked, as long as it isn't dropped (two versions, or longer while ranks are missing), it
    /// gives the same bytes, the same at all ranks. It is asked on a thread of its own. When it
    /// fails, another rank is asked.
    ///
    /// The supplier of an incarnation's first lazy checkpoint is asked twice besides, by the
    /// calling thread: here, and in the next checkpoint. So one that isn't a snapshot is found in
    /// every run, and not by the rank that would be given its bytes.
    ///
    /// # Errors
    /// As [`Communicator::checkpoint`]. The checkpoint after it: `Mismatch` when the supplier gives
    /// other bytes by then.
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
        let (next, supplier) = (self.next_version(), Arc::new(supplier));
        if matches!(self.first_lazy, FirstLazy::NotTaken) {
            // One that fails is no other one; a rank that needs its bytes asks another one.
            self.first_lazy = match supplier() {
                Ok(bytes) => FirstLazy::Gave(next, digest(&bytes), supplier.clone()),
                Err(_) => FirstLazy::Looked,
            };
        }
        let taken = lazy_checkpoint(self.start.lineage, next, next.0);
        self.take(Taken::new(taken, self.world(), Model::Lazy(supplier)))
    }

    /// The same with a model that only this rank has, beside the one that all have. It is held by
    /// two other processes (as many as
    /// [`Settings::own_copies`](crate::Settings::own_copies) says), on other hosts
    /// where there are any, before this returns: so it survives this process. All ranks have to
    /// call this, or none.
    ///
    /// # Errors
    /// As [`Communicator::checkpoint`]; `Mismatch` when the own model has other bytes than an older
    /// incarnation gave it at this version.
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
        let ((taken, model), (mine, bytes)) = (self.copied(model)?, self.copied(own)?);
        let mine = Checkpoint { owner: Some(self.rank()), ..mine };
        let own = Some((mine, bytes, self.limits.call));
        self.take(Taken { own, ..Taken::new(Checkpoint { has_own: true, ..taken }, self.world(), model) })
    }

    /// The own model of the version that this incarnation starts from; `None` where none was taken, and for a rank that
    /// wasn't in the world that took it. In an elastic job it is the one of the rank that this one was then.
    ///
    /// # Errors
    /// `BadState` after a failed call.
    pub fn load_own(&self) -> Result<Option<Bytes>, Error> {
        self.usable()?;
        Ok(self.own.clone())
    }

    /// The world that made the version which this incarnation starts from; `None` where it is the one that this rank is
    /// in, as it always is in a job that isn't elastic.
    pub fn former(&self) -> Option<Former> {
        self.start.former.as_ref().map(|former| Former {
            rank: former.rank,
            world: former.world,
            given: former.given.iter().map(|given| given.rank).collect(),
        })
    }

    /// The own model that a rank of the [former world](Communicator::former) had at the version that this incarnation
    /// starts from: of one that this rank is given, or was itself (then it is [`Communicator::load_own`]'s). `None`: it
    /// had none, or it is lost and may be (`rejoin run --own-may-be-lost`).
    ///
    /// # Errors
    /// `BadArgument` for a rank whose model this one isn't given, which says whose it is; the handle stays as it is.
    /// `BadState` after a failed call.
    pub fn load_own_of(&self, rank: Rank) -> Result<Option<Bytes>, Error> {
        self.usable()?;
        let former = self.former();
        let (was, given) = match &former {
            Some(former) => (former.rank, &former.given[..]),
            None => (Some(self.rank()), &[][..]),
        };
        if was == Some(rank) {
            return Ok(self.own.clone());
        }
        if given.contains(&rank) {
            return Ok(self.given.get(&rank).cloned());
        }
        let mine: Vec<Rank> = was.into_iter().chain(given.iter().copied()).collect();
        let has = match (mine.is_empty(), &former) {
            (true, _) => "no rank's: it wasn't there when the version was made".into(),
            (false, None) => format!("its own one, that of rank {}", list(&mine)),
            (false, Some(former)) => {
                format!("that of rank {} of the {} ranks that made the version", list(&mine), former.world)
            }
        };
        Err(Error::new(
            Code::BadArgument,
            format!("rank {} asked for the own model of rank {rank}, but has {has}", self.rank()),
        ))
    }

    /// A version ends only when it is certain that all ranks have entered it.
    fn meet(&mut self, site: Site) -> Result<(), Error> {
        self.has_loaded(|| format!("checkpoint at {site}"))?;
        self.first_lazy_repeats()?;
        if self.calls.needs_barrier() {
            self.barrier_with(&Options { site: Some(site), ..Options::default() })?;
        }
        Ok(())
    }

    /// The supplier of the first lazy checkpoint gives now what it gave then.
    fn first_lazy_repeats(&mut self) -> Result<(), Error> {
        if matches!(self.first_lazy, FirstLazy::NotTaken) {
            return Ok(());
        }
        let FirstLazy::Gave(version, before, supplier) = std::mem::replace(&mut self.first_lazy, FirstLazy::Looked)
        else {
            return Ok(());
        };
        match supplier().map(|bytes| digest(&bytes)) {
            Ok(now) if now != before => {
                let text = format!(
                    "rank {}: the supplier of lazy checkpoint {version} gave bytes with digest {before:032x} in its \
                     call, and {now:032x} in the next checkpoint. It was expected to be a snapshot: a rank that came \
                     back meanwhile would have been given a model that never was. Hand over a copy of the model, \
                     which doesn't change until it is released",
                    self.rank()
                );
                Err(self.fails(Error::new(Code::Mismatch, text)))
            }
            _ => Ok(()),
        }
    }

    fn next_version(&self) -> Version {
        Version(self.version().0 + 1)
    }

    /// A copy of a model that begins the next version, and what it is.
    fn copied(&mut self, model: &[u8]) -> Result<(Checkpoint, Bytes), Error> {
        let next = self.next_version();
        let (copy, digest) = self.agent.copy(model).map_err(|error| self.fails(error))?;
        Ok((digested_checkpoint(self.start.lineage, next, next.0, (copy.len() as u64, digest), false), copy))
    }

    fn take(&mut self, taken: Taken) -> Result<Version, Error> {
        let (member, version) = (self.member(), taken.checkpoint.version);
        let (agent, calls) = (&self.agent, &mut self.calls);
        let entered = agent.take(member, taken, |entered| calls.enter(version, entered));
        entered.map_err(|error| self.fails(error))?;
        self.calls.begins(version.0, 0);
        Ok(version)
    }

    /// The end: reports this model, which has to be the same at all ranks, and waits until all
    /// have. Rank 0's bytes become the job's result, if the driver asks for it;
    /// `rejoin run` doesn't.
    ///
    /// # Errors
    /// `Mismatch` when the models differ, `TimedOut` after the limit, `Fenced`, or the job's own error.
    pub fn finish(mut self, model: &[u8]) -> Result<(), Error> {
        self.end(model)
    }

    /// The same, for a rank that may have to [join again](Communicator::join_again): others that wait at
    /// the end are sent back too.
    ///
    /// # Errors
    /// As [`Communicator::finish`].
    pub fn end(&mut self, model: &[u8]) -> Result<(), Error> {
        self.usable()?;
        self.calls.log.step(self.member(), self.version(), "finish");
        let ended = self.calls.end();
        ended.map_err(|error| self.fails(error))?;
        let is_wanted = self.rank() == Rank(0) && self.agent.wants_result();
        let result = is_wanted.then(|| Bytes::copy_from_slice(model));
        let rounds = self.version().0;
        self.calls.rank_profile.end();
        self.calls.report_profile();
        let ended = self.agent.finish(self.member(), rounds, digest(model), result, self.limits.finish);
        self.finished = ended.is_ok();
        ended.map(drop).map_err(|error| self.fails(error))
    }

    /// Takes part again after all were sent back to an older version ([`Code::RolledBack`]), or the world has changed
    /// ([`Code::Resized`]: rank and world may be others then): in the same process, which keeps what it holds for the
    /// others, as the rank's next incarnation. It loads what it starts from, as after any join. `Ok(None)`: the job has
    /// reached its end meanwhile.
    ///
    /// # Errors
    /// `BadState` after another end than that: the rank has to be started again. Otherwise as
    /// [`Process::join`], and the rank has no slot then.
    ///
    /// [`Process::join`]: crate::Process::join
    pub fn join_again(self) -> Result<Option<Communicator>, Error> {
        self.was_sent_back()?;
        let (rank, limits) = (self.rank(), self.limits);
        let is_resized = self.calls.failure().is_some_and(|error| error.code == Code::Resized);
        let JoinArguments { process, attempt, terms, asks } = self.join_arguments.clone();
        // Its local rank in this process is given up before the next one is asked for.
        drop(self);
        let again = match asks {
            Some(_) if is_resized => None,
            _ => Some(process.join_as((rank, attempt), &terms, limits, asks)),
        };
        match (again, asks) {
            (Some(Err(error)), Some((task, attempt))) if error.code == Code::Resized => {
                process.join_as_task(task, attempt, &terms, limits)
            }
            (None, Some((task, attempt))) => process.join_as_task(task, attempt, &terms, limits),
            (again, _) => again.unwrap_or(Ok(None)),
        }
    }

    /// Whether [`Communicator::join_again`] is what comes next.
    ///
    /// # Errors
    /// `BadState`, with what happened instead.
    pub fn was_sent_back(&self) -> Result<(), Error> {
        let seen = match self.calls.failure() {
            Some(error) if error.code.goes_back() => return Ok(()),
            Some(error) => format!("a call failed with {error}"),
            None => "no call has failed".into(),
        };
        let text = format!(
            "rank {} asked to join again, which is for a rank that was sent back (ROLLED_BACK, RESIZED), but {seen}; \
             after any other failure end this process, and the rank is started again",
            self.rank()
        );
        Err(Error::new(Code::BadState, text))
    }

    /// This rank's task has failed for this reason, and gives its slot back. Where the code
    /// says that trying again would fail the same way, the job ends with it; otherwise the rank may
    /// be started again. So may one that was cancelled: a job is cancelled by its driver.
    pub fn abandon(mut self, error: Error) {
        let error = self.calls.take_failure().unwrap_or(error);
        if error.code.will_repeat() && error.code != Code::Cancelled {
            self.agent.broken(self.member(), error.clone());
        }
        self.calls.failed_with(error);
    }
}
