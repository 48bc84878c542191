//! Signals that ask this program to end.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::Arc;

/// Those that have come.
#[derive(Default)]
pub struct Caught {
    first: AtomicI32,
    count: AtomicU32,
}

impl Caught {
    /// The first one.
    pub fn first(&self) -> Option<i32> {
        Some(self.first.load(Ordering::Acquire)).filter(|signal| *signal != 0)
    }

    /// How many: who sends a second one doesn't want to wait.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }
}

/// Counts signals from now on, and tells each until that is not wanted any more. Of SIGHUP it doesn't hear where it was
/// started with that ignored, as by `nohup`. (SIGINT is ignored in whatever a script starts in the background, and is
/// for it nevertheless if it comes.)
///
/// # Errors
/// When they can't be watched for.
pub fn watch(mut tell: impl FnMut(i32) -> bool + Send + 'static) -> io::Result<Arc<Caught>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    let hears_hangup = ignored >> (SIGHUP - 1) & 1 == 0;
    let mut signals = Signals::new([SIGINT, SIGTERM].into_iter().chain(hears_hangup.then_some(SIGHUP)))?;
    let caught = Arc::new(Caught::default());
    let noted = caught.clone();
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            let _ = noted.first.compare_exchange(0, signal, Ordering::AcqRel, Ordering::Acquire);
            noted.count.fetch_add(1, Ordering::AcqRel);
            if !tell(signal) {
                return;
            }
        }
    })?;
    Ok(caught)
}
