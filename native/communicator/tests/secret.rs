//! What processes say of themselves in their logs; in a binary of its own, as a process has one logger.

mod ranks;

use parking_lot::Mutex;
use ranks::program::{moment, Survival};
use rejoin_agent::protocol::fault::Moment;
use rejoin_agent::protocol::ids::{Phase, Version};

static LINES: Mutex<String> = Mutex::new(String::new());

struct Collector;

impl log::Log for Collector {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        LINES.lock().push_str(&format!("{} {}\n", record.target(), record.args()));
    }

    fn flush(&self) {}
}

/// Ways to write bytes down, each without what is around them.
fn looks(secret: &[u8; 32]) -> Vec<String> {
    let hex = |pattern: fn(&u8) -> String| secret.iter().map(pattern).collect::<String>();
    let list = |bytes: &[u8]| format!("{bytes:?}").trim_matches(&['[', ']'][..]).to_owned();
    vec![
        hex(|byte| format!("{byte:02x}")),
        hex(|byte| format!("{byte:02X}")),
        list(&secret[..8]),
        list(&secret[24..]),
        String::from_utf8_lossy(secret).into_owned(),
    ]
}

#[test]
fn neither_the_tracker_nor_an_agent_logs_the_secret_through_a_death_at_any_level() {
    log::set_logger(&Collector).expect("the first logger");
    log::set_max_level(log::LevelFilter::Trace);
    let rules = [moment(1, 0, Moment::Entering { phase: Phase::Version(Version(1)), seqno: 4 })];
    let survival = Survival::of(3, 1, &rules);
    let secret = survival.secret();
    let outcome = survival.run();
    assert_eq!(outcome.deaths, 1);
    let logged = LINES.lock();
    assert_eq!(log::max_level(), log::LevelFilter::Trace, "a program's own logger keeps its level");
    for target in ["rejoin_agent::tracker::serve", "rejoin_agent::control::outputs"] {
        assert!(logged.contains(target), "expected lines of {target} in {logged}");
    }
    for look in looks(&secret) {
        assert!(!logged.contains(&look), "the log has the secret as {look:?}");
    }
    // The search is worth something: it finds what is there.
    assert!(looks(&secret).iter().all(|look| format!("{logged} key {look}.").contains(look)));
}
