//! One rank's handle: its calls.

use super::exchange::{sleep, Exchange, Went};
use super::lines::{Lines, Trouble};
use super::mismatch::explain;
use super::notes::Notes;
use super::options::{Boot, Limits, Options, Typed};
use super::plane::CollectivePlane;
use super::seat::Seat;
use super::shape::{Shape, Shapes};
use crate::agent::{checkpoint, Agent, MemberId};
use crate::store::digest;
use bytes::{Bytes, BytesMut};
use mio::Poll;
use rejoin_collectives::{Buffers, Element, Reducer, Reduction};
use rejoin_protocol::collective::{frame::Expected, BootKey, Call, Next, Operation, Place, Site};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::fault::{Action, FaultRule, Moment};
use rejoin_protocol::host::Start;
use rejoin_protocol::ids::{Generation, Phase, Rank, Version};
use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a call gives to a collective.
pub(super) enum Input<'a> {
    /// Bytes that are there.
    Ready(&'a [u8]),
    /// Bytes that are there once the function has filled them. It isn't called when the result is a recorded one.
    OnDemand(&'a mut [u8], &'a mut dyn FnMut(&mut [u8])),
}

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
    limits: Limits,
    start: Start,
    model: Option<Bytes>,
    shapes: Shapes,
    scratch: Vec<u8>,
    /// How often each boot key was used in this incarnation.
    boot_used: BTreeMap<String, u32>,
    failed: Option<Error>,
    finished: bool,
    notes: Notes,
}

/// A collective under way.
struct Under {
    attempt: Generation,
    place: Place,
    exchange: Exchange,
    result: BytesMut,
}

impl Communicator {
    pub(super) fn start(
        agent: Arc<Agent>,
        plane: Arc<CollectivePlane>,
        seat: Arc<Seat>,
        start: Start,
        model: Option<Bytes>,
        limits: Limits,
        notes: Notes,
    ) -> Result<Communicator, Error> {
        let member = seat.member;
        let Some(poll) = seat.take_poll() else {
            return Err(Error::new(Code::BadState, format!("rank {} has a communicator already", member.rank)));
        };
        let first = start.checkpoint.unwrap_or_else(|| checkpoint(start.lineage, start.version, 0, &[], false));
        agent.entered(member, first, None);
        Ok(Communicator {
            lines: Lines::new(member, seat.world),
            shapes: Shapes::new(member.rank.0 as usize, seat.world as usize),
            agent,
            plane,
            seat,
            poll,
            limits,
            start,
            model,
            scratch: Vec::new(),
            boot_used: BTreeMap::new(),
            failed: None,
            finished: false,
            notes,
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

    /// What this incarnation starts from: the version, and the model of that version's checkpoint; `None` at version 0.
    pub fn load(&mut self) -> Result<(Version, Option<Bytes>), Error> {
        self.usable()?;
        self.moment(|moment| *moment == Moment::Loading)?;
        Ok((self.start.version, self.model.clone()))
    }

    /// Every element becomes the reduction of all ranks' elements at its place.
    ///
    /// # Errors
    /// `BadArgument` for a reduction that the element doesn't have, `Mismatch` when ranks make different calls, `TimedOut`
    /// after the limit of a call, `Fenced` when this incarnation was declared lost, or the job's own error.
    #[track_caller]
    pub fn allreduce<T: Typed>(&mut self, buffer: &mut [T], reduction: Reduction) -> Result<(), Error> {
        let options = Options { site: Some(Location::caller().into()), ..Options::default() };
        self.allreduce_bytes(bytemuck::cast_slice_mut(buffer), T::ELEMENT, reduction, &options)
    }

    /// The same with options, over bytes.
    ///
    /// # Errors
    /// As [`Communicator::allreduce`]; `BadArgument` when the bytes aren't whole elements.
    #[track_caller]
    pub fn allreduce_bytes(
        &mut self,
        buffer: &mut [u8],
        element: Element,
        reduction: Reduction,
        options: &Options,
    ) -> Result<(), Error> {
        let site = site(options);
        let result =
            self.reduce(Operation::Allreduce, Input::Ready(buffer), buffer.len(), element, reduction, site, options)?;
        buffer.copy_from_slice(&result);
        Ok(())
    }

    /// An allreduce of a buffer that `prepare` fills first. It isn't called when the result is a recorded one.
    ///
    /// # Errors
    /// As [`Communicator::allreduce`].
    #[track_caller]
    pub fn allreduce_prepared<T: Typed>(
        &mut self,
        buffer: &mut [T],
        reduction: Reduction,
        mut prepare: impl FnMut(&mut [T]),
    ) -> Result<(), Error> {
        let options = Options { site: Some(Location::caller().into()), ..Options::default() };
        let bytes = bytemuck::cast_slice_mut(buffer);
        let length = bytes.len();
        let mut fill = |bytes: &mut [u8]| prepare(bytemuck::cast_slice_mut(bytes));
        let input = Input::OnDemand(bytes, &mut fill);
        let site = site(&options);
        let result = self.reduce(Operation::Allreduce, input, length, T::ELEMENT, reduction, site, &options)?;
        bytemuck::cast_slice_mut(buffer).copy_from_slice(&result);
        Ok(())
    }

    /// Rank k gets the k-th part of the reduction of all ranks' inputs (as [`rejoin_collectives::Order::segment`] divides).
    /// The whole result stays in the replay log, so that it can be served to any rank.
    ///
    /// # Errors
    /// As [`Communicator::allreduce`]; `BadArgument` when `output` isn't as long as this rank's part.
    #[track_caller]
    pub fn reduce_scatter<T: Typed>(
        &mut self,
        input: &[T],
        output: &mut [T],
        reduction: Reduction,
    ) -> Result<(), Error> {
        let options = Options { site: Some(Location::caller().into()), ..Options::default() };
        let part = options.order.segment(self.rank().0 as usize, input.len(), self.world() as usize);
        if output.len() != part.len() {
            return Err(Error::new(
                Code::BadArgument,
                format!(
                    "rank {}'s part of {} elements among {} ranks has {} elements, but the output has {}",
                    self.rank(),
                    input.len(),
                    self.world(),
                    part.len(),
                    output.len()
                ),
            ));
        }
        let bytes: &[u8] = bytemuck::cast_slice(input);
        let site = site(&options);
        let (element, operation) = (T::ELEMENT, Operation::ReduceScatter);
        let result = self.reduce(operation, Input::Ready(bytes), bytes.len(), element, reduction, site, &options)?;
        let size = element.size();
        bytemuck::cast_slice_mut(output).copy_from_slice(&result[part.start * size..part.end * size]);
        Ok(())
    }

    /// All ranks get the root's elements.
    ///
    /// # Errors
    /// As [`Communicator::allreduce`]; `BadArgument` when there is no such rank.
    #[track_caller]
    pub fn broadcast<T: Typed>(&mut self, buffer: &mut [T], root: Rank) -> Result<(), Error> {
        let options = Options { site: Some(Location::caller().into()), ..Options::default() };
        self.broadcast_bytes(bytemuck::cast_slice_mut(buffer), T::ELEMENT, root, &options)
    }

    /// The same with options, over bytes.
    ///
    /// # Errors
    /// As [`Communicator::broadcast`]; `BadArgument` when the bytes aren't whole elements.
    #[track_caller]
    pub fn broadcast_bytes(
        &mut self,
        buffer: &mut [u8],
        element: Element,
        root: Rank,
        options: &Options,
    ) -> Result<(), Error> {
        if root.0 >= self.world() {
            return Err(Error::new(
                Code::BadArgument,
                format!("a broadcast of rank {root} was asked for in a world of {} ranks", self.world()),
            ));
        }
        let call = Call {
            operation: Operation::Broadcast,
            element: element.name(),
            count: count(buffer.len(), element)?,
            reduction: "",
            root: Some(root),
            site: site(options),
        };
        let shape = Shape::Broadcast { bytes: buffer.len(), root: root.0 as usize };
        let input = if self.rank() == root { &*buffer } else { &[] };
        let result = self.run(&call, options, shape, &plain(), Input::Ready(input))?;
        if self.rank() != root {
            buffer.copy_from_slice(&result);
        }
        Ok(())
    }

    /// All ranks get what each has, in rank order; each has as many elements, and `output` has room for all.
    ///
    /// # Errors
    /// As [`Communicator::allreduce`]; `BadArgument` when `output` has another length.
    #[track_caller]
    pub fn allgather<T: Typed>(&mut self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        let options = Options { site: Some(Location::caller().into()), ..Options::default() };
        self.allgather_bytes(bytemuck::cast_slice(input), bytemuck::cast_slice_mut(output), T::ELEMENT, &options)
    }

    /// The same with options, over bytes.
    ///
    /// # Errors
    /// As [`Communicator::allgather`]; `BadArgument` when the bytes aren't whole elements.
    #[track_caller]
    pub fn allgather_bytes(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        element: Element,
        options: &Options,
    ) -> Result<(), Error> {
        let expected = input.len() * self.world() as usize;
        if output.len() != expected {
            return Err(Error::new(
                Code::BadArgument,
                format!(
                    "an allgather of {} bytes from each of {} ranks gives {expected} bytes, but the output has {}",
                    input.len(),
                    self.world(),
                    output.len()
                ),
            ));
        }
        let call = Call {
            operation: Operation::Allgather,
            element: element.name(),
            count: count(input.len(), element)?,
            reduction: "",
            root: None,
            site: site(options),
        };
        let shape = Shape::Allgather { part_bytes: input.len() };
        let result = self.run(&call, options, shape, &plain(), Input::Ready(input))?;
        output.copy_from_slice(&result);
        Ok(())
    }

    /// All ranks get what each has, in rank order; lengths may differ. It is two collectives: the lengths are gathered first.
    ///
    /// # Errors
    /// As [`Communicator::allreduce`].
    #[track_caller]
    pub fn allgather_v<T: Typed>(&mut self, input: &[T]) -> Result<Vec<Vec<T>>, Error> {
        let options = Options { site: Some(Location::caller().into()), ..Options::default() };
        let (bytes, lengths) = self.allgather_v_bytes(bytemuck::cast_slice(input), T::ELEMENT, &options)?;
        let mut rest = &bytes[..];
        let parts = lengths.into_iter().map(|length| {
            let (part, after) = rest.split_at(length);
            rest = after;
            let mut elements = vec![T::zeroed(); length / T::ELEMENT.size()];
            bytemuck::cast_slice_mut(&mut elements).copy_from_slice(part);
            elements
        });
        Ok(parts.collect())
    }

    /// The same with options, over bytes: all bytes in rank order, and how many are whose.
    ///
    /// # Errors
    /// As [`Communicator::allgather_v`]; `BadArgument` when the bytes aren't whole elements.
    #[track_caller]
    pub fn allgather_v_bytes(
        &mut self,
        input: &[u8],
        element: Element,
        options: &Options,
    ) -> Result<(Bytes, Vec<usize>), Error> {
        count(input.len(), element)?;
        let options = Options { site: Some(site(options)), ..options.clone() };
        let mut lengths = vec![0u64; self.world() as usize];
        let own = [input.len() as u64];
        self.allgather_bytes(
            bytemuck::cast_slice(&own),
            bytemuck::cast_slice_mut(&mut lengths),
            Element::U64,
            &options,
        )?;
        let lengths: Vec<usize> = lengths.into_iter().map(|length| length as usize).collect();
        let call = Call {
            operation: Operation::AllgatherUnequal,
            element: element.name(),
            count: count(lengths.iter().sum(), element)?,
            reduction: "",
            root: None,
            site: site(&options),
        };
        let shape = Shape::Parts { part_bytes: lengths.clone() };
        let options = match options.boot {
            // Two results, so two names.
            Boot::Named(name) => Options { boot: Boot::Named(format!("{name}, the elements")), ..options },
            _ => options,
        };
        Ok((self.run(&call, &options, shape, &plain(), Input::Ready(input))?, lengths))
    }

    /// Nobody goes on before everybody is there.
    ///
    /// # Errors
    /// As [`Communicator::allreduce`].
    #[track_caller]
    pub fn barrier(&mut self) -> Result<(), Error> {
        let options = Options { site: Some(Location::caller().into()), ..Options::default() };
        self.barrier_with(&options)
    }

    /// The same with options.
    ///
    /// # Errors
    /// As [`Communicator::allreduce`].
    #[track_caller]
    pub fn barrier_with(&mut self, options: &Options) -> Result<(), Error> {
        let call = Call {
            operation: Operation::Barrier,
            element: "",
            count: 0,
            reduction: "",
            root: None,
            site: site(options),
        };
        self.run(&call, options, Shape::Barrier, &plain(), Input::Ready(&[])).map(drop)
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
        self.usable()?;
        if self.seat.lock().participant.needs_barrier() {
            self.barrier()?;
        }
        let taken = self.take_checkpoint(Bytes::copy_from_slice(model));
        taken.map_err(|error| self.fails(error))
    }

    fn take_checkpoint(&mut self, model: Bytes) -> Result<Version, Error> {
        let member = self.seat.member;
        let mut state = self.seat.lock();
        if let Some(error) = &state.error {
            return Err(error.clone());
        }
        let next = Version(state.participant.version().0 + 1);
        let taken = checkpoint(self.start.lineage, next, next.0, &model, false);
        self.agent.store(member, taken, model)?;
        // Under one lock with the command, so that a standing has both or neither.
        state.participant.enter(next)?;
        self.agent.entered(member, taken, None);
        Ok(next)
    }

    /// The end: reports this model, which has to be the same at all ranks, and waits until all have. Rank 0's bytes become the
    /// job's result.
    ///
    /// # Errors
    /// `Mismatch` when the models differ, `TimedOut` after the limit, `Fenced`, or the job's own error.
    pub fn finish(mut self, model: &[u8]) -> Result<(), Error> {
        self.usable()?;
        let ended = self.end_calls();
        ended.map_err(|error| self.fails(error))?;
        let result = (self.rank() == Rank(0)).then(|| Bytes::copy_from_slice(model));
        let rounds = self.version().0;
        self.notes.end();
        self.tell_notes();
        let ended = self.agent.finish(self.seat.member, rounds, digest(model), result, self.limits.finish);
        self.finished = ended.is_ok();
        ended.map(drop).map_err(|error| self.fails(error))
    }

    /// Nobody is served any more by this rank's calls: those who wait for one are told at once, by a frame of a place that no
    /// call has, and those who begin one under a later plan by the plan.
    fn end_calls(&mut self) -> Result<(), Error> {
        let mut state = self.seat.lock();
        if let Some(error) = &state.error {
            return Err(error.clone());
        }
        state.participant.end()?;
        let lineage = self.start.lineage;
        let phase = Phase::Version(Version(state.participant.version().0 + 1));
        self.lines.refresh(&mut state, &self.plane, &self.poll)?;
        if let Some(attempt) = state.participant.attempt() {
            let place = Place { lineage, phase, seqno: 0 };
            self.lines.begin(Expected { attempt, place, digest: 0 });
            self.lines.say_goodbye();
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)] // one call's parts, put together at three places
    fn reduce(
        &mut self,
        operation: Operation,
        input: Input<'_>,
        length: usize,
        element: Element,
        reduction: Reduction,
        site: Site,
        options: &Options,
    ) -> Result<Bytes, Error> {
        let reducer =
            Reducer::new(reduction, element).map_err(|unfit| Error::new(Code::BadArgument, unfit.to_string()))?;
        let count = count(length, element)?;
        let name = reduction_name(reduction, options.order);
        let call = Call { operation, element: element.name(), count, reduction: name, root: None, site };
        let shape = Shape::Allreduce {
            count: count as usize,
            element_bytes: element.size(),
            order: options.order,
            once: reducer.is_custom(),
        };
        self.run(&call, options, shape, &reducer, input)
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
        self.notes.exchanging();
        let result = self.try_run(call, key, shape, reducer, input);
        self.notes.computing();
        self.tell_notes();
        result.map_err(|error| self.fails(error))
    }

    fn try_run(
        &mut self,
        call: &Call,
        key: Option<BootKey>,
        shape: Shape,
        reducer: &Reducer<'_>,
        mut input: Input<'_>,
    ) -> Result<Bytes, Error> {
        let began = Instant::now();
        let deadline = began + self.limits.call;
        let signature = call.signature(key.as_ref());
        let place = self.seat.lock().participant.begin(call, key)?;
        let Place { phase, seqno, .. } = place;
        self.moment(|moment| *moment == Moment::Entering { phase, seqno })?;
        let schedule = self.shapes.schedule(&shape);
        if self.scratch.len() < schedule.scratch_bytes() {
            self.scratch.resize(schedule.scratch_bytes(), 0);
        }
        let mut under: Option<Under> = None;
        loop {
            let seen = self.seat.changes();
            let (next, place) = self.look()?;
            match next {
                Next::Replayed(result) => {
                    let Place { phase, seqno, .. } = place;
                    self.moment(|moment| *moment == Moment::Replaying || *moment == Moment::Replayed { phase, seqno })?;
                    self.notes.replaying();
                    if let Some(under) = under.take() {
                        self.seat.lock().give_back(under.result);
                    }
                    return Ok(result);
                }
                Next::Wait(reason) => {
                    let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                        return Err(self.late(call, place, began, &reason));
                    };
                    let seat = &self.seat;
                    self.notes.waiting(|| None);
                    sleep(seat, &mut self.poll, left, || seat.changes() != seen);
                    self.notes.exchanging();
                }
                Next::Run(attempt) => {
                    if under.as_ref().is_none_or(|under| (under.attempt, under.place) != (attempt, place)) {
                        let Place { phase, seqno, .. } = place;
                        if under.is_some() {
                            self.moment(|moment| *moment == Moment::Again { phase, seqno })?;
                        }
                        self.lines.begin(Expected { attempt, place, digest: signature.digest });
                        let spare = under.take().map(|under| under.result);
                        let result = spare.unwrap_or_else(|| self.seat.lock().buffer(schedule.result_bytes()));
                        let mut exchange = Exchange::new(&schedule);
                        exchange.stop_at = self.awaited_byte(place);
                        under = Some(Under { attempt, place, exchange, result });
                        if let Input::OnDemand(bytes, prepare) = &mut input {
                            prepare(bytes);
                            let bytes: &mut [u8] = std::mem::take(bytes);
                            input = Input::Ready(bytes);
                        }
                    }
                    let (Some(now), Input::Ready(bytes)) = (&mut under, &input) else { continue };
                    let mut buffers = Buffers { input: bytes, result: &mut now.result, scratch: &mut self.scratch };
                    let went = now.exchange.advance(
                        &schedule,
                        &mut buffers,
                        reducer,
                        &mut self.lines,
                        &self.seat,
                        &mut self.poll,
                        &mut self.notes,
                        seen,
                        deadline,
                    );
                    match went {
                        Went::Done => {
                            let Some(now) = under.take() else { continue };
                            if let Some(result) = self.done(now)? {
                                return Ok(result);
                            }
                        }
                        Went::Changed => {
                            if self.lines.has_to_tell(Instant::now()) {
                                self.lines.tell(&self.plane);
                            }
                        }
                        Went::Late => {
                            let awaited = now.exchange.awaited(&schedule);
                            let whom: Vec<String> = awaited
                                .iter()
                                .map(|(peer, bytes)| {
                                    format!("rank {peer} ({bytes} bytes to come; {})", self.lines.describe(*peer))
                                })
                                .collect();
                            let reason = format!("bytes of {} in attempt {attempt}", whom.join(", "));
                            return Err(self.late(call, place, began, &reason));
                        }
                        Went::Trouble(Trouble::Mismatch(peer, theirs)) => {
                            return Err(explain(
                                &self.plane,
                                &self.seat,
                                &mut self.poll,
                                place,
                                &signature,
                                peer,
                                theirs,
                            ));
                        }
                        Went::Fold(error) => {
                            return Err(Error::new(Code::TrainingFailed, format!("{call} as {place}: {error}")));
                        }
                        Went::Sent => {
                            let sent = now.exchange.sent;
                            let Place { phase, seqno, .. } = place;
                            self.moment(|moment| {
                                matches!(moment, Moment::Sent { phase: p, seqno: s, bytes }
                                    if *p == phase && *s == seqno && *bytes <= sent)
                            })?;
                        }
                    }
                }
            }
        }
    }

    fn tell_notes(&mut self) {
        let (agent, seat) = (&self.agent, &self.seat);
        self.notes.tell(agent, seat.member, || {
            let state = seat.lock();
            (Phase::Version(state.participant.version()), state.participant.seqno())
        });
    }

    /// What the call has to do now.
    fn look(&mut self) -> Result<(Next<Bytes>, Place), Error> {
        let mut state = self.seat.lock();
        if let Some(error) = &state.error {
            return Err(error.clone());
        }
        self.lines.refresh(&mut state, &self.plane, &self.poll)?;
        let before = state.participant.place();
        let next = state.participant.proceed()?;
        let place = state.participant.place().or(before);
        let _ = state.drain(); // a finished call wants nothing fetched
        match place {
            Some(place) => Ok((next, place)),
            None => Err(Error::new(Code::Internal, "a call under way has no place")),
        }
    }

    /// The whole result is here; `None` when the attempt was over before it was.
    fn done(&mut self, under: Under) -> Result<Option<Bytes>, Error> {
        let result = under.result.freeze();
        {
            let mut state = self.seat.lock();
            if let Some(error) = &state.error {
                return Err(error.clone());
            }
            if !state.participant.finish(under.attempt, result.clone()) {
                return Ok(None);
            }
            let _ = state.drain();
        }
        let Place { phase, seqno, .. } = under.place;
        self.moment(|moment| *moment == Moment::Completed { phase, seqno })?;
        Ok(Some(result))
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
        if !told && matches!(error.code, Code::Mismatch | Code::Internal | Code::TrainingFailed) {
            self.agent.broken(self.seat.member, error.clone());
        }
        self.failed = Some(error.clone());
        error
    }

    fn late(&self, call: &Call, place: Place, began: Instant, reason: &str) -> Error {
        Error::new(
            Code::TimedOut,
            format!(
                "rank {} called {call} as {place} and waited {} s, which is the limit, for {reason}; {}",
                self.rank(),
                began.elapsed().as_secs(),
                self.agent.situation()
            ),
        )
    }

    /// At which byte a fault rule waits.
    fn awaited_byte(&self, place: Place) -> Option<u64> {
        self.plane.awaited_byte(self.seat.member, place.phase, place.seqno)
    }

    /// Does what fault rules want at this moment.
    fn moment(&mut self, is_now: impl Fn(&Moment) -> bool) -> Result<(), Error> {
        while let Some(rule) = self.plane.due(self.seat.member, &is_now) {
            self.strike(&rule)?;
        }
        Ok(())
    }

    fn strike(&mut self, rule: &FaultRule) -> Result<(), Error> {
        if let Some(agent) = self.plane.agent() {
            agent.strike(rule.clone());
        }
        match rule.action {
            // The control thread does it once the tracker was told; nothing more may happen here before.
            Action::Kill => std::thread::sleep(Duration::from_secs(30)),
            Action::Stop => std::thread::sleep(Duration::from_millis(50)),
            Action::Delay { millis } => std::thread::sleep(Duration::from_millis(u64::from(millis))),
            Action::CutLink { peer } => {
                self.lines.reset(peer);
                self.lines.tell(&self.plane);
            }
            Action::Throw => {
                return Err(Error::new(Code::Io, format!("fault rule {} struck rank {}", rule.id, rule.rank)));
            }
            Action::Tell => {}
        }
        Ok(())
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
    options.site.clone().unwrap_or_else(|| Location::caller().into())
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

/// The reduction with its order: both have to be the same at all ranks.
fn reduction_name(reduction: Reduction, order: rejoin_collectives::Order) -> &'static str {
    use rejoin_collectives::Order::{Rank, Ring};
    match (reduction, order) {
        (Reduction::Sum, Ring) => "sum in ring order",
        (Reduction::Product, Ring) => "product in ring order",
        (Reduction::Min, Ring) => "min in ring order",
        (Reduction::Max, Ring) => "max in ring order",
        (Reduction::And, Ring) => "and in ring order",
        (Reduction::Or, Ring) => "or in ring order",
        (Reduction::Xor, Ring) => "xor in ring order",
        (reduction, Rank) => reduction.name(),
    }
}

impl std::fmt::Debug for Communicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let MemberId { rank, incarnation } = self.seat.member;
        write!(f, "Communicator(rank {rank} of {}, incarnation {incarnation})", self.seat.world)
    }
}
