//! Carries out the fault rules of tests and the demo, on this very process.

use rejoin_protocol::fault::{Action, FaultRule, Moment};
use rejoin_protocol::ids::{Incarnation, Rank};

/// The rules that only the agent can see the moment of.
#[derive(Default)]
pub(crate) struct Rules {
    rules: Vec<FaultRule>,
}

impl Rules {
    /// Takes new rules in place of the old ones.
    pub(crate) fn replace(&mut self, rules: &[FaultRule]) {
        self.rules = rules.to_vec();
    }

    /// The rule whose moment this is; it is used up.
    pub(crate) fn due(&mut self, rank: Rank, incarnation: Incarnation, moment: Moment) -> Option<FaultRule> {
        let found = self.rules.iter().position(|rule| {
            rule.rank == rank && rule.moment == moment && rule.incarnation.is_none_or(|wanted| wanted == incarnation)
        })?;
        Some(self.rules.remove(found))
    }
}

/// SIGKILL or SIGSTOP of this process; nothing for the other actions, which are others' to do. Nothing more is done on the
/// calling thread before the process is killed or stopped.
pub(crate) fn strike(action: Action) {
    match action {
        // SAFETY: kill with this process's own id has no memory effects.
        Action::Kill => unsafe {
            libc::kill(libc::getpid(), libc::SIGKILL);
        },
        // To this thread: a signal to the process may be taken by another one, while this one goes on for a while.
        // SAFETY: raise has no memory effects.
        Action::Stop => unsafe {
            libc::raise(libc::SIGSTOP);
        },
        Action::CutLink { .. } | Action::Throw | Action::Delay { .. } | Action::Tell => {}
    }
}
