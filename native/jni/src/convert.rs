//! Text, bytes and arrays of text between the JVM and Rust.

use crate::failure::Failure;
use jni::objects::{JByteArray, JByteBuffer, JObjectArray, JString};
use jni::sys::jint;
use jni::Env;
use rejoin_agent::protocol::error::{Code, Error};

/// A Java array of text.
pub(crate) type Texts<'local> = JObjectArray<'local, JString<'local>>;

/// A direct buffer of Java's.
pub(crate) type Buffer<'local> = JByteBuffer<'local>;

/// Makes an array of buffers, which are null at first.
pub(crate) fn buffers<'local>(
    env: &mut Env<'local>,
    length: usize,
) -> Result<JObjectArray<'local, Buffer<'local>>, Failure> {
    Ok(JObjectArray::<Buffer<'_>>::new(env, length, Buffer::null())?)
}

/// Reads a text; null is empty.
pub(crate) fn text(env: &Env<'_>, value: &JString<'_>) -> Result<String, Failure> {
    if value.is_null() {
        return Ok(String::new());
    }
    Ok(value.try_to_string(env)?)
}

/// Reads a text that may be null.
pub(crate) fn optional_text(env: &Env<'_>, value: &JString<'_>) -> Result<Option<String>, Failure> {
    if value.is_null() {
        return Ok(None);
    }
    text(env, value).map(Some)
}

/// Reads an array of texts; null is empty.
pub(crate) fn texts(env: &mut Env<'_>, value: &Texts<'_>) -> Result<Vec<String>, Failure> {
    if value.is_null() {
        return Ok(Vec::new());
    }
    let length = value.len(env)?;
    let mut out = Vec::with_capacity(length);
    for index in 0..length {
        let element = value.get_element(env, index)?;
        out.push(text(env, &element)?);
        env.delete_local_ref(element);
    }
    Ok(out)
}

/// Makes an array of texts.
pub(crate) fn to_texts<'local>(env: &mut Env<'local>, values: &[String]) -> Result<Texts<'local>, Failure> {
    let array = Texts::new(env, values.len(), JString::null())?;
    for (index, value) in values.iter().enumerate() {
        let element = env.new_string(value)?;
        array.set_element(env, index, &element)?;
        env.delete_local_ref(element);
    }
    Ok(array)
}

/// Copies bytes out of the JVM; null is `None`.
pub(crate) fn bytes(env: &Env<'_>, value: &JByteArray<'_>) -> Result<Option<Vec<u8>>, Failure> {
    if value.is_null() {
        return Ok(None);
    }
    Ok(Some(env.convert_byte_array(value)?))
}

/// Copies bytes into the JVM; `None` is null.
pub(crate) fn to_bytes<'local>(env: &mut Env<'local>, value: Option<&[u8]>) -> Result<JByteArray<'local>, Failure> {
    match value {
        Some(value) => Ok(env.byte_array_from_slice(value)?),
        None => Ok(JByteArray::null()),
    }
}

/// A number of Java that can't be negative.
pub(crate) fn unsigned(what: &str, value: jint) -> Result<u32, Error> {
    u32::try_from(value)
        .map_err(|_| Error::new(Code::BadArgument, format!("{what} must not be negative, but is {value}")))
}
