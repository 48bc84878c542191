//! Fault rules as people write them, on every way in: `rank=3,version=1,seqno=2,at=sent:65536,do=kill`.

use super::{Action, FaultRule, Moment};
use crate::ids::{Phase, Rank, Version};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

/// How to write a rule; stands in `--help`.
pub const GRAMMAR: &str = "\
A rule is a list of key=value, separated by commas; it fires once in each process that it fits.

  rank=R            which rank (must be given)
  incarnation=I     which start of that rank, from 0; or `any` (default 0)
  version=V|boot    which phase: the V-th version, or the time before the first checkpoint
  seqno=S           which collective of that phase, from 0
  at=WHERE          (default entry)
     bytes:K        at least K bytes of XGBoost's own sockets have left the rank in this phase; 0:
                    the rank has entered the phase, whatever it sends by
     entry          the collective (version, seqno) is called; nothing of it was sent
     sent:K         at least K bytes of that collective have left the rank
     completed      the rank has the whole result; the caller hasn't got it
     replayed       the recorded result of that collective is about to be handed over
     again          the collective was cut off by a death and is about to run again
     checkpoint     the checkpoint that begins version=V is kept, not yet reported
     join, load     the rank has joined / is about to be handed what it starts from
     restored       restarted, the rank has fetched its checkpoint
     recovery       restarted, it is about to be handed the first recorded result
     serving        a restarted rank elsewhere has asked this one for something
     finalize       the rank has reported its end
  do=WHAT           (default kill)
     kill           SIGKILL
     stop[:T]       SIGSTOP, and SIGCONT after T (2s, 150ms); without T nobody wakes it
     cut:P          the link to rank P is reset
     delay:T        the rank's thread does nothing for T
     throw          the rank's calls end with an error
     tracker[:T]    the tracker is ended without a word, and comes back after T (default 0ms)
     notify         nothing, but that it is reported";

/// A rule and what its maker has to do when it fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// As it was written.
    pub text: String,
    /// What agents watch for; its id is the rule's place among all.
    pub fault: FaultRule,
    /// What is left to the rule's maker.
    pub aftermath: Aftermath,
}

/// What the rule's maker does when a process reports that it fires: `rejoin run` does, others refuse such rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aftermath {
    /// The process ends or goes on by itself.
    Nothing,
    /// Wakes the stopped process after so long.
    Wake(Duration),
    /// Ends the tracker, and starts it again after so long.
    Tracker(Duration),
}

/// A rule that can't be used: what was expected, what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRule(String);

impl fmt::Display for BadRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for BadRule {}

impl BadRule {
    /// With this text.
    pub fn new(text: String) -> BadRule {
        BadRule(text)
    }
}

fn bad<T>(text: impl Into<String>) -> Result<T, BadRule> {
    Err(BadRule(text.into()))
}

impl Rule {
    /// Checks what can only be known once the world is, and numbers the rule.
    ///
    /// # Errors
    /// When it names a rank that there is none of, or cuts a rank's link to itself.
    pub fn numbered(mut self, id: u32, world: u32) -> Result<Rule, BadRule> {
        self.fault.id = id;
        let rank = self.fault.rank;
        let in_world = |named: Rank| {
            if named.0 < world {
                return Ok(());
            }
            bad(format!("`{}` names rank {named}, but the ranks are 0 to {}", self.text, world - 1))
        };
        in_world(rank)?;
        if let Action::CutLink { peer } = self.fault.action {
            in_world(peer)?;
            if peer == rank {
                return bad(format!("`{}` cuts the link of rank {rank} to itself; name another rank", self.text));
            }
        }
        Ok(self)
    }
}

impl FromStr for Rule {
    type Err = BadRule;

    fn from_str(text: &str) -> Result<Rule, BadRule> {
        let mut rank = None;
        let mut incarnation = Some(0);
        let mut phase = None;
        let mut seqno = None;
        let mut place = "entry";
        let mut what = "kill";
        let mut seen = Vec::new();
        for part in text.split(',') {
            let Some((key, value)) = part.trim().split_once('=') else {
                return bad(format!("{part:?} was expected to be key=value, as in rank=3,version=1,seqno=2"));
            };
            if seen.contains(&key) {
                return bad(format!("{key} is given twice"));
            }
            seen.push(key);
            match key {
                "rank" => rank = Some(Rank(number(key, value)?)),
                "incarnation" if value == "any" => incarnation = None,
                "incarnation" => incarnation = Some(number(key, value)?),
                "version" if value == "boot" => phase = Some(Phase::Boot),
                "version" => phase = Some(Phase::Version(Version(number(key, value)?))),
                "seqno" => seqno = Some(number(key, value)?),
                "at" => place = value,
                "do" => what = value,
                other => {
                    return bad(format!(
                        "key {other:?} is unknown; expected rank, incarnation, version, seqno, at or do"
                    ))
                }
            }
        }
        let Some(rank) = rank else { return bad("rank is missing; say which one, as in rank=3") };
        let moment = moment(place, phase, seqno)?;
        let (action, aftermath) = action(what)?;
        let fault = FaultRule { id: 0, rank, incarnation, moment, action };
        Ok(Rule { text: text.to_string(), fault, aftermath })
    }
}

fn number<T: FromStr>(key: &str, value: &str) -> Result<T, BadRule> {
    value.parse().or_else(|_| bad(format!("{key} is {value:?}; expected a number from 0")))
}

fn moment(place: &str, phase: Option<Phase>, seqno: Option<u32>) -> Result<Moment, BadRule> {
    let (name, detail) = place.split_once(':').map_or((place, None), |(name, detail)| (name, Some(detail)));
    if detail.is_some() && name != "sent" && name != "bytes" {
        return bad(format!("at={place}: only sent and bytes take a number, as in at=sent:65536"));
    }
    let collective = || match (phase, seqno) {
        (Some(phase), Some(seqno)) => Ok((phase, seqno)),
        _ => bad(format!(
            "at={name} is about one collective; say which, as in version=1,seqno=2 or version=boot,seqno=0"
        )),
    };
    let alone = |moment: Moment| match (phase, seqno) {
        (None, None) => Ok(moment),
        _ => bad(format!("at={name} comes once in a rank's life; leave version and seqno out")),
    };
    match name {
        "entry" => collective().map(|(phase, seqno)| Moment::Entering { phase, seqno }),
        "sent" => {
            let Some(bytes) = detail else { return bad("at=sent needs the bytes, as in at=sent:65536") };
            let bytes = number("at=sent", bytes)?;
            collective().map(|(phase, seqno)| Moment::Sent { phase, seqno, bytes })
        }
        "bytes" => match (phase, seqno, detail) {
            (Some(phase), None, Some(bytes)) => Ok(Moment::Bytes { phase, bytes: number("at=bytes", bytes)? }),
            _ => bad("at=bytes needs the bytes and the phase, and no seqno, as in version=2,at=bytes:0"),
        },
        "completed" => collective().map(|(phase, seqno)| Moment::Completed { phase, seqno }),
        "replayed" => collective().map(|(phase, seqno)| Moment::Replayed { phase, seqno }),
        "again" => collective().map(|(phase, seqno)| Moment::Again { phase, seqno }),
        "checkpoint" => match (phase, seqno) {
            (Some(Phase::Version(version)), None) => Ok(Moment::Checkpointing { version }),
            _ => bad("at=checkpoint needs the version that the checkpoint begins, and no seqno, as in version=2"),
        },
        "join" => alone(Moment::Joined),
        "load" => alone(Moment::Loading),
        "restored" => alone(Moment::Restored),
        "recovery" => alone(Moment::Replaying),
        "serving" => alone(Moment::Serving),
        "finalize" => alone(Moment::Finishing),
        other => bad(format!(
            "at={other} is unknown; expected bytes:K, entry, sent:K, completed, replayed, again, checkpoint, join, \
             load, restored, recovery, serving or finalize"
        )),
    }
}

fn action(what: &str) -> Result<(Action, Aftermath), BadRule> {
    let (name, detail) = what.split_once(':').map_or((what, None), |(name, detail)| (name, Some(detail)));
    let none = Aftermath::Nothing;
    match (name, detail) {
        ("kill", None) => Ok((Action::Kill, none)),
        ("throw", None) => Ok((Action::Throw, none)),
        ("stop", None) => Ok((Action::Stop, none)),
        ("notify", None) => Ok((Action::Notify, none)),
        ("stop", Some(time)) => Ok((Action::Stop, Aftermath::Wake(duration("do=stop", time)?))),
        ("cut", Some(peer)) => Ok((Action::CutLink { peer: Rank(number("do=cut", peer)?) }, none)),
        ("delay", Some(time)) => {
            let millis = duration("do=delay", time)?.as_millis();
            let millis = u32::try_from(millis).or_else(|_| bad(format!("do=delay:{time} is too long")))?;
            Ok((Action::Delay { millis }, none))
        }
        ("tracker", None) => Ok((Action::Notify, Aftermath::Tracker(Duration::ZERO))),
        ("tracker", Some(time)) => Ok((Action::Notify, Aftermath::Tracker(duration("do=tracker", time)?))),
        _ => bad(format!(
            "do={what} is unknown; expected kill, stop[:T], cut:P, delay:T, throw, tracker[:T] or notify, where T is a \
             time as 2s or 150ms and P a rank"
        )),
    }
}

/// A time with its unit: `2s`, `150ms`, `1.5s`, `10m`, `2h`.
///
/// # Errors
/// Without a unit, and for what is no number or longer than a day.
pub fn duration(what: &str, text: &str) -> Result<Duration, BadRule> {
    // Minutes after milliseconds, whose unit begins with theirs.
    let units = [("ms", 1.0), ("s", 1000.0), ("m", 60_000.0), ("h", 3_600_000.0)];
    let parsed = units.into_iter().find_map(|(unit, millis)| Some((text.strip_suffix(unit)?.parse::<f64>(), millis)));
    match parsed {
        Some((Ok(count), millis)) if (0.0..=86_400_000.0).contains(&(count * millis)) => {
            Ok(Duration::from_secs_f64(count * millis / 1000.0))
        }
        _ => bad(format!(
            "{what} is {text:?}; expected a time with its unit, as 2s, 150ms or 10m, of at most a day (24h)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_from_milliseconds_to_hours_and_is_a_day_at_most() {
        let time = |text| duration("the time", text).map(|time| time.as_millis()).ok();
        assert_eq!(["150ms", "1.5s", "10m", "24h"].map(time), [Some(150), Some(1500), Some(600_000), Some(86_400_000)]);
        assert_eq!(["10", "m", "-1s", "25h", "1d", "NaNs", ""].map(time), [None; 7]);
    }

    fn rule(text: &str) -> Rule {
        text.parse().unwrap_or_else(|cause| panic!("{text}: {cause}"))
    }

    fn refused(text: &str) -> String {
        text.parse::<Rule>().expect_err("the rule is bad").to_string()
    }

    #[test]
    fn a_rule_without_place_and_deed_kills_the_first_incarnation_on_entry() {
        let rule = rule("rank=3,version=1,seqno=2");
        let moment = Moment::Entering { phase: Phase::Version(Version(1)), seqno: 2 };
        let wanted = FaultRule { id: 0, rank: Rank(3), incarnation: Some(0), moment, action: Action::Kill };
        assert_eq!((rule.fault, rule.aftermath), (wanted, Aftermath::Nothing));
    }

    #[test]
    fn every_place_and_every_deed_of_the_help_can_be_written() {
        let collective = "rank=0,version=boot,seqno=0";
        for at in ["entry", "sent:1024", "completed", "replayed", "again"] {
            rule(&format!("{collective},at={at}"));
        }
        for at in ["join", "load", "restored", "recovery", "serving", "finalize"] {
            rule(&format!("rank=0,at={at}"));
        }
        assert_eq!(rule("rank=1,version=4,at=checkpoint").fault.moment, Moment::Checkpointing { version: Version(4) });
        let aftermath = |deed: &str| rule(&format!("rank=0,at=join,do={deed}")).aftermath;
        assert_eq!(aftermath("stop:2s"), Aftermath::Wake(Duration::from_secs(2)));
        assert_eq!(aftermath("tracker"), Aftermath::Tracker(Duration::ZERO));
        assert_eq!(aftermath("tracker:150ms"), Aftermath::Tracker(Duration::from_millis(150)));
        for deed in ["kill", "stop", "cut:1", "delay:5ms", "throw", "notify"] {
            assert_eq!(aftermath(deed), Aftermath::Nothing);
        }
        let entered = Moment::Bytes { phase: Phase::Version(Version(4)), bytes: 0 };
        assert_eq!(rule("rank=1,version=4,at=bytes:0").fault.moment, entered);
        for word in
            ["bytes", "notify", "entry", "sent", "again", "checkpoint", "finalize", "tracker", "stop", "incarnation"]
        {
            assert!(GRAMMAR.contains(word), "{word} stands in the help");
        }
    }

    #[test]
    fn a_rule_can_be_of_any_incarnation() {
        assert_eq!(rule("rank=1,incarnation=any,at=join").fault.incarnation, None);
        assert_eq!(rule("rank=1,incarnation=2,at=join").fault.incarnation, Some(2));
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_what_was_expected() {
        for (text, part) in [
            ("version=1,seqno=2", "rank is missing"),
            ("rank=one,at=join", "rank is \"one\"; expected a number"),
            ("rank=1", "say which, as in version=1,seqno=2"),
            ("rank=1,version=1", "say which"),
            ("rank=1,rank=2,at=join", "given twice"),
            ("rank=1,at=join,version=1", "leave version and seqno out"),
            ("rank=1,at=checkpoint", "needs the version"),
            ("rank=1,version=1,seqno=0,at=sent", "needs the bytes"),
            ("rank=1,at=lunch", "at=lunch is unknown"),
            ("rank=1,at=join:3", "only sent and bytes take a number"),
            ("rank=1,at=bytes:3", "needs the bytes and the phase"),
            ("rank=1,version=1,at=bytes", "needs the bytes and the phase"),
            ("rank=1,at=join,do=stop:", "do=stop is"),
            ("rank=1,at=join,do=stop:2", "with its unit"),
            ("rank=1,at=join,do=stop:-1s", "with its unit"),
            ("rank=1,when=now", "key \"when\" is unknown"),
            ("rank", "key=value"),
        ] {
            assert!(refused(text).contains(part), "{text}: {}", refused(text));
        }
    }

    #[test]
    fn a_rule_for_a_rank_that_is_not_there_is_refused_once_the_world_is_known() {
        assert_eq!(rule("rank=7,at=join").numbered(4, 8).unwrap().fault.id, 4);
        let text = rule("rank=8,at=join").numbered(0, 8).unwrap_err().to_string();
        assert!(text.contains("ranks are 0 to 7"), "{text}");
        assert!(rule("rank=1,at=join,do=cut:1").numbered(0, 8).is_err());
        assert!(rule("rank=1,at=join,do=cut:9").numbered(0, 8).is_err());
    }
}
