//! An XGBoost that doesn't call `close` through a slot.

mod common;

use common::hushed::{shape, trains_through_sockets};

#[test]
fn where_a_slot_is_missing_none_is_touched_and_the_bytes_go_through_sockets() {
    let line = trains_through_sockets(&shape());
    assert!(line.contains("libxgboost_probe.so doesn't call close through a slot"), "{line}");
}
