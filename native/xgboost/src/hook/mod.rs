//! The hook: XGBoost's collectives are served by Rejoin's own.
//!
//! The `libxgboost4j.so` of the Maven jars exports the table of virtual functions of its
//! collective, and calls them through it. [`install`] puts our functions ([`calls`]) into the four
//! entries for Allreduce, Broadcast, Allgather and AllgatherV, if the mangled name of the function in
//! each of them is one of the known ones ([`library`]): it proves the parameters. All or none
//! ([`entries`]), and never back again; the library is kept loaded. Only threads that are ranks of a
//! Rejoin job are served ([`dispatch`]); every other caller, a stock training in the same JVM for
//! instance, goes on to XGBoost's own function.
//!
//! What XGBoost sends without these four (the sketch from 3.3 on) goes over the bridge's channels, in the same job.

#![cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]

mod arguments;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod calls;
mod dispatch;
mod entries;
mod library;

pub use dispatch::{Collectives, Served, ServedRank};

/// Makes sure that the collectives of every loaded XGBoost ask us first. Cheap when they do already.
///
/// # Errors
/// What was unexpected; then no library was changed by this call.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub fn install() -> Result<(), String> {
    entries::swap("xgboost", calls::functions())
}

/// On this architecture it isn't known how C++ methods are called.
///
/// # Errors
/// Always.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn install() -> Result<(), String> {
    Err(format!("the hook isn't made for {}", std::env::consts::ARCH))
}
