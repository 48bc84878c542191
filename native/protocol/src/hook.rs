//! The hook: whether a training library's own collectives are taken over by Rejoin's, at all ranks of a job or at none.
//!
//! Every join says what its process can. The first plan decides, for the life of the job
//! ([`agree`]); views and plans carry the decision, so that a tracker that comes back learns it
//! from the agents. A later incarnation that can't do what was agreed is refused with its reason.

use crate::error::{Code, Error};
use crate::ids::Rank;
use alloc::format;
use alloc::string::String;
use serde::{Deserialize, Serialize};

/// What a rank's process says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hook {
    /// There is nothing to be taken over.
    #[default]
    Unasked,
    /// Its library's collectives can be taken over.
    Possible,
    /// They can't, or must not, for this reason.
    Impossible(String),
}

/// What a job agrees on, and why, in words; nothing is said of it where no rank was asked. A pure
/// function of what all ranks said, in rank order.
pub fn agree<'h>(said: impl IntoIterator<Item = &'h Hook>) -> (bool, Option<String>) {
    let (mut possible, mut against) = (0, None);
    let mut asked = false;
    for (rank, hook) in (0..).map(Rank).zip(said) {
        asked |= *hook != Hook::Unasked;
        match hook {
            Hook::Possible => possible += 1,
            Hook::Impossible(reason) => drop(against.get_or_insert_with(|| format!("rank {rank} can't: {reason}"))),
            Hook::Unasked => drop(against.get_or_insert_with(|| format!("rank {rank} doesn't say that it can"))),
        }
    }
    match against {
        None if possible > 0 => (true, Some(format!("all {possible} ranks can"))),
        against => (false, against.filter(|_| asked)),
    }
}

/// Whether a rank that says this may take part in a job that has agreed.
///
/// # Errors
/// `Incompatible` when it can't do as all others do.
pub fn fits(rank: Rank, said: &Hook, agreed: Option<bool>) -> Result<(), Error> {
    let seen = match (agreed, said) {
        (None | Some(false), _) | (Some(true), Hook::Possible) => return Ok(()),
        (Some(true), Hook::Impossible(reason)) => format!("rank {rank} can't: {reason}"),
        (Some(true), Hook::Unasked) => format!("rank {rank} doesn't say that it can"),
    };
    Err(Error::new(
        Code::Incompatible,
        format!(
            "all ranks of this job have their training library's collectives taken over (the hook), as was agreed at \
             its beginning, but {seen}; use the same libraries and settings in all processes, or turn the hook off"
        ),
    ))
}
