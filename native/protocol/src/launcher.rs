//! What a launcher that isn't in the tracker's process says to the tracker, and hears from it.
//!
//! A launcher starts the processes of some ranks and starts them again when they die. What agents
//! report of a death is enough for the job; the launcher's word comes sooner, and it has to hear
//! how the job ended, lest it starts ranks of a job that is over.

use crate::error::Error;
use crate::event::Event;
use crate::ids::{Attempt, Rank};
use crate::job_status::JobStatus;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// The numbers of processes that a launcher of an elastic job starts: its own, and with them the
/// lowest ones that nobody else has, up to so many in all, of those below `most`. Those that `may_come_back`, as a
/// launcher that is out of reach had them, are given last.
pub fn numbers(
    own: &BTreeSet<Rank>,
    taken: &BTreeSet<Rank>,
    may_come_back: &BTreeSet<Rank>,
    slots: u32,
    most: u32,
) -> BTreeSet<Rank> {
    let free = (0..most).map(Rank).filter(|number| !own.contains(number) && !taken.contains(number));
    let (last, first): (Vec<Rank>, Vec<Rank>) = free.partition(|number| may_come_back.contains(number));
    let more = (slots as usize).saturating_sub(own.len());
    own.iter().copied().chain(first.into_iter().chain(last).take(more)).collect()
}

/// Whether a launcher that says it starts a rank does, and not the other one that has said so before. What each `holds`
/// is the attempt that the tracker has told it last that the rank begins with: each launcher that takes a rank from
/// another one is told a higher one than that. One that was told nothing yet has come just now.
pub fn takes_over(holds: Option<u32>, other_holds: u32) -> bool {
    holds.is_none_or(|attempt| attempt >= other_holds)
}

/// From a launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LauncherMessage {
    /// The first message of a link: which ranks are started here from now on.
    Starts {
        /** The launcher, by the number that it drew at its start. */
        launcher: u64,
        /** The name of its host. */
        host: String,
        /** The ranks, with the attempt that each begins with, as the tracker has said last. */
        ranks: BTreeMap<Rank, Option<u32>>,
        /** Those of them whose processes have ended well before, with the attempts that have. */
        ended: BTreeMap<Rank, u32>,
        /** In an elastic job: how many processes it starts in all, as far as there are numbers for them. */
        slots: u32,
        /** How often each of them is started again after a death. */
        restarts: u32,
    },
    /// A process has died.
    ProcessDied {
        /** The name under which its agent registered. */
        executor: String,
        /** How. */
        reason: String,
    },
    /// A process has ended well, and is not started again.
    RankEnded {
        /** The rank that it was. */
        rank: Rank,
        /** Which attempt at it. */
        attempt: u32,
    },
    /// The job can't go on.
    Cancel {
        /** Why. */
        error: Error,
    },
    /// Asks for [`LauncherNews::Synced`] with this number: all that was known before has been said then.
    Sync {
        /** Grows. */
        number: u64,
    },
    /// Asks how the job is, with no need to start any ranks before.
    Status {
        /** The ranks before this one are left out. */
        from: Rank,
    },
    /// In an elastic job: the process of this number goes for good, so that no replacement is waited for.
    RankLeaves {
        /** The number that it was started with. */
        rank: Rank,
        /** Its newest attempt. */
        attempt: u32,
    },
}

/// To a launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LauncherNews {
    /// Answers [`LauncherMessage::Starts`].
    Accepted {
        /** The ranks: those that it has named, and in an elastic job numbers of more processes, up to its slots. */
        ranks: Vec<Rank>,
        /** The attempt that each of them begins with, in their order: the one after the newest that is known. */
        attempts: Vec<u32>,
    },
    /// A fact.
    Event(Event),
    /// The process of this rank is lost, but may only be frozen: it has to be killed.
    Kill {
        /** The rank that is lost. */
        rank: Rank,
        /** Which try. */
        attempt: Attempt,
        /** The cause in words. */
        reason: String,
    },
    /// This rank is sent back to an older version: if its process ends now, that is no death.
    SentBack {
        /** Which. */
        rank: Rank,
    },
    /// The job is over.
    Over(Result<(), Error>),
    /// Another launcher starts these ranks from now on.
    TakenOver {
        /** The name of its host. */
        host: String,
        /** Which, of those that this launcher had. */
        ranks: Vec<Rank>,
    },
    /// Answers [`LauncherMessage::Sync`].
    Synced {
        /** Of the question. */
        number: u64,
    },
    /// Answers [`LauncherMessage::Status`].
    Status(JobStatus),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(numbers: &[u32]) -> BTreeSet<Rank> {
        numbers.iter().copied().map(Rank).collect()
    }

    #[test]
    fn a_launcher_gets_the_lowest_numbers_that_nobody_has_up_to_its_slots_and_keeps_its_own() {
        let none = set(&[]);
        assert_eq!(numbers(&none, &none, &none, 2, 8), set(&[0, 1]));
        assert_eq!(numbers(&none, &set(&[0, 2]), &none, 3, 8), set(&[1, 3, 4]));
        assert_eq!(numbers(&set(&[2]), &set(&[0, 2]), &none, 2, 8), set(&[1, 2]));
        assert_eq!(numbers(&set(&[3, 4]), &none, &none, 0, 8), set(&[3, 4]), "of a launcher that names its ranks");
    }

    #[test]
    fn numbers_of_a_launcher_that_may_come_back_are_given_when_there_are_no_others() {
        let (none, away) = (set(&[]), set(&[1, 2]));
        assert_eq!(numbers(&none, &set(&[0]), &away, 2, 8), set(&[3, 4]));
        assert_eq!(numbers(&none, &set(&[0]), &away, 2, 4), set(&[1, 3]));
    }

    #[test]
    fn a_rank_is_started_by_who_was_told_a_higher_attempt_or_has_come_just_now() {
        assert!(takes_over(None, 7), "it has come just now");
        assert!(!takes_over(Some(1), 7), "it is back, and another one has the rank meanwhile");
        assert!(takes_over(Some(8), 7), "the other one is back");
    }

    #[test]
    fn a_job_has_no_more_numbers_than_ranks_at_the_most() {
        let none = set(&[]);
        assert_eq!(numbers(&none, &set(&[0, 1]), &none, 4, 3), set(&[2]));
        assert_eq!(numbers(&none, &set(&[0, 1, 2]), &none, 4, 3), none);
    }
}
