//! What was held by agents that are gone: for the error of a job that can't go on, which says what was lost and when.

use crate::ids::{Checkpoint, Rank, Version};
use crate::words::list;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The newest losses that are listed one by one.
const TOLD: usize = 8;

/// Since all that is needed was there the last time.
#[derive(Clone, Default)]
pub(super) struct Losses {
    newest: VecDeque<String>,
    older: usize,
}

impl Losses {
    fn add(&mut self, text: String) {
        self.newest.push_back(text);
        if self.newest.len() > TOLD {
            self.newest.pop_front();
            self.older += 1;
        }
    }

    /// An agent that held this is gone.
    pub(super) fn gone(&mut self, at: &str, executor: &str, held: &[Checkpoint], reason: &str) {
        if !held.is_empty() {
            self.add(format!("{executor} held {} until {at} ({reason})", what(held)));
        }
    }

    /// All had to go back.
    pub(super) fn sent_back(&mut self, at: &str, reason: &str) {
        self.add(format!("all were sent back at {at}, since {reason}"));
    }

    /// All that is needed is there again.
    pub(super) fn forget(&mut self) {
        *self = Losses::default();
    }

    /// In words; `None` if nothing was lost.
    pub(super) fn summary(&self) -> Option<String> {
        if self.newest.is_empty() {
            return None;
        }
        let older = match self.older {
            0 => String::new(),
            count => format!("{count} earlier losses; "),
        };
        let newest: Vec<&str> = self.newest.iter().map(String::as_str).collect();
        Some(format!("What was lost, by the time since the job began: {older}{}", newest.join("; ")))
    }
}

/// Words for an error decide nothing: two trackers that differ in them alone do the same, and are
/// one state of the model.
impl fmt::Debug for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Losses")
    }
}

fn what(held: &[Checkpoint]) -> String {
    let mut common: Vec<Version> = held.iter().filter(|held| held.owner.is_none()).map(|held| held.version).collect();
    common.sort_unstable();
    common.dedup();
    let mut parts: Vec<String> = common.iter().map(|version| format!("version {version}")).collect();
    let mut own: BTreeMap<Version, Vec<Rank>> = BTreeMap::new();
    for (version, owner) in held.iter().filter_map(|held| Some((held.version, held.owner?))) {
        own.entry(version).or_default().push(owner);
    }
    for (version, mut ranks) in own {
        ranks.sort_unstable();
        parts.push(format!("the own model of rank {} as of version {version}", list(&ranks)));
    }
    parts.join(", ")
}
