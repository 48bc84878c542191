//! How a rank spends its time, folded into few facts: what a timeline is drawn from.
//!
//! A loop may make ten thousand collectives in a second. A report of each would cost more than the
//! collectives, so short activities are added up over a stretch, and only long ones stand alone.
//! Times are microseconds of the driver's clock.

use crate::ids::Rank;
use alloc::collections::VecDeque;
use serde::{Deserialize, Serialize};

/// An activity this long gets a stretch of its own.
const LONG_MICROS: u64 = 2_000;
/// Short activities are added up until they are this long together.
const WINDOW_MICROS: u64 = 10_000;
/// Stretches that were not taken; when there are more, the oldest are forgotten.
const LIMIT: usize = 4_096;

/// What a rank does at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The caller's own code, between two calls.
    Computing,
    /// In a call, moving or reducing bytes.
    Exchanging,
    /// In a call that can't go on before something comes from others; the rank is one of those, if that is known.
    Waiting(Option<Rank>),
    /// In a call whose result is recorded: fetched from a peer or copied from the log.
    Replaying,
}

/// A stretch of time of one rank. What is neither computing, waiting nor replaying was exchanging. All in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// How long.
    pub micros: u64,
    /// Of that, in the caller's own code.
    pub computing_micros: u64,
    /// Of that, waiting for others.
    pub waiting_micros: u64,
    /// Of that, being handed recorded results.
    pub replaying_micros: u64,
    /// The rank that it waited for longest at one time.
    pub waited_for: Option<Rank>,
    /// Calls that ended in it.
    pub calls: u32,
}

/// The profile of one rank. Report every change of activity with [`Profile::begin`]; take finished stretches with
/// [`Profile::take`].
#[derive(Debug)]
pub struct Profile {
    activity: Activity,
    since: u64,
    open: Stretch,
    longest_wait: u64,
    done: VecDeque<(Stretch, u64)>,
}

impl Profile {
    /// A rank that computes from now on.
    pub fn new(now: u64) -> Self {
        Profile {
            activity: Activity::Computing,
            since: now,
            open: Stretch::default(),
            longest_wait: 0,
            done: VecDeque::new(),
        }
    }

    /// From now on the rank does this. Time that runs backwards counts as no time.
    pub fn begin(&mut self, activity: Activity, now: u64) {
        let micros = now.saturating_sub(self.since);
        if micros >= LONG_MICROS {
            self.close(now - micros);
        }
        self.add(micros);
        if activity == Activity::Computing && self.activity != Activity::Computing {
            self.open.calls += 1;
        }
        if micros >= LONG_MICROS || self.open.micros >= WINDOW_MICROS {
            self.close(now);
        }
        self.activity = activity;
        self.since = self.since.max(now);
    }

    /// What has gone on since the last change is this, which is known only now.
    pub fn turns_out(&mut self, activity: Activity) {
        self.activity = activity;
    }

    /// The oldest finished stretch and when it ended. `now` closes a stretch that has grown long enough, also in the
    /// middle of an activity, so that what a rank is at is known before it has ended.
    pub fn take(&mut self, now: u64) -> Option<(Stretch, u64)> {
        if now.saturating_sub(self.since) >= WINDOW_MICROS {
            self.begin(self.activity, now);
        }
        self.done.pop_front()
    }

    /// Closes what is open, because the rank is over.
    pub fn end(&mut self, now: u64) {
        self.begin(Activity::Computing, now);
        self.close(now);
    }

    fn add(&mut self, micros: u64) {
        self.open.micros += micros;
        match self.activity {
            Activity::Computing => self.open.computing_micros += micros,
            Activity::Exchanging => {}
            Activity::Replaying => self.open.replaying_micros += micros,
            Activity::Waiting(rank) => {
                self.open.waiting_micros += micros;
                if micros >= self.longest_wait && rank.is_some() {
                    self.longest_wait = micros;
                    self.open.waited_for = rank;
                }
            }
        }
    }

    fn close(&mut self, at: u64) {
        let stretch = core::mem::take(&mut self.open);
        self.longest_wait = 0;
        if stretch.micros == 0 {
            // Calls that took no measurable time belong to the next stretch.
            self.open.calls = stretch.calls;
            return;
        }
        if self.done.len() == LIMIT {
            self.done.pop_front();
        }
        self.done.push_back((stretch, at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn all(profile: &mut Profile, now: u64) -> Vec<(Stretch, u64)> {
        profile.end(now);
        core::iter::from_fn(|| profile.take(now)).collect()
    }

    #[test]
    fn a_long_wait_stands_alone_with_whom_it_was_for() {
        let mut profile = Profile::new(0);
        profile.begin(Activity::Exchanging, 300);
        profile.begin(Activity::Waiting(Some(Rank(3))), 400);
        profile.begin(Activity::Exchanging, 50_400);
        profile.begin(Activity::Computing, 50_500);
        let reported = all(&mut profile, 50_700);
        assert_eq!(reported.len(), 3);
        assert_eq!(reported[0].0, Stretch { micros: 400, computing_micros: 300, ..Stretch::default() });
        let wait = Stretch { micros: 50_000, waiting_micros: 50_000, waited_for: Some(Rank(3)), ..Stretch::default() };
        assert_eq!(reported[1], (wait, 50_400));
        assert_eq!(reported[2].0, Stretch { micros: 300, computing_micros: 200, calls: 1, ..Stretch::default() });
    }

    #[test]
    fn thousands_of_short_calls_become_one_stretch_in_ten_milliseconds_and_no_time_is_lost() {
        let mut profile = Profile::new(0);
        for call in 0..5_000u64 {
            profile.begin(Activity::Exchanging, call * 100 + 60);
            profile.begin(Activity::Computing, call * 100 + 100);
        }
        let reported = all(&mut profile, 500_000);
        assert!(reported.len() <= 51, "{} stretches", reported.len());
        assert_eq!(reported.iter().map(|(stretch, _)| stretch.micros).sum::<u64>(), 500_000);
        assert_eq!(reported.iter().map(|(stretch, _)| stretch.computing_micros).sum::<u64>(), 300_000);
        assert_eq!(reported.iter().map(|(stretch, _)| stretch.calls).sum::<u32>(), 5_000);
    }

    #[test]
    fn a_wait_that_goes_on_is_told_of_before_it_ends() {
        let mut profile = Profile::new(0);
        profile.begin(Activity::Waiting(Some(Rank(1))), 10);
        assert_eq!(profile.take(5_000), None);
        let (before, _) = profile.take(60_010).expect("the wait closed the computing before it");
        assert_eq!(before.computing_micros, 10);
        let (wait, ended) = profile.take(60_010).expect("a wait of 60 ms is long enough to be reported");
        assert_eq!((wait.waiting_micros, ended), (60_000, 60_010));
        profile.begin(Activity::Computing, 70_010);
        assert_eq!(profile.take(70_010).map(|(stretch, _)| stretch.waiting_micros), Some(10_000));
    }

    #[test]
    fn a_call_that_turns_out_to_have_a_recorded_result_was_replaying_all_the_while() {
        let mut profile = Profile::new(0);
        profile.begin(Activity::Exchanging, 100);
        profile.turns_out(Activity::Replaying);
        profile.begin(Activity::Computing, 400);
        assert_eq!(all(&mut profile, 400)[0].0.replaying_micros, 300);
    }

    #[test]
    fn a_clock_that_runs_backwards_counts_as_no_time() {
        let mut profile = Profile::new(1_000);
        profile.begin(Activity::Exchanging, 900);
        profile.begin(Activity::Computing, 1_500);
        let reported = all(&mut profile, 1_500);
        assert_eq!(reported.iter().map(|(stretch, _)| stretch.micros).sum::<u64>(), 500);
    }

    #[test]
    fn a_profile_that_nobody_reads_forgets_the_oldest() {
        let mut profile = Profile::new(0);
        for i in 0..10_000u64 {
            profile.begin(Activity::Exchanging, i * 10_000);
        }
        assert_eq!(all(&mut profile, 100_000_000).len(), LIMIT);
    }
}
