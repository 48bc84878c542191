#!/usr/bin/env bash
# Formatting and lints, Rust and Java; the width of prose. Changes nothing.
set -eu
cd "$(dirname "$0")/.."
scripts/columns.py '*.md'
cargo fmt --all --check
cargo clippy --workspace --all-targets --locked -- -D warnings
gradle --no-daemon --quiet checkFormat
