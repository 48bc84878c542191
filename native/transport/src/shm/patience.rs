//! How a rank waits for another one whose memory it watches.

use std::hint::spin_loop;
use std::thread;
use std::time::{Duration, Instant};

/// Looks without pause first, for as long as an answer from another core takes.
const SPINS: u32 = 64;

/// Then gives the core to whoever wants it, between two looks, for so long. It is also what a wait may take to be a short one.
const SHORT: Duration = Duration::from_micros(400);

/// Then sleeps, longer each time up to this.
const LONGEST: Duration = Duration::from_micros(500);

/// The core is given away while this is reached: a short wait adds one, a long one takes two.
const TRUST: u8 = 3;

/// The pauses between two looks at something that another rank is going to change: none at first, for the shortest
/// latency, then longer ones, so that a rank that waits for long doesn't take a core from those who compute.
///
/// Giving the core away is the quickest where ranks answer each other at once, and costs much where they compute between two
/// collectives: who gives its core away gives up its share of it for some milliseconds (Linux 6.18), and has none when the answer
/// comes. So waits are taken to be as the last ones were: where those were long, this one sleeps at once, and is woken.
#[derive(Clone, Debug)]
pub struct Patience {
    looks: u32,
    spins: u32,
    /// When this wait was seen to be more than a few looks.
    since: Option<Instant>,
    sleeps: u32,
    /// Grows with short waits.
    trust: u8,
}

impl Default for Patience {
    fn default() -> Self {
        Patience { looks: 0, spins: 0, since: None, sleeps: 0, trust: TRUST }
    }
}

impl Patience {
    /// For a wait of one rank out of `ranks` on this host. Where they have no core each, spinning only keeps the others
    /// from going on.
    pub fn new(ranks: usize) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Patience { spins: if ranks <= cores { SPINS } else { 0 }, ..Patience::default() }
    }

    /// Something has changed: the next wait begins anew.
    pub fn reset(&mut self) {
        self.reset_at(Instant::now);
    }

    fn reset_at(&mut self, now: impl FnOnce() -> Instant) {
        if self.looks == 0 {
            return;
        }
        let was_short = self.since.is_none_or(|since| now().duration_since(since) < SHORT);
        self.trust = if was_short { (self.trust + 1).min(TRUST) } else { self.trust.saturating_sub(2) };
        (self.looks, self.since, self.sleeps) = (0, None, 0);
    }

    /// Whether it has come to sleeping: whoever waits for a deadline looks at the clock from now on.
    pub fn is_long(&self) -> bool {
        self.sleeps > 0
    }

    /// Pauses.
    pub fn pause(&mut self) {
        match self.next(Instant::now) {
            Pause::Spin => spin_loop(),
            Pause::Yield => thread::yield_now(),
            Pause::Sleep(time) => thread::sleep(time),
            Pause::None => {}
        }
    }

    fn next(&mut self, now: impl FnOnce() -> Instant) -> Pause {
        self.looks = self.looks.saturating_add(1);
        if self.looks <= self.spins {
            return Pause::Spin;
        }
        if self.sleeps > 0 {
            let time = Duration::from_micros(u64::from(self.sleeps.min(50)) * 10).min(LONGEST);
            self.sleeps = self.sleeps.saturating_add(1);
            return Pause::Sleep(time);
        }
        let now = now();
        let since = *self.since.get_or_insert(now);
        if self.trust < TRUST || now.duration_since(since) >= SHORT {
            self.sleeps = 1;
            return Pause::None;
        }
        Pause::Yield
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Pause {
    Spin,
    Yield,
    Sleep(Duration),
    /// It has come to sleeping; whoever has a better way to sleep goes there.
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One wait that takes so long; whether the core was given away in it.
    fn wait(patience: &mut Patience, took: Duration) -> bool {
        let began = Instant::now();
        let mut yields = patience.next(|| began) == Pause::Yield;
        yields |= patience.next(|| began + took / 2) == Pause::Yield;
        patience.reset_at(|| began + took);
        yields
    }

    #[test]
    fn the_core_is_given_away_while_waits_are_short_and_not_after_a_long_one() {
        let (short, long) = (SHORT / 10, SHORT * 10);
        let mut patience = Patience::default();
        assert!(wait(&mut patience, short));
        assert!(wait(&mut patience, long), "nobody knows yet that it will be long");
        assert!(!wait(&mut patience, long));
        assert!(!wait(&mut patience, short), "one short wait is no habit");
        while !wait(&mut patience, short) {}
        assert!(wait(&mut patience, short));
    }

    #[test]
    fn a_wait_for_a_rank_that_has_a_core_spins_first() {
        let now = Instant::now();
        let mut patience = Patience { spins: 2, ..Patience::default() };
        assert_eq!([0; 3].map(|_| patience.next(|| now)), [Pause::Spin, Pause::Spin, Pause::Yield]);
        assert!(!patience.is_long());
        assert_eq!(patience.next(|| now + SHORT), Pause::None);
        assert!(patience.is_long());
        assert!(matches!(patience.next(|| now + SHORT), Pause::Sleep(_)));
    }
}
