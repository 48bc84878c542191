//! **Bounded.** While everybody is there and has caught up, a rank keeps the results of two
//! versions: the present one and the one before it. (While somebody is missing or behind more are
//! kept, because it may need them.)

use super::{Checked, Violation};

/// A rank has just entered a version.
pub(crate) fn versions(kept: usize, settled: bool, describe: impl FnOnce() -> String) -> Checked {
    if settled && kept > 2 {
        return Err(Violation::new("Bounded", format!("results of {kept} versions are kept; {}", describe())));
    }
    Ok(())
}
