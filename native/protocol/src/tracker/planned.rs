//! What has been planned, and which agents the next plan waits for.

use crate::ids::{AgentId, Generation, MemberId};
use crate::message::Plan;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// What has been planned so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Planned {
    /// There has been a plan, in this life of the tracker or in a former one.
    pub(super) has_been: bool,
    /// The view of the plan before which there was none. Sent again after that plan, it still says
    /// that nothing had begun when it was made: a rank of it that waits for a start was never
    /// started.
    pub(super) first_generation: Option<Generation>,
    /// The newest view has said, after the first plan, that no rank is started, and no plan has been made since.
    pub(super) all_begin_again: bool,
    /// The newest plan.
    last: Option<Plan>,
    /// What only its newcomers had.
    locals: Vec<(MemberId, Vec<u8>)>,
    /// Agents whose status for the present generation is still out.
    pub(super) missing_reports: BTreeSet<AgentId>,
}

impl Planned {
    /// The plan of this generation, if it was made.
    pub(super) fn of(&self, generation: Generation) -> Option<&Plan> {
        self.last.as_ref().filter(|plan| plan.generation == generation)
    }

    /// What only these newcomers of the newest plan had.
    pub(super) fn locals(&self) -> impl Iterator<Item = &(MemberId, Vec<u8>)> {
        self.locals.iter()
    }

    pub(super) fn made(&mut self, plan: Plan, locals: Vec<(MemberId, Vec<u8>)>) {
        self.all_begin_again = false;
        self.last = Some(plan);
        self.locals = locals;
    }
}
