//! The same again with XGBoost's calls going through sockets, as they do where they can't be served in place
//! (`common::config` looks at this program's name).

// Each of the three brings the helpers that it has when it runs alone.
#![allow(clippy::duplicate_mod)]

#[path = "faults.rs"]
mod faults;
#[path = "promises.rs"]
mod promises;
#[path = "training.rs"]
mod training;
