//! The end of a job whose result is large, beside other work. (A program of its own: no other test runs meanwhile.)

mod busy;
#[allow(dead_code)] // this test and the launcher's need different parts
#[path = "../launcher/harness.rs"]
mod harness;

use busy::Busy;
use harness::{example, finish, rejoin};

/// Bytes of rank 0's result; `rejoin run` asks for none, so they cost nothing but memory.
const RESULT_BYTES: usize = 1_000_000_000;

#[test]
fn a_large_result_at_the_end_beside_busy_processes_costs_nobody_its_seat() {
    let (program, bytes) = (example("steps"), RESULT_BYTES.to_string());
    let busy = Busy::processes(8);
    let ran =
        finish(&mut rejoin(&["run", "--timeout", "200s", "-n", "4", "--restart", "--", &program, "3", "1000", &bytes]));
    drop(busy);
    let ran = ran.ended(0);
    assert!(ran.err.is_empty(), "{}", ran.err);
    ran.common("digest ", 4);
}
