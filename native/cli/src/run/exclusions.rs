//! Which hosts are not used for a while, since processes have failed there too often: a pure function of the failures
//! and of time as a number.

use std::collections::BTreeMap;

/// How long a host is excluded, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cooldown {
    /// The first time at the least.
    pub min: u64,
    /// At the most, ever.
    pub max: u64,
}

/// When a host is excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExclusionRule {
    /// After so many failures, at least 1.
    pub failures: u32,
    /// For how long; `None`: for good.
    pub cooldown: Option<Cooldown>,
}

/// Which hosts are excluded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exclusions {
    /// `None`: none ever is.
    rule: Option<ExclusionRule>,
    seed: u64,
    hosts: BTreeMap<String, Record>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Record {
    /// Since it was excluded last.
    failures: u32,
    exclusions: u32,
    is_excluded: bool,
    /// When it comes back; `None` while it is excluded: it doesn't.
    back_at: Option<u64>,
}

/// A host is excluded from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exclusion {
    /// Until then; `None`: for good.
    pub back_at: Option<u64>,
}

impl Exclusions {
    /// By a rule, whose times are drawn from the seed.
    pub fn new(rule: Option<ExclusionRule>, seed: u64) -> Self {
        Exclusions { rule, seed, hosts: BTreeMap::new() }
    }

    /// A process has failed on a host, or can't be started there. Whether that was one too many.
    pub fn failed(&mut self, host: &str, now: u64) -> Option<Exclusion> {
        let ExclusionRule { failures: most, cooldown } = self.rule?;
        let record = self.hosts.entry(host.into()).or_default();
        if record.is_excluded {
            return None;
        }
        record.failures += 1;
        if record.failures < most {
            return None;
        }
        let pause =
            cooldown.map(|cooldown| cooldown.pause(record.exclusions, drawn(self.seed, host, record.exclusions)));
        record.failures = 0;
        record.exclusions += 1;
        record.is_excluded = true;
        record.back_at = pause.map(|pause| now.saturating_add(pause));
        Some(Exclusion { back_at: record.back_at })
    }

    /// The hosts that come back by now.
    pub fn come_back(&mut self, now: u64) -> Vec<String> {
        let over = |record: &Record| record.is_excluded && record.back_at.is_some_and(|at| at <= now);
        let back = self.hosts.iter_mut().filter(|(_, record)| over(record)).map(|(host, record)| {
            (record.is_excluded, record.back_at) = (false, None);
            host.clone()
        });
        back.collect()
    }

    /// Whether a host comes back some time.
    pub fn any_comes_back(&self) -> bool {
        self.hosts.values().any(|record| record.is_excluded && record.back_at.is_some())
    }
}

impl Cooldown {
    /// After so many exclusions before: it doubles each time, and with the jitter is somewhere between this time's and
    /// the next one's.
    fn pause(self, before: u32, drawn: u64) -> u64 {
        let least = self.min.saturating_mul(1_u64.checked_shl(before).unwrap_or(u64::MAX)).min(self.max);
        let most = least.saturating_mul(2).min(self.max);
        least + drawn % (most - least + 1)
    }
}

/// A number that depends on all of these (FNV-1a, and what SplitMix64 makes of it).
fn drawn(seed: u64, host: &str, times: u32) -> u64 {
    let bytes = host.bytes().chain(times.to_le_bytes());
    let hash =
        bytes.fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let mixed = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by(failures: u32, cooldown: Option<Cooldown>, seed: u64) -> Exclusions {
        Exclusions::new(Some(ExclusionRule { failures, cooldown }), seed)
    }

    #[test]
    fn a_host_is_excluded_at_so_many_failures_and_another_one_is_not() {
        let mut exclusions = by(3, None, 1);
        assert_eq!(exclusions.failed("a", 0), None);
        assert_eq!(exclusions.failed("b", 1), None);
        assert_eq!(exclusions.failed("a", 2), None);
        assert_eq!(exclusions.failed("a", 3), Some(Exclusion { back_at: None }), "for good without a cool-down");
        assert_eq!(exclusions.failed("a", 4), None, "it is excluded already");
        assert_eq!((exclusions.come_back(u64::MAX), exclusions.any_comes_back()), (vec![], false));
        assert_eq!(Exclusions::new(None, 1).failed("a", 0), None, "none is, if that isn't asked for");
    }

    #[test]
    fn a_host_comes_back_after_its_cool_down_with_all_its_failures_again() {
        let mut exclusions = by(2, Some(Cooldown { min: 1000, max: 10_000 }), 7);
        exclusions.failed("a", 0);
        let at = exclusions.failed("a", 500).and_then(|exclusion| exclusion.back_at).expect("it comes back");
        assert!((1500..=2500).contains(&at), "{at}");
        assert!(exclusions.come_back(at - 1).is_empty() && exclusions.any_comes_back());
        assert_eq!(exclusions.come_back(at), ["a"]);
        assert!(exclusions.come_back(at + 1).is_empty());
        assert_eq!(exclusions.failed("a", at), None);
        assert!(exclusions.failed("a", at).is_some());
    }

    #[test]
    fn hosts_that_fail_together_do_not_come_back_together_and_a_seed_says_when() {
        let back = |host: &str, seed| {
            let mut exclusions = by(1, Some(Cooldown { min: 10_000, max: 60_000 }), seed);
            exclusions.failed(host, 0).and_then(|exclusion| exclusion.back_at)
        };
        assert_ne!(back("node1", 1), back("node2", 1));
        assert_ne!(back("node1", 1), back("node1", 2));
        assert_eq!(back("node1", 1), back("node1", 1));
    }

    proptest! {
        #[test]
        fn a_cool_down_is_within_its_bounds_and_does_not_get_shorter(
            min in 1..100_000_u64,
            more in 0..1_000_000_u64,
            seed in any::<u64>(),
        ) {
            let (max, mut last) = (min + more, 0);
            let mut exclusions = by(1, Some(Cooldown { min, max }), seed);
            for times in 0..80_u32 {
                let back = exclusions.failed("a", 5).and_then(|exclusion| exclusion.back_at);
                let pause = back.expect("it comes back") - 5;
                let doubled = min.saturating_mul(1_u64.checked_shl(times).unwrap_or(u64::MAX)).min(max);
                prop_assert!(min <= pause && pause <= max, "{} in {}..{}", pause, min, max);
                prop_assert!(pause >= doubled && pause >= last);
                exclusions.come_back(u64::MAX);
                last = pause;
            }
        }
    }
}
