//! How a Rust error becomes an `io.rejoin.RejoinException` with its stable code.

use jni::errors::ErrorPolicy;
use jni::objects::JThrowable;
use jni::{jni_sig, jni_str, Env, JValue};
use rejoin_agent::protocol::error::{Code, Error};

/// What a native method fails with.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Rejoin's own.
    Rejoin(Error),
    /// A call into the JVM failed; if an exception is pending, that one is thrown.
    Jni(jni::errors::Error),
}

impl From<jni::errors::Error> for Failure {
    fn from(cause: jni::errors::Error) -> Self {
        Failure::Jni(cause)
    }
}

impl From<Error> for Failure {
    fn from(cause: Error) -> Self {
        Failure::Rejoin(cause)
    }
}

/// Throws `io.rejoin.RejoinException(code, message)`.
pub(crate) struct ThrowRejoin;

fn throw(env: &mut Env<'_>, code: Code, message: &str) -> jni::errors::Result<()> {
    if env.exception_check() {
        return Ok(());
    }
    let code = env.new_string(code.name())?;
    let message = env.new_string(message)?;
    let exception = env.new_object(
        jni_str!("io/rejoin/RejoinException"),
        jni_sig!("(Ljava/lang/String;Ljava/lang/String;)V"),
        &[JValue::Object(&code), JValue::Object(&message)],
    )?;
    let exception = env.cast_local::<JThrowable>(exception)?;
    match env.throw(exception) {
        // So the crate says that the exception is on its way.
        Err(jni::errors::Error::JavaException) => Ok(()),
        other => other,
    }
}

impl<T: Default> ErrorPolicy<T, Failure> for ThrowRejoin {
    type Captures<'unowned_env_local: 'native_method, 'native_method> = ();

    fn on_error<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        _: &mut Self::Captures<'unowned_env_local, 'native_method>,
        failure: Failure,
    ) -> jni::errors::Result<T> {
        match failure {
            Failure::Rejoin(error) => throw(env, error.code, &error.message)?,
            Failure::Jni(cause) => throw(env, Code::Internal, &format!("a call into the JVM failed: {cause}"))?,
        }
        Ok(T::default())
    }

    fn on_panic<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        _: &mut Self::Captures<'unowned_env_local, 'native_method>,
        payload: Box<dyn std::any::Any + Send + 'static>,
    ) -> jni::errors::Result<T> {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no text");
        throw(env, Code::Internal, &format!("a defect in Rejoin's native code: {text}; please report it"))?;
        Ok(T::default())
    }
}
