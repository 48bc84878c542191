//! Two ranks have made calls that can't be paired: both are named, by asking the other one.

use super::local_rank::LocalRank;
use super::plane::CollectivePlane;
use mio::Poll;
use rejoin_protocol::collective::{mismatch, CollectiveId, Signature};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Phase, Rank};
use std::time::{Duration, Instant};

/// How long the other rank's agent may take to say what was called.
const WAIT_LIMIT: Duration = Duration::from_secs(6);

/// How long the job's own error is waited for, when the other rank can't say.
const WAIT_LIMIT_FOR_THE_JOB: Duration = Duration::from_secs(2);

/// The error of a rank that is at `collective_id` with `own`, and has seen a frame of `peer` from `theirs`.
pub(super) fn explain(
    plane: &CollectivePlane,
    local_rank: &LocalRank,
    poll: &mut Poll,
    collective_id: CollectiveId,
    own: &Signature,
    peer: Rank,
    theirs: CollectiveId,
) -> Error {
    // The earlier one of the two is where their calls differ.
    let is_earlier = theirs.phase == collective_id.phase && theirs.seqno < collective_id.seqno;
    let compared = if is_earlier { theirs } else { collective_id };
    let own = match is_earlier {
        true => local_rank.lock().participant.signature(&theirs),
        false => Some(own.clone()),
    };
    let other = ask(plane, local_rank, poll, peer, compared);
    let rank = local_rank.member.rank;
    match (own, other) {
        (Some(own), Some(other)) => mismatch(compared, &format!("rank {rank}"), &own, &format!("rank {peer}"), &other),
        (own, _) => {
            let has_ended = theirs.phase != collective_id.phase;
            // It may have found the same, and ended the job with an error that names both.
            if let Some(error) = (!has_ended).then(|| the_jobs_error(local_rank, poll)).flatten() {
                return error;
            }
            let own = own.map_or("another call".into(), |own| own.to_string());
            let ended = match (collective_id.phase, theirs.phase) {
                (Phase::Version(here), Phase::Version(there)) if there > here => {
                    format!("has ended {} after fewer collectives", collective_id.phase)
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
fn the_jobs_error(local_rank: &LocalRank, poll: &mut Poll) -> Option<Error> {
    let deadline = Instant::now() + WAIT_LIMIT_FOR_THE_JOB;
    loop {
        let seen = local_rank.changes();
        if let Some(error) = &local_rank.lock().error {
            return Some(error.clone());
        }
        let left = deadline.checked_duration_since(Instant::now())?;
        local_rank.sleep(poll, left, || local_rank.changes() != seen);
    }
}

fn ask(
    plane: &CollectivePlane,
    local_rank: &LocalRank,
    poll: &mut Poll,
    peer: Rank,
    collective_id: CollectiveId,
) -> Option<Signature> {
    use rejoin_agent::ResultPlane;
    if let Some(here) = plane.signature(peer, &collective_id) {
        return Some(here);
    }
    let deadline = Instant::now() + WAIT_LIMIT;
    local_rank.lock().peer_call = None;
    plane.agent()?.ask(local_rank.member, peer, collective_id);
    loop {
        let seen = local_rank.changes();
        {
            let mut state = local_rank.lock();
            if let Some((_, _, call)) = state.peer_call.take_if(|(rank, at, _)| *rank == peer && *at == collective_id) {
                return call;
            }
            if state.error.is_some() {
                return None;
            }
        }
        let left = deadline.checked_duration_since(Instant::now())?;
        local_rank.sleep(poll, left, || local_rank.changes() != seen);
    }
}
