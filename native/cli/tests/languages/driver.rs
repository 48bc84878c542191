//! Drivers that have a job's tracker in their own process, and start ranks as they like.

use crate::compiled::{built, install};
use crate::guide::{blocks_of, python_into, run_block};
use crate::harness::{finish, Ran};
use crate::{digest, root};
use std::process::Command;

/// With a limit of its own: a driver that hangs is a failure.
fn drive(program: &str, arguments: &[&str]) -> Ran {
    finish(Command::new("timeout").args(["-k", "5", "55", program]).args(arguments).current_dir(root()))
}

#[test]
fn a_driver_in_c_starts_a_killed_rank_again_and_has_the_same_model() {
    let (_folder, program) = built("cc", "-std=c99", "examples/c/driver.c", "native/capi/include");
    let program = program.display().to_string();
    let undisturbed = drive(&program, &[]).ended(0);
    assert_eq!(undisturbed.err, "", "nothing is said of a job without a death");
    let killed = drive(&program, &["--kill"]).ended(0);
    assert_eq!(killed.err, "rank 1, start 0 has died\n");
    assert_eq!(digest(&killed), digest(&undisturbed));
}

#[test]
fn the_documents_commands_print_one_digest_in_c_and_in_python_whoever_dies() {
    let folder = tempfile::tempdir().expect("a folder");
    install(&folder.path().join("installed"));
    python_into(&folder.path().join("python"));
    std::os::unix::fs::symlink(root().join("examples"), folder.path().join("examples")).expect("a link");
    let blocks = blocks_of("docs/launchers.md");
    let (_, text) = blocks.iter().find(|(kind, _)| kind == "sh driver").expect("the document has it");
    let said = run_block(text, folder.path());
    let digests: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("digest ")).collect();
    assert_eq!(digests.len(), 4, "{said}");
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{said}");
}
