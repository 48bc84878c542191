//! Pages that the JVM has written, read by a program in C as users compile it, and by the document's commands.

use crate::compiled::built;
use crate::guide::{blocks_of, python_into};
use crate::{libraries, root};
use std::process::{Command, Output};

fn print(folder: &str, name: &str) -> Output {
    let (_folder, program) = built("cc", "-std=c99", "examples/c/pages.c", "native/capi/include");
    Command::new(program).args([folder, name]).current_dir(root()).output().expect("the program runs")
}

#[test]
fn the_example_in_c_prints_what_is_in_each_page_of_the_golden_folder() {
    let output = print("native/pages/tests/golden", "training");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).expect("text");
    let digests = std::fs::read_to_string(root().join("native/pages/tests/golden/digests")).expect("digests");
    let digest = digests.lines().find_map(|line| line.strip_suffix(" training")).expect("its digest");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], format!("input {digest}"));
    assert_eq!((lines[1], lines[2]), ("feature 0: age (int)", "feature 1: größe (q)"));
    let pages = [
        "page 0 of partition 0: dense, 3 x 6, labels 3, features 1e+09",
        "page 1 of partition 0: dense, 1 x 6, labels 3, features 21",
        "page 2 of partition 2: CSR, 4 x 6, labels 2, features 4.5",
    ];
    assert_eq!(lines[7..], pages);
}

#[test]
fn the_example_in_c_says_what_is_missing() {
    let output = print("examples", "training");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).to_string();
    assert!(said.contains("expected the list of pages examples/training.pages; saw none"), "{said}");
}

#[test]
fn the_documents_commands_print_the_golden_pages() {
    let folder = tempfile::tempdir().expect("a folder");
    python_into(folder.path());
    let blocks = blocks_of("docs/pages.md");
    let (_, text) = blocks.iter().find(|(kind, _)| kind == "sh pages").expect("the document has it");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").expect("a path"));
    let mut bash = Command::new("bash");
    bash.args(["-eu", "-c", text]).current_dir(root()).env("PATH", path).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = bash.env("REJOIN_LIBRARY", libraries().join("librejoin.so")).output().expect("bash is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(said.starts_with("de1a9caf 3 pages 8 rows ['age', 'größe']\n0 0 dense 3 6 [1. 0. 2.]\n"), "{said}");
    assert!(said.ends_with("[[6. 5. 4. 3. 2. 1.]]\n"), "{said}");
}
