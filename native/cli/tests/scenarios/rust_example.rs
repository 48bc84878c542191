//! The examples in Rust, for each test that runs one.

use std::path::PathBuf;
use std::process::Command;

/// A program of examples/rust. It is asked for with the whole workspace, whose crates `cargo test --workspace` has
/// built with just these features: alone, with fewer, all of them would be built once more.
pub fn rust_example(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_BIN_EXE_rejoin"));
    let folder = folder.parent().expect("the binary is in a folder");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "--workspace", "--bins", "--examples"]);
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo runs").success());
    folder.join(name).display().to_string()
}
