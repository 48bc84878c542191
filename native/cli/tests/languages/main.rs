//! The ways in from other languages: programs as users compile and start them, killed at moments of their life.

#[allow(dead_code)] // this test and the launcher's need different parts
#[path = "../launcher/harness.rs"]
mod harness;
#[path = "../scenarios/rust_example.rs"]
mod rust_example;

mod abi;
mod compiled;
mod driver;
mod elastic;
mod guide;
mod pages;

use harness::{run, Ran};
use std::path::{Path, PathBuf};

/// The repository.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Where the library of this very build is: cargo has built it as a dependency of this test.
fn libraries() -> PathBuf {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_rejoin"));
    let folder = binary.parent().expect("the binary is in a folder").join("deps");
    assert!(folder.join("librejoin.so").exists(), "the library is built by cargo test with this package");
    folder
}

fn data() -> String {
    root().join("integration-tests/data/randhie.csv").display().to_string()
}

/// The one digest that all ranks print that saw the end.
fn digest(ran: &Ran) -> String {
    let mut found: Vec<&str> = ran.out.lines().filter_map(|line| Some(line.split_once("digest ")?.1)).collect();
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 1, "one digest was expected in:\n{}\n{}", ran.out, ran.err);
    found[0].to_string()
}

/// Runs a program undisturbed and with each of these lists of rules; returns the digest that it always prints.
fn same_digest_whoever_dies(command: &[&str], kills: &[&[&str]]) -> String {
    let undisturbed = digest(&run(&[&["-n", "4", "--"], command].concat()).ended(0));
    for rules in kills {
        let mut arguments = vec!["-n", "4", "--restart"];
        rules.iter().for_each(|rule| arguments.extend(["--kill", rule]));
        arguments.push("--");
        arguments.extend(command);
        let ran = run(&arguments).ended(0);
        for rule in *rules {
            ran.says(&format!("rule `{rule}` fired"));
        }
        assert_eq!(digest(&ran), undisturbed, "{rules:?}");
    }
    undisturbed
}

/// At the boot collective, right after the first result, twice the same one while another one dies, at the end.
const K_MEANS_KILLS: &[&[&str]] = &[
    &["rank=1,version=boot,seqno=0"],
    &["rank=0,version=0,seqno=0,at=completed", "rank=3,version=24,at=checkpoint"],
    &["rank=2,version=12,seqno=0", "rank=2,incarnation=1,version=20,seqno=0", "rank=3,version=20,seqno=0"],
    &["rank=0,at=finalize"],
];

const LOGISTIC_KILLS: &[&[&str]] = &[
    &["rank=3,version=0,seqno=0,at=completed"],
    // Until rank 0 is declared lost, rank 1 has time to come to the call that it then begins again.
    &["rank=0,version=9,seqno=0,do=stop", "rank=1,version=9,seqno=0,at=again"],
    &["rank=2,version=17,at=checkpoint", "rank=1,at=finalize"],
];
