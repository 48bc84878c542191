//! Processes and communicators: the native methods of `io.rejoin.Agent` and of a communicator's life.

use crate::agent;
use crate::convert::{bytes, text, texts, to_bytes, to_texts, Texts};
use crate::facts;
use crate::failure::Failure;
use crate::folder;
use crate::kept::KeptObject;
use crate::settings::Settings;
use crate::standing;
use crate::table::Table;
use crate::tracker::secret;
use jni::objects::{JByteArray, JByteBuffer, JClass, JIntArray, JLongArray, JObject, JString};
use jni::sys::{jboolean, jint, jlong};
use jni::{jni_sig, jni_str, Env};
use parking_lot::Mutex;
use rejoin_agent::logs::LogLimits;
use rejoin_agent::protocol::collective::Site;
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::host::OWN_COPIES;
use rejoin_agent::protocol::ids::{Attempt, MemberId, Rank, Version};
use rejoin_communicator::launched::Launched;
use rejoin_communicator::{Communicator, Language, Limits, Placement, Printer, Process};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

static PROCESSES: Table<Process> = Table::new("agent");
static COMMUNICATORS: Table<Held> = Table::new("communicator");
static JOINS: Table<Join> = Table::new("join");

/// A join that is to be waited for, once. It has all that it needs, so that the agent or the
/// communicator that it is made of may be closed meanwhile; any thread may cancel it.
struct Join {
    process: Process,
    rank: Rank,
    attempt: Attempt,
    wait: Mutex<Option<Wait>>,
}

type Wait = Box<dyn FnOnce() -> Result<Option<Communicator>, Error> + Send>;

/// A communicator, which one thread at a time uses; any thread may close it.
pub(crate) struct Held {
    process: Process,
    member: MemberId,
    world: u32,
    /// As of the last call that is over: the caller needn't wait for the one that is under way.
    version: AtomicU32,
    printer: Printer,
    /// `None` while a call is under way (the lock is held then), after the end, and after a defect.
    communicator: Mutex<Option<Communicator>>,
}

impl Held {
    /// One call. The communicator is lost if it panics, and then refuses further calls.
    fn call<T>(&self, work: impl FnOnce(&mut Communicator) -> Result<T, Failure>) -> Result<T, Failure> {
        let mut guard = self.lock()?;
        let mut communicator = guard.take().ok_or_else(|| self.gone())?;
        let result = work(&mut communicator);
        self.version.store(communicator.version().0, Ordering::Relaxed);
        *guard = Some(communicator);
        result
    }

    fn lock(&self) -> Result<parking_lot::MutexGuard<'_, Option<Communicator>>, Error> {
        self.communicator.try_lock().ok_or_else(|| {
            let rank = self.member.rank;
            let text = format!("another thread's call with rank {rank}'s communicator is under way; one at a time");
            Error::new(Code::BadState, text)
        })
    }

    fn gone(&self) -> Error {
        let rank = self.member.rank;
        Error::new(Code::BadState, format!("rank {rank}'s communicator has reported its end, or failed"))
    }

    fn number(value: u32) -> jint {
        jint::try_from(value).unwrap_or(jint::MAX)
    }
}

/// Finds a communicator, and makes one call with it.
pub(crate) fn with<T>(handle: jlong, work: impl FnOnce(&mut Communicator) -> Result<T, Failure>) -> Result<T, Failure> {
    COMMUNICATORS.find(handle)?.call(work)
}

pub(crate) fn open<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    settings: Texts<'l>,
    key: JByteArray<'l>,
    folder: JObject<'l>,
) -> Result<jlong, Failure> {
    let mut settings = Settings::new("agent", texts(env, &settings)?)?;
    let config = agent::control(&mut settings, secret(env, &key)?)?;
    let (bytes, default) = ("a number of bytes", LogLimits::default());
    let logs = LogLimits {
        memory_bytes: settings.or("log.memory.bytes", bytes, default.memory_bytes)?,
        disk_bytes: settings.or("log.disk.bytes", bytes, default.disk_bytes)?,
        folder: settings.or("spill.dir", "a directory for logs", default.folder)?,
    };
    let durable = folder::durable(env, &mut settings, &folder)?;
    let own_copies = settings.or("own.copies", "a number of copies, at least 1", OWN_COPIES)?;
    let details = agent::wants_details(&mut settings)?;
    settings.done()?;
    let chosen = rejoin_communicator::Settings { logs, durable, own_copies };
    Ok(PROCESSES.add(Process::start_with(config, chosen)?.speaking(Language::Java).with_details(details)))
}

pub(crate) fn over<'l>(_: &mut Env<'l>, _: JClass<'l>, process: jlong) -> Result<jboolean, Failure> {
    Ok(PROCESSES.find(process).map(|process| process.agent().is_over()).unwrap_or(true))
}

pub(crate) fn close<'l>(_: &mut Env<'l>, _: JClass<'l>, process: jlong) -> Result<(), Failure> {
    drop(PROCESSES.remove(process));
    Ok(())
}

pub(crate) fn hand_over<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    process: jlong,
    version: jint,
    model: JByteArray<'l>,
) -> Result<(), Failure> {
    let process = PROCESSES.find(process)?;
    let version = Version(crate::member::unsigned("version", version)?);
    Ok(process.hand_over(version, &bytes(env, &model)?.unwrap_or_default())?)
}

pub(crate) fn stand_by<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    process: jlong,
    index: jint,
    stage: jint,
    task: jint,
    millis: jlong,
) -> Result<Texts<'l>, Failure> {
    standing::stand_by(env, PROCESSES.find(process)?.agent(), [index, stage, task], millis)
}

pub(crate) fn stand_down<'l>(
    _: &mut Env<'l>,
    _: JClass<'l>,
    process: jlong,
    index: jint,
    stage: jint,
    task: jint,
) -> Result<(), Failure> {
    standing::stand_down(PROCESSES.find(process)?.agent(), [index, stage, task])
}

/// Join, call, finish in milliseconds; 0 is the default.
fn limits(env: &Env<'_>, millis: &JLongArray<'_>) -> Result<Limits, Failure> {
    let mut given = [0i64; 3];
    millis.get_region(env, 0, &mut given)?;
    let default = Limits::default();
    let or = |millis: i64, default| if millis > 0 { Duration::from_millis(millis as u64) } else { default };
    Ok(Limits {
        join: or(given[0], default.join),
        call: or(given[1], default.call),
        finish: or(given[2], default.finish),
    })
}

/// The handle of a joined communicator; 0 when the job was over.
fn held(process: Process, joined: Option<Communicator>) -> jlong {
    let Some(communicator) = joined else { return 0 };
    let member = communicator.member();
    let (world, version) = (communicator.world(), AtomicU32::new(communicator.version().0));
    let printer = communicator.printer();
    let communicator = Mutex::new(Some(communicator));
    COMMUNICATORS.add(Held { process, member, world, version, printer, communicator })
}

/// The number of a join, for [`wait`] and [`cancel`].
#[allow(clippy::too_many_arguments)] // they are the Java method's
pub(crate) fn join<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    process: jlong,
    rank: jint,
    stage: jint,
    task: jint,
    terms: JString<'l>,
    millis: JLongArray<'l>,
) -> Result<jlong, Failure> {
    let process: Arc<Process> = PROCESSES.find(process)?;
    let unsigned = crate::member::unsigned;
    let attempt = Attempt { stage: unsigned("stage", stage)?, task: unsigned("task", task)? };
    let (terms, limits) = (text(env, &terms)?, limits(env, &millis)?);
    let (process, rank) = ((*process).clone(), Rank(unsigned("rank", rank)?));
    let joining = process.clone();
    let wait: Wait = Box::new(move || joining.join(rank, attempt, &terms, limits));
    Ok(JOINS.add(Join { process, rank, attempt, wait: Mutex::new(Some(wait)) }))
}

/// The handle of the joined communicator; 0 when the job was over. The join's number is void then.
pub(crate) fn wait<'l>(_: &mut Env<'l>, _: JClass<'l>, join: jlong) -> Result<jlong, Failure> {
    let found = JOINS.find(join)?;
    let wait = found.wait.lock().take().ok_or_else(|| Error::new(Code::BadState, "this join is waited for already"))?;
    let joined = wait();
    JOINS.remove(join);
    Ok(held(found.process.clone(), joined?))
}

/// From any thread; does nothing while the join doesn't wait yet.
pub(crate) fn cancel<'l>(env: &mut Env<'l>, _: JClass<'l>, join: jlong, reason: JString<'l>) -> Result<(), Failure> {
    let (join, reason) = (JOINS.find(join)?, text(env, &reason)?);
    let text = format!("rank {} waited for its start when its task was cancelled: {reason}", join.rank);
    join.process.agent().cancel_join(join.rank, join.attempt, Error::new(Code::Cancelled, text));
    Ok(())
}

pub(crate) fn launched<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    terms: JString<'l>,
    millis: JLongArray<'l>,
) -> Result<jlong, Failure> {
    let (terms, limits) = (text(env, &terms)?, limits(env, &millis)?);
    let launched = Launched::from_environment()?;
    let process = launched.process()?.speaking(Language::Java);
    let joined = launched.join_in(&process, &terms, limits)?;
    Ok(held(process, joined))
}

pub(crate) fn about<'l>(env: &mut Env<'l>, _: JClass<'l>, communicator: jlong) -> Result<Texts<'l>, Failure> {
    let held = COMMUNICATORS.find(communicator)?;
    let facts = [("rank", held.member.rank.0), ("world", held.world), ("incarnation", held.member.incarnation.number)];
    let facts: Vec<String> = facts.into_iter().flat_map(|(key, value)| [key.to_string(), value.to_string()]).collect();
    to_texts(env, &facts)
}

/// Local rank, local size, cross rank, cross size.
pub(crate) fn placement<'l>(env: &mut Env<'l>, _: JClass<'l>, communicator: jlong) -> Result<JIntArray<'l>, Failure> {
    let Placement { local_rank, local_size, cross_rank, cross_size } = with(communicator, |live| Ok(live.placement()))?;
    let numbers = [local_rank, local_size, cross_rank, cross_size].map(Held::number);
    let array = env.new_int_array(numbers.len())?;
    array.set_region(env, 0, &numbers)?;
    Ok(array)
}

pub(crate) fn version<'l>(_: &mut Env<'l>, _: JClass<'l>, communicator: jlong) -> Result<jint, Failure> {
    Ok(Held::number(COMMUNICATORS.find(communicator)?.version.load(Ordering::Relaxed)))
}

pub(crate) fn print<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    communicator: jlong,
    line: JString<'l>,
) -> Result<(), Failure> {
    COMMUNICATORS.find(communicator)?.printer.print(&text(env, &line)?);
    Ok(())
}

pub(crate) fn load<'l>(env: &mut Env<'l>, _: JClass<'l>, communicator: jlong) -> Result<JByteArray<'l>, Failure> {
    let (version, model) = with(communicator, |live| Ok(live.load()?))?;
    let empty: &[u8] = &[];
    to_bytes(env, (version.0 > 0).then_some(model.as_deref().unwrap_or(empty)))
}

/// The bytes of a direct buffer; the Java side gives no other one.
///
/// # Safety
/// Nothing else reads or writes it during the call, and the buffer stays reachable: the Java side holds it.
pub(crate) unsafe fn memory<'a>(env: &Env<'_>, buffer: &JByteBuffer<'_>) -> Result<&'a mut [u8], Failure> {
    let length = env.get_direct_buffer_capacity(buffer)?;
    if length == 0 {
        return Ok(&mut []);
    }
    let data = env.get_direct_buffer_address(buffer)?;
    // SAFETY: the JVM says that so many bytes are there; the rest is this function's.
    Ok(unsafe { std::slice::from_raw_parts_mut(data, length) })
}

/// Both of two buffers.
///
/// # Safety
/// As [`memory`], but for an overlap, which is refused.
pub(crate) unsafe fn two<'a>(
    env: &Env<'_>,
    input: &JByteBuffer<'_>,
    output: &JByteBuffer<'_>,
) -> Result<(&'a mut [u8], &'a mut [u8]), Failure> {
    let place = |buffer: &JByteBuffer<'_>| -> Result<std::ops::Range<usize>, Failure> {
        match env.get_direct_buffer_capacity(buffer)? {
            0 => Ok(0..0),
            length => {
                let first = env.get_direct_buffer_address(buffer)? as usize;
                Ok(first..first + length)
            }
        }
    };
    let (one, other) = (place(input)?, place(output)?);
    if one.start < other.end && other.start < one.end {
        return Err(Error::new(Code::BadArgument, "input and output overlap; give a buffer of its own to each").into());
    }
    // SAFETY: they are apart; the rest is this function's.
    Ok(unsafe { (memory(env, input)?, memory(env, output)?) })
}

pub(crate) fn checkpoint<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    communicator: jlong,
    model: JByteBuffer<'l>,
    site: JString<'l>,
) -> Result<(), Failure> {
    let site = Site::Named(text(env, &site)?.into());
    // SAFETY: the Java side holds the buffer, and calls with one thread at a time.
    let model = unsafe { memory(env, &model) }?;
    with(communicator, |live| Ok(live.checkpoint_at(model, site).map(drop)?))
}

pub(crate) fn load_own<'l>(env: &mut Env<'l>, _: JClass<'l>, communicator: jlong) -> Result<JByteArray<'l>, Failure> {
    let own = with(communicator, |live| Ok(live.load_own()?))?;
    to_bytes(env, own.as_deref())
}

/// Which rank it was (-1: none) and of how many, and whose own models it is given; null: there was no other world.
pub(crate) fn former<'l>(env: &mut Env<'l>, _: JClass<'l>, communicator: jlong) -> Result<JIntArray<'l>, Failure> {
    let Some(former) = with(communicator, |live| Ok(live.former()))? else { return Ok(JIntArray::null()) };
    let given = former.given.iter().map(|rank| Held::number(rank.0));
    let about = [former.rank.map_or(-1, |rank| Held::number(rank.0)), Held::number(former.world)];
    let numbers: Vec<jint> = about.into_iter().chain(given).collect();
    let array = env.new_int_array(numbers.len())?;
    array.set_region(env, 0, &numbers)?;
    Ok(array)
}

pub(crate) fn load_own_of<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    communicator: jlong,
    rank: jint,
) -> Result<JByteArray<'l>, Failure> {
    let rank = u32::try_from(rank).map_err(|_| {
        Error::new(Code::BadArgument, format!("the rank is {rank}; expected the number of a rank, from 0"))
    })?;
    let own = with(communicator, |live| Ok(live.load_own_of(Rank(rank))?))?;
    to_bytes(env, own.as_deref())
}

pub(crate) fn checkpoint_with_own<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    communicator: jlong,
    model: JByteBuffer<'l>,
    own: JByteArray<'l>,
    site: JString<'l>,
) -> Result<(), Failure> {
    let site = Site::Named(text(env, &site)?.into());
    let own = bytes(env, &own)?.unwrap_or_default();
    // SAFETY: the Java side holds the buffer, and calls with one thread at a time.
    let model = unsafe { memory(env, &model) }?;
    with(communicator, |live| Ok(live.checkpoint_with_own_at(model, &own, site).map(drop)?))
}

/// The snapshot's `supply` never throws; it gives null when it can't make the bytes.
pub(crate) fn checkpoint_lazy<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    communicator: jlong,
    snapshot: JObject<'l>,
    site: JString<'l>,
) -> Result<(), Failure> {
    let site = Site::Named(text(env, &site)?.into());
    let snapshot = KeptObject::new(env, &snapshot)?;
    let supplier = move || {
        let made = snapshot.with(|env, snapshot| {
            let made = env.call_method(snapshot, jni_str!("supply"), jni_sig!("()[B"), &[])?.l()?;
            let made = env.cast_local::<JByteArray>(made)?;
            bytes(env, &made)
        });
        match made {
            Ok(Some(bytes)) => Ok(bytes),
            _ => Err(Error::new(Code::Io, "the supplier of a checkpoint has thrown an exception; expected bytes")),
        }
    };
    with(communicator, |live| Ok(live.checkpoint_lazy_at(supplier, site).map(drop)?))
}

pub(crate) fn digest<'l>(env: &mut Env<'l>, _: JClass<'l>, data: JByteArray<'l>) -> Result<JString<'l>, Failure> {
    let data = bytes(env, &data)?.unwrap_or_default();
    Ok(env.new_string(format!("{:032x}", rejoin_agent::digest(&data)))?)
}

pub(crate) fn finish<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    communicator: jlong,
    model: JByteArray<'l>,
) -> Result<(), Failure> {
    let model = bytes(env, &model)?.unwrap_or_default();
    let held = COMMUNICATORS.find(communicator)?;
    // The lock is held for all of it: a close that comes meanwhile has to free this call.
    let mut guard = held.lock()?;
    let mut live = guard.take().ok_or_else(|| held.gone())?;
    let ended = live.end(&model);
    if matches!(&ended, Err(error) if error.code.goes_back()) {
        // It may join again.
        *guard = Some(live);
    }
    Ok(ended?)
}

/// The number of the join of the rank's next incarnation in this process. The communicator is closed then.
pub(crate) fn again<'l>(_: &mut Env<'l>, _: JClass<'l>, communicator: jlong) -> Result<jlong, Failure> {
    let held = COMMUNICATORS.find(communicator)?;
    let before = {
        let mut guard = held.lock()?;
        guard.as_ref().ok_or_else(|| held.gone())?.was_sent_back()?;
        guard.take().ok_or_else(|| held.gone())?
    };
    COMMUNICATORS.remove(communicator);
    let (process, rank, attempt) = (held.process.clone(), before.rank(), before.attempt());
    let wait: Wait = Box::new(move || before.join_again());
    Ok(JOINS.add(Join { process, rank, attempt, wait: Mutex::new(Some(wait)) }))
}

/// Also from another thread than the one that calls: what is under way ends with `CANCELLED`.
pub(crate) fn leave<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    communicator: jlong,
    code: JString<'l>,
    message: JString<'l>,
) -> Result<(), Failure> {
    let reason = crate::convert::optional_text(env, &code)?.map(|code| facts::code(&code)).transpose()?;
    let message = text(env, &message)?;
    let Some(held) = COMMUNICATORS.remove(communicator) else { return Ok(()) };
    let guard = held.communicator.try_lock();
    match (guard, reason) {
        (None, reason) => {
            let code = reason.unwrap_or(Code::Cancelled);
            held.process.agent().free(held.member, Error::new(code, message));
        }
        (Some(mut guard), Some(code)) => {
            if let Some(live) = guard.take() {
                live.abandon(Error::new(code, message));
            }
        }
        // A call that has found it, and is about to begin, finds it closed.
        (Some(mut guard), None) => drop(guard.take()),
    }
    Ok(())
}
