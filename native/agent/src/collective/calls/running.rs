//! One collective, from its call to its result.

use super::Calls;
use crate::agent::MemberId;
use crate::collective::exchange::{sleep, Exchange, Went};
use crate::collective::memory::Unopened;
use crate::collective::mismatch::explain;
use crate::collective::parts::Parts;
use crate::collective::peer_links::Trouble;
use crate::collective::shape::Shape;
use crate::collective::shared_exchange::SharedExchange;
use crate::collective::transport::{CallContext, Transport};
use crate::logs::Logged;
use crate::reservation;
use bytes::{Bytes, BytesMut};
use rejoin_collectives::{Buffers, Reducer};
use rejoin_protocol::collective::{frame::Expected, BootKey, Call, CollectiveId, Next};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::fault::Moment;
use rejoin_protocol::ids::{Generation, Phase, Version};
use std::sync::Arc;
use std::time::{Duration, Instant};
use twox_hash::XxHash3_64;

/// Between two tries to open what another rank shares.
const OPEN_AGAIN: Duration = Duration::from_millis(20);

/// What a call gives to a collective.
pub enum Input<'a> {
    /// Bytes that are there.
    Ready(&'a [u8]),
    /// Bytes that are there once the function has filled them. It isn't called when the result is a recorded one.
    OnDemand(&'a mut [u8], &'a mut Prepare<'a>),
}

impl<'a> Input<'a> {
    /// A buffer that is filled, unless there is a function that does it on demand.
    pub fn of(buffer: &'a mut [u8], prepare: Option<&'a mut Prepare<'a>>) -> Self {
        match prepare {
            None => Input::Ready(buffer),
            Some(prepare) => Input::OnDemand(buffer, prepare),
        }
    }

    /// How many bytes it has.
    pub(in crate::collective) fn length(&self) -> usize {
        match self {
            Input::Ready(bytes) => bytes.len(),
            Input::OnDemand(bytes, _) => bytes.len(),
        }
    }
}

/// Fills a buffer. When it fails, the call does, with that error.
pub type Prepare<'a> = dyn FnMut(&mut [u8]) -> Result<(), Error> + 'a;

/// A collective under way.
struct Under {
    generation: Generation,
    collective_id: CollectiveId,
    transport: Transport,
    /// Where this rank writes: all of the result, or its part of it until that is written.
    result: BytesMut,
    parts: Option<Arc<Parts>>,
}

impl Under {
    /// The buffer of a result that this rank writes alone.
    fn into_buffer(self) -> Option<BytesMut> {
        self.parts.is_none().then_some(self.result)
    }
}

impl Calls {
    /// One collective, from its call to its result. A boot collective's has a key.
    ///
    /// # Errors
    /// `BadState` after a failure; otherwise it is one.
    pub(in crate::collective) fn run(
        &mut self,
        call: &Call,
        key: Option<BootKey>,
        shape: Shape,
        reducer: &Reducer<'_>,
        input: Input<'_>,
    ) -> Result<Bytes, Error> {
        self.usable()?;
        self.rank_profile.exchanging();
        let result = self.try_run(call, key, shape, reducer, input);
        self.rank_profile.computing();
        self.report_profile();
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
        let deadline = began + self.at_most;
        let signature = call.signature(key.as_ref());
        self.log.call(self.local_rank.member, || self.position(), key.as_ref(), call);
        reservation::check(|| format!("the result of {call}"), shape.result_bytes(self.local_rank.world as usize))?;
        let collective_id = self.local_rank.lock().participant.begin(call, key)?;
        if let (true, Input::Ready(bytes)) = (self.repeats, &input) {
            self.give(bytes);
        }
        let CollectiveId { phase, seqno, .. } = collective_id;
        self.moment(|moment| *moment == Moment::Entering { phase, seqno })?;
        let mut under: Option<Under> = None;
        loop {
            let seen = self.local_rank.changes();
            self.plane.make_room(&self.local_rank)?;
            let (next, collective_id) = self.look()?;
            match next {
                Next::Replayed(result) => {
                    let CollectiveId { phase, seqno, .. } = collective_id;
                    self.moment(|moment| *moment == Moment::Replaying || *moment == Moment::Replayed { phase, seqno })?;
                    self.has_run = false;
                    self.rank_profile.replaying();
                    if let Some(buffer) = under.take().and_then(Under::into_buffer) {
                        self.plane.pool.give_back(buffer);
                    }
                    return result.whole();
                }
                Next::Wait(reason) => {
                    let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                        return Err(self.late(call, collective_id, began, &reason));
                    };
                    let local_rank = &self.local_rank;
                    self.rank_profile.waiting(|| None);
                    sleep(local_rank, &mut self.poll, left, || local_rank.changes() != seen);
                    self.rank_profile.exchanging();
                }
                Next::Run(generation) => {
                    if under
                        .as_ref()
                        .is_none_or(|under| (under.generation, under.collective_id) != (generation, collective_id))
                    {
                        match self.decide(generation) {
                            Ok(true) => {}
                            Ok(false) => continue,
                            Err(Unopened { peer, reason, .. }) => {
                                let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                                    let reason = format!("the memory that rank {peer} shares: {reason}");
                                    return Err(self.late(call, collective_id, began, &reason));
                                };
                                let local_rank = &self.local_rank;
                                sleep(local_rank, &mut self.poll, left.min(OPEN_AGAIN), || {
                                    local_rank.changes() != seen
                                });
                                continue;
                            }
                        }
                        let CollectiveId { phase, seqno, .. } = collective_id;
                        if under.is_some() {
                            self.moment(|moment| *moment == Moment::Again { phase, seqno })?;
                        }
                        let inputs = if self.repeats { self.local_rank.lock().participant.own_digest() } else { 0 };
                        let expected = Expected { generation, collective_id, digest: signature.digest, inputs };
                        self.peer_links.begin(expected);
                        let spare = under.take().and_then(Under::into_buffer);
                        let (transport, parts) = self.transport(&shape, expected)?;
                        let result = match &parts {
                            Some(parts) => {
                                spare.into_iter().for_each(|buffer| self.plane.pool.give_back(buffer));
                                parts.take(self.rank().0 as usize)?
                            }
                            None => spare.unwrap_or_else(|| self.plane.pool.take(transport.result_bytes())),
                        };
                        under = Some(Under { generation, collective_id, transport, result, parts });
                        if let Input::OnDemand(bytes, prepare) = &mut input {
                            prepare(bytes)?;
                            let bytes: &mut [u8] = std::mem::take(bytes);
                            input = Input::Ready(bytes);
                        }
                    }
                    let (Some(now), Input::Ready(bytes)) = (&mut under, &input) else { continue };
                    let mut buffers = Buffers { input: bytes, result: &mut now.result, scratch: &mut self.scratch };
                    let mut context = CallContext {
                        peer_links: &mut self.peer_links,
                        memory: &mut self.memory,
                        local_rank: &self.local_rank,
                        poll: &mut self.poll,
                        backoff: &mut self.backoff,
                        rank_profile: &mut self.rank_profile,
                        seen,
                        deadline,
                    };
                    match now.transport.advance(&mut buffers, reducer, &mut context) {
                        Went::Done => {
                            let Some(now) = under.take() else { continue };
                            if let Some(result) = self.done(now)? {
                                self.has_run = true;
                                return Ok(result);
                            }
                        }
                        Went::Changed => {
                            if self.peer_links.has_to_report(Instant::now()) {
                                self.peer_links.report(&self.plane);
                            }
                        }
                        Went::Late => {
                            let whom = now.transport.awaited(&mut self.memory, &self.peer_links);
                            let reason = format!("bytes of {} in generation {generation}", whom.join(", "));
                            return Err(self.late(call, collective_id, began, &reason));
                        }
                        Went::Trouble(Trouble::Mismatch(peer, theirs)) => {
                            return Err(explain(
                                &self.plane,
                                &self.local_rank,
                                &mut self.poll,
                                collective_id,
                                &signature,
                                peer,
                                theirs,
                            ));
                        }
                        Went::Fold(error) => {
                            return Err(Error::new(
                                Code::TrainingFailed,
                                format!("{call} as {collective_id}: {error}"),
                            ));
                        }
                        Went::Failed(error) => return Err(error),
                        Went::Part => {
                            if let Some(parts) = &now.parts {
                                parts.give(self.rank().0 as usize, std::mem::take(&mut now.result));
                            }
                        }
                        Went::Sent => {
                            let sent = now.transport.sent();
                            let CollectiveId { phase, seqno, .. } = collective_id;
                            let left = self.left_in(phase) + sent;
                            self.moment(|moment| match moment {
                                Moment::Sent { phase: p, seqno: s, bytes } => {
                                    *p == phase && *s == seqno && *bytes <= sent
                                }
                                Moment::Bytes { phase: p, bytes } => *p == phase && *bytes <= left,
                                _ => false,
                            })?;
                        }
                    }
                }
            }
        }
    }

    /// Puts the input of the call that has begun to all that was given before it in its phase.
    fn give(&self, input: &[u8]) {
        let before = self.local_rank.lock().participant.before();
        // Without the lock, which the control thread needs too: an input may be long.
        let digest = XxHash3_64::oneshot_with_seed(before, input);
        self.local_rank.lock().participant.add_own(digest, input.len() as u64, self.round);
    }

    /// Whether this generation's collectives go through memory or over links. The plan says it; a
    /// segment that can't be opened is told to the tracker, which begins another generation. False
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
            let MemberId { rank, incarnation } = self.local_rank.member;
            agent.cannot_share(rank, incarnation, *peer, generation, reason.clone());
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

    pub(in crate::collective) fn report_profile(&mut self) {
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
    fn done(&mut self, under: Under) -> Result<Option<Bytes>, Error> {
        let sent = under.transport.sent();
        let result = match under.parts {
            Some(parts) => parts.whole()?,
            None => under.result.freeze(),
        };
        let (logged, result) = self.plane.logged(under.generation, under.collective_id, result);
        {
            let mut state = self.local_rank.lock();
            if let Some(error) = &state.error {
                return Err(error.clone());
            }
            if !state.finish(under.generation, logged) {
                return Ok(None);
            }
            state.observe(&under.collective_id, under.transport.observed());
            let _ = state.drain();
        }
        self.plane.make_room(&self.local_rank)?;
        let CollectiveId { phase, seqno, .. } = under.collective_id;
        self.left = (phase, self.left_in(phase) + sent);
        self.moment(|moment| *moment == Moment::Completed { phase, seqno })?;
        Ok(Some(result))
    }

    fn late(&self, call: &Call, collective_id: CollectiveId, began: Instant, reason: &str) -> Error {
        Error::new(
            Code::TimedOut,
            format!(
                "rank {} called {call} as {collective_id} and waited {} s, which is the limit, for {reason}; {}",
                self.rank(),
                began.elapsed().as_secs(),
                self.plane.agent().map_or(String::new(), |agent| agent.situation())
            ),
        )
    }
}
