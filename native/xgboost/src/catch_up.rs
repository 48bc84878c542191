//! How a restarted rank catches up, reported once.

use rejoin_protocol::channel::PhaseMark;
use rejoin_protocol::event::Event;
use rejoin_protocol::ids::{Incarnation, Phase, Rank};
use std::time::Instant;

/// What is counted for [`Event::CaughtUp`].
#[derive(Clone, Debug)]
pub(crate) struct CatchUp {
    restarted: bool,
    since: Instant,
    replayed: u64,
    reported: bool,
    first_round: Option<u32>,
    round: u32,
    regenerated_before: u64,
}

impl CatchUp {
    /// An incarnation was given its start just now. The channels of a hooked one carry too little
    /// to know by them when it has caught up: its collectives show it.
    pub(crate) fn new(incarnation: Incarnation, hooked: bool) -> Self {
        CatchUp {
            restarted: incarnation.number > 0,
            since: Instant::now(),
            replayed: 0,
            reported: hooked,
            first_round: None,
            round: 0,
            regenerated_before: 0,
        }
    }

    /// The worker entered a phase, having regenerated so many bytes by then.
    pub(crate) fn entered(&mut self, phase: Phase, mark: PhaseMark, regenerated: u64) {
        if let Phase::Version(_) = phase {
            self.begins(mark.round, regenerated);
        }
        self.regenerated_before = regenerated;
    }

    /// The worker begins a round, having regenerated so many bytes by then.
    pub(crate) fn begins(&mut self, round: u32, regenerated: u64) {
        self.first_round.get_or_insert(round);
        self.round = round;
        self.regenerated_before = regenerated;
    }

    /// Bytes came for the worker. True for the first ones of a restarted worker: the replay has begun.
    pub(crate) fn arrived(&mut self, bytes: u64) -> bool {
        let first = self.restarted && self.replayed == 0 && bytes > 0;
        self.replayed += bytes;
        first
    }

    /// Whether it is still to be found out if the worker has caught up.
    pub(crate) fn is_open(&self) -> bool {
        self.restarted && !self.reported
    }

    /// The worker has produced bytes that no peer had yet, and nothing is left to be compared.
    pub(crate) fn caught_up(&mut self, rank: Rank, incarnation: Incarnation, regenerated: u64) -> Event {
        self.reported = true;
        let whole = self.first_round.map_or(0, |first| self.round.saturating_sub(first));
        let begun = u32::from(self.first_round.is_some() && regenerated > self.regenerated_before);
        Event::CaughtUp {
            rank,
            incarnation,
            replayed_in: self.replayed,
            regenerated,
            rounds_again: whole + begun,
            millis: self.since.elapsed().as_millis() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_protocol::ids::Version;

    fn mark(round: u32) -> PhaseMark {
        PhaseMark { round, checkpoint: 0 }
    }

    #[test]
    fn rounds_that_were_begun_again_are_counted() {
        let mut catch_up = CatchUp::new(Incarnation::nth(1), false);
        assert!(catch_up.arrived(100));
        assert!(!catch_up.arrived(50));
        catch_up.entered(Phase::Boot, mark(0), 0);
        catch_up.entered(Phase::Version(Version(3)), mark(7), 500);
        let Event::CaughtUp { replayed_in, regenerated, rounds_again, .. } =
            catch_up.caught_up(Rank(1), Incarnation::nth(1), 600)
        else {
            panic!("another event")
        };
        assert_eq!((replayed_in, regenerated, rounds_again), (150, 600, 1));
        assert!(!catch_up.is_open());
    }

    #[test]
    fn rounds_within_one_version_are_counted_each() {
        for (regenerated, expected) in [(900, 2), (901, 3)] {
            let mut catch_up = CatchUp::new(Incarnation::nth(1), false);
            catch_up.entered(Phase::Version(Version(3)), mark(7), 500);
            catch_up.begins(8, 700);
            catch_up.begins(9, 900);
            let reported = catch_up.caught_up(Rank(1), Incarnation::nth(1), regenerated);
            assert!(
                matches!(reported, Event::CaughtUp { rounds_again, .. } if rounds_again == expected),
                "{reported:?}"
            );
        }
    }

    #[test]
    fn the_first_replayed_bytes_of_a_hooked_rank_are_its_first_only_once() {
        let mut catch_up = CatchUp::new(Incarnation::nth(1), true);
        assert_eq!([100, 50].map(|bytes| catch_up.arrived(bytes)), [true, false]);
        assert!(!catch_up.is_open(), "its collectives show when it has caught up");
    }

    #[test]
    fn a_first_incarnation_has_no_story() {
        let mut catch_up = CatchUp::new(Incarnation::nth(0), false);
        assert!(!catch_up.arrived(100) && !catch_up.is_open());
    }
}
