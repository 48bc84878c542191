//! **Progress**, and **no call blocks for ever**: when faults have stopped, the job ends with its model, or has ended with
//! an error that is allowed for what happened; and every task is told.

use super::{Checked, Violation};
use crate::scenario::{Fault, Scenario};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Lineage, Version};

const NAME: &str = "Progress";

pub(crate) fn check(now: u64, deadline: u64, describe: impl FnOnce() -> String) -> Checked {
    if now > deadline {
        return Err(Violation::new(NAME, format!("the job stands still; {}", describe())));
    }
    Ok(())
}

pub(crate) fn ran_dry(description: &str) -> Violation {
    Violation::new(NAME, format!("nothing will ever happen again; {description}"))
}

pub(super) fn failed(scenario: &Scenario, error: &Error, held: &[(u32, (Lineage, Version))]) -> Checked {
    let has = |wanted: &dyn Fn(&Fault) -> bool| scenario.faults.iter().any(|(_, fault)| wanted(fault));
    let kills =
        has(&|fault| matches!(fault, Fault::Kill { .. } | Fault::KillAll | Fault::Freeze { .. } | Fault::StageRestart));
    let legal = match error.code {
        Code::Cancelled => has(&|fault| *fault == Fault::Cancel),
        // Too many deaths, or nobody is left who holds anything.
        Code::Unrecoverable if error.message.contains("gives up") => scenario.deaths_limit < 1000,
        Code::Unrecoverable => kills && (held.is_empty() || scenario.locals),
        Code::Mismatch => scenario.liar,
        _ => false,
    };
    if !legal {
        return Err(Violation::new(NAME, format!("the job ended with {error}; held were {held:?}")));
    }
    Ok(())
}

/// Another life of the tracker tells the end too: with the model's digest, or none for an error.
pub(crate) fn same_end(earlier: Option<u128>, now: Option<u128>) -> Checked {
    if earlier != now {
        let text = format!("one life of the tracker ended the job with {earlier:x?}, another one with {now:x?}");
        return Err(Violation::new(NAME, text));
    }
    Ok(())
}

pub(crate) fn over_once(already: bool) -> Checked {
    if already {
        return Err(Violation::new(NAME, "the job ended twice"));
    }
    Ok(())
}
