//! What the guide "make your own training loop survive" shows is what runs: its programs are taken
//! out of it, and its commands run.

use crate::compiled::install;
use crate::harness::run;
use crate::root;
use crate::rust_example::rust_example;
use std::path::Path;
use std::process::Command;

/// The guide's blocks: what stands behind the three ticks, and the text.
fn blocks() -> Vec<(String, String)> {
    blocks_of("docs/guides/own-training-loop.md")
}

/// The same of any document.
pub fn blocks_of(document: &str) -> Vec<(String, String)> {
    let guide = std::fs::read_to_string(root().join(document)).expect("the guide is there");
    let mut blocks = Vec::new();
    let mut lines = guide.lines();
    while let Some(line) = lines.next() {
        if let Some(kind) = line.strip_prefix("```") {
            let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push((kind.to_string(), text.join("\n") + "\n"));
        }
    }
    blocks
}

/// Makes `python3` in this folder one that has numpy: the first on the path may have none.
pub fn python_into(folder: &Path) {
    let script = "for python in python3 /usr/bin/python3; do if $python -c 'import numpy' 2>/dev/null; then printf \
                  '#!/bin/sh\\nexec %s \"$@\"\\n' \"$(command -v $python)\" >python3; chmod +x python3; exit 0; fi; \
                  done; echo 'expected a Python 3 with numpy; install it: apt-get install python3-numpy' >&2; exit 1";
    std::fs::create_dir_all(folder).expect("a folder");
    let made = Command::new("bash").args(["-eu", "-c", script]).current_dir(folder).status();
    assert!(made.expect("bash is there").success());
}

/// Runs a block in a folder where everything is installed; returns what it printed.
pub fn run_block(text: &str, folder: &Path) -> String {
    let before = [folder.join("python"), folder.join("installed/bin")].map(|folder| folder.display().to_string());
    let path = format!("{}:{}", before.join(":"), std::env::var("PATH").expect("a path"));
    let mut bash = Command::new("bash");
    bash.args(["-eu", "-c", text]).current_dir(folder).env("PATH", path);
    bash.env("LD_LIBRARY_PATH", folder.join("installed/lib")).env("PYTHONPATH", root().join("python"));
    bash.env("PKG_CONFIG_PATH", folder.join("installed/lib/pkgconfig")).env_remove("REJOIN_LIBRARY");
    let output = bash.output().expect("bash is there");
    let said = String::from_utf8_lossy(&output.stdout).to_string();
    assert!(output.status.success(), "{text}\n{said}\n{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn every_program_of_the_guide_survives_by_the_guides_own_commands_and_finds_the_same_mean() {
    let folder = tempfile::tempdir().expect("a folder");
    install(&folder.path().join("installed"));
    python_into(&folder.path().join("python"));
    let (mut said, mut commands) = (String::new(), 0);
    for (kind, text) in blocks() {
        if let Some((_, file)) = kind.split_once(" file=") {
            std::fs::write(folder.path().join(file), &text).expect("room for a program");
        } else if kind == "sh" {
            commands += 1;
            said.push_str(&run_block(&text, folder.path()));
        }
    }
    assert!(commands >= 4, "the guide's commands were not found");
    let picture = std::fs::read_to_string(folder.path().join("run.svg")).expect("the picture is there");
    assert!(picture.contains("<svg"));

    let kill = ["-n", "4", "--restart", "--kill", "rank=2,version=10,seqno=0", "--", &rust_example("loop")];
    said.push_str(&run(&kill).ended(0).out);
    let means: Vec<&str> = said.lines().filter_map(|line| Some(line.split_once("the mean is ")?.1)).collect();
    // Four runs in Python, one in C and one in Rust, four ranks each.
    assert_eq!(means.len(), 24, "{said}");
    assert!(means.iter().all(|mean| *mean == means[0]), "{said}");
}

#[test]
fn the_guides_program_in_rust_is_the_example() {
    let blocks = blocks();
    let (_, text) = blocks.iter().find(|(kind, _)| kind == "rust file=loop.rs").expect("the guide has it");
    let example = std::fs::read_to_string(root().join("examples/rust/src/bin/loop.rs")).expect("the example is there");
    assert_eq!(*text, example);
}
