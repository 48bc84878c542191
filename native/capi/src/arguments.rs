//! Pointers and numbers from C become slices, texts and settings; what can't is refused.

use crate::numbers::{bad, order, unknown};
use crate::sized::{fields, sized};
use rejoin_agent::durable::Durable;
use rejoin_agent::logs::LogLimits;
use rejoin_agent::protocol::collective::Site;
use rejoin_agent::protocol::error::Error;
use rejoin_agent::protocol::host::OWN_COPIES;
use rejoin_agent::transport::{JobId, PortRange, Secret};
use rejoin_agent::AgentConfig;
use rejoin_communicator::{Boot, Limits, Options, Settings};
use rejoin_xgboost::{HookUse, XgboostVersion};
use std::ffi::{c_char, c_void, CStr};
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// A prepare function.
pub(crate) type Prepare = unsafe extern "C" fn(user: *mut c_void, buffer: *mut c_void, bytes: usize) -> i32;

/// `rejoin_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RejoinOptions {
    /// `sizeof` in the caller's header.
    pub size: usize,
    /// The order of the sum.
    pub order: i32,
    /// Boot collective or not.
    pub boot: i32,
    /// The key by which a named boot collective is found again.
    pub boot_name: *const c_char,
    /// Fills the input.
    pub prepare: Option<Prepare>,
    /// Handed to it.
    pub prepare_user: *mut c_void,
}

/// `rejoin_limits`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RejoinLimits {
    /// `sizeof` in the caller's header.
    pub size: usize,
    /// How long a join may wait for the others.
    pub join_millis: u64,
    /// How long one call may wait for the others.
    pub call_millis: u64,
    /// For the end.
    pub finish_millis: u64,
}

/// `rejoin_config`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RejoinConfig {
    /// `sizeof` in the caller's header.
    pub size: usize,
    /// The job's id, as text.
    pub job: *const c_char,
    /// 32 bytes.
    pub secret: *const u8,
    /// Address and port.
    pub tracker: *const c_char,
    /// IP address.
    pub listen: *const c_char,
    /// Range.
    pub ports: *const c_char,
    /// Name of the host.
    pub host: *const c_char,
    /// Name of the process.
    pub executor: *const c_char,
    /// 1: encrypted.
    pub encrypt: i32,
    /// At the start.
    pub tracker_timeout_millis: u64,
    /// Bytes.
    pub log_memory: u64,
    /// Bytes.
    pub log_disk: u64,
    /// Folder.
    pub spill: *const c_char,
    /// Folder of durable checkpoints.
    pub durable: *const c_char,
    /// Versions.
    pub durable_every: u32,
    /// Copies of each own model.
    pub own_copies: u64,
}

/// `rejoin_xgboost_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RejoinXgboostOptions {
    /// `sizeof` in the caller's header.
    pub size: usize,
    /// The loaded XGBoost's version.
    pub version: *const c_char,
    /// Whether its collectives are taken over.
    pub hook: i32,
}

/// A text; NULL is `None`.
///
/// # Safety
/// It ends with a zero byte and stays as it is during the call.
pub(crate) unsafe fn text(what: &str, value: *const c_char) -> Result<Option<String>, Error> {
    if value.is_null() {
        return Ok(None);
    }
    // SAFETY: as this function's.
    let value = unsafe { CStr::from_ptr(value) };
    value.to_str().map(|text| Some(text.to_string())).map_err(|_| bad(format!("{what} is not UTF-8: {value:?}")))
}

/// Bytes to read. None at all may be NULL.
///
/// # Safety
/// So many bytes are there, and nothing writes them during the call.
pub(crate) unsafe fn bytes<'a>(what: &str, data: *const c_void, length: usize) -> Result<&'a [u8], Error> {
    if length == 0 {
        return Ok(&[]);
    }
    check(what, data.is_null(), length)?;
    // SAFETY: as this function's.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), length) })
}

/// Bytes to write.
///
/// # Safety
/// So many bytes are there, and nothing else reads or writes them during the call.
pub(crate) unsafe fn bytes_mut<'a>(what: &str, data: *mut c_void, length: usize) -> Result<&'a mut [u8], Error> {
    if length == 0 {
        return Ok(&mut []);
    }
    check(what, data.is_null(), length)?;
    // SAFETY: as this function's.
    Ok(unsafe { std::slice::from_raw_parts_mut(data.cast(), length) })
}

fn check(what: &str, is_null: bool, length: usize) -> Result<(), Error> {
    if is_null {
        return Err(bad(format!("{what} is NULL, but {length} bytes were expected there")));
    }
    if isize::try_from(length).is_err() {
        return Err(bad(format!("{what} of {length} bytes is more than an address space has")));
    }
    Ok(())
}

/// Bytes of so many elements.
pub(crate) fn size(what: &str, count: usize, element_bytes: usize) -> Result<usize, Error> {
    count.checked_mul(element_bytes).filter(|all| isize::try_from(*all).is_ok()).ok_or_else(|| {
        bad(format!("{what} of {count} elements of {element_bytes} bytes each is more than an address space has"))
    })
}

/// Whether two buffers share memory.
pub(crate) fn overlap(one: *const c_void, length: usize, other: *const c_void, other_length: usize) -> bool {
    let (one, other) = (one as usize, other as usize);
    length > 0 && other_length > 0 && one < other.saturating_add(other_length) && other < one.saturating_add(length)
}

fields!(RejoinOptions, "rejoin_options": size, order, boot, boot_name, prepare, prepare_user);
fields!(RejoinXgboostOptions, "rejoin_xgboost_options": size, version, hook);
fields!(RejoinLimits, "rejoin_limits": size, join_millis, call_millis, finish_millis);
fields!(
    RejoinConfig, "rejoin_config":
    size, job, secret, tracker, listen, ports, host, executor, encrypt, tracker_timeout_millis, log_memory, log_disk,
    spill, durable, durable_every, own_copies,
);

/// Where a call stands.
///
/// # Safety
/// As `text`.
pub(crate) unsafe fn site_of(site: *const c_char) -> Result<Site, Error> {
    // SAFETY: as this function's.
    let site = unsafe { text("site", site) }?;
    Ok(Site::Named(site.as_deref().unwrap_or("a call without REJOIN_HERE").into()))
}

/// What a call was given beside its data.
pub(crate) struct Chosen {
    pub(crate) options: Options,
    pub(crate) prepare: Option<(Prepare, *mut c_void)>,
}

/// # Safety
/// As `sized` and `text`.
pub(crate) unsafe fn options(site: *const c_char, options: *const RejoinOptions) -> Result<Chosen, Error> {
    // SAFETY: as this function's, here and below.
    let mut chosen = Options { site: Some(unsafe { site_of(site) }?), ..Options::default() };
    // SAFETY: see above.
    let Some(given) = (unsafe { sized(options) })? else {
        return Ok(Chosen { options: chosen, prepare: None });
    };
    chosen.order = order(given.order)?;
    // SAFETY: see above.
    let name = unsafe { text("boot_name", given.boot_name) }?;
    chosen.boot = match (given.boot, name) {
        (0, None) => Boot::No,
        (0 | 1, Some(name)) => {
            return Err(bad(format!("boot_name is {name:?}, but boot is not REJOIN_BOOT_NAMED")));
        }
        (1, None) if site.is_null() => {
            return Err(bad("REJOIN_BOOT_BY_SITE needs a site; pass REJOIN_HERE".into()));
        }
        (1, None) => Boot::BySite,
        (2, Some(name)) => Boot::Named(name),
        (2, None) => return Err(bad("REJOIN_BOOT_NAMED needs a boot_name".into())),
        (other, _) => {
            let expected = "REJOIN_BOOT_NO, REJOIN_BOOT_BY_SITE or REJOIN_BOOT_NAMED";
            return Err(unknown("boot", other.into(), expected));
        }
    };
    Ok(Chosen { options: chosen, prepare: given.prepare.map(|prepare| (prepare, given.prepare_user)) })
}

/// # Safety
/// As `sized`.
pub(crate) unsafe fn limits(limits: *const RejoinLimits) -> Result<Limits, Error> {
    let default = Limits::default();
    // SAFETY: as this function's.
    let Some(given) = (unsafe { sized(limits) })? else { return Ok(default) };
    let or = |millis: u64, default: Duration| if millis == 0 { default } else { Duration::from_millis(millis) };
    Ok(Limits {
        join: or(given.join_millis, default.join),
        call: or(given.call_millis, default.call),
        finish: or(given.finish_millis, default.finish),
    })
}

/// Which XGBoost it is, and whether it is hooked.
///
/// # Safety
/// As `sized` and `text`.
pub(crate) unsafe fn xgboost(options: *const RejoinXgboostOptions) -> Result<(XgboostVersion, HookUse), Error> {
    let needed = || bad("rejoin_xgboost_options.version is NULL; expected that of the loaded XGBoost, as 3.2.0".into());
    // SAFETY: as this function's, here and below.
    let given = unsafe { sized(options) }?.ok_or_else(needed)?;
    // SAFETY: see above.
    let version = unsafe { text("version", given.version) }?.ok_or_else(needed)?;
    let hook = match given.hook {
        0 => HookUse::IfPossible,
        1 => HookUse::Never,
        other => return Err(unknown("hook", other.into(), "REJOIN_HOOK_AUTO or REJOIN_HOOK_OFF")),
    };
    Ok((version.parse()?, hook))
}

/// # Safety
/// As `sized` and `text`; the secret has 32 bytes.
pub(crate) unsafe fn config(config: *const RejoinConfig) -> Result<(AgentConfig, Settings), Error> {
    // SAFETY: as this function's, here and below.
    let given = unsafe { sized(config) }?.ok_or_else(|| bad("config is NULL".into()))?;
    // SAFETY: see above.
    let optional = |what: &str, value| unsafe { text(what, value) };
    let needed = |what: &str, value| optional(what, value)?.ok_or_else(|| bad(format!("config.{what} is NULL")));
    let job = job(&needed("job", given.job)?)?;
    if given.secret.is_null() {
        return Err(bad("config.secret is NULL; expected 32 bytes".into()));
    }
    // SAFETY: see above.
    let secret: [u8; 32] = unsafe { given.secret.cast::<[u8; 32]>().read() };
    let listen = optional("listen", given.listen)?.unwrap_or_else(|| "127.0.0.1".into());
    let millis = if given.tracker_timeout_millis == 0 { 10_000 } else { given.tracker_timeout_millis };
    let default = LogLimits::default();
    let or = |bytes: u64, default: u64| if bytes == 0 { default } else { bytes };
    let logs = LogLimits {
        memory_bytes: or(given.log_memory, default.memory_bytes),
        disk_bytes: or(given.log_disk, default.disk_bytes),
        folder: optional("spill", given.spill)?.map_or(default.folder, PathBuf::from),
    };
    let durable = optional("durable", given.durable)?.map(|folder| Durable::at(folder, given.durable_every.max(1)));
    if durable.is_none() && given.durable_every > 0 {
        return Err(bad(format!(
            "config.durable_every is {}, but config.durable names no folder",
            given.durable_every
        )));
    }
    let agent = AgentConfig {
        job,
        secret: Secret::new(secret),
        encrypt: given.encrypt != 0,
        executor: needed("executor", given.executor)?,
        listen: parse::<IpAddr>("listen", &listen, "an IP address")?,
        ports: optional("ports", given.ports)?.map_or(Ok(PortRange::EPHEMERAL), |ports| ports.parse())?,
        host: optional("host", given.host)?.unwrap_or(listen),
        tracker: parse("tracker", &needed("tracker", given.tracker)?, "an address with a port, as 127.0.0.1:4711")?,
        join_file: None,
        tracker_millis: millis,
    };
    let own_copies = match u32::try_from(given.own_copies) {
        Ok(0) => OWN_COPIES,
        Ok(copies) => copies,
        Err(_) => return Err(bad(format!("config.own_copies is {}; there are never so many ranks", given.own_copies))),
    };
    Ok((agent, Settings { logs, durable, own_copies }))
}

/// A job's id.
pub(crate) fn job(text: &str) -> Result<JobId, Error> {
    // A sign would be read as a digit.
    let is_number = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = is_number.then(|| u128::from_str_radix(text, 16).ok()).flatten();
    let number = number.ok_or_else(|| bad(format!("config.job is {text:?}; expected 32 hexadecimal digits")))?;
    Ok(JobId(number.to_be_bytes()))
}

pub(crate) fn parse<T: FromStr>(what: &str, value: &str, expected: &str) -> Result<T, Error> {
    value.parse().map_err(|_| bad(format!("config.{what} is {value:?}; expected {expected}")))
}
