//! `rejoin run` as a user has it: the program itself, real processes, real signals.

mod ends;
mod harness;
mod pictures;
mod prints;
mod processes;
mod rules;
