//! Whether the program around the agents of this process runs.
//!
//! A JVM that collects garbage stops its threads, but not an agent's, which goes on answering: the
//! process isn't lost, and its ranks don't move. A thread of the program that beats here now and
//! then tells the two apart. Who never beats isn't judged.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Silence from which on a program is slow. A thread that beats is seldom off its core for as long.
const SLOW: Duration = Duration::from_secs(1);

const RESTS: u64 = u64::MAX;

static LAST: AtomicU64 = AtomicU64::new(RESTS);

fn clock() -> u64 {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    u64::try_from(BEGAN.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(RESTS - 1)
}

/// The program runs; it beats again soon, or [`rest`]s.
pub fn beat() {
    LAST.store(clock(), Ordering::Relaxed);
}

/// No beat is expected any more.
pub fn rest() {
    LAST.store(RESTS, Ordering::Relaxed);
}

/// How long no beat has come; `None` where none is expected.
pub(crate) fn silence() -> Option<Duration> {
    let last = LAST.load(Ordering::Relaxed);
    (last != RESTS).then(|| Duration::from_millis(clock().saturating_sub(last)))
}

/// What has changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// No beat has come for so long.
    Slow(Duration),
    /// Beats come again, after so long.
    Runs(Duration),
}

/// What was told of a program.
#[derive(Default)]
pub(crate) struct Pulse {
    silent: Option<Duration>,
}

impl Pulse {
    /// Judges a look; the silence is told when it begins to be long, and when it has ended.
    pub(crate) fn look(&mut self, silence: Option<Duration>) -> Option<Change> {
        match (self.silent, silence) {
            (None, Some(now)) if now >= SLOW => {
                self.silent = Some(now);
                Some(Change::Slow(now))
            }
            (Some(_), Some(now)) if now >= SLOW => {
                self.silent = Some(now);
                None
            }
            (Some(longest), _) => {
                self.silent = None;
                Some(Change::Runs(longest))
            }
            (None, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(of: f32) -> Option<Duration> {
        Some(Duration::from_secs_f32(of))
    }

    #[test]
    fn a_long_silence_is_told_once_when_it_is_long_and_once_when_it_is_over() {
        let mut pulse = Pulse::default();
        assert_eq!(pulse.look(seconds(0.9)), None);
        assert_eq!(pulse.look(seconds(1.0)), Some(Change::Slow(Duration::from_secs(1))));
        assert_eq!(pulse.look(seconds(4.0)), None);
        assert_eq!(pulse.look(seconds(0.1)), Some(Change::Runs(Duration::from_secs(4))));
        assert_eq!(pulse.look(seconds(0.2)), None);
        assert_eq!(pulse.look(seconds(2.0)), Some(Change::Slow(Duration::from_secs(2))));
    }

    #[test]
    fn a_program_that_beats_no_more_on_purpose_is_not_slow() {
        let mut pulse = Pulse::default();
        assert_eq!(pulse.look(None), None);
        assert!(pulse.look(seconds(3.0)).is_some());
        assert_eq!(pulse.look(None), Some(Change::Runs(Duration::from_secs(3))));
        assert_eq!(pulse.look(None), None);
    }
}
