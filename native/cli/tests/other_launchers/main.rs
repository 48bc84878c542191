//! Jobs whose ranks are started by launchers that aren't ours: real ssh, Open MPI and Slurm on this machine, real
//! kills.
//!
//! A launcher that isn't installed fails its test, which says what to install (`scripts/setup.sh tests` does). What is
//! ignored here runs in `make test-long`.

#[allow(dead_code)] // these tests and the launcher's need different parts
#[path = "../launcher/harness.rs"]
mod harness;
#[allow(dead_code)]
#[path = "../launcher/jobs.rs"]
mod jobs;

mod mpirun;
mod namespaces;
#[allow(dead_code)]
#[path = "../launcher/ports.rs"]
mod ports;
#[path = "../launcher/found.rs"]
mod processes;
mod slurm;
mod ssh;
#[path = "../launcher/sshd.rs"]
mod sshd;
