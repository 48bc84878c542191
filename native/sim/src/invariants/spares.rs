//! **Spares.** A task is given no rank that another task has, and no rank has two incarnations that live; the death
//! of a task that stands by is nobody's. Fed with what one life of the tracker says.

use super::{Checked, Violation};
use rejoin_protocol::event::Event;
use rejoin_protocol::ids::{Attempt, Rank};
use rejoin_protocol::message::TrackerMessage;
use rejoin_protocol::view::SlotState;
use std::collections::BTreeMap;

const NAME: &str = "Spares";

/// Who has which rank, by the word of one life of the tracker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spares {
    /// The ranks that somebody has, and the try if it has joined in this life.
    held: BTreeMap<Rank, Option<Attempt>>,
    /// The newest try of each rank that was given away.
    given: BTreeMap<Rank, Attempt>,
}

impl Spares {
    pub(crate) fn event(&mut self, event: &Event, is_first_life: bool) -> Checked {
        match event {
            Event::RankJoined { rank, attempt, .. } => {
                if let Some(holder) = self.held.insert(*rank, Some(*attempt)) {
                    let text = format!("rank {rank} is joined as {attempt} while {holder:?} has it");
                    return Err(Violation::new(NAME, text));
                }
            }
            Event::RankLost { rank, .. } => {
                let was_held = self.held.remove(rank).is_some();
                let text = || format!("rank {rank} is lost that nobody had");
                return if was_held || !is_first_life { Ok(()) } else { Err(Violation::new(NAME, text())) };
            }
            // All ranks are others now, and none has joined yet.
            Event::Resized { .. } => self.held.clear(),
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn sends(&mut self, message: &TrackerMessage) -> Checked {
        match message {
            TrackerMessage::RankGiven { task, given, .. } => {
                if self.held.contains_key(&given.rank) {
                    let text = format!("task {task} is given rank {}, which somebody living has", given.rank);
                    return Err(Violation::new(NAME, text));
                }
                let before = self.given.insert(given.rank, given.attempt);
                if before > Some(given.attempt) {
                    let text = format!("rank {} is given as {} after {before:?}", given.rank, given.attempt);
                    return Err(Violation::new(NAME, text));
                }
            }
            TrackerMessage::Fenced { member, error } if error.code == rejoin_protocol::error::Code::RolledBack => {
                self.held.remove(&member.rank);
            }
            // What a life has taken over from the one before is known by its views alone.
            TrackerMessage::View(view) => {
                let slots = view.slots.iter().enumerate().map(|(rank, slot)| (Rank(rank as u32), slot));
                for (rank, _) in slots.filter(|(_, slot)| matches!(slot.state, SlotState::Alive { .. })) {
                    self.held.entry(rank).or_default();
                }
            }
            _ => {}
        }
        Ok(())
    }
}
