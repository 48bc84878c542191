//! Tasks of a job with spares: they ask for a rank before they join. The same for both kinds of agents.

use crate::convert::{to_texts, unsigned, Texts};
use crate::failure::Failure;
use jni::sys::{jint, jlong};
use jni::Env;
use rejoin_agent::protocol::ids::{Attempt, Task};
use rejoin_agent::protocol::message::RankGiven;
use rejoin_agent::{Agent, StoodBy};
use std::time::Duration;

/// A try of a task, from the Java method's numbers.
fn try_of([index, stage, task]: [jint; 3]) -> Result<(Task, Attempt), Failure> {
    let attempt = Attempt { stage: unsigned("stage", stage)?, task: unsigned("task", task)? };
    Ok((Task(unsigned("index", index)?), attempt))
}

/// What the task joins as, as key, value: rank, stage, task; over: true when the job has reached its end. Null while
/// it stands by.
pub(crate) fn stand_by<'l>(
    env: &mut Env<'l>,
    agent: &Agent,
    its: [jint; 3],
    millis: jlong,
) -> Result<Texts<'l>, Failure> {
    let (task, attempt) = try_of(its)?;
    let at_most = Duration::from_millis(millis.max(0) as u64);
    let facts = match agent.stand_by(task, attempt, at_most)? {
        None => return Ok(Texts::null()),
        Some(StoodBy::Over { .. }) => vec![("over", "true".to_string())],
        Some(StoodBy::Rank(RankGiven { rank, attempt })) => {
            vec![("rank", rank.to_string()), ("stage", attempt.stage.to_string()), ("task", attempt.task.to_string())]
        }
    };
    let facts: Vec<String> = facts.into_iter().flat_map(|(key, value)| [key.to_string(), value]).collect();
    to_texts(env, &facts)
}

/// The task has ended, however it did.
pub(crate) fn stand_down(agent: &Agent, its: [jint; 3]) -> Result<(), Failure> {
    let (task, attempt) = try_of(its)?;
    agent.stand_down(task, attempt);
    Ok(())
}
