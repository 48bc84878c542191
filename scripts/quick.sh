#!/usr/bin/env bash
# The inner loop, at most 5 minutes on 2 cores once built: units and state machines (Rust), a short
# simulation of every family, units (Java) that start no Spark. What it leaves to `make test`: ranks
# that are real processes (but for some of jvm-core's), real clusters, the model, most seeds.
set -eu
cd "$(dirname "$0")/.."
seeds=${SEEDS:-1000}

echo "== native: units, and the tests of what has no sockets"
cargo test --quiet --locked --workspace --lib
cargo test --quiet --locked -p rejoin-protocol -p rejoin-collectives --tests

echo "== simulator: $seeds seeds of the families with collectives, a quarter as many of each other one"
cargo build --quiet --locked -p rejoin-sim
simulate=${CARGO_TARGET_DIR:-target}/debug/rejoin-sim
for family in job hook spares elastic; do
  "$simulate" --family $family --seeds "0..$seeds" --quiet
done
for family in mixed liar cascade tracker; do
  "$simulate" --family $family --seeds "0..$((seeds / 4))" --quiet
done

echo "== jvm: compiled on both sets of versions, units of jvm-core"
gradle --no-daemon --quiet testClasses :jvm-core:test
