//! Other work on the machine.

use std::process::{Child, Command};

/// Processes that do nothing but take time of the cores, until this is dropped.
pub struct Busy(Vec<Child>);

impl Busy {
    pub fn processes(count: usize) -> Busy {
        let burn = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell is there");
        Busy((0..count).map(|_| burn()).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that is gone already is as good.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
