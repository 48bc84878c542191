//! Real XGBoost libraries whose collectives are served by the engine, ranks as threads of this process.
#![allow(dead_code)]

pub mod copies;
pub mod job;
pub mod library;
#[path = "../../examples/train/library.rs"]
pub mod xgboost;

use std::process::Command;

/// Set in a process that was started for one case.
const CASE: &str = "REJOIN_TEST_CASE";

/// Runs a test's body in a process of its own: what is done to a loaded library stays, and two
/// XGBoosts don't get on in one process. `test` is the test's name.
pub fn in_own_process(test: &str, case: &str, body: impl FnOnce()) {
    let own = format!("{test} {case}");
    match std::env::var(CASE) {
        Ok(wanted) if wanted == own => body(),
        Ok(_) => {}
        Err(_) => {
            let program = std::env::current_exe().expect("a program has a name");
            let mut child = Command::new(program);
            child.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(CASE, &own);
            let output = child.output().expect("this program can be started again");
            let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && text.contains("1 passed"), "{own}: {}\n{text}", output.status);
            println!("{text}");
        }
    }
}
