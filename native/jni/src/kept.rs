//! A Java object that Rust keeps, and may let go of on any thread.

use crate::failure::Failure;
use jni::objects::{Global, JObject};
use jni::{Env, JavaVM};

/// A global reference that is dropped on a thread that the JVM knows: the crate warns of any other, and the store lets
/// go of what it holds on a thread of its own.
pub(crate) struct KeptObject {
    vm: JavaVM,
    /// There until it is dropped.
    object: Option<Global<JObject<'static>>>,
}

impl KeptObject {
    pub(crate) fn new(env: &mut Env<'_>, object: &JObject<'_>) -> Result<Self, Failure> {
        Ok(KeptObject { vm: env.get_java_vm()?, object: Some(env.new_global_ref(object)?) })
    }

    /// Does something with it, on a thread that is attached for that time: a JVM doesn't end before all that stay
    /// attached do.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&mut Env<'_>, &JObject<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.vm.attach_current_thread_for_scope(|env| match &self.object {
            Some(object) => work(env, object),
            None => work(env, &JObject::null()),
        })
    }
}

impl Drop for KeptObject {
    fn drop(&mut self) {
        let object = self.object.take();
        // Where the thread can't be attached, the JVM is ending.
        let _ = self.vm.attach_current_thread_for_scope(|_| -> Result<(), Failure> {
            drop(object);
            Ok(())
        });
    }
}
