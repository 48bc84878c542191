//! What people and files give to `rejoin`: any text is read or refused with words, and nothing panics.

#[allow(dead_code)]
#[path = "../src/record.rs"]
mod record;
#[allow(dead_code)]
#[path = "../src/rules.rs"]
mod rules;

use proptest::collection::vec;
use proptest::prelude::*;
use record::Record;
use rules::Rule;

fn key() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["rank", "incarnation", "version", "seqno", "at", "do", "else", ""])
}

fn value() -> impl Strategy<Value = String> {
    let words = [
        "any",
        "boot",
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn any_text_is_a_rule_or_is_refused_with_words(text in "\\PC{0,60}") {
        if let Err(bad) = text.parse::<Rule>() {
            prop_assert!(!bad.to_string().is_empty());
        }
    }

    #[test]
    fn any_rule_of_known_words_is_read_or_refused_and_keeps_its_text(parts in vec((key(), value()), 0..6), world in 1u32..9) {
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
    fn any_line_of_an_event_log_is_read_or_refused(line in "\\PC{0,80}", micros: u64, rank: Option<u32>) {
        let _ = serde_json::from_str::<Record>(&line);
        let text = format!("{{\"micros\":{micros},\"rank\":{},\"launcher\":{line:?}}}", rank.map_or("null".into(), |r| r.to_string()));
        let _ = serde_json::from_str::<Record>(&text);
    }
}
