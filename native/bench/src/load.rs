//! Other load: processes that compute and want every core they can get.

use rustix::process::{getppid, set_parent_process_death_signal, Signal};
use std::hint::black_box;
use std::process::{Child, Command, Stdio};
use std::thread::available_parallelism;

/// Load processes for each core.
const PER_CORE: usize = 2;

/// Processes that compute until this is dropped.
pub struct Load(Vec<Child>);

impl Load {
    /// Two for each core.
    pub fn start() -> Result<Load, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let cores = available_parallelism().map_err(|error| error.to_string())?.get();
        let mut load = Load(Vec::new());
        for _ in 0..PER_CORE * cores {
            let child = Command::new(&program).arg("load").stdin(Stdio::null()).spawn();
            load.0.push(child.map_err(|error| format!("a load process can't be started: {error}"))?);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended already is what is wanted.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What a load process does, until its parent ends.
pub fn run() -> Result<(), String> {
    let parent = getppid();
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| error.to_string())?;
    // A parent that ended before it could be watched.
    let mut number = 0u64;
    while getppid() == parent {
        for _ in 0..1_000_000_000u64 {
            number = black_box(number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407));
        }
    }
    Ok(())
}
