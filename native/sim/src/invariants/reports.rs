//! **No lost work**, what it needs: the tracker knows where a rank is as soon as anything depends on
//! it, and from its agent alone.

use super::{Checked, Violation};
use rejoin_protocol::ids::{Rank, Version};

const NAME: &str = "NoLostWork";

/// So many versions of an incarnation are always reported at once.
const FIRST: u32 = crate::ranks::FEWEST_ONE_BY_ONE;

/// Which versions an incarnation has entered, and which of them was sent to the tracker last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reported {
    first: Version,
    entered: Option<Version>,
    reported: Option<Version>,
    /// The version as of which its own state was sent last.
    local: Option<Version>,
}

impl Reported {
    /// It is in this version now.
    pub(crate) fn enters(&mut self, version: Version) {
        if self.entered.is_none() {
            self.first = version;
        }
        self.entered = Some(version);
    }

    /// The tracker is sent its own state as of this version.
    pub(crate) fn sends_local(&mut self, version: Version) {
        self.local = self.local.max(Some(version));
    }

    /// The tracker is sent that it has entered this version, once, and not before its own state as
    /// of it, if it has any.
    pub(crate) fn reports(&mut self, rank: Rank, version: Version, has_local: bool) -> Checked {
        if has_local && self.local < Some(version) {
            let text = format!("rank {rank} reports version {version} before its own state, {:?}", self.local);
            return Err(Violation::new(NAME, text));
        }
        let before = self.reported.replace(version);
        if self.entered < Some(version) || before >= Some(version) {
            let text = format!("rank {rank} reports version {version} after {before:?}, it is in {:?}", self.entered);
            return Err(Violation::new(NAME, text));
        }
        Ok(())
    }

    /// A heartbeat has this version: it was reported. One that has entered none is where it was started.
    pub(crate) fn passes(&self, rank: Rank, version: Version) -> Checked {
        if self.entered.is_some() && self.reported != Some(version) && version > self.first {
            let text = format!("a heartbeat has rank {rank} in version {version}, reported was {:?}", self.reported);
            return Err(Violation::new(NAME, text));
        }
        Ok(())
    }

    /// A status report has this version: plans are made of it.
    pub(crate) fn answers(&self, rank: Rank, version: Version) -> Checked {
        if self.entered.is_some_and(|entered| entered != version) {
            let text = format!("a status report has rank {rank} in version {version}, it is in {:?}", self.entered);
            return Err(Violation::new(NAME, text));
        }
        Ok(())
    }

    /// The tracker is sent its end.
    pub(crate) fn ends(&self, rank: Rank) -> Checked {
        if self.entered != self.reported {
            let text = format!("rank {rank} ends in version {:?}, it reported {:?} last", self.entered, self.reported);
            return Err(Violation::new(NAME, text));
        }
        Ok(())
    }

    /// Its process has a connection to the tracker, and nothing more to do for now.
    pub(crate) fn rests(&self, rank: Rank, is_settled: bool) -> Checked {
        let is_early = self.entered.is_some_and(|entered| entered.0 - self.first.0 < FIRST);
        if (is_early || !is_settled) && self.entered != self.reported {
            let text = format!(
                "rank {rank} has entered version {:?} and reported {:?}; settled: {is_settled}",
                self.entered, self.reported
            );
            return Err(Violation::new(NAME, text));
        }
        Ok(())
    }
}
