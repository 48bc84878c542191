//! The members' native methods: a rank's way through a job.

use crate::agent::{AgentEntry, AGENTS};
use crate::convert::{bytes, optional_text, text, to_bytes, to_texts, Texts};
use crate::facts;
use crate::failure::Failure;
use crate::table::Table;
use bytes::Bytes;
use jni::objects::{JByteArray, JClass, JString};
use jni::sys::{jboolean, jint, jlong};
use jni::Env;
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::host::Start;
use rejoin_agent::protocol::ids::{Attempt, MemberId, Rank, Version};
use rejoin_agent::{checkpoint, digest, Joined, Taken};
use rejoin_xgboost::WireVariant;
use std::sync::Arc;
use std::time::Duration;

/// One rank in one incarnation, from its join on.
struct MemberEntry {
    agent: Arc<AgentEntry>,
    rank: Rank,
    outcome: JoinOutcome,
}

enum JoinOutcome {
    /// It trains.
    Train { start: Start, world: u32, bytes: Option<Bytes> },
    /// The job has ended before.
    Over,
}

static MEMBERS: Table<MemberEntry> = Table::new("member");

impl MemberEntry {
    fn start(&self) -> Result<&Start, Error> {
        match &self.outcome {
            JoinOutcome::Train { start, .. } => Ok(start),
            JoinOutcome::Over => Err(Error::new(
                Code::BadState,
                format!("the job had ended when rank {} joined; there is nothing to train", self.rank),
            )),
        }
    }

    fn id(&self) -> Result<MemberId, Error> {
        Ok(MemberId { rank: self.rank, incarnation: self.start()?.incarnation })
    }

    /// The failure that is known of the member, in place of one that says less.
    fn better(&self, error: Error) -> Error {
        let known = self.id().ok().and_then(|id| self.agent.agent.failure(id).or_else(|| self.agent.plane.failure(id)));
        known.unwrap_or(error)
    }
}

fn at_most(millis: jlong) -> Duration {
    Duration::from_millis(millis.max(0) as u64)
}

pub(crate) fn unsigned(what: &str, value: jint) -> Result<u32, Error> {
    u32::try_from(value)
        .map_err(|_| Error::new(Code::BadArgument, format!("{what} must not be negative, but is {value}")))
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
    let outcome = match agent.plane.join(&agent.agent, rank, attempt, text(env, &terms)?, at_most(millis))? {
        Joined::Start { start, world, bytes } => JoinOutcome::Train { start, world, bytes },
        Joined::Over { .. } => JoinOutcome::Over,
    };
    Ok(MEMBERS.add(MemberEntry { agent, rank, outcome }))
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
    agent.agent.cancel_join(Rank(unsigned("rank", rank)?), attempt, error);
    Ok(())
}

pub(crate) fn start<'l>(env: &mut Env<'l>, _: JClass<'l>, member: jlong) -> Result<Texts<'l>, Failure> {
    let member = MEMBERS.find(member)?;
    let facts = match &member.outcome {
        JoinOutcome::Over => vec!["over".to_string(), "true".into()],
        JoinOutcome::Train { start, world, .. } => {
            let round = start.checkpoint.map(|checkpoint| checkpoint.round).unwrap_or_default();
            let complete = start.checkpoint.is_some_and(|checkpoint| checkpoint.complete);
            [
                ("over", "false".to_string()),
                ("world", world.to_string()),
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
    let bytes = match &member.outcome {
        JoinOutcome::Train { bytes, .. } => bytes.as_deref(),
        JoinOutcome::Over => None,
    };
    to_bytes(env, bytes)
}

pub(crate) fn local<'l>(env: &mut Env<'l>, _: JClass<'l>, member: jlong) -> Result<JByteArray<'l>, Failure> {
    let member = MEMBERS.find(member)?;
    let local = match &member.outcome {
        JoinOutcome::Train { start, .. } => start.local.as_deref(),
        JoinOutcome::Over => None,
    };
    to_bytes(env, local)
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
    let id = member.id()?;
    let arguments = member.agent.plane.communicator(id, variant).map_err(|e| member.better(e))?;
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
    let (id, lineage) = (member.id()?, member.start()?.lineage);
    let (version, round) = (Version(unsigned("version", version)?), unsigned("round", round)?);
    let model: Bytes = bytes(env, &model)?.unwrap_or_default().into();
    let local = bytes(env, &local)?;
    let checkpoint = checkpoint(lineage, version, round, &model, complete);
    let taken = Taken { local, ..Taken::new(checkpoint, model) };
    let entered = member.agent.plane.take(&member.agent.agent, id, taken);
    entered.map_err(|error| member.better(error).into())
}

pub(crate) fn begin_round<'l>(_: &mut Env<'l>, _: JClass<'l>, member: jlong, round: jint) -> Result<(), Failure> {
    let member = MEMBERS.find(member)?;
    let (id, round) = (member.id()?, unsigned("round", round)?);
    let begun = member.agent.plane.begin_round(id, round);
    begun.map_err(|error| member.better(error).into())
}

pub(crate) fn logged<'l>(_: &mut Env<'l>, _: JClass<'l>, member: jlong) -> Result<jlong, Failure> {
    let member = MEMBERS.find(member)?;
    let id = member.id()?;
    let logged = member.agent.plane.logged(id).map_err(|error| member.better(error))?;
    Ok(jlong::try_from(logged).unwrap_or(jlong::MAX))
}

pub(crate) fn logged_together<'l>(_: &mut Env<'l>, _: JClass<'l>, member: jlong) -> Result<jlong, Failure> {
    let member = MEMBERS.find(member)?;
    let id = member.id()?;
    let logged = member.agent.plane.logged_together(id);
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
    let id = member.id()?;
    let model = bytes(env, &model)?.unwrap_or_default();
    let result = bytes(env, &result)?.map(Bytes::from);
    member.agent.plane.ends(id).map_err(|error| member.better(error))?;
    member.agent.agent.finish(id, unsigned("rounds", rounds)?, digest(&model), result, at_most(millis))?;
    Ok(())
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
    member.agent.agent.free(member.id()?, error);
    Ok(())
}

pub(crate) fn failure<'l>(env: &mut Env<'l>, _: JClass<'l>, member: jlong) -> Result<Texts<'l>, Failure> {
    let member = MEMBERS.find(member)?;
    let known = match member.id() {
        Ok(id) => member.agent.agent.failure(id).or_else(|| member.agent.plane.failure(id)),
        Err(_) => None,
    };
    match known {
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
        if let Ok(id) = member.id() {
            member.agent.plane.retire(id);
            member.agent.agent.leave(id, failure);
        }
    }
    Ok(())
}
