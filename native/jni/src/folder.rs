//! Durable checkpoints in a folder of the Java side: Hadoop's file systems, for instance.

use crate::convert::{buffers, optional_text, text, texts, Buffer, Texts};
use crate::failure::Failure;
use crate::kept::KeptObject;
use crate::settings::Settings;
use jni::objects::{JObject, JString};
use jni::{jni_sig, jni_str, Env, JValue};
use rejoin_agent::durable::resume::{newest, Look};
use rejoin_agent::durable::{file, identity, Durable, Folder, LocalFolder};
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::start::JobStart;
use rejoin_agent::transport::JobId;
use std::fmt::{self, Debug, Display, Formatter};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Most bytes of one buffer: those of Java count with 31 bits.
const MOST: usize = 1 << 30;
/// Local references of a call: its arguments, the text of its failure, the result.
const REFERENCES: usize = 16;

/// What an agent is to write, and where: into a directory that is named, or a folder of the program's.
pub(crate) fn durable(
    env: &mut Env<'_>,
    settings: &mut Settings,
    folder: &JObject<'_>,
) -> Result<Option<Durable>, Failure> {
    let directory = settings.optional::<PathBuf>("durable.dir", "a directory for checkpoints")?;
    let folder: Arc<dyn Folder> = match (directory, folder.is_null()) {
        (Some(directory), true) => Arc::new(LocalFolder(directory)),
        (None, false) => Arc::new(JavaFolder::new(env, folder)?),
        (None, true) => return Ok(None),
        (Some(directory), false) => {
            let text =
                format!("durable checkpoints can't go both to {} and to a folder of the caller's", directory.display());
            return Err(Error::new(Code::BadArgument, text).into());
        }
    };
    // What is no number of versions is refused as 0 is.
    let every = settings.or("durable.every", "a number of versions", 1_i64)?;
    let every = u32::try_from(every).unwrap_or(0);
    Ok(Some(Durable { folder, every, identity: named(settings)? }))
}

/// What a job begins with that goes on from an earlier one's checkpoints in a folder, if there is a whole one.
///
/// To a later life of the job's tracker the files are those of its own job, which may be writing a version right now:
/// it removes nothing. Should it not learn what is there, its agents know what they have; it ends the job if it would
/// have to begin anew.
pub(crate) fn resumed(
    env: &mut Env<'_>,
    settings: &mut Settings,
    folder: &JObject<'_>,
    world: Option<u32>,
    is_later_life: bool,
) -> Result<Option<JobStart>, Failure> {
    if folder.is_null() {
        return Ok(None);
    }
    let folder = JavaFolder::new(env, folder)?;
    let Some(identity) = named(settings)? else { return Ok(None) };
    let look = if is_later_life { Look::Headers } else { Look::Whole };
    let found = match newest(&folder, identity, world, look) {
        Err(error) if is_later_life => {
            log::warn!("durable checkpoints: {error}");
            return Ok(None);
        }
        found => found?,
    };
    if found.is_none() && !is_later_life {
        // Agents would list what is there, and the job would wait for bytes that nobody can read.
        for damaged in file::list(&folder, identity)? {
            log::warn!("{folder}: {} is not whole, and is removed", damaged.name);
            folder.remove(&damaged.name).map_err(|cause| Error::new(Code::Io, cause.to_string()))?;
        }
    }
    Ok(found.map(JobStart::Durable))
}

fn named(settings: &mut Settings) -> Result<Option<JobId>, Error> {
    Ok(settings.optional::<String>("durable.name", "a name")?.map(|name| identity(&name)))
}

/// An `io.rejoin.FolderCalls`: none of its methods throws; what fails is asked of `failure` on the same thread.
pub(crate) struct JavaFolder {
    calls: KeptObject,
    /// As `toString` has it.
    shown: String,
}

impl JavaFolder {
    pub(crate) fn new(env: &mut Env<'_>, calls: &JObject<'_>) -> Result<Self, Failure> {
        let shown = env.call_method(calls, jni_str!("toString"), jni_sig!("()Ljava/lang/String;"), &[])?.l()?;
        let shown = env.cast_local::<JString>(shown)?;
        Ok(JavaFolder { shown: text(env, &shown)?, calls: KeptObject::new(env, calls)? })
    }

    /// Makes one call, which gives `None` when it has failed.
    fn call<T>(&self, work: impl FnOnce(&mut Env<'_>, &JObject<'_>) -> Result<Option<T>, Failure>) -> io::Result<T> {
        let done = self.calls.with(|env, calls| {
            env.with_local_frame(REFERENCES, |env| -> Result<Result<T, String>, Failure> {
                if let Some(done) = work(env, calls)? {
                    return Ok(Ok(done));
                }
                let failure = jni_str!("failure");
                let text = env.call_method(calls, failure, jni_sig!("()Ljava/lang/String;"), &[])?.l()?;
                let text = env.cast_local::<JString>(text)?;
                Ok(Err(optional_text(env, &text)?.unwrap_or_else(|| "it failed and does not say why".into())))
            })
        });
        match done {
            Ok(done) => done.map_err(io::Error::other),
            Err(Failure::Rejoin(error)) => Err(io::Error::other(error.message)),
            Err(Failure::Jni(cause)) => Err(io::Error::other(format!("a call into the JVM failed: {cause}"))),
        }
    }
}

impl Folder for JavaFolder {
    fn names(&self) -> io::Result<Vec<String>> {
        self.call(|env, calls| {
            let names = env.call_method(calls, jni_str!("names"), jni_sig!("()[Ljava/lang/String;"), &[])?.l()?;
            if names.is_null() {
                return Ok(None);
            }
            let names = env.cast_local::<Texts>(names)?;
            texts(env, &names).map(Some)
        })
    }

    fn length(&self, name: &str) -> io::Result<u64> {
        self.call(|env, calls| {
            let name = env.new_string(name)?;
            let sig = jni_sig!("(Ljava/lang/String;)J");
            let length = env.call_method(calls, jni_str!("length"), sig, &[JValue::Object(&name)])?.j()?;
            Ok(u64::try_from(length).ok())
        })
    }

    fn read(&self, name: &str, from: u64, into: &mut [u8]) -> io::Result<()> {
        let mut from = i64::try_from(from).map_err(io::Error::other)?;
        for part in into.chunks_mut(MOST) {
            self.call(|env, calls| {
                let name = env.new_string(name)?;
                // SAFETY: the bytes are there during the call, and the Java side doesn't keep the buffer.
                let buffer = unsafe { env.new_direct_byte_buffer(part.as_mut_ptr(), part.len())? };
                let sig = jni_sig!("(Ljava/lang/String;JLjava/nio/ByteBuffer;)Z");
                let arguments = [JValue::Object(&name), JValue::Long(from), JValue::Object(&buffer)];
                Ok(env.call_method(calls, jni_str!("read"), sig, &arguments)?.z()?.then_some(()))
            })?;
            from += part.len() as i64;
        }
        Ok(())
    }

    fn write(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        self.call(|env, calls| {
            let name = env.new_string(name)?;
            let parts: Vec<&[u8]> = parts.iter().flat_map(|part| part.chunks(MOST)).collect();
            let array = buffers(env, parts.len())?;
            for (index, part) in parts.into_iter().enumerate() {
                // SAFETY: the bytes are there during the call; the Java side makes the buffer
                // read-only and doesn't keep it.
                let buffer: Buffer = unsafe { env.new_direct_byte_buffer(part.as_ptr().cast_mut(), part.len())? };
                array.set_element(env, index, &buffer)?;
                env.delete_local_ref(buffer);
            }
            let sig = jni_sig!("(Ljava/lang/String;[Ljava/nio/ByteBuffer;)Z");
            let arguments = [JValue::Object(&name), JValue::Object(&array)];
            Ok(env.call_method(calls, jni_str!("write"), sig, &arguments)?.z()?.then_some(()))
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.call(|env, calls| {
            let name = env.new_string(name)?;
            let sig = jni_sig!("(Ljava/lang/String;)Z");
            Ok(env.call_method(calls, jni_str!("remove"), sig, &[JValue::Object(&name)])?.z()?.then_some(()))
        })
    }
}

impl Display for JavaFolder {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl Debug for JavaFolder {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "JavaFolder({})", self.shown)
    }
}
