//! The agent's native methods. An agent here is the control side and XGBoost's plane together.

use crate::convert::{texts, Texts};
use crate::failure::Failure;
use crate::folder;
use crate::settings::Settings;
use crate::standing;
use crate::table::Table;
use crate::tracker::{job, ports, secret};
use jni::objects::{JByteArray, JClass, JObject};
use jni::sys::{jboolean, jint, jlong};
use jni::Env;
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::transport::Secret;
use rejoin_agent::AgentConfig;
use rejoin_xgboost::{BridgeConfig, HookUse, Process};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) static AGENTS: Table<Arc<Process>> = Table::new("agent");

/// What every agent is given, whatever moves its ranks' bytes.
pub(crate) fn control(settings: &mut Settings, secret: Secret) -> Result<AgentConfig, Error> {
    Ok(AgentConfig {
        job: job(&settings.take::<String>("job", "32 hexadecimal digits")?)?,
        secret,
        encrypt: settings.or("encrypt", "true or false", false)?,
        executor: settings.take("executor", "the executor's name")?,
        listen: settings.take::<IpAddr>("host", "the IP address to listen at")?,
        ports: ports(&settings.or("ports", "0 or FIRST-LAST", "0".to_string())?)?,
        host: settings.take("hostname", "the host's name")?,
        tracker: settings.take::<SocketAddr>("tracker", "the tracker's address and port")?,
        join_file: settings.optional("join.file", "a join file")?,
        tracker_millis: settings.or("tracker.millis", "milliseconds", 30_000)?,
    })
}

/// Whether the job has an event log, and so wants to know how each rank spends its time.
pub(crate) fn wants_details(settings: &mut Settings) -> Result<bool, Error> {
    Ok(!settings.or("events", "a folder of the driver's", String::new())?.is_empty())
}

fn config(settings: &mut Settings, secret: Secret) -> Result<(AgentConfig, BridgeConfig, HookUse), Error> {
    let agent = control(settings, secret)?;
    let bytes = "a number of bytes";
    let bridge = BridgeConfig {
        spill_dir: settings.take::<PathBuf>("spill.dir", "a directory for logs")?,
        log_memory_bytes: settings.or("log.memory.bytes", bytes, 256 << 20)?,
        log_disk_bytes: settings.or("log.disk.bytes", bytes, 16 << 30)?,
        ..BridgeConfig::default()
    };
    let hook = match settings.or("hook", "auto or off", "auto".to_string())?.as_str() {
        "auto" => HookUse::IfPossible,
        "off" => HookUse::Never,
        other => {
            let text = format!("the setting hook of an agent is {other:?}; expected auto or off");
            return Err(Error::new(Code::BadArgument, text));
        }
    };
    Ok((agent, bridge, hook))
}

pub(crate) fn open<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    settings: Texts<'l>,
    key: JByteArray<'l>,
    folder: JObject<'l>,
) -> Result<jlong, Failure> {
    let mut settings = Settings::new("agent", texts(env, &settings)?)?;
    let (agent, bridge, hook) = config(&mut settings, secret(env, &key)?)?;
    let durable = folder::durable(env, &mut settings, &folder)?;
    // What XGBoost does with its time is not for us to see.
    wants_details(&mut settings)?;
    settings.done()?;
    Ok(AGENTS.add(Process::start(agent, bridge, hook, durable)?))
}

pub(crate) fn over<'l>(_: &mut Env<'l>, _: JClass<'l>, agent: jlong) -> Result<jboolean, Failure> {
    Ok(AGENTS.find(agent).map(|entry| entry.is_over()).unwrap_or(true))
}

pub(crate) fn stand_by<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    agent: jlong,
    index: jint,
    stage: jint,
    task: jint,
    millis: jlong,
) -> Result<Texts<'l>, Failure> {
    standing::stand_by(env, AGENTS.find(agent)?.agent(), [index, stage, task], millis)
}

pub(crate) fn stand_down<'l>(
    _: &mut Env<'l>,
    _: JClass<'l>,
    agent: jlong,
    index: jint,
    stage: jint,
    task: jint,
) -> Result<(), Failure> {
    standing::stand_down(AGENTS.find(agent)?.agent(), [index, stage, task])
}

pub(crate) fn close<'l>(_: &mut Env<'l>, _: JClass<'l>, agent: jlong) -> Result<(), Failure> {
    if let Some(entry) = AGENTS.remove(agent) {
        entry.end();
    }
    Ok(())
}
