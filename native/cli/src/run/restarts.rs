//! Whether a rank that died is started again, and when. A pure function of the deaths so far.

use rejoin_agent::protocol::words::times;
use std::collections::BTreeMap;
use std::time::Duration;

/// An incarnation that lived this long was well: the next pause is none again.
const WELL: Duration = Duration::from_secs(10);
/// Pause before the second restart in a row; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Pauses grow no longer than this.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What is done about a death.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The next attempt is started after this pause.
    Again {
        /** Its number. */
        attempt: u32,
        /** How long. */
        after: Duration,
    },
    /// It stays dead, and the job with it.
    GiveUp {
        /** In words. */
        reason: String,
    },
}

#[derive(Default)]
struct Deaths {
    starts: u32,
    count: u32,
    in_a_row: u32,
}

impl Deaths {
    fn pause(&self) -> Duration {
        // The first comes at once: others wait for the rank.
        let doublings = self.in_a_row.saturating_sub(2).min(16);
        let pause = FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE);
        if self.in_a_row == 1 {
            Duration::ZERO
        } else {
            pause
        }
    }
}

/// The deaths of all ranks.
pub struct Restarts {
    limit: u32,
    deaths: BTreeMap<u32, Deaths>,
}

impl Restarts {
    /// Each rank may be started again so often; 0 is never.
    pub fn new(limit: u32) -> Self {
        Restarts { limit, deaths: BTreeMap::new() }
    }

    /// An attempt of a rank died after it had lived so long.
    pub fn died(&mut self, rank: u32, lived: Duration) -> Decision {
        let limit = self.limit;
        let deaths = self.deaths.entry(rank).or_default();
        deaths.count += 1;
        deaths.in_a_row = if lived >= WELL { 1 } else { deaths.in_a_row + 1 };
        if limit == 0 {
            let reason = "ranks are started again only with --restart".to_string();
            return Decision::GiveUp { reason };
        }
        if deaths.count > limit {
            let reason = format!("it was started again {} already; raise --restarts to allow more", times(limit));
            return Decision::GiveUp { reason };
        }
        deaths.starts += 1;
        Decision::Again { attempt: deaths.starts, after: deaths.pause() }
    }

    /// The connection to a rank's process on another host has ended, after it had lived so long: that says nothing
    /// about the rank, so it uses up no restart. How long the rank may be missing is the job's to say.
    pub fn connection_ended(&mut self, rank: u32, lived: Duration) -> Decision {
        if self.limit == 0 {
            return self.died(rank, lived);
        }
        let deaths = self.deaths.entry(rank).or_default();
        deaths.in_a_row = if lived >= WELL { 1 } else { deaths.in_a_row + 1 };
        deaths.starts += 1;
        Decision::Again { attempt: deaths.starts, after: deaths.pause() }
    }

    /// An attempt of a rank has ended because all ranks were sent back to an older version: that is no death.
    pub fn sent_back(&mut self, rank: u32) -> Decision {
        if self.limit == 0 {
            return self.died(rank, Duration::ZERO);
        }
        let deaths = self.deaths.entry(rank).or_default();
        deaths.starts += 1;
        Decision::Again { attempt: deaths.starts, after: Duration::ZERO }
    }

    /// A rank that was given up is started again, since there is a slot for it: with all its restarts. The attempt's
    /// number.
    pub fn comes_back(&mut self, rank: u32) -> u32 {
        let deaths = self.deaths.entry(rank).or_default();
        *deaths = Deaths { starts: deaths.starts + 1, ..Deaths::default() };
        deaths.starts
    }

    /// How often a rank was started again, or is about to be.
    pub fn of(&self, rank: u32) -> u32 {
        self.deaths.get(&rank).map_or(0, |deaths| deaths.starts)
    }

    /// All restarts so far.
    pub fn count(&self) -> u32 {
        self.deaths.values().map(|deaths| deaths.starts).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(decision: Decision) -> u128 {
        match decision {
            Decision::Again { after, .. } => after.as_millis(),
            Decision::GiveUp { reason } => panic!("given up: {reason}"),
        }
    }

    #[test]
    fn the_first_restart_comes_at_once_and_further_ones_after_longer_and_longer_pauses() {
        let mut restarts = Restarts::new(100);
        let pauses: Vec<u128> = (0..9).map(|_| pause(restarts.died(2, Duration::from_millis(5)))).collect();
        assert_eq!(pauses, [0, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(pause(restarts.died(3, Duration::ZERO)), 0, "another rank has pauses of its own");
    }

    #[test]
    fn a_rank_that_lived_for_long_is_started_again_at_once() {
        let mut restarts = Restarts::new(100);
        for _ in 0..4 {
            restarts.died(0, Duration::ZERO);
        }
        assert_eq!(pause(restarts.died(0, Duration::from_secs(60))), 0);
        assert_eq!(pause(restarts.died(0, Duration::ZERO)), 100);
    }

    #[test]
    fn a_rank_that_was_sent_back_is_started_again_at_once_and_that_counts_as_no_death() {
        let mut restarts = Restarts::new(1);
        assert_eq!(restarts.sent_back(1), Decision::Again { attempt: 1, after: Duration::ZERO });
        assert_eq!(restarts.sent_back(1), Decision::Again { attempt: 2, after: Duration::ZERO });
        assert_eq!(restarts.died(1, WELL), Decision::Again { attempt: 3, after: Duration::ZERO });
        assert!(matches!(restarts.died(1, WELL), Decision::GiveUp { .. }));
        assert_eq!(restarts.count(), 3);
    }

    #[test]
    fn a_connection_that_ends_uses_up_no_restart_and_is_made_again_after_longer_and_longer_pauses() {
        let mut restarts = Restarts::new(1);
        let pauses: Vec<u128> = (0..4).map(|_| pause(restarts.connection_ended(1, Duration::ZERO))).collect();
        assert_eq!(pauses, [0, 100, 200, 400]);
        assert_eq!(pause(restarts.connection_ended(1, WELL)), 0);
        assert!(matches!(restarts.died(1, WELL), Decision::Again { attempt: 6, .. }));
        assert!(matches!(restarts.died(1, WELL), Decision::GiveUp { .. }));
        assert!(matches!(Restarts::new(0).connection_ended(0, WELL), Decision::GiveUp { .. }));
    }

    #[test]
    fn a_rank_that_comes_back_has_all_its_restarts_again_and_no_attempts_number_twice() {
        let mut restarts = Restarts::new(1);
        assert_eq!(restarts.died(1, WELL), Decision::Again { attempt: 1, after: Duration::ZERO });
        assert!(matches!(restarts.died(1, WELL), Decision::GiveUp { .. }));
        assert_eq!(restarts.comes_back(1), 2);
        assert_eq!(restarts.died(1, WELL), Decision::Again { attempt: 3, after: Duration::ZERO });
        assert_eq!(restarts.comes_back(5), 1);
    }

    #[test]
    fn a_rank_that_dies_more_often_than_allowed_is_given_up_with_the_setting_that_allows_more() {
        let mut restarts = Restarts::new(2);
        assert_eq!(restarts.died(1, WELL), Decision::Again { attempt: 1, after: Duration::ZERO });
        assert_eq!(restarts.died(1, WELL), Decision::Again { attempt: 2, after: Duration::ZERO });
        let Decision::GiveUp { reason } = restarts.died(1, WELL) else { panic!("a third restart") };
        assert!(reason.contains("--restarts"), "{reason}");
        let Decision::GiveUp { reason } = Restarts::new(0).sent_back(0) else { panic!("a restart") };
        assert!(reason.contains("--restart"), "{reason}");
        let Decision::GiveUp { reason } = Restarts::new(0).died(0, WELL) else { panic!("a restart") };
        assert!(reason.contains("--restart"), "{reason}");
    }
}
