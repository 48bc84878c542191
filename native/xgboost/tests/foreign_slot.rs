//! An XGBoost whose slot for `send` holds a function of another library, for instance a profiler's.

mod common;

use common::hushed::{shape, trains_through_sockets};
use common::probe;

#[test]
fn a_slot_that_others_have_hooked_is_left_alone_and_the_bytes_go_through_sockets() {
    let shape = shape();
    let line = trains_through_sockets(&shape);
    assert!(line.contains("libxgboost_probe.so for send holds an unknown function"), "{line}");
    // Every message of every step, in boot and after it, to both peers.
    let least = 3 * 2 * u64::from(shape.boot_steps + shape.versions * shape.steps);
    let calls = probe::calls_of_others();
    assert!(calls >= least, "the other library's function was called {calls} times; there were {least} messages");
}
