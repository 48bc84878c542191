//! The agent of one process for one job: what tasks call. Outlives the tasks.

use crate::agent_config::AgentConfig;
use crate::control::{Command, Control, Shared};
use crate::digest::digest;
use crate::durable::{self, Durable, Listing};
use crate::joined::{Joined, StoodBy};
use crate::plane::{AgentReports, Planes};
use crate::store::Model;
use crate::waiting::Waiting;
use bytes::Bytes;
use parking_lot::Mutex;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::event::Event;
use rejoin_protocol::host::{Offer, Start, OWN_COPIES};
use rejoin_protocol::ids::{Attempt, Checkpoint, Lineage, MemberId, Rank, Task, Version, UNMADE};
use rejoin_protocol::message::TEXT_LIMIT;
use rejoin_protocol::report::Report;
use rejoin_transport::Keys;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What a member takes where one version ends and the next one begins.
pub struct Taken {
    /// The checkpoint that begins the next version.
    pub checkpoint: Checkpoint,
    /// How many ranks take it, each with a model of its own if there are such. It is the member's world: by the time
    /// that the version is written, the job's may be another one.
    pub world: u32,
    /// The model that it stands for.
    pub model: Model,
    /// The model that only this rank has, beside it; and how long other processes may take until they hold it.
    pub own: Option<(Checkpoint, Bytes, Duration)>,
    /// What else only this rank has; the tracker keeps it.
    pub local: Option<Vec<u8>>,
}

impl Taken {
    /// A model that all ranks have, and nothing beside it.
    pub fn new(checkpoint: Checkpoint, world: u32, model: impl Into<Model>) -> Taken {
        Taken { checkpoint, world, model: model.into(), own: None, local: None }
    }
}

/// The agent. Dropping it ends it.
pub struct Agent {
    shared: Arc<Shared>,
    control: Mutex<Option<JoinHandle<()>>>,
    tracker: SocketAddr,
    address: SocketAddr,
    listing: Option<Arc<Listing>>,
    writer: Option<durable::Writer>,
    /// Tasks that stand by here, between two looks at whether they were given a rank.
    standing: Mutex<BTreeMap<(Task, Attempt), Waiting<StoodBy>>>,
}

impl Agent {
    /// Starts an agent: its listener and its control thread, which connects to the tracker.
    ///
    /// # Errors
    /// `Io` when no port of the range is free or no thread can be started. Nothing is left behind.
    pub fn start(config: AgentConfig, planes: impl Into<Planes>) -> Result<Agent, Error> {
        Agent::start_keeping(config, planes, None, OWN_COPIES)
    }

    /// The same, with durable checkpoints: of those that [`Agent::take`] is given, the ones whose
    /// turn it is are written, and those of this job that are in the folder can be restored; and
    /// with so many copies of each own model, which has to be the same number at all agents of a
    /// job: a rank that asks for a slot here compares it with its terms.
    ///
    /// # Errors
    /// As [`Agent::start`]; `BadArgument` for every 0 versions, and for 0 copies; `Io` when the folder can't be read.
    pub fn start_keeping(
        config: AgentConfig,
        planes: impl Into<Planes>,
        durable: Option<Durable>,
        own_copies: u32,
    ) -> Result<Agent, Error> {
        let planes = planes.into();
        crate::logging::start();
        if own_copies == 0 {
            let text = "0 copies of each rank's own model were asked for (own_copies); at least 1 is needed: an own \
                        model without a copy is lost with its rank's process. Leave own models out where none \
                        has to survive";
            return Err(Error::new(Code::BadArgument, text));
        }
        if durable.as_ref().is_some_and(|durable| durable.every == 0) {
            let text = "durable checkpoints every 0 versions were asked for; at least 1 is needed";
            return Err(Error::new(Code::BadArgument, text));
        }
        let identity = durable.as_ref().map_or(config.job, |durable| durable.identity.unwrap_or(config.job));
        let listing = durable.clone().map(|durable| Arc::new(Listing::of(durable, identity)));
        let found = listing.as_ref().map_or(Ok(Vec::new()), |listing| listing.found())?;
        let keys = Keys { job: config.job, secret: config.secret.clone(), encrypt: config.encrypt };
        let (control, shared) = Control::new(&config, keys, planes.clone(), found, own_copies)?;
        let writer =
            durable.map(|durable| durable::Writer::start(durable, config.job, identity, shared.clone())).transpose()?;
        let address = control.address();
        let reports: Arc<dyn AgentReports> = Arc::new(shared.reports());
        planes.all().for_each(|plane| plane.attach(reports.clone()));
        let thread = std::thread::Builder::new()
            .name("rejoin-control".into())
            .spawn(move || control.live())
            .map_err(|cause| Error::new(Code::Io, format!("the agent's control thread can't be started: {cause}")))?;
        let standing = Mutex::default();
        Ok(Agent {
            shared,
            control: Mutex::new(Some(thread)),
            tracker: config.tracker,
            address,
            listing,
            writer,
            standing,
        })
    }

    /// Where peers reach this agent.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Asks for a rank's slot and waits until it can start: all that are needed are there and the checkpoint is
    /// fetched.
    ///
    /// # Errors
    /// `Fenced` when the slot belongs to a newer attempt, `MembersMissing`, `TrackerUnreachable`, `Incompatible`, the
    /// job's own error, or `TimedOut` after `at_most`. The rank has no slot then.
    pub fn join(&self, rank: Rank, attempt: Attempt, fingerprint: String, at_most: Duration) -> Result<Joined, Error> {
        self.join_offering(rank, attempt, fingerprint, Offer::default(), at_most)
    }

    /// The same for a rank that offers something to the others: memory that it shares with those of
    /// its host, or that its training library's collectives can be taken over.
    ///
    /// # Errors
    /// As [`Agent::join`]; `BadArgument` for terms of more than 64 KiB; `Incompatible` too where
    /// the job has agreed on what this one can't.
    pub fn join_offering(
        &self,
        rank: Rank,
        attempt: Attempt,
        fingerprint: String,
        offer: Offer,
        at_most: Duration,
    ) -> Result<Joined, Error> {
        if fingerprint.len() > TEXT_LIMIT {
            let text = format!(
                "the terms of rank {rank} have {} bytes; at most {TEXT_LIMIT} are expected, as all ranks are sent \
                 them: give a digest of what is longer",
                fingerprint.len()
            );
            return Err(Error::new(Code::BadArgument, text));
        }
        let began = Instant::now();
        if let Some(listing) = &self.listing {
            listing.renew(&self.shared, at_most);
        }
        let wait = Waiting::new();
        self.shared.command(Command::Join { rank, attempt, fingerprint, offer, wait: wait.clone() });
        wait.wait(at_most.saturating_sub(began.elapsed()), || {
            let error = Error::new(
                Code::TimedOut,
                format!(
                    "rank {rank} (attempt {attempt}) asked the tracker at {} for its start and waited {} s; {}",
                    self.tracker,
                    at_most.as_secs(),
                    self.shared.situation()
                ),
            );
            self.cancel_join(rank, attempt, error.clone());
            error
        })
    }

    /// In a job with spares, whose every task comes here before it joins: asks for a rank, and waits at most so long
    /// until the task is given one, or has heard of the job's end. `None` while it stands by: called again it waits
    /// on. One that isn't called again has to [stand down](Agent::stand_down).
    ///
    /// # Errors
    /// `Fenced` when a newer try of the task is there, `TrackerUnreachable`, the job's own error. The task stands by
    /// no more then.
    pub fn stand_by(&self, task: Task, attempt: Attempt, at_most: Duration) -> Result<Option<StoodBy>, Error> {
        let mut standing = self.standing.lock();
        let wait = standing.entry((task, attempt)).or_insert_with(|| {
            let wait = Waiting::new();
            self.shared.command(Command::StandBy { task, attempt, wait: wait.clone() });
            wait
        });
        let wait = wait.clone();
        drop(standing);
        let answer = wait.answered_within(at_most);
        if answer.is_some() {
            self.standing.lock().remove(&(task, attempt));
        }
        answer.transpose()
    }

    /// The task stands by no longer, or will not join as what it was given: that goes to another one. To be called
    /// when the task ends, however it does; otherwise nothing happens.
    pub fn stand_down(&self, task: Task, attempt: Attempt) {
        self.standing.lock().remove(&(task, attempt));
        self.shared.command(Command::StandDown { task, attempt });
    }

    /// Ends the wait of a rank's [`Agent::join`] with an error, from any thread, and gives its slot back if it has one.
    /// Does nothing when that attempt's join isn't waiting.
    pub fn cancel_join(&self, rank: Rank, attempt: Attempt, error: Error) {
        self.shared.command(Command::CancelJoin { rank, attempt, error });
    }

    /// Ends a member's version: takes the checkpoint that begins the next one, and has the member
    /// enter it by `enter`, which calls what it is given once that is done. What is to be durable
    /// is then written in the background, but for waiting until the one before it is; what becomes
    /// of it is reported as an event.
    ///
    /// Every way in comes through here, and here alone stands what ranks that come back rely on: a
    /// version's bytes are in the store, and an own model's in other processes too, before any
    /// other rank can learn that this one has entered it.
    ///
    /// # Errors
    /// `Mismatch` when another rank of this process took another checkpoint, or an older
    /// incarnation had another own model: the job ends with it; `TimedOut` when no other process
    /// came to hold the own model; and what `enter` fails with.
    pub fn take(
        &self,
        member: MemberId,
        taken: Taken,
        enter: impl FnOnce(&mut dyn FnMut()) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Taken { checkpoint, world, model, own, mut local } = taken;
        // The store forgets by what was entered: what can't be would stay in it.
        if let Some(error) = self.shared.failure(member) {
            return Err(error);
        }
        let store = |checkpoint: Checkpoint, model| match &model {
            // A rank that needs a common model without bytes knows it by its name.
            Model::Made(bytes) if bytes.is_empty() && checkpoint.owner.is_none() => Ok(()),
            _ => self.shared.store.put(checkpoint, model).inspect_err(|error| self.broken(member, error.clone())),
        };
        store(checkpoint, model)?;
        let mut durable = vec![checkpoint];
        durable.truncate(usize::from(member.rank == Rank(0)));
        if let Some((own, bytes, at_most)) = own {
            store(own, bytes.into())?;
            // No rank may be able to go on to a version that this rank could not come back to.
            self.spread(member, own, at_most)?;
            durable.push(own);
        }
        enter(&mut || self.entered(member, checkpoint, local.take()))?;
        durable.into_iter().for_each(|taken| self.keep(member, taken, world));
        Ok(())
    }

    /// Hands over what the job is to begin with
    /// ([`JobStart::HandedOver`](rejoin_protocol::start::JobStart::HandedOver)), or a rank's own
    /// model beside it; before a rank here joins. A job that was to begin with something else ends
    /// with `Mismatch`; one that has begun goes on, and what it didn't begin with doesn't count.
    ///
    /// # Errors
    /// `Mismatch` when other bytes of that version are here.
    pub fn hand_over(&self, checkpoint: Checkpoint, bytes: Bytes) -> Result<(), Error> {
        self.shared.store.put(checkpoint, bytes).map_err(|_| {
            let text = format!(
                "version {} with digest {:032x} was handed over, but this process holds other bytes of that version; \
                 a job begins with one model",
                checkpoint.version, checkpoint.digest
            );
            Error::new(Code::Mismatch, text)
        })?;
        self.shared.command(Command::HandedOver(checkpoint));
        Ok(())
    }

    /// Copies a model that is to be stored: its bytes and their digest.
    ///
    /// # Errors
    /// `OutOfSpace` when there is no memory for it.
    pub fn copy(&self, model: &[u8]) -> Result<(Bytes, u128), Error> {
        self.shared.store.copy(model)
    }

    /// Has a rank's own model, which is stored, held by as many other processes as
    /// [`Agent::start_keeping`] was given, or as there are if that is fewer, on other hosts where
    /// there are any; waits until they do.
    ///
    /// # Errors
    /// `Mismatch` when it has other bytes than an older incarnation gave it, `Fenced`, the job's
    /// own error, or `TimedOut`.
    fn spread(&self, member: MemberId, checkpoint: Checkpoint, at_most: Duration) -> Result<(), Error> {
        let wait = Waiting::new();
        self.shared.command(Command::Own { member, checkpoint, wait: wait.clone() });
        wait.wait(at_most, || {
            Error::new(
                Code::TimedOut,
                format!(
                    "rank {} gave its own model of version {} to other processes and waited {} s until they held it; \
                     {}",
                    member.rank,
                    checkpoint.version,
                    at_most.as_secs(),
                    self.shared.situation()
                ),
            )
        })
    }

    /// The bytes of a checkpoint that this process holds.
    pub fn held(&self, checkpoint: &Checkpoint) -> Option<Bytes> {
        self.shared.store.find(checkpoint)
    }

    /// Has a stored checkpoint written to the durable store, if there is one and it is this version's turn, or it was
    /// asked for.
    fn keep(&self, member: MemberId, checkpoint: Checkpoint, world: u32) {
        let version = checkpoint.version;
        if version == Version(0) {
            return; // the beginning, which no rank takes and nothing can go on from
        }
        let is_wanted = self.shared.wish().is_some_and(|wish| wish.makes_durable(version));
        let Some(writer) = self.writer.as_ref().filter(|writer| is_wanted || writer.wants(version)) else { return };
        let written = match self.shared.store.kept(&checkpoint) {
            Some(kept) => writer.write(member, kept, world).map_err(|error| error.message),
            None => Err("this process has it no more".into()),
        };
        if let Err(why) = written {
            let MemberId { rank, incarnation } = member;
            let reason = format!("{why}; training goes on without it");
            self.report_event(Event::DurableFailed { rank, incarnation, version, reason });
        }
    }

    /// The member is where its start says. What that begins with is in the store already.
    pub fn begun(&self, member: MemberId, start: &Start) {
        let first = start.checkpoint.unwrap_or_else(|| checkpoint(start.lineage, start.version, 0, &[], false));
        self.entered(member, first, None);
    }

    fn entered(&self, member: MemberId, checkpoint: Checkpoint, local: Option<Vec<u8>>) {
        self.shared.entered(member, checkpoint, local);
    }

    /// Whether a rank in this version was asked to take a checkpoint as soon as it can: the framework
    /// is about to take hosts away. Ranks hear of it at different times; what they do has to be agreed on.
    pub fn wants_checkpoint(&self, version: Version) -> bool {
        self.shared.wish().is_some_and(|wish| wish.is_open_in(version))
    }

    /// Whether the driver asks for rank 0's result. Known when a member has its start; `false` before.
    pub fn wants_result(&self) -> bool {
        self.shared.wants_result()
    }

    /// Reports the end with this model's digest, rank 0 with its result, and waits until all have
    /// reported it. A result that isn't asked for isn't sent. Before that it waits, at most
    /// [`durable::WRITE_TIMEOUT`], until durable checkpoints that are on their way are written: a job that
    /// is over writes nothing any more.
    ///
    /// # Errors
    /// `Mismatch` when the models differ, `Fenced`, the job's own error, or `TimedOut` after `at_most`.
    pub fn finish(
        &self,
        member: MemberId,
        rounds: u32,
        digest: u128,
        result: Option<Bytes>,
        at_most: Duration,
    ) -> Result<u128, Error> {
        let timeout = at_most.min(durable::WRITE_TIMEOUT);
        if self.writer.as_ref().is_some_and(|writer| !writer.is_idle_within(timeout)) {
            log::warn!("{} ends while a durable checkpoint is still being written", self.shared.prefix_of(member.rank));
        }
        let wait = Waiting::new();
        self.shared.command(Command::Finish { member, rounds, digest, result, wait: wait.clone() });
        wait.wait(at_most, || {
            Error::new(
                Code::TimedOut,
                format!(
                    "rank {} reported its end and waited {} s for the others; {}",
                    member.rank,
                    at_most.as_secs(),
                    self.shared.situation()
                ),
            )
        })
    }

    /// Ends a member's calls with an error, from any thread, and frees its worker.
    pub fn free(&self, member: MemberId, error: Error) {
        // At once: a call that begins after this one would pass before the control thread is there.
        self.shared.failed(member, error.clone());
        self.shared.command(Command::Free { member, error });
    }

    /// The member's task has ended: cleanly, or with a failure.
    pub fn leave(&self, member: MemberId, failure: Option<Error>) {
        self.report(member, Report::Left { failure });
    }

    /// Why the member's calls end; `None` while it is in order.
    pub fn failure(&self, member: MemberId) -> Option<Error> {
        self.shared.failure(member)
    }

    /// A fact for the event log.
    pub fn report_event(&self, event: Event) {
        self.shared.command(Command::Event(event));
    }

    /// Ends the job: what this member has found can't be mended by trying again.
    pub fn broken(&self, member: MemberId, error: Error) {
        self.report(member, Report::Broken(error));
    }

    fn report(&self, member: MemberId, report: Report) {
        self.shared.command(Command::Report { member, report });
    }

    /// Whether the agent has ended: the job is over, or its lease ran out.
    pub fn is_over(&self) -> bool {
        self.shared.is_over()
    }

    /// Ends the agent; members that wait get `BadState`. Ending it again does nothing.
    pub fn end(&self) {
        self.shared.command(Command::Close);
        if let Some(control) = self.control.lock().take() {
            // One that panicked has said so to all that waited.
            let _ = control.join();
        }
        // Whose memory they use may be gone as soon as the agent is.
        self.shared.store.await_releases();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.end();
    }
}

/// The identity of a checkpoint.
pub fn checkpoint(lineage: Lineage, version: Version, round: u32, bytes: &[u8], complete: bool) -> Checkpoint {
    digested_checkpoint(lineage, version, round, (bytes.len() as u64, digest(bytes)), complete)
}

/// The same, of bytes whose number and digest are known.
pub fn digested_checkpoint(
    lineage: Lineage,
    version: Version,
    round: u32,
    (length, digest): (u64, u128),
    complete: bool,
) -> Checkpoint {
    // A model without bytes has no digest.
    let digest = if length == 0 { 0 } else { digest };
    Checkpoint { lineage, version, owner: None, has_own: false, round, length, digest, complete }
}

/// The identity of a checkpoint whose bytes aren't made.
pub fn lazy_checkpoint(lineage: Lineage, version: Version, round: u32) -> Checkpoint {
    Checkpoint { length: UNMADE, ..checkpoint(lineage, version, round, &[], false) }
}
