//! What a tracker is opened with.

use crate::arguments::{job, parse, text};
use crate::numbers::bad;
use crate::sized::{fields, sized};
use rejoin_agent::protocol::error::Error;
use rejoin_agent::protocol::message::Timing;
use rejoin_agent::protocol::resize::Elastic;
use rejoin_agent::protocol::start::JobStart;
use rejoin_agent::protocol::tracker::{DeathLimit, TrackerConfig};
use rejoin_agent::transport::{JobId, PortRange, Secret};
use rejoin_agent::TrackerServerConfig;
use std::ffi::c_char;
use std::net::IpAddr;
use std::path::PathBuf;

/// More ranks than a job has anywhere.
const MOST_RANKS: u32 = rejoin_agent::event_log::MOST_RANKS;

/// `rejoin_tracker_config`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RejoinTrackerConfig {
    /// `sizeof` in the caller's header.
    pub size: usize,
    /// Number of ranks.
    pub world: u32,
    /// The job's id, as text.
    pub job: *const c_char,
    /// 32 bytes.
    pub secret: *const u8,
    /// IP address.
    pub listen: *const c_char,
    /// Range.
    pub ports: *const c_char,
    /// 1: encrypted.
    pub encrypt: i32,
    /// The job's name.
    pub name: *const c_char,
    /// Where the join file is written.
    pub join_file: *const c_char,
    /// The death of one rank that ends the job.
    pub deaths: u32,
    /// Silence.
    pub lost_after_millis: u64,
    /// How long a rank may be missing.
    pub members_millis: u64,
    /// The fewest ranks.
    pub min: u32,
    /// The most ranks.
    pub max: u32,
    /// How long a replacement is waited for.
    pub elastic_timeout_millis: u64,
    /// How long the world doesn't grow after a change.
    pub resize_interval_millis: u64,
    /// How often the world may change; 0: any number of times.
    pub most_resizes: u32,
    /// 1: the own models of ranks that are gone may be lost.
    pub own_may_be_lost: i32,
}

fields!(
    RejoinTrackerConfig, "rejoin_tracker_config":
    size, world, job, secret, listen, ports, encrypt, name, join_file, deaths, lost_after_millis, members_millis, min,
    max, elastic_timeout_millis, resize_interval_millis, most_resizes, own_may_be_lost,
);

/// What C asks for.
pub(crate) struct Asked {
    pub(crate) server: TrackerServerConfig,
    pub(crate) name: String,
    pub(crate) join_file: Option<PathBuf>,
}

/// # Safety
/// As `sized` and `text`; the secret has 32 bytes or is NULL.
pub(crate) unsafe fn tracker_config(config: *const RejoinTrackerConfig) -> Result<Asked, Error> {
    // SAFETY: as this function's, here and below.
    let given = unsafe { sized(config) }?.ok_or_else(|| bad("config is NULL".into()))?;
    // SAFETY: see above.
    let optional = |what: &str, value| unsafe { text(what, value) };
    let or = |millis: u64, default: u64| if millis == 0 { default } else { millis };
    if given.world == 0 || given.world > MOST_RANKS {
        return Err(bad(format!(
            "config.world is {}; expected a number of ranks, from 1 to {MOST_RANKS}",
            given.world
        )));
    }
    let listen: IpAddr =
        parse("listen", &optional("listen", given.listen)?.unwrap_or_else(|| "127.0.0.1".into()), "an IP address")?;
    if listen.is_unspecified() {
        return Err(bad(format!("config.listen is {listen}; expected the address that the ranks' processes reach")));
    }
    let join_file = optional("join_file", given.join_file)?.map(PathBuf::from);
    let elastic = elastic(&given)?;
    // SAFETY: see above.
    let secret = unsafe { given.secret.cast::<[u8; 32]>().as_ref() };
    let deaths = if given.deaths == 0 { u32::MAX } else { given.deaths };
    let rules = TrackerConfig {
        world: given.world,
        spares: 0,
        elastic,
        epoch: 1,
        timing: Timing::usual(or(given.lost_after_millis, 1_500), or(given.members_millis, 60_000)),
        deaths: DeathLimit::new(deaths, "deaths"),
        start: JobStart::Fresh,
        faults: Vec::new(),
        wants_result: true,
    };
    let server = TrackerServerConfig {
        job: optional("job", given.job)?.map_or_else(JobId::random, |id| job(&id))?,
        secret: secret.map_or_else(Secret::random, |bytes| Ok(Secret::new(*bytes)))?,
        encrypt: given.encrypt != 0,
        listen,
        ports: optional("ports", given.ports)?.map_or(Ok(PortRange::EPHEMERAL), |ports| ports.parse())?,
        rules,
    };
    let name = optional("name", given.name)?.unwrap_or_else(|| server.job.to_string());
    Ok(Asked { server, name, join_file })
}

/// Within which bounds the world may change.
fn elastic(given: &RejoinTrackerConfig) -> Result<Option<Elastic>, Error> {
    if given.min == 0 {
        let may_be_lost = u64::from(given.own_may_be_lost != 0);
        let set = [
            (u64::from(given.max), "max"),
            (given.elastic_timeout_millis, "elastic_timeout_millis"),
            (given.resize_interval_millis, "resize_interval_millis"),
            (u64::from(given.most_resizes), "most_resizes"),
            (may_be_lost, "own_may_be_lost"),
        ];
        return match set.into_iter().find(|(value, _)| *value != 0) {
            None => Ok(None),
            Some((value, name)) => Err(bad(format!(
                "config.{name} is {value}, but config.min is 0, so the world is fixed; say the fewest ranks, too"
            ))),
        };
    }
    let max = if given.max == 0 { given.world } else { given.max };
    if max > MOST_RANKS {
        return Err(bad(format!("config.max is {max}; expected at most {MOST_RANKS}")));
    }
    let or = |millis: u64, default: u64| if millis == 0 { default } else { millis };
    Ok(Some(Elastic {
        min: given.min,
        max,
        timeout_millis: or(given.elastic_timeout_millis, 30_000),
        interval_millis: or(given.resize_interval_millis, 10_000),
        most_resizes: Some(given.most_resizes).filter(|most| *most > 0),
        own_may_be_lost: given.own_may_be_lost != 0,
    }))
}
