//! What the tracker says to people who ask.

use super::slots::{RankSlot, RankSlotState};
use super::Tracker;
use crate::ids::{Millis, Rank};
use crate::job_status::{JobStatus, Place, RankActivity, RankNow, RANKS_IN_A_MESSAGE};
use alloc::string::ToString;

/// Longer causes are cut off, so that a message holds its ranks.
const LONGEST_CAUSE: usize = 512;

impl Tracker {
    /// How the job is now, with the ranks from this one on.
    pub fn job_status(&self, from: Rank, now: Millis) -> JobStatus {
        let ranks = (0..).map(Rank).zip(&self.slots).skip_while(|(rank, _)| *rank < from).take(RANKS_IN_A_MESSAGE);
        JobStatus {
            life: self.config.epoch,
            millis: self.clock.since_began(now),
            lineage: self.chain.lineage(),
            over: self.over.as_ref().map(|over| match over {
                Ok(_) => "every rank ended well".into(),
                Err(error) => error.to_string(),
            }),
            members_millis: self.config.timing.members_millis,
            world: self.slots.len() as u32,
            resizes: self.worlds.resizes,
            most_resizes: self.config.elastic.and_then(|elastic| elastic.most_resizes),
            ranks: ranks.map(|(rank, slot)| self.rank_now(rank, slot, now)).collect(),
        }
    }

    fn rank_now(&self, rank: Rank, slot: &RankSlot, now: Millis) -> RankNow {
        let state = match &slot.state {
            RankSlotState::Vacant => RankActivity::Missing {
                millis: now.since(slot.vacant_since.unwrap_or(slot.waits_since)),
                because: slot.last_seen.chars().take(LONGEST_CAUSE).collect(),
            },
            RankSlotState::Fresh => RankActivity::Waits { millis: now.since(slot.waits_since) },
            RankSlotState::Planned { at, round, .. } => RankActivity::Trains { version: *at, round: *round },
            RankSlotState::Finished { rounds, .. } => RankActivity::Finished { rounds: *rounds },
        };
        let agent = self.agents.get(&slot.agent).filter(|_| slot.state != RankSlotState::Vacant);
        let place = agent.map(|agent| Place {
            host: agent.host.clone(),
            process: agent.executor.clone(),
            seen_millis: now.since(agent.last_heard),
            is_silent: agent.lost || agent.broken.is_some(),
        });
        let limit = self.config.deaths.deaths;
        RankNow {
            rank,
            incarnation: slot.incarnation,
            state,
            place,
            deaths: slot.deaths.len() as u32,
            most_deaths: (limit != u32::MAX).then(|| limit.saturating_sub(1)),
            lost_millis: slot.cost.lost_millis(now),
            rounds_again: slot.cost.rounds_again,
        }
    }
}
