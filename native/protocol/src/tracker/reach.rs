//! How far a job has been: what the tracker knows of versions beyond those that the living report.

use crate::ids::Version;

/// A rank can be so many versions beyond what is known of it: one that it entered unseen, and one
/// that others could enter with what it had sent.
const UNSEEN: u32 = 2;

/// How far a job has been.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    /// Highest version reported in this lineage.
    pub(super) highest: Version,
    /// No dead incarnation was beyond this version. Set while restarted ranks may be behind it.
    ceiling: Option<Version>,
    /// Every rank is known to be beyond where any incarnation has died, since the newest view.
    pub(super) settled: bool,
}

impl Reach {
    pub(super) fn new(highest: Version) -> Self {
        Reach { highest, ceiling: None, settled: false }
    }

    pub(super) fn entered(&mut self, version: Version) {
        self.highest = self.highest.max(version);
    }

    /// All but these are gone for good: how far the furthest of them is, if one of them was started.
    pub(super) fn survived_by(&mut self, furthest: Option<Version>) {
        self.highest = furthest.unwrap_or(self.highest);
    }

    /// All ranks begin again here: none is behind an older incarnation of its own.
    pub(super) fn all_start_at(&mut self, version: Version) {
        (self.highest, self.ceiling) = (version, None);
    }

    /// Some ranks start again while others go on.
    pub(super) fn some_start(&mut self) {
        let known = self.highest.plus(UNSEEN);
        self.ceiling = Some(self.ceiling.map_or(known, |ceiling| ceiling.max(known)));
    }

    /// An incarnation that was under way is gone.
    pub(super) fn has_lost_one(&mut self) {
        self.ceiling = self.ceiling.map(|ceiling| ceiling.plus(UNSEEN));
    }

    /// After a takeover the dead may have been further than any survivor, if anything had begun.
    pub(super) fn taken_over(&mut self, has_begun: bool) {
        self.ceiling = has_begun.then(|| self.highest.plus(UNSEEN));
    }

    /// Whether a rank that is in this version, or in none, is where no older incarnation has been.
    pub(super) fn is_beyond(&self, at: Option<Version>) -> bool {
        at.is_some_and(|at| self.ceiling.is_none_or(|ceiling| at > ceiling))
    }

    pub(super) fn settle(&mut self) {
        (self.ceiling, self.settled) = (None, true);
    }
}
