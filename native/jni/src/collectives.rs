//! The collectives' native methods. Every buffer is a direct one, from its first to its last byte.

use crate::convert::text;
use crate::failure::Failure;
use crate::ranks::{memory, two, with};
use jni::objects::{JByteArray, JByteBuffer, JClass, JObject, JString};
use jni::sys::{jboolean, jint, jlong};
use jni::{jni_sig, jni_str, Env, JValue};
use rejoin_agent::protocol::collective::Site;
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::ids::Rank;
use rejoin_communicator::collectives::{Element, FoldError, Order, Reduction};
use rejoin_communicator::{Boot, Folding, Input, Options};

fn bad(text: String) -> Error {
    Error::new(Code::BadArgument, text)
}

fn element(code: jint) -> Result<Element, Error> {
    let found = u8::try_from(code).ok().and_then(Element::from_code);
    found.ok_or_else(|| bad(format!("element {code} is unknown")))
}

fn reduction(code: jint) -> Result<Reduction, Error> {
    let found = usize::try_from(code).ok().and_then(|at| Reduction::ALL.get(at));
    found.copied().ok_or_else(|| bad(format!("reduction {code} is unknown")))
}

/// `boot`: null for no, empty for by site, or the name.
fn options(env: &Env<'_>, site: &JString<'_>, ring: jboolean, boot: &JString<'_>) -> Result<Options, Failure> {
    let boot = match crate::convert::optional_text(env, boot)? {
        None => Boot::No,
        Some(name) if name.is_empty() => Boot::BySite,
        Some(name) => Boot::Named(name),
    };
    let order = if ring { Order::Ring } else { Order::Rank };
    Ok(Options { order, boot, site: Some(Site::Named(text(env, site)?.into())) })
}

fn failed(what: &str) -> Error {
    Error::new(Code::TrainingFailed, format!("{what} has thrown an exception, which is the cause"))
}

/// Calls the Java side's `prepare`, which never throws.
fn prepare(env: &mut Env<'_>, callbacks: &JObject<'_>) -> Result<(), Error> {
    let called = env.call_method(callbacks, jni_str!("prepare"), jni_sig!("()Z"), &[]).and_then(|value| value.z());
    match called {
        Ok(true) => Ok(()),
        _ => Err(failed("the prepare function")),
    }
}

/// The caller's own function. It is called in the thread of the collective.
fn own(
    env: &mut Env<'_>,
    name: &str,
    element_bytes: jint,
    callbacks: &JObject<'_>,
) -> Result<Folding<'static>, Failure> {
    let bytes = usize::try_from(element_bytes).unwrap_or(0);
    let (vm, callbacks, whole) = (env.get_java_vm()?, env.new_global_ref(callbacks)?, format!("`{name}`"));
    let fold = move |accumulator: &mut [u8], other: &[u8]| {
        let called = vm.attach_current_thread(|env| -> Result<bool, jni::errors::Error> {
            env.with_local_frame(8, |env| {
                // SAFETY: the bytes are there during the call; the Java side doesn't keep the
                // buffers, and makes the second one read-only.
                let (left, right) = unsafe {
                    (
                        env.new_direct_byte_buffer(accumulator.as_mut_ptr(), accumulator.len())?,
                        env.new_direct_byte_buffer(other.as_ptr().cast_mut(), other.len())?,
                    )
                };
                let sig = jni_sig!("(Ljava/nio/ByteBuffer;Ljava/nio/ByteBuffer;)Z");
                let arguments = [JValue::Object(&left), JValue::Object(&right)];
                env.call_method(&callbacks, jni_str!("fold"), sig, &arguments)?.z()
            })
        });
        match called {
            Ok(true) => Ok(()),
            _ => Err(FoldError(format!("{whole} has thrown an exception"))),
        }
    };
    Ok(Folding::custom(name, bytes, fold)?)
}

fn folding(
    env: &mut Env<'_>,
    kind: jint,
    operator: jint,
    name: &JString<'_>,
    callbacks: &JObject<'_>,
) -> Result<Folding<'static>, Failure> {
    match crate::convert::optional_text(env, name)? {
        Some(name) => own(env, &name, kind, callbacks),
        None => Ok(Folding::known(element(kind)?, reduction(operator)?)?),
    }
}

#[allow(clippy::too_many_arguments)] // they are the Java method's
pub(crate) fn allreduce<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    communicator: jlong,
    buffer: JByteBuffer<'l>,
    kind: jint,
    operator: jint,
    name: JString<'l>,
    site: JString<'l>,
    ring: jboolean,
    boot: JString<'l>,
    prepares: jboolean,
    callbacks: JObject<'l>,
) -> Result<(), Failure> {
    let options = options(env, &site, ring, &boot)?;
    let folding = folding(env, kind, operator, &name, &callbacks)?;
    // SAFETY: the Java side holds the buffer, and calls with one thread at a time.
    let buffer = unsafe { memory(env, &buffer) }?;
    let mut fill = |_: &mut [u8]| prepare(env, &callbacks);
    let input = Input::of(buffer, prepares.then_some(&mut fill as _));
    let result = with(communicator, |live| Ok(live.allreduce_bytes(input, &folding, &options)?))?;
    buffer.copy_from_slice(&result);
    Ok(())
}

#[allow(clippy::too_many_arguments)] // they are the Java method's
pub(crate) fn allreduce_object<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    communicator: jlong,
    object: JByteArray<'l>,
    limit: jint,
    name: JString<'l>,
    site: JString<'l>,
    ring: jboolean,
    boot: JString<'l>,
    callbacks: JObject<'l>,
) -> Result<JByteArray<'l>, Failure> {
    let options = options(env, &site, ring, &boot)?;
    let limit = usize::try_from(limit).map_err(|_| bad(format!("a limit of {limit} bytes was given")))?;
    let object = crate::convert::bytes(env, &object)?.ok_or_else(|| bad("the object is null".into()))?;
    let (name, mut objects) = (text(env, &name)?, [object]);
    let (vm, callbacks, whole) = (env.get_java_vm()?, env.new_global_ref(&callbacks)?, format!("`{name}`"));
    let fold = move |accumulator: &mut Vec<u8>, other: &[u8]| {
        let called = vm.attach_current_thread(|env| -> Result<Option<Vec<u8>>, jni::errors::Error> {
            env.with_local_frame(8, |env| {
                let (left, right) = (env.byte_array_from_slice(accumulator)?, env.byte_array_from_slice(other)?);
                let sig = jni_sig!("([B[B)[B");
                let arguments = [JValue::Object(&left), JValue::Object(&right)];
                let folded = env.call_method(&callbacks, jni_str!("foldObject"), sig, &arguments)?.l()?;
                if folded.is_null() {
                    return Ok(None);
                }
                let folded = env.cast_local::<JByteArray>(folded)?;
                env.convert_byte_array(folded).map(Some)
            })
        });
        match called {
            Ok(Some(folded)) => {
                *accumulator = folded;
                Ok(())
            }
            _ => Err(FoldError(format!("{whole} has thrown an exception"))),
        }
    };
    with(communicator, |live| Ok(live.allreduce_objects(&mut objects, limit, &name, fold, &options)?))?;
    crate::convert::to_bytes(env, Some(&objects[0]))
}

#[allow(clippy::too_many_arguments)] // they are the Java method's
pub(crate) fn reduce_scatter<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    communicator: jlong,
    input: JByteBuffer<'l>,
    output: JByteBuffer<'l>,
    kind: jint,
    operator: jint,
    name: JString<'l>,
    site: JString<'l>,
    ring: jboolean,
    boot: JString<'l>,
    prepares: jboolean,
    callbacks: JObject<'l>,
) -> Result<(), Failure> {
    let options = options(env, &site, ring, &boot)?;
    let folding = folding(env, kind, operator, &name, &callbacks)?;
    // SAFETY: the Java side holds the buffers, and calls with one thread at a time.
    let (input, output) = unsafe { two(env, &input, &output) }?;
    let mut fill = |_: &mut [u8]| prepare(env, &callbacks);
    let input = Input::of(input, prepares.then_some(&mut fill as _));
    with(communicator, |live| Ok(live.reduce_scatter_bytes(input, output, &folding, &options)?))
}

/// First element and number of elements of a rank's part, in one number each half.
pub(crate) fn part<'l>(
    _: &mut Env<'l>,
    _: JClass<'l>,
    rank: jint,
    world: jint,
    count: jint,
    ring: jboolean,
) -> Result<jlong, Failure> {
    let order = if ring { Order::Ring } else { Order::Rank };
    let known = match (u32::try_from(rank), u32::try_from(world), usize::try_from(count)) {
        (Ok(rank), Ok(world), Ok(count)) if rank < world => order.chunk(rank as usize, count, world as usize),
        _ => {
            return Err(
                bad(format!("a part of {count} elements of rank {rank} in a world of {world} was asked for")).into()
            )
        }
    };
    Ok((known.start as jlong) << 32 | known.len() as jlong)
}

#[allow(clippy::too_many_arguments)] // they are the Java method's
pub(crate) fn broadcast<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    communicator: jlong,
    buffer: JByteBuffer<'l>,
    kind: jint,
    root: jint,
    site: JString<'l>,
    boot: JString<'l>,
    prepares: jboolean,
    callbacks: JObject<'l>,
) -> Result<(), Failure> {
    let options = options(env, &site, false, &boot)?;
    let (element, root) = (element(kind)?, Rank(crate::member::unsigned("root", root)?));
    // SAFETY: the Java side holds the buffer, and calls with one thread at a time.
    let buffer = unsafe { memory(env, &buffer) }?;
    let mut fill = |_: &mut [u8]| prepare(env, &callbacks);
    let input = Input::of(buffer, prepares.then_some(&mut fill as _));
    if let Some(result) = with(communicator, |live| Ok(live.broadcast_bytes(input, element, root, &options)?))? {
        buffer.copy_from_slice(&result);
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)] // they are the Java method's
pub(crate) fn allgather<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    communicator: jlong,
    input: JByteBuffer<'l>,
    output: JByteBuffer<'l>,
    kind: jint,
    site: JString<'l>,
    boot: JString<'l>,
    prepares: jboolean,
    callbacks: JObject<'l>,
) -> Result<(), Failure> {
    let (options, element) = (options(env, &site, false, &boot)?, element(kind)?);
    // SAFETY: the Java side holds the buffers, and calls with one thread at a time.
    let (input, output) = unsafe { two(env, &input, &output) }?;
    let mut fill = |_: &mut [u8]| prepare(env, &callbacks);
    let input = Input::of(input, prepares.then_some(&mut fill as _));
    with(communicator, |live| Ok(live.allgather_bytes(input, output, element, &options)?))
}

/// The lengths of the parts in bytes (8 bytes each, little endian), then the parts.
pub(crate) fn allgather_v<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    communicator: jlong,
    input: JByteBuffer<'l>,
    kind: jint,
    site: JString<'l>,
    boot: JString<'l>,
) -> Result<JByteArray<'l>, Failure> {
    let (options, element) = (options(env, &site, false, &boot)?, element(kind)?);
    // SAFETY: the Java side holds the buffer, and calls with one thread at a time.
    let input = unsafe { memory(env, &input) }?;
    let (parts, lengths) = with(communicator, |live| Ok(live.allgather_v_bytes(input, element, &options)?))?;
    let mut all: Vec<u8> = lengths.iter().flat_map(|length| (*length as u64).to_le_bytes()).collect();
    all.extend_from_slice(&parts);
    crate::convert::to_bytes(env, Some(&all))
}

pub(crate) fn barrier<'l>(
    env: &mut Env<'l>,
    _: JClass<'l>,
    communicator: jlong,
    site: JString<'l>,
    boot: JString<'l>,
) -> Result<(), Failure> {
    let options = options(env, &site, false, &boot)?;
    with(communicator, |live| Ok(live.barrier_with(&options)?))
}
