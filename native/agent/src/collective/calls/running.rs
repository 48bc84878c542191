//! One collective, from its call to its result.

use super::Calls;
use crate::agent::MemberId;
use crate::collective::exchange::{sleep, Exchange, Went};
use crate::collective::lines::Trouble;
use crate::collective::memory::Unopened;
use crate::collective::mismatch::explain;
use crate::collective::parts::Parts;
use crate::collective::shape::Shape;
use crate::collective::shared_exchange::SharedExchange;
use crate::collective::way::{Tools, Way};
use crate::logs::Logged;
use crate::room;
use bytes::{Bytes, BytesMut};
use rejoin_collectives::{Buffers, Reducer};
use rejoin_protocol::collective::{frame::Expected, BootKey, Call, Next, Place};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::fault::Moment;
use rejoin_protocol::ids::{Generation, Phase, Version};
use std::sync::Arc;
use std::time::{Duration, Instant};
use twox_hash::XxHash3_64;

/// Between two tries to open what another rank shares.
const OPEN_AGAIN: Duration = Duration::from_millis(20);

/// What a call gives to a collective.
pub(in crate::collective) enum Input<'a> {
    /// Bytes that are there.
    Ready(&'a [u8]),
    /// Bytes that are there once the function has filled them. It isn't called when the result is a recorded one.
    OnDemand(&'a mut [u8], &'a mut Prepare<'a>),
}

/// Fills a buffer. When it fails, the call does, with that error.
pub type Prepare<'a> = dyn FnMut(&mut [u8]) -> Result<(), Error> + 'a;

/// A collective under way.
struct Under {
    attempt: Generation,
    place: Place,
    way: Way,
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
        let deadline = began + self.at_most;
        let signature = call.signature(key.as_ref());
        self.log.call(self.seat.member, || self.position(), key.as_ref(), call);
        room::is_there(|| format!("the result of {call}"), shape.result_bytes(self.seat.world as usize))?;
        let place = self.seat.lock().participant.begin(call, key)?;
        if let (true, Input::Ready(bytes)) = (self.repeats, &input) {
            self.give(bytes);
        }
        let Place { phase, seqno, .. } = place;
        self.moment(|moment| *moment == Moment::Entering { phase, seqno })?;
        let mut under: Option<Under> = None;
        loop {
            let seen = self.seat.changes();
            self.plane.make_room(&self.seat)?;
            let (next, place) = self.look()?;
            match next {
                Next::Replayed(result) => {
                    let Place { phase, seqno, .. } = place;
                    self.moment(|moment| *moment == Moment::Replaying || *moment == Moment::Replayed { phase, seqno })?;
                    self.has_run = false;
                    self.notes.replaying();
                    if let Some(buffer) = under.take().and_then(Under::into_buffer) {
                        self.plane.shelf.give_back(buffer);
                    }
                    return result.whole();
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
                        match self.decide(attempt) {
                            Ok(true) => {}
                            Ok(false) => continue,
                            Err(Unopened { peer, reason, .. }) => {
                                let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                                    let reason = format!("the memory that rank {peer} shares: {reason}");
                                    return Err(self.late(call, place, began, &reason));
                                };
                                let seat = &self.seat;
                                sleep(seat, &mut self.poll, left.min(OPEN_AGAIN), || seat.changes() != seen);
                                continue;
                            }
                        }
                        let Place { phase, seqno, .. } = place;
                        if under.is_some() {
                            self.moment(|moment| *moment == Moment::Again { phase, seqno })?;
                        }
                        let inputs = if self.repeats { self.seat.lock().participant.shown() } else { 0 };
                        let expected = Expected { attempt, place, digest: signature.digest, inputs };
                        self.lines.begin(expected);
                        let spare = under.take().and_then(Under::into_buffer);
                        let (way, parts) = self.way(&shape, expected)?;
                        let result = match &parts {
                            Some(parts) => {
                                spare.into_iter().for_each(|buffer| self.plane.shelf.give_back(buffer));
                                parts.take(self.rank().0 as usize)?
                            }
                            None => spare.unwrap_or_else(|| self.plane.shelf.take(way.result_bytes())),
                        };
                        under = Some(Under { attempt, place, way, result, parts });
                        if let Input::OnDemand(bytes, prepare) = &mut input {
                            prepare(bytes)?;
                            let bytes: &mut [u8] = std::mem::take(bytes);
                            input = Input::Ready(bytes);
                        }
                    }
                    let (Some(now), Input::Ready(bytes)) = (&mut under, &input) else { continue };
                    let mut buffers = Buffers { input: bytes, result: &mut now.result, scratch: &mut self.scratch };
                    let mut tools = Tools {
                        lines: &mut self.lines,
                        memory: &mut self.memory,
                        seat: &self.seat,
                        poll: &mut self.poll,
                        notes: &mut self.notes,
                        seen,
                        deadline,
                    };
                    match now.way.advance(&mut buffers, reducer, &mut tools) {
                        Went::Done => {
                            let Some(now) = under.take() else { continue };
                            if let Some(result) = self.done(now)? {
                                self.has_run = true;
                                return Ok(result);
                            }
                        }
                        Went::Changed => {
                            if self.lines.has_to_tell(Instant::now()) {
                                self.lines.tell(&self.plane);
                            }
                        }
                        Went::Late => {
                            let whom = now.way.awaited(&mut self.memory, &self.lines);
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
                        Went::Failed(error) => return Err(error),
                        Went::Part => {
                            if let Some(parts) = &now.parts {
                                parts.give(self.rank().0 as usize, std::mem::take(&mut now.result));
                            }
                        }
                        Went::Sent => {
                            let sent = now.way.sent();
                            let Place { phase, seqno, .. } = place;
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
        let before = self.seat.lock().participant.before();
        // Without the lock, which the control thread needs too: an input may be long.
        let digest = XxHash3_64::oneshot_with_seed(before, input);
        self.seat.lock().participant.gives(digest, input.len() as u64, self.round);
    }

    /// Whether this attempt's collectives go through memory or over links. The plan says it; a board that can't be opened is told
    /// to the tracker, which begins another attempt. False when a newer plan has come, whose attempt has to be decided instead.
    fn decide(&mut self, attempt: Generation) -> Result<bool, Unopened> {
        if self.memory.has_decided(attempt) {
            return Ok(true);
        }
        let boards = {
            let state = self.seat.lock();
            if state.participant.attempt() != Some(attempt) {
                return Ok(false);
            }
            self.shapes.on_hosts(state.participant.hosts());
            self.vacant = state.participant.vacant().to_vec();
            state.participant.boards().map(<[_]>::to_vec)
        };
        let entered = self.memory.enter(attempt, boards.as_deref(), &self.plane);
        if let (Err(Unopened { peer, reason, is_to_be_told: true }), Some(agent)) = (&entered, self.plane.agent()) {
            let MemberId { rank, incarnation } = self.seat.member;
            agent.cannot_share(rank, incarnation, *peer, attempt, reason.clone());
        }
        entered.map(|()| true)
    }

    /// How the bytes of a call go under an attempt that was decided about, and where ranks of this process write their result together.
    ///
    /// # Errors
    /// `OutOfSpace` when there is no memory for what it needs besides its result.
    fn way(&mut self, shape: &Shape, expected: Expected) -> Result<(Way, Option<Arc<Parts>>), Error> {
        let (seat, stop_at) = (self.shapes.seat(), self.awaited_byte(expected.place));
        if let Some(entered) = self.memory.entered(expected.attempt) {
            // `None` when the areas are too small for one element: then this collective goes over links, at all ranks.
            if let Some(mut shape) = shape.shared(seat, entered.group.area_bytes()) {
                let mut parts = None;
                if let Some(in_parts) = entered.group.is_one_process().then(|| shape.clone().in_parts()).flatten() {
                    parts = self.plane.parts(&expected, in_parts.parts().collect());
                    shape = if parts.is_some() { in_parts } else { shape };
                }
                let exchange = SharedExchange::new(shape, expected, entered, stop_at);
                return Ok((Way::Memory(Box::new(exchange)), parts));
            }
        }
        let schedule = self.shapes.schedule(shape);
        if self.scratch.len() < schedule.scratch_bytes() {
            room::is_there(|| "what a call holds on its way".into(), schedule.scratch_bytes())?;
            self.scratch.resize(schedule.scratch_bytes(), 0);
        }
        let mut exchange = Exchange::new(&schedule, &self.vacant);
        exchange.stop_at = stop_at;
        Ok((Way::Links(schedule, exchange), None))
    }

    pub(in crate::collective) fn tell_notes(&mut self) {
        let (Some(agent), seat) = (self.plane.agent(), &self.seat) else { return };
        self.notes.tell(agent, seat.member, || {
            let state = seat.lock();
            (Phase::Version(state.participant.version()), state.participant.seqno())
        });
    }

    /// The version, and the number of its next collective.
    fn position(&self) -> (Version, u32) {
        let state = self.seat.lock();
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
    fn look(&mut self) -> Result<(Next<Logged>, Place), Error> {
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
        let sent = under.way.sent();
        let result = match under.parts {
            Some(parts) => parts.whole()?,
            None => under.result.freeze(),
        };
        let (logged, result) = self.plane.logged(under.attempt, under.place, result);
        {
            let mut state = self.seat.lock();
            if let Some(error) = &state.error {
                return Err(error.clone());
            }
            if !state.finish(under.attempt, logged) {
                return Ok(None);
            }
            state.hears(&under.place, under.way.heard());
            let _ = state.drain();
        }
        self.plane.make_room(&self.seat)?;
        let Place { phase, seqno, .. } = under.place;
        self.left = (phase, self.left_in(phase) + sent);
        self.moment(|moment| *moment == Moment::Completed { phase, seqno })?;
        Ok(Some(result))
    }

    fn late(&self, call: &Call, place: Place, began: Instant, reason: &str) -> Error {
        Error::new(
            Code::TimedOut,
            format!(
                "rank {} called {call} as {place} and waited {} s, which is the limit, for {reason}; {}",
                self.rank(),
                began.elapsed().as_secs(),
                self.plane.agent().map_or(String::new(), |agent| agent.situation())
            ),
        )
    }
}
