//! Rejoin for the JVM: the native methods of `io.rejoin.Native`.
//!
//! Registered when the library is loaded ([`JNI_OnLoad`]), so that a method whose signature differs
//! is found then and not at its first call. A panic or an error of any method becomes an
//! `io.rejoin.RejoinException`; nothing unwinds into the JVM. Handles are looked up in [`table`]: a
//! closed or invented one is an error, never a crash.

mod agent;
mod collectives;
mod convert;
mod event_log;
mod facts;
mod failure;
mod folder;
mod kept;
mod member;
mod ranks;
mod register;
mod settings;
mod standing;
mod table;
mod tracker;

pub use register::JNI_OnLoad;
