//! Facts as flat texts: `kind, key, value, key, value, …`, for the JVM and for fault rules.

use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::fault::{Action, FaultRule, Moment};
use rejoin_agent::protocol::ids::{Attempt, Incarnation, Phase, Rank, Version};
use rejoin_agent::protocol::tracker::Input;
use rejoin_agent::Told;

struct Fact(Vec<String>);

impl Fact {
    fn new(kind: &str) -> Self {
        Fact(vec![kind.to_string()])
    }

    fn with(mut self, key: &str, value: impl ToString) -> Self {
        self.0.push(key.to_string());
        self.0.push(value.to_string());
        self
    }
}

fn ranks(ranks: &[Rank]) -> String {
    ranks.iter().map(Rank::to_string).collect::<Vec<_>>().join(",")
}

/// What a tracker told, as texts. Kinds and keys are those of `io.rejoin.TrainingEvent`.
pub(crate) fn told(told: Told) -> Vec<String> {
    match told {
        Told::Event(event) => from_event(event),
        Told::Kill { rank, attempt, executor, reason } => {
            Fact::new("kill.wanted")
                .with("rank", rank)
                .with("stage", attempt.stage)
                .with("task", attempt.task)
                .with("executor", executor)
                .with("reason", reason)
                .0
        }
    }
}

fn from_event(event: Event) -> Vec<String> {
    let fact = match event {
        Event::AgentJoined { agent, executor, host, pid } => Fact::new("agent.joined")
            .with("agent", agent)
            .with("executor", executor)
            .with("host", host)
            .with("pid", pid),
        Event::AgentLost { agent, executor, reason } => {
            Fact::new("agent.lost").with("agent", agent).with("executor", executor).with("reason", reason)
        }
        Event::RankJoined { rank, incarnation, attempt, executor, vacant_millis } => Fact::new("rank.joined")
            .with("rank", rank)
            .with("incarnation", incarnation)
            .with("stage", attempt.stage)
            .with("task", attempt.task)
            .with("executor", executor)
            .with("vacant_millis", vacant_millis),
        Event::RankRefused { rank, attempt, reason } => Fact::new("rank.refused")
            .with("rank", rank)
            .with("stage", attempt.stage)
            .with("task", attempt.task)
            .with("reason", reason),
        Event::RankLost { rank, incarnation, executor, reason, silent_millis, deaths } => Fact::new("rank.lost")
            .with("rank", rank)
            .with("incarnation", incarnation)
            .with("executor", executor)
            .with("reason", reason)
            .with("silent_millis", silent_millis)
            .with("deaths", deaths),
        Event::ViewMade { generation, alive, vacant, reason } => Fact::new("view.made")
            .with("generation", generation)
            .with("alive", ranks(&alive))
            .with("vacant", ranks(&vacant))
            .with("reason", reason),
        Event::PlanMade { generation, lineage, version, round, newcomers, reason } => Fact::new("plan.made")
            .with("generation", generation)
            .with("lineage", lineage)
            .with("version", version)
            .with("round", round)
            .with("newcomers", ranks(&newcomers))
            .with("reason", reason),
        Event::Restored { rank, incarnation, version, round, bytes, source, millis } => Fact::new("rank.restored")
            .with("rank", rank)
            .with("incarnation", incarnation)
            .with("version", version)
            .with("round", round)
            .with("bytes", bytes)
            .with("source", source)
            .with("millis", millis),
        Event::CaughtUp { rank, incarnation, replayed_in, regenerated, rounds_again, millis } => {
            Fact::new("rank.caughtup")
                .with("rank", rank)
                .with("incarnation", incarnation)
                .with("replayed_in", replayed_in)
                .with("regenerated", regenerated)
                .with("rounds_again", rounds_again)
                .with("millis", millis)
        }
        Event::VersionEntered { rank, incarnation, lineage, version, round } => Fact::new("version.entered")
            .with("rank", rank)
            .with("incarnation", incarnation)
            .with("lineage", lineage)
            .with("version", version)
            .with("round", round),
        Event::Spent { rank, incarnation, stretch, ago_micros, phase, seqno } => Fact::new("rank.spent")
            .with("rank", rank)
            .with("incarnation", incarnation)
            .with("phase", phase)
            .with("seqno", seqno)
            .with("ago_micros", ago_micros)
            .with("micros", stretch.micros)
            .with("computing_micros", stretch.computing_micros)
            .with("waiting_micros", stretch.waiting_micros)
            .with("replaying_micros", stretch.replaying_micros)
            .with("waited_for", stretch.waited_for.map_or(String::new(), |peer| peer.to_string())),
        Event::LinkBroken { rank, peer, reason } => {
            Fact::new("link.broken").with("rank", rank).with("peer", peer).with("reason", reason)
        }
        Event::HookAgreed { hooked, reason } => Fact::new("hook.agreed").with("hooked", hooked).with("reason", reason),
        Event::SharingEnded { rank, peer, reason } => {
            Fact::new("sharing.ended").with("rank", rank).with("peer", peer).with("reason", reason)
        }
        Event::StrangerRefused { address, reason } => {
            Fact::new("stranger.refused").with("address", address).with("reason", reason)
        }
        Event::DurableWritten { rank, incarnation, version, bytes, millis } => Fact::new("durable.written")
            .with("rank", rank)
            .with("incarnation", incarnation)
            .with("version", version)
            .with("bytes", bytes)
            .with("millis", millis),
        Event::DurableFailed { rank, incarnation, version, reason } => Fact::new("durable.failed")
            .with("rank", rank)
            .with("incarnation", incarnation)
            .with("version", version)
            .with("reason", reason),
        Event::RolledBack { lineage, version, reason } => {
            Fact::new("rolled.back").with("lineage", lineage).with("version", version).with("reason", reason)
        }
        Event::FaultFired { id, rank, incarnation } => {
            Fact::new("fault.fired").with("id", id).with("rank", rank).with("incarnation", incarnation)
        }
        Event::RankFinished { rank, incarnation, digest } => Fact::new("rank.finished")
            .with("rank", rank)
            .with("incarnation", incarnation)
            .with("digest", format!("{digest:032x}")),
        Event::Usage { agent, log_bytes, spilled_bytes, checkpoint_bytes, log_bytes_peak } => Fact::new("usage")
            .with("agent", agent)
            .with("log_bytes", log_bytes)
            .with("spilled_bytes", spilled_bytes)
            .with("checkpoint_bytes", checkpoint_bytes)
            .with("log_bytes_peak", log_bytes_peak),
        Event::JobEnded { digest, deaths } => {
            Fact::new("job.ended").with("digest", format!("{digest:032x}")).with("deaths", deaths)
        }
        Event::JobFailed { error } => {
            Fact::new("job.failed").with("code", error.code.name()).with("message", error.message)
        }
    };
    fact.0
}

fn bad(text: impl Into<String>) -> Error {
    Error::new(Code::BadArgument, text)
}

fn number(what: &str, text: &str) -> Result<u32, Error> {
    text.parse().map_err(|_| bad(format!("{what} is {text:?}; expected a number")))
}

/// The code with this name.
pub(crate) fn code(name: &str) -> Result<Code, Error> {
    Code::ALL.into_iter().find(|code| code.name() == name).ok_or_else(|| bad(format!("error code {name:?} is unknown")))
}

/// What the framework knows, read from texts.
pub(crate) fn input(fact: &[String]) -> Result<Input, Error> {
    let value = |key: &str| {
        let pairs = fact.get(1..).unwrap_or_default().chunks_exact(2);
        let found = pairs.into_iter().find(|pair| pair[0] == key).map(|pair| pair[1].as_str());
        found.ok_or_else(|| bad(format!("fact {fact:?} has no {key}")))
    };
    match fact.first().map(String::as_str) {
        Some("executor.gone") => {
            Ok(Input::ExecutorGone { executor: value("executor")?.into(), reason: value("reason")?.into() })
        }
        Some("task.gone") => Ok(Input::TaskGone {
            rank: Rank(number("rank", value("rank")?)?),
            attempt: Attempt { stage: number("stage", value("stage")?)?, task: number("task", value("task")?)? },
            reason: value("reason")?.into(),
        }),
        Some("cancel") => Ok(Input::Cancel { error: Error::new(code(value("code")?)?, value("message")?) }),
        other => Err(bad(format!("fact {other:?} is unknown; expected executor.gone, task.gone or cancel"))),
    }
}

/// Fault rules: `rank=1;incarnation=0;at=version:5:20000;do=kill`, joined by `|`.
pub(crate) fn faults(text: &str) -> Result<Vec<FaultRule>, Error> {
    let rules = text.split('|').map(str::trim).filter(|rule| !rule.is_empty());
    rules.enumerate().map(|(index, rule)| fault(index as u32, rule)).collect()
}

fn fault(index: u32, text: &str) -> Result<FaultRule, Error> {
    let (mut id, mut rank, mut incarnation, mut moment, mut action) = (index, None, None, None, None);
    for part in text.split(';') {
        let (key, value) =
            part.split_once('=').ok_or_else(|| bad(format!("fault rule {text:?}: {part:?} has no =")))?;
        match key.trim() {
            "id" => id = number("id", value)?,
            "rank" => rank = Some(Rank(number("rank", value)?)),
            "incarnation" => incarnation = Some(Incarnation(number("incarnation", value)?)),
            "at" => moment = Some(at(value)?),
            "do" => action = Some(act(value)?),
            other => return Err(bad(format!("fault rule {text:?}: {other:?} is unknown"))),
        }
    }
    match (rank, moment, action) {
        (Some(rank), Some(moment), Some(action)) => Ok(FaultRule { id, rank, incarnation, moment, action }),
        _ => Err(bad(format!("fault rule {text:?} needs rank, at and do"))),
    }
}

fn at(text: &str) -> Result<Moment, Error> {
    let bytes = |text: &str| text.parse().map_err(|_| bad(format!("{text:?} is not a number of bytes")));
    match text.split(':').collect::<Vec<_>>()[..] {
        ["joined"] => Ok(Moment::Joined),
        ["restored"] => Ok(Moment::Restored),
        ["replaying"] => Ok(Moment::Replaying),
        ["finishing"] => Ok(Moment::Finishing),
        ["boot", count] => Ok(Moment::Bytes { phase: Phase::Boot, bytes: bytes(count)? }),
        ["version", version, count] => {
            Ok(Moment::Bytes { phase: Phase::Version(Version(number("version", version)?)), bytes: bytes(count)? })
        }
        _ => Err(bad(format!(
            "moment {text:?} is unknown; expected joined, boot:BYTES, version:V:BYTES, restored, replaying or finishing"
        ))),
    }
}

fn act(text: &str) -> Result<Action, Error> {
    match text.split(':').collect::<Vec<_>>()[..] {
        ["kill"] => Ok(Action::Kill),
        ["stop"] => Ok(Action::Stop),
        ["throw"] => Ok(Action::Throw),
        ["tell"] => Ok(Action::Tell),
        ["cut", peer] => Ok(Action::CutLink { peer: Rank(number("peer", peer)?) }),
        _ => Err(bad(format!("action {text:?} is unknown; expected kill, stop, throw, tell or cut:PEER"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_rule_is_read_as_it_is_written_in_the_documentation() {
        let rules = faults(
            "rank=1;incarnation=0;at=version:5:20000;do=kill | rank=2;at=joined;do=cut:0 | rank=0;at=boot:7;do=tell",
        )
        .unwrap();
        assert_eq!(rules.len(), 3);
        assert_eq!(rules[2].action, Action::Tell);
        assert_eq!(rules[0].rank, Rank(1));
        assert_eq!(rules[0].incarnation, Some(Incarnation(0)));
        assert_eq!(rules[0].moment, Moment::Bytes { phase: Phase::Version(Version(5)), bytes: 20000 });
        assert_eq!(rules[1].action, Action::CutLink { peer: Rank(0) });
        assert_eq!(rules[1].incarnation, None);
    }

    #[test]
    fn a_fault_rule_that_cannot_be_read_is_an_error_and_not_a_rule_that_never_fires() {
        for text in ["rank=1", "rank=1;at=soon;do=kill", "rank=1;at=joined;do=sing", "rank=x;at=joined;do=kill", "junk"]
        {
            assert_eq!(faults(text).unwrap_err().code, Code::BadArgument, "{text}");
        }
    }

    #[test]
    fn what_the_framework_says_is_read_and_unknown_facts_are_refused() {
        let fact: Vec<String> = ["executor.gone", "executor", "3", "reason", "lost"].map(String::from).to_vec();
        assert_eq!(input(&fact).unwrap(), Input::ExecutorGone { executor: "3".into(), reason: "lost".into() });
        assert_eq!(input(&["executor.came".to_string()]).unwrap_err().code, Code::BadArgument);
    }
}
