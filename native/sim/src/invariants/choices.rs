//! **Choices.** Ranks that know of each other have the same choice; and once a checkpoint was chosen
//! and confirmed, no other choice is heard in that version, whoever dies.

use super::{Checked, Violation};
use rejoin_protocol::ids::{Lineage, Rank, Version};
use std::collections::BTreeSet;

const NAME: &str = "Choices";

/// What was confirmed so far.
#[derive(Debug, Default)]
pub(crate) struct Choices {
    confirmed: BTreeSet<(Lineage, Version)>,
}

impl Choices {
    /// A rank was given this choice in a version; `others` are what living ranks have there that it knows.
    pub(crate) fn chose(
        &mut self,
        rank: Rank,
        (lineage, version, chosen): (Lineage, Version, bool),
        is_confirmed: bool,
        others: impl Iterator<Item = (Rank, bool)>,
    ) -> Checked {
        let at = (lineage, version);
        if is_confirmed {
            self.confirmed.insert(at);
        }
        if !chosen && self.confirmed.contains(&at) {
            let text = format!("rank {rank} hears of no checkpoint in {version}, which was chosen and confirmed there");
            return Err(Violation::new(NAME, text));
        }
        match others.into_iter().find(|(_, theirs)| *theirs != chosen) {
            Some((other, theirs)) => {
                let text = format!("rank {rank} has the choice {chosen} in {version}, rank {other} has {theirs}");
                Err(Violation::new(NAME, text))
            }
            None => Ok(()),
        }
    }
}
