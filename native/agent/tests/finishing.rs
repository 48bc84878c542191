//! A large result at the end, beside processes that keep every core busy: no rank is taken for dead because of it.

#[path = "../../cli/tests/endings/busy.rs"]
mod busy;
mod world;

use busy::Busy;
use bytes::Bytes;
use rejoin_agent::digest;
use rejoin_agent::protocol::event::Event;
use std::time::Duration;
use world::{together, World};

/// Bytes of the result, and of the one in `make test-long`, which says REJOIN_TIMES=10.
const RESULT_BYTES: usize = 100_000_000;
const LONG_RESULT_BYTES: usize = 1_000_000_000;
const WORLD: u32 = 4;

#[test]
fn a_large_result_reaches_the_driver_beside_busy_processes_and_nobody_is_lost() {
    let bytes = if std::env::var("REJOIN_TIMES").is_ok() { LONG_RESULT_BYTES } else { RESULT_BYTES };
    let world = World::new(WORLD);
    let processes: Vec<_> = (0..WORLD).map(|i| world.process(&i.to_string())).collect();
    let started = together(WORLD, |rank| processes[rank as usize].join(rank, 0));
    let result: Bytes = (0..bytes).map(|place| (place ^ place >> 11) as u8).collect();
    let model = digest(&result);
    let _busy = Busy::processes(8);
    let limit = Duration::from_secs(240);
    together(WORLD, |rank| {
        let own = (rank == 0).then(|| result.clone());
        processes[rank as usize].agent.finish(started[rank as usize].0, 1, model, own, limit).expect("the end")
    });
    world.event("the end is reported", |event| matches!(event, Event::JobEnded { .. }));
    let lost: Vec<Event> = world.seen.lock().iter().filter(|event| is_loss(event)).cloned().collect();
    assert!(lost.is_empty(), "{lost:?}");
    assert!(world.tracker.result().expect("the job has ended well").as_ref() == Some(&result), "another result came");
}

fn is_loss(event: &Event) -> bool {
    matches!(event, Event::AgentLost { .. } | Event::RankLost { .. })
}
