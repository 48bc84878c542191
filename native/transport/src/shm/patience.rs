//! How a rank waits for another one whose memory it watches.

use std::hint::spin_loop;
use std::thread;
use std::time::Duration;

/// Looks without pause first, for as long as an answer from another core takes.
const SPINS: u32 = 64;

/// Then gives the core to whoever wants it, between two looks.
const YIELDS: u32 = 2000;

/// Then sleeps, longer each time up to this.
const LONGEST: Duration = Duration::from_micros(500);

/// The pauses between two looks at something that another rank is going to change: none at first, for the shortest
/// latency, then longer ones, so that a rank that waits for long doesn't take a core from those who compute.
#[derive(Clone, Debug, Default)]
pub struct Patience {
    looks: u32,
    spins: u32,
}

impl Patience {
    /// For a wait of one rank out of `ranks` on this host. Where they have no core each, spinning only keeps the others
    /// from going on.
    pub fn new(ranks: usize) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Patience { looks: 0, spins: if ranks <= cores { SPINS } else { 0 } }
    }

    /// Something has changed: the next wait begins anew.
    pub fn reset(&mut self) {
        self.looks = 0;
    }

    /// Whether it has come to sleeping: whoever waits for a deadline looks at the clock from now on.
    pub fn is_long(&self) -> bool {
        self.looks > self.spins + YIELDS
    }

    /// Pauses.
    pub fn pause(&mut self) {
        self.looks = self.looks.saturating_add(1);
        if self.looks <= self.spins {
            spin_loop();
        } else if self.looks <= self.spins + YIELDS {
            thread::yield_now();
        } else {
            let sleeps = self.looks - self.spins - YIELDS;
            thread::sleep(Duration::from_micros(u64::from(sleeps.min(50)) * 10).min(LONGEST));
        }
    }
}
