//! How a restarted rank catches up, counted until it is reported.

use rejoin_protocol::event::Event;
use rejoin_protocol::ids::MemberId;
use std::time::Instant;

/// What is counted for [`Event::CaughtUp`].
pub(super) struct CatchUp {
    since: Instant,
    replayed_bytes: u64,
    rounds: Option<Rounds>,
    /// The round that this process's rank was in when it was sent back.
    sent_back_in: Option<u32>,
}

/// Where a rank that was started again is.
#[derive(Clone, Copy)]
struct Rounds {
    /// The first round that it computed.
    first: u32,
    /// The one that it is in.
    now: u32,
    /// How many collectives its version had before that.
    calls_before: u32,
}

impl CatchUp {
    /// Of an incarnation that begins; a rank's first one has nothing to catch up with. One that goes on after its
    /// process was sent back in a round does all up to that one again.
    pub(super) fn of(member: MemberId, sent_back_in: Option<u32>) -> Option<CatchUp> {
        let catch_up = CatchUp { since: Instant::now(), replayed_bytes: 0, rounds: None, sent_back_in };
        (member.incarnation.number > 0).then_some(catch_up)
    }

    /// A result was a recorded one.
    pub(super) fn replayed(&mut self, bytes: u64) {
        self.replayed_bytes += bytes;
    }

    /// A round begins.
    pub(super) fn begins(&mut self, now: u32, calls_before: u32) {
        let first = self.rounds.map_or(now, |rounds| rounds.first);
        self.rounds = Some(Rounds { first, now, calls_before });
    }

    /// Whether the rank goes on in another world, whose boot calls are new ones, and hasn't come to a round of it yet.
    pub(super) fn is_before_its_rounds(&self) -> bool {
        self.sent_back_in.is_some() && self.rounds.is_none()
    }

    /// In which round it was sent back before, and hasn't come to again.
    pub(super) fn sent_back_in(&self) -> Option<u32> {
        self.sent_back_in
    }

    /// No rank had the result of the last call before; its version has had so many calls with it.
    pub(super) fn caught_up(self, member: MemberId, calls: u32) -> Event {
        // Of its present round nothing was computed before if the call that is over, its first one, is new.
        let again = |Rounds { first, now, calls_before }: Rounds| {
            let replayed = now.saturating_sub(first) + u32::from(calls > calls_before + 1);
            replayed.max(self.sent_back_in.map_or(0, |last| (last + 1).saturating_sub(first)))
        };
        Event::CaughtUp {
            rank: member.rank,
            incarnation: member.incarnation,
            replayed_in: self.replayed_bytes,
            regenerated: 0,
            rounds_again: self.rounds.map_or(0, again),
            millis: self.since.elapsed().as_millis() as u64,
        }
    }
}
