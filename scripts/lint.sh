#!/usr/bin/env bash
# Formatting and lints, Rust and Java. Changes nothing.
set -eu
cd "$(dirname "$0")/.."
cargo fmt --all --check
cargo clippy --workspace --all-targets --locked -- -D warnings
gradle --no-daemon --quiet checkFormat
