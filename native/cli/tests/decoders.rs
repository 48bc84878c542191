//! What people and files give to `rejoin`: any text is read or refused with words, and nothing panics.

#[path = "../../../fuzz/kept.rs"]
mod kept;
#[allow(dead_code)]
#[path = "../src/timeline/mod.rs"]
mod timeline;

use proptest::collection::vec;
use proptest::prelude::*;
use rejoin_agent::event_log::{Fact, Record, What};
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::fault::text::Rule;
use rejoin_agent::protocol::ids::{Attempt, Generation, Incarnation, Lineage, Phase, Rank, Task, Version};
use rejoin_agent::protocol::profile::Stretch;

fn key() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["rank", "incarnation", "version", "seqno", "at", "do", "else", ""])
}

fn value() -> impl Strategy<Value = String> {
    let words = [
        "any",
        "boot",
        "bytes",
        "entry",
        "sent",
        "completed",
        "replayed",
        "again",
        "checkpoint",
        "kill",
        "stop",
        "cut",
        "delay",
        "tracker",
        "throw",
        "notify",
        "",
    ];
    let numbers = prop_oneof![
        any::<u64>().prop_map(|n| n.to_string()),
        Just("2s".to_string()),
        Just("150ms".to_string()),
        "\\PC{0,6}"
    ];
    (prop::sample::select(words.to_vec()), prop::option::of(numbers)).prop_map(|(word, number)| match number {
        Some(number) if word.is_empty() => number,
        Some(number) => format!("{word}:{number}"),
        None => word.to_string(),
    })
}

/// Facts as a run writes them, out of order and with any numbers.
fn record() -> impl Strategy<Value = Record> {
    let number = || prop_oneof![0u64..6, any::<u32>().prop_map(u64::from), any::<u64>()];
    let event = (0usize..8, number(), number(), number()).prop_map(|(kind, one, two, three)| {
        let (rank, incarnation, version) = (Rank(one as u32), Incarnation::nth(two as u32), Version(three as u32));
        let (lineage, round, millis) = (Lineage(0), 0, three);
        let (executor, reason) = (String::new(), String::from("<&\""));
        let (attempt, digest) = (Attempt::default(), u128::from(three));
        match kind {
            0 => Event::RankJoined { rank, incarnation, index: Task(rank.0), attempt, executor, vacant_millis: millis },
            1 => Event::RankLost { rank, incarnation, executor, reason, silent_millis: millis, deaths: 1 },
            2 => Event::VersionEntered { rank, incarnation, lineage, version, round },
            3 => {
                let generation = Generation { epoch: 1, number: version.0 };
                Event::PlanMade { generation, lineage, version, round, newcomers: vec![rank], reason }
            }
            4 => Event::RankFinished { rank, incarnation, digest },
            5 => Event::Restored { rank, incarnation, version, round, bytes: three, source: reason, millis },
            6 => {
                let (computing_micros, waiting_micros, replaying_micros) = (two, three, two);
                let (waited_for, calls) = (Some(rank), version.0);
                let stretch =
                    Stretch { micros: three, computing_micros, waiting_micros, replaying_micros, waited_for, calls };
                Event::Spent { rank, incarnation, stretch, ago_micros: two, phase: Phase::Boot, seqno: version.0 }
            }
            _ => Event::JobEnded { digest, deaths: rank.0 },
        }
    });
    let rank = prop_oneof![Just(None), (0u32..6).prop_map(Some), any::<u32>().prop_map(Some)];
    (number(), rank, event).prop_map(|(micros, rank, event)| {
        let (incarnation, generation, version, seqno) = (None, None, None, None);
        Record { micros, rank, incarnation, generation, version, seqno, what: What::Event(event) }
    })
}

#[test]
fn the_kept_corpus_of_the_event_logs_target_runs_through() {
    let mut read = 0;
    for bytes in kept::inputs("event_log") {
        if let Ok(record) = serde_json::from_slice::<Record>(&bytes) {
            let text = serde_json::to_string(&record).unwrap();
            assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
            read += 1;
        }
    }
    assert!(read >= 2, "{read} lines could be read");
}

#[test]
fn a_log_of_more_ranks_than_a_run_can_have_is_refused_before_there_is_a_lane_for_each() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let line = r#"{"micros":0,"launcher":{"Began":{"world":4294967295,"command":[],"rules":[],"unix_seconds":0}}}"#;
    std::fs::write(&log, format!("{line}\n")).unwrap();
    let refused = timeline::draw(&log, Some(&folder.path().join("picture.svg"))).unwrap_err();
    assert!(refused.contains("4294967295 ranks"), "{refused}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn any_text_is_a_rule_or_is_refused_with_words(text in "\\PC{0,60}") {
        if let Err(bad) = text.parse::<Rule>() {
            prop_assert!(!bad.to_string().is_empty());
        }
    }

    #[test]
    fn any_rule_of_known_words_is_read_or_refused_and_keeps_its_text(parts in vec((key(), value()), 0..6),
        world in 1u32..9) {
        let parts: Vec<String> = parts.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        let text = parts.join(",");
        match text.parse::<Rule>() {
            Ok(rule) => {
                prop_assert_eq!(&rule.text, &text);
                if let Ok(numbered) = rule.numbered(3, world) {
                    prop_assert!(numbered.fault.rank.0 < world);
                }
            }
            Err(bad) => prop_assert!(!bad.to_string().is_empty()),
        }
    }

    #[test]
    fn any_log_that_begins_with_a_run_is_drawn(records in vec(record(), 0..30), world in 0u32..5,
        junk in "\\PC{0,30}") {
        let folder = tempfile::tempdir().unwrap();
        let (log, picture) = (folder.path().join("log"), folder.path().join("picture.svg"));
        let (command, rules) = (vec!["<program>".to_string()], Vec::new());
        let began = What::Launcher(Fact::Began { world, command, rules, unix_seconds: 0 });
        let (rank, incarnation, generation, version, seqno) = (None, None, None, None, None);
        let first = Record { micros: 0, rank, incarnation, generation, version, seqno, what: began };
        let lines: Vec<String> =
            std::iter::once(&first).chain(&records)
                .map(|record| serde_json::to_string(record).unwrap() + "\n").collect();
        std::fs::write(&log, lines.concat()).unwrap();
        timeline::draw(&log, Some(&picture)).unwrap();
        prop_assert!(std::fs::read_to_string(&picture).unwrap().contains("</svg>"));
        // Without its beginning, or with something else in it, it is refused with words.
        for text in [lines[1..].concat(), format!("{junk}\n")] {
            std::fs::write(&log, text).unwrap();
            prop_assert!(timeline::draw(&log, Some(&picture)).unwrap_err().contains("log"));
        }
    }

    #[test]
    fn any_line_of_an_event_log_is_read_or_refused(line in "\\PC{0,80}", micros: u64, rank: Option<u32>) {
        let _ = serde_json::from_str::<Record>(&line);
        let text = format!("{{\"micros\":{micros},\"rank\":{},\"launcher\":{line:?}}}",
            rank.map_or("null".into(), |r| r.to_string()));
        let _ = serde_json::from_str::<Record>(&text);
    }
}
