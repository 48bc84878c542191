//! The tests in one binary: each file of its own would link all of this again. Not `secret`, which takes the process's
//! logger for itself.

mod collectives;
mod custom;
mod loading;
mod logs;
mod operations;
mod own_models;
mod ranks;
mod recovery;
mod resized;
mod sharing;
mod unequal;
mod vacant;
