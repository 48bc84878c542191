//! The tracker's native methods.

use crate::convert::{bytes, texts, to_bytes, to_texts, Texts};
use crate::event_log::EventLog;
use crate::facts;
use crate::failure::Failure;
use crate::folder;
use crate::settings::Settings;
use crate::table::Table;
use jni::objects::{JByteArray, JClass, JObject, JString};
use jni::sys::jlong;
use jni::Env;
use parking_lot::Mutex;
use rejoin_agent::durable::LocalFolder;
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::ids::Version;
use rejoin_agent::protocol::message::Timing;
use rejoin_agent::protocol::resize::Elastic;
use rejoin_agent::protocol::start::JobStart;
use rejoin_agent::protocol::tracker::{DeathLimit, TrackerConfig};
use rejoin_agent::tracker_life::{JobTerms, TrackerLife};
use rejoin_agent::transport::{JobId, PortRange, Secret};
use rejoin_agent::{TrackerServer, TrackerServerConfig};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

static TRACKERS: Table<TrackerEntry> = Table::new("tracker");

/// How often it is looked whether a later life has taken the job over.
const LOOK: Duration = Duration::from_millis(250);

/// The file in a folder of state.
const STATE: &str = "join";

/// A job's tracker, and its event log if there is one.
struct TrackerEntry {
    server: TrackerServer,
    log: Option<Mutex<EventLog>>,
    /// There is one if the tracker has a folder of state.
    life: Option<TrackerLife>,
}

impl TrackerEntry {
    /// Fails once a later life has the job: this one is nobody's any more.
    fn is_its(&self) -> Result<(), Error> {
        match self.life.as_ref().and_then(TrackerLife::superseded) {
            None => Ok(()),
            Some(reason) => {
                self.server.abandon();
                Err(Error::new(Code::BadState, reason))
            }
        }
    }
}

/// The secret, which must be 256 bits.
pub(crate) fn secret(env: &Env<'_>, value: &JByteArray<'_>) -> Result<Secret, Failure> {
    let bytes = bytes(env, value)?.unwrap_or_default();
    let length = bytes.len();
    let secret: [u8; 32] = bytes
        .try_into()
        .map_err(|_| Error::new(Code::BadArgument, format!("the job's secret must have 32 bytes, not {length}")))?;
    Ok(Secret::new(secret))
}

/// A job's name of 32 hexadecimal digits.
pub(crate) fn job(text: &str) -> Result<JobId, Error> {
    u128::from_str_radix(text, 16)
        .ok()
        .filter(|_| text.len() == 32)
        .map(|job| JobId(job.to_be_bytes()))
        .ok_or_else(|| Error::new(Code::BadArgument, format!("job {text:?} must be 32 hexadecimal digits")))
}

/// Ports: `0`, or `first-last`.
pub(crate) fn ports(text: &str) -> Result<PortRange, Error> {
    let bad = || Error::new(Code::BadArgument, format!("ports {text:?} must be 0 or FIRST-LAST"));
    match text.split_once('-') {
        None if text == "0" => Ok(PortRange::EPHEMERAL),
        None => text.parse().map_err(|_| bad()).and_then(|port| PortRange::new(port, port)),
        Some((first, last)) => {
            PortRange::new(first.trim().parse().map_err(|_| bad())?, last.trim().parse().map_err(|_| bad())?)
        }
    }
}

/// What the job begins with, if its program hands it over.
fn start(settings: &mut Settings) -> Result<JobStart, Error> {
    let expected = "the digest of a model, 32 hexadecimal digits";
    let version = settings.optional("start.version", "a version from 1 on")?.map(Version);
    let digest = settings.optional::<String>("start.digest", expected)?;
    let (Some(version), Some(text)) = (version, digest) else { return Ok(JobStart::Fresh) };
    let digest = u128::from_str_radix(&text, 16).ok().filter(|_| text.len() == 32).ok_or_else(|| {
        Error::new(Code::BadArgument, format!("a job was to begin with digest {text:?}; expected {expected}"))
    })?;
    // A model without bytes has no digest among agents.
    let digest = if digest == rejoin_agent::digest(&[]) { 0 } else { digest };
    Ok(JobStart::handed_over(version, digest))
}

/// Within which bounds the world may change; not at all unless the fewest ranks are given.
fn elastic(settings: &mut Settings, world: u32) -> Result<Option<Elastic>, Error> {
    let (ranks, millis) = ("a number of ranks", "milliseconds");
    let Some(min) = settings.optional("elastic.min", ranks)? else { return Ok(None) };
    Ok(Some(Elastic {
        min,
        max: settings.or("elastic.max", ranks, world)?,
        timeout_millis: settings.or("elastic.timeout.millis", millis, 30_000)?,
        interval_millis: settings.or("elastic.interval.millis", millis, 10_000)?,
        most_resizes: settings.optional("elastic.resizes.limit", "how often the world may change")?,
        own_may_be_lost: settings.or("elastic.own.may.be.lost", "true or false", false)?,
    }))
}

fn config(settings: &mut Settings, faults: &str, secret: Secret) -> Result<TrackerServerConfig, Error> {
    let millis = "milliseconds";
    let world = settings.take("world", "the number of ranks")?;
    let config = TrackerServerConfig {
        job: job(&settings.take::<String>("job", "32 hexadecimal digits")?)?,
        secret,
        encrypt: settings.or("encrypt", "true or false", false)?,
        listen: settings.take::<IpAddr>("host", "the IP address to listen at")?,
        ports: ports(&settings.or("ports", "0 or FIRST-LAST", "0".to_string())?)?,
        rules: TrackerConfig {
            world,
            spares: settings.or("spares", "a number of tasks", 0)?,
            elastic: elastic(settings, world)?,
            epoch: settings.or("epoch", "the tracker's life, from 1", 1)?,
            timing: Timing {
                heartbeat_millis: settings.or("heartbeat.millis", millis, 200)?,
                lost_after_millis: settings.or("lost.millis", millis, 1500)?,
                lease_millis: settings.or("lease.millis", millis, 60_000)?,
                members_millis: settings.or("members.millis", millis, 600_000)?,
            },
            deaths: DeathLimit {
                deaths: settings.or("deaths.limit", "a number of deaths", 4)?,
                setting: settings.or("deaths.setting", "a setting's name", "the limit of retries".to_string())?,
                framework_counts: settings.or("deaths.framework.counts", "true or false", false)?,
                ends_job: true,
            },
            start: start(settings)?,
            faults: facts::faults(faults, world)?,
            wants_result: true,
        },
    };
    Ok(config)
}

pub(crate) fn open<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    settings: Texts<'l>,
    key: JByteArray<'l>,
    durable: JObject<'l>,
) -> Result<jlong, Failure> {
    let mut settings = Settings::new("tracker", texts(env, &settings)?)?;
    let mut text = |key| settings.or(key, "a text", String::new());
    let (name, folder, faults) = (text("name")?, text("events")?, text("faults")?);
    let mut config = config(&mut settings, &faults, secret(env, &key)?)?;
    let state = settings.optional::<PathBuf>("state", "a folder")?;
    let mut life = state.map(|folder| begin(&folder, &config)).transpose()?;
    let fixed = Some(config.rules.world).filter(|_| config.rules.elastic.is_none());
    let is_later_life = life.as_ref().is_some_and(TrackerLife::is_later);
    if let Some(start) = folder::resumed(env, &mut settings, &durable, fixed, is_later_life)? {
        config.rules.start = start;
    }
    settings.done()?;
    if let Some(TrackerLife { join, .. }) = &life {
        (config.job, config.rules.epoch) = (join.job, join.life);
    }
    let (world, number) = (config.rules.world, (config.job, config.rules.epoch));
    let log = match folder.as_str() {
        "" => None,
        folder => Some(Mutex::new(EventLog::begin(Path::new(folder), &name, &faults, number, world)?)),
    };
    let server = match &mut life {
        Some(life) => life.serve(config)?,
        None => TrackerServer::start(config)?,
    };
    Ok(TRACKERS.add(TrackerEntry { server, log, life }))
}

/// The life of the tracker that begins in a folder of state, which is made if it isn't there.
fn begin(folder: &Path, config: &TrackerServerConfig) -> Result<TrackerLife, Error> {
    LocalFolder::make(folder).map_err(|cause| {
        let text =
            format!("the tracker's state {} can't be made: {cause}; name a folder that can be", folder.display());
        Error::new(Code::Io, text)
    })?;
    let name = folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let TrackerConfig { world, elastic, .. } = &config.rules;
    let max = elastic.map(|elastic| elastic.max);
    let terms = JobTerms { name, world: *world, max, encrypt: config.encrypt, durable: None, secret_file: None };
    TrackerLife::begin(&folder.join(STATE), terms)
}

/// The job, its secret and the life of a tracker that has a folder of state; nothing of one that hasn't.
pub(crate) fn state<'l>(env: &mut Env<'l>, _: JClass<'l>, tracker: jlong) -> Result<Texts<'l>, Failure> {
    let tracker = TRACKERS.find(tracker)?;
    let Some(TrackerLife { join, secret, .. }) = &tracker.life else { return Ok(Texts::null()) };
    let secret = secret.expose().iter().map(|byte| format!("{byte:02x}")).collect();
    to_texts(env, &[join.job.to_string(), secret, join.life.to_string()])
}

pub(crate) fn address<'l>(env: &mut Env<'l>, _: JClass<'l>, tracker: jlong) -> Result<JString<'l>, Failure> {
    let address = TRACKERS.find(tracker)?.server.address().to_string();
    Ok(env.new_string(address)?)
}

pub(crate) fn notify<'l>(env: &mut Env<'l>, _: JClass<'l>, tracker: jlong, fact: Texts<'l>) -> Result<(), Failure> {
    let fact = facts::input(&texts(env, &fact)?)?;
    TRACKERS.find(tracker)?.server.notify(fact);
    Ok(())
}

pub(crate) fn poll<'l>(env: &mut Env<'l>, _: JClass<'l>, tracker: jlong, millis: jlong) -> Result<Texts<'l>, Failure> {
    let tracker = TRACKERS.find(tracker)?;
    let mut left = Duration::from_millis(millis.max(0) as u64);
    let reported = loop {
        tracker.is_its()?;
        let wait = if tracker.life.is_some() { left.min(LOOK) } else { left };
        left -= wait;
        let reported = tracker.server.poll(wait)?;
        if reported.is_some() || left.is_zero() {
            break reported;
        }
    };
    if let (Some(notice), Some(log)) = (&reported, &tracker.log) {
        log.lock().notice(notice);
    }
    match reported {
        Some(notice) => to_texts(env, &facts::of_notice(notice)),
        None => Ok(Texts::null()),
    }
}

pub(crate) fn result<'l>(env: &mut Env<'l>, _: JClass<'l>, tracker: jlong) -> Result<JByteArray<'l>, Failure> {
    let tracker = TRACKERS.find(tracker)?;
    tracker.is_its()?;
    match tracker.server.result()? {
        Some(result) => to_bytes(env, Some(&result)),
        None => Err(Error::new(Code::BadState, "the job has not ended; there is no result yet").into()),
    }
}

pub(crate) fn close<'l>(_: &mut Env<'l>, _: JClass<'l>, tracker: jlong) -> Result<(), Failure> {
    if let Some(tracker) = TRACKERS.remove(tracker) {
        if let Some(log) = &tracker.log {
            let mut log = log.lock();
            // What the driver didn't wait for belongs to the log, too: the end, above all.
            while let Ok(Some(notice)) = tracker.server.poll(Duration::ZERO) {
                log.notice(&notice);
            }
            log.close();
        }
        if tracker.is_its().is_ok() {
            tracker.server.close();
            tracker.life.iter().for_each(TrackerLife::end);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_a_world_are_those_that_a_driver_has_set_and_none_where_it_has_set_no_fewest_ranks() {
        let of = |pairs: &[(&str, &str)]| {
            let texts = pairs.iter().flat_map(|(key, value)| [key.to_string(), value.to_string()]).collect();
            let mut settings = Settings::new("tracker", texts)?;
            let bounds = elastic(&mut settings, 3)?;
            settings.done().map(|()| bounds)
        };
        assert_eq!(of(&[]).unwrap(), None);
        let usual = of(&[("elastic.min", "1")]).unwrap().unwrap();
        assert_eq!((usual.min, usual.max, usual.most_resizes, usual.own_may_be_lost), (1, 3, None, false));
        let all = [("elastic.min", "1"), ("elastic.resizes.limit", "2"), ("elastic.own.may.be.lost", "true")];
        let chosen = of(&all).unwrap().unwrap();
        assert_eq!((chosen.most_resizes, chosen.own_may_be_lost), (Some(2), true));
        assert!(of(&[("elastic.min", "1"), ("elastic.own.may.be.lost", "perhaps")]).is_err());
    }
}
