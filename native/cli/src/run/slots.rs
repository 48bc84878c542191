//! Slots: who lists them, and how many processes of a run there may be at a time, where that changes: a pure function
//! of how many are listed and of the processes that were given up.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// What was listed: hosts with their slots.
pub type Listing = Vec<(String, u32)>;

/// Where listings come from.
#[derive(Clone, Debug)]
pub enum Discovery {
    /// What this program prints.
    Program(PathBuf),
    /// The launcher's standard input, where an empty line ends each listing.
    StandardInput,
}

impl Discovery {
    /// What holds when a listing can't be used.
    pub fn after_failure(&self) -> &'static str {
        match self {
            Discovery::Program(_) => "it is asked again every second",
            Discovery::StandardInput => "what it has named last holds",
        }
    }
}

impl From<OsString> for Discovery {
    fn from(named: OsString) -> Self {
        if named == "-" {
            Discovery::StandardInput
        } else {
            Discovery::Program(named.into())
        }
    }
}

impl fmt::Display for Discovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Discovery::Program(path) => path.display().fmt(f),
            Discovery::StandardInput => f.write_str("-"),
        }
    }
}

/// The slots of all hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    most: u32,
    listed: u32,
    /// Of those so many had a process that failed for good. They stay empty until they were gone from the list.
    failed: u32,
    /// So many of these are gone from it: as many fewer are used until there are others instead.
    gone: u32,
}

impl Slots {
    /// So many are there, of which at most `most` are used.
    pub fn new(most: u32, listed: u32) -> Self {
        Slots { most, listed, failed: 0, gone: 0 }
    }

    /// So many are there now. Of those that go, the ones of failed processes go first.
    pub fn list(&mut self, listed: u32) {
        let failed_that_go = self.listed.saturating_sub(listed).min(self.failed);
        let come = listed.saturating_sub(self.listed);
        self.failed -= failed_that_go;
        self.gone = (self.gone + failed_that_go).saturating_sub(come);
        self.listed = listed;
    }

    /// A process failed, and is not started again.
    pub fn fail(&mut self) {
        self.failed += 1;
    }

    /// How many processes may be started beside so many.
    pub fn open(&self, there: u32) -> u32 {
        self.usable().saturating_sub(there)
    }

    /// How many of so many processes have no slot any more.
    pub fn excess(&self, there: u32) -> u32 {
        there.saturating_sub(self.usable())
    }

    fn usable(&self) -> u32 {
        let used = self.most.saturating_sub(self.failed + self.gone);
        self.listed.saturating_sub(self.failed).min(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_that_come_are_open_up_to_the_most_that_are_used() {
        let mut slots = Slots::new(4, 2);
        assert_eq!((slots.open(2), slots.excess(2)), (0, 0));
        slots.list(3);
        assert_eq!(slots.open(2), 1);
        slots.list(9);
        assert_eq!((slots.open(3), slots.open(4)), (1, 0));
    }

    #[test]
    fn processes_without_a_slot_are_too_many() {
        let mut slots = Slots::new(4, 4);
        slots.list(1);
        assert_eq!((slots.open(4), slots.excess(4), slots.excess(1)), (0, 3, 0));
    }

    #[test]
    fn the_slot_of_a_process_that_failed_is_open_again_only_when_it_was_gone() {
        let mut slots = Slots::new(4, 4);
        slots.fail();
        slots.list(4);
        assert_eq!((slots.open(3), slots.excess(3)), (0, 0), "it is the same slot");
        slots.list(3);
        assert_eq!((slots.open(3), slots.excess(3)), (0, 0), "the empty one has gone");
        slots.list(4);
        assert_eq!(slots.open(3), 1);
    }

    #[test]
    fn slots_beyond_those_that_are_used_come_and_go_as_others_do() {
        let mut slots = Slots::new(3, 9);
        slots.fail();
        slots.list(9);
        assert_eq!((slots.open(2), slots.excess(2)), (0, 0), "it is the same slot");
        slots.list(8);
        assert_eq!((slots.open(2), slots.excess(2)), (0, 0), "the one of the failed process has gone");
        slots.list(9);
        assert_eq!((slots.open(2), slots.excess(3)), (1, 0), "and there is another one");
        for listed in [2, 9, 7] {
            slots.list(listed);
        }
        assert_eq!((slots.open(2), slots.excess(3)), (1, 0), "no failed one was among them");
    }

    #[test]
    fn a_slot_that_comes_beside_a_failed_one_is_open() {
        let mut slots = Slots::new(8, 4);
        slots.fail();
        slots.list(5);
        assert_eq!(slots.open(3), 1);
    }
}
