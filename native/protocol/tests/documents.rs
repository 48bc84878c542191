//! The documents say what the code says: codes of errors, numbers of the wire.

use rejoin_protocol::error::Code;
use rejoin_protocol::host::ONE_BY_ONE;
use rejoin_protocol::message::{COUNT_LIMIT, LINEAGES_LIMIT, LOCAL_LIMIT, NAME_LIMIT, RESULT_PART_LIMIT, TEXT_LIMIT};
use rejoin_protocol::wire::{Kind, HEADER_BYTES, PAYLOAD_LIMIT, WIRE_VERSION};

fn document(name: &str) -> String {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|cause| panic!("{path}: {cause}"))
}

#[test]
fn the_list_of_errors_has_every_code_once_in_order_and_says_which_end_the_job() {
    let text = document("errors.md");
    let rows: Vec<(String, String)> = text
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            assert_eq!(cells.len(), 5, "{line}");
            (cells[0].trim_matches('`').to_string(), cells[4].to_string())
        })
        .collect();
    let reported: Vec<&str> = rows.iter().map(|(code, _)| code.as_str()).collect();
    let known: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(reported, known);
    for ((_, ends), code) in rows.iter().zip(Code::ALL) {
        assert_eq!(ends != "no", code.will_repeat(), "{}", code.name());
    }
}

#[test]
fn the_protocols_numbers_are_those_of_the_code() {
    // However its lines are wrapped.
    let text = document("protocol.md").split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        format!("Wire version **{WIRE_VERSION}**"),
        format!("header of **{HEADER_BYTES}** bytes"),
        format!("at most **{PAYLOAD_LIMIT}** bytes of payload"),
        format!("`Local` at most **{LOCAL_LIMIT}**"),
        format!("`ResultPart` at most **{RESULT_PART_LIMIT}**"),
        format!("a version, lineage, incarnation or attempt above **{COUNT_LIMIT}**"),
        format!("of more than **{LINEAGES_LIMIT}** lineages"),
        format!("one of the first **{ONE_BY_ONE}** of its incarnation"),
        format!("names of more than **{NAME_LIMIT}** bytes, terms of more than **{TEXT_LIMIT}**"),
    ] {
        assert!(text.contains(&said), "docs/protocol.md doesn't say `{said}`");
    }
    let kinds =
        [Kind::Control, Kind::Bulk, Kind::Data, Kind::PhaseStart, Kind::PhaseEnd, Kind::Receipt, Kind::Collective];
    for kind in kinds {
        let row = format!("| {} | {kind:?} |", kind as u8);
        assert!(text.contains(&row), "docs/protocol.md has no row `{row}`");
    }
}
