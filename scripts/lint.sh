#!/usr/bin/env bash
# Formatting and lints, Rust and Java; the width of prose and of code. Changes nothing.
set -eu
cd "$(dirname "$0")/.."
scripts/columns.py .
scripts/circles.py native/*/src
cargo fmt --all --check
cargo clippy --workspace --all-targets --locked -- -D warnings
gradle --no-daemon --quiet checkFormat
