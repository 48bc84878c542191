//! Fault rules whose moment only the bridge can see: bytes that leave a worker, and the first replayed byte.

use rejoin_protocol::fault::{FaultRule, Moment};
use rejoin_protocol::ids::{Incarnation, Phase, Rank};

/// Rules that wait.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    rules: Vec<FaultRule>,
}

impl Watch {
    /// Takes new rules in place of the old ones.
    pub(crate) fn replace(&mut self, rules: Vec<FaultRule>) {
        self.rules = rules;
    }

    /// How many more bytes may leave the rank's worker before a rule fires; 0 when one is due.
    pub(crate) fn allowance(&self, rank: Rank, incarnation: Incarnation, phase: Phase, left: u64) -> u64 {
        let waiting = self.waiting(rank, incarnation).filter_map(|rule| match rule.moment {
            Moment::Bytes { phase: wanted, bytes } if wanted == phase => Some(bytes.saturating_sub(left)),
            _ => None,
        });
        waiting.min().unwrap_or(u64::MAX)
    }

    /// The rule that is due after so many bytes; it is used up.
    pub(crate) fn due_after(
        &mut self,
        rank: Rank,
        incarnation: Incarnation,
        phase: Phase,
        left: u64,
    ) -> Option<FaultRule> {
        self.inject(
            rank,
            incarnation,
            |moment| matches!(moment, Moment::Bytes { phase: p, bytes } if p == phase && bytes <= left),
        )
    }

    /// The rule that is due when the first replayed byte comes; it is used up.
    pub(crate) fn due_replaying(&mut self, rank: Rank, incarnation: Incarnation) -> Option<FaultRule> {
        self.inject(rank, incarnation, |moment| moment == Moment::Replaying)
    }

    fn inject(&mut self, rank: Rank, incarnation: Incarnation, is_due: impl Fn(Moment) -> bool) -> Option<FaultRule> {
        let found = self.rules.iter().position(|rule| rule.is_for(rank, incarnation) && is_due(rule.moment))?;
        Some(self.rules.remove(found))
    }

    fn waiting(&self, rank: Rank, incarnation: Incarnation) -> impl Iterator<Item = &FaultRule> {
        self.rules.iter().filter(move |rule| rule.is_for(rank, incarnation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_protocol::fault::Action;
    use rejoin_protocol::ids::Version;

    fn rule(id: u32, incarnation: Option<u32>, moment: Moment) -> FaultRule {
        FaultRule { id, rank: Rank(1), incarnation, moment, action: Action::Kill }
    }

    #[test]
    fn a_rule_fires_once_at_its_byte() {
        let phase = Phase::Version(Version(2));
        let mut watch = Watch::default();
        watch.replace(vec![rule(7, Some(0), Moment::Bytes { phase, bytes: 1000 })]);
        assert_eq!(watch.allowance(Rank(1), Incarnation::nth(0), phase, 400), 600);
        assert_eq!(watch.allowance(Rank(1), Incarnation::nth(1), phase, 400), u64::MAX);
        assert_eq!(watch.allowance(Rank(0), Incarnation::nth(0), phase, 400), u64::MAX);
        assert_eq!(watch.allowance(Rank(1), Incarnation::nth(0), Phase::Boot, 400), u64::MAX);
        assert_eq!(watch.due_after(Rank(1), Incarnation::nth(0), phase, 999), None);
        assert_eq!(watch.due_after(Rank(1), Incarnation::nth(0), phase, 1000).map(|r| r.id), Some(7));
        assert_eq!(watch.due_after(Rank(1), Incarnation::nth(0), phase, 1000), None);
        assert_eq!(watch.allowance(Rank(1), Incarnation::nth(0), phase, 0), u64::MAX);
    }

    #[test]
    fn a_rule_for_any_incarnation_waits_for_the_first_replayed_byte() {
        let mut watch = Watch::default();
        watch.replace(vec![rule(1, None, Moment::Replaying)]);
        assert_eq!(watch.due_replaying(Rank(1), Incarnation::nth(2)).map(|r| r.id), Some(1));
        assert_eq!(watch.due_replaying(Rank(1), Incarnation::nth(3)), None);
    }
}
