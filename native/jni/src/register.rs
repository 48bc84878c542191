//! Registers the native methods when the library is loaded.

use crate::failure::{Failure, ThrowRejoin};
use crate::{agent, collectives, member, ranks, tracker};
use jni::objects::{JClass, JString};
use jni::sys::{jint, JNI_ERR};
use jni::{jni_str, native_method, Env, JavaVM, NativeMethod};

fn version<'l>(env: &mut Env<'l>, _: JClass<'l>) -> Result<JString<'l>, Failure> {
    Ok(env.new_string(env!("CARGO_PKG_VERSION"))?)
}

fn log_level<'l>(env: &mut Env<'l>, _: JClass<'l>, level: JString<'l>) -> Result<(), Failure> {
    Ok(rejoin_agent::logging::level(&crate::convert::text(env, &level)?)?)
}

fn beat<'l>(_: &mut Env<'l>, _: JClass<'l>) -> Result<(), Failure> {
    rejoin_agent::pulse::beat();
    Ok(())
}

fn rest<'l>(_: &mut Env<'l>, _: JClass<'l>) -> Result<(), Failure> {
    rejoin_agent::pulse::rest();
    Ok(())
}

macro_rules! native {
    ($($signature:tt)*) => {
        native_method! { java_type = "io.rejoin.Native", error_policy = ThrowRejoin, $($signature)* }
    };
}

macro_rules! xgboost {
    ($($signature:tt)*) => {
        native_method! { java_type = "io.rejoin.xgboost.Native", error_policy = ThrowRejoin, $($signature)* }
    };
}

const METHODS: &[NativeMethod] = &[
    native! { fn = version, static fn version() -> JString },
    native! { fn = log_level, static fn log_level(level: JString) },
    native! { fn = beat, static fn beat() },
    native! { fn = rest, static fn rest() },
    native! {
        fn = tracker::open,
        static fn tracker_open(settings: JString[], secret: jbyte[], folder: JObject) -> jlong
    },
    native! { fn = tracker::state, static fn tracker_state(tracker: jlong) -> JString[] },
    native! { fn = tracker::address, static fn tracker_address(tracker: jlong) -> JString },
    native! { fn = tracker::notify, static fn tracker_notify(tracker: jlong, fact: JString[]) },
    native! { fn = tracker::poll, static fn tracker_poll(tracker: jlong, timeout_millis: jlong) -> JString[] },
    native! { fn = tracker::result, static fn tracker_result(tracker: jlong) -> jbyte[] },
    native! { fn = tracker::close, static fn tracker_close(tracker: jlong) },
    native! { fn = ranks::digest, static fn digest(data: jbyte[]) -> JString },
    native! {
        fn = ranks::open,
        static fn process_open(
            settings: JString[], secret: jbyte[], folder: JObject
        ) -> jlong
    },
    native! { fn = ranks::over, static fn process_over(process: jlong) -> jboolean },
    native! { fn = ranks::close, static fn process_close(process: jlong) },
    native! { fn = ranks::hand_over, static fn process_hand_over(process: jlong, version: jint, model: jbyte[]) },
    native! {
        fn = ranks::stand_by,
        static fn process_stand_by(
            process: jlong, index: jint, stage: jint, task: jint, timeout_millis: jlong
        ) -> JString[]
    },
    native! {
        fn = ranks::stand_down,
        static fn process_stand_down(process: jlong, index: jint, stage: jint, task: jint)
    },
    native! {
        fn = ranks::join,
        static fn process_join(
            process: jlong, rank: jint, stage: jint, task: jint, terms: JString, millis: jlong[]
        ) -> jlong
    },
    native! { fn = ranks::wait, static fn join_wait(join: jlong) -> jlong },
    native! { fn = ranks::cancel, static fn join_cancel(join: jlong, reason: JString) },
    native! { fn = ranks::launched, static fn communicator_launched(terms: JString, millis: jlong[]) -> jlong },
    native! { fn = ranks::about, static fn communicator_about(communicator: jlong) -> JString[] },
    native! { fn = ranks::placement, static fn communicator_placement(communicator: jlong) -> jint[] },
    native! { fn = ranks::version, static fn communicator_version(communicator: jlong) -> jint },
    native! { fn = ranks::print, static fn communicator_print(communicator: jlong, text: JString) },
    native! { fn = ranks::load, static fn communicator_load(communicator: jlong) -> jbyte[] },
    native! {
        fn = ranks::checkpoint,
        static fn communicator_checkpoint(communicator: jlong, model: JByteBuffer, site: JString)
    },
    native! { fn = ranks::load_own, static fn communicator_load_own(communicator: jlong) -> jbyte[] },
    native! { fn = ranks::former, static fn communicator_former(communicator: jlong) -> jint[] },
    native! { fn = ranks::load_own_of, static fn communicator_load_own_of(communicator: jlong, rank: jint) -> jbyte[] },
    native! {
        fn = ranks::checkpoint_with_own,
        static fn communicator_checkpoint_with_own(communicator: jlong, model: JByteBuffer, own: jbyte[], site: JString)
    },
    native! {
        fn = ranks::checkpoint_lazy,
        static fn communicator_checkpoint_lazy(communicator: jlong, snapshot: io.rejoin.Snapshot, site: JString)
    },
    native! { fn = ranks::again, static fn communicator_again(communicator: jlong) -> jlong },
    native! { fn = ranks::finish, static fn communicator_finish(communicator: jlong, model: jbyte[]) },
    native! { fn = ranks::leave, static fn communicator_close(communicator: jlong, code: JString, message: JString) },
    native! {
        fn = collectives::allreduce,
        static fn communicator_allreduce(
            communicator: jlong, buffer: JByteBuffer, element: jint, reduction: jint, name: JString, site: JString,
            ring: jboolean, boot: JString, prepares: jboolean, callbacks: io.rejoin.Callbacks
        )
    },
    native! {
        fn = collectives::allreduce_object,
        static fn communicator_allreduce_object(
            communicator: jlong, object: jbyte[], limit: jint, name: JString, site: JString, ring: jboolean,
            boot: JString, callbacks: io.rejoin.Callbacks
        ) -> jbyte[]
    },
    native! {
        fn = collectives::reduce_scatter,
        static fn communicator_reduce_scatter(
            communicator: jlong, input: JByteBuffer, output: JByteBuffer, element: jint, reduction: jint, name: JString,
            site: JString, ring: jboolean, boot: JString, prepares: jboolean, callbacks: io.rejoin.Callbacks
        )
    },
    native! {
        fn = collectives::part,
        static fn communicator_part(rank: jint, world: jint, count: jint, ring: jboolean) -> jlong
    },
    native! {
        fn = collectives::broadcast,
        static fn communicator_broadcast(
            communicator: jlong, buffer: JByteBuffer, element: jint, root: jint, site: JString, boot: JString,
            prepares: jboolean, callbacks: io.rejoin.Callbacks
        )
    },
    native! {
        fn = collectives::allgather,
        static fn communicator_allgather(
            communicator: jlong, input: JByteBuffer, output: JByteBuffer, element: jint, site: JString, boot: JString,
            prepares: jboolean, callbacks: io.rejoin.Callbacks
        )
    },
    native! {
        fn = collectives::allgather_v,
        static fn communicator_allgather_v(
            communicator: jlong, input: JByteBuffer, element: jint, site: JString, boot: JString
        ) -> jbyte[]
    },
    native! {
        fn = collectives::barrier,
        static fn communicator_barrier(communicator: jlong, site: JString, boot: JString)
    },
];

const XGBOOST_METHODS: &[NativeMethod] = &[
    xgboost! { fn = agent::open, static fn agent_open(settings: JString[], secret: jbyte[], folder: JObject) -> jlong },
    xgboost! { fn = agent::over, static fn agent_over(agent: jlong) -> jboolean },
    xgboost! { fn = agent::close, static fn agent_close(agent: jlong) },
    xgboost! {
        fn = agent::stand_by,
        static fn agent_stand_by(
            agent: jlong, index: jint, stage: jint, task: jint, timeout_millis: jlong
        ) -> JString[]
    },
    xgboost! {
        fn = agent::stand_down,
        static fn agent_stand_down(agent: jlong, index: jint, stage: jint, task: jint)
    },
    xgboost! {
        fn = member::join,
        static fn member_join(
            agent: jlong, rank: jint, stage: jint, task: jint, terms: JString, timeout_millis: jlong
        ) -> jlong
    },
    xgboost! {
        fn = member::cancel_join,
        static fn member_cancel_join(agent: jlong, rank: jint, stage: jint, task: jint, code: JString, message: JString)
    },
    xgboost! { fn = member::start, static fn member_start(member: jlong) -> JString[] },
    xgboost! { fn = member::checkpoint_bytes, static fn member_checkpoint(member: jlong) -> jbyte[] },
    xgboost! { fn = member::local, static fn member_local(member: jlong) -> jbyte[] },
    xgboost! { fn = member::communicator, static fn member_communicator(member: jlong, wire: JString) -> JString[] },
    xgboost! {
        fn = member::enter,
        static fn member_enter(
            member: jlong, version: jint, round: jint, checkpoint: jbyte[], local: jbyte[], complete: jboolean
        )
    },
    xgboost! {
        fn = member::finish,
        static fn member_finish(member: jlong, rounds: jint, model: jbyte[], result: jbyte[], timeout_millis: jlong)
    },
    xgboost! { fn = member::begin_round, static fn member_begin_round(member: jlong, round: jint) },
    xgboost! { fn = member::print, static fn member_print(member: jlong, text: JString) },
    xgboost! {
        fn = member::checkpoints_early,
        static fn member_checkpoints_early(member: jlong, version: jint) -> jboolean
    },
    xgboost! { fn = member::logged, static fn member_logged(member: jlong) -> jlong },
    xgboost! { fn = member::logged_together, static fn member_logged_together(member: jlong) -> jlong },
    xgboost! { fn = member::free, static fn member_free(member: jlong, code: JString, message: JString) },
    xgboost! { fn = member::failure, static fn member_failure(member: jlong) -> JString[] },
    xgboost! { fn = member::close, static fn member_close(member: jlong, code: JString, message: JString) },
];

fn register(env: &mut Env<'_>) -> Result<(), jni::errors::Error> {
    let (class, xgboost) = (jni_str!("io/rejoin/Native"), jni_str!("io/rejoin/xgboost/Native"));
    let (class, xgboost) = (env.find_class(class)?, env.find_class(xgboost)?);
    // SAFETY: `native_method!` made every entry from a Rust function whose signature it checked against the one that it
    // registers; the JVM refuses a name or signature that the class doesn't declare.
    unsafe {
        env.register_native_methods(&class, METHODS)?;
        env.register_native_methods(&xgboost, XGBOOST_METHODS)
    }
}

/// Called by the JVM when the library is loaded.
///
/// # Safety
/// Only the JVM calls this, with its own pointer.
#[no_mangle]
pub unsafe extern "system" fn JNI_OnLoad(vm: *mut jni::sys::JavaVM, _reserved: *mut core::ffi::c_void) -> jint {
    let loaded = std::panic::catch_unwind(|| {
        // SAFETY: the JVM passes its own, valid pointer.
        let vm = unsafe { JavaVM::from_raw(vm) };
        vm.attach_current_thread(register)
    });
    match loaded {
        Ok(Ok(())) => jni::sys::JNI_VERSION_1_8,
        // The pending exception (NoSuchMethodError, NoClassDefFoundError) says the rest.
        _ => JNI_ERR,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    fn camel(snake: &str) -> String {
        let mut parts = snake.split('_');
        let first = parts.next().unwrap_or_default().to_string();
        parts.fold(first, |name, part| name + &part[..1].to_uppercase() + &part[1..])
    }

    /// Names between `before` and `(`, one for each line that has both.
    fn names<'t>(text: &'t str, before: &str) -> BTreeSet<&'t str> {
        let declared = text.lines().filter_map(|line| line.split_once(before)?.1.split_once('('));
        declared.map(|(head, _)| head.rsplit(' ').next().unwrap_or_default()).collect()
    }

    // A method that Java declares and isn't registered would be found at its first call only; one
    // that is registered and not declared fails when the library is loaded, in every process.
    #[test]
    fn every_native_method_that_java_declares_is_registered_and_no_other() {
        let java = concat!(
            include_str!("../../../jvm-core/src/main/java/io/rejoin/Native.java"),
            include_str!("../../../jvm-core/src/main/java/io/rejoin/xgboost/Native.java"),
        );
        let (rust, _) = include_str!("register.rs").split_once("mod tests").unwrap_or_default();
        let declared: BTreeSet<String> = names(java, "static native ").into_iter().map(String::from).collect();
        let registered: BTreeSet<String> = names(rust, "static fn ").into_iter().map(camel).collect();
        assert!(declared.len() > 10, "the declarations were not found: {declared:?}");
        assert_eq!(declared, registered);
    }
}
