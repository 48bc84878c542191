#![no_main]

use rejoin_agent::event_log::Record;

// A line of an event log that is read comes back as it was when it is written and read again.
libfuzzer_sys::fuzz_target!(|line: &[u8]| {
    if let Ok(record) = serde_json::from_slice::<Record>(line) {
        let text = serde_json::to_string(&record).expect("what was read can be written");
        assert_eq!(serde_json::from_str::<Record>(&text).ok(), Some(record));
    }
});
