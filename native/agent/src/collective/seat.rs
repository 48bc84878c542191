//! What one rank's thread and the agent's control thread share.

use super::inbox::Inbox;
use crate::agent::MemberId;
use crate::plane::PlanePeer;
use bytes::{Bytes, BytesMut};
use mio::{Poll, Token, Waker};
use parking_lot::{Mutex, MutexGuard};
use rejoin_protocol::collective::{Fetch, Output, Participant, Place, Signature};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Incarnation, Lineage, Rank, Version};
use rejoin_transport::Link;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The waker's token in the rank's poll; links have their peer's rank plus one.
pub(super) const WAKER: Token = Token(0);
/// Dropped results that are kept to be used again: memory that was touched before costs no page faults.
const POOL: usize = 8;

/// One rank in one incarnation.
pub(super) struct Seat {
    pub(super) member: MemberId,
    pub(super) world: u32,
    pub(super) lineage: Lineage,
    pub(super) inbox: Inbox,
    state: Mutex<State>,
    /// Counts what a call that is under way has to look at.
    changes: AtomicU64,
    /// Counts frames in the inbox.
    arrivals: AtomicU64,
    /// The rank's thread waits in its poll, or is about to.
    sleeping: AtomicBool,
    waker: Waker,
    poll: Mutex<Option<Poll>>,
}

/// What is guarded by the seat's lock.
pub(super) struct State {
    pub(super) participant: Participant<Bytes>,
    /// All other ranks that live.
    pub(super) peers: Vec<PlanePeer>,
    /// Links that were made and not yet taken by the rank's thread.
    pub(super) mail: Vec<(Rank, Incarnation, Link)>,
    /// Why its calls end.
    pub(super) error: Option<Error>,
    /// What a peer has called, as asked for.
    pub(super) told: Option<(Rank, Place, Option<Signature>)>,
    pool: Vec<BytesMut>,
}

impl Seat {
    pub(super) fn new(member: MemberId, world: u32, lineage: Lineage, version: Version) -> Result<Seat, Error> {
        let io =
            |cause: std::io::Error| Error::new(Code::Io, format!("rank {} can't make a poll: {cause}", member.rank));
        let poll = Poll::new().map_err(io)?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(io)?;
        let state = State {
            participant: Participant::new(member.rank, member.incarnation, lineage, version),
            peers: Vec::new(),
            mail: Vec::new(),
            error: None,
            told: None,
            pool: Vec::new(),
        };
        Ok(Seat {
            member,
            world,
            lineage,
            inbox: Inbox::default(),
            state: Mutex::new(state),
            changes: AtomicU64::new(1),
            arrivals: AtomicU64::new(0),
            sleeping: AtomicBool::new(false),
            waker,
            poll: Mutex::new(Some(poll)),
        })
    }

    /// The poll, for the one thread that makes the calls.
    pub(super) fn take_poll(&self) -> Option<Poll> {
        self.poll.lock().take()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// A number that differs when something has changed that a call has to look at.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// The same for the inbox.
    pub(super) fn arrivals(&self) -> u64 {
        self.arrivals.load(Ordering::SeqCst)
    }

    pub(super) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.wake();
    }

    pub(super) fn arrived(&self) {
        self.arrivals.fetch_add(1, Ordering::SeqCst);
        self.wake();
    }

    /// Wakes the rank's thread if it sleeps. It says that it is about to sleep before it looks for the last time, and
    /// whoever wakes it counts before it looks whether it sleeps: so no wake is lost.
    fn wake(&self) {
        if self.sleeping.load(Ordering::SeqCst) {
            // A poll that can't be woken any more belongs to a thread that is gone.
            let _ = self.waker.wake();
        }
    }

    pub(super) fn sleeps(&self, sleeping: bool) {
        self.sleeping.store(sleeping, Ordering::SeqCst);
    }

    /// Ends its calls. The first reason counts.
    pub(super) fn fail(&self, error: Error) {
        self.lock().error.get_or_insert(error);
        self.changed();
    }
}

impl State {
    /// Does what the participant wants done, but for fetches, which are returned.
    pub(super) fn drain(&mut self) -> (Vec<Fetch>, bool) {
        let (mut fetches, mut changed) = (Vec::new(), false);
        while let Some(output) = self.participant.poll() {
            match output {
                Output::Fetch(fetch) => fetches.push(fetch),
                Output::Changed => changed = true,
                Output::Dropped(result) => self.keep(result),
            }
        }
        (fetches, changed)
    }

    fn keep(&mut self, result: Bytes) {
        if self.pool.len() < POOL && !result.is_empty() {
            // A result that is being served, or that another rank of this process shares, is freed by its last owner.
            self.pool.extend(result.try_into_mut().ok());
        }
    }

    /// A buffer of this length; what is in it doesn't matter.
    pub(super) fn buffer(&mut self, length: usize) -> BytesMut {
        let fits = |buffer: &BytesMut| buffer.len() >= length && buffer.len() / 2 <= length;
        match self.pool.iter().position(fits) {
            Some(index) => {
                let mut buffer = self.pool.swap_remove(index);
                buffer.truncate(length);
                buffer
            }
            None => BytesMut::zeroed(length),
        }
    }

    /// A buffer that was not needed after all.
    pub(super) fn give_back(&mut self, buffer: BytesMut) {
        if self.pool.len() < POOL && !buffer.is_empty() {
            self.pool.push(buffer);
        }
    }
}
