//! One collective, from its call to its result.

use super::{Calls, Input};
use crate::call_context::{CallContext, ExchangeOutcome};
use crate::exchange::Exchange;
use crate::memory::Unopened;
use crate::mismatch::explain;
use crate::parts::Parts;
use crate::peer_links::Trouble;
use crate::shape::Shape;
use crate::shared_exchange::SharedExchange;
use crate::transport::Transport;
use bytes::{Bytes, BytesMut};
use rejoin_agent::logs::Logged;
use rejoin_agent::reservation;
use rejoin_collectives::{Buffers, Reducer};
use rejoin_protocol::collective::{frame::Expected, BootKey, Call, CollectiveId, Next, Signature};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::fault::Moment;
use rejoin_protocol::ids::{Generation, Phase, Version};
use rejoin_protocol::report::Report;
use rejoin_transport::WaitLimit;
use std::sync::Arc;
use std::time::{Duration, Instant};
use twox_hash::XxHash3_64;

/// Between two tries to open what another rank shares.
const OPEN_AGAIN: Duration = Duration::from_millis(20);

/// One collective, from its call to its result.
struct RunningCall<'c, 'i> {
    call: &'c Call,
    shape: Shape,
    reducer: &'c Reducer<'c>,
    input: Input<'i>,
    signature: Signature,
    limit: WaitLimit,
    /// Under the last generation that it was begun under.
    run: Option<GenerationRun>,
}

/// A collective under one generation.
struct GenerationRun {
    generation: Generation,
    collective_id: CollectiveId,
    transport: Transport,
    /// Where this rank writes: all of the result, or its part of it until that is written.
    result: BytesMut,
    parts: Option<Arc<Parts>>,
}

impl RunningCall<'_, '_> {
    fn is_under(&self, generation: Generation, collective_id: CollectiveId) -> bool {
        self.run.as_ref().is_some_and(|run| (run.generation, run.collective_id) == (generation, collective_id))
    }

    /// The buffer of a result that this rank wrote alone under a generation that is over.
    fn take_buffer(&mut self) -> Option<BytesMut> {
        self.run.take().filter(|run| run.parts.is_none()).map(|run| run.result)
    }
}

impl Calls {
    /// One collective, from its call to its result. A boot collective's has a key.
    ///
    /// # Errors
    /// `BadState` after a failure; otherwise it is one.
    pub(crate) fn run(
        &mut self,
        call: &Call,
        key: Option<BootKey>,
        shape: Shape,
        reducer: &Reducer<'_>,
        input: Input<'_>,
    ) -> Result<Bytes, Error> {
        self.usable()?;
        self.rank_profile.exchanging();
        let signature = call.signature(key.as_ref());
        let limit = WaitLimit::new(self.at_most, Instant::now());
        let running = RunningCall { call, shape, reducer, input, signature, limit, run: None };
        // Of a panic in the caller's function nothing can be taken back: a next call would go on in the middle.
        self.is_in_call = true;
        let result = self.try_run(running, key);
        self.is_in_call = false;
        self.rank_profile.computing();
        self.report_profile();
        match result {
            Ok(result) => {
                self.has_result(result.len());
                Ok(result)
            }
            Err(error) => Err(self.fails(error)),
        }
    }

    fn try_run(&mut self, mut running: RunningCall<'_, '_>, key: Option<BootKey>) -> Result<Bytes, Error> {
        self.begin(&running, key)?;
        loop {
            let seen = self.local_rank.changes();
            self.plane.make_room(&self.local_rank)?;
            let (next, collective_id) = self.look()?;
            let result = match next {
                Next::Replayed(result) => Some(self.replayed(&mut running, collective_id, &result)?),
                Next::Wait(reason) => {
                    self.rank_profile.waiting(|| None);
                    self.wait(&mut running, collective_id, seen, Duration::MAX, || reason.to_string())?;
                    self.rank_profile.exchanging();
                    None
                }
                Next::Run(generation) if self.is_begun(&mut running, generation, collective_id, seen)? => {
                    self.go_on(&mut running, seen)?
                }
                Next::Run(_) => None,
            };
            if let Some(result) = result {
                return Ok(result);
            }
        }
    }

    /// Takes the call's id among the rank's calls.
    fn begin(&mut self, running: &RunningCall<'_, '_>, key: Option<BootKey>) -> Result<(), Error> {
        let RunningCall { call, shape, input, .. } = running;
        self.log.call(self.local_rank.member, || self.position(), key.as_ref(), call);
        reservation::check(|| format!("the result of {call}"), shape.result_bytes(self.local_rank.world as usize))?;
        let CollectiveId { phase, seqno, .. } = self.local_rank.lock().participant.begin(call, key)?;
        if let (true, Input::Ready(bytes)) = (self.repeats, input) {
            self.give(bytes);
        }
        self.moment(|moment| *moment == Moment::Entering { phase, seqno })
    }

    /// The result is a recorded one.
    fn replayed(
        &mut self,
        running: &mut RunningCall<'_, '_>,
        collective_id: CollectiveId,
        result: &Logged,
    ) -> Result<Bytes, Error> {
        let CollectiveId { phase, seqno, .. } = collective_id;
        self.moment(|moment| *moment == Moment::Replaying || *moment == Moment::Replayed { phase, seqno })?;
        self.has_run = false;
        self.rank_profile.replaying();
        if let Some(buffer) = running.take_buffer() {
            self.plane.pool.give_back(buffer);
        }
        result.whole()
    }

    /// Sleeps until something has changed, at most so long.
    ///
    /// # Errors
    /// `TimedOut` when the call's limit is over.
    fn wait(
        &mut self,
        running: &mut RunningCall<'_, '_>,
        collective_id: CollectiveId,
        seen: u64,
        at_most: Duration,
        reason: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        let Some(left) = running.limit.left(Instant::now()) else {
            return Err(self.late(running, collective_id, &reason()));
        };
        let local_rank = &self.local_rank;
        local_rank.sleep(&mut self.poll, left.min(at_most), || local_rank.changes() != seen);
        Ok(())
    }

    /// Whether the call is under way under this generation; begins it there if it can be.
    fn is_begun(
        &mut self,
        running: &mut RunningCall<'_, '_>,
        generation: Generation,
        collective_id: CollectiveId,
        seen: u64,
    ) -> Result<bool, Error> {
        if running.is_under(generation, collective_id) {
            return Ok(true);
        }
        let decided = match self.decide(generation) {
            Ok(decided) => decided,
            Err(Unopened { peer, reason, .. }) => {
                let reason = || format!("the memory that rank {peer} shares: {reason}");
                self.wait(running, collective_id, seen, OPEN_AGAIN, reason)?;
                false
            }
        };
        if decided {
            self.begin_under(running, generation, collective_id)?;
        }
        Ok(decided)
    }

    /// Begins the call under a generation that was decided about, from its start.
    fn begin_under(
        &mut self,
        running: &mut RunningCall<'_, '_>,
        generation: Generation,
        collective_id: CollectiveId,
    ) -> Result<(), Error> {
        let CollectiveId { phase, seqno, .. } = collective_id;
        self.check_part(running, collective_id)?;
        if running.run.is_some() {
            self.moment(|moment| *moment == Moment::Again { phase, seqno })?;
        }
        let inputs = if self.repeats { self.local_rank.lock().participant.own_digest() } else { 0 };
        let expected = Expected { generation, collective_id, digest: running.signature.digest, inputs };
        self.peer_links.begin(expected);
        let spare = running.take_buffer();
        let (transport, parts) = self.transport(&running.shape, expected)?;
        let result = match &parts {
            Some(parts) => {
                spare.into_iter().for_each(|buffer| self.plane.pool.give_back(buffer));
                parts.take(self.rank().0 as usize)?
            }
            None => spare.unwrap_or_else(|| self.plane.pool.take(transport.result_bytes())),
        };
        running.run = Some(GenerationRun { generation, collective_id, transport, result, parts });
        running.input.prepare()
    }

    /// How long each rank's part is may be a recorded result: then the part has to be as long as the one that an
    /// older incarnation had.
    fn check_part(&self, running: &RunningCall<'_, '_>, collective_id: CollectiveId) -> Result<(), Error> {
        let (rank, given) = (self.rank(), running.input.length());
        let Shape::Parts { part_bytes } = &running.shape else { return Ok(()) };
        match part_bytes.get(rank.0 as usize) {
            Some(&recorded) if recorded != given => Err(Error::new(
                Code::Mismatch,
                format!(
                    "{collective_id}: rank {rank} called {} with {given} bytes of its own, but an older incarnation \
                     of it gave {recorded}; all incarnations of a rank have to give equally many",
                    running.call
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Moves bytes until the call is done, which gives its result, or something else has to be done first.
    fn go_on(&mut self, running: &mut RunningCall<'_, '_>, seen: u64) -> Result<Option<Bytes>, Error> {
        let RunningCall { run: Some(run), input: Input::Ready(input), reducer, limit, .. } = running else {
            return Ok(None);
        };
        let mut buffers = Buffers { input, result: &mut run.result, scratch: &mut self.scratch };
        let mut context = CallContext {
            peer_links: &mut self.peer_links,
            memory: &mut self.memory,
            local_rank: &self.local_rank,
            poll: &mut self.poll,
            backoff: &mut self.backoff,
            rank_profile: &mut self.rank_profile,
            seen,
            limit,
        };
        match run.transport.advance(&mut buffers, reducer, &mut context) {
            ExchangeOutcome::Done => {
                let Some(run) = running.run.take() else { return Ok(None) };
                let result = self.done(run)?;
                self.has_run |= result.is_some();
                return Ok(result);
            }
            ExchangeOutcome::Changed => {
                if self.peer_links.has_to_report(Instant::now()) {
                    self.peer_links.report(&self.plane);
                }
            }
            ExchangeOutcome::Part => {
                if let Some(parts) = &run.parts {
                    parts.give(self.rank().0 as usize, std::mem::take(&mut run.result));
                }
            }
            ExchangeOutcome::Sent => {
                let (CollectiveId { phase, seqno, .. }, sent) = (run.collective_id, run.transport.sent());
                self.sent(phase, seqno, sent)?;
            }
            ExchangeOutcome::Failed(error) => return Err(error),
            ExchangeOutcome::Fold(error) => {
                let text = format!("{} as {}: {error}", running.call, run.collective_id);
                return Err(Error::new(Code::TrainingFailed, text));
            }
            ExchangeOutcome::Late => {
                let whom = run.transport.awaited(&mut self.memory, &self.peer_links);
                let whom =
                    if whom.is_empty() { "all others, which have yet to end it".into() } else { whom.join(", ") };
                let reason = format!("bytes of {whom} in generation {}", run.generation);
                let collective_id = run.collective_id;
                return Err(self.late(running, collective_id, &reason));
            }
            ExchangeOutcome::Trouble(Trouble::Mismatch(peer, theirs)) => {
                let (plane, local_rank, poll) = (&self.plane, &self.local_rank, &mut self.poll);
                return Err(explain(plane, local_rank, poll, run.collective_id, &running.signature, peer, theirs));
            }
        }
        Ok(None)
    }

    /// Puts the input of the call that has begun to all that was given before it in its phase.
    fn give(&self, input: &[u8]) {
        let before = self.local_rank.lock().participant.before();
        // Without the lock, which the control thread needs too: an input may be long.
        let digest = XxHash3_64::oneshot_with_seed(before, input);
        self.local_rank.lock().participant.add_own(digest, input.len() as u64, self.round);
    }

    /// Whether this generation's collectives go through memory or over links. The plan says it; a
    /// segment that can't be opened is reported to the tracker, which begins another generation. False
    /// when a newer plan has come, whose generation has to be decided instead.
    fn decide(&mut self, generation: Generation) -> Result<bool, Unopened> {
        if self.memory.has_decided(generation) {
            return Ok(true);
        }
        let segments = {
            let state = self.local_rank.lock();
            if state.participant.generation() != Some(generation) {
                return Ok(false);
            }
            self.shapes.on_hosts(state.participant.hosts());
            self.vacant = state.participant.vacant().to_vec();
            state.participant.segments().map(<[_]>::to_vec)
        };
        let entered = self.memory.enter(generation, segments.as_deref(), &self.plane);
        if let (Err(Unopened { peer, reason, is_to_be_reported: true }), Some(agent)) = (&entered, self.plane.agent()) {
            let report = Report::CannotShare { peer: *peer, generation, reason: reason.clone() };
            agent.report(self.local_rank.member, report);
        }
        entered.map(|()| true)
    }

    /// How the bytes of a call go under a generation that was decided about, and where ranks of
    /// this process write their result together.
    ///
    /// # Errors
    /// `OutOfSpace` when there is no memory for what it needs besides its result.
    fn transport(&mut self, shape: &Shape, expected: Expected) -> Result<(Transport, Option<Arc<Parts>>), Error> {
        let (local_rank, stop_at) = (self.shapes.world_rank(), self.awaited_byte(expected.collective_id));
        if let Some(entered) = self.memory.entered(expected.generation) {
            // `None` when the slots are too small for one element: then this collective goes over links, at all ranks.
            if let Some(mut shape) = shape.shared(local_rank, entered.group.slot_bytes()) {
                let mut parts = None;
                if let Some(in_parts) = entered.group.is_one_process().then(|| shape.clone().in_parts()).flatten() {
                    parts = self.plane.parts(&expected, in_parts.parts().collect());
                    shape = if parts.is_some() { in_parts } else { shape };
                }
                let exchange = SharedExchange::new(shape, expected, entered, stop_at);
                return Ok((Transport::Memory(Box::new(exchange)), parts));
            }
        }
        let schedule = self.shapes.schedule(shape);
        if self.scratch.len() < schedule.scratch_bytes() {
            reservation::check(|| "what a call holds on its way".into(), schedule.scratch_bytes())?;
            self.scratch.resize(schedule.scratch_bytes(), 0);
        }
        let mut exchange = Exchange::new(&schedule, &self.vacant);
        exchange.stop_at = stop_at;
        Ok((Transport::Links(schedule, exchange), None))
    }

    pub(crate) fn report_profile(&mut self) {
        let (Some(agent), local_rank) = (self.plane.agent(), &self.local_rank) else { return };
        self.rank_profile.report(agent, local_rank.member, || {
            let state = local_rank.lock();
            (Phase::Version(state.participant.version()), state.participant.seqno())
        });
    }

    /// The version, and the number of its next collective.
    fn position(&self) -> (Version, u32) {
        let state = self.local_rank.lock();
        (state.participant.version(), state.participant.seqno())
    }

    /// Bytes that collectives of this phase have sent before the one that is under way.
    pub(super) fn left_in(&self, phase: Phase) -> u64 {
        match self.left {
            (of, bytes) if of == phase => bytes,
            _ => 0,
        }
    }

    /// What the call has to do now.
    fn look(&mut self) -> Result<(Next<Logged>, CollectiveId), Error> {
        let mut state = self.local_rank.lock();
        if let Some(error) = &state.error {
            return Err(error.clone());
        }
        self.peer_links.refresh(&mut state, &self.poll)?;
        let before = state.participant.collective_id();
        let next = state.participant.proceed()?;
        let collective_id = state.participant.collective_id().or(before);
        let _ = state.drain(); // a finished call wants nothing fetched
        match collective_id {
            Some(collective_id) => Ok((next, collective_id)),
            None => Err(Error::new(Code::Internal, "a call under way has no place")),
        }
    }

    /// The whole result is here; `None` when the generation was over before it was.
    fn done(&mut self, run: GenerationRun) -> Result<Option<Bytes>, Error> {
        let sent = run.transport.sent();
        let result = match run.parts {
            Some(parts) => parts.whole()?,
            None => run.result.freeze(),
        };
        let (logged, result) = self.plane.logged(run.generation, run.collective_id, result);
        {
            let mut state = self.local_rank.lock();
            if let Some(error) = &state.error {
                return Err(error.clone());
            }
            if !state.finish(run.generation, logged) {
                return Ok(None);
            }
            state.observe(&run.collective_id, run.transport.observed());
            let _ = state.drain();
        }
        self.plane.make_room(&self.local_rank)?;
        let CollectiveId { phase, seqno, .. } = run.collective_id;
        self.left = (phase, self.left_in(phase) + sent);
        self.moment(|moment| *moment == Moment::Completed { phase, seqno })?;
        Ok(Some(result))
    }

    fn late(&self, running: &RunningCall<'_, '_>, collective_id: CollectiveId, reason: &str) -> Error {
        Error::new(
            Code::TimedOut,
            format!(
                "rank {} called {} as {collective_id} and waited {} s, which is the limit, for {reason}; {}",
                self.rank(),
                running.call,
                self.at_most.as_secs(),
                self.plane.agent().map_or(String::new(), |agent| agent.situation())
            ),
        )
    }
}
