//! Log lines of a whole program, and a training whose calls can't be served in place.

use super::worker::{all_done, spawn, Shape};
use super::{config, World};
use parking_lot::Mutex;
use rejoin_protocol::ids::Rank;
use rejoin_xgboost::{BridgeConfig, InPlace, WireVariant};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Collector;

impl log::Log for Collector {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        LINES.lock().push(record.args().to_string());
    }
    fn flush(&self) {}
}

/// Three ranks of one process train to their end, through sockets though the settings allow more. Returns what was said
/// about it, which must be one line.
pub fn trains_through_sockets(shape: &Shape) -> String {
    log::set_logger(&Collector).expect("this program has one test");
    log::set_max_level(log::LevelFilter::Info);
    let world = World::with(&[0, 0, 0], BridgeConfig { in_place: InPlace::IfPossible, ..config() });
    all_done((0..3).map(|rank| spawn(&world, rank, 0, shape, None)).collect());
    for rank in 0..3 {
        let incarnation = world.incarnation(rank);
        assert!(!world.agent(rank).bridge.is_in_place(Rank(rank), incarnation), "rank {rank} is served in place");
    }
    let said: Vec<String> = LINES.lock().iter().filter(|line| line.contains("served in place")).cloned().collect();
    let [line] = &said[..] else { panic!("expected one line, there are {said:?}") };
    line.clone()
}

pub fn shape() -> Shape {
    Shape { most: 600_000, ..Shape::new(WireVariant::From33) }
}
