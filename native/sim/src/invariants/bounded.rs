//! **Bounded.** While all are there and have caught up, a rank keeps the results of two
//! versions: the present one and the one before it. (While a rank is missing or behind more are
//! kept, because it may need them.)

use super::{Checked, Violation};

/// A rank has just entered a version.
pub(crate) fn versions(kept: usize, settled: bool, describe: impl FnOnce() -> String) -> Checked {
    if settled && kept > 2 {
        return Err(Violation::new("Bounded", format!("results of {kept} versions are kept; {}", describe())));
    }
    Ok(())
}
