//! A program that was compiled with an older header runs with this build's library.

use crate::compiled::built;
use crate::{digest, root, run};
use std::collections::BTreeSet;

/// The header that the program is compiled with: the oldest one that is promised.
const HEADER: &str = "native/capi/tests/abi/c5f49e6";

const PROGRAM: &str = "native/capi/tests/abi/program.c";

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).expect("it is in the repository")
}

#[test]
fn a_program_of_an_older_header_makes_all_its_calls_and_survives_deaths() {
    let (_folder, program) = built("cc", "-std=c99", PROGRAM, HEADER);
    let program = program.display().to_string();
    let undisturbed = digest(&run(&["-n", "2", "--", &program]).ended(0));
    for kill in ["rank=1,version=2,seqno=3", "rank=0,version=3,seqno=0", "rank=1,version=boot,seqno=0"] {
        let ran = run(&["-n", "2", "--restart", "--kill", kill, "--", &program]).ended(0);
        assert_eq!(digest(&ran), undisturbed, "{kill}");
    }
}

#[test]
fn the_program_makes_every_call_of_the_older_header_and_its_numbers_are_those_of_today() {
    let (older, today, program) =
        (text(&format!("{HEADER}/rejoin.h")), text("native/capi/include/rejoin.h"), text(PROGRAM));
    let calls = |text: &str| -> BTreeSet<String> {
        let pieces = text.split("rejoin_").skip(1).filter_map(|piece| piece.split_once('('));
        let names = pieces.map(|(name, _)| name.to_string());
        names.filter(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '_')).collect()
    };
    let (declared, made) = (calls(&older), calls(&program));
    assert!(declared.len() > 30, "{declared:?}");
    assert!(declared.is_subset(&made), "never called: {:?}", declared.difference(&made));
    let numbers = |text: &str| -> BTreeSet<String> {
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix("REJOIN_")?.split_once(" = "));
        let number = |value: &str| value.chars().take_while(char::is_ascii_digit).collect::<String>();
        lines.map(|(name, value)| format!("{name} = {}", number(value))).collect()
    };
    assert!(numbers(&older).is_subset(&numbers(&today)), "{:?}", numbers(&older).difference(&numbers(&today)));
}
