//! How long a rank sleeps at a time that waits for others' steps in shared memory.

use std::time::Duration;

/// The first sleeps.
const SHORTEST: Duration = Duration::from_millis(2);
/// What a rank hears late at the most that comes otherwise than by a publish: a new plan, the end of its job.
const LONGEST: Duration = Duration::from_millis(32);
/// A look at the links is a system call for each rank that is waited for.
const BETWEEN_LOOKS: Duration = Duration::from_millis(32);

/// The sleeps of one wait. A publish that is waited for ends a sleep, so their length matters only to what
/// is looked at between them. It grows with the wait, by an eighth of it: what comes after a short
/// wait is seen soon, and a rank that waits for seconds, because another rank is slow or comes back, wakes
/// some thirty times a second instead of five hundred.
#[derive(Debug, Default)]
pub(super) struct PollInterval {
    slept: Duration,
    since_look: Option<Duration>,
}

impl PollInterval {
    /// Others have published: the wait begins anew.
    pub(super) fn begin_again(&mut self) {
        self.slept = Duration::ZERO;
    }

    /// Whether links are to be looked at: before the first sleep, and now and then.
    pub(super) fn looks_at_links(&mut self) -> bool {
        let is_due = self.since_look.is_none_or(|since| since >= BETWEEN_LOOKS);
        if is_due {
            self.since_look = Some(Duration::ZERO);
        }
        is_due
    }

    /// How long to sleep now at the most.
    pub(super) fn next(&mut self) -> Duration {
        let interval = (self.slept / 8).clamp(SHORTEST, LONGEST);
        self.slept += interval;
        self.since_look = self.since_look.map(|since| since + interval);
        interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many sleeps this time takes.
    fn poll_intervals_of(poll_interval: &mut PollInterval, time: Duration) -> u32 {
        let (mut slept, mut count) = (Duration::ZERO, 0);
        while slept < time {
            slept += poll_interval.next();
            count += 1;
        }
        count
    }

    #[test]
    fn naps_are_short_at_first_and_few_in_a_long_wait() {
        let mut poll_interval = PollInterval::default();
        assert_eq!(poll_intervals_of(&mut poll_interval, Duration::from_millis(10)), 5);
        poll_intervals_of(&mut poll_interval, Duration::from_millis(500));
        assert!(poll_intervals_of(&mut poll_interval, Duration::from_secs(1)) <= 32);
        poll_interval.begin_again();
        assert_eq!(poll_intervals_of(&mut poll_interval, Duration::from_millis(10)), 5);
    }

    #[test]
    fn nothing_is_seen_later_than_by_an_eighth_of_the_wait_or_by_the_shortest_nap() {
        let mut poll_interval = PollInterval::default();
        let mut waited = Duration::ZERO;
        for _ in 0..1000 {
            let interval = poll_interval.next();
            assert!(interval <= SHORTEST.max(waited / 8) && interval <= LONGEST, "{interval:?} after {waited:?}");
            waited += interval;
        }
    }

    #[test]
    fn links_are_looked_at_before_the_first_nap_and_as_often_in_a_long_wait_as_in_a_short_one() {
        let mut poll_interval = PollInterval::default();
        let mut waited = Duration::ZERO;
        let mut last = None;
        for _ in 0..500 {
            if poll_interval.looks_at_links() {
                if let Some(last) = last {
                    assert!((BETWEEN_LOOKS..BETWEEN_LOOKS * 2).contains(&(waited - last)), "{last:?} {waited:?}");
                }
                last = Some(waited);
                assert!(!poll_interval.looks_at_links(), "once");
            }
            assert!(last.is_some());
            waited += poll_interval.next();
        }
    }
}
