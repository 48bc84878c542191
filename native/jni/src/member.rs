//! The members' native methods: a rank's way through a job.

use crate::agent::AGENTS;
pub(crate) use crate::convert::unsigned;
use crate::convert::{bytes, optional_text, text, to_bytes, to_texts, Texts};
use crate::facts;
use crate::failure::Failure;
use crate::table::Table;
use bytes::Bytes;
use jni::objects::{JByteArray, JClass, JString};
use jni::sys::{jboolean, jint, jlong};
use jni::Env;
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::ids::{Attempt, Rank, Version};
use rejoin_xgboost::{Member, WireVariant};
use std::time::Duration;

static MEMBERS: Table<Member> = Table::new("member");

fn at_most(millis: jlong) -> Duration {
    Duration::from_millis(millis.max(0) as u64)
}

#[allow(clippy::too_many_arguments)] // they are the Java method's
pub(crate) fn join<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    agent: jlong,
    rank: jint,
    stage: jint,
    task: jint,
    terms: JString<'l>,
    millis: jlong,
) -> Result<jlong, Failure> {
    let agent = AGENTS.find(agent)?;
    let rank = Rank(unsigned("rank", rank)?);
    let attempt = Attempt { stage: unsigned("stage", stage)?, task: unsigned("task", task)? };
    Ok(MEMBERS.add(Member::join(&agent, rank, attempt, text(env, &terms)?, at_most(millis))?))
}

#[allow(clippy::too_many_arguments)] // they are the Java method's
pub(crate) fn cancel_join<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    agent: jlong,
    rank: jint,
    stage: jint,
    task: jint,
    code: JString<'l>,
    message: JString<'l>,
) -> Result<(), Failure> {
    let agent = AGENTS.find(agent)?;
    let attempt = Attempt { stage: unsigned("stage", stage)?, task: unsigned("task", task)? };
    let error = Error::new(facts::code(&text(env, &code)?)?, text(env, &message)?);
    agent.cancel_join(Rank(unsigned("rank", rank)?), attempt, error);
    Ok(())
}

pub(crate) fn start<'l>(env: &mut Env<'l>, _: JClass<'l>, member: jlong) -> Result<Texts<'l>, Failure> {
    let member = MEMBERS.find(member)?;
    let facts = match member.start() {
        Err(_) => vec!["over".to_string(), "true".into()],
        Ok(start) => {
            let round = start.checkpoint.map(|checkpoint| checkpoint.round).unwrap_or_default();
            let complete = start.checkpoint.is_some_and(|checkpoint| checkpoint.complete);
            [
                ("over", "false".to_string()),
                ("world", member.world().to_string()),
                ("incarnation", start.incarnation.to_string()),
                ("lineage", start.lineage.to_string()),
                ("version", start.version.to_string()),
                ("round", round.to_string()),
                ("complete", complete.to_string()),
                ("hooked", start.hooked.to_string()),
            ]
            .into_iter()
            .flat_map(|(key, value)| [key.to_string(), value])
            .collect()
        }
    };
    to_texts(env, &facts)
}

pub(crate) fn checkpoint_bytes<'l>(env: &mut Env<'l>, _: JClass<'l>, member: jlong) -> Result<JByteArray<'l>, Failure> {
    let member = MEMBERS.find(member)?;
    to_bytes(env, member.checkpoint().map(|bytes| &**bytes))
}

pub(crate) fn local<'l>(env: &mut Env<'l>, _: JClass<'l>, member: jlong) -> Result<JByteArray<'l>, Failure> {
    let member = MEMBERS.find(member)?;
    to_bytes(env, member.local())
}

pub(crate) fn communicator<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    member: jlong,
    wire: JString<'l>,
) -> Result<Texts<'l>, Failure> {
    let member = MEMBERS.find(member)?;
    let variant = match text(env, &wire)?.as_str() {
        "until-3.2" => WireVariant::Until32,
        "from-3.3" => WireVariant::From33,
        other => {
            let text = format!("XGBoost wire {other:?} is unknown; expected until-3.2 or from-3.3");
            return Err(Error::new(Code::BadArgument, text).into());
        }
    };
    let arguments = member.communicator(variant)?;
    let flat: Vec<String> = arguments.into_iter().flat_map(|(key, value)| [key, value]).collect();
    to_texts(env, &flat)
}

#[allow(clippy::too_many_arguments)] // they are the Java method's
pub(crate) fn enter<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    member: jlong,
    version: jint,
    round: jint,
    model: JByteArray<'l>,
    local: JByteArray<'l>,
    complete: jboolean,
) -> Result<(), Failure> {
    let member = MEMBERS.find(member)?;
    let (version, round) = (Version(unsigned("version", version)?), unsigned("round", round)?);
    let model: Bytes = bytes(env, &model)?.unwrap_or_default().into();
    Ok(member.enter(version, round, model, bytes(env, &local)?, complete)?)
}

pub(crate) fn begin_round<'l>(_: &mut Env<'l>, _: JClass<'l>, member: jlong, round: jint) -> Result<(), Failure> {
    let member = MEMBERS.find(member)?;
    Ok(member.begin_round(unsigned("round", round)?)?)
}

pub(crate) fn print<'l>(env: &mut Env<'l>, _: JClass<'l>, member: jlong, line: JString<'l>) -> Result<(), Failure> {
    MEMBERS.find(member)?.print(&text(env, &line)?);
    Ok(())
}

pub(crate) fn checkpoints_early<'l>(
    _: &mut Env<'l>,
    _: JClass<'l>,
    member: jlong,
    version: jint,
) -> Result<jboolean, Failure> {
    let member = MEMBERS.find(member)?;
    Ok(member.checkpoints_early(Version(unsigned("version", version)?))?)
}

pub(crate) fn logged<'l>(_: &mut Env<'l>, _: JClass<'l>, member: jlong) -> Result<jlong, Failure> {
    let logged = MEMBERS.find(member)?.logged()?;
    Ok(jlong::try_from(logged).unwrap_or(jlong::MAX))
}

pub(crate) fn logged_together<'l>(_: &mut Env<'l>, _: JClass<'l>, member: jlong) -> Result<jlong, Failure> {
    let logged = MEMBERS.find(member)?.logged_together()?;
    Ok(jlong::try_from(logged).unwrap_or(jlong::MAX))
}

#[allow(clippy::too_many_arguments)] // they are the Java method's
pub(crate) fn finish<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    member: jlong,
    rounds: jint,
    model: JByteArray<'l>,
    result: JByteArray<'l>,
    millis: jlong,
) -> Result<(), Failure> {
    let member = MEMBERS.find(member)?;
    let model = bytes(env, &model)?.unwrap_or_default();
    let result = bytes(env, &result)?.map(Bytes::from);
    Ok(member.finish(unsigned("rounds", rounds)?, &model, result, at_most(millis))?)
}

fn failure_of(code: Option<String>, message: String) -> Result<Option<Error>, Error> {
    code.map(|code| Ok(Error::new(facts::code(&code)?, message))).transpose()
}

pub(crate) fn free<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    member: jlong,
    code: JString<'l>,
    message: JString<'l>,
) -> Result<(), Failure> {
    let member = MEMBERS.find(member)?;
    let error = Error::new(facts::code(&text(env, &code)?)?, text(env, &message)?);
    Ok(member.free(error)?)
}

pub(crate) fn failure<'l>(env: &mut Env<'l>, _: JClass<'l>, member: jlong) -> Result<Texts<'l>, Failure> {
    let member = MEMBERS.find(member)?;
    match member.failure() {
        Some(error) => to_texts(env, &[error.code.name().to_string(), error.message]),
        None => Ok(Texts::null()),
    }
}

pub(crate) fn close<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    member: jlong,
    code: JString<'l>,
    message: JString<'l>,
) -> Result<(), Failure> {
    let failure = failure_of(optional_text(env, &code)?, text(env, &message)?)?;
    if let Some(member) = MEMBERS.remove(member) {
        member.leave(failure);
    }
    Ok(())
}
