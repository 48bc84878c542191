//! Times as options have them.

use rejoin_agent::protocol::fault::text::{duration, BadRule};
use std::time::Duration;

/// A time with its unit.
pub fn time(text: &str) -> Result<Duration, BadRule> {
    duration("the time", text)
}

/// A limit of silence: below the least one a process that only waits for its turn would count as dead.
pub fn silence(text: &str) -> Result<Duration, BadRule> {
    const LEAST: Duration = Duration::from_millis(20);
    let given = time(text)?;
    if given < LEAST {
        return Err(BadRule::new(format!("the time is {text:?}; expected {} ms or more", LEAST.as_millis())));
    }
    Ok(given)
}
