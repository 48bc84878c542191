//! How a thread waits that looks again and again at what another rank is going to change: when to
//! spin, when to give its core away, and when to sleep.

use std::hint::spin_loop;
use std::ops::RangeInclusive;
use std::thread;
use std::time::{Duration, Instant};

/// Looks without pause, for as long as an answer from another core takes.
const SPINS: u32 = 64;

/// What a wait may take to be a short one. After a wait of so long a thread sleeps.
const SHORT: Duration = Duration::from_micros(400);

/// Cores are given away while this is reached: a short wait adds one, a long one takes two.
const TRUST: u8 = 3;

/// A core that comes back as late was lost to something else: ranks that share it fold for less,
/// and another program keeps it for a slice (1.4 ms and more).
const LOST: Duration = Duration::from_millis(1);

/// A core that was lost isn't given away again for so many times as long. What takes a core now and
/// then, as any machine's own work does, costs the fewest; where it is lost again as soon as it is
/// given away, the number doubles up to the most: then at most one part in so many of a rank's time
/// goes into finding out whether anything else still wants the core.
const FORBEARANCE: RangeInclusive<u32> = 4..=64;

/// At most so long. (A process may have been stopped for an hour.)
const LONGEST: Duration = Duration::from_secs(10);

/// What the waits of one rank have been like, and how it waits next: spinning at first, for the
/// shortest latency, then giving its core away between two looks, then asleep.
///
/// Giving the core away is the quickest where ranks answer each other at once: they are often put
/// on one core, and a core that sleeps takes long to be woken. It costs much in two cases, both of
/// which the waits show:
///
/// - Ranks that compute between two collectives, or are more than there are cores, wait for long. A
///   wait is taken to be as the last ones were: where those were long, the rank sleeps at once.
/// - Where anything else wants the core, a rank that gives it away gives up its share of it for
///   some milliseconds (Linux 6.18), and has no core when the answer comes; a sleeper that is woken
///   has one at once. This shows in the time until the core is back.
///
/// It has no clock: the caller gives the time, and is asked for it only when it matters.
#[derive(Clone, Debug)]
pub struct Backoff {
    looks: u32,
    /// When this wait was seen to be more than a few looks.
    since: Option<Instant>,
    /// When the core was last given away in this wait.
    gave: Option<Instant>,
    sleeps: bool,
    /// Grows with short waits.
    trust: u8,
    /// From when and until when the core isn't given away, because it was lost.
    forbears: Option<(Instant, Instant)>,
    /// How many times as long as it was lost.
    forbearance: u32,
}

/// What to do before the next look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Nothing.
    Spin,
    /// Let others use the core.
    Yield,
    /// Sleep until woken.
    Park,
}

impl Default for Backoff {
    fn default() -> Self {
        let forbearance = *FORBEARANCE.start();
        Backoff { looks: 0, since: None, gave: None, sleeps: false, trust: TRUST, forbears: None, forbearance }
    }
}

impl Backoff {
    /// How many looks are worth a spin where `ranks` of this host look at each other's memory:
    /// where they have no core each, spinning only keeps the others from going on.
    pub fn spins(ranks: usize) -> u32 {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        if ranks <= cores {
            SPINS
        } else {
            0
        }
    }

    /// What to do after a look that has shown nothing new; the first `spins` ones of a wait cost nothing.
    pub fn next(&mut self, spins: u32, now: impl FnOnce() -> Instant) -> Pause {
        if self.sleeps {
            return Pause::Park;
        }
        self.looks = self.looks.saturating_add(1);
        if self.looks <= spins {
            return Pause::Spin;
        }
        let now = now();
        self.has_core_back(now);
        let since = *self.since.get_or_insert(now);
        let forbears = self.forbears.is_some_and(|(_, until)| now < until);
        if forbears || self.trust < TRUST || now.duration_since(since) >= SHORT {
            self.sleeps = true;
            return Pause::Park;
        }
        self.gave = Some(now);
        Pause::Yield
    }

    /// What was waited for is there: the next wait begins anew.
    pub fn over(&mut self, now: impl FnOnce() -> Instant) {
        if let Some(since) = self.since.take() {
            let now = now();
            self.has_core_back(now);
            let is_short = now.duration_since(since) < SHORT;
            self.trust = if is_short { (self.trust + 1).min(TRUST) } else { self.trust.saturating_sub(2) };
        }
        (self.looks, self.sleeps) = (0, false);
    }

    /// Pauses as it should; false where it should sleep, which is the caller's to do.
    pub fn pause(&mut self, spins: u32) -> bool {
        match self.next(spins, Instant::now) {
            Pause::Spin => spin_loop(),
            Pause::Yield => thread::yield_now(),
            Pause::Park => return false,
        }
        true
    }

    fn has_core_back(&mut self, now: Instant) {
        let Some(gave) = self.gave.take() else { return };
        let lost = now.duration_since(gave);
        if lost >= LOST {
            let soon = self.forbears.is_some_and(|(from, until)| gave < until + (until - from));
            self.forbearance = if soon { self.forbearance * 2 } else { 0 };
            self.forbearance = self.forbearance.clamp(*FORBEARANCE.start(), *FORBEARANCE.end());
            self.forbears = Some((now, now + lost.saturating_mul(self.forbearance).min(LONGEST)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One wait that takes so long, and in which the core, if it is given away, comes back after
    /// such a time; whether it was.
    fn wait(backoff: &mut Backoff, clock: &mut Instant, took: Duration, away: Duration) -> bool {
        let end = *clock + took;
        let mut gave = false;
        while backoff.next(0, || *clock) == Pause::Yield {
            gave = true;
            *clock += away;
            if *clock >= end {
                break;
            }
        }
        *clock = end.max(*clock);
        backoff.over(|| *clock);
        gave
    }

    const QUICK: Duration = Duration::from_micros(1);

    #[test]
    fn the_core_is_given_away_while_waits_are_short_and_not_after_a_long_one() {
        let (short, long) = (SHORT / 10, SHORT * 10);
        let (mut backoff, mut clock) = (Backoff::default(), Instant::now());
        assert!(wait(&mut backoff, &mut clock, short, QUICK));
        assert!(wait(&mut backoff, &mut clock, long, QUICK), "nothing says yet that it will be long");
        assert!(!wait(&mut backoff, &mut clock, long, QUICK));
        assert!(!wait(&mut backoff, &mut clock, short, QUICK), "one short wait is no habit");
        let waits = (0..10).find(|_| wait(&mut backoff, &mut clock, short, QUICK));
        assert!(waits.is_some(), "short waits are a habit again");
        assert!(wait(&mut backoff, &mut clock, short, QUICK));
    }

    #[test]
    fn a_core_that_others_want_is_hardly_ever_given_away_however_short_the_waits_are() {
        let (short, slice) = (SHORT / 10, Duration::from_millis(4));
        let (mut backoff, mut clock) = (Backoff::default(), Instant::now());
        let began = clock;
        let lost = (0..100_000).filter(|_| wait(&mut backoff, &mut clock, short, slice)).count() as u32;
        let all = clock - began;
        assert!(lost >= 2, "it is tried again now and then");
        assert!(slice * lost < all / 50, "{lost} times {slice:?} of {all:?}");
    }

    #[test]
    fn a_core_that_is_lost_now_and_then_is_given_away_nearly_always() {
        let (mut backoff, mut clock) = (Backoff::default(), Instant::now());
        let (mut given, mut waits) = (0, 0);
        for _ in 0..20 {
            wait(&mut backoff, &mut clock, SHORT / 10, LOST * 2);
            let disturbed = clock;
            while clock - disturbed < LOST * 100 {
                given += u32::from(wait(&mut backoff, &mut clock, SHORT / 10, QUICK));
                waits += 1;
            }
        }
        assert!(given > waits / 10 * 9, "{given} of {waits}");
    }

    #[test]
    fn ranks_that_share_a_core_and_fold_in_turn_go_on_giving_it_away() {
        let (mut backoff, mut clock) = (Backoff::default(), Instant::now());
        for _ in 0..100 {
            wait(&mut backoff, &mut clock, SHORT * 2, SHORT * 2);
            let again = (0..3).any(|_| wait(&mut backoff, &mut clock, SHORT / 10, QUICK));
            assert!(again, "two short waits after a long one are enough");
        }
    }

    #[test]
    fn a_core_that_nothing_else_wants_any_more_is_given_away_again_within_seconds() {
        let (short, slice) = (SHORT / 10, Duration::from_millis(4));
        let (mut backoff, mut clock) = (Backoff::default(), Instant::now());
        assert!(wait(&mut backoff, &mut clock, short, slice));
        let quiet = clock;
        while !wait(&mut backoff, &mut clock, short, QUICK) {
            assert!(clock - quiet < Duration::from_secs(2));
        }
        assert!(wait(&mut backoff, &mut clock, short, QUICK), "and from then on in each wait");
    }

    #[test]
    fn a_process_that_was_stopped_for_an_hour_gives_its_core_away_again_soon() {
        let (mut backoff, mut clock) = (Backoff::default(), Instant::now());
        wait(&mut backoff, &mut clock, SHORT, Duration::from_secs(3600));
        let woken = clock;
        while !wait(&mut backoff, &mut clock, SHORT / 10, QUICK) {
            assert!(clock - woken < LONGEST * 2);
        }
    }

    #[test]
    fn a_wait_for_a_rank_that_has_a_core_spins_first_and_asks_for_no_time() {
        let mut backoff = Backoff::default();
        let spins = [0; 2].map(|_| backoff.next(2, || unreachable!("a look at the clock costs more than a spin")));
        assert_eq!(spins, [Pause::Spin; 2]);
        backoff.over(|| unreachable!("the wait was none"));
        let now = Instant::now();
        assert_eq!([0; 3].map(|_| backoff.next(2, || now)), [Pause::Spin, Pause::Spin, Pause::Yield]);
        assert_eq!(backoff.next(2, || now + SHORT), Pause::Park);
        assert_eq!(backoff.next(2, || unreachable!("who sleeps looks at no clock here")), Pause::Park);
    }
}
