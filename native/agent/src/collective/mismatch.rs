//! Two ranks have made calls that can't be paired: both are named, by asking the other one.

use super::exchange::sleep;
use super::plane::CollectivePlane;
use super::seat::Seat;
use mio::Poll;
use rejoin_protocol::collective::{mismatch, Place, Signature};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Phase, Rank};
use std::time::{Duration, Instant};

/// How long the other rank's agent may take to say what was called.
const PATIENCE: Duration = Duration::from_secs(6);

/// How long the job's own error is waited for, when the other rank can't say.
const PATIENCE_WITH_THE_JOB: Duration = Duration::from_secs(2);

/// The error of a rank that is at `place` with `own`, and has seen a frame of `peer` from `theirs`.
pub(super) fn explain(
    plane: &CollectivePlane,
    seat: &Seat,
    poll: &mut Poll,
    place: Place,
    own: &Signature,
    peer: Rank,
    theirs: Place,
) -> Error {
    // The earlier one of the two is where their calls differ.
    let is_earlier = theirs.phase == place.phase && theirs.seqno < place.seqno;
    let compared = if is_earlier { theirs } else { place };
    let own = match is_earlier {
        true => seat.lock().participant.signature(&theirs),
        false => Some(own.clone()),
    };
    let other = ask(plane, seat, poll, peer, compared);
    let rank = seat.member.rank;
    match (own, other) {
        (Some(own), Some(other)) => mismatch(compared, &format!("rank {rank}"), &own, &format!("rank {peer}"), &other),
        (own, _) => {
            let has_ended = theirs.phase != place.phase;
            // It may have found the same, and ended the job with an error that names both.
            if let Some(error) = (!has_ended).then(|| the_jobs_error(seat, poll)).flatten() {
                return error;
            }
            let own = own.map_or("another call".into(), |own| own.to_string());
            let ended = match (place.phase, theirs.phase) {
                (Phase::Version(here), Phase::Version(there)) if there > here => {
                    format!("has ended {} after fewer collectives", place.phase)
                }
                _ => "made another call there, which it can't name any more".into(),
            };
            Error::new(
                Code::Mismatch,
                format!(
                    "{compared}: rank {rank} called {own}, but rank {peer} {ended}; all ranks have to \
                     make the same calls in the same order"
                ),
            )
        }
    }
}

/// Waits for the error that the job ends with, if it does.
fn the_jobs_error(seat: &Seat, poll: &mut Poll) -> Option<Error> {
    let deadline = Instant::now() + PATIENCE_WITH_THE_JOB;
    loop {
        let seen = seat.changes();
        if let Some(error) = &seat.lock().error {
            return Some(error.clone());
        }
        let left = deadline.checked_duration_since(Instant::now())?;
        sleep(seat, poll, left, || seat.changes() != seen);
    }
}

fn ask(plane: &CollectivePlane, seat: &Seat, poll: &mut Poll, peer: Rank, place: Place) -> Option<Signature> {
    use crate::plane::DataPlane;
    if let Some(here) = plane.signature(peer, &place) {
        return Some(here);
    }
    let deadline = Instant::now() + PATIENCE;
    seat.lock().told = None;
    plane.agent()?.ask(seat.member.rank, seat.member.incarnation, peer, place);
    loop {
        let seen = seat.changes();
        {
            let mut state = seat.lock();
            if let Some((_, _, call)) = state.told.take_if(|(rank, at, _)| *rank == peer && *at == place) {
                return call;
            }
            if state.error.is_some() {
                return None;
            }
        }
        let left = deadline.checked_duration_since(Instant::now())?;
        sleep(seat, poll, left, || seat.changes() != seen);
    }
}
