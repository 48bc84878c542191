//! The library behind `include/rejoin.h`, which is its documentation: every function and what holds for all of them.
//!
//! Here is only the crossing: pointers and numbers become slices and types ([`arguments`],
//! [`numbers`]), a panic becomes an error ([`handle`]), and nothing is printed that wasn't asked
//! for ([`quiet`]). Everything else is [`rejoin_communicator`], [`rejoin_xgboost`],
//! [`rejoin_agent`] and [`rejoin_pages`].
#![allow(clippy::missing_safety_doc)] // what a caller has to keep to stands in the header, once for all

mod arguments;
mod calls;
mod checkpoints;
mod folds;
mod handle;
mod join;
mod lazy;
mod library;
mod numbers;
mod pages;
mod quiet;
mod sized;
mod tracker;
mod tracker_config;
mod xgboost;

pub use arguments::{RejoinConfig, RejoinLimits, RejoinOptions, RejoinXgboostOptions};
pub use calls::*;
pub use checkpoints::*;
pub use folds::*;
pub use handle::*;
pub use join::*;
pub use lazy::*;
pub use library::*;
pub use numbers::{constants, OVER};
pub use pages::*;
pub use tracker::*;
pub use tracker_config::RejoinTrackerConfig;
pub use xgboost::*;
