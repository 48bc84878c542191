//! The state of the replay log and of the boot cache: which results a rank has, and of which calls.

use super::call::{BootKey, Signature};
use super::status::Extent;
use crate::error::{Code, Error};
use crate::ids::{Phase, Version};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

/// One finished collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<R> {
    /// Of which call.
    pub signature: Signature,
    /// Boot collectives only: under which name it is found again.
    pub key: Option<BootKey>,
    /// The result, the same at every rank.
    pub result: R,
}

#[derive(Clone, Debug)]
struct PhaseLog<R> {
    phase: Phase,
    entries: Vec<Entry<R>>,
    ended: bool,
}

/// All results that a rank has, by phase; each phase's are complete from its first collective on.
#[derive(Clone, Debug)]
pub struct ReplayLog<R> {
    phases: BTreeMap<Phase, PhaseLog<R>>,
}

impl<R> Default for ReplayLog<R> {
    fn default() -> Self {
        ReplayLog { phases: BTreeMap::new() }
    }
}

impl<R: Clone> ReplayLog<R> {
    /// Opens the log of a phase, if it isn't open yet.
    pub fn open(&mut self, phase: Phase) {
        self.phases.entry(phase).or_insert_with(|| PhaseLog { phase, entries: Vec::new(), ended: false });
    }

    /// How many results of this phase there are.
    pub fn finished(&self, phase: Phase) -> u32 {
        self.phases.get(&phase).map_or(0, |log| log.entries.len() as u32)
    }

    /// One result.
    pub fn entry(&self, phase: Phase, seqno: u32) -> Option<&Entry<R>> {
        self.phases.get(&phase)?.entries.get(seqno as usize)
    }

    /// A boot collective's result, with its seqno.
    pub fn boot(&self, key: &BootKey) -> Option<(u32, &Entry<R>)> {
        let entries = &self.phases.get(&Phase::Boot)?.entries;
        let found = entries.iter().enumerate().find(|(_, entry)| entry.key.as_ref() == Some(key));
        found.map(|(seqno, entry)| (seqno as u32, entry))
    }

    /// Adds the next result of a phase.
    ///
    /// # Errors
    /// `Internal` when it isn't the next one. Nothing is changed.
    pub fn push(&mut self, phase: Phase, seqno: u32, entry: Entry<R>) -> Result<(), Error> {
        self.open(phase);
        let finished = self.finished(phase);
        let log = self.phases.get_mut(&phase).filter(|log| !log.ended && finished == seqno);
        let Some(log) = log else {
            return Err(Error::new(
                Code::Internal,
                format!("result {finished} of {phase} comes next in the log, but {seqno} was to be added"),
            ));
        };
        log.entries.push(entry);
        Ok(())
    }

    /// The version has no more collectives than it has now.
    pub fn end(&mut self, phase: Phase) {
        if let Some(log) = self.phases.get_mut(&phase) {
            log.ended = true;
        }
    }

    /// What is held.
    pub fn extents(&self) -> Vec<Extent> {
        let all = self.phases.values();
        all.map(|log| Extent { phase: log.phase, finished: log.entries.len() as u32, ended: log.ended }).collect()
    }

    /// The oldest version that is held from its first collective on.
    pub fn oldest(&self) -> Option<Version> {
        self.phases.values().find_map(|log| match log.phase {
            Phase::Version(version) => Some(version),
            Phase::Boot => None,
        })
    }

    /// Drops versions below this one; the boot cache stays. What is dropped is handed out, so that
    /// its memory can be used again.
    pub fn drop_below(&mut self, version: Version) -> Vec<R> {
        let old = |log: &PhaseLog<R>| matches!(log.phase, Phase::Version(there) if there < version);
        let gone: Vec<Phase> = self.phases.iter().filter(|(_, log)| old(log)).map(|(phase, _)| *phase).collect();
        let logs = gone.into_iter().filter_map(|phase| self.phases.remove(&phase));
        logs.flat_map(|log| log.entries.into_iter().map(|entry| entry.result)).collect()
    }

    /// Every result that is held, with its id, the oldest first.
    pub fn results(&self) -> impl Iterator<Item = (Phase, u32, &R)> {
        self.phases.values().flat_map(|log| (0..).zip(&log.entries).map(|(seqno, e)| (log.phase, seqno, &e.result)))
    }

    /// One result, to be kept in another way.
    pub fn result_mut(&mut self, phase: Phase, seqno: u32) -> Option<&mut R> {
        Some(&mut self.phases.get_mut(&phase)?.entries.get_mut(seqno as usize)?.result)
    }
}
