#!/usr/bin/env bash
# Formatting and lints, Rust and Java; the width of prose and of code. Changes nothing.
set -eu
cd "$(dirname "$0")/.."
scripts/columns.py .
# Files of the crates left out still use each other; a crate joins when it is free of that.
scripts/circles.py $(printf '%s\n' native/*/src | grep -v /agent/)
cargo fmt --all --check
cargo clippy --workspace --all-targets --locked -- -D warnings
gradle --no-daemon --quiet checkFormat
