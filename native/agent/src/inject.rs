//! Carries out the fault rules of tests and the demo, on this very process.

use rejoin_protocol::event::Event;
use rejoin_protocol::fault::{Action, FaultRule, Moment};
use rejoin_protocol::ids::{Incarnation, Rank};
use rejoin_protocol::wire;
use std::fs::File;
use std::io::Write;

/// Where an agent reports that a fault rule fires: the number of an inherited descriptor, and the
/// pipe that it has to be. Empty if there are no rules.
pub const INJECTED: &str = "REJOIN_INJECTED";

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

    /// Whether none is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rule whose moment this is; it is used up.
    pub(crate) fn due(&mut self, rank: Rank, incarnation: Incarnation, moment: Moment) -> Option<FaultRule> {
        let found = self.rules.iter().position(|rule| rule.moment == moment && rule.is_for(rank, incarnation))?;
        Some(self.rules.remove(found))
    }
}

/// Reports to the launcher, if there is one that wants it, a fault rule that is about to fire:
/// not by the tracker, which may be away, and before anything is done, since the process may be
/// gone then.
pub(crate) fn tell(event: &Event) {
    let value = std::env::var(INJECTED).unwrap_or_default();
    let Some((descriptor, pipe)) = value.split_once(' ') else { return };
    let path = format!("/proc/self/fd/{descriptor}");
    if std::fs::read_link(&path).is_ok_and(|there| there.display().to_string() == pipe) {
        let event = wire::encode(event);
        let reported = [&[event.len() as u8], &event[..]].concat();
        // In one piece: others write there too.
        if let Err(cause) = File::options().write(true).open(&path).and_then(|mut pipe| pipe.write_all(&reported)) {
            log::warn!("a fault rule can't be reported to the launcher: {cause}");
        }
    }
}

/// SIGKILL or SIGSTOP of this process; nothing for the other actions, which are others' to do.
/// Nothing more is done on the calling thread before the process is killed or stopped.
pub(crate) fn inject(action: Action) {
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
        Action::CutLink { .. } | Action::Throw | Action::Delay { .. } | Action::Notify => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_for_the_second_start_of_a_rank_fires_whichever_life_of_the_tracker_gave_it() {
        let rule =
            FaultRule { id: 0, rank: Rank(1), incarnation: Some(1), moment: Moment::Joined, action: Action::Notify };
        let mut rules = Rules::default();
        rules.replace(std::slice::from_ref(&rule));
        let mut due = |rank, epoch, number| rules.due(Rank(rank), Incarnation { epoch, number }, Moment::Joined);
        assert_eq!(due(0, 2, 1), None);
        assert_eq!(due(1, 2, 0), None);
        assert_eq!(due(1, 2, 1), Some(rule));
        assert_eq!(due(1, 2, 1), None);
    }
}
