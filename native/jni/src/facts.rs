//! Facts as flat texts: `kind, key, value, key, value, …`, for the JVM and for fault rules.

use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::fault::text::{Aftermath, Rule};
use rejoin_agent::protocol::fault::FaultRule;
use rejoin_agent::protocol::ids::{Attempt, Task, Version};
use rejoin_agent::protocol::message::CheckpointWish;
use rejoin_agent::protocol::tracker::TrackerInput;
use rejoin_agent::TrackerNotice;
use serde_json::{json, Value};

/// What a tracker reported, as texts: the name of the event as in
/// [`rejoin_agent::protocol::event::Event`], then its fields. A field that is a struct gives its
/// own fields (an attempt is `stage` and `task`), a list is joined by commas, and what is absent is
/// empty.
pub(crate) fn of_notice(notice: TrackerNotice) -> Vec<String> {
    let value = match notice {
        TrackerNotice::Event(event) => serde_json::to_value(event),
        TrackerNotice::Kill { task, attempt, executor, reason } => {
            Ok(json!({ "KillWanted": { "index": task, "attempt": attempt, "executor": executor, "reason": reason } }))
        }
    };
    let mut texts = Vec::new();
    // The fields of an event can't fail to be written; a name alone is an event still.
    if let Ok(Value::Object(event)) = value {
        for (name, fields) in event {
            texts.push(name.clone());
            flatten(&name, &fields, &mut texts);
        }
    }
    texts
}

fn flatten(key: &str, value: &Value, texts: &mut Vec<String>) {
    if let Value::Object(fields) = value {
        fields.iter().for_each(|(key, value)| flatten(key, value, texts));
    } else {
        texts.extend([key.to_owned(), text(value)]);
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

fn bad(text: impl Into<String>) -> Error {
    Error::new(Code::BadArgument, text)
}

fn number(what: &str, text: &str) -> Result<u32, Error> {
    text.parse().map_err(|_| bad(format!("{what} is {text:?}; expected a number")))
}

fn flag(what: &str, text: &str) -> Result<bool, Error> {
    text.parse().map_err(|_| bad(format!("{what} is {text:?}; expected true or false")))
}

/// The code with this name.
pub(crate) fn code(name: &str) -> Result<Code, Error> {
    Code::ALL.into_iter().find(|code| code.name() == name).ok_or_else(|| bad(format!("error code {name:?} is unknown")))
}

/// What the framework knows, read from texts.
pub(crate) fn input(fact: &[String]) -> Result<TrackerInput, Error> {
    let value = |key: &str| {
        let pairs = fact.get(1..).unwrap_or_default().chunks_exact(2);
        let found = pairs.into_iter().find(|pair| pair[0] == key).map(|pair| pair[1].as_str());
        found.ok_or_else(|| bad(format!("fact {fact:?} has no {key}")))
    };
    match fact.first().map(String::as_str) {
        Some("executor.gone") => {
            Ok(TrackerInput::ExecutorGone { executor: value("executor")?.into(), reason: value("reason")?.into() })
        }
        Some("task.gone") => Ok(TrackerInput::TaskGone {
            task: Task(number("index", value("index")?)?),
            attempt: Attempt { stage: number("stage", value("stage")?)?, task: number("task", value("task")?)? },
            reason: value("reason")?.into(),
            counts: flag("counts", value("counts")?)?,
        }),
        Some("task.leaves") => Ok(TrackerInput::TaskLeaves {
            task: Task(number("index", value("index")?)?),
            attempt: Attempt { stage: number("stage", value("stage")?)?, task: number("task", value("task")?)? },
        }),
        Some("checkpoint.wanted") => Ok(TrackerInput::CheckpointWanted(CheckpointWish {
            after: Version(number("after", value("after")?)?),
            durable: flag("durable", value("durable")?)?,
        })),
        Some("cancel") => Ok(TrackerInput::Cancel { error: Error::new(code(value("code")?)?, value("message")?) }),
        other => Err(bad(format!(
            "fact {other:?} is unknown; expected executor.gone, task.gone, task.leaves, checkpoint.wanted or cancel"
        ))),
    }
}

/// The rules of such a text, one by one.
pub(crate) fn rules(text: &str) -> impl Iterator<Item = &str> {
    text.split('|').map(str::trim).filter(|rule| !rule.is_empty())
}

/// Fault rules, joined by `|`.
pub(crate) fn faults(text: &str, world: u32) -> Result<Vec<FaultRule>, Error> {
    rules(text).enumerate().map(|(id, rule)| fault(id as u32, rule, world)).collect()
}

fn fault(id: u32, text: &str, world: u32) -> Result<FaultRule, Error> {
    let unusable = |cause: &dyn std::fmt::Display| bad(format!("fault rule {text:?}: {cause}"));
    let rule = text.parse::<Rule>().and_then(|rule| rule.numbered(id, world)).map_err(|cause| unusable(&cause))?;
    match rule.aftermath {
        Aftermath::Nothing => Ok(rule.fault),
        _ => Err(unusable(&"only `rejoin run` can wake a process or end a tracker; expected do=stop, kill or another")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_agent::protocol::event::Event;
    use rejoin_agent::protocol::ids::Rank;

    #[test]
    fn an_event_is_told_by_its_name_and_its_fields_wherever_they_stand() {
        let attempt = Attempt { stage: 4, task: 7 };
        let refused = Event::RankRefused { rank: Rank(3), attempt, reason: "it is late".into() };
        let kill = TrackerNotice::Kill { task: Task(3), attempt, executor: "x".into(), reason: "r".into() };
        let ended = Event::JobEnded { digest: 0xab, deaths: 2 };
        let failed = Event::JobFailed { error: Error::new(Code::Mismatch, "rank 1 differs") };
        let digest = format!("{:032x}", 0xab);
        for (event, name, fields) in [
            (TrackerNotice::Event(refused), "RankRefused", "rank=3;reason=it is late;stage=4;task=7"),
            (kill, "KillWanted", "executor=x;index=3;reason=r;stage=4;task=7"),
            (TrackerNotice::Event(ended), "JobEnded", &format!("deaths=2;digest={digest}")),
            (TrackerNotice::Event(failed), "JobFailed", "code=MISMATCH;message=rank 1 differs"),
        ] {
            let texts = of_notice(event);
            let mut pairs: Vec<String> = texts[1..].chunks_exact(2).map(|pair| pair.join("=")).collect();
            pairs.sort();
            assert_eq!((texts[0].as_str(), pairs.join(";").as_str()), (name, fields));
        }
    }

    #[test]
    fn fault_rules_are_numbered_as_they_are_written() {
        let rules = faults("rank=1,version=5,at=bytes:20000 | rank=2,incarnation=any,at=join,do=cut:0", 3).unwrap();
        assert_eq!(rules.iter().map(|rule| (rule.id, rule.rank.0)).collect::<Vec<_>>(), [(0, 1), (1, 2)]);
        assert_eq!(faults(" ", 3).unwrap(), []);
    }

    #[test]
    fn a_fault_rule_that_can_never_fire_here_is_an_error() {
        for text in ["junk", "rank=3,at=join", "rank=1,at=join,do=stop:2s", "rank=1,at=join,do=tracker"] {
            assert_eq!(faults(text, 3).unwrap_err().code, Code::BadArgument, "{text}");
        }
    }

    #[test]
    fn what_the_framework_says_is_read_and_unknown_facts_are_refused() {
        let fact: Vec<String> = ["executor.gone", "executor", "3", "reason", "lost"].map(String::from).to_vec();
        assert_eq!(input(&fact).unwrap(), TrackerInput::ExecutorGone { executor: "3".into(), reason: "lost".into() });
        assert_eq!(input(&["executor.came".to_string()]).unwrap_err().code, Code::BadArgument);
    }
}
