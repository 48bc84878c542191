#!/usr/bin/env bash
# What only a real Flink can show, against its bars; the table goes to build/bench/flink.csv, every
# pair to flink-figures.txt beside it, and the last line is "bars met: N of M". Chosen by variables:
# PAIRS=9               repetitions of each configuration
# ONLY=2_ranks          only configurations with this in their names (an underscore is a space)
# STEPS=20000 WARMUP=30000   batches of a training that count, and those before them, in which the JVMs compile
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build/bench
cargo build --release --locked -q -p rejoin-bench
options="-Dpairs=${PAIRS:-9} -Donly=${ONLY:-} -Dsteps=${STEPS:-20000} -Dwarmup=${WARMUP:-30000}"
export JAVA_OPTIONS="${JAVA_OPTIONS:-} $options"
for set_name in flink120 flink23; do
  integration-tests/run.sh $set_name io.rejoin.it.flink.bench.FlinkBench
done | tee build/bench/flink-figures.txt |
  "${CARGO_TARGET_DIR:-target}/release/rejoin-bench" report --out build/bench/flink.csv
